//! The catalog: which indexes a pool has, of which kind, with which parameters, and where their roots are. Only the
//! catalog of memory node 0 counts.
//!
//! ```text
//!  entry word    63          48 47          32 31        24 23               3 2     0
//!               ┌──────────────┬──────────────┬────────────┬──────────────────┬───────┐
//!               │ incarnation  │ row          │ request    │ tag              │ state │  changed by CAS only
//!               └──────────────┴──────────────┴────────────┴──────────────────┴───────┘
//!
//!        ┌───────────────────────── yielded ──┐
//!        ▼    claim                           │  body written, no rival   drop           unused
//!       FREE ─────────────────────────► CREATING ───────────────► LIVE ──────► DROPPED ──────► ERASING ──► FREE
//!                                                                   ▲             │ in use
//!                                                                   └─────────────┘
//! ```
//!
//! An entry has four lines: what identifies it, its parameters, the features of its creator, and the root word. The
//! root word has a line of its own, since compute nodes change it by CAS and READ it often.
//!
//! There are sixteen entries. So their words are READ in one submit ([`OUTBOX_REQUESTS`]), the catalog is one page, and
//! an index's number fits into the five bits of the chunk table with room to grow.
//!
//! **Reading.** A reader READs the words first, and then the bodies of live entries. A creator writes the body before
//! the word becomes live, and nobody changes the body while the word is live. So a body that is READ after a live word
//! was seen is whole. The reader READs the word again with the body. A checksum guards against an entry that was
//! dropped and created anew in between. No order of lines is assumed.
//!
//! **Two creators of one name.** The *tag* is a hash of the name, and part of the word from the claim on. A creator
//! claims a free entry, WRITEs its body, and then looks at all words again. So of two creators, the one that claimed
//! second sees the other's entry. What a creator does depends on the state of the other entry:
//!
//! - It is live: the creator yields, and uses that index.
//! - It is being created and has a lower number: the creator yields, and starts again.
//! - It is being created and has a higher number: the creator waits until the other has yielded or is live.
//!
//! So the first entry that becomes live wins. Of two creators that see each other, the one with the lower entry number
//! wins. *Both cannot become live:* the first claim precedes the second creator's look, which therefore sees it. *They
//! do not both yield for ever:* only the one with the higher number yields to an entry that is not live. Two different
//! names with one tag (one pair in two million) are in each other's way only while both are being created.
//!
//! A creator that dies leaves CREATING, with its row and incarnation. Others wait for a bounded time, and then report
//! [`CatalogError::Busy`]. When its row has been fenced, a sweep frees the entry.

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

/// How often a creator looks at a rival before it gives up, with [`PAUSE_NS`] between: 20 s, longer than a lease.
const PATIENCE: u32 = 10_000;

/// Time between two looks, in ns.
const PAUSE_NS: u64 = 2_000_000;

/// READs of an entry that changes while it is READ.
const READS_MAX: u32 = 16;

const_assert!(Entry::BYTES <= SCRATCH_BYTES);

/// Why a function of the catalog failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// A request failed.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// There is an index of that name: entry `number`.
    #[error("an index of that name exists (entry {})", number.get())]
    Exists {
        /// The entry.
        number: IndexNumber,
    },
    /// No entry is free.
    #[error("the catalog is full: {ENTRIES} indexes")]
    Full,
    /// Another creation of that name has taken too long.
    #[error("entry {} of the catalog is being created by compute-node row {}, incarnation {incarnation}, which does not finish", number.get(), row.0)]
    Busy {
        /// The entry.
        number: IndexNumber,
        /// The row of its creator.
        row: RowId,
        /// The incarnation of its creator.
        incarnation: u16,
    },
    /// The claim was taken away: this compute node has been fenced.
    #[error("entry {} of the catalog was taken away from its creator", number.get())]
    Lost {
        /// The entry.
        number: IndexNumber,
    },
    /// The name is empty, longer than [`NAME_BYTES_MAX`] bytes, or has control characters.
    #[error("a name has 1 to {NAME_BYTES_MAX} bytes and no control characters")]
    BadName,
    /// An entry that no writer of this engine produces.
    #[error("entry {} of the catalog is corrupt: {what}", number.get())]
    Corrupt {
        /// The entry.
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
    list_of(lane, geometry, scratch, &[EntryState::Live], &mut |entry, _| visit(entry)).await
}

/// As [`list`], of the indexes that a compute node drops or began to drop, each with its entry word, which names that
/// compute node.
pub async fn list_dropped(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
    visit: &mut dyn FnMut(&IndexEntry, EntryWord),
) -> Result<(), CatalogError> {
    list_of(lane, geometry, scratch, &[EntryState::Dropped, EntryState::Erasing], visit).await
}

async fn list_of(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
    states: &[EntryState],
    visit: &mut dyn FnMut(&IndexEntry, EntryWord),
) -> Result<(), CatalogError> {
    let words = read_words(lane, geometry, scratch).await?;
    for (number, word) in numbered(&words) {
        if word.state().is_some_and(|state| states.contains(&state))
            && let Some(entry) = read_live(lane, geometry, number, word, scratch).await?
        {
            visit(&entry, word);
        }
    }
    Ok(())
}

