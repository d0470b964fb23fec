//! A get that a memory node's processor answers: see [`crate::dex::offload`].
//!
//! Round trips: one, whatever the level of the node at which the copies end. If the answer does not count, those of a get
//! that READs follow.
//!
//! It linearizes when the memory node copied the leaf. What the memory node may not know is in this compute node's page store,
//! so the get looks there afterwards ([`PageStore::has_had`](crate::pages::PageStore::has_had)): a change of the key that was
//! answered before the get began, and is not in the bytes that were copied, is in a frame still, or has left with one since the
//! call began. A change of a leaf that is not admitted is answered after its WRITE has completed.

use super::Dex;
use crate::btree::leaves::key_of;
use crate::dex::offload::Mode;
use crate::dex::offload::choice::{LEVELS, Way};
use crate::dex::offload::message::{Answer, Nodes, Request as Search};
use crate::dex::ownership::partition::Tenure;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::operation::{OpError, Outcome};
use crate::pages::lsn::Lsn;
use crate::registry::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::remote::address::Address;
use crate::verbs::{CallAnswer, Label, Request, Status};

/// Where the copies end.
pub(super) struct Start {
    from: Address,
    pub(super) level: u8,
}

impl Dex<'_> {
    /// From where a call could look for the operation's key. `None`: gets do not call, the leaf is cached, or READs would bring
    /// something for which there is room.
    #[inline]
    pub(super) fn offload_from(&self, lane: &Lane<'_>) -> Option<Start> {
        if self.choice.mode() == Mode::Never { None } else { self.start(lane) }
    }

    #[inline(never)]
    fn start(&self, lane: &Lane<'_>) -> Option<Start> {
        let (root, root_level) = self.tree.root.get()?;
        let epoch = self.tree.epoch(lane);
        let route = lane.port().with(|scratch| {
            let mut room = [0; KEY_BYTES_MAX];
            self.tree.cache.route(root, root_level, 0, key_of(scratch, &self.plan.key, &mut room), epoch)
        });
        let is_cached = route.level == 0 && self.store.is_cached(route.address);
        let is_far = route.stale || usize::from(route.level) >= LEVELS;
        let has_room = !self.store.is_full() || route.level > 0 && !self.tree.cache.is_full();
        let start = Start { from: route.address, level: route.level };
        if is_cached || is_far || has_room { None } else { Some(start) }
    }

    /// Which way a get takes.
    pub(super) fn way(&self, lane: &Lane<'_>, start: &Start) -> Way {
        let way = self.choice.way(start.level, lane.next_turn());
        if way.contrary {
            lane.mark(Mark::OFFLOAD_CONTRARY);
        }
        way
    }

    /// `None`: the answer does not count, or there is none.
    pub(super) async fn get_by_call(
        &self,
        lane: &Lane<'_>,
        tenure: Tenure,
        start: &Start,
    ) -> Result<Option<Outcome>, Interrupt> {
        let since = self.store.departures();
        let room = self.tree.scratch.recovery.clone();
        let nodes = Nodes {
            index: self.tree.index,
            leaf: self.leaf,
            inner: self.tree.inner,
            exposure_ns_max: self.tree.capabilities.exposure_ns_max(),
        };
        let bytes = lane.port().with(|scratch| {
            let mut key_room = [0; KEY_BYTES_MAX];
            let mut message = [0; Search::bytes(KEY_BYTES_MAX)];
            let key = key_of(scratch, &self.plan.key, &mut key_room);
            let bytes = Search { from: start.from, level: start.level, nodes, key }.encode(&mut message)?;
            scratch.get_mut(room.clone())?.get_mut(..bytes)?.copy_from_slice(message.get(..bytes)?);
            Some(bytes)
        });
        let Some(bytes) = bytes else { return Ok(None) };
        let answer_bytes = Answer::bytes_max(self.leaf.value_bytes);
        let call = Request::call(Label::Search, start.from.node(), room.start, bytes, answer_bytes);
        let answered = match lane.port().call(call).await {
            Ok(completion) => CallAnswer(completion.value),
            Err(error) if matches!(error.status, Status::Unanswered | Status::Unsupported) => {
                lane.mark(Mark::OFFLOAD_IN_VAIN);
                return Ok(None);
            }
            Err(error) => return Err(OpError::from(error).into()),
        };
        let leaf_and_outcome = lane.port().with(|scratch| {
            let output = self.plan.output.clone();
            let mut value = [0; VALUE_BYTES_MAX];
            let message = scratch.get(room)?.get(..answered.bytes())?;
            let (answer, found) = Answer::decode(message, self.leaf.value_bytes)?;
            match answer {
                Answer::Found(leaf) => {
                    let value = value.get_mut(..found.len())?;
                    value.copy_from_slice(found);
                    scratch.get_mut(output)?.get_mut(..value.len())?.copy_from_slice(value);
                    Some((leaf, Outcome::Found))
                }
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
}
