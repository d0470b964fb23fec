//! Merges, as [`crate::btree::merge`] asks for them: the locks of CHIME's leaves lie in them, and a record that a leaf
//! takes from its right neighbour goes to the same entry, where its home's neighborhood is the same.
//!
//! Every replica says whether a leaf is retired, so a leaf is retired, and revived, by a WRITE of all of it. When it is
//! retired, its first line is written ahead of that.
//!
//! **Readers of parts.** Both leaves are locked until all three WRITEs have completed, so no record changes meanwhile.
//! A reader that still sees a part of the right leaf as it was finds what is current. One that sees a part of it as
//! retired, or of the left leaf with its new sibling, finds that it is not what the parent's copy says, and READs more.

use super::Chime;
use super::layout::{Leaf, LeafMut, State};
use crate::btree::merge::Merge;
use crate::btree::node::{Header, NodeFlags};
use crate::layout::stripes;
use crate::locks::protocol::Held;

impl<'s> Merge<'s> for Chime<'s> {
    fn note_image(&self, held: &mut Held, image: &[u8]) {
        let retired = Header::read(image).flags.contains(NodeFlags::RETIRED);
        held.free = if retired { 0 } else { self.buckets.exact(&Leaf::new(&self.leaf, image)) };
    }

    fn records(&self, image: &[u8]) -> usize {
        Leaf::new(&self.leaf, image).records()
    }

    fn take_records(&self, left: &mut [u8], right: &[u8]) {
        LeafMut::new(&self.leaf, left).purge();
        for slot in 0..self.leaf.span {
            let from = Leaf::new(&self.leaf, right);
            if from.state(slot) == State::Live {
                LeafMut::new(&self.leaf, left).copy_slot(&from, from.home_of(slot), slot);
            }
        }
    }

    fn renew(&self, image: &mut [u8]) {
        let version = stripes::node_version(image).unwrap_or(0);
        LeafMut::new(&self.leaf, image).seal(version.wrapping_add(1));
    }

    fn retired_bytes(&self) -> usize {
        self.leaf.bytes
    }
}
