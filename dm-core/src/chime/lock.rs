//! Locks of leaves: the word lies in the leaf, and while it is free it says where there is room ([`super::vacancy`]).
//!
//! How a lock is acquired and released: `crate::locks::protocol`. What is special here:
//!
//! - The CAS is a masked one that compares bit 63 only and swaps everything: it returns the vacancy with the lock
//!   (CHIME section 4.2.1). Without masked atomics it is a plain CAS that expects the word as it was last seen. If the
//!   word is free and says something else, that CAS has returned it, and the next CAS follows at once: one round trip
//!   more.
//! - Nothing but CAS and its holder's unlock ever writes a word, in no life of the place. So a lane with a stale pointer is
//!   never overwritten, and never overwrites.
//! - A held word names row and acquisition, and bit 63 tells it from a free one, so a CAS that expects all of one
//!   cannot mistake it for the other. What the word said before is lost with a dead holder. Only the leaf knows it: a
//!   lane that takes the lock over, or settles a dropped operation, READs the leaf.

use super::Chime;
use super::layout::Leaf;
use super::vacancy::{ALL_FULL, HELD};
use crate::btree::Tree;
use crate::btree::leaves::Leaves;
use crate::btree::node::{Header, NodeFlags};
use crate::lane::{Lane, LockRecord};
use crate::layout::stripes;
use crate::locks::ChainedRead;
use crate::locks::kind::{Held, LockKind, Techniques};
use crate::locks::protocol::Locks;
use crate::locks::table::LockTable;
use crate::membership::Recovery;
use crate::operation::OpError;
use crate::recovery::takeover::{Recoverable, Site};
use crate::remote::address::Address;
use crate::remote::lock_word::{LockId, LockWord, RowId, lock_of};
use crate::verbs::{Label, NodeId, Request, Space};

impl Locks for Chime<'_> {}

