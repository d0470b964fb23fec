//! The catalog: which indexes a pool has, of which kind, with which parameters, and where their roots are. That of
//! memory node 0 counts.
//!
//! ```text
//!  entry word    63          48 47          32 31        24 23               3 2     0
//!               ┌──────────────┬──────────────┬────────────┬──────────────────┬───────┐
//!               │ incarnation  │ row          │ request    │ tag              │ state │  changed by CAS only
//!               └──────────────┴──────────────┴────────────┴──────────────────┴───────┘
//!
//!        ┌───────────────────────── yielded ──┐
//!        ▼    claim                           │  body written, no rival   drop
//!       FREE ─────────────────────────► CREATING ───────────────► LIVE ──────► DROPPED ──► FREE
//! ```
//!
//! An entry is four lines: what identifies it, its parameters, the features of its creator, and - in a line of its
//! own, because it is CASed and READ often - the root word.
//!
//! Sixteen entries: their words are READ in one submit ([`OUTBOX_REQUESTS`]), the catalog is one page, and an index's
//! number fits the chunk table's five bits with room to grow.
//!
//! **Reading.** The words first, then the bodies of live ones. The body was WRITTEN before the word became live and
//! never changes while it is, so a body READ after a live word was seen is whole; the word is READ again with it, and
//! a checksum guards against an entry that was dropped and made anew in between. No order of lines is assumed.
//!
//! **Two creators of one name.** The *tag* is a hash of the name, and part of the word from the claim on. A creator
//! claims a free entry, WRITEs its body, and then looks at all words again. Whoever claims last sees the other:
//!
//! - the other is live: yield, and find it;
//! - the other is still creating and has a lower number: yield, and start over;
//! - the other is still creating and has a higher number: wait until it yielded, or is live.
//!
//! So the first to be live wins, and of two that see each other creating, the one with the lower entry number. Both
//! cannot become live: the second claim precedes the second creator's look, which therefore sees the first. Not both
//! yield for ever: only the higher yields to a rival that is not live. Different names of one tag (one in two million)
//! are in each other's way only while both are being created. A creator that dies leaves CREATING, which names its row
//! and incarnation: others wait their bound, then say [`CatalogError::Busy`]; fencing its row lets a sweep clear it.

use crate::error::VerbError;
use crate::items::parameters::FEATURE_ITEMS;
use crate::lane::Lane;
use crate::layout::fields::Field;
use crate::port::OUTBOX_REQUESTS;
use crate::remote::lock_word::RowId;
use crate::remote::record::{CRC, Le16, Le32, Le64, cut, mask, record, set_text, text};
use crate::remote::rows::{Member, word_at};
use crate::remote::superblock::Features;
use crate::remote::{HOME, NodeGeometry, SCRATCH_BYTES};
use crate::verbs::{Label, Request};
use static_assertions::{const_assert, const_assert_eq};
use thiserror::Error;
use zerocopy::IntoBytes;

/// Entries of a catalog.
pub const ENTRIES: usize = 16;
const_assert!(ENTRIES <= OUTBOX_REQUESTS && ENTRIES * 8 <= SCRATCH_BYTES);

/// Size of a catalog.
pub const CATALOG_BYTES: u64 = (ENTRIES * Entry::BYTES) as u64;

/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 47;

/// Bytes of a parameter block.
pub const PARAMETER_BYTES: usize = 64;

/// Features of an index that this code knows: [`crate::items`].
pub const FEATURES_KNOWN: Features = Features { incompatible: FEATURE_ITEMS, ..Features::KNOWN };

/// Offset of the root word in an entry.
const ROOT_OFFSET: u64 = 192;

/// How often a creator looks at a rival before it gives up, [`PAUSE_NS`] apart: 20 s, longer than a lease.
const PATIENCE: u32 = 10_000;

/// Time between two looks, in ns.
const PAUSE_NS: u64 = 2_000_000;

