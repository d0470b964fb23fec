//! RPCs to memory nodes' daemons, without blocking the worker's other lanes.

use super::{ShmFabric, saturated};
use crate::memory_node::Ticket;
use dm_core::fabric::Posted;
use dm_core::lane::Lane;
use dm_core::port::OUTBOX_REQUESTS;
use dm_core::verbs::{Completion, NodeId, Status, Verb};
use std::time::{Duration, Instant};

/// How long a daemon may take to return from a call. A call is next to no work, and one processor is enough for it.
pub const CALL_WAIT: Duration = Duration::from_secs(5);

/// A submit with RPCs.
pub(super) struct Calling {
    lane: usize,
    began: Instant,
    calls: heapless::Vec<(usize, CallState), OUTBOX_REQUESTS>,
}

/// One RPC.
enum CallState {
    Waiting(NodeId, Ticket),
    Done(Completion),
}

impl ShmFabric {
    /// Sends the RPCs of a submit to the daemons. If no RPC is outstanding, executes the submit.
    #[cold]
    pub(super) fn call(&mut self, lane: &Lane<'_>, at: usize) -> Posted {
        let mut calls = heapless::Vec::<_, OUTBOX_REQUESTS>::new();
        for (position, request) in lane.port().requests().iter().enumerate() {
            if request.verb != Verb::Rpc {
                continue;
            }
            let failed = |status| CallState::Done(Completion { status, ..Completion::default() });
            let state = match self.nodes.get(usize::from(request.node.0)) {
                None => failed(Status::Refused),
                // The memory node has no daemon to call.
                Some(node) if !node.has_daemon() => failed(Status::Unsupported),
                Some(node) if node.is_down() => failed(Status::NodeDown),
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
            CallState::Waiting(..) => None,
        };
        if let Some(returns) = calls.iter().map(returned).collect::<Option<heapless::Vec<_, OUTBOX_REQUESTS>>>() {
            self.execute_all(lane, false, &returns);
            return Posted::Completed;
        }
        self.calling.push(Calling { lane: at, began: Instant::now(), calls });
        Posted::InFlight
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
