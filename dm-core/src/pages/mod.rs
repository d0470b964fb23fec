//! The page store: copies of the leaves that this compute node owns, changed here first and written back later.
//!
//! DEX (section 5) keeps hot leaves dirty on the compute node, under local locks. A hot operation posts no verb at all.
//! Inner nodes are not here: they stay clean, in the index cache ([`crate::compute::cache`]). The store knows neither
//! what a page means nor who owns it. It promises that a change is lost neither by a flush nor by an eviction, and that
//! a page has at most one copy.
//!
//! One store serves all lanes of all threads of a compute node, in storage that the host provides.
//!
//! # The states of a page
//!
//! ```text
//!              find: Mine           admit             change             stage
//!   (absent) ─────────────► filling ──────► clean ─────────────► dirty ─────────► flushing ──┐
//!     ▲  ▲                     │             │ ▲                   ▲                 │       │
//!     │  └────── release ──────┘             │ └── flushed, ok ────┼─────────────────┘       │
//!     └───────────────── evict ──────────────┘                     └── flushed, failed, or ──┘
//!                                                                      changed meanwhile
//! ```
//!
//! A clean, dirty or flushing page can also be *frozen* by one lane, for a split or a merge. Reads go on, changes and
//! flushes by other lanes are refused, and it is not evicted.
//!
//! | call | what it does | verbs that the caller posts |
//! |---|---|---|
//! | [`find`](PageStore::find) | finds the frame of a page, or makes the lane its filler, or lets the lane wait for the filler | hit: none |
//! | [`admit`](PageStore::admit), [`release`](PageStore::release) | ends a fill, with the page or without it | one READ before |
//! | [`read`](PageStore::read), [`copy`](PageStore::copy) | looks at a page, without a lock | none |
//! | [`change`](PageStore::change) | changes a page, under the frame's latch | none |
//! | [`stage`](PageStore::stage), [`flushed`](PageStore::flushed) | copies a dirty page out for its WRITE, and ends the flush | the WRITE between |
//! | [`freeze`](PageStore::freeze), [`thaw`](PageStore::thaw) | reserves a page for a structure change | those of the change |
//! | [`discard`](PageStore::discard), [`renew`](PageStore::renew) | ends a structure change: the page is gone, or has another image in the pool | none |
//!
//! # The rules, and the races that they close
//!
//! - **A page leaves the table only clean.** Eviction takes the frame's latch and looks again. So no change can come
//!   between the look and the eviction, and a page whose WRITE is under way stays until the WRITE has completed. The
//!   next READ of the page, over any queue pair, finds what was written.
//! - **A changed page is in the dirty list before its log record has a number.** The record is assigned inside
//!   [`Page::record`], behind the insertion. A record that is durable is therefore never missing from
//!   [`oldest_unflushed`](PageStore::oldest_unflushed), if the caller asked how far the log is durable *before* it calls
//!   this.
//! - **A flush takes a copy, and the list of flushing pages has its LSN until the WRITE has completed.** Changes go on
//!   meanwhile. The first of them puts the page back into the dirty list, with its own LSN, so the end of the flush does
//!   not hide it.
//! - **One fill per page.** The filler's entry is in the table. A lane that is not admitted (or has no frame) keeps its
//!   entry until it has READ, changed and WRITTEN the page, so nobody has a copy meanwhile.
//! - **A name is a frame's index and its generation.** The generation rises when the page leaves. A lane with an old
//!   name is refused ([`Refused::Moved`]) and looks again; nothing is pinned.
//! - **What a lane owes is in the storage, by lane**: fills, flushes, frozen pages, its place among the waiters.
//!   Dropping a future drops nothing of it; [`settle`](PageStore::settle) pays.
//!
//! [`page_store`](crate::manual::page_store) has the arguments.
//!
//! # Latches
//!
//! A latch is a bit of a word. A lane tries [`LATCH_TRIES`] times and then reports [`Refused::Busy`]: it yields and
//! asks again. No latch is held across an await, since changes are closures. They are taken in this order, and never
//! two of one row:
//!
//! 1. chain of the table (`table`);
//! 2. frame (`frame`);
//! 3. dirty lists (`dirty`), free list (`storage`), or one FIFO of the cooling map (`cooling`).
//!
//! # Differences from the paper
//!
//! - No pointer swizzling, and frames have no parents: inner nodes are elsewhere. So path-aware cooling is not needed.
//! - A page that is to be cooled while dirty is named to the lane that flushes, and cools when the flush is done. The
//!   published code WRITEs it at once, under two locks.
//! - A lane that meets a fill parks and is woken. The published code descends again from the root until it is done.
//! - A hit gives a cooling page its second chance with one store. Its slot in the map is void from then on, and a lane that
//!   meets the slot drops it.
//! - A page is not admitted, too, if no frame can be had: the operation goes on without one.
//! - If sampling finds no victim, a hand goes round, so a small store gives up a page while it has a clean one. The
//!   published code ends the process after a thousand samples.
//!
//! # Limits
//!
//! A generation and a sequence number are 32 bits and may come round. Lanes that wait for a page that is not admitted
//! do its work one after another, each with its own READ.

