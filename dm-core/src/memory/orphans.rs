//! Orphans: memory that only a departed compute node knew of. What looking for them came to, and how far it is.

use crate::remote::place::NodeClass;
use crate::verbs::NodeId;
use core::sync::atomic::{AtomicBool, AtomicU32};
use spin::Mutex;

/// What an adoption came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Somebody has gone since the last adoption, so that there was something to look at.
    pub looked: bool,
    /// Chunks of the gone that are this compute node's now.
    pub chunks: u32,
    /// Places of nodes in chunks that were looked into, its own among them.
    pub places: u64,
    /// Of these, what came back.
    pub nodes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Chunks of the gone, and places in its own, that were left alone because the shelf has no room.
    pub no_room: u64,
    /// Places that somebody is at: another look is needed.
    pub unsure: u64,
    /// A collection is under way, and waits for epochs or for somebody else's ([`crate::memory::collect`]).
    pub waits: bool,
}

impl Adopted {
    /// Whether everything that could come back has.
    pub const fn is_complete(&self) -> bool {
        self.no_room == 0 && self.unsure == 0 && !self.waits
    }
}

/// What a compute node remembers of its adoptions.
#[derive(Debug)]
pub struct Adoption {
    pub(crate) busy: AtomicBool,
    /// Lives of compute nodes that had ended when everything was looked at last, plus 1.
    pub(crate) ended: AtomicU32,
    /// The chunk that is being looked into. A request that fails ends the adoption, and the next one begins here: by the chunk
    /// table the chunk is this compute node's, and nothing says any more that what was never written there is on no shelf.
    pub(crate) under_way: Mutex<Option<Chunk>>,
}

/// A chunk of this compute node, and how far it has looked into it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) node: NodeId,
    pub(crate) number: u32,
    pub(crate) class: NodeClass,
    /// It was somebody's who is gone.
    pub(crate) inherited: bool,
    /// The first node that was not looked at.
    pub(crate) next: u64,
}

impl Adoption {
    /// Of a compute node that has looked at nothing yet.
    pub(crate) const fn new() -> Self {
        Self { busy: AtomicBool::new(false), ended: AtomicU32::new(0), under_way: Mutex::new(None) }
    }
}
