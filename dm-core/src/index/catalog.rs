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
//!       FREE ─────────────────────────► CREATING ──────────────► LIVE ───────► DROPPED ──────► ERASING ──► FREE
//!                                                                 │ ▲             │ in use
//!                                                        rename   ▼ │             │
//!                                                        RENAMING ──┴─────────────┘
//! ```
//!
//! An entry has four lines: its parameters with the features of its creator, and a line with the root word, which has a
//! name on either side. Compute nodes change the root word by CAS and READ it often. Nobody WRITEs it once the entry is
//! live. The words of all entries lie side by side in front of the entries: a READ brings [`WINDOW`] of them.
//!
//! **Reading.** A reader READs the words first, and then what they stand for. A creator writes the body before the word
//! becomes live, and nobody changes what counts of the body while the word is live. So a body that is READ after a live
//! word was seen is whole. The reader READs the word again with the body. Checksums guard against an entry that was
//! dropped and created anew in between. No order of lines is assumed.
//!
//! **Two creators of one name.** The *tag* is a hash of the name, and part of the word from the claim on. A creator
//! claims a free entry, and then looks at all words again. So of two creators, the one that claimed second sees the
//! other's entry. What a creator does depends on the state of the other entry:
//!
//! - It is live: the creator yields, and uses that index.
//! - It is being created and has a lower number: the creator yields, and starts again.
//! - It is being created and has a higher number: the creator waits until the other has yielded or is live.
//!
//! So the first entry that becomes live wins. Of two creators that see each other, the one with the lower entry number
//! wins. *Both cannot become live:* the first claim precedes the second creator's look, which therefore sees it. *They
//! do not both yield for ever:* only the one with the higher number yields to an entry that is not live. Two different
//! names with one tag (one pair in a million) are in each other's way only while both are being created.
//!
//! **A rename** claims the new name as a creator does, with an entry that will never be live. While that claim stands,
//! nobody else makes an entry of this name live. Then it changes the index's own word to RENAMING, WRITEs the name that
//! does not count, and makes the word live with the other name and its tag. Last, it frees the claim. Those who have
//! the index open do not notice: they know it by its number. Those who open it meanwhile find it by its old name until
//! the word changes, and by the new one from then on.
//!
//! *A name that moves is not missed.* A look takes several READs, so it may see the index's word before the name has
//! moved there, and the claim's word after it has been freed. Therefore a creator that saw no claim looks again: the
//! claim was freed after the name had moved, so the second look finds the name. *The name that counts is never torn:* a rename
//! writes the other one, and only one compute node at a time may, since it made the word RENAMING.
//!
//! **Deaths.** A compute node that dies leaves CREATING or RENAMING, with its row and incarnation. Others wait for a
//! bounded time, and then report [`CatalogError::Busy`]. When its row is gone, [`put_back`] takes back what it did:
//! nothing of a claim was ever seen, and a name that was being written does not count.

use crate::error::VerbError;
use crate::lane::{Lane, word_at};
use crate::layout::LINE_BYTES;
use crate::layout::record::Le64;
use crate::operation::{Cause, OpError};
use crate::remote::catalog::{
    Definition, Entry, EntryState, EntryWord, IndexEntry, IndexNumber, IndexSet, NAME_BYTES_MAX, StoredName,
    root_offset, tag_of,
};
use crate::remote::lock_word::RowId;
use crate::remote::row::Member;
use crate::remote::{HOME, NodeGeometry, SCRATCH_BYTES};
use crate::verbs::{Label, Request};
use static_assertions::const_assert;
use thiserror::Error;
use zerocopy::IntoBytes;

/// Entry words that one READ brings.
pub const WINDOW: usize = SCRATCH_BYTES / WORD_BYTES;

const WORD_BYTES: usize = size_of::<Le64>();

/// Where a body goes in the scratch, behind its word.
const BODY_AT: usize = LINE_BYTES;

/// How often a creator looks at a rival before it gives up, with [`PAUSE_NS`] between: 20 s, longer than a lease.
const PATIENCE: u32 = 10_000;

/// Time between two looks, in ns.
const PAUSE_NS: u64 = 2_000_000;

/// READs of an entry that changes while it is READ.
const READS_MAX: u32 = 16;