/// READs of an entry that changes under the reader.
const READS_MAX: u32 = 16;

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
        reserved_200: [u8; 56] = "zero",
    }
}
const_assert_eq!(Entry::BYTES, 256);
const_assert_eq!(core::mem::offset_of!(Entry, root), ROOT_OFFSET as usize);
const_assert!(Entry::BYTES <= SCRATCH_BYTES);

/// Number of a catalog entry: what chunk entries name an index by.
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

    /// As stored in five bits: an entry of the catalog, or none.
    pub(crate) const fn from_stored(number: u8) -> Option<Self> {
        if (number as usize) < ENTRIES || number == Self::NONE.0 { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// The kind of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum IndexKind {
    /// Sherman (SIGMOD 2022).
    Sherman = 1,
    /// SMART (OSDI 2023).
    Smart = 2,
    /// CHIME (SOSP 2024).
    Chime = 3,
    /// Dolphin.
    Dolphin = 4,
    /// DEX (VLDB 2024).
    Dex = 5,
}

impl IndexKind {
    /// Every kind, in numeric order.
    pub const ALL: [Self; 5] = [Self::Sherman, Self::Smart, Self::Chime, Self::Dolphin, Self::Dex];

    /// The kind of that number.
    pub const fn from_number(number: u16) -> Option<Self> {
        match number {
            1 => Some(Self::Sherman),
            2 => Some(Self::Smart),
            3 => Some(Self::Chime),
            4 => Some(Self::Dolphin),
            5 => Some(Self::Dex),
            _ => None,
        }
    }

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sherman => "sherman",
            Self::Smart => "smart",
            Self::Chime => "chime",
            Self::Dolphin => "dolphin",
            Self::Dex => "dex",
        }
    }
}

/// How far an entry has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryState {
    /// Unused.
    Free = 0,
    /// Claimed; its body is being written.
    Creating = 1,
    /// An index.
    Live = 2,
    /// Was an index; its chunks are still to be given back.
    Dropped = 3,
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
        Field::bits(0, 0, 3, "state", "0 = free, 1 = creating, 2 = live, 3 = dropped"),
        Field::bits(0, 3, 21, "tag", "low bits of the CRC-32C of the name"),
        Field::bits(0, 24, 8, "request", "tells creations of one compute node apart"),
        Field::bits(0, 32, 16, "row", "compute-node row of the creator"),
        Field::bits(0, 48, 16, "incarnation", "incarnation of the creator"),
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

    /// Low bits of the hash of the name.
    pub const fn tag(self) -> u32 {
        cut(self.0, 3, 21) as u32
    }

    /// Tells creations of one compute node apart.
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

    fn creates(self, tag: u32) -> bool {
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
    /// How to read the parameters.
    pub parameters_version: u16,
    /// Sizes and options, read by the index.
    pub parameters: [u8; PARAMETER_BYTES],
    /// What it uses that readers and writers have to know.
    pub features: Features,
}

/// A live entry, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Its number.
    pub number: IndexNumber,
    /// Its kind.
    pub kind: IndexKind,
    /// How to read the parameters.
    pub parameters_version: u16,
    /// Sizes and options, read by the index.
    pub parameters: [u8; PARAMETER_BYTES],
    /// What it uses that readers and writers have to know.
    pub features: Features,
    /// The root word as it was.
    pub root: u64,
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

    /// Features it needs that this code does not know; 0 if it may be opened.
    pub const fn incompatible_unknown(&self) -> u64 {
        self.features.incompatible & !FEATURES_KNOWN.incompatible
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    bytes: u8,
    field: [u8; NAME_BYTES_MAX],
}

/// Where the root word of index `number` is, on memory node 0.
pub const fn root_offset(geometry: &NodeGeometry, number: IndexNumber) -> u64 {
    geometry.catalog_entry(number) + ROOT_OFFSET
}

impl Entry {
    /// The entry of `definition`, sealed. `None` if its name does not fit or is not text.
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

    /// Reads the body of entry `number`, whatever its state. `Err` says what is wrong with it.
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
            name,
        })
    }
}

