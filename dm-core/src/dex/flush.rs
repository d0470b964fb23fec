//! Flushes: a dirty page goes from its frame to its memory node, and a death in between costs nothing.
//!
//! ```text
//!  frame ── stage ──► scratch of the lane ─── one chain ───► image in a redo slot of the lane,  then the page
//!    ▲                                                                                            │
//!    └──────────────── flushed: clean, unless it was changed meanwhile ◄──────── completion ──────┘
//! ```
//!
//! # Steps
//!
//! 1. [`PageStore::stage`] copies the frame and marks it as flushing. Changes go on, and no second flush begins.
//! 2. Where a WRITE of this length may land in part, the page's [image](super::image) goes to a redo slot of the lane on
//!    the page's memory node. Then the page. Both are one chain, so the image is whole before the page is touched.
//! 3. The completion ends the flush: [`PageStore::flushed`].
//! 4. A chain that failed may land until its queue pair is known to be closed. The flush goes on until then, and the
//!    same chain is posted again. If the lane gives up, the page is as dirty as before.
//!
//! Round trips: one. Requests: one, or two with an image.
//!
//! # What closes which race
//!
//! - **The image stays until the completion.** The lane posts nothing else to this slot before. It takes the slots behind
//!   its redo records while it has a lock, and otherwise its first slot, in which nothing is needed: a lane without locks
//!   has no redo record, and its last flush is over.
//! - **A WRITE that lands late** would lie over a later flush. So step 4 waits for the queue pair, and a flush whose queue
//!   pair cannot be closed is not ended at all. [`settle`] tries again.
//! - **A hung memory node.** The lane's progress counter says that a flush is under way
//!   ([`Recovery::begin_work`]), and the heartbeat ends with it.
//!
//! # What it assumes
//!
//! WRITE_THEN_WRITE, COMPLETION_IS_VISIBLE; a crash unit is a line at least.

use super::image::PageImage;
use super::ownership::partition::Partition;
use crate::lane::Lane;
use crate::layout::LINE_BYTES;
use crate::membership::redo::{HEADER_BYTES, SLOTS_FOR_WRITES};
use crate::membership::{Recovery, push_by_lines};
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError, unknown};
use crate::pages::{Flush, FrameName, PageStore, Refused, Staged};
use crate::remote::address::Address;
use crate::verbs::{Label, Request, Status};
use core::ops::Range;

/// How often a chain is posted whose queue pair fails.
pub const FLUSH_TRIES: u32 = 8;

/// What flushes and recoveries have to know of the bytes of a page.
pub trait PageFormat {
    /// The entry of the ownership table to which a whole page belongs. `None`: no writer makes such a page.
    fn entry_of(&self, page: &[u8]) -> Option<u32>;

    /// Gives all lines of a copy that is about to be WRITTEN the version of this WRITE: that of the page in the frame and
    /// `copies` more ([`Staged::copies`]).
    fn stamp(&self, page: &mut [u8], copies: u32);

    /// Whether all lines of an image are of one WRITE.
    fn is_whole(&self, page: &[u8]) -> bool;

    /// Whether the first line of an image, which is never torn, is one of the page at `address`, with its generation, in
    /// `entry`, as far as the line tells.
    fn may_be_of(&self, page: &[u8], address: Address, entry: u32) -> bool;
}

/// Scratch for flushing pages of `page_bytes` bytes: a line, the header of an image, and the page.
pub const fn room_bytes(page_bytes: usize) -> usize {
    LINE_BYTES + HEADER_BYTES + page_bytes
}

/// What a lane flushes with.
pub struct Site<'a, F> {
    /// The compute node's pages.
    pub store: &'a PageStore<'a>,
    /// What is known of their bytes.
    pub format: &'a F,
    /// Under which epochs they are written.
    pub partition: &'a Partition<'a>,
    /// Redo slots, and the lease. `None`: a death may leave torn pages.
    pub recovery: Option<&'a Recovery<'a>>,
    /// The lane's scratch for it: [`room_bytes`].
    pub room: &'a Range<usize>,
}

