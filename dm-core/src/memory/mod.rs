//! Memory of a compute node: chunks that a pool grants, free lists, limbo lists and epochs, and the collection of what
//! departed compute nodes leave.
//!
//! ```text
//!  chunk table ── grant ──► bump arena ──► free list ──► a lane's stock ──► the tree
//!  (memory node)                              ▲                                │ retired
//!                                             └── limbo list ◄─────────────────┘
//!                                                 (epochs)
//!  chunks of departed compute nodes ── orphan collection, mark-and-sweep ──► free list
//! ```
//!
//! | room | what it is |
//! |---|---|
//! | [`chunks`] | the chunk table: grants |
//! | [`slab`], [`free_list`] | how chunks are carved; places that are free |
//! | [`node_pool`] | free nodes of a B+-tree |
//! | [`limbo`] | limbo list: places that wait for an epoch |
//! | [`epochs`] | when no compute node has an old pointer any more |
//! | [`pin`], [`participant`] | the epoch of an operation under way; the part of a compute node in the epochs |
//! | [`rows`] | what epochs and collections READ and WRITE of rows |
//! | [`orphans`] | progress of an orphan collection |
//! | [`collect`], [`closed`], [`mark_bitmap`] | mark-and-sweep: memory without owner tags |
//!
//! # Whose a place is
//!
//! Free lists and stocks are lost with their compute node. So remote memory says whose each place is: a leaf that is
//! retired, or was written and is unlinked, has the [owner tag](crate::remote::owner_tag) of the compute node that
//! wrote it. Any other place outside of the tree belongs to the owner of its chunk. What belongs to a departed compute
//! node is collected: [`Index::collect_orphans`](crate::index::Index::collect_orphans), and
//! [`orphans`](crate::manual::orphans) for why no place is taken that is in use. Memory of radix trees and of items has
//! no owner tags: [`mark_and_sweep`](crate::manual::mark_and_sweep).
//!
//! # When a place is reused
//!
//! A retired place of a B+-tree is reused at once, even while other lanes READ it: flags, versions and generations tell
//! a reader what it has found. Where the generations of a place begin again, it waits in the limbo list:
//! [`generations`](crate::manual::generations). Places of radix trees have no generation and always wait:
//! [`smart_memory`](crate::manual::smart_memory).
//!
//! | what | is reused |
//! |---|---|
//! | the bump arena, free lists and stocks of a compute node that left or died | with the next orphan collection |
//! | nodes that it had written and not linked, or retired and not reused | likewise |
//! | leaves and nodes of a radix tree that it had ready, or that its operations held | when they are collected, likewise |
//! | of its chunks for blocks, what it had never written to; blocks that it had written and not named, or retired and not reused | when they are collected: its chunks when its row is free and no dead row waits for a sweep, those of live compute nodes when their memory is short ([`collect`]) |
//! | chunks of redo records | when it leaves, or with the sweep, for redo records |
//! | nodes that a dropped or failed operation was about to link | when its lane is settled |
//! | a leaf that is merged away | at once; once in 32 times after every compute node has passed the epoch |
//! | a leaf whose merge was dropped or failed in the middle; retired leaves that did not fit the free list, or the limbo list | when the compute node has departed |
//!
//! # Limits
//!
//! Without recovery, in an index that is opened without epochs, nothing waits. A compute node with such an index says
//! no epoch in its row, so the limbo lists of others wait until it has departed. Opened without recovery, an index
//! collects no orphans.

pub mod chunks;
pub mod closed;
pub mod collect;
pub mod epochs;
pub mod erase;
pub mod free_list;
pub mod limbo;
pub mod mark_bitmap;
pub(crate) mod marks;
#[cfg(test)]
pub(crate) mod memory_node;
pub mod mutants;
pub mod node_pool;
pub mod orphans;
pub mod participant;
pub mod pin;
pub mod rows;
pub mod slab;

pub use collect::{Collection, Share};
pub use epochs::Epochs;
pub use limbo::{LimboList, Waiting};
pub use mark_bitmap::{CollectedChunk, MarkBitmap};
pub use node_pool::GENERATIONS;
pub use orphans::CollectedOrphans;
pub use participant::Participant;
pub use pin::Pin;

use crate::marks::Mark;
use crate::verbs::NodeId;
use core::sync::atomic::{AtomicBool, Ordering::Release, Ordering::SeqCst};

/// Marks of this room.
pub const MARKS: &[Mark] = &[Mark::CHUNK_COLLECTED, Mark::NODE_RECLAIMED];

/// All of `nodes` memory nodes in turn, from `near` on.
pub(crate) fn nodes_from(near: NodeId, nodes: usize) -> impl Iterator<Item = NodeId> {
    (0..nodes).map(move |step| NodeId(((usize::from(near.0) + step) % nodes) as u16))
}

/// A task that at most one lane of a compute node does at a time. It ends when this value is dropped.
pub(crate) struct Busy<'a>(&'a AtomicBool);

impl<'a> Busy<'a> {
    /// Begins the task. `None`: another lane does it.
    pub(crate) fn begin(flag: &'a AtomicBool) -> Option<Self> {
        // Not `then_some`: an unused guard would be dropped, which ends the other one.
        (!flag.swap(true, SeqCst)).then(|| Self(flag))
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}
