//! What B+-trees on disaggregated memory share. The indexes differ in their leaves, not here.
//!
//! ```text
//!  level 1      ┌ inner: low │ high │ sibling ─────────────────────────► ┌ inner
//!               │ child 0 │ separator 1, child │ separator 2, child      │ ...
//!               └────┼──────────────────┼─────────────────┼              └
//!  level 0      ┌ leaf ┐ sibling   ┌ leaf ┐ sibling   ┌ leaf ┐ sibling
//!               │ ...  │ ────────► │ ...  │ ────────► │ ...  │ ────────► ...
//!               └──────┘           └──────┘           └──────┘
//! ```
//!
//! | room | what it is |
//! |---|---|
//! | [`node`] | headers, fences, how an image is judged |
//! | [`inner`] | inner nodes |
//! | [`lock`] | acquiring, handing over and releasing node locks; settling those of a dropped operation |
//! | [`read`] | one node, READ until it is whole, however long others keep it torn |
//! | `router` | what finds the leaf of a key, as the leaf level sees it; the inner nodes are one |
//! | [`descent`] | from a key to the node that covers it: root, cached route, inner nodes, moves to the right |
//! | [`link`] | naming new siblings in parents, splitting inner nodes, growing the root; own splits and others' |
//! | [`merge`], `unlink` | joining an emptied leaf with a neighbour, and undoing half-merges; the parent's part |
//! | [`reserve`] | memory before locks |
//! | [`relocate`] | nodes that move to another memory node |
//! | [`orphans`], [`owner_tag`] | orphan collection, owner tags |
//! | [`recover`], [`sweep`] | takeover, and sweeping up after a death |
//! | [`leaves`] | what indexes say about their leaves, and visiting the leaf of a key |
//! | [`scan`] | ascending records, or the last ones of a range, a page at a time |
//! | [`bulk`], [`load`] | ascending records into an empty index |
//! | [`walk`] | the walk that checks every invariant |
//!
//! **Invariants.** Every level is a list of nodes linked to the right whose fences partition the key space. A node's
//! low fence never changes while it lives; its high fence falls by a split and rises by a merge. A live node of the
//! right level whose fences cover the key is the right node, whatever route led to it: routes only have to lead to the
//! node, to its left, or to a place that it has left. Proofs: [`half_splits`](crate::manual::half_splits),
//! [`merges`](crate::manual::merges), [`torn_reads`](crate::manual::torn_reads),
//! [`btree_scans`](crate::manual::btree_scans), [`locks`](crate::manual::locks); moves: [`relocate`].
//!
//! **Generations.** A generation tells one node of a place from the next. It does not change when a boundary moves. A
//! lane that READs a whole node finds the boundary in its fences. An index that READs parts of a node has to know it by
//! other means (CHIME: from the sibling pointer, [`chime_leaf_identity`](crate::manual::chime_leaf_identity)).
//!
//! **Splits.** A split writes the new right sibling, then the old node with its lowered fence and the link in one
//! WRITE: that WRITE is the split. The parent learns later ("half-split"); until then readers move right.

pub mod bulk;
pub mod descent;
pub mod inner;
pub mod leaves;
pub mod link;
pub mod load;
pub mod lock;
pub(crate) mod marks;
pub mod merge;
pub mod mutants;
pub mod node;
pub(crate) mod order;
pub mod orphans;
pub mod owner_tag;
pub mod read;
pub mod recover;
pub mod relocate;
pub mod reserve;
pub(crate) mod router;
pub mod scan;
pub mod sweep;
pub(crate) mod unlink;
pub mod walk;

use crate::compute::batches::Batches;
use crate::compute::cache::IndexCache;
use crate::index::runner::Shared;
use crate::lane::Lane;
use crate::layout::LINE_BYTES;
use crate::locks::kind::Techniques;
use crate::locks::table::LockTable;
use crate::locks::{ChainedRead, Unlock};
use crate::marks::Mark;
use crate::membership::Recovery;
use crate::membership::redo::{HEADER_BYTES, LOOK_BYTES};
use crate::memory::Participant;
use crate::memory::chunks::RequestIds;
use crate::memory::node_pool::NodePool;
use crate::memory::pin::Pinned;
use crate::memory::rows::RowError;
use crate::mutants::{Mutant, planted};
use crate::operation::span::Span;
use crate::operation::{Cause, OpError, ScratchPlan};
use crate::remote::NodeGeometry;
use crate::remote::address::Address;
use crate::remote::catalog::IndexNumber;
use crate::remote::owner_tag::OwnerTag;
use crate::remote::row::Member;
use crate::verbs::{Assumptions, Capabilities, NodeId, Space};
use core::ops::Range;
use descent::RootCopy;
use inner::InnerShape;

