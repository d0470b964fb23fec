//! The memory that a B+-tree borrows: static arrays of sizes known when the image is compiled.

use crate::LANES;
use crate::memory::CAPABILITIES;
use crate::pool::{LOCKS, Place};
use core::array;
use core::sync::atomic::AtomicU32;
use dm_core::btree::descent::RootCopy;
use dm_core::btree::inner::InnerShape;
use dm_core::btree::{Options, Tree, TreeScratch};
use dm_core::compute::batches::Batches;
use dm_core::compute::cache::IndexCache;
use dm_core::locks::table::{Entry, LockTable, Waiter};
use dm_core::memory::chunks::RequestIds;
use dm_core::memory::node_pool::{FreeNode, NodePool, NodeSlab};
use dm_core::remote::HOME;
use dm_core::remote::catalog::root_offset;
use dm_core::remote::place::NodeClass;
use spin::{Mutex, MutexGuard, Once};

/// Words of the index cache.
const CACHE_WORDS: usize = 1024;

/// Retired nodes of each class that are remembered.
const RETURNED: usize = 32;

/// Most handovers of a held lock in a row.
pub const HAND_OVERS_MAX: u8 = 4;

static CACHE: [AtomicU32; CACHE_WORDS] = [const { AtomicU32::new(0) }; CACHE_WORDS];
static REQUESTS: RequestIds = RequestIds::new();
static ENTRIES: Once<[Entry; LOCKS]> = Once::new();
static WAITERS: Once<[Waiter; LANES]> = Once::new();
static RETURNS: Once<Mutex<[[FreeNode; RETURNED]; NodeClass::COUNT]>> = Once::new();
static SLABS: Once<[Mutex<NodeSlab<'static>>; NodeClass::COUNT]> = Once::new();

/// Sizes that follow from the parameters of a B+-tree.
pub struct Sizes {
    /// Bytes of every key.
    pub key_bytes: usize,
    /// Inner nodes.
    pub inner: InnerShape,
    /// Bytes of a leaf's image, and of its place.
    pub leaf_bytes: usize,
    /// See there.
    pub leaf_place_bytes: usize,
    /// Whether copies of inner nodes keep the next pointer.
    pub keeps_next: bool,
    /// Scratch of the tree's own procedures.
    pub scratch: TreeScratch,
}

/// A tree in the static memory. To be called once: there is one memory.
pub fn tree(place: &Place, sizes: Sizes) -> Option<Tree<'static>> {
    let entries = ENTRIES.call_once(|| array::from_fn(|_| Entry::default()));
    let waiters = WAITERS.call_once(|| array::from_fn(|_| Waiter::default()));
    let returns = RETURNS.call_once(|| Mutex::new([[FreeNode::default(); RETURNED]; NodeClass::COUNT]));
    let slabs = SLABS.call_once(|| {
        let returns: &'static mut [_; NodeClass::COUNT] = MutexGuard::leak(returns.lock());
        returns.each_mut().map(|returns| Mutex::new(NodeSlab::new(returns)))
    });
    let cache = if sizes.keeps_next { IndexCache::with_next } else { IndexCache::new };
    Some(Tree {
        number: place.number,
        index: place.number.in_nodes(),
        owner: place.member,
        requests: &REQUESTS,
        geometry: place.geometry,
        root_word: (HOME, root_offset(place.geometry.first()?, place.number)),
        root: RootCopy::default(),
        leaf_bytes: sizes.leaf_bytes,
        capabilities: CAPABILITIES,
        options: Options::default(),
        // Nobody would fence this compute node: the fabric cannot.
        recovery: None,
        epochs: None,
        scratch: sizes.scratch,
        locks: LockTable::new(entries, LOCKS as u32, waiters, HAND_OVERS_MAX),
        batches: Batches::new(&[], &[], &[]),
        nodes: NodePool::new(slabs, [sizes.leaf_place_bytes as u32, sizes.inner.bytes as u32]),
        cache: cache(&CACHE, sizes.key_bytes, sizes.inner.span + 1),
        inner: sizes.inner,
    })
}
