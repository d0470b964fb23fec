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
//!        ▼                                           [`takeover`], [`redo`]
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
//! **A crash unit must be a line at least** ([`UNIT_BYTES_MIN`]); [`Recovery::new`] refuses less. Readers take no locks. They detect a
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
//! - **A redo record stays in its slot for as long as its lane holds the lock**, also when its WRITE has completed. [`redo`] says how, and
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
//! | a split, before the old node's WRITE | a node nobody points to | adoption ([`crate::reclaim`]) |
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
//! ([`lease::LEASE_NS_MAX`]); beyond that it is corrupt, and the waiter says so.
//!
//! A compute node that could not renew within half a lease posts no more WRITEs ([`lease::Lease::may_write`]), so
//! that it normally notices before the others do. That is politeness; what protects is the fence.
//!
//! # Open limits
//!
//! - 16-bit lock words name no acquisition: an index that uses them is opened without recovery.
//! - A survivor whose redo slots are smaller than the dead's image cannot repair it, and says so
//!   ([`crate::error::Cause::Corrupt`]); compute nodes of a pool should open their slots for its largest nodes.
//! - A memory node that is down confirms no fence: what it and the others protect stays locked until it is back.

pub mod fence;
pub mod lease;
pub mod redo;
pub mod sweep;
pub mod takeover;

use crate::btree::lock::Watched;
use crate::error::{Cause, OpError};
use crate::lane::{Debt, Lane, Mark};
use crate::planted::{Bug, planted};
use crate::port::Port;
use crate::remote::address::LINE_BYTES;
use crate::remote::lock_word::{LockWord, RowId};
use crate::remote::rows::Member;
use crate::verbs::{Capabilities, Label, NodeId, Request};
use core::sync::atomic::{AtomicU32, Ordering};
use lease::{Lease, Pulse};
use redo::{Area, HEADER_BYTES, Image, SLOTS_FOR_WRITES, Writes};
use spin::Mutex;
use thiserror::Error;

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

/// Crash units must not be smaller: versions tell lines apart, not words.
pub const UNIT_BYTES_MIN: u32 = LINE_BYTES as u32;

/// Pushes the WRITE of `bytes` bytes at scratch offset `local` to `offset` on `node`; as two, if crash units of `unit_bytes`
/// would else end in the middle of lines.
pub(crate) fn push_by_lines(
    port: &Port<'_>,
    label: Label,
    (node, offset): (NodeId, u64),
    bytes: usize,
    local: usize,
    unit_bytes: u32,
) {
    let begins = (offset % LINE_BYTES as u64) as usize;
    // Units no longer than a line are blocks of memory, and end with lines wherever a WRITE begins.
    let front = if unit_bytes <= UNIT_BYTES_MIN || bytes <= unit_bytes as usize || begins == 0 {
        0
    } else {
        LINE_BYTES - begins
    };
    if front > 0 {
        port.push(Request::write(label, node, offset, front, local));
    }
    port.push(Request::write(label, node, offset + front as u64, bytes - front, local + front));
}

/// Sequences a lane takes at a time from its compute node's counter.
const SEQUENCES_AT_ONCE: u64 = 1 << 10;

/// Why a compute node cannot be recovered by others, so that it must not claim to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// Lines of a dead sender may be torn in themselves.
    #[error(
        "of a WRITE whose sender dies this fabric keeps {crash_atomic_bytes} bytes together; readers without locks need \
         a line, {UNIT_BYTES_MIN}, or several"
    )]
    Unit {
        /// [`Capabilities::crash_atomic_bytes`].
        crash_atomic_bytes: u32,
    },
    /// There is not a redo area for every memory node.
    #[error("{areas} redo areas for {nodes} memory nodes")]
    Areas {
        /// How many there are.
        areas: usize,
        /// Memory nodes of the pool.
        nodes: usize,
    },
    /// Nodes of an index do not fit its redo slots.
    #[error(
        "nodes of {node_bytes} bytes do not fit redo slots of {slot_bytes}, {} of them a header",
        redo::HEADER_BYTES
    )]
    Slot {
        /// The largest node.
        node_bytes: usize,
        /// The slots.
        slot_bytes: u32,
    },
    /// More lanes than have slots and pulses.
    #[error("{lanes} lanes, and redo slots for {room}")]
    Lanes {
        /// Lanes of the index.
        lanes: usize,
        /// Lanes with slots.
        room: usize,
    },
}

/// What makes a compute node's locks recoverable; all its lanes and indexes share it.
pub struct Recovery<'s> {
    member: Member,
    /// Its own lease.
    pub lease: &'s Lease,
    pulses: &'s [Pulse],
    /// Its redo area on each memory node.
    areas: &'s [Area],
    unit_bytes: u32,
    /// Whether the fabric can fence at all.
    fencing: bool,
    /// The next sequence no lane has taken.
    sequences: Mutex<u64>,
    steps: AtomicU32,
}

