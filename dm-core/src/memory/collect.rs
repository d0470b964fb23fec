//! Mark-and-sweep: finds memory that only departed compute nodes knew of, where no owner tag says whose it is.
//!
//! Leaves of B+-trees have owner tags ([`super`]). Blocks of items, and leaves and nodes of radix trees, have none. So
//! all compute nodes give up their places in a few *closed* chunks, and the index is walked. Places there that the walk
//! does not reach are free. [`mark_and_sweep`](crate::manual::mark_and_sweep) has the steps, and why each is needed.
//!
//! **Round trips.** For every compute node one READ of a line per epoch. For the collector, for seven chunks: two epoch
//! advances, a walk over the index, and one bit for 16 bytes of these chunks.
//!
//! **When.** A compute node has departed; or memory is short, or an eighth of what was granted is known to be lost, and
//! some of this compute node's own memory may be lost.
//!
//! **Limit.** A place in a closed chunk that another compute node takes out of the index after the walk has reached it
//! stays unused until the chunk is collected again.

use super::closed::{ChunkName, Collector, Since};
use super::mark_bitmap::MarkBitmap;
use super::{Busy, Epochs, Participant};
use crate::lane::Lane;
use crate::marks::Mark;
use crate::memory::chunks::{self, Entries, RequestIds};
use crate::memory::orphans::CollectedOrphans;
use crate::memory::rows::{self, Tenants};
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::remote::catalog::IndexNumber;
use crate::remote::chunk::{ChunkEntry, ChunkKind, Grant};
use crate::remote::row::{self, CHUNKS_AT_ONCE, Member};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, NodeId, Request};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use spin::Mutex;

/// Marks of this room.
pub const MARKS: &[Mark] = &[Mark::CHUNK_COLLECTED];

/// While memory is not short, own chunks are collected only if one in so many of the granted bytes is known to be lost.
const LOST_SHARE: u64 = 8;

/// What a collection works with.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    /// Its part in the epochs.
    pub part: Participant<'a>,
    /// Memory nodes, by logical number.
    pub geometry: &'a [NodeGeometry],
    /// This compute node.
    pub owner: Member,
    /// Numbers of its requests for chunks.
    pub requests: &'a RequestIds,
    /// Whose chunks.
    pub number: IndexNumber,
    /// Scratch of [`crate::remote::SCRATCH_BYTES`].
    pub at: usize,
}

/// A room whose memory is collected.
pub(crate) trait Collects<'s> {
    /// A repairer's replay may make a place reachable that an operation of a dead compute node held. The walk waits
    /// until no such replay can be under way.
    const REPLAYS: bool = false;

    /// What a collection works with. `None`: the index was opened without epochs, or without storage for mark bitmaps.
    fn site(&self) -> Option<(Site<'s>, &'s Collection<'s>)>;

    /// The allocation class for which the room uses chunks of that kind, and the smallest place it carves there, in
    /// bytes. `None`: it does not use them.
    fn carves(&self, kind: ChunkKind) -> Option<(u8, usize)>;

    /// Gives up what the room's pool has in closed chunks. The pool does the same by itself when it is asked for a
    /// place.
    fn give_up_closed(&self);

    /// Walks the index and calls [`Collection::reach`] for every place that is reachable from the beginning of the walk
    /// to its end, and maybe for others. Its operations are short, so that epochs advance meanwhile.
    async fn mark(&self, lane: &Lane<'_>) -> Result<(), OpError>;
}

/// How far a collection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// None is under way.
    #[default]
    Idle,
    /// The chunks are chosen.
    Chosen,
    /// The line is written; number of turns begun by then.
    Closed(u32),
    /// The index was walked; number of turns begun by then.
    Marked(u32),
    /// What was found is ready.
    Opened,
}

/// A chunk that is collected.
#[derive(Clone, Copy, Debug)]
struct Target {
    node: NodeId,
    chunk: u32,
    grant: Grant,
}

#[derive(Debug, Default)]
struct Work {
    phase: Phase,
    collector: Collector,
    targets: heapless::Vec<Target, CHUNKS_AT_ONCE>,
    /// A pass over all chunks is under way: incarnations that had ended when it began, plus one.
    round: Option<u32>,
    /// The pass includes own chunks, unless more bulk loads than these have begun.
    own: Option<u32>,
    /// The chunk at which the pass continues.
    next: (u16, u32),
    /// Incarnations that had ended before the turn that is waited for; `None`: a dead row was not swept then.
    finalized: Option<u32>,
}

