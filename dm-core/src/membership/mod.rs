//! Membership: which compute nodes are in the pool, which of them live, and the redo records that let others finish
//! their work.
//!
//! ```text
//!  row (memory node 0)     FREE ─ join ─► LIVE ─ lease over ─► FENCING ─ all confirmed ─► DEAD ─ swept ─► FREE
//!                                          │ heartbeats
//!  redo area (each memory node)            ▼
//!    lane 0: WRITE│WRITE│WRITE│repair   lane 1: ...      a redo record goes ahead of a WRITE that may land in part
//! ```
//!
//! - [`rows`]: joining and leaving; a compute node's row ([manual](crate::manual::rows)).
//! - [`lease`]: heartbeats, and when a compute node counts as unresponsive ([manual](crate::manual::leases)); the progress of
//!   lanes, without which it stops its own.
//! - [`mod@fence`]: making sure that a dead compute node can write no more ([manual](crate::manual::takeover)).
//! - [`growth`]: a memory node that is added while compute nodes are at work.
//! - [`redo`]: redo records: images of WRITEs, written ahead of them ([manual](crate::manual::redo_records)).

pub mod fence;
pub mod growth;
pub mod lease;
pub(crate) mod marks;
pub mod mutants;
mod progress;
pub mod redo;
pub mod rows;

use crate::lane::watch::Watched;
use crate::lane::{Lane, LockRecord};
use crate::layout::LINE_BYTES;
use crate::membership::redo::{HEADER_BYTES, Image, SLOTS_FOR_WRITES, Writes};
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::port::Port;
use crate::remote::lock_word::{LockWord, RowId};
use crate::remote::row::Member;
use crate::verbs::{Capabilities, Label, NodeId, Request};
use core::sync::atomic::{AtomicU32, Ordering};
use lease::{Lease, ProgressCounter};
use redo::Area;
use spin::Mutex;
use thiserror::Error;

/// Crash units must not be smaller: versions tell lines apart, not words. See
/// [`redo_records`](crate::manual::redo_records).
pub const UNIT_BYTES_MIN: u32 = LINE_BYTES as u32;

/// Pushes the WRITE of `bytes` bytes at scratch offset `local` to `offset` on `node`. It is posted as two if crash
/// units of `unit_bytes` would otherwise end in the middle of lines.
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

/// Why other compute nodes cannot recover this one's locks, so that it must not claim that they can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// A line may be torn in itself when its sender dies.
    #[error(
        "of a WRITE whose sender dies this fabric keeps {crash_atomic_bytes} bytes together; readers without locks need \
         a line, {UNIT_BYTES_MIN}, or several"
    )]
    Unit {
        /// [`Capabilities::crash_atomic_bytes`].
        crash_atomic_bytes: u32,
    },
    /// The number of redo areas is not that of memory nodes.
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
    /// There are more lanes than redo slots and pulses.
    #[error("{lanes} lanes, and redo slots for {room}")]
    Lanes {
        /// Lanes of the index.
        lanes: usize,
        /// Lanes with slots.
        room: usize,
    },
}

/// What a compute node counts in one incarnation, over all indexes that it opens.
#[derive(Debug)]
pub struct Numbers {
    /// The next sequence no lane has taken.
    sequences: Mutex<u64>,
    steps: AtomicU32,
}

impl Default for Numbers {
    fn default() -> Self {
        Self::new()
    }
}

impl Numbers {
    /// Of a compute node that has just joined.
    pub const fn new() -> Self {
        Self { sequences: Mutex::new(1), steps: AtomicU32::new(0) }
    }
}

/// What makes the locks recoverable that a compute node takes for an index. What is borrowed here, all its indexes share;
/// each has lanes of its own.
pub struct Recovery<'s> {
    member: Member,
    /// Its own lease.
    pub lease: &'s Lease,
    progress_counters: &'s [ProgressCounter],
    /// Its redo area on each memory node.
    pub(crate) areas: &'s [Area],
    pub(crate) unit_bytes: u32,
    /// Whether the fabric can fence at all.
    pub(crate) fencing: bool,
    numbers: &'s Numbers,
}

impl<'s> Recovery<'s> {
    /// `progress_counters`: one per lane. `areas`: one per memory node, made by [`redo::prepare`].
    pub fn new(
        member: Member,
        lease: &'s Lease,
        progress_counters: &'s [ProgressCounter],
        areas: &'s [Area],
        numbers: &'s Numbers,
        capabilities: &Capabilities,
    ) -> Result<Self, RecoveryError> {
        let Capabilities { crash_atomic_bytes, fencing, .. } = *capabilities;
        if crash_atomic_bytes < UNIT_BYTES_MIN || !crash_atomic_bytes.is_multiple_of(UNIT_BYTES_MIN) {
            return Err(RecoveryError::Unit { crash_atomic_bytes });
        }
        let unit_bytes = crash_atomic_bytes;
        Ok(Self { member, lease, progress_counters, areas, unit_bytes, fencing, numbers })
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
            let room = (area.slots() as usize / redo::SLOTS_PER_LANE).min(self.progress_counters.len());
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

    /// The progress of each lane: what [`lease::keep`] watches.
    pub fn progress_counters(&self) -> &'s [ProgressCounter] {
        self.progress_counters
    }

