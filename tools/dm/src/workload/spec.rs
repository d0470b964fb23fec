//! What a workload is: the standard ones of YCSB by name, changed by properties, checked before anything runs.
//!
//! | workload | read | update | insert | scan | read-modify-write | records |
//! |---|---|---|---|---|---|---|
//! | `load` | | | 100 % | | | each once |
//! | `a` update heavy | 50 % | 50 % | | | | zipfian |
//! | `b` read mostly | 95 % | 5 % | | | | zipfian |
//! | `c` read only | 100 % | | | | | zipfian |
//! | `d` read latest | 95 % | | 5 % | | | latest |
//! | `e` short ranges | | | 5 % | 95 % | | zipfian; 1 to 100 records a scan, uniform |
//! | `f` read-modify-write | 50 % | | | | 50 % | zipfian |

use super::{
    OperationKind,
    distribution::{DEFAULT_THETA, THETA_MAX},
    keys::KeyOrder,
    properties::{Properties, PropertyError},
};
use std::{fmt, str::FromStr};

/// The most records of a workload. Zipfian draws are computed in doubles, which hold whole numbers to 2^53; 2^48 stays
/// clear of that and is more than an address can name.
pub const RECORDS_MAX: u64 = 1 << 48;

/// The most operations of a run, for the same reason.
pub const OPERATIONS_MAX: u64 = 1 << 48;

/// The least bytes of a value: eight bytes make it self-checking (see [`keys`](super::keys)).
pub const VALUE_BYTES_MIN: u64 = 8;

/// The most bytes of a value: what a lane's buffer for values is sized by. An index may accept less and says so itself.
pub const VALUE_BYTES_MAX: u64 = 64 * 1024;

/// How far the proportions may lie from a sum of one.
pub const PROPORTION_TOLERANCE: f64 = 1e-6;

/// A standard workload, by its name on the command line: `load`, `a`, `b`, `c`, `d`, `e`, `f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardWorkload {
    /// Insert every record.
    Load,
    /// Update heavy: 50 % reads, 50 % updates, zipfian.
    A,
    /// Read mostly: 95 % reads, 5 % updates, zipfian.
    B,
    /// Read only, zipfian.
    C,
    /// Read latest: 95 % reads, 5 % inserts.
    D,
    /// Short ranges: 95 % scans of 1 to 100 records, 5 % inserts, zipfian.
    E,
    /// 50 % reads, 50 % read-modify-writes, zipfian.
    F,
}

impl StandardWorkload {
    /// All of them with their names, in the order in which YCSB runs them.
    pub const ALL: [(&'static str, Self); 7] = [
        ("load", Self::Load),
        ("a", Self::A),
        ("b", Self::B),
        ("c", Self::C),
        ("d", Self::D),
        ("e", Self::E),
        ("f", Self::F),
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|&&(_, workload)| workload == self).map_or("", |&(name, _)| name)
    }
}

impl FromStr for StandardWorkload {
    type Err = SpecError;

    /// Reads a name, upper or lower case.
    fn from_str(name: &str) -> Result<Self, SpecError> {
        let known = Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map(|&(_, workload)| workload).ok_or_else(|| SpecError::UnknownWorkload { name: name.to_owned() })
    }
}

/// Which part of a benchmark runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Every record `0..record_count` is inserted once; the proportions do not count.
    Load,
    /// Operations are drawn by proportion over the loaded records.
    Run,
}

/// The shares of the kinds of operations, each in 0..=1, together 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportions {
    /// Of reads.
    pub read: f64,
    /// Of updates.
    pub update: f64,
    /// Of inserts.
    pub insert: f64,
    /// Of scans.
    pub scan: f64,
    /// Of read-modify-writes.
    pub read_modify_write: f64,
}

impl Proportions {
    const NONE: Self = Self { read: 0.0, update: 0.0, insert: 0.0, scan: 0.0, read_modify_write: 0.0 };

    /// The share of one kind.
    pub const fn of(&self, kind: OperationKind) -> f64 {
        match kind {
            OperationKind::Read => self.read,
            OperationKind::Update => self.update,
            OperationKind::Insert => self.insert,
            OperationKind::Scan => self.scan,
            OperationKind::ReadModifyWrite => self.read_modify_write,
        }
    }

    /// Of all kinds together.
    pub fn sum(&self) -> f64 {
        OperationKind::ALL.iter().map(|&kind| self.of(kind)).sum()
    }
}