/// What is known of lost memory.
#[derive(Debug)]
struct Known {
    granted_bytes: u64,
    /// Since own chunks were due.
    lost_bytes: u64,
}

/// What a compute node has collected of one room's memory, and how far its present collection is.
#[derive(Debug)]
pub struct Collection<'s> {
    mark_bitmap: Mutex<MarkBitmap<'s>>,
    /// There may be something to take.
    open: AtomicBool,
    busy: AtomicBool,
    /// Incarnations that had ended at the last complete pass over all chunks, plus one.
    ended: AtomicU32,
    /// Memory in its own chunks may be lost.
    lost: AtomicBool,
    /// Memory is short.
    short: AtomicBool,
    /// Own chunks are collected whenever there is time, so that tests see it.
    eager: bool,
    /// Bulk loads begun, and those ended: odd while a load carves places that nothing reaches on purpose.
    loads: AtomicU32,
    known: Mutex<Known>,
    work: Mutex<Work>,
}

impl<'s> Collection<'s> {
    /// Nothing was collected yet. `eager`: own chunks are collected in any case.
    pub const fn new(mark_bitmap: MarkBitmap<'s>, eager: bool) -> Self {
        Self {
            mark_bitmap: Mutex::new(mark_bitmap),
            open: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            ended: AtomicU32::new(0),
            lost: AtomicBool::new(false),
            short: AtomicBool::new(false),
            eager,
            loads: AtomicU32::new(0),
            known: Mutex::new(Known { granted_bytes: 0, lost_bytes: 0 }),
            work: Mutex::new(Work {
                phase: Phase::Idle,
                collector: Collector::NOBODY,
                targets: heapless::Vec::new(),
                round: None,
                own: None,
                next: (0, 0),
                finalized: None,
            }),
        }
    }

    /// The walk reaches a place.
    pub(crate) fn reach(&self, node: NodeId, offset: u64, bytes: u64) {
        self.mark_bitmap.lock().reach(node, offset, bytes);
    }

    /// Takes `bytes` of the memory that was collected for allocation class `what`, on `near` if there is some, at a
    /// multiple of `step_bytes` from the beginning of its chunk.
    #[inline]
    pub(crate) fn take(&self, what: u8, near: NodeId, bytes: usize, step_bytes: usize) -> Option<(NodeId, u64)> {
        if !self.open.load(Ordering::Acquire) {
            return None;
        }
        self.mark_bitmap.lock().take(what, near, bytes, step_bytes)
    }

    /// Gives up what lies in chunks that are in the set `closed`.
    pub(crate) fn give_up(&self, closed: impl Fn(ChunkName) -> bool) {
        self.mark_bitmap.lock().give_up(closed);
    }

    /// Calls `visit` with the allocation class, the memory node, the offset and the bytes of each ready run.
    pub(crate) fn for_each_ready(&self, visit: &mut dyn FnMut(u8, NodeId, u64, u64)) {
        self.mark_bitmap.lock().for_each_ready(visit);
    }

    /// An operation was cut short: what it had carved or taken out may be lost.
    pub(crate) fn may_have_lost(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Whether own chunks are worth a pass as soon as memory is short.
    #[cfg(test)]
    pub(crate) fn may_have_lost_for_tests(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Own chunks are worth a pass, whatever is known of losses.
    pub fn demand(&self) {
        self.may_have_lost();
        self.is_short();
    }

    /// A bulk load begins or ends. Between the two no root leads to what it carves, and own chunks are not collected.
    pub(crate) fn loads(&self, begins: bool) {
        let loads = self.loads.load(Ordering::SeqCst);
        if loads.is_multiple_of(2) == begins {
            self.loads.store(loads.wrapping_add(1), Ordering::SeqCst);
        }
    }

    /// Bulk loads begun and ended, if none is under way.
    fn loaded(&self) -> Option<u32> {
        Some(self.loads.load(Ordering::SeqCst)).filter(|loads| loads.is_multiple_of(2))
    }

    /// Memory is short: own chunks are worth a pass, if something may be lost.
    pub(crate) fn is_short(&self) {
        self.short.store(true, Ordering::Relaxed);
    }

    /// Counts a chunk that was granted.
    pub(crate) fn grant(&self, bytes: u64) {
        self.known.lock().granted_bytes += bytes;
    }

    /// So many bytes of what was granted are lost.
    pub(crate) fn has_lost(&self, bytes: u64) {
        self.may_have_lost();
        let mut known = self.known.lock();
        known.lost_bytes += bytes;
        if known.lost_bytes > known.granted_bytes / LOST_SHARE {
            known.lost_bytes = 0;
            self.is_short();
        }
    }
}

/// A pool's part in collections: what was collected for it, and what it has to give up.
pub struct Share<'s> {
    /// `None`: nothing of this pool is collected.
    known: Option<(&'s Collection<'s>, &'s Epochs, &'s [NodeGeometry])>,
    /// The version up to which the pool has given up what was closed.
    given_up: AtomicU32,
}

impl<'s> Share<'s> {
    /// Of a pool with places in chunks of `geometry`, on a compute node with this view of the epochs.
    pub const fn new(collection: &'s Collection<'s>, epochs: &'s Epochs, geometry: &'s [NodeGeometry]) -> Self {
        Self { known: Some((collection, epochs, geometry)), given_up: AtomicU32::new(0) }
    }

