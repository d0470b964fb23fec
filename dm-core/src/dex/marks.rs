//! Marks: events of DEX that are counted.

crate::marks::declare_marks! {
    99;
    /// The log began again at line 0, and tenures were renewed.
    LOG_RESTARTED = "log-restarted",
    /// The ring of a log was lost with its memory node, and another one was made.
    RING_REPLACED = "ring-replaced",
    /// An entry was given up for a compute node that is to have it.
    ENTRY_HANDED_OVER = "entry-handed-over",
}
