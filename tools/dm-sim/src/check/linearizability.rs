//! The verdict on a history: the search for each of its keys, and what was counted.
//!
//! A search is bounded; a history that exceeds the bound is [`Verdict::TooHard`], never passed.

use crate::check::history::{Answer, History, OpId};
use crate::check::loss::{losses, next_choice};
use crate::check::model::{Item, Step};
use crate::check::scan::{expand, page_fault};
use crate::check::search::{Found, Search, SearchLimit};
use crate::check::shrink::{PageViolation, Violation, point_violation};

/// Steps one key's search takes at most unless told otherwise: a tenth of a second. A usual key takes fifty.
pub const STEPS_MAX_DEFAULT: u64 = 2_000_000;

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every answer is explained.
    Linearizable,
    /// This one is not.
    Violation(Box<Violation>),
    /// The bound was reached at this key, and no other key is violated. Neither good nor bad.
    TooHard {
        /// The first such key.
        key: u64,
        /// What was too much.
        why: SearchLimit,
    },
}

/// What checkers count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Histories.
    pub histories: u64,
    /// Keys searched.
    pub keys: u64,
    /// Operations and parts of scans searched.
    pub items: u64,
    /// Steps of all searches.
    pub steps: u64,
    /// Histories that ended as [`Verdict::TooHard`].
    pub too_hard: u64,
}

/// Checks histories, reusing its storage.
#[derive(Debug)]
pub struct Checker {
    search: Search,
    items: Vec<(u64, Item)>,
    keys: Vec<u64>,
    run: Vec<Item>,
    statistics: Statistics,
}

impl Default for Checker {
    fn default() -> Self {
        Self::new(STEPS_MAX_DEFAULT)
    }
}

impl Checker {
    /// A checker that spends at most `steps_max` on a key.
    pub fn new(steps_max: u64) -> Self {
        Self {
            search: Search::new(steps_max),
            items: Vec::new(),
            keys: Vec::new(),
            run: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// What was counted so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Judges a history. Of several violations the first by key is reported, ill-shaped pages before all.
    pub fn check(&mut self, history: &History) -> Verdict {
        self.statistics.histories += 1;
        for (number, record) in history.operations().iter().enumerate() {
            if let Some(fault) = page_fault(history, record) {
                let operation = OpId(number as u32);
                let violation = PageViolation { operation, fault, line: history.line(operation) };
                return Verdict::Violation(Box::new(Violation::Page(violation)));
            }
        }
        self.collect(history);
        let mut too_hard = None;
        let items = std::mem::take(&mut self.items);
        let mut verdict = None;
        for run in items.chunk_by(|(one, _), (other, _)| one == other) {
            let key = run[0].0;
            self.run.clear();
            self.run.extend(run.iter().map(|(_, item)| *item));
            self.statistics.keys += 1;
            self.statistics.items += self.run.len() as u64;
            match self.decide(history, key) {
                Found::Order => {}
                Found::None { .. } => {
                    verdict = Some(point_violation(&mut self.search, history, key, &self.run));
                    break;
                }
                Found::TooHard(why) => too_hard = too_hard.or(Some(Verdict::TooHard { key, why })),
            }
        }
        self.items = items;
        if let Some(violation) = verdict {
            return Verdict::Violation(Box::new(Violation::Point(violation)));
        }
        self.statistics.too_hard += u64::from(too_hard.is_some());
        too_hard.unwrap_or(Verdict::Linearizable)
    }

    /// Looks for an order of what was done to one key, with any combination of what deaths may have taken back.
    fn decide(&mut self, history: &History, key: u64) -> Found {
        let initial = history.initial_of(key);
        let losses = losses(history, initial, &self.run);
        let (mut choice, mut steps, mut too_hard) = (vec![0; losses.len()], 0, None);
        loop {
            self.run.extend(losses.iter().zip(&choice).filter_map(|(loss, at)| loss.get(*at)));
            self.run.sort_by_key(|item| item.from);
            let found = self.search.decide(initial, &self.run);
            steps += self.search.steps();
            self.statistics.steps += self.search.steps();
            match found {
                Found::Order => return found,
                Found::None { .. } => {}
                Found::TooHard(why) => too_hard = Some(why),
            }
            if steps > STEPS_MAX_DEFAULT {
                too_hard = too_hard.or(Some(SearchLimit::Steps(STEPS_MAX_DEFAULT)));
            }
            if steps > STEPS_MAX_DEFAULT || !next_choice(&losses, &mut choice) {
                return too_hard.map_or(found, Found::TooHard);
            }
            self.run.retain(|item| !losses.iter().flatten().any(|loss| loss == item));
        }
    }

    /// Fills `items` with what every operation did to every key, by key and then by invocation.
    fn collect(&mut self, history: &History) {
        self.keys.clear();
        self.items.clear();
        self.keys.extend(history.initial().iter().map(|(key, _)| *key));
        let mut scans = false;
        for (number, record) in history.operations().iter().enumerate() {
            if let Some((answer @ Answer::Page { .. }, _)) = record.answer {
                scans = true;
                self.keys.extend(history.page(answer).iter().map(|(key, _)| *key));
                continue;
            }
            let (step, optional) = match record.answer {
                None | Some((Answer::Failed(dm_core::operation::Effect::Unknown), _)) => {
                    (Step::effect_of(record.call), true)
                }
                Some((answer, _)) => (Step::of(record.call, answer), false),
            };
            let Some(step) = step else { continue };
            let until = if optional { record.closed } else { record.answer.map(|(_, at)| at) };
            let (from, until) = (record.invoked.sequence, until.map_or(u32::MAX, |at| at.sequence));
            self.keys.push(record.key);
            self.items.push((record.key, Item { operation: number as u32, step, optional, from, until }));
        }
        if scans {
            self.keys.sort_unstable();
            self.keys.dedup();
            for number in 0..history.operations().len() as u32 {
                expand(history, OpId(number), &self.keys, |key, item| self.items.push((key, item)));
            }
        }
        self.items.sort_unstable_by_key(|(key, item)| (*key, item.from));
    }
}
