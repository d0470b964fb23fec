//! Where calls lie on shared memory: slots that a memory node's daemon and its clients have mapped. A call is for the memory
//! node's processor, or for a compute node, which executes operations for others (`dm_core::index::forward`).
//!
//! ```text
//!  0      64       128 + 24 * row            4096                                4096 + n * 4160
//! ┌──────┬────────┬──────────────────┬──────┬───────────────────────────────────┬──
//! │ bell │ threads│ bell │ asleep │  │ ...  │ state │ bytes │ answer │ callee   │ 4096 bytes: the request, then its answer
//! │ u32  │ asleep │ last │ u64    │  │      │ u64   │ u64   │ u64    │ u64      │
//! │ last │ u64    │ servers, u64     │      │       │       │        │          │ next slot ...
//! └──────┴────────┴──────────────────┴──────┴───────────────────────────────────┴──
//!
//!            client                                  the callee's thread
//!  Free ───────────────► Claimed ─────► Posted ────────────────────► Serving
//!    ▲                       (request)    │ withdrawn                   │        │ caller gave up
//!    ├────────────────────────────────────┘                             ▼        ▼
//!    └───────────────── the client has taken the answer ───────────── Answered  Left ──► Free
//! ```
//!
//! The state word names the connection that has the slot. It changes by CAS, or by a store of the only side that may change it
//! then: the client if it is Answered. So a client that gives up leaves nothing behind that a later call could take for its own:
//! a call that nobody serves yet is withdrawn, and one that is being served is freed by the thread that serves it. What a
//! process that died had claimed is freed when the daemon learns of its end; what it was serving is answered with nothing.
//! There are [`SLOTS`] calls at a time; a client that finds no free slot goes without.
//!
//! **Compute nodes** count themselves in their row's *servers* word, beside the connection of their process, as long as they serve.
//! The state word of a call that a compute node serves names its row in bits 8..24, plus 1.
//!
//! **Waking.** A thread that finds nothing for a while counts itself as asleep, looks once more, and waits for the bell to
//! change. A client posts, changes the bell, and wakes a thread if one is asleep. Both orders are `SeqCst`, so either the
//! thread sees the call, or the client sees the thread. *Last* is the slot of the last call that was posted: where a thread looks
//! first.
//!
//! The bytes are accessed like those of a region ([`Area`]): as atomics, never through references. A peer may write anything
//! at any time; lengths are bounded after they are loaded, and the walk judges what it reads.

use crate::region::lines::{Area, WriterSlot};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::superblock::ROW_COUNT;
use dm_core::verbs::{CALL_BYTES_MAX, CallAnswer, Callee};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::thread::futex;
use static_assertions::const_assert;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Calls at a time, of all clients of a memory node.
pub const SLOTS: u32 = 64;

const BELL_AT: u64 = 0;
const ASLEEP_AT: u64 = 64;
const ROWS_AT: u64 = 128;
const ROW_BYTES: u64 = 24;
const SLOTS_AT: u64 = 4096;
const_assert!(ROWS_AT + ROW_COUNT as u64 * ROW_BYTES <= SLOTS_AT);
const HEADER_BYTES: u64 = 64;
/// In a slot's header.
const BYTES_AT: u64 = 8;
const ANSWER_AT: u64 = 16;
const CALLEE_AT: u64 = 24;
const SLOT_BYTES: u64 = HEADER_BYTES + CALL_BYTES_MAX as u64;
const AREA_BYTES: u64 = SLOTS_AT + SLOTS as u64 * SLOT_BYTES;

/// What a slot is for; the low byte of its state word. The connection is in the upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Claimed = 1,
    Posted = 2,
    Serving = 3,
    Answered = 4,
    Left = 5,
}

const FREE: u64 = 0;

const fn word(owner: u32, state: State) -> u64 {
    (owner as u64) << 32 | state as u64
}

/// The compute node in a state word, or none.
const SERVER: u64 = 0xffff << 8;

/// The bits of `callee` in the state word of a call that it serves.
fn server_bits(callee: Callee) -> u64 {
    callee.row().map_or(0, |row| (u64::from(row) + 1) << 8 & SERVER)
}

