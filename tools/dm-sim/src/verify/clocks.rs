//! Lease clocks that tick, heartbeats that come, and compute nodes that are silent for a while though they live: histories
//! with [`WideOption::LeaseClocks`](super::WideOption). Where keys have owners the clocks tick and the heartbeats come in every
//! history with recovery: such an index asks whether its lease is valid before it answers.
//!
//! A silent compute node goes on with its operations. From half a lease on it posts no WRITEs, by its own clock, and its
//! operations fail as fenced. A lane that waits for one of its locks for a whole lease fences it. A compute node whose heartbeats
//! came in time must not be fenced, however long its requests take: [`Clocks::wronged`].

use super::subject::Opened;
use crate::compute_node::ComputeNode;
use crate::memory::Memories;
use crate::rng::Rng;
use dm_core::remote::row::{Row, RowState, RowWord};
use dm_core::verbs::NodeId;
use std::cell::Cell;
use std::mem::offset_of;

/// Of 100 compute nodes, so many are silent once.
const SILENT_PERCENT: u32 = 40;

/// A silence begins within this time, in ns: histories are short.
const BEGINS_NS: u32 = 1_500_000;

thread_local! {
    /// Lanes ask a function for the time.
    static NOW_US: Cell<u64> = const { Cell::new(0) };
}

/// The time of the history that this thread runs, in microseconds; without clocks that tick it stays 0.
pub(super) fn now_us() -> u64 {
    NOW_US.get()
}

/// A history begins.
pub(super) fn begin() {
    show(0);
}

/// It is `now_us`.
pub(super) fn show(now_us: u64) {
    NOW_US.set(now_us);
}

/// Raises the heartbeat of a row; `false`: it is not LIVE.
fn beat(memories: &mut Memories, row: Option<&u64>) -> bool {
    let Some((row, memory)) = row.zip(memories.get_mut(NodeId(0))) else { return false };
    if RowWord(memory.host.word(*row)).state() != Some(RowState::Live) {
        return false;
    }
    let at = row + offset_of!(Row, heartbeat) as u64;
    let beats = memory.host.word(at);
    memory.host.set_word(at, beats.wrapping_add(1));
    true
}

/// The clocks of one history's compute nodes.
pub(super) struct Clocks<'a> {
    opened: Vec<&'a dyn Opened>,
    /// Where the rows of these compute nodes are, on memory node 0.
    rows: Vec<u64>,
    /// When the next heartbeat of each is due.
    next_ns: Vec<u64>,
    /// When each begins to be silent, and for how long.
    silences: Vec<Option<(u64, u64)>>,
}

impl<'a> Clocks<'a> {
    /// Clocks that show `now_ns`. `silent`: some compute nodes are silent once.
    pub(super) fn new(seed: u64, opened: &[&'a dyn Opened], rows: Vec<u64>, silent: bool, now_ns: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5eed_0022);
        let mut silence = |index: &&dyn Opened| {
            let lease_ns = index.lease()?.config().lease_ns();
            let for_ns = lease_ns / 4 * u64::from(2 + rng.below(11));
            let from_ns = u64::from(rng.below(BEGINS_NS));
            (rng.percent(SILENT_PERCENT) && silent).then_some((from_ns, for_ns))
        };
        let mut silences: Vec<_> = opened.iter().map(&mut silence).collect();
        // One is never silent, so that somebody is left.
        if let Some(last) = silences.last_mut() {
            *last = None;
        }
        Self { opened: opened.to_vec(), rows, next_ns: vec![now_ns; opened.len()], silences }
    }

    /// A compute node that is never silent begins, with a row there on memory node 0.
    pub(super) fn begin(&mut self, index: &'a dyn Opened, row: u64, now_ns: u64) {
        self.rows.truncate(self.opened.len());
        self.rows.push(row);
        self.opened.push(index);
        self.next_ns.push(now_ns);
        self.silences.push(None);
    }

    /// Lets time pass until `now_ns`, when the next thing happens: nobody can look in between, so heartbeats that come in
    /// between come in time.
    pub(super) fn tick(&mut self, now_ns: u64, memories: &mut Memories, dead: &[ComputeNode]) {
        show(now_ns / 1000);
        for (number, index) in self.opened.iter().enumerate() {
            let compute_node = ComputeNode(number as u16);
            let Some(lease) = index.lease().filter(|_| !dead.contains(&compute_node)) else { continue };
            while self.next_ns[number] <= now_ns {
                let at_ns = self.next_ns[number];
                self.next_ns[number] += lease.config().heartbeat_ns().max(1);
                if self.is_silent(compute_node, at_ns) {
                    continue;
                }
                if beat(memories, self.rows.get(number)) {
                    lease.renewed(at_ns / 1000);
                } else {
                    lease.fenced();
                }
            }
            lease.tick(now_ns / 1000);
        }
    }

    /// Whether heartbeats of this compute node do not come at this time.
    pub(super) fn is_silent(&self, compute_node: ComputeNode, at_ns: u64) -> bool {
        let silence = self.silences.get(usize::from(compute_node.0)).copied().flatten();
        silence.is_some_and(|(from_ns, for_ns)| (from_ns..from_ns + for_ns).contains(&at_ns))
    }

    /// Whether an operation of this compute node failed as fenced because of its own clock, at `now_ns`: it may go on
    /// when its heartbeats come again.
    pub(super) fn has_lapsed(&self, compute_node: ComputeNode) -> bool {
        let number = usize::from(compute_node.0);
        self.silences[number].is_some() && self.opened[number].lease().is_some_and(|lease| !lease.is_fenced())
    }

    /// Of the compute nodes that others have fenced, those that were never silent for a lease before `now_ns`.
    pub(super) fn wronged(&self, fenced: ComputeNode, now_ns: u64) -> bool {
        let number = usize::from(fenced.0);
        let Some(lease) = self.opened.get(number).and_then(|index| index.lease()) else { return false };
        // The last heartbeat may have come just before.
        let due_ns = lease.config().lease_ns() - lease.config().heartbeat_ns();
        self.silences[number].is_none_or(|(from_ns, for_ns)| for_ns.min(now_ns.saturating_sub(from_ns)) < due_ns)
    }

    /// All is quiet: nobody is silent any more, and the clocks stand still.
    pub(super) fn finish(&self, now_ns: u64, dead: &[ComputeNode]) {
        for (number, index) in self.opened.iter().enumerate() {
            if let Some(lease) = index.lease().filter(|_| !dead.contains(&ComputeNode(number as u16))) {
                lease.tick(now_ns / 1000);
                lease.renewed(now_ns / 1000);
            }
        }
    }
}
