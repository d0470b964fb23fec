//! Atomics that exclude each other.
//!
//! A NIC sorts atomics on host memory into buckets by low address bits (Sherman section 3.2.2); those of one bucket are
//! executed one after the other, each taking one or two transactions on PCIe. In device memory the unit is the word. An
//! atomic whose bucket is busy is *parked*. The NIC can park a few per memory node. When it cannot park one it takes no
//! further requests at all, so a spinning lock slows all lanes down.

use super::nic::ps;
use super::profile::Profile;
use dm_core::verbs::{Request, Space};

/// One bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    /// Until then an atomic is being executed.
    pub(crate) free_ps: u64,
    /// Time it was occupied, all in all.
    pub(crate) given_ps: u64,
    /// Those parked.
    pub(crate) parked: List,
}

impl Bucket {
    /// Time it was occupied until `now_ps`.
    pub(crate) fn busy_ps(&self, now_ps: u64) -> u64 {
        self.given_ps - self.free_ps.saturating_sub(now_ps).min(self.given_ps)
    }
}

/// Buckets of all memory nodes: for each those of host memory, then one per word of device memory.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    pub(crate) all: Vec<Bucket>,
    host: u32,
    per_node: u32,
    failed_ps: u64,
    done_ps: u64,
    device_ps: u64,
    pub(crate) parked_max: u32,
}

impl Buckets {
    pub(crate) fn new(profile: &Profile, memory_nodes: usize, device_bytes: u32) -> Self {
        let atomics = &profile.atomics;
        // Atomics are aligned to 8 bytes: the low three bits choose nothing.
        let host = 1 << (atomics.bucket_bits - 3);
        let per_node = host + device_bytes / 8;
        Self {
            all: vec![Bucket::default(); memory_nodes * per_node as usize],
            host,
            per_node,
            failed_ps: ps(atomics.failed_ns),
            done_ps: ps(atomics.done_ns),
            device_ps: ps(atomics.device_ns),
            parked_max: atomics.parked_max,
        }
    }

    /// The bucket of an atomic that the memory node has admitted.
    #[inline]
    pub(crate) fn of(&self, request: &Request) -> u32 {
        let word = (request.offset / 8) as u32;
        let within = match request.space {
            Space::Host => word & (self.host - 1),
            Space::Device => self.host + word,
        };
        u32::from(request.node.0) * self.per_node + within
    }

    /// The memory node of a bucket.
    #[inline]
    pub(crate) fn memory_node(&self, bucket: u32) -> usize {
        (bucket / self.per_node) as usize
    }

    /// The buckets of one memory node.
    pub(crate) fn of_node(&self, node: usize) -> &[Bucket] {
        &self.all[node * self.per_node as usize..][..self.per_node as usize]
    }

    /// Occupies `bucket` at `now_ps` with an atomic that changed its word or did not; returns for how long.
    #[inline]
    pub(crate) fn occupy(&mut self, bucket: u32, now_ps: u64, space: Space, changed: bool) -> u64 {
        let work_ps = match (space, changed) {
            (Space::Device, _) => self.device_ps,
            (Space::Host, true) => self.done_ps,
            (Space::Host, false) => self.failed_ps,
        };
        let bucket = &mut self.all[bucket as usize];
        bucket.free_ps = now_ps + work_ps;
        bucket.given_ps += work_ps;
        work_ps
    }
}

/// No request.
pub(crate) const NONE: u32 = u32::MAX;

/// A queue of requests, linked through the requests themselves: each is in one queue at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl List {
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.head == NONE
    }
}
