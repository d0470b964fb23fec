//! The longest prefix of a key that has a record.
//!
//! A *probe* of the prefix of `n` bytes finds the first record between it and `key`, both included. All prefixes of `key` from
//! there on lie in that range, in the order of their lengths. So a probe says of many of them at once whether they are stored:
//!
//! - No record: no prefix of `n` bytes or more is stored.
//! - A record that is a prefix of `key`: it is a candidate, and a shorter one is not wanted.
//! - Another record, which agrees with `key` in `m` bytes: prefixes of `n` to `m` bytes lie below it, and would have been found
//!   first. So none of them is stored.
//!
//! Some probes at a time, until no length is left. A probe jumps over all lengths up to the next one at which a record parts
//! from `key`, so that the number of rounds grows with how many such lengths there are, not with the length of the key.

use super::super::error::SessionError;
use super::super::page::Page;
use super::typed::{Key, Value, open};

/// Probes of one round: each lane has a few.
const PROBES: usize = 16;

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

/// The longest stored prefix of `key` among those with `lengths`, which ascend, and its value. `probe` finds for each of some
/// lengths the first record between that prefix and the whole key. With `any_length`, keys and values are stored as they are.
pub(super) fn longest<V: Value>(
    key: &[u8],
    lengths: &[usize],
    any_length: bool,
    mut probe: impl FnMut(&[usize]) -> Vec<Result<Page, SessionError>>,
) -> Result<Option<(usize, V::Owned)>, SessionError> {
    // Places in `lengths` of the prefixes that may be stored and longer than the best one.
    let mut left: Vec<usize> = (0..lengths.len()).collect();
    let mut best = None;
    while !left.is_empty() {
        let places = probed(&left);
        let at: Vec<_> = places.iter().map(|&place| lengths[place]).collect();
        for (from, page) in places.into_iter().zip(probe(&at)) {
            let page = page?;
            let Some((slot, value)) = page.record(0) else {
                left.retain(|&place| place < from);
                continue;
            };
            let found = open::<&[u8]>(slot, any_length, "key")?;
            let agree = found.iter().zip(key).take_while(|(one, other)| one == other).count();
            // Whatever was found, this length is done: so the search ends.
            left.retain(|&place| place != from);
            if found.len() == agree && lengths.binary_search(&agree).is_ok() {
                if best.as_ref().is_none_or(|(longest, _)| *longest < agree) {
                    best = Some((agree, open::<V>(value, any_length, "value")?));
                }
                left.retain(|&place| lengths[place] > agree);
            } else {
                left.retain(|&place| place < from || lengths[place] > agree);
            }
        }
    }
    Ok(best)
}

/// Which of the places that are left to probe: those where a run of them begins, since another record has ruled out what is in
/// front; and others spread evenly.
fn probed(left: &[usize]) -> Vec<usize> {
    let begins = |at: &usize| *at == 0 || left[*at] != left[*at - 1] + 1;
    let evenly = (0..PROBES).map(|probe| left.len() * probe / PROBES);
    let mut at: Vec<_> = (0..left.len()).filter(begins).take(PROBES / 2).chain(evenly).collect();
    at.sort_unstable();
    at.dedup();
    at.into_iter().map(|at| left[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Searches for prefixes of `key` among `stored`. Returns the length, and how many rounds it took.
    fn search(key: &[u8], stored: &BTreeSet<Vec<u8>>) -> (Option<usize>, u32) {
        let mut rounds = 0;
        let probe = |at: &[usize]| {
            rounds += 1;
            assert!(!at.is_empty() && at.len() <= PROBES + PROBES / 2);
            let first = |&from: &usize| stored.range(key[..from].to_vec()..=key.to_vec()).next().cloned();
            at.iter().map(|from| Ok(Page::of_keys(first(from).as_slice(), false))).collect()
        };
        let lengths: Vec<_> = (0..=key.len()).collect();
        let found = longest::<()>(key, &lengths, true, probe).expect("no errors");
        (found.map(|(length, ())| length), rounds)
    }

    /// `bytes` bytes that repeat late.
    fn key_of(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at % 251) as u8 + 1).collect()
    }

    #[test]
    fn the_longest_stored_prefix_is_found_in_a_few_rounds() {
        for bytes in [0_usize, 1, 31, 32, 33, 300, 4096] {
            let key = key_of(bytes);
            for stored in [&[][..], &[0], &[1], &[bytes], &[0, bytes / 2, bytes / 3], &[bytes.saturating_sub(1)]] {
                let stored: BTreeSet<_> = stored.iter().filter(|&&length| length <= bytes).collect();
                let keys = stored.iter().map(|&&length| key[..length].to_vec()).collect();
                let (found, rounds) = search(&key, &keys);
                assert_eq!(found, stored.last().map(|&&length| length), "{stored:?} of {bytes}");
                assert!(rounds <= 2, "{rounds} rounds for {stored:?} of {bytes}");
            }
        }
    }

    /// A prompt, and conversations that begin with it. The key goes on as a conversation does for 3500 bytes: once each shorter
    /// prefix was looked up.
    #[test]
    fn records_that_only_begin_alike_are_jumped_over() {
        let key = key_of(4096);
        let mut stored = BTreeSet::from([key[..1000].to_vec()]);
        for parts_at in [3500, 1500, 2000, 3000] {
            stored.insert([&key[..parts_at], b"\0, and so on"].concat());
            let (found, rounds) = search(&key, &stored);
            assert_eq!(found, Some(1000), "{parts_at}");
            assert!(rounds <= 3, "{rounds} rounds with {parts_at}");
        }
        stored.remove(&key[..1000]);
        assert_eq!(search(&key, &stored).0, None);
    }

    #[test]
    fn any_records_are_searched_rightly() {
        // Strings of two letters: so they agree, part, and contain each other in all ways.
        let word = |number: u32| -> Vec<u8> {
            (0..number % 13).map(|bit| if number >> (bit + 4) & 1 == 0 { b'a' } else { b'b' }).collect()
        };
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        for _ in 0..3000 {
            let stored: BTreeSet<_> = (0..next() % 30).map(|_| word(next())).collect();
            let key = word(next());
            let right = (0..=key.len()).rev().find(|&length| stored.contains(&key[..length]));
            assert_eq!(search(&key, &stored).0, right, "{key:?} among {stored:?}");
        }
    }
}
