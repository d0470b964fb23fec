//! Leaves.
//!
//! ```text
//!  0      8           9      10        11   12    13     16      24          64          65
//! ┌──────┬───────────┬──────┬─────────┬────┬─────┬──────┬───────┬───────────┬───────────┬─────────────
//! │Spear │generation │index │position │low │last │owner │absent │prefix ..  │generation │.. prefix, 0   only if K > 41
//! └──────┴───────────┴──────┴─────────┴────┴─────┴──────┴───────┴───────────┴───────────┴─────────────
//!  then key cells and value cells: super::shape
//! ```
//!
//! **What changes.** The Spear word by FAA and CAS only: no WRITE covers it. Everything else in the head is written
//! once, before the leaf is published, and never changes in the leaf's life. A key cell is bound once in the leaf's
//! life. A value cell is written by every insert, update and delete of its key.
//!
//! **Bounds.** The interval of a leaf is a prefix and a tile ([`Bounds`]), so it takes the prefix and two bytes, not
//! two keys. With keys of up to 41 bytes the head is one line. A longer prefix goes on in a second line. The lines
//! belong together because both are written before the leaf is published, and because its place is written again only
//! when no operation knows it any more. Both have the generation; an image in which they differ is torn.
//!
//! **A record is there** if its key cell has the key and its value cell is not *absent*. How a value cell says so
//! depends on the values: for words it is one value that this leaf has chosen and that no value in it equals; a longer
//! one has a state byte; a block's name is 0. A writer whose value is the chosen one makes the change exclusively, and
//! rebuilds the leaf with another choice. A key cell that is not bound has a key outside the bounds, so no search finds
//! it.
//!
//! **Torn images.** No line cuts a cell or the fixed part of the head, so each of them is of one instant (LINE_ATOMIC).
//! Different cells may be of different instants, which does no harm: a key is bound once, so what a look at all key
//! cells does not find was absent at the instant of one of these looks; and a value that was seen in its cell was the
//! record's value at that instant, if the leaf was alive then. A leaf that is not retired in the image had not been
//! retired at any earlier instant either, and one that is closed stays as it is until it is retired or opened.

use super::block::BlockPointer;
use super::shape::{LEAF_BYTES, LeafShape, PREFIX_BYTES, SPAN_MAX, ValueKind};
use crate::dolphin::spear::Spear;
use crate::error::DecodeError;
use crate::layout::fields::Field;
use crate::layout::{LINE_BYTES, word_at};
use crate::radix::tile::{Bounds, Side, Tile};
use crate::remote::address::{Address, GENERATION_MASK};
use crate::remote::owner_tag::{self, OwnerTag};
use core::ops::Range;

/// Where the Spear word is.
pub const SPEAR_AT: usize = 0;
const GENERATION_AT: usize = 8;
const INDEX_AT: usize = 9;
const POSITION_AT: usize = 10;
const LOW_AT: usize = 11;
const LAST_AT: usize = 12;
const OWNER_AT: usize = 13;
const OWNER_BYTES: usize = 3;
const ABSENT_AT: usize = 16;
const PREFIX_AT: usize = 24;
const GENERATION_AGAIN_AT: usize = LINE_BYTES;
const PREFIX_REST_AT: usize = LINE_BYTES + 1;

/// What the first WRITE of a leaf covers: everything but the Spear word.
pub const FIRST_WRITE: Range<usize> = GENERATION_AT..LEAF_BYTES;

/// The state byte of a value that is there.
const PRESENT: u8 = 1;

