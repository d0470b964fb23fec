//! The chunk table: which compute node was granted which memory, and what for. Every memory node has one, for its own
//! chunks.
//!
//! ```text
//!  63            48 47            32 31             14 13       5 4     2 1    0
//! ┌────────────────┬────────────────┬─────────────────┬──────────┬───────┬──────┐
//! │ incarnation    │ row            │ request         │ index    │ kind  │ state│   0 = free
//! └────────────────┴────────────────┴─────────────────┴──────────┴───────┴──────┘
//! ```
//!
//! A compute node takes a chunk by a CAS from free to granted. The new entry carries its row, its incarnation and a
//! *request* number that no other of its grants has. A compute node that does not learn whether the CAS took effect
//! looks for that number before it tries again. A dead compute node's chunks are found by a walk over the table.
//!
//! **Widths.** State 2 bits (two used beyond free), kind 3 (five used), index 9 (a catalog has up to 255 entries; 511 =
//! no index), row 16 (as in lock words). Incarnation 16 and request 18 bits limit what one row may ever do: a row is
//! used up after 65535 joins, and a compute node after 2^18 grants (2 TB in chunks of 8 MB), after which it joins anew.
//! Both limits are refused. If the numbers wrapped around, a retry could take a chunk of an earlier incarnation, which is in
//! use, for the one it asked for. Memory that is in use is never granted again.
//!
//! **Giving back.** A chunk that was never written becomes free again. The bytes of a free chunk are zero: places that
//! were never written are told from others by that ([`crate::memory`]). A chunk that was used becomes *used*, not free:
//! cached pointers into it outlive it. Only a grant that accepts old bytes may have it. Redo records name what they
//! belong to, so chunks of redo records are granted for redo records again.
//!
//! No word of this table is ever changed by a memory node's CPU.

use crate::error::VerbError;
use crate::lane::{Lane, word_at};
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::remote::catalog::IndexNumber;
use crate::remote::chunk::{ChunkEntry, ChunkKind, ChunkWord, Grant, REQUESTS_MAX, RequestId};
use crate::remote::row::Member;
use crate::remote::{NodeGeometry, SCRATCH_BYTES};
use crate::verbs::{Label, NodeId, Request};
use core::sync::atomic::{AtomicU32, Ordering};
use heapless::Vec;

/// Marks of this room.
pub const MARKS: &[Mark] = &[Mark::CHUNK_GRANTED, Mark::CHUNK_RACE_LOST];

/// Entries that one READ brings.
const WINDOW: u32 = (SCRATCH_BYTES / 8) as u32;

/// Passes over the table before a grant gives up although every pass saw free chunks and lost the race for each of
/// them.
const PASSES_MAX: u32 = 16;

/// Request numbers of one compute node in one incarnation; shared by its lanes.
#[derive(Debug, Default)]
pub struct RequestIds(AtomicU32);

impl RequestIds {
    /// Begins at 0.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The next number. `None` when they are used up: the compute node has to leave and join anew.
    pub fn next(&self) -> Option<RequestId> {
        let next = |number| (number < REQUESTS_MAX).then_some(number + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().and_then(RequestId::new)
    }
}

/// A request for a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The entry to write.
    pub grant: Grant,
    /// This request was made before, and its outcome is unknown: look for it first. The queue pair that it went over is
    /// known to be closed by now, so the request took effect before the look or never will.
    pub retry: bool,
    /// The caller accepts old bytes in the chunk: it may be one that was used for the same kind.
    pub reuse: bool,
    /// Chunk at which the search begins; any number will do. Compute nodes that begin at different chunks do not race.
    pub hint: u32,
}

impl Want {
    /// A request that was not made before, for a chunk that was never used.
    pub const fn new(grant: Grant) -> Self {
        Self { grant, retry: false, reuse: false, hint: 0 }
    }

    /// The memory node to ask first, of so many, so that an index spreads over all of them: requests count up.
    pub(crate) fn in_turn(&self, nodes: usize) -> NodeId {
        let turn = self.grant.request.get() as usize + usize::from(self.grant.row.0);
        NodeId((turn % nodes.max(1)) as u16)
    }

    /// Whether a chunk with that entry satisfies the request. Redo images lie on the memory node of the lines that they are of, so
    /// they get a chunk that is withheld, too, and give it back as one for redo images.
    fn can_have(&self, entry: ChunkWord) -> bool {
        match entry.decode() {
            Ok(ChunkEntry::Free) => true,
            Ok(ChunkEntry::Withheld { used: None }) => self.grant.kind == ChunkKind::Redo,
            Ok(ChunkEntry::Used { kind, .. }) => self.reuse && kind == self.grant.kind,
            _ => false,
        }
    }
}

