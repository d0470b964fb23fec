//! Mutants: bugs that can be planted in Dolphin.
//!
//! | what can go wrong in the paper's design or its program | mutants that do it here |
//! |---|---|
//! | a reader finds a key before its value | `value-before-key`, `cells-unset`, `claim-unjudged` |
//! | a key comes twice into a leaf | `bound-twice`, `body-before-drain`, `claim-unjudged` |
//! | an insert writes over a faster insert of its key | `claim-of-another` |
//! | a late update changes another key's value, since its cell was given away | `cell-given-away` |
//! | two long WRITEs mix | `block-name-written`, `loser-retires`, `block-named-early` |
//! | a reader takes what a split has moved for absent | `retired-believed`, `rebuilt-short`, `heirs-from-copy` |
//! | new leaves are reached while the old one is believed | `slots-before-retire`, `retire-before-heirs`, `frozen-changed` |
//! | an answer comes before its WRITE is done | `answered-early` |
//! | a leaf is changed after an image that is not final | `read-before-close`, `read-before-enter`, `closed-undrained`, `closer-ignored` |
//! | a place is used again while somebody knows it | `born-as-found` |
//! | a void is believed though it may be filled | `void-from-copy`, `fill-unjudged`, `gap-unconfirmed`, `void-over-record` |
//! | a descent takes another tile's child | `floor-above`, `low-slot-first` |
//! | a seat is given up, or used, at the wrong time | `seat-cleared-unfenced`, `seat-used-at-once`, `seats-shared`, `joined-adds` |

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
    /// Value cells of a new leaf whose keys are not bound do not say that the record is absent.
    CELLS_UNSET = "cells-unset",
    /// An insert WRITEs its value in front of its key.
    VALUE_BEFORE_KEY = "value-before-key",
    /// An insert of a deleted record binds its key to another cell.
    BOUND_TWICE = "bound-twice",
    /// An insert takes the cell of a deleted record and binds another key there.
    CELL_GIVEN_AWAY = "cell-given-away",
    /// The records of a retired leaf are believed.
    RETIRED_BELIEVED = "retired-believed",
    /// A write answers, and gives its seat up, when its last requests are posted, and does not await them.
    ANSWERED_EARLY = "answered-early",
    /// A lane that joins others of its compute node inside a leaf adds to the lock word, too.
    JOINED_ADDS = "joined-adds",
    /// A lane that enters beside others READs the leaf in front of its addition.
    READ_BEFORE_ENTER = "read-before-enter",
    /// Slots of a node that is being replaced are changed, although they are frozen.
    FROZEN_CHANGED = "frozen-changed",
    /// A look-up in a node takes the slot of the smallest byte above the key's, if a node is there.
    FLOOR_ABOVE = "floor-above",
    /// A shared insert that finds its key bound by another lane WRITEs the value there.
    CLAIM_OF_ANOTHER = "claim-of-another",
    /// A delete leaves the value in its cell.
    ABSENT_VALUE_LEFT = "absent-value-left",
    /// Compute nodes whose rows are four apart have the same seat.
    SEATS_SHARED = "seats-shared" => Wide,
}
