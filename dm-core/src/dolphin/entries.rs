//! The local half of the Spear lock: how the lanes of a compute node share its one seat in a leaf.
//!
//! A field of a Spear word does not count: it says that *some* lane of its compute node is inside, or that one closes.
//! So the lanes meet here first. One of them adds, others join without a request, and the last one subtracts. An entry
//! is for one leaf at a time; other leaves of the same entry wait. An operation has one entry at a time.
//!
//! ```text
//!          enter, close            granted entry              the last one leaves            field is out
//!  nobody ─────────────► alone ──────────────────► shared ───────────────────────► alone ─────────────► nobody
//!                          │                       others join and leave, and
//!                          │                       send nothing for the seat
//!                          └─ opened, retired, backed off; or a look found a closer ─► nobody
//! ```
//!
//! | a lane that wants to | asks | then |
//! |---|---|---|
//! | change values, beside others | [`Entries::enter`] | `Add`: FAA [`Seat::enter`] and READ of the leaf, [`Entries::entered`]; `Join`: READ only |
//! | ... has joined, and READ the leaf | [`Entries::saw`] | |
//! | ... and is about to WRITE | [`Entries::leaves`] | `Last`: WRITE and FAA [`Seat::leave`], [`Entries::out`]; `Others`: WRITE, [`Entries::left`] |
//! | change the leaf alone | [`Entries::close`] | `Add`: FAA [`Seat::close`] and READ of the leaf, [`Entries::closed`] |
//! | ... and waits for those inside | | READ of the word, [`Entries::drained`]; at last READ of the leaf |
//! | ... and is done, or backs off | | FAA [`Seat::open`] or [`Seat::retire`], [`Entries::out`] |
//! | (both) and is told `Look` | | READ of the word, [`Entries::looked`] |
//! | (both) and is told `Wait` | | a pause, and again from the beginning; no order among those who wait |
//! | settle | [`Entries::abandon`] | `Some`: READ of the word, [`Entries::settled`], what that says, [`Entries::out`] |
//!
//! # Why it is right
//!
//! - **One addition at a time.** Only the lane that has the entry alone adds or subtracts. An entry gets free when that
//!   request has completed. So the next addition finds the own field out, whatever queue pair it takes.
//! - **Lanes that join are covered.** An entry is shared only after the completion of an addition that was granted. So
//!   a lane that joins READs behind this addition. The subtraction comes when one lane is left, and the WRITEs of all
//!   others have completed. Its own WRITE has completed, or is in front of the subtraction in its chain.
//! - **Lanes do meet.** A lane that enters alone would leave in the chain of its WRITE, and those that came meanwhile
//!   would enter one after the other. So if one has been told to wait for this leaf, the lane keeps the field until its
//!   WRITE has completed; others join in between, and the last of them subtracts. If none comes, that costs a round trip.
//! - **A closer does not wait for long.** At most [`JOINS_MAX`] operations share one addition. None joins once an image
//!   has shown a closer, or a lane wants the entry for something else.
//! - **A compute node adds blindly once.** A lane that finds a closer marks its leaf *shut*. Whoever asks for this leaf
//!   then READs the word instead of adding. Only a READ that shows no other closer takes the mark away. So between two
//!   such READs a closer waits for one addition of this compute node at most. An entry has one mark: if two leaves of
//!   one entry are closed at a time, there may be more additions. They are as right as the first, and only slower.
//! - **Doubt keeps the entry.** What a lane has here is a lock record of the lane, from before its first request until
//!   its field is out, or until others answer for the field. A lane that failed, or whose future was dropped, settles:
//!   when its queue pair is closed, nothing of it is under way. If others are inside, it leaves; their field stays. If
//!   it is alone, the word says what was executed ([`settle`]).
//! - **No circle of waiting.** A lane that is inside waits for nobody. A closer waits for those inside; one that backed
//!   off holds no entry and no field.
//! - **A broken word is not added to.** A word that no writer makes shuts the leaf, too. A lane that looks at it then
//!   ends with *corrupt*.

use crate::dolphin::spear::{Closed, Entered, Presence, Seat, Settled, Spear, Waited, judge_close, judge_enter};
use crate::dolphin::spear::{judge_wait, settle};
use crate::lane::{Lane, LockRecord, Stage};
use crate::marks::Mark;
use crate::membership::Recovery;
use crate::operation::{Cause, OpError};
use crate::remote::address::Address;
use crate::remote::lock_word::LockId;
use spin::{Mutex, MutexGuard};

