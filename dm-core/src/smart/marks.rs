//! Marks: events of SMART that are counted.

crate::marks::declare_marks! {
    71;
    /// An insert brought a deleted leaf back.
    REVIVED = "revived",
}
