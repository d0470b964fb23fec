//! What an input says.

/// Reads an input from front to back. Behind its end there are zeros.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// True for one input in `count`.
    pub fn one_in(&mut self, count: u8) -> bool {
        self.byte().is_multiple_of(count)
    }

    /// One of `choices`.
    pub fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// A key of `bytes` bytes: the same byte again and again, but for one. Mostly one of those of samples of nodes.
    pub fn key(&mut self, bytes: usize) -> Vec<u8> {
        let mut key = vec![self.choose(&[0, 0, 0, 0, 0, 1, 0x80, 0xff]); bytes];
        let at = usize::from(self.byte());
        let at = if at.is_multiple_of(4) { at % bytes } else { bytes - 2 };
        key[at] = self.byte();
        key
    }

    /// What is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Changes `sample` as the rest of the input says. Four bytes are a change: where, how, and with what.
    pub fn change(self, sample: &mut [u8]) {
        for change in self.0.chunks_exact(4) {
            let [low, high, how, with] = change else { continue };
            let at = usize::from(u16::from_le_bytes([*low, *high])) % sample.len().max(1);
            let word = at..(at + 8).min(sample.len());
            match how % 6 {
                0 | 1 => sample[at] = *with,
                2 => sample[at] ^= *with,
                3 => sample[at] = sample[at].wrapping_add(*with),
                4 => sample[word].fill(*with),
                // Another part of the sample, as a WRITE to a wrong place would leave it.
                _ => {
                    let from = usize::from(*with) * 8 % sample.len();
                    let piece = sample[from..(from + word.len()).min(sample.len())].to_vec();
                    sample[at..at + piece.len()].copy_from_slice(&piece);
                }
            }
        }
    }
}
