//! Offload: a memory node's processor walks from an inner node to a leaf, and answers a get (DEX section 6).
//!
//! A compute node whose cache is small READs several nodes for a get, one after the other. A [call](crate::verbs::Verb::Call)
//! takes one round trip instead, and some time of a memory node's processor.
//!
//! ```text
//!  compute node                                     memory node
//! ┌──────────────────────────┐   call: key, node   ┌─────────────────────────────────────┐
//! │ route (copies) ends at a │ ──────────────────► │ node ─► node ─► leaf: judged one by  │
//! │ node of level 0, 1, ...  │                     │ one, as a compute node judges them   │
//! │ which way is cheaper?    │ ◄────────────────── │ found, absent, elsewhere, busy       │
//! │ is the leaf cached here? │   answer: value     └─────────────────────────────────────┘
//! └──────────────────────────┘
//! ```
//!
//! | room | what it is |
//! |---|---|
//! | [`message`] | request and answer, as bytes |
//! | [`walk`] | what the memory node does: a function of the bytes that it reads |
//! | [`choice`] | whether a get calls, from what calls and READs have taken |
//!
//! **The memory node changes nothing.** It reads what a READ could have read, and judges it in the same way. So a call that
//! is executed twice, late, or after the death of its caller has no effect, and no guard is needed for it.
//!
//! **What may be newer than the memory node's bytes** is a leaf that this compute node has cached, and has changed. The
//! answer names the leaf. If the leaf has a frame now, or a changed copy of it has left the page store since before the
//! call, the answer is dropped, and the get goes on at the leaf
//! ([`PageStore::has_had`](crate::pages::PageStore::has_had)). Otherwise the bytes that the memory node read were the whole
//! truth at the instant when it read them, and the get linearizes there. It answers as a get of a leaf that is not admitted:
//! after a look at the lease and at the tenure.
//!
//! **Deviations from the paper.** The paper pins the parent of the node, has no cached page below it, and keeps other lanes
//! out of the subtree. Here a get looks afterwards. Only gets are offloaded; changes and scans are not. A walk that needs a
//! node of another memory node says so ([`Answer::Elsewhere`](message::Answer::Elsewhere)), and the compute node goes on
//! by itself. The children of a parent are on its memory node as long as that has memory
//! ([`Options::keeps_subtrees`](crate::btree::Options::keeps_subtrees)): when it has none, a split goes elsewhere and says nothing,
//! where the paper has no answer. When a parent splits, its right half is near the leaf that split, which is its left half's
//! memory node unless a boundary of entries was between them.
//!
//! **Fabrics.** Memory nodes answer calls on shared memory, where they are processes, and in the simulators. On RDMA devices they
//! answer none: [`Capabilities::call_bytes_max`](crate::verbs::Capabilities) is 0, and gets READ.

pub mod choice;
pub mod message;
pub mod walk;

pub use choice::{Choice, Mode};
pub use walk::{Next, Walk};
