//! The queue in front of one worker: slots that calls fill and the worker empties.
//!
//! ```text
//!             claim           fill, submit            next                    done             take, release
//!   free ───────────► claimed ───────────► queued ───────────► running ───────────► finished ───────────► free
//!                                            │ deadline: withdraw                      ▲
//!                                            └───────────► withdrawn ── next ──► free  │
//!                                      the call was dropped: done releases the slot ───┘
//! ```
//!
//! A slot has room for one operation's arguments and results. It is made when the session is opened; no memory is
//! allocated per operation. A slot's index is at one place at a time - the free list, one call, the ready list, or one
//! lane of the worker - and whichever has it may change the slot. The body has a mutex because safe Rust requires one,
//! and for two cases where call and worker meet unannounced: the call drops, withdraws or changes its waker while the
//! worker starts or finishes the operation. Both look at the body's stage under the mutex, so one comes first and the
//! other sees it.
//!
//! **No wake-up is lost.** *Worker:* a submit first puts the slot into the ready list, then unparks the worker. If the
//! worker looked before that, its next park returns at once, because the token of an unpark is kept, and it looks
//! again; `unpark` and `park` synchronise, so it then sees the hint. *Call:* a call registers its waiter under the
//! body's mutex before it parks or returns `Pending`, and the worker stores the result and takes the waiter under the
//! same mutex. *Room:* a call that finds no free slot registers under the lock under which it looked; a released slot
//! wakes the first call in line. A call that is dropped after it was woken passes the wake-up on.
//!
//! No lock is held while another is taken, nor while a waker runs or is dropped: either may run code of the application
//! that calls the session, or drops it.

mod work;

pub(super) use work::QueueWork;

use super::deadline::Deadline;
use super::error::SessionError;
use super::packs::{LOOKED_AT_MAX, Packer};
use super::statistics::WorkerSums;
use crate::worker::Finished;
use dm_core::operation::{Effect, OpError, Operation, Outcome, Part, ScratchPlan};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::thread::{self, Thread};

/// A waiter for a finished operation, or for a free slot.
#[derive(Debug, Default)]
pub(super) enum Waiter {
    #[default]
    Nobody,
    Thread(Thread),
    Task(Waker),
}

impl Waiter {
    fn wake(self) {
        match self {
            Self::Nobody => {}
            Self::Thread(thread) => thread.unpark(),
            // If a waker panics, only its executor is affected; the other calls of this worker are not.
            Self::Task(waker) => drop(catch_unwind(AssertUnwindSafe(|| waker.wake()))),
        }
    }

    /// Whether it wakes the same as `other`, so that it need not be replaced.
    fn will_wake(&self, other: &Waiter) -> bool {
        match (self, other) {
            (Self::Task(mine), Self::Task(other)) => mine.will_wake(other),
            (Self::Thread(mine), Self::Thread(other)) => mine.id() == other.id(),
            _ => false,
        }
    }
}

/// Why a queue takes no more operations.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// The session was closed.
    Closed,
    /// The worker's lanes cannot go on.
    Broken(OpError),
    /// The worker panicked.
    Panicked,
}

