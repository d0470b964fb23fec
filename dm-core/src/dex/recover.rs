//! Recovery of an entry: what a dead owner had acknowledged comes into its pages, and only then is anybody admitted.
//!
//! ```text
//!  look_after: owner fenced and DEAD, word RECOVERING by this compute node
//!      │
//!     (a) torn pages get their last images                                         [`super::restore`]
//!     (b) ring of the log row: description, head, lines ──► records of the entry ──► leaves      [`Leaves::apply`]
//!     (c) everything that this changed is flushed, all completions Ok
//!     (d) CAS: OWNED by this compute node ──► admitted
//! ```
//!
//! **It may end anywhere, and begin again.** The ring of a fenced compute node does not change. A leaf's LSN says which
//! records are in the leaf ([`is_due`]). Images of the finder's own flushes have a greater epoch than the owner's. So the
//! next finder repeats all of it, and comes to the same leaves.
//!
//! **Why (c) is before (d).** From (d) on the word names this compute node as the owner, and with it this compute node's
//! ring. If it dies then, the dead owner's ring is replayed by nobody.
//!
//! **Why nobody is admitted before (d).** What an admitted operation changes is logged in this compute node's ring. As
//! long as the word says RECOVERING, the next finder replays another one.
//!
//! **Which pages (c) waits for.** A page that a record has changed is noted as dirty from the line on that this compute
//! node's own log assigns next ([`Log::floor`]). This holds the own head for the time of the recovery, and takes no line.
//! Behind (b), every such page is noted with a line that is at most the next one. So (c) flushes until the oldest page
//! that is not in the pool is noted with a later line. Changes of other entries take lines, so these go on meanwhile
//! and do not keep (c) from ending.
//!
//! Round trips: those of (a); two for the ring; one for as many lines as the scratch has room for; what leaves take, a READ
//! for each that is not cached; one flush per leaf that was changed; two for (d).

use super::flush::{self, PageFormat};
use super::log::record::{Change, RECORD_LINES_MAX, RecordHeader, Seal};
use super::log::replay::{Next, Replay};
use super::log::ring::{Ring, RingDescription, RingHead, RingOwner};
use super::log::staging::Log;
use super::ownership::partition::Tenure;
use super::ownership::steps::{Entry, TableSite};
use super::ownership::{Owner, OwnerWord};
use super::restore::{self, TornFormat};
use crate::lane::Lane;
use crate::layout::LINE_BYTES;
use crate::mutants::{Mutant, planted};
use crate::operation::span::Span;
use crate::operation::{Cause, OpError};
use crate::pages::{Flush, Lsn, Refused};
use crate::remote::address::Address;
use crate::remote::catalog::IndexNumber;
use crate::remote::lock_word::RowId;
use crate::remote::row::{Row, RowState, RowWord};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, Request};
use core::future::Future;
use core::ops::Range;
use static_assertions::const_assert;

/// Scratch for reading a ring: at least one of the longest records. More is fewer round trips.
pub const LINES_BYTES_MIN: usize = RECORD_LINES_MAX * LINE_BYTES;

const_assert!(LINES_BYTES_MIN >= Row::BYTES && LINES_BYTES_MIN >= RingDescription::BYTES + RingHead::BYTES);

/// How long a lane pauses that waits for other lanes' flushes, in ns.
const FLUSHES_NS: u64 = 10_000;

/// A record that is replayed. Its key and value are in the lane's scratch, until the next one is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Its LSN, with which the leaf is stamped.
    pub lsn: Lsn,
    /// The key.
    pub key: Span,
    /// The value that the key has now; `None`: it has none.
    pub value: Option<Span>,
}

/// The leaves of an entry, as far as a replay changes them. This compute node is the only one that writes them.
pub trait Leaves {
    /// If [`is_due`] says so of the leaf of the record's key: makes the leaf as the record says, splits it if need be, and
    /// stamps it with the record's LSN. The page store notes the leaf as dirty from [`Log::floor`] on. No log record is made.
    ///
    /// The lane keeps the scratch of the ring's lines as it is.
    fn apply<'a>(&'a self, lane: &'a Lane<'_>, record: &'a Replayed) -> impl Future<Output = Result<(), OpError>> + 'a;
}

/// Whether a record is not in a leaf yet: its LSN is above the leaf's.
///
/// Applying records anew, from any of them on, would be harmless for a leaf that has them all and nothing else. But a leaf
/// may be ahead of the ring: it was flushed before its last records were durable, or its change was not logged
/// at all but for a record `none`.
#[inline]
pub fn is_due(leaf: Lsn, record: Lsn) -> bool {
    record > leaf || planted(Mutant::LEAF_LSN_IGNORED)
}

