//! The load: draws operations for the lanes of one worker, checks their results, counts.

use super::key_source::KeySource;
use crate::report::{KindReport, OperationCost, VerbCounts, VerbTotal};
use crate::workload::keys::{check, fill};
use crate::workload::stream::{self, Draw};
use crate::workload::trace::{TraceRow, TraceWriter};
use crate::workload::{OperationKind, keys};
use dm_core::operation::{Operation, Outcome, Part, ScratchPlan};
use dm_core::verbs::{Label, Request, Verb};
use dm_host::worker::{Finished, Next, Work};
use std::fmt::Write as _;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How many operations a worker does between two reports of its progress.
const PROGRESS_OPERATIONS: u64 = 1024;

/// Verbs, by number; 0 is none.
const VERBS: usize = 11;

/// What the workers of a run share.
#[derive(Debug)]
pub struct Shared<'a> {
    /// Keys by record.
    pub keys: &'a KeySource,
    /// Keys have owners: a page ends where those of its compute node end, with fewer records than were asked for.
    pub has_owners: bool,
    /// Stop: something went wrong.
    pub stop: AtomicBool,
    /// The first thing that did.
    pub failure: Mutex<Option<String>>,
    /// Operations done, roughly.
    pub done: AtomicU64,
    /// Numbers for operations in traces.
    pub number: AtomicU64,
    /// Where a trace goes.
    pub trace: Option<&'a Mutex<TraceWriter<File>>>,
    /// When the run began.
    pub began: Instant,
}

impl<'a> Shared<'a> {
    /// For a run that begins now.
    pub fn new(keys: &'a KeySource, has_owners: bool, trace: Option<&'a Mutex<TraceWriter<File>>>) -> Self {
        Self {
            keys,
            has_owners,
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
            done: AtomicU64::new(0),
            number: AtomicU64::new(0),
            trace,
            began: Instant::now(),
        }
    }

    /// The first failure, if there was one.
    pub fn take_failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes a failure, unless one was noted before, and ends the run.
    pub fn fail(&self, what: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The operation that a lane runs.
#[derive(Debug)]
struct LaneState<'a> {
    stream: stream::Lane<'a>,
    draw: Draw,
    /// The number by which values of the record are recognised.
    identity: u64,
    /// The read of a read-modify-write is done; what it took so far.
    half_done: Option<(u64, OperationCost)>,
    number: u64,
    round_trips: u32,
}

/// Draws and checks operations for the lanes of one worker.
pub struct Generator<'a> {
    shared: &'a Shared<'a>,
    lanes: Vec<LaneState<'a>>,
    first_lane: u32,
    kinds: [KindReport; OperationKind::ALL.len()],
    verbs: Box<[[[VerbTotal; VERBS]; Label::ALL.len()]]>,
    version: u32,
    unreported: u64,
    counting: bool,
}

impl<'a> Generator<'a> {
    /// For lanes with these streams of operations; `first_lane` is the number of the first in traces.
    pub fn new(shared: &'a Shared<'a>, streams: Vec<stream::Lane<'a>>, first_lane: u32) -> Self {
        let draw = Draw { kind: OperationKind::Read, record: 0, scan_length: 0 };
        let state = |stream| LaneState { stream, draw, identity: 0, half_done: None, number: 0, round_trips: 0 };
        Self {
            shared,
            lanes: streams.into_iter().map(state).collect(),
            first_lane,
            kinds: OperationKind::ALL.map(KindReport::new),
            verbs: vec![[[VerbTotal::default(); VERBS]; Label::ALL.len()]; OperationKind::ALL.len()].into_boxed_slice(),
            version: first_lane << 20,
            unreported: 0,
            counting: true,
        }
    }

    /// Drops the results so far. From here on results are gathered or not; operations are checked in any case.
    pub fn set_counting(&mut self, counting: bool) {
        self.counting = counting;
        if counting {
            self.kinds = OperationKind::ALL.map(KindReport::new);
            self.verbs.fill([[VerbTotal::default(); VERBS]; Label::ALL.len()]);
        }
    }