/// Why the catalog did not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// A request failed.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// An index of that name is there; it is entry `number`.
    #[error("an index of that name exists (entry {})", number.get())]
    Exists {
        /// Which.
        number: IndexNumber,
    },
    /// No entry is free.
    #[error("the catalog is full: {ENTRIES} indexes")]
    Full,
    /// Somebody has been creating an index of that name for too long.
    #[error("entry {} of the catalog is being created by compute-node row {}, incarnation {incarnation}, which does not finish", number.get(), row.0)]
    Busy {
        /// Which entry.
        number: IndexNumber,
        /// Whose.
        row: RowId,
        /// Its incarnation.
        incarnation: u16,
    },
    /// The claim was taken away: this compute node has been fenced off.
    #[error("entry {} of the catalog was taken away from its creator", number.get())]
    Lost {
        /// Which.
        number: IndexNumber,
    },
    /// The name is empty, longer than [`NAME_BYTES_MAX`] bytes, or has control characters.
    #[error("a name has 1 to {NAME_BYTES_MAX} bytes and no control characters")]
    BadName,
    /// An entry no writer of ours produces.
    #[error("entry {} of the catalog is corrupt: {what}", number.get())]
    Corrupt {
        /// Which.
        number: IndexNumber,
        /// What is wrong with it.
        what: &'static str,
    },
}

type Words = [EntryWord; ENTRIES];

/// Looks for the live index `name`.
///
/// Two round trips.
pub async fn find(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    name: &str,
    scratch: usize,
) -> Result<Option<IndexEntry>, CatalogError> {
    let words = read_words(lane, geometry, scratch).await?;
    find_in(lane, geometry, &words, name, scratch).await
}

/// Calls `visit` with every live index.
///
/// One round trip and one per index.
pub async fn list(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
    visit: &mut dyn FnMut(&IndexEntry),
) -> Result<(), CatalogError> {
    let words = read_words(lane, geometry, scratch).await?;
    for (number, word) in numbered(&words) {
        if word.state() == Some(EntryState::Live)
            && let Some(entry) = read_live(lane, geometry, number, word, scratch).await?
        {
            visit(&entry);
        }
    }
    Ok(())
}

/// Creates an index: its entry, with a root word of 0. See the module's documentation for who wins of two creators.
///
/// `request` tells creations of this compute node apart: a retry after a failure of unknown effect passes the same
/// number again, and finds its own claim (once the queue pair of the first try is known to be closed); lanes that
/// create at the same time pass different ones.
///
/// Five round trips if nobody else creates: look, claim, body, look again, publish.
pub async fn create(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    creator: Member,
    request: u8,
    definition: &Definition<'_>,
    scratch: usize,
) -> Result<IndexNumber, CatalogError> {
    let tag = tag_of(definition.name);
    let claim = EntryWord::new(EntryState::Creating, tag, request, creator);
    if Entry::of(claim, definition).is_none() {
        return Err(CatalogError::BadName);
    }
    let mut patience = PATIENCE;
    let mut rival;
    loop {
        let words = read_words(lane, geometry, scratch).await?;
        if let Some(found) = find_in(lane, geometry, &words, definition.name, scratch).await? {
            // A first try whose outcome was unknown may have gone all the way.
            let mine = words[usize::from(found.number.get())] == claim.with_state(EntryState::Live);
            let number = found.number;
            return if mine && found.is(definition) { Ok(number) } else { Err(CatalogError::Exists { number }) };
        }
        let own = numbered(&words).find(|(_, word)| *word == claim);
        let creating = numbered(&words).find(|(_, word)| *word != claim && word.creates(tag));
        let free = numbered(&words).find(|(_, word)| *word == EntryWord::FREE);
        let claimed = match (own, creating, free) {
            (Some((number, _)), ..) => Ok(number),
            // To claim beside a rival would only make one of the two yield.
            (None, Some(rival), _) => Err(rival),
            (None, None, None) => return Err(CatalogError::Full),
            (None, None, Some((number, _))) => match swap(lane, geometry, number, EntryWord::FREE, claim).await? {
                EntryWord::FREE => Ok(number),
                taken => Err((number, taken)),
            },
        };
        match claimed {
            Ok(number) => {
                write_body(lane, geometry, number, claim, definition, scratch).await?;
                let verdict = judge(lane, geometry, number, definition.name, &mut patience, scratch).await?;
                let next = match verdict {
                    Verdict::Publish => claim.with_state(EntryState::Live),
                    Verdict::Yield(_) => EntryWord::FREE,
                };
                if swap(lane, geometry, number, claim, next).await? != claim {
                    return Err(CatalogError::Lost { number });
                }
                match verdict {
                    Verdict::Publish => return Ok(number),
                    Verdict::Yield(to) => rival = to,
                }
            }
            Err(other) => rival = other,
        }
        if patience == 0 {
            let (number, word) = rival;
            return Err(CatalogError::Busy { number, row: word.row(), incarnation: word.incarnation() });
        }
        patience -= 1;
        lane.port().call(Request::pause(PAUSE_NS)).await?;
    }
}

