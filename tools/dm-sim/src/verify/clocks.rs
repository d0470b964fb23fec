//! Lease clocks that tick, and heartbeats that come in time, however long requests take: for indexes that ask whether their
//! lease is valid before they answer, and that look whether the heartbeats of others come.
//!
//! A compute node whose heartbeats came must not be fenced: [`Clocks::wronged`].

use super::subject::Opened;
use crate::compute_node::ComputeNode;
use crate::memory::Memories;
use std::cell::Cell;

/// Raises the heartbeat of a compute node's row; `false`: the row is not LIVE.
pub type Beat<'a> = &'a dyn Fn(&mut Memories, ComputeNode) -> bool;

thread_local! {
    /// The time of the history that this thread runs, in microseconds.
    static NOW_US: Cell<u64> = const { Cell::new(0) };
}

/// The clock of lanes: see [`dm_core::port::Port::set_clock`]. It stands where no [`Clocks`] sets it.
pub(super) fn now_us() -> u64 {
    NOW_US.get()
}

/// The clocks of one history's compute nodes. All show the same time.
pub(super) struct Clocks<'a> {
    opened: &'a [&'a dyn Opened],
    beat: Beat<'a>,
    /// When the next heartbeat of each is due.
    next_ns: Vec<u64>,
}

impl<'a> Clocks<'a> {
    /// Clocks that show `now_ns`, if the indexes ask for the time, and take part in recovery.
    pub(super) fn new(opened: &'a [&'a dyn Opened], beat: Beat<'a>, now_ns: u64) -> Option<Self> {
        NOW_US.set(now_ns / 1000);
        let needed = opened.first().is_some_and(|index| index.has_owners() && index.lease().is_some());
        needed.then(|| Self { opened, beat, next_ns: vec![now_ns; opened.len()] })
    }

    /// Lets time pass until `now_ns`, when the next thing happens. Nobody can look in between, so heartbeats that are due in
    /// between come now.
    pub(super) fn tick(&mut self, now_ns: u64, memories: &mut Memories, dead: &[ComputeNode]) {
        NOW_US.set(now_ns / 1000);
        for (number, index) in self.opened.iter().enumerate() {
            let compute_node = ComputeNode(number as u16);
            let Some(lease) = index.lease().filter(|_| !dead.contains(&compute_node)) else { continue };
            while self.next_ns[number] <= now_ns {
                let at_ns = self.next_ns[number];
                self.next_ns[number] += lease.config().heartbeat_ns().max(1);
                if (self.beat)(memories, compute_node) {
                    lease.renewed(at_ns / 1000);
                } else {
                    lease.fenced();
                }
            }
            lease.tick(now_ns / 1000);
        }
    }

    /// Compute nodes that live, and that others have fenced.
    pub(super) fn wronged(&self, dead: &[ComputeNode]) -> Vec<ComputeNode> {
        let all = self.opened.iter().zip(0..).map(|(index, number)| (index, ComputeNode(number)));
        let fenced = all.filter(|(index, number)| {
            index.lease().is_some_and(dm_core::membership::lease::Lease::is_fenced) && !dead.contains(number)
        });
        fenced.map(|(_, number)| number).collect()
    }
}
