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

pub use super::progress::ProgressCounter;

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
    /// later: a load that sees a high word is followed by one that sees the low word set with it, or a later low word.
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

/// Why a heartbeat stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Stopped {
    /// Others fenced this compute node, or its row cannot be reached.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A lane has made no progress for a whole lease, with a lock that it holds, or with a flight, flush or fill: its
    /// thread is gone or stuck, or its memory node does not answer. Others may take over what the compute node has.
    #[error(
        "lane {lane} has made no progress for {beats} heartbeats, with a lock, or with log lines or pages under way"
    )]
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
mod tests;
