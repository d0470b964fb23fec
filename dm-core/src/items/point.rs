//! Point operations: steps of the index below, one after the other.
//!
//! ```text
//!            insert of a key that ends here
//!   begin ──────────────────────────────────────────────► Insert ─► inserted
//!     │                                                     │ exists ──┐
//!     ▼                absent, and it inserts               │          │
//!   Get ◄──────┬───────────────────────────────────────► Insert ───────┤
//!     │ found  │                                                       ▼
//!     └────────┼──────► consider the slot ◄────────────────────────────┘ ◄── mismatch ──┐
//!              │          │ link: one layer down, Get                                   │
//!              │          │ item of this key: answer, or ──► Update, Delete ────────────┤──► done
//!              │          │ item of another key: absent, or                             │
//!              │          └──► InsertInLayer ──► Link ──► one layer down                │
//!              └──────────────── DeleteInLayer ◄── mismatch ──┘
//! ```
//!
//! After some mismatches, the next one leads to a pause and to Get (`Items::back_off`).
//!
//! Each step is one operation of the index below. The decisions between the steps are not async. The slot that was
//! considered last stays in the `expected` range of the index below, where Update, Delete and Link compare it.

use super::block::{self, block_bytes};
use super::key::ROOT_LAYER;
use super::slot::{BlockPointer, Slot};
use super::{BlockState, Items, Progress};
use crate::index::Index;
use crate::lane::Lane;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome, Part};
use crate::verbs::{Label, Request};
use core::future::Future;
use core::ops::Range;

/// After so many failed attempts an operation pauses before the next one.
const PATIENT_ATTEMPTS: u32 = 8;

/// First and longest pause, in ns: up to some changes of the entry.
const BACK_OFF_NS: (u64, u64) = (1_000, 64_000);

/// The step that the index below is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the entry.
    #[default]
    Get,
    /// Insert an entry.
    Insert,
    /// Change the slot of an entry.
    Update,
    /// Delete an entry.
    Delete,
    /// Insert the entry of an item into a new layer.
    InsertInLayer,
    /// Change the entry to the link to that layer.
    Link,
    /// Delete the entry in the new layer again.
    DeleteInLayer,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: the operation has ended.
    Done(Outcome),
    /// Do the next step of the index below.
    Ask,
    /// READ the block that the slot points to.
    Examine,
    /// WRITE the operation's block, then do the next step.
    Write,
}

/// A slot as it was seen.
enum Seen {
    Link(u64),
    Inline,
    Block(BlockPointer),
}

/// Where the value of the key is.
#[derive(Clone, Copy)]
enum Found {
    /// In the slot that was considered.
    Slot,
    /// In the block that was READ.
    Block,
}

