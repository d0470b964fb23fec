//! Items: keys and values of any length over an index of fixed sizes.
//!
//! Any [`Index`] with keys of 16 to 64 bytes and values of 16 or more gets a variable-length mode by this room: keys of 0 to
//! 4096 bytes, values of 0 to 64 KiB, up to what the index was created for; in `memcmp` order, any number of keys with
//! whatever prefix in common.
//!
//! ```text
//!  the index below: entries of fixed size                                   blocks
//!  layer  slice                    slot
//!  ┌────┬──────────────────┬──┬──────────────────┐
//!  │ 0  │ "/etc/hosts"     │10│ inline: value    │
//!  │ 0  │ "/home/kim/paper"│ +│ block ───────────┼──────────────► header, whole key, value
//!  │ 0  │ "/usr/share/doc/"│ +│ link: layer 7    │
//!  ├────┼──────────────────┼──┼──────────────────┤
//!  │ 7  │ "bash/README"    │11│ block ───────────┼──────────────► header, whole key, value
//!  │ 7  │ "tcl/examples/ab"│ +│ link: layer 9    │
//!  └────┴──────────────────┴──┴──────────────────┘
//! ```
//!
//! After the layers of Masstree (Mao, Kohler, Morris, "Cache craftiness for fast multicore key-value storage", EuroSys 2012,
//! section 4.1), with all layers in one tree: a layer is a range of its keys ([`key`]).
//!
//! - A key that ends in its slice has an entry of its own: the value is in it, if it is short, or in a block.
//! - Of keys that go on behind one slice there is one entry, too. While there is one such key, that entry points to its
//!   block, whatever is left of the key. When a second comes, it becomes a *link* to a layer, where the next slices decide.
//!
//! Blocks hold whole keys, so a block says what it is wherever it is found, and moves between layers as a pointer.
//!
//! # Round trips
//!
//! On top of those of the index below, of which an operation needs at least one, named here as Sherman's. A link that is not
//! among this compute node's copies ([`links`]) costs one get each; what a link says never changes, so copies need no
//! invalidation.
//!
//! | operation | round trips | requests |
//! |---|---|---|
//! | get, value inline | 1 | get |
//! | get, value in a block; of an absent key whose slice has a block | 2 | get; READ block |
//! | insert of a key that ends in its slice | 3 (+ 1) | (WRITE block;) insert |
//! | insert of any other, update, upsert, delete, conditional | 4 (+ 1) (+ 1) | get; (READ block;) (WRITE block;) insert, `update_if` or `delete_if` |
//! | insert that makes a layer, each | + 8 | get; READ block; insert; `update_if` |
//! | scan | as below, per layer it passes; + 1 per up to 16 blocks | scan; READ blocks at once |
//!
//! The block of a key that ends in its slice is READ only if its value is asked for.
//!
//! # Why it is right
//!
//! *What there is.* A key is in the index if, along the links from layer 0, its slice comes to an entry that is inline and ends
//! the key, or that points to a block with that whole key. Links are followed by prefix, so there is one such entry at
//! most. All changes of entries are single operations of the index below, which is linearizable per entry key:
//!
//! 1. **A link never changes.** Every change of an entry that was seen as something is an `update_if` or `delete_if` of all
//!    its bytes, and nobody expects a link. So an entry is absent or an item, back and forth, and then a link for ever. A
//!    layer's number names row and incarnation of who made it and is never used again: a copy of a link is a fact.
//! 2. **Making a layer changes nothing.** Of an entry with a block: (a) insert the same pointer into a new layer, which nobody
//!    can reach, under the next slice of the block's key; (b) `update_if` the entry from the pointer to the link. At (b) the
//!    block's key is found along the link as it was found before; all other keys are absent before and after. If the entry
//!    has changed since, (b) does nothing, and the entry in the new layer is deleted again. The operation then goes on in the new
//!    layer as in any other.
//! 3. **Linearization.** An insert, update or delete that answers so: at the step of the index below that changed the entry. A
//!    get, and everything that answers without a change: when the entry was read. What the entry pointed to then is what is
//!    taken from the block later, since blocks do not change within a life (next point). That holds for "absent" as well: the
//!    entry was absent, or its block was of another key, and 1 says that no other entry could have had the key.
//! 4. **A block is the one the entry meant**, or the reader knows that it is not: place, life and length are in the
//!    slot, and the block repeats and checksums them ([`block`]). It is written, and the completion waited for, before an entry
//!    names it, and its place is not given back before the entry has changed ([`pool`]). So if a block is not that of its entry, the
//!    entry has changed since it was read: it is read again. If it has *not* changed by then, bytes were damaged: an error.
//! 5. **Nobody writes on an old sight.** Slots name the life, so an entry that went from a pointer to another and back to the same
//!    place differs, until 2^31 lives of one place have passed between a read and its `update_if`. Inline values come back as
//!    themselves; then the condition holds, which is all that was asked.
//! 6. **Scan.** Within a layer, the scan of the index below: entries ascend, each is current at some instant, those present throughout
//!    are there. A link is followed where it stands in that order, and the layer above goes on behind it. While a scan is between
//!    entry and layer, an item may have become a link: both stand at the same place in the order, and what was taken from the
//!    block was the only key there. Depth is bounded by the length of keys: the scan keeps its way in the lane's scratch, one
//!    number per layer.
//!
//! Operations of the index below may be shared between lanes (`rdwc`): gets only, whose samples are never older than the call.
//! Conditional operations and inserts are never combined there.
//!
//! # How long an operation is under way
//!
//! An operation has one pin ([`crate::memory::epochs`]) from before its first step to after its last, which all of its steps share. When
//! a row has reached an epoch, there is on that compute node, of the operations that began before,
//!
//! - nobody who follows what an entry said: no READ of such a block is under way, and no step that expects such a slot;
//! - no place of a block in anybody's hands. What was taken from the shelf has been named by an entry or given back, and
//!   what an unlinked layer named is not going to be linked.
//!
//! **It ends when nothing it posted can take effect any more.** A block's WRITE that failed may still land, and may be named by a step
//! that failed, too. So an operation that was dropped with requests under way, or left anything to settle, has its pin until
//! [`Index::settle`] is done: then the WRITE has ended, it is known whether the entry names the block, or both are left alone for ever
//! ([`Mark::BlockLost`]: the requests are done for, only their outcome is not known), and the new layer is linked or emptied. One of which a
//! request failed that leaves nothing to settle has it until then or until the lane is used again, as in [`crate::smart`]. Settling
//! has one itself: it gives places back.
//!
//! Copies of links and what lies on the shelf are not pinned. The former are facts, which lead to layers, not to blocks; the latter
//! goes by what is closed ([`pool`]).
//!
//! # What a crash leaves
//!
//! - A block that no entry names: written before the crash, or unnamed just before it. Nobody reads it, and it is collected
//!   (`collect`).
//! - A layer that no link leads to, with one entry: between (a) and (b). Nobody comes there: its number is known to nobody alive. It
//!   stays: see the limits.
//!
//! Of operations that were dropped or failed on a compute node that lives on, nothing stays.
//!
//! Never half an item: the step that shows it is one entry of the index below, whose own recovery finishes or undoes that.
//!
//! # Assumptions
//!
//! Those of the index below. WRITEs of blocks need none of their own but COMPLETION_IS_VISIBLE: their lines may land in any order,
//! before the completion.
//!
//! # Limits
//!
//! - Links stay when their layer is empty, and so does an unlinked layer of a crash: an entry of the index below each.
//! - A step whose request failed and whose entry others have changed before settling looked leaves one block lost, which is
//!   counted ([`Mark::BlockLost`]); so are blocks retired while the shelf is full. They are collected when they are an eighth of what was
//!   granted, or memory is short.
//! - While the row of somebody dead waits for its sweep, nothing is collected.
//! - An update, upsert or delete of a key that ends in its slice looks at the entry first, a round trip that the index below would
//!   save if it told what it replaced.
//! - Without recovery of the index below, queue pairs must not fail: taking an entry back may empty a leaf, and nobody mends a merge
//!   that was cut short.
//! - No bulk load: entries of later layers do not ascend as keys do. Load by inserts.
//! - Over SMART, a deleted entry keeps its leaf, whatever it was: of an item that is gone, of a layer that was taken back. The
//!   block comes back at once; the leaf when its key does, or when an insert comes to its slot or fills its node.