/// The head's fields, for the goldens.
pub const HEAD_FIELDS: &[Field] = &[
    Field::bytes(SPEAR_AT, 8, "spear", "see dolphin_spear; changed by FAA and CAS only"),
    Field::bits(GENERATION_AT, 0, 6, "generation", "repeats the generation of the leaf's address"),
    Field::bits(GENERATION_AT, 6, 2, "reserved", "0"),
    Field::bytes(INDEX_AT, 1, "index", "catalog number of the index, plus 1; 0: no leaf was ever written here"),
    Field::bytes(POSITION_AT, 1, "position", "bytes of the prefix, less than K"),
    Field::bytes(LOW_AT, 1, "low", "smallest value of the byte behind the prefix"),
    Field::bytes(LAST_AT, 1, "last", "its largest value, included"),
    Field::bits(OWNER_AT, 0, 22, "owner", "owner tag of the compute node that wrote the leaf; two bits of 0 follow"),
    Field::bytes(ABSENT_AT, 8, "absent", "values of 8 bytes: the value that means \"absent\" in this leaf; else 0"),
    Field::bytes(PREFIX_AT, PREFIX_BYTES, "prefix", "bytes with which all keys begin, its first 40; then 0"),
    Field::bits(GENERATION_AGAIN_AT, 0, 6, "generation", "K > 41: again; two bits of 0 follow"),
    Field::bytes(PREFIX_REST_AT, 23, "prefix", "K > 41: its bytes from the 41st on; then 0 to the line's end"),
];

/// The cells' fields for keys and values of 8 bytes, for the goldens.
pub const CELL_FIELDS: &[Field] = &[
    Field::bytes(64, 8, "key cell 0", "the key, bound once; not bound: all 00, or all ff if the bounds begin at 0"),
    Field::bytes(72, 8, "key cell 1", "and so on, up to 60 cells"),
    Field::bytes(544, 8, "value cell 0", "the value, or the leaf's absent word"),
    Field::bytes(552, 8, "value cell 1", "and so on"),
];

/// What a value cell says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The record is absent.
    Absent,
    /// Its value.
    Here(&'a [u8]),
    /// Its value is in a block.
    Block(BlockPointer),
}

/// What a leaf says of itself before anything is put into it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'b> {
    /// Its address.
    pub address: Address,
    /// Catalog number of the index, plus 1.
    pub index: u8,
    /// Its interval.
    pub bounds: Bounds<'b>,
    /// Who wrote it.
    pub owner: OwnerTag,
    /// For values of 8 bytes: the one that means "absent", from [`absent_for`].
    pub absent: u64,
}

/// An image of a leaf that is the one that was wanted.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    shape: &'a LeafShape,
    image: &'a [u8],
    position: usize,
    tile: Tile,
}

fn byte_at(image: &[u8], at: usize) -> u8 {
    image.get(at).copied().unwrap_or_default()
}

impl<'a> Leaf<'a> {
    /// Checks an image to which `address` led, in index `index` (catalog number plus 1).
    ///
    /// Everything that is compared is in the first line, but for the second generation of a long head.
    #[inline]
    pub fn new(shape: &'a LeafShape, image: &'a [u8], address: Address, index: u8) -> Result<Self, DecodeError> {
        let image = image.get(..LEAF_BYTES).ok_or(DecodeError::Corrupt("an image that is too short for a leaf"))?;
        let generation = byte_at(image, GENERATION_AT);
        if byte_at(image, INDEX_AT) != index || generation != address.generation() {
            return Err(DecodeError::Stale);
        }
        let position = usize::from(byte_at(image, POSITION_AT));
        let tile = Tile::new(byte_at(image, LOW_AT), byte_at(image, LAST_AT));
        let Some(tile) = tile.filter(|tile| position < shape.key_bytes && (position > 0 || *tile != Tile::ALL)) else {
            return Err(DecodeError::Corrupt("the bounds of a leaf"));
        };
        if shape.head_bytes > LINE_BYTES && byte_at(image, GENERATION_AGAIN_AT) != generation {
            return Err(DecodeError::Torn);
        }
        Ok(Self { shape, image, position, tile })
    }