impl fmt::Display for Proportions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read, update, insert, scan, read_modify_write } = self;
        write!(formatter, "read {read}, update {update}, insert {insert}, scan {scan}, ")?;
        write!(formatter, "read-modify-write {read_modify_write}")
    }
}

/// Which records are popular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDistribution {
    /// All loaded records alike.
    Uniform,
    /// Few records draw most operations; which of the two meanings is [`Spec::zipfian_meaning`].
    Zipfian,
    /// The newest records draw most operations.
    Latest,
}

/// What zipfian means; see [`distribution`](super::distribution).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZipfianMeaning {
    /// The popular records are scattered by a hash, as in YCSB.
    Ycsb,
    /// The lower the record number, the more popular, as in the papers' micro-benchmarks.
    Ranked,
}

/// How the lengths of scans are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanLengthDistribution {
    /// Every length alike.
    Uniform,
    /// Short scans are more frequent.
    Zipfian,
}

/// A workload: everything that a lane needs to know to draw its operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Load or run.
    pub phase: Phase,
    /// Records that are loaded, in 1..=[`RECORDS_MAX`] (`recordcount`).
    pub record_count: u64,
    /// Operations of all lanes together, up to [`OPERATIONS_MAX`] (`operationcount`); `None`: until the driver stops. A
    /// load ignores it.
    pub operation_count: Option<u64>,
    /// Shares of the kinds; a load ignores them.
    pub proportions: Proportions,
    /// Which records are popular (`requestdistribution`).
    pub request_distribution: RequestDistribution,
    /// What `zipfian` means (`zipfianmeaning`).
    pub zipfian_meaning: ZipfianMeaning,
    /// The skew of zipfian and latest, in 0..=[`THETA_MAX`] (`zipfianconstant`).
    pub zipfian_constant: f64,
    /// The shortest scan, in records, at least 1 (`minscanlength`).
    pub scan_length_min: u32,
    /// The longest scan, in records (`maxscanlength`).
    pub scan_length_max: u32,
    /// Lengths between them (`scanlengthdistribution`).
    pub scan_length_distribution: ScanLengthDistribution,
    /// How keys are made of record numbers (`insertorder`).
    pub insert_order: KeyOrder,
    /// Bytes of a value, if the user asked for a length (`fieldcount` x `fieldlength`).
    pub value_bytes: Option<u32>,
}

/// Why a workload cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A property says something impossible.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// No such standard workload.
    #[error("unknown workload `{name}`; there are load, a, b, c, d, e, f")]
    UnknownWorkload {
        /// The name as given.
        name: String,
    },
    /// The proportions do not sum to one.
    #[error("the proportions of operations must sum to 1 (within {PROPORTION_TOLERANCE}), but sum to {}: {proportions}", proportions.sum())]
    Proportions {
        /// All of them.
        proportions: Proportions,
    },
    /// A number lies outside of its range.
    #[error("{name} is {value}; it must lie within {least} to {most}")]
    Range {
        /// The property by which the number is set.
        name: &'static str,
        /// The number.
        value: f64,
        /// The least permitted.
        least: f64,
        /// The most permitted.
        most: f64,
    },
}

impl Spec {
    /// YCSB's `CoreWorkload` when a property file says nothing: 95 % reads, 5 % updates, uniform; a thousand records and
    /// operations as in YCSB's workload files.
    pub const fn core() -> Self {
        Self {
            phase: Phase::Run,
            record_count: 1_000,
            operation_count: Some(1_000),
            proportions: Proportions { read: 0.95, update: 0.05, ..Proportions::NONE },
            request_distribution: RequestDistribution::Uniform,
            zipfian_meaning: ZipfianMeaning::Ycsb,
            zipfian_constant: DEFAULT_THETA,
            scan_length_min: 1,
            scan_length_max: 1_000,
            scan_length_distribution: ScanLengthDistribution::Uniform,
            insert_order: KeyOrder::Hashed,
            value_bytes: None,
        }
    }

    /// A standard workload of a thousand records and operations.
    pub const fn standard(workload: StandardWorkload) -> Self {
        let none = Proportions::NONE;
        let zipfian = Self { request_distribution: RequestDistribution::Zipfian, ..Self::core() };
        match workload {
            StandardWorkload::Load => {
                Self { phase: Phase::Load, proportions: Proportions { insert: 1.0, ..none }, ..Self::core() }
            }
            StandardWorkload::A => Self { proportions: Proportions { read: 0.5, update: 0.5, ..none }, ..zipfian },
            StandardWorkload::B => Self { proportions: Proportions { read: 0.95, update: 0.05, ..none }, ..zipfian },
            StandardWorkload::C => Self { proportions: Proportions { read: 1.0, ..none }, ..zipfian },
            StandardWorkload::D => Self {
                proportions: Proportions { read: 0.95, insert: 0.05, ..none },
                request_distribution: RequestDistribution::Latest,
                ..zipfian
            },
            StandardWorkload::E => {
                Self { proportions: Proportions { scan: 0.95, insert: 0.05, ..none }, scan_length_max: 100, ..zipfian }
            }
            StandardWorkload::F => {
                Self { proportions: Proportions { read: 0.5, read_modify_write: 0.5, ..none }, ..zipfian }
            }
        }
    }

