//! Marks: events that are counted, for the coverage checks of tests and the retry counters of reports.

macro_rules! marks {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Events that are counted: coverage marks of tests, retry counters of reports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Mark { $($(#[$doc])* $name,)* }

        impl Mark {
            /// Every mark, in numeric order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its text in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

marks! {
    /// A node READ was torn and repeated.
    TornRead = "torn-read",
    /// A READ took longer than its versions can vouch for.
    GuardRefusal = "guard-refusal",
    /// A node was READ under its lock because READs without it could not be trusted.
    LockedRead = "locked-read",
    /// A cached pointer led to the wrong node.
    StaleCache = "stale-cache",
    /// The key was to the right of the node that was reached.
    MoveRight = "move-right",
    /// A retired leaf forwarded an operation to its left neighbour.
    Forwarded = "forwarded",
    /// A CAS of a lock word lost.
    LockLost = "lock-lost",
    /// A lane waited in a local lock queue.
    LockQueued = "lock-queued",
    /// A held lock was handed over within the compute node.
    HandOver = "hand-over",
    /// A leaf was split.
    LeafSplit = "leaf-split",
    /// An inner node was split.
    InnerSplit = "inner-split",
    /// The part of these above level 1.
    UpperSplit = "upper-split",
    /// The root grew by a level.
    RootGrowth = "root-growth",
    /// Another compute node grew the root first.
    RootRaceLost = "root-race-lost",
    /// An operation finished a half-split that it met.
    HelpedSplit = "helped-split",
    /// Two leaves were merged.
    Merge = "merge",
    /// A retired node came back into use.
    NodeReused = "node-reused",
    /// A place began to wait for an epoch: its generations begin anew, or it has none.
    LimboEntered = "limbo-entered",
    /// A place has waited for long enough.
    LimboLeft = "limbo-left",
    /// A chunk was granted.
    ChunkGranted = "chunk-granted",
    /// The CAS of a chunk entry lost.
    ChunkRaceLost = "chunk-race-lost",
    /// An operation started over from the root.
    Restart = "restart",
    /// A scan lost its way along the leaves, and searched for its bound from the root.
    ScanRestart = "scan-restart",
    /// A lane in doubt was settled.
    Settled = "settled",
    /// An insert moved records to make room near the home of its key.
    Hop = "hop",
    /// A neighborhood or hop range went past the last entry and continued at the first.
    Wrap = "wrap",
    /// A neighborhood was READ in the middle of a hop, and READ again.
    HopSeen = "hop-seen",
    /// A lock word said that its leaf had room, and there was none.
    VacancyMiss = "vacancy-miss",
    /// A plain CAS of a lock expected another word than the free one it found.
    GuessWrong = "guess-wrong",
    /// The hotspot buffer had no guess for a key.
    Unguessed = "unguessed",
    /// One entry of a leaf was READ, where the hotspot buffer said that the key was.
    Speculated = "speculated",
    /// The part of these in which the entry did not have the key any more.
    GuessedWrong = "guessed-wrong",
    /// A leaf was rewritten without its dead records.
    Purge = "purge",
    /// A leaf was rewritten with its records in other entries, because no hop made room.
    Rearranged = "rearranged",
    /// A leaf's sibling was not what the parent said, and the whole leaf was READ.
    Doubted = "doubted",
    /// A compute node was fenced on every memory node.
    RowFenced = "row-fenced",
    /// A dead compute node's lock was taken over.
    Takeover = "takeover",
    /// A takeover did a WRITE again that its sender's death may have cut short.
    RedoReplayed = "redo-replayed",
    /// A lock was taken over from a repairer that died during its takeover.
    RepairerDied = "repairer-died",
    /// A leaf that a dead compute node had retired in a half-merge was revived.
    MergeUndone = "merge-undone",
    /// An operation stopped because its compute node's lease was over.
    SelfFenced = "self-fenced",
    /// A dead compute node's row was swept.
    RowSwept = "row-swept",
    /// A chunk of a departed compute node became that of another one.
    ChunkCollected = "chunk-collected",
    /// A node that only a departed compute node knew of was collected.
    NodeReclaimed = "node-reclaimed",
    /// A read took the result of another lane's read.
    DelegatedRead = "delegated-read",
    /// A write was done by another lane.
    CombinedWrite = "combined-write",
    /// A new node was put above a node whose prefix differed from the key.
    HeaderSplit = "header-split",
    /// A leaf split needed several nodes, one below the other.
    LongPath = "long-path",
    /// A full node was replaced by one with room.
    NodeReplaced = "node-replaced",
    /// An operation met a node that another one had begun to freeze, and replaced it.
    HelpedReplacement = "helped-replacement",
    /// A replacement of a node lost the CAS of its slot.
    ReplacementLost = "replacement-lost",
    /// The CAS of a slot lost.
    SlotLost = "slot-lost",
    /// The part of these that lost to a leaf or node under the same byte.
    SameByte = "same-byte",
    /// A slot that a copy had was READ again, before its leaf or node counted as the key's absence.
    Confirmed = "confirmed",
    /// A reader went through a frozen slot.
    FrozenSlot = "frozen-slot",
    /// An insert brought a deleted leaf back.
    Revived = "revived",
    /// The tombstone of a deleted leaf was finalized.
    Finalized = "finalized",
    /// A new leaf took the slot of a finalized leaf.
    LeafReplaced = "leaf-replaced",
    /// A finalized leaf was left out when its node was replaced.
    LeafLeftOut = "leaf-left-out",
    /// A node with at most one leaf that was not finalized was left out when the node above it was replaced.
    NodeLeftOut = "node-left-out",
    /// An operation found the key's leaf finalized, and began again.
    FinalizedMet = "finalized-met",
    /// A block was READ.
    BlockRead = "block-read",
    /// A block was not what its entry said: it had been replaced since.
    BlockReplaced = "block-replaced",
    /// The place of a block was lost: the free list was full, or it is not known whether an entry names it.
    BlockLost = "block-lost",
    /// The place of a block came back in a chunk that is being collected, and was left there.
    BlockLeft = "block-left",
    /// A layer was made, because a second key continued behind a slice.
    LayerMade = "layer-made",
    /// A new layer was not needed after all, and its entry was deleted.
    LayerTakenBack = "layer-taken-back",
    /// An entry of an item had changed since it was read.
    EntryChanged = "entry-changed",
    /// Settling READ an entry to find out whether it names a block.
    EntryRevisited = "entry-revisited",
    /// The entry of a layer that nothing leads to was left where it is.
    LayerLost = "layer-lost",
}
