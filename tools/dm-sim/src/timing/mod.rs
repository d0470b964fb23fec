//! Timing: a cluster of compute nodes and memory nodes in virtual time, after an RNIC [`Profile`].
//!
//! [`crate::world`] asks what *may* happen; this room asks how long things *take*. A request takes effect whole, at the
//! instant its memory node serves it; no randomness is involved, and two runs are equal to the last digit.
//!
//! ```text
//!  compute node                                               memory node
//!  thread (serial CPU)  send queue      NIC                   NIC                            memory
//!  ┌────────────────┐   ┌─────────┐   ┌─────────┐  one way  ┌────────────────────────┐    ┌──────────┐
//!  │ operation, step│──►│≤16 READs│──►│rate, out│══════════►│in, ingress FIFO, rate  │───►│READ/WRITE│
//!  │ post, poll     │   │ fence   │   └─────────┘           │  parked atomics ≤ K    │    └──────────┘
//!  └────────▲───────┘   └─────────┘   ┌─────────┐  one way  │out                     │◄──►│ buckets  │
//!           └─────────────────────────│in       │◄══════════└────────────────────────┘    └──────────┘
//! ```
//!
//! Every box is a server that does one thing at a time, or a pure delay. The service time of a request at a memory
//! node is `max(1 / rate, bytes in / bandwidth, bytes out / bandwidth)`: three servers side by side, of which the
//! slowest decides. What is modelled, and where:
//!
//! | room | what it is |
//! |---|---|
//! | [`profile`] | the numbers, from a TOML file; what each means and its range |
//! | `nic` | servers, bytes on the wire |
//! | `buckets` | atomics that exclude each other, by low address bits |
//! | `event_queue` | what will happen when |
//! | [`cluster`] | requests on their way: send queues, ingress, service, effects, completions |
//! | [`workers`] | threads and lanes: runs operations of an index, each thread doing one thing at a time |
//! | [`usage`] | what was used how much |
//! | [`raw`] | an "index" that is one READ: the NIC's own limits |
//!
//! # What is not modelled
//!
//! Loss, congestion in the switch (every pair of NICs has its full bandwidth), queue-pair and translation caches of
//! NICs, PCIe bandwidth (on all profiles shipped it is at least the link's), caches of the host, ACKs of their own
//! when they can be coalesced (their bytes are counted, as a profile says). A thread that waits polls: it notices a
//! completion at once.

mod buckets;
pub mod cluster;
mod event_queue;
mod nic;
pub mod profile;
pub mod raw;
pub mod usage;
pub mod workers;

pub use cluster::{Cluster, Shape};
pub use profile::{Profile, ProfileError};
pub use raw::RawReads;
pub use usage::Usage;
pub use workers::{Workers, WorkersError};

/// Picoseconds in a nanosecond: the clock's unit is fine enough that 1 / (45 M/s) is no rounding error.
pub const PS_PER_NS: u64 = 1_000;
