//! Mutants: bugs that can be planted in memory.

crate::mutants::declare_mutants! {
    8;
    /// A chunk counts as granted although the CAS lost.
    CHUNK_TWICE = "chunk-twice",
    /// A retired node's place is reused under its old generation.
    SAME_GENERATION = "same-generation" => Reuse,
    /// A place whose generations begin anew is reused at once.
    NO_LIMBO = "no-limbo" => Reuse,
    /// A place whose generations begin anew waits for the operations of the compute node that retired it, and for no
    /// other's.
    LIMBO_TOO_SHORT = "limbo-too-short" => Reuse,
    /// An operation does not hold up the epochs.
    PINS_END_EARLY = "pins-end-early" => Reuse,
    /// A compute node begins operations in a new epoch and does not look which chunks are closed.
    CLOSED_UNREAD = "closed-unread",
    /// Places in a closed chunk are kept.
    CLOSED_KEPT = "closed-kept",
    /// The index is walked before every compute node has given up its places in closed chunks.
    WALK_AT_ONCE = "walk-at-once" => Reuse,
    /// Places that the walk did not reach are reused before the operations that overlapped the walk have ended.
    OPEN_AT_ONCE = "open-at-once" => Reuse,
    /// Blocks are collected although a repairer may still replay a dead compute node's WRITE that names one.
    WALK_BEFORE_REPLAYS = "walk-before-replays" => Wide,
    /// An operation of items has a pin in each of its steps, and none between them.
    ITEMS_PINS_END_EARLY = "items-pins-end-early" => Wide,
    /// A turn looks at the rows that it READs first, and at no others.
    ONE_WINDOW_OF_ROWS = "one-window-of-rows" => Reuse,
    /// A compute node asks the nearest memory node for a chunk, and no other: it fails as full while others have chunks.
    ONE_NODE_ASKED = "one-node-asked" => Wide,
}
