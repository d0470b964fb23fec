//! Leases and their keepers, over rows in an array.

extern crate std;
use super::*;
use crate::machine::{Step, poll_once};
use crate::memory::{Epochs, Pin};
use crate::remote::SCRATCH_BYTES;
use crate::remote::lock_word::RowId;
use crate::remote::row::{Joiner, Row};
use crate::remote::superblock::small_for_tests;
use crate::verbs::{Completion, Flags, LaneId, Status, Verb};
use core::cell::Cell;
use std::boxed::Box;
use std::vec::Vec;
use zerocopy::IntoBytes;

/// A second, eight heartbeats, glances of 15.6 ms.
fn config() -> LeaseConfig {
    LeaseConfig::of(1_000_000_000).unwrap()
}

/// A memory node's rows, and keepers that run in turn.
struct Rows {
    region: Vec<u8>,
    home: NodeGeometry,
    now_ns: u64,
}

/// A compute node's part, kept for as long as the test runs.
struct Node {
    member: Member,
    epochs: Epochs,
    pins: [Pin; 1],
    lease: Lease,
    /// How much longer than asked for it sleeps, in percent, and once more than that, in ns.
    oversleeps: (u64, Cell<u64>),
}

impl Node {
    fn part(&self) -> Participant<'_> {
        Participant { epochs: &self.epochs, pins: &self.pins }
    }
}

impl Rows {
    fn new() -> Self {
        let home = small_for_tests();
        Self { region: std::vec![0; home.region_bytes as usize], home, now_ns: 0 }
    }

    fn join(&mut self, row: u16) -> Node {
        let member = Member { row: RowId(row), incarnation: 1, nonce: 1 };
        let bytes = Row::of(member, &Joiner { token: 1, lanes: 1, memory_nodes: 1, host: "here" });
        let at = self.home.row_offset(member.row) as usize;
        self.region[at..at + Row::BYTES].copy_from_slice(bytes.as_bytes());
        let (epochs, pins) = (Epochs::new(), [Pin::default()]);
        Node { member, epochs, pins, lease: Lease::new(config()), oversleeps: (0, Cell::new(0)) }
    }

    fn word(&self, offset: u64) -> u64 {
        u64::from_le_bytes(self.region[offset as usize..][..8].try_into().unwrap())
    }

    fn heartbeat(&self, node: &Node) -> u64 {
        self.word(self.home.row_offset(node.member.row) + 8)
    }

    fn pool_epoch(&self) -> u64 {
        self.word(crate::remote::row::epoch_offset(&self.home))
    }

    fn execute(&mut self, request: &Request, scratch: &mut [u8]) -> u64 {
        let (at, local, bytes) = (request.offset as usize, request.local as usize, request.bytes as usize);
        match request.verb {
            Verb::Read => scratch[local..local + bytes].copy_from_slice(&self.region[at..at + bytes]),
            Verb::Write => {
                assert!(request.flags.contains(Flags::INLINE));
                self.region[at..at + bytes].copy_from_slice(&request.inline_payload()[..bytes]);
            }
            Verb::Cas => {
                let old = self.word(request.offset);
                if old == request.operands[0] {
                    self.region[at..at + 8].copy_from_slice(&request.operands[1].to_le_bytes());
                }
                return old;
            }
            verb => unreachable!("{verb:?}"),
        }
        0
    }

    /// Executes what a lane has submitted.
    fn answer(&mut self, lane: &Lane<'_>) {
        let port = lane.port();
        let requests: Vec<_> = port.requests().to_vec();
        let scratch = port.begin().unwrap();
        let mut elapsed_ns = 0;
        for (position, request) in requests.iter().enumerate() {
            if request.verb == Verb::Pause {
                elapsed_ns += request.operands[0];
                continue;
            }
            let value = self.execute(request, scratch);
            port.complete(position, Completion { status: Status::Ok, value, ..Completion::NOTHING });
        }
        port.finish(scratch, elapsed_ns);
    }

