//! Two other judges: one that tries every order, and stateright's tester.

use crate::check::{Answer, Call, History};
use dm_core::operation::Effect;
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};
use std::collections::BTreeMap;

/// The map as a person would write it down, independent of the checker's model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Map(pub(super) BTreeMap<u64, u64>);

impl Map {
    /// Does it and says what it answers.
    pub(super) fn apply(&mut self, key: u64, call: Call) -> Answer {
        let present = self.0.get(&key).copied();
        match (call, present) {
            (Call::Get, Some(value)) => Answer::Found(value),
            (Call::Insert { .. }, Some(value)) => Answer::Exists(value),
            (Call::Insert { value }, None) => {
                self.0.insert(key, value);
                Answer::Inserted
            }
            (Call::Update { value }, Some(_)) => {
                self.0.insert(key, value);
                Answer::Updated
            }
            (Call::Upsert { value }, _) => match self.0.insert(key, value) {
                Some(_) => Answer::Replaced,
                None => Answer::Inserted,
            },
            (Call::UpdateIf { expected, value }, Some(present)) if expected == present => {
                self.0.insert(key, value);
                Answer::Updated
            }
            (Call::DeleteIf { expected }, Some(present)) if expected == present => {
                self.0.remove(&key);
                Answer::Deleted
            }
            (Call::UpdateIf { .. } | Call::DeleteIf { .. }, Some(present)) => Answer::Mismatch(present),
            (Call::Delete, Some(_)) => {
                self.0.remove(&key);
                Answer::Deleted
            }
            (_, None) => Answer::Absent,
            (Call::Scan { .. }, _) => panic!("scans are taken apart before"),
        }
    }
}

/// An operation on one key, as both referees see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    key: u64,
    call: Call,
    /// `None`: may happen or not, answering anything.
    answer: Option<Answer>,
    from: u32,
    until: u32,
}

/// A history without scans and without operations that say nothing.
pub(super) fn parts(history: &History, keys: std::ops::Range<u64>) -> Vec<Part> {
    let mut parts = Vec::new();
    for record in history.operations() {
        let from = record.invoked.sequence;
        let Record { key, call } = Record { key: record.key, call: record.call };
        match record.answer {
            Some((Answer::Failed(Effect::None), _)) => {}
            None | Some((Answer::Failed(Effect::Unknown), _)) => {
                let until = record.closed.map_or(u32::MAX, |at| at.sequence);
                if !matches!(call, Call::Get | Call::Scan { .. }) {
                    parts.push(Part { key, call, answer: None, from, until });
                }
            }
            Some((answer @ Answer::Page { more, .. }, at)) => {
                let Call::Scan { after, high, down, .. } = call else { panic!("a page for {call:?}") };
                let page: BTreeMap<u64, u64> = history.page(answer).iter().copied().collect();
                let mut first = key + u64::from(after);
                let mut end = high.unwrap_or(keys.end);
                if more && down {
                    first = first.max(page.first_key_value().map_or(end, |(first, _)| *first));
                } else if more {
                    end = end.min(page.last_key_value().map_or(0, |(last, _)| last + 1));
                }
                for key in first..end {
                    let answer = page.get(&key).map_or(Answer::Absent, |value| Answer::Found(*value));
                    parts.push(Part { key, call: Call::Get, answer: Some(answer), from, until: at.sequence });
                }
            }
            Some((answer, at)) => parts.push(Part { key, call, answer: Some(answer), from, until: at.sequence }),
        }
    }
    parts
}

struct Record {
    key: u64,
    call: Call,
}

/// Tries every order of every choice of the operations that may not have happened.
pub(super) fn any_order(map: &Map, parts: &[Part]) -> bool {
    let optional: Vec<usize> = (0..parts.len()).filter(|&number| parts[number].answer.is_none()).collect();
    (0_u32..1 << optional.len()).any(|choice| {
        let left_out =
            |number: usize| optional.iter().position(|&at| at == number).is_some_and(|at| choice >> at & 1 == 1);
        let chosen: Vec<Part> =
            (0..parts.len()).filter(|&number| !left_out(number)).map(|number| parts[number]).collect();
        permute(map, &chosen)
    })
}

fn permute(map: &Map, left: &[Part]) -> bool {
    left.is_empty()
        || (0..left.len()).any(|next| {
            let part = left[next];
            if left.iter().any(|other| other.until < part.from) {
                return false;
            }
            let mut map = map.clone();
            let answer = map.apply(part.key, part.call);
            let mut rest = left.to_vec();
            rest.remove(next);
            explains(part.call, part.answer, answer) && permute(&map, &rest)
        })
}

/// Whether `told` is a possible answer if the map answers `real`.
fn explains(call: Call, told: Option<Answer>, real: Answer) -> bool {
    match told {
        None => true,
        Some(Answer::Failed(_)) => {
            matches!(call, Call::Get)
                || matches!(real, Answer::Inserted | Answer::Updated | Answer::Replaced | Answer::Deleted)
        }
        Some(told) => told == real,
    }
}

impl SequentialSpec for Map {
    type Op = (u64, Call);
    type Ret = Answer;

    fn invoke(&mut self, (key, call): &(u64, Call)) -> Answer {
        self.apply(*key, *call)
    }

    fn is_valid_step(&mut self, (key, call): &(u64, Call), told: &Answer) -> bool {
        let real = self.apply(*key, *call);
        explains(*call, Some(*told), real)
    }
}

/// Stateright's opinion. It knows no closing of unknown effects: the history must have none.
pub(super) fn stateright(map: &Map, parts: &[Part]) -> bool {
    let mut events: Vec<(u32, bool, usize)> = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        events.push((part.from, false, number));
        match part.answer {
            Some(_) => events.push((part.until, true, number)),
            None => assert_eq!(part.until, u32::MAX, "stateright cannot close"),
        }
    }
    events.sort_unstable();
    let mut tester = LinearizabilityTester::new(map.clone());
    for (_, responds, number) in events {
        let part = &parts[number];
        let legal = match part.answer {
            Some(answer) if responds => tester.on_return(number, answer),
            _ => tester.on_invoke(number, (part.key, part.call)),
        };
        assert!(legal.is_ok(), "every part is a thread of its own");
    }
    tester.is_consistent()
}
