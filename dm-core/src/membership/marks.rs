//! Marks: events of membership that are counted.

crate::marks::declare_marks! {
    12;
    /// A compute node was fenced on every memory node.
    ROW_FENCED = "row-fenced",
}
