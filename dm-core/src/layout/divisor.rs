//! Division by a number that is known once, when an index is opened: two multiplications instead of an instruction that takes as
//! long as a dozen others, and on which the address of the next load often depends.
//!
//! After Lemire, Kaser, Kurz, "Faster remainder by direct computation" (Software: Practice and Experience 49(6), 2019): with
//! `inverse` = 2^64 / `by`, rounded up, the upper half of `inverse * n` is the quotient, and the upper half of `by` times the lower
//! half is the remainder, for all numbers of 32 bits.

/// A number to divide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    by: u32,
    /// 0 for 1, whose inverse has 65 bits.
    inverse: u64,
}

impl Divisor {
    /// To divide by `by`; 0 counts as 1.
    pub(crate) const fn new(by: u32) -> Self {
        let by = if by == 0 { 1 } else { by };
        Self { by, inverse: (u64::MAX / by as u64).wrapping_add(1) }
    }

    /// `n / by`.
    #[inline]
    pub(crate) const fn quotient(self, n: u32) -> u32 {
        if self.inverse == 0 { n } else { ((self.inverse as u128 * n as u128) >> 64) as u32 }
    }

    /// `n % by`.
    #[inline]
    pub(crate) const fn remainder(self, n: u32) -> u32 {
        let fraction = self.inverse.wrapping_mul(n as u64);
        ((fraction as u128 * self.by as u128) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_divides_as_division_does() {
        let near = |n: u32| [n.wrapping_sub(1), n, n.wrapping_add(1)];
        let powers = (0..32).flat_map(|bits| near(1 << bits));
        for by in powers.clone().chain([0, 3, 7, 48, 1000, 99_991, 0xaaaa_aaab]) {
            let (divisor, plain) = (Divisor::new(by), by.max(1));
            for n in powers.clone().chain((0..60).flat_map(|times| near(plain.wrapping_mul(times * 7919)))) {
                assert_eq!((divisor.quotient(n), divisor.remainder(n)), (n / plain, n % plain), "{n} by {by}");
            }
        }
    }
}
