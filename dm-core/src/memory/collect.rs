//! Collection: what nobody knows of any more, in memory that does not say whose it is, is found by a walk.
//!
//! Leaves of B+-trees are signed, so that others can tell whose they are ([`super`], *adoption*). Blocks of items, and
//! leaves and nodes of radix trees, say nothing: what a compute node had on its shelves when it died or left, or in an operation that was
//! cut short, looks like what somebody else took out of the index and has on his. Here it is told by asking everybody to let go:
//!
//! ```text
//!  the collector                             row 0                  everybody, the collector too
//!  ────────────────────────────────────────────────────────────────────────────────────────────
//!  names itself and up to seven chunks   ──► line 2 (`closed`)
//!  a turn of the epochs                  ──► pool's epoch + 1   ──► READs line 2, gives up what it has in these chunks,
//!                                                                   and then takes the epoch for its own
//!  all rows have that epoch              ◄── rows
//!  walks the index, marks what it reaches
//!  another turn
//!  takes the chunks of the gone over     ──► chunk table
//!  closes the line                       ──► line 2
//!  what is not marked is ready (`ground`)
//! ```
//!
//! # Why it is right
//!
//! *From the first turn to the end nobody takes a place in a closed chunk, and nobody keeps one.* A compute node READs the line after
//! it has learned of the epoch that the turn raised, which was raised after the line was written; only then its operations begin with
//! that epoch, and its row may say it. Its pools give up what they have in closed chunks before they hand a place out to an
//! operation that began later, and refuse what lies there. What an *earlier* operation has in its hands is published or refused when
//! that ends, and its row does not say the epoch before. A chunk's owner is the only one who carves what was never used of it: he is
//! gone, or is the collector, who gives that up as well.
//!
//! *Who joins meanwhile* introduces itself and READs the line; before that its pools hand nothing out again. If it READ the line before that was
//! written, its row was there when the first turn looked, which waits for a row that says no epoch. Else it knows what is closed,
//! or the second turn did not find its row, either: then all of its operations began after the walk.
//!
//! *So what is reachable in a closed chunk only becomes less*, and all that was reachable throughout the walk is met by it: that is for
//! the index to say, whose entries move (`Collects::mark`). **What the walk does not meet was not reachable at its end.** Nobody
//! will publish it, for nobody has it.
//!
//! *The second turn* begins when the walk has ended. When all rows have passed it, all operations that overlapped the walk are over: those
//! with an old pointer to what is ready now, those that took something out before the walk came there and give it back late, and those that had posted
//! something whose effect was not known yet (operations of indexes that are collected end when nothing they posted can take effect any
//! more). What an operation takes out that began after the walk had been reached by it, and is marked. So from here on a place may be kept
//! again, and the line may say so at any time.
//!
//! **When somebody dies.** A collector whose row is free or another's has posted its last; whoever finds it named there begins anew. What
//! it had opened was its own, in chunks that are its own by the chunk table: chunks of somebody gone. A compute node that
//! dies in between is not waited for when its row is DEAD, and nothing of it can take effect any more by then. One that is fenced and does not know
//! it can write nothing to what it opens.
//!
//! **When a request fails**, the next call goes on where this one stopped: every step may be repeated.
//!
//! # What it costs
//!
//! For everybody one READ of a line an epoch. For the collector, for seven chunks, two turns and a walk over the index; a bit for 16 bytes of
//! the chunks that are looked into. So it begins only when somebody has gone; or when memory is short, or an eighth of what was granted is
//! known to be lost, and something of its own may be.
//!
//! # What does not come back
//!
//! What others take out of a closed chunk while it is collected and reached, they must not keep: it stays where it is until the chunk
//! is collected again, by whoever has it then.

