//! Read delegation and write combining (RDWC): lanes of one compute node that want the same key at the same time send
//! one operation to memory instead of one each (SMART section 4.4, CHIME section 4.2.2).
//!
//! Operations on one key form a *batch*. The first lane is its leader and does the work. Lanes that come while the
//! batch is open are its members: they park, and take the leader's result. A batch is closed once and answered once.
//!
//! ```text
//!            join (first)          seal                    finish
//!  no batch ─────────────► open ───────────► sealed ───────────────────► answered: members are woken
//!                          ▲  join (others)   │ meanwhile the next batch of that key may be open
//!                          └──────────────────┘
//! ```
//!
//! - The leader of a write batch seals it when it copies the value out, under the node's lock, before the WRITE.
//! - The leader of a read batch seals it before it posts the READ of a leaf.
//! - While a READ of a key is under way, the next read batch of this key fills until that READ is back.
//! - If batches saved less than they cost, all lanes work alone for a while ([`REST`]).
//!
//! [`batches`](crate::manual::batches) shows why every operation is linearizable, and when batches are worth their
//! cost.
//!
//! # Memory
//!
//! One slot per lane (key, one value), and one or two buckets per lane; nothing per key. Keys that meet in a bucket do
//! not wait for each other: one of them works alone.

use crate::lane::{Lane, Owed};
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, Effect, OpError, OperationKind, Outcome, ScratchPlan};
use crate::verbs::{LaneId, Request};
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use spin::Mutex;

/// Marks that this room counts.
pub const MARKS: &[Mark] = &[Mark::DELEGATED_READ, Mark::COMBINED_WRITE];

const NOBODY: u16 = u16::MAX;

/// Length of the longest key, in bytes.
const KEY_BYTES_MAX: usize = 64;

/// Number of batches that a lane leads before it compares what they saved with what they cost.
pub const WINDOW: u32 = 256;

/// Number of operations of one lane alone before all lanes try again. It is so large that the cost of trying does not
/// matter. An operation that waits for a fabric counts for several ([`REST_UNIT_NS`]).
pub const REST: u32 = 32 * WINDOW;

/// How long an operation on shared memory takes, in ns. In a rest, an operation that takes n times as long counts as
/// n: the cost of trying is a matter of time, and a rest that a lone lane has begun must not last when others come.
pub const REST_UNIT_NS: u64 = 512;

/// What a batch costs its leader, in ns. This is half of what it costs on shared memory, since on a saturated fabric
/// all other lanes gain what one lane saves.
const COST_NS: u64 = 50;

/// Members that are woken with one submit.
const WAKES_AT_ONCE: usize = 8;

// States of a batch slot.
const IDLE: u8 = 0;
/// Leads an open batch, or works alone or for a sealed one.
const LEADS: u8 = 1;
/// Leads an open batch, and lets it fill until the READ that is under way is back.
const FILLS: u8 = 2;
/// Member of an open or a sealed batch.
const FOLLOWS: u8 = 3;
/// Member of a batch that was answered: the answer is in the slot.
const ANSWERED: u8 = 4;

/// Where batches of a key are found. Storage for [`Batches`].
#[derive(Debug)]
pub struct Bucket {
    /// Leader of the open batch.
    open: u16,
    /// Leader of a sealed read batch whose READ is not back.
    reading: u16,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { open: NOBODY, reading: NOBODY }
    }
}

/// A lane's state in batches. Storage for [`Batches`].
#[derive(Debug)]
pub struct BatchSlot<'s> {
    state: AtomicU8,
    /// One for reads, one for writes.
    accounts: [Account; 2],
    place: Mutex<Place<'s>>,
}

/// What batches saved and cost a lane, and what it did without them. Only that lane writes it.
#[derive(Debug, Default)]
struct Account {
    /// Batches that the lane led.
    led: AtomicU32,
    /// Members of these batches.
    members: AtomicU32,
    /// How long the operations of the leaders took, in units of 64 ns.
    took: AtomicU32,
    /// The number of the rest in which the lane last worked alone.
    rest: AtomicU32,
    /// Operations that it has done alone in that rest.
    alone: AtomicU32,
}

impl Account {
    /// Counts `more` operations alone, in the rest with this `number`. Returns the count.
    #[inline]
    fn work_alone(&self, number: u32, more: u32) -> u32 {
        let known = if self.rest.load(Ordering::Relaxed) == number { self.alone.load(Ordering::Relaxed) } else { 0 };
        let count = known.saturating_add(more);
        self.rest.store(number, Ordering::Relaxed);
        self.alone.store(count, Ordering::Relaxed);
        count
    }