mod admission;
mod change;
mod cooling;
mod departures;
mod dirty;
mod fill;
mod frame;
mod freeze;
mod latch;
pub mod lsn;
pub(crate) mod marks;
pub mod mutants;
mod record;
mod settle;
mod slot;
mod storage;
mod table;
#[cfg(test)]
mod tests;

pub use admission::{Admission, Admit};
pub use change::{Page, Writing};
pub use cooling::{COOLED_PER_MISS, Cooling, FIFO_SLOTS, SWEEP_FRAMES};
pub use dirty::{Flush, STAGE_WALK, Staged};
pub use fill::{Fill, Found};
pub use frame::{Image, READ_TRIES};
pub use freeze::{FROZEN_PER_LANE, Frozen};
pub use latch::LATCH_TRIES;
pub use lsn::Lsn;
pub use record::Counts;
pub use settle::Acquired;
pub use storage::{BadStore, FILLS_MAX, FRAMES_PER_LANE_MIN, PageStore, Shape};

use crate::marks::Mark;
use thiserror::Error;

/// Marks of this room.
pub const MARKS: &[Mark] = marks::DECLARED;

/// The name of a page's copy: the frame, and how many copies it has had. It stays valid until the page leaves the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameName {
    pub(in crate::pages) index: u32,
    pub(in crate::pages) generation: u32,
}

/// Why the store did not do what it was asked. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// A latch is taken, or the page is being written, for longer than usual. The caller yields and asks again.
    #[error("another lane is at work on this page or its list; yield and ask again")]
    Busy,
    /// The frame has another page by now, or none. The caller looks for the page again.
    #[error("the page has left its frame; find it again")]
    Moved,
    /// Another lane has frozen the page. [`PageStore::wait_for`] waits until it is thawed.
    #[error("another lane has frozen the page for a structure change")]
    Frozen,
    /// A WRITE of the page is under way. [`PageStore::wait_for`] waits until it has completed.
    #[error("a WRITE of the page is under way")]
    Flushing,
    /// The page has changes that are not flushed.
    #[error("the page has changes that are not flushed")]
    Dirty,
    /// The page has no changes to flush.
    #[error("the page has no changes to flush")]
    Clean,
    /// The check of the tenure failed, under the frame's latch.
    #[error("the compute node does not own the page any more")]
    NoTenure,
    /// The lane has frozen [`FROZEN_PER_LANE`] pages already.
    #[error("the lane has frozen {FROZEN_PER_LANE} pages already")]
    TooManyFrozen,
    /// The buffer does not have the length of a page.
    #[error("the buffer does not have the length of a page")]
    WrongLength,
    /// The lane's mailbox has no room for a wake. The caller submits what is in it, and asks again.
    #[error("the lane's mailbox is full; submit and ask again")]
    MailboxFull,
    /// The store was not made for so many lanes.
    #[error("the store has no record of this lane")]
    UnknownLane,
}

/// A state of a page, for inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// A lane READs the page, or works on it without a frame.
    Filling,
    /// The page is as in the pool.
    Clean,
    /// The page has changes that are not flushed, and no flush is under way.
    Dirty,
    /// A flush is under way.
    Flushing,
    /// A lane has reserved the page for a structure change.
    Frozen,
}
