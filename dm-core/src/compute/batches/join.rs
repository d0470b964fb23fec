//! The batches of keys: joining, sealing, answering and ending them. Nothing here waits.

use super::Batches;
use super::slot::{ANSWERED, Answer, BatchSlot, Bucket, FILLS, FOLLOWS, IDLE, LEADS, NOBODY};
use crate::lane::{Lane, Unsettled};
use crate::mutants::{Mutant, planted};
use crate::operation::{Effect, OpError, OperationKind, Outcome};
use crate::registry::KEY_BYTES_MAX;
use crate::verbs::LaneId;
use core::sync::atomic::Ordering;
use spin::Mutex;

/// Members that are woken with one submit.
pub(super) const WAKES_AT_ONCE: usize = 8;

/// Result of [`Batches::join`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// No batch: work alone.
    Alone,
    /// The lane leads: it works, seals and finishes.
    Leads,
    /// The lane leads, and lets the batch fill until it is woken.
    Fills,
    /// The lane is a member: it parks until the answer is there.
    Follows,
}

/// Result of [`Batches::answer`].
pub(super) struct Answered {
    /// Members that were answered and have to be woken.
    pub(super) woken: heapless::Vec<LaneId, WAKES_AT_ONCE>,
    /// All members are answered.
    pub(super) is_done: bool,
}