    /// What was gathered: by kind, and by kind, label and verb.
    pub fn into_results(self) -> (Vec<KindReport>, VerbCounts) {
        let mut counts = VerbCounts::default();
        for (kind, labels) in OperationKind::ALL.into_iter().zip(self.verbs.iter()) {
            for (label, verbs) in Label::ALL.iter().zip(labels) {
                for (number, total) in verbs.iter().enumerate().filter(|(_, total)| total.requests > 0) {
                    counts.add(kind, label.name(), verb_name(number), *total);
                }
            }
        }
        (self.kinds.into(), counts)
    }

    /// The operation of a lane was refused, since the part of the keys that it is about has moved: the lane draws another one.
    pub fn drop_refused(&mut self, at: usize) {
        self.lanes[at].half_done = None;
    }

    /// Whether the operation of a lane goes on with another step.
    pub fn is_half_done(&self, at: usize) -> bool {
        self.lanes[at].half_done.is_some()
    }

    #[cold]
    fn fail(&self, at: usize, plan: &ScratchPlan, scratch: &[u8], what: &str) {
        let LaneState { draw, .. } = &self.lanes[at];
        let key = plan.part(scratch, Part::Key);
        self.shared.fail(format!("{} of record {}, key {}: {what}", draw.kind, draw.record, hex(key)));
    }

    /// Begins an operation: its key (and value) into the scratch.
    fn begin(&mut self, at: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        let lane = &mut self.lanes[at];
        let Draw { kind, record, scan_length } = lane.draw;
        if !self.shared.keys.put(record, scratch, plan) {
            self.shared.fail(format!("the keys ran out at record {record}: lower --operations"));
            return Next::Finished;
        }
        lane.identity = self.shared.keys.identity(record, plan.part(scratch, Part::Key));
        let operation = match kind {
            OperationKind::Read | OperationKind::ReadModifyWrite => {
                Operation::point(dm_core::operation::OperationKind::Get)
            }
            OperationKind::Update => Operation::point(dm_core::operation::OperationKind::Update),
            OperationKind::Insert => Operation::point(dm_core::operation::OperationKind::Insert),
            OperationKind::Scan => Operation::scan(scan_length),
        };
        match kind {
            OperationKind::Update => {
                self.version = self.version.wrapping_add(1);
                put_value(lane.identity, self.version, scratch, plan);
            }
            OperationKind::Insert => put_value(lane.identity, 0, scratch, plan),
            _ => {}
        }
        Next::Run(operation)
    }

    /// What is wrong with an outcome; `None`: nothing.
    fn judge(&self, at: usize, outcome: Outcome, update: bool, scratch: &[u8], plan: &ScratchPlan) -> Option<String> {
        let LaneState { draw, identity, .. } = &self.lanes[at];
        match (draw.kind, outcome) {
            (OperationKind::Update | OperationKind::ReadModifyWrite, Outcome::Updated) if update => None,
            (OperationKind::Read | OperationKind::ReadModifyWrite, Outcome::Found) if !update => {
                let value = plan.part(scratch, Part::Output);
                check(*identity, value).is_none().then(|| format!("not a value of this record: {}", hex(value)))
            }
            (OperationKind::Insert, Outcome::Inserted) => None,
            (OperationKind::Insert, Outcome::Exists) => Some("it exists already".to_owned()),
            (OperationKind::Scan, Outcome::Page { records, more }) => {
                self.judge_page(draw.scan_length, records, more, scratch, plan)
            }
            (_, Outcome::Absent) => Some("not found, although it was loaded".to_owned()),
            (_, outcome) => Some(format!("unexpected outcome {outcome:?}")),
        }
    }