pub mod block;
mod collect;
pub mod key;
pub mod links;
pub mod mark;
pub mod parameters;
mod point;
pub mod pool;
mod scan;
mod settle;
pub mod slot;

use crate::index::Index;
use crate::lane::Lane;
use crate::marks::Mark;
use crate::memory::chunks::{self, RequestIds, Want};
use crate::memory::collect::collect;
use crate::memory::orphans::Adopted;
use crate::memory::{Busy, Participant};
use crate::operation::{Cause, Census, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use crate::port::State;
use crate::recovery::Swept;
use crate::remote::NodeGeometry;
use crate::remote::address::Address;
use crate::remote::catalog::IndexNumber;
use crate::remote::chunk::{ChunkKind, Grant, RequestId};
use crate::remote::lock_word::RowId;
use crate::remote::row::Member;
use crate::verbs::{Assumptions, NodeId};
use block::class_of;
use core::future::Future;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use key::KeyShape;
use links::Links;
use parameters::{ItemsScratch, Parameters};
use pool::{BlockPool, Retired, UnlinkedBlock};
use slot::BlockPointer;
use spin::Mutex;

/// Marks that this room counts; those of the index below come on top.
pub const MARKS: &[Mark] = &[
    Mark::BlockRead,
    Mark::BlockReplaced,
    Mark::BlockLost,
    Mark::BlockLeft,
    Mark::LayerMade,
    Mark::LayerTakenBack,
    Mark::LayerLost,
    Mark::EntryChanged,
    Mark::EntryRevisited,
];

/// Where an index is, and who opened it: what items need to know besides the index below.
#[derive(Clone, Copy)]
pub struct Site<'s> {
    /// Memory nodes of the pool, by logical number.
    pub geometry: &'s [NodeGeometry],
    /// Number in the catalog.
    pub number: IndexNumber,
    /// This compute node.
    pub owner: Member,
    /// Numbers of this compute node's requests for chunks: those of the index below.
    pub requests: &'s RequestIds,
    /// Its part in the pool's epochs, that of the index below; `None`: its row says nothing of how old its pointers are.
    pub epochs: Option<Participant<'s>>,
}

