//! Marks: events of what lanes of a compute node share that are counted.

crate::marks::declare_marks! {
    25;
    /// A read took the result of another lane's read.
    DELEGATED_READ = "delegated-read",
    /// A write was done by another lane.
    COMBINED_WRITE = "combined-write",
}
