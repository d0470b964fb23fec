//! Mutants: bugs that can be planted in Dolphin.

crate::mutants::declare_mutants! {
    180;
    /// The leaf's own slot is swung before the slots of its other heirs are appended.
    LOW_SLOT_FIRST = "low-slot-first",
    /// Slots are swung before the FAA that retires the leaf.
    SLOTS_BEFORE_RETIRE = "slots-before-retire",
    /// The FAA that retires a leaf goes in front of the WRITE of its heirs.
    RETIRE_BEFORE_HEIRS = "retire-before-heirs",
    /// A new leaf keeps the lock word that its place has.
    BORN_AS_FOUND = "born-as-found",
    /// A void that only a copy shows proves that a key is absent.
    VOID_FROM_COPY = "void-from-copy",
    /// An insert into a void does not look at what its CAS has found.
    FILL_UNJUDGED = "fill-unjudged",
    /// A scan goes on with the next leaf that it has READ, though nothing confirmed the gap in front of it.
    GAP_UNCONFIRMED = "gap-unconfirmed",
    /// Heirs are followed though only a copy has led to the retired leaf.
    HEIRS_FROM_COPY = "heirs-from-copy",
    /// A closer that waited for those inside trusts the image that it READ before they left.
    BODY_BEFORE_DRAIN = "body-before-drain",
    /// A closer READs the leaf in front of its addition.
    READ_BEFORE_CLOSE = "read-before-close",
    /// A closer does not wait for those inside.
    CLOSED_UNDRAINED = "closed-undrained",
    /// A lane stays inside though another compute node has closed the leaf.
    CLOSER_IGNORED = "closer-ignored",
    /// A leaf that is rebuilt leaves out its greatest record.
    REBUILT_SHORT = "rebuilt-short",
    /// A leaf becomes a void with the last but one of its records.
    VOID_OVER_RECORD = "void-over-record",
    /// The name of a block is WRITTEN, not changed by CAS.
    BLOCK_NAME_WRITTEN = "block-name-written",
    /// An update that was overtaken takes back the block that it had READ, as the one that was faster does.
    LOSER_RETIRES = "loser-retires",
    /// A block is named before it is WRITTEN.
    BLOCK_NAMED_EARLY = "block-named-early",
    /// A collection does not mark the blocks that leaves name.
    BLOCKS_UNMARKED = "blocks-unmarked",
    /// A shared insert does not look at what the CAS of its key cell has found.
    CLAIM_UNJUDGED = "claim-unjudged",
    /// A field is cleared before its compute node was fenced.
    SEAT_CLEARED_UNFENCED = "seat-cleared-unfenced" => Deaths,
    /// A compute node adds at once, while others may still clear a field of its seat's last owner.
    SEAT_USED_AT_ONCE = "seat-used-at-once" => Deaths,
}
