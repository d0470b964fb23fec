//! What a walk of the memories, without the code of the index, has to know of a kind of index.

use super::accounting::Holdings;
use super::subject::InnerNodeImages;
use crate::memory::Memories;
use dm_core::btree::inner::InnerShape;
use dm_core::registry::KindParameters;
use dm_core::remote::NodeGeometry;
use dm_core::remote::lock_word::LockWord;
use dm_host::kinds::IndexParameters;

/// Describes a kind of index to walks that look directly at the memories.
pub(super) trait MemoryWalk: KindParameters {
    /// Its nodes, if it is a B+-tree.
    fn tree(&self) -> Option<TreeNodes> {
        None
    }

    /// Where locks lie in leaves, if they do.
    fn leaf_locks(&self) -> Option<LeafLocks> {
        None
    }

    /// The inner nodes, if it has any.
    fn inner_node_images(&self, geometry: &[NodeGeometry], memories: &Memories) -> InnerNodeImages {
        let _ = (geometry, memories);
        InnerNodeImages::default()
    }

    /// Chunks of the index, and the nodes in them that it reaches. `parameters` are these, and those of items over the
    /// index.
    fn holdings(
        &self,
        parameters: &IndexParameters,
        geometry: &[NodeGeometry],
        memories: &Memories,
    ) -> Result<Holdings, String>;

    /// Calls `see` with key and value of every entry in the image of a leaf.
    fn for_each_entry(&self, image: &[u8], see: &mut dyn FnMut(&[u8], &[u8]));
}

/// Nodes of a B+-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeNodes {
    /// Inner nodes.
    pub inner: InnerShape,
    /// A leaf's image, and its place.
    pub leaf_bytes: usize,
    pub leaf_place_bytes: usize,
}

/// Locks that lie in leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafLocks {
    /// Bytes of a leaf's place.
    pub place_bytes: usize,
    /// Offset of the lock word in a place.
    pub lock_at: usize,
    /// Rows that the word names as holders, whatever they hold it for.
    pub holders: fn(u64) -> Vec<u16>,
    /// Several may hold one at a time.
    pub is_shared: bool,
}

/// The holder of a lock word of which `held_bits` say that it is held.
pub(super) fn only_holder(word: u64, held_bits: u64) -> Vec<u16> {
    if word & held_bits == 0 { Vec::new() } else { vec![LockWord(word).row().0] }
}
