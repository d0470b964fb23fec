//! Compute nodes that join while others work: histories with [`WideOption::Rejoin`].
//!
//! A compute node that died joins again as a new process, with empty memory. Its life has a number of its own, and lanes of its
//! own. It joins over the fabric, among the requests of the others: in the row that a sweep has freed, with the next incarnation,
//! or in another row, while its old one is not swept. Then it opens the index and takes part in the load.

use super::{Doing, Ended, Load};
use crate::compute_node::ComputeNode;
use crate::driver::{Driver, LaneAt};
use crate::verify::faults::FaultKind;
use crate::verify::membership::Membership;
use crate::verify::subject::Opened;
use crate::verify::wide::WideOption;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::{Member, RowWord};
use dm_core::verbs::NodeId;
use std::cell::Cell;

/// Of 100 compute nodes that died, so many come back before their row is swept.
const AT_ONCE_PERCENT: u32 = 20;

/// A dead compute node joins again within this time after its death, or after the sweep of its row, in ns.
const COMES_BACK_NS: u32 = 60_000;

/// Of 100 compute nodes that came back, so many die again.
const DIES_AGAIN_PERCENT: u32 = 40;

/// It begins to be in danger within this time, in ns.
const DIES_AGAIN_NS: u32 = 200_000;

/// Compute nodes that join.
#[derive(Debug)]
pub struct Newcomers<'a> {
    /// The row that the one that joins has claimed, until that is taken note of.
    claimed: &'a Cell<Option<Member>>,
    /// When the next one joins.
    due_ns: Option<u64>,
    /// The one that has joined and has not opened the index yet.
    pub(in crate::verify) joined: Option<Membership>,
    /// The one that dies, and when at the earliest: while one of its WRITEs is under way.
    dies: Option<(ComputeNode, u64)>,
    /// Why one could not join.
    pub(in crate::verify) refused: Vec<String>,
}

impl<'a> Newcomers<'a> {
    /// None so far. The one that joins says in `claimed` which row it has.
    pub(in crate::verify) const fn new(claimed: &'a Cell<Option<Member>>) -> Self {
        Self { claimed, due_ns: None, joined: None, dies: None, refused: Vec::new() }
    }
}

impl<'a> Load<'a, '_> {
    /// The compute node that joins next: there is one life for each compute node that has lanes.
    const fn next_to_join(&self) -> ComputeNode {
        ComputeNode(self.opened.len() as u16)
    }

    /// Whether a compute node has opened the index.
    pub(super) const fn has_opened(&self, compute_node: ComputeNode) -> bool {
        compute_node.0 < self.next_to_join().0
    }

    /// A compute node died, or the row of one that died is free.
    pub(super) fn may_come_back(&mut self, swept: bool, now_ns: u64) {
        let is_drawn = self.draw.wide.has(WideOption::Rejoin) && (swept || self.wide.percent(AT_ONCE_PERCENT));
        if is_drawn && self.newcomers.due_ns.is_none() {
            self.newcomers.due_ns = Some(now_ns + u64::from(self.wide.below(COMES_BACK_NS)));
        }
    }

    /// Lets a compute node join whose time has come, and takes note of the row that it has claimed.
    pub(super) fn let_join(&mut self, driver: &mut Driver<'a, '_, Ended>) {
        let compute_node = self.next_to_join();
        if let Some(member) = self.newcomers.claimed.take() {
            // What the one before had begun in this row is over.
            let before = driver.world().tenant(member.row);
            if let Some(before) = before {
                self.history.close_all_of(before, driver.now_ns());
            }
            driver.world().joined(member, compute_node);
            if self.row_word(driver, member.row) != Some(member.word()) {
                // It was fenced before memory nodes knew whom to fence.
                driver.world().close_queue_pairs(compute_node);
            }
        }
        if let Some((compute_node, from_ns)) = self.newcomers.dies
            && from_ns <= driver.now_ns()
            && driver.world().is_writing(compute_node)
        {
            self.newcomers.dies = None;
            if !self.injected.dead.contains(&compute_node) {
                self.dies(driver, compute_node);
                self.injected.counts[FaultKind::Crash as usize] += 1;
            }
        }
        let is_due = self.newcomers.due_ns.is_some_and(|due_ns| due_ns <= driver.now_ns());
        if !is_due || self.left == 0 {
            return;
        }
        self.newcomers.due_ns = None;
        let at = LaneAt { compute_node, lane: 0 };
        let number = usize::from(compute_node.0);
        if number < self.lanes.len() && !self.injected.dead.contains(&compute_node) && *self.doing(at) == Doing::Nothing
        {
            *self.doing(at) = Doing::Join;
            let (subject, lane, claimed) = (self.subject, &self.lanes[number][0], self.newcomers.claimed);
            let join = async move { Ended::Joined(Box::new(subject.join(number, lane, claimed).await)) };
            driver.spawn(at, Box::pin(join));
        }
    }

    fn row_word(&self, driver: &mut Driver<'a, '_, Ended>, row: RowId) -> Option<RowWord> {
        let home = driver.world().memories().get(NodeId(0))?;
        Some(RowWord(home.host.word(self.row_at(row)?)))
    }

    /// A join ended.
    pub(super) fn joined(&mut self, compute_node: ComputeNode, result: Result<Membership, String>) {
        match result {
            Ok(membership) => {
                self.met[WideOption::Rejoin as usize] += u64::from(membership.member.incarnation > 1);
                self.newcomers.joined = Some(membership);
            }
            Err(why) => {
                self.newcomers.refused.push(format!("compute node {} cannot join: {why}", compute_node.0));
                self.noticed.push(compute_node);
            }
        }
    }

    /// The compute node that has joined last has opened the index.
    pub(in crate::verify) fn begin(&mut self, index: &'a dyn Opened, member: Member, now_ns: u64) {
        if self.wide.percent(DIES_AGAIN_PERCENT) && self.opened.len() > self.injected.dead.len() {
            self.newcomers.dies = Some((self.next_to_join(), now_ns + u64::from(self.wide.below(DIES_AGAIN_NS))));
        }
        self.opened.push(index);
        self.rows.push(member.row);
        let at = self.row_at(member.row);
        if let (Some(clocks), Some(at)) = (&mut self.clocks, at) {
            clocks.begin(index, at, now_ns);
        }
    }

    /// Where a row is, on memory node 0.
    fn row_at(&self, row: RowId) -> Option<u64> {
        self.subject.rows().get(usize::from(row.0.checked_sub(self.draw.rows_used_up + 1)?)).copied()
    }
}
