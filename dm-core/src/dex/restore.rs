//! Step (a) of a recovery: pages that deaths have left torn become whole again.
//!
//! ```text
//!  rows of memory node 0 ──► DEAD ones ──► their redo slots on every memory node ──► images of this entry
//!                                                                                         │ for each: READ the page
//!                              the last writer's image of that page ◄── torn, and of this entry
//!                                               │ WRITE, and wait
//!                                               ▼ whole
//! ```
//!
//! Only a WRITE of a flush tears a page, and its image was whole before. The dead compute nodes are those that entries
//! of the table have named, and finders that died; none of their rows is freed while the entry is RECOVERING
//! ([`crate::index::owners`]). Which image counts, and why: [`super::image`].
//!
//! **Why a page that is whole stays as it is.** Its image may be an older flush's: a lane's slot has the image of its own
//! last flush only, and another lane may have flushed the page since.
//!
//! **A place of another leaf by now** may be in use by an owner that lives. Its first line has another generation, or keys of
//! another entry. A page is restored only if two READs have found it torn, with a first line of this entry, the second
//! one after the image was found. A WRITE that was under way during the first READ changes the first line, too.
//!
//! Round trips: one for 16 rows; of a dead row one per memory node, and one for eight slots; of an image of this entry one,
//! and of a torn page as much again as for all slots of its memory node.

use super::flush::PageFormat;
use super::image::PageImage;
use crate::lane::{Lane, word_at};
use crate::membership::redo::{self, Area, HEADER_BYTES};
use crate::membership::{Recovery, push_by_lines};
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError, unknown};
use crate::port::OUTBOX_REQUESTS;
use crate::remote::address::Address;
use crate::remote::lock_word::RowId;
use crate::remote::row::{Row, RowState, RowWord};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, NodeId, Request};
use core::ops::Range;
use heapless::Vec;
use static_assertions::const_assert;

/// Headers of slots that one submit brings.
const HEADERS_AT_ONCE: u32 = 8;

/// Scratch for looking: headers of slots, a row, or words of rows.
const LOOK_BYTES: usize = HEADERS_AT_ONCE as usize * HEADER_BYTES;

const_assert!(LOOK_BYTES >= Row::BYTES && LOOK_BYTES >= OUTBOX_REQUESTS * 8);

/// Scratch for restoring pages of `page_bytes` bytes.
pub const fn room_bytes(page_bytes: usize) -> usize {
    LOOK_BYTES + page_bytes + HEADER_BYTES + page_bytes
}

/// What recoveries have to know of the bytes of a page besides.
pub trait TornFormat: PageFormat {
    /// Whether all lines of an image are of one WRITE.
    fn is_whole(&self, page: &[u8]) -> bool;

    /// Whether the first line of an image, which is never torn, is one of the page at `address`, with its generation, in
    /// `entry`, as far as the line tells.
    fn may_be_of(&self, page: &[u8], address: Address, entry: u32) -> bool;
}

/// What a lane restores pages with.
pub struct Site<'a, F> {
    /// What is known of the bytes of pages.
    pub format: &'a F,
    /// Length of a page.
    pub page_bytes: usize,
    /// The lease of the compute node that recovers.
    pub recovery: &'a Recovery<'a>,
    /// Memory nodes of the pool.
    pub geometry: &'a [NodeGeometry],
    /// The lane's scratch for it: [`room_bytes`].
    pub room: &'a Range<usize>,
}

impl<F> Clone for Site<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Site<'_, F> {}

/// Where an image is.
#[derive(Clone, Copy)]
struct Place {
    /// Byte offset of the slot.
    offset: u64,
    incarnation: u32,
}

