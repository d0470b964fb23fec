//! Leases: how a compute node shows that it lives, and how it learns that others fenced it. See
//! [`leases`](crate::manual::leases).

use crate::lane::Lane;
use crate::membership::rows;
use crate::memory::Participant;
use crate::memory::epochs::{Turn, Waits};
use crate::memory::rows as memory_rows;
use crate::memory::rows::RowError;
use crate::remote::NodeGeometry;
use crate::remote::row::{LEASE_NS_MAX, Member};
use crate::verbs::Request;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use thiserror::Error;

/// Heartbeats a lease must have room for: one may be lost and one late.
pub(crate) const HEARTBEATS_MIN: u64 = 3;

/// Looks at the pool's epoch for each heartbeat, at least.
const GLANCES_PER_HEARTBEAT: u64 = 8;

/// The longest time between two of them: 20 ms. Memory that was taken out of a tree is reused after two or three. 50
/// READs of 8 bytes a second and compute node are nothing to a memory node.
const GLANCE_NS_MAX: u64 = 20_000_000;

/// Why a lease is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Zero.
    #[error("a lease and its heartbeat must be longer than 0")]
    Zero,
    /// Too few heartbeats fit.
    #[error("a lease of {lease_ns} ns has room for {} heartbeats of {heartbeat_ns} ns; {HEARTBEATS_MIN} are needed", lease_ns / heartbeat_ns)]
    Short {
        /// The lease.
        lease_ns: u64,
        /// Between two heartbeats.
        heartbeat_ns: u64,
    },
    /// Longer than [`LEASE_NS_MAX`].
    #[error("a lease of {lease_ns} ns is longer than an hour")]
    Long {
        /// The lease.
        lease_ns: u64,
    },
}

/// How long a compute node may be without a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    lease_ns: u64,
    heartbeat_ns: u64,
}

impl LeaseConfig {
    /// Two seconds: for hosts of their own.
    pub const HARDWARE: Self = Self { lease_ns: 2_000_000_000, heartbeat_ns: 250_000_000 };

    /// Ten seconds: for virtual machines, which may be paused.
    pub const VIRTUAL: Self = Self { lease_ns: 10_000_000_000, heartbeat_ns: 1_250_000_000 };

    /// A lease of `lease_ns`, renewed every `heartbeat_ns`. Each compute node says its own in its row. A waiter takes
    /// the longer one.
    pub const fn new(lease_ns: u64, heartbeat_ns: u64) -> Result<Self, LeaseError> {
        if lease_ns == 0 || heartbeat_ns == 0 {
            return Err(LeaseError::Zero);
        }
        if lease_ns > LEASE_NS_MAX {
            return Err(LeaseError::Long { lease_ns });
        }
        if lease_ns / heartbeat_ns < HEARTBEATS_MIN {
            return Err(LeaseError::Short { lease_ns, heartbeat_ns });
        }
        Ok(Self { lease_ns, heartbeat_ns })
    }

    /// A lease of `lease_ns`, renewed eight times in it.
    pub const fn of(lease_ns: u64) -> Result<Self, LeaseError> {
        Self::new(lease_ns, lease_ns / 8)
    }

    /// How long others wait before they fence an unresponsive compute node, in ns.
    pub const fn lease_ns(self) -> u64 {
        self.lease_ns
    }

    /// Between two heartbeats, in ns.
    pub const fn heartbeat_ns(self) -> u64 {
        self.heartbeat_ns
    }

    /// Between two looks at the pool's epoch, in ns: an eighth of a heartbeat, or 20 ms if that is shorter.
    pub const fn glance_ns(self) -> u64 {
        let eighth = self.heartbeat_ns.div_ceil(GLANCES_PER_HEARTBEAT);
        if eighth < GLANCE_NS_MAX { eighth } else { GLANCE_NS_MAX }
    }
}

const GOOD: u8 = 0;
const FENCED: u8 = 1;

/// A time in microseconds, set by one thread and looked up by others. It has 64 bits, so it does not come round. It has
/// two words, since not every target has atomic words of 64 bits.
#[derive(Debug)]
struct Moment {
    high: AtomicU32,
    low: AtomicU32,
}

impl Moment {
    const fn zero() -> Self {
        Self { high: AtomicU32::new(0), low: AtomicU32::new(0) }
    }

    /// Sets the time. Times ascend.
    fn set(&self, us: u64) {
        self.low.store(us as u32, Ordering::Release);
        self.high.store((us >> 32) as u32, Ordering::Release);
    }

    /// The time that was set last, or that is being set; while the high word changes, perhaps an earlier one. It is never
    /// later: whoever sees a high word sees the low word that was set with it, or with a later one.
    fn get(&self) -> u64 {
        let high = self.high.load(Ordering::Acquire);
        u64::from(high) << 32 | u64::from(self.low.load(Ordering::Acquire))
    }
}

