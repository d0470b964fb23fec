//! Splitting a full leaf for a record that has to go in.
//!
//! The upper half, by key, moves to a new right sibling; entries that stay keep their slots. The sibling is written
//! first, then the old leaf with its lowered fence, the link and without the moved entries: that WRITE is both the
//! split and, wherever the record went, the insert ([`half_splits`](crate::manual::half_splits)).

use super::Sherman;
use super::layout::{Leaf, LeafMut, LeafShape, SPAN_MAX};
use crate::btree::link::raise_node_version;
use crate::btree::node::{self, Header, NodeFlags};
use crate::btree::router::Router;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes;
use crate::locks::protocol::{Held, Locks};
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::registry::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::remote::address::Address;
use crate::remote::place::NodeClass;

impl Sherman<'_> {
    /// Splits the locked, full leaf in image 0 and inserts the operation's record; then links the sibling in the
    /// parent.
    pub(super) async fn split_and_insert(&self, lane: &Lane<'_>, held: Held) -> Result<(), Interrupt> {
        let left = held.protects;
        let Some(fresh) = lane.take_to_link(NodeClass::Leaf, left.node()) else {
            self.tree.release(lane, held).await?;
            return Err(Interrupt::NoMemory);
        };
        lane.mark(Mark::LEAF_SPLIT);
        if fresh.version != 0 {
            lane.mark(Mark::NODE_REUSED);
        }
        let image = self.tree.leaf_image(0);
        let right = fresh.address;
        lane.port().with(|scratch| {
            let Some((front, right_half)) = self.tree.leaf_image(1).split(scratch) else { return };
            let Ok((arguments, left_half)) = self.plan.arguments_and(image, front) else { return };
            let mut separator = [0; KEY_BYTES_MAX];
            let Some(separator) = separator.get_mut(..self.leaf.key_bytes) else { return };
            split_images(&self.leaf, left_half, right_half, right, separator);
            self.tree.owner_tag().write(right_half);
            let half = if arguments.key() < &*separator { &mut *left_half } else { &mut *right_half };
            let mut half = LeafMut::new(&self.leaf, half);
            if let Some(slot) = half.view().free_slot() {
                half.put(slot, arguments.key(), arguments.value());
            }
            raise_node_version(left_half);
            stripes::set_node_version(right_half, fresh.version.wrapping_add(1));
            if let Some(place) = scratch.get_mut(self.tree.scratch.separator.clone()) {
                place.copy_from_slice(separator);
            }
        });
        lane.change_is_next();
        self.tree.write_split(lane, held, (left, right), image).await?;
        lane.is_through(fresh);
        // The record is in. If the parent cannot be told now, the next operation that meets the half-split does it.
        if !planted(Mutant::HALF_SPLIT_LEFT) {
            lane.end_change(Router::link(&self.tree, lane, 0, right).await);
        }
        Ok(())
    }
}

/// Moves the upper half of the leaf in `left` to the new leaf in `right`, whose place is `address`, and links them. The
/// least key of the upper half goes to `separator`. What else a kind's leaves have behind their headers is its own part.
pub fn split_images(shape: &LeafShape, left: &mut [u8], right: &mut [u8], address: Address, separator: &mut [u8]) {
    let mut slots = [0; SPAN_MAX];
    let lowest = [0; KEY_BYTES_MAX];
    let count = Leaf::new(shape, left).sorted(&lowest[..shape.key_bytes], None, &mut slots);
    let (Some(&middle), Some(moved)) = (slots.get(count / 2), slots.get(count / 2..count)) else { return };
    Leaf::new(shape, left).read_key(middle as usize, separator);
    let mut high = [0; KEY_BYTES_MAX];
    let Some(high) = high.get_mut(..shape.key_bytes) else { return };
    let bounded = node::read_high(left, high);
    let header = Header { generation: address.generation(), flags: NodeFlags::empty(), ..Header::read(left) };
    node::start(right, &header, separator, bounded.then_some(&*high));
    for (to, &slot) in moved.iter().enumerate() {
        LeafMut::new(shape, right).copy_from(&Leaf::new(shape, left), slot as usize, to);
        LeafMut::new(shape, left).clear(slot as usize);
    }
    if planted(Mutant::SPLIT_SORTS) {
        sort_those_that_stay(shape, left);
    }
    let next = if planted(Mutant::LOST_SIBLING) { Header::read(left).sibling } else { address };
    node::set_right(left, Some(separator), next);
}

/// The mutant that moves entries that stay.
fn sort_those_that_stay(shape: &LeafShape, left: &mut [u8]) {
    let (mut slots, lowest) = ([0; SPAN_MAX], [0; KEY_BYTES_MAX]);
    let Some(lowest) = lowest.get(..shape.key_bytes) else { return };
    for to in 0..shape.span {
        let count = Leaf::new(shape, left).sorted(lowest, None, &mut slots);
        if to >= count {
            return;
        }
        // Half of the slots are free: an entry that is in the way goes there first.
        let free = Leaf::new(shape, left).free_slot();
        let from = usize::from(slots[to]);
        let Some(free) = free.filter(|_| from != to) else { continue };
        if slots.iter().take(count).any(|slot| usize::from(*slot) == to) {
            move_entry(shape, left, to, free);
        }
        move_entry(shape, left, from, to);
    }
}

fn move_entry(shape: &LeafShape, leaf: &mut [u8], from: usize, to: usize) {
    let mut record = [0; KEY_BYTES_MAX + VALUE_BYTES_MAX];
    let Some(record) = record.get_mut(..shape.key_bytes + shape.value_bytes) else { return };
    Leaf::new(shape, leaf).read_record(from, record);
    let (key, value) = record.split_at(shape.key_bytes);
    LeafMut::new(shape, leaf).put(to, key, value);
    LeafMut::new(shape, leaf).clear(from);
}