/// How far the block is that an operation wants to name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Draft {
    /// There is none.
    #[default]
    None,
    /// Its WRITE may be on its way.
    Writing,
    /// It is there, and no entry names it.
    Written,
    /// A step has been asked for that makes the entry name it, or nothing, instead of the block it named.
    Switching,
    /// That step was cut short, and whether it has made its change does not follow from what is known here.
    Unsure,
}

/// What the operation of one lane knows between two steps. Storage for [`Items`], one per lane: so futures stay small, and a
/// dropped operation's block is not forgotten.
#[derive(Debug, Default)]
pub struct LaneProgress(Mutex<Progress>);

/// What an operation knows between two steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// What was asked.
    operation: Operation,
    /// See [`Draft`].
    draft: Draft,
    /// The block meant there; none if the entry is to hold the value itself, or to go.
    block: BlockPointer,
    /// The layer it is in, and how deep that is.
    layer: u64,
    depth: u16,
    phase: point::Phase,
    attempts: u32,
    /// The layer that is being made.
    made: u64,
    /// It may have an entry, and nothing leads to it.
    pushed: bool,
    /// A chunk that was asked for, and may have been granted.
    wanted: Option<RequestId>,
    /// The block that the slot names which was considered last; none, if none.
    pointer: BlockPointer,
    /// A block that was not what its entry said.
    doubted: Option<BlockPointer>,
    page: scan::PageProgress,
}

