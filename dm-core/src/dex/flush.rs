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
//!    same chain is posted again. If the lane gives up or is dropped, settling posts it once more ([`write_again`]), and then the page
//!    is as dirty as before.
//!
//! Round trips: one. Requests: one, or two with an image.
//!
//! # What closes which race
//!
//! - **The image stays until the completion.** The lane posts nothing else to this slot before. It takes the slots behind
//!   its redo records while it has a lock, and otherwise its first slot, in which nothing is needed: a lane without locks
//!   has no redo record, and its last flush is over. A chain that failed may have torn the page; so the lane does nothing
//!   else before it has posted the same bytes again. Over the image these are what is there already, so that it stays
//!   whole all the time.
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
use crate::membership::redo::{HEADER_BYTES, SLOTS_FOR_WRITES};
use crate::membership::{Recovery, push_by_lines};
use crate::mutants::{Mutant, planted};
use crate::operation::span::Span;
use crate::operation::{Cause, OpError, unknown};
use crate::pages::lsn::Lsn;
use crate::pages::{Flush, FrameName, PageStore, Refused, Staged};
use crate::remote::address::Address;
use crate::verbs::{Label, Request, Status};

/// How often a chain is posted whose queue pair fails.
pub const FLUSH_TRIES: u32 = 8;

/// What flushes have to know of the bytes of a page.
pub trait PageFormat {
    /// The entry of the ownership table to which a whole page belongs. `None`: no writer makes such a page.
    fn entry_of(&self, page: &[u8]) -> Option<u32>;

    /// Gives all lines of a copy that is about to be WRITTEN the version of this WRITE: that of the page in the frame and
    /// `copies` more ([`Staged::copies`]).
    fn stamp(&self, page: &mut [u8], copies: u32);
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
    /// Where the page is in the lane's scratch. [`HEADER_BYTES`] in front of it are for the image's header.
    pub page: Span,
    /// Scratch offset of a line, for closing a queue pair.
    pub line_at: usize,
}

impl<F> Clone for Site<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Site<'_, F> {}

impl<F> Site<'_, F> {
    /// Where the page is, with its image's header in front.
    const fn image(&self) -> Span {
        Span::new(self.page.at.saturating_sub(HEADER_BYTES), HEADER_BYTES + self.page.bytes)
    }

    /// Whether this compute node has to stop writing.
    pub(super) fn is_fenced(&self) -> bool {
        self.recovery.is_some_and(|recovery| !recovery.lease.may_write())
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
    stamp(site, lane, &staged);
    finish(site, lane, &staged).await?;
    Ok(Some(staged.id()))
}

/// Flushes this page, if it is dirty: afterwards every change that was made before the call is in the pool. Another
/// lane's flush is awaited first.
pub async fn flush_frame<F: PageFormat>(site: Site<'_, F>, lane: &Lane<'_>, name: FrameName) -> Result<(), OpError> {
    let staged = stage(site, lane, |page| site.store.stage_frame(lane, name, page).map(Some)).await?;
    let Some(staged) = staged else { return Ok(()) };
    stamp(site, lane, &staged);
    finish(site, lane, &staged).await
}

/// Copies a page to the scratch. `None`: there is none to be flushed.
async fn stage<F>(
    site: Site<'_, F>,
    lane: &Lane<'_>,
    stage: impl Fn(&mut [u8]) -> Result<Option<Staged>, Refused>,
) -> Result<Option<Staged>, OpError> {
    if site.is_fenced() {
        return Err(OpError::harmless(Cause::Fenced));
    }
    loop {
        match lane.port().with(|scratch| stage(site.page.of_mut(scratch))) {
            Ok(staged) => return Ok(staged),
            // Only clean pages leave the store.
            Err(Refused::Clean | Refused::Moved) => return Ok(None),
            Err(Refused::Busy | Refused::Flushing | Refused::Frozen) => site.store.yield_now(lane).await?,
            Err(_) => return Err(OpError::harmless(Cause::BadInput("a flush without room for a page"))),
        }
        lane.check_deadline()?;
    }
}

