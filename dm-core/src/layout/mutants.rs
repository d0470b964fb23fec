//! Mutants: bugs that can be planted in bit-exact building blocks.

crate::mutants::declare_mutants! {
    0;
    /// Node versions are compared in the first and the last line only, as the paper does (front and rear version).
    BOOKEND_VERSIONS = "bookend-versions",
    /// Of long keys the first 32 bytes are compared.
    KEYS_CUT = "keys-cut" => Wide,
    /// Keys of eight bytes are compared as signed numbers.
    KEYS_SIGNED = "keys-signed" => Wide,
}