impl Progress {
    /// Whether blocks, layers or chunks are to be settled.
    pub(crate) fn owes(&self) -> bool {
        self.draft != Draft::None || self.pushed || self.wanted.is_some()
    }

    /// At the beginning of an operation.
    pub(crate) const fn of(operation: Operation) -> Self {
        Self {
            operation,
            draft: Draft::None,
            block: BlockPointer::NONE,
            layer: key::ROOT_LAYER,
            depth: 0,
            phase: point::Phase::Look,
            attempts: 0,
            made: 0,
            pushed: false,
            wanted: None,
            pointer: BlockPointer::NONE,
            doubted: None,
            page: scan::PageProgress::BEGIN,
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::of(Operation::scan(0))
    }
}

/// An index with items on one compute node: all its lanes share this.
pub struct Items<'s, I> {
    below: &'s I,
    site: Site<'s>,
    lanes: &'s [LaneProgress],
    parameters: Parameters,
    shape: KeyShape,
    plan: ScratchPlan,
    /// The plan, of the scratch from `base` on: the index below has what is in front of that.
    near: ScratchPlan,
    base: usize,
    scratch: ItemsScratch,
    blocks: BlockPool<'s>,
    links: Links<'s>,
    layers: AtomicU32,
    /// Blocks are being collected: what the index below adopts waits for that.
    collecting: AtomicBool,
    /// A lane adopts.
    adopting: AtomicBool,
}

impl<'s, I: Index> Items<'s, I> {
    /// What the lane's operation knows.
    #[inline]
    pub(super) fn progress(&self, lane: &Lane<'_>) -> Progress {
        self.lanes.get(usize::from(lane.id().0)).map_or_else(Progress::default, |progress| *progress.0.lock())
    }

    /// Notes what the lane's operation knows, and whether that is to be settled.
    #[inline]
    pub(super) fn set_progress(&self, lane: &Lane<'_>, progress: Progress) {
        if let Some(place) = self.lanes.get(usize::from(lane.id().0)) {
            *place.0.lock() = progress;
            lane.set_owes_more(progress.owes());
        }
    }

    /// Puts items over `below`. `plan` and `scratch` come from [`Parameters::plan`]; sizes have been checked
    /// ([`Parameters::check`]). `lanes`: one for each lane of the compute node.
    pub fn new(
        below: &'s I,
        site: Site<'s>,
        lanes: &'s [LaneProgress],
        parameters: Parameters,
        (plan, scratch): (ScratchPlan, ItemsScratch),
        blocks: BlockPool<'s>,
        links: Links<'s>,
    ) -> Self {
        let shape = KeyShape::new(below.plan().key_bytes);
        let base = plan.key.start;
        let near = plan.moved_back(base);
        let (layers, collecting, adopting) = (AtomicU32::new(0), AtomicBool::new(false), AtomicBool::new(false));
        Self {
            below,
            site,
            lanes,
            parameters,
            shape,
            plan,
            near,
            base,
            scratch,
            blocks,
            links,
            layers,
            collecting,
            adopting,
        }
    }

