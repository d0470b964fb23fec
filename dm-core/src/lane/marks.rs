//! Marks: events of lanes that are counted.

crate::marks::declare_marks! {
    2;
    /// A lane in doubt was settled.
    SETTLED = "settled",
}