    /// As [`Leaf::new`], and the leaf is alive and its bounds have `key`. Only such a leaf may say that a key is absent,
    /// or what its value is. [`DecodeError::Stale`]: find the leaf of the key anew.
    #[inline]
    pub fn judge(
        shape: &'a LeafShape,
        image: &'a [u8],
        address: Address,
        index: u8,
        key: &[u8],
    ) -> Result<Self, DecodeError> {
        let leaf = Self::new(shape, image, address, index)?;
        if leaf.spear().is_retired() || leaf.side(key) != Side::Here {
            return Err(DecodeError::Stale);
        }
        Ok(leaf)
    }

    /// Its Spear word.
    #[inline]
    pub fn spear(&self) -> Spear {
        Spear(word_at(self.image, SPEAR_AT))
    }

    /// Who wrote it.
    pub fn owner(&self) -> OwnerTag {
        // The tag is in the high three bytes of four.
        let tag = (word_at(self.image, OWNER_AT - 1) >> 8) as u32;
        OwnerTag(tag & ((1 << owner_tag::BITS) - 1))
    }

    /// The word that means "absent", if values are words.
    #[inline]
    pub fn absent(&self) -> u64 {
        word_at(self.image, ABSENT_AT)
    }

    /// Its tile.
    #[inline]
    pub const fn tile(&self) -> Tile {
        self.tile
    }