    /// The index below.
    pub fn below(&self) -> &'s I {
        self.below
    }

    /// What was fixed at creation.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Places for blocks.
    pub fn blocks(&self) -> &BlockPool<'s> {
        &self.blocks
    }

    /// What follows pointers to blocks, or is about to name one, holds the answer.
    fn begin_steps<'a, 'm>(&'a self, lane: &'a Lane<'m>) -> UnderWay<'a, 'm, 's> {
        let part = self.site.epochs.as_ref();
        if let Some(part) = part {
            part.enter_steps(lane);
        }
        UnderWay { part, lane }
    }

    /// What blocks carry: the catalog number plus 1.
    fn index(&self) -> u8 {
        self.site.number.get() + 1
    }

    /// The number of a new layer: whose it is, and which of its layers.
    fn new_layer(&self) -> Result<u64, OpError> {
        let next = |number: u32| number.checked_add(1);
        let number = self.layers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let number = number.map_err(|_| OpError::harmless(Cause::BadInput("layer numbers are used up: join anew")))?;
        let Member { row, incarnation, .. } = self.site.owner;
        Ok(u64::from(row.0) << 48 | u64::from(incarnation as u16) << 32 | u64::from(number))
    }

    /// A place for a block of `bytes`.
    async fn place(&self, lane: &Lane<'_>, bytes: usize) -> Result<UnlinkedBlock, OpError> {
        let class = class_of(bytes);
        // Lanes begin apart.
        let nodes = self.site.geometry.len().max(1);
        let near = NodeId((usize::from(lane.id().0) % nodes) as u16);
        loop {
            if let Some(fresh) = self.blocks.take(class, near) {
                return Ok(fresh);
            }
            let Some(request) = self.site.requests.next() else { break };
            if !self.grant(lane, request, false).await? {
                break;
            }
        }
        self.blocks.is_short();
        self.blocks.take_larger(class, near).ok_or(OpError::harmless(Cause::PoolFull))
    }

    /// Gets a chunk, from the memory nodes in turn so that blocks spread over them all. `false`: there is none. What was asked
    /// for and not answered is asked for again when the lane is settled: it may have been granted.
    async fn grant(&self, lane: &Lane<'_>, request: RequestId, retry: bool) -> Result<bool, OpError> {
        let wants = |wanted| self.set_progress(lane, Progress { wanted, ..self.progress(lane) });
        wants(Some(request));
        let turn = request.get() as usize + usize::from(self.site.owner.row.0);
        let grant = Grant::new(self.site.owner, ChunkKind::Items, self.site.number, request);
        let want = Want { grant, retry, reuse: false, hint: 0 };
        let first = NodeId((turn % self.site.geometry.len().max(1)) as u16);
        let granted = chunks::grant_any(lane, self.site.geometry, first, &want, self.scratch.small).await?;
        if let Some(granted) = granted {
            self.blocks.add_chunk(granted.node, granted.offset, granted.bytes);
        }
        wants(None);
        Ok(granted.is_some())
    }

    /// Gives back the place of a block that no entry names, if there is one.
    fn retire(&self, lane: &Lane<'_>, pointer: &BlockPointer) {
        if *pointer == BlockPointer::NONE {
            return;
        }
        match self.blocks.retire(pointer) {
            Retired::Kept => {}
            Retired::Left => lane.mark(Mark::BlockLeft),
            Retired::Forgotten => lane.mark(Mark::BlockLost),
        }
    }

    fn corrupt(pointer: &BlockPointer, what: &'static str) -> OpError {
        let address = Address::new(pointer.node(), pointer.offset(), 0);
        OpError::harmless(Cause::Corrupt { address, what })
    }
}

/// An operation that has a pin for its steps.
struct UnderWay<'a, 'm, 's> {
    part: Option<&'a Participant<'s>>,
    lane: &'a Lane<'m>,
}

impl UnderWay<'_, '_, '_> {
    /// It ends with `result`: if a request failed, it is still under way, until its lane is settled or used again.
    fn ends<T>(&mut self, result: &Result<T, OpError>) {
        if matches!(result, Err(OpError { cause: Cause::Verb(_), .. })) {
            self.part = None;
        }
        self.leave();
    }

    fn leave(&mut self) {
        if let Some(part) = self.part.take()
            && !self.lane.is_unsettled()
        {
            part.leave_steps(self.lane);
        }
    }
}

impl Drop for UnderWay<'_, '_, '_> {
    fn drop(&mut self) {
        // A future that is dropped may have requests under way.
        if self.lane.port().state() == State::Idle {
            self.leave();
        }
    }
}

