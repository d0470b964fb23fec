//! Marks: events of locks that are counted.

crate::marks::declare_marks! {
    14;
    /// A CAS of a lock word lost.
    LOCK_LOST = "lock-lost",
    /// A lane waited in a local lock queue.
    LOCK_QUEUED = "lock-queued",
    /// A held lock was handed over within the compute node.
    HAND_OVER = "hand-over",
    /// A plain CAS of a lock expected another word than the free one it found.
    GUESS_WRONG = "guess-wrong",
    /// An operation stopped because its compute node's lease was over.
    SELF_FENCED = "self-fenced",
}
