//! The workloads of a run.

use super::{Arguments, DistributionName, WorkloadName, ZipfName};
use crate::failure::Failure;
use crate::workload::properties::Properties;
use crate::workload::spec::{Phase, RequestDistribution, Spec, StandardWorkload, ZipfianMeaning};

/// Records unless told otherwise: what loads and runs in seconds.
pub(super) const RECORDS: u64 = 1_000_000;
/// Operations of a workload unless told otherwise.
pub(super) const OPERATIONS: u64 = 2_000_000;

/// The same, of workloads that mostly scan.
const SCANS: u64 = 200_000;

/// One workload to run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its name in reports.
    pub name: String,
    /// What it is; its record count is set anew before it starts.
    pub spec: Spec,
}

impl Run {
    /// Operations on an index of `records` records.
    pub fn operations(&self, records: u64) -> u64 {
        match self.spec.phase {
            Phase::Load => records,
            Phase::Run => self.spec.operation_count.unwrap_or(0),
        }
    }
}

/// The workloads asked for, with properties and options in place; record counts are not set yet.
pub(super) fn runs(
    arguments: &Arguments,
    properties: &Properties,
    notices: &mut Vec<String>,
) -> Result<Vec<Run>, Failure> {
    let is_customised = !arguments.property_files.is_empty() || !arguments.properties.is_empty();
    let mut named: Vec<(String, Spec)> = Vec::new();
    let standard = |workload: StandardWorkload| (workload.name().to_owned(), Spec::standard(workload));
    match arguments.workload {
        Some(name) => named.push(standard(name.standard())),
        None if is_customised => {
            let file = arguments.property_files.last().and_then(|file| file.file_name());
            let name = file.map_or_else(|| "properties".to_owned(), |name| name.to_string_lossy().into_owned());
            named.push((name, Spec::core()));
        }
        None => named.extend(StandardWorkload::ALL.map(|(_, workload)| standard(workload))),
    }
    let mut runs = Vec::new();
    for (name, spec) in named {
        let mut spec = Spec { record_count: RECORDS, operation_count: None, ..spec }
            .with_properties(properties)
            .map_err(Failure::usage)?;
        if let Some(operations) = arguments.operations {
            overrides(notices, "--operations", operations, "operationcount", spec.operation_count);
            spec.operation_count = Some(operations);
        } else if spec.operation_count.is_none() {
            spec.operation_count = Some(if spec.proportions.scan > 0.5 { SCANS } else { OPERATIONS });
        }
        if let Some(distribution) = arguments.distribution {
            let wanted = match distribution {
                DistributionName::Zipfian => RequestDistribution::Zipfian,
                DistributionName::Uniform => RequestDistribution::Uniform,
                DistributionName::Latest => RequestDistribution::Latest,
            };
            if properties.is_set("requestdistribution") && wanted != spec.request_distribution {
                notices.push("--distribution is used, not the property requestdistribution".to_owned());
            }
            spec.request_distribution = wanted;
        }
        if let Some(zipf) = arguments.zipf {
            let wanted = match zipf {
                ZipfName::Ycsb => ZipfianMeaning::Ycsb,
                ZipfName::Ranked => ZipfianMeaning::Ranked,
            };
            if properties.is_set("zipfianmeaning") && wanted != spec.zipfian_meaning {
                notices.push("--zipf is used, not the property zipfianmeaning".to_owned());
            }
            spec.zipfian_meaning = wanted;
        }
        runs.push(Run { name, spec });
    }
    Ok(runs)
}

impl WorkloadName {
    fn standard(self) -> StandardWorkload {
        match self {
            Self::Load => StandardWorkload::Load,
            Self::A => StandardWorkload::A,
            Self::B => StandardWorkload::B,
            Self::C => StandardWorkload::C,
            Self::D => StandardWorkload::D,
            Self::E => StandardWorkload::E,
            Self::F => StandardWorkload::F,
        }
    }
}

pub(super) fn expected_inserts(spec: &Spec) -> u64 {
    if spec.phase == Phase::Load { 0 } else { spec.expected_inserts() / 2 }
}

pub(super) fn scan_length_max(spec: &Spec) -> u32 {
    if spec.phase == Phase::Run && spec.proportions.scan > 0.0 { spec.scan_length_max } else { 0 }
}

/// Says that an option is used, and not the property that says otherwise.
pub(super) fn overrides(notices: &mut Vec<String>, option: &str, value: u64, property: &str, other: Option<u64>) {
    if let Some(other) = other
        && other != value
    {
        let notice = format!("{option} {value} is used, not the property {property}={other}");
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
}
