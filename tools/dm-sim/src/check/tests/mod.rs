//! Good and bad histories, written by hand and random; two other judges check them as well.

mod anomalies;
mod losses;
mod pages;
mod random;
mod referees;

use crate::check::{Answer, Call, Checker, History, OpId, Verdict, Violation};
use crate::compute_node::ComputeNode;
use crate::driver::LaneAt;

/// A history written as lines of time: each operation says from when to when it ran, and on which lane.
#[derive(Default)]
struct HistoryBuilder {
    initial: Vec<(u64, u64)>,
    operations: Vec<Operation>,
    losers: Vec<ComputeNode>,
}

struct Operation {
    lane: u16,
    from: u64,
    to: u64,
    key: u64,
    call: Call,
    answer: Option<Answer>,
    page: Vec<(u64, u64)>,
    closed: Option<u64>,
}

impl HistoryBuilder {
    /// The index holds these at first.
    fn holding(initial: &[(u64, u64)]) -> Self {
        Self { initial: initial.to_vec(), ..Self::default() }
    }

    /// `lane` called at `from` and was answered at `to`.
    fn op(mut self, lane: u16, (from, to): (u64, u64), key: u64, call: Call, answer: Answer) -> Self {
        let answer = Some(answer);
        self.operations.push(Operation { lane, from, to, key, call, answer, page: Vec::new(), closed: None });
        self
    }

    /// `lane` called at `from` and never heard of it again.
    fn pending(mut self, lane: u16, from: u64, key: u64, call: Call) -> Self {
        let operation = Operation { lane, from, to: u64::MAX, key, call, answer: None, page: Vec::new(), closed: None };
        self.operations.push(operation);
        self
    }

    /// The last operation can do nothing from this time on.
    fn closed(mut self, at: u64) -> Self {
        self.operations.last_mut().unwrap().closed = Some(at);
        self
    }

    /// This compute node died, and had acknowledged what only its memory had.
    fn loses(mut self, compute_node: u16) -> Self {
        self.losers.push(ComputeNode(compute_node));
        self
    }

    /// `lane` scanned.
    fn scan(
        mut self,
        lane: u16,
        (from, to): (u64, u64),
        low: u64,
        call: Call,
        page: &[(u64, u64)],
        more: bool,
    ) -> Self {
        let answer = Some(Answer::Page { first: 0, records: 0, more });
        self.operations.push(Operation { lane, from, to, key: low, call, answer, page: page.to_vec(), closed: None });
        self
    }

    /// The history; at equal times in the order of the calls above, invocations first.
    fn history(&self) -> History {
        let mut history = History::new();
        history.losers.clone_from(&self.losers);
        for &(key, value) in &self.initial {
            history.start_with(key, value);
        }
        let mut events: Vec<(u64, u8, usize)> = Vec::new();
        for (number, operation) in self.operations.iter().enumerate() {
            events.push((operation.from, 0, number));
            if operation.answer.is_some() {
                events.push((operation.to, 1, number));
            }
            if let Some(at) = operation.closed {
                events.push((at, 2, number));
            }
        }
        events.sort_unstable();
        let mut ids = vec![OpId(0); self.operations.len()];
        for (at, what, number) in events {
            let operation = &self.operations[number];
            match what {
                0 => {
                    ids[number] = history.invoke(
                        LaneAt::new(operation.lane / 2, operation.lane % 2),
                        at,
                        operation.key,
                        operation.call,
                    );
                }
                1 => match operation.answer {
                    Some(Answer::Page { more, .. }) => {
                        history.respond_page(ids[number], at, operation.page.iter().copied(), more);
                    }
                    Some(answer) => history.respond(ids[number], at, answer),
                    None => {}
                },
                _ => history.close(ids[number], at),
            }
        }
        history
    }

    fn verdict(&self) -> Verdict {
        Checker::default().check(&self.history())
    }

    /// Asserts that the history is good.
    fn passes(&self) {
        let verdict = self.verdict();
        assert_eq!(verdict, Verdict::Linearizable, "\n{}", self.history().render());
    }

    /// Asserts that it is bad.
    fn is_bad(&self) {
        let verdict = self.verdict();
        assert!(matches!(verdict, Verdict::Violation(_)), "{verdict:?}\n{}", self.history().render());
    }

    /// Asserts that it is bad and that the sentence is this one.
    fn fails(&self, sentence: &str) -> Violation {
        let Verdict::Violation(violation) = self.verdict() else {
            panic!("passed as good:\n{}", self.history().render());
        };
        assert_eq!(violation.sentence(), sentence, "\n{violation}");
        assert!(violation.to_string().ends_with(sentence));
        *violation
    }
}

const GET: Call = Call::Get;
const DELETE: Call = Call::Delete;

const fn insert(value: u64) -> Call {
    Call::Insert { value }
}

const fn update(value: u64) -> Call {
    Call::Update { value }
}

const fn upsert(value: u64) -> Call {
    Call::Upsert { value }
}

const fn update_if(expected: u64, value: u64) -> Call {
    Call::UpdateIf { expected, value }
}

const fn scan(limit: u32) -> Call {
    Call::Scan { after: false, high: None, limit, down: false }
}
