//! Spans: regions of a lane's scratch, each named by where it begins and how long it is.

use crate::layout;
use crate::remote::address::Address;
use crate::verbs::{Label, Request};
use core::ops::Range;

/// A region of a lane's scratch: the image of a node, a line, a word.
///
/// It is a name and no borrow. An operation keeps it while the driver owns the scratch, and borrows its bytes when what
/// was READ into it has arrived. A scratch that is too short for it has no bytes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Scratch offset of its first byte.
    pub at: usize,
    /// Bytes.
    pub bytes: usize,
}

impl Span {
    /// `bytes` bytes from scratch offset `at` on.
    #[inline]
    pub const fn new(at: usize, bytes: usize) -> Self {
        Self { at, bytes }
    }

    /// Scratch offset of what is behind it.
    #[inline]
    pub const fn end(self) -> usize {
        self.at + self.bytes
    }

    /// The `i`th of several of its length, one behind the other, of which it is the first.
    #[inline]
    #[must_use]
    pub const fn nth(self, i: usize) -> Self {
        Self { at: self.at + i * self.bytes, bytes: self.bytes }
    }

    /// A part of it.
    #[inline]
    #[must_use]
    pub const fn part(self, within: &Range<usize>) -> Self {
        Self { at: self.at + within.start, bytes: within.end - within.start }
    }

    /// What begins with it and has `bytes` bytes.
    #[inline]
    #[must_use]
    pub const fn with_bytes(self, bytes: usize) -> Self {
        Self { at: self.at, bytes }
    }

    /// Its bytes.
    #[inline]
    pub fn of(self, scratch: &[u8]) -> &[u8] {
        // Two cuts take fewer instructions than one, in which both ends are compared with each other, too.
        scratch.get(self.at..).and_then(|scratch| scratch.get(..self.bytes)).unwrap_or_default()
    }

    /// Its bytes, to be changed.
    #[inline]
    pub(crate) fn of_mut(self, scratch: &mut [u8]) -> &mut [u8] {
        scratch.get_mut(self.at..self.end()).unwrap_or_default()
    }

    /// What lies in front of it, and its bytes. `None`: the scratch ends before it.
    #[inline]
    pub fn split(self, scratch: &mut [u8]) -> Option<(&mut [u8], &mut [u8])> {
        let (front, rest) = scratch.split_at_mut_checked(self.at)?;
        Some((front, rest.get_mut(..self.bytes).unwrap_or_default()))
    }

    /// The word with which it begins.
    #[inline]
    pub fn word(self, scratch: &[u8]) -> u64 {
        layout::word_at(scratch, self.at)
    }

    /// Sets the word with which it begins.
    #[inline]
    pub fn set_word(self, scratch: &mut [u8], word: u64) {
        if let Some(place) = scratch.get_mut(self.at..self.at + 8) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Copies its bytes to the scratch from offset `to` on.
    pub(crate) fn copy_to(self, scratch: &mut [u8], to: usize) {
        if self.end() <= scratch.len() && to + self.bytes <= scratch.len() {
            scratch.copy_within(self.at..self.end(), to);
        }
    }

    /// The READ into it of what is at `address`.
    #[inline]
    pub const fn read_from(self, label: Label, address: Address) -> Request {
        Request::read(label, address.node(), address.offset(), self.bytes, self.at)
    }

    /// The WRITE of it to `address`.
    #[inline]
    pub(crate) const fn write_to(self, label: Label, address: Address) -> Request {
        Request::write(label, address.node(), address.offset(), self.bytes, self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::NodeId;

    #[test]
    fn a_span_names_bytes_and_is_empty_where_there_are_none() {
        let mut scratch = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        let span = Span::new(2, 3);
        assert_eq!((span.of(&scratch), span.end()), ([2, 3, 4].as_slice(), 5));
        assert_eq!(span.part(&(1..3)).of(&scratch), [3, 4]);
        assert_eq!((span.with_bytes(1).of(&scratch), span.nth(1).of(&scratch)), ([2].as_slice(), [5, 6, 7].as_slice()));
        assert!(span.nth(2).of(&scratch).is_empty());
        assert_eq!(span.split(&mut scratch), Some((&mut [0, 1][..], &mut [2, 3, 4][..])));
        assert_eq!(Span::new(11, 1).split(&mut scratch), None);
        assert!(Span::new(9, 2).of_mut(&mut scratch).is_empty());
        span.copy_to(&mut scratch, 7);
        span.copy_to(&mut scratch, 8);
        assert_eq!(scratch, [0, 1, 2, 3, 4, 5, 6, 2, 3, 4]);
    }

    #[test]
    fn requests_have_its_place_and_length() {
        let address = Address::new(NodeId(3), 0x400, 5);
        for request in
            [Span::new(128, 64).read_from(Label::Leaf, address), Span::new(128, 64).write_to(Label::Leaf, address)]
        {
            assert_eq!((request.node, request.offset, request.bytes, request.local), (NodeId(3), 0x400, 64, 128));
        }
    }
}
