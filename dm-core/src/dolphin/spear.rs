//! Spear: the word with which shared writers of a leaf keep structure changes away, and the reverse.
//!
//! ```text
//!  63      62..60 59 58                    5  4   3  2   1  0
//! ┌───────┬──────┬─────┬─────────────────┬─────┬─────┬─────┐
//! │RETIRED│ 0    │ 29  │ ...             │  2  │  1  │  0  │   two bits a seat
//! └───────┴──────┴─────┴─────────────────┴─────┴─────┴─────┘   0 = out, 1 = inside, 2 = closing
//! ```
//!
//! Marlin's and Dolphin's word counts. A count does not say who died, so a death inside freezes the leaf for ever. Here
//! each compute node has a *seat*: a field of its own. A compute node changes its own field only, by FAA, and a repair
//! after a death is a CAS of the whole word.
//!
//! | step | request | what the word before it decides |
//! |---|---|---|
//! | enter | FAA [`Seat::enter`], then READ, in one chain | [`judge_enter`] |
//! | leave | data WRITE, then FAA [`Seat::leave`] | nothing |
//! | close | FAA [`Seat::close`], then READ, in one chain | [`judge_close`] |
//! | wait for those inside | READ the word, again and again | [`judge_wait`]; then READ the leaf anew |
//! | open | FAA [`Seat::open`] | nothing |
//! | retire and open | FAA [`Seat::retire`] | nothing |
//! | settle a failed queue pair, once it is closed | READ the word | [`settle`] |
//! | repair after a death, once it is fenced | READ the word | [`repair`]; CAS |
//! | birth of the place's next leaf | CAS from [`Spear::RETIRED`] to 0 | [`Spear::birth`], if the CAS lost |
//!
//! **Why no addition carries.** A field is 0, 1 or 2. A compute node adds 1 or 2 only to a field that is 0, and
//! subtracts only what it has added. So a field never reaches 4 and never falls below 0. This needs three rules of the
//! caller. The lanes of a compute node share its seat through the local table: one of them adds and one subtracts. A
//! request whose completion was lost is settled before the seat is used again. A dead compute node's field is cleared
//! only after it was fenced, so that none of its additions can arrive later.
//!
//! **Who is exclusive.** The closer that finds no other closer, as soon as nobody is inside. Additions to one word have
//! an order. Of several closers the first one after a word without closers keeps its field, the others subtract theirs.
//! Others' fields that say "closing" do not matter to it: they will be subtracted. Those that enter behind it find a
//! closer and subtract theirs, too; the closer waits for them, because it cannot tell them from those that were granted
//! entry.
//!
//! **Which image is final.** A closer that finds nobody inside READ its image behind its addition, when nobody wrote.
//! One that had to wait may have READ before the last writer's WRITE, so it READs anew.
//!
//! **Why a repair only clears.** The FAA that retires a leaf publishes its structure change and gives up the seat, both
//! at once. So the field of a dead compute node says that nothing of a change is published. "Inside" may have WRITTEN
//! values of present keys, each of which is there or not. "Closing" may have bound a key whose value is still absent.
//! Neither is half a change, and there is nothing to undo or to roll forward.

use crate::layout::fields::Field;
use crate::mutants::{Mutant, planted};
use crate::remote::lock_word::RowId;
use thiserror::Error;

/// Seats of a word.
pub const SEATS: u8 = 30;

/// More compute nodes than seats want to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "row {}: the lock word of a leaf has seats for the compute nodes of rows 1 to {SEATS} only, one for each that writes; let one of these leave first",
    row.0
)]
pub struct NoSeat {
    /// The row that has no seat.
    pub row: RowId,
}

/// The seat of a compute node: the number of its field, which is that of its row, less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(u8);

/// What a field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Its compute node is neither inside nor closing.
    Out,
    /// Lanes of its compute node are inside.
    Inside,
    /// A lane of its compute node closes the leaf, or has closed it, or is about to back off.
    Closing,
    /// No compute node writes that.
    Broken,
}

const FIELD_BITS: u32 = 2;
const FIELD_MASK: u64 = (1 << FIELD_BITS) - 1;
const INSIDE: u64 = 1;
const CLOSING: u64 = 2;
/// All seats' fields.
const SEATS_MASK: u64 = (1 << (FIELD_BITS * SEATS as u32)) - 1;
/// The low bit of every field.
const LOW_BITS: u64 = SEATS_MASK / FIELD_MASK;

