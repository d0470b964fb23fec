//! Operations that a memory node's processor does, or a part of them: see [`crate::dex::offload`].
//!
//! Round trips: one, whatever the level of the node at which the copies end. If the answer does not count, those of an
//! operation that READs follow.
//!
//! **A get, or a page of a scan**, linearizes when the memory node copied the leaf. What the memory node may not know is in
//! this compute node's page store, so the operation looks there afterwards
//! ([`PageStore::has_had`](crate::pages::PageStore::has_had)): a change of a key that was answered before the operation began,
//! and is not in the bytes that were copied, is in a frame still, or has left with one since the call began. A change of a leaf
//! that is not admitted is answered after its WRITE, or its call, has completed. A leaf that no parent names may lie behind one that is
//! in a frame with the keys of both (a split that was given up, see [`split`](super::split)): a memory node does not answer about it.
//!
//! **A change** calls only about a leaf whose fill this lane has, without a frame. So no lane has a copy of the leaf, nor gets
//! one, until the fill ends. It linearizes when the memory node writes the leaf's first line, and until then it has no effect.
//! The record `none` gives the change its LSN, as it does where the lane WRITEs the leaf itself.
//!
//! *A call that is not answered* may be executed later. So the lane closes what it has to the memory node, which confirms that no
//! call of the lane is, or will be, executed ([`Lane::close`]). Then it READs the leaf, whose LSN says whether the change was
//! made. If the lane gives up before that, settling closes first, and then ends the fill. If the compute node dies, a memory
//! node confirms the fence only when that holds for all calls of the dead one.

use super::Dex;
use super::find::Look;
use crate::btree::leaves::{Leaves, key_of};
use crate::btree::scan::{Progress, Taken};
use crate::dex::flush::{self, ImageSlot};
use crate::dex::image::PageImage;
use crate::dex::leaf;
use crate::dex::log::record::Change as Record;
use crate::dex::log::state::Full;
use crate::dex::offload::Mode;
use crate::dex::offload::choice::{Class, LEVELS, Way};
use crate::dex::offload::message::{
    ANSWER_HEADER_BYTES, Answer, Change, ImagePlace, Nodes, Page, REQUEST_BYTES_MAX, Request as Asked, Scan, Task,
};
use crate::dex::ownership::partition::Tenure;
use crate::error::VerbError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome, Part, ScratchPlan, unknown};
use crate::pages::Fill;
use crate::pages::lsn::Lsn;
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::verbs::{CALL_BYTES_MAX, CallAnswer, Label, Request, Status};
use core::ops::Range;

/// Where the copies end.
pub(super) struct Start {
    from: Address,
    pub(super) level: u8,
}

/// What a change came to that a memory node was asked for.
pub(super) enum Ended {
    /// It ended so. The LSN that the leaf got; `None`: it was not changed.
    So(Outcome, Option<Lsn>),
    /// The leaf has to split first.
    NoRoom,
    /// The log has no room: nobody was asked.
    Full(Full),
    /// Nothing was changed, and this compute node has to look for itself.
    InVain,
}

/// What a memory node is asked for. Keys and values are in the scratch.
#[derive(Clone, Copy)]
enum Want<'s> {
    Search,
    Change {
        kind: OperationKind,
        lsn: Lsn,
        image: Option<ImagePlace>,
    },
    Scan {
        limit: u16,
        after: bool,
        /// Where the entry of the bound ends, if the scan does not end in front of that.
        end_of_entry: Option<&'s [u8]>,
        bounded: bool,
    },
}

impl Want<'_> {
    fn task<'t>(&'t self, plan: &ScratchPlan, scratch: &'t [u8]) -> Task<'t> {
        match *self {
            Self::Search => Task::Search,
            Self::Change { kind, lsn, image } => {
                let part = |part| if kind.parts().contains(&part) { plan.part(scratch, part) } else { &[] };
                Task::Change(Change { kind, value: part(Part::Value), expected: part(Part::Expected), lsn, image })
            }
            Self::Scan { limit, after, end_of_entry, bounded } => {
                let high = end_of_entry.or_else(|| bounded.then(|| plan.part(scratch, Part::KeyHigh)));
                Task::Scan(Scan { limit, after, high })
            }
        }
    }
}

