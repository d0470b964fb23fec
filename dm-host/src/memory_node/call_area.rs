//! Where calls lie on shared memory: slots that a memory node's daemon and its clients have mapped.
//!
//! ```text
//!  0        64            4096                          4096 + n * 4160
//! ┌────────┬─────────────┬────────────────────────────┬──
//! │ bell   │ threads     │ state │ bytes │ answer │ 4096 bytes: the request, then its answer │ next slot ...
//! │ u32    │ asleep, u64 │ u64   │ u64   │ u64    │
//! └────────┴─────────────┴────────────────────────────┴──
//!
//!            client                                  daemon's thread
//!  Free ───────────────► Claimed ─────► Posted ────────────────────► Serving
//!    ▲                       (request)    │ withdrawn                   │        │ caller gave up
//!    ├────────────────────────────────────┘                             ▼        ▼
//!    └───────────────── the client has taken the answer ───────────── Answered  Left ──► Free
//! ```
//!
//! The state word names the connection that has the slot, and changes by CAS or in the hands of one side only. So a client
//! that gives up leaves nothing behind that a later call could take for its own: a call that nobody serves yet is withdrawn,
//! and one that is being served is freed by the thread that serves it. What a process that died had claimed is freed when the
//! daemon learns of its end. There are [`SLOTS`] calls at a time; a client that finds no free slot goes without.
//!
//! **Waking.** A thread that finds nothing for a while counts itself as asleep, looks once more, and waits for the bell to
//! change. A client posts, changes the bell, and wakes a thread if one is asleep. Both orders are `SeqCst`, so either the
//! thread sees the call, or the client sees the thread.
//!
//! The bytes are accessed like those of a region ([`Area`]): as atomics, never through references. A peer may write anything
//! at any time; lengths are bounded after they are loaded, and the walk judges what it reads.

use crate::region::lines::{Area, WriterSlot};
use dm_core::verbs::{CALL_BYTES_MAX, CallAnswer};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::thread::futex;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Calls at a time, of all clients of a memory node.
pub const SLOTS: u32 = 64;

const BELL_AT: u64 = 0;
const ASLEEP_AT: u64 = 64;
const SLOTS_AT: u64 = 4096;
const HEADER_BYTES: u64 = 64;
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

/// What became of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing yet.
    Waits,
    /// It was answered; the bytes are in the buffer.
    Answer(CallAnswer),
}