const_assert!(BODY_AT + Entry::BYTES <= SCRATCH_BYTES);

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
    #[error("the catalog is full: {indexes} indexes")]
    Full {
        /// Entries of the catalog.
        indexes: u16,
    },
    /// Another creation of that name, or another rename of that index, has taken too long.
    #[error(
        "entry {} of the catalog is being created or renamed by compute-node row {}, incarnation {incarnation}, which does not \
         finish; if it died, dm repair clears it",
        number.get(),
        row.0
    )]
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

/// Looks for the live index `name`.
///
/// One round trip per [`WINDOW`] entries, and two more if there is one.
pub async fn find(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    name: &str,
    scratch: usize,
) -> Result<Option<IndexEntry>, CatalogError> {
    let tag = tag_of(name);
    let mut named = IndexSet::default();
    let mut see = |number, word: EntryWord| {
        if word.names(tag) {
            named.insert(number);
        }
    };
    look(lane, geometry, scratch, &mut see).await?;
    Ok(find_in(lane, geometry, &named, name, scratch).await?.map(|(entry, _)| entry))
}

/// Calls `visit` with every live index.
///
/// One round trip per [`WINDOW`] entries, and two per index.
pub async fn list(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
    visit: &mut dyn FnMut(&IndexEntry),
) -> Result<(), CatalogError> {
    list_of(lane, geometry, scratch, EntryWord::is_open, &mut |entry, _| visit(entry)).await
}

/// As [`list`], of the indexes that a compute node drops or began to drop, each with its entry word, which names that
/// compute node.
pub async fn list_dropped(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
    visit: &mut dyn FnMut(&IndexEntry, EntryWord),
) -> Result<(), CatalogError> {
    let wanted = |word: EntryWord| matches!(word.state(), Some(EntryState::Dropped | EntryState::Erasing));
    list_of(lane, geometry, scratch, wanted, visit).await
}

async fn list_of(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
    wanted: fn(EntryWord) -> bool,
    visit: &mut dyn FnMut(&IndexEntry, EntryWord),
) -> Result<(), CatalogError> {
    let mut found = IndexSet::default();
    let mut see = |number, word| {
        if wanted(word) {
            found.insert(number);
        }
    };
    look(lane, geometry, scratch, &mut see).await?;
    for number in found.iter() {
        if let Some((entry, word)) = read(lane, geometry, number, wanted, scratch).await? {
            visit(&entry, word);
        }
    }
    Ok(())
}