    /// This workload with every property that is set put in place of its own value, checked.
    pub fn with_properties(mut self, properties: &Properties) -> Result<Self, SpecError> {
        let proportion = |name, own: &mut f64| -> Result<(), PropertyError> {
            *own = properties.number(name, 0.0, 1.0)?.unwrap_or(*own);
            Ok(())
        };
        proportion("readproportion", &mut self.proportions.read)?;
        proportion("updateproportion", &mut self.proportions.update)?;
        proportion("insertproportion", &mut self.proportions.insert)?;
        proportion("scanproportion", &mut self.proportions.scan)?;
        proportion("readmodifywriteproportion", &mut self.proportions.read_modify_write)?;

        self.record_count = properties.whole("recordcount", 1, RECORDS_MAX)?.unwrap_or(self.record_count);
        self.operation_count = properties.whole("operationcount", 0, OPERATIONS_MAX)?.or(self.operation_count);
        self.zipfian_constant = properties.number("zipfianconstant", 0.0, THETA_MAX)?.unwrap_or(self.zipfian_constant);

        let distributions = [
            ("zipfian", RequestDistribution::Zipfian),
            ("uniform", RequestDistribution::Uniform),
            ("latest", RequestDistribution::Latest),
        ];
        let meanings = [("ycsb", ZipfianMeaning::Ycsb), ("ranked", ZipfianMeaning::Ranked)];
        let lengths = [("uniform", ScanLengthDistribution::Uniform), ("zipfian", ScanLengthDistribution::Zipfian)];
        let orders = [("hashed", KeyOrder::Hashed), ("ordered", KeyOrder::Ordered), ("shuffled", KeyOrder::Shuffled)];
        let phases = [("true", Phase::Run), ("false", Phase::Load)];
        let distribution = properties.choice("requestdistribution", &distributions)?;
        self.request_distribution = distribution.unwrap_or(self.request_distribution);
        self.zipfian_meaning = properties.choice("zipfianmeaning", &meanings)?.unwrap_or(self.zipfian_meaning);
        let scan_length_distribution = properties.choice("scanlengthdistribution", &lengths)?;
        self.scan_length_distribution = scan_length_distribution.unwrap_or(self.scan_length_distribution);
        self.insert_order = properties.choice("insertorder", &orders)?.unwrap_or(self.insert_order);
        self.phase = properties.choice("dotransactions", &phases)?.unwrap_or(self.phase);

        let longest = u64::from(u32::MAX);
        let length = |name| properties.whole(name, 1, longest).map(|length| length.map(|records| records as u32));
        self.scan_length_min = length("minscanlength")?.unwrap_or(self.scan_length_min);
        self.scan_length_max = length("maxscanlength")?.unwrap_or(self.scan_length_max);
        if self.scan_length_max < self.scan_length_min {
            let permitted = format!("at least minscanlength, {}", self.scan_length_min);
            return Err(properties.conflict("maxscanlength", self.scan_length_max.to_string(), permitted).into());
        }
        self.value_bytes = value_bytes(properties)?.or(self.value_bytes);

        self.validate()?;
        Ok(self)
    }

    /// Checks every limit: for a `Spec` whose fields were set one by one.
    pub fn validate(&self) -> Result<(), SpecError> {
        let within = |name, value: f64, least: f64, most: f64| {
            if (least..=most).contains(&value) { Ok(()) } else { Err(SpecError::Range { name, value, least, most }) }
        };
        within("recordcount", self.record_count as f64, 1.0, RECORDS_MAX as f64)?;
        within("operationcount", self.operation_count.unwrap_or(0) as f64, 0.0, OPERATIONS_MAX as f64)?;
        within("zipfianconstant", self.zipfian_constant, 0.0, THETA_MAX)?;
        within("minscanlength", f64::from(self.scan_length_min), 1.0, f64::from(self.scan_length_max))?;
        if let Some(bytes) = self.value_bytes {
            let (least, most) = (VALUE_BYTES_MIN as f64, VALUE_BYTES_MAX as f64);
            within("fieldcount x fieldlength", f64::from(bytes), least, most)?;
        }
        let proportions = self.proportions;
        for kind in OperationKind::ALL {
            within("a proportion of operations", proportions.of(kind), 0.0, 1.0)?;
        }
        if self.phase == Phase::Run && (proportions.sum() - 1.0).abs() > PROPORTION_TOLERANCE {
            return Err(SpecError::Proportions { proportions });
        }
        Ok(())
    }

