//! CityHash64 of version 1.1, for the key lengths of fixed-size indexes.
//!
//! The hash decides where a record is stored, so it is part of the format: every compute node has to compute the same.
//! Written after the published description and values (Pike and Alakuijala, 2011), for keys of 8 to 64 bytes only.

const K2: u64 = 0x9ae1_6a3b_2f90_404f;
const K1: u64 = 0xb492_b66f_be98_f273;

/// Words are little-endian, and zero behind the end of the key.
#[inline]
fn word(key: &[u8], at: usize) -> u64 {
    key.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[inline]
const fn shift_mix(value: u64) -> u64 {
    value ^ value >> 47
}

#[inline]
const fn mix(u: u64, v: u64, multiplier: u64) -> u64 {
    let a = shift_mix((u ^ v).wrapping_mul(multiplier));
    shift_mix((v ^ a).wrapping_mul(multiplier)).wrapping_mul(multiplier)
}

/// The hash of a key of 8 to 64 bytes. For other lengths it is some number, always the same.
#[inline]
pub fn city_hash_64(key: &[u8]) -> u64 {
    match key.len() {
        ..=16 => of_16(key),
        17..=32 => of_32(key),
        _ => of_64(key),
    }
}

#[inline]
fn of_16(key: &[u8]) -> u64 {
    let bytes = key.len();
    let multiplier = K2.wrapping_add(bytes as u64 * 2);
    let a = word(key, 0).wrapping_add(K2);
    let b = word(key, bytes.saturating_sub(8));
    let c = b.rotate_right(37).wrapping_mul(multiplier).wrapping_add(a);
    let d = a.rotate_right(25).wrapping_add(b).wrapping_mul(multiplier);
    mix(c, d, multiplier)
}

fn of_32(key: &[u8]) -> u64 {
    let bytes = key.len();
    let multiplier = K2.wrapping_add(bytes as u64 * 2);
    let a = word(key, 0).wrapping_mul(K1);
    let b = word(key, 8);
    let c = word(key, bytes - 8).wrapping_mul(multiplier);
    let d = word(key, bytes - 16).wrapping_mul(K2);
    mix(
        a.wrapping_add(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d),
        a.wrapping_add(b.wrapping_add(K2).rotate_right(18)).wrapping_add(c),
        multiplier,
    )
}

#[expect(clippy::many_single_char_names, reason = "the names of the published description")]
fn of_64(key: &[u8]) -> u64 {
    let bytes = key.len();
    let multiplier = K2.wrapping_add(bytes as u64 * 2);
    let a = word(key, 0).wrapping_mul(K2);
    let b = word(key, 8);
    let c = word(key, bytes - 24);
    let d = word(key, bytes - 32);
    let e = word(key, 16).wrapping_mul(K2);
    let f = word(key, 24).wrapping_mul(9);
    let g = word(key, bytes - 8);
    let h = word(key, bytes - 16).wrapping_mul(multiplier);
    let u = a.wrapping_add(g).rotate_right(43).wrapping_add(b.rotate_right(30).wrapping_add(c).wrapping_mul(9));
    let v = (a.wrapping_add(g) ^ d).wrapping_add(f).wrapping_add(1);
    let w = u.wrapping_add(v).wrapping_mul(multiplier).swap_bytes().wrapping_add(h);
    let x = e.wrapping_add(f).rotate_right(42).wrapping_add(c);
    let y = v.wrapping_add(w).wrapping_mul(multiplier).swap_bytes().wrapping_add(g).wrapping_mul(multiplier);
    let z = e.wrapping_add(f).wrapping_add(c);
    let a = x.wrapping_add(z).wrapping_mul(multiplier).wrapping_add(y).swap_bytes().wrapping_add(b);
    let b = shift_mix(z.wrapping_add(a).wrapping_mul(multiplier).wrapping_add(d).wrapping_add(h));
    b.wrapping_mul(multiplier).wrapping_add(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    #[test]
    fn keys_of_eight_bytes_hash_to_the_published_values() {
        let hash = |key: u64| city_hash_64(&key.to_be_bytes());
        assert_eq!(hash(1), 0x6657_7b96_8e03_a310);
        assert_eq!([1, 2, 3, 42, 1000].map(|key| hash(key) % 64), [16, 1, 58, 54, 4]);
    }

    #[test]
    fn every_length_agrees_with_another_implementation() {
        for bytes in 8..=64 {
            for first in 0..50u8 {
                let key: Vec<u8> = (0..bytes)
                    .map(|i: u8| first.wrapping_mul(37).wrapping_add(i.wrapping_mul(11)) ^ (i >> 2))
                    .collect();
                assert_eq!(city_hash_64(&key), cityhasher::hash::<u64>(&key), "{bytes} bytes");
            }
        }
    }
}
