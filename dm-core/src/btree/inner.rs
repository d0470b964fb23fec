//! Inner nodes: separators in ascending order, one child more than separators.
//!
//! Payload after the header (`K` = key bytes, `X` = extension bytes an index may ask for in the header):
//!
//! ```text
//!  14+2K        14+2K+X    +8
//! ┌────────────┬──────────┬───────────────────┬───────────────────┬──
//! │ extension  │ child 0  │ separator 1, child│ separator 2, child│ ...   K + 8 bytes each
//! └────────────┴──────────┴───────────────────┴───────────────────┴──
//! ```
//!
//! The extension, of indexes that want one (`X` = 8, else 0), is the *next* pointer: the leftmost child of the right
//! neighbour, null at the right edge. So a node names for each child the one to its right, the last included. It never
//! becomes wrong: a node keeps its leftmost child (merges retire the right one of two children), and when the right
//! neighbour splits, its left half keeps that child.
//!
//! Child `i` covers keys from separator `i` (child 0: the low fence) to separator `i + 1` (the last: the high fence).
//! Inner nodes are written whole; their entry versions stay 0.

use super::node::{self, Header, NodeFlags};
use crate::compute::cache::Branch;
use crate::layout::stripes;
use crate::mutants::{Mutant, planted};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use core::cmp::Ordering;

/// Separators an inner node can hold at most, whatever its size; limits loops over remote counts.
pub const SPAN_MAX: usize = 1024;

/// Sizes of an index's inner nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerShape {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// 8 if nodes keep the next pointer behind the fences, else 0.
    pub extension_bytes: usize,
    /// Separators a node holds.
    pub span: usize,
    /// Stored bytes of a node.
    pub bytes: usize,
}

impl InnerShape {
    /// Shape with room for `span` separators.
    pub(crate) const fn with_span(key_bytes: usize, extension_bytes: usize, span: usize) -> Self {
        let payload = node::header_bytes(key_bytes) + extension_bytes + 8 + span * (key_bytes + 8);
        Self { key_bytes, extension_bytes, span, bytes: stripes::stored_bytes(payload) }
    }

    /// The largest span that fits `bytes`.
    pub const fn with_bytes(key_bytes: usize, extension_bytes: usize, bytes: usize) -> Self {
        let payload = stripes::payload_bytes(bytes);
        let fixed = node::header_bytes(key_bytes) + extension_bytes + 8;
        let span = if payload > fixed { (payload - fixed) / (key_bytes + 8) } else { 0 };
        Self { key_bytes, extension_bytes, span, bytes: bytes / 64 * 64 }
    }

    const fn leftmost_at(&self) -> usize {
        node::header_bytes(self.key_bytes) + self.extension_bytes
    }

    /// Payload offset of separator `i`, 1-based.
    const fn separator_at(&self, i: usize) -> usize {
        self.leftmost_at() + 8 + (i - 1) * (self.key_bytes + 8)
    }

    const fn child_at(&self, i: usize) -> usize {
        if i == 0 { self.leftmost_at() } else { self.separator_at(i) + self.key_bytes }
    }
}

/// An image of an inner node that was judged sound.
#[derive(Clone, Copy)]
pub struct Inner<'a> {
    shape: &'a InnerShape,
    image: &'a [u8],
}

impl<'a> Inner<'a> {
    /// `None` if the count exceeds the span: this crate never writes that.
    #[inline]
    pub fn new(shape: &'a InnerShape, image: &'a [u8]) -> Option<Self> {
        let inner = Self { shape, image };
        (inner.separators() <= shape.span && image.len() >= shape.bytes).then_some(inner)
    }

    /// Separators, one less than children.
    #[inline]
    pub fn separators(&self) -> usize {
        stripes::half(self.image, node::COUNT_AT) as usize
    }

