//! Places in the memory of memory nodes, and those of unlinked nodes.

use crate::layout::stripes::VERSION_MASK;
use crate::remote::address::Address;
use crate::remote::chunk::ChunkKind;
use crate::verbs::NodeId;

/// Where something is: a memory node and a byte offset in its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

impl Place {
    /// Byte `offset`, cut to 48 bits, of `node`.
    #[inline]
    pub const fn new(node: NodeId, offset: u64) -> Self {
        Self((node.0 as u64) << 48 | offset & (Address::OFFSET_END - 1))
    }

    /// The memory node.
    #[inline]
    pub const fn node(self) -> NodeId {
        NodeId((self.0 >> 48) as u16)
    }

    /// The byte offset.
    #[inline]
    pub const fn offset(self) -> u64 {
        self.0 & (Address::OFFSET_END - 1)
    }

    /// `bytes` further on.
    #[inline]
    #[must_use]
    pub const fn plus(self, bytes: usize) -> Self {
        Self::new(self.node(), self.offset() + bytes as u64)
    }

    /// The same in 64 bits of an [`Address`], for lock records and errors. The low bits of the offset are where
    /// indexes with generations have one.
    #[inline]
    pub const fn address(self) -> Address {
        Address::from_bits(self.0)
    }

    /// The place an address of [`Place::address`] names.
    #[inline]
    pub const fn of(address: Address) -> Self {
        Self(address.to_bits())
    }
}

/// Allocation classes of an index's nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NodeClass {
    /// Leaves.
    #[default]
    Leaf = 0,
    /// Inner nodes.
    Inner = 1,
}

impl NodeClass {
    /// Number of classes.
    pub const COUNT: usize = 2;

    /// Every class.
    pub const ALL: [Self; Self::COUNT] = [Self::Leaf, Self::Inner];

    /// What chunks for its nodes are for.
    pub(crate) const fn chunk_kind(self) -> ChunkKind {
        match self {
            Self::Leaf => ChunkKind::Leaf,
            Self::Inner => ChunkKind::Inner,
        }
    }

    /// The class of nodes in chunks of that kind.
    pub(crate) const fn of_chunk(kind: ChunkKind) -> Option<Self> {
        match kind {
            ChunkKind::Leaf => Some(Self::Leaf),
            ChunkKind::Inner => Some(Self::Inner),
            _ => None,
        }
    }
}

/// A node to which nothing points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnlinkedNode {
    /// Its address, with the generation that its next image will have.
    pub address: Address,
    /// Node version of the image that is there now: 0 for memory that was never used.
    pub version: u8,
}

impl UnlinkedNode {
    /// The node after an image of it was written and abandoned: the next image continues the versions.
    #[must_use]
    pub(crate) const fn after_write(self) -> Self {
        Self { address: self.address.next_generation(), version: (self.version + 1) & VERSION_MASK }
    }
}
