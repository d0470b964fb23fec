//! Calls: what the processor of a memory node has of one, and what it answers if nothing happens meanwhile.

use crate::memory::Memory;
use dm_core::offload::{Next, Walk, walk::Copied};
use dm_core::verbs::{NodeId, Request};

/// Room for a node on a memory node, in bytes: as much as the largest leaf takes.
pub const ROOM_BYTES: usize = 1 << 20;

/// A call that a processor works on.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    pub(crate) walk: Walk,
    pub(crate) copied: Copied,
    /// What is being copied: from where, so far, and since when.
    pub(crate) copying: Option<(u64, usize, u64)>,
    pub(crate) room: Vec<u8>,
    pub(crate) answer: Vec<u8>,
    pub(crate) began_ns: u64,
}

/// The answer to `request` of a memory node with this memory, at one instant: its length, and how many nodes were read.
pub(crate) fn answer_at_once(memory: &Memory, node: NodeId, request: &[u8], answer: &mut [u8]) -> (usize, u32) {
    let mut room = Vec::new();
    let mut walk = Walk::new(request, node);
    let (mut copied, mut copies) = (Copied::Nothing, 0);
    loop {
        match walk.next(copied, &room, answer) {
            Next::Answer(bytes) => return (bytes, copies),
            Next::Copy { offset, bytes } => {
                copies += 1;
                copied = copy(memory, offset, bytes, &mut room);
            }
        }
    }
}

/// The scratch bytes of a call: its request, and its answer.
pub(crate) fn scratch_bytes(request: &Request) -> usize {
    (request.bytes as usize).max(usize::try_from(request.operands[0]).unwrap_or(usize::MAX))
}

pub(crate) fn copy(memory: &Memory, offset: u64, bytes: usize, room: &mut Vec<u8>) -> Copied {
    let from = usize::try_from(offset).ok().and_then(|at| memory.bytes().get(at..)?.get(..bytes));
    let Some(from) = from.filter(|from| from.len() <= ROOM_BYTES) else { return Copied::Outside };
    room.clear();
    room.extend_from_slice(from);
    Copied::In(0)
}
