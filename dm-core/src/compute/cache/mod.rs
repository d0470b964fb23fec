//! The index cache: copies of a tree's inner nodes on the compute node.
//!
//! Every operation starts here. [`IndexCache::route`] follows copies from the root towards the leaf that covers a key,
//! and the first READ goes to where the copies end. Copies are found by the remote [`Address`] of the node, place *and*
//! generation. So a pointer to an earlier generation of a place finds nothing.
//!
//! # What a copy may be
//!
//! A copy may be old. Nobody updates it when the node changes; fences and generations in the tree show this to the lane
//! that follows it. The cache promises three things. At each level the answer comes from *one* copy, never from a
//! mixture of two. Each copy on the way covers the key by its own fences. Nothing in a copy can make the cache panic,
//! loop or leave its storage.
//!
//! # Epochs
//!
//! A copy has the epoch of the operation that READ the node ([`crate::memory::epochs`]). Leaves are retired and their
//! places used again. So an operation does not use the pointers of a level-1 copy that is older than its own epoch; it
//! READs the node anew. Inner nodes are never merged, and pointers to them do not age.
//!
//! # Storage
//!
//! The host provides it as atomic words, and all of it is accounted for ([`Usage`]):
//!
//! ```text
//! ┌─────────┬─────────┬─────────┬─────┬─────────┬──────────────┬─────────────┬───────┐
//! │ align   │ frame 0 │ frame 1 │ ... │ frame n │ hints        │ table       │ slack │
//! │ <= 60 B │ whole 64-byte lines                │ child frames │ place→frame │       │
//! └─────────┴─────────┴─────────┴─────┴─────────┴──────────────┴─────────────┴───────┘
//! ```
//!
//! Huge pages are a good choice: a route touches half a dozen lines per level, in as many places as there are copies.
//!
//! - `storage` divides the words.
//! - A *frame* has one copy, decoded for searching; `frame` draws it, `shape` says where its parts lie, and `key` what
//!   searches compare.
//! - The *table* has two chain heads per frame. The frames of one chain link through their headers.
//! - *Hints* save inner levels the look into the table. A copy above level 1 has, while there are hint blocks left, one
//!   word per child: the frame in which the child's copy was last. A reader checks a hint against that frame's own
//!   address and never trusts it, so nobody has to keep it true. Level 1 has no hints: it points to leaves, which are
//!   not cached. Level 1 is nearly all of the cache.
//!
//! # Readers and writers
//!
//! Readers take no lock. They write only two kinds of plain words: a frame's *heat*, if it differs from what this
//! reader would write, and a hint that proved wrong. A reader that meets a frame that is being written tries again
//! [`READ_TRIES`] times, and then reports a miss; [`cache_frames`](crate::manual::cache_frames) shows why it never
//! accepts a mixture. Writers are rare, since a miss costs a network round trip. They take turns under one spin lock,
//! which they hold only for their own bounded work.
//!
//! # Cost
//!
//! With 8-byte keys and 61 children a level costs 15 to 25 ns (a server core, warm, each key depending on the route
//! before). From the root to a leaf this is 54 ns in a tree of a million records, which has three inner levels, and 97
//! ns with ten million records and four levels. Keys of 64 bytes take a quarter more. Two threads do twice the routes
//! of one. An insertion takes one to a few microseconds, about as long as the READ before it.
//!
//! # Eviction
//!
//! CLOCK with counts. A hit sets a frame's heat to its level, the hand takes one off as it passes, and a frame without
//! heat is evicted. Upper levels are worth more, and survive more turns of the hand. A new copy starts without heat,
//! just behind the hand. So a scan that touches everything once displaces only copies that were not touched for a whole
//! turn. One insertion moves the hand past at most [`SWEEP_FRAMES`] frames, and then evicts the coldest frame that it
//! has seen. So it ends, whatever the readers do.

mod eviction;
mod frame;
mod hints;
mod key;
mod shape;
mod storage;
mod table;
#[cfg(test)]
mod tests;

use crate::port::Fetch;
use crate::remote::address::Address;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use eviction::Writer;
pub use frame::READ_TRIES;
use frame::{Frame, Line, Look};
use key::{Key, ShortKey, Wanted};
use shape::Shape;
use spin::Mutex;
use storage::Plan;

/// Most children of a node that can be copied.
pub const CHILDREN_MAX: usize = 4096;

/// Highest level that can be copied. Even a tree of fan-out 2 has fewer levels.
pub(crate) const LEVEL_MAX: u8 = 31;

/// Frames at which one insertion looks for a victim. This is enough to find a cold one if a few per cent are cold,
/// and few enough that the writers' lock is held for microseconds if none is.
pub const SWEEP_FRAMES: u32 = 64;

