//! Catalog entries as stored: which indexes a pool has, of which kind, with which parameters, and where their roots
//! are.
//!
//! ```text
//!  catalog  ┌──────────────────────────┬─────────┬─────────┬─────┐
//!           │ entry words, 8 bytes each│ entry 0 │ entry 1 │ ... │  whole pages
//!           └──────────────────────────┴─────────┴─────────┴─────┘
//!  entry    ┌──────────────────────────────────────────────┬────────┬──────┬────────┐
//!           │ kind, features, parameters (two lines)       │ name 0 │ root │ name 1 │
//!           └──────────────────────────────────────────────┴────────┴──────┴────────┘
//! ```
//!
//! The words of all entries lie side by side, so that a few READs bring them. A bit of the word says which of the two
//! names counts: a rename writes the other one, and then changes the word.

use crate::layout::LINE_BYTES;
use crate::layout::fields::Field;
use crate::layout::record::{CRC, Le16, Le32, Le64, cut, mask, record, set_text, text};
use crate::remote::NodeGeometry;
use crate::remote::address::Address;
use crate::remote::features::Features;
use crate::remote::lock_word::RowId;
use crate::remote::row::Member;
use static_assertions::{const_assert, const_assert_eq};
use zerocopy::IntoBytes;

/// Incompatible feature of a catalog entry: its values are slots of items.
pub const FEATURE_ITEMS: u64 = 1 << 0;

/// Incompatible feature of a catalog entry: each of its values ends with a checksum of its key and value
/// ([`of_record`](crate::layout::checksum::of_record)), which is not a part of the user's value.
pub const FEATURE_CHECKSUMS: u64 = 1 << 1;

/// Most indexes of a pool. Nodes have the number of their index, plus one, in a byte.
pub const INDEXES_MAX: usize = 255;

/// Entries of the catalog of a new pool that does not ask for fewer.
pub const INDEX_COUNT: u16 = INDEXES_MAX as u16;

/// Catalogs take whole pages.
const CATALOG_ALIGN_BYTES: u64 = 4096;

/// Size of a catalog of so many entries.
pub const fn catalog_bytes(index_count: u16) -> u64 {
    (entries_at(index_count) + index_count as u64 * Entry::BYTES as u64).next_multiple_of(CATALOG_ALIGN_BYTES)
}

/// Where the entries begin in a catalog of so many: behind their words.
pub(crate) const fn entries_at(index_count: u16) -> u64 {
    (index_count as u64 * 8).next_multiple_of(LINE_BYTES as u64)
}

/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 47;

/// Bytes of a parameter block.
pub const PARAMETER_BYTES: usize = 64;

/// Features of an index that this code knows: [`crate::items`], and checksums of records.
pub(crate) const FEATURES_KNOWN: Features =
    Features { incompatible: FEATURE_ITEMS | FEATURE_CHECKSUMS, ..Features::KNOWN };

/// Offset of the root word in an entry.
pub(crate) const ROOT_OFFSET: u64 = 192;

/// Offset of the second name in an entry.
const NAME_1_OFFSET: u64 = 200;

/// Offset of the first name in an entry.
const NAME_0_OFFSET: u64 = 128;

record! {
    /// A catalog entry as stored, without its word: four lines.
    pub struct Entry {
        checksum: Le32 = "CRC-32C of the bytes 4..128",
        kind: Le16 = "1 = sherman, 2 = smart, 3 = chime, 4 = dolphin, 5 = dex",
        parameters_version: Le16 = "how to read the parameters, per kind",
        features_compatible: Le64 = "features its creator knew that readers may ignore",
        features_read_only: Le64 = "features it uses that writers must know",
        features_incompatible: Le64 = "features it uses that readers must know",
        parameters: [u8; 64] = "sizes and options chosen at creation, read by the index",
        reserved_96: [u8; 32] = "zero",
        name_0_checksum: Le32 = "CRC-32C of the bytes 132..180",
        name_0_bytes: u8 = "length of the name, 1..=47",
        name_0: [u8; 47] = "name, UTF-8, zero-padded",
        reserved_180: [u8; 4] = "zero",
        owners: Le64 = "address of its ownership table, on memory node 0, of an index whose keys have owners; 0 = none yet",
        root: Le64 = "root word, read by the index; 0 = no root yet",
        name_1_checksum: Le32 = "CRC-32C of the bytes 204..252",
        name_1_bytes: u8 = "length of the name, 1..=47",
        name_1: [u8; 47] = "name, UTF-8, zero-padded",
        reserved_252: [u8; 4] = "zero",
    }
}

