//! Parts of the keys that move to another compute node.
//!
//! ```text
//!  anybody            the owner                                                                  the receiver
//!  CAS: DRAINING ───► READs the table now and then: its tenure ends
//!                       ─► fills end ─► each page of the entry: flushed, out of its frame ─► CAS: KEPT ───► CAS: OWNED
//!                          no READ or     its changes are in the pool
//!                          WRITE of a
//!                          fill goes on
//! ```
//!
//! Neither the table nor a page is copied. Pages stay where they are in the pool; the word says which compute node may cache them.
//!
//! **Linearization.** The owner serves the entry until it has noted the DRAINING word, under the epoch of its tenure: it is the
//! only one that writes the entry's leaves until its own CAS. Afterwards an operation that had begun is refused: a change by
//! the tenure, under the frame's latch; a read by the tenure, after it has read; a page that was READ by the count of changes of
//! words, when it is to come into a frame ([`Partition::may_keep`]). A fill that a lane took before the note is awaited.
//! One that is taken after it finds that the entry is not this compute node's.
//!
//! **Splits and merges** that are under way have frozen their leaves, and are awaited; one that has not stamped its leaves
//! yet is refused by the tenure. What comes behind, the parent's link, is a shared node's, and any compute node may do it.
//!
//! **The log.** Records of the entry stay in the owner's ring. Their epoch is below all later ones of the entry. The pages contain
//! what these records say, and have LSNs at least as great. So a replay of this ring skips these records, also after the
//! entry has come back to this compute node.
//!
//! **Deaths.** Of the one that asked: nothing is lost; the owner gives the entry up all the same. Of the owner before its
//! CAS: the entry is recovered from its ring, as an owned one; after it, nothing is left to do. Of the receiver before it
//! has taken the entry: anybody takes it ([`TableSite::take_kept`]), and after a while also if it lives and does not.
//!
//! [`Partition::may_keep`]: crate::dex::ownership::partition::Partition::may_keep
//! [`TableSite::take_kept`]: crate::dex::ownership::steps::TableSite::take_kept

use super::flush::FLUSHED;
use super::own::{Patience, Taking};
use super::{Dex, Owner};
use crate::btree::node;
use crate::dex::flush;
use crate::lane::Lane;
use crate::layout::stripes::Cursor;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::pages::{FrameName, Refused};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::lock_word::RowId;
use crate::verbs::Request;
use core::cell::RefCell;
use core::sync::atomic::Ordering;

/// How long a lane pauses that waits until an owner has given an entry up, in ns.
const AWAIT_NS: u64 = 100_000;

