//! Leaves.
//!
//! ```text
//!  0      8      16     24          25     26        27   28    29     32      33        64          65
//! ┌──────┬──────┬──────┬───────────┬──────┬─────────┬────┬─────┬──────┬───────┬─────────┬───────────┬──────────┐
//! │Spear │heir 0│heir 1│generation │index │position │low │last │owner │absent │prefix ..│generation │.. prefix │
//! └──────┴──────┴──────┴───────────┴──────┴─────────┴────┴─────┴──────┴───────┴─────────┴───────────┴──────────┘
//!  then key cells and value cells: super::shape                                         only if K > 32, then 0
//! ```
//!
//! **What changes.** The Spear word by FAA and CAS only: no WRITE covers it. The heirs are written by the lane that
//! retires the leaf, right before the FAA that does it. Everything else in the head is written once, before the leaf is
//! published, and never changes in the leaf's life. A key cell is bound once in the leaf's life. A value cell is written
//! by every insert, update and delete of its key.
//!
//! **Heirs.** Slot words of what owns the leaf's tile once the leaf is retired: each has its byte, and none is frozen.
//! They mean nothing in a leaf that is not retired, even if they are not 0: their writer may have died before its FAA.
//! They are in the Spear word's line, so an image that shows RETIRED shows them whole.
//!
//! **Bounds.** The interval of a leaf is a prefix and a tile ([`Bounds`]), so it takes the prefix and two bytes, not
//! two keys. With keys of up to 32 bytes the head is one line. A longer prefix goes on in a second line. The lines
//! belong together because both are written before the leaf is published, and because its place is written again only
//! when no operation knows it any more. Both have the generation; an image in which they differ is torn.
//!
//! **A record is there** if its key cell has the key and its value cell is not *absent*. How a value cell says so
//! depends on the values: for words it is one value that this leaf has chosen and that no value in it equals; a longer
//! one has a state byte, and is zero if it is absent; a block's name is 0. The leaf chooses one of the [`SPAN_MAX`] + 1
//! greatest words, so the head names it by a byte. A writer whose value is the chosen one makes the change exclusively, and
//! rebuilds the leaf with another choice. A key cell that is not bound has a key outside the bounds, so no search finds it.
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
use crate::mutants::{Mutant, planted};
use crate::radix::slot::{Place, Slot};
use crate::radix::tile::{Bounds, Side, Tile};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::{Address, GENERATION_MASK};
use crate::remote::owner_tag::{self, OwnerTag};
use core::ops::Range;
use static_assertions::const_assert_eq;

/// Where the Spear word is.
pub const SPEAR_AT: usize = 0;
const HEIRS_AT: [usize; 2] = [8, 16];
/// Where the generation is.
pub const GENERATION_AT: usize = 24;
/// Where the number of the index is.
pub const INDEX_AT: usize = 25;
const POSITION_AT: usize = 26;
const LOW_AT: usize = 27;
const LAST_AT: usize = 28;
const OWNER_AT: usize = 29;
const OWNER_BYTES: usize = 3;
const ABSENT_AT: usize = 32;
const PREFIX_AT: usize = 33;
const GENERATION_AGAIN_AT: usize = LINE_BYTES;
const PREFIX_REST_AT: usize = LINE_BYTES + 1;
/// The prefix of a leaf is shorter than its keys.
const PREFIX_REST_BYTES: usize = KEY_BYTES_MAX - 1 - PREFIX_BYTES;

const_assert_eq!(PREFIX_AT + PREFIX_BYTES, LINE_BYTES);

/// The place of the leaf at this address.
#[inline]
pub const fn place_of(leaf: Address) -> Place {
    Place::new(leaf.node(), leaf.offset())
}

/// What the first WRITE of a leaf covers: everything but the Spear word. Its heirs are 0.
pub const FIRST_WRITE: Range<usize> = HEIRS_WRITE.start..LEAF_BYTES;

/// What the WRITE of the heirs covers, right before the FAA that retires the leaf.
pub const HEIRS_WRITE: Range<usize> = 8..24;

/// The state byte of a value that is there.
const PRESENT: u8 = 1;

