//! Mutants: bugs that can be planted in DEX.
//!
//! | what can go wrong | mutants that do it here |
//! |---|---|
//! | a write is acknowledged, and is in no ring | `ack-before-durable`, `append-dropped` |
//! | lines are used again while replay would begin at them | `head-written-late` |
//! | replay leaves acknowledged records out | `replay-stops-early` |
//! | replay finds no ring, or another one | `row-freed-while-named` |

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
}