impl CallArea {
    /// New slots, all free.
    pub(super) fn create() -> io::Result<Self> {
        let fd = memfd_create("dm-memd-calls", MemfdFlags::CLOEXEC)?;
        ftruncate(&fd, AREA_BYTES)?;
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

    /// The bell. No area is asked for its word.
    fn bell(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, aligned (a page begins at `BELL_AT`), alive as long as `self`; this process and others
        // access these four bytes as an `AtomicU32` only.
        unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().wrapping_add(BELL_AT as usize).cast()) }
    }

    fn asleep(&self) -> &AtomicU64 {
        // SAFETY: inside the mapping, aligned, alive as long as `self`; accessed as an `AtomicU64` only.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().wrapping_add(ASLEEP_AT as usize).cast()) }
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
    pub(crate) fn post(&self, owner: u32, request: &[u8], answer_bytes: usize) -> Option<Called> {
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
        self.store(at + 8, request.len() as u64 | (answer_bytes as u64) << 32);
        if !self.change(slot, claimed, word(owner, State::Posted)) {
            return None;
        }
        fence(Ordering::SeqCst);
        self.bell().fetch_add(1, Ordering::SeqCst);
        if self.asleep().load(Ordering::SeqCst) > 0 {
            // Without a thread that waits, nobody is woken.
            let _ = futex::wake(self.bell(), futex::Flags::empty(), 1);
        }
        Some(Called(slot))
    }

    /// Looks for the answer, and copies it to `out`. If there is one, the slot is free afterwards.
    pub(crate) fn hear(&self, owner: u32, call: &Called, out: &mut [u8]) -> Heard {
        let at = Self::slot_at(call.0);
        if self.load(at) != word(owner, State::Answered) {
            return Heard::Waits;
        }
        let answer = CallAnswer(self.load(at + 16));
        let bytes = answer.bytes().min(out.len());
        if let Some(out) = out.get_mut(..bytes) {
            let _ = self.area().read(at + HEADER_BYTES, out);
        }
        self.store(at, FREE);
        Heard::Answer(CallAnswer::new(bytes, answer.queued(), answer.service_ns()))
    }

    /// Gives a call up. It may still be executed, if it is being executed now.
    pub(crate) fn give_up(&self, owner: u32, call: &Called) {
        let slot = call.0;
        let left = self.change(slot, word(owner, State::Posted), FREE)
            || self.change(slot, word(owner, State::Serving), word(owner, State::Left));
        if !left && self.load(Self::slot_at(slot)) == word(owner, State::Answered) {
            self.store(Self::slot_at(slot), FREE);
        }
    }

    // ---- the daemon's side -------------------------------------------------------------------------------------

    /// Serves the calls that wait. `serve(request, answer)` writes an answer, and returns its length and for how long it has
    /// worked, in ns. Returns how many calls there were.
    pub(super) fn serve_posted(
        &self,
        buffer: &mut [u8],
        mut serve: impl FnMut(&[u8], &mut [u8]) -> (usize, u32),
    ) -> u32 {
        let mut served = 0;
        for slot in 0..SLOTS {
            let at = Self::slot_at(slot);
            let posted = self.load(at);
            let (owner, state) = ((posted >> 32) as u32, posted as u8);
            let serving = word(owner, State::Serving);
            if state != State::Posted as u8 || !self.change(slot, posted, serving) {
                continue;
            }
            let lengths = self.load(at + 8);
            let request_bytes = (lengths as u32 as usize).min(CALL_BYTES_MAX);
            let answer_bytes = ((lengths >> 32) as usize).min(CALL_BYTES_MAX);
            let Some((request, answer)) = buffer.split_at_mut_checked(CALL_BYTES_MAX) else { return served };
            let (Some(request), Some(answer)) = (request.get_mut(..request_bytes), answer.get_mut(..answer_bytes))
            else {
                return served;
            };
            let _ = self.area().read(at + HEADER_BYTES, request);
            let (bytes, service_ns) = serve(request, answer);
            let _ =
                self.area().write(WriterSlot::FORMATTER, at + HEADER_BYTES, answer.get(..bytes).unwrap_or_default());
            self.store(at + 16, CallAnswer::new(bytes, served as u16, service_ns).0);
            if !self.change(slot, serving, word(owner, State::Answered)) {
                // Its caller gave up, or is gone.
                self.store(at, FREE);
            }
            served += 1;
        }
        served
    }

    /// Sleeps until a client rings, at most for `longest`, unless `is_busy` says that there is work by now.
    pub(super) fn sleep(&self, longest: Duration, is_busy: impl FnOnce() -> bool) {
        let heard = self.bell().load(Ordering::SeqCst);
        self.asleep().fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !is_busy() {
            let timeout =
                futex::Timespec { tv_sec: longest.as_secs().cast_signed(), tv_nsec: longest.subsec_nanos().into() };
            // It was woken, it was interrupted, the bell has rung before, or the time is over: the caller looks in any case.
            let _ = futex::wait(self.bell(), futex::Flags::empty(), heard, Some(&timeout));
        }
        self.asleep().fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a call waits.
    pub(super) fn has_posted(&self) -> bool {
        (0..SLOTS).any(|slot| self.load(Self::slot_at(slot)) as u8 == State::Posted as u8)
    }

    /// Wakes all threads.
    pub(super) fn ring(&self) {
        self.bell().fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(self.bell(), futex::Flags::empty(), i32::MAX.cast_unsigned());
    }

    /// Frees the slots of a connection that has ended.
    pub(super) fn release(&self, owner: u32) {
        for slot in 0..SLOTS {
            for state in [State::Claimed, State::Posted, State::Answered] {
                let _ = self.change(slot, word(owner, state), FREE);
            }
            if self.change(slot, word(owner, State::Serving), word(owner, State::Left)) {
                continue;
            }
            // It was answered in between.
            let _ = self.change(slot, word(owner, State::Answered), FREE);
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
        daemon.serve_posted(&mut [0; 2 * CALL_BYTES_MAX], |request, answer| {
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
            let call = client.post(9, &[round, 2, 3], 64).unwrap();
            assert_eq!(client.hear(9, &call, &mut out), Heard::Waits);
            assert_eq!((serve(&daemon), serve(&daemon)), (1, 0));
            assert_eq!(client.hear(8, &call, &mut out), Heard::Waits, "another connection's");
            assert_eq!(client.hear(9, &call, &mut out), Heard::Answer(CallAnswer::new(3, 0, 70)));
            assert_eq!((&out[..3], daemon.taken()), (&[3, 2, round][..], 0));
        }
        assert_eq!(client.post(9, &[0; CALL_BYTES_MAX + 1], 64), None);
        assert_eq!(client.post(9, &[0; 8], CALL_BYTES_MAX + 1), None);
    }

    #[test]
    fn a_call_that_is_given_up_leaves_no_slot_behind() {
        let (daemon, client) = two_ends();
        let waiting = client.post(9, &[1], 8).unwrap();
        client.give_up(9, &waiting);
        assert_eq!((serve(&daemon), daemon.taken()), (0, 0), "nobody serves it any more");
        let served = client.post(9, &[1], 8).unwrap();
        let mut gave_up = false;
        daemon.serve_posted(&mut [0; 2 * CALL_BYTES_MAX], |_, _| {
            client.give_up(9, &served);
            gave_up = true;
            (0, 0)
        });
        assert!(gave_up && daemon.taken() == 0, "while it was served");
        let answered = client.post(9, &[1], 8).unwrap();
        serve(&daemon);
        client.give_up(9, &answered);
        assert_eq!(daemon.taken(), 0);
    }

    #[test]
    fn there_are_so_many_calls_at_a_time_and_the_dead_give_theirs_back() {
        let (daemon, client) = two_ends();
        let calls: Vec<Called> = (0..SLOTS).map(|call| client.post(5 + call % 2, &[1], 8).unwrap()).collect();
        assert_eq!(client.post(5, &[1], 8), None);
        daemon.release(5);
        assert_eq!(daemon.taken(), SLOTS as usize / 2);
        daemon.serve_posted(&mut [0; 2 * CALL_BYTES_MAX], |_, _| {
            daemon.release(6);
            (0, 0)
        });
        assert_eq!(daemon.taken(), 0);
        drop(calls);
        assert!(client.post(5, &[1], 8).is_some());
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_by_a_call() {
        let (daemon, client) = two_ends();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while serve(&daemon) == 0 {
                    daemon.sleep(Duration::from_mins(1), || daemon.has_posted());
                }
            });
            let call = client.post(3, &[7], 8).unwrap();
            let mut out = [0; 8];
            while client.hear(3, &call, &mut out) == Heard::Waits {
                std::thread::yield_now();
            }
            assert_eq!(out[0], 7);
        });
    }
}