impl Dex<'_> {
    /// From where a call could look for the key at scratch range `key`. `None`: operations do not call, the leaf is cached, or
    /// READs would bring something for which there is room.
    #[inline]
    pub(super) fn offload_from(&self, lane: &Lane<'_>, key: &Range<usize>) -> Option<Start> {
        if self.choice.mode() == Mode::Never { None } else { self.start(lane, key) }
    }

    #[inline(never)]
    fn start(&self, lane: &Lane<'_>, key: &Range<usize>) -> Option<Start> {
        let (root, root_level) = self.tree.root.get()?;
        let epoch = self.tree.epoch(lane);
        let route = lane.port().with(|scratch| {
            let mut room = [0; KEY_BYTES_MAX];
            self.tree.cache.route(root, root_level, 0, key_of(scratch, key, &mut room), epoch)
        });
        let is_cached = route.level == 0 && self.store.is_cached(route.address);
        let is_far = route.stale || usize::from(route.level) >= LEVELS;
        let has_room = !self.store.is_full() || route.level > 0 && !self.tree.cache.is_full();
        let start = Start { from: route.address, level: route.level };
        if is_cached || is_far || has_room { None } else { Some(start) }
    }

    /// Which way an operation takes.
    pub(super) fn way(&self, lane: &Lane<'_>, class: Class, level: u8) -> Way {
        let way = self.choice.way(class, level, lane.next_turn());
        if way.contrary {
            lane.mark(Mark::OFFLOAD_CONTRARY);
        }
        way
    }

    /// What memory nodes have to know of nodes.
    fn nodes(&self) -> Nodes {
        Nodes {
            index: self.tree.index,
            leaf: self.leaf,
            inner: self.tree.inner,
            exposure_ns_max: self.tree.capabilities.exposure_ns_max(),
        }
    }

    /// Calls the memory node of `start` for what is wanted, about the key at scratch range `key`. The answer comes to scratch
    /// range `room`. `None`: the memory node has not answered, and does nothing that it was asked for (or only reads); or the
    /// messages have no room.
    async fn call(
        &self,
        lane: &Lane<'_>,
        (want, start): (Want<'_>, &Start),
        (key, room): (&Range<usize>, &Range<usize>),
        answer_bytes: usize,
    ) -> Result<Option<CallAnswer>, VerbError> {
        let label = if matches!(want, Want::Change { .. }) { Label::Change } else { Label::Search };
        let bytes = lane.port().with(|scratch| {
            let mut key_room = [0; KEY_BYTES_MAX];
            let mut message = [0; REQUEST_BYTES_MAX];
            let key = key_of(scratch, key, &mut key_room);
            let (from, level, nodes) = (start.from, start.level, self.nodes());
            let task = want.task(&self.plan, scratch);
            let bytes = Asked { from, level, nodes, key, task }.encode(&mut message)?;
            scratch.get_mut(room.clone())?.get_mut(..bytes)?.copy_from_slice(message.get(..bytes)?);
            Some(bytes)
        });
        let Some(bytes) = bytes.filter(|_| answer_bytes <= room.len()) else { return Ok(None) };
        let call = Request::call(label, start.from.node(), room.start, bytes, answer_bytes);
        let answered = match lane.port().call(call).await {
            Ok(completion) => Some(CallAnswer(completion.value)),
            Err(VerbError { status: Status::NotServed | Status::Unsupported, .. }) => None,
            Err(VerbError { status: Status::Unanswered, .. }) if label == Label::Search => None,
            Err(error) => return Err(error),
        };
        if answered.is_none() {
            lane.mark(Mark::OFFLOAD_IN_VAIN);
        }
        Ok(answered)
    }

    /// `None`: the answer does not count, or there is none.
    pub(super) async fn get_by_call(
        &self,
        lane: &Lane<'_>,
        tenure: Tenure,
        start: &Start,
    ) -> Result<Option<Outcome>, Interrupt> {
        let since = self.store.departures();
        let (room, value_bytes) = (self.tree.scratch.recovery.clone(), self.leaf.value_bytes);
        let ranges = (&self.plan.key, &room);
        let called = self.call(lane, (Want::Search, start), ranges, Answer::bytes_max(value_bytes));
        let Some(answered) = called.await.map_err(OpError::from)? else { return Ok(None) };
        let leaf_and_outcome = lane.port().with(|scratch| {
            let message = scratch.get(room.clone())?.get(..answered.bytes())?;
            match Answer::decode(message, value_bytes)?.0 {
                Answer::Found(leaf) => self.show(scratch, &room).map(|()| (leaf, Outcome::Found)),
                Answer::Absent(leaf) => Some((leaf, Outcome::Absent)),
                _ => None,
            }
        });
        let Some((leaf, outcome)) = leaf_and_outcome else {
            lane.mark(Mark::OFFLOAD_IN_VAIN);
            return Ok(None);
        };
        if self.store.has_had(leaf, since) {
            lane.mark(Mark::OFFLOAD_OVERTAKEN);
            return Ok(None);
        }
        // All that was copied is in its page.
        self.answer_read(lane, tenure, Lsn::NONE).await?;
        lane.mark(Mark::OFFLOADED);
        Ok(Some(outcome))
    }

    /// Copies the value behind an answer's header to the output.
    fn show(&self, scratch: &mut [u8], room: &Range<usize>) -> Option<()> {
        let from = room.start + ANSWER_HEADER_BYTES;
        let (value, output) = (from..from + self.leaf.value_bytes, self.plan.output.start);
        let has_room = value.end <= scratch.len() && output + value.len() <= scratch.len();
        has_room.then(|| scratch.copy_within(value, output))
    }

    /// Has a memory node make a change of the leaf at `leaf`, whose fill this lane has, without a frame.
    pub(super) async fn change_by_call(
        &self,
        lane: &Lane<'_>,
        (kind, tenure): (OperationKind, Tenure),
        (leaf, fill): (Address, &Fill),
    ) -> Result<Ended, Interrupt> {
        let site = self.flushing(0);
        if site.is_fenced() {
            return Err(OpError::harmless(Cause::Fenced).into());
        }
        if !self.partition().holds(tenure) {
            self.end_fill(lane, fill).await?;
            return Err(self.no_tenure(lane, &self.plan.key));
        }
        let lsn = match self.stage(tenure, Record::None) {
            Ok(lsn) => lsn,
            Err(full) => return Ok(Ended::Full(full)),
        };
        let slot = flush::image_slot_of(site, lane, (leaf, lsn), tenure.entry, ImageSlot::Next)?;
        let incarnation = self.tree.recovery.map_or(0, |recovery| recovery.member().incarnation);
        let image =
            slot.map(|(offset, PageImage { entry, epoch, .. })| ImagePlace { offset, incarnation, entry, epoch });
        let (room, value_bytes) = (self.tree.scratch.recovery.clone(), self.leaf.value_bytes);
        let (start, ranges) = (Start { from: leaf, level: 0 }, (&self.plan.key, &room));
        // If the memory node hangs, the heartbeat ends.
        self.begin_fills(lane);
        let want = (Want::Change { kind, lsn, image }, &start);
        // Also if this future is dropped meanwhile.
        if !planted(Mutant::ASKED_CHANGE_FORGOTTEN) {
            lane.change_is_asked();
        }
        let answered = self.call(lane, want, ranges, Answer::bytes_max(value_bytes)).await;
        if let Err(error @ VerbError { status: Status::Unanswered, .. }) = answered {
            return self.look_whether_changed(lane, (kind, lsn), (leaf, fill), error).await;
        }
        // If a request may still be executed, settling closes what has failed, before it ends the fill.
        let answered = answered.map_err(unknown)?;
        self.end_fills(lane);
        let Some(answered) = answered else {
            lane.wrote_nothing();
            return Ok(Ended::InVain);
        };
        let ended = lane.port().with(|scratch| {
            let message = scratch.get(room.clone())?.get(..answered.bytes())?;
            let (answer, value) = Answer::decode(message, value_bytes)?;
            if !value.is_empty() {
                self.show(scratch, &room)?;
            }
            Some(answer)
        });
        match ended {
            Some(Answer::Ended { outcome, changed }) => {
                lane.mark(Mark::OFFLOADED);
                if changed {
                    lane.change_is_made();
                } else {
                    lane.wrote_nothing();
                }
                Ok(Ended::So(outcome, changed.then_some(lsn)))
            }
            Some(Answer::NeedsSplit) => {
                lane.wrote_nothing();
                Ok(Ended::NoRoom)
            }
            Some(Answer::Elsewhere(..) | Answer::Busy | Answer::Stale | Answer::Refused) => {
                lane.wrote_nothing();
                lane.mark(Mark::OFFLOAD_IN_VAIN);
                Ok(Ended::InVain)
            }
            _ => {
                let what = "a memory node's answer to a change, which is none";
                Err(unknown(Cause::Corrupt { address: leaf, what }).into())
            }
        }
    }

    /// What became of a change whose call was not answered: once nobody executes it any more, the leaf's LSN says it.
    async fn look_whether_changed(
        &self,
        lane: &Lane<'_>,
        (kind, lsn): (OperationKind, Lsn),
        (leaf, fill): (Address, &Fill),
        error: VerbError,
    ) -> Result<Ended, Interrupt> {
        lane.mark(Mark::OFFLOAD_IN_VAIN);
        lane.close(self.tree.scratch.small).await.map_err(unknown)?;
        self.end_fills(lane);
        let wanted = self.leaf_wanted(leaf);
        let looked = self.fill(lane, fill, &wanted, &self.plan.key).await;
        let looked = looked.map_err(|interrupt| match interrupt {
            Interrupt::Failed(error) => Interrupt::Failed(unknown(error.cause)),
            other => other,
        })?;
        let found = lane.port().with(|scratch| leaf::lsn(&self.leaf, self.tree.leaf_image(0).of(scratch)));
        if !matches!(looked, Look::Seen(())) || found != lsn {
            lane.wrote_nothing();
            return Ok(Ended::InVain);
        }
        lane.change_is_made();
        match kind {
            OperationKind::Insert => Ok(Ended::So(Outcome::Inserted, Some(lsn))),
            // Whether it has replaced a value was in the answer.
            OperationKind::Upsert => Err(OpError { effect: Effect::Done, cause: Cause::Verb(error) }.into()),
            kind => Ok(Ended::So(kind.outcome_of_present(false), Some(lsn))),
        }
    }

    /// Has a memory node take records from the leaf of the bound on. They go into the page, and the bound to where the last leaf
    /// ends. `None`: the answer does not count, or there is none.
    pub(super) async fn scan_by_call(
        &self,
        lane: &Lane<'_>,
        operation: &Operation,
        (bound, tenure, start): (&Range<usize>, Tenure, &Start),
        progress: &mut Progress,
    ) -> Result<Option<Taken>, Interrupt> {
        let (since, changes) = (self.store.departures(), self.partition().changes());
        let (key_bytes, value_bytes) = (self.leaf.key_bytes, self.leaf.value_bytes);
        // Nothing else uses the images of nodes meanwhile.
        let (first, images) = (self.tree.leaf_image(0).at, &self.tree.scratch);
        let room = first..images.nodes + images.node_stride * images.node_buffers;
        let wanted = progress.wanted() - progress.records();
        let page_bytes = Page::front_bytes(key_bytes) + wanted * (key_bytes + value_bytes);
        let answer_bytes = page_bytes.min(CALL_BYTES_MAX).min(room.len());
        // The leaves behind the tenure's entry are perhaps another compute node's.
        let end_of_entry = lane.port().with(|scratch| {
            let mut key = [0; KEY_BYTES_MAX];
            let end = self.partition().high_of(key_of(scratch, bound, &mut key));
            end.filter(|end| !operation.bounded || **end < *self.plan.part(scratch, Part::KeyHigh))
        });
        let (limit, after) = (u16::try_from(wanted).unwrap_or(u16::MAX), progress.is_after());
        let want =
            (Want::Scan { limit, after, end_of_entry: end_of_entry.as_deref(), bounded: operation.bounded }, start);
        let called = self.call(lane, want, (bound, &room), answer_bytes);
        let Some(answered) = called.await.map_err(OpError::from)? else { return Ok(None) };
        let taken = lane.port().with(|scratch| {
            let message = room.start..room.start + answered.bytes();
            let (answer, behind) = Answer::decode(scratch.get(message.clone())?, value_bytes)?;
            let Answer::Page { leaves, records, full, last, next } = answer else { return None };
            let page = Page::cut(behind, (leaves, records), (key_bytes, value_bytes))?;
            let had = page.leaves().any(|leaf| self.store.has_had(leaf, since));
            if had || self.partition().changes() != changes || usize::from(records) > wanted {
                lane.mark(Mark::OFFLOAD_OVERTAKEN);
                return None;
            }
            let (to, bytes) =
                (self.plan.page.start + progress.records() * (key_bytes + value_bytes), page.records.len());
            let from = message.start + Page::front_bytes(key_bytes);
            if to + bytes > self.plan.page.end || to + bytes > scratch.len() || bound.end > scratch.len() {
                return None;
            }
            scratch.copy_within(from..from + bytes, to);
            let is_last = last && end_of_entry.is_none();
            // The answer may be full, and the page not: then the scan goes on behind the last record.
            let goes_on = full && progress.records() + usize::from(records) < progress.wanted();
            let cursor = if goes_on {
                (records > 0).then(|| to + bytes - (key_bytes + value_bytes))?
            } else {
                message.start + Page::BOUND_AT
            };
            if goes_on || !is_last && !full {
                scratch.copy_within(cursor..cursor + bound.len(), bound.start);
            }
            let after = goes_on || progress.is_after() && (is_last || full);
            Some((usize::from(records), after, Taken::new(full && !goes_on, is_last && !goes_on, next)))
        });
        let Some((records, after, taken)) = taken else { return Ok(None) };
        self.check_tenure(lane, tenure, bound)?;
        progress.add(records, after);
        lane.mark(Mark::OFFLOADED);
        Ok(Some(taken))
    }
}
