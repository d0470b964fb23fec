//! Scan: ascending records from a key on, a page at a time.
//!
//! Each leaf is judged like a get's: versions, generation, fences. The scan keeps a *bound*: everything below it has
//! been delivered or found absent. It starts at the caller's key and moves to the high fence of each leaf that was
//! taken; a leaf counts only if it covers the bound. So no key comes twice, and none that was there throughout is
//! missed, whatever splits and merges go on ([`btree_scans`](crate::manual::btree_scans)).
//!
//! Leaves to the right are READ several at a time when the cached parent names them (Sherman section 4.5). A leaf that
//! does not continue where the one before ended is discarded and looked for again.

use super::leaves::{Leaves, SPAN_MAX, judge_leaf, key_of};
use super::node::{self, Header};
use super::router::Router;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{OpError, Operation, Outcome};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::verbs::Label;
use core::ops::Range;
use heapless::Vec;

/// Leaves one submit READs at most.
pub(crate) const LEAVES_MAX: usize = 8;

/// Progress of a scan.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    records: usize,
    wanted: usize,
    /// The bound itself is not wanted: it is the caller's cursor.
    after: bool,
}

impl Progress {
    /// At the beginning of a scan whose pages have up to `page_records` records.
    pub(crate) fn begin(operation: &Operation, page_records: usize) -> Self {
        Self { records: 0, wanted: (operation.limit as usize).min(page_records), after: operation.after }
    }

    /// Records that are in the page.
    pub(crate) const fn records(&self) -> usize {
        self.records
    }

    /// Records that are to be in the page, if there are as many.
    pub(crate) const fn wanted(&self) -> usize {
        self.wanted
    }
}

/// Result of taking from one leaf.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    /// The page is full before the leaf was.
    full: bool,
    /// The leaf is the last of the tree, or ends past the upper bound.
    last: bool,
    /// The leaf's right neighbour.
    pub(crate) sibling: Address,
}

/// Scans of any index of this family.
pub(crate) trait Scan<'s>: Leaves<'s> {
    /// A page of records, from the operation's key on.
    async fn scan(&self, lane: &Lane<'_>, operation: &Operation) -> Result<Outcome, Interrupt> {
        let port = lane.port();
        // The bound lies in the separator range, which nothing else uses in a scan.
        let bound = self.tree().scratch.separator.clone();
        port.with(|scratch| {
            if bound.end <= scratch.len() {
                scratch.copy_within(self.plan().key.clone(), bound.start);
            }
        });
        let mut progress = Progress::begin(operation, self.plan().page_records());
        if progress.wanted == 0 {
            // No leaf was READ, so there may be more.
            return Ok(Outcome::Page { records: 0, more: true });
        }
        loop {
            let Some(taken) = self.first_leaf(lane, operation, &bound, &mut progress).await? else {
                return Ok(Outcome::Page { records: 0, more: false });
            };
            if let Some(page) = Self::page(&progress, taken) {
                return Ok(page);
            }
            let mut next = taken.sibling;
            loop {
                let ahead = self.leaves_ahead(lane, &bound, next, &progress);
                // The first leaf did not continue at the bound: look for the bound from the root.
                let Ok(taken) = self.take_leaves(lane, operation, &bound, &ahead, &mut progress).await? else {
                    lane.mark(Mark::SCAN_RESTART);
                    break;
                };
                if let Some(page) = Self::page(&progress, taken) {
                    return Ok(page);
                }
                next = taken.sibling;
                lane.check_deadline()?;
            }
            lane.check_deadline()?;
        }
    }

    fn page(progress: &Progress, taken: Taken) -> Option<Outcome> {
        let records = progress.records as u32;
        if taken.last && !taken.full {
            return Some(Outcome::Page { records, more: false });
        }
        (progress.records == progress.wanted).then_some(Outcome::Page { records, more: true })
    }

    /// Descends to the leaf that covers the bound and takes from it. `None`: the tree has no root.
    async fn first_leaf(
        &self,
        lane: &Lane<'_>,
        operation: &Operation,
        bound: &Range<usize>,
        progress: &mut Progress,
    ) -> Result<Option<Taken>, Interrupt> {
        let visit = self.visit(lane, bound, |image, _, _| self.whole(image), &(0..0)).await?;
        if visit.is_none() {
            return Ok(None);
        }
        Ok(Some(lane.port().with(|scratch| self.take(scratch, 0, operation, bound, progress))))
    }