impl<F: TornFormat> Site<'_, F> {
    fn page(&self) -> Range<usize> {
        let start = self.room.start + LOOK_BYTES;
        start..start + self.page_bytes
    }

    fn slot(&self) -> Range<usize> {
        let start = self.page().end;
        start..start + HEADER_BYTES + self.page_bytes
    }

    fn geometry_of(&self, node: NodeId) -> Option<&NodeGeometry> {
        self.geometry.get(usize::from(node.0))
    }

    /// Whether an image could be of a page of `entry` on `node`. Its bytes are from a memory node: the page lies in the
    /// heap.
    fn is_wanted(&self, (image, bytes): &(PageImage, usize), node: NodeId, entry: u32) -> bool {
        let (page, last) = (image.address, self.page_bytes.saturating_sub(1) as u64);
        let in_heap = |offset| self.geometry_of(node).is_some_and(|geometry| geometry.chunk_of(offset).is_some());
        image.entry == entry
            && *bytes == self.page_bytes
            && page.node() == node
            && in_heap(page.offset())
            && in_heap(page.offset().saturating_add(last))
    }

    /// READs a page. Whether it is torn, and of `entry`, as far as it tells.
    async fn is_torn(&self, lane: &Lane<'_>, page: Address, entry: u32) -> Result<bool, OpError> {
        let room = self.page();
        let read = Request::read(Label::Leaf, page.node(), page.offset(), self.page_bytes, room.start);
        lane.port().call(read.untimed()).await?;
        Ok(lane.port().with(|scratch| {
            let bytes = scratch.get(room).unwrap_or_default();
            let is_whole = self.format.is_whole(bytes) && !planted(Mutant::OLD_IMAGE_OVER_WHOLE_PAGE);
            !is_whole && self.format.may_be_of(bytes, page, entry)
        }))
    }

    /// READs the image at `place` to the scratch, if it is whole.
    async fn load(&self, lane: &Lane<'_>, node: NodeId, place: Place) -> Result<Option<PageImage>, OpError> {
        let room = self.slot();
        lane.port().call(Request::read(Label::Image, node, place.offset, room.len(), room.start)).await?;
        Ok(lane.port().with(|scratch| {
            let slot = scratch.get(room).unwrap_or_default();
            PageImage::read(slot, place.incarnation, self.page_bytes).map(|(image, _)| image)
        }))
    }
}

/// Gives every torn page of `entry` its last image. Returns how many were torn. The entry is RECOVERING, and this compute
/// node is its finder.
pub async fn restore<F: TornFormat>(site: Site<'_, F>, lane: &Lane<'_>, entry: u32) -> Result<u32, OpError> {
    let mut restored = 0;
    let mut rows = DeadRows::default();
    while let Some(row) = rows.next(site, lane).await? {
        for node in (0..).map(NodeId).take(site.geometry.len()) {
            let mut slots = Slots::of(site, lane, node, row).await?;
            while let Some(found) = slots.next(site, lane, entry).await? {
                for (_, image) in found {
                    restored += u32::from(restore_page(site, lane, &image).await?);
                }
            }
        }
    }
    Ok(restored)
}

/// Restores the page of an image, if that is torn.
async fn restore_page<F: TornFormat>(site: Site<'_, F>, lane: &Lane<'_>, known: &PageImage) -> Result<bool, OpError> {
    let &PageImage { address: page, entry, .. } = known;
    if !site.is_torn(lane, page, entry).await? {
        return Ok(false);
    }
    let corrupt = |what| OpError::harmless(Cause::Corrupt { address: page, what });
    let place = last_image(site, lane, page, entry).await?;
    let place = place.ok_or(corrupt("a torn page of a dead compute node, without a whole image"))?;
    if !site.is_torn(lane, page, entry).await? {
        return Ok(false);
    }
    if site.load(lane, page.node(), place).await?.is_none_or(|image| !image.is_of(entry, page)) {
        return Err(corrupt("an image of a dead compute node changed"));
    }
    if !site.recovery.lease.may_write() {
        return Err(OpError::harmless(Cause::Fenced));
    }
    let from = site.slot().start + HEADER_BYTES;
    let to = (page.node(), page.offset());
    push_by_lines(lane.port(), Label::Replay, to, site.page_bytes, from, site.recovery.unit_bytes);
    lane.port().submit().await.map_err(unknown)?;
    Ok(true)
}

/// The whole image of a page that was written last.
async fn last_image<F: TornFormat>(
    site: Site<'_, F>,
    lane: &Lane<'_>,
    page: Address,
    entry: u32,
) -> Result<Option<Place>, OpError> {
    let mut last: Option<(Place, PageImage)> = None;
    let mut rows = DeadRows::default();
    while let Some(row) = rows.next(site, lane).await? {
        let mut slots = Slots::of(site, lane, page.node(), row).await?;
        while let Some(found) = slots.next(site, lane, entry).await? {
            for (place, image) in found {
                let is_later = last.is_none_or(|(_, last)| image.is_later_than(&last));
                // The header alone may be there without all of the bytes.
                if image.is_of(entry, page) && is_later && site.load(lane, page.node(), place).await? == Some(image) {
                    last = Some((place, image));
                }
            }
        }
    }
    Ok(last.map(|(place, _)| place))
}

