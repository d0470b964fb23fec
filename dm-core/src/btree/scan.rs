//! Scan: ascending records from a key on, or the last ones below a key, a page at a time.
//!
//! Each leaf is judged like a get's: versions, generation, fences. The scan keeps a *bound*: everything below it has
//! been delivered or found absent. It starts at the caller's key and moves to the high fence of each leaf that was
//! taken; a leaf counts only if it covers the bound. So no key comes twice, and none that was there throughout is
//! missed, whatever splits and merges go on ([`btree_scans`](crate::manual::btree_scans)).
//!
//! Leaves are READ several at a time when the cached parent names them (Sherman section 4.5), from the first one on. A leaf
//! that does not continue where the one before ended is discarded and looked for again: the first one by a descent, which
//! takes a leaf even if its parent's copy is old or the leaf is being written.
//!
//! **Downwards** ([`Operation::down`]) the bound is the largest key that is still wanted, and everything above it has been
//! delivered or found absent. It moves to the key below the low fence of each leaf that was taken. No link leads to the
//! left, but the leaf of a key is always found from the root, and the cached parent names leaves to the left as well. The
//! page fills from its end, so that its records ascend. The papers have no such scan.

use super::leaves::{Leaves, SPAN_MAX, judge_leaf, key_of};
use super::node::{self, Header};
use super::router::Router;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes::Look;
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
    /// The lowest key of the range is not wanted: it is the caller's cursor.
    after: bool,
    down: bool,
}

impl Progress {
    /// At the beginning of a scan whose pages have up to `page_records` records.
    pub(crate) fn begin(operation: &Operation, page_records: usize) -> Self {
        Self {
            records: 0,
            wanted: (operation.limit as usize).min(page_records),
            after: operation.after,
            down: operation.down,
        }
    }

    /// The place in the page of record `number`, as they are found.
    const fn place(&self, number: usize) -> usize {
        if self.down { self.wanted.saturating_sub(number + 1) } else { number }
    }

    /// Records that are in the page.
    pub(crate) const fn records(&self) -> usize {
        self.records
    }

    /// Records that are to be in the page, if there are as many.
    pub(crate) const fn wanted(&self) -> usize {
        self.wanted
    }

    /// Whether the bound itself is not wanted.
    pub(crate) const fn is_after(&self) -> bool {
        self.after
    }

    /// So many records came into the page, and the bound moved. `after`: the bound itself is not wanted.
    pub(crate) fn add(&mut self, records: usize, after: bool) {
        self.records += records;
        self.after = after;
    }
}

/// Result of taking from one leaf.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    /// The page is full before the leaf was.
    full: bool,
    /// The leaf is the last of the tree, or ends past the upper bound; downwards the first of the tree, or begins at or
    /// below the lowest key of the range.
    last: bool,
    /// The leaf's right neighbour.
    pub(crate) sibling: Address,
}

impl Taken {
    /// What was taken from a leaf. `last`: it is the last of the tree, or ends past the upper bound. `full`: the page is full
    /// before it was.
    pub(crate) const fn new(full: bool, last: bool, sibling: Address) -> Self {
        Self { full, last, sibling }
    }
}

/// Scans of any index of this family.
pub(crate) trait Scan<'s>: Leaves<'s> {
    /// A page of records, from the operation's key on or, downwards, of the last ones below its upper bound.
    async fn scan(&self, lane: &Lane<'_>, operation: &Operation) -> Result<Outcome, Interrupt> {
        let port = lane.port();
        // The bound lies in the separator range, which nothing else uses in a scan.
        let bound = self.tree().scratch.separator.clone();
        let is_empty = !port.with(|scratch| self.begin_bound(scratch, operation, &bound));
        let mut progress = Progress::begin(operation, self.plan().page_records());
        if progress.wanted == 0 {
            // No leaf was READ, so there may be more.
            return Ok(Outcome::Page { records: 0, more: !planted(Mutant::SCAN_OF_NOTHING_ENDS) });
        }
        if is_empty {
            return Ok(Outcome::Page { records: 0, more: false });
        }
        let mut next = None;
        loop {
            let mut taken = None;
            {
                let ahead = match next {
                    Some(next) => self.leaves_ahead(lane, &bound, next, &progress),
                    None => self.first_leaves(lane, &bound, &progress),
                };
                if !ahead.is_empty() {
                    taken = self.take_leaves(lane, operation, &bound, &ahead, &mut progress).await?.ok();
                    if taken.is_none() {
                        // The first of them does not cover the bound: look for the bound from the root.
                        lane.mark(Mark::SCAN_RESTART);
                        lane.check_deadline()?;
                    }
                }
            }
            let taken = match taken {
                Some(taken) => taken,
                None => match self.first_leaf(lane, operation, &bound, &mut progress).await? {
                    Some(taken) => taken,
                    None => return Ok(Outcome::Page { records: 0, more: false }),
                },
            };
            if let Some(page) = Self::page(&progress, taken) {
                port.with(|scratch| self.move_to_front(scratch, &progress));
                if planted(Mutant::FULL_PAGE_ENDS_SCAN) && operation.limit as usize > progress.wanted {
                    return Ok(Outcome::Page { records: progress.records as u32, more: false });
                }
                return Ok(page);
            }
            lane.check_deadline()?;
            next = Some(taken.sibling);
        }
    }