/// Levels a tree may have, leaves included. Every inner node has at least two children when it is made, so that is more
/// leaves than any pool holds.
pub const LEVELS_MAX: u8 = 32;

/// Moves to the right on one level before an operation starts over with a fresh path.
pub(crate) const MOVES_MAX: u32 = 64;

/// Marks of this room and of the rooms it builds on.
pub const MARKS: &[Mark] = &[
    Mark::TORN_READ,
    Mark::GUARD_REFUSAL,
    Mark::LOCKED_READ,
    Mark::STALE_CACHE,
    Mark::MOVE_RIGHT,
    Mark::LOCK_LOST,
    Mark::LOCK_QUEUED,
    Mark::HAND_OVER,
    Mark::INNER_SPLIT,
    Mark::UPPER_SPLIT,
    Mark::ROOT_GROWTH,
    Mark::ROOT_RACE_LOST,
    Mark::HELPED_SPLIT,
    Mark::RESTART,
    Mark::SETTLED,
];

/// Techniques that can be turned off, one by one, for the factor analyses of the papers. All are on by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Write-back and unlock in one chain; new sibling, old node and unlock in one chain on one memory node (Sherman
    /// section 4.2, "command combination"). Off: one round trip each.
    pub combine: bool,
    /// Local queues in front of remote lock words (Sherman section 4.3). Off: every lane sends its own CAS.
    pub hierarchical: bool,
    /// A write that does not split sends one entry (Sherman section 4.4, "two-level versions"). Off: the whole node.
    pub entry_writes: bool,
    /// The leaf is READ in the chain of the lock's CAS: one round trip less, one READ wasted when the CAS loses.
    pub chain_lock_read: ChainedRead,
    /// A lane that loses the CAS of a lock pauses before the next one, longer each time. Off: the next CAS follows at
    /// once, as in the systems Sherman was compared with.
    pub back_off: bool,
    /// How held locks are freed, as far as the fabric grants what that takes: an index is opened with what
    /// [`Unlock::granted`] says.
    pub unlock: Unlock,
    /// READs that took longer than versions can vouch for are not trusted. Off, for measurement only: what the papers'
    /// programs do.
    pub read_guard: bool,
    /// A leaf in which hops make no room is rewritten with its records in other entries, if that makes room (CHIME
    /// only). Off: it is split, as in the paper.
    pub rearrange: bool,
    /// Lanes that want one key at one time share one operation (SMART section 4.4, "read delegation and write
    /// combining").
    pub rdwc: bool,
    /// Updates of one leaf by several compute nodes run at the same time (Dolphin only). Off: each has the leaf for
    /// itself, as under one exclusive lock word.
    pub shared_updates: bool,
    /// Inserts into one leaf run at the same time, too, and claim a cell by CAS (Dolphin only, keys and values of 8
    /// bytes; Dolphin section III.D). Off: each has the leaf for itself.
    pub shared_inserts: bool,
    /// On which memory node a node is made.
    pub subtrees: Subtrees,
}

/// On which memory node a node is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subtrees {
    /// On any: an index spreads over the memory nodes chunk by chunk.
    #[default]
    Spread,
    /// A node that splits gets its right half on its own memory node, and the children of one parent of a bulk load are on one
    /// memory node, with it (DEX section 3): a memory node's processor can walk from one to the other. If that memory node is
    /// full, another one will do.
    Near,
    /// The same, but nowhere else: an operation that needs a node on a memory node that is full fails with
    /// [`Cause::NodeFull`](crate::operation::Cause).
    Whole,
}

impl Subtrees {
    /// Whether nodes of such a tree may move to another memory node ([`relocate`]).
    #[inline]
    pub(crate) const fn may_move(self) -> bool {
        !matches!(self, Self::Spread)
    }
}

