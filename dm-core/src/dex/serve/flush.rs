//! Flushes: leaves on their way back to the pool, and the room in the ring that this makes.
//!
//! One chain goes to the leaf's memory node: an image of the page into a redo slot of this lane, where a WRITE of this
//! length may tear, then the page. A lane that flushes holds no lock, so the slot is its first one. A chain that failed
//! may land until its queue pair is closed: then the same is WRITTEN again.

use super::Dex;
use crate::btree::Tree;
use crate::btree::node;
use crate::dex::image::PageImage;
use crate::dex::leaf;
use crate::dex::log::append;
use crate::dex::log::state::Full;
use crate::dex::ownership::partition::Tenure;
use crate::error::VerbError;
use crate::lane::Lane;
use crate::layout::stripes;
use crate::membership::redo::HEADER_BYTES;
use crate::operation::span::Span;
use crate::operation::{Cause, OpError, unknown};
use crate::pages::lsn::Lsn;
use crate::pages::{Flush, FrameName, Refused, Staged};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::verbs::{Label, Request, Status};

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

impl Dex<'_> {
    /// Flushes one page, and moves the head of the log: for the lane that keeps house.
    pub async fn flush_one(&self, lane: &Lane<'_>, which: Flush) -> Result<Flushing, OpError> {
        let image = self.tree.leaf_image(FLUSHED);
        loop {
            match lane.port().with(|scratch| self.store.stage(lane, which, image.of_mut(scratch))) {
                Ok(Some(staged)) => {
                    self.flush_staged(lane, &staged, image).await?;
                    return Ok(Flushing::Page);
                }
                Ok(None) => {
                    self.advance_head(lane).await?;
                    return Ok(Flushing::Nothing);
                }
                Err(refused) => self.again(lane, refused).await?,
            }
        }
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
            Full::Ring { .. } => {
                let flushed = self.flush_one(lane, Flush::Oldest).await?;
                // What is not durable keeps the head, too.
                let posted = append::post_staged(self.site(), lane).await?;
                if flushed == Flushing::Nothing && !posted {
                    self.store.yield_now(lane).await?;
                }
                self.advance_head(lane).await
            }
            Full::Staging => {
                if !append::post_staged(self.site(), lane).await? {
                    self.store.yield_now(lane).await?;
                }
                Ok(())
            }
            full => {
                let what = match full {
                    Full::UsedUp => "the line numbers of this log are used up",
                    Full::Lost => "the memory node of the log ring is gone",
                    _ => "a log record has a key of 1 to 64 bytes and a value of at most 1024",
                };
                Err(OpError::harmless(Cause::BadInput(what)))
            }
        }
    }

    /// Flushes the page of a frame, unless a flush has taken the change of `lsn` and has completed. `false`: ask again.
    pub(super) async fn flush_frame(&self, lane: &Lane<'_>, name: FrameName, lsn: Lsn) -> Result<bool, OpError> {
        let image = self.tree.leaf_image(FLUSHED);
        match lane.port().with(|scratch| self.store.stage_frame(lane, name, image.of_mut(scratch))) {
            Ok(staged) => {
                let done = staged.lsn() >= lsn;
                self.flush_staged(lane, &staged, image).await?;
                Ok(done)
            }
            // Every change of the page was taken, and its flush has completed; or it is out of the store, and it was
            // clean then.
            Err(Refused::Clean | Refused::Moved) => Ok(true),
            Err(Refused::Flushing | Refused::Frozen) => {
                self.store.wait_for(lane, name).await?;
                Ok(false)
            }
            Err(refused) => {
                self.again(lane, refused).await?;
                Ok(false)
            }
        }
    }

    /// WRITEs a staged page from `image`, and ends its flush.
    pub(super) async fn flush_staged(&self, lane: &Lane<'_>, staged: &Staged, image: Span) -> Result<(), OpError> {
        Self::raise_version(lane, staged, image);
        self.write_staged(lane, staged, image).await?;
        self.end_flush(lane, staged).await?;
        self.advance_head(lane).await
    }

    /// Gives the image of a flush another version than the WRITE before had.
    pub(super) fn raise_version(lane: &Lane<'_>, staged: &Staged, image: Span) {
        lane.port().with(|scratch| {
            let image = image.of_mut(scratch);
            let version = stripes::node_version(image).unwrap_or_default();
            stripes::set_node_version(image, version.wrapping_add(staged.copies() as u8));
        });
    }

    /// WRITEs a staged page. If this fails for good, the flush stays, and settling ends it.
    pub(super) async fn write_staged(&self, lane: &Lane<'_>, staged: &Staged, image: Span) -> Result<(), OpError> {
        let (entry, lsn) = lane.port().with(|scratch| {
            let (image, mut low) = (image.of(scratch), [0; KEY_BYTES_MAX]);
            let low = low.get_mut(..self.leaf.key_bytes).unwrap_or_default();
            stripes::read(image, node::LOW_AT, low);
            (self.partition.entry_of(low), leaf::lsn(&self.leaf, image))
        });
        let epoch = self.partition.word(entry).epoch();
        self.write_page(lane, PageImage { address: staged.id(), lsn, entry, epoch }, image).await
    }

    /// Ends a flush whose WRITE has completed.
    pub(super) async fn end_flush(&self, lane: &Lane<'_>, staged: &Staged) -> Result<(), OpError> {
        while let Err(refused) = self.store.flushed(lane, staged, true) {
            self.again(lane, refused).await?;
        }
        Ok(())
    }

    /// WRITEs a leaf that is not admitted from node image 0.
    pub(super) async fn write_back(
        &self,
        lane: &Lane<'_>,
        leaf: Address,
        tenure: Tenure,
        lsn: Lsn,
    ) -> Result<(), OpError> {
        let page = PageImage { address: leaf, lsn, entry: tenure.entry, epoch: tenure.epoch };
        self.write_page(lane, page, self.tree.leaf_image(0)).await.map_err(|error| unknown(error.cause))
    }

    /// WRITEs a page, with its image in front of it, until that has completed.
    async fn write_page(&self, lane: &Lane<'_>, page: PageImage, image: Span) -> Result<(), OpError> {
        loop {
            self.push_page(lane, page, image)?;
            match lane.port().submit().await {
                Ok(()) => return Ok(()),
                Err(VerbError { status: Status::Flushed, .. }) => {
                    // What was posted may land until the queue pair is closed.
                    lane.close(self.tree.scratch.small).await?;
                    lane.check_deadline()?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn push_page(&self, lane: &Lane<'_>, page: PageImage, image: Span) -> Result<(), OpError> {
        let (node, offset) = (page.address.node(), page.address.offset());
        if let Some(recovery) = self.tree.recovery {
            if !recovery.lease.may_write() {
                return Err(OpError::harmless(Cause::Fenced));
            }
            if recovery.may_tear(offset, image.bytes) {
                let slot = recovery.areas.get(usize::from(node.0)).and_then(|area| area.slot_of(lane, 0));
                let (Some(slot), Some(start)) = (slot, image.at.checked_sub(HEADER_BYTES)) else {
                    return Err(OpError::harmless(Cause::BadInput(
                        "the lane has no redo slot for the image of a page",
                    )));
                };
                let incarnation = recovery.member().incarnation;
                lane.port()
                    .with(|scratch| page.seal(incarnation, scratch.get_mut(start..image.end()).unwrap_or_default()));
                lane.port().push(Request::write(Label::Image, node, slot, image.bytes + HEADER_BYTES, start));
            }
        }
        lane.port().push(image.write_to(Label::Node, page.address));
        Ok(())
    }

    /// Moves the head of the log: first as far as lines are concerned, then by the pages that are not flushed.
    async fn advance_head(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        loop {
            let bound = self.log.head_bound();
            match self.store.oldest_unflushed() {
                Ok(oldest) => {
                    self.log.advance_head(bound, oldest.map(Lsn::line));
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
