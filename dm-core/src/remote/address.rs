//! Addresses: the place of a node, and its generation.
//!
//! ```text
//!  63        48 47                                   6 5        0
//! ┌────────────┬──────────────────────────────────────┬──────────┐
//! │ node       │ byte offset / 64                     │generation│
//! └────────────┴──────────────────────────────────────┴──────────┘
//! ```
//!
//! Nodes are 64-byte aligned, so the low six bits of an offset are free. They have the *generation* of the node at this
//! place. A node repeats its generation in its first line. A pointer with another generation is stale. Zero is the null
//! address: offset 0 of a memory node is the superblock, and never a node of an index.

use crate::layout::LINE_BYTES;
use crate::verbs::NodeId;
use core::fmt;

/// Generations count modulo 64.
pub(crate) const GENERATION_MASK: u8 = 0x3f;

/// A pointer to a node: memory node, byte offset, generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Address(u64);

impl Address {
    /// A pointer to no node.
    pub const NULL: Self = Self(0);

    /// Byte offsets lie below this: 48 bits.
    pub const OFFSET_END: u64 = 1 << 48;

    /// The address of the node with `generation` at byte `offset` of `node`. The offset is 64-byte aligned; its low
    /// bits are cut.
    #[inline]
    pub const fn new(node: NodeId, offset: u64, generation: u8) -> Self {
        let offset = offset & (Self::OFFSET_END - 1) & !(LINE_BYTES as u64 - 1);
        Self((node.0 as u64) << 48 | offset | (generation & GENERATION_MASK) as u64)
    }

    /// From its stored form.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its stored form.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Logical memory node.
    #[inline]
    pub const fn node(self) -> NodeId {
        NodeId((self.0 >> 48) as u16)
    }

    /// Byte offset in that node's memory, a multiple of 64.
    #[inline]
    pub const fn offset(self) -> u64 {
        self.0 & (Self::OFFSET_END - 1) & !(LINE_BYTES as u64 - 1)
    }

    /// Generation, 0..64.
    #[inline]
    pub const fn generation(self) -> u8 {
        self.0 as u8 & GENERATION_MASK
    }

    /// The place alone, without the generation.
    #[inline]
    pub const fn place(self) -> u64 {
        self.0 & !(GENERATION_MASK as u64)
    }

    /// The same place, with the next generation.
    #[inline]
    #[must_use]
    pub(crate) const fn next_generation(self) -> Self {
        Self(self.place() | (self.generation().wrapping_add(1) & GENERATION_MASK) as u64)
    }

    /// Whether this is [`Address::NULL`].
    #[inline]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() {
            return f.write_str("null");
        }
        write!(f, "{}:{:#x}.{}", self.node().0, self.offset(), self.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        let address = Address::new(NodeId(0x1234), 0xabcd_ef01_2340, 0x2a);
        assert_eq!(address.to_bits(), 0x1234_abcd_ef01_236a);
        assert_eq!(address.node(), NodeId(0x1234));
        assert_eq!(address.offset(), 0xabcd_ef01_2340);
        assert_eq!(address.generation(), 0x2a);
    }

    #[test]
    fn generations_wrap_without_touching_the_place() {
        let last = Address::new(NodeId(1), 0x40, 63);
        assert_eq!(last.next_generation(), Address::new(NodeId(1), 0x40, 0));
        assert_eq!(last.next_generation().place(), last.place());
    }
}