    /// Keys must ascend from the one asked for, values belong to their keys, and no record be missing from the page.
    fn judge_page(&self, wanted: u32, records: u32, more: bool, scratch: &[u8], plan: &ScratchPlan) -> Option<String> {
        if records > wanted || more && records < wanted && !(self.shared.has_owners && records > 0) {
            return Some(format!("a page of {records} records where {wanted} were asked for"));
        }
        let mut last = plan.part(scratch, Part::Key);
        let mut count = 0;
        for (position, (key, value)) in plan.records(scratch, records as usize).enumerate() {
            count += 1;
            if key < last || position > 0 && key == last {
                return Some(format!("key {} after key {}", hex(key), hex(last)));
            }
            last = key;
            let Some(identity) = self.shared.keys.identity_found(key) else {
                return Some(format!("found a key that nobody wrote: {}", hex(key)));
            };
            if check(identity, value).is_none() {
                return Some(format!("found key {} with a value that is not its own: {}", hex(key), hex(value)));
            }
        }
        (count != records).then(|| format!("a page of {records} records that has {count}"))
    }
}

impl Work for Generator<'_> {
    #[inline]
    fn next(&mut self, at: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        if self.shared.stop.load(Ordering::Relaxed) {
            return Next::Finished;
        }
        let lane = &mut self.lanes[at];
        if lane.half_done.is_some() {
            // The key is still where it was.
            self.version = self.version.wrapping_add(1);
            put_value(lane.identity, self.version, scratch, plan);
            return Next::Run(Operation::point(dm_core::operation::OperationKind::Update));
        }
        match lane.stream.next() {
            Some(Ok(draw)) => lane.draw = draw,
            Some(Err(_)) => return Next::Wait,
            None => return Next::Finished,
        }
        if self.shared.trace.is_some() {
            lane.number = self.shared.number.fetch_add(1, Ordering::Relaxed);
            lane.round_trips = 0;
        }
        self.begin(at, scratch, plan)
    }

    #[inline]
    fn done(&mut self, at: usize, finished: Finished<'_>) {
        let plan = finished.plan;
        let lane = &mut self.lanes[at];
        let kind = lane.draw.kind;
        if kind == OperationKind::Insert {
            lane.stream.acknowledge(lane.draw.record);
        }
        let mut cost = OperationCost {
            round_trips: u64::from(finished.cost.round_trips),
            requests: u64::from(finished.cost.requests),
            read_bytes: finished.cost.bytes_read,
            written_bytes: finished.cost.bytes_written,
            retries: u64::from(finished.retries),
        };
        let mut latency_ns = finished.latency_ns;
        let half_done = lane.half_done.take();
        let wrong = match finished.result {
            Ok(outcome) => {
                let update = kind == OperationKind::Update || half_done.is_some();
                self.judge(at, outcome, update, finished.scratch, plan)
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(wrong) = wrong {
            self.kinds[kind as usize].record_failed();
            self.fail(at, plan, finished.scratch, &wrong);
            return;
        }
        if kind == OperationKind::ReadModifyWrite {
            let Some((first_ns, first)) = half_done else {
                self.lanes[at].half_done = Some((latency_ns, cost));
                return;
            };
            latency_ns += first_ns;
            cost.add(&first);
        }
        if self.counting {
            self.kinds[kind as usize].record(latency_ns, &cost);
        }
        self.unreported += 1;
        if self.unreported == PROGRESS_OPERATIONS {
            self.shared.done.fetch_add(PROGRESS_OPERATIONS, Ordering::Relaxed);
            self.unreported = 0;
        }
    }

    #[inline]
    fn posting(&mut self, at: usize, requests: &[Request]) {
        let lane = &mut self.lanes[at];
        let kind = lane.draw.kind;
        for request in requests {
            if self.counting
                && !request.verb.is_local()
                && let Some(total) = self.verbs[kind as usize][request.label as usize].get_mut(request.verb as usize)
            {
                total.requests += 1;
                total.bytes += u64::from(request.bytes);
            }
        }
        if let Some(trace) = self.shared.trace {
            self.trace(trace, at, requests);
        }
    }
}

impl Generator<'_> {
    #[cold]
    fn trace(&mut self, trace: &Mutex<TraceWriter<File>>, at: usize, requests: &[Request]) {
        let lane = &mut self.lanes[at];
        let time_ns = self.shared.began.elapsed().as_nanos() as u64;
        let mut travels = false;
        let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
        for request in requests.iter().filter(|request| !request.verb.is_local()) {
            travels = true;
            let row = TraceRow {
                operation: lane.number,
                kind: lane.draw.kind,
                lane: self.first_lane + at as u32,
                label: request.label.name(),
                verb: verb_name(request.verb as usize),
                memory_node: request.node.0,
                bytes: request.bytes,
                round_trip: lane.round_trips,
                time_ns,
            };
            if let Err(error) = trace.write(&row) {
                self.shared.fail(error.to_string());
                return;
            }
        }
        lane.round_trips += u32::from(travels);
    }
}