/// Marks index `number` dropped, if its word is still that of a live one. Answers whether it was.
///
/// Nobody may have it open. Its name is free at once; its number is not, until its chunks are given back.
///
/// Two round trips.
pub async fn drop_index(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    number: IndexNumber,
    scratch: usize,
) -> Result<bool, CatalogError> {
    let words = read_words(lane, geometry, scratch).await?;
    let word = words[usize::from(number.get()) % ENTRIES];
    if word.state() != Some(EntryState::Live) {
        return Ok(false);
    }
    Ok(swap(lane, geometry, number, word, word.with_state(EntryState::Dropped)).await? == word)
}

/// Makes the number of a dropped index free again, after all its chunks are given back.
///
/// Two round trips.
pub async fn free_number(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    number: IndexNumber,
    scratch: usize,
) -> Result<bool, CatalogError> {
    let words = read_words(lane, geometry, scratch).await?;
    let word = words[usize::from(number.get()) % ENTRIES];
    if word.state() != Some(EntryState::Dropped) {
        return Ok(false);
    }
    Ok(swap(lane, geometry, number, word, EntryWord::FREE).await? == word)
}

/// Frees the entries that a compute node had claimed and not made live when it died. Answers how many.
///
/// Its row must be dead: nothing it posted can take effect any more.
///
/// One round trip, and one per entry.
pub async fn sweep_claims(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    row: RowId,
    incarnation: u32,
    scratch: usize,
) -> Result<u32, CatalogError> {
    let words = read_words(lane, geometry, scratch).await?;
    let mut freed = 0;
    for (number, word) in numbered(&words) {
        let creating = word.state() == Some(EntryState::Creating);
        if creating && word.row() == row && u32::from(word.incarnation()) == incarnation {
            // Another sweeper may have been faster: the CAS is of the whole word.
            freed += u32::from(swap(lane, geometry, number, word, EntryWord::FREE).await? == word);
        }
    }
    Ok(freed)
}

fn numbered(words: &Words) -> impl Iterator<Item = (IndexNumber, EntryWord)> + '_ {
    words.iter().enumerate().filter_map(|(entry, word)| Some((IndexNumber::new(entry)?, *word)))
}

async fn read_words(lane: &Lane<'_>, geometry: &NodeGeometry, scratch: usize) -> Result<Words, CatalogError> {
    let mut words = [EntryWord::FREE; ENTRIES];
    for (number, _) in numbered(&words) {
        let local = scratch + usize::from(number.get()) * 8;
        lane.port().push(Request::read(Label::Super, HOME, geometry.catalog_entry(number), 8, local));
    }
    lane.port().submit().await?;
    for (entry, word) in words.iter_mut().enumerate() {
        *word = EntryWord(word_at(lane, scratch + entry * 8));
    }
    if let Some((number, _)) = numbered(&words).find(|(_, word)| word.state().is_none()) {
        return Err(CatalogError::Corrupt { number, what: "unknown state of a catalog entry" });
    }
    Ok(words)
}

