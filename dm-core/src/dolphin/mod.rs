//! Dolphin: an adaptive radix tree whose leaves hold dozens of records, with shared writers in a leaf.
//!
//! After An et al., "Dolphin: A Resource-efficient Hybrid Index on Disaggregated Memory" (MSST 2024), whose lock is
//! Marlin's (ICPP 2023).
//!
//! ```text
//!  catalog        node at position 0             node at position 6               leaf
//! ┌───────────┐  ┌────────┬─────┬──────────┐    ┌────────────────┬─────┬─────┐   ┌───────┬────────┬──────┬────────┐
//! │ root slot │─►│ header │ 0 ─►│ 1 void.. │──► │ header "00000" │ 0 ─►│ 9 ─►│──►│ Spear │ bounds │ keys │ values │
//! └───────────┘  └────────┴─────┴──────────┘    └────────────────┴─────┴─────┘   └───────┴────────┴──────┴────────┘
//!                                                  bytes 0..8 ─┘     └─ bytes 9..255
//! ```
//!
//! A node's slots are told apart by one byte of the key, as in [`crate::radix`]. But a slot stands for a range of
//! bytes, its *tile*: from its own byte to the next slot's. The child of a key is that of the greatest byte that is not
//! above the key's. A tile is void, or a leaf's, or, if it has one byte only, a node's. A leaf owns an interval of keys
//! that never changes; live leaves never overlap. So whatever pointer led to a live leaf whose bounds have the key, it
//! is the leaf of the key.
//!
//! # Rooms
//!
//! | room | what it is |
//! |---|---|
//! | [`layout`] | leaves of 1 KB, blocks |
//! | [`parameters`] | sizes of an index, and the scratch that a lane needs for it |
//! | [`spear`] | the lock word: seats, what each addition decides, settling, repair |
//! | [`entries`] | the local table by which the lanes of a compute node share its seat in a leaf |
//! | [`population`] | where a full leaf is cut, who owns its tile then, and which slots change |
//! | `search`, `scan` | from a key to its leaf, and from leaf to leaf |
//! | `blocks` | values above 63 bytes: carved, named, READ, retired |
//! | `presence` | requests by which a lane gets into a leaf and out |
//! | `write`, `claim`, `fill`, `replace` | writes in a leaf; inserts beside other writers; a leaf where none was; a leaf that is replaced, and its change finished |
//! | `recover`, `collect`, `check`, `bulk` | seats of the dead; mark-and-sweep; validation; bulk loads |
//! | [`plan`] | why structure changes are right: a retired leaf names its heirs |
//!
//! Slot words, nodes, tiles and the bounds of leaves are [`crate::radix`]'s.
//!
//! # Round trips
//!
//! With the leaf's slot known from copies:
//!
//! | operation | round trips | requests |
//! |---|---|---|
//! | get | 1 | READ leaf |
//! | ... whose value is a block | 2 | READ leaf; READ block |
//! | update of a present key | 2 | FAA enter + READ leaf; WRITE value + FAA leave |
//! | ... whose value is a block | 2 | WRITE block + FAA enter + READ leaf; CAS name + FAA leave |
//! | ... beside other lanes of the compute node that are inside | 2 | READ leaf; WRITE value |
//! | insert, delete, `update_if`, `delete_if` | 2 | FAA close + READ leaf; WRITE key + WRITE value + FAA open |
//! | ... whose value is a block | 2 | WRITE block + FAA close + READ leaf; WRITE key + WRITE name + FAA open |
//! | ... that compares or returns the value of a block | 1 more | READ block |
//! | ... with others inside | 3 and more | + READ word until they have left; READ leaf |
//! | insert with [`Options::shared_inserts`](crate::btree::Options) | 3 | FAA enter + READ leaf; CAS key; WRITE value + FAA leave |
//! | ... of a deleted record | 4 | FAA enter + READ leaf; FAA leave; FAA close + READ leaf; WRITE value + FAA open |
//! | insert into a void that a copy shows | 2 | WRITE leaf + CAS its word; CAS slot |
//! | ... that no copy shows | 3 | READ node first |
//! | insert that cuts a leaf | 6; it has taken effect after 3 | FAA close + READ leaf; WRITE leaves + CAS their words; WRITE heirs + FAA retire; READ node; CAS slot; CAS slot |
//! | delete of a leaf's last record | 4; it has taken effect after 2 | FAA close + READ leaf; WRITE heirs + FAA retire; READ node; CAS slot |
//! | ... whose node is full or frozen | 2 to 4 more | freeze; WRITE node; CAS the slot above |
//! | get of a key that has no leaf | 1 more | READ node |
//! | a leaf that a copy describes wrongly | 2 more | READ leaf; READ node; go on |
//! | scan | 1 for as many leaves as a lane has images for | READ leaves; with a gap among them, READ its node in the same |
//! | ... whose values are blocks | 1 more for 16 records of a leaf | READ blocks |
//!
//! # Structure changes, seats, deaths
//!
//! A leaf that has no room is closed, and what replaces it is WRITTEN where no lane can reach it. Two words in its first
//! line then name its heirs, and one FAA retires it: **that FAA is the change**. Slots follow later; any lane finishes
//! that by CAS, and looks first. A compute node's *seat* is its row's number, less one: a field of two bits in every
//! leaf's lock word, shared by the compute node's lanes ([`entries`]). After a death one thing is repaired, by one CAS:
//! the dead compute node's field. [`plan`] has the steps and the argument.
//!
//! # What it assumes
//!
//! WORD_ATOMIC (slots, Spear words, values of 8 bytes, names of blocks); LINE_ATOMIC (heads, cells); ATOMIC_THEN_READ
//! (the leaf behind its FAA); WRITE_THEN_ATOMIC (data before leaving); WRITE_THEN_WRITE (a key before its value);
//! COMPLETION_IS_VISIBLE (each step of a structure change before the next; a block before its name). With values in
//! blocks, ATOMIC_THEN_ATOMIC, too (a name before leaving). ATOMIC_EXCLUDES_WRITE and FAILED_CAS_IS_SILENT are not
//! needed: Spear words and slots are never covered by a WRITE once they are published, a name is WRITTEN only by a lane
//! that is exclusive, and so is the cell of a key. No order of lines is assumed.
//!
//! A lane may add to the Spear word of a leaf that left the tree, by a pointer of a copy. So the place of a leaf is
//! reused only when no compute node has a pointer to it ([`crate::radix::pieces`]), and the next leaf's word is made free
//! by CAS ([`spear::Spear::birth`]), never written anew.
//!
//! # Deviations from the paper
//!
//! - **Leaves by population.** The paper's leaf has keys that differ in the last byte only. With sparse keys that is
//!   one record in a leaf of 1088 bytes. Here leaves are cut where their keys differ, at any position. An index can be
//!   created with the paper's leaves ([`parameters::Parameters::paper_leaves`]).
//! - **Tiles in every node**, not in a "special" one at the last position. The mark *special* in a slot says so, which
//!   leaves room for the paper's own nodes.
//! - **Bounds are a prefix and two bytes**, the last one included. The paper's half-open `[min, max)` with `max =
//!   prefix | 255` excludes a key that it should have. Two keys would not fit a line.
//! - **Seats instead of counters** in the Spear word. A count does not say who died, and counting the living races with
//!   those that come and go. The price is a limit of 30 compute nodes that write.
//! - **Structure changes are out of place.** The paper rewrites the old leaf, and a reader whose image is half old and
//!   half new misses keys. Here the old leaf stays the truth until it is retired; one more leaf is reclaimed a cut.
//! - **No reverse pointers.** A replaced node would have to rewrite every child. Generation, bounds and RETIRED say the
//!   same without a repair.
//! - **A key is bound once in a leaf's life, and deletes leave it.** The paper clears key and value: an update that is
//!   late then changes another key's value. The value cell says whether the record is there; a delete clears it.
//! - **Absent is a word that the leaf chooses**, and no reserved value: every value can be stored, and every key.
//! - **Inserts are exclusive.** The paper claims a key cell by CAS beside other writers; a reader then finds the key
//!   with the value of nobody. The paper's inserts are a technique that is off by default; ours (`claim`) WRITEs
//!   the value when it knows that the claim succeeded.
//! - **Values above a line are blocks.** Two WRITEs of several lines may leave lines of both for ever; equal line
//!   versions do not exclude it. Updates of one record at the same time are decided by a CAS of the name; one that
//!   was overtaken is done.
//! - **The lock comes first in the leaf**, so that a WRITE of the rest is one range; the leaf has 1024 bytes, not 1088.
//! - **Nodes have room for their own slots** and are replaced when full, as SMART's; the paper reserves 2 KB.
//! - **Waiting for the last request.** The published program answers before its WRITE has landed.
//!
//! # Where the plan was mended
//!
//! The first plan of this room, which was argued on paper, had these holes:
//!
//! - *A header that differs proved absence if its node was part of the tree*. It is, too, when another node was put
//!   above it, with the key's leaf beside it. The word of the slot that leads to it has to be fresh.
//! - *An update whose queue pair had failed was WRITTEN again*. If its first WRITE had landed, another update may have
//!   followed, which readers have seen, and the second WRITE takes it back.
//! - *A void does not know where it ends* if the next slot is READ at another instant, and its leaf overlaps the next
//!   one's. A void's word has its last byte, so that the CAS compares it.
//! - *A node below a wide tile* ("a path node at q first") contradicts the rule that nodes have tiles of one byte, by
//!   which a descent tells a stale image. The tile is narrowed in its own node, by two slots more at most.
//! - *A leaf of all keys* leaves no key for cells that are not bound. The first insert makes a node with two halves.
//! - *Dense integers in any order* end at half-full leaves if cuts are at the median: 256 keys make 8 leaves of 32. At
//!   the last position cuts are at multiples of the span: 5 leaves.
//!
//! # Sizes
//!
//! `population::tests` builds trees in memory by these decisions, counts the bytes of leaves and nodes, and asserts for
//! records of 8 + 8 bytes: at most 30 bytes a record with random 64-bit keys, at any size from a tenth of the load on;
//! at most 26 with dense integers at the end of the load, in any order. For skewed sets it prints them.
//!
//! # Limits
//!
//! - 30 compute nodes that write; one more is [`spear::NoSeat`]. A repair is one of them: where dead compute nodes have all of the
//!   first 30 rows, only a compute node that has a row in front of them frees these.
//! - 256 memory nodes, 16 TB each; keys of 8 to 64 bytes of one length, values of 8 to 1024. Those above 63 are in
//!   blocks, in chunks for nodes.
//! - A key far from all others takes a leaf of its own: 1024 bytes.
//! - Leaves that have records are not merged: one record keeps a leaf's 1024 bytes.

mod blocks;
mod bulk;
mod check;
mod claim;
mod collect;
pub mod entries;
mod fill;
mod index;
pub mod layout;
pub(crate) mod marks;
pub mod mutants;
pub mod parameters;
#[doc = include_str!("plan.md")]
pub mod plan {}
pub mod population;
mod presence;
mod recover;
mod replace;
mod scan;
mod search;
pub mod spear;
mod write;

pub use index::{Dolphin, MARKS, Parts};