    /// Counts a batch. Returns `true` if [`WINDOW`] batches have been counted and saved less than they cost.
    fn count(&self, members: u32, took_ns: u64) -> bool {
        let add = |to: &AtomicU32, more: u32| {
            let sum = to.load(Ordering::Relaxed).saturating_add(more);
            to.store(sum, Ordering::Relaxed);
            sum
        };
        let members = add(&self.members, members);
        let took = add(&self.took, u32::try_from(took_ns / 64).unwrap_or(u32::MAX));
        let led = add(&self.led, 1);
        if led < WINDOW {
            return false;
        }
        for sum in [&self.led, &self.members, &self.took] {
            sum.store(0, Ordering::Relaxed);
        }
        // Each member saved one operation's time.
        let saved_ns = u64::from(members) * (u64::from(took) * 64 / u64::from(led));
        saved_ns < u64::from(led) * COST_NS
    }
}

impl<'s> BatchSlot<'s> {
    /// `value` is as long as the values of the index.
    pub fn new(value: &'s mut [u8]) -> Self {
        let place = Place {
            key: [0; KEY_BYTES_MAX],
            key_bytes: 0,
            kind: OperationKind::Get,
            closed: false,
            sealed: false,
            count: 0,
            members: NOBODY,
            next: NOBODY,
            failed: None,
            answer: Answer::Alone,
            value,
        };
        Self {
            state: AtomicU8::new(IDLE),
            accounts: [Account::default(), Account::default()],
            place: Mutex::new(place),
        }
    }
}

#[derive(Debug)]
struct Place<'s> {
    key: [u8; KEY_BYTES_MAX],
    key_bytes: usize,
    kind: OperationKind,
    /// Leader: nobody can join any more.
    closed: bool,
    /// Leader: it closed the batch itself, at the point from which its result is also its members' result.
    sealed: bool,
    /// Leader: how many have joined.
    count: u16,
    /// Leader: the member that joined last.
    members: u16,
    /// Member: the member that joined before it.
    next: u16,
    /// Leader: the error of its operation, if its members are told only after settling.
    failed: Option<OpError>,
    /// Member: the result of its operation.
    answer: Answer,
    /// Leader of a write batch: the value of the member that joined last. Member of a read batch: the value that was
    /// found.
    value: &'s mut [u8],
}

impl Place<'_> {
    fn key(&self) -> &[u8] {
        self.key.get(..self.key_bytes).unwrap_or_default()
    }

    fn begin(&mut self, kind: OperationKind, key: &[u8]) {
        if let Some(place) = self.key.get_mut(..key.len()) {
            place.copy_from_slice(key);
        }
        self.key_bytes = key.len();
        self.kind = kind;
        self.closed = false;
        self.sealed = false;
        self.count = 0;
        self.members = NOBODY;
        self.next = NOBODY;
        self.failed = None;
        self.answer = Answer::Alone;
    }

    fn keep(&mut self, value: &[u8]) {
        for (to, from) in self.value.iter_mut().zip(value) {
            *to = *from;
        }
    }
}

/// What a member is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Work alone.
    Alone,
    /// The leader's outcome, translated for this member.
    Outcome(Outcome),
    /// The leader failed, and its effect is unknown.
    Unknown(Cause),
}

/// Result of [`Batches::answer`].
struct Answered {
    /// Members that were answered and have to be woken.
    woken: heapless::Vec<LaneId, WAKES_AT_ONCE>,
    /// All members are answered.
    is_done: bool,
}

/// Result of [`Batches::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Work, alone.
    Alone,
    /// Work, for all members of the batch.
    Leads,
    /// Another lane has done the work.
    Told(Outcome),
}

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

/// Batches of one index on one compute node, shared by its lanes. See the [module](self).
pub struct Batches<'s> {
    reads: &'s [Mutex<Bucket>],
    writes: &'s [Mutex<Bucket>],
    batch_slots: &'s [BatchSlot<'s>],
    /// One for reads, one for writes: odd while all lanes work alone. The number changes when a rest begins and when
    /// it ends.
    rests: [AtomicU32; 2],
}

