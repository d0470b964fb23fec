//! Mutants: bugs that can be planted in DEX.
//!
//! | what can go wrong | mutants that do it here |
//! |---|---|
//! | a write is acknowledged, and is in no ring | `ack-before-durable`, `append-dropped` |
//! | lines are used again while replay would begin at them | `head-written-late` |
//! | replay leaves acknowledged records out | `replay-stops-early` |
//! | replay finds no ring, or another one | `row-freed-while-named` |
//! | a torn page stays torn | `image-omitted`, `torn-leaf-left`, `torn-page-left` |
//! | a page that is not in the pool counts as clean | `flushed-taken-for-done`, `handed-over-unflushed` |
//! | a page goes back to an earlier state | `old-image-over-whole-page`, `leaf-lsn-ignored` |
//! | what a finder acknowledges is in a ring that nobody replays | `admission-before-word` |
//! | an answer tells what a death takes back | `undurable-read-answered` |
//! | a compute node that others took for dead answers from its cache | `lease-unchecked-on-a-hit` |
//! | lanes wait for a page that nobody brings | `fill-dropped` |
//! | a compute node answers about keys that another one owns by then | `tenure-unchecked-behind-read` |
//! | a frame holds a page that another compute node may have changed | `old-fill-kept`, `frames-kept`, `drained-without-fills` |
//! | a memory node answers with a mixture | `slow-copy-believed` |
//! | a memory node changes a leaf that others have by then | `late-change-made`, `leaf-left-to-call`, `handler-after-fence` |
//! | a node moves, and changes go to its old place | `moved-unguarded`, `cut-off-vacated` |
//! | a node moves, and pointers lead to something else | `moved-before-copy`, `moved-collected`, `edge-linked-twice`, `sibling-made-root` |
//! | two leaves have one key | `parent-before-left`, `left-before-retired`, `revived-before-flush` |