impl End {
    /// The error of a call that was not started.
    pub(super) const fn error(self) -> SessionError {
        match self {
            Self::Closed => SessionError::Closed,
            Self::Broken(last) => SessionError::Broken { last },
            Self::Panicked => SessionError::Panicked { effect: Effect::None },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Free or claimed: the worker does not look at it.
    Idle,
    Queued,
    Running,
    /// The caller withdrew before the worker began.
    Withdrawn,
    Finished,
}

/// A key or a value in a slot. Where all have the same length, its buffer is allocated once; otherwise it grows to the
/// longest that the slot ever had.
#[derive(Debug)]
pub(super) struct Bytes {
    held: Vec<u8>,
    has_length: bool,
}

impl Bytes {
    fn new(bytes: usize, has_length: bool) -> Self {
        Self { held: if has_length { Vec::new() } else { vec![0; bytes] }, has_length }
    }

    /// Stores `bytes`, if they have a valid length.
    pub(super) fn set(&mut self, bytes: &[u8]) {
        if self.has_length {
            self.held.clear();
            self.held.extend_from_slice(bytes);
        } else if self.held.len() == bytes.len() {
            self.held.copy_from_slice(bytes);
        }
    }

    /// Sets the least value.
    pub(super) fn set_least(&mut self) {
        if self.has_length {
            self.held.clear();
        } else {
            self.held.fill(0);
        }
    }

    /// Sets the next larger value, which may be one byte longer than any valid one. `false`: there is none.
    pub(super) fn increment(&mut self) -> bool {
        if self.has_length {
            self.held.push(0);
            return true;
        }
        increment(&mut self.held)
    }
}

impl Body {
    /// `have_lengths`: keys and values have any length up to these.
    pub(super) fn new(key_bytes: usize, value_bytes: usize, have_lengths: bool) -> Self {
        let room = |bytes| Bytes::new(bytes, have_lengths);
        Self {
            stage: Stage::Idle,
            detached: false,
            result: Ok(Outcome::Absent),
            waiter: Waiter::Nobody,
            operation: Operation::scan(0),
            deadline: None,
            key: room(key_bytes),
            key_high: room(key_bytes),
            value: room(value_bytes),
            expected: room(value_bytes),
            page: Vec::new(),
        }
    }

    /// Whether keys and values have any length.
    pub(super) const fn has_lengths(&self) -> bool {
        self.key.has_length
    }

    /// Copies the arguments to the scratch of a lane. `Err`: the deadline has passed.
    pub(super) fn load(&self, scratch: &mut [u8], plan: &ScratchPlan) -> Result<Operation, SessionError> {
        let mut operation = self.operation;
        if let Some(deadline) = self.deadline {
            operation.deadline_ns = deadline.left()?.as_nanos().min(u128::from(u64::MAX)) as u64;
        }
        for &part in operation.kind.parts() {
            let bytes = match part {
                Part::Key => &self.key,
                Part::KeyHigh => &self.key_high,
                Part::Value | Part::Output => &self.value,
                Part::Expected => &self.expected,
            };
            // Lengths were checked when the call was made.
            let _ = plan.put(scratch, part, bytes);
        }
        Ok(operation)
    }

    /// Takes what an operation found.
    pub(super) fn store(&mut self, finished: &Finished<'_>) {
        let plan = finished.plan;
        match finished.result {
            Ok(Outcome::Found | Outcome::Exists | Outcome::Mismatch) => {
                self.value.set(plan.part(finished.scratch, Part::Output));
            }
            Ok(Outcome::Page { records, .. }) => {
                let page_bytes = plan.page_bytes(finished.scratch, records as usize);
                let page = finished.scratch.get(plan.page.clone()).unwrap_or_default();
                // The call supplied room for as many records as it asked for.
                self.page.extend_from_slice(page.get(..page_bytes).unwrap_or_default());
            }
            _ => {}
        }
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.held
    }
}

/// Adds one to a big-endian number. `false`: it was the largest.
fn increment(key: &mut [u8]) -> bool {
    for byte in key.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return true;
        }
    }
    false
}

/// Arguments and results of one operation.
#[derive(Debug)]
pub(super) struct Body {
    stage: Stage,
    /// The call was dropped, so the result is not wanted.
    detached: bool,
    pub(super) result: Result<Outcome, SessionError>,
    waiter: Waiter,
    pub(super) operation: Operation,
    pub(super) deadline: Option<Deadline>,
    pub(super) key: Bytes,
    pub(super) key_high: Bytes,
    /// The value to write; after the end, the value that was found.
    pub(super) value: Bytes,
    pub(super) expected: Bytes,
    /// Room for a page, supplied by the call that wants one.
    pub(super) page: Vec<u8>,
}

#[derive(Debug)]
struct Slot {
    /// The body's stage is `Finished`. This is a hint, so that a spinning caller does not take the mutex each time. It
    /// changes only under the mutex.
    finished: AtomicBool,
    body: Mutex<Body>,
}

/// A slot that is ready, and the group of its operation: what one call began together. 0: none, or none any more.
type Ready = (u32, u64);

#[derive(Debug)]
struct Lists {
    free: Vec<u32>,
    ready: VecDeque<Ready>,
    /// Calls that wait for a free slot, in order of arrival.
    waiting: VecDeque<(u64, Waiter)>,
    next_ticket: u64,
    /// Takes no more operations; the worker finishes what is queued.
    closing: bool,
    /// Why the worker ended, if it has.
    end: Option<End>,
}