    /// Of a pool of which nothing is collected.
    pub const fn none() -> Self {
        Self { known: None, given_up: AtomicU32::new(0) }
    }

    /// What was collected.
    pub fn collection(&self) -> Option<&'s Collection<'s>> {
        self.known.map(|(collection, ..)| collection)
    }

    /// So many bytes of what was granted are lost.
    pub(crate) fn has_lost(&self, bytes: u64) {
        if let Some(collection) = self.collection()
            && bytes > 0
        {
            collection.has_lost(bytes);
        }
    }

    /// Memory is short.
    pub(crate) fn is_short(&self) {
        if let Some(collection) = self.collection() {
            collection.is_short();
        }
    }

    /// Whether a place there must not be kept. The caller holds the lock under which it would keep the place. A pass
    /// that gives up places in closed chunks takes that lock, too. If the pass came before, this returns `true`. If it
    /// comes later, it finds the place.
    pub(crate) fn is_closed(&self, node: NodeId, offset: u64) -> bool {
        self.known.is_some_and(|(_, epochs, geometry)| {
            epochs.closed().has(ChunkName::of(geometry, node, offset)) && !planted(Mutant::CLOSED_KEPT)
        })
    }

    /// As [`Share::is_closed`], or the line was never READ: for places that may be handed out before a turn. (Places
    /// that wait for a turn are given up then. Chunks that this compute node was granted are closed only by its own
    /// collector, which waits for a turn, too.)
    pub(crate) fn may_be_closed(&self, node: NodeId, offset: u64) -> bool {
        self.known.is_some_and(|(_, epochs, _)| !epochs.closed().is_read()) || self.is_closed(node, offset)
    }

    /// Before places are handed out: if chunks were closed since the last call, has `give_up` forget the places for
    /// which its argument is true.
    #[inline]
    pub(crate) fn give_up_closed(&self, give_up: impl FnOnce(&dyn Fn(NodeId, u64) -> bool)) {
        let Some((collection, epochs, geometry)) = self.known else { return };
        let given_up = self.given_up.load(Ordering::Acquire);
        if given_up != epochs.closed().version() && !planted(Mutant::CLOSED_KEPT) {
            self.give_up(collection, epochs.closed().since(given_up), geometry, give_up);
        }
    }

    fn give_up(
        &self,
        collection: &Collection<'s>,
        since: Since<'_>,
        geometry: &[NodeGeometry],
        give_up: impl FnOnce(&dyn Fn(NodeId, u64) -> bool),
    ) {
        give_up(&|node, offset| since.has(ChunkName::of(geometry, node, offset)));
        collection.give_up(|name| since.has(Some(name)));
        // Another lane may have given up places of the same sets meanwhile. To give them up again after it does no
        // harm.
        self.given_up.fetch_max(since.version, Ordering::Release);
    }
}

/// Continues a collection as far as it gets without waiting, or begins one if there is a reason
/// ([`mark_and_sweep`](crate::manual::mark_and_sweep)). `collected_orphans` says whether it waits for epochs. The lane
/// must not be in an operation.
///
/// Round trips: one for eight rows; of a collection, one for sixteen chunk entries that are looked at, one for each row
/// that owns chunks of this index, three to close the chunks and one for each of them, the walk, one for each chunk
/// that is taken over, and three to end.
pub(crate) async fn collect<'s>(
    room: &impl Collects<'s>,
    lane: &Lane<'_>,
    collected_orphans: &mut CollectedOrphans,
) -> Result<(), OpError> {
    let Some((site, collection)) = room.site() else { return Ok(()) };
    let Some(_busy) = Busy::begin(&collection.busy) else { return Ok(()) };
    let collected = site.go_on(room, collection, lane, collected_orphans).await;
    if collected.is_err() {
        // Another lane may repeat the step that failed, over another queue pair, and end the collection. No WRITE of this
        // lane may land after that. If it cannot be known, this lane is settled, and no more can be done.
        let _ = lane.close(site.at).await;
    }
    collected
}