/// Gives the page that is staged the version of its WRITE.
pub(super) fn stamp<F: PageFormat>(site: Site<'_, F>, lane: &Lane<'_>, staged: &Staged) {
    lane.port().with(|scratch| site.format.stamp(site.page.of_mut(scratch), staged.copies()));
}

/// WRITEs the page that is staged and stamped, until the WRITE has completed, and ends the flush.
pub(super) async fn finish<F: PageFormat>(site: Site<'_, F>, lane: &Lane<'_>, staged: &Staged) -> Result<(), OpError> {
    // If that may land still, the flush is not over.
    let written = write_page(site, lane, (staged.id(), staged.lsn()), ImageSlot::Next).await?;
    end(site, lane, staged, written.is_ok()).await?;
    written
}

/// Which redo slot of the lane gets the image of a page, if the lane has locks: see the module.
#[derive(Clone, Copy)]
pub(super) enum ImageSlot {
    /// One that was not used.
    Next,
    /// That in which the image is already: the page is WRITTEN once more.
    Last,
}

/// WRITEs the page in the scratch to its address, until the WRITE has completed. `lsn`: that of the page's last record.
/// The inner error: no WRITE of it can land any more, and it need not be written: the memory node is down, or others restore
/// it. The outer one: one may land, or the page may be torn, until the lane is settled.
pub(super) async fn write_page<F: PageFormat>(
    site: Site<'_, F>,
    lane: &Lane<'_>,
    (address, lsn): (Address, Lsn),
    image: ImageSlot,
) -> Result<Result<(), OpError>, OpError> {
    let slot = match image_slot(site, lane, (address, lsn), image) {
        Ok(slot) => slot,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(recovery) = site.recovery {
        recovery.begin_work(lane);
    }
    let mut tries = 0;
    let written = loop {
        if site.is_fenced() {
            break Err(OpError::harmless(Cause::Fenced));
        }
        push(site, lane, address, slot);
        let Err(error) = lane.port().submit().await else { break Ok(()) };
        if planted(Mutant::FLUSHED_TAKEN_FOR_DONE) && error.status == Status::Flushed {
            break Ok(());
        }
        lane.close(site.line_at).await.map_err(unknown)?;
        if error.status != Status::Flushed {
            break Err(error.into());
        }
        // The page may be torn.
        tries += 1;
        if tries == FLUSH_TRIES {
            return Err(unknown(Cause::Verb(error)));
        }
        lane.check_deadline().map_err(|late| unknown(late.cause))?;
    };
    if let Some(recovery) = site.recovery {
        recovery.end_work(lane);
    }
    Ok(written)
}

/// The slot for the page's image, and what the image says; `None`: the WRITE of the page lands whole or not at all.
fn image_slot<F: PageFormat>(
    site: Site<'_, F>,
    lane: &Lane<'_>,
    (address, lsn): (Address, Lsn),
    image: ImageSlot,
) -> Result<Option<(u64, PageImage)>, OpError> {
    if site.recovery.is_none_or(|recovery| !recovery.may_tear(address.offset(), site.page.bytes)) {
        return Ok(None);
    }
    let entry = lane.port().with(|scratch| site.format.entry_of(site.page.of(scratch)));
    let what = "a page of the page store that belongs to no entry";
    let entry = entry.ok_or(OpError::harmless(Cause::Corrupt { address, what }))?;
    image_slot_of(site, lane, (address, lsn), entry, image)
}

/// As [`image_slot`], of a page of `entry` that is not in the scratch.
pub(super) fn image_slot_of<F>(
    site: Site<'_, F>,
    lane: &Lane<'_>,
    (address, lsn): (Address, Lsn),
    entry: u32,
    image: ImageSlot,
) -> Result<Option<(u64, PageImage)>, OpError> {
    let Some(recovery) = site.recovery.filter(|recovery| recovery.may_tear(address.offset(), site.page.bytes)) else {
        return Ok(None);
    };
    let position = match image {
        _ if !lane.has_lock_records() => 0,
        ImageSlot::Next => lane.next_redo_slot(),
        ImageSlot::Last => lane.last_redo_slot(),
    };
    let area = recovery.areas.get(usize::from(address.node().0)).filter(|_| position < SLOTS_FOR_WRITES);
    let area = area.filter(|area| site.image().bytes <= area.slot_bytes() as usize);
    let Some(slot) = area.and_then(|area| area.slot_of(lane, position)) else {
        return Err(OpError::harmless(Cause::BadInput("no redo slot of this lane has room for an image of a page")));
    };
    // What was noted of the entry last: a tenure's epoch, or that under which this compute node recovers the entry.
    let epoch = site.partition.word(entry).epoch();
    Ok(Some((slot, PageImage { address, lsn, entry, epoch })))
}

/// Pushes the chain of a flush.
fn push<F>(site: Site<'_, F>, lane: &Lane<'_>, address: Address, slot: Option<(u64, PageImage)>) {
    let (port, page) = (lane.port(), site.page);
    let mut unit_bytes = u32::MAX;
    if let Some(recovery) = site.recovery {
        unit_bytes = recovery.unit_bytes;
        if let Some((slot, page_image)) = slot.filter(|_| !planted(Mutant::IMAGE_OMITTED)) {
            let (incarnation, image) = (recovery.member().incarnation, site.image());
            port.with(|scratch| page_image.seal(incarnation, image.of_mut(scratch)));
            port.push(Request::write(Label::Image, address.node(), slot, image.bytes, image.at));
        }
    }
    push_by_lines(port, Label::Leaf, (address.node(), address.offset()), page.bytes, page.at, unit_bytes);
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

/// WRITEs the page again whose flush the lane has not ended, if a WRITE of it was posted: it may have landed in part. The
/// queue pairs that failed are closed, and no operation has used the scratch since, so the image there says whether.
pub async fn write_again<F: PageFormat>(site: Site<'_, F>, lane: &Lane<'_>) -> Result<(), OpError> {
    let Some(recovery) = site.recovery.filter(|_| !planted(Mutant::TORN_PAGE_LEFT)) else { return Ok(()) };
    let staged = loop {
        match site.store.staged_by(lane) {
            Ok(Some(staged)) => break staged.id(),
            Ok(None) => return Ok(()),
            Err(_) => site.store.yield_now(lane).await?,
        }
    };
    let (incarnation, bytes) = (recovery.member().incarnation, site.page.bytes);
    let posted = lane.port().with(|scratch| {
        let (posted, _) = PageImage::read(site.image().of(scratch), incarnation, bytes)?;
        (posted.address == staged).then_some(posted)
    });
    let Some(posted) = posted else { return Ok(()) };
    restored(write_page(site, lane, (posted.address, posted.lsn), ImageSlot::Last).await?)
}

/// What a page comes to that was WRITTEN again when the lane was settled.
pub(super) fn restored(written: Result<(), OpError>) -> Result<(), OpError> {
    match written {
        // Its row is dead, and a finder restores the page; or the page has gone with its memory node.
        Err(OpError { cause: Cause::Fenced, .. }) => Ok(()),
        Err(OpError { cause: Cause::Verb(error), .. }) if error.status == Status::NodeDown => Ok(()),
        written => written,
    }
}

/// Ends what a lane has left in the page store whose operation failed or was dropped: a flush counts as failed, once its
/// queue pair is known to be closed, and its page is whole ([`write_again`]). The port is idle, and the lane's flight of the
/// log is settled.
pub async fn settle<F>(site: Site<'_, F>, lane: &Lane<'_>) -> Result<(), OpError> {
    if site.store.owes(lane) {
        lane.close(site.line_at).await.map_err(unknown)?;
        site.store.settle(lane).await?;
    }
    if let Some(recovery) = site.recovery {
        recovery.end_all_work(lane);
    }
    Ok(())
}