/// A chunk that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// On which memory node.
    pub node: NodeId,
    /// Its number there: `hint` of the next request.
    pub chunk: u32,
    /// Its first byte.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
    /// The entry, to release it with.
    pub grant: Grant,
    /// Whether the chunk was used before. A chunk that a retry found says no: it was free when it was granted, or the
    /// caller knows better.
    pub used: bool,
    /// Of a hundred chunks whose entries the search READ, how many could be granted, this one among them. It samples
    /// how full the pool is and costs no request. 0: a retry found the chunk, which says nothing.
    pub free_percent: u8,
}

/// Asks `node` for a chunk. `None` = it has none left.
///
/// Round trips: one READ per 64 entries looked at, one CAS per try; a retry READs the whole table first.
pub async fn grant(
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
    want: &Want,
    scratch: usize,
) -> Result<Option<Granted>, VerbError> {
    if want.retry
        && let Some(chunk) = find_own(lane, node, geometry, want, scratch).await?
    {
        return Ok(Some(granted(node, geometry, want, chunk, false, 0)));
    }
    let windows = geometry.chunk_count.div_ceil(WINDOW);
    let start = want.hint % geometry.chunk_count.max(1);
    // A pass looks at the window of the hint from the hint on, at all others, and at the start of the first again.
    for _ in 0..PASSES_MAX {
        let mut lost = false;
        for step in 0..=windows {
            let window = (start / WINDOW + step) % windows.max(1);
            let from = if step == 0 { start } else { window * WINDOW };
            let end = (window * WINDOW + WINDOW).min(geometry.chunk_count);
            read_window(lane, node, geometry, from..end, scratch).await?;
            for chunk in from..end {
                let found = word_at(lane, scratch + (chunk - from) as usize * 8);
                if !want.can_have(ChunkWord(found)) {
                    continue;
                }
                let used = found != ChunkWord::FREE.0;
                let swap = want.grant.word().0;
                let cas = Request::cas(Label::Chunk, node, geometry.chunk_entry(chunk), found, swap);
                if lane.port().call(cas).await?.value == found || planted(Mutant::CHUNK_TWICE) {
                    lane.mark(Mark::CHUNK_GRANTED);
                    // The CAS overwrote nothing of what was READ. The windows before had no chunk to grant.
                    let entry = |at: u32| ChunkWord(word_at(lane, scratch + at as usize * 8));
                    let free = (0..end - from).filter(|at| want.can_have(entry(*at))).count() as u64;
                    let looked_at = u64::from(end - from) + u64::from(step) * u64::from(WINDOW);
                    let free_percent = (free * 100).div_ceil(looked_at) as u8;
                    return Ok(Some(granted(node, geometry, want, chunk, used, free_percent)));
                }
                lane.mark(Mark::CHUNK_RACE_LOST);
                lost = true;
            }
        }
        if !lost {
            break;
        }
    }
    Ok(None)
}

/// Asks `near` for a chunk, then the other memory nodes in turn. `geometries[n]` is that of memory node `n`.
///
/// A retry looks for its own entry on all of them before it asks any: the first try may have gone to any of them.
pub async fn grant_any(
    lane: &Lane<'_>,
    geometries: &[NodeGeometry],
    near: NodeId,
    want: &Want,
    scratch: usize,
) -> Result<Option<Granted>, VerbError> {
    let nodes = geometries.len();
    let in_turn = |step: usize| {
        let node = (usize::from(near.0) + step) % nodes.max(1);
        geometries.get(node).map(|geometry| (NodeId(node as u16), geometry))
    };
    if want.retry {
        for (node, geometry) in (0..nodes).filter_map(in_turn) {
            if let Some(chunk) = find_own(lane, node, geometry, want, scratch).await? {
                return Ok(Some(granted(node, geometry, want, chunk, false, 0)));
            }
        }
    }
    let want = Want { retry: false, ..*want };
    let asked = if planted(Mutant::ONE_NODE_ASKED) { 1 } else { nodes };
    for step in 0..asked {
        let Some((node, geometry)) = in_turn(step) else { continue };
        if let Some(granted) = grant(lane, node, geometry, &want, scratch).await? {
            // The memory nodes that were asked before are full.
            let free_percent = usize::from(granted.free_percent).div_ceil(step + 1) as u8;
            return Ok(Some(Granted { free_percent, ..granted }));
        }
    }
    Ok(None)
}

/// Gives a chunk back. `used`: nodes of it were linked into an index at some time. Returns whether the chunk was still
/// the caller's. After an unknown outcome it may be called again.
///
/// One round trip.
pub async fn release(
    lane: &Lane<'_>,
    geometry: &NodeGeometry,
    granted: &Granted,
    used: bool,
) -> Result<bool, VerbError> {
    let mine = granted.grant.word();
    // A chunk that was used before stays used: this owner may have written nothing, an earlier one has.
    let next = if used || granted.used { granted.grant.used() } else { ChunkWord::FREE };
    let offset = geometry.chunk_entry(granted.chunk);
    let cas = Request::cas(Label::Chunk, granted.node, offset, mine.0, next.0);
    Ok(lane.port().call(cas).await?.value == mine.0)
}