crate::mutants::declare_mutants! {
    216;
    /// A record counts as durable as soon as it is staged.
    ACK_BEFORE_DURABLE = "ack-before-durable" => Deaths,
    /// The WRITE of the head goes behind the WRITEs of the lines in its chain.
    HEAD_WRITTEN_LATE = "head-written-late" => Deaths,
    /// Replay ends where the ring begins again.
    REPLAY_STOPS_EARLY = "replay-stops-early" => Deaths,
    /// The lines of a chain that failed are not posted again.
    APPEND_DROPPED = "append-dropped" => Deaths,
    /// A sweep frees a row, and gives its log ring back, without a look at the entries that name the row.
    ROW_FREED_WHILE_NAMED = "row-freed-while-named" => Deaths,
    /// A page is flushed without its image in front of it.
    IMAGE_OMITTED = "image-omitted" => Deaths,
    /// A flush whose queue pair failed counts as done.
    FLUSHED_TAKEN_FOR_DONE = "flushed-taken-for-done" => BrokenQueuePairs,
    /// A finder writes a dead owner's image over a page that is whole.
    OLD_IMAGE_OVER_WHOLE_PAGE = "old-image-over-whole-page" => Deaths,
    /// Replay applies records that the leaf has already.
    LEAF_LSN_IGNORED = "leaf-lsn-ignored" => Deaths,
    /// A finder is admitted before the entry's word says that it is the owner.
    ADMISSION_BEFORE_WORD = "admission-before-word" => Deaths,
    /// A read answers although the record that it saw is in no ring.
    UNDURABLE_READ_ANSWERED = "undurable-read-answered" => Deaths,
    /// A read of a cached leaf answers although the lease is over.
    LEASE_UNCHECKED_ON_A_HIT = "lease-unchecked-on-a-hit" => Deaths,
    /// The fill of a page that is not the wanted leaf is not ended.
    FILL_DROPPED = "fill-dropped",
    /// The parent names a new leaf before the leaf at its left ends where the new one begins.
    PARENT_BEFORE_LEFT = "parent-before-left" => Deaths,
    /// A leaf that is not admitted, and whose WRITE failed with its queue pair, is not WRITTEN again.
    TORN_LEAF_LEFT = "torn-leaf-left" => BrokenQueuePairs,
    /// A flush that failed with its queue pair is not WRITTEN again before the lane goes on.
    TORN_PAGE_LEFT = "torn-page-left" => Deaths,
    /// A half-merge is undone while the left leaf in the pool may still have the edge of both.
    REVIVED_BEFORE_FLUSH = "revived-before-flush" => Deaths,
    /// A merge writes the left leaf, which covers the keys of both, before the right one is retired.
    LEFT_BEFORE_RETIRED = "left-before-retired" => Deaths,
    /// A compute node is admitted to an entry without a look whether it was cut.
    CUTS_UNSEEN = "cuts-unseen" => Wide,
    /// An entry is cut before its pages are flushed.
    CUT_UNFLUSHED = "cut-unflushed" => Wide,
    /// Of an entry that is cut, the tenure goes on as it was.
    CUT_UNRENEWED = "cut-unrenewed" => Wide,
    /// A scan that is tried again, since a lane was dropped that took the next entry, goes on where it was, and the records of
    /// the first try are lost.
    SCAN_AGAIN_FROM_BOUND = "scan-again-from-bound" => Wide,
    /// A read answers although its entry was handed over while it read.
    TENURE_UNCHECKED_BEHIND_READ = "tenure-unchecked-behind-read" => Wide,
    /// A leaf comes into a frame although its entry was handed over since it was READ.
    OLD_FILL_KEPT = "old-fill-kept" => Wide,
    /// An entry is handed over with pages that are not written back.
    HANDED_OVER_UNFLUSHED = "handed-over-unflushed" => Wide,
    /// A compute node hands an entry over and keeps clean pages of it in frames. It reads them again when it gets the entry back.
    FRAMES_KEPT = "frames-kept" => Wide,
    /// An entry is handed over while lanes have fills of its pages, and may WRITE them.
    DRAINED_WITHOUT_FILLS = "drained-without-fills" => Wide,
    /// A memory node trusts a copy of a node that took longer than the node's versions can vouch for.
    SLOW_COPY_BELIEVED = "slow-copy-believed" => Wide,
    /// A memory node changes a leaf that has a later change already.
    LATE_CHANGE_MADE = "late-change-made" => Wide,
    /// A lane gives up a leaf while a memory node may still change it for the lane.
    LEAF_LEFT_TO_CALL = "leaf-left-to-call" => Wide,
    /// A leaf moves to another memory node as it is in the pool, and its frame keeps what is not flushed.
    MOVED_UNGUARDED = "moved-unguarded" => Wide,
    /// A node that moves leads to its copy before the copy is WRITTEN.
    MOVED_BEFORE_COPY = "moved-before-copy" => Wide,
    /// A node whose copy is the first child of its parent is linked there once more.
    EDGE_LINKED_TWICE = "edge-linked-twice" => Wide,
    /// A right sibling of a root that was split, and that moves, becomes the root.
    SIBLING_MADE_ROOT = "sibling-made-root" => Wide,
    /// An orphan collection takes the place of a node that was moved, to which pointers lead.
    MOVED_COLLECTED = "moved-collected" => Wide,
    /// A memory node answers about a leaf that no parent names, and the caller has the one in front of it with the keys of both.
    NEIGHBOUR_ANSWERED = "neighbour-answered" => Wide,
    /// A compute node whose part was cut moves the leaves of what was cut off, too, which another one owns.
    CUT_OFF_VACATED = "cut-off-vacated" => Wide,
    /// A memory node confirms that a compute node is fenced off while it executes calls of it, and begins those that wait.
    HANDLER_AFTER_FENCE = "handler-after-fence" => Wide,
}
