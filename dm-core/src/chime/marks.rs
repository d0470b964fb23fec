//! Marks: events of CHIME that are counted.

crate::marks::declare_marks! {
    60;
    /// An insert moved records to make room near the home of its key.
    HOP = "hop",
    /// A neighborhood or hop range went past the last entry and continued at the first.
    WRAP = "wrap",
    /// A neighborhood was READ in the middle of a hop, and READ again.
    HOP_SEEN = "hop-seen",
    /// A lock word said that its leaf had room, and there was none.
    VACANCY_MISS = "vacancy-miss",
    /// The hotspot buffer had no guess for a key.
    UNGUESSED = "unguessed",
    /// One entry of a leaf was READ, where the hotspot buffer said that the key was.
    SPECULATED = "speculated",
    /// The part of these in which the entry did not have the key any more.
    GUESSED_WRONG = "guessed-wrong",
    /// A leaf was rewritten without its dead records.
    PURGE = "purge",
    /// A leaf was rewritten with its records in other entries, because no hop made room.
    REARRANGED = "rearranged",
    /// A leaf's sibling was not what the parent said, and the whole leaf was READ.
    DOUBTED = "doubted",
}