const_assert_eq!(Entry::BYTES, 256);

const_assert_eq!(core::mem::offset_of!(Entry, root), ROOT_OFFSET as usize);

const_assert_eq!(core::mem::offset_of!(Entry, name_0_checksum), NAME_0_OFFSET as usize);

const_assert_eq!(core::mem::offset_of!(Entry, name_1_checksum), NAME_1_OFFSET as usize);

record! {
    /// A name in an entry, with its checksum.
    pub struct StoredName {
        checksum: Le32 = "CRC-32C of what follows",
        bytes: u8 = "length of the name, 1..=47",
        name: [u8; 47] = "name, UTF-8, zero-padded",
    }
}

impl StoredName {
    /// `name` as stored. `None`: no index can have this name.
    pub fn of(name: &str) -> Option<Self> {
        let mut stored = Self::ZERO;
        stored.bytes = set_text(&mut stored.name, name).filter(|&bytes| bytes > 0)?;
        stored.checksum = stored.checksum_of_bytes().into();
        Some(stored)
    }

    fn checksum_of_bytes(&self) -> u32 {
        CRC.checksum(&self.as_bytes()[size_of::<Le32>()..])
    }

    fn decode(&self) -> Result<&str, &'static str> {
        if self.checksum.get() != self.checksum_of_bytes() {
            return Err("checksum of a name in the catalog");
        }
        text(&self.name, self.bytes).filter(|name| !name.is_empty()).ok_or("name of a catalog entry is not text")
    }
}

/// Number of a catalog entry. Chunk entries name an index by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexNumber(u16);

impl IndexNumber {
    /// No index, or all of them.
    pub const NONE: Self = Self(511);

    /// One more than the largest number.
    pub const COUNT: usize = 512;

    /// The entry of that number.
    pub const fn new(entry: usize) -> Option<Self> {
        if entry < INDEXES_MAX { Some(Self(entry as u16)) } else { None }
    }

    /// From its stored form in nine bits: an entry of the catalog, or none.
    pub(crate) const fn from_stored(number: u16) -> Option<Self> {
        if (number as usize) < INDEXES_MAX || number == Self::NONE.0 { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// How its nodes name it: the number plus one. 0: in memory that was never written, and of [`IndexNumber::NONE`].
    pub const fn in_nodes(self) -> u8 {
        if self.0 == Self::NONE.0 { 0 } else { (self.0 + 1) as u8 }
    }
}

const_assert!(INDEXES_MAX <= u8::MAX as usize && INDEXES_MAX < IndexNumber::NONE.0 as usize);

/// A set of indexes of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSet([u32; IndexNumber::COUNT / 32]);

impl IndexSet {
    const fn place(number: IndexNumber) -> (usize, u32) {
        (number.0 as usize / 32 % (IndexNumber::COUNT / 32), 1 << (number.0 % 32))
    }

    /// Adds `number`.
    pub const fn insert(&mut self, number: IndexNumber) {
        let (word, bit) = Self::place(number);
        self.0[word] |= bit;
    }

    /// Whether `number` is in the set.
    pub const fn contains(&self, number: IndexNumber) -> bool {
        let (word, bit) = Self::place(number);
        self.0[word] & bit != 0
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes `number` out.
    pub const fn remove(&mut self, number: IndexNumber) {
        let (word, bit) = Self::place(number);
        self.0[word] &= !bit;
    }

    /// What is in this set or in `other`.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut all = *self;
        for (word, other) in all.0.iter_mut().zip(other.0) {
            *word |= other;
        }
        all
    }

    /// What is in this set and not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = *self;
        for (word, other) in rest.0.iter_mut().zip(other.0) {
            *word &= !other;
        }
        rest
    }

    /// Whether both have an index.
    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).any(|(word, other)| word & other != 0)
    }

    /// A bit for each number, from the low ones up.
    pub(crate) fn words(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The set of these bits; there is none for [`IndexNumber::NONE`].
    pub(crate) fn of_words(words: impl IntoIterator<Item = u32>) -> Self {
        let mut set = Self::default();
        for (to, word) in set.0.iter_mut().zip(words) {
            *to = word;
        }
        set
    }

    /// The numbers of entries that are in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = IndexNumber> + '_ {
        (0..INDEXES_MAX).filter_map(IndexNumber::new).filter(|&number| self.contains(number))
    }
}

