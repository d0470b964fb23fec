//! The fabric without time: every submit is executed at once, in post order, and nothing ever reorders.
//!
//! For unit tests of one operation and for counting verbs. It shows no race; [`crate::world::World`] does.

use crate::calls::{answer_at_once, scratch_bytes};
use crate::config::Config;
use crate::memory::{Memories, atomic_result};
use dm_core::fabric::{Fabric, Posted};
use dm_core::lane::Lane;
use dm_core::remote::rpc::{Procedure, Reply};
use dm_core::verbs::{
    Assumptions, CallAnswer, Capabilities, Completion, Flags, Guarantees, INLINE_BYTES_MAX, NodeId, Request, Status,
    Verb,
};
use std::borrow::BorrowMut;

/// Executes submits synchronously on memories of its own ([`DirectFabric::new`]) or on existing ones
/// ([`DirectFabric::over`], as in `DirectFabric::over(&config, world.memories_mut())`).
#[derive(Debug)]
pub struct DirectFabric<M = Memories> {
    config: Config,
    memories: M,
    round_trip_ns: u32,
    down: Vec<NodeId>,
}

/// What one submit is said to take, in ns: a usual RDMA round trip, so that deadlines come nearer.
const ROUND_TRIP_NS: u32 = 2000;

impl DirectFabric {
    /// Zeroed memories of the sizes `config` gives.
    pub fn new(config: &Config) -> Self {
        Self::over(config, Memories::new(&config.host_bytes, config.device_bytes as usize))
    }
}

impl<M: BorrowMut<Memories>> DirectFabric<M> {
    /// Over memories that exist already.
    pub fn over(config: &Config, memories: M) -> Self {
        Self { config: config.clone(), memories, round_trip_ns: ROUND_TRIP_NS, down: Vec::new() }
    }

    /// The memories.
    pub fn memories(&mut self) -> &mut Memories {
        self.memories.borrow_mut()
    }

    /// What every submit reports as its duration, in ns.
    pub fn set_round_trip_ns(&mut self, ns: u32) {
        self.round_trip_ns = ns;
    }

    /// From now on every request to this memory node completes as [`Status::NodeDown`].
    pub fn set_down(&mut self, node: NodeId) {
        self.down.push(node);
    }

    fn execute(&mut self, request: &Request, scratch: &mut [u8]) -> Completion {
        let mut completion = Completion { elapsed_ns: self.round_trip_ns, ..Completion::default() };
        match self.apply(request, scratch) {
            Ok(value) => completion.value = value,
            Err(status) => completion.status = status,
        }
        completion
    }

    fn apply(&mut self, request: &Request, scratch: &mut [u8]) -> Result<u64, Status> {
        if self.down.contains(&request.node) {
            return Err(Status::NodeDown);
        }
        let memories = self.memories.borrow_mut();
        memories.admit(request, self.config.masked_atomics)?;
        let remote = request.offset as usize..request.offset as usize + request.bytes as usize;
        let local = request.local as usize..request.local as usize + request.bytes as usize;
        match request.verb {
            Verb::Read => scratch[local].copy_from_slice(&memories.of(request).bytes()[remote]),
            Verb::Write if request.flags.contains(Flags::INLINE) => {
                let payload = request.inline_payload();
                memories.of(request).range_mut(remote).copy_from_slice(&payload[..request.bytes as usize]);
            }
            Verb::Write => memories.of(request).range_mut(remote).copy_from_slice(&scratch[local]),
            Verb::Call if !self.config.calls || request.operands[1] != 0 => return Err(Status::Unsupported),
            Verb::Call => {
                let asked = scratch.get(local).ok_or(Status::Refused)?.to_vec();
                let answer = request.local as usize..request.local as usize + scratch_bytes(request);
                let answer = scratch.get_mut(answer).ok_or(Status::Refused)?;
                let (bytes, copies) = answer_at_once(memories.of(request), request.node, &asked, answer);
                return Ok(CallAnswer::new(bytes, 0, 100 * copies).0);
            }
            Verb::Rpc => {
                if self.config.fences && request.operands[0] == Procedure::Fence as u64 {
                    return Ok(Reply::Done as u64);
                }
                let serve = self.config.rpc.ok_or(Status::Unsupported)?;
                let node = memories.get_mut(request.node).ok_or(Status::Refused)?;
                return serve(node, request.operands);
            }
            _ => {
                let memory = memories.of(request);
                let old = memory.word(request.offset);
                if let Some(new) = atomic_result(request, old) {
                    memory.set_word(request.offset, new);
                }
                return Ok(old);
            }
        }
        Ok(0)
    }
}

impl<'m, M: BorrowMut<Memories>> Fabric<'m> for DirectFabric<M> {
    fn capabilities(&self) -> Capabilities {
        self.config.capabilities()
    }

    /// Everything: there is no concurrency.
    fn guarantees(&self) -> Guarantees {
        Guarantees { by_construction: Assumptions::all(), asserted: Assumptions::empty(), profile: "" }
    }

    fn post(&mut self, lanes: &[Lane<'m>], lane: usize) -> Posted {
        let port = lanes[lane].port();
        let Some(scratch) = port.begin() else { return Posted::Completed };
        let mut travelled = false;
        for (position, request) in port.requests().iter().enumerate() {
            if request.verb.is_local() {
                continue;
            }
            debug_assert!(!request.flags.contains(Flags::INLINE) || request.bytes as usize <= INLINE_BYTES_MAX);
            travelled = true;
            let misuse = port.complete(position, self.execute(request, scratch));
            debug_assert_eq!(misuse, None);
        }
        let elapsed_ns = if travelled { u64::from(self.round_trip_ns) } else { 0 };
        let misuse = port.finish(scratch, elapsed_ns);
        debug_assert_eq!(misuse, None);
        Posted::Completed
    }

    fn poll(&mut self, _: &[Lane<'m>], _: &mut dyn FnMut(usize)) {}
}