    /// Sets the bound with which the scan begins. `false`: no key is in the range.
    fn begin_bound(&self, scratch: &mut [u8], operation: &Operation, bound: &Range<usize>) -> bool {
        let from = match (operation.down, operation.bounded) {
            (false, _) => self.plan().key.clone(),
            (true, true) => self.plan().key_high.clone(),
            (true, false) => {
                scratch.get_mut(bound.clone()).unwrap_or_default().fill(0xff);
                return true;
            }
        };
        if bound.end <= scratch.len() {
            scratch.copy_within(from, bound.start);
        }
        !operation.down || node::step_down(scratch.get_mut(bound.clone()).unwrap_or_default())
    }

    /// Downwards, moves the records from the end of the page, where they were put, to its beginning.
    fn move_to_front(&self, scratch: &mut [u8], progress: &Progress) {
        if progress.down && progress.records > 0 {
            let record_bytes = self.plan().key_bytes + self.plan().value_bytes;
            let page = self.plan().page.start;
            let records =
                page + progress.place(progress.records - 1) * record_bytes..page + progress.wanted * record_bytes;
            if records.end <= scratch.len() {
                scratch.copy_within(records, page);
            }
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
        let visit = self.visit(lane, bound, |image, _, _| Look::at(image, |look| self.whole(look)), &(0..0)).await?;
        if visit.is_none() {
            return Ok(None);
        }
        Ok(lane.port().with(|scratch| self.take(scratch, 0, (operation, bound), progress, |_, _| true)))
    }

    /// The leaf that covers the bound and those behind it (downwards, in front of it), as the cached parent names them, if the
    /// page probably needs several. Empty: a descent finds the first one.
    fn first_leaves(&self, lane: &Lane<'_>, bound: &Range<usize>, progress: &Progress) -> Vec<Address, LEAVES_MAX> {
        let mut named = [Address::NULL; LEAVES_MAX];
        // The bound lies anywhere in its leaf. Half a leaf for that READs a leaf for nothing more often than it saves a round
        // trip; with a quarter, bytes are as many as if the first leaf were READ alone, and round trips nearly as few.
        let room = self.leaves_for(progress.wanted + self.usual_records() / 4);
        let found =
            if room > 1 { self.router().leaves_ahead(lane, bound, progress.down, &mut named[..room]) } else { 0 };
        let found = if found > 1 { found } else { 0 };
        named.into_iter().take(found).collect()
    }

    /// Records of a leaf. Leaves are between half full and full; two thirds is what random inserts give.
    fn usual_records(&self) -> usize {
        (self.span() * 2 / 3).max(1)
    }

    /// How many leaves are READ at once for so many records.
    fn leaves_for(&self, records: usize) -> usize {
        records.div_ceil(self.usual_records()).min(LEAVES_MAX).min(self.tree().scratch.leaves_at_once)
    }

    /// The leaf at `next`, and those that the cached parent names behind it, as many as the page probably needs. Downwards,
    /// the leaf of the bound and those before it, as far as the cached parent names them: there may be none.
    fn leaves_ahead(
        &self,
        lane: &Lane<'_>,
        bound: &Range<usize>,
        next: Address,
        progress: &Progress,
    ) -> Vec<Address, LEAVES_MAX> {
        let mut ahead = Vec::new();
        let room = self.leaves_for(progress.wanted - progress.records);
        let mut named = [Address::NULL; LEAVES_MAX];
        if progress.down {
            let found = self.router().leaves_ahead(lane, bound, true, &mut named[..room.max(1)]);
            ahead.extend(named.iter().take(found).copied());
            return ahead;
        }
        // There is room for one: the vector is empty.
        let _ = ahead.push(next);
        if room > 1 {
            let found = self.router().leaves_ahead(lane, bound, false, &mut named[..room]);
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
            let down = progress.down;
            let is_sound = |look: Look<'_>, key: &[u8]| {
                planted(Mutant::SCAN_UNCHECKED)
                    || down && planted(Mutant::SCAN_DOWN_UNCHECKED)
                    || matches!(judge_leaf(look.image, &wanted, key, |_| self.whole(look)), Ok(Ok(())))
            };
            let taken = port.with(|scratch| self.take(scratch, 1 + i, (operation, bound), progress, is_sound));
            let Some(taken) = taken else { break };
            last = Ok(taken);
            if Self::page(progress, taken).is_some() {
                break;
            }
        }
        Ok(last)
    }