/// A row that is DEAD, and its incarnation.
type DeadRow = (RowId, u32);

/// The rows that are DEAD, in order. Rows that become so meanwhile may be among them.
#[derive(Default)]
struct DeadRows {
    found: Vec<DeadRow, OUTBOX_REQUESTS>,
    looked: u32,
}

impl DeadRows {
    async fn next<F: TornFormat>(&mut self, site: Site<'_, F>, lane: &Lane<'_>) -> Result<Option<DeadRow>, OpError> {
        let Some(home) = site.geometry.first() else { return Ok(None) };
        let (port, at) = (lane.port(), site.room.start);
        loop {
            if let Some(row) = self.found.pop() {
                return Ok(Some(row));
            }
            // Row 0 is nobody.
            let first = self.looked.max(1);
            // What a step before has left, a wake say, goes with these READs.
            let count = home.row_count.saturating_sub(first).min(port.room().max(1) as u32);
            if count == 0 {
                return Ok(None);
            }
            lane.check_deadline()?;
            for step in 0..count {
                let offset = home.row_offset(RowId((first + step) as u16));
                port.push(Request::read(Label::Row, HOME, offset, 8, at + step as usize * 8));
            }
            port.submit().await?;
            for step in (0..count).rev() {
                let word = RowWord(word_at(lane, at + step as usize * 8));
                if word.state() == Some(RowState::Dead) {
                    let _ = self.found.push((RowId((first + step) as u16), word.incarnation()));
                }
            }
            self.looked = first + count;
        }
    }
}

/// The redo slots of a row on one memory node.
struct Slots {
    node: NodeId,
    incarnation: u32,
    area: Option<Area>,
    looked: u32,
}

impl Slots {
    async fn of<F: TornFormat>(
        site: Site<'_, F>,
        lane: &Lane<'_>,
        node: NodeId,
        (row, incarnation): DeadRow,
    ) -> Result<Self, OpError> {
        let area = match site.geometry_of(node) {
            Some(geometry) => redo::area_of(lane, node, geometry, (row, incarnation), site.room.start).await?,
            None => None,
        };
        Ok(Self { node, incarnation, area, looked: 0 })
    }

    /// Images of `entry` in the next slots, as their headers say. `None`: there are no more slots.
    async fn next<F: TornFormat>(
        &mut self,
        site: Site<'_, F>,
        lane: &Lane<'_>,
        entry: u32,
    ) -> Result<Option<Vec<(Place, PageImage), { HEADERS_AT_ONCE as usize }>>, OpError> {
        let Some(area) = self.area.filter(|area| self.looked < area.slots()) else { return Ok(None) };
        let (port, at, first) = (lane.port(), site.room.start, self.looked);
        let count = (area.slots() - first).min(HEADERS_AT_ONCE);
        self.looked += count;
        let mut places = Vec::<_, { HEADERS_AT_ONCE as usize }>::new();
        for slot in first..first + count {
            let what = "a row announces redo slots without a chunk";
            let corrupt = || OpError::harmless(Cause::Corrupt { address: Address::new(self.node, 0, 0), what });
            let place = Place { offset: area.slot(slot).ok_or_else(corrupt)?, incarnation: self.incarnation };
            let _ = places.push(place);
        }
        for (to, place) in (at..).step_by(HEADER_BYTES).zip(&places) {
            port.push(Request::read(Label::Image, self.node, place.offset, HEADER_BYTES, to));
        }
        port.submit().await?;
        let peek = |from: usize| port.with(|scratch| PageImage::peek(scratch.get(from..)?, self.incarnation));
        let peeked = (at..).step_by(HEADER_BYTES).zip(places).filter_map(|(from, place)| Some((place, peek(from)?)));
        let wanted = peeked.filter(|(_, peeked)| site.is_wanted(peeked, self.node, entry));
        let found = wanted.map(|(place, (image, _))| (place, image)).collect();
        Ok(Some(found))
    }
}
