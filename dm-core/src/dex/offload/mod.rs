//! Offload: a memory node's processor walks from an inner node to a leaf, and looks there, takes records, or changes the
//! leaf (DEX section 6).
//!
//! A compute node whose cache is small READs several nodes for an operation, one after the other, and WRITEs the leaf if the
//! operation changes it. A [call](crate::verbs::Verb::Call) takes one round trip instead, and some time of a memory node's
//! processor.
//!
//! ```text
//!  compute node                                     memory node
//! ┌──────────────────────────┐   call: key, node   ┌─────────────────────────────────────┐
//! │ route (copies) ends at a │ ──────────────────► │ node ─► node ─► leaf: judged one by  │
//! │ node of level 0, 1, ...  │                     │ one, as a compute node judges them   │
//! │ which way is cheaper?    │ ◄────────────────── │ value, records, or: changed;         │
//! │ is the leaf cached here? │   answer            │ elsewhere, busy, needs a split       │
//! └──────────────────────────┘                     └─────────────────────────────────────┘
//! ```
//!
//! | room | what it is |
//! |---|---|
//! | [`message`] | requests and answers, as bytes |
//! | [`walk`] | what the memory node does: a function of the bytes that it reads, and writes |
//! | [`choice`] | whether an operation calls, from what calls, READs and WRITEs have taken |
//!
//! | operation | from a node of | requests | the same without a call |
//! |---|---|---|---|
//! | get | level L | call | L + 1 READs |
//! | page of a scan | level L | a call for 8 leaves, or as many as [`CALL_BYTES_MAX`](crate::verbs::CALL_BYTES_MAX) holds | L + 1 READs; READs of the next leaves in one submit |
//! | change of a leaf that is not admitted | level 0 | call | READ; WRITE of image and leaf |
//!
//! **A get or a scan changes nothing.** The memory node reads what a READ could have read, and judges it in the same way. So a
//! call that is executed twice, late, or after the death of its caller has no effect, and no guard is needed for it.
//!
//! **What may be newer than the memory node's bytes** is a leaf that this compute node has cached, and has changed. The
//! answer names the leaves. If one of them has a frame now, or a changed copy of it has left the page store since before the
//! call, the answer is dropped, and the operation goes on by itself
//! ([`PageStore::has_had`](crate::pages::PageStore::has_had)). Otherwise the bytes that the memory node read were the whole
//! truth at the instant when it read them, and the operation linearizes there. It answers as one that has READ a leaf that is
//! not admitted: after a look at the lease and at the tenure.
//!
//! **A change has its leaf for itself.** The lane has the page's fill, without a frame, as for a leaf that it READs and WRITEs
//! itself: no lane has a copy, dirty or clean, and none comes to one before the fill ends; an entry that is handed over waits
//! for the fills of its pages. The change is stamped with the LSN of a record `none`. What closes the races:
//!
//! - *Executed twice, or later than another change*: the leaf's LSN is not below the change's, and the memory node does nothing.
//! - *Executed after its caller has given up*: the lane keeps the fill until what it has left to the memory node is closed. A
//!   memory node, or its stand-in, says so only when it executes no call of the lane, and will execute none
//!   ([`Label::Closed`](crate::verbs::Label)).
//! - *Executed after its caller's death*: a memory node confirms a fence only when the same holds for all calls of the row. So
//!   the compute node that recovers the entry finds a whole leaf, without the change or with it.
//! - *A processor that stops in the middle*: its memory node is down with it. A daemon that serves the region again does so
//!   only when all processes that had mapped it are gone. Then the leaf's image is in a redo slot of the caller's lane, where
//!   a recovery looks for the images of torn pages ([`restore`](super::restore)).
//!
//! **Deviations from the paper.** The paper pins the parent of the node, has no cached page below it, and keeps other lanes
//! out of the subtree. Here a get and a scan look afterwards, and a change calls only about one leaf, which it has for itself;
//! so there is no guard for a subtree, and no leaf that is cached elsewhere in it stands in the way. A change whose leaf is not
//! known READs the inner nodes first. A walk that needs a node of another memory node says so
//! ([`Answer::Elsewhere`](message::Answer::Elsewhere)), and the compute node goes on by itself. The children of a parent are on
//! its memory node as long as that has memory ([`Subtrees`](crate::btree::Subtrees)). When it has none, a split takes memory
//! of another memory node, and later walks end there; or, with [`Subtrees::Whole`](crate::btree::Subtrees), the operation
//! fails and says which memory node is full. The paper does not say what happens then. When a parent splits, its right half
//! is near the leaf that split, which is its left half's memory node unless a boundary of entries was between them.
//!
//! **Fabrics.** Memory nodes answer calls on shared memory, where they are processes, on RDMA devices, in the simulators, and in an
//! image without an operating system (`tools/firmware`). Where
//! one answers none, [`Capabilities::call_bytes_max`](crate::verbs::Capabilities) is 0, and operations READ. On RDMA devices a
//! processor's stores are whole words, and a READ of the device could meet a line in the middle of them. So a memory node changes a
//! leaf there by WRITEs of its own device; if it cannot, [`Capabilities::calls_change`](crate::verbs::Capabilities) says so.

pub mod choice;
pub mod message;
pub mod walk;

pub use choice::{Choice, Mode};
pub use walk::{Moved, NODE_AT, Next, Walk};
