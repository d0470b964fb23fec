//! Scan: ascending records from a key on, a page at a time.
//!
//! A scan goes from leaf to leaf by their bounds: the next leaf is that of the smallest key above the last one's. Where
//! no leaf is, a void or a header says how far the gap reaches. Leaves never overlap and every step begins where the one
//! before ended, so keys ascend, none comes twice, and none that is there throughout is missed.
//!
//! **Ahead.** Copies say which leaves probably come next. As many as the page is likely to need are READ in one round
//! trip, into images of their own ([`Window`]). What the copies said does not matter any more then: an image is taken if
//! it shows a live leaf whose bounds have the key with which the scan goes on. Where none of them does, that key is
//! looked for as a get does it, and the other images wait for their turn. If a gap comes before the last of these
//! leaves, its node is READ with them. A void counts only in a node image of this scan: a copy's may have been filled.

use super::Dolphin;
use super::blocks::no_block;
use super::layout::leaf::{Leaf, Value, place_of};
use super::layout::shape::SPAN_MAX;
use super::search::{Fit, Located};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::mutants::{Mutant, planted};
use crate::operation::{OpError, Operation, Outcome};
use crate::radix::cursor::DescentCursor;
use crate::radix::slot::{Child, Header, NodeType, Place};
use crate::radix::tile::{Bounds, Side, Tile};
use crate::radix::tile_descent::{Start, TileCursor, TileEnd};
use crate::radix::tree::{LEAVES_AT_ONCE_MAX, corrupt};
use crate::remote::address::Address;
use core::ops::Range;

/// What a leaf gave to the page.
struct Taken {
    records: usize,
    /// The upper bound, or the end of all keys, was passed.
    ends: bool,
}

/// Leaves that were READ together.
#[derive(Default)]
struct Window {
    leaves: heapless::Vec<Address, LEAVES_AT_ONCE_MAX>,
    /// How many of them the scan is through with.
    done: usize,
    /// The image of the first one. If the scan begins with a gap that is 1: looking for a leaf uses image 0.
    first: usize,
    /// The node of which node image 0 is, if that was READ by this scan.
    node: Option<(NodeType, Place)>,
}

/// Nodes whose copies are gone through for one window.
const COPIES_MAX: usize = 2 * LEAVES_AT_ONCE_MAX;

