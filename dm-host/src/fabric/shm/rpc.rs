//! RPCs to memory nodes' daemons, and calls to their processors, without blocking the worker's other lanes.

use super::{ShmFabric, saturated};
use crate::memory_node::Ticket;
use crate::memory_node::call_area::{CallArea, Called, Heard};
use dm_core::fabric::Posted;
use dm_core::lane::Lane;
use dm_core::port::OUTBOX_REQUESTS;
use dm_core::verbs::{Completion, NodeId, Request, Status, Verb};
use std::time::{Duration, Instant};

/// How long a daemon may take to return from a call. A call is next to no work, and one processor is enough for it.
pub const CALL_WAIT: Duration = Duration::from_secs(5);

/// How long a memory node's processor may take to answer a call. A call is some microseconds of work; the daemon may have to
/// wait for a processor first.
pub const ANSWER_WAIT: Duration = Duration::from_millis(10);

/// A submit with RPCs or calls.
pub(super) struct Calling {
    lane: usize,
    began: Instant,
    calls: heapless::Vec<(usize, CallState), OUTBOX_REQUESTS>,
}

/// One RPC, or one call.
enum CallState {
    Waiting(NodeId, Ticket),
    Called(NodeId, Called),
    Done(Completion),
}

impl ShmFabric {
    /// Sends the RPCs of a submit to the daemons. If no RPC is outstanding, executes the submit.
    #[cold]
    pub(super) fn call(&mut self, lane: &Lane<'_>, at: usize) -> Posted {
        let mut calls = heapless::Vec::<_, OUTBOX_REQUESTS>::new();
        for (position, request) in lane.port().requests().iter().enumerate() {
            if !matches!(request.verb, Verb::Rpc | Verb::Call) {
                continue;
            }
            let failed = |status| CallState::Done(Completion { status, ..Completion::default() });
            let state = match self.nodes.get(usize::from(request.node.0)) {
                None => failed(Status::Refused),
                // The memory node has no daemon to call.
                Some(node) if !node.has_daemon() => failed(Status::Unsupported),
                Some(node) if node.is_down() => failed(Status::NodeDown),
                Some(node) if request.verb == Verb::Call => match node.call_area() {
                    None => failed(Status::Unsupported),
                    Some((area, owner)) => match Self::post_call(lane, request, area, owner) {
                        Some(called) => CallState::Called(request.node, called),
                        None => failed(Status::Unanswered),
                    },
                },
                Some(node) => match node.call(request.operands) {
                    Some(ticket) => CallState::Waiting(request.node, ticket),
                    None => failed(Status::NodeDown),
                },
            };
            // There is room for as many calls as a submit has requests.
            let _ = calls.push((position, state));
        }
        let returned = |(position, state): &(usize, CallState)| match state {
            CallState::Done(completion) => Some((*position, *completion)),
            CallState::Waiting(..) | CallState::Called(..) => None,
        };
        if let Some(returns) = calls.iter().map(returned).collect::<Option<heapless::Vec<_, OUTBOX_REQUESTS>>>() {
            self.execute_all(lane, false, &returns);
            return Posted::Completed;
        }
        self.calling.push(Calling { lane: at, began: Instant::now(), calls });
        Posted::InFlight
    }

    /// Nobody waits for the answers of calls any more.
    pub(super) fn give_calls_up(&mut self) {
        for (_, state) in self.calling.iter().flat_map(|calling| &calling.calls) {
            if let CallState::Called(node, called) = state
                && let Some((area, owner)) = self.nodes.get(usize::from(node.0)).and_then(|node| node.call_area())
            {
                area.give_up(owner, called);
            }
        }
    }

    /// Posts a call, whose request is in the lane's scratch.
    fn post_call(lane: &Lane<'_>, request: &Request, area: &CallArea, owner: u32) -> Option<Called> {
        let local = request.local as usize..request.local as usize + request.bytes as usize;
        let answer_bytes = usize::try_from(request.operands[0]).ok()?;
        lane.port().with(|scratch| area.post(owner, scratch.get(local)?, answer_bytes))
    }

    /// Looks for the answer of a call, which goes into the lane's scratch.
    fn hear_call(lane: &Lane<'_>, position: usize, area: &CallArea, owner: u32, called: &Called) -> Heard {
        let request = lane.port().requests().get(position).copied();
        let Some(request) = request else { return Heard::Waits };
        let answer_bytes = usize::try_from(request.operands[0]).unwrap_or(usize::MAX);
        lane.port().with(|scratch| {
            let room = scratch.get_mut(request.local as usize..).unwrap_or_default();
            let bytes = room.len().min(answer_bytes);
            area.hear(owner, called, room.get_mut(..bytes).unwrap_or_default())
        })
    }

    /// Looks for returns, and executes submits whose RPCs have all returned.
    #[cold]
    pub(super) fn hear(&mut self, lanes: &[Lane<'_>], ready: &mut dyn FnMut(usize)) {
        let mut at = 0;
        let mut heard = false;
        while at < self.calling.len() {
            let Calling { lane, began, calls } = &mut self.calling[at];
            let mut returns = heapless::Vec::<_, OUTBOX_REQUESTS>::new();
            for (position, state) in calls.iter_mut() {
                if let CallState::Waiting(node, ticket) = state {
                    let elapsed_ns = saturated(began.elapsed().as_nanos() as u64);
                    let down = self.nodes.get(usize::from(node.0)).is_none_or(|node| node.is_down());
                    if let Some(value) = ticket.returned() {
                        *state = CallState::Done(Completion { value, elapsed_ns, status: Status::Ok });
                    } else if down || began.elapsed() > CALL_WAIT {
                        *state = CallState::Done(Completion { value: 0, elapsed_ns, status: Status::NodeDown });
                    }
                }
                if let CallState::Called(node, called) = state {
                    let waited = began.elapsed();
                    let node = self.nodes.get(usize::from(node.0));
                    let area = node.and_then(|node| node.call_area().filter(|_| !node.is_down()));
                    let heard = area.map(|(area, owner)| {
                        lanes
                            .get(*lane)
                            .map_or(Heard::Waits, |lane| Self::hear_call(lane, *position, area, owner, called))
                    });
                    let ended = |status, value| {
                        let elapsed_ns = saturated(waited.as_nanos() as u64);
                        CallState::Done(Completion { value, elapsed_ns, status })
                    };
                    match heard {
                        None => *state = ended(Status::NodeDown, 0),
                        Some(Heard::Answer(answer)) => *state = ended(Status::Ok, answer.0),
                        Some(Heard::Waits) if waited > ANSWER_WAIT => {
                            if let Some((area, owner)) = area {
                                area.give_up(owner, called);
                            }
                            *state = ended(Status::Unanswered, 0);
                        }
                        Some(Heard::Waits) => {}
                    }
                }
                if let CallState::Done(completion) = state {
                    let _ = returns.push((*position, *completion));
                }
            }
            if returns.len() < calls.len() {
                at += 1;
                continue;
            }
            let lane = *lane;
            self.calling.swap_remove(at);
            if let Some(one) = lanes.get(lane) {
                self.execute_all(one, false, &returns);
            }
            ready(lane);
            heard = true;
        }
        if !heard {
            // The daemon and the watcher thread need a processor; a polling worker would keep it from them.
            std::thread::yield_now();
        }
    }
}