/// The result of a claim.
#[derive(Debug)]
pub(super) enum Claim {
    /// The claimed slot.
    Slot(u32),
    /// None is free. The waiter, if one was given, is woken when one is.
    Full,
    /// No slot will ever be free.
    Ended(End),
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Queue {
    slots: Box<[Slot]>,
    lists: Mutex<Lists>,
    /// Length of the ready list, plus [`CLOSING`]: the worker looks at it before it takes the lock. It changes only
    /// under the lock.
    hint: AtomicUsize,
    /// Slots that are not free, for choosing a queue. It changes only under the lock.
    load: AtomicUsize,
    /// Operations may still be queued: a hint for choosing a queue.
    open: AtomicBool,
    worker: OnceLock<Thread>,
    pub(super) sums: WorkerSums,
}

/// See [`Queue::hint`].
const CLOSING: usize = 1 << (usize::BITS - 1);

/// A panic under one of these locks leaves whole structures: each critical section moves one thing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// `have_lengths`: keys and values have any length up to these.
    pub(super) fn new(slots: usize, key_bytes: usize, value_bytes: usize, have_lengths: bool) -> Self {
        let body = || Body::new(key_bytes, value_bytes, have_lengths);
        Self {
            slots: (0..slots).map(|_| Slot { finished: AtomicBool::new(false), body: Mutex::new(body()) }).collect(),
            lists: Mutex::new(Lists {
                free: (0..slots as u32).rev().collect(),
                ready: VecDeque::with_capacity(slots),
                waiting: VecDeque::new(),
                next_ticket: 0,
                closing: false,
                end: None,
            }),
            hint: AtomicUsize::new(0),
            load: AtomicUsize::new(0),
            open: AtomicBool::new(true),
            worker: OnceLock::new(),
            sums: WorkerSums::default(),
        }
    }

    /// Slots that are not free.
    pub(super) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Whether operations may still be queued. Once false, it stays false.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether the calling thread is the worker.
    pub(super) fn is_worker(&self) -> bool {
        self.worker.get().is_some_and(|worker| worker.id() == thread::current().id())
    }

    /// Registers the thread of the worker. Called before the first submit.
    pub(super) fn register(&self, worker: &Thread) {
        // There is one worker per queue, registered once.
        let _ = self.worker.set(worker.clone());
    }

    fn unpark(&self) {
        if let Some(worker) = self.worker.get() {
            worker.unpark();
        }
    }

    // ---- for calls -------------------------------------------------------------------------------------------

    /// Claims a free slot. If there is none and a `waiter` is given, gets in line at place `ticket`. A call without a
    /// waiter does not overtake those in line.
    pub(super) fn claim(&self, waiter: Option<&dyn Fn() -> Waiter>, ticket: &mut Option<u64>) -> Claim {
        let claim = self.claim_or_register(None, waiter.is_some(), ticket);
        match (&claim, waiter) {
            // The waiter is made without the lock, and only when needed. A slot may be free by then.
            (Claim::Full, Some(waiter)) => self.claim_or_register(Some(waiter()), true, ticket),
            _ => claim,
        }
    }

    fn claim_or_register(&self, waiter: Option<Waiter>, pushing: bool, ticket: &mut Option<u64>) -> Claim {
        let mut lists = lock(&self.lists);
        if let Some(end) = lists.end.or(lists.closing.then_some(End::Closed)) {
            *ticket = None;
            return Claim::Ended(end);
        }
        if !pushing && !lists.waiting.is_empty() {
            return Claim::Full;
        }
        let place = ticket.and_then(|ticket| lists.waiting.iter().position(|(other, _)| *other == ticket));
        if let Some(slot) = lists.free.pop() {
            self.load.fetch_add(1, Ordering::Relaxed);
            if let Some(place) = place {
                lists.waiting.remove(place);
            }
            *ticket = None;
            return Claim::Slot(slot);
        }
        let Some(waiter) = waiter else { return Claim::Full };
        let mut replaced = Waiter::Nobody;
        match (place.and_then(|place| lists.waiting.get_mut(place)), *ticket) {
            (Some((_, old)), _) => {
                if !old.will_wake(&waiter) {
                    replaced = std::mem::replace(old, waiter);
                }
            }
            // It was woken, and another call was faster: back to the head of the line.
            (None, Some(ticket)) => lists.waiting.push_front((ticket, waiter)),
            (None, None) => {
                let next = lists.next_ticket;
                lists.next_ticket += 1;
                lists.waiting.push_back((next, waiter));
                *ticket = Some(next);
            }
        }
        drop(lists);
        drop(replaced);
        Claim::Full
    }

