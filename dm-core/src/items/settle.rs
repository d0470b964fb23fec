//! Gives back blocks and empties layers when a step has ended or was cut short.
//!
//! A step that changes which block an entry names leaves one block without a name: the entry's old block if the change
//! was made, the operation's own block if not. That one is given back. If the step was cut short, the lane's state or a
//! look at the entry tells which one it is. If others have changed the entry since, it cannot be known, and one block
//! is lost ([`Mark::BLOCK_LOST`]). The rules and the reasons are in [`items_memory`](crate::manual::items_memory).
//!
//! A change that was forwarded and not answered may be made after settling: see the room's "Keys with owners".
//!
//! An entry in a new layer to which no link was made is deleted. Only this operation knows the layer's number, so no
//! other operation comes there.

use super::slot::{BlockPointer, Slot};
use super::{BlockState, Items, Progress};
use crate::index::Index;
use crate::lane::Lane;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError, Operation, OperationKind, Outcome};
use crate::verbs::Status;
use core::future::Future;

impl<I: Index> Items<'_, I> {
    fn set_block_state(&self, lane: &Lane<'_>, state: BlockState) {
        let mut progress = self.progress(lane);
        progress.block_state = state;
        self.set_progress(lane, progress);
    }

    /// The change was made: the entry names the operation's block, or none, instead of the block that was considered.
    pub(super) fn entry_changed(&self, lane: &Lane<'_>) {
        let progress = self.progress(lane);
        if progress.block_state == BlockState::ChangingEntry || progress.block_state == BlockState::InDoubt {
            self.set_block_state(lane, BlockState::None);
            if !planted(Mutant::BLOCK_RETIRED_EARLY) {
                self.retire(lane, &progress.pointer);
            }
        }
    }

    /// A step changed nothing: the entry does not name the operation's block.
    pub(super) fn entry_not_changed(&self, lane: &Lane<'_>) {
        let mut progress = self.progress(lane);
        if progress.block_state == BlockState::ChangingEntry {
            progress.block_state =
                if progress.block == BlockPointer::NONE { BlockState::None } else { BlockState::Written };
        }
        if progress.step == super::point::Step::InsertInLayer {
            progress.pushed = false;
        }
        self.set_progress(lane, progress);
    }

    /// The new layer is linked, or has no entry.
    pub(super) fn not_pushed(&self, lane: &Lane<'_>) {
        let mut progress = self.progress(lane);
        progress.pushed = false;
        self.set_progress(lane, progress);
    }

    /// Gives back the block that was written and that no entry names, now that the operation has ended.
    pub(super) fn end(&self, lane: &Lane<'_>) {
        let progress = self.progress(lane);
        // Settling decides on blocks in the other states, since a WRITE that failed may still land.
        if progress.block_state == BlockState::Written {
            self.set_block_state(lane, BlockState::None);
            self.retire(lane, &progress.block);
        }
    }

    /// Gives up the calls of this compute node, if the last step may still be executed by another one.
    pub(super) async fn give_up_calls(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let progress = self.progress(lane);
        if !lane.may_change_late() || !progress.is_unsettled() || planted(Mutant::LATE_CALL_FORGOTTEN) {
            return Ok(());
        }
        if let Some(home) = self.site.geometry.first() {
            match self.site.given_up.raise(lane, home, self.site.owner).await {
                Err(error) if Self::passes(error.status) => return Err(error.into()),
                // A row that others fence has given up its calls.
                Ok(()) | Err(_) => {}
            }
        }
        lane.mark(Mark::CALL_GIVEN_UP);
        self.set_progress(lane, Progress { late: true, ..progress });
        lane.set_may_change_late(false);
        Ok(())
    }

    /// Concludes from the state of the step what can be concluded, now that the port is idle.
    pub(super) fn conclude(&self, lane: &Lane<'_>) {
        let progress = self.progress(lane);
        // Of a forwarded change this lane knows nothing.
        let made_change = if progress.late { None } else { lane.made_change() };
        match (progress.block_state, made_change) {
            (BlockState::None | BlockState::InDoubt, _) => {}
            // No WRITE of this block can land any more.
            (BlockState::Writing | BlockState::Written, _) | (BlockState::ChangingEntry, Some(false)) => {
                self.set_block_state(lane, BlockState::None);
                self.retire(lane, &progress.block);
            }
            (BlockState::ChangingEntry, Some(true)) => self.entry_changed(lane),
            (BlockState::ChangingEntry, None) => {
                let at_stake = [progress.block, progress.pointer].iter().any(|pointer| *pointer != BlockPointer::NONE);
                self.set_block_state(lane, if at_stake { BlockState::InDoubt } else { BlockState::None });
            }
        }
    }

    /// Asks again whether a chunk was granted.
    pub(super) async fn ask_again(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let Some(request) = self.progress(lane).wanted else { return Ok(()) };
        match self.grant(lane, request, true).await {
            Err(error @ OpError { cause: Cause::Verb(verb), .. }) if Self::passes(verb.status) => return Err(error),
            // A compute node without its memory nodes needs no chunk.
            Ok(_) | Err(_) => self.set_progress(lane, Progress { wanted: None, ..self.progress(lane) }),
        }
        Ok(())
    }

    /// Whether a request that failed with `status` may be made again, because its queue pair will be set up again. An owner that
    /// does not answer may be dead.
    const fn passes(status: Status) -> bool {
        !matches!(status, Status::NodeDown | Status::Fenced | Status::Unanswered)
    }

    /// READs the entry, if this is needed to know whether the change was made.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    pub(super) fn find_out(&self, lane: &Lane<'_>) -> impl Future<Output = Result<(), OpError>> {
        async move {
            if self.progress(lane).block_state != BlockState::InDoubt {
                return Ok(());
            }
            let slot = self.revisit(lane).await?;
            let progress = self.progress(lane);
            lane.mark(Mark::ENTRY_REVISITED);
            match slot {
                Visit::Block(pointer) if pointer == progress.block => self.entry_changed(lane),
                Visit::Block(pointer) if pointer == progress.pointer && !progress.late => {
                    self.set_block_state(lane, BlockState::None);
                    self.retire(lane, &progress.block);
                }
                _ => {
                    self.set_block_state(lane, BlockState::None);
                    lane.mark(Mark::BLOCK_LOST);
                    self.blocks.leave(&progress.block);
                }
            }
            Ok(())
        }
    }

    /// Deletes the entry of a layer that no link leads to.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    pub(super) fn take_layer_back(&self, lane: &Lane<'_>) -> impl Future<Output = Result<(), OpError>> {
        async move {
            let Progress { pushed, late, .. } = self.progress(lane);
            if !pushed {
                return Ok(());
            }
            if late {
                // The link may still be made: the entry in the new layer has to stay.
                lane.mark(Mark::LAYER_LOST);
                self.not_pushed(lane);
                return Ok(());
            }
            match self.revisit(lane).await? {
                Visit::Link(layer) if layer == self.progress(lane).made => lane.mark(Mark::LAYER_MADE),
                Visit::Nowhere => lane.mark(Mark::LAYER_LOST),
                _ => {
                    self.put_pushed_key(lane);
                    match self.step(lane, OperationKind::Delete).await? {
                        Some(_) => lane.mark(Mark::LAYER_TAKEN_BACK),
                        None => lane.mark(Mark::LAYER_LOST),
                    }
                }
            }
            self.not_pushed(lane);
            Ok(())
        }
    }

    /// READs the entry that the operation was about to change.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    fn revisit(&self, lane: &Lane<'_>) -> impl Future<Output = Result<Visit, OpError>> {
        async move {
            lane.port().with(|scratch| {
                let (front, ours) = self.split(scratch);
                self.write_entry_key(front, ours, &self.progress(lane));
            });
            let outcome = self.step(lane, OperationKind::Get).await?;
            let below = self.below.plan();
            Ok(match outcome {
                Some(Outcome::Found) => lane.port().with(|scratch| {
                    let entry_key = scratch.get(below.key.clone()).unwrap_or_default();
                    match Slot::read(entry_key, scratch.get(below.output.clone()).unwrap_or_default()) {
                        Some(Slot::Block(pointer)) => Visit::Block(pointer),
                        Some(Slot::Link(layer)) => Visit::Link(layer),
                        _ => Visit::Other,
                    }
                }),
                Some(_) => Visit::Other,
                None => Visit::Nowhere,
            })
        }
    }

    /// One step of settling. `None`: the entry cannot be reached, and repeating the step is of no use.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    fn step(&self, lane: &Lane<'_>, kind: OperationKind) -> impl Future<Output = Result<Option<Outcome>, OpError>> {
        async move {
            let deadline_ns = self.progress(lane).operation.deadline_ns;
            let result = self.execute_below(lane, Operation { deadline_ns, ..Operation::point(kind) }).await;
            if lane.is_unsettled_below() {
                self.below.settle(lane).await?;
            }
            match result {
                Ok(outcome) => Ok(Some(outcome)),
                Err(error @ OpError { cause: Cause::Verb(verb), .. }) if Self::passes(verb.status) => Err(error),
                Err(_) => Ok(None),
            }
        }
    }
}

/// What an entry has.
enum Visit {
    Block(BlockPointer),
    Link(u64),
    /// A value, or the entry is absent.
    Other,
    /// The entry cannot be READ.
    Nowhere,
}
