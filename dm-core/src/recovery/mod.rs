//! What a compute node's death costs the others: one lease, and nothing that was acknowledged.
//!
//! In every published system a client that dies with a lock in its hands stops the tree for ever. Here whoever waits
//! for that lock finds out, makes sure that the dead can write no more, repairs what it left half done, and goes on.
//!
//! ```text
//!  a lock word does not change
//!        │  a quarter of a lease                     [`lease`]: what the holder's row says, by the waiter's own clock
//!        ▼
//!  READ the holder's row ──► heartbeat moves: wait on
//!        │  unchanged for a lease
//!        ▼                                           [`mod@fence`]
//!  row LIVE -> FENCING, every memory node confirms, row -> DEAD
//!        │
//!        ▼                                           [`takeover`], [`redo`](crate::membership::redo)
//!  redo image of that lock word?  no: CAS the word free
//!        │ yes: copy it under a word of my own, CAS dead's word -> mine, replay it, CAS mine -> free
//!        ▼
//!  acquire as usual; what is half done above one node is finished by whoever meets it
//! ```
//!
//! # What may be lost when
//!
//! A sender that dies leaves a *prefix* of each of its chains: WRITEs of a chain land in post order
//! (WRITE_THEN_WRITE), an atomic behind them (WRITE_THEN_ATOMIC); chains to different memory nodes are independent.
//! Of one WRITE some *crash units* land and others do not, in any order:
//! [`Capabilities::crash_atomic_bytes`](crate::verbs::Capabilities) long, a packet of a NIC counted from the start of
//! the message, or an aligned block of memory if it is no longer than a line.
//!
//! **A crash unit must be a line at least** ([`UNIT_BYTES_MIN`](crate::membership::UNIT_BYTES_MIN)); [`Recovery::new`](crate::membership::Recovery::new) refuses less. Readers take no locks. They detect a
//! mixture of lines by the lines' versions, and then READ under the lock, which recovers it. Nothing detects a
//! mixture of words *within* a line: a reader would take half of a dead writer's entry for a record until somebody
//! happens to write that leaf. No redo image helps against that; only a fabric whose lines survive whole does.
//!
//! **Where packets end, a line must end.** Packets are counted from the start of the message, so of a WRITE that begins in
//! the middle of a line and is longer than a packet the packets end in the middle of lines, too, and a line may be left
//! with half of it new. Such a WRITE is posted as two (`push_by_lines`): up to the end of its first line, less than a
//! packet; and the rest, whose packets, whole numbers of lines long, begin and end with lines. The two are of one chain
//! and need no more than WRITEs of one chain give: to readers they are lines that land at different instants, as those
//! of one WRITE are; to a repairer, whose image repeats all of it and lies before both, they are one WRITE of which some
//! lines landed. A replay is posted in the same way: its sender may die, too. (Fetching the bytes in front, so as to
//! begin with the line, would do as well, but makes every READ under a lock longer for the sake of a rare WRITE.)
//!
//! # Lock words and redo images
//!
//! A lock word is `(row, sequence)`, and no sequence is used twice in the life of an incarnation: 48 bits last for
//! three hundred days of ten million acquisitions a second, and are refused at their end. So a redo image that repeats
//! the whole word, in an area whose row repeats the incarnation, belongs to one acquisition and to no other, however
//! long it has been lying there; nothing ever has to be declared void. (A turn of 16 bits beside 32 bits of the node's
//! address, as first planned, comes round within a second, and an idle lane's old image could then undo
//! acknowledged updates: it would need a floor published on every memory node and kept below every acquisition that
//! is still held or on its way from lane to lane.)
//!
//! A WRITE to a node in use that spans several crash units is preceded, in its chain, by a WRITE of an *image*:
//! header and the very bytes, sent from one piece of scratch. (Two WRITEs that have to land both or neither are like one that
//! spans crash units, and have one image.) If any byte of the WRITE landed, its image is whole;
//! if the image is not whole (checksum), nothing of the WRITE landed. New nodes that nothing points to need none.
//!
//! *Which image counts.* Under one acquisition there may be several: a merge WRITEs two nodes one word may protect, a
//! word is handed over to another lane of its compute node. They carry a `step` that the compute node counts up; the
//! whole image with the last step is that of the last WRITE, because the others were complete before it was posted:
//! an earlier one of the chain by WRITE_THEN_WRITE, one before a hand-over because a word is passed on only after the
//! completion. Replaying it does what its WRITE was about to do, or repeats what it did: since it, nobody has written
//! what the word protects. The last sentence holds only if WRITEs *without* an image do not follow one *with*; so a
//! debt remembers that there is an image, passes that on with the word, and every later WRITE of the acquisition has
//! one, too. And it holds only while the last image is there, or none is. Two rules see to that.
//!
//! - **A redo record stays in its slot for as long as its lane holds the lock**, also when its WRITE has completed. [`redo`](crate::membership::redo) says how, and
//!   which race that closes.
//! - **A lock word with more than one redo record is not handed over**: it is freed. A lane that has handed a word over uses its slots
//!   again. An older record in the slot of the lane before it would then count as the last one.
//!
//! # Takeover
//!
//! Two repairers may meet, and a repairer may die. Replaying before the takeover would race with one that is done and
//! gone on; replaying after it would leave, should the repairer die in between, a word whose image nobody finds. So
//! the repairer first copies the image into a slot of its own, *under the word it is about to install*, and waits for
//! that WRITE; then CAS dead's word -> its word; then the replay; then its unlock. Whoever takes over from it, at any
//! point, finds either the dead's word and the dead's image or its word and its copy. If the CAS loses, the copy is an
//! image of a word that never was.
//!
//! Where there is no image there is nothing torn, and the word is simply freed.
//!
//! Unlock is a CAS: a compute node that was thought dead and comes back cannot free a taker's word.
//!
//! **Why a taken lock is safe.** The CAS of the takeover is posted after every memory node confirmed that nothing the
//! dead posted can take effect any more. So from then on the nodes the word protects change by the taker's WRITEs
//! alone, and the taker's READs, posted after its CAS completed, see everything that ever landed.
//!
//! # What each crash leaves (B+-trees)
//!
//! | amid | leaves | finished by |
//! |---|---|---|
//! | an entry or a whole node being written | a torn node, an image | the next who wants its lock: replay |
//! | a split, before the old node's WRITE | a node nobody points to | adoption ([`crate::memory`]) |
//! | ..., after it | a half-split | readers move right; whoever meets it links it |
//! | root growth or the first leaf, before the CAS of the root word | as a split | |
//! | ..., after it | nothing | |
//! | a merge, after the parent's WRITE | a half-split | as above |
//! | ..., after the right leaf was retired | a *half-merge*: the left one still points to the retired one | whoever bounces between the two revives the right one: see [`crate::btree::merge`] |
//! | ..., after the left leaf's WRITE | a retired node nobody points to | adoption |
//!
//! # Leases
//!
//! A lease is the waiter's own: it has waited, by its own clock, for a whole lease in which the holder's (incarnation,
//! heartbeat) did not change. The waiting is summed from the completions of its own requests, so computing and being
//! descheduled only make it longer; no two clocks are compared. A wrong guess is safe: fencing makes it true.
//!
//! How long is the longer of the waiter's own lease and what the holder said of its lease in its row, so that a tool
//! with a short one does not end compute nodes that beat more slowly. What a row says is believed up to an hour
//! ([`LEASE_NS_MAX`](crate::remote::row::LEASE_NS_MAX)); beyond that it is corrupt, and the waiter says so.
//!
//! A compute node that could not renew within half a lease posts no more WRITEs ([`Lease::may_write`](crate::membership::lease::Lease::may_write)), so
//! that it normally notices before the others do. That is politeness; what protects is the fence.
//!
//! # Open limits
//!
//! - A survivor whose redo slots are smaller than the dead's image cannot repair it, and says so
//!   ([`crate::operation::Cause::Corrupt`]); compute nodes of a pool should open their slots for its largest nodes.
//! - A memory node that is down confirms no fence: what it and the others protect stays locked until it is back.

pub(crate) mod sweep;
pub mod takeover;

use crate::marks::Mark;

/// What this room counts.
pub const MARKS: &[Mark] = &[
    Mark::RowFenced,
    Mark::Takeover,
    Mark::RedoReplayed,
    Mark::RepairerDied,
    Mark::MergeUndone,
    Mark::SelfFenced,
    Mark::RowSwept,
];

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Locks that named the row.
    pub locks: u32,
    /// Chunks of redo images given back.
    pub chunks_freed: u32,
    /// Chunks for nodes that stay granted to the dead row until they are adopted.
    pub chunks_kept: u32,
    /// Bytes of never written nodes in them.
    pub unwritten_bytes: u64,
    /// Whether the row was freed, by this sweep or another. It stays as it is, and so do its chunks, if it was that of a
    /// compute node of *another* index whose locks lie in its leaves: sweeping there is for those who know that index. Where
    /// there is such an index and nothing says which one the compute node had open, because that was opened without
    /// recovery or a sweeper died right before it freed the row, the row is not freed either.
    pub row_free: bool,
}