    /// Leaves the line. If this call had been woken, the next call in line gets the wake-up.
    pub(super) fn leave_line(&self, ticket: u64) {
        let mut lists = lock(&self.lists);
        let passed_on = match lists.waiting.iter().position(|(other, _)| *other == ticket) {
            Some(place) => lists.waiting.remove(place),
            None if lists.free.is_empty() => None,
            None => lists.waiting.pop_front(),
        };
        drop(lists);
        if let Some((other, waiter)) = passed_on
            && other != ticket
        {
            waiter.wake();
        }
    }

    /// Writes the arguments into a claimed slot and queues it, as one of a group. If others `follow`, the worker is told of all
    /// of them by [`Queue::announce`], so that it does not begin the first one alone.
    pub(super) fn submit(
        &self,
        slot: u32,
        (group, follow): (u64, bool),
        waiter: Waiter,
        fill: impl FnOnce(&mut Body),
    ) -> Result<(), End> {
        {
            let slot = &self.slots[slot as usize];
            let mut body = lock(&slot.body);
            fill(&mut body);
            body.stage = Stage::Queued;
            body.detached = false;
            body.waiter = waiter;
            slot.finished.store(false, Ordering::Relaxed);
        }
        let mut lists = lock(&self.lists);
        if let Some(end) = lists.end.or(lists.closing.then_some(End::Closed)) {
            drop(lists);
            self.release(slot);
            return Err(end);
        }
        lists.ready.push_back((slot, group));
        if !follow {
            self.hint.store(lists.ready.len(), Ordering::Release);
            drop(lists);
            self.unpark();
        }
        Ok(())
    }

    /// Tells the worker what is ready.
    pub(super) fn announce(&self) {
        let lists = lock(&self.lists);
        if !lists.ready.is_empty() {
            self.hint.store(lists.ready.len() | if lists.closing { CLOSING } else { 0 }, Ordering::Release);
            drop(lists);
            self.unpark();
        }
    }

    /// Whether the operation in `slot` seems to have ended (a hint).
    pub(super) fn is_finished(&self, slot: u32) -> bool {
        self.slots[slot as usize].finished.load(Ordering::Acquire)
    }

    /// Takes the result and releases the slot. `None`: there is no result yet, and `waiter` is woken when there is.
    pub(super) fn take<R>(
        &self,
        slot: u32,
        waiter: Option<Waiter>,
        fetch: impl FnOnce(Outcome, &mut Body) -> R,
    ) -> Option<Result<R, SessionError>> {
        let mut body = lock(&self.slots[slot as usize].body);
        if body.stage != Stage::Finished {
            let replaced = match waiter {
                Some(waiter) if !body.waiter.will_wake(&waiter) => std::mem::replace(&mut body.waiter, waiter),
                _ => Waiter::Nobody,
            };
            drop(body);
            drop(replaced);
            return None;
        }
        let result = body.result.map(|outcome| fetch(outcome, &mut body));
        drop(body);
        self.release(slot);
        Some(result)
    }

    /// Withdraws a queued operation whose deadline has passed. `false`: it is running, or has ended.
    pub(super) fn withdraw(&self, slot: u32) -> bool {
        let mut body = lock(&self.slots[slot as usize].body);
        let queued = body.stage == Stage::Queued;
        if queued {
            // The worker meets the slot in the ready list and releases it.
            body.stage = Stage::Withdrawn;
        }
        queued
    }

    /// Notes that the result is not wanted any more; the operation runs on.
    pub(super) fn detach(&self, slot: u32) {
        let mut body = lock(&self.slots[slot as usize].body);
        if body.stage != Stage::Finished {
            body.detached = true;
            let waiter = std::mem::take(&mut body.waiter);
            drop(body);
            drop(waiter);
            return;
        }
        drop(body);
        self.release(slot);
    }

    /// Releases a slot, and wakes the first call that waits for one.
    fn release(&self, slot: u32) {
        let (page, waiter) = {
            let mut body = lock(&self.slots[slot as usize].body);
            body.stage = Stage::Idle;
            (std::mem::take(&mut body.page), std::mem::take(&mut body.waiter))
        };
        // Dropped outside the lock: a page that no call fetched, a waiter that withdrew.
        drop((page, waiter));
        let mut lists = lock(&self.lists);
        lists.free.push(slot);
        self.load.fetch_sub(1, Ordering::Relaxed);
        let first = lists.waiting.pop_front();
        drop(lists);
        if let Some((_, waiter)) = first {
            waiter.wake();
        }
    }

    // ---- for the supervisor ----------------------------------------------------------------------------------

