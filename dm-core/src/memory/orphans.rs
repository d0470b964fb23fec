//! Orphans: memory that only a departed compute node knew of. Results and progress of looking for them.

use crate::remote::address::Address;
use crate::remote::place::NodeClass;
use crate::verbs::NodeId;
use core::sync::atomic::{AtomicBool, AtomicU32};
use heapless::Vec;
use spin::Mutex;

/// Places of cut-short collections that are remembered. One has to last for a round trip, as long as no queue pair fails.
const SIGNING_MAX: usize = 4;

/// Result of an orphan collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectedOrphans {
    /// A compute node has departed since the last one, so that there was something to look at.
    pub looked: bool,
    /// Chunks of departed compute nodes that are this compute node's now.
    pub chunks: u32,
    /// Places that were looked at, in own and in taken chunks.
    pub places: u64,
    /// Of these, how many are free now.
    pub nodes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Chunks of departed compute nodes, and places in own chunks, that were left because the free list has no room.
    pub no_room: u64,
    /// Places that another lane is using: another look is needed.
    pub unsure: u64,
    /// A mark-and-sweep is under way, and waits for epochs or for another collector ([`crate::memory::collect`]).
    pub waits: bool,
}

impl CollectedOrphans {
    /// Whether everything that can be reused is.
    pub const fn is_complete(&self) -> bool {
        self.no_room == 0 && self.unsure == 0 && !self.waits
    }
}

/// Progress of a compute node's orphan collections.
#[derive(Debug)]
pub struct OrphanCollection {
    pub(crate) busy: AtomicBool,
    /// Incarnations that had ended when everything was looked at last, plus 1.
    pub(crate) ended: AtomicU32,
    /// The chunk that is being looked at. A failed request ends the collection, and the next one continues here: by the
    /// chunk table the chunk is this compute node's, and nothing says any more that its never written places are on no
    /// free list.
    pub(crate) under_way: Mutex<Option<Chunk>>,
    /// Places whose heads a lane was about to write, without a lock, when its collection failed or was dropped. That
    /// WRITE may still land, whichever lane continues. So these places stay unused until this compute node has departed.
    signing: Mutex<Vec<Address, SIGNING_MAX>>,
}

/// A chunk of this compute node, and how far it was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) node: NodeId,
    pub(crate) number: u32,
    pub(crate) class: NodeClass,
    /// It was that of a departed compute node.
    pub(crate) inherited: bool,
    /// The first node that was not looked at.
    pub(crate) next: u64,
}

impl OrphanCollection {
    /// Of a compute node that has looked at nothing yet.
    pub(crate) const fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            ended: AtomicU32::new(0),
            under_way: Mutex::new(None),
            signing: Mutex::new(Vec::new()),
        }
    }

    /// A lane is about to write the head of the node at `place`. `false`: an earlier WRITE there may still land.
    pub(crate) fn begin_signing(&self, place: Address) -> bool {
        let mut signing = self.signing.lock();
        if signing.contains(&place) {
            return false;
        }
        if signing.is_full() {
            // The oldest one.
            signing.remove(0);
        }
        // There is room now.
        let _ = signing.push(place);
        true
    }

    /// That WRITE is done.
    pub(crate) fn has_signed(&self, place: Address) {
        self.signing.lock().retain(|other| *other != place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_may_still_be_written_is_not_begun_again() {
        let orphans = OrphanCollection::new();
        let place = |number| Address::new(NodeId(0), 64 * number, 0);
        assert!(orphans.begin_signing(place(1)) && orphans.begin_signing(place(2)));
        assert!(!orphans.begin_signing(place(1)) && !orphans.begin_signing(place(2)));
        orphans.has_signed(place(1));
        assert!(orphans.begin_signing(place(1)), "its WRITE is done");
        assert!(!orphans.begin_signing(place(2)), "that of the other is not");
        for number in 3..=SIGNING_MAX as u64 {
            assert!(orphans.begin_signing(place(number)));
        }
        assert!(orphans.begin_signing(place(0)), "the oldest one makes room");
        assert!(orphans.begin_signing(place(2)) && !orphans.begin_signing(place(0)));
    }
}