/// Fills the value to write, as long as values are, with that version.
fn put_value(identity: u64, version: u32, scratch: &mut [u8], plan: &ScratchPlan) {
    fill(identity, version, &mut scratch[plan.value.clone()]);
    // As long as its range: that is a length it can have.
    let _ = plan.set_length(scratch, Part::Value, plan.value.len());
}

/// The name of a verb in traces and reports, as the specification writes it.
fn verb_name(number: usize) -> &'static str {
    const NAMES: [(Verb, &str); 7] = [
        (Verb::Read, "READ"),
        (Verb::Write, "WRITE"),
        (Verb::Cas, "CAS"),
        (Verb::MaskedCas, "MASKED_CAS"),
        (Verb::FetchAdd, "FAA"),
        (Verb::Rpc, "RPC"),
        (Verb::Call, "CALL"),
    ];
    NAMES.iter().find(|(verb, _)| *verb as usize == number).map_or("LOCAL", |(_, name)| name)
}

/// Bytes for people: text if they are, else hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let key = crate::keys::decode(bytes).unwrap_or(bytes);
    if !key.is_empty() && key.iter().all(|&byte| byte.is_ascii_graphic() || byte == b' ') {
        return format!("\"{}\"", String::from_utf8_lossy(key));
    }
    let mut text = String::from("0x");
    for byte in bytes.iter().take(keys::KEY_BYTES_MAX) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > keys::KEY_BYTES_MAX {
        text.push_str("...");
    }
    text
}

/// Keys spread evenly over the key space, one for every few leaves: looking them up fetches every inner node.
pub struct Warmer<'a> {
    /// Stop: something went wrong.
    pub shared: &'a Shared<'a>,
    /// Writes the key of a position, below `end`, and says how long it is.
    pub key: &'a (dyn Fn(u64, &mut [u8]) -> usize + Sync),
    /// Whether the compute node looks a key up: it owns it, or nobody does.
    pub owns: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// The next position.
    pub next: u64,
    /// How far to go each time.
    pub step: u64,
    /// Where to stop.
    pub end: u64,
}

impl Work for Warmer<'_> {
    fn next(&mut self, _: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        let length = loop {
            if self.next >= self.end || self.shared.stop.load(Ordering::Relaxed) {
                return Next::Finished;
            }
            let room = &mut scratch[plan.key.clone()];
            let length = (self.key)(self.next, room);
            self.next += self.step;
            if room.get(..length).is_none_or(self.owns) {
                break length;
            }
        };
        if !plan.set_length(scratch, Part::Key, length) {
            self.shared.fail("warming the cache: a key of another length".to_owned());
            return Next::Finished;
        }
        Next::Run(Operation::point(dm_core::operation::OperationKind::Get))
    }

    fn done(&mut self, _: usize, finished: Finished<'_>) {
        if let Err(error) = finished.result {
            self.shared.fail(format!("warming the cache: {error}"));
        }
    }
}