/// The head's fields, for the goldens.
pub const HEAD_FIELDS: &[Field] = &[
    Field::bytes(SPEAR_AT, 8, "spear", "see dolphin_spear; changed by FAA and CAS only"),
    Field::bytes(
        HEIRS_AT[0],
        8,
        "heir 0",
        "retired: slot word (see dolphin_slot) of what owns the tile now; else nothing",
    ),
    Field::bytes(
        HEIRS_AT[1],
        8,
        "heir 1",
        "retired: slot word of the leaf that owns the tile from its byte on; 0: none",
    ),
    Field::bits(GENERATION_AT, 0, 6, "generation", "repeats the generation of the leaf's address"),
    Field::bits(GENERATION_AT, 6, 2, "reserved", "0"),
    Field::bytes(INDEX_AT, 1, "index", "catalog number of the index, plus 1; 0: no leaf was ever written here"),
    Field::bytes(POSITION_AT, 1, "position", "bytes of the prefix, less than K"),
    Field::bytes(LOW_AT, 1, "low", "smallest value of the byte behind the prefix"),
    Field::bytes(LAST_AT, 1, "last", "its largest value, included"),
    Field::bits(OWNER_AT, 0, 22, "owner", "owner tag of the compute node that wrote the leaf; two bits of 0 follow"),
    Field::bytes(
        ABSENT_AT,
        1,
        "absent",
        "values of 8 bytes: n <= 60, 2^64 - 1 - n means \"absent\" in this leaf; else 0",
    ),
    Field::bytes(PREFIX_AT, PREFIX_BYTES, "prefix", "bytes with which all keys begin, its first 31; then 0"),
    Field::bits(GENERATION_AGAIN_AT, 0, 6, "generation", "K > 32: again; two bits of 0 follow"),
    Field::bytes(
        PREFIX_REST_AT,
        PREFIX_REST_BYTES,
        "prefix",
        "K > 32: its bytes from the 32nd on; then 0 to the line's end",
    ),
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
    /// For values of 8 bytes: which word means "absent", from [`absent_for`].
    pub absent: u8,
}

/// What an image of the wanted leaf says about a key that its bounds have.
#[derive(Clone, Copy, Debug)]
pub enum Judged<'a> {
    /// The leaf is alive. Only such a leaf may say that a key is absent, or what its value is.
    Live(Leaf<'a>),
    /// The leaf has left the tree. Whoever came by a fresh word of the key's slot may go on with [`Leaf::heirs`].
    Retired(Leaf<'a>),
}

/// An image of a leaf that is the one that was wanted.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    shape: &'a LeafShape,
    image: &'a [u8],
    position: usize,
    tile: Tile,
}

/// Whether two keys of one length differ in front of the last byte.
pub fn differ_early(a: &[u8], b: &[u8]) -> bool {
    let last = a.len().saturating_sub(1);
    a.get(..last) != b.get(..last)
}

fn byte_at(image: &[u8], at: usize) -> u8 {
    image.get(at).copied().unwrap_or_default()
}

impl<'a> Leaf<'a> {
    /// Whether the first line of an image is that of a leaf of index `index` (catalog number plus 1).
    pub fn is_of(image: &[u8], index: u8) -> bool {
        byte_at(image, INDEX_AT) == index && Tile::new(byte_at(image, LOW_AT), byte_at(image, LAST_AT)).is_some()
    }

