//! The keeper of a compute node: a thread that renews the node's lease, and learns whether others have fenced the node.
//!
//! The keeper drives [`lease::keep`], which never ends by itself, over a fabric of its own, and tells the lease the
//! time. When the heartbeat ends - the compute node was fenced, a lane is stuck in a lock, or memory node 0 is down -
//! the keeper goes on telling the time, so that every lane notices that the lease was not renewed.

use crate::clock::lease_us;
use crate::fabric::any::AnyFabric;
use crate::pool::{Pool, PoolError};
use dm_core::fabric::Fabric;
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::membership::lease::{self, Lease, LeaseConfig, ProgressCounter, Stopped};
use dm_core::memory::{Epochs, Participant, Pin};
use dm_core::port::State;
use dm_core::remote::SCRATCH_BYTES;
use dm_core::remote::row::Member;
use dm_core::verbs::{LaneId, Verb};
use procfs::{CpuInfo, Current as _};
use std::pin::pin;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Longest time between two ticks of the lease: half a lease is many of these. The keeper looks at the pool's epoch at
/// most this often: [`LeaseConfig::glance_ns`].
const TICK_MAX: Duration = Duration::from_millis(20);

/// The lease of this machine unless the user sets another: ten seconds in a virtual machine, which may be paused;
/// otherwise two.
pub fn terms_here() -> LeaseConfig {
    static VIRTUAL: OnceLock<bool> = OnceLock::new();
    let is_virtual = VIRTUAL.get_or_init(|| {
        // If the processor cannot be identified, this may be a virtual machine.
        let Ok(processors) = CpuInfo::current() else { return true };
        processors.flags(0).is_none_or(|flags| flags.contains(&"hypervisor"))
    });
    if *is_virtual { LeaseConfig::VIRTUAL } else { LeaseConfig::HARDWARE }
}

/// A running keeper. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Keeper {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Keeper {
    /// Keeps `lease` for `member`. The lanes show in `progress_counters` that they make progress, and in the pins since
    /// when.
    pub(crate) fn start(
        pool: &Arc<Pool>,
        member: Member,
        lease: Arc<Lease>,
        progress_counters: Arc<[ProgressCounter]>,
        (epochs, pins): (Arc<Epochs>, Arc<[Pin]>),
    ) -> Result<Self, PoolError> {
        let fabric = pool.fabric()?;
        let pool = Arc::clone(pool);
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("dm-keeper".to_owned())
            .spawn(move || {
                let part = Participant { epochs: &epochs, pins: &pins };
                run(&pool, fabric, (member, part), &lease, &progress_counters, &stopped);
            })
            .map_err(PoolError::Thread)?;
        Ok(Self { thread: Some((stop, thread)) })
    }

    /// Ends the thread and waits for that: no heartbeat is posted afterwards.
    pub(crate) fn stop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            if thread.join().is_err() {
                tracing::error!("the keeper of a compute node panicked");
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(
    pool: &Pool,
    fabric: AnyFabric,
    who: (Member, Participant<'_>),
    lease: &Lease,
    progress_counters: &[ProgressCounter],
    stopped: &Receiver<()>,
) {
    let mut scratch = vec![0; SCRATCH_BYTES];
    let lane = Lane::new(LaneId(0), &mut scratch);
    let mut time = Time { tick: tick(lease.config()), lease, stopped };
    let ended = keep(pool, fabric, &lane, who, progress_counters, &mut time);
    let Some(why) = ended else { return };
    tracing::warn!("the heartbeat of compute-node row {} ended: {why}", who.0.row.0);
    while time.wait(time.tick) {}
}

fn tick(terms: LeaseConfig) -> Duration {
    Duration::from_nanos(terms.heartbeat_ns() / 2).min(TICK_MAX)
}

/// The keeper's clock.
struct Time<'k> {
    tick: Duration,
    lease: &'k Lease,
    stopped: &'k Receiver<()>,
}

impl Time<'_> {
    fn tell(&self) {
        self.lease.tick(lease_us());
    }

    /// Sleeps that long, telling the lease the time meanwhile. `false`: the keeper should end.
    fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            self.tell();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            if self.stopped.recv_timeout(left.min(self.tick)) != Err(RecvTimeoutError::Timeout) {
                return false;
            }
        }
    }
}

/// Sends heartbeats until they end, and returns why; `None`: the keeper was told to end.
fn keep(
    pool: &Pool,
    mut fabric: AnyFabric,
    lane: &Lane<'_>,
    who: (Member, Participant<'_>),
    progress_counters: &[ProgressCounter],
    time: &mut Time<'_>,
) -> Option<Stopped> {
    let lanes = std::slice::from_ref(lane);
    let port = lane.port();
    let mut future = pin!(lease::keep(lane, pool.home(), who, time.lease, progress_counters, 0, 0));
    port.start();
    loop {
        time.tell();
        match poll_once(port, future.as_mut()) {
            Step::Done((_, why)) => return Some(why),
            Step::Requests | Step::Waiting => {}
        }
        let pause = port.requests().iter().find(|request| request.verb == Verb::Pause).map(|pause| pause.operands[0]);
        if let Some(ns) = pause {
            let asleep = Instant::now();
            if !time.wait(Duration::from_nanos(ns)) {
                return None;
            }
            // The true duration, so that many short pauses do not delay the heartbeat.
            let slept_ns = u64::try_from(asleep.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if let Some(scratch) = port.begin() {
                port.finish(scratch, slept_ns);
            }
            continue;
        }
        fabric.post(lanes, 0);
        while port.state() != State::Completed {
            fabric.poll(lanes, &mut |_| {});
            // Over a network this may take until the peer times out.
            time.tell();
        }
    }
}
