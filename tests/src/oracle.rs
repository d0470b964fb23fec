//! The expected answer of every operation, and keys and values that can be checked by themselves.

use dm_core::operation::{OperationKind, Outcome};

/// The key of number `n`. Keys longer than a word share prefixes, so that they differ late, past line ends too; the
/// last number is the greatest key there is, 0 the least.
pub fn key(n: u64, key_bytes: usize) -> Vec<u8> {
    if n == u64::MAX {
        return vec![0xff; key_bytes];
    }
    let mut key = vec![(n % 3) as u8 * 0x55; key_bytes];
    key[key_bytes - 8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// The number of a key that [`key`] made.
pub fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[key.len() - 8..].try_into().expect("eight bytes"))
}

fn mix(word: u64) -> u64 {
    // SplitMix64's finalizer (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The value that `stamp` names, for `key`: four bytes of stamp, the rest follows from both.
pub fn value(key: &[u8], stamp: u32, value_bytes: usize) -> Vec<u8> {
    let mut state = key.iter().fold(u64::from(stamp), |state, &byte| mix(state ^ u64::from(byte)));
    let mut value = stamp.to_le_bytes().to_vec();
    while value.len() < value_bytes {
        state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        value.push(state as u8);
    }
    value
}

/// The stamp of a value, if every byte of it is as [`value`] makes it.
pub fn stamp(key: &[u8], found: &[u8]) -> Option<u32> {
    let stamp = u32::from_le_bytes(found.get(..4)?.try_into().ok()?);
    (value(key, stamp, found.len()) == found).then_some(stamp)
}

/// What a point operation answers and leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its outcome.
    pub outcome: Outcome,
    /// The stamp in `output`, where the outcome comes with one.
    pub output: Option<u32>,
    /// The key's stamp afterwards; `None`: it is absent.
    pub after: Option<u32>,
}

/// What `kind` answers on a key in state `before`.
pub fn answer(kind: OperationKind, before: Option<u32>, new: u32, expected: u32) -> Answer {
    use OperationKind::{Delete, DeleteIf, Get, Insert, Scan, Update, UpdateIf, Upsert};
    let (outcome, output, after) = match (kind, before) {
        (Get, Some(stamp)) => (Outcome::Found, Some(stamp), before),
        (Insert, Some(stamp)) => (Outcome::Exists, Some(stamp), before),
        (Get | Update | UpdateIf | Delete | DeleteIf, None) => (Outcome::Absent, None, None),
        (Insert | Upsert, None) => (Outcome::Inserted, None, Some(new)),
        (Update, Some(_)) => (Outcome::Updated, None, Some(new)),
        (Upsert, Some(_)) => (Outcome::Replaced, None, Some(new)),
        (UpdateIf, Some(stamp)) if stamp == expected => (Outcome::Updated, None, Some(new)),
        (DeleteIf, Some(stamp)) if stamp == expected => (Outcome::Deleted, None, None),
        (UpdateIf | DeleteIf, Some(stamp)) => (Outcome::Mismatch, Some(stamp), before),
        (Delete, Some(_)) => (Outcome::Deleted, None, None),
        (Scan, _) => unreachable!("not a point operation"),
    };
    Answer { outcome, output, after }
}

/// Point operations.
pub const POINT: [OperationKind; 7] = [
    OperationKind::Get,
    OperationKind::Insert,
    OperationKind::Update,
    OperationKind::Upsert,
    OperationKind::UpdateIf,
    OperationKind::DeleteIf,
    OperationKind::Delete,
];
