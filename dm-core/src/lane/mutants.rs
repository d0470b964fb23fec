//! Mutants: bugs that can be planted in lanes.

crate::mutants::declare_mutants! {
    4;
    /// Settling frees locks while requests that failed with their queue pair may still take effect.
    SETTLE_UNCLOSED = "settle-unclosed" => BrokenQueuePairs,
    /// An operation that failed with its queue pair and holds no lock leaves nothing to settle.
    FAILED_UNSETTLED = "failed-unsettled" => BrokenQueuePairs,
}