impl<F> Clone for Site<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Site<'_, F> {}

impl<F> Site<'_, F> {
    /// Scratch offset of the image's header.
    const fn header_at(&self) -> usize {
        self.room.start + LINE_BYTES
    }

    /// Where the page is in the scratch.
    fn page(&self) -> Range<usize> {
        let start = self.header_at() + HEADER_BYTES;
        start..start + self.store.shape().page_bytes
    }
}

/// Flushes one page: the one with the oldest change, or one that eviction wants. Returns its address; `None`: there is
/// none.
///
/// If it fails, the lane may be in doubt; [`settle`] ends what is left.
pub async fn flush<F: PageFormat>(
    site: Site<'_, F>,
    lane: &Lane<'_>,
    which: Flush,
) -> Result<Option<Address>, OpError> {
    let staged = stage(site, lane, |page| site.store.stage(lane, which, page)).await?;
    let Some(staged) = staged else { return Ok(None) };
    write(site, lane, &staged).await?;
    Ok(Some(staged.id()))
}

/// Flushes this page, if it is dirty: afterwards every change that was made before the call is in the pool. Another
/// lane's flush is awaited first.
pub async fn flush_frame<F: PageFormat>(site: Site<'_, F>, lane: &Lane<'_>, name: FrameName) -> Result<(), OpError> {
    match stage(site, lane, |page| site.store.stage_frame(lane, name, page).map(Some)).await? {
        Some(staged) => write(site, lane, &staged).await,
        None => Ok(()),
    }
}

/// Copies a page to the scratch. `None`: there is none to be flushed.
async fn stage<F>(
    site: Site<'_, F>,
    lane: &Lane<'_>,
    stage: impl Fn(&mut [u8]) -> Result<Option<Staged>, Refused>,
) -> Result<Option<Staged>, OpError> {
    if site.recovery.is_some_and(|recovery| !recovery.lease.may_write()) {
        return Err(OpError::harmless(Cause::Fenced));
    }
    loop {
        match lane.port().with(|scratch| stage(scratch.get_mut(site.page()).unwrap_or_default())) {
            Ok(staged) => return Ok(staged),
            // Only clean pages leave the store.
            Err(Refused::Clean | Refused::Moved) => return Ok(None),
            Err(Refused::Busy | Refused::Flushing | Refused::Frozen) => site.store.yield_now(lane).await?,
            Err(_) => return Err(OpError::harmless(Cause::BadInput("a flush without room for a page"))),
        }
    }
}

/// WRITEs the page that is staged, until the WRITE has completed, and ends the flush.
async fn write<F: PageFormat>(site: Site<'_, F>, lane: &Lane<'_>, staged: &Staged) -> Result<(), OpError> {
    let slot = match image_slot(site, lane, staged) {
        Ok(slot) => slot,
        Err(error) => {
            // Nothing was posted.
            end(site, lane, staged, false).await?;
            return Err(error);
        }
    };
    lane.port().with(|scratch| {
        site.format.stamp(scratch.get_mut(site.page()).unwrap_or_default(), staged.copies());
    });
    if let Some(recovery) = site.recovery {
        recovery.begin_work(lane);
    }
    let mut tries = 0;
    let failed = loop {
        push(site, lane, staged, slot);
        match lane.port().submit().await {
            Ok(()) => return end_work(site, lane, staged, true).await,
            Err(error) => {
                if planted(Mutant::FLUSHED_TAKEN_FOR_DONE) && error.status == Status::Flushed {
                    return end_work(site, lane, staged, true).await;
                }
                // Until this has succeeded, the WRITE may still land, and the flush is not over.
                lane.close(site.room.start).await.map_err(unknown)?;
                tries += 1;
                if error.status != Status::Flushed || tries == FLUSH_TRIES {
                    break error.into();
                }
            }
        }
        if let Err(late) = lane.check_deadline() {
            break late;
        }
        if site.recovery.is_some_and(|recovery| !recovery.lease.may_write()) {
            break OpError::harmless(Cause::Fenced);
        }
    };
    end_work(site, lane, staged, false).await?;
    Err(failed)
}