    /// What the user should hear about a combination that is permitted and may surprise.
    pub fn notice(&self) -> Option<&'static str> {
        let ranked =
            self.request_distribution == RequestDistribution::Zipfian && self.zipfian_meaning == ZipfianMeaning::Ranked;
        (ranked && self.insert_order == KeyOrder::Hashed).then_some(
            "zipfianmeaning=ranked with insertorder=hashed: the hot records lie scattered over the key space; \
             insertorder=ordered puts them side by side",
        )
    }

    /// How many records the run is expected to insert, twice over, as YCSB reckons when it sizes its scrambled zipfian.
    pub fn expected_inserts(&self) -> u64 {
        (self.operation_count.unwrap_or(0) as f64 * self.proportions.insert * 2.0) as u64
    }
}

/// The product of `fieldcount` and `fieldlength`, if either is set; the other has YCSB's default.
fn value_bytes(properties: &Properties) -> Result<Option<u32>, PropertyError> {
    let count = properties.whole("fieldcount", 1, VALUE_BYTES_MAX)?;
    let length = properties.whole("fieldlength", 1, VALUE_BYTES_MAX)?;
    if count.is_none() && length.is_none() {
        return Ok(None);
    }
    let bytes = count.unwrap_or(10) * length.unwrap_or(100);
    if (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&bytes) {
        return Ok(Some(bytes as u32));
    }
    let name = if length.is_some() { "fieldlength" } else { "fieldcount" };
    let permitted = format!("fieldcount x fieldlength from {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX} bytes, not {bytes}");
    Err(properties.conflict(name, String::new(), permitted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn core_with(text: &str) -> Result<Spec, SpecError> {
        let mut properties = Properties::new();
        properties.merge_text(Path::new("w"), text)?;
        Spec::core().with_properties(&properties)
    }

    #[test]
    fn the_standard_workloads_are_ycsbs() {
        let proportions = |name: &str| {
            let spec = Spec::standard(name.parse().unwrap());
            spec.validate().unwrap();
            (OperationKind::ALL.map(|kind| spec.proportions.of(kind)), spec.request_distribution)
        };
        assert_eq!(proportions("a"), ([0.5, 0.5, 0.0, 0.0, 0.0], RequestDistribution::Zipfian));
        assert_eq!(proportions("B"), ([0.95, 0.05, 0.0, 0.0, 0.0], RequestDistribution::Zipfian));
        assert_eq!(proportions("c"), ([1.0, 0.0, 0.0, 0.0, 0.0], RequestDistribution::Zipfian));
        assert_eq!(proportions("d"), ([0.95, 0.0, 0.05, 0.0, 0.0], RequestDistribution::Latest));
        assert_eq!(proportions("e"), ([0.0, 0.0, 0.05, 0.95, 0.0], RequestDistribution::Zipfian));
        assert_eq!(proportions("f"), ([0.5, 0.0, 0.0, 0.0, 0.5], RequestDistribution::Zipfian));
        let e = Spec::standard(StandardWorkload::E);
        assert_eq!((e.scan_length_min, e.scan_length_max), (1, 100));
        assert_eq!(e.scan_length_distribution, ScanLengthDistribution::Uniform);
        assert_eq!(Spec::standard(StandardWorkload::Load).phase, Phase::Load);
        assert_eq!(
            "g".parse::<StandardWorkload>().unwrap_err().to_string(),
            "unknown workload `g`; there are load, a, b, c, d, e, f"
        );
    }

    #[test]
    fn ycsbs_own_file_for_e_gives_workload_e() {
        let text = "recordcount=1000\noperationcount=1000\nworkload=site.ycsb.workloads.CoreWorkload\n\
             readallfields=true\nreadproportion=0\nupdateproportion=0\nscanproportion=0.95\ninsertproportion=0.05\n\
             requestdistribution=zipfian\nmaxscanlength=100\nscanlengthdistribution=uniform\n";
        assert_eq!(core_with(text).unwrap(), Spec::standard(StandardWorkload::E));
    }

    #[test]
    fn properties_reach_every_field() {
        let spec = core_with(
            "recordcount=7\noperationcount=8\nreadproportion=0.1\nupdateproportion=0.2\ninsertproportion=0.3\n\
             scanproportion=0.15\nreadmodifywriteproportion=0.25\nrequestdistribution=latest\nzipfianconstant=0.5\n\
             zipfianmeaning=ranked\nminscanlength=3\nmaxscanlength=9\nscanlengthdistribution=zipfian\n\
             insertorder=ordered\nfieldcount=4\nfieldlength=16\ndotransactions=false",
        );
        let expected = Spec {
            phase: Phase::Load,
            record_count: 7,
            operation_count: Some(8),
            proportions: Proportions { read: 0.1, update: 0.2, insert: 0.3, scan: 0.15, read_modify_write: 0.25 },
            request_distribution: RequestDistribution::Latest,
            zipfian_meaning: ZipfianMeaning::Ranked,
            zipfian_constant: 0.5,
            scan_length_min: 3,
            scan_length_max: 9,
            scan_length_distribution: ScanLengthDistribution::Zipfian,
            insert_order: KeyOrder::Ordered,
            value_bytes: Some(64),
        };
        assert_eq!(spec.unwrap(), expected);
    }

    #[test]
    fn proportions_must_sum_to_one() {
        let error = core_with("readproportion=0.5\nupdateproportion=0.4").unwrap_err().to_string();
        assert!(error.contains("sum to 0.9: read 0.5, update 0.4, insert 0"), "{error}");
        assert!(core_with("readproportion=0.5\nupdateproportion=0.500002").is_err());
        assert!(core_with("readproportion=0.5\nupdateproportion=0.5000009").is_ok());
        let thirds = "readproportion=0.333333\nupdateproportion=0.333333\nscanproportion=0.333334";
        assert!(core_with(thirds).is_ok());
    }

    #[test]
    fn impossible_combinations_name_the_property_and_its_line() {
        let error = core_with("minscanlength=20\nmaxscanlength=10").unwrap_err().to_string();
        assert_eq!(error, "w:2: maxscanlength=10 is not permitted; give at least minscanlength, 20");
        let error = core_with("fieldcount=1\nfieldlength=7").unwrap_err().to_string();
        assert_eq!(
            error,
            "w:2: fieldlength=7 is not permitted; give fieldcount x fieldlength from 8 to 65536 bytes, not 7"
        );
        assert!(core_with("zipfianconstant=1.0").unwrap_err().to_string().contains("from 0 to 0.999"));
        assert!(core_with("recordcount=0").is_err());
    }

    #[test]
    fn a_length_of_values_needs_one_of_its_factors() {
        assert_eq!(core_with("").unwrap().value_bytes, None);
        assert_eq!(core_with("fieldlength=8").unwrap().value_bytes, Some(80));
        assert_eq!(core_with("fieldcount=1").unwrap().value_bytes, Some(100));
        assert_eq!(core_with("fieldcount=1\nfieldlength=8").unwrap().value_bytes, Some(8));
    }

    #[test]
    fn fields_set_by_hand_are_checked_too() {
        let broken = [
            Spec { record_count: 0, ..Spec::core() },
            Spec { record_count: RECORDS_MAX + 1, ..Spec::core() },
            Spec { zipfian_constant: f64::NAN, ..Spec::core() },
            Spec { scan_length_min: 0, ..Spec::core() },
            Spec { value_bytes: Some(7), ..Spec::core() },
            Spec { proportions: Proportions { read: 1.5, update: -0.5, ..Proportions::NONE }, ..Spec::core() },
        ];
        for spec in broken {
            assert!(matches!(spec.validate(), Err(SpecError::Range { .. })), "{spec:?}");
        }
    }

    #[test]
    fn inserts_are_expected_as_ycsb_expects_them() {
        let spec = Spec { operation_count: Some(1_000), ..Spec::standard(StandardWorkload::D) };
        assert_eq!(spec.expected_inserts(), 100);
        assert_eq!(Spec { operation_count: None, ..spec }.expected_inserts(), 0);
    }

    #[test]
    fn hot_records_that_are_scattered_after_all_are_mentioned() {
        let a = Spec::standard(StandardWorkload::A);
        assert_eq!(a.notice(), None);
        let ranked = Spec { zipfian_meaning: ZipfianMeaning::Ranked, ..a };
        assert!(ranked.notice().is_some());
        assert_eq!(Spec { insert_order: KeyOrder::Ordered, ..ranked }.notice(), None);
    }
}