/// Operations that share one addition. More would keep the closers of other compute nodes out for ever.
pub const JOINS_MAX: u8 = 16;

/// What a lane does next that asked for a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// It has the entry alone: it adds, and READs behind that.
    Add,
    /// It has the entry alone, and READs the word before it adds: [`Entries::looked`].
    Look,
    /// It is inside: it READs the leaf. A lane that wants to close never joins.
    Join,
    /// Others have the entry: it pauses, and asks again.
    Wait,
}

/// What a lane does next that has READ the word of a leaf which was shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// It has the entry alone: it adds, and READs behind that.
    Add,
    /// Another compute node still closes the leaf. The lane has given up the entry: it pauses, looks after those that
    /// are taken for dead, and asks again.
    Wait,
    /// The leaf has left the tree. The lane has given up the entry.
    Retired,
    /// As [`Entered::Unsound`]. The lane still has the entry.
    Unsound,
}

/// Whether a lane that leaves is the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leave {
    /// It has the entry alone: it subtracts.
    Last,
    /// Others are inside, and one of them will subtract.
    Others,
}

/// Who has an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Holder {
    /// Nobody; the field is out.
    #[default]
    Nobody,
    /// One lane, which may have an addition under way.
    Alone,
    /// The field says "inside", and no addition is under way. `inside`: lanes that may have WRITEs under way. `joined`:
    /// lanes since the addition. `ends`: nobody joins any more.
    Shared { inside: u8, joined: u8, ends: bool },
}

/// What an entry says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    /// The place of the holder's leaf.
    leaf: u64,
    holder: Holder,
    /// The place of the leaf that is shut; 0: none. It stays when the entry is used for other leaves.
    shut: u64,
    /// A lane was told to wait that would have shared the leaf. Only a hint.
    hopes: bool,
}

impl State {
    fn ask(&mut self, leaf: u64, shares: bool) -> Ask {
        match &mut self.holder {
            Holder::Nobody => {
                self.hopes &= self.leaf == leaf;
                (self.leaf, self.holder) = (leaf, Holder::Alone);
                if self.shut == leaf { Ask::Look } else { Ask::Add }
            }
            Holder::Alone => {
                self.hopes |= shares && self.leaf == leaf;
                Ask::Wait
            }
            Holder::Shared { inside, joined, ends } => {
                if shares && self.leaf == leaf {
                    if *ends || *joined >= JOINS_MAX {
                        return Ask::Wait;
                    }
                    (*inside, *joined) = (*inside + 1, *joined + 1);
                    return Ask::Join;
                }
                *ends = true;
                Ask::Wait
            }
        }
    }

    fn looked(&mut self, word: Spear, seat: Seat) -> Looked {
        if !word.is_sound() || word.field(seat) != Presence::Out {
            return Looked::Unsound;
        }
        if !word.is_retired() && word.others_close(seat) {
            self.holder = Holder::Nobody;
            return Looked::Wait;
        }
        self.shut = 0;
        if word.is_retired() {
            self.holder = Holder::Nobody;
            return Looked::Retired;
        }
        Looked::Add
    }

    fn entered(&mut self, found: Spear, seat: Seat) -> Entered {
        let entered = judge_enter(found, seat);
        match entered {
            Entered::Granted => self.holder = Holder::Shared { inside: 1, joined: 1, ends: false },
            Entered::Closed | Entered::Unsound => self.shut = self.leaf,
            Entered::Retired => {}
        }
        entered
    }

    fn closed(&mut self, found: Spear, seat: Seat) -> Closed {
        let closed = judge_close(found, seat);
        if matches!(closed, Closed::BackOff | Closed::Unsound) {
            self.shut = self.leaf;
        }
        closed
    }

    fn saw(&mut self, word: Spear, seat: Seat) {
        if word.others_close(seat)
            && let Holder::Shared { ends, .. } = &mut self.holder
        {
            *ends = true;
            self.shut = self.leaf;
        }
    }

    /// A lane that has the entry alone keeps it so.
    fn leaves(&mut self) -> Leave {
        match self.holder {
            Holder::Shared { inside: 2.., .. } => Leave::Others,
            Holder::Shared { ends: false, joined: ..JOINS_MAX, .. } if core::mem::take(&mut self.hopes) => {
                Leave::Others
            }
            _ => {
                self.holder = Holder::Alone;
                Leave::Last
            }
        }
    }

    fn left(&mut self) -> Leave {
        if let Holder::Shared { inside: inside @ 2.., .. } = &mut self.holder {
            *inside -= 1;
            return Leave::Others;
        }
        self.holder = Holder::Alone;
        Leave::Last
    }

