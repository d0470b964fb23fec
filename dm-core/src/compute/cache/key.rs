//! Keys as big-endian words, which searches compare.

use crate::registry::KEY_BYTES_MAX;

/// Words of the longest key.
const KEY_WORDS_MAX: usize = KEY_BYTES_MAX / 4;

/// A key as words that compare like its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) [u32; KEY_WORDS_MAX]);

impl Key {
    pub(super) const ZERO: Self = Self([0; KEY_WORDS_MAX]);

    /// Missing bytes are zero, and bytes behind the longest key are cut.
    #[inline]
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut words = [0; KEY_WORDS_MAX];
        let (whole, rest) = bytes.as_chunks::<4>();
        for (word, bytes) in words.iter_mut().zip(whole) {
            *word = u32::from_be_bytes(*bytes);
        }
        if let Some(word) = words.get_mut(whole.len())
            && !rest.is_empty()
        {
            let mut bytes = [0; 4];
            bytes[..rest.len()].copy_from_slice(rest);
            *word = u32::from_be_bytes(bytes);
        }
        Self(words)
    }
}

/// A key of at most eight bytes: the number is all of it.
#[derive(Clone, Copy)]
pub(super) struct ShortKey(u64);

impl ShortKey {
    /// Missing bytes are zero, and bytes behind the eighth are cut.
    #[inline]
    pub(super) fn new(bytes: &[u8]) -> Self {
        match bytes.first_chunk() {
            Some(bytes) => Self(u64::from_be_bytes(*bytes)),
            None => Self(Key::new(bytes).number(0)),
        }
    }
}

/// The key of a search. Short keys need no code for tails and prefixes.
pub(super) trait Wanted: Copy {
    /// Whether the number is all of the key.
    const SHORT: bool;

    /// Word `at`; 0 past the end.
    fn word(self, at: usize) -> u32;

    /// The two words after `prefix` words, as one number.
    fn number(self, prefix: usize) -> u64;
}

impl Wanted for &Key {
    const SHORT: bool = false;

    #[inline]
    fn word(self, at: usize) -> u32 {
        self.0.get(at).copied().unwrap_or(0)
    }

    #[inline]
    fn number(self, prefix: usize) -> u64 {
        join(self.word(prefix), self.word(prefix + 1))
    }
}

impl Wanted for ShortKey {
    const SHORT: bool = true;

    #[inline]
    fn word(self, _: usize) -> u32 {
        0
    }

    #[inline]
    fn number(self, _: usize) -> u64 {
        self.0
    }
}

/// Two words as one number.
#[inline]
pub(super) const fn join(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}
