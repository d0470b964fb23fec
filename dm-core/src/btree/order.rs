//! The records of a leaf in ascending order of their keys, whatever the order of its entries.

use super::leaves::SPAN_MAX;
use crate::registry::KEY_BYTES_MAX;
use core::cmp::Ordering;

/// Bits of a slot's number.
const SLOT_BITS: u32 = SPAN_MAX.ilog2();

const _: () = assert!(SPAN_MAX.is_power_of_two(), "a slot's number has so many bits");

/// The first eight bytes of a key as a number.
#[inline]
fn first_of(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Writes the slots whose keys are not below `low` and, if given, below `high` into `slots`, in ascending key order, each
/// key once; returns how many. `keys` are the slots with a record, each with the first eight bytes of its key as a number, and `read`
/// copies the key of a slot out.
///
/// A leaf whose entries ascend, as a bulk load or a split leaves them, is not sorted. Else a slot's number and what its key
/// is above the lower bound are packed into one word: words are sorted with a fraction of the comparisons' instructions.
#[inline]
pub(crate) fn ascending(
    keys: impl Iterator<Item = (usize, u64)>,
    (low, high): (&[u8], Option<&[u8]>),
    read: impl Fn(usize, &mut [u8]),
    slots: &mut [u16; SPAN_MAX],
) -> usize {
    let is_long = low.len() > 8;
    let first = first_of(low);
    // The largest first bytes that are wanted. The rest of a long key decides at the bounds, later.
    let last = match high.map(first_of) {
        None => Some(u64::MAX),
        Some(high) if is_long => Some(high),
        Some(high) => high.checked_sub(1),
    };
    let Some(width) = last.and_then(|last| last.checked_sub(first)) else { return 0 };
    let mut order = heapless::Vec::<u64, SPAN_MAX>::new();
    keys.for_each(|(slot, key)| {
        let (above, at) = (key.wrapping_sub(first), order.len());
        // It has room: as many as slots.
        if above <= width
            && order.push(above).is_ok()
            && let Some(to) = slots.get_mut(at)
        {
            *to = slot as u16;
        }
    });
    let mut count = order.len();
    if order.windows(2).any(|pair| pair[0] >= pair[1]) {
        count = sort(&mut order, low.len(), &read, slots);
    }
    if is_long { within(slots, count, (low, high), &read) } else { count }
}

/// Sorts `slots`, whose keys' first bytes are so far above the lower bound, and drops those whose key is there twice.
/// Returns how many stay.
fn sort(order: &mut [u64], key_bytes: usize, read: &impl Fn(usize, &mut [u8]), slots: &mut [u16; SPAN_MAX]) -> usize {
    // Bits that have no room beside the slot's number. Usually there are none: keys of one leaf are near each other.
    let all = order.iter().fold(0, |all, above| all | above);
    let cut = SLOT_BITS.saturating_sub(all.leading_zeros());
    for (entry, slot) in order.iter_mut().zip(&*slots) {
        *entry = *entry >> cut << SLOT_BITS | u64::from(*slot);
    }
    let slot_of = |entry: u64| entry as usize % SPAN_MAX;
    let compare_rest = |a: u64, b: u64| compare_keys(slot_of(a), slot_of(b), key_bytes, read);
    let decides = cut == 0 && key_bytes <= 8;
    if decides {
        order.sort_unstable();
    } else {
        order.sort_unstable_by(|a, b| (a >> SLOT_BITS).cmp(&(b >> SLOT_BITS)).then_with(|| compare_rest(*a, *b)));
    }
    let (mut count, mut before) = (0, None);
    for &entry in &*order {
        let is_twin = before.is_some_and(|before| {
            entry >> SLOT_BITS == before >> SLOT_BITS && (decides || compare_rest(entry, before).is_eq())
        });
        // Fewer than slots.
        if let Some(to) = slots.get_mut(count) {
            *to = slot_of(entry) as u16;
        }
        count += usize::from(!is_twin);
        before = Some(entry);
    }
    count
}

/// Compares the keys of two slots.
fn compare_keys(a: usize, b: usize, key_bytes: usize, read: &impl Fn(usize, &mut [u8])) -> Ordering {
    let (mut left, mut right) = ([0; KEY_BYTES_MAX], [0; KEY_BYTES_MAX]);
    let (Some(left), Some(right)) = (left.get_mut(..key_bytes), right.get_mut(..key_bytes)) else {
        return Ordering::Equal;
    };
    read(a, left);
    read(b, right);
    (*left).cmp(&*right)
}

/// Drops the slots at both ends of the first `count` whose long keys are outside the bounds; returns how many stay.
fn within(
    slots: &mut [u16; SPAN_MAX],
    count: usize,
    (low, high): (&[u8], Option<&[u8]>),
    read: &impl Fn(usize, &mut [u8]),
) -> usize {
    let mut room = [0; KEY_BYTES_MAX];
    let mut key = |slot: u16| {
        let key = room.get_mut(..low.len()).unwrap_or_default();
        read(slot.into(), key);
        (&*key >= low, high.is_none_or(|high| &*key < high))
    };
    let inside = slots.get(..count).unwrap_or_default();
    let begin = inside.iter().position(|slot| key(*slot).0).unwrap_or(count);
    let end = inside.iter().rposition(|slot| key(*slot).1).map_or(begin, |last| (last + 1).max(begin));
    slots.copy_within(begin..end, 0);
    end - begin
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    proptest! {
        /// Keys of eight bytes and longer ones, near each other and far apart, some of them several times.
        #[test]
        fn slots_come_in_the_order_of_their_keys(
            key_bytes in prop_oneof![Just(8_usize), Just(9), Just(24)],
            shift in 0_u32..64,
            numbers in proptest::collection::vec((any::<u64>(), 0_u8..3, any::<bool>()), 0..SPAN_MAX),
            bounds in any::<[(u64, u8); 2]>(),
            is_bounded in any::<bool>(),
            in_order in any::<bool>(),
        ) {
            let key_of = |number: u64, last: u8| {
                let mut key = [0; 24];
                key[..8].copy_from_slice(&(number >> shift).to_be_bytes());
                if key_bytes > 8 {
                    key[key_bytes - 1] = last;
                }
                key[..key_bytes].to_vec()
            };
            let mut keys = numbers.iter().map(|(number, last, _)| key_of(*number, *last)).collect::<Vec<_>>();
            if in_order {
                keys.sort();
            }
            let is_there = |slot: &usize| numbers[*slot].2;
            let [low, high] = bounds.map(|(number, last)| key_of(number, last % 3));
            let high = is_bounded.then_some(&*high);
            let inside = |key: &[u8]| key >= &*low && high.is_none_or(|high| key < high);
            let wanted: BTreeSet<_> =
                (0..keys.len()).filter(is_there).filter(|slot| inside(&keys[*slot])).map(|slot| keys[slot].clone()).collect();
            let mut slots = [0; SPAN_MAX];
            let count = ascending(
                (0..keys.len()).filter(is_there).map(|slot| (slot, first_of(&keys[slot]))),
                (&low, high),
                |slot, out| out.copy_from_slice(&keys[slot]),
                &mut slots,
            );
            let found = slots[..count].iter().map(|slot| usize::from(*slot)).collect::<Vec<_>>();
            prop_assert!(found.iter().all(is_there));
            prop_assert_eq!(
                found.into_iter().map(|slot| keys[slot].clone()).collect::<Vec<_>>(),
                wanted.into_iter().collect::<Vec<_>>()
            );
        }
    }
}
