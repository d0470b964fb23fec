//! Operations of a lane that go to the owner of their keys in one message. Those that the owner has not begun go alone then.

use super::{Doing, Ended, Load};
use crate::check::{Answer, Call, OpId, Record};
use crate::driver::{LaneAt, Op};
use crate::verify::wide::WideOption;
use dm_core::index::forward::message::RequestWriter;
use dm_core::index::forward::pack::Pack;
use dm_core::operation::{Effect, OpError, Operation};
use dm_core::remote::lock_word::RowId;

/// Of 100 operations that may be the first of a pack, so many are.
const PACKS_PERCENT: u32 = 70;
/// Operations that are looked for, at most, beside the first.
const OTHERS_MAX: u32 = 5;
/// Of those that are drawn, many belong to others, or are on a key that the pack has. (If its call is not answered, one change of a
/// key is unknown.)
const DRAWN_PER_OTHER: u32 = 4;

/// Packs on their way through the load.
#[derive(Debug, Default)]
pub(super) struct Packs {
    /// By lane: the operations of its pack, in the order of their places.
    under_way: Vec<(LaneAt, Vec<OpId>)>,
    /// Operations that were not begun, and wait for their lane.
    alone: Vec<(LaneAt, OpId)>,
}

impl Packs {
    /// An operation of a pack of this lane's that has to go alone.
    pub(super) fn take_alone(&mut self, at: LaneAt) -> Option<OpId> {
        let first = self.alone.iter().position(|(lane, _)| *lane == at)?;
        Some(self.alone.remove(first).1)
    }

    fn take_pack(&mut self, at: LaneAt) -> Vec<OpId> {
        let pack = self.under_way.iter().position(|(lane, _)| *lane == at);
        pack.map_or(Vec::new(), |pack| self.under_way.swap_remove(pack).1)
    }
}

impl<'a> Load<'a, '_> {
    /// Begins further operations beside `first`, and sends them to their owner together. `None`: it goes alone.
    pub(super) fn pack(&mut self, at: LaneAt, now_ns: u64, first: OpId) -> Option<Op<'a, Ended>> {
        if !self.draw.wide.has(WideOption::Packs) || !self.wide.percent(PACKS_PERCENT) {
            return None;
        }
        let (number, room) = self.forwarder.as_ref().map(|forwarder| (forwarder.index, forwarder.messages()))?;
        let (index, lane) = self.lane(at);
        let row = self.owner_elsewhere(at, first)?;
        let wanted = 1 + self.wide.below(OTHERS_MAX);
        let mut pack = vec![first];
        for _ in 0..wanted * DRAWN_PER_OTHER {
            if pack.len() > wanted as usize || self.left == 0 {
                break;
            }
            let (key, call, _) = self.choose_call(index, at.compute_node);
            let is_new = pack.iter().all(|other| self.history.operation(*other).key != key);
            if is_new && !matches!(call, Call::Scan { .. }) && self.owner_of(at, key) == Some(row) {
                self.left -= 1;
                pack.push(self.history.invoke(at, now_ns, key, call));
            }
        }
        let (plan, coding) = (index.plan(), self.coding);
        let wait_ns = Operation { deadline_ns: self.draw.deadline_ns, ..Operation::scan(0) }.wait_ns();
        let (mut writer, mut asked) = (RequestWriter::new(number), Vec::new());
        let history = &self.history;
        let packed = lane.port().with(|scratch| {
            let (front, behind) = scratch.split_at_mut(room.at);
            let (packed, left): (Vec<OpId>, Vec<OpId>) = pack.iter().partition(|id| {
                let Record { key, call, .. } = *history.operation(**id);
                coding.write_key(key, &mut front[plan.key.clone()]);
                if let Some(value) = call.written() {
                    coding.write_value(value, &mut front[plan.value.clone()]);
                }
                if let Call::UpdateIf { expected, .. } | Call::DeleteIf { expected } = call {
                    coding.write_value(expected, &mut front[plan.expected.clone()]);
                }
                let operation = Operation::point(call.kind());
                let is_added = writer.add(&operation, plan, front, behind);
                asked.extend(is_added.then_some(operation));
                is_added
            });
            let sent = Pack::new(&writer, (number, row), wait_ns, plan, (room, behind));
            (packed, left, sent)
        });
        let (packed, left, sent) = packed;
        // There was no room for them; or for none beside the first.
        self.packs.alone.extend(left.into_iter().filter(|left| *left != first).map(|operation| (at, operation)));
        let sent = sent.filter(|sent| sent.count() > 1)?;
        self.packs.under_way.push((at, packed));
        *self.doing(at) = Doing::Pack;
        Some(Box::pin(async move {
            let called = sent.call(lane).await;
            let mut results = Vec::new();
            lane.port().with(|scratch| {
                let operation = |place| asked[usize::from(place)];
                sent.results(called, plan, scratch, operation, |place, result, scratch| {
                    let value = |scratch: &[u8]| coding.read_value(&scratch[plan.output.clone()]);
                    let result = result.map(|ended| ended.map(|outcome| Answer::of(outcome, value(scratch))));
                    results.push((place, result));
                });
            });
            Ended::Packed(results)
        }))
    }

    /// The row of the compute node that owns a key, as this lane's knows it.
    fn owner_of(&self, at: LaneAt, key: u64) -> Option<RowId> {
        let (index, _) = self.lane(at);
        let mut bytes = vec![0; index.plan().key_bytes];
        self.coding.write_key(key, &mut bytes);
        index.owner_of(&bytes)
    }

    /// The same of an operation, unless it is the lane's own, or this is a scan.
    fn owner_elsewhere(&self, at: LaneAt, operation: OpId) -> Option<RowId> {
        let Record { key, call, .. } = *self.history.operation(operation);
        let mine = self.rows[usize::from(at.compute_node.0)];
        self.owner_of(at, key).filter(|row| *row != mine && !matches!(call, Call::Scan { .. }))
    }

    /// Records what became of the operations of a pack. Returns whether of some that is not known.
    pub(super) fn unpack(
        &mut self,
        at: LaneAt,
        now_ns: u64,
        results: Vec<(u16, Option<Result<Answer, OpError>>)>,
    ) -> bool {
        let pack = self.packs.take_pack(at);
        let (mut answered, mut is_unknown) = (0, false);
        for (place, result) in results {
            let operation = pack[usize::from(place)];
            match result {
                None => self.packs.alone.push((at, operation)),
                Some(Ok(answer)) => {
                    answered += 1;
                    self.history.respond(operation, now_ns, answer);
                    self.learn(operation, answer);
                }
                Some(Err(error)) => {
                    is_unknown |= error.effect == Effect::Unknown;
                    self.history.respond(operation, now_ns, Answer::Failed(error.effect));
                    self.fail(Some(operation), error);
                }
            }
        }
        self.met[WideOption::Packs as usize] += u64::from(answered > 1);
        is_unknown
    }

    /// The future of a lane with a pack was dropped.
    pub(super) fn drop_pack(&mut self, at: LaneAt, now_ns: u64) {
        for operation in self.packs.take_pack(at) {
            self.history.respond(operation, now_ns, Answer::Failed(Effect::Unknown));
        }
    }
}