use super::closed::{ChunkName, Collector};
use super::ground::Ground;
use super::{Busy, Epochs, Participant};
use crate::lane::Lane;
use crate::marks::Mark;
use crate::memory::chunks::{self, RequestIds};
use crate::memory::orphans::Adopted;
use crate::memory::rows;
use crate::mutants::{Bug, planted};
use crate::operation::{Cause, OpError};
use crate::remote::catalog::IndexNumber;
use crate::remote::chunk::{ChunkEntry, ChunkKind, Grant};
use crate::remote::row::{self, CHUNKS_AT_ONCE, Member};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, NodeId, Request};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use spin::Mutex;

/// What this room counts.
pub const MARKS: &[Mark] = &[Mark::ChunkAdopted];

/// Of the bytes that were granted, one in so many has to be known to be lost before own chunks are collected while memory is not
/// short.
const LOST_SHARE: u64 = 8;

/// What a room has that collects.
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
    /// What repairers do again for the dead may make a place reachable that was in the hands of an operation that died: it is waited
    /// until none of that can be under way before the index is walked.
    const REPLAYS: bool = false;

    /// What it takes. `None`: it was opened without epochs, or without ground.
    fn site(&self) -> Option<(Site<'s>, &'s Collection<'s>)>;

    /// What it uses chunks of that kind for, and the smallest place it carves there, in bytes. `None`: not at all.
    fn carves(&self, kind: ChunkKind) -> Option<(u8, usize)>;

    /// Gives up what its pool has in chunks that were closed: what its pool does by itself when it is asked for a place.
    fn heed(&self);

    /// Walks the index and calls [`Collection::reach`] for every place that is reachable from the beginning of the walk to its end, and maybe for
    /// others. Its operations are short: epochs go on meanwhile.
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
    /// The line is written; turns begun then.
    Closed(u32),
    /// The index was walked; turns begun then.
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
    /// All chunks are being gone through: lives that had ended then, plus one.
    round: Option<u32>,
    /// Own ones, too, unless a bulk load has begun since these many.
    own: Option<u32>,
    /// The chunk from which on is looked for others.
    next: (u16, u32),
    /// Lives that had ended before the turn that is waited for; `None`: somebody dead had not been swept up after.
    buried: Option<u32>,
}

/// What is known of losses.
#[derive(Debug)]
struct Known {
    granted_bytes: u64,
    /// Since own chunks were due.
    lost_bytes: u64,
}

/// What a compute node has collected of one room's memory, and how far it is with more.
#[derive(Debug)]
pub struct Collection<'s> {
    ground: Mutex<Ground<'s>>,
    /// The ground has something, or may have.
    open: AtomicBool,
    busy: AtomicBool,
    /// Lives of compute nodes that had ended when all chunks were gone through last, plus one.
    ended: AtomicU32,
    /// Something of its own chunks may be lost.
    lost: AtomicBool,
    /// Memory is short.
    short: AtomicBool,
    /// Own chunks are collected whenever there is time: to see it happen.
    eager: bool,
    /// Bulk loads begun, and those ended: odd while what is carved is reachable from nowhere on purpose.
    loads: AtomicU32,
    known: Mutex<Known>,
    work: Mutex<Work>,
}

