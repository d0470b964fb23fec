//! Leaves on their way back to the pool ([`crate::dex::flush`]), and the room in the ring that this makes.

use super::Dex;
use crate::btree::Tree;
use crate::btree::node;
use crate::dex::flush::{self, ImageSlot, PageFormat, Site};
use crate::dex::leaf;
use crate::dex::log::append;
use crate::dex::log::state::Full;
use crate::lane::Lane;
use crate::layout::stripes;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError, unknown};
use crate::pages::lsn::Lsn;
use crate::pages::{Flush, FrameName};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;

/// Node image from which leaves are flushed. Descents use image 0.
pub(super) const FLUSHED: usize = 3;

/// What a flush has found to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushing {
    /// A page was flushed.
    Page,
    /// There is no such page.
    Nothing,
}

impl PageFormat for Dex<'_> {
    fn entry_of(&self, page: &[u8]) -> Option<u32> {
        let mut low = [0; KEY_BYTES_MAX];
        let low = low.get_mut(..self.leaf.key_bytes)?;
        stripes::read(page, node::LOW_AT, low);
        Some(self.partition().entry_of(low))
    }

    fn stamp(&self, page: &mut [u8], copies: u32) {
        let version = stripes::node_version(page).unwrap_or_default();
        stripes::set_node_version(page, version.wrapping_add(copies as u8));
    }
}

impl Dex<'_> {
    /// With what a lane flushes the leaf that is in node image `i`.
    pub(super) fn flushing(&self, i: usize) -> Site<'_, Self> {
        Site {
            store: &self.store,
            format: self,
            partition: self.partition(),
            recovery: self.tree.recovery,
            page: self.tree.leaf_image(i),
            line_at: self.tree.scratch.small,
        }
    }

    /// Flushes one page, and moves the head of the log: for the lane that keeps house.
    pub async fn flush_one(&self, lane: &Lane<'_>, which: Flush) -> Result<Flushing, OpError> {
        let flushed = flush::flush(self.flushing(FLUSHED), lane, which).await?;
        self.advance_head(lane).await?;
        Ok(if flushed.is_some() { Flushing::Page } else { Flushing::Nothing })
    }

    /// Flushes every page, one after the other.
    pub async fn flush_all(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        while self.flush_one(lane, Flush::Oldest).await? == Flushing::Page {}
        Ok(())
    }

    /// Makes a page clean, since none can be evicted.
    pub(super) async fn make_clean(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        if self.flush_one(lane, Flush::Victim).await? == Flushing::Nothing
            && self.flush_one(lane, Flush::Oldest).await? == Flushing::Nothing
        {
            // Other lanes are flushing what is dirty.
            self.store.yield_now(lane).await?;
        }
        Ok(())
    }

    /// Makes room for a record that had none.
    pub(super) async fn make_room(&self, lane: &Lane<'_>, full: Full) -> Result<(), OpError> {
        match full {
            Full::Ring { head } => {
                self.flush_one(lane, Flush::Oldest).await?;
                if self.log.has_head_left(head) {
                    return Ok(());
                }
                // Lines keep it that are not durable, or a page that another lane is flushing. To flush more pages would not
                // help, and would keep that lane from its turn where requests complete at once.
                if !self.log.is_held_by_lines() || !append::post_staged(self.site()?, lane).await? {
                    self.store.yield_now(lane).await?;
                }
                self.advance_head(lane).await
            }
            Full::Staging => {
                if !append::post_staged(self.site()?, lane).await? {
                    self.store.yield_now(lane).await?;
                }
                Ok(())
            }
            Full::UsedUp | Full::Lost => self.renew(lane).await,
            // The operation looks after its tenure again.
            Full::Closed => Ok(()),
            Full::Size => {
                let what = "a log record has a key of 1 to 64 bytes and a value of at most 1024";
                Err(OpError::harmless(Cause::BadInput(what)))
            }
        }
    }

    /// Posts a flight if the record of a change that nobody waits for is a whole flight ahead of what is durable. Else the
    /// staging room would fill, and a change that finds it full READs a leaf that is not admitted once more: that was a
    /// quarter of a READ an update. Whatever this fails at, the change was made; the next operation finds the log lost, or
    /// the row fenced.
    pub(super) async fn post_ahead(&self, lane: &Lane<'_>, lsn: Lsn) {
        if self.log.is_ahead(lsn, append::FLIGHT_LINES_MAX)
            && let Ok(site) = self.site()
        {
            let _ = append::post_staged(site, lane).await;
        }
    }

    /// Flushes the page of a frame. Afterwards every change that was made before the call is in the pool.
    pub(super) async fn flush_frame(&self, lane: &Lane<'_>, name: FrameName) -> Result<(), OpError> {
        flush::flush_frame(self.flushing(FLUSHED), lane, name).await?;
        self.advance_head(lane).await
    }

    /// WRITEs a leaf that is not admitted from node image 0.
    pub(super) async fn write_back(&self, lane: &Lane<'_>, leaf: Address, lsn: Lsn) -> Result<(), OpError> {
        let written = flush::write_page(self.flushing(0), lane, (leaf, lsn), ImageSlot::Next).await?;
        written.map_err(|error| unknown(error.cause))
    }

    /// WRITEs a leaf again whose WRITE did not complete: a queue pair that failed may have left it torn, and only the lane's
    /// scratch has all of it, or the image, whose slot others need. The queue pairs that failed are closed, and no operation has
    /// used the scratch since.
    pub(super) async fn write_unwritten(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        if let Some(leaf) = self.store.unwritten(lane).filter(|_| !planted(Mutant::TORN_LEAF_LEFT)) {
            let lsn = lane.port().with(|scratch| leaf::lsn(&self.leaf, self.tree.leaf_image(0).of(scratch)));
            let written = flush::write_page(self.flushing(0), lane, (leaf, lsn), ImageSlot::Last).await?;
            flush::restored(written)?;
            self.store.written(lane);
        }
        flush::write_again(self.flushing(FLUSHED), lane).await
    }

    /// Moves the head of the log: first as far as lines are concerned, then by the pages that are not flushed.
    async fn advance_head(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        loop {
            let bound = self.log.head_bound();
            match self.store.oldest_unflushed() {
                Ok(oldest) => {
                    self.log.advance_head(bound, oldest.map(Lsn::to_bits));
                    return Ok(());
                }
                Err(refused) => self.again(lane, refused).await?,
            }
        }
    }
}

/// A leaf that is no leaf any more when it is split or flushed.
pub(super) fn lost(leaf: Address) -> OpError {
    Tree::corrupt(leaf, "a frozen leaf is not in the page store any more")
}
