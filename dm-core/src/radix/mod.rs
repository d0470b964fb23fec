//! What radix trees on disaggregated memory share. The indexes differ in their leaves, not here.
//!
//! | room | what it is |
//! |---|---|
//! | [`slot`] | slot words and node headers; what an image of a node says about a key |
//! | [`tile`], [`floor`] | ranges of values of a byte, the bounds of leaves; nodes whose slots stand for such ranges |
//! | [`space`], [`pieces`] | memory for nodes and leaves, carved from granted chunks in units of 16 bytes; its free lists and its limbo list |
//! | [`cache`] | copies of nodes, followed from the root by their own slots |
//! | [`tree`] | the part that does not depend on leaves: root, memory, copies, scratch; the CAS of a slot |
//! | [`leaf`] | what an index says about its leaves, in a tree of bytes |
//! | `cursor` | where a descent stands, and where it ends |
//! | `look`, `descent` | from a key to its leaf, or to where its leaf would be |
//! | `tile_descent` | the same in a tree of tiles, whose leaves have many keys |
//! | [`chain`] | new nodes between a slot and the position at which keys differ |
//! | `attach` | a new leaf: into an empty slot, or by a leaf split or a header split |
//! | `freeze`, `replace` | a node without room is frozen and replaced |
//! | [`tombstones`] | deleted leaves are finalized, and leave the tree |
//! | `walk` | walks in key order: `scan`, the `check` of every invariant, the `mark` of a collection |
//!
//! ```text
//!  node   0        8        16       24                    16 + 8 S
//!        ┌────────┬────────┬────────┬────────┬─────┬────────┐
//!        │ header │ mark   │ slot 0 │ slot 1 │ ... │ S - 1  │   S = 4, 8, 16, 32, 64, 128 or 256: the node's type
//!        └────────┴────────┴────────┴────────┴─────┴────────┘
//! ```
//!
//! **Positions.** Position `d` is byte `d` of the key. The slots of a node are told apart by the byte at one position,
//! the node's; its header repeats the (up to six) bytes in front of it. A child reached through a slot at position `p`
//! begins at `p + 1`: between there and its own position lie the bytes that its path skips ("pessimistic path
//! compression", ART section III.E), all of them in its header. All keys have one length, so no key is a prefix of
//! another.
//!
//! **Bytes and tiles.** In a tree of bytes a slot stands for one byte, and a leaf has one key ([`crate::smart`]). In a
//! tree of tiles a slot stands for its byte and those behind it, up to the next slot's, and a leaf has many keys
//! ([`crate::dolphin`]). Nodes, their copies, their memory, freezing and chains of nodes are the same.
//!
//! **What never changes.** A node's header, and the whole prefix in front of its slots, for as long as any operation
//! may know its address (its place is reused later: [`crate::memory`]). A *header split* puts a new node above an
//! existing one, whose header keeps bytes that are then also in the new node. A descent compares only the bytes from
//! where it stands.
//!
//! **What changes, and how.** Slots, by CAS of the whole word: empty -> leaf -> node -> other node, and once anything
//! -> the same *frozen*. (In a tree of tiles: empty -> void or leaf -> leaf, void or node, and so on.) An empty slot is filled only by a lane that has found all slots in front of it taken. So slots
//! are filled in ascending order without a gap, and no byte has two.
//!
//! **Node replacement.** A node has room for the slots of its type and no more. Room is not reserved for growth: a full
//! node is *replaced*. First its slots are frozen one by one. Then a node that has room is written, with the same
//! header and the same words. The CAS of the one slot that points to the old node publishes it. When a node is
//! replaced, a small node below it with at most one leaf that is not deleted is frozen, too, and left out
//! ([`tombstones`]). A lane that needs to change a frozen slot finishes the replacement first; one that only reads goes
//! through it. The old node's place waits in the limbo list. See [`node_replacement`](crate::manual::node_replacement)
//! for why no insert is lost.

pub(crate) mod attach;
pub(crate) mod bulk;
pub mod cache;
pub mod chain;
pub(crate) mod check;
pub(crate) mod cursor;
pub(crate) mod descent;
pub mod floor;
mod freeze;
pub mod leaf;
pub(crate) mod look;
pub(crate) mod mark;
pub(crate) mod marks;
pub mod mutants;
pub mod pieces;
pub(crate) mod pin;
pub(crate) mod replace;
pub(crate) mod scan;
pub mod slot;
pub mod space;
pub mod tile;
pub(crate) mod tile_descent;
pub mod tombstones;
pub mod tree;
pub(crate) mod walk;
