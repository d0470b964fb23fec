//! Mutants: bugs that can be planted in what B+-trees share.

crate::mutants::declare_mutants! {
    56;
    /// READs are trusted however long they took.
    NO_GUARD = "no-guard",
    /// A READ under the lock takes the image that was READ before the lock.
    LOCKED_READ_KEEPS_IMAGE = "locked-read-keeps-image",
    /// A leaf is used without a check of its generation, level and fences.
    LEAF_UNCHECKED = "leaf-unchecked",
    /// A node torn under its lock counts as residue at once, although a first WRITE of its place's next generation may
    /// be on its way.
    TORN_IS_RESIDUE = "torn-is-residue",
    /// A key past the high fence is looked for here and not to the right.
    NO_MOVE_RIGHT = "no-move-right",
    /// A delete that empties a leaf leaves it where it is.
    EMPTIED_UNJOINED = "emptied-unjoined",
    /// A merge does not mark the right node as retired.
    MERGE_FORGETS_FORWARD = "merge-forgets-forward",
    /// A merge does not lock the right node.
    MERGE_UNLOCKED = "merge-unlocked",
    /// A merge writes the left leaf before it retires the right one.
    MERGE_LEFT_FIRST = "merge-left-first" => Deaths,
    /// A merge over several memory nodes posts its WRITEs at once.
    MERGE_UNORDERED = "merge-unordered" => Deaths,
    /// A leaf of several lines is retired by one WRITE, whose redo record may be replayed under a linker's eyes.
    RETIRED_AS_A_WHOLE = "retired-as-a-whole" => Deaths,
    /// A leaf that is merged away goes on the free list before the WRITEs that take it out of the tree are posted.
    RETIRE_BEFORE_SWITCH = "retire-before-switch" => Reuse,
    /// A half-merge is undone while the lane that merges may still be at it.
    REVIVE_AT_ONCE = "revive-at-once" => Deaths,
    /// The place of a leaf that is merged away goes on no list.
    RETIRED_LOST = "retired-lost",
    /// A retired leaf keeps the owner tag of the compute node that wrote it first.
    RETIRED_UNSIGNED = "retired-unsigned" => Deaths,
    /// An inner split moves a single child to the new node, and trees grow by a level every few inserts.
    SPLIT_AT_THE_END = "split-at-the-end",
    /// An inner split leaves the old node's high fence and link as they were.
    INNER_KEEPS_FENCE = "inner-keeps-fence",
    /// A new root is installed by a WRITE, even if another lane has installed one first.
    ROOT_OVERWRITTEN = "root-overwritten",
    /// A lane that loses the race for a new root gives up, and so does its operation.
    ROOT_RACE_GIVES_UP = "root-race-gives-up",
    /// A half-split is linked without a check that its right node is live.
    LINKS_DEAD = "links-dead",
    /// A descent to a parent overwrites the separator of a half-split that is still to be linked.
    HELP_OVERWRITTEN = "help-overwritten",
    /// Whole nodes are written back without a new node version.
    SAME_NODE_VERSION = "same-node-version",
    /// A scan takes the leaves that the cached parent names without a check of where they begin.
    SCAN_UNCHECKED = "scan-unchecked",
    /// A scan downwards takes the leaves that the cached parent names without a check of where they end.
    SCAN_DOWN_UNCHECKED = "scan-down-unchecked" => Wide,
    /// A scan that wants no record says that there are none.
    SCAN_OF_NOTHING_ENDS = "scan-of-nothing-ends" => Wide,
    /// A scan that wants more records than a page has room for says that a full page is the last one.
    FULL_PAGE_ENDS_SCAN = "full-page-ends-scan" => Wide,
    /// A scan takes the first 63 records of a leaf.
    LEAF_TAKEN_IN_PART = "leaf-taken-in-part" => Wide,
    /// A redo record is posted behind the WRITE that it is for.
    IMAGE_AFTER_DATA = "image-after-data" => Deaths,
    /// A split writes the old node back without a redo record.
    SPLIT_WITHOUT_IMAGE = "split-without-image" => Deaths,
    /// Of two WRITEs of one change the redo record has the first only.
    SECOND_WITHOUT_IMAGE = "second-without-image" => Deaths,
    /// WRITEs longer than a packet are posted as they are, wherever in a line they begin.
    CUTS_WITHIN_LINES = "cuts-within-lines" => Deaths,
    /// A split re-sorts the entries that stay, and leaves them out of its redo record.
    SPLIT_SORTS = "split-sorts" => Deaths,
    /// A leaf is cut behind its largest key, and its parent is told the median.
    PIVOT_NOT_MAXIMUM = "pivot-not-maximum",
    /// The collector takes chunks of live compute nodes, too.
    COLLECTS_FROM_THE_LIVING = "collects-from-the-living" => Deaths,
    /// The collector does not lock the node that may still come to point to the one that it collects.
    COLLECTS_UNLOCKED = "collects-unlocked" => Deaths,
    /// The collector leaves the owner tag of the departed compute node on what it collects.
    COLLECTS_UNTAGGED = "collects-untagged" => Deaths,
    /// A scan whose upper bound is not above the key at which it begins has none.
    INVERTED_SCAN_UNBOUNDED = "inverted-scan-unbounded" => Wide,
    /// A scan that begins behind the last key returns the records of the last leaf.
    SCAN_PAST_END_TURNS_BACK = "scan-past-end-turns-back" => Wide,
    /// A scan leaves the record of the largest key out.
    LARGEST_KEY_LEFT_OUT = "largest-key-left-out" => Wide,
}
