//! RPCs to memory nodes' daemons, and calls to their processors and to other compute nodes, without blocking the worker's other
//! lanes.

use super::{ShmFabric, saturated};
use crate::fabric::CHANGE_WAIT;
use crate::memory_node::Ticket;
use crate::memory_node::call_area::{CallArea, Called, Heard};
use dm_core::fabric::Posted;
use dm_core::lane::Lane;
use dm_core::port::OUTBOX_REQUESTS;
use dm_core::verbs::{Callee, Completion, Label, LaneId, NodeId, Request, Status, Verb};
use std::time::{Duration, Instant};

/// How long a daemon may take to return from a call. A call is next to no work, and one processor is enough for it.
pub const CALL_WAIT: Duration = Duration::from_secs(5);

/// How long a memory node's processor may take to answer a call. A call is some microseconds of work; the daemon may have to
/// wait for a processor first.
pub const ANSWER_WAIT: Duration = Duration::from_millis(10);

/// How long a compute node may take to begin to serve a call. Its thread may have to wait for a processor, or for a lane.
pub const PICK_UP_WAIT: Duration = Duration::from_millis(200);

/// One look for returns in so many is followed by one at the clock. If it was in vain, the worker gives its processor away, too.
/// Each of these takes longer than the look.
const LOOKS: u32 = 16;

/// How much longer than an operation may wait its caller waits for the answer.
const ANSWER_GRACE: Duration = Duration::from_millis(100);

/// Whether it calls a compute node: for that the memory node needs no daemon.
fn is_to_compute_node(request: &Request) -> bool {
    request.verb == Verb::Call && Callee(request.operands[1]).row().is_some()
}

/// A submit with RPCs or calls.
pub(super) struct Calling {
    lane: usize,
    began: Instant,
    calls: heapless::Vec<(usize, CallState), OUTBOX_REQUESTS>,
}

/// One RPC, or one call.
enum CallState {
    Waiting(NodeId, Ticket),
    Called(NodeId, Called, Patience),
    Done(Completion),
}

/// How long a caller waits.
#[derive(Clone, Copy)]
struct Patience {
    /// For the callee to begin: then the call can be taken back.
    begin: Duration,
    /// For the answer.
    end: Duration,
}

impl Patience {
    fn of(request: &Request) -> Self {
        match Callee(request.operands[1]).row() {
            Some(_) => {
                let end = Duration::from_nanos(request.operands[2]).saturating_add(ANSWER_GRACE);
                Self { begin: PICK_UP_WAIT.min(end), end }
            }
            None if request.label == Label::Change => Self { begin: ANSWER_WAIT, end: CHANGE_WAIT },
            None => Self { begin: ANSWER_WAIT, end: ANSWER_WAIT },
        }
    }
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
                Some(node) if !node.has_daemon() && !is_to_compute_node(request) => failed(Status::Unsupported),
                Some(node) if node.is_down() => failed(Status::NodeDown),
                Some(node) if request.verb == Verb::Call => match node.call_area() {
                    None => failed(Status::Unsupported),
                    Some((area, owner)) => {
                        let callee = Callee(request.operands[1]);
                        let posted =
                            if area.is_served(callee) { Self::post_call(lane, request, area, owner) } else { None };
                        match posted {
                            Some(called) => CallState::Called(request.node, called, Patience::of(request)),
                            None => failed(Status::NotServed),
                        }
                    }
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
            if let CallState::Called(node, called, ..) = state
                && let Some((area, owner)) = self.nodes.get(usize::from(node.0)).and_then(|node| node.call_area())
            {
                area.give_up(owner, called);
            }
        }
    }

    /// Whether the memory node still executes a call that this lane has given up.
    #[cold]
    pub(super) fn is_executed(&mut self, lane: LaneId, node: NodeId) -> bool {
        let remote = self.nodes.get(usize::from(node.0));
        let area = remote.and_then(|remote| remote.call_area().filter(|_| !remote.is_down()));
        self.given_up.retain(|(of, at, called)| {
            *of != lane || *at != node || area.is_some_and(|(area, owner)| area.is_left(owner, called))
        });
        self.given_up.iter().any(|(of, at, _)| *of == lane && *at == node)
    }

    /// Posts a call, whose request is in the lane's scratch.
    fn post_call(lane: &Lane<'_>, request: &Request, area: &CallArea, owner: u32) -> Option<Called> {
        let local = request.local as usize..request.local as usize + request.bytes as usize;
        let answer_bytes = usize::try_from(request.operands[0]).ok()?;
        lane.port().with(|scratch| area.post(owner, Callee(request.operands[1]), scratch.get(local)?, answer_bytes))
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
        self.looks = self.looks.wrapping_add(1);
        let is_timed = self.looks.is_multiple_of(LOOKS);
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
                if let CallState::Called(node_id, called, patience) = state {
                    let node = self.nodes.get(usize::from(node_id.0));
                    let area = node.and_then(|node| node.call_area().filter(|_| !node.is_down()));
                    let heard = area.map(|(area, owner)| {
                        lanes
                            .get(*lane)
                            .map_or(Heard::Waits, |lane| Self::hear_call(lane, *position, area, owner, called))
                    });
                    let ended = |status, value| {
                        let elapsed_ns = saturated(began.elapsed().as_nanos() as u64);
                        CallState::Done(Completion { value, elapsed_ns, status })
                    };
                    match heard {
                        None => *state = ended(Status::NodeDown, 0),
                        Some(Heard::Answer(answer)) => *state = ended(Status::Ok, answer.0),
                        Some(Heard::Waits) if !is_timed => {}
                        Some(Heard::Waits) => {
                            let waited = began.elapsed();
                            let is_late = |(area, owner): (&CallArea, u32)| {
                                waited > patience.end || waited > patience.begin && area.is_posted(owner, called)
                            };
                            if let Some((area, owner)) = area.filter(|area| is_late(*area)) {
                                let is_unserved = area.give_up(owner, called);
                                if !is_unserved && let Some(lane) = lanes.get(*lane) {
                                    self.given_up.push((lane.id(), *node_id, called.given_up()));
                                }
                                *state = ended(if is_unserved { Status::NotServed } else { Status::Unanswered }, 0);
                            }
                        }
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
        if is_timed && !heard {
            // The daemon and the watcher thread need a processor; a polling worker would keep it from them.
            std::thread::yield_now();
        }
    }
}
