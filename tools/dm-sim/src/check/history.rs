//! What is recorded of a run: operations with their answers, in one total order of events.

use crate::compute_node::ComputeNode;
use crate::driver::LaneAt;
use dm_core::operation::{Effect, OperationKind, Outcome};
use std::fmt;

/// What was asked. The key is beside it: [`Record::key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Read.
    Get,
    /// Insert `value`.
    Insert {
        /// The value.
        value: u64,
    },
    /// Update to `value`.
    Update {
        /// The value.
        value: u64,
    },
    /// Insert or update to `value`.
    Upsert {
        /// The value.
        value: u64,
    },
    /// Update to `value` if the present one is `expected`.
    UpdateIf {
        /// The value that must be present.
        expected: u64,
        /// The value.
        value: u64,
    },
    /// Delete.
    Delete,
    /// Delete if the present value is `expected`.
    DeleteIf {
        /// The value that must be present.
        expected: u64,
    },
    /// Read a page from the key on.
    Scan {
        /// The key itself is not wanted.
        after: bool,
        /// Exclusive bound.
        high: Option<u64>,
        /// Records wanted.
        limit: u32,
        /// The last records of the range are wanted, not the first.
        down: bool,
    },
}

impl Call {
    /// Its kind.
    pub const fn kind(self) -> OperationKind {
        match self {
            Self::Get => OperationKind::Get,
            Self::Insert { .. } => OperationKind::Insert,
            Self::Update { .. } => OperationKind::Update,
            Self::Upsert { .. } => OperationKind::Upsert,
            Self::UpdateIf { .. } => OperationKind::UpdateIf,
            Self::Delete => OperationKind::Delete,
            Self::DeleteIf { .. } => OperationKind::DeleteIf,
            Self::Scan { .. } => OperationKind::Scan,
        }
    }

    /// The value it would write.
    pub const fn written(self) -> Option<u64> {
        match self {
            Self::Insert { value } | Self::Update { value } | Self::Upsert { value } | Self::UpdateIf { value, .. } => {
                Some(value)
            }
            Self::Get | Self::Delete | Self::DeleteIf { .. } | Self::Scan { .. } => None,
        }
    }
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// [`Outcome::Found`] with this value.
    Found(u64),
    /// [`Outcome::Absent`].
    Absent,
    /// [`Outcome::Inserted`].
    Inserted,
    /// [`Outcome::Exists`] with this value.
    Exists(u64),
    /// [`Outcome::Updated`].
    Updated,
    /// [`Outcome::Replaced`].
    Replaced,
    /// [`Outcome::Deleted`].
    Deleted,
    /// [`Outcome::Mismatch`] with this value.
    Mismatch(u64),
    /// [`Outcome::Page`]; its records are in the history: [`History::page`].
    Page {
        /// Position of the first record.
        first: u32,
        /// How many.
        records: u32,
        /// Whether there may be more.
        more: bool,
    },
    /// The operation failed.
    Failed(Effect),
}

impl Answer {
    /// The answer to a point operation; `value` is what the index left in the output, if `outcome` has one.
    ///
    /// # Panics
    /// If `outcome` is a page: those go through [`History::respond_page`].
    pub fn of(outcome: Outcome, value: u64) -> Self {
        match outcome {
            Outcome::Found => Self::Found(value),
            Outcome::Absent => Self::Absent,
            Outcome::Inserted => Self::Inserted,
            Outcome::Exists => Self::Exists(value),
            Outcome::Updated => Self::Updated,
            Outcome::Replaced => Self::Replaced,
            Outcome::Deleted => Self::Deleted,
            Outcome::Mismatch => Self::Mismatch(value),
            Outcome::Page { .. } => panic!("a page is no answer to a point operation"),
        }
    }
}

/// An event: its place in the total order, and when it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    /// Events before it. Decides; two events may share a nanosecond.
    pub sequence: u32,
    /// Virtual time. For readers.
    pub now_ns: u64,
}

