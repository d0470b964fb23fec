//! Mutants: bugs that can be planted in what radix trees share.

crate::mutants::declare_mutants! {
    154;
    /// A leaf or node that only a copy led to counts as the key's absence, and the slot is not READ again.
    CACHED_NEGATIVE = "cached-negative",
    /// Copies are believed however old they are.
    COPIES_OUTLIVE = "copies-outlive" => Reuse,
    /// An insert whose CAS finds the same byte goes on to the next empty slot.
    SAME_BYTE_TWICE = "same-byte-twice",
    /// A full node is replaced without being frozen.
    REPLACED_UNFROZEN = "replaced-unfrozen",
    /// An insert that meets a frozen slot goes on below it and leaves the replacement of its node to others.
    FROZEN_FOLLOWED = "frozen-followed",
    /// A finalized leaf of the key counts as the key's absence, although only a copy led to it.
    FINALIZED_IS_ABSENT = "finalized-is-absent",
    /// A lane whose replacement of a full node loses the CAS retires the old node all the same.
    RETIRED_IN_VAIN = "retired-in-vain",
    /// Places that have left the tree are reused at once.
    REUSED_AT_ONCE = "reused-at-once" => Reuse,
}