/// Takes a chunk of a departed compute node over for `owner`, by a new request. Returns whether it did, as
/// [`inherit`].
pub(crate) async fn take_over(
    lane: &Lane<'_>,
    (node, geometry, chunk): (NodeId, &NodeGeometry, u32),
    grant: &Grant,
    owner: Member,
    requests: &RequestIds,
) -> Result<bool, OpError> {
    let used_up = "this incarnation has used all its requests for chunks: join anew";
    let request = requests.next().ok_or(OpError::harmless(Cause::BadInput(used_up)))?;
    let heir = Grant::new(owner, grant.kind, grant.index, request);
    let is_heir = inherit(lane, node, geometry, chunk, grant, &heir).await?;
    if is_heir {
        lane.mark(Mark::CHUNK_COLLECTED);
    }
    Ok(is_heir)
}

/// Takes chunk `chunk` of `node` over: its entry `seen`, which names a departed compute node, becomes `heir`. Returns
/// whether it did: of several compute nodes that try, one succeeds. The bytes of the chunk stay as they are.
///
/// One round trip. After an unknown outcome a walk finds out.
pub async fn inherit(
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
    chunk: u32,
    seen: &Grant,
    heir: &Grant,
) -> Result<bool, VerbError> {
    swap(lane, (node, geometry, chunk), seen.word(), heir.word()).await
}

/// CAS of an entry from `seen` to `next`. Returns whether it took effect. One round trip.
pub(crate) async fn swap(
    lane: &Lane<'_>,
    (node, geometry, chunk): (NodeId, &NodeGeometry, u32),
    seen: ChunkWord,
    next: ChunkWord,
) -> Result<bool, VerbError> {
    let cas = Request::cas(Label::Chunk, node, geometry.chunk_entry(chunk), seen.0, next.0);
    Ok(lane.port().call(cas).await?.value == seen.0)
}

/// Keeps what is free on a memory node from being granted, so that it becomes empty; or gives it back, if not `withholds`. Returns
/// how many chunks that were. What is granted stays so. A chunk that is given back later is free, and may be withheld by
/// another call. Those for redo images stay: compute nodes have some on every memory node.
///
/// One round trip for 64 chunks, and one for each that changes.
pub async fn withhold(
    lane: &Lane<'_>,
    (node, geometry): (NodeId, &NodeGeometry),
    withholds: bool,
    scratch: usize,
) -> Result<u32, VerbError> {
    let (mut from, mut changed) = (0, 0);
    while from < geometry.chunk_count {
        let end = (from + WINDOW).min(geometry.chunk_count);
        read_window(lane, node, geometry, from..end, scratch).await?;
        for chunk in from..end {
            let seen = ChunkWord(word_at(lane, scratch + (chunk - from) as usize * 8));
            let next = match seen.decode() {
                Ok(ChunkEntry::Used { kind: ChunkKind::Redo, .. }) => None,
                _ if withholds => seen.withheld(),
                _ => seen.grantable(),
            };
            // Who was faster has it granted.
            if let Some(next) = next
                && swap(lane, (node, geometry, chunk), seen, next).await?
            {
                changed += 1;
            }
        }
        from = end;
    }
    Ok(changed)
}

/// Marks a chunk as used: no compute node allocates in it any more. `false`: it is no longer granted as given. One
/// round trip.
pub(crate) async fn set_used(
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
    chunk: u32,
    grant: &Grant,
) -> Result<bool, VerbError> {
    swap(lane, (node, geometry, chunk), grant.word(), grant.used()).await
}

/// READs one entry.
pub(crate) async fn read_entry(
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
    chunk: u32,
    scratch: usize,
) -> Result<ChunkWord, VerbError> {
    lane.port().call(Request::read(Label::Chunk, node, geometry.chunk_entry(chunk), 8, scratch)).await?;
    Ok(ChunkWord(word_at(lane, scratch)))
}

/// Entries that [`Entries`] keeps.
const ENTRIES: usize = 16;

/// Entries of the table, for a caller that looks at them in turn and uses the scratch in between.
///
/// An entry is of some instant since this value was made, so it may be old. A caller that changes an entry does so by a
/// CAS that expects what it has seen.
#[derive(Debug)]
pub(crate) struct Entries {
    node: NodeId,
    first: u32,
    words: Vec<ChunkWord, ENTRIES>,
}

impl Entries {
    /// Nothing was READ yet.
    pub(crate) const fn new() -> Self {
        Self { node: NodeId(0), first: 0, words: Vec::new() }
    }

