//! The shortest history that shows a violation, and what it shows, in words.
//!
//! Operations are only left out where that cannot make a good history bad:
//!
//! * what was invoked after the first response that cannot be explained, and the obligation to explain answers that
//!   came after it (a prefix of a linearizable history is linearizable, pending operations having happened or not);
//! * operations that only look (without them the same order still explains the rest);
//! * everything before an instant at which nothing was pending and the register can have held only one thing, which
//!   then is what it starts with.

use crate::check::history::{Answer, Call, History, OpId};
use crate::check::model::{Item, Makes, Needs, State};
use crate::check::scan::PageFault;
use crate::check::search::{Found, Search};
use dm_core::operation::Effect;
use std::fmt;

/// What was found wrong with a history. Displayed, it ends in a sentence that says what was violated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The answers about one key have no explanation.
    Point(PointViolation),
    /// A page is wrong by itself.
    Page(PageViolation),
}

impl Violation {
    /// The operation whose answer cannot be explained.
    pub fn operation(&self) -> OpId {
        match self {
            Self::Point(point) => point.operation,
            Self::Page(page) => page.operation,
        }
    }

    /// The sentence alone.
    pub fn sentence(&self) -> String {
        match self {
            Self::Point(point) => point.sentence.clone(),
            Self::Page(page) => format!("The scan {} {}.", page.operation, page.fault),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Point(point) => {
                match point.initial {
                    Some(value) => writeln!(f, "key {} holds {value} at first", point.key)?,
                    None => writeln!(f, "key {} is absent at first", point.key)?,
                }
                point.lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
            }
            Self::Page(page) => writeln!(f, "{}", page.line)?,
        }
        f.write_str(&self.sentence())
    }
}

/// A key whose operations have no order that explains their answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointViolation {
    /// The key.
    pub key: u64,
    /// What it held before the operations that are left.
    pub initial: State,
    /// The shortest sub-history found, by invocation.
    pub operations: Vec<OpId>,
    /// The same in words.
    pub lines: Vec<String>,
    /// The first whose answer cannot be explained.
    pub operation: OpId,
    /// What was violated.
    pub sentence: String,
}

/// A page that is wrong by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageViolation {
    /// The scan.
    pub operation: OpId,
    /// What is wrong.
    pub fault: PageFault,
    /// The scan in words.
    pub line: String,
}

/// Shrinks and explains a key that the search has found no order for.
pub(crate) fn point_violation(search: &mut Search, history: &History, key: u64, all: &[Item]) -> PointViolation {
    let initial = history.initial_of(key);
    let mut items = all.to_vec();
    let mut culprit = cut(search, initial, &mut items).unwrap_or(0);
    // Leaving a looker out may move the first unexplained response, so that more can be cut.
    let mut number = items.len();
    while number > 0 {
        number -= 1;
        if number >= items.len() || !items[number].step.only_looks() {
            continue;
        }
        let mut fewer = items.clone();
        fewer.remove(number);
        if let Some(still) = cut(search, initial, &mut fewer) {
            items = fewer;
            culprit = still;
        }
    }
    let violator = items[culprit];
    let (from, until) = (violator.from, violator.until);
    let states = search.states(initial, &items, from..until.saturating_add(1));
    let sentence = Explainer { history, key, all, violator, states: &states }.sentence();
    let start = begin_late(search, initial, &mut items, violator);
    let operations: Vec<OpId> = items.iter().map(|item| OpId(item.operation)).collect();
    let lines = operations.iter().map(|id| history.line(*id)).collect();
    PointViolation { key, initial: start, operations, lines, operation: OpId(violator.operation), sentence }
}

/// Cuts `items` behind the first response that cannot be explained and says whose it is; `None` if all can.
fn cut(search: &mut Search, initial: State, items: &mut Vec<Item>) -> Option<usize> {
    let Found::None { item: culprit } = search.decide(initial, items) else { return None };
    let end = items[culprit].until;
    let operation = items[culprit].operation;
    items.retain_mut(|item| {
        if item.until > end {
            item.optional = true;
            item.until = u32::MAX;
        }
        item.from < end && !(item.optional && item.step.only_looks())
    });
    items.iter().position(|item| item.operation == operation)
}

/// Replaces a beginning whose outcome is certain by that outcome. One change that was made before the violating call
/// stays, to be seen.
fn begin_late(search: &mut Search, initial: State, items: &mut Vec<Item>, violator: Item) -> State {
    let change = |item: &&Item| !item.step.only_looks() && !item.optional && item.until < violator.from;
    let Some(last_change) = items.iter().filter(change).max_by_key(|item| item.until) else { return initial };
    for start in (1..items.len()).rev() {
        let from = items[start].from;
        if from > last_change.from || items[..start].iter().any(|item| item.until > from) {
            continue;
        }
        let before = search.states(initial, &items[..start], u32::MAX..u32::MAX);
        if let [state] = before[..]
            && matches!(search.decide(state, &items[start..]), Found::None { .. })
        {
            items.drain(..start);
            return state;
        }
    }
    initial
}

/// Finds the words for a violation.
struct Explainer<'a> {
    history: &'a History,
    key: u64,
    /// Everything known of the key, also what was shrunk away.
    all: &'a [Item],
    violator: Item,
    /// What the register can have held at some instant of the violating call.
    states: &'a [State],
}