    /// Its bounds. A prefix that reaches into the second line is put together in `room`.
    #[inline]
    pub fn bounds<'b>(&self, room: &'b mut [u8; 64]) -> Bounds<'b>
    where
        'a: 'b,
    {
        let first = self.image.get(PREFIX_AT..PREFIX_AT + self.position.min(PREFIX_BYTES)).unwrap_or_default();
        let prefix = match self.position.checked_sub(PREFIX_BYTES) {
            None | Some(0) => first,
            Some(more) => {
                let rest = self.image.get(PREFIX_REST_AT..PREFIX_REST_AT + more).unwrap_or_default();
                for (to, from) in room.iter_mut().zip(first.iter().chain(rest)) {
                    *to = *from;
                }
                room.get(..self.position).unwrap_or_default()
            }
        };
        // `new` refused what would cover everything; any other bounds are some.
        Bounds::new(prefix, self.tile).unwrap_or(HALF)
    }

    /// Where `key` lies.
    #[inline]
    pub fn side(&self, key: &[u8]) -> Side {
        self.bounds(&mut [0; 64]).side(key)
    }

    /// The content of key cell `cell`, bound or not.
    #[inline]
    pub fn key(&self, cell: usize) -> &'a [u8] {
        let at = self.shape.key_at(cell);
        self.image.get(at..at + self.shape.key_bytes).unwrap_or_default()
    }

    /// The cell of `key`. Whether its record is there says its value cell.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        if let Ok(key) = <[u8; 8]>::try_from(key)
            && self.shape.key_bytes == key.len()
        {
            // Cells of eight bytes are contiguous.
            let at = self.shape.key_at(0);
            let (cells, _) = self.image.get(at..at + 8 * self.shape.span).unwrap_or_default().as_chunks::<8>();
            return cells.iter().position(|cell| *cell == key);
        }
        (0..self.shape.span).find(|&cell| self.key(cell) == key)
    }

    /// Cells whose keys are bound: those in front of the first that is not. Under the lock, or of a quiet leaf, since
    /// an image of several instants may show a gap.
    pub fn bound(&self) -> usize {
        let unbound = self.bounds(&mut [0; 64]).unbound();
        let is_unbound = |cell: &usize| self.key(*cell).iter().all(|&byte| byte == unbound);
        (0..self.shape.span).find(is_unbound).unwrap_or(self.shape.span)
    }

    /// What value cell `cell` says.
    #[inline]
    pub fn value(&self, cell: usize) -> Result<Value<'a>, DecodeError> {
        let at = self.shape.value_at(cell);
        let bytes = self.image.get(at..at + self.shape.cell_bytes()).unwrap_or_default();
        Ok(match self.shape.kind {
            ValueKind::Word if word_at(self.image, at) == self.absent() => Value::Absent,
            ValueKind::Word => Value::Here(bytes),
            ValueKind::Block => match BlockPointer::from_bits(word_at(self.image, at)) {
                None => Value::Absent,
                Some(block) => Value::Block(block),
            },
            ValueKind::Inline => match bytes.split_first() {
                Some((0, _)) => Value::Absent,
                Some((&PRESENT, value)) => Value::Here(value),
                _ => return Err(DecodeError::Corrupt("a value in no known state")),
            },
        })
    }

    /// Records that are there.
    pub fn records(&self) -> usize {
        let present = |cell: &usize| !matches!(self.value(*cell), Ok(Value::Absent));
        (0..self.bound()).filter(present).count()
    }

    /// Writes the cells whose records are there, whose keys are not below `low` and, if given, below `high`, into
    /// `cells`, in ascending order of key. Returns how many there are.
    pub fn sorted(&self, low: &[u8], high: Option<&[u8]>, cells: &mut [u16; SPAN_MAX]) -> Result<usize, DecodeError> {
        let mut room = [0; 64];
        let bounds = self.bounds(&mut room);
        let mut order = heapless::Vec::<u16, SPAN_MAX>::new();
        for cell in 0..self.shape.span {
            let key = self.key(cell);
            if key < low || high.is_some_and(|high| key >= high) || bounds.side(key) != Side::Here {
                continue;
            }
            if self.value(cell)? != Value::Absent {
                // It has room: as many as cells.
                let _ = order.push(cell as u16);
            }
        }
        order.sort_unstable_by(|a, b| self.key(usize::from(*a)).cmp(self.key(usize::from(*b))));
        for (to, cell) in cells.iter_mut().zip(&order) {
            *to = *cell;
        }
        Ok(order.len())
    }

    /// Checks a quiet leaf; returns its records.
    pub fn check(&self) -> Result<u64, DecodeError> {
        if !self.spear().is_sound() {
            return Err(DecodeError::Corrupt("the Spear word of a leaf"));
        }
        let mut room = [0; 64];
        let bounds = self.bounds(&mut room);
        let bound = self.bound();
        let mut records = 0;
        for cell in 0..self.shape.span {
            let key = self.key(cell);
            let there = self.value(cell)? != Value::Absent;
            if cell >= bound {
                if there || key.iter().any(|&byte| byte != bounds.unbound()) {
                    return Err(DecodeError::Corrupt("a cell in use behind one that is not"));
                }
                continue;
            }
            if bounds.side(key) != Side::Here {
                return Err(DecodeError::Corrupt("a key outside its leaf's bounds"));
            }
            if (0..cell).any(|other| self.key(other) == key) {
                return Err(DecodeError::Corrupt("a key twice in one leaf"));
            }
            records += u64::from(there);
        }
        Ok(records)
    }
}

/// The half of all keys that begins at 0: stands for bounds that cannot be.
const HALF: Bounds<'static> = match Tile::new(0, 127) {
    Some(tile) => match Bounds::new(&[], tile) {
        Some(bounds) => bounds,
        None => panic!("half of the keys"),
    },
    None => panic!("half of the bytes"),
};

/// A word that none of `values` is: what means "absent" in a leaf that has them. The values of a leaf are finite, so
/// one of as many candidates and one more is free.
pub fn absent_for(values: &(impl Iterator<Item = u64> + Clone)) -> u64 {
    let mut candidate = u64::MAX;
    for _ in 0..=SPAN_MAX {
        if values.clone().all(|value| value != candidate) {
            break;
        }
        candidate -= 1;
    }
    candidate
}

/// Changes to an image of a leaf that nobody else changes: one that is not published, or that is closed.
pub struct LeafMut<'a> {
    shape: &'a LeafShape,
    image: &'a mut [u8],
}