impl<'s> Collection<'s> {
    /// Nothing is. `eager`: own chunks are collected in any case.
    pub const fn new(ground: Ground<'s>, eager: bool) -> Self {
        Self {
            ground: Mutex::new(ground),
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
                buried: None,
            }),
        }
    }

    /// The walk comes to a place.
    pub(crate) fn reach(&self, node: NodeId, offset: u64, bytes: u64) {
        self.ground.lock().reach(node, offset, bytes);
    }

    /// Takes `bytes` of what was collected for `what`, on `near` if there is some, at a multiple of `step_bytes` from the beginning of
    /// its chunk.
    #[inline]
    pub(crate) fn take(&self, what: u8, near: NodeId, bytes: usize, step_bytes: usize) -> Option<(NodeId, u64)> {
        if !self.open.load(Ordering::Acquire) {
            return None;
        }
        self.ground.lock().take(what, near, bytes, step_bytes)
    }

    /// Gives up what lies in chunks that `closed` says are closed.
    pub(crate) fn give_up(&self, closed: impl Fn(ChunkName) -> bool) {
        self.ground.lock().give_up(closed);
    }

    /// Calls `visit` with what each run is for, its memory node, offset and bytes, of all that is ready.
    pub(crate) fn for_each_ready(&self, visit: &mut dyn FnMut(u8, NodeId, u64, u64)) {
        self.ground.lock().for_each_ready(visit);
    }

    /// An operation was cut short, and what it had carved or taken out may be known to nobody.
    pub(crate) fn may_have_lost(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Own chunks are worth a look, whatever is known of losses.
    pub fn demand(&self) {
        self.may_have_lost();
        self.is_short();
    }

    /// A bulk load begins or ends: between the two no root leads to what it carves, and own chunks are left alone.
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

    /// Memory is short: own chunks are worth a look, if something may be lost.
    pub(crate) fn is_short(&self) {
        self.short.store(true, Ordering::Relaxed);
    }

    /// Counts a chunk that was granted.
    pub(crate) fn grant(&self, bytes: u64) {
        self.known.lock().granted_bytes += bytes;
    }

    /// Of what was granted, so many bytes are lost.
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

/// A pool's part in collections: what was collected for it, and what it has to let go.
pub struct Share<'s> {
    collection: &'s Collection<'s>,
    epochs: &'s Epochs,
    geometry: &'s [NodeGeometry],
    /// Up to which version it has given up what was closed.
    heeded: AtomicU32,
}

impl<'s> Share<'s> {
    /// Of a pool with places in chunks of `geometry`, on a compute node with this view of the epochs.
    pub const fn new(collection: &'s Collection<'s>, epochs: &'s Epochs, geometry: &'s [NodeGeometry]) -> Self {
        Self { collection, epochs, geometry, heeded: AtomicU32::new(0) }
    }

    /// What was collected.
    pub const fn collection(&self) -> &'s Collection<'s> {
        self.collection
    }

    /// Whether what lies there must not be kept. To be asked with the lock held under which it would be: whoever gives up what
    /// is closed takes that, too, and comes before, when this says so, or after, and finds it.
    pub(crate) fn is_closed(&self, node: NodeId, offset: u64) -> bool {
        self.epochs.closed().has(ChunkName::of(self.geometry, node, offset)) && !planted(Bug::ClosedKept)
    }

    /// As [`Share::is_closed`], or nobody has looked yet: of what may be handed out again before there was a turn. (What waits for one
    /// is given up then. Of chunks that this compute node was granted only its own collector closes any, and that waits for one, too.)
    pub(crate) fn may_be_closed(&self, node: NodeId, offset: u64) -> bool {
        !self.epochs.closed().is_read() || self.is_closed(node, offset)
    }

    /// Before places are handed out: if chunks were closed since this was asked last, has `give_up` forget what lies where its
    /// argument says so.
    #[inline]
    pub(crate) fn heed(&self, give_up: impl FnOnce(&dyn Fn(NodeId, u64) -> bool)) {
        let heeded = self.heeded.load(Ordering::Acquire);
        if heeded != self.epochs.closed().version() && !planted(Bug::ClosedKept) {
            self.give_up(heeded, give_up);
        }
    }

    fn give_up(&self, heeded: u32, give_up: impl FnOnce(&dyn Fn(NodeId, u64) -> bool)) {
        let since = self.epochs.closed().since(heeded);
        give_up(&|node, offset| since.has(ChunkName::of(self.geometry, node, offset)));
        self.collection.give_up(|name| since.has(Some(name)));
        // What others gave up meanwhile is given up, too: this is not before any of theirs.
        self.heeded.fetch_max(since.version, Ordering::Release);
    }
}