/// What a lane recovers an entry with.
pub struct Site<'a, F, L> {
    /// The table, and what others are fenced with.
    pub table: TableSite<'a>,
    /// The pool's identity and incarnation, as in its superblock.
    pub pool: ([u8; 16], u64),
    /// The index.
    pub index: IndexNumber,
    /// This compute node's own log.
    pub log: &'a Log<'a>,
    /// How pages become whole.
    pub restore: restore::Site<'a, F>,
    /// How pages are flushed.
    pub flush: flush::Site<'a, F>,
    /// Where records go.
    pub leaves: &'a L,
    /// The lane's scratch for lines of the ring: [`LINES_BYTES_MIN`] at least, and of no other use.
    pub lines: &'a Range<usize>,
}

/// Recovers an entry whose word says RECOVERING by this compute node
/// ([`TableSite::look_after`]), and admits this compute node to it.
///
/// If it fails, the caller settles the lane, looks after the entry again, and repeats it.
pub async fn recover<F: TornFormat, L: Leaves>(
    site: &Site<'_, F, L>,
    lane: &Lane<'_>,
    entry: u32,
) -> Result<Tenure, OpError> {
    let partition = site.table.partition;
    let word = partition.word(entry);
    let log_row = match word.decode() {
        Ok(Owner::Recovering { finder, log }) if finder == partition.me() => log,
        _ => return Err(OpError::harmless(Cause::BadInput("an entry that this compute node does not recover"))),
    };
    restore::restore(site.restore, lane, entry).await?;
    replay(site, lane, (entry, word), log_row).await?;
    flush_replayed(site, lane).await?;
    if planted(Mutant::ADMISSION_BEFORE_WORD) {
        let _ = partition.admit(entry);
    }
    match site.table.finish_recovery(lane, entry).await? {
        Entry::Mine(_) => partition.admit(entry).ok_or(OpError::harmless(Cause::Fenced)),
        _ => Err(OpError::harmless(Cause::Fenced)),
    }
}

/// Step (b): applies what the ring of `row` has of the entry.
async fn replay<F, L: Leaves>(
    site: &Site<'_, F, L>,
    lane: &Lane<'_>,
    (entry, word): (u32, OwnerWord),
    row: RowId,
) -> Result<(), OpError> {
    let (ring, seal, head) = find_ring(site, lane, row).await?;
    let mut replay = Replay::new(&ring, seal, head);
    // The lines in the scratch: the number of the first one, and how many.
    let (mut from, mut have) = (head, 0);
    loop {
        let skip = (replay.next_line() - from) as usize;
        match next_record(site, lane, &mut replay, (skip, have)) {
            Step::Record(found, record) => {
                // Of keys that the entry has lost by a cut, everything was in the pages before.
                let is_here =
                    |key: Span| lane.port().with(|scratch| site.table.partition.entry_of(key.of(scratch)) == entry);
                if found == entry && is_here(record.key) {
                    if record.lsn.epoch() >= word.epoch() {
                        let what =
                            "a log record of a later tenure than its entry's: the table was restored, or overwritten";
                        let address = Address::new(ring.node(), ring.description_offset(), 0);
                        return Err(OpError::harmless(Cause::Corrupt { address, what }));
                    }
                    site.leaves.apply(lane, &record).await?;
                }
                lane.check_deadline()?;
            }
            Step::Other => {}
            Step::End => return Ok(()),
            Step::Read => {
                from = replay.next_line();
                have = read_lines(site, lane, &ring, (from, replay.lines_left())).await?;
            }
        }
    }
}

/// What the lines in the scratch have next.
enum Step {
    /// A record of this entry.
    Record(u32, Replayed),
    /// A record `none`: it says nothing of a key.
    Other,
    /// More lines are needed.
    Read,
    /// The log ends.
    End,
}

/// The next record among the lines in the scratch: `have`, of which `skip` are done with.
fn next_record<F, L>(
    site: &Site<'_, F, L>,
    lane: &Lane<'_>,
    replay: &mut Replay,
    (skip, have): (usize, usize),
) -> Step {
    let lines = site.lines.start + skip * LINE_BYTES..site.lines.start + have * LINE_BYTES;
    let start = lines.start;
    lane.port().with(|scratch| match replay.next(scratch.get(lines).unwrap_or_default()) {
        Next::Record(record, _) => {
            let key_at = start + RecordHeader::BYTES;
            let (key, value) = match record.change {
                Change::Put { key, value } => (key, Some(Span::new(key_at + key.len(), value.len()))),
                Change::Delete { key } => (key, None),
                Change::None => return Step::Other,
            };
            let key = Span::new(key_at, key.len());
            Step::Record(record.entry, Replayed { lsn: record.lsn, key, value })
        }
        Next::Read(_) => Step::Read,
        Next::End => Step::End,
    })
}

