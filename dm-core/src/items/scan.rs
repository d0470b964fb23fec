//! Scan: the entries of the layers in order, with several blocks READ at once.
//!
//! The path through the layers is a stack in the scratch: the numbers of the layers, and the slices (`path`) that led
//! down. An entry key says where the scan continues in its present layer. A link leads one layer down: to the beginning
//! of that layer or, on the path of the lower bound, to the bound. The end of a layer leads back up, behind the link.
//!
//! If a block is not what its entry said, the entry has changed since. The scan then READs that entry again and
//! continues there.

use super::census::Tally;
use super::key::{EntryKey, ROOT_LAYER};
use super::parameters::BLOCKS_AT_ONCE;
use super::point::copy_to;
use super::slot::{BlockPointer, Slot};
use super::{Items, Progress, block};
use crate::index::Index;
use crate::lane::Lane;
use crate::lane::RESTARTS_MAX;
use crate::marks::Mark;
use crate::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome, Part, RECORD_HEADER_BYTES};
use core::future::Future;

/// State of a scan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageProgress {
    /// Records found so far.
    pub(super) records: u64,
    /// Bytes of the places of their blocks.
    pub(super) live_bytes: u64,
    /// Bytes of the keys and of the values that a walk has found.
    pub(super) item_bytes: (u64, u64),
    /// Entries that a walk has found.
    pub(super) tally: Tally,
    /// Bytes of the page in use.
    used: u32,
    /// The entry key to continue from is not included.
    pub(super) after: bool,
    /// The index below has more entries behind its page.
    more: bool,
    /// Records of the page of the index below, and how many of them are done.
    pub(super) count: u32,
    pub(super) at: u32,
    /// Number of blocks in the scratch, beginning with that of record `at`, and where its image is.
    fetched: u32,
    image: u32,
    /// Pages since the last record. A walk, which looks at no records, counts all pages.
    pages: u32,
}

impl PageProgress {
    /// The state at the beginning of a scan.
    pub(super) const BEGIN: Self = Self {
        records: 0,
        live_bytes: 0,
        item_bytes: (0, 0),
        tally: Tally::BEGIN,
        used: 0,
        after: false,
        more: false,
        count: 0,
        at: 0,
        fetched: 0,
        image: 0,
        pages: 0,
    };
}

/// What comes next.
pub(super) enum Step {
    /// The scan has ended.
    Done(Outcome),
    /// READs of blocks are pushed.
    Fetch,
    /// Ask the index below for a page.
    Below,
}

/// What became of a record.
enum Taken {
    /// It was taken, or is in front of the lower bound.
    Yes,
    /// The page is full.
    Full,
    /// It is behind the upper bound.
    Past,
}

