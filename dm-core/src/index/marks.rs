//! Marks: events of what indexes of all kinds share that are counted.

crate::marks::declare_marks! {
    28;
    /// A READ took longer than its versions can vouch for.
    GUARD_REFUSAL = "guard-refusal",
    /// A node was READ under its lock because READs without it could not be trusted.
    LOCKED_READ = "locked-read",
    /// A cached pointer led to the wrong node.
    STALE_CACHE = "stale-cache",
    /// An operation started over from the root.
    RESTART = "restart",
    /// A leaf was split.
    LEAF_SPLIT = "leaf-split",
}
