//! Marks: events of recovery that are counted.

crate::marks::declare_marks! {
    20;
    /// A dead compute node's lock was taken over.
    TAKEOVER = "takeover",
    /// A takeover did a WRITE again that its sender's death may have cut short.
    REDO_REPLAYED = "redo-replayed",
    /// A lock was taken over from a repairer that died during its takeover.
    REPAIRER_DIED = "repairer-died",
    /// A dead compute node's row was swept.
    ROW_SWEPT = "row-swept",
}
