//! Marks: events of the page store that are counted.

crate::marks::declare_marks! {
    92;
    /// A lane waited for another lane's fill of a page.
    PAGE_JOINED = "page-joined",
    /// A page was not in the store, and got no frame.
    PAGE_UNADMITTED = "page-unadmitted",
    /// A page needed a frame, and none could be had.
    PAGE_NO_FRAME = "page-no-frame",
    /// A page gave up its frame.
    PAGE_EVICTED = "page-evicted",
    /// A cooling page was used again before it was evicted.
    PAGE_SECOND_CHANCE = "page-second-chance",
    /// A page was changed while a flush of it was under way.
    PAGE_CHANGED_IN_FLUSH = "page-changed-in-flush",
    /// A change met a page that another lane had frozen.
    PAGE_FROZEN = "page-frozen",
}