impl Dolphin<'_> {
    /// Steps: READ the leaves of a window; what no image shows, as a get, for the smallest key above each leaf and gap.
    pub(super) async fn scan(&self, lane: &Lane<'_>, operation: &Operation) -> Result<Outcome, Interrupt> {
        let limit = (operation.limit as usize).min(self.plan.page_records());
        let mut taken = Taken { records: 0, ends: false };
        if limit == 0 {
            // Nothing was READ, so there may be more.
            return Ok(Outcome::Page { records: 0, more: true });
        }
        let (from, way) = (self.tree.scratch.last.clone(), self.tree.way());
        lane.port().with(|scratch| scratch.copy_within(self.plan.key.clone(), from.start));
        let mut window = Window::default();
        let (mut doubted, mut attempts) = (None, 0);
        while !taken.ends {
            let before = taken.records;
            if window.done == window.leaves.len() {
                let wanted = self.leaves_for(limit - taken.records, taken.records == 0);
                if self.push_ahead(lane, operation, wanted, &mut window) {
                    lane.port().submit().await?;
                }
            }
            if let Some((i, leaf)) = self.fitting(lane, &mut window, &from) {
                self.take(lane, operation, (i, leaf), limit, &mut taken)?;
            } else {
                let start = self.start_in(lane, &window, &from);
                if window.first == 0 {
                    // What follows uses its image.
                    window.done = window.done.max(1).min(window.leaves.len());
                }
                let located = self.locate(lane, &way, &from, start).await?;
                window.node = match &located {
                    // The void's node was looked at last.
                    Located::Gap(cursor, TileEnd::Void(_)) => cursor.slot.owner.below(),
                    _ => None,
                };
                match located {
                    Located::Leaf(leaf) => self.take(lane, operation, (0, leaf), limit, &mut taken)?,
                    Located::Gap(cursor, end) => taken.ends = !self.pass(lane, &cursor, end),
                }
            }
            if self.has_blocks()
                && let Some(name) = self.fill_page(lane, before..taken.records).await?
            {
                if doubted.replace(name) == Some(name) {
                    return Err(no_block(name).into());
                }
                // The same leaf is READ again, and what was READ with it.
                taken = Taken { records: before, ends: false };
                lane.port().with(|scratch| scratch.copy_within(self.low.clone(), from.start));
                window.done = window.leaves.len();
                lane.attempt(&mut attempts, "READING the blocks of a leaf")?;
                continue;
            }
            if taken.records == limit {
                return Ok(Outcome::Page { records: limit as u32, more: true });
            }
            taken.ends |= operation.bounded
                && lane.port().with(|scratch| scratch.get(from.clone()) >= scratch.get(self.plan.key_high.clone()));
            lane.check_deadline()?;
        }
        Ok(Outcome::Page { records: taken.records as u32, more: false })
    }

    /// How many leaves have `records` records, probably: two thirds of their cells are taken. `first`: the scan may begin
    /// anywhere in the first one.
    fn leaves_for(&self, records: usize, first: bool) -> usize {
        let fill = (self.shape.span * 2 / 3).max(1);
        (records.div_ceil(fill) + usize::from(first)).clamp(1, self.tree.scratch.leaves_at_once)
    }

    /// Leaf images of a window, at most. A submit has room for the READ of a node besides.
    fn images(&self) -> usize {
        self.tree.scratch.leaves_at_once.min(LEAVES_AT_ONCE_MAX - 1)
    }

    /// Pushes READs of the leaves that come next as copies have it, `wanted` at most; and of the node that has the first
    /// gap among them. `false`: copies know of none.
    fn push_ahead(&self, lane: &Lane<'_>, operation: &Operation, wanted: usize, window: &mut Window) -> bool {
        let seen = core::mem::take(window).node;
        let mut room = [0; 64];
        let Some(key) = room.get_mut(..self.shape.key_bytes) else { return false };
        lane.port()
            .with(|scratch| key.copy_from_slice(scratch.get(self.tree.scratch.last.clone()).unwrap_or_default()));
        for _ in 0..COPIES_MAX {
            if self.add_of_copy(lane, operation, wanted, window, key).is_none() {
                break;
            }
        }
        for (i, leaf) in window.leaves.iter().enumerate() {
            lane.port().push(self.leaf_request(*leaf, window.first + i));
        }
        let node = window.node.filter(|node| seen != Some(*node));
        if let Some((kind, place)) = node {
            lane.port().push(self.tree.node_request(kind, place));
        }
        window.node = window.node.or(seen);
        !window.leaves.is_empty() || node.is_some()
    }

    /// Adds leaves of the copy in which the way to `key` ends, and moves the key on to where it has to be looked for
    /// then. `None`: there are enough, or copies know no more.
    fn add_of_copy(
        &self,
        lane: &Lane<'_>,
        operation: &Operation,
        wanted: usize,
        window: &mut Window,
        key: &mut [u8],
    ) -> Option<()> {
        let epoch = self.tree.epoch(lane);
        let route = self.tree.cache.route(key, epoch)?;
        let position = route.depth.checked_sub(1)?;
        let mut slot = route.word;
        while !slot.is_empty() {
            match slot.thawed().tile_child().ok()? {
                Child::Leaf(leaf) => {
                    self.check_inside(leaf).ok()?;
                    window.leaves.push(leaf).ok()?;
                    if window.leaves.len() >= wanted.min(self.images() - window.first) {
                        return None;
                    }
                }
                Child::Void(_) => {
                    let node @ (kind, place) = route.owner.below()?;
                    if window.node.is_some_and(|other| other != node) || !self.tree.is_inside(place, kind.bytes()) {
                        return None;
                    }
                    window.node = Some(node);
                    if window.leaves.is_empty() {
                        window.first = 1;
                    }
                }
                // There is no copy of it.
                Child::Node(..) if slot == route.word => return None,
                Child::Node(..) => return Some(()),
                Child::Empty => return None,
            }
            slot = self.tree.cache.slot_above(route.owner, slot.partial(), epoch)?;
            if !slot.is_empty() {
                *key.get_mut(position)? = slot.partial();
                key.get_mut(position + 1..)?.fill(0);
                let high = self.plan.key_high.clone();
                if operation.bounded && lane.port().with(|scratch| scratch.get(high).is_some_and(|high| *key >= *high))
                {
                    return None;
                }
            }
        }
        let mut next = [0; 64];
        let next = next.get_mut(..key.len())?;
        let is_more = Bounds::new(key.get(..position)?, Tile::one(u8::MAX))?.write_high(next);
        key.copy_from_slice(next);
        is_more.then_some(())
    }

    /// The next image that shows a live leaf with the key at `from`. The scan is done with those in front of it; and if
    /// there is none, with those that do not lie above the key.
    fn fitting(&self, lane: &Lane<'_>, window: &mut Window, from: &Range<usize>) -> Option<(usize, Address)> {
        let images = window.leaves.iter().enumerate().map(|(n, leaf)| (n, (window.first + n, *leaf)));
        for (n, image @ (i, leaf)) in images.clone().skip(window.done) {
            if planted(Mutant::GAP_UNCONFIRMED) {
                self.jump(lane, image, from);
            }
            if self.fit_of(lane, i, leaf, from) == Ok(Fit::Live) {
                window.done = n + 1;
                return Some(image);
            }
        }
        let above = images.skip(window.done).find(|(_, image)| self.lies_above(lane, *image, from));
        window.done = above.map_or(window.leaves.len(), |(n, _)| n);
        None
    }

    /// Whether a leaf image shows a leaf whose keys are all above the key at `from`.
    fn lies_above(&self, lane: &Lane<'_>, (i, leaf): (usize, Address), from: &Range<usize>) -> bool {
        lane.port().with(|scratch| {
            let image = self.tree.scratch.leaf(i).of(scratch);
            let leaf = Leaf::new(&self.shape, image, leaf, self.tree.index);
            leaf.is_ok_and(|leaf| leaf.side(scratch.get(from.clone()).unwrap_or_default()) == Side::Below)
        })
    }

    /// What [`Mutant::GAP_UNCONFIRMED`] does: moves on to the smallest key of a leaf, if that is greater.
    fn jump(&self, lane: &Lane<'_>, (i, leaf): (usize, Address), from: &Range<usize>) {
        lane.port().with(|scratch| {
            let mut low = [0; 64];
            let low = low.get_mut(..self.shape.key_bytes)?;
            let image = self.tree.scratch.leaf(i).of(scratch);
            Leaf::new(&self.shape, image, leaf, self.tree.index).ok()?.bounds(&mut [0; 64]).write_low(low);
            let from = scratch.get_mut(from.clone())?;
            if *low > *from {
                from.copy_from_slice(low);
            }
            Some(())
        });
    }

    /// Where the descent to the key at `from` begins, of which no image shows the leaf.
    fn start_in(&self, lane: &Lane<'_>, window: &Window, from: &Range<usize>) -> Start {
        let epoch = self.tree.epoch(lane);
        let route = lane.port().with(|scratch| self.tree.cache.route(scratch.get(from.clone())?, epoch));
        let Some(route) = route.filter(|route| route.owner.below().is_some()) else { return Start::Copies };
        let cursor = TileCursor { slot: DescentCursor::copied(&route) };
        let was_read = |leaf| window.leaves.contains(&leaf);
        match route.word.thawed().tile_child() {
            _ if window.node == route.owner.below() => Start::Seen(cursor),
            Ok(Child::Leaf(leaf)) if was_read(leaf) => Start::Again(cursor),
            _ => Start::Copies,
        }
    }

    /// Copies the records of a leaf image that the scan wants, or the names of their blocks, onto the page, and moves on
    /// to the smallest key above it. Where it began is in `low` afterwards.
    fn take(
        &self,
        lane: &Lane<'_>,
        operation: &Operation,
        (image, address): (usize, Address),
        limit: usize,
        taken: &mut Taken,
    ) -> Result<(), OpError> {
        lane.port().with(|scratch| {
            scratch.copy_within(self.tree.scratch.last.clone(), self.low.start);
            let Some((front, page)) = scratch.split_at_mut_checked(self.plan.page.start) else { return Ok(()) };
            let mut high = [0; 64];
            let Some(high) = high.get_mut(..self.shape.key_bytes) else { return Ok(()) };
            let image = self.tree.scratch.leaf(image).of(front);
            let of_bytes = |_| corrupt(place_of(address), "a value in no known state");
            let leaf = Leaf::new(&self.shape, image, address, self.tree.index).map_err(of_bytes)?;
            let low = front.get(self.plan.key.clone()).unwrap_or_default();
            let end = front.get(self.plan.key_high.clone()).filter(|_| operation.bounded);
            let mut cells = [0; SPAN_MAX];
            let count = leaf.sorted(low, end, &mut cells).map_err(of_bytes)?;
            for cell in cells.iter().take(count) {
                let cell = usize::from(*cell);
                let key = leaf.key(cell);
                if operation.after && key == low {
                    continue;
                }
                if taken.records == limit {
                    return Ok(());
                }
                let name;
                let value = match leaf.value(cell).map_err(of_bytes)? {
                    Value::Absent => continue,
                    Value::Here(value) => value,
                    Value::Block(block) => {
                        name = block.to_bits().to_le_bytes();
                        &name[..]
                    }
                };
                let range = self.plan.record(taken.records);
                let at = range.start - self.plan.page.start;
                let Some(record) = page.get_mut(at..at + range.len()) else { return Ok(()) };
                let Some((to_key, to_value)) = record.split_at_mut_checked(key.len()) else { return Ok(()) };
                to_key.copy_from_slice(key);
                if let Some(to_value) = to_value.get_mut(..value.len()) {
                    to_value.copy_from_slice(value);
                }
                taken.records += 1;
            }
            taken.ends = !leaf.bounds(&mut [0; 64]).write_high(high);
            if let Some(from) = front.get_mut(self.tree.scratch.last.clone()) {
                from.copy_from_slice(high);
            }
            Ok(())
        })
    }

    /// Moves on to the smallest key that may be behind a gap. `false`: there is none.
    pub(super) fn pass(&self, lane: &Lane<'_>, cursor: &TileCursor, end: TileEnd) -> bool {
        lane.port()
            .with(|scratch| {
                let mut room = [0; 64];
                let key = room.get_mut(..self.shape.key_bytes)?;
                key.copy_from_slice(scratch.get(self.tree.scratch.last.clone())?);
                let mut next = [0; 64];
                let next = next.get_mut(..self.shape.key_bytes)?;
                let is_more = match end {
                    TileEnd::Void(tile) => {
                        let position = usize::from(cursor.slot.depth).checked_sub(1)?;
                        Bounds::new(key.get(..position)?, tile)?.write_high(next)
                    }
                    TileEnd::Header(at) => {
                        let header = Header::from_word(self.tree.scratch.node(0).word(scratch))?;
                        let (theirs, ours) = (header.byte_at(at)?, *key.get(at)?);
                        if ours < theirs {
                            // The keys below that node begin with its header.
                            next.fill(0);
                            next.get_mut(..at)?.copy_from_slice(key.get(..at)?);
                            for position in at..usize::from(header.position) {
                                *next.get_mut(position)? = header.byte_at(position)?;
                            }
                            true
                        } else {
                            // There is nothing else with the bytes in front of the difference.
                            match Bounds::new(key.get(..at)?, Tile::new(theirs, u8::MAX)?) {
                                Some(bounds) => bounds.write_high(next),
                                None => false,
                            }
                        }
                    }
                    TileEnd::Empty | TileEnd::Leaf(_) => false,
                };
                scratch.get_mut(self.tree.scratch.last.clone())?.copy_from_slice(next);
                Some(is_more)
            })
            .unwrap_or(false)
    }
}
