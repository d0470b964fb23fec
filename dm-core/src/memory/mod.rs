//! Memory that comes back: what a compute node was granted and is gone, or has let go of, is used again.
//!
//! # Whose a place is
//!
//! Shelves and stocks are in a compute node's own memory and end with it. So that others can tell what was on them, the
//! place of every node says in *remote* memory whose it is:
//!
//! | the place | is that of |
//! |---|---|
//! | of a node that the root leads to | the tree |
//! | that was never written | the owner of its chunk |
//! | of a leaf that is retired | the compute node that retired it: it signs the leaf ([`OwnerTag`](crate::remote::signature::Signature)) |
//! | of a leaf that was written and that nothing leads to | the compute node that wrote it, which signed it, too |
//! | of an inner node that nothing leads to | the owner of its chunk: inner nodes are never retired, so no other has their places |
//!
//! A signature lies in the line that such a WRITE sends anyway, in bytes a leaf has no other use for: it costs no
//! request and no byte.
//!
//! A compute node is *gone* when its row is free or another incarnation's. That stays so for ever, and it is so only
//! after nothing it posted can take effect any more, and after no lock names it: rows become free by leaving with
//! everything settled, or by a sweep. What was a compute node's that is gone is nobody's.
//!
//! # Adoption
//!
//! [`Index::adopt`](crate::index::Index::adopt): a living compute node makes chunks of the gone its own, by a CAS of the
//! chunk's entry, and looks at every node in them; and it looks, in its own chunks, for leaves signed by the gone. What
//! is nobody's goes on its shelf. So one looks at a place, the owner of its chunk, and there is nothing to agree on.
//! When an adopter dies, its chunks are those of somebody gone, and the next one begins anew.
//!
//! Nothing of this asks what the living are doing. What is theirs says so: their shelves, and nodes they have written
//! and not linked yet.
//!
//! **Is a place reachable?** A level's fences partition the keys, so the live node that covers the low fence of node N is
//! N, or N is not in the tree (a live node keeps its low fence). A retired leaf keeps its high fence, and the key just
//! below it is covered by another leaf once the merge is complete, and by none until then: whoever looks for it comes to N
//! and is sent back. Looking is a descent.
//!
//! **Will it become reachable?** The signer is gone, so it links nothing any more. But a repairer may be about to replay
//! the WRITE by which the signer linked N, and the signer's row is free as soon as the repairer has taken the lock over.
//! That WRITE goes to the node that covers N's low fence as long as N is not linked, and the repairer holds that node's
//! lock. So the adopter takes that lock, too, and looks once more: from then on nothing leads to N. (If the repairer
//! dies, whoever takes over from it replays first.) There is no such WRITE to a place never written, or torn: a redo
//! image lies behind the new node in its chain.
//!
//! **Will anything be written to it?** A repairer may be about to replay the WRITE by which the signer retired N, too: it
//! holds N's own lock, which named the signer and names the repairer since. Did that WRITE land on a place that was
//! taken already, it would be signed by the gone again, and be taken twice. So the adopter acquires N's lock first, wherever
//! that lies, and takes N for what it is then: whoever had the lock is done with it, or dead, and then the adopter has
//! seen to the replay itself. Nobody locks N later to write to it: nothing leads there.
//!
//! **Was a place never written?** Its chunk was granted as a free one, so its bytes were zero: a chunk that anything was
//! written to is never free again ([`crate::memory::chunks`]). So what lies in a place is zero or a node of the index. In
//! a chunk of somebody gone, whatever is no node of the index is nobody's.
//!
//! **Could it be signed by two?** A signature has room for 15 of the 16 bits of an incarnation, in a pool of 128 rows. One
//! that the present tenant of the row might have written counts as the tenant's, and its place waits until that is gone,
//! too. That nobody has signed (row 0) stays as it is.
//!
//! **Taken for two tenants' in turn.** N is READ as retired by somebody who is gone; then a descent finds another leaf
//! in its place; then N is READ again and must be the same, and the signer still gone. Had N been revived in between, only
//! a living compute node could have retired it again, and would have signed it.
//!
//! **The next life.** A place goes on with its next generation, and with the node version after the one in its first line:
//! a dead writer may have written some lines of the image after that, and the next image must differ from both.
//!
//! # What protects a READ that is under way
//!
//! A place that is retired is used again at once, whoever may be READing it; what a reader may find there is
//!
//! | | and it is told by |
//! |---|---|
//! | the retired node | its flag, in the first line (CHIME: in every replica, and in every entry the next generation) |
//! | a mixture of that and of the next life | versions, which go on counting from life to life; a READ so long that they may have come round is not trusted |
//! | the next life, or a later one | its generation: in the header, and where less than a node is READ, in that |
//! | a later life of the *same generation*, linked | nothing, and nothing has to: its fences say which keys it covers, and for those it is right |
//! | ..., written and not linked yet, or abandoned | **nothing**: it is whole, of this index, and covers the key by its fences |
//!
//! In the last case what is written is lost unless the node is linked, what is read may be old once it never is, and
//! who links a half-split may link one that has not happened yet. So it must not come to it, be the pointer one of an operation under way or
//! of a copy: the [`quarantine`] holds a place back where its generations begin anew until by the [`epochs`] no compute
//! node has a pointer that old. It is the only place where epochs are needed; within a round of generations nobody
//! waits, and no READ depends on how long another one takes.
//!
//! *SMART* has nothing in its slots and nodes that tells lives apart: all of its places wait, in a queue of their own
//! ([`crate::radix::pieces`]), and are told in bulk, so that turns are rare. What of its memory is whose nothing says, so it is
//! collected ([`collect`]). Whoever retires something whose check has fewer
//! values than a place has lives - generations, lengths, checksums are all finite - puts it through
//! [`NodePool::put_again`](crate::memory::node_pool::NodePool::put_again), or a quarantine of its own.
//!
//! Without recovery, in an index that is opened without epochs, nothing waits; and a compute node with such an index says nothing
//! in its row, so that what others quarantine waits until it is gone.
//!
//! # What comes back when
//!
//! | what | when |
//! |---|---|
//! | the unused part of the last chunk, the shelves and stocks of a compute node that left or died | with the next adoption |
//! | nodes it had written and not linked, retired and not reused | likewise |
//! | leaves and nodes of a radix tree that it had ready, or in its hands | likewise: when they are collected |
//! | of its chunks for blocks, what it had never written to; blocks it had written and not named, retired and not reused | when they are collected: its chunks when its row is free and nobody dead waits for a sweep, those of the living when their memory is short ([`collect`]) |
//! | redo images' chunks | when it leaves, or with the sweep, for redo images |
//! | nodes that an operation which was dropped or failed was about to link | when its lane is settled |
//! | a leaf that is merged away | at once; once in 32 lives of its place after every compute node has passed the epoch |
//! | a leaf whose merge was dropped or failed in the middle; retired leaves that did not fit the shelf, or the quarantine | when the compute node is gone |

pub mod chunks;
pub mod closed;
pub mod collect;
pub mod epochs;
pub mod ground;
pub mod node_pool;
pub mod orphans;
pub mod quarantine;
pub mod rows;

pub use collect::{Collection, Share};
pub use epochs::{Epochs, Participant, Pin};
pub use ground::{Ground, Plot};
pub use orphans::Adopted;
pub use quarantine::{GENERATIONS, Quarantine, Waiting};

use crate::marks::Mark;
use core::sync::atomic::{AtomicBool, Ordering::Release, Ordering::SeqCst};

/// What this room counts.
pub const MARKS: &[Mark] = &[Mark::ChunkAdopted, Mark::NodeReclaimed];

/// Something that a compute node does once at a time. Ends when it is dropped.
pub(crate) struct Busy<'a>(&'a AtomicBool);

impl<'a> Busy<'a> {
    /// `None`: it is being done.
    pub(crate) fn begin(flag: &'a AtomicBool) -> Option<Self> {
        // Not `then_some`: one that is not answered would be dropped, which ends the other.
        (!flag.swap(true, SeqCst)).then(|| Self(flag))
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}
