//! Marks: events of what radix trees share that are counted.

crate::marks::declare_marks! {
    45;
    /// A new node was put above a node whose prefix differed from the key.
    HEADER_SPLIT = "header-split",
    /// A leaf split needed several nodes, one below the other.
    LONG_PATH = "long-path",
    /// A full node was replaced by one with room.
    NODE_REPLACED = "node-replaced",
    /// An operation met a node that another one had begun to freeze, and replaced it.
    HELPED_REPLACEMENT = "helped-replacement",
    /// A replacement of a node lost the CAS of its slot.
    REPLACEMENT_LOST = "replacement-lost",
    /// The CAS of a slot lost.
    SLOT_LOST = "slot-lost",
    /// The part of these that lost to a leaf or node under the same byte.
    SAME_BYTE = "same-byte",
    /// A slot that a copy had was READ again, before its leaf or node counted as the key's absence.
    CONFIRMED = "confirmed",
    /// A reader went through a frozen slot.
    FROZEN_SLOT = "frozen-slot",
    /// The tombstone of a deleted leaf was finalized.
    FINALIZED = "finalized",
    /// An operation found the key's leaf finalized, and began again.
    FINALIZED_MET = "finalized-met",
    /// A new leaf took the slot of a finalized leaf.
    LEAF_REPLACED = "leaf-replaced",
    /// A finalized leaf was left out when its node was replaced.
    LEAF_LEFT_OUT = "leaf-left-out",
    /// A node with at most one leaf that was not finalized was left out when the node above it was replaced.
    NODE_LEFT_OUT = "node-left-out",
    /// A small node was frozen, to be left out when the node above it is replaced, and stayed in the tree: another lane
    /// replaced that node first, or the small one had got a leaf.
    FROZEN_STAYED = "frozen-stayed",
}
