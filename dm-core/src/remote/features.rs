//! Feature words: what a reader or a writer of a structure has to understand.

/// What a pool may contain that not every reader of its format version understands. Version 1 has none yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Features that a reader may ignore.
    pub compatible: u64,
    /// A reader that does not know one of these must not write.
    pub read_only: u64,
    /// A reader that does not know one of these must not read.
    pub incompatible: u64,
}

impl Features {
    /// The features that this code knows.
    pub const KNOWN: Self = Self { compatible: 0, read_only: 0, incompatible: 0 };
}