impl Dex<'_> {
    /// READs the table, gives up every entry that is asked for, takes every entry that is kept for this compute node, and says
    /// now and then how many operations come for its entries.
    pub(super) async fn keep_entries(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let Some(opened) = self.opened.get() else { return Ok(()) };
        let partition = &opened.partition;
        let is_news = self.note_table(lane, opened).await?;
        for entry in 0..partition.count() {
            let is_due = match partition.word(entry).decode() {
                Ok(Owner::Draining { owner, .. }) => owner == partition.me(),
                Ok(Owner::Kept(row)) => row == partition.me() && !self.left.load(Ordering::Acquire),
                _ => false,
            };
            if is_due {
                self.begin_taking(lane, Taking::Entry(entry)).await?;
                let taken = self.take_entry(lane, entry, Patience::Look).await;
                self.end_taking(lane);
                taken?;
            }
        }
        self.publish_loads(lane, opened, is_news).await
    }

    /// Moves the entry whose boundary has that rank to the compute node of row `to`, and waits until it is given up.
    pub(super) async fn move_rank(&self, lane: &Lane<'_>, rank: u32, to: RowId) -> Result<(), OpError> {
        let partition = &self.open(lane).await?.partition;
        let what = "a part that the index does not have";
        let entry = partition.entry_of_rank(rank).ok_or(OpError::harmless(Cause::BadInput(what)))?;
        loop {
            self.begin_taking(lane, Taking::Entry(entry)).await?;
            let asked = self.ask(lane, entry, to).await;
            self.end_taking(lane);
            if asked? {
                return Ok(());
            }
            // Of two compute nodes that have parts of each other moved, neither may only wait.
            self.keep_entries(lane).await?;
            lane.port().call(Request::pause(AWAIT_NS.min(lane.remaining_ns()))).await?;
        }
    }

    /// One try to have an entry moved. `true`: it is `to`'s, or kept for it.
    async fn ask(&self, lane: &Lane<'_>, entry: u32, to: RowId) -> Result<bool, OpError> {
        let opened = self.open(lane).await?;
        let site = self.table_site(opened);
        let word = site.ask(lane, entry, to).await?;
        let late = lane.check_deadline();
        match word.decode() {
            Ok(Owner::Owned(owner) | Owner::Kept(owner)) if owner == to => return Ok(true),
            Ok(Owner::Draining { receiver, .. }) if receiver == to && late.is_err() => {
                site.call_off(lane, (entry, word)).await?;
            }
            // What is asked of this compute node, or of one that is dead.
            Ok(Owner::Draining { .. } | Owner::Recovering { .. }) => {
                self.take_entry(lane, entry, Patience::Look).await?;
            }
            _ => {}
        }
        late?;
        Ok(false)
    }

    /// Waits until nothing of an entry whose tenure has ended is under way on this compute node, and brings all of its pages to
    /// the pool, out of their frames.
    pub(super) async fn drain_entry(&self, lane: &Lane<'_>, entry: u32) -> Result<(), OpError> {
        if planted(Mutant::HANDED_OVER_UNFLUSHED) {
            return Ok(());
        }
        if !planted(Mutant::DRAINED_WITHOUT_FILLS) {
            self.store.await_fills(lane).await?;
        }
        loop {
            let mut is_empty = true;
            for index in 0..self.store.frames() {
                if let Some(name) = self.store.page_in(index)
                    && self.entry_in(lane, name).await? == Some(entry)
                {
                    is_empty = false;
                    self.drop_page(lane, name).await?;
                }
            }
            // A split that was under way has brought its right half into a frame, perhaps of a place that was looked at.
            if is_empty || planted(Mutant::FRAMES_KEPT) {
                return Ok(());
            }
            lane.check_deadline()?;
        }
    }

    /// The entry of the leaf in a frame. `None`: it has left the frame.
    async fn entry_in(&self, lane: &Lane<'_>, name: FrameName) -> Result<Option<u32>, OpError> {
        let mut low = [0; KEY_BYTES_MAX];
        let low = RefCell::new(low.get_mut(..self.leaf.key_bytes).unwrap_or_default());
        loop {
            match self.store.read(name, |image| Cursor::at(node::LOW_AT).read(image, &mut low.borrow_mut())) {
                Ok(()) => return Ok(Some(self.partition().entry_of(&low.borrow()))),
                Err(Refused::Busy) => self.store.yield_now(lane).await?,
                Err(_) => return Ok(None),
            }
        }
    }

    /// Flushes a page, and takes it out of its frame.
    pub(super) async fn drop_page(&self, lane: &Lane<'_>, name: FrameName) -> Result<(), OpError> {
        let frozen = loop {
            match self.store.freeze(lane, name) {
                Ok(frozen) => break frozen,
                Err(Refused::Moved) => return Ok(()),
                Err(Refused::Frozen) => self.store.wait_for(lane, name).await?,
                Err(refused) => self.again(lane, refused).await?,
            }
            lane.check_deadline()?;
        };
        loop {
            flush::flush_frame(self.flushing(FLUSHED), lane, name).await?;
            if planted(Mutant::FRAMES_KEPT) {
                return self.thaw(lane, frozen).await;
            }
            match self.store.discard(lane, frozen) {
                Ok(()) => return Ok(()),
                Err(Refused::Dirty | Refused::Flushing) => {}
                Err(refused) => self.again(lane, refused).await?,
            }
            lane.check_deadline()?;
        }
    }
}