    /// Position of the child that covers `key`: the number of separators that are not above it.
    #[inline]
    pub fn position(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.separators());
        while low < high {
            let middle = low.midpoint(high);
            if stripes::compare(self.image, self.shape.separator_at(middle + 1), key) == Ordering::Greater {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Child `i`.
    #[inline]
    pub fn child(&self, i: usize) -> Address {
        Address::from_bits(stripes::word(self.image, self.shape.child_at(i)))
    }

    /// The child to the right of child `i`; null if there is none, or for the last child of a node that does not keep
    /// it.
    #[inline]
    pub fn next(&self, i: usize) -> Address {
        if i < self.separators() {
            return self.child(i + 1);
        }
        if self.shape.extension_bytes == 0 {
            return Address::NULL;
        }
        Address::from_bits(stripes::word(self.image, node::header_bytes(self.shape.key_bytes)))
    }

    /// How separator `i` (1-based) compares with `key`.
    #[inline]
    pub(crate) fn compare_separator(&self, i: usize, key: &[u8]) -> Ordering {
        stripes::compare(self.image, self.shape.separator_at(i), key)
    }

    /// Whether child `i` begins with this key: at the separator in front of it, or, for the first one, at the low fence.
    #[inline]
    pub(crate) fn begins_at(&self, i: usize, key: &[u8]) -> bool {
        match i {
            0 => stripes::compare(self.image, node::LOW_AT, key).is_eq(),
            i => self.compare_separator(i, key).is_eq(),
        }
    }

    /// Copies separator `i` (1-based) out.
    #[inline]
    pub fn read_separator(&self, i: usize, out: &mut [u8]) {
        stripes::read(self.image, self.shape.separator_at(i), out);
    }
}

impl Branch for Inner<'_> {
    fn level(&self) -> u8 {
        Header::read(self.image).level
    }

    fn low(&self, out: &mut [u8]) {
        stripes::read(self.image, node::LOW_AT, out);
    }

    fn high(&self, out: &mut [u8]) -> bool {
        node::read_high(self.image, out)
    }

    fn children(&self) -> usize {
        self.separators() + 1
    }

    fn child(&self, i: usize) -> Address {
        Inner::child(self, i)
    }

    fn separator(&self, i: usize, out: &mut [u8]) {
        self.read_separator(i, out);
    }

    fn next(&self) -> Address {
        Inner::next(self, self.separators())
    }
}

/// Changes to an image of a node that is locked, or unlinked.
pub struct InnerMut<'a> {
    shape: &'a InnerShape,
    image: &'a mut [u8],
}

impl<'a> InnerMut<'a> {
    /// The image must have been judged sound, or built by [`node::start`].
    pub fn new(shape: &'a InnerShape, image: &'a mut [u8]) -> Self {
        Self { shape, image }
    }

