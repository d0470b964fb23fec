//! Mutants: bugs that can be planted in membership.

crate::mutants::declare_mutants! {
    24;
    /// Each submit of a lane begins with its first redo slot, whatever lock the redo record in it was made under.
    SLOTS_REUSED_UNDER_LOCK = "slots-reused-under-lock" => Deaths,
    /// A compute node that joins in the row of an earlier one takes that one's incarnation.
    INCARNATION_TWICE = "incarnation-twice" => Wide,
    /// A redo record counts whichever incarnation of the row made it.
    REDO_OF_ANY_INCARNATION = "redo-of-any-incarnation" => Wide,
    /// Lanes from the seventh on have the same redo slots.
    REDO_SLOTS_SHARED = "redo-slots-shared" => Wide,
}