/// A compute node's view of its own lease, shared by its lanes and by the keeper of its heartbeat.
///
/// Time enters as data: microseconds since any instant, of one clock that does not come round. The keeper passes it to
/// [`Lease::tick`], before lanes are polled and before a heartbeat is posted. A compute node that never ticks never
/// notices that it is late. Fencing protects the others all the same.
///
/// A tick may be old: the thread that ticks may have been stopped. So it says nothing about answers from this machine's
/// memory, against which fencing cannot protect. A lane that gives such an answer looks at the clock itself
/// ([`Port::now_us`](crate::port::Port::now_us)), after it has read what it answers, and asks [`Lease::is_valid_at`].
#[derive(Debug)]
pub struct Lease {
    config: LeaseConfig,
    standing: AtomicU8,
    now_us: Moment,
    renewed_us: Moment,
}

impl Lease {
    /// A lease just begun, at time 0 of its clock.
    pub const fn new(config: LeaseConfig) -> Self {
        Self { config, standing: AtomicU8::new(GOOD), now_us: Moment::zero(), renewed_us: Moment::zero() }
    }

    /// Its configuration.
    pub const fn config(&self) -> LeaseConfig {
        self.config
    }

    /// Sets the time, in microseconds.
    #[inline]
    pub fn tick(&self, now_us: u64) {
        self.now_us.set(now_us);
    }

    /// The time that was set last.
    pub(crate) fn now_us(&self) -> u64 {
        self.now_us.get()
    }

    /// Notes that a heartbeat *posted* at `posted_us` completed.
    pub fn renewed(&self, posted_us: u64) {
        self.renewed_us.set(posted_us);
    }

    /// Notes that others have fenced this compute node. There is no way back: it joins as a new incarnation.
    pub fn fenced(&self) {
        self.standing.store(FENCED, Ordering::Relaxed);
    }

    /// Whether others have fenced this compute node.
    #[inline]
    pub fn is_fenced(&self) -> bool {
        self.standing.load(Ordering::Relaxed) == FENCED
    }

    /// Whether nobody had taken this compute node for dead at `now_us`, a time of the clock that ticks: it is not known
    /// to be fenced, and it was renewed within half a lease. The other half is for what clocks differ by.
    ///
    /// Nobody has waited a whole lease then, so nobody has its locks or its entries of an ownership table. A heartbeat
    /// that was posted after `now_us` proves as much: it found the row alive.
    ///
    /// While a renewal is being stored this may say no, once in 71 minutes for an instant. It never says yes too long.
    #[inline]
    pub fn is_valid_at(&self, now_us: u64) -> bool {
        let late_us = now_us.saturating_sub(self.renewed_us.get());
        late_us <= self.config.lease_ns / 2000 && !self.is_fenced()
    }

    /// Whether a WRITE may be posted: not fenced, and renewed within half a lease, as of the last tick.
    #[inline]
    pub fn may_write(&self) -> bool {
        self.is_valid_at(self.now_us())
    }
}

/// A lane's progress, as the keeper of the heartbeat sees it. Storage for a [`super::Recovery`]; one per lane.
#[derive(Debug, Default)]
pub struct ProgressCounter {
    /// 0: the lane holds no lock. Otherwise a number that changes with the next acquisition.
    holding: AtomicU32,
    /// What the keeper saw last, and for how many heartbeats it has not changed.
    seen: AtomicU32,
    unchanged: AtomicU32,
}

impl ProgressCounter {
    #[inline]
    pub(crate) fn note(&self, holding: u32) {
        self.holding.store(holding, Ordering::Relaxed);
    }