impl Batches<'_> {
    fn bucket(&self, kind: OperationKind, key: &[u8]) -> Option<&Mutex<Bucket>> {
        let buckets = if kind == OperationKind::Get { self.reads } else { self.writes };
        // Any hash that spreads keys will do: the words of the key, multiplied (Knuth, The Art of Computer
        // Programming vol. 3, section 6.4).
        let mut hash = 0u64;
        for piece in key.chunks(8) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(piece) {
                *to = *from;
            }
            hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            hash ^= hash >> 29;
        }
        buckets.get((((hash >> 32) * buckets.len() as u64) >> 32) as usize)
    }

    /// Whether an operation of `kind` can be a member of a batch whose leader does `leader`. An upsert cannot be part
    /// of an update, which may find no key. Conditional operations depend on the value and work alone.
    pub(super) const fn fits(leader: OperationKind, kind: OperationKind) -> bool {
        use OperationKind::{Get, Update, Upsert};
        matches!((leader, kind), (Get, Get) | (Update | Upsert, Update) | (Upsert, Upsert))
    }

    /// Joins the batch of `key`, or opens one. `value` is the value of a write.
    pub fn join(&self, lane: LaneId, kind: OperationKind, key: &[u8], value: &[u8]) -> Joined {
        if !Self::fits(kind, kind) || key.len() > KEY_BYTES_MAX {
            return Joined::Alone;
        }
        let (Some(bucket), Some(batch_slot)) = (self.bucket(kind, key), self.batch_slot(lane.0)) else {
            return Joined::Alone;
        };
        let mut bucket = bucket.lock();
        if let Some(leader) = self.batch_slot(bucket.open) {
            let mut leading = leader.part.lock();
            let strange = leading.key() != key && !planted(Mutant::STRANGERS_JOIN);
            if strange || !Self::fits(leading.kind, kind) {
                return Joined::Alone;
            }
            leading.keep(value);
            let mut part = batch_slot.part.lock();
            part.begin(kind, key);
            part.next = leading.members;
            leading.members = lane.0;
            leading.count = leading.count.saturating_add(1);
            batch_slot.state.store(FOLLOWS, Ordering::Relaxed);
            return Joined::Follows;
        }
        let under_way = self.batch_slot(bucket.reading).is_some_and(|reading| reading.part.lock().key() == key);
        let mut part = batch_slot.part.lock();
        part.begin(kind, key);
        part.keep(value);
        bucket.open = lane.0;
        let fills = kind == OperationKind::Get && under_way;
        batch_slot.state.store(if fills { FILLS } else { LEADS }, Ordering::Relaxed);
        if fills { Joined::Fills } else { Joined::Leads }
    }

    /// Closes the batch that `lane` leads, if it leads an open one. Lanes that come from now on are in the next
    /// batch. `take` is given the value of a write batch: that of the member that joined last, or the leader's own.
    #[inline]
    pub fn seal(&self, lane: &Lane<'_>, take: impl FnOnce(&[u8])) {
        // A lane that works alone does not look at its slot.
        if lane.has_unsettled(Unsettled::BATCH) {
            self.seal_open(lane.id(), take);
        }
    }

    pub(super) fn seal_open(&self, lane: LaneId, take: impl FnOnce(&[u8])) {
        let Some(batch_slot) = self.batch_slot(lane.0) else { return };
        if batch_slot.state.load(Ordering::Relaxed) != LEADS {
            return;
        }
        self.close(lane, batch_slot, true, take);
    }

    fn close(&self, lane: LaneId, batch_slot: &BatchSlot<'_>, seals: bool, take: impl FnOnce(&[u8])) {
        // Kind and key are the leader's own, and do not change while it leads.
        let (kind, key, key_bytes, closed) = {
            let part = batch_slot.part.lock();
            (part.kind, part.key, part.key_bytes, part.closed)
        };
        if closed {
            return;
        }
        let Some(bucket) = self.bucket(kind, key.get(..key_bytes).unwrap_or_default()) else { return };
        let mut bucket = bucket.lock();
        let mut part = batch_slot.part.lock();
        part.sealed |= seals;
        let late = if kind == OperationKind::Get { Mutant::SAMPLE_BEFORE_JOIN } else { Mutant::SEAL_AT_RELEASE };
        if seals && planted(late) {
            take(part.value);
            return;
        }
        part.closed = true;
        if bucket.open == lane.0 {
            bucket.open = NOBODY;
        }
        if seals && kind == OperationKind::Get && bucket.reading == NOBODY {
            bucket.reading = lane.0;
        }
        take(part.value);
    }

    /// Answers up to [`WAKES_AT_ONCE`] members of the batch that `lane` leads, which then have to be woken. If the
    /// batch was never sealed, they are told to work alone. If no member is left, ends the batch and reports whether
    /// a reader that fills the next batch is free to go.
    pub(super) fn answer(&self, lane: LaneId, result: &Result<Outcome, OpError>, found: &[u8]) -> Answered {
        let mut answered = Answered { woken: heapless::Vec::new(), is_done: true };
        let Some(batch_slot) = self.batch_slot(lane.0) else { return answered };
        self.close(lane, batch_slot, false, |_| ());
        let (told, mut next) = {
            let part = batch_slot.part.lock();
            (part.sealed, part.members)
        };
        while let Some(member) = self.batch_slot(next) {
            if answered.woken.push(LaneId(next)).is_err() {
                answered.is_done = false;
                break;
            }
            let mut part = member.part.lock();
            next = part.next;
            part.answer = match result {
                Ok(outcome) if told => Answer::Outcome(Self::outcome_for(*outcome, part.kind)),
                Err(OpError { effect: Effect::Unknown | Effect::Done, cause }) if told => Answer::Unknown(*cause),
                _ => Answer::Alone,
            };
            if told && matches!(result, Ok(Outcome::Found)) {
                part.keep(found);
            }
            drop(part);
            // Before the member can leave its slot: from then on its `next` belongs to another batch.
            batch_slot.part.lock().members = next;
            // Release: the member that loads this with Acquire sees its answer.
            member.state.store(ANSWERED, Ordering::Release);
        }
        answered
    }

    /// Ends the batch that `lane` leads, after all members were answered. Returns the reader that lets the next batch
    /// fill.
    pub(super) fn end(&self, lane: LaneId) -> Option<LaneId> {
        let batch_slot = self.batch_slot(lane.0)?;
        let (kind, key, key_bytes) = {
            let part = batch_slot.part.lock();
            (part.kind, part.key, part.key_bytes)
        };
        let bucket = self.bucket(kind, key.get(..key_bytes).unwrap_or_default())?;
        let mut bucket = bucket.lock();
        batch_slot.state.store(IDLE, Ordering::Relaxed);
        if bucket.reading != lane.0 || kind != OperationKind::Get {
            return None;
        }
        bucket.reading = NOBODY;
        let filling = self.batch_slot(bucket.open)?;
        // The reader may have given up waiting. Then there is nothing to change.
        filling
            .state
            .compare_exchange(FILLS, LEADS, Ordering::Release, Ordering::Relaxed)
            .is_ok()
            .then_some(LaneId(bucket.open))
    }

    /// The leader's outcome for a member of `kind`, which comes after the leader.
    const fn outcome_for(outcome: Outcome, kind: OperationKind) -> Outcome {
        match (outcome, kind) {
            (Outcome::Inserted | Outcome::Replaced, OperationKind::Update) => Outcome::Updated,
            (Outcome::Inserted, OperationKind::Upsert) => Outcome::Replaced,
            (outcome, _) => outcome,
        }
    }
}
