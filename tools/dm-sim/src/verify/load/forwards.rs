//! Lanes that execute operations of other compute nodes, where keys have owners.

use super::{Doing, Ended, Load};
use crate::calls::Arrived;
use crate::compute_node::ComputeNode;
use crate::driver::{Driver, LaneAt, Op};
use crate::verify::wide::WideOption;
use dm_core::index::forward::message::{self, Serving};
use dm_core::mutants::{Mutant, planted};
use dm_core::operation::{Cause, OpError};
use dm_core::remote::lock_word::RowId;

/// Of 100 calls, so many are answered in a room that may be too small for all answers of a pack.
const SHORT_ROOM_PERCENT: u32 = 15;
/// Bytes of the smallest one: an answer with a page's first record, or a long value.
const SHORT_ROOM_MIN: usize = 1200;
const SHORT_ROOM_MORE: u32 = 1200;

/// Calls on their way through the load.
#[derive(Debug, Default)]
pub(super) struct Forwards {
    /// They wait for a lane of their compute node.
    inbox: Vec<(ComputeNode, Arrived)>,
    /// A lane executes what they ask for, since an instant in ns.
    serving: Vec<(LaneAt, u64, Arrived)>,
    /// What is answered before the next step.
    answers: Vec<(Arrived, Vec<u8>)>,
}

impl<'a> Load<'a, '_> {
    /// Executes a call that waits for a lane of this compute node, if there is one.
    pub(super) fn serve(&mut self, at: LaneAt, now_ns: u64) -> Option<Op<'a, Ended>> {
        let call = loop {
            let first = self.forwards.inbox.iter().position(|(node, _)| *node == at.compute_node)?;
            let (_, call) = self.forwards.inbox.remove(first);
            if call.take() {
                break call;
            }
        };
        let number = self.forwarder.as_ref()?.index;
        let (index, lane) = self.lane(at);
        let passes_on = self.forwarder.filter(|_| planted(Mutant::PASSED_ON));
        let (request, answer_bytes) = (call.request.clone(), self.answer_room(call.answer_bytes));
        self.forwards.serving.push((at, now_ns, call));
        *self.doing(at) = Doing::Serve;
        Some(Box::pin(async move {
            let (plan, which) = (index.served_plan(), (number, index.forwards_steps()));
            let Some(mut serving) = Serving::decode(&request, which, plan, answer_bytes) else {
                return Ended::Served(message::not_here().to_vec(), Ok(()));
            };
            let (mut answer, mut last) = (vec![0; answer_bytes], Ok(()));
            loop {
                // It is the time of all of them.
                let elapsed_ns = lane.port().elapsed_ns();
                let next = lane.port().with(|scratch| serving.next(&request, plan, scratch, elapsed_ns, &mut answer));
                let Some(mut operation) = next else { break };
                operation.deadline_ns += elapsed_ns;
                let result = match &passes_on {
                    None => index.execute(lane, operation).await,
                    Some(forwarder) => index.forward(lane, operation, forwarder).await,
                };
                lane.port().with(|scratch| serving.ended(&result, plan, scratch, &mut answer));
                last = result.map(drop);
                if lane.is_unsettled() {
                    // A host settles it, and goes on.
                    break;
                }
            }
            let bytes = serving.finish(&mut answer);
            answer.truncate(bytes);
            Ended::Served(answer, last)
        }))
    }

    /// The room that a lane has for an answer: with packs, now and then too little for all of one.
    fn answer_room(&mut self, asked: usize) -> usize {
        let is_short = self.draw.wide.has(WideOption::Packs) && self.wide.percent(SHORT_ROOM_PERCENT);
        if is_short { asked.min(SHORT_ROOM_MIN + self.wide.below(SHORT_ROOM_MORE) as usize) } else { asked }
    }

    /// A lane has executed what a call asks for.
    pub(super) fn served(&mut self, at: LaneAt, answer: Vec<u8>, result: Result<(), OpError>) {
        self.met[WideOption::Forward as usize] += u64::from(result.is_ok());
        if let Some(serving) = self.forwards.serving.iter().position(|(lane, ..)| *lane == at) {
            self.forwards.answers.push((self.forwards.serving.swap_remove(serving).2, answer));
        }
        // What its caller is told says less.
        if let Err(error) = result
            && matches!(error.cause, Cause::Corrupt { .. } | Cause::BadInput(_))
        {
            self.fail(None, error);
        }
    }

    /// Answers are posted, and calls come in. What a lane was dropped over is not answered; what a dead compute node was asked
    /// is never taken. A lane that serves a call makes none: compute nodes that pass a call on could do so for ever.
    pub(super) fn pass_calls(&mut self, driver: &mut Driver<'a, '_, Ended>) {
        if self.forwarder.is_none() {
            return;
        }
        for (call, answer) in std::mem::take(&mut self.forwards.answers) {
            driver.world().answer(&call, &answer);
        }
        let doing = &self.doing;
        let is_serving = |at: &LaneAt| doing[usize::from(at.compute_node.0)][usize::from(at.lane)] == Doing::Serve;
        self.forwards.serving.retain(|(at, ..)| is_serving(at));
        let (dead, opened) = (&self.injected.dead, self.opened.len());
        self.forwards.inbox.retain(|(node, _)| !dead.contains(node));
        let world = driver.world();
        for call in world.take_arrived() {
            // One that the lane posted before, for an operation that was dropped, may arrive late.
            let serves = |(at, since_ns, _): &(LaneAt, u64, Arrived)| {
                (at.compute_node, at.lane) == call.caller && *since_ns <= call.posted_ns
            };
            if self.forwards.serving.iter().any(serves) {
                world.note_passed_on(&call);
            }
            let tenant = call.callee.row().and_then(|row| world.tenant(RowId(row)));
            let node = tenant.filter(|node| usize::from(node.0) < opened && !dead.contains(node));
            self.forwards.inbox.extend(node.map(|node| (node, call)));
        }
    }
}
