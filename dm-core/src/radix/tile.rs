//! Tiles and bounds: which part of the key space a slot or a leaf owns.
//!
//! The slots of a node at position `p` are told apart by byte `p` of the key. The *tile* of a slot is a range of values
//! of that byte: from the slot's own byte to the one in front of the next slot's. Every part of the key space that a
//! slot or a leaf owns is a prefix and a tile: the keys that begin with the prefix, and whose next byte is in the tile.
//! These are the leaf's [`Bounds`].

/// A range of values of one byte, the last one included. It is never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    low: u8,
    last: u8,
}

impl Tile {
    /// Every value of the byte.
    pub const ALL: Self = Self { low: 0, last: u8::MAX };

    /// From `low` to `last`, both included. `None`: it would be empty.
    #[inline]
    pub const fn new(low: u8, last: u8) -> Option<Self> {
        if low <= last { Some(Self { low, last }) } else { None }
    }

    /// One value.
    #[inline]
    pub const fn one(byte: u8) -> Self {
        Self { low: byte, last: byte }
    }

    /// The smallest value.
    #[inline]
    pub const fn low(self) -> u8 {
        self.low
    }

    /// The largest value.
    #[inline]
    pub const fn last(self) -> u8 {
        self.last
    }

    /// How many values it has, 1..=256.
    #[inline]
    pub const fn width(self) -> usize {
        self.last as usize - self.low as usize + 1
    }

    /// Whether it has `byte`.
    #[inline]
    pub const fn has(self, byte: u8) -> bool {
        self.low <= byte && byte <= self.last
    }

    /// The part below `byte`, if there is one.
    #[inline]
    pub const fn below(self, byte: u8) -> Option<Self> {
        if byte <= self.low {
            return None;
        }
        let last = if byte - 1 < self.last { byte - 1 } else { self.last };
        Some(Self { low: self.low, last })
    }

    /// The part from `byte` on, if there is one.
    #[inline]
    pub const fn from(self, byte: u8) -> Option<Self> {
        Self::new(if byte > self.low { byte } else { self.low }, self.last)
    }

    /// The part behind `byte`, if there is one.
    #[inline]
    pub const fn behind(self, byte: u8) -> Option<Self> {
        if byte == u8::MAX { None } else { self.from(byte + 1) }
    }

    /// Where `byte` lies.
    #[inline]
    pub const fn side(self, byte: u8) -> Side {
        if byte < self.low {
            Side::Below
        } else if byte > self.last {
            Side::Above
        } else {
            Side::Here
        }
    }

    /// Both as one, if `right` begins where this one ends.
    #[inline]
    pub const fn joined(self, right: Self) -> Option<Self> {
        if self.last as usize + 1 == right.low as usize { Some(Self { low: self.low, last: right.last }) } else { None }
    }
}

/// Where a key lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Below the bounds.
    Below,
    /// Within them.
    Here,
    /// Above them.
    Above,
}

/// The interval of a leaf: the keys that begin with the prefix, and whose next byte is in the tile.
///
/// As `[lo, hi)`: `lo` is the prefix, the tile's first byte, and zeros; `hi` is the prefix, the byte behind the tile's
/// last one, and zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds<'a> {
    prefix: &'a [u8],
    tile: Tile,
}

impl<'a> Bounds<'a> {
    /// The bounds with that prefix and tile. `None`: they would cover every key. No leaf does, so that each leaf has a
    /// key of zeros or of ones that lies outside its bounds ([`Bounds::unbound`]).
    #[inline]
    pub const fn new(prefix: &'a [u8], tile: Tile) -> Option<Self> {
        if prefix.is_empty() && tile.width() == Tile::ALL.width() { None } else { Some(Self { prefix, tile }) }
    }

    /// The bytes with which every key begins.
    #[inline]
    pub const fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// The position of the byte behind the prefix.
    #[inline]
    pub const fn position(&self) -> usize {
        self.prefix.len()
    }

    /// Which values that byte may have.
    #[inline]
    pub const fn tile(&self) -> Tile {
        self.tile
    }