/// Goes on with a collection as far as it gets without waiting, or begins one if there is reason: see the file. What waits for epochs
/// says so in `adopted`. The lane must not be in an operation.
///
/// Round trips: one for eight rows; of a collection, one for 64 chunks and one for each that is chosen, three to close them, the walk, and one each to take
/// chunks over, and one.
pub(crate) async fn collect<'s>(
    room: &impl Collects<'s>,
    lane: &Lane<'_>,
    adopted: &mut Adopted,
) -> Result<(), OpError> {
    let Some((site, collection)) = room.site() else { return Ok(()) };
    let Some(_busy) = Busy::begin(&collection.busy) else { return Ok(()) };
    // Of a pool that nobody asks for places.
    room.heed();
    loop {
        let phase = collection.work.lock().phase;
        match phase {
            Phase::Idle => match site.choose(room, collection, lane, adopted).await? {
                Choice::Made | Choice::RoundOver => {}
                Choice::Nothing => return Ok(()),
            },
            Phase::Chosen => {
                if !site.close(room, collection, lane).await? {
                    adopted.waits = true;
                    return Ok(());
                }
            }
            Phase::Closed(turns) => {
                if !site.part.epochs.is_over(turns) && !planted(Bug::WalkAtOnce) {
                    site.part.epochs.want();
                    adopted.waits = true;
                    return Ok(());
                }
                if !site.has_buried(room, collection, lane).await? && !planted(Bug::WalkBeforeReplays) {
                    adopted.waits = true;
                    return Ok(());
                }
                collection.ground.lock().begin();
                room.mark(lane).await?;
                collection.work.lock().phase = Phase::Marked(site.part.epochs.turns());
            }
            Phase::Marked(turns) => {
                if !site.part.epochs.is_over(turns) && !planted(Bug::OpenAtOnce) {
                    site.part.epochs.want();
                    adopted.waits = true;
                    return Ok(());
                }
                room.heed();
                site.open(collection, lane, adopted).await?;
            }
            Phase::Opened => site.end(collection, lane).await?,
        }
    }
}

/// What there is to collect.
enum Choice {
    /// Chunks were chosen.
    Made,
    /// All have been gone through.
    RoundOver,
    /// There is no reason, or no ground.
    Nothing,
}