/// The connection that has a slot, the compute node that serves its call, and its state; `None`: free, or no state.
fn parts_of(word: u64) -> Option<(u32, u64, State)> {
    let states = [State::Claimed, State::Posted, State::Serving, State::Answered, State::Left];
    let state = states.into_iter().find(|state| *state as u8 == word as u8)?;
    Some(((word >> 32) as u32, word & SERVER, state))
}

/// The mapped slots.
#[derive(Debug)]
pub(crate) struct CallArea {
    map: MmapRaw,
    fd: Arc<OwnedFd>,
}

/// A call under way.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the slot stays taken"]
pub(crate) struct Called(u32);

impl Called {
    /// The same call, for one that was given up: to be looked at, and nothing else.
    pub(crate) const fn given_up(&self) -> Self {
        Self(self.0)
    }
}

/// A call that a thread of this process serves.
#[derive(Debug)]
#[must_use = "nobody answers it"]
pub(crate) struct Taken {
    slot: u32,
    /// The state word while it is served.
    serving: u64,
    request_bytes: usize,
    /// Room for the answer.
    pub(crate) answer_bytes: usize,
}

/// What became of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing yet.
    Waits,
    /// It was answered; the bytes are in the buffer.
    Answer(CallAnswer),
}

impl Taken {
    /// The request, in the buffer that it was copied to.
    pub(crate) fn request<'b>(&self, buffer: &'b [u8]) -> Option<&'b [u8]> {
        buffer.get(..self.request_bytes)
    }
}

impl CallArea {
    /// New slots, all free. The size of the file is fixed: if a client could make it smaller, the kernel would kill the daemon
    /// and the other clients when they touch the lost part.
    pub(super) fn create() -> io::Result<Self> {
        let fd = memfd_create("dm-memd-calls", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, AREA_BYTES)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::attach(fd)
    }

    /// The slots in a file that a daemon has sent.
    pub(super) fn attach(fd: OwnedFd) -> io::Result<Self> {
        let bytes = usize::try_from(AREA_BYTES).map_err(|_| io::ErrorKind::OutOfMemory)?;
        if u64::try_from(rustix::fs::fstat(&fd)?.st_size).unwrap_or(0) < AREA_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let map = MmapOptions::new().len(bytes).map_raw(&fd)?;
        Ok(Self { map, fd: Arc::new(fd) })
    }

