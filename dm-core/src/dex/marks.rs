//! Marks: events of DEX that are counted.

crate::marks::declare_marks! {
    99;
    /// The log began again at line 0, and tenures were renewed.
    LOG_RESTARTED = "log-restarted",
    /// The ring of a log was lost with its memory node, and another one was made.
    RING_REPLACED = "ring-replaced",
    /// An entry was given up for a compute node that is to have it.
    ENTRY_HANDED_OVER = "entry-handed-over",
    /// An entry was cut in two.
    ENTRY_CUT = "entry-cut",
    /// A memory node's processor answered a get.
    OFFLOADED = "offloaded",
    /// A get called a memory node, and went on without an answer about its key.
    OFFLOAD_IN_VAIN = "offload-in-vain",
    /// A memory node answered about a leaf that this compute node has, or had, cached. The get went on there.
    OFFLOAD_OVERTAKEN = "offload-overtaken",
    /// A get took the way that was slower so far.
    OFFLOAD_CONTRARY = "offload-contrary",
    /// A node was moved to another memory node.
    NODE_MOVED = "node-moved",
}
