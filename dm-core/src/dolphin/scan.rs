//! Scan: ascending records from a key on, a page at a time.
//!
//! A scan goes from leaf to leaf by their bounds: the next leaf is that of the smallest key above the last one's. Where
//! no leaf is, a void or a header says how far the gap reaches. Leaves never overlap and every step begins where the one
//! before ended, so keys ascend, none comes twice, and none that is there throughout is missed.

use super::Dolphin;
use super::blocks::no_block;
use super::layout::leaf::{Leaf, Value, place_of};
use super::layout::shape::SPAN_MAX;
use super::search::Located;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::operation::{OpError, Operation, Outcome};
use crate::radix::slot::Header;
use crate::radix::tile::{Bounds, Tile};
use crate::radix::tile_descent::{Start, TileCursor, TileEnd};
use crate::radix::tree::corrupt;
use crate::remote::address::Address;

/// What a leaf gave to the page.
struct Taken {
    records: usize,
    /// The upper bound, or the end of all keys, was passed.
    ends: bool,
}

impl Dolphin<'_> {
    /// Steps: as a get, for the lower bound; then for the smallest key above each leaf and gap.
    pub(super) async fn scan(&self, lane: &Lane<'_>, operation: &Operation) -> Result<Outcome, Interrupt> {
        let limit = (operation.limit as usize).min(self.plan.page_records());
        let mut taken = Taken { records: 0, ends: false };
        if limit == 0 {
            // Nothing was READ, so there may be more.
            return Ok(Outcome::Page { records: 0, more: true });
        }
        let (from, way) = (self.tree.scratch.last.clone(), self.tree.way());
        lane.port().with(|scratch| scratch.copy_within(self.plan.key.clone(), from.start));
        let (mut doubted, mut attempts) = (None, 0);
        while !taken.ends {
            match self.locate(lane, &way, &from, Start::Copies).await? {
                Located::Leaf(leaf) => {
                    let before = taken.records;
                    lane.port().with(|scratch| scratch.copy_within(from.clone(), self.low.start));
                    self.take(lane, operation, leaf, limit, &mut taken)?;
                    if self.has_blocks()
                        && let Some(name) = self.fill_page(lane, before..taken.records).await?
                    {
                        if doubted.replace(name) == Some(name) {
                            return Err(no_block(name).into());
                        }
                        // The same leaf again.
                        taken = Taken { records: before, ends: false };
                        lane.port().with(|scratch| scratch.copy_within(self.low.clone(), from.start));
                        lane.attempt(&mut attempts, "READING the blocks of a leaf")?;
                        continue;
                    }
                }
                Located::Gap(cursor, end) => taken.ends = !self.pass(lane, &cursor, end),
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

    /// Copies the records of leaf image 0 that the scan wants, or the names of their blocks, onto the page, and moves on to the smallest key above it.
    fn take(
        &self,
        lane: &Lane<'_>,
        operation: &Operation,
        address: Address,
        limit: usize,
        taken: &mut Taken,
    ) -> Result<(), OpError> {
        lane.port().with(|scratch| {
            let Some((front, page)) = scratch.split_at_mut_checked(self.plan.page.start) else { return Ok(()) };
            let mut high = [0; 64];
            let Some(high) = high.get_mut(..self.shape.key_bytes) else { return Ok(()) };
            let image = self.tree.scratch.leaf(0).of(front);
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
