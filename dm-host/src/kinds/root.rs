//! What shows that an index without a root once had one: see `rootless`.

use dm_core::btree::node::{Header, LOW_AT, NodeFlags};
use dm_core::layout::stripes;
use dm_core::registry::KEY_BYTES_MAX;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::ChunkKind;

/// Tests the image of a place.
pub type Look<'p> = Box<dyn Fn(&[u8]) -> bool + 'p>;

/// What to look for in a chunk.
pub struct Evidence<'p> {
    /// Bytes of a place.
    pub bytes: usize,
    /// Whether the image of a place is what the search is for.
    pub is_it: Look<'p>,
    /// A find is a doubt, not proof.
    pub doubtful: bool,
}

impl<'p> Evidence<'p> {
    /// For a chunk of `kind` of B+-tree `number`, with nodes of these sizes: a node that covers all keys. `records`
    /// counts the records in the image of a leaf.
    pub(super) fn of_tree(
        number: IndexNumber,
        kind: ChunkKind,
        (leaf_bytes, inner_bytes): (usize, usize),
        key_bytes: usize,
        records: impl Fn(&[u8]) -> usize + 'p,
    ) -> Self {
        let is_leaf = kind == ChunkKind::Leaf;
        let is_it = move |image: &[u8]| {
            let header = Header::read(image);
            header.index == number.in_nodes()
                && (header.level == 0) == is_leaf
                && header.flags == NodeFlags::UNBOUNDED
                && stripes::compare(image, LOW_AT, &[0; KEY_BYTES_MAX][..key_bytes.min(KEY_BYTES_MAX)]).is_eq()
                && (!is_leaf || records(image) > 0)
        };
        Self { bytes: if is_leaf { leaf_bytes } else { inner_bytes }, is_it: Box::new(is_it), doubtful: false }
    }
}