    /// The lock word of a new acquisition. `None`: all are used, and the compute node has to join anew.
    pub(crate) fn word(&self, lane: &Lane<'_>) -> Option<LockWord> {
        let sequence = lane.next_sequence(|| {
            let mut next = self.numbers.sequences.lock();
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
            // Blocks of memory are whole lines.
            let last = offset + bytes.saturating_sub(1) as u64;
            return offset / UNIT_BYTES_MIN as u64 != last / UNIT_BYTES_MIN as u64;
        }
        bytes as u64 > unit
    }

    /// Pushes the redo record of `writes` to `node`, under the lock of `lock_record`. Their bytes are at scratch offset
    /// `at`; the record's header goes before them. The caller pushes the WRITEs behind it.
    pub(crate) fn push_redo_record(
        &self,
        lane: &Lane<'_>,
        lock_record: LockRecord,
        node: NodeId,
        writes: Writes,
        at: usize,
    ) -> Result<(), OpError> {
        let port = lane.port();
        let position =
            if planted(Mutant::SLOTS_REUSED_UNDER_LOCK) { port.pushed(Label::Redo) } else { lane.next_redo_slot() };
        let area = self.areas.get(usize::from(node.0)).filter(|_| position < SLOTS_FOR_WRITES);
        let slot = area.and_then(|area| area.slot_of(lane, position));
        let (Some(slot), Some(start)) = (slot, at.checked_sub(HEADER_BYTES)) else {
            port.withdraw();
            return Err(OpError::harmless(Cause::BadInput("more redo images under a lane's locks than it has slots")));
        };
        let (word, incarnation, step) = (LockWord(lock_record.word), self.member.incarnation, self.next_step());
        let image = Image { lock_record, word, incarnation, step, repair: false, writes };
        let bytes = HEADER_BYTES + writes.total_bytes();
        port.with(|scratch| image.seal(scratch.get_mut(start..start + bytes).unwrap_or_default()));
        port.push(Request::write(Label::Redo, node, slot, bytes, start));
        lane.note_redo_record(lock_record.lock);
        Ok(())
    }

    pub(crate) fn next_step(&self) -> u32 {
        // Two lanes take steps for one word only with a handover between them, which orders them.
        self.numbers.steps.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes whether a lane holds a lock. The heartbeat must not vouch for a lane that is stuck.
    #[inline]
    pub(crate) fn holding(&self, lane: &Lane<'_>, holds: bool) {
        if let Some(progress_counter) = self.progress_counter(lane) {
            progress_counter.note(if holds { lane.next_turn() | 1 } else { 0 });
        }
    }

    /// A flight of the log, a flush or a fill of this lane begins. If it does not end within a lease, the heartbeat does:
    /// [`ProgressCounter`].
    #[inline]
    pub fn begin_work(&self, lane: &Lane<'_>) {
        self.progress_counter(lane).into_iter().for_each(ProgressCounter::begin);
    }

    /// It has ended: its completions are there, or it failed and its queue pair is known to be closed.
    #[inline]
    pub fn end_work(&self, lane: &Lane<'_>) {
        self.progress_counter(lane).into_iter().for_each(ProgressCounter::end);
    }

    /// The lane is settled, and has nothing under way.
    pub fn end_all_work(&self, lane: &Lane<'_>) {
        self.progress_counter(lane).into_iter().for_each(ProgressCounter::end_all);
    }

    #[inline]
    pub(crate) fn progress_counter(&self, lane: &Lane<'_>) -> Option<&'s ProgressCounter> {
        self.progress_counters.get(usize::from(lane.id().0))
    }

    /// Whether this compute node may answer from its own memory what it has read there before this call: its lease is
    /// valid at a time that is read now. Others are admitted to what it owns only after a whole lease; so nobody had
    /// changed anything when it was read. Without a clock ([`crate::port::Port::set_clock`]) it may not.
    #[inline]
    pub fn may_answer(&self, lane: &Lane<'_>) -> bool {
        lane.port().now_us().is_some_and(|now_us| self.lease.is_valid_at(now_us))
    }

    /// Whether the fabric can fence.
    pub(crate) const fn can_fence(&self) -> bool {
        self.fencing
    }

    /// Notes that a CAS lost against the lock word `found`.
    pub(crate) fn watch_holder(&self, lane: &Lane<'_>, found: u64) -> Watched {
        let (lease_ns, now_ns) = (self.lease.config().lease_ns(), lane.port().elapsed_ns());
        if lane.watch(|watch| watch.lost(found, now_ns, lease_ns)) {
            return Watched::Unresponsive;
        }
        Watched::Wait(lane.watch(|watch| watch.pause_ns(now_ns, lease_ns)))
    }

    /// Whether a row is this compute node's own.
    pub(crate) fn is_self(&self, row: RowId) -> bool {
        row == self.member.row
    }
}