    /// Keeps the leases of `nodes` until `until` is true, at most for `time_ns`; returns how many requests each has
    /// sent.
    fn keep(&mut self, nodes: &[&Node], time_ns: u64, mut until: impl FnMut(&Self) -> bool) -> Vec<usize> {
        let home = self.home;
        let mut room: Vec<_> = nodes.iter().map(|_| std::vec![0; SCRATCH_BYTES]).collect();
        let lanes: Vec<_> = room.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
        let mut keepers: Vec<_> = nodes
            .iter()
            .zip(&lanes)
            .map(|(node, lane)| {
                let counter = self.heartbeat(node);
                Box::pin(keep(lane, &home, (node.member, node.part()), &node.lease, &[], counter, 0))
            })
            .collect();
        let mut awake_ns = std::vec![self.now_ns; nodes.len()];
        let mut sent = std::vec![0; nodes.len()];
        let end_ns = self.now_ns + time_ns;
        while !until(self) {
            let at = (0..nodes.len()).min_by_key(|at| awake_ns[*at]).unwrap();
            if awake_ns[at] > end_ns {
                break;
            }
            self.now_ns = self.now_ns.max(awake_ns[at]);
            nodes[at].lease.tick(self.now_ns / 1000);
            let port = lanes[at].port();
            loop {
                if let Step::Done((_, why)) = poll_once(port, keepers[at].as_mut()) {
                    panic!("{why}");
                }
                let requests: Vec<_> = port.requests().to_vec();
                let scratch = port.begin().unwrap();
                if let [Request { verb: Verb::Pause, operands: [ns, ..], .. }] = requests[..] {
                    let (percent, once) = &nodes[at].oversleeps;
                    let slept_ns = ns + ns * percent / 100 + once.take();
                    awake_ns[at] = self.now_ns + slept_ns;
                    port.finish(scratch, slept_ns);
                    break;
                }
                sent[at] += requests.len();
                for (position, request) in requests.iter().enumerate() {
                    let value = self.execute(request, scratch);
                    port.complete(position, Completion { status: Status::Ok, value, ..Completion::NOTHING });
                }
                port.finish(scratch, 0);
            }
        }
        sent
    }
}

#[test]
fn an_epoch_passes_between_two_heartbeats() {
    let mut pool = Rows::new();
    let (here, there) = (pool.join(1), pool.join(5));
    let glance_ns = config().glance_ns();
    pool.keep(&[&here, &there], 3 * glance_ns, |_| false);
    let beats = (pool.heartbeat(&here), pool.heartbeat(&there));
    let entered = here.epochs.turns();
    here.epochs.want();
    pool.keep(&[&here, &there], 4 * glance_ns, |_| here.epochs.is_over(entered));
    assert!(here.epochs.is_over(entered));
    assert_eq!(pool.pool_epoch(), 1);
    let after = (pool.heartbeat(&here), pool.heartbeat(&there));
    assert_eq!(after, (beats.0 + 1, beats.1 + 1), "the one that each keeper begins with");
}

#[test]
fn an_operation_holds_the_epoch_up_and_no_longer() {
    let mut pool = Rows::new();
    let (here, there) = (pool.join(1), pool.join(5));
    pool.keep(&[&here, &there], 1, |_| false);
    let mut scratch = [0; 8];
    let lane = Lane::new(LaneId(0), &mut scratch);
    there.part().enter(&lane);
    let entered = here.epochs.turns();
    here.epochs.want();
    pool.keep(&[&here, &there], 20 * config().heartbeat_ns(), |_| here.epochs.is_over(entered));
    assert!(!here.epochs.is_over(entered), "it began before");
    here.epochs.is_short();
    assert_eq!(here.epochs.unresponsive_and_short(), None, "it beats");
    there.part().leave(&lane);
    pool.keep(&[&here, &there], 4 * config().glance_ns(), |_| here.epochs.is_over(entered));
    assert!(here.epochs.is_over(entered));
}

#[test]
fn where_nobody_waits_a_glance_is_one_small_read() {
    let mut pool = Rows::new();
    let node = pool.join(1);
    let beats = 10;
    let sent = pool.keep(&[&node], beats * config().heartbeat_ns() - 1, |_| false);
    assert_eq!(pool.heartbeat(&node), beats);
    // A heartbeat takes three requests, and the place of one of eight glances. The first glance READs the closed
    // chunks.
    assert_eq!(sent, [10 * (3 + 7) + 1]);
    assert_eq!((LeaseConfig::HARDWARE.glance_ns(), LeaseConfig::VIRTUAL.glance_ns()), (20_000_000, 20_000_000));
    assert_eq!(LeaseConfig::new(8, 1).unwrap().glance_ns(), 1);
}

#[test]
fn heartbeats_keep_their_time_though_pauses_take_longer() {
    let mut pool = Rows::new();
    let mut node = pool.join(1);
    node.oversleeps.0 = 50;
    pool.keep(&[&node], 100 * config().heartbeat_ns(), |_| false);
    let beats = pool.heartbeat(&node);
    assert!((90..=101).contains(&beats), "{beats} in the time of a hundred");
}

#[test]
fn a_node_that_misses_its_lease_is_told_and_one_that_overslept_is_not_blamed_on_others() {
    let mut pool = Rows::new();
    let (here, there) = (pool.join(1), pool.join(5));
    pool.keep(&[&here, &there], 1, |_| false);
    here.epochs.want();
    let glance_ns = config().glance_ns();
    pool.keep(&[&here], 10 * glance_ns, |_| false);
    // Both were stopped; this one continues first.
    here.oversleeps.1.set(100 * config().lease_ns());
    pool.keep(&[&here], 101 * config().lease_ns(), |pool| pool.now_ns > 100 * config().lease_ns());
    here.epochs.is_short();
    assert_eq!(here.epochs.unresponsive_and_short(), None);
    pool.keep(&[&here], config().lease_ns() + 2 * config().heartbeat_ns(), |_| false);
    here.epochs.is_short();
    assert_eq!(here.epochs.unresponsive_and_short(), Some((there.member.row, there.member.word())));
}

