//! Mutants: bugs that can be planted in what indexes of all kinds share.

crate::mutants::declare_mutants! {
    128;
    /// A change ends as one that had no effect, though its call was executed or may be still.
    LOST_CALL_HARMLESS = "lost-call-harmless" => Wide,
    /// A scan goes on behind the first key of the next owner's range, not at it.
    CURSOR_KEPT_AT_BORDER = "cursor-kept-at-border" => Wide,
    /// A call that carries changes and is not answered is made once more.
    LOST_PACK_REPEATED = "lost-pack-repeated" => Wide,
    /// The answers to a call that carries several operations are given to them in the order in which they come, not by their
    /// places.
    ANSWERS_IN_ORDER = "answers-in-order" => Wide,
    /// A compute node that is called about a key of another one passes the call on.
    PASSED_ON = "passed-on" => Wide,
}
