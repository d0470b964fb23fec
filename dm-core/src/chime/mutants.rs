//! Mutants: bugs that can be planted in CHIME.

crate::mutants::declare_mutants! {
    108;
    /// An insert looks for its key up to the first entry with room, and not in the whole neighborhood.
    RANGE_ENDS_AT_ROOM = "range-ends-at-room",
    /// A delete empties the entry.
    DELETE_EMPTIES = "delete-empties",
    /// Where only the bitmap of an entry changes, its version stays.
    BITMAP_KEEPS_VERSION = "bitmap-keeps-version",
    /// A new sibling is linked before the old leaf has been written.
    LINKED_BEFORE_LANDING = "linked-before-landing",
    /// The largest key of a leaf decides whether a key is to the right of it, and not its high fence.
    LARGEST_KEY_DECIDES = "largest-key-decides",
    /// No match counts though a bit of the bitmap leads nowhere.
    BITMAP_UNCHECKED = "bitmap-unchecked",
    /// A neighborhood counts as part of the leaf that the parent names, whatever its generation.
    LIFE_UNCHECKED = "life-unchecked",
    /// A delete leaves the value in its entry.
    DEAD_VALUE_LEFT = "dead-value-left",
}