    /// The generation in an image, whatever that is of.
    pub fn generation_of(image: &[u8]) -> u8 {
        byte_at(image, GENERATION_AT)
    }

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
        if usize::from(byte_at(image, ABSENT_AT)) > SPAN_MAX {
            return Err(DecodeError::Corrupt("the word for \"absent\" of a leaf"));
        }
        if shape.head_bytes > LINE_BYTES && byte_at(image, GENERATION_AGAIN_AT) != generation {
            return Err(DecodeError::Torn);
        }
        Ok(Self { shape, image, position, tile })
    }

    /// As [`Leaf::new`], and the leaf's bounds have `key`. [`DecodeError::Stale`]: find the leaf of the key anew.
    #[inline]
    pub fn judge(
        shape: &'a LeafShape,
        image: &'a [u8],
        address: Address,
        index: u8,
        key: &[u8],
    ) -> Result<Judged<'a>, DecodeError> {
        let leaf = Self::new(shape, image, address, index)?;
        if leaf.side(key) != Side::Here {
            return Err(DecodeError::Stale);
        }
        Ok(if leaf.spear().is_retired() { Judged::Retired(leaf) } else { Judged::Live(leaf) })
    }

    /// Its Spear word.
    #[inline]
    pub fn spear(&self) -> Spear {
        Spear(word_at(self.image, SPEAR_AT))
    }

    /// The slot words of what owns the tile of a retired leaf, as they were READ. In a leaf that is not retired they
    /// mean nothing.
    #[inline]
    pub fn heirs(&self) -> [Slot; 2] {
        HEIRS_AT.map(|at| Slot(word_at(self.image, at)))
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
        absent_word(byte_at(self.image, ABSENT_AT))
    }

    /// The position at which its keys are in its tile: bytes of its prefix.
    #[inline]
    pub const fn position(&self) -> usize {
        self.position
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
        let first = self.image.get(PREFIX_AT..).and_then(<[u8]>::first_chunk::<8>);
        let (Some(key_word), Some(first), Some(&byte)) = (key.first_chunk::<8>(), first, key.get(self.position)) else {
            return Side::Below;
        };
        if self.position > 8 {
            return self.bounds(&mut [0; 64]).side(key);
        }
        // Short prefixes are compared as words: a get of keys of 8 bytes spent 6 % in memcmp.
        let front = |word: &[u8; 8]| u64::from_be_bytes(*word).checked_shr(64 - 8 * self.position as u32).unwrap_or(0);
        match front(key_word).cmp(&front(first)) {
            core::cmp::Ordering::Less => Side::Below,
            core::cmp::Ordering::Greater => Side::Above,
            core::cmp::Ordering::Equal => self.tile.side(byte),
        }
    }

    /// Whether a record of this leaf has a key that differs from `key` in front of the last byte. If all records of the
    /// leaf agree there, the first one says it.
    pub fn differs_early(&self, key: &[u8]) -> bool {
        let present = |cell: &usize| !matches!(self.value(*cell), Ok(Value::Absent));
        (0..self.bound()).find(present).is_some_and(|cell| differ_early(self.key(cell), key))
    }

    /// The content of key cell `cell`, bound or not.
    #[inline]
    pub fn key(&self, cell: usize) -> &'a [u8] {
        let at = self.shape.key_at(cell);
        self.image.get(at..at + self.shape.key_bytes).unwrap_or_default()
    }

    /// Key cells of eight bytes, which are contiguous; `None`: they are longer.
    #[inline]
    fn words(&self) -> Option<&'a [[u8; 8]]> {
        let at = self.shape.head_bytes;
        let cells = self.image.get(at..at + 8 * self.shape.span).filter(|_| self.shape.key_bytes == 8)?;
        Some(cells.as_chunks().0)
    }

    /// What a key cell of eight bytes has that is not bound.
    pub fn unbound_word(&self) -> u64 {
        u64::from_le_bytes([self.bounds(&mut [0; 64]).unbound(); 8])
    }

    /// The cell of `key`. Whether its record is there says its value cell.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        if let (Some(cells), Ok(key)) = (self.words(), <[u8; 8]>::try_from(key)) {
            return cells.iter().position(|cell| *cell == key);
        }
        // Keys of a leaf begin with the same bytes, so the last ones are compared first.
        let tail = key.last_chunk::<8>()?;
        let has_key = |cell: &usize| {
            let cell = self.key(*cell);
            cell.last_chunk() == Some(tail) && cell == key
        };
        (0..self.shape.span).find(has_key)
    }

    /// The cell of `key`, or else the first one that is not bound; the span, if there is none. Under the lock, or of a
    /// quiet leaf.
    #[inline]
    pub fn find_or_free(&self, key: &[u8]) -> Result<usize, usize> {
        let unbound = self.bounds(&mut [0; 64]).unbound();
        if let (Some(cells), Ok(key)) = (self.words(), <[u8; 8]>::try_from(key)) {
            let cell = cells.iter().position(|cell| *cell == key || *cell == [unbound; 8]);
            let cell = cell.ok_or(self.shape.span)?;
            return if cells.get(cell) == Some(&key) { Ok(cell) } else { Err(cell) };
        }
        self.find(key).ok_or_else(|| self.bound())
    }

    /// Cells whose keys are bound: those in front of the first that is not. Under the lock, or of a quiet leaf, since
    /// an image of several instants may show a gap.
    pub fn bound(&self) -> usize {
        let unbound = [self.bounds(&mut [0; 64]).unbound(); KEY_BYTES_MAX];
        self.find(unbound.get(..self.shape.key_bytes).unwrap_or_default()).unwrap_or(self.shape.span)
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
        if let Some(keys) = self.words() {
            return self.sorted_words(keys, &bounds, (low, high), cells);
        }
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

    /// The same for keys of eight bytes, which are compared as words.
    fn sorted_words(
        &self,
        keys: &[[u8; 8]],
        bounds: &Bounds<'_>,
        (low, high): (&[u8], Option<&[u8]>),
        cells: &mut [u16; SPAN_MAX],
    ) -> Result<usize, DecodeError> {
        let word = |key: &[u8]| key.first_chunk().map_or(0, |key| u64::from_be_bytes(*key));
        let (mut begin, mut end) = ([0; 8], [0; 8]);
        bounds.write_low(&mut begin);
        let last = if bounds.write_high(&mut end) { u64::from_be_bytes(end) - 1 } else { u64::MAX };
        let first = u64::from_be_bytes(begin).max(word(low));
        let last = match high.map(word) {
            None => last,
            Some(0) => return Ok(0),
            Some(high) => last.min(high - 1),
        };
        let mut order = heapless::Vec::<(u64, u16), SPAN_MAX>::new();
        let mut ascends = true;
        for (cell, key) in keys.iter().enumerate() {
            let key = u64::from_be_bytes(*key);
            if first <= key && key <= last && self.value(cell)? != Value::Absent {
                ascends &= order.last().is_none_or(|(before, _)| *before < key);
                // It has room: as many as cells.
                let _ = order.push((key, cell as u16));
            }
        }
        if !ascends {
            order.sort_unstable();
        }
        for (to, (_, cell)) in cells.iter_mut().zip(&order) {
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
            if !there && self.shape.kind == ValueKind::Inline {
                let content = self.image.get(self.shape.content_of(cell)).unwrap_or_default();
                if content.iter().any(|&byte| byte != 0) {
                    return Err(DecodeError::UNUSED_NOT_ZERO);
                }
            }
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

/// Which word means "absent" in a leaf with these values: none of them is it. A leaf has [`SPAN_MAX`] values at most, so
/// one of as many candidates and one more is free.
pub fn absent_for(values: &(impl Iterator<Item = u64> + Clone)) -> u8 {
    let is_free = |choice: &u8| values.clone().all(|value| value != absent_word(*choice));
    (0..SPAN_MAX as u8).find(is_free).unwrap_or(SPAN_MAX as u8)
}

/// The word that means "absent" in a leaf with this choice.
#[inline]
const fn absent_word(choice: u8) -> u64 {
    u64::MAX - choice as u64
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

    /// Starts a leaf: its head, no heirs, and no records. The Spear word stays as it is. `None`: the image is too short,
    /// or the bounds do not fit the keys.
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
            leaf.set(ABSENT_AT, &[head.absent]);
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
            if !planted(Mutant::CELLS_UNSET) {
                leaf.remove(cell);
            }
        }
        Some(leaf)
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.image.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    fn absent(&self) -> [u8; 8] {
        absent_word(byte_at(self.image, ABSENT_AT)).to_le_bytes()
    }

    /// Says what owns the leaf's tile once it is retired. [`HEIRS_WRITE`] covers it.
    pub fn set_heirs(&mut self, heirs: [Slot; 2]) {
        for (at, heir) in HEIRS_AT.into_iter().zip(heirs) {
            self.set(at, &heir.0.to_le_bytes());
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
            ValueKind::Word if value == self.absent() => return false,
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

    /// Puts the name of a block into cell `cell`, or else a value, as [`LeafMut::put`].
    #[must_use]
    pub fn put_either(&mut self, cell: usize, value: &[u8], block: Option<BlockPointer>) -> bool {
        match block {
            Some(block) => self.put_block(cell, block),
            None => self.put(cell, value),
        }
    }

    /// Says in value cell `cell` that the record is absent. A value with a state byte becomes zero: if damage makes the state of a
    /// record that is there *absent*, the walk finds its value.
    pub fn remove(&mut self, cell: usize) {
        let at = self.shape.value_at(cell);
        match self.shape.kind {
            ValueKind::Word => {
                let absent = self.absent();
                self.set(at, &absent);
            }
            ValueKind::Inline => {
                self.set(at, &[0]);
                let content = self.shape.content_of(cell);
                if let Some(content) = self.image.get_mut(content).filter(|_| !planted(Mutant::ABSENT_VALUE_LEFT)) {
                    content.fill(0);
                }
            }
            ValueKind::Block => self.set(at, &[0; 8]),
        }
    }
}
