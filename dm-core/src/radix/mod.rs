//! What radix trees on disaggregated memory share: slots, nodes, node space, and copies of nodes on the compute node.
//!
//! - [`slot`]: slot words and node headers; what an image of a node says about a key.
//! - [`space`]: memory for nodes and leaves, carved from granted chunks in units of 16 bytes; [`pieces`]: what of it comes back.
//! - [`cache`]: copies of nodes, followed from the root by their own slots.
//!
//! ```text
//!  node   0        8        16       24                    16 + 8 S
//!        ┌────────┬────────┬────────┬────────┬─────┬────────┐
//!        │ header │ mark   │ slot 0 │ slot 1 │ ... │ S - 1  │   S = 4, 8, 16, 32, 64, 128 or 256: the node's type
//!        └────────┴────────┴────────┴────────┴─────┴────────┘
//! ```
//!
//! **Positions.** Position `d` is byte `d` of the key. The slots of a node are told apart by the byte at one position, the
//! node's; its header repeats the (up to six) bytes in front of it. A child reached through a slot at position `p` begins
//! at `p + 1`: between there and its own position lie the bytes that its path skips ("pessimistic path compression", ART
//! section III.E), all of them in its header. All keys have one length, so no key is a prefix of another.
//!
//! **What never changes.** A node's header, and the whole prefix in front of its slots, for as long as anybody may know
//! its address (places are used again when nobody does: [`crate::memory`]). A node that another is put above (a *header split*) keeps bytes in its header that are now also in the
//! path: whoever arrives compares from where it stands.
//!
//! **What changes, and how.** Slots, by CAS of the whole word: empty -> leaf -> node -> other node, and once
//! anything -> the same *frozen*. An empty slot is filled only by who has found all slots in front of it taken, so slots
//! are filled in ascending order without a gap, and no byte has two.
//!
//! **Node space.** A node has room for the slots of its type and no more. Room is not reserved for growth: a node that
//! is full is *replaced*. Its slots are frozen one by one (a frozen word never changes again, so the sum of them is
//! exact), a node that has room is written with the same header and the same words, and the CAS of the one slot that
//! points to the old node publishes it. A node is frozen when it is full, or when hardly anything is left in it ([`crate::smart`]):
//! then its empty slots are frozen, too, in the same order as others, and whoever meets a frozen one looks for no other. Whoever needs to change a frozen slot finishes the replacement first; whoever only reads goes through it.
//! The old node's place waits until by the epochs nobody goes through it any more, and is carved again.

pub mod cache;
pub mod pieces;
pub mod slot;
pub mod space;
