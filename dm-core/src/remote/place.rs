//! Places of unlinked nodes.

use crate::layout::stripes::VERSION_MASK;
use crate::remote::address::Address;

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
    pub const fn after_write(self) -> Self {
        Self { address: self.address.next_generation(), version: (self.version + 1) & VERSION_MASK }
    }
}