/// READs lines of the ring from `first` on, `left` at most, as many as there is room for and one submit brings. Returns
/// how many.
async fn read_lines<F, L>(
    site: &Site<'_, F, L>,
    lane: &Lane<'_>,
    ring: &Ring,
    (first, left): (u64, u64),
) -> Result<usize, OpError> {
    let room = (site.lines.len() / LINE_BYTES) as u64;
    if room < RECORD_LINES_MAX as u64 {
        return Err(OpError::harmless(Cause::BadInput("too little scratch for the lines of a log ring")));
    }
    let wanted = room.min(left);
    // What a step before has left, a wake say, goes with these READs.
    let runs_max = lane.port().room().max(1);
    let (mut lines, mut runs) = (0, 0);
    while lines < wanted && runs < runs_max {
        let run = ring.run(first + lines, wanted - lines);
        let to = site.lines.start + lines as usize * LINE_BYTES;
        let bytes = run.lines as usize * LINE_BYTES;
        lane.port().push(Request::read(Label::Log, ring.node(), run.offset, bytes, to));
        (lines, runs) = (lines + run.lines.max(1), runs + 1);
    }
    lane.port().submit().await?;
    Ok(lines as usize)
}

/// The ring that a DEAD row announces, what tells its records, and its head.
async fn find_ring<F, L>(site: &Site<'_, F, L>, lane: &Lane<'_>, row: RowId) -> Result<(Ring, Seal, u64), OpError> {
    let (port, at, geometry) = (lane.port(), site.lines.start, site.table.geometry);
    let (Some(home), true) = (geometry.first(), site.lines.len() >= LINES_BYTES_MIN) else {
        return Err(OpError::harmless(Cause::BadInput("too little scratch for the lines of a log ring")));
    };
    let row_at = Address::new(HOME, home.row_offset(row), 0);
    let corrupt = |address, what| OpError::harmless(Cause::Corrupt { address, what });
    if row.0 == 0 || u32::from(row.0) >= home.row_count {
        return Err(corrupt(row_at, "an entry names a log row that the pool does not have"));
    }
    port.call(Request::read(Label::Row, HOME, row_at.offset(), Row::BYTES, at)).await?;
    let stored = port.with(|scratch| scratch.get(at..).and_then(Row::from_prefix)).unwrap_or(Row::ZERO);
    let life = stored.decode().map_err(|what| corrupt(row_at, what))?;
    if life.state != RowState::Dead {
        return Err(corrupt(row_at, "the log row of an entry that is recovered is not dead"));
    }
    let incarnation = RowWord(stored.word.get()).incarnation();
    let ring = Address::from_bits(life.life.map_or(0, |life| life.ring));
    let node: Option<&NodeGeometry> = geometry.get(usize::from(ring.node().0));
    let node = node.filter(|node| {
        let chunk = node.chunk_of(ring.offset());
        !ring.is_null() && chunk.is_some_and(|chunk| node.chunk_offset(chunk) == ring.offset())
    });
    let node = node.ok_or(corrupt(row_at, "the owner of an entry has announced no log ring"))?;
    let bytes = RingDescription::BYTES + RingHead::BYTES;
    port.call(Request::read(Label::Log, ring.node(), ring.offset(), bytes, at)).await?;
    let (description, head) = port.with(|scratch| {
        let description = scratch.get(at..).and_then(RingDescription::from_prefix);
        (description, scratch.get(at + RingDescription::BYTES..).and_then(RingHead::from_prefix))
    });
    let (pool_id, pool_incarnation) = site.pool;
    let owner = RingOwner { pool_id, pool_incarnation, index: site.index, row, incarnation, token: 0 };
    let described = description.unwrap_or(RingDescription::ZERO).decode(&owner, ring.node(), node);
    let damaged =
        |_| corrupt(ring, "the log ring of a dead owner is damaged, or belongs to another pool, row or index");
    let (found, seal) = described.map_err(damaged)?;
    let head = head.unwrap_or(RingHead::ZERO).decode(incarnation).map_err(damaged)?;
    Ok((found, seal, head))
}

/// Step (c): flushes every page that is noted with a line which the own log had not assigned when the last record was
/// applied, or an earlier one; and waits for other lanes' flushes of such pages.
pub(super) async fn flush_replayed<F: PageFormat, L>(site: &Site<'_, F, L>, lane: &Lane<'_>) -> Result<(), OpError> {
    let (store, last) = (site.flush.store, site.log.next_line());
    loop {
        match store.oldest_unflushed() {
            Ok(None) => return Ok(()),
            // Both are what the log counts, which goes on when it begins again at line 0.
            Ok(Some(oldest)) if oldest.to_bits() > last => return Ok(()),
            Ok(Some(_)) => {
                if flush::flush(site.flush, lane, Flush::Oldest).await?.is_none() {
                    lane.check_deadline()?;
                    lane.port().call(Request::pause(FLUSHES_NS)).await?;
                }
            }
            Err(Refused::Busy) => store.yield_now(lane).await?,
            Err(_) => return Err(OpError::harmless(Cause::BadInput("the page store cannot be asked what is dirty"))),
        }
    }
}
