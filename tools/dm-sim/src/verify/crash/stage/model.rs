//! The model: which records the index should hold. Until an outcome was seen, an operation that a death cut short may
//! have taken effect or not.

use super::{Stage, ask};
use crate::check::{Answer, Call};
use crate::verify::crash::cases::KEYS;
use crate::verify::crash::serial_fabric::Drive;
use crate::verify::load::Ended;
use std::collections::BTreeMap;

impl Stage<'_, '_> {
    /// Runs an operation that must succeed, and checks its answer against the model.
    pub(in crate::verify) fn expect(&mut self, node: usize, key: u64, call: Call) -> Result<(), String> {
        let (index, lane) = (self.opened[node], &self.lanes[node]);
        let future = ask(index, lane, self.case.coding(), key, call);
        match self.fabric.drive(self.members[node].row.0, lane, future, None, &mut Vec::new()) {
            Ok(Drive::Done(ended)) => self.check(key, call, &ended)?,
            other => return Err(format!("{call:?} of key {key} by compute node {node}: {other:?}")),
        }
        if lane.in_doubt() {
            return Err(format!("{call:?} of key {key} left {:?}", lane.lock_records()));
        }
        Ok(())
    }

    /// Checks an answer against the model, and updates the model.
    pub(in crate::verify) fn check(&mut self, key: u64, call: Call, ended: &Ended) -> Result<(), String> {
        let Ended::Point(answer) = *ended else {
            return Err(format!("{call:?} of key {key} ended with {ended:?}"));
        };
        let answer_for = |present: Option<u64>| match (call, present) {
            (Call::Get, Some(value)) => Answer::Found(value),
            (Call::Insert { .. }, Some(value)) => Answer::Exists(value),
            (Call::Insert { .. } | Call::Upsert { .. }, None) => Answer::Inserted,
            (Call::UpdateIf { expected, .. } | Call::DeleteIf { expected }, Some(value)) if expected != value => {
                Answer::Mismatch(value)
            }
            (Call::Update { .. } | Call::UpdateIf { .. }, Some(_)) => Answer::Updated,
            (Call::Upsert { .. }, Some(_)) => Answer::Replaced,
            (Call::Delete | Call::DeleteIf { .. }, Some(_)) => Answer::Deleted,
            _ => Answer::Absent,
        };
        let known = self.known.get(&key).copied();
        if answer != answer_for(known) {
            let open = self.open.entry(key).or_default();
            let Some(which) = open.iter().position(|other| answer == answer_for(*other)) else {
                return Err(format!(
                    "{call:?} of key {key} answers {answer:?}; it was {known:?}, or one of {open:?} by the dead"
                ));
            };
            // An outcome that was seen stays, unless the outcome of another dead operation follows it.
            let now = open.swap_remove(which);
            self.set(key, now);
        }
        match answer {
            Answer::Inserted | Answer::Updated | Answer::Replaced => {
                self.open.remove(&key);
                self.set(key, call.written());
            }
            Answer::Deleted => {
                self.open.remove(&key);
                self.set(key, None);
            }
            _ => {}
        }
        Ok(())
    }

    fn set(&mut self, key: u64, value: Option<u64>) {
        match value {
            Some(value) => self.known.insert(key, value),
            None => self.known.remove(&key),
        };
    }

    pub(super) fn scan(&mut self, node: usize) -> Result<(), String> {
        let (index, lane) = (self.opened[node], &self.lanes[node]);
        let future =
            ask(index, lane, self.case.coding(), 0, Call::Scan { after: false, high: None, limit: 64, down: false });
        let ended = self.fabric.drive(self.members[node].row.0, lane, future, None, &mut Vec::new());
        let Ok(Drive::Done(Ended::Page(page, false))) = &ended else { return Err(format!("a scan: {ended:?}")) };
        let page: BTreeMap<u64, u64> = page.iter().copied().collect();
        for key in 0..KEYS {
            let found = page.get(&key).map_or(Answer::Absent, |value| Answer::Found(*value));
            self.check(key, Call::Get, &Ended::Point(found)).map_err(|what| format!("a scan: {what}"))?;
        }
        Ok(())
    }
}
