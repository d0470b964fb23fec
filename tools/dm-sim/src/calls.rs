//! Calls: what the processor of a memory node has of one, and what it answers if nothing happens meanwhile.

use crate::compute_node::ComputeNode;
use crate::memory::Memory;
use dm_core::offload::{Moved, NODE_AT, Next, Walk};
use dm_core::verbs::{Callee, NodeId, Request};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Room for a node on a memory node, in bytes: as much as the largest leaf takes.
pub const ROOM_BYTES: usize = 1 << 20;

/// A call that a processor works on.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    pub(crate) walk: Walk,
    pub(crate) moved: Moved,
    /// What is being copied, or written.
    pub(crate) moving: Option<Moving>,
    pub(crate) room: Vec<u8>,
    pub(crate) answer: Vec<u8>,
    pub(crate) began_ns: u64,
}

/// Bytes that go from the memory to the room of a call, or back, in two parts.
#[derive(Clone, Debug)]
pub(crate) struct Moving {
    pub(crate) offset: u64,
    /// Where in the room.
    pub(crate) room: Range<usize>,
    /// The bytes of the first part.
    pub(crate) done: usize,
    pub(crate) is_write: bool,
    pub(crate) since_ns: u64,
}

impl Moving {
    /// Moves so many bytes behind those that are done.
    pub(crate) fn go_on(&mut self, bytes: usize, memory: &mut Memory, room: &mut [u8]) {
        let there = self.offset as usize + self.done..self.offset as usize + self.done + bytes;
        let here = &mut room[self.room.start + self.done..self.room.start + self.done + bytes];
        if self.is_write {
            memory.range_mut(there).copy_from_slice(here);
        } else {
            here.copy_from_slice(&memory.bytes()[there]);
        }
        self.done += bytes;
    }

    /// Bytes that are left.
    pub(crate) fn rest(&self) -> usize {
        self.room.len() - self.done
    }
}

/// What a walk wants to be moved. `None`: there are no such bytes. The room grows.
pub(crate) fn begin(next: &Next, memory: &Memory, room: &mut Vec<u8>, now_ns: u64) -> Option<Moving> {
    let (offset, place, is_write) = match next {
        Next::Copy { offset, bytes } => (*offset, NODE_AT..NODE_AT + bytes, false),
        Next::Write { offset, from } => (*offset, from.clone(), true),
        Next::Answer(_) => return None,
    };
    let end = usize::try_from(offset).ok()?.checked_add(place.len())?;
    let is_inside = end <= memory.bytes().len() && place.end <= NODE_AT + ROOM_BYTES;
    is_inside.then(|| {
        room.resize(room.len().max(place.end), 0);
        Moving { offset, room: place, done: 0, is_write, since_ns: now_ns }
    })
}

/// A call that waits at a compute node, or is executed there.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    /// Nobody has taken it, and its caller has not taken it back.
    pub(crate) waits: Arc<AtomicBool>,
    /// The record of the call: [`crate::flight::Slot`].
    pub(crate) slot: u32,
    pub(crate) sequence: u64,
    /// The lane that calls: its compute node, and its position there.
    pub(crate) caller: (ComputeNode, u16),
    /// Whom it is for.
    pub(crate) callee: Callee,
    /// What is asked.
    pub(crate) request: Vec<u8>,
    /// Room for the answer.
    pub(crate) answer_bytes: usize,
    pub(crate) since_ns: u64,
    /// When it was posted.
    pub(crate) posted_ns: u64,
}

impl Arrived {
    /// Takes it, unless its caller has taken it back.
    pub(crate) fn take(&self) -> bool {
        self.waits.swap(false, Ordering::Relaxed)
    }
}

/// The answer to `request` of a memory node with this memory, at one instant: its length, and how many times bytes were moved.
pub(crate) fn answer_at_once(memory: &mut Memory, node: NodeId, request: &[u8], answer: &mut [u8]) -> (usize, u32) {
    let mut room = Vec::new();
    let mut walk = Walk::new(request, node);
    let (mut moved, mut moves) = (Moved::Nothing, 0);
    loop {
        let next = walk.next(moved, &mut room, answer);
        if let Next::Answer(bytes) = next {
            return (bytes, moves);
        }
        moves += 1;
        moved = begin(&next, memory, &mut room, 0).map_or(Moved::Outside, |mut moving| {
            moving.go_on(moving.rest(), memory, &mut room);
            Moved::In(0)
        });
    }
}

/// The scratch bytes of a call: its request, and its answer.
pub(crate) fn scratch_bytes(request: &Request) -> usize {
    (request.bytes as usize).max(usize::try_from(request.operands[0]).unwrap_or(usize::MAX))
}