impl<I: Index> Index for Items<'_, I> {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        self.below.assumptions() | Assumptions::COMPLETION_IS_VISIBLE
    }

    fn execute<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        operation: Operation,
    ) -> impl Future<Output = Result<Outcome, OpError>> + 'a {
        let before = self.progress(lane);
        self.set_progress(lane, Progress { operation, ..before });
        async move {
            if usize::from(lane.id().0) >= self.lanes.len() {
                return Err(OpError::harmless(Cause::BadInput("a lane number past what the index was opened for")));
            }
            if lane.is_unsettled() {
                return Err(OpError::harmless(Cause::BadInput("the lane is in doubt and has to be settled first")));
            }
            let mut under_way = self.begin_steps(lane);
            let result = match self.progress(lane).operation.kind {
                OperationKind::Scan => self.scan(lane, false).await,
                _ => self.point(lane).await,
            };
            self.end(lane);
            under_way.ends(&result);
            result
        }
    }

    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<(), OpError>> + 'a {
        async move {
            let epochs = self.site.epochs.as_ref();
            if let Some(part) = epochs
                && !lane.is_in_steps()
            {
                part.enter_steps(lane);
            }
            lane.set_deadline(Operation::WAIT_NS_DEFAULT);
            lane.close(self.scratch.small).await?;
            self.conclude(lane);
            self.below.settle(lane).await?;
            self.ask_again(lane).await?;
            self.find_out(lane).await?;
            self.take_layer_back(lane).await?;
            if let Some(part) = epochs {
                // All it has posted is done, or was refused: see `Index::settle`.
                part.leave_steps(lane);
            }
            Ok(())
        }
    }

    async fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Census, OpError> {
        let _under_way = self.begin_steps(lane);
        let mut census = self.below.validate(lane).await?;
        let operation = Operation { deadline_ns: u64::MAX, ..Operation::scan(u32::MAX) };
        self.set_progress(lane, Progress::of(operation));
        self.scan(lane, true).await?;
        let page = self.progress(lane).page;
        census.records = page.records;
        census.live_bytes += page.live_bytes;
        census.block_bytes = page.live_bytes;
        Ok(census)
    }

    async fn bulk_append<'a>(&'a self, _: &'a Lane<'_>) -> Result<(), OpError> {
        Err(OpError::harmless(Cause::BadInput("an index with items is not bulk-loaded: insert")))
    }

    async fn bulk_finish<'a>(&'a self, _: &'a Lane<'_>) -> Result<(), OpError> {
        Err(OpError::harmless(Cause::BadInput("an index with items is not bulk-loaded: insert")))
    }

    async fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId) -> Result<Swept, OpError> {
        let _under_way = self.begin_steps(lane);
        self.below.sweep(lane, row).await
    }

    async fn adopt<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Adopted, OpError> {
        // Its steps are operations of their own: all chunks are looked at, which may take long.
        drop(self.begin_steps(lane));
        // One after the other, and one lane at a time: the index below may collect, too, and has what is closed until it is done.
        // Blocks are only begun with when it is, and it does not begin anew until they are.
        let mut adopted = Adopted::default();
        let Some(_busy) = Busy::begin(&self.adopting) else { return Ok(adopted) };
        if !self.collecting.load(Ordering::Relaxed) {
            adopted = self.below.adopt(lane).await?;
            if adopted.waits {
                return Ok(adopted);
            }
        }
        self.collecting.store(true, Ordering::Relaxed);
        let mut blocks = Adopted::default();
        collect(self, lane, &mut blocks).await?;
        self.collecting.store(blocks.waits, Ordering::Relaxed);
        adopted.looked |= blocks.looked;
        adopted.chunks += blocks.chunks;
        adopted.bytes += blocks.bytes;
        adopted.no_room += blocks.no_room;
        adopted.waits = blocks.waits;
        Ok(adopted)
    }

    fn cache_bytes(&self) -> (u64, u64) {
        let (used, budget) = self.below.cache_bytes();
        (used + self.links.bytes(), budget + self.links.bytes())
    }
}
