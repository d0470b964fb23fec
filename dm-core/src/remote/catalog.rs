//! Catalog entries as stored: which indexes a pool has, of which kind, with which parameters, and where their roots
//! are.

use crate::layout::fields::Field;
use crate::layout::record::{CRC, Le16, Le32, Le64, cut, mask, record, set_text, text};
use crate::remote::NodeGeometry;
use crate::remote::address::Address;
use crate::remote::features::Features;
use crate::remote::lock_word::RowId;
use crate::remote::row::Member;
use static_assertions::const_assert_eq;
use zerocopy::IntoBytes;

/// Incompatible feature of a catalog entry: its values are slots of items.
pub const FEATURE_ITEMS: u64 = 1 << 0;

/// Entries of a catalog.
pub const ENTRIES: usize = 16;

/// Size of a catalog.
pub const CATALOG_BYTES: u64 = (ENTRIES * Entry::BYTES) as u64;

/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 47;

/// Bytes of a parameter block.
pub const PARAMETER_BYTES: usize = 64;

/// Features of an index that this code knows: [`crate::items`].
pub(crate) const FEATURES_KNOWN: Features = Features { incompatible: FEATURE_ITEMS, ..Features::KNOWN };

/// Offset of the root word in an entry.
pub(crate) const ROOT_OFFSET: u64 = 192;

record! {
    /// A catalog entry as stored: four lines.
    pub struct Entry {
        word: Le64 = "entry word: state, tag, request, row, incarnation",
        checksum: Le32 = "CRC-32C of the bytes 12..192",
        kind: Le16 = "1 = sherman, 2 = smart, 3 = chime, 4 = dolphin, 5 = dex",
        parameters_version: Le16 = "how to read the parameters, per kind",
        name_bytes: u8 = "length of the name, 1..=47",
        name: [u8; 47] = "name, UTF-8, zero-padded",
        parameters: [u8; 64] = "sizes and options chosen at creation, read by the index",
        features_compatible: Le64 = "features its creator knew that readers may ignore",
        features_read_only: Le64 = "features it uses that writers must know",
        features_incompatible: Le64 = "features it uses that readers must know",
        reserved_152: [u8; 40] = "zero",
        root: Le64 = "root word, read by the index; 0 = no root yet",
        owners: Le64 = "address of its ownership table, on memory node 0, of an index whose keys have owners; 0 = none yet",
        reserved_208: [u8; 48] = "zero",
    }
}

const_assert_eq!(Entry::BYTES, 256);

const_assert_eq!(core::mem::offset_of!(Entry, root), ROOT_OFFSET as usize);

/// Number of a catalog entry. Chunk entries name an index by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexNumber(u8);

impl IndexNumber {
    /// No index, or all of them.
    pub const NONE: Self = Self(31);

    /// One more than the largest number.
    pub const COUNT: usize = 32;

    /// The entry of that number.
    pub const fn new(entry: usize) -> Option<Self> {
        if entry < ENTRIES { Some(Self(entry as u8)) } else { None }
    }

    /// From its stored form in five bits: an entry of the catalog, or none.
    pub(crate) const fn from_stored(number: u8) -> Option<Self> {
        if (number as usize) < ENTRIES || number == Self::NONE.0 { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
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
}

/// The first word of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct EntryWord(pub u64);

impl EntryWord {
    /// Unused.
    pub const FREE: Self = Self(0);

    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 3, "state", "0 = free, 1 = creating, 2 = live, 3 = dropped, 4 = erasing"),
        Field::bits(0, 3, 21, "tag", "low bits of the CRC-32C of the name"),
        Field::bits(0, 24, 8, "request", "tells creations, and drops, of one compute node apart"),
        Field::bits(0, 32, 16, "row", "compute-node row of the creator, or of who drops it"),
        Field::bits(0, 48, 16, "incarnation", "incarnation of the creator, or of who drops it"),
    ];

    /// The word of an entry.
    pub const fn new(state: EntryState, tag: u32, request: u8, creator: Member) -> Self {
        Self(
            state as u64
                | (tag as u64 & mask(21)) << 3
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
        Self::new(state, self.tag(), request, by)
    }

    /// Low bits of the hash of the name.
    pub const fn tag(self) -> u32 {
        cut(self.0, 3, 21) as u32
    }

    /// Distinguishes creations of one compute node.
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
}

/// The tag of a name.
pub fn tag_of(name: &str) -> u32 {
    CRC.checksum(name.as_bytes()) & mask(21) as u32
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
    name: Name,
}

impl IndexEntry {
    /// Its name.
    pub fn name(&self) -> &str {
        text(&self.name.field, self.name.bytes).unwrap_or_default()
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    bytes: u8,
    field: [u8; NAME_BYTES_MAX],
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
    /// The entry of `definition`, with its checksum. `None` if its name does not fit or is not text.
    pub fn of(word: EntryWord, definition: &Definition<'_>) -> Option<Self> {
        let mut entry = Self::ZERO;
        entry.word = word.0.into();
        entry.kind = (definition.kind as u16).into();
        entry.parameters_version = definition.parameters_version.into();
        if definition.name.is_empty() {
            return None;
        }
        entry.name_bytes = set_text(&mut entry.name, definition.name)?;
        entry.parameters = definition.parameters;
        entry.features_compatible = definition.features.compatible.into();
        entry.features_read_only = definition.features.read_only.into();
        entry.features_incompatible = definition.features.incompatible.into();
        entry.checksum = entry.checksum_of_bytes().into();
        Some(entry)
    }

    fn checksum_of_bytes(&self) -> u32 {
        CRC.checksum(&self.as_bytes()[12..ROOT_OFFSET as usize])
    }

    /// Decodes the body of entry `number`, whatever its state. `Err` says what is wrong with it.
    pub fn decode(&self, number: IndexNumber) -> Result<IndexEntry, &'static str> {
        if self.checksum.get() != self.checksum_of_bytes() {
            return Err("checksum of a catalog entry");
        }
        let name = Name { bytes: self.name_bytes, field: self.name };
        match text(&name.field, name.bytes) {
            Some(text) if !text.is_empty() => {
                if tag_of(text) != EntryWord(self.word.get()).tag() {
                    return Err("name and tag of a catalog entry differ");
                }
            }
            _ => return Err("name of a catalog entry is not text"),
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
