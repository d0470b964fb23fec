//! A lane that was handed the lock of a parent dies in the middle of a merge.
//!
//! Lane 0 of the victim splits a leaf. While it holds the lock of the parent, lane 1 empties another leaf and queues
//! for that lock. Lane 0 writes the parent, behind a redo record, and hands the lock over.
//!
//! Lane 1 then merges. It writes the parent, which is on the memory node of the left leaf. It retires the right leaf,
//! which is on another memory node. It dies when the redo record of the left leaf has landed and the leaf itself has
//! not.
//!
//! The redo slots of two lanes now hold redo records of the same lock word. The survivors have to replay lane 1's:
//! after a replay of lane 0's record the parent would point to the retired leaf again.

use super::cases::{Case, CrashSetup, CutOperation, KEYS, Scenario, evens};
use super::serial_fabric::{ChainProgress, CrashPoint, Drive, SeenRequest};
use super::stage::{Mode, Ran, Stage, VICTIM, probe, with_stage};
use crate::check::Call;
use crate::verify::load::start;
use dm_core::lane::{Lane, Stage as LockStage};
use dm_core::marks::Mark;
use dm_core::operation::OperationKind;
use dm_core::verbs::{Label, Verb};

/// Separators of an inner node: all leaves have one parent.
const INNER_SPAN: usize = 32;

/// Number of keys 0, 2, 4, ... that the tree is made of.
const EVENS: u64 = KEYS / 2;

/// The cases of this scenario for the configuration of `case`, but over two memory nodes: one case for every pair of a
/// key to delete and a key to insert. There are none if locks lie in leaves, or if lanes do not queue.
fn cases_of(case: &Case) -> Vec<(Case, u64)> {
    let mut parameters = case.parameters;
    if parameters.locks_in_leaves() || !parameters.set_inner_span(INNER_SPAN) || !case.setup.options.hierarchical {
        return Vec::new();
    }
    let setup = CrashSetup { nodes: 2, ..case.setup };
    // In descending order: a split puts its right half into new memory. So right leaves are older, and lie on the
    // memory node of the first chunk.
    let inserted: Vec<u64> = evens(EVENS).into_iter().rev().collect();
    let case_of = |deleted: Vec<u64>, operation| {
        let inserted = inserted.clone();
        let scenario = Scenario { name: "a merge under a lock that was handed over", inserted, deleted, operation };
        Case { name: format!("{}; as in {}", scenario.name, case.name), parameters, setup, scenario }
    };
    let mut cases = Vec::new();
    for first in evens(EVENS) {
        // The leaf has up to so many records. All but one are deleted first, and the operation deletes the last one.
        for records in 1..=3 {
            let keys: Vec<u64> = (0..records).map(|step| (first + 2 * step) % KEYS).collect();
            let (last, others) = keys.split_last().expect("one at least");
            let merges = case_of(others.to_vec(), CutOperation::Point(OperationKind::Delete, *last));
            if !splits_over_nodes(probe(&merges).submits()) {
                continue;
            }
            for inserted in (1..KEYS).step_by(2) {
                let splits = case_of(others.to_vec(), CutOperation::Point(OperationKind::Insert, inserted));
                let probe = probe(&splits);
                if probe.did(Mark::LEAF_SPLIT) && !probe.did(Mark::ROOT_GROWTH) && !probe.did(Mark::INNER_SPLIT) {
                    cases.push((splits, *last));
                }
            }
        }
    }
    cases
}

/// Whether an operation merges leaves on two memory nodes, the left one where the parent is.
fn splits_over_nodes(submits: &[Vec<SeenRequest>]) -> bool {
    let write = |label| submits.iter().flatten().rfind(move |seen| seen.verb == Verb::Write && seen.label == label);
    match (write(Label::Parent), write(Label::Sibling), write(Label::Node)) {
        (Some(parent), Some(right), Some(left)) => parent.node == left.node && parent.node != right.node,
        _ => false,
    }
}