    fn settled(&mut self, word: Spear, seat: Seat) -> Settled {
        let settled = settle(word, seat);
        if settled == Settled::Unsound || word.others_close(seat) {
            self.shut = self.leaf;
        }
        settled
    }

    fn out(&mut self) {
        self.holder = Holder::Nobody;
    }
}

/// Storage for [`Entries`].
#[derive(Debug, Default)]
pub struct Entry(Mutex<State>);

/// The local entries of a compute node. A leaf has one; several leaves may share it.
///
/// The methods are critical sections of constant time. Between [`Entries::enter`] or [`Entries::close`], if these do not
/// say [`Ask::Wait`], and the end of the use, the lane has a lock record.
pub struct Entries<'s> {
    table: &'s [Entry],
    seat: Seat,
    recovery: Option<&'s Recovery<'s>>,
}

impl<'s> Entries<'s> {
    /// `table`: some for each lane at least, so that few leaves wait for others. `seat`: the compute node's.
    /// `recovery`: `None` if the index was opened without.
    pub const fn new(table: &'s [Entry], seat: Seat, recovery: Option<&'s Recovery<'s>>) -> Self {
        Self { table, seat, recovery }
    }

    /// This compute node's seat.
    #[inline]
    pub const fn seat(&self) -> Seat {
        self.seat
    }

    /// Asks to change values of `leaf` beside others.
    pub fn enter(&self, lane: &Lane<'_>, leaf: Address) -> Result<Ask, OpError> {
        self.ask(lane, leaf, true)
    }

    /// Asks to change `leaf` alone.
    pub fn close(&self, lane: &Lane<'_>, leaf: Address) -> Result<Ask, OpError> {
        self.ask(lane, leaf, false)
    }

    fn ask(&self, lane: &Lane<'_>, leaf: Address, shares: bool) -> Result<Ask, OpError> {
        self.check_lease(lane)?;
        let Some(mut state) = self.state(leaf) else {
            return Err(OpError::harmless(Cause::BadInput("an index that was opened without local entries")));
        };
        let lock_record = LockRecord { stage: Stage::Posted, ..LockRecord::queued(self.lock_of(leaf), leaf) };
        lane.track(lock_record)?;
        let ask = state.ask(leaf.place(), shares);
        match ask {
            Ask::Add | Ask::Look => self.holding(lane, true),
            Ask::Join => {
                lane.track(LockRecord { stage: Stage::Held, ..lock_record })?;
                self.holding(lane, true);
            }
            Ask::Wait => lane.untrack(lock_record.lock),
        }
        Ok(ask)
    }

    /// Judges the word of a leaf that was shut, which the lane has READ instead of adding.
    pub fn looked(&self, lane: &Lane<'_>, leaf: Address, word: Spear) -> Result<Looked, OpError> {
        let Some(mut state) = self.state(leaf) else { return Ok(Looked::Unsound) };
        let looked = state.looked(word, self.seat);
        match looked {
            Looked::Wait | Looked::Retired => self.forget(lane, leaf),
            Looked::Add => self.check_lease(lane).inspect_err(|_| {
                state.out();
                self.forget(lane, leaf);
            })?,
            Looked::Unsound => {}
        }
        Ok(looked)
    }

    /// Judges the word that the FAA of [`Seat::enter`] found. If the lane is not granted entry, it still has the entry,
    /// subtracts as it is told, and says [`Entries::out`]. If it is, `image`, the word in the image that it has READ
    /// behind the FAA, is noted as [`Entries::saw`] does.
    pub fn entered(&self, lane: &Lane<'_>, leaf: Address, found: Spear, image: Spear) -> Entered {
        let Some(mut state) = self.state(leaf) else { return Entered::Unsound };
        let entered = state.entered(found, self.seat);
        if entered == Entered::Granted {
            state.saw(image, self.seat);
            lane.advance(self.lock_of(leaf), Stage::Held);
        }
        entered
    }

    /// Judges the word that the FAA of [`Seat::close`] found. The lane has the entry until it says [`Entries::out`].
    pub fn closed(&self, lane: &Lane<'_>, leaf: Address, found: Spear) -> Closed {
        let Some(mut state) = self.state(leaf) else { return Closed::Unsound };
        let closed = state.closed(found, self.seat);
        if closed == Closed::Exclusive {
            lane.advance(self.lock_of(leaf), Stage::Held);
        }
        closed
    }