    /// The file, to send to a client.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    fn area(&self) -> Area<'_> {
        // SAFETY: the mapping begins on a page, has AREA_BYTES readable and writable bytes, a multiple of 64, and lives as long
        // as `self`. This process accesses it through areas, and through `bell`, whose word is an atomic of half the size: see
        // there.
        unsafe { Area::new(self.map.as_mut_ptr(), AREA_BYTES, None) }
    }

    /// Where a callee's bell is, and behind it how many of its threads are asleep.
    fn bell_at(callee: Callee) -> (u64, u64) {
        let row = callee.row().map(|row| ROWS_AT + u64::from(row) % u64::from(ROW_COUNT) * ROW_BYTES);
        row.map_or((BELL_AT, ASLEEP_AT), |at| (at, at + 8))
    }

    /// The bell of a callee. No area is asked for its word.
    fn bell(&self, callee: Callee) -> &AtomicU32 {
        // SAFETY: inside the mapping (see `const_assert` above), aligned (a page begins at `BELL_AT`, and all are at multiples of
        // 8), alive as long as `self`; this process and others access these four bytes as an `AtomicU32` only.
        unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().wrapping_add(Self::bell_at(callee).0 as usize).cast()) }
    }

    /// The slot of the last call to a callee. It is a hint: two clients may overwrite each other's, and a peer may write anything.
    fn last(&self, callee: Callee) -> &AtomicU32 {
        // SAFETY: as for `bell`, whose word this one follows: the upper half of the eight bytes at `bell_at`, which are in front of
        // the count of threads asleep.
        unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().wrapping_add(Self::bell_at(callee).0 as usize + 4).cast()) }
    }

    fn asleep(&self, callee: Callee) -> &AtomicU64 {
        self.counter(Self::bell_at(callee).1)
    }

    /// The connection of the compute node of `row`, in the upper half, and how many of its threads serve.
    fn servers(&self, row: RowId) -> &AtomicU64 {
        self.counter(ROWS_AT + u64::from(row.0) % u64::from(ROW_COUNT) * ROW_BYTES + 16)
    }

    fn counter(&self, at: u64) -> &AtomicU64 {
        debug_assert!(at < SLOTS_AT && at.is_multiple_of(8));
        // SAFETY: the callers' offsets are multiples of 8 below SLOTS_AT, so inside the mapping and aligned; it is alive as long as
        // `self`, and these bytes are accessed as `AtomicU64`s only.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().wrapping_add(at as usize).cast()) }
    }

    const fn slot_at(slot: u32) -> u64 {
        SLOTS_AT + (slot % SLOTS) as u64 * SLOT_BYTES
    }

    fn load(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        // Inside the area, so it cannot fail.
        let _ = self.area().read(at, &mut bytes);
        fence(Ordering::Acquire);
        u64::from_le_bytes(bytes)
    }

    fn store(&self, at: u64, word: u64) {
        fence(Ordering::Release);
        let _ = self.area().write(WriterSlot::FORMATTER, at, &word.to_le_bytes());
    }

    fn change(&self, slot: u32, from: u64, to: u64) -> bool {
        self.area().cas(Self::slot_at(slot), from, to) == Ok(from)
    }

    // ---- a client's side ---------------------------------------------------------------------------------------

    /// Posts a call of connection `owner`, whose answer has at most `answer_bytes`. `None`: no slot is free, or it is too long.
    pub(crate) fn post(&self, owner: u32, callee: Callee, request: &[u8], answer_bytes: usize) -> Option<Called> {
        if request.len() > CALL_BYTES_MAX || answer_bytes > CALL_BYTES_MAX {
            return None;
        }
        let (free, claimed) = (FREE, word(owner, State::Claimed));
        // Clients begin in different places.
        let slot = (0..SLOTS)
            .map(|step| owner.wrapping_mul(7).wrapping_add(step) % SLOTS)
            .find(|&slot| self.load(Self::slot_at(slot)) == free && self.change(slot, free, claimed))?;
        let at = Self::slot_at(slot);
        let _ = self.area().write(WriterSlot::FORMATTER, at + HEADER_BYTES, request);
        self.store(at + BYTES_AT, request.len() as u64 | (answer_bytes as u64) << 32);
        self.store(at + CALLEE_AT, callee.0);
        if !self.change(slot, claimed, word(owner, State::Posted)) {
            return None;
        }
        fence(Ordering::SeqCst);
        self.last(callee).store(slot, Ordering::SeqCst);
        let bell = self.bell(callee);
        bell.fetch_add(1, Ordering::SeqCst);
        if self.asleep(callee).load(Ordering::SeqCst) > 0 {
            // Without a thread that waits, nobody is woken. Threads of a compute node may serve different indexes.
            let threads = if callee == Callee::MEMORY_NODE { 1 } else { i32::MAX.cast_unsigned() };
            let _ = futex::wake(bell, futex::Flags::empty(), threads);
        }
        Some(Called(slot))
    }

    /// Looks for the answer, and copies it to `out`. If there is one, the slot is free afterwards.
    pub(crate) fn hear(&self, owner: u32, call: &Called, out: &mut [u8]) -> Heard {
        let at = Self::slot_at(call.0);
        if self.load(at) != word(owner, State::Answered) {
            return Heard::Waits;
        }
        let answer = CallAnswer(self.load(at + ANSWER_AT));
        let bytes = answer.bytes().min(out.len());
        if let Some(out) = out.get_mut(..bytes) {
            let _ = self.area().read(at + HEADER_BYTES, out);
        }
        self.store(at, FREE);
        Heard::Answer(CallAnswer::new(bytes, answer.queued(), answer.service_ns()))
    }

    /// Whether nobody has begun to serve a call.
    pub(crate) fn is_posted(&self, owner: u32, call: &Called) -> bool {
        self.load(Self::slot_at(call.0)) == word(owner, State::Posted)
    }

    /// Gives a call up. `true`: nobody has begun to serve it, and nobody will; otherwise it may still be executed.
    pub(crate) fn give_up(&self, owner: u32, call: &Called) -> bool {
        let slot = call.0;
        // A server that took it for somebody else's puts it back once: see `take_at`.
        for _ in 0..8 {
            let now = self.load(Self::slot_at(slot));
            let gone = match parts_of(now) {
                Some((of, _, State::Posted)) if of == owner => FREE,
                Some((of, server, State::Serving)) if of == owner => word(owner, State::Left) | server,
                Some((of, _, State::Answered)) if of == owner => FREE,
                _ => return false,
            };
            if self.change(slot, now, gone) {
                return matches!(parts_of(now), Some((_, _, State::Posted)));
            }
        }
        false
    }

    /// Whether a call that was given up is still being served. (Or another one of this connection is, in the same slot.)
    pub(crate) fn is_left(&self, owner: u32, call: &Called) -> bool {
        matches!(parts_of(self.load(Self::slot_at(call.0))), Some((of, _, State::Left)) if of == owner)
    }

    // ---- a callee's side ---------------------------------------------------------------------------------------

    /// Counts a thread of the compute node of `row`, of the process of `connection`, among those that serve.
    pub(crate) fn begin_serving(&self, row: RowId, connection: u32) {
        let of = u64::from(connection) << 32;
        let _ = self.servers(row).fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| {
            // A peer may have written any count.
            Some(if word >> 32 == u64::from(connection) { word.wrapping_add(1) } else { of | 1 })
        });
    }

    /// The thread serves no longer.
    pub(crate) fn end_serving(&self, row: RowId, connection: u32) {
        let _ = self.servers(row).fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| {
            let is_mine = word >> 32 == u64::from(connection) && word as u32 > 0;
            is_mine.then(|| if word as u32 == 1 { 0 } else { word - 1 })
        });
    }

    /// Whether a compute node serves.
    pub(crate) fn is_served(&self, callee: Callee) -> bool {
        callee.row().is_none_or(|row| self.servers(RowId(row)).load(Ordering::SeqCst) as u32 > 0)
    }

    /// Takes a call that waits for `callee`, and copies its request to `out`, of [`CALL_BYTES_MAX`].
    pub(crate) fn take(&self, callee: Callee, out: &mut [u8]) -> Option<Taken> {
        self.slots_for(callee).find_map(|slot| self.take_at(slot, callee, out))
    }

    /// All slots, the one of the last call to `callee` first.
    fn slots_for(&self, callee: Callee) -> impl Iterator<Item = u32> {
        let last = self.last(callee).load(Ordering::SeqCst) % SLOTS;
        (0..SLOTS).map(move |step| (last + step) % SLOTS)
    }

    fn take_at(&self, slot: u32, callee: Callee, out: &mut [u8]) -> Option<Taken> {
        let at = Self::slot_at(slot);
        let posted = self.load(at);
        let Some((owner, _, State::Posted)) = parts_of(posted) else { return None };
        let serving = word(owner, State::Serving) | server_bits(callee);
        if self.load(at + CALLEE_AT) != callee.0 || !self.change(slot, posted, serving) {
            return None;
        }
        // Its caller may have withdrawn it, and posted another one for somebody else, between the two looks.
        if self.load(at + CALLEE_AT) != callee.0 {
            if self.change(slot, serving, posted) {
                self.ring(Callee(self.load(at + CALLEE_AT)));
            } else {
                let _ = self.change(slot, word(owner, State::Left) | serving & SERVER, FREE);
            }
            return None;
        }
        let lengths = self.load(at + BYTES_AT);
        let request_bytes = (lengths as u32 as usize).min(CALL_BYTES_MAX).min(out.len());
        let answer_bytes = ((lengths >> 32) as usize).min(CALL_BYTES_MAX);
        if let Some(out) = out.get_mut(..request_bytes) {
            let _ = self.area().read(at + HEADER_BYTES, out);
        }
        Some(Taken { slot, serving, request_bytes, answer_bytes })
    }

    /// Answers a call that was taken. `queued` calls were served before it, and it took `service_ns`.
    pub(crate) fn answer(&self, taken: &Taken, answer: &[u8], queued: u16, service_ns: u32) {
        let at = Self::slot_at(taken.slot);
        let answer = answer.get(..taken.answer_bytes).unwrap_or(answer);
        let _ = self.area().write(WriterSlot::FORMATTER, at + HEADER_BYTES, answer);
        self.store(at + ANSWER_AT, CallAnswer::new(answer.len(), queued, service_ns).0);
        let owner = (taken.serving >> 32) as u32;
        if !self.change(taken.slot, taken.serving, word(owner, State::Answered)) {
            // Its caller gave up, or is gone.
            let _ = self.change(taken.slot, word(owner, State::Left) | taken.serving & SERVER, FREE);
        }
    }

    /// Serves the calls that wait for the memory node; with `one`, only the last one, if that is there. `serve(request, answer)`
    /// writes an answer, and returns its length and for how long it has worked, in ns. Returns how many calls there were.
    pub(super) fn serve_posted(
        &self,
        buffer: &mut [u8],
        one: bool,
        mut serve: impl FnMut(&[u8], &mut [u8]) -> (usize, u32),
    ) -> u32 {
        let mut served = 0;
        let Some((request, answer)) = buffer.split_at_mut_checked(CALL_BYTES_MAX) else { return served };
        for (step, slot) in self.slots_for(Callee::MEMORY_NODE).enumerate() {
            let Some(taken) = self.take_at(slot, Callee::MEMORY_NODE, request) else { continue };
            let (Some(request), Some(answer)) = (taken.request(request), answer.get_mut(..taken.answer_bytes)) else {
                return served;
            };
            let (bytes, service_ns) = serve(request, answer);
            self.answer(&taken, answer.get(..bytes).unwrap_or_default(), served as u16, service_ns);
            served += 1;
            if one && step == 0 {
                break;
            }
        }
        served
    }

    /// Sleeps until somebody rings for `callee`, at most for `longest`, unless `is_busy` says that there is work by now.
    pub(crate) fn sleep(&self, callee: Callee, longest: Duration, is_busy: impl FnOnce() -> bool) {
        let heard = self.bell(callee).load(Ordering::SeqCst);
        self.asleep(callee).fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !is_busy() {
            let timeout =
                futex::Timespec { tv_sec: longest.as_secs().cast_signed(), tv_nsec: longest.subsec_nanos().into() };
            // It was woken, it was interrupted, the bell has rung before, or the time is over: the caller looks in any case.
            let _ = futex::wait(self.bell(callee), futex::Flags::empty(), heard, Some(&timeout));
        }
        self.asleep(callee).fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a call waits for `callee`.
    pub(crate) fn has_posted(&self, callee: Callee) -> bool {
        let is_waiting = |slot: u32| {
            let at = Self::slot_at(slot);
            matches!(parts_of(self.load(at)), Some((_, _, State::Posted))) && self.load(at + CALLEE_AT) == callee.0
        };
        (0..SLOTS).any(is_waiting)
    }

    /// How often the bell of a callee has rung. A call is posted before.
    pub(super) fn rings(&self, callee: Callee) -> u32 {
        self.bell(callee).load(Ordering::SeqCst)
    }

    /// Wakes all threads of a callee.
    pub(crate) fn ring(&self, callee: Callee) {
        self.bell(callee).fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(self.bell(callee), futex::Flags::empty(), i32::MAX.cast_unsigned());
    }

    /// Frees the slots of a connection that has ended, and answers with nothing what its compute nodes were serving.
    pub(super) fn release(&self, connection: u32) {
        let mut rows = 0_u128;
        const_assert!(ROW_COUNT <= 128);
        for row in 0..ROW_COUNT as u16 {
            let servers = self.servers(RowId(row));
            let word = servers.load(Ordering::SeqCst);
            if word != 0
                && word >> 32 == u64::from(connection)
                && servers.compare_exchange(word, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
            {
                rows |= 1 << row;
            }
        }
        for slot in 0..SLOTS {
            let now = self.load(Self::slot_at(slot));
            let Some((owner, server, state)) = parts_of(now) else { continue };
            let is_server_gone = (server >> 8).checked_sub(1).is_some_and(|row| row < 128 && rows >> row & 1 == 1);
            let then = match state {
                State::Serving | State::Left if is_server_gone && (state == State::Left || owner == connection) => FREE,
                State::Serving if is_server_gone => {
                    self.store(Self::slot_at(slot) + ANSWER_AT, 0);
                    word(owner, State::Answered)
                }
                State::Serving if owner == connection => word(owner, State::Left) | server,
                State::Claimed | State::Posted | State::Answered if owner == connection => FREE,
                _ => continue,
            };
            if !self.change(slot, now, then) && owner == connection {
                // It was answered in between.
                let _ = self.change(slot, word(owner, State::Answered), FREE);
            }
        }
    }

    /// Slots that are taken.
    #[cfg(test)]
    fn taken(&self) -> usize {
        (0..SLOTS).filter(|&slot| self.load(Self::slot_at(slot)) != FREE).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_ends() -> (CallArea, CallArea) {
        let daemon = CallArea::create().unwrap();
        let client = CallArea::attach(daemon.fd().try_clone().unwrap()).unwrap();
        (daemon, client)
    }

    /// Answers with the request, backwards.
    fn serve(daemon: &CallArea) -> u32 {
        daemon.serve_posted(&mut [0; 2 * CALL_BYTES_MAX], false, |request, answer| {
            let bytes = request.len().min(answer.len());
            answer[..bytes].iter_mut().zip(request.iter().rev()).for_each(|(to, from)| *to = *from);
            (bytes, 70)
        })
    }

    #[test]
    fn a_call_is_answered_once_and_its_slot_is_free_again() {
        let (daemon, client) = two_ends();
        let mut out = [0; 64];
        for round in 0..200_u8 {
            let call = client.post(9, Callee::MEMORY_NODE, &[round, 2, 3], 64).unwrap();
            assert_eq!(client.hear(9, &call, &mut out), Heard::Waits);
            assert_eq!((serve(&daemon), serve(&daemon)), (1, 0));
            assert_eq!(client.hear(8, &call, &mut out), Heard::Waits, "another connection's");
            assert_eq!(client.hear(9, &call, &mut out), Heard::Answer(CallAnswer::new(3, 0, 70)));
            assert_eq!((&out[..3], daemon.taken()), (&[3, 2, round][..], 0));
        }
        assert_eq!(client.post(9, Callee::MEMORY_NODE, &[0; CALL_BYTES_MAX + 1], 64), None);
        assert_eq!(client.post(9, Callee::MEMORY_NODE, &[0; 8], CALL_BYTES_MAX + 1), None);
    }

    #[test]
    fn no_client_takes_the_slots_away_from_the_others() {
        let (daemon, client) = two_ends();
        for bytes in [0, AREA_BYTES - 4096, AREA_BYTES + 4096] {
            assert_eq!(ftruncate(client.fd(), bytes), Err(rustix::io::Errno::PERM));
        }
        let call = client.post(9, Callee::MEMORY_NODE, &[1], 8).unwrap();
        assert_eq!(serve(&daemon), 1);
        client.give_up(9, &call);
    }

    #[test]
    fn a_call_that_is_given_up_leaves_no_slot_behind() {
        let (daemon, client) = two_ends();
        let waiting = client.post(9, Callee::MEMORY_NODE, &[1], 8).unwrap();
        assert!(client.give_up(9, &waiting));
        assert_eq!((serve(&daemon), daemon.taken()), (0, 0), "nobody serves it any more");
        let served = client.post(9, Callee::MEMORY_NODE, &[1], 8).unwrap();
        let mut gave_up = false;
        daemon.serve_posted(&mut [0; 2 * CALL_BYTES_MAX], false, |_, _| {
            assert!(!client.give_up(9, &served));
            gave_up = true;
            (0, 0)
        });
        assert!(gave_up && daemon.taken() == 0, "while it was served");
        let answered = client.post(9, Callee::MEMORY_NODE, &[1], 8).unwrap();
        serve(&daemon);
        assert!(!client.give_up(9, &answered));
        assert_eq!(daemon.taken(), 0);
    }

    #[test]
    fn there_are_so_many_calls_at_a_time_and_the_dead_give_theirs_back() {
        let (daemon, client) = two_ends();
        let calls: Vec<Called> =
            (0..SLOTS).map(|call| client.post(5 + call % 2, Callee::MEMORY_NODE, &[1], 8).unwrap()).collect();
        assert_eq!(client.post(5, Callee::MEMORY_NODE, &[1], 8), None);
        daemon.release(5);
        assert_eq!(daemon.taken(), SLOTS as usize / 2);
        daemon.serve_posted(&mut [0; 2 * CALL_BYTES_MAX], false, |_, _| {
            daemon.release(6);
            (0, 0)
        });
        assert_eq!(daemon.taken(), 0);
        drop(calls);
        assert!(client.post(5, Callee::MEMORY_NODE, &[1], 8).is_some());
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_by_a_call() {
        let (daemon, client) = two_ends();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while serve(&daemon) == 0 {
                    daemon
                        .sleep(Callee::MEMORY_NODE, Duration::from_mins(1), || daemon.has_posted(Callee::MEMORY_NODE));
                }
            });
            let call = client.post(3, Callee::MEMORY_NODE, &[7], 8).unwrap();
            let mut out = [0; 8];
            while client.hear(3, &call, &mut out) == Heard::Waits {
                std::thread::yield_now();
            }
            assert_eq!(out[0], 7);
        });
    }

    /// Two clients ring, and the slot of the second one is all that is said.
    #[test]
    fn a_call_that_another_one_has_hidden_is_found() {
        let (daemon, client) = two_ends();
        let mut asked = Vec::new();
        let mut serve_one = || {
            daemon.serve_posted(&mut [0; 2 * CALL_BYTES_MAX], true, |request, _| {
                asked.push(request[0]);
                (0, 0)
            })
        };
        let _ = client.post(9, Callee::MEMORY_NODE, &[1], 8).unwrap();
        let _ = client.post(9, Callee::MEMORY_NODE, &[2], 8).unwrap();
        assert_eq!([serve_one(), serve_one(), serve_one()], [1, 1, 0]);
        assert_eq!(asked, [2, 1]);
    }

    #[test]
    fn calls_of_compute_nodes_are_taken_by_those_only() {
        let (daemon, owner) = two_ends();
        let client = CallArea::attach(daemon.fd().try_clone().unwrap()).unwrap();
        let callee = Callee::compute_node(3, 7);
        assert!(!client.is_served(callee) && client.is_served(Callee::MEMORY_NODE));
        owner.begin_serving(RowId(3), 20);
        owner.begin_serving(RowId(3), 20);
        owner.end_serving(RowId(3), 20);
        assert!(client.is_served(callee));
        let mut buffer = [0; CALL_BYTES_MAX];
        let call = client.post(9, callee, &[5, 6], 8).unwrap();
        assert_eq!(serve(&daemon), 0);
        assert!(owner.take(Callee::compute_node(3, 8), &mut buffer).is_none(), "of another index");
        assert!(owner.has_posted(callee) && !owner.has_posted(Callee::MEMORY_NODE) && client.is_posted(9, &call));
        let taken = owner.take(callee, &mut buffer).unwrap();
        assert_eq!((taken.request(&buffer), taken.answer_bytes), (Some(&[5, 6][..]), 8));
        assert!(!client.is_posted(9, &call));
        owner.answer(&taken, &[1, 2, 3], 0, 44);
        let mut out = [0; 8];
        assert_eq!(client.hear(9, &call, &mut out), Heard::Answer(CallAnswer::new(3, 0, 44)));
        assert_eq!(daemon.taken(), 0);
        owner.end_serving(RowId(3), 20);
        assert!(!client.is_served(callee));
    }

    #[test]
    fn a_compute_node_that_dies_leaves_no_call_and_no_slot_behind() {
        let (daemon, owner) = two_ends();
        let client = CallArea::attach(daemon.fd().try_clone().unwrap()).unwrap();
        let (callee, mut buffer, mut out) = (Callee::compute_node(3, 7), [0; CALL_BYTES_MAX], [0; 8]);
        owner.begin_serving(RowId(3), 20);
        let waiting = client.post(9, callee, &[1], 8).unwrap();
        let served = owner.take(callee, &mut buffer);
        let given_up = client.post(9, callee, &[2], 8).unwrap();
        let left = owner.take(callee, &mut buffer);
        assert!(served.is_some() && left.is_some() && !client.give_up(9, &given_up));
        let unserved = client.post(9, callee, &[3], 8).unwrap();
        daemon.release(20);
        assert!(!client.is_served(callee));
        assert_eq!(client.hear(9, &waiting, &mut out), Heard::Answer(CallAnswer::new(0, 0, 0)), "nothing");
        assert_eq!(client.hear(9, &unserved, &mut out), Heard::Waits);
        assert!(client.give_up(9, &unserved));
        assert_eq!(daemon.taken(), 0);
        // The caller dies first.
        owner.begin_serving(RowId(3), 21);
        let _call = client.post(9, callee, &[1], 8).unwrap();
        let taken = owner.take(callee, &mut buffer).unwrap();
        daemon.release(9);
        assert_eq!(daemon.taken(), 1, "it is being served");
        owner.answer(&taken, &[1], 0, 0);
        assert_eq!(daemon.taken(), 0);
    }
}