impl<'a> LeafMut<'a> {
    /// A view of an image that [`LeafMut::start`] has made, or that was judged.
    pub fn new(shape: &'a LeafShape, image: &'a mut [u8]) -> Self {
        Self { shape, image }
    }

    /// Starts a leaf: its head, and no records. The Spear word stays as it is. `None`: the image is too short, or the
    /// bounds do not fit the keys.
    pub fn start(shape: &'a LeafShape, image: &'a mut [u8], head: &Head<'_>) -> Option<Self> {
        let position = head.bounds.position();
        if position >= shape.key_bytes {
            return None;
        }
        image.get_mut(FIRST_WRITE)?.fill(0);
        let generation = head.address.generation() & GENERATION_MASK;
        let tile = head.bounds.tile();
        let [first, second, third, _] = head.owner.0.to_le_bytes();
        let fixed: [u8; 5 + OWNER_BYTES] =
            [generation, head.index, position as u8, tile.low(), tile.last(), first, second, third];
        let mut leaf = Self { shape, image };
        leaf.set(GENERATION_AT, &fixed);
        if shape.kind == ValueKind::Word {
            leaf.set(ABSENT_AT, &head.absent.to_le_bytes());
        }
        let (first, rest) = head.bounds.prefix().split_at(position.min(PREFIX_BYTES));
        leaf.set(PREFIX_AT, first);
        if shape.head_bytes > LINE_BYTES {
            leaf.set(GENERATION_AGAIN_AT, &[generation]);
            leaf.set(PREFIX_REST_AT, rest);
        }
        let unbound = head.bounds.unbound();
        for cell in 0..shape.span {
            let at = shape.key_at(cell);
            if let Some(place) = leaf.image.get_mut(at..at + shape.key_bytes) {
                place.fill(unbound);
            }
            leaf.remove(cell);
        }
        Some(leaf)
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.image.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Binds key cell `cell` to `key`.
    pub fn bind(&mut self, cell: usize, key: &[u8]) {
        self.set(self.shape.key_at(cell), key);
    }

    /// Puts a value into cell `cell`. `false`: it is the word that means "absent" here, or it is not of the shape's
    /// size; nothing was changed.
    #[must_use]
    pub fn put(&mut self, cell: usize, value: &[u8]) -> bool {
        if value.len() != self.shape.value_bytes {
            return false;
        }
        let at = self.shape.value_at(cell);
        match self.shape.kind {
            ValueKind::Word if value == word_at(self.image, ABSENT_AT).to_le_bytes() => return false,
            ValueKind::Word => self.set(at, value),
            ValueKind::Inline => {
                self.set(at, &[PRESENT]);
                self.set(at + 1, value);
            }
            ValueKind::Block => return false,
        }
        true
    }

    /// Puts the name of a block into cell `cell`. `false`: values of this shape are not in blocks.
    #[must_use]
    pub fn put_block(&mut self, cell: usize, block: BlockPointer) -> bool {
        let takes = self.shape.kind == ValueKind::Block;
        if takes {
            self.set(self.shape.value_at(cell), &block.to_bits().to_le_bytes());
        }
        takes
    }

    /// Says in value cell `cell` that the record is absent.
    pub fn remove(&mut self, cell: usize) {
        let at = self.shape.value_at(cell);
        match self.shape.kind {
            ValueKind::Word => {
                let absent = word_at(self.image, ABSENT_AT).to_le_bytes();
                self.set(at, &absent);
            }
            ValueKind::Inline => self.set(at, &[0]),
            ValueKind::Block => self.set(at, &[0; 8]),
        }
    }

    /// What a WRITE of key cell `cell` covers.
    pub const fn key_write(&self, cell: usize) -> Range<usize> {
        let at = self.shape.key_at(cell);
        at..at + self.shape.key_bytes
    }

    /// What a WRITE of value cell `cell` covers.
    pub const fn value_write(&self, cell: usize) -> Range<usize> {
        let at = self.shape.value_at(cell);
        at..at + self.shape.cell_bytes()
    }
}