    /// Judges a word that was READ by a closer which waits for those inside. The lane shows the keeper of the heartbeat
    /// that it is not stuck: it may wait for longer than a lease, if one of those inside has died.
    pub fn drained(&self, lane: &Lane<'_>, leaf: Address, word: Spear) -> Waited {
        self.holding(lane, true);
        let waited = judge_wait(word, self.seat);
        if waited == Waited::Drained {
            lane.advance(self.lock_of(leaf), Stage::Held);
        }
        waited
    }

    /// Notes the word in an image of the leaf that a lane which joined has READ. Nobody joins any more if another
    /// compute node is about to close the leaf.
    pub fn saw(&self, leaf: Address, word: Spear) {
        if let Some(mut state) = self.state(leaf) {
            state.saw(word, self.seat);
        }
    }

    /// Whether a lane that is inside, and has one chain of WRITEs to post, subtracts in this chain. If others are inside,
    /// or a lane waits that would join, it does not, and says [`Entries::left`] when the WRITEs have completed. Of lanes
    /// that WRITE at the same time the last one subtracts with a round trip of its own.
    pub fn leaves(&self, leaf: Address) -> Leave {
        self.state(leaf).map_or(Leave::Last, |mut state| state.leaves())
    }

    /// A lane that is inside has no WRITE under way, and will post none. [`Leave::Others`]: it has nothing to do with
    /// the leaf any more. [`Leave::Last`]: it subtracts, and says [`Entries::out`].
    pub fn left(&self, lane: &Lane<'_>, leaf: Address) -> Leave {
        let leave = self.state(leaf).map_or(Leave::Last, |mut state| state.left());
        if leave == Leave::Others {
            self.forget(lane, leaf);
        }
        leave
    }

    /// The lane that has the entry alone knows that the own field is out: its subtraction has completed, or settling
    /// found it so. If the memory node is down, or this compute node was fenced, there is no field any more.
    pub fn out(&self, lane: &Lane<'_>, leaf: Address) {
        if let Some(mut state) = self.state(leaf) {
            state.out();
        }
        self.forget(lane, leaf);
    }

    /// Begins to settle what a failed or dropped operation of this lane has left here, once `Lane::close` has
    /// returned. `None`: nothing, or others are inside and the lane is not any more. `Some`: the lane has the entry of
    /// this leaf alone; it READs the word and asks [`Entries::settled`]. It may be called again.
    pub fn abandon(&self, lane: &Lane<'_>) -> Option<Address> {
        let leaf = lane.lock_records().first()?.protects;
        (self.left(lane, leaf) == Leave::Last).then_some(leaf)
    }

    /// Judges the own field, in a word that was READ to settle. If there is something to add, the lane adds it and
    /// awaits that. Then, and in all other cases, it says [`Entries::out`].
    pub fn settled(&self, leaf: Address, word: Spear) -> Settled {
        self.state(leaf).map_or(Settled::Unsound, |mut state| state.settled(word, self.seat))
    }

    /// Number of entries that somebody has, for tests and inspection.
    pub fn held(&self) -> usize {
        self.table.iter().filter(|entry| entry.0.lock().holder != Holder::Nobody).count()
    }

    /// A multiplicative hash, as [`crate::remote::lock_word::lock_of`], of the memory node, too.
    fn index_of(&self, leaf: Address) -> usize {
        let hash = (leaf.place() >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((hash * self.table.len() as u64) >> 32) as usize
    }

    fn state(&self, leaf: Address) -> Option<MutexGuard<'s, State>> {
        self.table.get(self.index_of(leaf)).map(|entry| entry.0.lock())
    }

    pub(super) fn lock_of(&self, leaf: Address) -> LockId {
        LockId { node: leaf.node(), index: self.index_of(leaf) as u32 | LockId::IN_NODE }
    }

    /// A lane adds only while the lease of its compute node allows WRITEs.
    pub(super) fn check_lease(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        if self.recovery.is_some_and(|recovery| !recovery.lease.may_write()) {
            lane.mark(Mark::SELF_FENCED);
            return Err(OpError::harmless(Cause::Fenced));
        }
        Ok(())
    }

    /// The heartbeat must not vouch for a lane that is stuck with the seat.
    fn holding(&self, lane: &Lane<'_>, holds: bool) {
        if let Some(recovery) = self.recovery {
            recovery.holding(lane, holds);
        }
    }

    fn forget(&self, lane: &Lane<'_>, leaf: Address) {
        lane.untrack(self.lock_of(leaf));
        self.holding(lane, false);
    }
}

#[cfg(test)]
mod tests;