/// What the cache needs to know of an inner node to copy it.
///
/// The cache calls it before it takes the writers' lock and *while* it holds it. An implementation looks at an image
/// in memory and calls nothing else. The answers need not be consistent: the cache does not copy a node that is not
/// in order.
pub trait Branch {
    /// Level, at least 1; leaves are level 0.
    fn level(&self) -> u8;
    /// The inclusive low fence, `key_bytes` long.
    fn low(&self, out: &mut [u8]);
    /// The exclusive high fence, `key_bytes` long; `false` if there is none.
    fn high(&self, out: &mut [u8]) -> bool;
    /// Number of children, at least 1.
    fn children(&self) -> usize;
    /// Child `i`.
    fn child(&self, i: usize) -> Address;
    /// The smallest key of child `i`, for `i >= 1`; child 0 begins at the low fence.
    fn separator(&self, i: usize, out: &mut [u8]);
    /// The leftmost child of the right neighbour, for caches that keep it ([`IndexCache::with_next`]).
    fn next(&self) -> Address {
        Address::NULL
    }
}

/// Where a route ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// What to READ: a node that is not in the cache, a leaf, or a node whose copy does not cover the key.
    pub address: Address,
    /// Its level, according to what led there; 0 is a leaf.
    pub level: u8,
    /// The cached node that points there; `None` if the route ended at the given root.
    pub parent: Option<Address>,
    /// The child that `parent` has to the right of `address`. Null at the right edge, if `address` is not a leaf, and
    /// in a cache that does not keep it.
    pub next: Address,
    /// The cache has a copy of `address`, but the copy does not cover the key: the copy is old, or what points to it
    /// is.
    pub stale: bool,
}

/// What the storage is used for, in bytes. `budget_bytes` is the sum of the five parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Size of the storage.
    pub budget_bytes: u64,
    /// Frames with copies.
    pub used_bytes: u64,
    /// Frames without copies.
    pub free_bytes: u64,
    /// The table.
    pub table_bytes: u64,
    /// Hint blocks.
    pub hint_bytes: u64,
    /// Alignment, and the rest at the end.
    pub slack_bytes: u64,
    /// Size of one frame.
    pub frame_bytes: u64,
    /// Number of frames.
    pub frames: u64,
    /// Number of frames with copies.
    pub frames_used: u64,
    /// Copies that others displaced since the start or the last [`IndexCache::clear`].
    pub evictions: u64,
}

/// Copies of inner nodes, shared by the lanes of a compute node. See the [module](self).
pub struct IndexCache<'s> {
    shape: Shape,
    plan: Plan,
    frames: &'s [Line],
    hints: &'s [AtomicU32],
    table: &'s [AtomicU32],
    budget_words: usize,
    /// Frame of the last root, plus one: a hint like any other.
    root: AtomicU32,
    writer: Mutex<Writer>,
}

impl<'s> IndexCache<'s> {
    /// Number of words with which the cache takes at most `budget_bytes`; 0 if not even one frame fits.
    pub const fn words_for(budget_bytes: u64, key_bytes: usize, children_max: usize) -> usize {
        let shape = Shape::new(key_bytes, children_max);
        let words_max = (usize::MAX / 8) as u64;
        let words = budget_bytes / 4;
        let words = if words > words_max { words_max } else { words };
        let plan = Plan::of(words as usize, &shape);
        if plan.frames == 0 { 0 } else { plan.words(&shape) }
    }

    /// A cache in `storage`, whatever it contains now. Nodes have keys of `key_bytes` (1..=[`KEY_BYTES_MAX`](crate::registry::KEY_BYTES_MAX)) and up
    /// to `children_max` children (1..=[`CHILDREN_MAX`]). With other sizes, or with storage too small for one frame,
    /// the cache always misses.
    pub fn new(storage: &'s [AtomicU32], key_bytes: usize, children_max: usize) -> Self {
        let shape = Shape::new(key_bytes, children_max);
        let plan = Plan::of(storage.len(), &shape);
        // Frames begin on a cache line, wherever the storage begins. The plan has set words aside for that.
        let skip = storage.as_ptr().align_offset(64).min(Plan::ALIGN_WORDS).min(storage.len());
        let (_, words) = storage.split_at(skip);
        let (frames, words) = words.split_at((plan.frames * shape.frame_words()).min(words.len()));
        let (hints, words) = words.split_at((plan.blocks * Plan::block_words(&shape)).min(words.len()));
        let (table, _) = words.split_at(plan.buckets.min(words.len()));
        let (frames, _) = frames.as_chunks();
        let cache = Self {
            shape,
            plan,
            frames,
            hints,
            table,
            budget_words: storage.len(),
            root: AtomicU32::new(0),
            writer: Mutex::new(Writer::default()),
        };
        for frame in 0..plan.frames as u32 {
            if let Some(frame) = cache.frame(frame) {
                frame.reset();
            }
        }
        cache.clear();
        cache
    }