    /// A read-only view.
    pub fn view(&self) -> Inner<'_> {
        Inner { shape: self.shape, image: self.image }
    }

    fn set_count(&mut self, count: usize) {
        stripes::write(self.image, node::COUNT_AT, &(count as u16).to_le_bytes());
    }

    /// Replaces child `i`.
    pub fn set_child(&mut self, i: usize, child: Address) {
        stripes::write(self.image, self.shape.child_at(i), &child.to_bits().to_le_bytes());
    }

    /// Replaces the next pointer, if the shape has one.
    pub(crate) fn set_next(&mut self, next: Address) {
        if self.shape.extension_bytes > 0 {
            let at = node::header_bytes(self.shape.key_bytes);
            stripes::write(self.image, at, &next.to_bits().to_le_bytes());
        }
    }

    fn copy_slot(&mut self, from: usize, to: usize) {
        // Through a small buffer: slots are K + 8 <= 72 bytes.
        let bytes = self.shape.key_bytes + 8;
        let mut slot = [0; KEY_BYTES_MAX + 8];
        let Some(slot) = slot.get_mut(..bytes) else { return };
        stripes::read(self.image, self.shape.separator_at(from), slot);
        stripes::write(self.image, self.shape.separator_at(to), slot);
    }

    /// Inserts `separator` and the child to its right, keeping order. `false`: the node is full.
    pub fn insert(&mut self, separator: &[u8], child: Address) -> bool {
        let count = self.view().separators();
        if count >= self.shape.span {
            return false;
        }
        let position = self.view().position(separator);
        for i in (position + 1..=count).rev() {
            self.copy_slot(i, i + 1);
        }
        stripes::write(self.image, self.shape.separator_at(position + 1), separator);
        self.set_child(position + 1, child);
        self.set_count(count + 1);
        true
    }

    /// Appends at the end, without a search: bulk load.
    pub fn append(&mut self, separator: &[u8], child: Address) -> bool {
        let count = self.view().separators();
        if count >= self.shape.span {
            return false;
        }
        stripes::write(self.image, self.shape.separator_at(count + 1), separator);
        self.set_child(count + 1, child);
        self.set_count(count + 1);
        true
    }

    /// Removes separator `i` (1-based) and the child to its right.
    pub fn remove(&mut self, i: usize) {
        let count = self.view().separators();
        for slot in i + 1..=count {
            self.copy_slot(slot, slot - 1);
        }
        self.set_count(count.saturating_sub(1));
    }

    /// Inserts `separator` and the child to its right into a full node by moving the upper half to `right`, an image of
    /// the same shape, which gets `address` and this node's right edge. Writes the separator between the two into
    /// `between`. Entries that stay are not touched.
    ///
    /// The middle separator of all, the new one included, moves up. Otherwise a node of two separators could leave a
    /// half with a single child, again and again, and a tree would grow by a level every few inserts.
    pub fn split(
        &mut self,
        right: &mut [u8],
        address: Address,
        (separator, child): (&[u8], Address),
        between: &mut [u8],
    ) {
        let count = self.view().separators();
        let middle = if planted(Mutant::SPLIT_AT_THE_END) { count } else { count.div_ceil(2) };
        let side = self.view().position(separator).cmp(&middle);
        // Of the old separators, `stay` remain here and those from `moved` on go to the right half.
        let (stay, moved, first) = match side {
            Ordering::Less => (middle - 1, middle + 1, self.view().child(middle)),
            Ordering::Equal => (middle, middle + 1, child),
            Ordering::Greater => (middle, middle + 2, self.view().child(middle + 1)),
        };
        if side == Ordering::Equal {
            between.copy_from_slice(separator);
        } else {
            self.view().read_separator(stay + 1, between);
        }
        let header = Header::read(self.image);
        let mut high = [0; KEY_BYTES_MAX];
        let high = high.get_mut(..self.shape.key_bytes).unwrap_or_default();
        let bounded = node::read_high(self.image, high);
        let right_header = Header { generation: address.generation(), flags: NodeFlags::empty(), count: 0, ..header };
        node::start(right, &right_header, between, bounded.then_some(&*high));
        let next = self.view().next(count);
        let mut to = InnerMut::new(self.shape, right);
        to.set_next(next);
        to.set_child(0, first);
        let mut key = [0; KEY_BYTES_MAX];
        let key = key.get_mut(..self.shape.key_bytes).unwrap_or_default();
        for i in moved..=count {
            self.view().read_separator(i, key);
            to.append(key, self.view().child(i));
        }
        if side == Ordering::Greater {
            to.insert(separator, child);
        }
        self.set_count(stay);
        self.set_next(first);
        if !planted(Mutant::INNER_KEEPS_FENCE) {
            node::set_right(self.image, Some(between), address);
        }
        if side == Ordering::Less {
            self.insert(separator, child);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::NodeId;
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    const fn child(number: u64) -> Address {
        Address::new(NodeId(0), number * 64, 0)
    }

    /// Separators and children of an image.
    fn content(shape: &InnerShape, image: &[u8]) -> (Vec<u64>, Vec<u64>) {
        let inner = Inner::new(shape, image).unwrap();
        let mut key = [0; 8];
        let separators = (1..=inner.separators()).map(|i| {
            inner.read_separator(i, &mut key);
            u64::from_be_bytes(key)
        });
        (separators.collect(), (0..=inner.separators()).map(|i| inner.child(i).offset() / 64).collect())
    }

    #[test]
    fn a_split_leaves_two_children_on_each_side_wherever_the_new_one_goes() {
        for span in 2..8 {
            let shape = InnerShape::with_span(8, 0, span);
            for place in 0..=span as u64 {
                let mut left = vec![0; shape.bytes];
                let header = Header {
                    generation: 0,
                    level: 1,
                    index: 1,
                    flags: NodeFlags::empty(),
                    count: 0,
                    sibling: child(999),
                };
                node::start(&mut left, &header, &[0; 8], Some(&1000u64.to_be_bytes()));
                let mut inner = InnerMut::new(&shape, &mut left);
                inner.set_child(0, child(1));
                let (mut separators, mut children) = (vec![], vec![1]);
                for i in 1..=span as u64 {
                    assert!(inner.append(&(i * 10).to_be_bytes(), child(i * 10)));
                    separators.push(i * 10);
                    children.push(i * 10);
                }
                let new = place * 10 + 5;
                separators.insert(place as usize, new);
                children.insert(place as usize + 1, new);
                let (mut right, mut between) = (vec![0; shape.bytes], [0; 8]);
                InnerMut::new(&shape, &mut left).split(
                    &mut right,
                    child(500),
                    (&new.to_be_bytes(), child(new)),
                    &mut between,
                );
                let (left_separators, left_children) = content(&shape, &left);
                let (right_separators, right_children) = content(&shape, &right);
                assert!(left_children.len() >= 2 && right_children.len() >= 2, "span {span}, place {place}");
                let all = [left_separators, vec![u64::from_be_bytes(between)], right_separators].concat();
                assert_eq!(all, separators, "span {span}, place {place}");
                assert_eq!([left_children, right_children].concat(), children, "span {span}, place {place}");
                assert_eq!(Header::read(&left).sibling, child(500));
                assert_eq!(Header::read(&right).sibling, child(999));
                assert!(stripes::compare(&right, node::LOW_AT, &between).is_eq());
                assert!(stripes::compare(&left, node::high_at(8), &between).is_eq());
            }
        }
    }
}