    /// Takes no more operations; the worker ends when it has finished what is queued.
    pub(super) fn close(&self) {
        let mut lists = lock(&self.lists);
        lists.closing = true;
        self.open.store(false, Ordering::Relaxed);
        self.hint.store(lists.ready.len() | CLOSING, Ordering::Release);
        let waiting = std::mem::take(&mut lists.waiting);
        drop(lists);
        for (_, waiter) in waiting {
            waiter.wake();
        }
        self.unpark();
    }

    // ---- for the worker --------------------------------------------------------------------------------------

    fn has_news(&self) -> bool {
        self.hint.load(Ordering::Acquire) != 0
    }

    fn pop(&self) -> Popped {
        let mut lists = lock(&self.lists);
        let slot = lists.ready.pop_front();
        self.hint.store(lists.ready.len() | if lists.closing { CLOSING } else { 0 }, Ordering::Relaxed);
        match slot {
            Some((slot, group)) => Popped::Slot(slot, group),
            None if lists.closing => Popped::Closed,
            None => Popped::Nothing,
        }
    }

    /// Takes further slots of a group out of the ready list, among those that come next.
    fn gather(&self, group: u64, out: &mut Vec<u32>) {
        let mut lists = lock(&self.lists);
        let mut left = 0;
        for _ in 0..lists.ready.len().min(LOOKED_AT_MAX) {
            match lists.ready.pop_front() {
                Some((slot, of)) if of == group => out.push(slot),
                Some(other) => {
                    lists.ready.push_back(other);
                    left += 1;
                }
                None => {}
            }
        }
        lists.ready.rotate_right(left);
    }

    /// Puts slots back that come next. An operation that was begun is queued again.
    fn put_back(&self, slots: impl DoubleEndedIterator<Item = u32>, group: u64) {
        let mut lists = lock(&self.lists);
        slots.rev().for_each(|slot| lists.ready.push_front((slot, group)));
        self.hint.store(lists.ready.len() | if lists.closing { CLOSING } else { 0 }, Ordering::Relaxed);
    }

    /// Begins the operation in a slot that was ready, if it can be added to a message. `None`: it stays as it is.
    fn begin_packed(
        &self,
        slot: u32,
        packer: &mut Packer<'_>,
        scratch: &mut [u8],
        plan: &ScratchPlan,
    ) -> Option<Operation> {
        let mut body = lock(&self.slots[slot as usize].body);
        if body.stage != Stage::Queued || !packer.is_for(&body.key) {
            return None;
        }
        let operation = body.load(scratch, plan).ok().filter(|operation| packer.add(operation, plan, scratch))?;
        body.stage = Stage::Running;
        Some(operation)
    }

    /// An operation that was begun has had no effect, and is to be begun again.
    fn requeue(&self, slot: u32) {
        lock(&self.slots[slot as usize].body).stage = Stage::Queued;
    }

    /// Begins the operation in a slot that was ready: copies its arguments to the scratch. `None`: there is nothing to
    /// run.
    fn begin(&self, slot: u32, scratch: &mut [u8], plan: &ScratchPlan) -> Option<Operation> {
        let mut body = lock(&self.slots[slot as usize].body);
        if body.stage == Stage::Withdrawn {
            drop(body);
            self.release(slot);
            return None;
        }
        match body.load(scratch, plan) {
            Ok(operation) => {
                body.stage = Stage::Running;
                Some(operation)
            }
            Err(error) => {
                self.finish(slot, body, Err(error));
                None
            }
        }
    }

    /// Stores a result and wakes the waiter; if the call was dropped, releases the slot.
    fn finish(&self, slot: u32, mut body: MutexGuard<'_, Body>, result: Result<Outcome, SessionError>) {
        body.result = result;
        body.stage = Stage::Finished;
        if body.detached {
            drop(body);
            self.release(slot);
            return;
        }
        let waiter = std::mem::take(&mut body.waiter);
        // Under the mutex: after it the slot may belong to another call.
        self.slots[slot as usize].finished.store(true, Ordering::Release);
        drop(body);
        waiter.wake();
    }

    /// Fails an operation of a worker that has ended.
    fn fail(&self, slot: u32, error: SessionError) {
        let body = lock(&self.slots[slot as usize].body);
        if body.stage == Stage::Withdrawn {
            drop(body);
            self.release(slot);
        } else {
            self.finish(slot, body, Err(error));
        }
    }
}

enum Popped {
    Slot(u32, u64),
    Nothing,
    Closed,
}

#[cfg(test)]
mod tests;
