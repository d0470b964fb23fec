//! Mutants: bugs that can be planted in SMART.

crate::mutants::declare_mutants! {
    120;
    /// An update writes the leaf up to its end, lock word included, from the image READ under the lock.
    WHOLE_LEAF = "whole-leaf",
    /// A write decides on the leaf as it was READ before its lock was taken.
    LEAF_BEFORE_LOCK = "leaf-before-lock",
    /// A delete clears the slot of its leaf.
    DELETE_CLEARS_SLOT = "delete-clears-slot",
    /// A delete does not take the leaf's lock.
    DELETE_UNLOCKED = "delete-unlocked",
    /// A delete looks at the leaf once more after it is done, and answers what it finds.
    DELETE_LOOKS_AGAIN = "delete-looks-again",
    /// A tombstone is finalized on a READ of the leaf without its lock.
    FINALIZE_UNLOCKED = "finalize-unlocked",
    /// A write brings a finalized leaf back, as if it were only deleted.
    FINALIZED_REVIVED = "finalized-revived",
    /// The WRITE of data in several lines frees the lock, too, where lines may land in any order.
    UNLOCK_WITH_UNORDERED_DATA = "unlock-with-unordered-data",
}
