//! Keys and values that show which operation wrote them, whatever bytes an index returns.

use super::wide::WideKeys;

/// Numbers above this stand for bytes that no operation wrote.
pub const GARBAGE: u64 = 1 << 63;

/// How small numbers become keys and values of an index's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coding {
    /// Where a key's number is in its first eight bytes: shifted left by so many bits. Another shift makes neighbours
    /// differ in other bytes.
    pub key_shift: u32,
    /// Instead of a shift: digit by digit.
    pub digits: Option<Digits>,
    /// Instead of both.
    pub wide: Option<WideKeys>,
    /// Values begin with the same bytes.
    pub is_alike: bool,
}

/// Numbers below 256, each digit in a byte of its own, the most significant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits {
    /// Bits of a digit, 1 to 8.
    pub bits: u32,
    /// Distance from one digit to the next, in bytes; what is in between is 0.
    pub stride: usize,
}

impl Digits {
    /// Digits as far apart as keys of `key_bytes` have room for, if that is less.
    #[must_use]
    pub fn within(self, key_bytes: usize) -> Self {
        let count = 8_u32.div_ceil(self.bits) as usize;
        Self { stride: self.stride.min(key_bytes / count).max(1), ..self }
    }

    /// Position in the key and shift of each digit.
    fn places(self) -> impl Iterator<Item = (usize, u32)> {
        let count = 8_u32.div_ceil(self.bits);
        (0..count).map(move |i| (i as usize * self.stride, (count - 1 - i) * self.bits))
    }
}

impl Coding {
    /// All bits together, shifted left by `key_shift`.
    pub const fn shifted(key_shift: u32) -> Self {
        Self { key_shift, digits: None, wide: None, is_alike: false }
    }

    /// Writes key `number`, below 2^16.
    pub fn write_key(self, number: u64, key: &mut [u8]) {
        if let Some(wide) = self.wide {
            wide.write(number, key);
            return;
        }
        key.fill(0);
        if let Some(digits) = self.digits {
            for (at, shift) in digits.places() {
                key[at] = (number >> shift) as u8 & ((1_u16 << digits.bits) - 1) as u8;
            }
            return;
        }
        for (to, from) in key.iter_mut().zip((number << self.key_shift).to_be_bytes()) {
            *to = from;
        }
    }

    /// The number of a key; one above [`GARBAGE`] for bytes that are no key.
    pub fn read_key(self, key: &[u8]) -> u64 {
        if let Some(wide) = self.wide {
            return wide.read(key).unwrap_or(GARBAGE);
        }
        if let Some(digits) = self.digits {
            let number = digits.places().fold(0, |number, (at, shift)| number | u64::from(key[at]) << shift);
            let mut right = vec![0; key.len()];
            self.write_key(number, &mut right);
            return if right == key { number } else { GARBAGE | number };
        }
        let word = key.iter().take(8).fold(0, |word, byte| word << 8 | u64::from(*byte));
        let sound = word & ((1 << self.key_shift) - 1) == 0 && key.iter().skip(8).all(|byte| *byte == 0);
        if sound && word >> self.key_shift < GARBAGE { word >> self.key_shift } else { GARBAGE | word >> 1 }
    }
}

impl Coding {
    /// The largest number that is known to have a key.
    pub fn key_max(self) -> u64 {
        self.wide.map_or(u64::MAX, WideKeys::largest)
    }

    /// Writes value `number`.
    pub fn write_value(self, number: u64, value: &mut [u8]) {
        let Some(head) = self.head_bytes(value) else { return write_value(number, value) };
        let (head, rest) = value.split_at_mut(head);
        head.fill(ALIKE);
        write_value(number, rest);
        // The first bytes of small numbers are zeros.
        rest[..8].copy_from_slice(&number.to_be_bytes());
    }

    /// The number of a value; one above [`GARBAGE`] for bytes that no operation wrote.
    pub fn read_value(self, value: &[u8]) -> u64 {
        let Some(head) = self.head_bytes(value) else { return read_value(value) };
        let number = value[head..].iter().take(8).fold(0, |word, byte| word << 8 | u64::from(*byte));
        let mut right = vec![0; value.len()];
        self.write_value(number, &mut right);
        if right == value { number } else { GARBAGE | number }
    }

    /// Bytes that are the same in every value: about half of them. `None`: values begin with their number.
    fn head_bytes(self, value: &[u8]) -> Option<usize> {
        (self.is_alike && value.len() >= 8).then(|| (value.len() - 8) / 16 * 8)
    }
}

/// Bytes that are the same in every value.
const ALIKE: u8 = 0x5a;

/// Writes value `number`: the number, and then words that follow from it. So a mixture of two writers' values is
/// noticed.
pub fn write_value(number: u64, value: &mut [u8]) {
    for (position, chunk) in (0..).zip(value.chunks_mut(8)) {
        chunk.copy_from_slice(&value_word(number, position).to_le_bytes()[..chunk.len()]);
    }
}

/// The number of a value; one above [`GARBAGE`] for bytes that no operation wrote.
pub fn read_value(value: &[u8]) -> u64 {
    let mut words = (0..).zip(value.chunks(8));
    let number = words.next().map_or(GARBAGE, |(_, first)| le_word(first));
    for (position, chunk) in words {
        if chunk != &value_word(number, position).to_le_bytes()[..chunk.len()] {
            return GARBAGE | number;
        }
    }
    number
}

fn value_word(number: u64, position: u64) -> u64 {
    if position == 0 { number } else { number.wrapping_add(position).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number }
}

fn le_word(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_keep_the_order_and_come_back() {
        for bits in 1..=8 {
            for stride in 1..=2 {
                let coding = Coding { digits: Some(Digits { bits, stride }), ..Coding::shifted(0) };
                let mut before = [0; 16];
                for number in 0..256 {
                    let mut key = [0xff; 16];
                    coding.write_key(number, &mut key);
                    assert_eq!(coding.read_key(&key), number);
                    assert!(number == 0 || key > before, "{number} in digits of {bits} bits");
                    before = key;
                    key[15] = 0xff;
                    assert!(coding.read_key(&key) >= GARBAGE);
                }
            }
        }
    }

    #[test]
    fn values_that_begin_alike_come_back_and_mixtures_do_not() {
        let coding = Coding { is_alike: true, ..Coding::shifted(0) };
        for bytes in [8, 12, 16, 24, 64, 1024] {
            let (mut one, mut other) = (vec![0; bytes], vec![0; bytes]);
            coding.write_value(7, &mut one);
            coding.write_value(100_008, &mut other);
            assert_eq!((coding.read_value(&one), coding.read_value(&other)), (7, 100_008));
            assert_eq!(one[..4], other[..4]);
            if bytes > 8 {
                one[bytes - 4..].copy_from_slice(&other[bytes - 4..]);
                assert!(coding.read_value(&one) >= GARBAGE, "{bytes}");
            }
        }
    }

    #[test]
    fn numbers_come_back_and_mixtures_do_not() {
        for key_shift in [0, 8, 40] {
            let coding = Coding::shifted(key_shift);
            let mut key = [0xff; 16];
            coding.write_key(300, &mut key);
            assert_eq!(coding.read_key(&key), 300);
            key[12] = 1;
            assert!(coding.read_key(&key) >= GARBAGE);
            let (mut one, mut other) = ([0; 20], [0; 20]);
            write_value(7, &mut one);
            write_value(8, &mut other);
            assert_eq!((read_value(&one), read_value(&other)), (7, 8));
            one[8..].copy_from_slice(&other[8..]);
            assert!(read_value(&one) >= GARBAGE);
        }
    }
}
