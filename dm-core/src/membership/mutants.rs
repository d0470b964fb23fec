//! Mutants: bugs that can be planted in membership.

crate::mutants::declare_mutants! {
    24;
    /// Each submit of a lane begins with its first redo slot, whatever lock the redo record in it was made under.
    SLOTS_REUSED_UNDER_LOCK = "slots-reused-under-lock" => Deaths,
}