#[test]
fn absurd_configurations_are_refused() {
    assert_eq!(LeaseConfig::of(0), Err(LeaseError::Zero));
    assert_eq!(LeaseConfig::of(7), Err(LeaseError::Zero), "no time for a heartbeat");
    assert_eq!(LeaseConfig::new(1000, 334), Err(LeaseError::Short { lease_ns: 1000, heartbeat_ns: 334 }));
    assert!(LeaseConfig::new(1000, 333).is_ok());
    assert!(LeaseConfig::of(LEASE_NS_MAX).is_ok());
    assert_eq!(LeaseConfig::of(LEASE_NS_MAX + 1), Err(LeaseError::Long { lease_ns: LEASE_NS_MAX + 1 }));
}

#[test]
fn a_node_that_could_not_renew_for_half_a_lease_writes_no_more_until_it_could() {
    let lease = Lease::new(LeaseConfig::of(2_000_000).unwrap());
    let start = u64::from(u32::MAX) - 400;
    lease.tick(start);
    lease.renewed(start);
    lease.tick(start + 1000);
    assert!(lease.may_write());
    lease.tick(start + 1001);
    assert!(!lease.may_write() && !lease.is_fenced());
    lease.renewed(start + 1001);
    assert!(lease.may_write());
    lease.fenced();
    assert!(!lease.may_write() && !lease.is_valid_at(start + 1001));
}

#[test]
fn a_node_that_was_stopped_for_any_time_has_no_valid_lease() {
    const TURN: u64 = 1 << 32;
    let lease = Lease::new(LeaseConfig::HARDWARE);
    let half_us = LeaseConfig::HARDWARE.lease_ns() / 2000;
    for renewed in [0, 1, TURN / 2, TURN - 1, TURN, 5 * TURN + 77] {
        lease.renewed(renewed);
        for paused in [0, 1, half_us - 1, half_us] {
            assert!(lease.is_valid_at(renewed + paused), "{renewed} + {paused}");
        }
        // Up to two turns of 32 bits, in steps of which none is a part of a turn; and the ends of turns.
        let steps = (0..).map(|step| half_us + 1 + step * 7_654_321).take_while(|paused| *paused <= 2 * TURN);
        let ends = [TURN / 2, TURN, TURN + TURN / 2, 2 * TURN];
        for paused in steps.chain(ends.into_iter().flat_map(|end| end - 1..=end + 1)) {
            assert!(!lease.is_valid_at(renewed + paused), "{renewed} + {paused}");
            lease.tick(renewed + paused);
            assert!(!lease.may_write());
        }
        // The clock was read before the heartbeat was posted.
        assert!(lease.is_valid_at(renewed.saturating_sub(1)));
    }
}

#[test]
fn a_time_that_is_half_set_is_not_later_than_it_will_be() {
    const TURN: u64 = 1 << 32;
    let times = [0, 5, TURN - 1, TURN, TURN + 3, 3 * TURN + 9, 4 * TURN - 1, 4 * TURN];
    // A reader loads the high word at one instant and the low word at a later one.
    let mut words = std::vec![(0, 0)];
    for us in times {
        let high = words.last().unwrap().0;
        words.extend([(high, us % TURN), (us / TURN, us % TURN)]);
    }
    let moment = Moment::zero();
    for first in 0..words.len() {
        for second in first..words.len() {
            moment.high.store(words[first].0 as u32, Ordering::Relaxed);
            moment.low.store(words[second].1 as u32, Ordering::Relaxed);
            // Two pairs of words for each time; the first of them is while it is being set.
            let set = second.div_ceil(2).checked_sub(1).map_or(0, |number| times[number]);
            assert!(moment.get() <= set, "{} instead of {set} or before", moment.get());
            if first == second && second % 2 == 0 {
                assert_eq!(moment.get(), set);
            }
        }
    }
}

#[test]
fn a_heartbeat_ends_when_a_flush_is_overdue() {
    let mut pool = Rows::new();
    let node = pool.join(1);
    let home = pool.home;
    let progress_counters = [ProgressCounter::default(), ProgressCounter::default()];
    progress_counters[1].begin();
    let mut scratch = std::vec![0; SCRATCH_BYTES];
    let lane = Lane::new(LaneId(0), &mut scratch);
    let mut keeper = Box::pin(keep(&lane, &home, (node.member, node.part()), &node.lease, &progress_counters, 0, 0));
    let (counter, why) = loop {
        match poll_once(lane.port(), keeper.as_mut()) {
            Step::Done(ended) => break ended,
            _ => pool.answer(&lane),
        }
    };
    assert_eq!((counter, why), (9, Stopped::Stuck { lane: 1, beats: 9 }));
}