impl<'s> Site<'s> {
    /// Chooses chunks, if there is reason to collect and ground for it.
    async fn choose(
        &self,
        room: &impl Collects<'s>,
        collection: &Collection<'_>,
        lane: &Lane<'_>,
        adopted: &mut Adopted,
    ) -> Result<Choice, OpError> {
        let Some(home) = self.geometry.first() else { return Ok(Choice::Nothing) };
        // Of a choice that failed.
        collection.ground.lock().abandon();
        let short = collection.short.swap(false, Ordering::Relaxed);
        let round = collection.work.lock().round;
        let round = if let Some(round) = round {
            round
        } else {
            let ended = rows::lives_ended(lane, home, self.at).await?.wrapping_add(1);
            let due = if collection.eager {
                !adopted.looked
            } else {
                short && collection.lost.swap(false, Ordering::Relaxed)
            };
            let own = collection.loaded().filter(|_| due);
            if collection.ended.load(Ordering::Relaxed) == ended && own.is_none() {
                return Ok(Choice::Nothing);
            }
            if collection.ended.load(Ordering::Relaxed) != ended {
                // What was on a shelf of somebody gone may lie in one's own chunks.
                collection.may_have_lost();
            }
            let mut work = collection.work.lock();
            (work.round, work.own, work.next) = (Some(ended), own, (0, 0));
            ended
        };
        adopted.looked = true;
        if short && collection.ground.lock().room(home.chunk_bytes) == 0 {
            // What is left there may be had again, with own chunks.
            collection.ground.lock().make_room();
            collection.may_have_lost();
        }
        let (mut next, own) = {
            let work = collection.work.lock();
            (work.next, work.own)
        };
        let mut targets = heapless::Vec::<Target, CHUNKS_AT_ONCE>::new();
        while let Some(geometry) = self.geometry.get(usize::from(next.0)) {
            let (node, chunk) = (NodeId(next.0), next.1);
            if chunk >= geometry.chunk_count {
                next = (next.0 + 1, 0);
                continue;
            }
            if let Some((grant, what, least)) = self.is_worth(room, lane, node, geometry, chunk, own.is_some()).await? {
                if targets.is_full() {
                    break;
                }
                let name = ChunkName::new(node, chunk);
                let place = (node, geometry.chunk_offset(chunk), geometry.chunk_bytes);
                if !collection.ground.lock().survey(name, place, what, least) {
                    adopted.no_room += u64::from(targets.is_empty());
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
            if adopted.no_room > 0 {
                return Ok(Choice::Nothing);
            }
            // Somebody else may have gone since it began.
            work.round = None;
            collection.ended.store(round, Ordering::Relaxed);
            return Ok(Choice::RoundOver);
        }
        work.targets = targets;
        work.collector = Collector::new(self.owner, self.part.epochs.next_collection());
        work.phase = Phase::Chosen;
        Ok(Choice::Made)
    }

    /// Whether a chunk is to be collected: of a compute node that is gone, or if so its `own`.
    async fn is_worth(
        &self,
        room: &impl Collects<'s>,
        lane: &Lane<'_>,
        node: NodeId,
        geometry: &NodeGeometry,
        chunk: u32,
        own: bool,
    ) -> Result<Option<(Grant, u8, usize)>, OpError> {
        let entry = chunks::read_entry(lane, node, geometry, chunk, self.at).await?;
        let Ok(ChunkEntry::Granted(grant)) = entry.decode() else { return Ok(None) };
        let Some((what, least)) = room.carves(grant.kind).filter(|_| grant.index == self.number) else {
            return Ok(None);
        };
        let worth = if self.is_own(&grant) { own } else { self.is_gone(lane, &grant).await? };
        Ok(worth.then_some((grant, what, least)))
    }

    fn is_own(&self, grant: &Grant) -> bool {
        grant.row == self.owner.row && u32::from(grant.incarnation) == self.owner.incarnation
    }

    async fn is_gone(&self, lane: &Lane<'_>, grant: &Grant) -> Result<bool, OpError> {
        let Some(home) = self.geometry.first() else { return Ok(false) };
        let tenant = rows::tenant(lane, home, grant.row, self.at).await?;
        Ok(tenant.is_some_and(|tenant| tenant.is_gone(grant.incarnation)))
    }

    /// Whether no repairer can be at what somebody dead left under a lock, now that a turn is over. A row is DEAD until its locks are
    /// taken over, and whoever takes one over does again what there is to be done in the same operation. So it is over when a turn has
    /// passed that began when nobody was dead, and nobody has died since: all that had taken over have ended, and were not cut
    /// short. If not, the next turn is waited for.
    async fn has_buried<R: Collects<'s>>(
        &self,
        _: &R,
        collection: &Collection<'_>,
        lane: &Lane<'_>,
    ) -> Result<bool, OpError> {
        let (true, Some(home)) = (R::REPLAYS, self.geometry.first()) else { return Ok(true) };
        let buried = rows::all_buried(lane, home, self.at).await?;
        let mut work = collection.work.lock();
        if buried.is_some() && work.buried == buried {
            return Ok(true);
        }
        work.buried = buried;
        work.phase = Phase::Closed(self.part.epochs.turns());
        self.part.epochs.want();
        Ok(false)
    }

    /// Closes the chunks. `false`: somebody else collects.
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
                // No row of that number: nobody ever wrote that.
                if !tenant.is_none_or(|tenant| tenant.is_gone(named.incarnation())) {
                    return Ok(false);
                }
            }
            if lane.port().call(Request::cas(Label::Row, HOME, offset, found, mine.0)).await?.value != found {
                return Ok(false);
            }
        }
        // Somebody else may have taken some over since they were chosen. From here on nobody does: he would have the line.
        let chosen = collection.work.lock().targets.clone();
        for target in &chosen {
            let Some(geometry) = self.geometry.get(usize::from(target.node.0)) else { continue };
            let entry = chunks::read_entry(lane, target.node, geometry, target.chunk, at).await?;
            if entry != target.grant.word() {
                let name = ChunkName::new(target.node, target.chunk);
                collection.ground.lock().forget(name);
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
        let buried = if R::REPLAYS { rows::all_buried(lane, home, at).await? } else { None };
        let mut work = collection.work.lock();
        (work.buried, work.phase) = (buried, Phase::Closed(self.part.epochs.turns()));
        Ok(true)
    }

    /// The WRITE of names of chunks into the line at `offset`.
    fn names(lane: &Lane<'_>, offset: u64, at: usize, names: &[ChunkName; CHUNKS_AT_ONCE]) -> Request {
        lane.port().with(|scratch| {
            let room = scratch.get_mut(at..at + size_of_val(names)).unwrap_or_default();
            for (to, name) in room.chunks_exact_mut(8).zip(names) {
                to.copy_from_slice(&name.0.to_le_bytes());
            }
        });
        Request::write(Label::Row, HOME, offset + 8, size_of_val(names), at)
    }

    /// Takes chunks of the gone over, and opens them and own ones.
    async fn open(&self, collection: &Collection<'_>, lane: &Lane<'_>, adopted: &mut Adopted) -> Result<(), OpError> {
        loop {
            let last = collection.work.lock().targets.last().copied();
            let Some(Target { node, chunk, grant }) = last else { break };
            let name = ChunkName::new(node, chunk);
            let was_mine = self.is_own(&grant);
            let own = collection.work.lock().own;
            let mut is_mine = was_mine && own.is_some() && own == collection.loaded();
            if !was_mine && let Some(geometry) = self.geometry.get(usize::from(node.0)) {
                let used_up = "this incarnation has used all its requests for chunks: join anew";
                let request = self.requests.next().ok_or(OpError::harmless(Cause::BadInput(used_up)))?;
                let heir = Grant::new(self.owner, grant.kind, grant.index, request);
                is_mine = chunks::inherit(lane, node, geometry, chunk, &grant, &heir).await?;
                // It may be by an earlier call that did not learn of it.
                if !is_mine {
                    let entry = chunks::read_entry(lane, node, geometry, chunk, self.at).await?;
                    is_mine = matches!(entry.decode(), Ok(ChunkEntry::Granted(now)) if self.is_own(&now));
                }
                if is_mine {
                    lane.mark(Mark::ChunkAdopted);
                    adopted.chunks += 1;
                }
            }
            if is_mine {
                adopted.bytes += collection.ground.lock().open(name);
                collection.open.store(true, Ordering::Release);
            }
            collection.work.lock().targets.pop();
        }
        collection.ground.lock().abandon();
        collection.work.lock().phase = Phase::Opened;
        Ok(())
    }

    /// Nothing is closed any more.
    async fn end(&self, collection: &Collection<'_>, lane: &Lane<'_>) -> Result<(), OpError> {
        let Some(home) = self.geometry.first() else { return Ok(()) };
        let (offset, at) = (row::closed_offset(home), self.at);
        let mine = collection.work.lock().collector;
        // Whoever has the line by now, after an end that this compute node did not learn of, is another one.
        if rows::read_closed(lane, home, at).await?[0] == mine.0 {
            lane.port().call(Self::names(lane, offset, at, &Default::default())).await?;
            lane.port().call(Request::cas(Label::Row, HOME, offset, mine.0, Collector::NOBODY.0)).await?;
        }
        self.part.epochs.closed().end(mine);
        collection.work.lock().phase = Phase::Idle;
        Ok(())
    }
}