impl LockKind for Chime<'_> {
    const IN_NODES: bool = true;

    type Follow = Part;

    fn queues(&self) -> &LockTable<'_> {
        &self.locks
    }

    fn techniques(&self) -> Techniques {
        self.tree.techniques()
    }

    fn recovery(&self) -> Option<&Recovery<'_>> {
        self.tree.recovery
    }

    fn row(&self) -> RowId {
        self.tree.owner.row
    }

    fn scratch_at(&self) -> usize {
        self.tree.scratch.small
    }

    fn lock_of(&self, leaf: Address) -> Result<LockId, OpError> {
        let inside = self.tree.geometry.get(leaf.node().0 as usize).is_some_and(|node| {
            leaf.offset() >= node.heap && leaf.offset() + self.leaf.place_bytes() as u64 <= node.region_bytes
        });
        if !inside {
            return Err(Tree::corrupt(leaf, "a pointer beyond the pool"));
        }
        let local = lock_of(leaf, self.locks_per_node.max(1));
        Ok(LockId { index: local.index | LockId::IN_NODE, ..local })
    }

    fn word_place(&self, _: LockId, leaf: Address) -> (NodeId, u64, Space) {
        (leaf.node(), leaf.offset() + self.leaf.bytes as u64, Space::Host)
    }

    fn tag(&self, leaf: Address) -> u32 {
        self.tree.tag(leaf)
    }

    fn push_follow(&self, lane: &Lane<'_>, held: &Held, follow: Part) {
        match follow {
            Part::Entries { first, count } => drop(self.push_runs(lane, held.protects, first, count, true)),
            Part::Entry(slot) => drop(self.push_entry(lane, held.protects, slot, true)),
        }
    }

    async fn replay_own(&self, lane: &Lane<'_>, lock_record: &LockRecord) -> Result<(), OpError> {
        self.tree.replay_own(lane, lock_record).await
    }

    #[inline]
    fn take_request(&self, held: &Held) -> Request {
        let (node, offset, _) = self.word_place(held.lock, held.protects);
        if self.tree.capabilities.masked_atomics {
            Request::masked_cas(Label::Lock, node, offset, [0, held.word, HELD, u64::MAX])
        } else {
            Request::cas(Label::Lock, node, offset, held.free, held.word)
        }
    }

    #[inline]
    fn is_held(found: u64) -> bool {
        found & HELD != 0
    }

    #[inline]
    fn takes_any_free_word(&self) -> bool {
        self.tree.capabilities.masked_atomics
    }

    fn formed(word: LockWord) -> Option<LockWord> {
        word.in_node()
    }

    /// One counter for the locks in tables and in leaves.
    fn sequences(&self) -> &LockTable<'_> {
        self.tree.queues()
    }

    #[inline]
    fn expected(&self, lock: LockId, leaf: Address) -> u64 {
        if self.takes_any_free_word() { 0 } else { self.handed_free(lock, leaf) }
    }

    fn handed_free(&self, lock: LockId, leaf: Address) -> u64 {
        self.words.recall(self.place_of(lock), self.tag(leaf))
    }

    #[inline]
    fn remember(&self, held: &Held, unlocked: bool) {
        // After an unlock only lanes that guess words, or what to READ behind a lock, want to know.
        if !unlocked || !self.takes_any_free_word() || self.tree.options.chain_lock_read != ChainedRead::Never {
            self.words.remember(self.place_of(held.lock), self.tag(held.protects), held.free & ALL_FULL);
        }
    }

    /// Where a leaf has room, by a READ of it into image 0. A place that is not in use has room everywhere. Nobody
    /// knows of one in the middle of its next life's first WRITE, which needs no lock.
    async fn free_word(&self, lane: &Lane<'_>, leaf: Address) -> Result<u64, OpError> {
        let target = self.leaf_target(leaf, 0);
        lane.port().call(target.request_locked()).await?;
        Ok(lane.port().with(|scratch| {
            let image = target.image.of(scratch);
            let header = Header::read(image);
            if header.flags.contains(NodeFlags::RETIRED) || header.index == 0 {
                0
            } else if stripes::node_version(image).is_some() && header.index == self.tree.index {
                self.buckets.exact(&Leaf::new(&self.leaf, image))
            } else {
                ALL_FULL
            }
        }))
    }
}

impl Recoverable for Chime<'_> {
    fn site(&self) -> Option<Site<'_>> {
        self.tree.site()
    }
}

impl Chime<'_> {
    /// The place of a lock in the table of remembered words.
    fn place_of(&self, lock: LockId) -> usize {
        lock.node.0 as usize * self.locks_per_node as usize + (lock.index & !LockId::IN_NODE) as usize
    }

    /// The CAS that tells a leaf written for the first time what its lock word shall say. The word is 0 while a place
    /// is not in use, unless a lane with a stale pointer holds it right now: then it stays a hint that is wrong.
    pub(super) fn first_vacancy_request(&self, leaf: Address, vacancy: u64) -> Request {
        let (node, offset, _) = self.word_place(LockId { node: leaf.node(), index: LockId::IN_NODE }, leaf);
        Request::cas(Label::Vacancy, node, offset, 0, vacancy & ALL_FULL)
    }

    /// Remembers what the word of a leaf that this lane has just made says.
    pub(super) fn remember_vacancy(&self, leaf: Address, vacancy: u64) {
        if let Ok(lock) = self.lock_of(leaf) {
            self.words.remember(self.place_of(lock), self.tag(leaf), vacancy);
        }
    }

    /// What the word of a leaf was last seen to say; 0, room everywhere, if that is not known.
    pub(super) fn remembered_vacancy(&self, leaf: Address) -> u64 {
        self.lock_of(leaf).map_or(0, |lock| self.handed_free(lock, leaf))
    }
}

/// A part of a leaf to READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// `count` entries from `first` on, with a replica if there are enough of them.
    Entries { first: usize, count: usize },
    /// One entry and nothing else.
    Entry(usize),
}