    /// Heartbeats for which the lane has been holding the same acquisition.
    fn beats_unchanged(&self) -> u32 {
        let holding = self.holding.load(Ordering::Relaxed);
        if holding == 0 || self.seen.swap(holding, Ordering::Relaxed) != holding {
            self.unchanged.store(0, Ordering::Relaxed);
            return 0;
        }
        self.unchanged.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Why a heartbeat stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Stopped {
    /// Others fenced this compute node, or its row cannot be reached.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A lane has held a lock for a whole lease: its thread is gone, or stuck. Others may take the lock over.
    #[error("lane {lane} has held a lock for {beats} heartbeats without progress")]
    Stuck {
        /// Which.
        lane: usize,
        /// For how long.
        beats: u32,
    },
}

/// Keeps a compute node's row alive, on a lane of its own, until the compute node is fenced or a lane is stuck. Runs
/// for ever.
///
/// A heartbeat whose outcome is not known (its queue pair failed) ends it, too. The caller makes the queue pair anew
/// and calls again with `counter` = the last one returned, plus 2.
///
/// With every heartbeat goes a turn of the epochs of `part`. In between the pool's epoch is READ every
/// [`LeaseConfig::glance_ns`]. A turn without a heartbeat follows if it has moved, if this compute node has a turn open
/// or wants one, or if its row could say another epoch than it does.
///
/// Round trips: one every [`LeaseConfig::heartbeat_ns`], a WRITE and two READs in one chain; one every
/// [`LeaseConfig::glance_ns`], a READ of 8 bytes: fifty a second by default. For each epoch that passes two chains more
/// of a WRITE and two READs; if this compute node waits for it, a CAS and one round trip for eight rows. `scratch`: 512
/// bytes.
///
/// **Time.** A heartbeat is due when the completions, those of pauses included, add up to its time; so the time that
/// glances take does not delay it. It never comes before at least one pause. How long others were unresponsive is
/// counted in pauses as they were asked for, and no pause is shorter: a compute node that was stopped itself does not
/// take that for the others' silence.
pub async fn keep(
    lane: &Lane<'_>,
    home: &NodeGeometry,
    (member, part): (Member, Participant<'_>),
    lease: &Lease,
    progress_counters: &[ProgressCounter],
    counter: u64,
    scratch: usize,
) -> (u64, Stopped) {
    let config = lease.config();
    let beats_max = u32::try_from(config.lease_ns / config.heartbeat_ns).unwrap_or(u32::MAX);
    let mut counter = counter;
    let mut paused_ns = 0;
    loop {
        for (number, progress_counter) in progress_counters.iter().enumerate() {
            let beats = progress_counter.beats_unchanged();
            if beats > beats_max {
                return (counter, Stopped::Stuck { lane: number, beats });
            }
        }
        counter += 1;
        // The others' lease begins when the WRITE takes effect, so this compute node's begins no later than its post.
        let posted_us = lease.now_us();
        let posted_ns = lane.port().elapsed_ns();
        // A turn begins before the pool's epoch is READ.
        let number = part.epochs.begin();
        let epoch = part.epochs.publishable(part.pins);
        let beat = match rows::heartbeat(lane, home, member, counter, u64::from(epoch), scratch).await {
            Ok(pool_word) => {
                lease.renewed(posted_us);
                let waits = Waits { lease_ns: config.lease_ns, since_ns: paused_ns, for_all: true };
                let ended = part.epochs.end(lane, home, member, Turn { number, pool_word, waits }, scratch).await;
                match ended {
                    Ok(()) => glance(lane, home, (member, part), config, (posted_ns, epoch), scratch).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        match beat {
            Ok(since_ns) => paused_ns = since_ns,
            Err(error) => {
                if matches!(error, RowError::Fenced { .. }) {
                    lease.fenced();
                }
                return (counter, error.into());
            }
        }
    }
}

/// Looks at the pool's epoch until the next heartbeat is due. The last one was posted at `posted_ns` of the lane's time
/// and said `told`. Returns how long it has paused since the last turn, in ns.
async fn glance(
    lane: &Lane<'_>,
    home: &NodeGeometry,
    (member, part): (Member, Participant<'_>),
    config: LeaseConfig,
    (posted_ns, told): (u64, u32),
    scratch: usize,
) -> Result<u64, RowError> {
    let (mut told, mut since_ns) = (told, 0);
    loop {
        let spent_ns = lane.port().elapsed_ns().saturating_sub(posted_ns);
        let left_ns = config.heartbeat_ns.saturating_sub(spent_ns);
        let pause_ns = left_ns.clamp(1, config.glance_ns());
        lane.port().call(Request::pause(pause_ns)).await?;
        since_ns += pause_ns;
        if left_ns <= pause_ns {
            return Ok(since_ns);
        }
        if part.epochs.is_due(told, part.pins)
            || part.epochs.is_news(memory_rows::read_epoch(lane, home, scratch).await?)
        {
            let waits = Waits { lease_ns: config.lease_ns, since_ns, for_all: false };
            told = part.turn_of(lane, home, member, waits, scratch).await?;
            since_ns = 0;
        }
    }
}

#[cfg(test)]
mod tests {
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
            let bytes = Row::of(member, &Joiner { token: 1, lanes: 1, host: "here" });
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
    fn a_lane_that_holds_the_same_lock_heartbeat_after_heartbeat_is_noticed() {
        let progress_counter = ProgressCounter::default();
        assert_eq!(progress_counter.beats_unchanged(), 0);
        progress_counter.note(5);
        assert_eq!(
            [
                progress_counter.beats_unchanged(),
                progress_counter.beats_unchanged(),
                progress_counter.beats_unchanged()
            ],
            [0, 1, 2]
        );
        progress_counter.note(7);
        assert_eq!([progress_counter.beats_unchanged(), progress_counter.beats_unchanged()], [0, 1]);
        progress_counter.note(0);
        assert_eq!(progress_counter.beats_unchanged(), 0);
    }
}