/// The numbers of the indexes that `wanted` accepts, one bit each: see [`visit_for_sweep`].
pub(crate) async fn numbers(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
    wanted: impl Fn(&IndexEntry) -> bool,
) -> Result<u32, OpError> {
    let mut numbers = 0;
    let visit = &mut |entry: &IndexEntry| numbers |= u32::from(wanted(entry)) << entry.number.get();
    visit_for_sweep(lane, geometry, scratch, visit).await?;
    Ok(numbers)
}

/// Calls `visit` with every live index, and with dropped ones, since a drop that meets a user is taken back. For a sweep,
/// which reports what kept it from looking.
pub(crate) async fn visit_for_sweep(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
    visit: &mut dyn FnMut(&IndexEntry),
) -> Result<(), OpError> {
    let states = [EntryState::Live, EntryState::Dropped];
    match list_of(lane, geometry, scratch, &states, &mut |entry, _| visit(entry)).await {
        Ok(()) => Ok(()),
        Err(CatalogError::Verb(error)) => Err(error.into()),
        Err(_) => Err(OpError::harmless(Cause::BadInput("the catalog of the pool cannot be read"))),
    }
}

/// Creates an index: its entry, with a root word of 0. The module's documentation says which of two creators wins.
///
/// `request` distinguishes creations of this compute node. A retry after a failure of unknown effect passes the same
/// number again, and finds its own claim (once the queue pair of the first try is known to be closed). Lanes that
/// create at the same time pass different numbers.
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
            // A first try of unknown effect may have finished.
            let mine = words[usize::from(found.number.get())] == claim.with_state(EntryState::Live);
            let number = found.number;
            return if mine && found.is(definition) { Ok(number) } else { Err(CatalogError::Exists { number }) };
        }
        let own = numbered(&words).find(|(_, word)| *word == claim);
        let creating = numbered(&words).find(|(_, word)| *word != claim && word.creates(tag));
        let free = numbered(&words).find(|(_, word)| *word == EntryWord::FREE);
        let claimed = match (own, creating, free) {
            (Some((number, _)), ..) => Ok(number),
            // A claim beside a rival would only make one of the two yield.
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

/// Begins to drop index `number`, if it is live. Returns its entry word from then on, which is that of no other drop as
/// long as `by` numbers its requests. `None`: it was not live.
///
/// From here on no compute node opens it, and its name is free. What follows is for `by` to do, with [`change`]:
///
/// - If a compute node has it open, it becomes live again.
/// - Otherwise it becomes `Erasing`, its chunks are given back ([`crate::memory::erase`]), and then it becomes `Free`.
///
/// *Why no compute node opens it unseen:* one that opens an index first shows that it does - by chunks of redo records
/// for this index, or by being in the pool without any - and then looks at the entry again. A drop first changes the
/// entry, and then looks for those. So at least one of the two sees the other.
///
/// *Why an index is not erased that became live again:* only the drop that looked knows the entry word from which it
/// becomes `Erasing`. Whoever makes the index live again changes that word, and no later drop writes it again.
///
/// *When another may go on:* when the row of `by` is gone, so that nothing that it posted takes effect any more. It
/// first puts its own name into the entry word, so that one of several does.
///
/// If an index that becomes live again finds that another one has got its name, both have it: a lane that looks for the name
/// finds the one with the lower number.
///
/// Two round trips.
pub async fn drop_index(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    number: IndexNumber,
    (by, request): (Member, u8),
    scratch: usize,
) -> Result<Option<EntryWord>, CatalogError> {
    let words = read_words(lane, geometry, scratch).await?;
    let word = words[usize::from(number.get()) % ENTRIES];
    if word.state() != Some(EntryState::Live) {
        return Ok(None);
    }
    let dropped = word.taken(EntryState::Dropped, request, by);
    Ok((swap(lane, geometry, number, word, dropped).await? == word).then_some(dropped))
}

/// A step of a drop: the entry word from `seen` to `next`. Returns whether it was `seen`. The steps are those of
/// [`drop_index`].
///
/// One round trip.
pub async fn change(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    number: IndexNumber,
    seen: EntryWord,
    next: EntryWord,
) -> Result<bool, CatalogError> {
    Ok(swap(lane, geometry, number, seen, next).await? == seen)
}

/// Frees the entries that a compute node had claimed and not made live when it died. Returns how many.
///
/// Its row must be dead: nothing that it posted can take effect any more.
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
            // Another sweeper may have been faster: the CAS compares the whole word.
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
            // The same creator dropped it and created it anew during this READ, or it is damaged. The next READ
            // decides which.
            Err(error) => what = error,
        }
    }
    Err(CatalogError::Corrupt { number, what })
}

/// WRITEs everything but the entry word, including the root word (0).
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

/// What a creator may do, after it has claimed an entry and then looked at all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// There is no rival. A later one sees the claim.
    Publish,
    /// Yield to this rival.
    Yield((IndexNumber, EntryWord)),
}

/// Waits until it is decided which creator wins. The rules are in the module's documentation.
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
        // The numbers ascend, so the first rival is the lowest.
        let Some(rival) = rivals.next() else { return Ok(Verdict::Publish) };
        if rival.0 < mine || *patience == 0 {
            return Ok(Verdict::Yield(rival));
        }
        *patience -= 1;
        lane.port().call(Request::pause(PAUSE_NS)).await?;
    }
}

/// CAS of an entry word. Returns the word that was there.
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

/// Publishes a root: CAS of the root word of index `number` from `seen` to `root`. Returns the word that is there
/// afterwards.
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