    fn known(&self, node: NodeId, chunk: u32) -> Option<ChunkWord> {
        let at = chunk.checked_sub(self.first).filter(|_| node == self.node)?;
        self.words.get(at as usize).copied()
    }

    /// The entry of `chunk`. One round trip for sixteen entries in turn.
    pub(crate) async fn entry(
        &mut self,
        lane: &Lane<'_>,
        node: NodeId,
        geometry: &NodeGeometry,
        chunk: u32,
        scratch: usize,
    ) -> Result<ChunkWord, VerbError> {
        if let Some(word) = self.known(node, chunk) {
            return Ok(word);
        }
        if chunk >= geometry.chunk_count {
            return Ok(ChunkWord::FREE);
        }
        let end = chunk.saturating_add(ENTRIES as u32).min(geometry.chunk_count);
        read_window(lane, node, geometry, chunk..end, scratch).await?;
        (self.node, self.first) = (node, chunk);
        self.words.clear();
        for at in 0..(end - chunk) as usize {
            // There is room for as many.
            let _ = self.words.push(ChunkWord(word_at(lane, scratch + at * 8)));
        }
        Ok(self.known(node, chunk).unwrap_or(ChunkWord::FREE))
    }
}

/// READs the whole table and calls `visit` with every chunk's number and entry.
///
/// One round trip per 64 chunks. Each entry is of some instant of the walk; the entries are not all of one instant.
pub async fn walk(
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
    scratch: usize,
    visit: &mut dyn FnMut(u32, Result<ChunkEntry, &'static str>),
) -> Result<(), VerbError> {
    let mut from = 0;
    while from < geometry.chunk_count {
        let end = (from + WINDOW).min(geometry.chunk_count);
        read_window(lane, node, geometry, from..end, scratch).await?;
        for chunk in from..end {
            visit(chunk, ChunkWord(word_at(lane, scratch + (chunk - from) as usize * 8)).decode());
        }
        from = end;
    }
    Ok(())
}

/// Counts of a table's chunks by state. Fill it with [`Tally::count`] from a [`walk`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Never used.
    pub free: u32,
    /// Given back after use.
    pub used: u32,
    /// Not to be granted ([`withhold`]).
    pub withheld: u32,
    /// Entries that this crate never writes.
    pub corrupt: u32,
    /// Granted ones, by index number and kind.
    pub granted: [[u32; ChunkKind::COUNT]; IndexNumber::COUNT],
}

impl Default for Tally {
    fn default() -> Self {
        Self { free: 0, used: 0, withheld: 0, corrupt: 0, granted: [[0; ChunkKind::COUNT]; IndexNumber::COUNT] }
    }
}

impl Tally {
    /// Counts one chunk.
    pub fn count(&mut self, entry: Result<ChunkEntry, &'static str>) {
        match entry {
            Ok(ChunkEntry::Free) => self.free += 1,
            Ok(ChunkEntry::Used { .. }) => self.used += 1,
            Ok(ChunkEntry::Withheld { .. }) => self.withheld += 1,
            Ok(ChunkEntry::Granted(grant)) => {
                self.granted[usize::from(grant.index.get())][grant.kind as usize] += 1;
            }
            Err(_) => self.corrupt += 1,
        }
    }

    /// All granted chunks.
    pub fn granted_total(&self) -> u32 {
        self.granted.iter().flatten().sum()
    }
}

const fn granted(
    node: NodeId,
    geometry: &NodeGeometry,
    want: &Want,
    chunk: u32,
    used: bool,
    free_percent: u8,
) -> Granted {
    let (offset, bytes) = (geometry.chunk_offset(chunk), geometry.chunk_bytes);
    Granted { node, chunk, offset, bytes, grant: want.grant, used, free_percent }
}

/// The chunk that an earlier try of this very request got.
async fn find_own(
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
    want: &Want,
    scratch: usize,
) -> Result<Option<u32>, VerbError> {
    let mine = want.grant.word();
    let mut own = None;
    let mut look = |chunk, entry| {
        if let Ok(ChunkEntry::Granted(grant)) = entry
            && grant.word() == mine
        {
            own = Some(chunk);
        }
    };
    walk(lane, node, geometry, scratch, &mut look).await?;
    Ok(own)
}

async fn read_window(
    lane: &Lane<'_>,
    node: NodeId,
    geometry: &NodeGeometry,
    chunks: core::ops::Range<u32>,
    scratch: usize,
) -> Result<(), VerbError> {
    let bytes = (chunks.end - chunks.start) as usize * 8;
    lane.port().call(Request::read(Label::Chunk, node, geometry.chunk_entry(chunks.start), bytes, scratch)).await?;
    Ok(())
}
