//! The longest prefix of a key that has a record.
//!
//! The index is ordered, and two bounds make the search short:
//!
//! - All stored prefixes of `key` with at least `n` bytes lie between the first `n` bytes of `key` and `key`. So if no
//!   record is there, no stored prefix is that long. That is monotone in `n`: a search by several probes at a time finds
//!   the greatest `n` with a record, in `log(length) / log(PROBES + 1)` rounds.
//! - Prefixes of up to that length are looked up, the longest first, many at a time.

use super::super::error::SessionError;
use super::typed::{Key, Value};

/// Probes of one round, about as many as there are lanes.
const PROBES: usize = 8;

/// Prefixes that are looked up at a time. As few candidates are not narrowed down first.
const BATCH: usize = 32;

/// A type of keys that are strings: of bytes, or of characters.
pub trait Sequence: Key {
    /// The bytes of a key.
    fn bytes(key: Self::Ref<'_>) -> &[u8];

    /// Whether a key may end at `at`, a position within `bytes`.
    fn may_end(bytes: &[u8], at: usize) -> bool;
}

impl Sequence for &[u8] {
    fn bytes(key: Self::Ref<'_>) -> &[u8] {
        key
    }

    fn may_end(_: &[u8], _: usize) -> bool {
        true
    }
}

impl Sequence for &str {
    fn bytes(key: Self::Ref<'_>) -> &[u8] {
        key.as_bytes()
    }

    fn may_end(bytes: &[u8], at: usize) -> bool {
        // Not in front of a continuation byte of UTF-8.
        bytes.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
    }
}

/// The prefixes of `bytes`, by their lengths, the shortest first.
pub(super) fn lengths_of<K: Sequence>(bytes: &[u8]) -> Vec<usize> {
    (0..=bytes.len()).filter(|&at| K::may_end(bytes, at)).collect()
}

/// The longest stored prefix among those with `lengths`, which ascend, and its value. `probe` tells for each of some
/// lengths whether there is a record between that prefix and the whole key; `get` gets the values of prefixes.
pub(super) fn longest<V: Value>(
    mut lengths: &[usize],
    mut probe: impl FnMut(&[usize]) -> Vec<Result<bool, SessionError>>,
    mut get: impl FnMut(&[usize]) -> Vec<Result<Option<V::Owned>, SessionError>>,
) -> Result<Option<(usize, V::Owned)>, SessionError> {
    // No prefix from `top` on is stored; there is a record at or above the one in front of `bottom`.
    let (mut bottom, mut top) = (0, lengths.len());
    while top - bottom > BATCH {
        let probes: Vec<_> = (1..=PROBES).map(|n| bottom + (top - bottom) * n / (PROBES + 1)).collect();
        let at: Vec<_> = probes.iter().map(|&probe| lengths[probe]).collect();
        let mut empty = None;
        for (&position, any) in probes.iter().zip(probe(&at)) {
            if !any? {
                empty = Some(position);
                break;
            }
            bottom = position;
        }
        top = empty.unwrap_or(top);
    }
    lengths = &lengths[..top];
    while !lengths.is_empty() {
        let (rest, batch) = lengths.split_at(lengths.len().saturating_sub(BATCH));
        for (&length, found) in batch.iter().zip(get(batch)).rev() {
            if let Some(value) = found? {
                return Ok(Some((length, value)));
            }
        }
        lengths = rest;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Searches among `stored` prefixes, by length, of a key of `bytes`; other records begin with its first `other` bytes
    /// and are below it. Returns the length, and how many rounds it took.
    fn search(bytes: usize, stored: &[usize], other: usize) -> (Option<usize>, u32) {
        let rounds = Cell::new(0);
        let lengths: Vec<_> = (0..=bytes).collect();
        let deepest = stored.iter().copied().max().unwrap_or(0).max(other);
        let has_any = !stored.is_empty() || other > 0;
        let probe = |at: &[usize]| {
            rounds.set(rounds.get() + 1);
            at.iter().map(|&length| Ok(has_any && length <= deepest)).collect()
        };
        let get = |at: &[usize]| {
            rounds.set(rounds.get() + 1);
            at.iter().map(|length| Ok(stored.contains(length).then_some(0))).collect()
        };
        let found = longest::<u64>(&lengths, probe, get).expect("no errors");
        (found.map(|(length, _)| length), rounds.get())
    }

    #[test]
    fn the_longest_stored_prefix_is_found_in_a_few_rounds() {
        for bytes in [0_usize, 1, 31, 32, 33, 300, 4096] {
            for stored in [&[][..], &[0], &[1], &[bytes], &[0, bytes / 2, bytes / 3], &[bytes.saturating_sub(1)]] {
                let stored: Vec<_> = stored.iter().copied().filter(|&length| length <= bytes).collect();
                let (found, rounds) = search(bytes, &stored, 0);
                assert_eq!(found, stored.iter().copied().max(), "{stored:?} of {bytes}");
                assert!(rounds <= 5, "{rounds} rounds for {stored:?} of {bytes}");
            }
        }
    }

    #[test]
    fn records_that_only_begin_alike_do_not_hide_it() {
        for other in [1, 100, 299] {
            assert_eq!(search(300, &[7], other).0, Some(7), "{other}");
            assert_eq!(search(300, &[], other).0, None, "{other}");
        }
    }
}
