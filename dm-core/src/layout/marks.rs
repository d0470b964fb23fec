//! Marks: events of bit-exact building blocks that are counted.

crate::marks::declare_marks! {
    0;
    /// A node READ was torn and repeated.
    TORN_READ = "torn-read",
}