    /// Copies the records of the leaf in node image `i` from the bound on into the page, and moves the bound to the
    /// leaf's high fence. Downwards, copies those from the bound down, and moves it below the leaf's low fence. `None`: the
    /// image is not sound; `is_sound` gets it with the bound.
    fn take(
        &self,
        scratch: &mut [u8],
        i: usize,
        (operation, bound): (&Operation, &Range<usize>),
        progress: &mut Progress,
        is_sound: impl FnOnce(Look<'_>, &[u8]) -> bool,
    ) -> Option<Taken> {
        let (mut key, mut low, mut high) = ([0; KEY_BYTES_MAX], [0; KEY_BYTES_MAX], [0; KEY_BYTES_MAX]);
        let key = key_of(scratch, bound, &mut key);
        let (low, high) = if progress.down {
            let (low, high) =
                (key_of(scratch, &self.plan().key, &mut low), high.get_mut(..bound.len()).unwrap_or_default());
            high.copy_from_slice(key);
            // Exclusive, as upwards.
            let is_bounded = node::step_up(high);
            (low, is_bounded.then_some(&*high))
        } else {
            let is_inverted = || scratch.get(self.plan().key_high.clone()) <= scratch.get(self.plan().key.clone());
            let is_bounded = operation.bounded && !(planted(Mutant::INVERTED_SCAN_UNBOUNDED) && is_inverted());
            (key, is_bounded.then(|| key_of(scratch, &self.plan().key_high, &mut high)))
        };
        let Some((front, page)) = scratch.split_at_mut_checked(self.plan().page.start) else {
            return Some(Taken { full: false, last: true, sibling: Address::NULL });
        };
        let image = self.tree().leaf_image(i).of(front);
        let full =
            Look::at(image, |look| is_sound(look, key).then(|| self.take_records(look, page, (low, high), progress)))?;
        let mut fence = [0; KEY_BYTES_MAX];
        let Some(fence) = fence.get_mut(..bound.len()) else {
            return Some(Taken { full, last: true, sibling: Address::NULL });
        };
        if progress.down {
            node::read_low(image, fence);
            let last = &*fence <= low || !node::step_down(fence);
            if !last && !full {
                front.get_mut(bound.clone()).unwrap_or_default().copy_from_slice(fence);
            }
            return Some(Taken { full, last, sibling: Address::NULL });
        }
        let bounded = node::read_high(image, fence);
        let sibling = Header::read(image).sibling;
        let last = !bounded || high.is_some_and(|high| &*fence >= high);
        if !last && !full {
            progress.after = false;
            if let Some(place) = front.get_mut(bound.clone()) {
                place.copy_from_slice(fence);
            }
        }
        Some(Taken { full, last, sibling })
    }

    /// Copies the records of a leaf from `low` on and below `high` into the page. Returns whether the page is full before the leaf
    /// was.
    fn take_records(
        &self,
        look: Look<'_>,
        page: &mut [u8],
        (low, high): (&[u8], Option<&[u8]>),
        progress: &mut Progress,
    ) -> bool {
        let mut slots = [0; SPAN_MAX];
        let mut count = self.sorted(look, low, high, &mut slots);
        if planted(Mutant::SCAN_PAST_END_TURNS_BACK) && count == 0 && Header::read(look.image).sibling.is_null() {
            count = self.sorted(look, [0; KEY_BYTES_MAX].get(..low.len()).unwrap_or_default(), high, &mut slots);
        }
        let count = if planted(Mutant::LEAF_TAKEN_IN_PART) { count.min(63) } else { count };
        let mut slots = slots.get(..count).unwrap_or_default();
        let mut key = [0; KEY_BYTES_MAX];
        let key = key.get_mut(..low.len()).unwrap_or_default();
        if planted(Mutant::LARGEST_KEY_LEFT_OUT)
            && let Some((&slot, rest)) = slots.split_last()
        {
            self.read_records(look, &[slot], key.len(), key);
            slots = if key.iter().all(|byte| *byte == u8::MAX) { rest } else { slots };
        }
        if progress.after
            && let Some((&slot, rest)) = slots.split_first()
        {
            self.read_records(look, &[slot], key.len(), key);
            slots = if *key == *low { rest } else { slots };
        }
        // As many as the page has room for, and their place in it.
        let room = progress.wanted - progress.records;
        let (taken, begin) = if progress.down {
            let taken = slots.len().saturating_sub(room);
            (slots.get(taken..), room.saturating_sub(slots.len()))
        } else {
            (slots.get(..room), progress.records)
        };
        let taken = taken.unwrap_or(slots);
        let record_bytes = self.plan().key_bytes + self.plan().value_bytes;
        let records = page.get_mut(begin * record_bytes..).unwrap_or_default();
        self.read_records(look, taken, record_bytes, records);
        progress.records += taken.len();
        taken.len() < slots.len()
    }
}

impl<'s, L: Leaves<'s>> Scan<'s> for L {}
