//! Calls to memory nodes' daemons: requests of a lane that travel by the control connection.

use super::VerbsFabric;
use crate::clock::Stamp;
use crate::memory_node::verbs::wire::FENCED;
use dm_core::lane::Lane;
use dm_core::remote::rpc::Reply;
use dm_core::verbs::{Completion, Request, Status};
use std::time::{Duration, Instant};

/// A call that is outstanding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calling {
    node: usize,
    id: u64,
    operands: [u64; 4],
    lane: u16,
    position: u8,
    /// When the fabric repeats the call.
    again: Instant,
    /// Repetitions left.
    left: u8,
}

/// How long a daemon may take before the fabric repeats a call.
const CALL_WAIT: Duration = Duration::from_secs(2);

/// How often a call is repeated.
const CALL_REPEATS: u8 = 4;

impl VerbsFabric {
    /// Begins a call to a memory node's daemon.
    pub(super) fn call(&mut self, lanes: &[Lane<'_>], at: usize, position: u8, request: &Request) {
        let node = usize::from(request.node.0);
        let status = match self.links.get(node) {
            None => Status::Refused,
            Some(link) => match link.refusal() {
                Some(status) => status,
                None => match link.peer().begin(request.operands) {
                    Ok(id) => {
                        let again = Instant::now() + CALL_WAIT;
                        let operands = request.operands;
                        let lane = at as u16;
                        self.calls.push(Calling { node, id, operands, lane, position, again, left: CALL_REPEATS });
                        self.tracks[at].pending += 1;
                        return;
                    }
                    Err(_) => Status::NodeDown,
                },
            },
        };
        lanes[at].port().complete(usize::from(position), Completion { status, ..Completion::default() });
    }

    /// Takes replies to calls, and repeats those that are overdue.
    pub(super) fn take_replies(&mut self, lanes: &[Lane<'_>], now: Stamp) {
        let mut at = 0;
        while at < self.calls.len() {
            let call = self.calls[at];
            let link = &self.links[call.node];
            let (value, status) = match link.peer().take(call.id) {
                Some(FENCED) => (Reply::Unknown as u64, Status::Fenced),
                Some(value) => (value, Status::Ok),
                None if link.peer().is_down() => (0, Status::NodeDown),
                None => {
                    let instant = Instant::now();
                    if instant < call.again {
                        at += 1;
                        continue;
                    }
                    if call.left > 0 && link.peer().send(call.id, call.operands).is_ok() {
                        self.calls[at].left -= 1;
                        self.calls[at].again = instant + CALL_WAIT;
                        at += 1;
                        continue;
                    }
                    link.peer().forget(call.id);
                    (0, Status::Flushed)
                }
            };
            self.calls.swap_remove(at);
            self.deliver(lanes, usize::from(call.lane), call.position, value, status, now);
        }
    }
}