impl<'s> Recovery<'s> {
    /// `pulses`: one per lane. `areas`: one per memory node, made by [`redo::prepare`].
    pub fn new(
        member: Member,
        lease: &'s Lease,
        pulses: &'s [Pulse],
        areas: &'s [Area],
        capabilities: &Capabilities,
    ) -> Result<Self, RecoveryError> {
        let Capabilities { crash_atomic_bytes, fencing, .. } = *capabilities;
        if crash_atomic_bytes < UNIT_BYTES_MIN || !crash_atomic_bytes.is_multiple_of(UNIT_BYTES_MIN) {
            return Err(RecoveryError::Unit { crash_atomic_bytes });
        }
        let unit_bytes = crash_atomic_bytes;
        Ok(Self {
            member,
            lease,
            pulses,
            areas,
            unit_bytes,
            fencing,
            sequences: Mutex::new(1),
            steps: AtomicU32::new(0),
        })
    }

    /// Whether an index with nodes of `node_bytes`, `lanes` lanes and `nodes` memory nodes can use it.
    pub fn check(&self, node_bytes: usize, lanes: usize, nodes: usize) -> Result<(), RecoveryError> {
        if self.areas.len() != nodes {
            return Err(RecoveryError::Areas { areas: self.areas.len(), nodes });
        }
        for area in self.areas {
            let slot_bytes = area.slot_bytes();
            if (slot_bytes as usize) < redo::HEADER_BYTES + node_bytes {
                return Err(RecoveryError::Slot { node_bytes, slot_bytes });
            }
            let room = (area.slots() as usize / redo::SLOTS_PER_LANE).min(self.pulses.len());
            if lanes > room {
                return Err(RecoveryError::Lanes { lanes, room });
            }
        }
        Ok(())
    }

    /// This compute node.
    pub fn member(&self) -> Member {
        self.member
    }

    /// A signal of life per lane: what [`lease::keep`] watches.
    pub fn pulses(&self) -> &'s [Pulse] {
        self.pulses
    }

    /// The word of a new acquisition. `None`: there are no more, and the compute node has to join anew.
    pub(crate) fn word(&self, lane: &Lane<'_>) -> Option<LockWord> {
        let sequence = lane.next_sequence(|| {
            let mut next = self.sequences.lock();
            let first = *next;
            *next = first.saturating_add(SEQUENCES_AT_ONCE);
            first..*next
        });
        LockWord::new(self.member.row, sequence)
    }

    /// Whether a WRITE of `bytes` bytes at `offset` may land in part.
    #[inline]
    pub(crate) const fn may_tear(&self, offset: u64, bytes: usize) -> bool {
        let unit = self.unit_bytes as u64;
        if self.unit_bytes <= UNIT_BYTES_MIN {
            // Blocks of memory, whole lines.
            let last = offset + bytes.saturating_sub(1) as u64;
            return offset / UNIT_BYTES_MIN as u64 != last / UNIT_BYTES_MIN as u64;
        }
        bytes as u64 > unit
    }

    /// Pushes the image of `writes` to `node`, under the lock of `debt`. Their bytes are at scratch offset `at`; the image's
    /// header goes in front of them. Whoever calls this pushes the WRITEs behind it.
    pub(crate) fn push_image(
        &self,
        lane: &Lane<'_>,
        debt: Debt,
        node: NodeId,
        writes: Writes,
        at: usize,
    ) -> Result<(), OpError> {
        let port = lane.port();
        let position =
            if planted(Bug::SlotsReusedUnderLock) { port.pushed(Label::Redo) } else { lane.next_redo_slot() };
        let area = self.areas.get(usize::from(node.0)).filter(|_| position < SLOTS_FOR_WRITES);
        let slot = area.and_then(|area| area.slot_of(lane, position));
        let (Some(slot), Some(start)) = (slot, at.checked_sub(HEADER_BYTES)) else {
            port.withdraw();
            return Err(OpError::harmless(Cause::BadInput("more redo images under a lane's locks than it has slots")));
        };
        let (word, incarnation, step) = (LockWord(debt.word), self.member.incarnation, self.next_step());
        let image = Image { debt, word, incarnation, step, repair: false, writes };
        let bytes = HEADER_BYTES + writes.total_bytes();
        port.with(|scratch| image.seal(scratch.get_mut(start..start + bytes).unwrap_or_default()));
        port.push(Request::write(Label::Redo, node, slot, bytes, start));
        lane.has_image(debt.lock);
        Ok(())
    }

    fn next_step(&self) -> u32 {
        // Two lanes take steps for one word only with a hand-over between them, which orders them.
        self.steps.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that a lane holds a lock, or none any more: for the heartbeat, which must not vouch for a lane that got
    /// stuck.
    #[inline]
    pub(crate) fn holding(&self, lane: &Lane<'_>, holds: bool) {
        if let Some(pulse) = self.pulses.get(usize::from(lane.id().0)) {
            pulse.note(if holds { lane.next_turn() | 1 } else { 0 });
        }
    }

    /// Whether the fabric can fence.
    pub(crate) const fn can_fence(&self) -> bool {
        self.fencing
    }

    /// Notes that a CAS lost against the word `found` of a lock.
    pub(crate) fn watch_holder(&self, lane: &Lane<'_>, found: u64) -> Watched {
        let (lease_ns, now_ns) = (self.lease.terms().lease_ns(), lane.port().elapsed_ns());
        if lane.watch(|watch| watch.lost(found, now_ns, lease_ns)) {
            return Watched::Silent;
        }
        Watched::Wait(lane.watch(|watch| watch.pause_ns(now_ns, lease_ns)))
    }

    /// Whether a row is this compute node's own.
    fn is_self(&self, row: RowId) -> bool {
        row == self.member.row
    }
}
