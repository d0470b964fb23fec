//! Mutants: bugs that can be planted in the page store.

crate::mutants::declare_mutants! {
    140;
    /// A fill whose lane was dropped is never released.
    FILL_UNPAID = "page-fill-unpaid",
    /// A page that was changed while a flush of it was under way counts as clean when the flush is done.
    FLUSHED_TAKEN_FOR_CLEAN = "page-flushed-taken-for-clean",
    /// Pages are evicted without a look at whether they are clean.
    DIRTY_EVICTED = "page-dirty-evicted",
    /// The end of a fill does not wake the lanes that wait for it.
    JOINED_NOT_WOKEN = "page-joined-not-woken",
    /// The oldest change that is not flushed is looked for among dirty pages only, though a flush may still fail.
    FLUSHING_FORGOTTEN = "page-flushing-forgotten",
    /// A changed page comes into the dirty list after its log record has a number.
    DIRTY_AFTER_RECORD = "page-dirty-after-record",
    /// What a memory node says of a page counts, though the page is in a frame.
    CACHED_UNSEEN = "page-cached-unseen" => Wide,
    /// What a memory node says of a page counts, though a changed copy has left its frame since the call began.
    DEPARTED_UNSEEN = "page-departed-unseen" => Wide,
}
