//! Mutants: bugs that can be planted in bit-exact building blocks.

crate::mutants::declare_mutants! {
    0;
    /// Node versions are compared in the first and the last line only, as the paper does (front and rear version).
    BOOKEND_VERSIONS = "bookend-versions",
}