impl<I: Index> Items<'_, I> {
    /// Returns a page of records. With `census`, counts all records and keeps none.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    pub(super) fn scan<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        census: bool,
    ) -> impl Future<Output = Result<Outcome, OpError>> + 'a {
        async move {
            self.aim(lane, census);
            if self.progress(lane).operation.limit == 0 {
                // Nothing was looked at, so there may be more records.
                return Ok(Outcome::Page { records: 0, more: true });
            }
            loop {
                let below = self.ask_page(lane)?;
                let outcome = self.execute_below(lane, below).await;
                self.take_page(lane, outcome)?;
                if lane.is_unsettled_below() {
                    self.below.settle(lane).await.map_err(|error| OpError::harmless(error.cause))?;
                }
                loop {
                    match self.take_records(lane, census)? {
                        Step::Done(outcome) => return Ok(outcome),
                        Step::Fetch => lane.port().submit().await?,
                        Step::Below => break,
                    }
                }
            }
        }
    }

    /// Sets the position to the lower bound.
    pub(super) fn aim(&self, lane: &Lane<'_>, census: bool) {
        let mut progress = Progress::of(self.progress(lane).operation);
        lane.port().with(|scratch| {
            let (_, ours) = self.split(scratch);
            if census {
                // From the beginning. The empty key always fits.
                let _ = self.near.set_length(ours, Part::Key, 0);
            }
            loop {
                self.aim_at(ours, &progress);
                let rest = self
                    .near
                    .length(ours, Part::Key)
                    .saturating_sub(usize::from(progress.depth) * self.shape.slice_bytes());
                if self.shape.ends(rest) {
                    return;
                }
                let entry_key = ours.get(self.near_range(&self.scratch.entry_key)).unwrap_or_default();
                let Some(layer) = self.links.get(entry_key) else { return };
                if !self.descend(ours, &mut progress, layer, None) {
                    return;
                }
            }
        });
        self.set_progress(lane, progress);
    }

    /// Sets the position in the present layer: to the lower bound if the layer is on its path, and to the layer's
    /// beginning otherwise.
    pub(super) fn aim_at(&self, ours: &mut [u8], progress: &Progress) {
        let slice = self.shape.slice_bytes();
        let done = usize::from(progress.depth) * slice;
        let (path, bound) = (self.near_range(&self.scratch.path), self.near.key.start);
        let length = self.near.length(ours, Part::Key);
        let on_path = done <= length && ours.get(path.start..path.start + done) == ours.get(bound..bound + done);
        let rest = if on_path { bound + done..bound + length } else { bound..bound };
        let entry_key = self.near_range(&self.scratch.entry_key);
        // The arguments lie in front of the scratch that only this room uses.
        if let Some((arguments, own)) = ours.split_at_mut_checked(self.near.lengths.end)
            && let (Some(rest), Some(place)) = (
                arguments.get(rest),
                own.get_mut(entry_key.start - self.near.lengths.end..entry_key.end - self.near.lengths.end),
            )
        {
            self.shape.write(progress.layer, rest, place);
        }
    }

    /// Goes one layer down, behind `slice`, or behind the lower bound's slice. `false`: deeper than the longest key,
    /// or a layer that is on the path already.
    pub(super) fn descend(&self, ours: &mut [u8], progress: &mut Progress, layer: u64, slice: Option<&[u8]>) -> bool {
        let bytes = self.shape.slice_bytes();
        let depth = usize::from(progress.depth);
        let path = self.near_range(&self.scratch.path).start + depth * bytes;
        if (depth + 1) * bytes >= self.parameters.key_bytes_max || layer == ROOT_LAYER {
            return false;
        }
        if (0..=depth).any(|above| self.layer_at(ours, above) == layer) {
            return false;
        }
        if let Some(slice) = slice {
            copy_to(ours, &(path..path + bytes), slice);
        } else {
            let bound = self.near.key.start + depth * bytes;
            if path + bytes <= ours.len() {
                ours.copy_within(bound..bound + bytes, path);
            }
        }
        progress.depth += 1;
        progress.layer = layer;
        let layers = self.near_range(&self.scratch.layers).start + (depth + 1) * 8;
        copy_to(ours, &(layers..layers + 8), &layer.to_le_bytes());
        true
    }

    /// The layer on the path at `depth`.
    fn layer_at(&self, ours: &[u8], depth: usize) -> u64 {
        if depth == 0 {
            return ROOT_LAYER;
        }
        let at = self.near_range(&self.scratch.layers).start + depth * 8;
        ours.get(at..).and_then(<[u8]>::first_chunk).map_or(ROOT_LAYER, |bytes| u64::from_le_bytes(*bytes))
    }

    /// The largest number of entries for which the pool has room.
    fn entries_max(&self) -> u64 {
        let below = self.below.plan();
        let pool_bytes: u64 = self.site.geometry.iter().map(|node| node.region_bytes).sum();
        pool_bytes / (below.key_bytes + below.value_bytes).max(1) as u64
    }

    /// The operation for the next page of the present layer.
    pub(super) fn ask_page(&self, lane: &Lane<'_>) -> Result<Operation, OpError> {
        let mut progress = self.progress(lane);
        progress.page.pages += 1;
        self.set_progress(lane, progress);
        // Damaged links may form a cycle, with or without records in it. The scan ends here then. Every page has an
        // entry, or is the last page of a layer, to which one entry links.
        let entries_max = self.entries_max();
        let pages_max = entries_max.saturating_mul(4).saturating_add(4);
        if progress.page.records > entries_max || u64::from(progress.page.pages) > pages_max {
            return Err(Self::strange("links to more entries than the pool has room for"));
        }
        let below = self.below.plan();
        lane.port().with(|scratch| {
            let (front, ours) = self.split(scratch);
            let entry_key = ours.get(self.near_range(&self.scratch.entry_key)).unwrap_or_default();
            copy_to(front, &below.key, entry_key);
            if let Some(high) = front.get_mut(below.key_high.clone()) {
                self.shape.write(progress.layer.wrapping_add(1), &[], high);
            }
        });
        Ok(Operation {
            kind: OperationKind::Scan,
            limit: below.page_records() as u32,
            after: progress.page.after,
            down: false,
            // Numbers of layers end before u64::MAX, but damaged bytes may have any value.
            bounded: progress.layer != u64::MAX,
            deadline_ns: progress.operation.deadline_ns,
            caller: None,
        })
    }

    pub(super) fn take_page(&self, lane: &Lane<'_>, outcome: Result<Outcome, OpError>) -> Result<(), OpError> {
        let Outcome::Page { records, more } = outcome.map_err(|error| OpError { effect: Effect::None, ..error })?
        else {
            return Err(OpError::harmless(Cause::BadInput("the index below answered what was not asked")));
        };
        let mut progress = self.progress(lane);
        let page = &mut progress.page;
        (page.count, page.at, page.more, page.fetched) = (records, 0, more, 0);
        self.set_progress(lane, progress);
        Ok(())
    }

    /// Takes records from the page of the index below until it has to wait.
    fn take_records(&self, lane: &Lane<'_>, census: bool) -> Result<Step, OpError> {
        let mut progress = self.progress(lane);
        let operation = progress.operation;
        let step = loop {
            if progress.page.at == progress.page.count {
                break Ok(lane.port().with(|scratch| self.next_page(scratch, &mut progress)));
            }
            let step = lane.port().with(|scratch| self.take_record(scratch, lane, &mut progress, &operation, census));
            if let Some(step) = step.transpose() {
                break step;
            }
        };
        self.set_progress(lane, progress);
        if matches!(step, Ok(Step::Below)) {
            lane.check_deadline()?;
        }
        step
    }

    /// Sets the position behind the page of the index below. Returns whether the next page is there.
    pub(super) fn behind_page(&self, front: &[u8], ours: &mut [u8], progress: &mut Progress) -> bool {
        let page = &mut progress.page;
        page.after = true;
        if page.more
            && let Some(last) = (page.count as usize).checked_sub(1)
        {
            let (record, entry_key) = (self.below.plan().record(last), self.near_range(&self.scratch.entry_key));
            let key = front.get(record.start..record.start + entry_key.len()).unwrap_or_default();
            copy_to(ours, &entry_key, key);
        }
        page.more
    }

    /// Continues behind the page of the index below: with the next page, or in the layer above.
    pub(super) fn next_page(&self, scratch: &mut [u8], progress: &mut Progress) -> Step {
        let (front, ours) = self.split(scratch);
        if self.behind_page(front, ours, progress) {
            return Step::Below;
        }
        let entry_key = self.near_range(&self.scratch.entry_key);
        let page = &mut progress.page;
        page.tally.end_layer();
        let Some(depth) = progress.depth.checked_sub(1) else {
            return Step::Done(Outcome::Page { records: page.records as u32, more: false });
        };
        progress.depth = depth;
        progress.layer = self.layer_at(ours, depth.into());
        // The source and the target are both in this scratch, so the slice is copied through the call stack.
        let slice_bytes = self.shape.slice_bytes();
        let path = self.near_range(&self.scratch.path).start + usize::from(depth) * slice_bytes;
        let mut slice = [0; 64];
        if let (Some(slice), Some(from)) = (slice.get_mut(..slice_bytes), ours.get(path..path + slice_bytes)) {
            slice.copy_from_slice(from);
            if let Some(place) = ours.get_mut(entry_key) {
                self.shape.write_more(progress.layer, slice, place);
            }
        }
        Step::Below
    }

    /// The next record of the page of the index below: the entry key, its decoded form, and the slot.
    pub(super) fn next_entry<'a>(
        &self,
        front: &'a [u8],
        progress: &Progress,
    ) -> Result<(&'a [u8], EntryKey<'a>, &'a [u8]), OpError> {
        let strange = Self::strange;
        let below = self.below.plan();
        let record = front.get(below.record(progress.page.at as usize)).unwrap_or_default();
        let (entry_key, slot) =
            record.split_at_checked(below.key_bytes).ok_or(strange("a page shorter than it says"))?;
        let entry = self.shape.read(entry_key).filter(|entry| entry.layer == progress.layer);
        Ok((entry_key, entry.ok_or(strange("an entry of no layer"))?, slot))
    }

    /// Continues in the layer to which the entry with this key and slice links.
    pub(super) fn go_down(
        &self,
        ours: &mut [u8],
        progress: &mut Progress,
        (entry_key, slice): (&[u8], &[u8]),
        layer: u64,
    ) -> Result<Step, OpError> {
        self.links.put(entry_key, layer);
        if !self.descend(ours, progress, layer, Some(slice)) {
            return Err(Self::strange("a link to where no key goes on"));
        }
        self.aim_at(ours, progress);
        progress.page.tally.entry(false);
        progress.page.tally.begin_layer();
        progress.page.after = false;
        Ok(Step::Below)
    }

    /// Takes the next record of the page of the index below. `None`: continue with the next record.
    fn take_record(
        &self,
        scratch: &mut [u8],
        lane: &Lane<'_>,
        progress: &mut Progress,
        operation: &Operation,
        census: bool,
    ) -> Result<Option<Step>, OpError> {
        let strange = |what| Err(Self::strange(what));
        let (front, ours) = self.split(scratch);
        let (entry_key, entry, slot) = self.next_entry(front, progress)?;
        let path = self.near_range(&self.scratch.path);
        let done = usize::from(progress.depth) * self.shape.slice_bytes();
        if done + entry.slice.len() > path.len() {
            return strange("an entry of a key longer than this index has");
        }
        let Some(slot) = Slot::read(entry_key, slot) else {
            return strange("an entry that is no item and no link");
        };
        let taken = match slot {
            Slot::Inline(value) if !entry.more => {
                let bytes = done + entry.slice.len();
                copy_to(ours, &(path.start + done..path.start + bytes), entry.slice);
                self.take_item(ours, progress, operation, census, path.start..path.start + bytes, value)
            }
            Slot::Link(layer) if entry.more => {
                let bytes = done + entry.slice.len();
                copy_to(ours, &(path.start + done..path.start + bytes), entry.slice);
                let prefix = ours.get(path.start..path.start + bytes).unwrap_or_default();
                if operation.bounded && !census && prefix >= self.near.part(ours, Part::KeyHigh) {
                    Taken::Past
                } else {
                    return self.go_down(ours, progress, (entry_key, entry.slice), layer).map(Some);
                }
            }
            Slot::Block(pointer) => {
                if progress.page.fetched == 0 {
                    return self.fetch(front, lane, progress).map(Some);
                }
                let image = self.near_range(&self.scratch.blocks).start + progress.page.image as usize;
                progress.page.fetched -= 1;
                progress.page.image += (pointer.bytes).next_multiple_of(block::UNIT_BYTES as u32);
                let Some((ours, blocks)) = ours.split_at_mut_checked(image) else {
                    return strange("a block that was not READ");
                };
                let Some((key, value)) = block::read(blocks, &pointer, self.index()) else {
                    return self.doubt(ours, lane, progress, entry_key, pointer).map(Some);
                };
                let prefix = ours.get(path.start..path.start + done);
                let belongs = key.get(..done).is_some_and(|start| Some(start) == prefix)
                    && key.get(done..).is_some_and(|rest| {
                        rest.starts_with(entry.slice) && (rest.len() > entry.slice.len()) == entry.more
                    });
                if !belongs || key.len() > path.len() || value.len() > self.plan.value_bytes {
                    return Err(Self::corrupt(&pointer, "a block of a key that has no business there"));
                }
                progress.page.live_bytes += block::class_bytes(block::class_of(pointer.bytes as usize)) as u64;
                // The rest of the key fits behind the present slices: deeper parts of the path are not in use.
                copy_to(ours, &(path.start..path.start + key.len()), key);
                self.take_item(ours, progress, operation, census, path.start..path.start + key.len(), value)
            }
            _ => return strange("an entry that is no item and no link"),
        };
        match taken {
            Taken::Yes => {
                progress.page.at += 1;
                progress.page.tally.entry(matches!(slot, Slot::Block(_)));
                let records = progress.page.records;
                let full = !census && records == u64::from(operation.limit);
                Ok(full.then_some(Step::Done(Outcome::Page { records: records as u32, more: true })))
            }
            Taken::Full => Ok(Some(Step::Done(Outcome::Page { records: progress.page.records as u32, more: true }))),
            Taken::Past => Ok(Some(Step::Done(Outcome::Page { records: progress.page.records as u32, more: false }))),
        }
    }

    /// Copies an item into the page if the scan wants it. Its key is at `key` in the scratch.
    fn take_item(
        &self,
        ours: &mut [u8],
        progress: &mut Progress,
        operation: &Operation,
        census: bool,
        key: core::ops::Range<usize>,
        value: &[u8],
    ) -> Taken {
        let page = &mut progress.page;
        if census {
            page.records += 1;
            page.item_bytes.0 += key.len() as u64;
            page.item_bytes.1 += value.len() as u64;
            page.pages = 0;
            return Taken::Yes;
        }
        let found = ours.get(key.clone()).unwrap_or_default();
        let low = self.near.part(ours, Part::Key);
        if found < low || operation.after && found == low {
            return Taken::Yes;
        }
        if operation.bounded && found >= self.near.part(ours, Part::KeyHigh) {
            return Taken::Past;
        }
        let place = self.near.page.start + page.used as usize;
        let bytes = RECORD_HEADER_BYTES + key.len() + value.len();
        if place + bytes > self.near.page.end || place + bytes > ours.len() {
            return Taken::Full;
        }
        let body = place + RECORD_HEADER_BYTES;
        copy_to(ours, &(place..place + 2), &(key.len() as u16).to_le_bytes());
        copy_to(ours, &(place + 2..body), &(value.len() as u32).to_le_bytes());
        let key_bytes = key.len();
        ours.copy_within(key, body);
        copy_to(ours, &(body + key_bytes..place + bytes), value);
        page.used += bytes as u32;
        page.records += 1;
        page.pages = 0;
        Taken::Yes
    }

    /// Pushes READs of blocks from the present record on, as many as fit, up to the next entry without a block.
    fn fetch(&self, front: &[u8], lane: &Lane<'_>, progress: &mut Progress) -> Result<Step, OpError> {
        let below = self.below.plan();
        let mut at = self.scratch.blocks.start;
        // The index below may have handed a lock over: the wake of the lane that got it goes with these READs.
        let at_once = BLOCKS_AT_ONCE.min(lane.port().room());
        for position in progress.page.at..progress.page.count {
            let record = front.get(below.record(position as usize)).unwrap_or_default();
            let (entry_key, slot) = record.split_at_checked(below.key_bytes).unwrap_or_default();
            let Some(Slot::Block(pointer)) = Slot::read(entry_key, slot) else { break };
            let bytes = (pointer.bytes as usize).next_multiple_of(block::UNIT_BYTES);
            let first = progress.page.fetched == 0;
            if !first && (progress.page.fetched as usize == at_once || at + bytes > self.scratch.blocks.end) {
                break;
            }
            lane.mark(Mark::BLOCK_READ);
            lane.port().push(self.block_read(&pointer, at)?);
            progress.page.fetched += 1;
            at += bytes;
        }
        progress.page.image = 0;
        Ok(Step::Fetch)
    }

    /// A block is not what its entry said: goes back to the entry.
    fn doubt(
        &self,
        ours: &mut [u8],
        lane: &Lane<'_>,
        progress: &mut Progress,
        entry_key: &[u8],
        pointer: BlockPointer,
    ) -> Result<Step, OpError> {
        // While an entry names a block, the block is there.
        if progress.doubted == Some(pointer) {
            return Err(Self::corrupt(&pointer, "a block that is not what its entry says"));
        }
        lane.mark(Mark::BLOCK_REPLACED);
        progress.doubted = Some(pointer);
        progress.attempts += 1;
        if progress.attempts > RESTARTS_MAX {
            let what = "reading a block before it is replaced";
            return Err(OpError::harmless(Cause::Retries { attempts: RESTARTS_MAX, what }));
        }
        copy_to(ours, &self.near_range(&self.scratch.entry_key), entry_key);
        progress.page.after = false;
        Ok(Step::Below)
    }
}