/// Runs the scenario with the configuration of `case`, and with everything that survivors may do first. Returns how
/// often the death in question occurred.
pub fn merge_under_handed_over_lock(case: &Case) -> Result<u32, String> {
    let mut deaths = 0;
    for (splits, deleted) in cases_of(case) {
        for mode in Mode::ALL {
            let mut ran = Ran::default();
            let mut died = false;
            with_stage(&splits, 2, &mut ran, &mut |stage| {
                died = stage.merge_under_handed_over_lock(deleted, mode)?;
                Ok(())
            });
            if let Some(what) = ran.findings.first() {
                return Err(format!(
                    "{}, {:?}, delete of {deleted}, survivors {mode:?}: {what}",
                    splits.name, splits.scenario.operation
                ));
            }
            if !died {
                break;
            }
            deaths += 1;
        }
    }
    Ok(deaths)
}

impl Stage<'_, '_> {
    /// Returns `false` if with these keys the lanes do not meet, or if the merge is another one.
    fn merge_under_handed_over_lock(&mut self, deleted: u64, mode: Mode) -> Result<bool, String> {
        self.begin()?;
        let CutOperation::Point(OperationKind::Insert, inserted) = self.case.scenario.operation else {
            return Ok(false);
        };
        let (index, row, coding) = (self.opened[0], self.members[0].row.0, self.case.coding());
        let (splitter, merger) = (&self.lanes[0], &self.others[0]);
        let insert = Call::Insert { value: VICTIM };
        let mut split = start(index, splitter, coding, inserted, insert, 0);
        let mut merge = start(index, merger, coding, deleted, Call::Delete, 0);
        let (mut split_seen, mut merge_seen) = (Vec::new(), Vec::new());
        splitter.port().start();
        merger.port().start();
        // Up to the READ of the parent under its lock.
        for submit in 0.. {
            match self.fabric.advance(row, splitter, split.as_mut(), None, Some(submit), &mut split_seen)? {
                Drive::Stopped if has(splitter, Label::Parent, Verb::Read) && holds(splitter) => break,
                Drive::Stopped => {}
                other => return Err(format!("an insert that splits, and locks no parent: {other:?}")),
            }
        }
        // Up to the parent's lock, which is not free.
        let parked = self.fabric.advance(row, merger, merge.as_mut(), None, Some(usize::MAX), &mut merge_seen)?;
        let done = self.fabric.advance(row, splitter, split.as_mut(), None, None, &mut split_seen)?;
        let Drive::Done(ended) = done else { return Err(format!("the insert: {done:?}")) };
        self.check(inserted, insert, &ended)?;
        if !matches!(parked, Drive::Stopped) {
            return Err(format!("a delete that empties a leaf, and waits for no parent: {parked:?}"));
        }
        // Up to the WRITE of the left leaf.
        for submit in merge_seen.len().. {
            match self.fabric.advance(row, merger, merge.as_mut(), None, Some(submit), &mut merge_seen)? {
                Drive::Stopped if has(merger, Label::Node, Verb::Write) => break,
                Drive::Stopped => {}
                // The split was of a neighbour instead.
                Drive::Done(_) => return Ok(false),
                Drive::Died => return Err("a death without a crash point".to_owned()),
            }
        }
        let left = merger.port().requests().iter().find(|request| request.label == Label::Node).map(|left| left.node.0);
        let parent = merge_seen.iter().flatten().rfind(|seen| seen.label == Label::Parent && seen.verb == Verb::Write);
        let parent = parent.map(|seen| seen.node);
        if merger.marked(Mark::HAND_OVER) == 0
            || parent.is_none()
            || parent != left
            || has(merger, Label::Sibling, Verb::Write)
        {
            return Ok(false);
        }
        let chains = left.map(|node| ChainProgress { node, whole: 1, part: None }).into_iter().collect();
        let crash_point = CrashPoint { submit: merge_seen.len(), chains, late: false };
        match self.fabric.advance(row, merger, merge.as_mut(), Some(&crash_point), None, &mut merge_seen)? {
            Drive::Died => {}
            other => return Err(format!("the merge: {other:?}")),
        }
        drop((split, merge));
        self.open.entry(deleted).or_default().push(None);
        self.dead.push(0);
        self.go_on(1, mode)?;
        Ok(true)
    }
}

/// Whether the next submit of a lane has such a request.
fn has(lane: &Lane<'_>, label: Label, verb: Verb) -> bool {
    lane.port().requests().iter().any(|request| request.label == label && request.verb == verb)
}

fn holds(lane: &Lane<'_>) -> bool {
    lane.lock_records().iter().any(|record| record.stage == LockStage::Held)
}
