//! Entry keys: the keys of the index below.
//!
//! ```text
//!  0          8                                 8+S   S+9 bytes in all: the key slot of the index below, 16..=64
//! ┌──────────┬─────────────────────────────────┬──────┐
//! │ layer    │ slice, zero-padded              │length│
//! └──────────┴─────────────────────────────────┴──────┘
//! ```
//!
//! The layer is big-endian, so that the entries of a layer lie together. Every key begins in layer 0. A key's slice at
//! depth `d` is its bytes from `d * S` on. `length` is the number of these bytes, 0..=S, or S + 1 if the key continues
//! behind the slice.
//!
//! **Order.** Within a layer entry keys compare as the keys whose slices they have. If two slices differ in a byte that
//! both have, this byte decides, as in the keys. Otherwise one slice is the beginning of the other, and zero-padding
//! makes it less or equal. If they are equal, the longer one has zeros there, and the length decides. A key of exactly
//! S bytes is less than all keys that continue behind the same S bytes. So "", "a", "a\0" and any number of keys with
//! one prefix are side by side, in `memcmp` order.

/// Bytes of a layer's number.
pub const LAYER_BYTES: usize = 8;

/// Smallest key slot of the index below, in bytes: a slice has seven of them.
pub const ENTRY_KEY_BYTES_MIN: usize = 16;

/// The layer in which every key begins.
pub const ROOT_LAYER: u64 = 0;

/// Sizes of entry keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyShape {
    entry_bytes: usize,
}

/// A decoded entry key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryKey<'a> {
    /// Its layer.
    pub layer: u64,
    /// The part of the key that the entry key has.
    pub slice: &'a [u8],
    /// The key continues behind the slice, which is full.
    pub more: bool,
}

impl KeyShape {
    /// The shape of entry keys of `entry_bytes`, 16..=64.
    pub const fn new(entry_bytes: usize) -> Self {
        Self { entry_bytes }
    }

    /// Bytes of a slice.
    #[inline]
    pub(crate) const fn slice_bytes(self) -> usize {
        self.entry_bytes - LAYER_BYTES - 1
    }

    /// The largest number of layers of a key of up to `key_bytes_max` bytes.
    pub(crate) const fn depth_max(self, key_bytes_max: usize) -> usize {
        key_bytes_max / self.slice_bytes() + 1
    }

    /// Whether a key with `rest` bytes left ends in this layer.
    #[inline]
    pub const fn ends(self, rest: usize) -> bool {
        rest <= self.slice_bytes()
    }

    /// Writes the entry key of a key in `layer`, where `rest` is the rest of the key.
    pub fn write(self, layer: u64, rest: &[u8], out: &mut [u8]) {
        let held = rest.len().min(self.slice_bytes());
        self.put(layer, rest.get(..held).unwrap_or_default(), !self.ends(rest.len()), out);
    }

    /// Writes the entry key of all keys that continue behind the full slice `slice` in `layer`.
    pub fn write_more(self, layer: u64, slice: &[u8], out: &mut [u8]) {
        self.put(layer, slice, true, out);
    }

    fn put(self, layer: u64, slice: &[u8], more: bool, out: &mut [u8]) {
        let Some((front, length)) = out.get_mut(..self.entry_bytes).and_then(<[u8]>::split_last_chunk_mut::<1>) else {
            return;
        };
        let Some((number, place)) = front.split_first_chunk_mut::<LAYER_BYTES>() else { return };
        let Some((bytes, padding)) = place.split_at_mut_checked(slice.len()) else { return };
        *number = layer.to_be_bytes();
        bytes.copy_from_slice(slice);
        padding.fill(0);
        *length = [slice.len() as u8 + u8::from(more)];
    }

    /// Decodes an entry key. `None`: no code writes such bytes.
    pub fn read(self, entry_key: &[u8]) -> Option<EntryKey<'_>> {
        let (number, rest) = entry_key.get(..self.entry_bytes)?.split_first_chunk::<LAYER_BYTES>()?;
        let (&length, place) = rest.split_last()?;
        let slice = place.get(..usize::from(length).min(place.len()))?;
        let padding = place.get(slice.len()..)?;
        let sound = usize::from(length) <= place.len() + 1 && padding.iter().all(|&byte| byte == 0);
        let more = usize::from(length) > place.len();
        sound.then_some(EntryKey { layer: u64::from_be_bytes(*number), slice, more })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn entry(shape: KeyShape, layer: u64, rest: &[u8]) -> [u8; 64] {
        let mut out = [0; 64];
        shape.write(layer, rest, &mut out);
        out
    }

    #[test]
    fn entry_keys_compare_as_keys_do() {
        let shape = KeyShape::new(16);
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for length in 0..10 {
            for code in 0..3usize.pow(length.min(4)) {
                let tail = (0..length.min(4)).map(|at| [0, 1, 255][code / 3usize.pow(at) % 3]);
                keys.push(core::iter::repeat_n(0, length as usize - length.min(4) as usize).chain(tail).collect());
            }
        }
        keys.sort();
        keys.dedup();
        for pair in keys.windows(2) {
            let (low, high) = (entry(shape, 7, &pair[0]), entry(shape, 7, &pair[1]));
            let same = pair.iter().all(|key| key.len() > 7) && pair[0][..7] == pair[1][..7];
            assert_eq!(low == high, same, "{pair:?}");
            assert!(low <= high, "{pair:?}");
            assert!(high < entry(shape, 8, b""), "layers do not mix");
        }
    }

    #[test]
    fn entry_keys_come_apart_as_they_were_put_together() {
        let shape = KeyShape::new(16);
        for (rest, slice, more) in [
            (&b""[..], &b""[..], false),
            (b"\0", b"\0", false),
            (b"seven..", b"seven..", false),
            (b"eight...", b"eight..", true),
            (b"a long one indeed", b"a long ", true),
        ] {
            assert_eq!(shape.read(&entry(shape, 9, rest)), Some(EntryKey { layer: 9, slice, more }));
            assert_eq!(shape.ends(rest.len()), !more);
        }
        let mut wrong = entry(shape, 9, b"abc");
        wrong[12] = 1;
        assert_eq!(shape.read(&wrong), None, "bytes in the padding");
        wrong = entry(shape, 9, b"abc");
        wrong[15] = 9;
        assert_eq!(shape.read(&wrong), None, "a length past all");
        assert_eq!(shape.read(b"short"), None);
    }
}