impl Seat {
    /// Seat `number`, below [`SEATS`].
    #[inline]
    pub const fn new(number: u8) -> Result<Self, NoSeat> {
        if number < SEATS { Ok(Self(number)) } else { Err(NoSeat { row: RowId(number as u16 + 1) }) }
    }

    /// The seat of the compute node that has `row`. Row 0 is nobody's.
    #[inline]
    pub fn of_row(row: RowId) -> Result<Self, NoSeat> {
        if planted(Mutant::SEATS_SHARED) && row.0 > 4 {
            return Self::of_row(RowId(row.0 - 4));
        }
        if row.0 > 0 && row.0 <= SEATS as u16 { Ok(Self(row.0 as u8 - 1)) } else { Err(NoSeat { row }) }
    }

    /// The row of its compute node.
    #[inline]
    pub const fn row(self) -> RowId {
        RowId(self.0 as u16 + 1)
    }

    /// Its number.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }

    const fn shift(self) -> u32 {
        self.0 as u32 * FIELD_BITS
    }

    const fn mask(self) -> u64 {
        FIELD_MASK << self.shift()
    }

    /// What is added to enter.
    #[inline]
    pub const fn enter(self) -> u64 {
        INSIDE << self.shift()
    }

    /// What is added to leave.
    #[inline]
    pub const fn leave(self) -> u64 {
        self.enter().wrapping_neg()
    }

    /// What is added to close.
    #[inline]
    pub const fn close(self) -> u64 {
        CLOSING << self.shift()
    }

    /// What is added to open what this seat has closed, or to back off.
    #[inline]
    pub const fn open(self) -> u64 {
        self.close().wrapping_neg()
    }

    /// What is added to retire the leaf that this seat has closed, and to open it. A leaf is retired once, so bit 63 is
    /// 0 before.
    #[inline]
    pub const fn retire(self) -> u64 {
        Spear::RETIRED.wrapping_add(self.open())
    }
}

/// A Spear word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Spear(pub u64);

impl Spear {
    /// Nobody is inside, nobody closes, and the leaf lives.
    pub const FREE: Self = Self(0);

    /// The leaf has left the tree.
    pub const RETIRED: u64 = 1 << 63;

    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 2, "seat 0", "0: out, 1: inside, 2: closing; the seat of one compute node"),
        Field::bits(0, 2, 58, "seats 1..29", "two bits each, likewise"),
        Field::bits(0, 60, 3, "reserved", "0"),
        Field::bits(0, 63, 1, "retired", "1: the leaf has left the tree; set once in a leaf's life"),
    ];

    /// Whether the leaf has left the tree.
    #[inline]
    pub const fn is_retired(self) -> bool {
        self.0 & Self::RETIRED != 0
    }

    /// What `seat` says.
    #[inline]
    pub const fn field(self, seat: Seat) -> Presence {
        match self.0 >> seat.shift() & FIELD_MASK {
            0 => Presence::Out,
            INSIDE => Presence::Inside,
            CLOSING => Presence::Closing,
            _ => Presence::Broken,
        }
    }

    /// The word with `seat` out.
    #[inline]
    #[must_use]
    pub const fn without(self, seat: Seat) -> Self {
        Self(self.0 & !seat.mask())
    }

    /// Whether a seat other than `seat` is closing.
    #[inline]
    pub const fn others_close(self, seat: Seat) -> bool {
        self.without(seat).0 >> 1 & LOW_BITS != 0
    }

    /// Whether a seat other than `seat` is inside.
    #[inline]
    pub const fn others_inside(self, seat: Seat) -> bool {
        self.without(seat).0 & LOW_BITS != 0
    }

    /// Whether some writer can have made this word: unknown bits are 0, and no field is broken.
    #[inline]
    pub const fn is_sound(self) -> bool {
        self.0 & !(SEATS_MASK | Self::RETIRED) == 0 && self.0 & (self.0 >> 1) & LOW_BITS == 0
    }

    /// The seats that are not out, and what they say. A waiter looks at the rows of these compute nodes.
    pub fn taken(self) -> impl Iterator<Item = (Seat, Presence)> {
        let seats = (0..SEATS).map(Seat).map(move |seat| (seat, self.field(seat)));
        seats.filter(|(_, field)| *field != Presence::Out)
    }

    /// What a CAS that makes the word of a place's next leaf [`Spear::FREE`] has to expect, after one that lost against
    /// `found`; `None`: the word is free already.
    ///
    /// No living lane has a share in `found`. A place is given to its next leaf when every operation has ended that
    /// knew the last one, and an operation ends when nothing that it posted can take effect any more. So the word says
    /// RETIRED, or 0 if its leaf was never published, and beside it only fields of compute nodes that died.
    #[inline]
    #[must_use]
    pub const fn birth(found: Self) -> Option<Self> {
        if found.0 == Self::FREE.0 { None } else { Some(found) }
    }
}

