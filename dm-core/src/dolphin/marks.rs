//! Marks: events of Dolphin that are counted.

crate::marks::declare_marks! {
    83;
    /// A leaf was put into a void, or below an empty root slot.
    VOID_FILLED = "void-filled",
    /// A leaf was replaced by one with the same bounds.
    LEAF_REBUILT = "leaf-rebuilt",
    /// A lane came to a retired leaf and went on with the heir of its key.
    HEIR_FOLLOWED = "heir-followed",
    /// A lane finished a structure change of another one.
    CHANGE_FINISHED = "change-finished",
    /// A lane joined others of its compute node inside a leaf.
    SEAT_SHARED = "seat-shared",
    /// A closer waited for those inside.
    LEAF_DRAINED = "leaf-drained",
    /// An update was overtaken: another one has named its block first.
    UPDATE_OVERTAKEN = "update-overtaken",
    /// A leaf that had no record any more became a void.
    LEAF_EMPTIED = "leaf-emptied",
}
