//! Mutants: bugs that are put in on purpose, to test whether the judge finds them.
//!
//! Each is one line in the room to which it belongs: `if planted(Mutant::X) { do it wrong }`. Without the cargo feature
//! `planted` the function is a constant `false`, and the lines compile to nothing: no product has them. With the
//! feature, a tool chooses one mutant with `plant`; none is the default.

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $mark:expr;)*) => {
        /// A mutant: a bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Mutant { $($(#[doc = $doc])+ $name,)* }

        impl Mutant {
            /// Every mutant, in numeric order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name on command lines and in tables.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What the mutant does wrong.
            pub const fn what(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)* }
            }

            /// The mark that counts how often the mutant's line was reached, if there is one.
            pub const fn mark(self) -> Option<Mark> {
                match self { $(Self::$name => $mark,)* }
            }

            /// The mutant with that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|bug| bug.name() == name)
            }
        }
    };
}

use crate::marks::Mark;

bugs! {
    /// Node versions are compared in the first and the last line only, as the paper does (front and rear version).
    BookendVersions = "bookend-versions", Some(Mark::TornRead);
    /// A torn entry is skipped, so its key is reported absent.
    TornIsAbsent = "torn-is-absent", Some(Mark::TornRead);
    /// A node torn under its lock counts as residue at once, although a first WRITE of its place's next generation may
    /// be on its way.
    TornIsResidue = "torn-is-residue", None;
    /// READs are trusted however long they took.
    NoGuard = "no-guard", Some(Mark::GuardRefusal);
    /// A READ under the lock takes the image that was READ before the lock.
    LockedReadKeepsImage = "locked-read-keeps-image", Some(Mark::LockedRead);
    /// A leaf is used without a check of its generation, level and fences.
    LeafUnchecked = "leaf-unchecked", Some(Mark::StaleCache);
    /// A key past the high fence is looked for here and not to the right.
    NoMoveRight = "no-move-right", Some(Mark::MoveRight);
    /// A merge does not mark the right node as retired.
    MergeForgetsForward = "merge-forgets-forward", Some(Mark::Forwarded);
    /// A merge does not lock the right node.
    MergeUnlocked = "merge-unlocked", Some(Mark::Merge);
    /// Unlock is posted before the WRITE of the data.
    UnlockFirst = "unlock-first", None;
    /// A lock whose CAS lost is taken for held.
    LostCasWins = "lost-cas-wins", Some(Mark::LockLost);
    /// A waiter that is cancelled stays in the queue, and the lock is handed to it.
    HandToCancelled = "hand-to-cancelled", Some(Mark::LockQueued);
    /// The unlock is sent although the lock is handed over.
    HandOverUnlocks = "hand-over-unlocks", Some(Mark::HandOver);
    /// A split does not link the old leaf to the new one.
    LostSibling = "lost-sibling", Some(Mark::LeafSplit);
    /// An inner split leaves the old node's high fence and link as they were.
    InnerKeepsFence = "inner-keeps-fence", Some(Mark::InnerSplit);
    /// A new root is installed by a WRITE, even if another lane has installed one first.
    RootOverwritten = "root-overwritten", Some(Mark::RootRaceLost);
    /// A half-split is linked without a check that its right node is live.
    LinksDead = "links-dead", Some(Mark::HelpedSplit);
    /// A descent to a parent overwrites the separator of a half-split that is still to be linked.
    HelpOverwritten = "help-overwritten", Some(Mark::HelpedSplit);
    /// A delete sets the entry's version to 0, so that delete and insert together do not change it.
    DeleteResetsVersion = "delete-resets-version", None;
    /// Whole nodes are written back without a new node version.
    SameNodeVersion = "same-node-version", None;
    /// A retired node's place is reused under its old generation.
    SameGeneration = "same-generation", Some(Mark::NodeReused);
    /// A chunk counts as granted although the CAS lost.
    ChunkTwice = "chunk-twice", Some(Mark::ChunkRaceLost);
    /// Settling frees whatever lock word it finds.
    SettleFreesStranger = "settle-frees-stranger", Some(Mark::Settled);
    /// Settling forgets a lock that it holds.
    SettleForgets = "settle-forgets", Some(Mark::Settled);
    /// Settling frees locks while requests that failed with their queue pair may still take effect.
    SettleUnclosed = "settle-unclosed", Some(Mark::Settled);
    /// A scan takes the leaves that the cached parent names without a check of where they begin.
    ScanUnchecked = "scan-unchecked", None;
    /// A write batch takes members until its leader is done, though the value was copied before.
    SealAtRelease = "seal-at-release", Some(Mark::CombinedWrite);
    /// A read batch takes members while its READ is under way, so that they may be given what was read before they
    /// came.
    SampleBeforeJoin = "sample-before-join", Some(Mark::DelegatedRead);
    /// A lane joins any open batch, whatever its key: the value is dropped into another key's batch.
    StrangersJoin = "strangers-join", Some(Mark::CombinedWrite);
    /// A dead holder's lock is taken over before memory nodes have confirmed that it is fenced off.
    TakeoverUnfenced = "takeover-unfenced", Some(Mark::Takeover);
    /// A lease is judged by comparing the holder's count of heartbeats with the waiter's own clock.
    LeaseByRemoteClock = "lease-by-remote-clock", Some(Mark::RowFenced);
    /// Unlock is a WRITE, even if another compute node holds the lock by then.
    UnlockByWrite = "unlock-by-write", None;
    /// A redo record is posted behind the WRITE that it is for.
    ImageAfterData = "image-after-data", Some(Mark::RedoReplayed);
    /// Each submit of a lane begins with its first redo slot, whatever lock the redo record in it was made under.
    SlotsReusedUnderLock = "slots-reused-under-lock", Some(Mark::HandOver);
    /// A split writes the old node back without a redo record.
    SplitWithoutImage = "split-without-image", Some(Mark::LeafSplit);
    /// A dead compute node's row is freed without a look at the locks that name it.
    RowFreedUnswept = "row-freed-unswept", Some(Mark::RowSwept);
    /// A repairer takes the lock over without a copy of the redo record in its own redo area.
    TakeoverWithoutCopy = "takeover-without-copy", Some(Mark::RedoReplayed);
    /// A repairer frees the lock and leaves the node as it is.
    TakeoverWithoutReplay = "takeover-without-replay", Some(Mark::Takeover);
    /// A merge writes the left leaf before it retires the right one.
    MergeLeftFirst = "merge-left-first", Some(Mark::Merge);
    /// A retired leaf keeps the owner tag of the compute node that wrote it first.
    RetiredUnsigned = "retired-unsigned", Some(Mark::Merge);
    /// The collector takes chunks of live compute nodes, too.
    CollectsFromTheLiving = "collects-from-the-living", Some(Mark::ChunkCollected);
    /// The collector does not lock the node that may still come to point to the one that it collects.
    CollectsUnlocked = "collects-unlocked", Some(Mark::NodeReclaimed);
    /// The collector leaves the owner tag of the departed compute node on what it collects.
    CollectsUntagged = "collects-untagged", Some(Mark::NodeReclaimed);
    /// A place whose generations begin anew is reused at once.
    NoLimbo = "no-limbo", Some(Mark::NodeReused);
    /// A place whose generations begin anew waits for the operations of the compute node that retired it, and for no
    /// other's.
    LimboTooShort = "limbo-too-short", Some(Mark::LimboLeft);
    /// A leaf that is merged away goes on the free list before the WRITEs that take it out of the tree are posted.
    RetireBeforeSwitch = "retire-before-switch", Some(Mark::Merge);
    /// A split re-sorts the entries that stay, and leaves them out of its redo record.
    SplitSorts = "split-sorts", Some(Mark::LeafSplit);
    /// A half-merge is undone while the lane that merges may still be at it.
    ReviveAtOnce = "revive-at-once", Some(Mark::MergeUndone);
    /// An insert looks for its key up to the first entry with room, and not in the whole neighborhood.
    RangeEndsAtRoom = "range-ends-at-room", None;
    /// A leaf is cut behind its largest key, and its parent is told the median.
    PivotNotMaximum = "pivot-not-maximum", Some(Mark::LeafSplit);
    /// A delete empties the entry.
    DeleteEmpties = "delete-empties", None;
    /// Where only the bitmap of an entry changes, its version stays.
    BitmapKeepsVersion = "bitmap-keeps-version", Some(Mark::Hop);
    /// A new sibling is linked before the old leaf has been written.
    LinkedBeforeLanding = "linked-before-landing", Some(Mark::LeafSplit);
    /// A lane that loses the race for a new root gives up, and so does its operation.
    RootRaceGivesUp = "root-race-gives-up", Some(Mark::RootRaceLost);
    /// The largest key of a leaf decides whether a key is to the right of it, and not its high fence.
    LargestKeyDecides = "largest-key-decides", None;
    /// No match counts though a bit of the bitmap leads nowhere.
    BitmapUnchecked = "bitmap-unchecked", Some(Mark::HopSeen);
    /// A neighborhood counts as part of the leaf that the parent names, whatever its generation.
    LifeUnchecked = "life-unchecked", Some(Mark::NodeReused);
    /// Of two WRITEs of one change the redo record has the first only.
    SecondWithoutImage = "second-without-image", Some(Mark::Wrap);
    /// WRITEs longer than a packet are posted as they are, wherever in a line they begin.
    CutsWithinLines = "cuts-within-lines", Some(Mark::RedoReplayed);
    /// The row of a dead compute node is freed without a look at locks that lie in leaves.
    LeavesUnswept = "leaves-unswept", Some(Mark::RowSwept);
    /// A leaf or node that only a copy led to counts as the key's absence, and the slot is not READ again.
    CachedNegative = "cached-negative", Some(Mark::Confirmed);
    /// An update writes the leaf up to its end, lock word included, from the image READ under the lock.
    WholeLeaf = "whole-leaf", None;
    /// An insert whose CAS finds the same byte goes on to the next empty slot.
    SameByteTwice = "same-byte-twice", Some(Mark::SameByte);
    /// A full node is replaced without being frozen.
    ReplacedUnfrozen = "replaced-unfrozen", Some(Mark::NodeReplaced);
    /// A write decides on the leaf as it was READ before its lock was taken.
    LeafBeforeLock = "leaf-before-lock", Some(Mark::LockLost);
    /// An insert that meets a frozen slot goes on below it and leaves the replacement of its node to others.
    FrozenFollowed = "frozen-followed", Some(Mark::HelpedReplacement);
    /// A delete clears the slot of its leaf.
    DeleteClearsSlot = "delete-clears-slot", None;
    /// A delete does not take the leaf's lock.
    DeleteUnlocked = "delete-unlocked", None;
    /// A delete looks at the leaf once more after it is done, and answers what it finds.
    DeleteLooksAgain = "delete-looks-again", None;
    /// Places that have left the tree are reused at once.
    ReusedAtOnce = "reused-at-once", Some(Mark::LimboEntered);
    /// Copies are believed however old they are.
    CopiesOutlive = "copies-outlive", Some(Mark::LimboLeft);
    /// An operation does not hold up the epochs.
    PinsEndEarly = "pins-end-early", Some(Mark::LimboLeft);
    /// The index is walked before every compute node has given up its places in closed chunks.
    WalkAtOnce = "walk-at-once", Some(Mark::ChunkCollected);
    /// Places that the walk did not reach are reused before the operations that overlapped the walk have ended.
    OpenAtOnce = "open-at-once", Some(Mark::ChunkCollected);
    /// A compute node begins operations in a new epoch and does not look which chunks are closed.
    ClosedUnread = "closed-unread", Some(Mark::ChunkCollected);
    /// Places in a closed chunk are kept.
    ClosedKept = "closed-kept", Some(Mark::ChunkCollected);
    /// A tombstone is finalized on a READ of the leaf without its lock.
    FinalizeUnlocked = "finalize-unlocked", Some(Mark::Finalized);
    /// A write brings a finalized leaf back, as if it were only deleted.
    FinalizedRevived = "finalized-revived", Some(Mark::Finalized);
    /// A finalized leaf of the key counts as the key's absence, although only a copy led to it.
    FinalizedIsAbsent = "finalized-is-absent", Some(Mark::Finalized);
    /// A lane whose replacement of a full node loses the CAS retires the old node all the same.
    RetiredInVain = "retired-in-vain", Some(Mark::ReplacementLost);
    /// A block's place is reused under the same generation.
    BlockLifeKept = "block-life-kept", Some(Mark::BlockReplaced);
    /// A block is accepted whatever its generation.
    BlockLifeUnchecked = "block-life-unchecked", Some(Mark::BlockReplaced);
    /// A block is accepted without a check of its checksum.
    BlockChecksumUnchecked = "block-checksum-unchecked", Some(Mark::BlockReplaced);
    /// A block's place is retired before the entry that names it has changed.
    BlockRetiredEarly = "block-retired-early", Some(Mark::BlockRead);
    /// An entry becomes a link even if it has changed since it was read.
    LinkUnconditional = "link-unconditional", Some(Mark::LayerTakenBack);
    /// Blocks are collected although a repairer may still replay a dead compute node's WRITE that names one.
    WalkBeforeReplays = "walk-before-replays", Some(Mark::ChunkCollected);
    /// An operation of items has a pin in each of its steps, and none between them.
    ItemsPinsEndEarly = "items-pins-end-early", None;
}