    /// A cache that also reports which child is to the right of a leaf ([`Route::next`]). It keeps one child more for
    /// each node than the node has: call [`IndexCache::words_for`] with `children_max + 1`.
    pub fn with_next(storage: &'s [AtomicU32], key_bytes: usize, children_max: usize) -> Self {
        let mut cache = Self::new(storage, key_bytes, children_max + 1);
        cache.shape.keeps_next = true;
        cache
    }

    /// Follows copies from `root`, which is at `root_level`, towards the node of level `stop` that covers `key`, as
    /// far as there are copies. With `stop` = 0 it goes to the leaf. `epoch` is that of the operation.
    #[inline]
    pub fn route(&self, root: Address, root_level: u8, stop: u8, key: &[u8], epoch: u32) -> Route {
        if self.shape.is_short() {
            self.descend(root, root_level, stop, ShortKey::new(key), epoch).0
        } else {
            self.descend(root, root_level, stop, &Key::new(key), epoch).0
        }
    }

    /// Asks for the lines of the copy of level 1 to which the route from `root` leads, and returns which copy it seems to be:
    /// [`IndexCache::route_at`] begins there. Copies of level 1 are nearly all of the cache, so they are far from the processor.
    pub fn ask_ahead(&self, root: Address, root_level: u8, key: &[u8], fetch: Fetch) -> Option<u32> {
        // Copies of upper levels do not age.
        let (route, hint) = if self.shape.is_short() {
            self.descend(root, root_level, 1, ShortKey::new(key), 0)
        } else {
            self.descend(root, root_level, 1, &Key::new(key), 0)
        };
        if route.level != 1 || route.stale {
            return None;
        }
        let hinted = hint.and_then(|hint| hint.load(Relaxed).checked_sub(1));
        // Without a hint, the table and the copy's own header have to come first, which is what other lanes cannot hide: it
        // took a fifth of a get. A route that begins at the copy follows no hint, so the hint is noted here.
        let at = hinted.or_else(|| self.search(route.address, hint))?;
        self.frame(at)?.ask(fetch);
        Some(at)
    }

    /// The leaf that covers `key`, if the copy `at` is of its parent. The copy's own fences say so, whatever `at` is and
    /// whatever has become of the copy since it was asked for.
    #[inline]
    pub fn route_at(&self, at: u32, key: &[u8], epoch: u32) -> Option<Route> {
        let frame = self.frame(at)?;
        let parent = frame.address();
        let look = if self.shape.is_short() {
            frame.look(parent, 1, ShortKey::new(key), epoch)
        } else {
            frame.look(parent, 1, &Key::new(key), epoch)
        };
        match look {
            Look::Child { address, next, .. } if !parent.is_null() => {
                Some(Route { address, level: 0, parent: Some(parent), next, stale: false })
            }
            _ => None,
        }
    }

    /// The leaf that covers `key`, and the leaves to its right or, with `down`, to its left, with the same parent, as that
    /// parent's copy names them. Writes up to `out.len()` addresses and returns how many; 0 if the route does not reach the
    /// parent. `root` is a pointer and the level it leads to; `epoch` is that of the operation.
    pub fn leaves(&self, root: (Address, u8), key: &[u8], epoch: u32, down: bool, out: &mut [Address]) -> usize {
        if self.shape.is_short() {
            self.leaves_of(root, ShortKey::new(key), epoch, down, out)
        } else {
            self.leaves_of(root, &Key::new(key), epoch, down, out)
        }
    }

    fn leaves_of<K: Wanted>(&self, root: (Address, u8), key: K, epoch: u32, down: bool, out: &mut [Address]) -> usize {
        let (route, hint) = self.descend(root.0, root.1, 1, key, epoch);
        if route.level != 1 || route.stale {
            return 0;
        }
        let Some(frame) = self.hinted(route.address, hint) else { return 0 };
        frame.children_from(route.address, key, epoch, down, out)
    }

    /// The route, and the hint to the copy of the node to which it leads.
    #[inline]
    fn descend<K: Wanted>(
        &self,
        root: Address,
        root_level: u8,
        stop: u8,
        key: K,
        epoch: u32,
    ) -> (Route, Option<&AtomicU32>) {
        // Separate variables, not a `Route` that is filled in: they stay in registers.
        let (mut address, mut level, mut parent, mut next) = (root, root_level, Address::NULL, Address::NULL);
        let mut hint = Some(&self.root);
        let mut stale = false;
        // This loop ends, since the level falls with every turn.
        while level > stop {
            let Some(frame) = self.hinted(address, hint) else { break };
            let (child, slot, block) = match frame.look(address, level, key, epoch) {
                Look::Child { address, next: right, slot, block } => {
                    next = right;
                    (address, slot, block)
                }
                other => {
                    stale = other == Look::Uncovered;
                    break;
                }
            };
            (parent, address, level) = (address, child, level - 1);
            hint = self.hint(block, slot);
        }
        (Route { address, level, parent: (!parent.is_null()).then_some(parent), next, stale }, hint)
    }