/// An operation of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u32);

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// By whom.
    pub lane: LaneAt,
    /// On which key; for a scan where it starts.
    pub key: u64,
    /// What was asked.
    pub call: Call,
    /// When.
    pub invoked: Moment,
    /// What was answered and when; `None` for an operation that never responded, which is as good as
    /// [`Effect::Unknown`].
    pub answer: Option<(Answer, Moment)>,
    /// From when on an unknown effect that has not happened never will.
    pub closed: Option<Moment>,
}

/// Operations in the order of their invocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    initial: Vec<(u64, u64)>,
    operations: Vec<Record>,
    pages: Vec<(u64, u64)>,
    sequence: u32,
    now_ns: u64,
    /// Keys of the index have owners: the page of a scan may end where those of its compute node end, and say that there is
    /// more.
    pub has_owners: bool,
    /// Other compute nodes may execute an operation later than its own has ended it: no unknown one is ever closed.
    pub outlives_callers: bool,
    /// Compute nodes that died, and may have acknowledged changes that only their memory had.
    pub losers: Vec<ComputeNode>,
}

impl History {
    /// An empty history of an empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// As new, keeping its storage.
    pub fn clear(&mut self) {
        self.initial.clear();
        self.operations.clear();
        self.pages.clear();
        self.sequence = 0;
        self.now_ns = 0;
        self.has_owners = false;
        self.losers.clear();
    }

    /// States that `key` has `value` before the first operation.
    pub fn start_with(&mut self, key: u64, value: u64) {
        debug_assert!(self.initial_of(key).is_none(), "key {key} starts with two values");
        self.initial.push((key, value));
    }

    /// Records an invocation. Events must be recorded in the order in which they happen.
    pub fn invoke(&mut self, lane: LaneAt, now_ns: u64, key: u64, call: Call) -> OpId {
        let invoked = self.moment(now_ns);
        self.operations.push(Record { lane, key, call, invoked, answer: None, closed: None });
        OpId(self.operations.len() as u32 - 1)
    }

    /// Records the response to a point operation, or a failure.
    pub fn respond(&mut self, operation: OpId, now_ns: u64, answer: Answer) {
        let moment = self.moment(now_ns);
        let record = &mut self.operations[operation.0 as usize];
        debug_assert!(record.answer.is_none(), "{operation} responds twice");
        record.answer = Some((answer, moment));
    }

    /// Records the response to a scan.
    pub fn respond_page(
        &mut self,
        operation: OpId,
        now_ns: u64,
        records: impl IntoIterator<Item = (u64, u64)>,
        more: bool,
    ) {
        let first = self.pages.len() as u32;
        self.pages.extend(records);
        let records = self.pages.len() as u32 - first;
        self.respond(operation, now_ns, Answer::Page { first, records, more });
    }

    /// Records that nothing of `operation` is under way any more: its queue pairs are confirmed closed, or its lane
    /// is settled.
    pub fn close(&mut self, operation: OpId, now_ns: u64) {
        let moment = self.moment(now_ns);
        if self.outlives_callers {
            return;
        }
        self.operations[operation.0 as usize].closed.get_or_insert(moment);
    }

    /// Records the same of all operations of a compute node that is dead: its row is free, so whatever it had begun has been
    /// completed or undone.
    pub fn close_all_of(&mut self, compute_node: ComputeNode, now_ns: u64) {
        let moment = self.moment(now_ns);
        if self.outlives_callers {
            return;
        }
        for operation in self.operations.iter_mut().filter(|operation| operation.lane.compute_node == compute_node) {
            if operation.answer.is_none_or(|(answer, _)| answer == Answer::Failed(Effect::Unknown)) {
                operation.closed.get_or_insert(moment);
            }
        }
    }

    /// When the last event was.
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Whether it is unknown if `operation` took effect.
    pub fn is_unknown(&self, operation: OpId) -> bool {
        let answer = self.operation(operation).answer;
        answer.is_none_or(|(answer, _)| answer == Answer::Failed(Effect::Unknown))
    }

    /// What the index held before the first operation.
    pub fn initial(&self) -> &[(u64, u64)] {
        &self.initial
    }

    /// What `key` held before the first operation.
    pub fn initial_of(&self, key: u64) -> Option<u64> {
        self.initial.iter().find(|(of, _)| *of == key).map(|(_, value)| *value)
    }