impl<'s> Batches<'s> {
    /// `batch_slots` has one per lane. `reads` and `writes` have some buckets per lane; with more buckets fewer keys
    /// work alone.
    pub const fn new(
        reads: &'s [Mutex<Bucket>],
        writes: &'s [Mutex<Bucket>],
        batch_slots: &'s [BatchSlot<'s>],
    ) -> Self {
        Self { reads, writes, batch_slots, rests: [const { AtomicU32::new(0) }; 2] }
    }

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

    /// Whether an operation is counted as a read or as a write.
    const fn side(kind: OperationKind) -> usize {
        if matches!(kind, OperationKind::Get) { 0 } else { 1 }
    }

    /// Whether the operation should work alone, without [`Batches::begin`]: it cannot be shared, or batches were not
    /// worth their cost lately. When it has ended, the lane calls [`Batches::worked_alone`].
    #[inline]
    pub fn stays_away(&self, kind: OperationKind) -> bool {
        !Self::fits(kind, kind) || self.rests(kind)
    }

    #[inline]
    fn rests(&self, kind: OperationKind) -> bool {
        let [reads, writes] = &self.rests;
        let rests = if Self::side(kind) == 0 { reads } else { writes };
        !rests.load(Ordering::Relaxed).is_multiple_of(2)
    }

    /// Counts an operation that stayed away, now that it has ended. The lane whose count reaches the length of the
    /// rest ends the rest.
    #[inline]
    pub fn worked_alone(&self, lane: &Lane<'_>, kind: OperationKind) {
        let side = Self::side(kind);
        let Some(rests) = self.rests.get(side) else { return };
        let number = rests.load(Ordering::Relaxed);
        if number.is_multiple_of(2) {
            return;
        }
        let took = u32::try_from(lane.port().elapsed_ns() / REST_UNIT_NS).unwrap_or(u32::MAX);
        let account = self.batch_slot(lane.id().0).and_then(|batch_slot| batch_slot.accounts.get(side));
        if account.is_some_and(|account| account.work_alone(number, took.saturating_add(1)) >= REST) {
            // A second lane finds another number, and does nothing.
            let _ = rests.compare_exchange(number, number.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Counts the batch that `lane` led. `took_ns`: how long its operation took.
    fn judge(&self, lane: LaneId, took_ns: u64) {
        let Some(batch_slot) = self.batch_slot(lane.0) else { return };
        let (kind, members) = {
            let place = batch_slot.place.lock();
            (place.kind, place.count)
        };
        let side = Self::side(kind);
        if let (Some(account), Some(rests)) = (batch_slot.accounts.get(side), self.rests.get(side))
            && account.count(u32::from(members), took_ns)
        {
            let number = rests.load(Ordering::Relaxed);
            if number.is_multiple_of(2) {
                let _ = rests.compare_exchange(number, number.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    fn batch_slot(&self, lane: u16) -> Option<&BatchSlot<'s>> {
        self.batch_slots.get(usize::from(lane))
    }

    /// Whether an operation of `kind` can be a member of a batch whose leader does `leader`. An upsert cannot be part
    /// of an update, which may find no key. Conditional operations depend on the value and work alone.
    const fn fits(leader: OperationKind, kind: OperationKind) -> bool {
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
            let mut leading = leader.place.lock();
            let strange = leading.key() != key && !planted(Mutant::STRANGERS_JOIN);
            if strange || !Self::fits(leading.kind, kind) {
                return Joined::Alone;
            }
            leading.keep(value);
            let mut place = batch_slot.place.lock();
            place.begin(kind, key);
            place.next = leading.members;
            leading.members = lane.0;
            leading.count = leading.count.saturating_add(1);
            batch_slot.state.store(FOLLOWS, Ordering::Relaxed);
            return Joined::Follows;
        }
        let under_way = self.batch_slot(bucket.reading).is_some_and(|reading| reading.place.lock().key() == key);
        let mut place = batch_slot.place.lock();
        place.begin(kind, key);
        place.keep(value);
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
        if lane.owes(Owed::BATCH) {
            self.seal_seat(lane.id(), take);
        }
    }

    fn seal_seat(&self, lane: LaneId, take: impl FnOnce(&[u8])) {
        let Some(batch_slot) = self.batch_slot(lane.0) else { return };
        if batch_slot.state.load(Ordering::Relaxed) != LEADS {
            return;
        }
        self.close(lane, batch_slot, true, take);
    }

    fn close(&self, lane: LaneId, batch_slot: &BatchSlot<'_>, seals: bool, take: impl FnOnce(&[u8])) {
        // Kind and key are the leader's own, and do not change while it leads.
        let (kind, key, key_bytes, closed) = {
            let place = batch_slot.place.lock();
            (place.kind, place.key, place.key_bytes, place.closed)
        };
        if closed {
            return;
        }
        let Some(bucket) = self.bucket(kind, key.get(..key_bytes).unwrap_or_default()) else { return };
        let mut bucket = bucket.lock();
        let mut place = batch_slot.place.lock();
        place.sealed |= seals;
        let late = if kind == OperationKind::Get { Mutant::SAMPLE_BEFORE_JOIN } else { Mutant::SEAL_AT_RELEASE };
        if seals && planted(late) {
            take(place.value);
            return;
        }
        place.closed = true;
        if bucket.open == lane.0 {
            bucket.open = NOBODY;
        }
        if seals && kind == OperationKind::Get && bucket.reading == NOBODY {
            bucket.reading = lane.0;
        }
        take(place.value);
    }

    /// Answers up to [`WAKES_AT_ONCE`] members of the batch that `lane` leads, which then have to be woken. If the
    /// batch was never sealed, they are told to work alone. If no member is left, ends the batch and reports whether
    /// a reader that fills the next batch is free to go.
    fn answer(&self, lane: LaneId, result: &Result<Outcome, OpError>, found: &[u8]) -> Answered {
        let mut answered = Answered { woken: heapless::Vec::new(), is_done: true };
        let Some(batch_slot) = self.batch_slot(lane.0) else { return answered };
        self.close(lane, batch_slot, false, |_| ());
        let (told, mut next) = {
            let place = batch_slot.place.lock();
            (place.sealed, place.members)
        };
        while let Some(member) = self.batch_slot(next) {
            if answered.woken.push(LaneId(next)).is_err() {
                answered.is_done = false;
                break;
            }
            let mut place = member.place.lock();
            next = place.next;
            place.answer = match result {
                Ok(outcome) if told => Answer::Outcome(Self::outcome_for(*outcome, place.kind)),
                Err(OpError { effect: Effect::Unknown | Effect::Done, cause }) if told => Answer::Unknown(*cause),
                _ => Answer::Alone,
            };
            if told && matches!(result, Ok(Outcome::Found)) {
                place.keep(found);
            }
            drop(place);
            // Before the member can leave its slot: from then on its `next` belongs to another batch.
            batch_slot.place.lock().members = next;
            // Release: the member that loads this with Acquire sees its answer.
            member.state.store(ANSWERED, Ordering::Release);
        }
        answered
    }

    /// Ends the batch that `lane` leads, after all members were answered. Returns the reader that lets the next batch
    /// fill.
    fn end(&self, lane: LaneId) -> Option<LaneId> {
        let batch_slot = self.batch_slot(lane.0)?;
        let (kind, key, key_bytes) = {
            let place = batch_slot.place.lock();
            (place.kind, place.key, place.key_bytes)
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

    /// Begins an operation: joins or opens the batch of its key, and waits as long as it has to. If the lane is to
    /// work, it calls [`Batches::seal`] where this module's documentation says, and [`Batches::finish`] if it leads.
    pub async fn begin(&self, lane: &Lane<'_>, plan: &ScratchPlan, kind: OperationKind) -> Result<Begun, OpError> {
        let joined = lane.port().with(|scratch| {
            let of = |range: &core::ops::Range<usize>| scratch.get(range.clone()).unwrap_or_default();
            self.join(lane.id(), kind, of(&plan.key), of(&plan.value))
        });
        lane.set_owes(Owed::BATCH, joined != Joined::Alone);
        match joined {
            Joined::Alone => Ok(Begun::Alone),
            Joined::Leads => Ok(Begun::Leads),
            Joined::Fills => {
                self.fill(lane).await?;
                Ok(Begun::Leads)
            }
            Joined::Follows => {
                lane.mark(if kind == OperationKind::Get { Mark::DELEGATED_READ } else { Mark::COMBINED_WRITE });
                Ok(self.follow(lane, plan, kind).await?.map_or(Begun::Alone, Begun::Told))
            }
        }
    }

    /// Parks until the READ that is under way is back, or until the operation's deadline.
    async fn fill(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let Some(batch_slot) = self.batch_slot(lane.id().0) else { return Ok(()) };
        // No data depends on this Acquire. It pairs with the Release all the same.
        while batch_slot.state.load(Ordering::Acquire) == FILLS {
            if lane.check_deadline().is_err() {
                // Filling is optional. From here on the lane does not wait for the other lane's READ.
                batch_slot.state.store(LEADS, Ordering::Relaxed);
                break;
            }
            lane.port().push(Request::park(lane.remaining_ns()));
            lane.port().submit().await?;
        }
        Ok(())
    }

    /// Parks until the answer is there. `None`: work alone.
    async fn follow(
        &self,
        lane: &Lane<'_>,
        plan: &ScratchPlan,
        kind: OperationKind,
    ) -> Result<Option<Outcome>, OpError> {
        let Some(batch_slot) = self.batch_slot(lane.id().0) else { return Ok(None) };
        while batch_slot.state.load(Ordering::Acquire) != ANSWERED {
            if let Err(late) = lane.check_deadline() {
                // The value of a write may be written all the same. The slot stays in use: settling waits for the
                // answer.
                let effect = if kind == OperationKind::Get { Effect::None } else { Effect::Unknown };
                return Err(OpError { effect, ..late });
            }
            lane.port().push(Request::park(lane.remaining_ns()));
            lane.port().submit().await?;
        }
        let answer = lane.port().with(|scratch| {
            let place = batch_slot.place.lock();
            if place.answer == Answer::Outcome(Outcome::Found)
                && let Some(output) = scratch.get_mut(plan.output.clone())
            {
                for (to, from) in output.iter_mut().zip(&*place.value) {
                    *to = *from;
                }
            }
            place.answer
        });
        batch_slot.state.store(IDLE, Ordering::Relaxed);
        lane.set_owes(Owed::BATCH, false);
        match answer {
            Answer::Alone => Ok(None),
            Answer::Outcome(outcome) => Ok(Some(outcome)),
            Answer::Unknown(cause) => Err(OpError { effect: Effect::Unknown, cause }),
        }
    }

    /// Answers the members of the batch that the lane leads, wakes them, and ends the batch. If the leader's WRITE
    /// may still be under way, it does nothing and leaves that to [`Batches::settle`].
    pub async fn finish(
        &self,
        lane: &Lane<'_>,
        plan: &ScratchPlan,
        result: &Result<Outcome, OpError>,
    ) -> Result<(), OpError> {
        if let Err(failed @ OpError { effect: Effect::Unknown, .. }) = result
            && let Some(batch_slot) = self.batch_slot(lane.id().0)
        {
            batch_slot.place.lock().failed = Some(*failed);
            return Ok(());
        }
        self.judge(lane.id(), lane.port().elapsed_ns());
        self.conclude(lane, plan, result).await
    }

    async fn conclude(
        &self,
        lane: &Lane<'_>,
        plan: &ScratchPlan,
        result: &Result<Outcome, OpError>,
    ) -> Result<(), OpError> {
        let port = lane.port();
        loop {
            let answered = port.with(|scratch| {
                let found = scratch.get(plan.output.clone()).unwrap_or_default();
                self.answer(lane.id(), result, found)
            });
            for member in answered.woken {
                port.push(Request::wake(member));
            }
            if answered.is_done {
                break;
            }
            port.submit().await?;
        }
        if let Some(filling) = self.end(lane.id()) {
            port.push(Request::wake(filling));
        }
        lane.set_owes(Owed::BATCH, false);
        Ok(())
    }

    /// Leaves the batch of a failed or dropped operation: see [`crate::index::Index::settle`]. All its requests have
    /// completed, and it has no lock record any more. If the lane leads, its members learn that the effect is
    /// unknown, or work alone if the batch was never sealed. If the lane is a member, it waits for its answer, since
    /// its slot belongs to the batch until then.
    pub async fn settle(&self, lane: &Lane<'_>, plan: &ScratchPlan) -> Result<(), OpError> {
        let Some(batch_slot) = self.batch_slot(lane.id().0) else { return Ok(()) };
        match batch_slot.state.load(Ordering::Acquire) {
            LEADS | FILLS => {
                let lost = {
                    let place = batch_slot.place.lock();
                    let effect = if place.kind == OperationKind::Get { Effect::None } else { Effect::Unknown };
                    Err(place.failed.unwrap_or(OpError { effect, cause: Cause::LeaderLost }))
                };
                self.conclude(lane, plan, &lost).await
            }
            FOLLOWS | ANSWERED => {
                while batch_slot.state.load(Ordering::Acquire) != ANSWERED {
                    lane.check_deadline()?;
                    lane.port().push(Request::park(lane.remaining_ns()));
                    lane.port().submit().await?;
                }
                batch_slot.state.store(IDLE, Ordering::Relaxed);
                lane.set_owes(Owed::BATCH, false);
                Ok(())
            }
            _ => {
                lane.set_owes(Owed::BATCH, false);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    const KEY: &[u8] = b"some key";

    fn with_batches(test: impl FnOnce(&Batches<'_>)) {
        let mut values = [[0; 8]; 6];
        let batch_slots: Vec<_> = values.iter_mut().map(|value| BatchSlot::new(value)).collect();
        // One bucket, so that all keys meet.
        let (reads, writes) = ([Mutex::new(Bucket::default())], [Mutex::new(Bucket::default())]);
        test(&Batches::new(&reads, &writes, &batch_slots));
    }

    fn value(n: u64) -> [u8; 8] {
        n.to_le_bytes()
    }

    fn told(batches: &Batches<'_>, lane: u16) -> Answer {
        let batch_slot = batches.batch_slot(lane).unwrap();
        assert_eq!(batch_slot.state.swap(IDLE, Ordering::Acquire), ANSWERED);
        batch_slot.place.lock().answer
    }

    #[test]
    fn the_value_that_joined_last_is_written_and_later_ones_are_not() {
        use OperationKind::{Update, Upsert};
        with_batches(|batches| {
            assert_eq!(batches.join(LaneId(0), Upsert, KEY, &value(1)), Joined::Leads);
            assert_eq!(batches.join(LaneId(1), Update, KEY, &value(2)), Joined::Follows);
            assert_eq!(batches.join(LaneId(2), Upsert, KEY, &value(3)), Joined::Follows);
            let mut taken = value(0);
            batches.seal_seat(LaneId(0), |value| taken.copy_from_slice(value));
            assert_eq!(taken, value(3));
            // The next batch is open before this one is answered.
            assert_eq!(batches.join(LaneId(3), Update, KEY, &value(4)), Joined::Leads);
            let answered = batches.answer(LaneId(0), &Ok(Outcome::Inserted), &[]);
            assert!(answered.is_done);
            assert_eq!(answered.woken, [LaneId(2), LaneId(1)]);
            assert_eq!(told(batches, 1), Answer::Outcome(Outcome::Updated));
            assert_eq!(told(batches, 2), Answer::Outcome(Outcome::Replaced));
            assert_eq!(batches.end(LaneId(0)), None);
        });
    }

    #[test]
    fn other_keys_and_conditional_operations_stay_alone() {
        use OperationKind::{Get, Insert, Update, UpdateIf, Upsert};
        with_batches(|batches| {
            assert_eq!(batches.join(LaneId(0), Update, KEY, &value(1)), Joined::Leads);
            assert_eq!(batches.join(LaneId(1), Update, b"same len", &value(2)), Joined::Alone);
            // An update may find nothing to update; an upsert always writes.
            assert_eq!(batches.join(LaneId(1), Upsert, KEY, &value(2)), Joined::Alone);
            assert_eq!(batches.join(LaneId(1), UpdateIf, KEY, &value(2)), Joined::Alone);
            assert_eq!(batches.join(LaneId(1), Insert, KEY, &value(2)), Joined::Alone);
            // Reads and writes do not meet.
            assert_eq!(batches.join(LaneId(1), Get, KEY, &[]), Joined::Leads);
            let mut taken = value(0);
            batches.seal_seat(LaneId(0), |value| taken.copy_from_slice(value));
            assert_eq!(taken, value(1));
        });
    }

    #[test]
    fn who_comes_while_a_read_is_under_way_fills_the_next_batch() {
        use OperationKind::Get;
        with_batches(|batches| {
            assert_eq!(batches.join(LaneId(0), Get, KEY, &[]), Joined::Leads);
            batches.seal_seat(LaneId(0), |_| ());
            assert_eq!(batches.join(LaneId(1), Get, KEY, &[]), Joined::Fills);
            assert_eq!(batches.join(LaneId(2), Get, KEY, &[]), Joined::Follows);
            // This batch was sealed without members, and members of the next one get nothing of it.
            assert!(batches.answer(LaneId(0), &Ok(Outcome::Found), &value(7)).woken.is_empty());
            assert_eq!(batches.end(LaneId(0)), Some(LaneId(1)));
            batches.seal_seat(LaneId(1), |_| ());
            assert_eq!(batches.answer(LaneId(1), &Ok(Outcome::Found), &value(8)).woken, [LaneId(2)]);
            assert_eq!(told(batches, 2), Answer::Outcome(Outcome::Found));
            assert_eq!(*batches.batch_slot(2).unwrap().place.lock().value, value(8));
        });
    }

    #[test]
    fn a_leader_that_never_sealed_sends_its_members_to_work() {
        with_batches(|batches| {
            for kind in [OperationKind::Get, OperationKind::Update] {
                batches.join(LaneId(0), kind, KEY, &value(1));
                batches.join(LaneId(1), kind, KEY, &value(2));
                assert_eq!(batches.answer(LaneId(0), &Ok(Outcome::Absent), &[]).woken, [LaneId(1)]);
                assert_eq!(told(batches, 1), Answer::Alone);
                assert_eq!(batches.end(LaneId(0)), None);
            }
        });
    }

    #[test]
    fn ignorance_is_shared_and_harmless_failures_are_not() {
        let lost = OpError { effect: Effect::Unknown, cause: Cause::LeaderLost };
        let full = OpError::harmless(Cause::PoolFull);
        for (error, expected) in [(lost, Answer::Unknown(Cause::LeaderLost)), (full, Answer::Alone)] {
            with_batches(|batches| {
                batches.join(LaneId(0), OperationKind::Upsert, KEY, &value(1));
                batches.join(LaneId(1), OperationKind::Upsert, KEY, &value(2));
                batches.seal_seat(LaneId(0), |_| ());
                batches.answer(LaneId(0), &Err(error), &[]);
                assert_eq!(told(batches, 1), expected);
            });
        }
    }

    #[test]
    fn many_members_are_answered_in_groups() {
        let mut values = [[0; 8]; 2 * WAKES_AT_ONCE + 2];
        let batch_slots: Vec<_> = values.iter_mut().map(|value| BatchSlot::new(value)).collect();
        let buckets = [Mutex::new(Bucket::default())];
        let batches = Batches::new(&[], &buckets, &batch_slots);
        for lane in 0..batch_slots.len() as u16 {
            batches.join(LaneId(lane), OperationKind::Update, KEY, &value(1));
        }
        batches.seal_seat(LaneId(0), |_| ());
        let mut woken = 0;
        loop {
            let answered = batches.answer(LaneId(0), &Ok(Outcome::Updated), &[]);
            woken += answered.woken.len();
            if answered.is_done {
                break;
            }
        }
        assert_eq!(woken, batch_slots.len() - 1);
    }

    #[test]
    fn batches_that_save_less_than_they_cost_are_left_alone_for_a_while() {
        let account = Account::default();
        // A round trip of 10 us, and one member in 64 batches: 156 ns saved per batch.
        assert!((0..WINDOW).all(|batch| !account.count(u32::from(batch % 64 == 0), 10_000)));
        // Half a microsecond: 8 ns saved per batch.
        assert!((1..WINDOW).all(|batch| !account.count(u32::from(batch % 64 == 0), 500)));
        assert!(account.count(0, 500));
    }

    #[test]
    fn each_rest_is_as_long_as_the_first_for_all_lanes() {
        use OperationKind::{Get, Update};
        with_batches(|batches| {
            let mut scratches = [[0; 8]; 3];
            let lanes: Vec<_> = (0..).zip(&mut scratches).map(|(n, bytes)| Lane::new(LaneId(n), bytes)).collect();
            for _ in 0..3 {
                assert!(!batches.stays_away(Get), "they try");
                // Batches of half a microsecond, without members.
                for _ in 0..WINDOW {
                    assert_eq!(batches.join(LaneId(0), Get, KEY, &[]), Joined::Leads);
                    batches.answer(LaneId(0), &Ok(Outcome::Absent), &[]);
                    batches.judge(LaneId(0), 500);
                    batches.end(LaneId(0));
                }
                for round in 1..=REST {
                    assert!(batches.stays_away(Get), "operation {round} of {REST}");
                    // All lanes have the same speed: when the rest ends, the others are one operation behind the
                    // first.
                    for lane in &lanes {
                        batches.worked_alone(lane, Get);
                    }
                }
            }
            assert!(!batches.stays_away(Update), "writes are judged by themselves");
        });
    }
}
