//! Merges, as [`crate::btree::merge`] asks for them: the locks of Sherman's leaves are the tables', and records that a
//! leaf takes from its right neighbour go into its first slots.
//!
//! A leaf is retired by its first line alone: its records stay as they are, and are valid again if it is revived.

use super::Sherman;
use super::layout::{Leaf, LeafMut, SPAN_MAX};
use crate::btree::link::raise_node_version;
use crate::btree::merge::Merge;
use crate::registry::KEY_BYTES_MAX;

impl<'s> Merge<'s> for Sherman<'s> {
    fn records(&self, image: &[u8]) -> usize {
        Leaf::new(&self.leaf, image).records()
    }

    fn take_records(&self, left: &mut [u8], right: &[u8]) {
        let mut slots = [0; SPAN_MAX];
        let lowest = [0; KEY_BYTES_MAX];
        let low = lowest.get(..self.leaf.key_bytes).unwrap_or_default();
        let count = Leaf::new(&self.leaf, right).sorted(low, None, &mut slots);
        for (to, &slot) in slots.iter().take(count).enumerate() {
            LeafMut::new(&self.leaf, left).copy_from(&Leaf::new(&self.leaf, right), slot as usize, to);
        }
    }

    fn renew(&self, image: &mut [u8]) {
        raise_node_version(image);
    }
}