async fn find_in(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    words: &Words,
    name: &str,
    scratch: usize,
) -> Result<Option<IndexEntry>, CatalogError> {
    let tag = tag_of(name);
    for (number, word) in numbered(words) {
        if word.state() == Some(EntryState::Live)
            && word.tag() == tag
            && let Some(entry) = read_live(lane, geometry, number, word, scratch).await?
            && entry.name() == name
        {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// The entry whose live word was seen; `None` if it has been dropped since.
async fn read_live(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    number: IndexNumber,
    seen: EntryWord,
    scratch: usize,
) -> Result<Option<IndexEntry>, CatalogError> {
    let mut what = "";
    for _ in 0..READS_MAX {
        let read = Request::read(Label::Super, HOME, geometry.catalog_entry(number), Entry::BYTES, scratch);
        lane.port().call(read).await?;
        let Some(entry) = lane.port().with(|bytes| bytes.get(scratch..).and_then(Entry::from_prefix)) else {
            return Err(CatalogError::Corrupt { number, what: "scratch too small for a catalog entry" });
        };
        if entry.word.get() != seen.0 {
            return Ok(None);
        }
        match entry.decode(number) {
            Ok(entry) => return Ok(Some(entry)),
            // Dropped and made anew by the same creator within this READ, or damaged: the next READ tells.
            Err(error) => what = error,
        }
    }
    Err(CatalogError::Corrupt { number, what })
}

/// WRITEs everything but the entry word, the root word (0) included.
async fn write_body(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    number: IndexNumber,
    claim: EntryWord,
    definition: &Definition<'_>,
    scratch: usize,
) -> Result<(), CatalogError> {
    const WORD: usize = size_of::<Le64>();
    let placed = lane.port().with(|bytes| {
        let place = bytes.get_mut(scratch..scratch + Entry::BYTES)?;
        place.copy_from_slice(Entry::of(claim, definition)?.as_bytes());
        Some(())
    });
    placed.ok_or(CatalogError::Corrupt { number, what: "scratch too small for a catalog entry" })?;
    let offset = geometry.catalog_entry(number) + WORD as u64;
    let write = Request::write(Label::Super, HOME, offset, Entry::BYTES - WORD, scratch + WORD);
    lane.port().call(write).await?;
    Ok(())
}

/// What a creator may do, having claimed an entry and looked at all others after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// No rival is there; one that comes later sees the claim.
    Publish,
    /// This rival goes first.
    Yield((IndexNumber, EntryWord)),
}

/// Waits until it is clear who goes first; the rules are in the module's documentation.
async fn judge(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    mine: IndexNumber,
    name: &str,
    patience: &mut u32,
    scratch: usize,
) -> Result<Verdict, CatalogError> {
    let tag = tag_of(name);
    loop {
        let words = read_words(lane, geometry, scratch).await?;
        if let Some(entry) = find_in(lane, geometry, &words, name, scratch).await? {
            return Ok(Verdict::Yield((entry.number, words[usize::from(entry.number.get())])));
        }
        let mut rivals = numbered(&words).filter(|(number, word)| *number != mine && word.creates(tag));
        // In ascending order: the first is the lowest.
        let Some(rival) = rivals.next() else { return Ok(Verdict::Publish) };
        if rival.0 < mine || *patience == 0 {
            return Ok(Verdict::Yield(rival));
        }
        *patience -= 1;
        lane.port().call(Request::pause(PAUSE_NS)).await?;
    }
}

/// CAS of an entry word; answers what was there.
async fn swap(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    number: IndexNumber,
    from: EntryWord,
    to: EntryWord,
) -> Result<EntryWord, CatalogError> {
    let cas = Request::cas(Label::Super, HOME, geometry.catalog_entry(number), from.0, to.0);
    Ok(EntryWord(lane.port().call(cas).await?.value))
}

/// Publishes a root: CAS of the root word of index `number` from `seen` to `root`. Answers the word it then has.
///
/// One round trip.
pub async fn swap_root(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    number: IndexNumber,
    seen: u64,
    root: u64,
) -> Result<u64, VerbError> {
    let cas = Request::cas(Label::Root, HOME, root_offset(geometry, number), seen, root);
    let found = lane.port().call(cas).await?.value;
    Ok(if found == seen { root } else { found })
}