    /// The leaf at `next`, and those that the cached parent names behind it, as many as the page probably needs.
    fn leaves_ahead(
        &self,
        lane: &Lane<'_>,
        bound: &Range<usize>,
        next: Address,
        progress: &Progress,
    ) -> Vec<Address, LEAVES_MAX> {
        let mut ahead = Vec::new();
        // There is room for one: the vector is empty.
        let _ = ahead.push(next);
        // Leaves are between half full and full; two thirds is what random inserts give.
        let per_leaf = (self.span() * 2 / 3).max(1);
        let leaves = (progress.wanted - progress.records).div_ceil(per_leaf);
        let room = leaves.min(LEAVES_MAX).min(self.tree().scratch.leaves_at_once);
        if room > 1 {
            let mut named = [Address::NULL; LEAVES_MAX];
            let found = self.router().leaves_ahead(lane, bound, &mut named[..room]);
            if named.first() == Some(&next) {
                for &address in named.iter().take(found).skip(1) {
                    // As many as fit were asked for.
                    let _ = ahead.push(address);
                }
            }
        }
        ahead
    }

    /// READs the leaves `ahead` at once and takes from each that continues where the one before ended. `Err(())`: the
    /// first one does not.
    async fn take_leaves(
        &self,
        lane: &Lane<'_>,
        operation: &Operation,
        bound: &Range<usize>,
        ahead: &[Address],
        progress: &mut Progress,
    ) -> Result<Result<Taken, ()>, OpError> {
        let port = lane.port();
        for (i, address) in ahead.iter().enumerate() {
            port.push(self.tree().leaf_image(1 + i).read_from(Label::Leaf, *address));
        }
        port.submit().await?;
        let mut last = Err(());
        for (i, &address) in ahead.iter().enumerate() {
            if self.tree().exposed_too_long(port.completion(i).elapsed_ns) {
                break;
            }
            let wanted = self.leaf_wanted(address);
            let taken = port.with(|scratch| {
                let mut room = [0; KEY_BYTES_MAX];
                let key = key_of(scratch, bound, &mut room);
                let image = self.tree().leaf_image(1 + i).of(scratch);
                if planted(Mutant::SCAN_UNCHECKED) {
                    return Some(self.take(scratch, 1 + i, operation, bound, progress));
                }
                let sound = judge_leaf(image, &wanted, key, |image| self.whole(image));
                matches!(sound, Ok(Ok(()))).then(|| self.take(scratch, 1 + i, operation, bound, progress))
            });
            let Some(taken) = taken else { break };
            last = Ok(taken);
            if Self::page(progress, taken).is_some() {
                break;
            }
        }
        Ok(last)
    }

    /// Copies the records of the leaf in node image `i` from the bound on into the page, and moves the bound to the
    /// leaf's high fence.
    fn take(
        &self,
        scratch: &mut [u8],
        i: usize,
        operation: &Operation,
        bound: &Range<usize>,
        progress: &mut Progress,
    ) -> Taken {
        let (mut low, mut high) = ([0; KEY_BYTES_MAX], [0; KEY_BYTES_MAX]);
        let low = key_of(scratch, bound, &mut low);
        let high = key_of(scratch, &self.plan().key_high, &mut high);
        let high = operation.bounded.then_some(high);
        let Some((front, page)) = scratch.split_at_mut_checked(self.plan().page.start) else {
            return Taken { full: false, last: true, sibling: Address::NULL };
        };
        let image = self.tree().leaf_image(i).of(front);
        let mut slots = [0; SPAN_MAX];
        let count = self.sorted(image, low, high, &mut slots);
        let mut slots = &slots[..count];
        let record_bytes = self.plan().key_bytes + self.plan().value_bytes;
        let (mut full, mut before) = (false, None);
        while let Some((&slot, rest)) = slots.split_first() {
            if progress.records == progress.wanted {
                full = true;
                break;
            }
            slots = rest;
            let Some(record) = page.get_mut(progress.records * record_bytes..(progress.records + 1) * record_bytes)
            else {
                full = true;
                break;
            };
            self.read_record(image, slot as usize, record);
            if progress.after && record.starts_with(low) {
                continue;
            }
            // Entries are whole one by one. A READ may meet a key's entry before a delete, and another entry of that
            // key after the next insert. Both were current in this call; one of them is enough. The first eight bytes
            // nearly always tell that two keys differ: a call of memcmp for each record took 11 instructions more.
            let word = record.first_chunk::<8>().copied();
            let key = |number: usize| page.get(number * record_bytes..)?.get(..self.plan().key_bytes);
            let is_twin = word == before && progress.records > 0 && key(progress.records - 1) == key(progress.records);
            before = word;
            if !is_twin {
                progress.records += 1;
            }
        }
        let mut fence = [0; KEY_BYTES_MAX];
        let Some(fence) = fence.get_mut(..bound.len()) else {
            return Taken { full, last: true, sibling: Address::NULL };
        };
        let bounded = node::read_high(image, fence);
        let sibling = Header::read(image).sibling;
        let last = !bounded || high.is_some_and(|high| &*fence >= high);
        if !last && !full {
            progress.after = false;
            if let Some(place) = front.get_mut(bound.clone()) {
                place.copy_from_slice(fence);
            }
        }
        Taken { full, last, sibling }
    }
}

impl<'s, L: Leaves<'s>> Scan<'s> for L {}