/// The indexes that `wanted` accepts: live ones, and dropped ones, since a drop that meets a user is taken back. For a
/// sweep, which reports what kept it from looking.
pub(crate) async fn numbers(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
    wanted: impl Fn(&IndexEntry) -> bool,
) -> Result<IndexSet, OpError> {
    let mut numbers = IndexSet::default();
    let mut visit = |entry: &IndexEntry, _| {
        if wanted(entry) {
            numbers.insert(entry.number);
        }
    };
    let may_be_open = |word: EntryWord| word.is_open() || word.state() == Some(EntryState::Dropped);
    match list_of(lane, geometry, scratch, may_be_open, &mut visit).await {
        Ok(()) => Ok(numbers),
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
/// Three round trips if nobody else creates - claim, body, publish - and three looks, each of one per [`WINDOW`]
/// entries.
pub async fn create(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    creator: Member,
    request: u8,
    definition: &Definition<'_>,
    scratch: usize,
) -> Result<IndexNumber, CatalogError> {
    if Entry::of(definition).is_none() {
        return Err(CatalogError::BadName);
    }
    let claim = EntryWord::new(EntryState::Creating, tag_of(definition.name), request, creator);
    let number = match reserve(lane, geometry, claim, definition.name, scratch).await? {
        Reserved::Claimed(number) => number,
        // A first try of unknown effect may have finished.
        Reserved::Taken(entry, word) if word == claim.with_state(EntryState::Live) && entry.is(definition) => {
            return Ok(entry.number);
        }
        Reserved::Taken(entry, _) => return Err(CatalogError::Exists { number: entry.number }),
    };
    let entry = Entry::of(definition).ok_or(CatalogError::BadName)?;
    place(lane, number, entry.as_bytes(), scratch)?;
    let write = Request::write(Label::Super, HOME, geometry.catalog_entry(number), Entry::BYTES, scratch);
    lane.port().call(write).await?;
    if swap(lane, geometry, number, claim, claim.with_state(EntryState::Live)).await? != claim {
        return Err(CatalogError::Lost { number });
    }
    Ok(number)
}

/// Gives index `number`, which is called `from`, the name `to`. Returns whether there was such an index.
///
/// `by` renames, and numbers its requests as in [`create`]; a retry after a failure of unknown effect may find that the
/// index has its new name.
///
/// Seven round trips if nobody else changes the catalog - claim, READ word and entry, rename, name, publish, free the
/// claim - and three looks as in [`create`].
pub async fn rename(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    (by, request): (Member, u8),
    number: IndexNumber,
    (from, to): (&str, &str),
    scratch: usize,
) -> Result<bool, CatalogError> {
    if StoredName::of(to).is_none() {
        return Err(CatalogError::BadName);
    }
    let claim = EntryWord::new(EntryState::Creating, tag_of(to), request, by);
    let claimed = match reserve(lane, geometry, claim, to, scratch).await? {
        Reserved::Claimed(claimed) => claimed,
        Reserved::Taken(entry, _) if entry.number == number => return Ok(true),
        Reserved::Taken(entry, _) => return Err(CatalogError::Exists { number: entry.number }),
    };
    let renamed = rename_claimed(lane, geometry, (by, request), number, (from, to), scratch).await;
    match renamed {
        // It is not known what happened: `put_back` decides when nothing can happen any more.
        Err(CatalogError::Verb(_)) => {}
        _ => {
            swap(lane, geometry, claimed, claim, EntryWord::FREE).await?;
        }
    }
    renamed
}

/// The part of a rename while the claim of the new name stands.
async fn rename_claimed(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    (by, request): (Member, u8),
    number: IndexNumber,
    (from, to): (&str, &str),
    scratch: usize,
) -> Result<bool, CatalogError> {
    let mut patience = PATIENCE;
    let renaming = loop {
        match read(lane, geometry, number, EntryWord::is_open, scratch).await? {
            Some((entry, word)) if entry.name() == from => {
                let renaming = word.taken(EntryState::Renaming, request, by);
                if word.state() == Some(EntryState::Live) && swap(lane, geometry, number, word, renaming).await? == word
                {
                    break renaming;
                }
                wait(lane, &mut patience, (number, word)).await?;
            }
            _ => return Ok(false),
        }
    };
    let name = StoredName::of(to).ok_or(CatalogError::BadName)?;
    place(lane, number, name.as_bytes(), scratch)?;
    let offset = geometry.catalog_entry(number) + renaming.other_name_offset();
    lane.port().call(Request::write(Label::Super, HOME, offset, StoredName::BYTES, scratch)).await?;
    let live = renaming.renamed(tag_of(to));
    if swap(lane, geometry, number, renaming, live).await? == renaming {
        Ok(true)
    } else {
        Err(CatalogError::Lost { number })
    }
}

/// What came of the claim of a name.
enum Reserved {
    /// This entry is claimed, and nobody else makes an index of this name live before the claim is gone.
    Claimed(IndexNumber),
    /// There is an index of this name.
    Taken(IndexEntry, EntryWord),
}

/// Claims `name`. The rules are in the module's documentation.
async fn reserve(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    claim: EntryWord,
    name: &str,
    scratch: usize,
) -> Result<Reserved, CatalogError> {
    let mut patience = PATIENCE;
    loop {
        let mut seen = Seen::default();
        look(lane, geometry, scratch, &mut |number, word| seen.note(claim, number, word)).await?;
        if let Some((entry, word)) = find_in(lane, geometry, &seen.named, name, scratch).await? {
            return Ok(Reserved::Taken(entry, word));
        }
        let claimed = match (seen.own, seen.rival, seen.free) {
            (Some(number), ..) => Ok(number),
            // A claim beside a rival would only make one of the two yield.
            (None, Some(rival), _) => Err(rival),
            (None, None, None) => return Err(CatalogError::Full { indexes: geometry.index_count }),
            (None, None, Some(number)) => match swap(lane, geometry, number, EntryWord::FREE, claim).await? {
                EntryWord::FREE => Ok(number),
                taken => Err((number, taken)),
            },
        };
        let rival = match claimed {
            Ok(number) => match judge(lane, geometry, claim, (number, name), &mut patience, scratch).await? {
                None => return Ok(Reserved::Claimed(number)),
                Some(rival) => {
                    if swap(lane, geometry, number, claim, EntryWord::FREE).await? != claim {
                        return Err(CatalogError::Lost { number });
                    }
                    rival
                }
            },
            Err(rival) => rival,
        };
        wait(lane, &mut patience, rival).await?;
    }
}

/// Waits for `other`, or reports it.
async fn wait(
    lane: &Lane<'_>,
    patience: &mut u32,
    (number, word): (IndexNumber, EntryWord),
) -> Result<(), CatalogError> {
    if *patience == 0 {
        return Err(CatalogError::Busy { number, row: word.row(), incarnation: word.incarnation() });
    }
    *patience -= 1;
    lane.port().call(Request::pause(PAUSE_NS)).await?;
    Ok(())
}

/// What a look shows of one name.
#[derive(Default)]
struct Seen {
    /// Indexes with the name's tag.
    named: IndexSet,
    /// This compute node's own claim.
    own: Option<IndexNumber>,
    /// The first claim of another one.
    rival: Option<(IndexNumber, EntryWord)>,
    /// The first free entry.
    free: Option<IndexNumber>,
}

impl Seen {
    fn note(&mut self, claim: EntryWord, number: IndexNumber, word: EntryWord) {
        if word == claim {
            self.own.get_or_insert(number);
        } else if word.creates(claim.tag()) {
            self.rival.get_or_insert((number, word));
        } else if word == EntryWord::FREE {
            self.free.get_or_insert(number);
        } else if word.names(claim.tag()) {
            self.named.insert(number);
        }
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
/// finds the one with the lower number. A rename gives one of them another name.
///
/// Two round trips. While it is being renamed, this waits.
pub async fn drop_index(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    number: IndexNumber,
    (by, request): (Member, u8),
    scratch: usize,
) -> Result<Option<EntryWord>, CatalogError> {
    let mut patience = PATIENCE;
    loop {
        let word = read_word(lane, geometry, number, scratch).await?;
        match word.state() {
            Some(EntryState::Live) => {
                let dropped = word.taken(EntryState::Dropped, request, by);
                if swap(lane, geometry, number, word, dropped).await? == word {
                    return Ok(Some(dropped));
                }
            }
            Some(EntryState::Renaming) => {}
            _ => return Ok(None),
        }
        wait(lane, &mut patience, (number, word)).await?;
    }
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

/// Calls `visit` with every entry that a compute node claimed, or began to rename, and its word, which names that
/// compute node.
///
/// One round trip per [`WINDOW`] entries.
pub async fn list_begun(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
    visit: &mut dyn FnMut(IndexNumber, EntryWord),
) -> Result<(), CatalogError> {
    let mut see = |number, word: EntryWord| {
        if matches!(word.state(), Some(EntryState::Creating | EntryState::Renaming)) {
            visit(number, word);
        }
    };
    look(lane, geometry, scratch, &mut see).await
}

/// Takes back what a departed compute node began: a claim becomes free, an index that was being renamed keeps its name.
/// Returns whether it did: of several that try, one does.
///
/// The row that `word` names must be gone, or be that of `by`, which does nothing with this entry meanwhile: nothing
/// that it posted can take effect any more.
///
/// One round trip.
pub async fn put_back(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    (number, word): (IndexNumber, EntryWord),
    (by, request): (Member, u8),
) -> Result<bool, CatalogError> {
    let next = match word.state() {
        Some(EntryState::Creating) => EntryWord::FREE,
        Some(EntryState::Renaming) => word.taken(EntryState::Live, request, by),
        _ => return Ok(false),
    };
    change(lane, geometry, number, word, next).await
}

/// READs all entry words.
async fn look(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    scratch: usize,
    see: &mut dyn FnMut(IndexNumber, EntryWord),
) -> Result<(), CatalogError> {
    let mut numbers = (0..usize::from(geometry.index_count)).filter_map(IndexNumber::new).peekable();
    while let Some(&first) = numbers.peek() {
        let bytes = (usize::from(geometry.index_count - first.get()) * WORD_BYTES).min(SCRATCH_BYTES);
        lane.port().call(Request::read(Label::Super, HOME, geometry.catalog_word(first), bytes, scratch)).await?;
        for at in (0..bytes).step_by(WORD_BYTES) {
            let (Some(number), word) = (numbers.next(), EntryWord(word_at(lane, scratch + at))) else { break };
            if word.state().is_none() {
                return Err(CatalogError::Corrupt { number, what: "unknown state of a catalog entry" });
            }
            see(number, word);
        }
    }
    Ok(())
}

/// Of the indexes in `named`, the first that is called `name`.
async fn find_in(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    named: &IndexSet,
    name: &str,
    scratch: usize,
) -> Result<Option<(IndexEntry, EntryWord)>, CatalogError> {
    for number in named.iter() {
        if let Some((entry, word)) = read(lane, geometry, number, EntryWord::is_open, scratch).await?
            && entry.name() == name
        {
            return Ok(Some((entry, word)));
        }
    }
    Ok(None)
}

async fn read_word(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    number: IndexNumber,
    scratch: usize,
) -> Result<EntryWord, CatalogError> {
    lane.port().call(Request::read(Label::Super, HOME, geometry.catalog_word(number), WORD_BYTES, scratch)).await?;
    Ok(EntryWord(word_at(lane, scratch)))
}

/// The entry of that number, if `wanted` accepts its word.
async fn read(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    number: IndexNumber,
    wanted: fn(EntryWord) -> bool,
    scratch: usize,
) -> Result<Option<(IndexEntry, EntryWord)>, CatalogError> {
    let mut what = "its word changes again and again";
    let mut seen = read_word(lane, geometry, number, scratch).await?;
    for _ in 0..READS_MAX {
        if !wanted(seen) {
            return Ok(None);
        }
        let body = Request::read(Label::Super, HOME, geometry.catalog_entry(number), Entry::BYTES, scratch + BODY_AT);
        lane.port().push(Request::read(Label::Super, HOME, geometry.catalog_word(number), WORD_BYTES, scratch));
        lane.port().push(body);
        lane.port().submit().await?;
        let word = EntryWord(word_at(lane, scratch));
        let Some(entry) = lane.port().with(|bytes| bytes.get(scratch + BODY_AT..).and_then(Entry::from_prefix)) else {
            return Err(CatalogError::Corrupt { number, what: "scratch too small for a catalog entry" });
        };
        if word == seen {
            match entry.decode(number, word) {
                Ok(entry) => return Ok(Some((entry, word))),
                // The same creator dropped it and created it anew during this READ, or it is damaged. The next READ
                // decides which.
                Err(error) => what = error,
            }
        }
        seen = word;
    }
    Err(CatalogError::Corrupt { number, what })
}

/// Waits until it is decided whether the claim `mine` of a name wins. `None`: it does. Otherwise the entry to yield to.
/// The rules are in the module's documentation.
async fn judge(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    claim: EntryWord,
    (mine, name): (IndexNumber, &str),
    patience: &mut u32,
    scratch: usize,
) -> Result<Option<(IndexNumber, EntryWord)>, CatalogError> {
    let mut again = false;
    loop {
        let mut seen = Seen::default();
        look(lane, geometry, scratch, &mut |number, word| seen.note(claim, number, word)).await?;
        if let Some((entry, word)) = find_in(lane, geometry, &seen.named, name, scratch).await? {
            return Ok(Some((entry.number, word)));
        }
        match seen.rival {
            // A name that moved meanwhile is found by the second look.
            None if again => return Ok(None),
            None => again = true,
            // This is the lowest rival.
            Some(rival) if rival.0 < mine || *patience == 0 => return Ok(Some(rival)),
            Some(rival) => {
                again = false;
                wait(lane, patience, rival).await?;
            }
        }
    }
}

/// Copies what is going to be WRITTEN to entry `number` into the scratch.
fn place(lane: &Lane<'_>, number: IndexNumber, what: &[u8], scratch: usize) -> Result<(), CatalogError> {
    let placed = lane.port().with(|bytes| {
        bytes.get_mut(scratch..scratch + what.len())?.copy_from_slice(what);
        Some(())
    });
    placed.ok_or(CatalogError::Corrupt { number, what: "scratch too small for a catalog entry" })
}

/// CAS of an entry word. Returns the word that was there.
async fn swap(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    number: IndexNumber,
    from: EntryWord,
    to: EntryWord,
) -> Result<EntryWord, CatalogError> {
    let cas = Request::cas(Label::Super, HOME, geometry.catalog_word(number), from.0, to.0);
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
