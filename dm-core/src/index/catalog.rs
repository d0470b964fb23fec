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
use crate::lane::{Lane, word_at};
use crate::layout::record::Le64;
use crate::operation::{Cause, OpError};
use crate::port::OUTBOX_REQUESTS;
use crate::remote::catalog::{
    Definition, ENTRIES, Entry, EntryState, EntryWord, IndexEntry, IndexNumber, NAME_BYTES_MAX, root_offset, tag_of,
};
use crate::remote::lock_word::RowId;
use crate::remote::row::Member;
use crate::remote::{HOME, NodeGeometry, SCRATCH_BYTES};
use crate::verbs::{Label, Request};
use static_assertions::const_assert;
use thiserror::Error;
use zerocopy::IntoBytes;

const_assert!(ENTRIES <= OUTBOX_REQUESTS && ENTRIES * 8 <= SCRATCH_BYTES);

/// How often a creator looks at a rival before it gives up, [`PAUSE_NS`] apart: 20 s, longer than a lease.
const PATIENCE: u32 = 10_000;

/// Time between two looks, in ns.
const PAUSE_NS: u64 = 2_000_000;

/// READs of an entry that changes under the reader.
const READS_MAX: u32 = 16;

const_assert!(Entry::BYTES <= SCRATCH_BYTES);

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

/// The numbers of the live indexes that `wanted` accepts, a bit each; for a sweep, which tells its caller what kept it from
/// looking.
pub(crate) async fn numbers(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
    wanted: impl Fn(&IndexEntry) -> bool,
) -> Result<u32, OpError> {
    let mut numbers = 0;
    let mut visit = |entry: &IndexEntry| numbers |= u32::from(wanted(entry)) << entry.number.get();
    match list(lane, geometry, scratch, &mut visit).await {
        Ok(()) => Ok(numbers),
        Err(CatalogError::Verb(error)) => Err(error.into()),
        Err(_) => Err(OpError::harmless(Cause::BadInput("the catalog of the pool cannot be read"))),
    }
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
