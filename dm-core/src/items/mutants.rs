//! Mutants: bugs that can be planted in items.

crate::mutants::declare_mutants! {
    36;
    /// A block's place is reused under the same generation.
    BLOCK_LIFE_KEPT = "block-life-kept",
    /// A block is accepted whatever its generation.
    BLOCK_LIFE_UNCHECKED = "block-life-unchecked",
    /// A block is accepted without a check of its checksum.
    BLOCK_CHECKSUM_UNCHECKED = "block-checksum-unchecked",
    /// A block's place is retired before the entry that names it has changed.
    BLOCK_RETIRED_EARLY = "block-retired-early",
    /// An entry becomes a link even if it has changed since it was read.
    LINK_UNCONDITIONAL = "link-unconditional",
    /// A link is followed without a check of its checksum.
    LINK_UNCHECKED = "link-unchecked",
    /// Conditional changes compare two values as far as the shorter one goes.
    VALUE_BEGINS_ALIKE = "value-begins-alike" => Wide,
    /// A compute node makes a change for another one without a look whether that one has given it up, or has died.
    CALLER_UNCHECKED = "caller-unchecked" => Wide,
    /// A compute node uses the place of a block again that a call names which was not answered.
    LATE_CALL_FORGOTTEN = "late-call-forgotten" => Wide,
    /// A change of an entry that a memory node was asked for, and has not answered, counts as not made.
    ASKED_CHANGE_FORGOTTEN = "asked-change-forgotten" => Wide,
}
