//! Mutants: bugs that can be planted in what indexes of all kinds share.

crate::mutants::declare_mutants! {
    150;
    /// A change ends as one that had no effect, though its call was executed or may be still.
    LOST_CALL_HARMLESS = "lost-call-harmless" => Wide,
    /// A scan goes on behind the first key of the next owner's range, not at it.
    CURSOR_KEPT_AT_BORDER = "cursor-kept-at-border" => Wide,
}
