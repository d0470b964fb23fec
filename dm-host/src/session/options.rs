//! How a session works.

use super::OpenError;
use crate::assembly::Spending;
use crate::compute_node::Membership;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

/// More threads than any machine of today runs at once.
const WORKERS_MAX: usize = 1024;
/// Most lanes of one worker: each has scratch of its own.
const LANES_PER_WORKER_MAX: usize = 1024;
/// Most slots of one queue: each has room for two keys and two values.
const QUEUE_SLOTS_MAX: usize = 1 << 16;

/// How a session works.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Worker threads, 1..=1024.
    pub workers: usize,
    /// Operations each worker has in flight, 1..=1024.
    pub lanes_per_worker: usize,
    /// Operations that may be queued for each worker, including running ones and results not yet fetched: 1..=65,536.
    pub queue_slots: usize,
    /// How long a waiting thread, or an idle worker, spins before it sleeps. Spinning costs processor time and saves a
    /// wake-up, which takes several microseconds. Zero where processors are scarce.
    pub spin: Duration,
    /// What the session spends on the index, and how it runs it. The session sets the number of lanes.
    pub spending: Spending,
    /// How the session takes part in the pool: its lease, and whether others can recover its locks when it dies.
    pub membership: Membership,
    /// Where the session serves its statistics for Prometheus while it is open; port 0: any free port. `None`: nowhere.
    pub metrics: Option<SocketAddr>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers: 1,
            lanes_per_worker: 8,
            queue_slots: 256,
            // About what it costs to sleep and be woken. On one processor no other thread can make progress while this
            // one spins.
            spin: if processors > 1 { Duration::from_micros(10) } else { Duration::ZERO },
            spending: Spending::default(),
            membership: Membership::default(),
            metrics: None,
        }
    }
}

impl SessionOptions {
    pub(super) fn check(&self) -> Result<(), OpenError> {
        for (option, given, max) in [
            ("workers", self.workers, WORKERS_MAX),
            ("lanes per worker", self.lanes_per_worker, LANES_PER_WORKER_MAX),
            ("queue slots", self.queue_slots, QUEUE_SLOTS_MAX),
            ("lanes of all workers", self.workers.saturating_mul(self.lanes_per_worker), usize::from(u16::MAX) - 2),
        ] {
            if !(1..=max).contains(&given) {
                return Err(OpenError::Option { option, given, min: 1, max });
            }
        }
        Ok(())
    }
}