/// The result of choosing chunks.
enum Choice {
    /// Chunks were chosen.
    Made,
    /// The pass over all chunks is complete.
    RoundOver,
    /// There is no reason, or no storage for mark bitmaps.
    Nothing,
}

impl<'s> Site<'s> {
    /// Continues a collection, or begins one, while no other lane does: [`collect`].
    async fn go_on(
        &self,
        room: &impl Collects<'s>,
        collection: &Collection<'s>,
        lane: &Lane<'_>,
        collected_orphans: &mut CollectedOrphans,
    ) -> Result<(), OpError> {
        // For a pool that is not asked for places.
        room.give_up_closed();
        loop {
            let phase = collection.work.lock().phase;
            match phase {
                Phase::Idle => match self.choose(room, collection, lane, collected_orphans).await? {
                    Choice::Made | Choice::RoundOver => {}
                    Choice::Nothing => return Ok(()),
                },
                Phase::Chosen => {
                    if !self.close(room, collection, lane).await? {
                        collected_orphans.waits = true;
                        return Ok(());
                    }
                }
                Phase::Closed(turns) => {
                    if !self.part.epochs.is_over(turns) && !planted(Mutant::WALK_AT_ONCE) {
                        self.part.epochs.want();
                        collected_orphans.waits = true;
                        return Ok(());
                    }
                    if !self.has_finalized(room, collection, lane).await? && !planted(Mutant::WALK_BEFORE_REPLAYS) {
                        collected_orphans.waits = true;
                        return Ok(());
                    }
                    collection.mark_bitmap.lock().begin();
                    room.mark(lane).await?;
                    collection.work.lock().phase = Phase::Marked(self.part.epochs.turns());
                }
                Phase::Marked(turns) => {
                    if !self.part.epochs.is_over(turns) && !planted(Mutant::OPEN_AT_ONCE) {
                        self.part.epochs.want();
                        collected_orphans.waits = true;
                        return Ok(());
                    }
                    room.give_up_closed();
                    self.open(collection, lane, collected_orphans).await?;
                }
                Phase::Opened => self.end(collection, lane).await?,
            }
        }
    }

    /// Chooses chunks, if there is a reason to collect and storage for their mark bitmaps.
    async fn choose(
        &self,
        room: &impl Collects<'s>,
        collection: &Collection<'_>,
        lane: &Lane<'_>,
        collected_orphans: &mut CollectedOrphans,
    ) -> Result<Choice, OpError> {
        let Some(home) = self.geometry.first() else { return Ok(Choice::Nothing) };
        // Of a choice that failed.
        collection.mark_bitmap.lock().abandon();
        let short = collection.short.swap(false, Ordering::Relaxed);
        let round = collection.work.lock().round;
        let round = if let Some(round) = round {
            round
        } else {
            let ended = rows::lives_ended(lane, home, self.at).await?.wrapping_add(1);
            let due = if collection.eager {
                !collected_orphans.looked
            } else {
                short && collection.lost.swap(false, Ordering::Relaxed)
            };
            let own = collection.loaded().filter(|_| due);
            if collection.ended.load(Ordering::Relaxed) == ended && own.is_none() {
                return Ok(Choice::Nothing);
            }
            if collection.ended.load(Ordering::Relaxed) != ended {
                // A place that a departed compute node had in a free list may lie in one's own chunks.
                collection.may_have_lost();
            }
            let mut work = collection.work.lock();
            (work.round, work.own, work.next) = (Some(ended), own, (0, 0));
            ended
        };
        collected_orphans.looked = true;
        if short && collection.mark_bitmap.lock().room(home.chunk_bytes) == 0 {
            // What is left there can be collected again, with own chunks.
            collection.mark_bitmap.lock().make_room();
            collection.may_have_lost();
        }
        let (mut next, own) = {
            let work = collection.work.lock();
            (work.next, work.own)
        };
        let mut targets = heapless::Vec::<Target, CHUNKS_AT_ONCE>::new();
        let (mut entries, mut tenants) = (Entries::new(), Tenants::new());
        while let Some(geometry) = self.geometry.get(usize::from(next.0)) {
            let (node, chunk) = (NodeId(next.0), next.1);
            if chunk >= geometry.chunk_count {
                next = (next.0 + 1, 0);
                continue;
            }
            let entry = entries.entry(lane, node, geometry, chunk, self.at).await?;
            if let Ok(ChunkEntry::Granted(grant)) = entry.decode()
                && let Some((what, least)) = self.is_worth(room, lane, &grant, own.is_some(), &mut tenants).await?
            {
                if targets.is_full() {
                    break;
                }
                let name = ChunkName::new(node, chunk);
                let place = (node, geometry.chunk_offset(chunk), geometry.chunk_bytes);
                if !collection.mark_bitmap.lock().survey(name, place, what, least) {
                    collected_orphans.no_room += u64::from(targets.is_empty());
                    break;
                }
                // There is room.
                let _ = targets.push(Target { node, chunk, grant });
            }
            next.1 += 1;
        }
        let mut work = collection.work.lock();
        work.next = next;
        if targets.is_empty() {
            if collected_orphans.no_room > 0 {
                return Ok(Choice::Nothing);
            }
            // Another compute node may have departed since the pass began.
            work.round = None;
            collection.ended.store(round, Ordering::Relaxed);
            return Ok(Choice::RoundOver);
        }
        work.targets = targets;
        work.collector = Collector::new(self.owner, self.part.epochs.next_collection());
        work.phase = Phase::Chosen;
        Ok(Choice::Made)
    }