macro_rules! index_kinds {
    ($($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $Kind:ident = $number:literal $name:literal,)*) => {
        /// The kind of an index.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum IndexKind {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $Kind = $number,)*
        }

        impl IndexKind {
            /// Every kind that has a number, in numeric order. A program may have no index of some kinds: see
            /// [`KINDS`](crate::registry::KINDS).
            pub const ALL: &'static [Self] = &[$($(#[cfg($cfg)])? Self::$Kind),*];

            /// The kind of that number.
            pub const fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($(#[cfg($cfg)])? $number => Some(Self::$Kind),)*
                    _ => None,
                }
            }

            /// Lower-case name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(#[cfg($cfg)])? Self::$Kind => $name,)*
                }
            }
        }
    };
}

index_kinds! {
    /// Sherman (SIGMOD 2022).
    Sherman = 1 "sherman",
    /// SMART (OSDI 2023).
    Smart = 2 "smart",
    /// CHIME (SOSP 2024).
    Chime = 3 "chime",
    /// Dolphin.
    Dolphin = 4 "dolphin",
    /// DEX (VLDB 2024).
    Dex = 5 "dex",
    /// The one that shows what a kind needs, and is not for use.
    #[cfg(feature = "toy")] Toy = 255 "toy",
}

/// State of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryState {
    /// Unused.
    Free = 0,
    /// Claimed; its creator is writing the body.
    Creating = 1,
    /// An index.
    Live = 2,
    /// An index that a compute node is about to drop, if nobody has it open. Nobody opens it.
    Dropped = 3,
    /// Was an index; its chunks are being given back.
    Erasing = 4,
    /// An index that a compute node is about to give another name. Until then it has the old one.
    Renaming = 5,
}

/// Bits of a tag.
const TAG_BITS: u32 = 20;

/// Which of the two names counts.
const NAME_BIT: u64 = 1 << 3;

/// The word of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct EntryWord(pub u64);

