//! Mutants: bugs that can be planted in Sherman.

crate::mutants::declare_mutants! {
    100;
    /// A torn entry is skipped, so its key is reported absent.
    TORN_IS_ABSENT = "torn-is-absent",
    /// A split does not link the old leaf to the new one.
    LOST_SIBLING = "lost-sibling",
    /// A delete sets the entry's version to 0, so that delete and insert together do not change it.
    DELETE_RESETS_VERSION = "delete-resets-version",
    /// A split leaves it to the next operation to tell the parent.
    HALF_SPLIT_LEFT = "half-split-left",
    /// Conditional changes compare the first eight bytes of a value.
    VALUE_CUT = "value-cut" => Wide,
    /// A delete leaves the entry's version as it was.
    DELETE_KEEPS_VERSION = "delete-keeps-version",
    /// An entry's version stops at the largest one, where it should begin again.
    VERSION_STOPS = "version-stops" => Wide,
    /// A delete, and a split, leaves the value in the entry that becomes free.
    DELETE_LEAVES_VALUE = "delete-leaves-value",
}