impl<I: Index> Items<'_, I> {
    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    pub(super) fn point<'a>(&'a self, lane: &'a Lane<'_>) -> impl Future<Output = Result<Outcome, OpError>> + 'a {
        async move {
            let mut next = self.begin(lane, self.progress(lane).operation.kind);
            loop {
                let Operation { kind, deadline_ns, .. } = self.progress(lane).operation;
                next = match next {
                    Next::Done(outcome) => return Ok(outcome),
                    Next::Examine => self.examine(lane, kind).await?,
                    Next::Write => {
                        self.write_block(lane).await?;
                        Next::Ask
                    }
                    Next::Ask => {
                        self.back_off(lane).await?;
                        let step = Operation { deadline_ns, ..Operation::point(self.ask(lane)) };
                        let result = self.execute_below(lane, step).await;
                        self.digest(lane, kind, result)?
                    }
                };
                if lane.is_unsettled_below() && !matches!(next, Next::Done(_)) {
                    // The index below made its change, and something after it failed. It does no further step before
                    // that is settled.
                    self.below.settle(lane).await.map_err(|error| OpError::harmless(error.cause))?;
                }
            }
        }
    }

    /// Pauses for a random time before the operation reads an entry again that others have changed many times meanwhile. Locks
    /// are handed on in the order in which lanes ask. So lanes that all want the entry keep their order: the lane that has just
    /// changed it reads it first, asks first, and is again the one whose change fits. The others would lose each time.
    async fn back_off(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let Progress { step: Step::Get, attempts, .. } = self.progress(lane) else { return Ok(()) };
        let Some(failed @ 1..) = attempts.checked_sub(PATIENT_ATTEMPTS) else { return Ok(()) };
        let longest_ns = (BACK_OFF_NS.0 << failed.min(16)).min(BACK_OFF_NS.1);
        let drawn_ns = (u64::from(lane.next_turn() >> 16) * longest_ns) >> 16;
        lane.port().call(Request::pause(drawn_ns.max(1))).await?;
        Ok(())
    }

    /// Goes down as far as this compute node has copies of links.
    fn begin(&self, lane: &Lane<'_>, kind: OperationKind) -> Next {
        let mut progress = Progress::of(self.progress(lane).operation);
        let ends = lane.port().with(|scratch| {
            let (front, ours) = self.split(scratch);
            loop {
                let entry_key = self.write_entry_key(front, ours, &progress);
                if self.shape.ends(self.rest(ours, &progress).len()) {
                    return true;
                }
                let Some(layer) = self.links.get(entry_key) else { return false };
                progress.layer = layer;
                progress.depth += 1;
            }
        });
        self.set_progress(lane, progress);
        if kind == OperationKind::Insert && ends { self.to(lane, Step::Insert) } else { Next::Ask }
    }

    /// The rest of the operation's key in the layer of `progress`.
    fn rest<'a>(&self, ours: &'a [u8], progress: &Progress) -> &'a [u8] {
        let done = usize::from(progress.depth) * self.shape.slice_bytes();
        self.near.part(ours, Part::Key).get(done..).unwrap_or_default()
    }

    /// Writes the entry key of the operation's key in the layer of `progress`.
    pub(super) fn write_entry_key<'a>(&self, front: &'a mut [u8], ours: &[u8], progress: &Progress) -> &'a [u8] {
        let Some(entry_key) = front.get_mut(self.below.plan().key.clone()) else { return &[] };
        self.shape.write(progress.layer, self.rest(ours, progress), entry_key);
        entry_key
    }

    fn copy_pushed_key(&self, front: &mut [u8], ours: &[u8]) {
        let entry_key = ours.get(self.near_range(&self.scratch.entry_key)).unwrap_or_default();
        copy_to(front, &self.below.plan().key, entry_key);
    }

    /// Sets the key of the next step to the entry of the new layer.
    pub(super) fn put_pushed_key(&self, lane: &Lane<'_>) {
        lane.port().with(|scratch| {
            let (front, ours) = self.split(scratch);
            self.copy_pushed_key(front, ours);
        });
    }

    /// Whether the entry itself is to have the operation's value.
    fn is_inline(&self, ours: &[u8], progress: &Progress) -> bool {
        let most = self.parameters.inline_bytes_max(self.below.plan().value_bytes);
        self.shape.ends(self.rest(ours, progress).len()) && self.near.length(ours, Part::Value) <= most
    }

    /// Continues with `step`.
    fn to(&self, lane: &Lane<'_>, step: Step) -> Next {
        let mut progress = self.progress(lane);
        progress.step = step;
        if step == Step::Insert {
            progress.pointer = BlockPointer::NONE;
        }
        self.set_progress(lane, progress);
        if !matches!(step, Step::Insert | Step::Update) || progress.block_state == BlockState::Written {
            return Next::Ask;
        }
        let inline = lane.port().with(|scratch| self.is_inline(self.split(scratch).1, &progress));
        if inline { Next::Ask } else { Next::Write }
    }

    /// Puts the arguments of the next step where the index below expects them, and returns the step's kind.
    fn ask(&self, lane: &Lane<'_>) -> OperationKind {
        let mut progress = self.progress(lane);
        let below = self.below.plan();
        lane.begin_step();
        let mut unwanted = BlockPointer::NONE;
        let kind = lane.port().with(|scratch| {
            let (front, ours) = self.split(scratch);
            if matches!(progress.step, Step::InsertInLayer | Step::DeleteInLayer) {
                self.copy_pushed_key(front, ours);
            } else {
                self.write_entry_key(front, ours, &progress);
            }
            let slot = match progress.step {
                Step::Get => return OperationKind::Get,
                Step::Delete => {
                    progress.block = BlockPointer::NONE;
                    progress.block_state = BlockState::ChangingEntry;
                    return OperationKind::DeleteIf;
                }
                Step::DeleteInLayer => return OperationKind::Delete,
                Step::InsertInLayer => {
                    if below.value.end <= front.len() {
                        front.copy_within(below.expected.clone(), below.value.start);
                    }
                    progress.pushed = true;
                    return OperationKind::Insert;
                }
                Step::Link => Slot::Link(progress.made),
                Step::Insert | Step::Update if self.is_inline(ours, &progress) => {
                    // A block that was written for a layer above, where the key continued.
                    unwanted = progress.block;
                    progress.block = BlockPointer::NONE;
                    progress.block_state = BlockState::ChangingEntry;
                    Slot::Inline(self.near.part(ours, Part::Value))
                }
                Step::Insert | Step::Update => {
                    progress.block_state = BlockState::ChangingEntry;
                    Slot::Block(progress.block)
                }
            };
            // The value lies behind the key.
            if let Some((arguments, rest)) = front.split_at_mut_checked(below.value.start)
                && let Some(place) = rest.get_mut(..below.value.len())
            {
                slot.write(arguments.get(below.key.clone()).unwrap_or_default(), place);
            }
            match progress.step {
                Step::Insert => OperationKind::Insert,
                Step::Link if planted(Mutant::LINK_UNCONDITIONAL) => OperationKind::Update,
                _ => OperationKind::UpdateIf,
            }
        });
        self.set_progress(lane, progress);
        self.retire(lane, &unwanted);
        if planted(Mutant::BLOCK_RETIRED_EARLY) && matches!(progress.step, Step::Update | Step::Delete) {
            self.retire(lane, &progress.pointer);
        }
        kind
    }

    /// Decides what to do after the result of a step.
    fn digest(&self, lane: &Lane<'_>, kind: OperationKind, result: Result<Outcome, OpError>) -> Result<Next, OpError> {
        let progress = self.progress(lane);
        let changes = matches!(progress.step, Step::Insert | Step::Update | Step::Delete);
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => {
                if error.effect == Effect::None {
                    self.entry_not_changed(lane);
                }
                // Making a layer changes no key and no value, whatever became of it.
                let effect = if changes { error.effect } else { Effect::None };
                return Err(OpError { effect, ..error });
            }
        };
        match (progress.step, outcome) {
            (Step::Insert, Outcome::Inserted) => {
                self.entry_changed(lane);
                Ok(Next::Done(Outcome::Inserted))
            }
            (Step::Update, Outcome::Updated) => {
                self.entry_changed(lane);
                Ok(Next::Done(if kind == OperationKind::Upsert { Outcome::Replaced } else { Outcome::Updated }))
            }
            (Step::Delete, Outcome::Deleted) => {
                self.entry_changed(lane);
                Ok(Next::Done(Outcome::Deleted))
            }
            (Step::InsertInLayer, Outcome::Inserted) => Ok(self.to(lane, Step::Link)),
            (Step::InsertInLayer, _) => {
                self.not_pushed(lane);
                Err(Self::corrupt(&progress.pointer, "a new layer has entries"))
            }
            (Step::Link, Outcome::Updated) => {
                lane.mark(Mark::LAYER_MADE);
                self.not_pushed(lane);
                self.down(lane, kind, progress.made)
            }
            (Step::Link, _) => {
                lane.mark(Mark::LAYER_TAKEN_BACK);
                Ok(self.to(lane, Step::DeleteInLayer))
            }
            (Step::DeleteInLayer, _) => {
                self.not_pushed(lane);
                self.again(lane)
            }
            (Step::Get, Outcome::Found) => self.consider(lane, kind),
            (Step::Insert, Outcome::Exists) | (Step::Update | Step::Delete, Outcome::Mismatch) => {
                self.entry_not_changed(lane);
                if progress.step != Step::Insert {
                    self.count(lane)?;
                    if self.progress(lane).attempts > PATIENT_ATTEMPTS {
                        return Ok(self.to(lane, Step::Get));
                    }
                }
                self.consider(lane, kind)
            }
            (Step::Get | Step::Update | Step::Delete, Outcome::Absent) => {
                self.entry_not_changed(lane);
                if matches!(kind, OperationKind::Insert | OperationKind::Upsert) {
                    return Ok(self.to(lane, Step::Insert));
                }
                Ok(Next::Done(Outcome::Absent))
            }
            _ => Err(OpError::harmless(Cause::BadInput("the index below answered what was not asked"))),
        }
    }

    /// Decides what to do after the index below has returned a slot.
    fn consider(&self, lane: &Lane<'_>, kind: OperationKind) -> Result<Next, OpError> {
        use OperationKind::{Delete, Update, Upsert};
        let mut progress = self.progress(lane);
        let below = self.below.plan();
        let (seen, ends) = lane.port().with(|scratch| {
            let (front, ours) = self.split(scratch);
            if below.expected.end.max(below.output.end) <= front.len() {
                front.copy_within(below.output.clone(), below.expected.start);
            }
            let entry_key = front.get(below.key.clone()).unwrap_or_default();
            let seen = match Slot::read(entry_key, front.get(below.output.clone()).unwrap_or_default()) {
                Some(Slot::Link(layer)) => Some(Seen::Link(layer)),
                Some(Slot::Inline(_)) => Some(Seen::Inline),
                Some(Slot::Block(pointer)) => Some(Seen::Block(pointer)),
                None => None,
            };
            (seen, self.shape.ends(self.rest(ours, &progress).len()))
        });
        progress.pointer = if let Some(Seen::Block(pointer)) = seen { pointer } else { BlockPointer::NONE };
        self.set_progress(lane, progress);
        match seen {
            Some(Seen::Link(layer)) if !ends => self.down(lane, kind, layer),
            Some(Seen::Inline) if ends => self.found(lane, kind, Found::Slot),
            Some(Seen::Block(_)) => match kind {
                // The block's key is known, and its value does not matter.
                Update | Upsert if ends => Ok(self.to(lane, Step::Update)),
                Delete if ends => Ok(self.to(lane, Step::Delete)),
                _ => Ok(Next::Examine),
            },
            _ => Err(Self::corrupt(&progress.pointer, "an entry that is no item and no link")),
        }
    }

    /// READs the block that an entry pointed to.
    async fn examine(&self, lane: &Lane<'_>, kind: OperationKind) -> Result<Next, OpError> {
        let pointer = self.progress(lane).pointer;
        let request = self.block_read(&pointer, self.scratch.blocks.start)?;
        lane.mark(Mark::BLOCK_READ);
        lane.port().call(request).await?;
        self.judge(lane, kind)
    }

    /// The READ request of a block, into the scratch at `at`.
    pub(super) fn block_read(&self, pointer: &BlockPointer, at: usize) -> Result<Request, OpError> {
        let bytes = pointer.bytes as usize;
        let region = self.site.geometry.get(usize::from(pointer.node().0)).map_or(0, |node| node.region_bytes);
        let fits = at + bytes <= self.scratch.blocks.end && bytes >= block_bytes(0, 0);
        if !fits || pointer.offset() + bytes as u64 > region {
            return Err(Self::corrupt(pointer, "a pointer to a block that cannot be"));
        }
        Ok(Request::read(Label::Block, pointer.node(), pointer.offset(), bytes, at))
    }

    /// Decides what to do after a block was READ.
    fn judge(&self, lane: &Lane<'_>, kind: OperationKind) -> Result<Next, OpError> {
        let mut progress = self.progress(lane);
        let pointer = progress.pointer;
        let slice = self.shape.slice_bytes();
        let made = if matches!(kind, OperationKind::Insert | OperationKind::Upsert) { self.new_layer()? } else { 0 };
        enum Whose {
            Replaced,
            Mine,
            Other,
            Strange,
        }
        let whose = lane.port().with(|scratch| {
            let (_, ours) = self.split(scratch);
            let Some((ours, blocks)) = ours.split_at_mut_checked(self.near_range(&self.scratch.blocks).start) else {
                return Whose::Strange;
            };
            let Some((key, _)) = block::read(blocks, &pointer, self.index()) else { return Whose::Replaced };
            let mine = self.near.part(ours, Part::Key);
            if key == mine {
                return Whose::Mine;
            }
            // A key that ends in its slice shares its entry with no other key. A key that continues shares it with
            // the keys of the same slice.
            let shared = (usize::from(progress.depth) + 1) * slice;
            if self.shape.ends(self.rest(ours, &progress).len())
                || key.len() <= shared
                || key.get(..shared) != mine.get(..shared)
            {
                return Whose::Strange;
            }
            if let Some(entry_key) = ours.get_mut(self.near_range(&self.scratch.entry_key)) {
                self.shape.write(made, key.get(shared..).unwrap_or_default(), entry_key);
            }
            Whose::Other
        });
        match whose {
            Whose::Mine => self.found(lane, kind, Found::Block),
            Whose::Other if made != 0 => {
                progress.made = made;
                self.set_progress(lane, progress);
                Ok(self.to(lane, Step::InsertInLayer))
            }
            Whose::Other => Ok(Next::Done(Outcome::Absent)),
            Whose::Strange => Err(Self::corrupt(&pointer, "a block of a key that has no business there")),
            Whose::Replaced => {
                // While an entry names a block, the block is there.
                if progress.doubted == Some(pointer) {
                    return Err(Self::corrupt(&pointer, "a block that is not what its entry says"));
                }
                lane.mark(Mark::BLOCK_REPLACED);
                progress.doubted = Some(pointer);
                self.set_progress(lane, progress);
                self.again(lane)
            }
        }
    }

    /// Decides what to do with the present value of the key.
    fn found(&self, lane: &Lane<'_>, kind: OperationKind, found: Found) -> Result<Next, OpError> {
        use OperationKind::{Delete, DeleteIf, Get, Insert, Scan, Update, UpdateIf, Upsert};
        let pointer = self.progress(lane).pointer;
        let as_expected = match kind {
            Update | Upsert => return Ok(self.to(lane, Step::Update)),
            Delete => return Ok(self.to(lane, Step::Delete)),
            Get | Insert | Scan => false,
            UpdateIf | DeleteIf => true,
        };
        let same = lane.port().with(|scratch| {
            let (front, ours) = self.split(scratch);
            let (ours, blocks) = ours.split_at_mut_checked(self.near_range(&self.scratch.blocks).start)?;
            let value = match found {
                Found::Slot => {
                    let below = self.below.plan();
                    match Slot::read(front.get(below.key.clone())?, front.get(below.expected.clone())?)? {
                        Slot::Inline(value) => value,
                        _ => return None,
                    }
                }
                Found::Block => block::read(blocks, &pointer, self.index())?.1,
            };
            let expected = self.near.part(ours, Part::Expected);
            let begins_alike =
                || planted(Mutant::VALUE_BEGINS_ALIKE) && value.iter().zip(expected).all(|(a, b)| a == b);
            if as_expected && (value == expected || begins_alike()) {
                return Some(true);
            }
            self.near.put(ours, Part::Output, value).then_some(false)
        });
        match (same, kind) {
            (Some(true), UpdateIf) => Ok(self.to(lane, Step::Update)),
            (Some(true), _) => Ok(self.to(lane, Step::Delete)),
            (Some(false), Insert) => Ok(Next::Done(Outcome::Exists)),
            (Some(false), UpdateIf | DeleteIf) => Ok(Next::Done(Outcome::Mismatch)),
            (Some(false), _) => Ok(Next::Done(Outcome::Found)),
            (None, _) => Err(Self::corrupt(&pointer, "a value longer than this index has")),
        }
    }

    /// Goes one layer down.
    fn down(&self, lane: &Lane<'_>, kind: OperationKind, layer: u64) -> Result<Next, OpError> {
        let mut progress = self.progress(lane);
        if layer == ROOT_LAYER {
            return Err(Self::corrupt(&progress.pointer, "a link to the root layer"));
        }
        let ends = lane.port().with(|scratch| {
            let (front, ours) = self.split(scratch);
            self.links.put(self.write_entry_key(front, ours, &progress), layer);
            progress.layer = layer;
            progress.depth += 1;
            self.shape.ends(self.rest(ours, &progress).len())
        });
        self.set_progress(lane, progress);
        Ok(self.to(lane, if kind == OperationKind::Insert && ends { Step::Insert } else { Step::Get }))
    }

    /// Reads the entry once more.
    fn again(&self, lane: &Lane<'_>) -> Result<Next, OpError> {
        self.count(lane)?;
        Ok(self.to(lane, Step::Get))
    }

    /// Counts a step that failed because another operation changed the entry first.
    fn count(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.mark(Mark::ENTRY_CHANGED);
        let mut progress = self.progress(lane);
        let counted = lane.attempt(&mut progress.attempts, "changing an entry before others do");
        self.set_progress(lane, progress);
        counted
    }

    // ---- the operation's own block ---------------------------------------------------------------------------

    /// WRITEs key and value into a new block.
    async fn write_block(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let bytes = lane.port().with(|scratch| {
            let (_, ours) = self.split(scratch);
            block_bytes(self.near.length(ours, Part::Key), self.near.length(ours, Part::Value))
        });
        let fresh = self.place(lane, bytes).await?;
        let pointer = BlockPointer { place: fresh.place, life: fresh.life, bytes: bytes as u32 };
        let mut progress = self.progress(lane);
        (progress.block_state, progress.block) = (BlockState::Written, pointer);
        self.set_progress(lane, progress);
        let image = lane.port().with(|scratch| {
            let (_, ours) = self.split(scratch);
            let (ours, blocks) = ours.split_at_mut_checked(self.near_range(&self.scratch.blocks).start)?;
            let (key, value) = (self.near.part(ours, Part::Key), self.near.part(ours, Part::Value));
            block::write(blocks, &pointer, self.index(), key, value)
        });
        image.ok_or(OpError::harmless(Cause::BadInput("a key and a value that fit no block")))?;
        progress.block_state = BlockState::Writing;
        self.set_progress(lane, progress);
        let padded = bytes.next_multiple_of(block::UNIT_BYTES);
        let at = self.scratch.blocks.start;
        lane.port().call(Request::write(Label::Block, pointer.node(), pointer.offset(), padded, at)).await?;
        progress.block_state = BlockState::Written;
        self.set_progress(lane, progress);
        Ok(())
    }

    // ---- scratch ---------------------------------------------------------------------------------------------

    /// Splits the scratch into that of the index below and ours. `near` has the ranges of ours.
    pub(super) fn split<'a>(&self, scratch: &'a mut [u8]) -> (&'a mut [u8], &'a mut [u8]) {
        scratch.split_at_mut(self.base.min(scratch.len()))
    }

    /// A range of the scratch, counted from the beginning of ours.
    pub(super) const fn near_range(&self, range: &Range<usize>) -> Range<usize> {
        range.start - self.base..range.end - self.base
    }
}

/// Copies `bytes` to `range`, if the range is in the scratch and as long as they are.
pub(super) fn copy_to(scratch: &mut [u8], range: &Range<usize>, bytes: &[u8]) {
    if let Some(place) = scratch.get_mut(range.clone())
        && place.len() == bytes.len()
    {
        place.copy_from_slice(bytes);
    }
}