/// The slot for the page's image, and what the image says; `None`: the WRITE of the page lands whole or not at all.
fn image_slot<F: PageFormat>(
    site: Site<'_, F>,
    lane: &Lane<'_>,
    staged: &Staged,
) -> Result<Option<(u64, PageImage)>, OpError> {
    let (page, address) = (site.page(), staged.id());
    let Some(recovery) = site.recovery.filter(|recovery| recovery.may_tear(address.offset(), page.len())) else {
        return Ok(None);
    };
    let entry = lane.port().with(|scratch| site.format.entry_of(scratch.get(page.clone()).unwrap_or_default()));
    let what = "a page of the page store that belongs to no entry";
    let entry = entry.ok_or(OpError::harmless(Cause::Corrupt { address, what }))?;
    let position = if lane.has_lock_records() { lane.next_redo_slot() } else { 0 };
    let area = recovery.areas.get(usize::from(address.node().0)).filter(|_| position < SLOTS_FOR_WRITES);
    let area = area.filter(|area| HEADER_BYTES + page.len() <= area.slot_bytes() as usize);
    let Some(slot) = area.and_then(|area| area.slot_of(lane, position)) else {
        return Err(OpError::harmless(Cause::BadInput("no redo slot of this lane has room for an image of a page")));
    };
    // What was noted of the entry last: a tenure's epoch, or that under which this compute node recovers the entry.
    let epoch = site.partition.word(entry).epoch();
    Ok(Some((slot, PageImage { address, lsn: staged.lsn(), entry, epoch })))
}

/// Pushes the chain of a flush.
fn push<F>(site: Site<'_, F>, lane: &Lane<'_>, staged: &Staged, slot: Option<(u64, PageImage)>) {
    let (port, page, header_at) = (lane.port(), site.page(), site.header_at());
    let node = staged.id().node();
    let mut unit_bytes = u32::MAX;
    if let Some(recovery) = site.recovery {
        unit_bytes = recovery.unit_bytes;
        if let Some((slot, image)) = slot.filter(|_| !planted(Mutant::IMAGE_OMITTED)) {
            let incarnation = recovery.member().incarnation;
            port.with(|scratch| image.seal(incarnation, scratch.get_mut(header_at..page.end).unwrap_or_default()));
            port.push(Request::write(Label::Image, node, slot, page.end - header_at, header_at));
        }
    }
    push_by_lines(port, Label::Leaf, (node, staged.id().offset()), page.len(), page.start, unit_bytes);
}

/// Ends the flush, and with it the lane's work.
async fn end_work<F>(site: Site<'_, F>, lane: &Lane<'_>, staged: &Staged, ok: bool) -> Result<(), OpError> {
    end(site, lane, staged, ok).await?;
    if let Some(recovery) = site.recovery {
        recovery.end_work(lane);
    }
    Ok(())
}

/// Ends the flush. No WRITE of it can take effect any more.
async fn end<F>(site: Site<'_, F>, lane: &Lane<'_>, staged: &Staged, ok: bool) -> Result<(), OpError> {
    loop {
        match site.store.flushed(lane, staged, ok) {
            Ok(()) => return Ok(()),
            Err(Refused::Busy) => site.store.yield_now(lane).await?,
            Err(Refused::MailboxFull) => lane.port().submit().await?,
            Err(_) => return Err(OpError::harmless(Cause::BadInput("the page store does not know of a flush"))),
        }
    }
}

/// Ends what a lane has left in the page store whose operation failed or was dropped: a flush counts as failed, once its
/// queue pair is known to be closed. The port is idle, and the lane's flight of the log is settled.
pub async fn settle<F>(site: Site<'_, F>, lane: &Lane<'_>) -> Result<(), OpError> {
    if site.store.owes(lane) {
        lane.close(site.room.start).await.map_err(unknown)?;
        site.store.settle(lane).await?;
    }
    if let Some(recovery) = site.recovery {
        recovery.end_all_work(lane);
    }
    Ok(())
}