    /// Where `key` lies. A key that is too short to have the byte lies below.
    #[inline]
    pub fn side(&self, key: &[u8]) -> Side {
        let Some((front, &byte)) =
            key.split_at_checked(self.prefix.len()).and_then(|(front, rest)| Some((front, rest.first()?)))
        else {
            return Side::Below;
        };
        match front.cmp(self.prefix) {
            core::cmp::Ordering::Less => Side::Below,
            core::cmp::Ordering::Greater => Side::Above,
            core::cmp::Ordering::Equal => self.tile.side(byte),
        }
    }

    /// Writes `lo`, the smallest key.
    pub fn write_low(&self, out: &mut [u8]) {
        out.fill(0);
        for (to, from) in out.iter_mut().zip(self.prefix.iter().chain([&self.tile.low])) {
            *to = *from;
        }
    }

    /// Writes `hi`, the smallest key above all of them. `false`: there is none, the bounds reach to the end.
    pub fn write_high(&self, out: &mut [u8]) -> bool {
        out.fill(0);
        for (to, from) in out.iter_mut().zip(self.prefix.iter().chain([&self.tile.last])) {
            *to = *from;
        }
        // One more, in the last place that does not overflow.
        for at in (0..=self.prefix.len()).rev() {
            let Some(byte) = out.get_mut(at) else { return false };
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                return true;
            }
        }
        false
    }

    /// The byte of which a key consists that lies outside: what fills a key cell that is not bound.
    #[inline]
    pub fn unbound(&self) -> u8 {
        let begins_at_zero = self.tile.low == 0 && self.prefix.iter().all(|&byte| byte == 0);
        if begins_at_zero { u8::MAX } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tiles_are_cut_without_a_gap() {
        let tile = Tile::new(10, 20).unwrap();
        assert_eq!((tile.below(10), tile.below(15)), (None, Tile::new(10, 14)));
        assert_eq!((tile.from(15), tile.from(21)), (Tile::new(15, 20), None));
        assert_eq!((tile.behind(19), tile.behind(20)), (Some(Tile::one(20)), None));
        assert_eq!((Tile::ALL.behind(255), Tile::ALL.below(0)), (None, None));
        assert_eq!(tile.below(15).unwrap().joined(tile.from(15).unwrap()), Some(tile));
        assert_eq!(tile.below(15).unwrap().joined(tile.behind(15).unwrap()), None, "15 is missing");
        assert_eq!(Tile::new(2, 1), None);
    }

    #[test]
    fn no_leaf_covers_everything() {
        assert_eq!(Bounds::new(&[], Tile::ALL), None);
        let half = Bounds::new(&[], Tile::new(128, 255).unwrap()).unwrap();
        let mut high = [1; 8];
        assert!(!half.write_high(&mut high), "the end of the key space");
        assert_eq!(half.unbound(), 0);
        assert_eq!(Bounds::new(&[0, 0], Tile::ALL).unwrap().unbound(), 255);
        assert!(!Bounds::new(&[255, 255], Tile::ALL).unwrap().write_high(&mut high));
        assert!(Bounds::new(&[3, 255], Tile::ALL).unwrap().write_high(&mut high));
        assert_eq!(high, [4, 0, 0, 0, 0, 0, 0, 0]);
    }

    proptest! {
        /// Prefix and tile say the same as `lo` and `hi`, and an unbound cell's key lies outside.
        #[test]
        fn bounds_are_an_interval(
            prefix in proptest::collection::vec(0_u8..4, 0..7),
            ends in (any::<u8>(), any::<u8>()),
            key in proptest::collection::vec(prop_oneof![0_u8..4, any::<u8>()], 8),
        ) {
            let tile = Tile::new(ends.0.min(ends.1), ends.0.max(ends.1)).unwrap();
            let Some(bounds) = Bounds::new(&prefix, tile) else { return Ok(()) };
            let (mut low, mut high) = ([0; 8], [0; 8]);
            bounds.write_low(&mut low);
            let bounded = bounds.write_high(&mut high);
            let expected = if key.as_slice() < low.as_slice() {
                Side::Below
            } else if bounded && key.as_slice() >= high.as_slice() {
                Side::Above
            } else {
                Side::Here
            };
            prop_assert_eq!(bounds.side(&key), expected);
            prop_assert_eq!(bounds.side(&low), Side::Here);
            prop_assert_ne!(bounds.side(&[bounds.unbound(); 8]), Side::Here);
        }
    }
}