    /// The allocation class of a chunk that is to be collected, and the smallest place in it, in bytes. Such a chunk is
    /// that of a departed compute node, or if `own` is set, this compute node's.
    async fn is_worth(
        &self,
        room: &impl Collects<'s>,
        lane: &Lane<'_>,
        grant: &Grant,
        own: bool,
        tenants: &mut Tenants,
    ) -> Result<Option<(u8, usize)>, OpError> {
        let Some(carved) = room.carves(grant.kind).filter(|_| grant.index == self.number) else { return Ok(None) };
        let worth = if grant.is_of(self.owner) { own } else { self.is_gone(lane, grant, tenants).await? };
        Ok(worth.then_some(carved))
    }

    async fn is_gone(&self, lane: &Lane<'_>, grant: &Grant, tenants: &mut Tenants) -> Result<bool, OpError> {
        let Some(home) = self.geometry.first() else { return Ok(false) };
        let tenant = tenants.tenant(lane, home, grant.row, self.at).await?;
        Ok(tenant.is_some_and(|tenant| tenant.is_gone(grant.incarnation)))
    }

    /// Whether no repairer can be replaying what a dead compute node left, now that a turn is over. A row is DEAD until
    /// its locks are taken over, and a repairer replays in the same operation in which it takes over. So this is
    /// certain after a turn that began when no row was fenced or dead, if no compute node has died since: all repairers
    /// have ended their operations, and none was cut short. Otherwise the collection waits for the next turn.
    async fn has_finalized<R: Collects<'s>>(
        &self,
        _: &R,
        collection: &Collection<'_>,
        lane: &Lane<'_>,
    ) -> Result<bool, OpError> {
        let (true, Some(home)) = (R::REPLAYS, self.geometry.first()) else { return Ok(true) };
        let finalized = rows::all_finalized(lane, home, self.at).await?;
        let mut work = collection.work.lock();
        if finalized.is_some() && work.finalized == finalized {
            return Ok(true);
        }
        work.finalized = finalized;
        work.phase = Phase::Closed(self.part.epochs.turns());
        self.part.epochs.want();
        Ok(false)
    }

    /// Closes the chunks. `false`: another compute node collects.
    async fn close<R: Collects<'s>>(
        &self,
        _: &R,
        collection: &Collection<'_>,
        lane: &Lane<'_>,
    ) -> Result<bool, OpError> {
        let Some(home) = self.geometry.first() else { return Ok(false) };
        let (offset, at) = (row::closed_offset(home), self.at);
        let mine = collection.work.lock().collector;
        let [found, ..] = rows::read_closed(lane, home, at).await?;
        if found != mine.0 {
            let named = Collector(found);
            if named != Collector::NOBODY {
                let tenant = rows::tenant(lane, home, named.row(), at).await?;
                // There is no row of that number: this crate never writes that.
                if !tenant.is_none_or(|tenant| tenant.is_gone(named.incarnation())) {
                    return Ok(false);
                }
            }
            if lane.port().call(Request::cas(Label::Row, HOME, offset, found, mine.0)).await?.value != found {
                return Ok(false);
            }
        }
        // Other compute nodes may have taken some over since they were chosen. From here on none does: it would need
        // the line.
        let chosen = collection.work.lock().targets.clone();
        for target in &chosen {
            let Some(geometry) = self.geometry.get(usize::from(target.node.0)) else { continue };
            let entry = chunks::read_entry(lane, target.node, geometry, target.chunk, at).await?;
            if entry != target.grant.word() {
                let name = ChunkName::new(target.node, target.chunk);
                collection.mark_bitmap.lock().forget(name);
                let mut work = collection.work.lock();
                work.targets.retain(|target| ChunkName::new(target.node, target.chunk) != name);
            }
        }
        let mut names = [ChunkName::default(); CHUNKS_AT_ONCE];
        for (name, target) in names.iter_mut().zip(&collection.work.lock().targets) {
            *name = ChunkName::new(target.node, target.chunk);
        }
        if names == [ChunkName::default(); CHUNKS_AT_ONCE] {
            collection.work.lock().phase = Phase::Opened;
            return Ok(true);
        }
        lane.port().call(Self::names(lane, offset, at, &names)).await?;
        let finalized = if R::REPLAYS { rows::all_finalized(lane, home, at).await? } else { None };
        let mut work = collection.work.lock();
        (work.finalized, work.phase) = (finalized, Phase::Closed(self.part.epochs.turns()));
        Ok(true)
    }

    /// The WRITE of the names of chunks into the line at `offset`.
    fn names(lane: &Lane<'_>, offset: u64, at: usize, names: &[ChunkName; CHUNKS_AT_ONCE]) -> Request {
        lane.port().with(|scratch| {
            let room = scratch.get_mut(at..at + size_of_val(names)).unwrap_or_default();
            for (to, name) in room.chunks_exact_mut(8).zip(names) {
                to.copy_from_slice(&name.0.to_le_bytes());
            }
        });
        Request::write(Label::Row, HOME, offset + 8, size_of_val(names), at)
    }

    /// Takes chunks of departed compute nodes over, and makes them and own ones ready.
    async fn open(
        &self,
        collection: &Collection<'_>,
        lane: &Lane<'_>,
        collected_orphans: &mut CollectedOrphans,
    ) -> Result<(), OpError> {
        loop {
            let last = collection.work.lock().targets.last().copied();
            let Some(Target { node, chunk, grant }) = last else { break };
            let name = ChunkName::new(node, chunk);
            let was_mine = grant.is_of(self.owner);
            let own = collection.work.lock().own;
            let mut is_mine = was_mine && own.is_some() && own == collection.loaded();
            if !was_mine && let Some(geometry) = self.geometry.get(usize::from(node.0)) {
                is_mine = chunks::take_over(lane, (node, geometry, chunk), &grant, self.owner, self.requests).await?;
                // It may be own, by an earlier call that did not learn of it.
                if !is_mine {
                    let entry = chunks::read_entry(lane, node, geometry, chunk, self.at).await?;
                    is_mine = matches!(entry.decode(), Ok(ChunkEntry::Granted(now)) if now.is_of(self.owner));
                }
                collected_orphans.chunks += u32::from(is_mine);
            }
            if is_mine {
                collected_orphans.bytes += collection.mark_bitmap.lock().open(name);
                collection.open.store(true, Ordering::Release);
            }
            collection.work.lock().targets.pop();
        }
        collection.mark_bitmap.lock().abandon();
        collection.work.lock().phase = Phase::Opened;
        Ok(())
    }

    /// Ends the collection: no chunk is closed any more.
    async fn end(&self, collection: &Collection<'_>, lane: &Lane<'_>) -> Result<(), OpError> {
        let Some(home) = self.geometry.first() else { return Ok(()) };
        let (offset, at) = (row::closed_offset(home), self.at);
        let mine = collection.work.lock().collector;
        // After an end that this compute node did not learn of, another collector may have the line.
        if rows::read_closed(lane, home, at).await?[0] == mine.0 {
            lane.port().call(Self::names(lane, offset, at, &Default::default())).await?;
            lane.port().call(Request::cas(Label::Row, HOME, offset, mine.0, Collector::NOBODY.0)).await?;
        }
        self.part.epochs.closed().end(mine);
        collection.work.lock().phase = Phase::Idle;
        Ok(())
    }
}