impl Options {
    /// Those that locks have.
    #[inline]
    pub(crate) const fn of_locks(self) -> Techniques {
        let Self { hierarchical, combine, back_off, unlock, chain_lock_read: chained, .. } = self;
        Techniques { hierarchical, combine, back_off, unlock, chained }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            combine: true,
            hierarchical: true,
            entry_writes: true,
            chain_lock_read: ChainedRead::WhereQuiet,
            back_off: true,
            unlock: Unlock::WithLines,
            read_guard: true,
            rearrange: true,
            rdwc: false,
            shared_updates: true,
            shared_inserts: false,
            subtrees: Subtrees::default(),
        }
    }
}

/// Scratch ranges that the shared procedures use, besides the operation's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeScratch {
    /// The key of the operation.
    pub key: Range<usize>,
    /// The separator of a split that is being linked.
    pub separator: Range<usize>,
    /// The separator of another lane's half-split that the operation met.
    pub help: Range<usize>,
    /// 512 bytes for words, header lines and lines of the chunk table.
    pub small: usize,
    /// What recovery READs, and a redo record.
    pub recovery: Range<usize>,
    /// Node images, each behind a gap for the header of a redo record: start of the first gap.
    pub nodes: usize,
    /// Distance from one node image to the next, gap included, in bytes.
    pub node_stride: usize,
    /// How many node images there is room for, at least [`NODE_BUFFERS_MIN`].
    pub node_buffers: usize,
    /// Leaves a scan READs at once, at least 1; each has an image of its own.
    pub leaves_at_once: usize,
}

/// Node images every lane has room for: an inner split and a merge use three.
pub const NODE_BUFFERS_MIN: usize = 4;

/// Bytes of [`TreeScratch::small`].
pub(crate) const SMALL_BYTES: usize = 512;

impl TreeScratch {
    /// Lays out the scratch of a lane for nodes of up to `node_bytes` bytes: `page_records` records a scan returns at
    /// most, `leaves_at_once` leaves it READs in parallel.
    pub fn plan(
        key_bytes: usize,
        value_bytes: usize,
        node_bytes: usize,
        page_records: usize,
        leaves_at_once: usize,
    ) -> (ScratchPlan, Self) {
        let mut plan = ScratchPlan::new(key_bytes, value_bytes);
        let (separator, help) = (plan.take(key_bytes), plan.take(key_bytes));
        let small = plan.take(SMALL_BYTES).start;
        let recovery = plan.take(LOOK_BYTES + HEADER_BYTES + node_bytes);
        let node_stride = HEADER_BYTES + node_bytes;
        let leaves_at_once = leaves_at_once.max(1);
        let node_buffers = NODE_BUFFERS_MIN.max(leaves_at_once + 1).max(load::LEVELS_AT_ONCE);
        let nodes = plan.take(node_stride * node_buffers).start;
        plan.page = plan.take(page_records * (key_bytes + value_bytes));
        let key = plan.key.clone();
        let scratch = Self { key, separator, help, small, recovery, nodes, node_stride, node_buffers, leaves_at_once };
        (plan, scratch)
    }

    /// Node image `i`, of a node of `bytes` bytes.
    #[inline]
    pub const fn image(&self, i: usize, bytes: usize) -> Span {
        Span::new(self.nodes + i * self.node_stride + HEADER_BYTES, bytes)
    }

    /// The node image behind `image`, of a node of the same length.
    #[inline]
    pub(crate) const fn next_image(&self, image: Span) -> Span {
        Span::new(image.at + self.node_stride, image.bytes)
    }

    /// The first line of [`TreeScratch::small`].
    #[inline]
    pub const fn line(&self) -> Span {
        Span::new(self.small, LINE_BYTES)
    }
}

/// The shared part of one B+-tree on one compute node. All lanes use it at once.
pub struct Tree<'s> {
    /// Number in the catalog.
    pub number: IndexNumber,
    /// Catalog number plus 1: what nodes carry.
    pub index: u8,
    /// This compute node.
    pub owner: Member,
    /// Numbers of this compute node's requests for chunks.
    pub requests: &'s RequestIds,
    /// Memory nodes of the pool, by logical number.
    pub geometry: &'s [NodeGeometry],
    /// Memory node and offset of the root word.
    pub root_word: (NodeId, u64),
    /// Copy of the root word and the root's level.
    pub root: RootCopy,
    /// Inner nodes' shape.
    pub inner: InnerShape,
    /// Stored bytes of a leaf's image: what is READ and written of it as a whole. Its place may be larger.
    pub leaf_bytes: usize,
    /// What the fabric offers.
    pub capabilities: Capabilities,
    /// Techniques.
    pub options: Options,
    /// What makes locks recoverable; `None`: a dead compute node's locks stay held.
    pub recovery: Option<&'s Recovery<'s>>,
    /// Its part in the pool's epochs; `None`: its row says no epoch.
    pub epochs: Option<Participant<'s>>,
    /// Scratch ranges of a lane.
    pub scratch: TreeScratch,
    /// Local locks.
    pub locks: LockTable<'s>,
    /// Operations of several lanes on one key.
    pub batches: Batches<'s>,
    /// Free nodes.
    pub nodes: NodePool<'s>,
    /// Copies of inner nodes.
    pub cache: IndexCache<'s>,
}