impl Mutant {
    /// Mutants of SMART.
    pub const SMART: &'static [Self] = &[
        Self::CachedNegative,
        Self::WholeLeaf,
        Self::SameByteTwice,
        Self::ReplacedUnfrozen,
        Self::LeafBeforeLock,
        Self::FrozenFollowed,
        Self::DeleteClearsSlot,
        Self::DeleteUnlocked,
        Self::DeleteLooksAgain,
        Self::ReusedAtOnce,
        Self::CopiesOutlive,
        Self::PinsEndEarly,
        Self::WalkAtOnce,
        Self::OpenAtOnce,
        Self::ClosedUnread,
        Self::ClosedKept,
        Self::FinalizeUnlocked,
        Self::FinalizedRevived,
        Self::FinalizedIsAbsent,
        Self::RetiredInVain,
    ];

    /// Mutants of items.
    pub const ITEMS: &'static [Self] = &[
        Self::BlockLifeKept,
        Self::BlockLifeUnchecked,
        Self::BlockChecksumUnchecked,
        Self::BlockRetiredEarly,
        Self::LinkUnconditional,
        Self::WalkBeforeReplays,
        Self::ItemsPinsEndEarly,
    ];

    /// Mutants that show only when compute nodes die.
    pub const RECOVERY: &'static [Self] = &[
        Self::TakeoverUnfenced,
        Self::LeaseByRemoteClock,
        Self::UnlockByWrite,
        Self::ImageAfterData,
        Self::SlotsReusedUnderLock,
        Self::SplitWithoutImage,
        Self::RowFreedUnswept,
        Self::TakeoverWithoutCopy,
        Self::TakeoverWithoutReplay,
        Self::MergeLeftFirst,
        Self::ReviveAtOnce,
        Self::RetiredUnsigned,
        Self::CollectsFromTheLiving,
        Self::CollectsUnlocked,
        Self::CollectsUntagged,
        Self::SplitSorts,
        Self::CutsWithinLines,
        Self::SecondWithoutImage,
        Self::LeavesUnswept,
    ];

    /// Mutants that show only when WRITEs fail with their queue pair, and the queue pair is set up again.
    pub const MENDED: &'static [Self] = &[Self::SettleUnclosed];

    /// Mutants that show only when places are used again while operations pause.
    pub const LIVES: &'static [Self] = &[
        Self::SameGeneration,
        Self::NoLimbo,
        Self::LimboTooShort,
        Self::RetireBeforeSwitch,
        Self::ReusedAtOnce,
        Self::CopiesOutlive,
        Self::PinsEndEarly,
        Self::WalkAtOnce,
        Self::OpenAtOnce,
    ];

    /// Mutants in rooms that B+-trees share, or in all of them.
    pub const SHARED: &'static [Self] = &[
        Self::NoGuard,
        Self::MergeForgetsForward,
        Self::MergeUnlocked,
        Self::InnerKeepsFence,
        Self::RootOverwritten,
        Self::LinksDead,
        Self::HelpOverwritten,
        Self::SameGeneration,
        Self::NoLimbo,
        Self::LimboTooShort,
        Self::RetireBeforeSwitch,
        Self::ChunkTwice,
        Self::SettleUnclosed,
        Self::ScanUnchecked,
        Self::TakeoverUnfenced,
        Self::LeaseByRemoteClock,
        Self::ImageAfterData,
        Self::SplitWithoutImage,
        Self::TakeoverWithoutCopy,
        Self::TakeoverWithoutReplay,
        Self::MergeLeftFirst,
        Self::ReviveAtOnce,
        Self::CutsWithinLines,
    ];

    /// Mutants in rooms of CHIME.
    pub const CHIME: &'static [Self] = &[
        Self::RangeEndsAtRoom,
        Self::PivotNotMaximum,
        Self::DeleteEmpties,
        Self::BitmapKeepsVersion,
        Self::LinkedBeforeLanding,
        Self::RootRaceGivesUp,
        Self::LargestKeyDecides,
        Self::BitmapUnchecked,
        Self::LifeUnchecked,
        Self::SecondWithoutImage,
        Self::LeavesUnswept,
    ];
}

#[cfg(feature = "planted")]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(u8::MAX);

/// Plants a mutant, or none, for the whole process.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Mutant>) {
    PLANTED.store(bug.map_or(u8::MAX, |bug| bug as u8), core::sync::atomic::Ordering::Relaxed);
}

/// Whether this mutant is planted.
#[cfg(feature = "planted")]
#[inline]
pub(crate) fn planted(bug: Mutant) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Whether this mutant is planted: no.
#[cfg(not(feature = "planted"))]
#[inline]
pub(crate) const fn planted(_: Mutant) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_and_lead_back() {
        for bug in Mutant::ALL {
            assert_eq!(Mutant::from_name(bug.name()), Some(*bug));
            assert!(!planted(*bug), "{} is planted though nobody did", bug.name());
        }
    }
}