/// Whether a shared writer may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It is inside, until it leaves.
    Granted,
    /// Another compute node closes the leaf: subtract, await that, back off.
    Closed,
    /// The leaf has left the tree: subtract, await that, find the leaf anew.
    Retired,
    /// The own field was taken, or no writer makes such a word. Nothing may be subtracted on this ground: the operation
    /// ends with an error, and the seat is settled.
    Unsound,
}

/// Judges the word that the FAA of [`Seat::enter`] found.
#[inline]
pub fn judge_enter(found: Spear, seat: Seat) -> Entered {
    if !found.is_sound() || !matches!(found.field(seat), Presence::Out) {
        Entered::Unsound
    } else if found.is_retired() {
        Entered::Retired
    } else if found.others_close(seat) && !planted(Mutant::CLOSER_IGNORED) {
        Entered::Closed
    } else {
        Entered::Granted
    }
}

/// Whether a closer may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It is exclusive, and the image that was READ behind the FAA is final.
    Exclusive,
    /// It is the closer; some are inside. READ the word until [`judge_wait`] lets it go on.
    Wait,
    /// Another closer came first: subtract, await that, back off.
    BackOff,
    /// The leaf has left the tree: subtract, await that, find the leaf anew.
    Retired,
    /// As [`Entered::Unsound`].
    Unsound,
}

/// Judges the word that the FAA of [`Seat::close`] found.
#[inline]
pub const fn judge_close(found: Spear, seat: Seat) -> Closed {
    if !found.is_sound() || !matches!(found.field(seat), Presence::Out) {
        Closed::Unsound
    } else if found.is_retired() {
        Closed::Retired
    } else if found.others_close(seat) {
        Closed::BackOff
    } else if found.others_inside(seat) {
        Closed::Wait
    } else {
        Closed::Exclusive
    }
}

/// Whether a closer's wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Nobody is inside any more: it is exclusive. The image has to be READ anew.
    Drained,
    /// Some are still inside, or about to leave again.
    Wait,
    /// The own field does not say "closing" any more: this compute node was taken for dead.
    Fenced,
    /// As [`Entered::Unsound`].
    Unsound,
}

/// Judges a word that was READ by the closer of `seat`.
#[inline]
pub const fn judge_wait(word: Spear, seat: Seat) -> Waited {
    if !word.is_sound() {
        Waited::Unsound
    } else if !matches!(word.field(seat), Presence::Closing) {
        Waited::Fenced
    } else if word.others_inside(seat) {
        Waited::Wait
    } else {
        Waited::Drained
    }
}

/// What is left to do for a seat whose last request may or may not have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing: the field is out.
    Out,
    /// Add this, await it: no lane of this compute node is inside any more.
    Leave(u64),
    /// The field says "closing", so the leaf is not retired: add this, await it.
    Open(u64),
    /// No writer makes such a word.
    Unsound,
}

/// Judges the own field, in a word that was READ after the failed queue pair was closed at the memory node.
#[inline]
pub const fn settle(word: Spear, seat: Seat) -> Settled {
    match word.field(seat) {
        Presence::Out => Settled::Out,
        Presence::Inside => Settled::Leave(seat.leave()),
        Presence::Closing => Settled::Open(seat.open()),
        Presence::Broken => Settled::Unsound,
    }
}

/// What a waiter does about the seat of a compute node that was fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nothing: the field is out.
    Nothing,
    /// CAS of the word to this one. If the CAS loses, READ the word again.
    Clear(Spear),
    /// No writer makes such a word.
    Unsound,
}

/// Judges the field of `dead`, whose compute node must have been fenced before `word` was READ: otherwise its additions
/// may still arrive, and carry. Any number of lanes may repair at once, and each may die at any step.
#[inline]
pub const fn repair(word: Spear, dead: Seat) -> Repair {
    if matches!(word.field(dead), Presence::Out) {
        Repair::Nothing
    } else if word.is_sound() {
        Repair::Clear(word.without(dead))
    } else {
        Repair::Unsound
    }
}

#[cfg(test)]
mod tests;
