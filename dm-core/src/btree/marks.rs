//! Marks: events of what B+-trees share that are counted.

crate::marks::declare_marks! {
    34;
    /// The key was to the right of the node that was reached.
    MOVE_RIGHT = "move-right",
    /// A retired leaf forwarded an operation to its left neighbour, or a node that was moved to its copy.
    FORWARDED = "forwarded",
    /// An inner node was split.
    INNER_SPLIT = "inner-split",
    /// The part of these above level 1.
    UPPER_SPLIT = "upper-split",
    /// The root grew by a level.
    ROOT_GROWTH = "root-growth",
    /// Another compute node grew the root first.
    ROOT_RACE_LOST = "root-race-lost",
    /// An operation finished a half-split that it met.
    HELPED_SPLIT = "helped-split",
    /// Two leaves were merged.
    MERGE = "merge",
    /// An emptied leaf stays: it is its parent's only child, or others hold a lock, or its neighbours have changed.
    EMPTIED_STAYS = "emptied-stays",
    /// A leaf that a dead compute node had retired in a half-merge was revived.
    MERGE_UNDONE = "merge-undone",
    /// A scan lost its way along the leaves, and searched for its bound from the root.
    SCAN_RESTART = "scan-restart",
}