impl EntryWord {
    /// Unused.
    pub const FREE: Self = Self(0);

    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 3, "state", "0 = free, 1 = creating, 2 = live, 3 = dropped, 4 = erasing, 5 = renaming"),
        Field::bits(0, 3, 1, "name", "which of the entry's two names counts"),
        Field::bits(0, 4, 20, "tag", "low bits of the CRC-32C of that name"),
        Field::bits(0, 24, 8, "request", "tells creations, drops and renames of one compute node apart"),
        Field::bits(0, 32, 16, "row", "compute-node row of the creator, or of the last that dropped or renamed it"),
        Field::bits(0, 48, 16, "incarnation", "that compute node's incarnation"),
    ];

    /// The word of an entry whose first name counts.
    pub const fn new(state: EntryState, tag: u32, request: u8, creator: Member) -> Self {
        Self(
            state as u64
                | (tag as u64 & mask(TAG_BITS)) << 4
                | (request as u64) << 24
                | (creator.row.0 as u64) << 32
                | (creator.incarnation as u64 & mask(16)) << 48,
        )
    }

    /// The state, if it is one.
    pub const fn state(self) -> Option<EntryState> {
        match cut(self.0, 0, 3) {
            0 => Some(EntryState::Free),
            1 => Some(EntryState::Creating),
            2 => Some(EntryState::Live),
            3 => Some(EntryState::Dropped),
            4 => Some(EntryState::Erasing),
            5 => Some(EntryState::Renaming),
            _ => None,
        }
    }

    /// The same entry in another state.
    #[must_use]
    pub const fn with_state(self, state: EntryState) -> Self {
        match state {
            EntryState::Free => Self::FREE,
            _ => Self(self.0 & !mask(3) | state as u64),
        }
    }

    /// The same entry, in the hands of `by`.
    #[must_use]
    pub const fn taken(self, state: EntryState, request: u8, by: Member) -> Self {
        Self(Self::new(state, self.tag(), request, by).0 | self.0 & NAME_BIT)
    }

    /// The same entry when its other name, with that tag, counts, and it is live.
    #[must_use]
    pub const fn renamed(self, tag: u32) -> Self {
        let rest = !(mask(3) | mask(TAG_BITS) << 4);
        Self((self.0 & rest | EntryState::Live as u64 | (tag as u64 & mask(TAG_BITS)) << 4) ^ NAME_BIT)
    }

    /// Whether the second of the entry's names counts.
    pub const fn has_second_name(self) -> bool {
        self.0 & NAME_BIT != 0
    }

    /// Where the name is, in the entry, that counts after a rename.
    pub(crate) const fn other_name_offset(self) -> u64 {
        if self.has_second_name() { NAME_0_OFFSET } else { NAME_1_OFFSET }
    }

    /// Whether there is an index that can be opened by its name.
    pub const fn is_open(self) -> bool {
        matches!(self.state(), Some(EntryState::Live | EntryState::Renaming))
    }

    /// Low bits of the hash of the name.
    pub const fn tag(self) -> u32 {
        cut(self.0, 4, TAG_BITS) as u32
    }

    /// Distinguishes creations, drops and renames of one compute node.
    pub const fn request(self) -> u8 {
        cut(self.0, 24, 8) as u8
    }

    /// The creator's row.
    pub const fn row(self) -> RowId {
        RowId(cut(self.0, 32, 16) as u16)
    }

    /// The creator's incarnation.
    pub const fn incarnation(self) -> u16 {
        (self.0 >> 48) as u16
    }

    pub(crate) fn creates(self, tag: u32) -> bool {
        matches!(self.state(), Some(EntryState::Creating)) && self.tag() == tag
    }

    pub(crate) const fn names(self, tag: u32) -> bool {
        self.is_open() && self.tag() == tag
    }
}

/// The tag of a name.
pub fn tag_of(name: &str) -> u32 {
    CRC.checksum(name.as_bytes()) & mask(TAG_BITS) as u32
}

/// What an index is created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition<'a> {
    /// 1..=47 bytes, no control characters.
    pub name: &'a str,
    /// Which index.
    pub kind: IndexKind,
    /// Version of the parameter block.
    pub parameters_version: u16,
    /// Sizes and options, decoded by the index.
    pub parameters: [u8; PARAMETER_BYTES],
    /// Features that readers and writers have to know.
    pub features: Features,
}

/// A live entry, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Its number.
    pub number: IndexNumber,
    /// Its kind.
    pub kind: IndexKind,
    /// Version of the parameter block.
    pub parameters_version: u16,
    /// Sizes and options, decoded by the index.
    pub parameters: [u8; PARAMETER_BYTES],
    /// Features that readers and writers have to know.
    pub features: Features,
    /// The root word when the entry was READ.
    pub root: u64,
    /// Where its ownership table was when the entry was READ; null: it has none.
    pub owners: Address,
    name: StoredName,
}