impl Explainer<'_> {
    fn sentence(&self) -> String {
        format!("{} {}.", self.claim(), self.contradiction())
    }

    /// What was answered.
    fn claim(&self) -> String {
        let id = OpId(self.violator.operation);
        let record = self.history.operation(id);
        let (lane, key) = (record.lane, self.key);
        let kind = record.call.kind().name();
        match record.answer.map(|(answer, _)| answer) {
            Some(Answer::Found(value)) => format!("Lane {lane} read key {key} as {value} ({id})"),
            Some(Answer::Absent) if record.call == Call::Get => format!("Lane {lane} read key {key} as absent ({id})"),
            Some(Answer::Absent) => format!("Lane {lane} was told by its {kind} that key {key} is absent ({id})"),
            Some(Answer::Exists(value) | Answer::Mismatch(value)) => {
                format!("Lane {lane} was told by its {kind} that key {key} holds {value} ({id})")
            }
            Some(Answer::Page { .. }) => match self.violator.step.needs {
                Needs::Value(value) => format!("Lane {lane} scanned key {key} as {value} ({id})"),
                _ => format!("The scan of lane {lane} covers key {key} and did not return it ({id})"),
            },
            Some(Answer::Inserted) => format!("Lane {lane} was told by its {kind} that it inserted key {key} ({id})"),
            Some(Answer::Failed(_)) | None => format!("Lane {lane} failed to {kind} key {key} but did it ({id})"),
            Some(Answer::Updated | Answer::Replaced | Answer::Deleted) => {
                format!("Lane {lane} was told by its {kind} that it changed key {key} ({id})")
            }
        }
    }

    /// Why that cannot be.
    fn contradiction(&self) -> String {
        let step = self.violator.step;
        if let Needs::Value(value) = step.needs
            && let Some(text) = self.never_written(value)
        {
            return text;
        }
        if self.states.iter().any(|state| step.applies(*state)) || self.states.is_empty() {
            return String::from(
                "although no order of the operations on this key explains that together with the answers before it",
            );
        }
        match step.needs {
            Needs::Impossible => String::from("which is no answer to that call"),
            Needs::Absent | Needs::Anything => self.was_present(),
            Needs::Present => self.was_absent(),
            Needs::Value(value) => {
                let expected = match self.history.operation(OpId(self.violator.operation)).call {
                    Call::UpdateIf { .. } | Call::DeleteIf { .. } if !step.only_looks() => {
                        format!("expecting {value}, ")
                    }
                    _ => String::new(),
                };
                let values: Vec<u64> = self.states.iter().copied().flatten().collect();
                if values.is_empty() { expected + &self.was_absent() } else { expected + &self.was_another(&values) }
            }
        }
    }

    /// If no operation can have written `value` to this key by then, what is known of it.
    fn never_written(&self, value: u64) -> Option<String> {
        if self.history.initial_of(self.key) == Some(value) {
            return None;
        }
        let writers = self.all.iter().filter(|item| item.step.makes == Makes::Value(value));
        if writers.clone().any(|item| item.from < self.violator.until && item.operation != self.violator.operation) {
            return None;
        }
        if let Some(later) = writers.map(|item| OpId(item.operation)).next() {
            return Some(format!("although {} wrote that only later", self.who(later)));
        }
        let records = (0..).map(OpId).zip(self.history.operations());
        let mut writers = records.filter(|(_, record)| record.call.written() == Some(value));
        if let Some((id, record)) = writers.next() {
            if record.key != self.key {
                return Some(format!("although that value was written to key {} by {}", record.key, self.who(id)));
            }
            if matches!(record.answer, Some((Answer::Failed(Effect::None), _))) {
                return Some(format!("although {}, which wrote it, failed without effect", self.who(id)));
            }
            return Some(format!("although {}, which would have written it, changed nothing", self.who(id)));
        }
        if let Some((key, _)) = self.history.initial().iter().find(|(_, initial)| *initial == value) {
            return Some(format!("although that value belongs to key {key}"));
        }
        Some(String::from("although nobody ever wrote that value"))
    }

    fn was_present(&self) -> String {
        let values: Vec<u64> = self.states.iter().copied().flatten().collect();
        let since = self.presence(&values);
        match self.last_deletion() {
            None => format!("although {since} and no delete ran"),
            Some(delete) => {
                format!("although {since}, and every delete, {} being the last, has its place before", self.who(delete))
            }
        }
    }

    fn was_absent(&self) -> String {
        match self.last_deletion() {
            Some(delete) => {
                format!("although key {} was deleted by {} and not written again", self.key, self.who(delete))
            }
            None => format!("although key {} was absent: nobody had inserted it", self.key),
        }
    }

    fn was_another(&self, values: &[u64]) -> String {
        format!("although {}", self.presence(values))
    }

    /// Since when the key holds one of `values`.
    fn presence(&self, values: &[u64]) -> String {
        let texts: Vec<String> = values.iter().map(|value| self.provenance(*value)).collect();
        texts.join(", or ")
    }

    fn provenance(&self, value: u64) -> String {
        let mut writers = self.all.iter().rev().filter(|item| item.step.makes == Makes::Value(value));
        let Some(writer) =
            writers.find(|item| item.from < self.violator.until && item.operation != self.violator.operation)
        else {
            return format!("key {} held {value} from the beginning", self.key);
        };
        let id = OpId(writer.operation);
        let record = self.history.operation(id);
        let how = if writer.optional || writer.until > self.violator.from {
            "was under way"
        } else {
            "had been acknowledged before"
        };
        format!("{} of {value} by lane {} ({id}) {how}", record.call.kind().name(), record.lane)
    }

    /// The last delete that may have happened before the violating answer.
    fn last_deletion(&self) -> Option<OpId> {
        let deletes = self.all.iter().filter(|item| item.step.makes == Makes::Absent);
        let own = self.violator.operation;
        let before = deletes.filter(|item| item.from < self.violator.until && item.operation != own);
        before.max_by_key(|item| item.until).map(|item| OpId(item.operation))
    }

    fn who(&self, id: OpId) -> String {
        let record = self.history.operation(id);
        format!("{} {id} of lane {}", record.call.kind().name(), record.lane)
    }
}
