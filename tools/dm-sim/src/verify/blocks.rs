//! Finds the blocks of items in the images of leaves.

use super::accounting::Node;
use super::memory_walk::MemoryWalk as _;
use dm_core::items::block::{block_bytes, class_bytes, class_of};
use dm_core::items::key::{KeyShape, ROOT_LAYER};
use dm_core::items::slot::Slot;
use dm_core::match_kind;
use dm_host::kinds::{Below, IndexParameters};
use std::collections::BTreeSet;

/// The blocks and the layers that leaves name.
#[derive(Debug)]
pub(super) struct Found {
    keys: KeyShape,
    longest: u64,
    links: Vec<(u64, u64)>,
    blocks: Vec<(u64, Node)>,
}

impl Found {
    /// An empty set, for an index with `parameters`. `None`: the index has no items.
    pub(super) fn nothing(parameters: &IndexParameters) -> Option<Self> {
        let items = parameters.any_length?;
        let entry_key_bytes = parameters.below.key_bytes();
        let longest = class_bytes(class_of(block_bytes(items.key_bytes_max, items.value_bytes_max))) as u64;
        Some(Self { keys: KeyShape::new(entry_key_bytes), longest, links: Vec::new(), blocks: Vec::new() })
    }

    /// Adds what the image of a leaf names.
    pub(super) fn add(&mut self, parameters: &IndexParameters, image: &[u8]) {
        let see = &mut |entry_key: &[u8], value: &[u8]| self.add_entry(entry_key, value);
        match_kind!(&parameters.below, Below(below) => below.for_each_entry(image, see));
    }

    fn add_entry(&mut self, entry_key: &[u8], value: &[u8]) {
        let layer = self.keys.read(entry_key).map_or(u64::MAX, |entry| entry.layer);
        match Slot::read(entry_key, value) {
            Some(Slot::Block(pointer)) => {
                let bytes = class_bytes(class_of(pointer.bytes as usize)) as u64;
                self.blocks.push((layer, Node { node: pointer.node(), offset: pointer.offset(), bytes }));
            }
            Some(Slot::Link(below)) => self.links.push((layer, below)),
            _ => {}
        }
    }

    /// The blocks in use: those of linked layers. A layer that was made and never linked names a block that the entry
    /// it was made for names, or named.
    pub(super) fn blocks(mut self) -> Result<Vec<Node>, String> {
        let mut linked = BTreeSet::from([ROOT_LAYER]);
        while let Some(at) = self.links.iter().position(|(from, _)| linked.contains(from)) {
            linked.insert(self.links.swap_remove(at).1);
        }
        let named: Vec<Node> =
            self.blocks.into_iter().filter(|(layer, _)| linked.contains(layer)).map(|(_, node)| node).collect();
        match named.iter().find(|node| node.bytes > self.longest) {
            Some(long) => Err(format!("a block of {} bytes at {}:{:#x}", long.bytes, long.node.0, long.offset)),
            None => Ok(named),
        }
    }
}
