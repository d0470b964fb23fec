//! Which operation a lane begins, and with which arguments.

use super::{Ended, Load};
use crate::check::{Answer, Call, OpId};
use crate::compute_node::ComputeNode;
use crate::driver::Op;
use crate::verify::coding::Coding;
use crate::verify::subject::Opened;
use crate::verify::wide::WideOption;
use dm_core::index::forward::Forwarder;
use dm_core::lane::Lane;
use dm_core::operation::{Operation, OperationKind, Outcome};

/// Of 100 scans, so many are as an option asks for.
const ODD_SCANS_PERCENT: u32 = 30;

/// Of 100 operations on an index whose keys have owners, so many are on keys of the compute node's own part; the others
/// are on any.
const HOME_PERCENT: u32 = 85;

impl Load<'_, '_> {
    /// The key and the call, and how many records are asked for if it is a scan.
    pub(super) fn choose_call(&mut self, index: &dyn Opened, by: ComputeNode) -> (u64, Call, u32) {
        let total: u32 = self.draw.weights.iter().sum();
        let mut drawn = self.rng.below(total);
        let mut kind = OperationKind::Get;
        for (candidate, weight) in OperationKind::ALL.into_iter().zip(self.draw.weights) {
            if drawn < weight {
                kind = candidate;
                break;
            }
            drawn -= weight;
        }
        let kind = self.draw.kind_on(by, kind);
        let keys = self.draw.keys;
        let hot = self.rng.percent(self.draw.hot_percent);
        let mut key = self.rng.below(if hot { keys.min(2) } else { keys });
        // Where parts move, what was home is not for long.
        let at_home = if self.draw.wide.has(WideOption::Moves) { HOME_PERCENT / 2 } else { HOME_PERCENT };
        if index.has_owners() && self.wide.percent(at_home) {
            key = self.draw.at_home(by, key);
        }
        // The number of the operation, so that a value names its writer.
        let value = self.history.operations().len() as u64;
        let call = match kind {
            OperationKind::Get => Call::Get,
            OperationKind::Insert => Call::Insert { value },
            OperationKind::Update => Call::Update { value },
            OperationKind::Upsert => Call::Upsert { value },
            OperationKind::UpdateIf => Call::UpdateIf { expected: self.known[key as usize], value },
            OperationKind::Delete => Call::Delete,
            OperationKind::DeleteIf => Call::DeleteIf { expected: self.known[key as usize] },
            OperationKind::Scan => {
                let page = index.plan().page_records().max(1) as u32;
                let high = self.rng.percent(40).then(|| u64::from(key + self.rng.below(keys)));
                let (after, limit) = (self.rng.percent(30), 1 + self.rng.below(page));
                return self.choose_scan(u64::from(key), after, high, limit, page);
            }
        };
        (u64::from(key), call, 0)
    }

    /// The scan that was chosen, or another one that an option asks for.
    fn choose_scan(
        &mut self,
        mut key: u64,
        mut after: bool,
        mut high: Option<u64>,
        mut limit: u32,
        page: u32,
    ) -> (u64, Call, u32) {
        let mut asked = limit;
        let keys = u64::from(self.draw.keys);
        let key_max = self.coding.key_max();
        let mut odd = |option| {
            let odd = self.draw.wide.has(option) && self.wide.percent(ODD_SCANS_PERCENT);
            self.met[option as usize] += u64::from(odd);
            odd
        };
        if odd(WideOption::ScanPastEnd) {
            (key, after) = if key_max < keys { (keys - 1, true) } else { (key_max.min(keys + key), after) };
        }
        if odd(WideOption::ScanInverted) {
            high = Some(key - key.min(u64::from(limit - 1)));
        }
        if odd(WideOption::ScanOverPage) {
            // A page holds no more.
            (limit, asked) = (page, if limit.is_multiple_of(2) { u32::MAX } else { page + limit });
        }
        if odd(WideOption::ScanNothing) {
            (limit, asked) = (0, 0);
        }
        let down = odd(WideOption::ScansDown);
        let high = high.map(|high| high.min(key_max));
        (key, Call::Scan { after, high, limit, down }, asked)
    }

    pub(super) fn learn(&mut self, operation: OpId, answer: Answer) {
        let record = self.history.operation(operation);
        let key = record.key as usize;
        let value = match answer {
            Answer::Found(value) | Answer::Exists(value) | Answer::Mismatch(value) => value,
            Answer::Inserted | Answer::Updated | Answer::Replaced => record.call.written().unwrap_or(0),
            _ => return,
        };
        self.known[key] = value;
    }
}

/// As [`start_asking`]; a scan asks for as many records as its page may have.
pub fn start<'a>(
    index: &'a dyn Opened,
    lane: &'a Lane<'_>,
    coding: Coding,
    key: u64,
    call: Call,
    deadline_ns: u64,
) -> Op<'a, Ended> {
    let asked = if let Call::Scan { limit, .. } = call { limit } else { 0 };
    start_asking(index, lane, coding, key, (call, asked), deadline_ns, None)
}

/// Puts the arguments into the lane's scratch and makes the future. With a `deadline_ns` of 0, the index's own deadline
/// holds. A scan asks for `asked` records. With a `forwarder` the owner of the key executes the operation.
pub(super) fn start_asking<'a>(
    index: &'a dyn Opened,
    lane: &'a Lane<'_>,
    coding: Coding,
    key: u64,
    (call, asked): (Call, u32),
    deadline_ns: u64,
    forwarder: Option<Forwarder>,
) -> Op<'a, Ended> {
    let plan = index.plan();
    lane.port().with(|scratch| {
        coding.write_key(key, &mut scratch[plan.key.clone()]);
        if let Some(value) = call.written() {
            coding.write_value(value, &mut scratch[plan.value.clone()]);
        }
        match call {
            Call::UpdateIf { expected, .. } | Call::DeleteIf { expected } => {
                coding.write_value(expected, &mut scratch[plan.expected.clone()]);
            }
            Call::Scan { high: Some(high), .. } => coding.write_key(high, &mut scratch[plan.key_high.clone()]),
            _ => {}
        }
    });
    let operation = match call {
        Call::Scan { after, high, down, .. } => {
            Operation { after, bounded: high.is_some(), down, ..Operation::scan(asked) }
        }
        _ => Operation::point(call.kind()),
    };
    let operation = Operation { deadline_ns, ..operation };
    // As workers do. What was asked for may be another copy when the operation begins there.
    index.ask_ahead(lane);
    Box::pin(async move {
        let plan = index.plan();
        // The results are read here and not when the response is reported: the future may end with requests that are
        // not submitted yet, and those take the scratch along.
        let ended = match &forwarder {
            None => index.execute(lane, operation).await,
            Some(forwarder) => index.forward(lane, operation, forwarder).await,
        };
        match ended {
            Err(error) => Ended::Failed(error),
            Ok(Outcome::Page { records, more }) => lane.port().with(|scratch| {
                let record = |position| {
                    let bytes = &scratch[plan.record(position)];
                    (coding.read_key(&bytes[..plan.key_bytes]), coding.read_value(&bytes[plan.key_bytes..]))
                };
                let held = plan.page_records().min(records as usize);
                Ended::Page((0..held).map(record).collect(), more)
            }),
            Ok(outcome) => Ended::Point(Answer::of(
                outcome,
                lane.port().with(|scratch| coding.read_value(&scratch[plan.output.clone()])),
            )),
        }
    })
}