impl<'s> Tree<'s> {
    /// An operation that follows pointers to leaves holds this: see [`crate::memory::epochs`].
    #[inline]
    pub(crate) fn pin(&self, lane: &Lane<'_>) -> Pinned<'s> {
        self.epochs.map_or(Pinned::NONE, |part| part.pin(lane))
    }

    /// What operations of an index with this tree share.
    pub(crate) fn shared<'a>(&'a self, plan: &'a ScratchPlan) -> Shared<'a, 's> {
        Shared {
            plan,
            batches: self.options.rdwc.then_some(&self.batches),
            recovery: self.recovery,
            epochs: self.epochs,
            geometry: self.geometry,
        }
    }

    /// What the fabric must guarantee for an index with this tree to be correct, as it is configured.
    pub(crate) fn assumptions(&self) -> Assumptions {
        let mut needed = Assumptions::LINE_ATOMIC
            | Assumptions::WORD_ATOMIC
            | Assumptions::WRITE_THEN_WRITE
            | Assumptions::WRITE_THEN_ATOMIC
            | Assumptions::COMPLETION_IS_VISIBLE
            | Assumptions::TIMED_READS;
        if self.geometry.iter().any(|node| node.lock_space == Space::Device) {
            needed |= Assumptions::HOST_BEFORE_DEVICE;
        }
        if self.options.chain_lock_read != ChainedRead::Never {
            needed |= Assumptions::ATOMIC_THEN_READ;
        }
        // No word lies behind data that an unlock could go along with.
        needed | self.options.unlock.min(Unlock::Write).needs()
    }

    /// The epoch of the operation that the lane is in.
    #[inline]
    pub(crate) fn epoch(&self, lane: &Lane<'_>) -> u32 {
        self.epochs.map_or(0, |part| part.epoch(lane))
    }

    /// A turn of the epochs, for a compute node without a keeper of its heartbeat: [`Participant::turn`].
    pub async fn turn(&self, lane: &Lane<'_>) -> Result<(), RowError> {
        let (Some(part), Some(home)) = (self.epochs, self.geometry.first()) else { return Ok(()) };
        part.turn(lane, home, self.owner, self.scratch.small).await
    }
}

impl Tree<'_> {
    /// Node image `i`, of a leaf.
    #[inline]
    pub(crate) const fn leaf_image(&self, i: usize) -> Span {
        self.scratch.image(i, self.leaf_bytes)
    }

    /// Node image `i`, of an inner node.
    #[inline]
    pub(crate) const fn inner_image(&self, i: usize) -> Span {
        self.scratch.image(i, self.inner.bytes)
    }

    /// Node image `i`, of a node of `level`.
    #[inline]
    pub(crate) const fn image_of_level(&self, level: u8, i: usize) -> Span {
        if level == 0 { self.leaf_image(i) } else { self.inner_image(i) }
    }

    /// The error of an image that this crate never writes.
    pub(crate) fn corrupt(address: Address, what: &'static str) -> OpError {
        OpError::harmless(Cause::Corrupt { address, what })
    }

    /// This compute node's owner tag in leaves.
    pub(crate) fn owner_tag(&self) -> OwnerTag {
        OwnerTag::of(self.owner, self.row_count())
    }

    /// Compute-node rows of the pool.
    pub(crate) fn row_count(&self) -> u32 {
        self.geometry.first().map_or(0, |home| home.row_count)
    }

    /// Whether a READ took so long that 4-bit versions may have come round meanwhile.
    #[inline]
    pub(crate) fn exposed_too_long(&self, elapsed_ns: u32) -> bool {
        let most_ns = self.capabilities.exposure_ns_max();
        self.options.read_guard && !planted(Mutant::NO_GUARD) && elapsed_ns > most_ns
    }
}

#[cfg(test)]
mod tests;