    /// Finds a copy where a hint says it is, or else by the table.
    #[inline]
    fn hinted(&self, address: Address, hint: Option<&AtomicU32>) -> Option<Frame<'_>> {
        match hint.and_then(|hint| self.frame(hint.load(Relaxed).wrapping_sub(1))) {
            Some(frame) if frame.address() == address => Some(frame),
            _ => self.search(address, hint).and_then(|at| self.frame(at)),
        }
    }

    /// Finds a copy by the table, and stores a hint to it.
    #[cold]
    fn search(&self, address: Address, hint: Option<&AtomicU32>) -> Option<u32> {
        let at = self.find(address)?;
        if let Some(hint) = hint {
            // The word may belong to another copy by now. It is a hint: a reader that follows it checks it.
            hint.store(at + 1, Relaxed);
        }
        Some(at)
    }

    /// Copies a node, over an older copy of the same place. `false` if it cannot be copied: the node is not in order
    /// or too large, or there is no storage. `epoch` is that of the operation that READ it.
    pub fn insert(&self, address: Address, branch: &impl Branch, epoch: u32) -> bool {
        let Some(outline) = self.shape.outline(address, branch) else { return false };
        let mut writer = self.writer.lock();
        let (at, known) = match self.find_place(address) {
            Some(at) => (at, true),
            None => match self.take(&mut writer) {
                Some(at) => (at, false),
                None => return false,
            },
        };
        let Some(frame) = self.frame(at) else { return false };
        let odd = frame.begin();
        let mut block = if known { frame.block() } else { 0 };
        if branch.level() > 1 && block == 0 {
            block = self.take_block(&mut writer);
        }
        frame.fill(&outline, block, branch, epoch);
        if !known {
            self.link(address, at, &frame);
            writer.used += 1;
        }
        frame.end(odd);
        true
    }

    /// Drops the copy of that place, unless the copy has a later generation (within half the circle of generations):
    /// then a lane has READ the node again since.
    pub(crate) fn invalidate(&self, address: Address) {
        let mut writer = self.writer.lock();
        let Some(at) = self.find_place(address) else { return };
        let Some(frame) = self.frame(at) else { return };
        let ahead = frame.address().generation().wrapping_sub(address.generation()) & 63;
        if (1..32).contains(&ahead) {
            return;
        }
        self.drop_copy(&mut writer, at);
        frame.set_link(writer.free);
        writer.free = at + 1;
    }

    /// Drops every copy.
    pub fn clear(&self) {
        let mut writer = self.writer.lock();
        for head in self.table {
            head.store(0, Relaxed);
        }
        for at in 0..writer.first_unused {
            if let Some(frame) = self.frame(at) {
                let odd = frame.begin();
                frame.empty();
                frame.end(odd);
            }
        }
        *writer = Writer::default();
    }

    /// Whether there is no frame for another copy, or a copy has displaced another one already.
    pub fn is_full(&self) -> bool {
        self.plan.frames == 0 || self.writer.lock().evictions > 0
    }

    /// What the storage is used for now.
    pub fn usage(&self) -> Usage {
        let (used, evictions) = {
            let writer = self.writer.lock();
            (u64::from(writer.used), writer.evictions)
        };
        let frame_bytes = if self.plan.frames == 0 { 0 } else { self.shape.frame_words() as u64 * 4 };
        let frames = self.plan.frames as u64;
        let table_bytes = self.table.len() as u64 * 4;
        let hint_bytes = self.hints.len() as u64 * 4;
        let budget_bytes = self.budget_words as u64 * 4;
        Usage {
            budget_bytes,
            used_bytes: used * frame_bytes,
            free_bytes: (frames - used) * frame_bytes,
            table_bytes,
            hint_bytes,
            slack_bytes: budget_bytes - frames * frame_bytes - table_bytes - hint_bytes,
            frame_bytes,
            frames,
            frames_used: used,
            evictions,
        }
    }

    #[inline]
    fn frame(&self, at: u32) -> Option<Frame<'_>> {
        let lines = self.shape.frame_lines();
        // If the product wraps, the frame is the wrong one or none, and its address shows that.
        let start = (at as usize).wrapping_mul(lines);
        let lines = self.frames.get(start..)?.get(..lines)?;
        Frame::new(&self.shape, lines)
    }
}
