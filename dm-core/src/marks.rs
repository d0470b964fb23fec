//! Marks: things worth counting, for the coverage checks of tests and the retry counters of reports.

macro_rules! marks {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Things worth counting: coverage marks of tests, retry counters of reports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Mark { $($(#[$doc])* $name,)* }

        impl Mark {
            /// Every mark, in numeric order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Text for reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

marks! {
    /// A node READ was torn and repeated.
    TornRead = "torn-read",
    /// A READ took longer than versions can vouch for.
    GuardRefusal = "guard-refusal",
    /// A node was READ under its lock because READs without it could not be trusted.
    LockedRead = "locked-read",
    /// A cached pointer led to the wrong node.
    StaleCache = "stale-cache",
    /// The key was to the right of the node reached.
    MoveRight = "move-right",
    /// A retired node forwarded to its left neighbour.
    Forwarded = "forwarded",
    /// A lock CAS lost.
    LockLost = "lock-lost",
    /// A lane waited in a local lock queue.
    LockQueued = "lock-queued",
    /// A held lock was handed over within the compute node.
    HandOver = "hand-over",
    /// A leaf split.
    LeafSplit = "leaf-split",
    /// An inner node split.
    InnerSplit = "inner-split",
    /// Of these, one above level 1.
    UpperSplit = "upper-split",
    /// The root grew by a level.
    RootGrowth = "root-growth",
    /// Another compute node grew the root first.
    RootRaceLost = "root-race-lost",
    /// A half-split found on the way was finished.
    HelpedSplit = "helped-split",
    /// Two leaves were merged.
    Merge = "merge",
    /// A retired node came back into use.
    NodeReused = "node-reused",
    /// A place began to wait: its generations begin anew, or it has none.
    Quarantined = "quarantined",
    /// One has waited for long enough.
    QuarantineOver = "quarantine-over",
    /// A chunk was granted.
    ChunkGranted = "chunk-granted",
    /// A chunk CAS lost.
    ChunkRaceLost = "chunk-race-lost",
    /// An operation started over from the root.
    Restart = "restart",
    /// A scan lost its way along the leaves and looked for its bound from the root.
    ScanRestart = "scan-restart",
    /// A lane in doubt was settled.
    Settled = "settled",
    /// An insert moved records to make room near the home of its key.
    Hop = "hop",
    /// A neighborhood or hop range went past the last entry and on at the first.
    Wrap = "wrap",
    /// A neighborhood was READ in the middle of a hop and READ again.
    HopSeen = "hop-seen",
    /// A lock word promised room where there was none.
    VacancyMiss = "vacancy-miss",
    /// A plain CAS of a lock expected another word than the free one it found.
    GuessWrong = "guess-wrong",
    /// The hotspot buffer did not know a key.
    Unguessed = "unguessed",
    /// One entry of a leaf was READ where the hotspot buffer had a key.
    Speculated = "speculated",
    /// Of these, one that did not have the key any more.
    GuessedWrong = "guessed-wrong",
    /// A leaf was rewritten without its dead records.
    Purge = "purge",
    /// A leaf was rewritten with its records in other entries, because no hop made room.
    Rearranged = "rearranged",
    /// A leaf's sibling was not what the parent said, and the leaf was READ whole.
    Doubted = "doubted",
    /// A compute node was fenced off every memory node.
    RowFenced = "row-fenced",
    /// A dead compute node's lock was taken over.
    Takeover = "takeover",
    /// A WRITE that its sender's death may have cut short was done again.
    RedoReplayed = "redo-replayed",
    /// A lock was taken over from one that died while it was taking it over.
    RepairerDied = "repairer-died",
    /// A leaf that a dead compute node had retired half-way was revived.
    MergeUndone = "merge-undone",
    /// An operation stopped because its compute node's lease was over.
    SelfFenced = "self-fenced",
    /// A dead compute node's row was swept.
    RowSwept = "row-swept",
    /// A chunk of a compute node that is gone became another one's.
    ChunkAdopted = "chunk-adopted",
    /// A node that nobody was left to use came back.
    NodeReclaimed = "node-reclaimed",
    /// A read took the result of another lane's.
    DelegatedRead = "delegated-read",
    /// A write was made by another lane.
    CombinedWrite = "combined-write",
    /// A node was put above another one whose header differed from the key.
    HeaderSplit = "header-split",
    /// A leaf split needed several nodes, one below the other.
    LongPath = "long-path",
    /// A full node was replaced by one that has room.
    TypeSwitch = "type-switch",
    /// A node that somebody else had begun to freeze was met and replaced.
    HelpedSwitch = "helped-switch",
    /// A replacement came second.
    SwitchLost = "switch-lost",
    /// The CAS of a slot lost.
    SlotLost = "slot-lost",
    /// Of these, one to a leaf or node under the same byte.
    SameByte = "same-byte",
    /// A slot that a copy knew was READ again, before its leaf or node counted as the key's absence.
    Confirmed = "confirmed",
    /// A reader went through a frozen slot.
    FrozenSlot = "frozen-slot",
    /// An insert brought a deleted leaf back.
    Revived = "revived",
    /// A deleted leaf was declared dead for ever.
    Buried = "buried",
    /// One that was met took a place in the tree that a new leaf got.
    LeafReplaced = "leaf-replaced",
    /// One was left out when its node was replaced.
    LeafLeftOut = "leaf-left-out",
    /// A node all of whose leaves but one or none were buried was left out when the node above it was replaced.
    NodeLeftOut = "node-left-out",
    /// An operation came to the key's leaf, which was buried, and looked afresh.
    BuriedMet = "buried-met",
    /// A block was READ.
    BlockRead = "block-read",
    /// A block was not what its entry said: it had been replaced since.
    BlockReplaced = "block-replaced",
    /// The place of a block was forgotten: the shelf was full, or it is not known whether an entry names it.
    BlockLost = "block-lost",
    /// The place of a block came back where somebody collects, and was left there.
    BlockLeft = "block-left",
    /// Two keys got a layer of their own.
    LayerMade = "layer-made",
    /// A layer was not needed after all.
    LayerTakenBack = "layer-taken-back",
    /// An entry with an item was not any more what it had been.
    EntryChanged = "entry-changed",
    /// It was found out by a look whether an entry had come to name a block.
    EntryRevisited = "entry-revisited",
    /// The entry of a layer that nothing leads to was left where it is.
    LayerLost = "layer-lost",
}
