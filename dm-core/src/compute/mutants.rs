//! Mutants: bugs that can be planted in what lanes of a compute node share.

crate::mutants::declare_mutants! {
    48;
    /// A write batch takes members until its leader is done, though the value was copied before.
    SEAL_AT_RELEASE = "seal-at-release",
    /// A read batch takes members while its READ is under way, so that they may be given what was read before they
    /// came.
    SAMPLE_BEFORE_JOIN = "sample-before-join",
    /// A lane joins any open batch, whatever its key: the value is dropped into another key's batch.
    STRANGERS_JOIN = "strangers-join",
}
