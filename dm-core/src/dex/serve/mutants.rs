//! Mutants: bugs that can be planted in the operations of DEX.
//!
//! | what can go wrong | mutants that do it here |
//! |---|---|
//! | an answer tells what a death takes back | `undurable-read-answered` |
//! | a compute node that others took for dead answers from its cache | `lease-unchecked-on-a-hit` |
//! | lanes wait for a page that nobody brings | `fill-dropped` |
//! | two leaves have one key | `parent-before-left` |

crate::mutants::declare_mutants! {
    230;
    /// A read answers although the record that it saw is in no ring.
    UNDURABLE_READ_ANSWERED = "undurable-read-answered" => Deaths,
    /// A read of a cached leaf answers although the lease is over.
    LEASE_UNCHECKED_ON_A_HIT = "lease-unchecked-on-a-hit" => Deaths,
    /// The fill of a page that is not the wanted leaf is not ended.
    FILL_DROPPED = "fill-dropped",
    /// The parent names a new leaf before the leaf at its left ends where the new one begins.
    PARENT_BEFORE_LEFT = "parent-before-left" => Deaths,
}