impl IndexEntry {
    /// Its name.
    pub fn name(&self) -> &str {
        self.name.decode().unwrap_or_default()
    }

    /// Where its root word is, on memory node 0.
    pub const fn root_offset(&self, geometry: &NodeGeometry) -> u64 {
        root_offset(geometry, self.number)
    }

    /// Whether it is what `definition` asks for.
    pub fn is(&self, definition: &Definition<'_>) -> bool {
        self.name() == definition.name
            && self.kind == definition.kind
            && self.parameters_version == definition.parameters_version
            && self.parameters == definition.parameters
            && self.features == definition.features
    }

    /// Features that it needs and this code does not know; 0 if it may be opened.
    pub const fn incompatible_unknown(&self) -> u64 {
        self.features.incompatible & !FEATURES_KNOWN.incompatible
    }
}

/// Whether an index can have this name: 1 to [`NAME_BYTES_MAX`] bytes and no control characters.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && set_text(&mut [0; NAME_BYTES_MAX], name).is_some()
}

/// Where the root word of index `number` is, on memory node 0.
pub const fn root_offset(geometry: &NodeGeometry, number: IndexNumber) -> u64 {
    geometry.catalog_entry(number) + ROOT_OFFSET
}

/// Where the word is that names the ownership table of index `number`, on memory node 0.
pub const fn owners_offset(geometry: &NodeGeometry, number: IndexNumber) -> u64 {
    geometry.catalog_entry(number) + core::mem::offset_of!(Entry, owners) as u64
}

impl Entry {
    /// The entry of `definition`, with its checksums. `None` if its name does not fit or is not text.
    pub fn of(definition: &Definition<'_>) -> Option<Self> {
        let mut entry = Self::ZERO;
        entry.kind = (definition.kind as u16).into();
        entry.parameters_version = definition.parameters_version.into();
        entry.parameters = definition.parameters;
        entry.features_compatible = definition.features.compatible.into();
        entry.features_read_only = definition.features.read_only.into();
        entry.features_incompatible = definition.features.incompatible.into();
        let name = StoredName::of(definition.name)?;
        (entry.name_0_checksum, entry.name_0_bytes, entry.name_0) = (name.checksum, name.bytes, name.name);
        entry.seal();
        Some(entry)
    }

    /// Computes the checksum of what is no name anew.
    pub fn seal(&mut self) {
        self.checksum = self.checksum_of_bytes().into();
    }

    fn checksum_of_bytes(&self) -> u32 {
        CRC.checksum(&self.as_bytes()[size_of::<Le32>()..NAME_0_OFFSET as usize])
    }

    /// The name that counts if the entry has that word.
    pub const fn stored_name(&self, word: EntryWord) -> StoredName {
        if word.has_second_name() {
            StoredName { checksum: self.name_1_checksum, bytes: self.name_1_bytes, name: self.name_1 }
        } else {
            StoredName { checksum: self.name_0_checksum, bytes: self.name_0_bytes, name: self.name_0 }
        }
    }

    /// Decodes entry `number`, whose word is `word`, whatever its state. `Err` says what is wrong with it.
    pub fn decode(&self, number: IndexNumber, word: EntryWord) -> Result<IndexEntry, &'static str> {
        if self.checksum.get() != self.checksum_of_bytes() {
            return Err("checksum of a catalog entry");
        }
        let name = self.stored_name(word);
        if tag_of(name.decode()?) != word.tag() {
            return Err("name and tag of a catalog entry differ");
        }
        Ok(IndexEntry {
            number,
            kind: IndexKind::from_number(self.kind.get()).ok_or("unknown kind of index")?,
            parameters_version: self.parameters_version.get(),
            parameters: self.parameters,
            features: Features {
                compatible: self.features_compatible.get(),
                read_only: self.features_read_only.get(),
                incompatible: self.features_incompatible.get(),
            },
            root: self.root.get(),
            owners: Address::from_bits(self.owners.get()),
            name,
        })
    }
}