    /// All operations.
    pub fn operations(&self) -> &[Record] {
        &self.operations
    }

    /// One operation.
    pub fn operation(&self, id: OpId) -> &Record {
        &self.operations[id.0 as usize]
    }

    /// Records of a page: key and value.
    pub fn page(&self, answer: Answer) -> &[(u64, u64)] {
        match answer {
            Answer::Page { first, records, .. } => &self.pages[first as usize..(first + records) as usize],
            _ => &[],
        }
    }

    /// How many point operations overlap in time with another point operation on their key. Histories in which few
    /// do prove little.
    pub fn overlapping(&self) -> usize {
        let end = |record: &Record| record.answer.map_or(u32::MAX, |(_, at)| at.sequence);
        let point = |record: &&Record| record.call.kind() != OperationKind::Scan;
        let meets = |one: &Record, other: &Record| {
            one.key == other.key
                && one.invoked != other.invoked
                && one.invoked.sequence < end(other)
                && other.invoked.sequence < end(one)
        };
        let points = || self.operations.iter().filter(point);
        points().filter(|one| points().any(|other| meets(one, other))).count()
    }

    /// One line per operation, in the order of their invocations.
    pub fn render(&self) -> String {
        let lines: Vec<String> = (0..self.operations.len() as u32).map(|number| self.line(OpId(number))).collect();
        lines.join("\n")
    }

    /// One operation in words and numbers.
    pub fn line(&self, id: OpId) -> String {
        let record = self.operation(id);
        let end = record.answer.map_or(String::from("..."), |(_, at)| at.now_ns.to_string());
        let answer = match record.answer {
            None => String::from("no response"),
            Some((answer, _)) => self.answer_text(answer),
        };
        let closed = record.closed.map_or(String::new(), |at| format!(", closed at {} ns", at.now_ns));
        format!(
            "{:>5} {:<7} {:>9} - {:>9} ns  {} -> {answer}{closed}",
            id.to_string(),
            record.lane.to_string(),
            record.invoked.now_ns,
            end,
            call_text(record.key, record.call),
        )
    }

    fn answer_text(&self, answer: Answer) -> String {
        match answer {
            Answer::Found(value) => format!("found {value}"),
            Answer::Absent => String::from("absent"),
            Answer::Inserted => String::from("inserted"),
            Answer::Exists(value) => format!("exists with {value}"),
            Answer::Updated => String::from("updated"),
            Answer::Replaced => String::from("replaced"),
            Answer::Deleted => String::from("deleted"),
            Answer::Mismatch(value) => format!("mismatch with {value}"),
            Answer::Page { more, .. } => {
                let records: Vec<String> =
                    self.page(answer).iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!("[{}]{}", records.join(" "), if more { " and more" } else { "" })
            }
            Answer::Failed(Effect::None) => String::from("failed, no effect"),
            Answer::Failed(Effect::Unknown) => String::from("failed, effect unknown"),
            Answer::Failed(Effect::Done) => String::from("failed, but took effect"),
        }
    }

    fn moment(&mut self, now_ns: u64) -> Moment {
        debug_assert!(now_ns >= self.now_ns, "events are recorded in the order in which they happen");
        self.now_ns = now_ns;
        let sequence = self.sequence;
        self.sequence += 1;
        Moment { sequence, now_ns }
    }
}

fn call_text(key: u64, call: Call) -> String {
    let kind = call.kind().name();
    match call {
        Call::Get | Call::Delete => format!("{kind} key {key}"),
        Call::Insert { value } | Call::Update { value } | Call::Upsert { value } => {
            format!("{kind} key {key} value {value}")
        }
        Call::DeleteIf { expected } => format!("{kind} key {key} expected {expected}"),
        Call::UpdateIf { expected, value } => format!("{kind} key {key} expected {expected} value {value}"),
        Call::Scan { after, high, limit, down } => {
            let from = if after { "after" } else { "from" };
            let kind = if down { "scan down" } else { kind };
            let high = high.map_or(String::new(), |high| format!(" below {high}"));
            format!("{kind} {from} key {key}{high} limit {limit}")
        }
    }
}
