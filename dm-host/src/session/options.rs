//! How a session works.

use super::{OpenError, SharedRow};
use crate::assembly::Spending;
use crate::compute_node::Membership;
use crate::kinds::IndexParameters;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

/// More threads than any machine of today runs at once.
const WORKERS_MAX: usize = 1024;
/// Most lanes of one worker: each has scratch of its own.
const LANES_PER_WORKER_MAX: usize = 1024;
/// Most slots of one queue: each has room for two keys and two values.
const QUEUE_SLOTS_MAX: usize = 1 << 16;
/// More threads than any machine of today runs at once.
const LOCAL_HANDLES_MAX: usize = 1024;
/// The redo records of so many handles and a worker fit into the smallest chunks of an embedded pool.
const LOCAL_HANDLES_DEFAULT: usize = 4;

/// Operations of other compute nodes that a session executes at a time.
const FORWARD_LANES: usize = 2;

/// How a session works.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Worker threads, 1..=1024.
    pub workers: usize,
    /// Operations each worker has in flight, 1..=1024.
    pub lanes_per_worker: usize,
    /// Operations that may be queued for each worker, including running ones and results not yet fetched: 1..=65,536.
    pub queue_slots: usize,
    /// Local handles that exist at a time, 0..=1024, with as many lanes each as a worker: see
    /// [`Local`](super::Local). A lane that no handle uses takes room for its redo records on each memory node: four
    /// leaves, some 5 KiB for small records. A row has room for four chunks of redo records.
    pub local_handles: usize,
    /// How long a waiting thread, or an idle worker, spins before it sleeps. Spinning costs processor time and saves a
    /// wake-up, which takes several microseconds, and some tens where it wakes an idle processor. After a spin in vain, threads
    /// sleep at once for a while. The default was measured on shared memory and two processors, as the median of blocking gets: 3 us,
    /// whether others kept the processors busy or not. With 10 us it was 16 to 53 us on processors that were idle otherwise: both sides
    /// spun in vain for as long as the other one took to wake up.
    pub spin: Duration,
    /// What the session spends on the index, and how it runs it. The session sets the number of lanes.
    pub spending: Spending,
    /// How the session takes part in the pool: its lease, and whether others can recover its locks when it dies. A shared row
    /// has its own.
    pub membership: Membership,
    /// The row under which the session takes part in the pool, with others of this process. `None`: a row of its own.
    pub row: Option<SharedRow>,
    /// Where keys have owners (DEX): has operations on keys of another compute node executed by that one, and executes operations
    /// of others on its own keys. Such an operation takes a READ and a call more, and two threads of this machine that wake each
    /// other. The operations of a `multi_get`, or its like, share the call, and mostly need no READ: one message takes those of one
    /// owner there, up to 4 KiB of them, or 256. Where keys have any length, an operation is several steps, each of which is
    /// forwarded by itself. All sessions of the index have to be of one version of this. `false`: it ends with [`Cause::NotOwner`](dm_core::operation::Cause::NotOwner), for callers that send operations to
    /// the right session themselves. On RDMA devices calls go by way of the daemon of memory node 0, which needs threads for that
    /// (`--call-threads`).
    pub forward: bool,
    /// Where keys have owners: the session takes its share of the keys from others when it opens, in the background, and gives its
    /// keys to others when it closes. Shares are by load, and by number while no load has been counted. Without it a session
    /// has the parts of the keys that its operations needed and nobody had, or that were moved to it
    /// ([`Session::move_part`](super::Session::move_part)); when it closes, nobody has them.
    pub shares_parts: bool,
    /// Where the session serves its statistics for Prometheus while it is open; port 0: any free port. `None`: nowhere.
    /// Sessions of one process may name the same address: its page then has all of them, told apart by labels.
    pub metrics: Option<SocketAddr>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers: 1,
            lanes_per_worker: 8,
            queue_slots: 256,
            local_handles: LOCAL_HANDLES_DEFAULT,
            // More than it costs to be woken on an idle processor. On one processor no other thread can make progress while this
            // one spins.
            spin: if processors > 1 { Duration::from_micros(50) } else { Duration::ZERO },
            spending: Spending::default(),
            membership: Membership::default(),
            row: None,
            forward: true,
            shares_parts: false,
            metrics: None,
        }
    }
}

impl SessionOptions {
    pub(super) fn check(&self) -> Result<(), OpenError> {
        for (option, given, min, max) in [
            ("workers", self.workers, 1, WORKERS_MAX),
            ("lanes per worker", self.lanes_per_worker, 1, LANES_PER_WORKER_MAX),
            ("queue slots", self.queue_slots, 1, QUEUE_SLOTS_MAX),
            ("local handles", self.local_handles, 0, LOCAL_HANDLES_MAX),
            ("lanes of all workers and local handles", self.lanes() - 1, 1, usize::from(u16::MAX) - 2),
        ] {
            if !(min..=max).contains(&given) {
                return Err(OpenError::Option { option, given, min, max });
            }
        }
        Ok(())
    }

    /// The options of a session of an index with these parameters: keys of most have no owners.
    pub(super) fn fitted(&self, parameters: &IndexParameters) -> Self {
        Self { forward: self.forward && parameters.has_log(), ..self.clone() }
    }

    /// Lanes of its workers, and of its local handles.
    pub(super) const fn own_lanes(&self) -> usize {
        self.workers.saturating_add(self.local_handles).saturating_mul(self.lanes_per_worker)
    }

    /// Lanes for operations of other compute nodes.
    pub(super) const fn forward_lanes(&self) -> usize {
        if !self.forward {
            0
        } else if self.lanes_per_worker < FORWARD_LANES {
            self.lanes_per_worker
        } else {
            FORWARD_LANES
        }
    }

    /// Lanes of the session: its own, those for other compute nodes, and one for walks.
    pub(super) const fn lanes(&self) -> usize {
        self.own_lanes().saturating_add(self.forward_lanes() + 1)
    }
}
