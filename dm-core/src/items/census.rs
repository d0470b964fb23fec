//! Census: counts all items, and the entries to which no link leads.
//!
//! An operation follows links from layer 0 on. If the entry of a link is lost, so are all records behind it, and nothing
//! that is left contradicts anything else. So a census counts twice: a scan of the index below counts all entries there,
//! and a scan of the items counts those that links lead to.
//!
//! **What a crash leaves is no damage.** A compute node that dies while it makes a layer leaves that layer with one entry,
//! which names a block, and no link to it. An operation that cannot take its layer back leaves the same
//! ([`Mark::LAYER_LOST`](crate::marks::Mark::LAYER_LOST)). Such a layer never gets a second entry, since nobody else knows
//! its number. So a layer without a link is
//!
//! - *left*, if it has one entry and this names a block ([`Census::left_layers`]);
//! - *damage*, if it has anything else: more entries, a value or a link ([`Census::unlinked_entries`]).
//!
//! If damage takes the link to a layer that has only one entry with a block, one record is missing, and the layer counts
//! as left. Then the damage changed one record, as it may change any entry's value.
//!
//! The census has no room for the numbers of layers. It counts, in both scans, entries and layers with one entry that names
//! a block. The differences are what no link leads to. They are exact while nobody writes.

use super::slot::Slot;
use super::{Items, Progress};
use crate::index::Index;
use crate::lane::Lane;
use crate::operation::{Census, OpError, Operation};
use core::future::Future;

/// Counts entries layer by layer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    entries: u64,
    /// Layers that have one entry, which names a block.
    single_blocks: u64,
    present: Seen,
}

/// What the present layer has, as far as it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Nothing,
    OneBlock,
    /// Anything else.
    More,
}

impl Tally {
    /// Nothing, at the beginning of a layer.
    pub(super) const BEGIN: Self = Self { entries: 0, single_blocks: 0, present: Seen::Nothing };

    /// An entry of the present layer.
    pub(super) fn entry(&mut self, is_block: bool) {
        self.entries += 1;
        self.present = if is_block && self.present == Seen::Nothing { Seen::OneBlock } else { Seen::More };
    }

    /// Another layer begins.
    pub(super) const fn begin_layer(&mut self) {
        self.present = Seen::Nothing;
    }

    /// The present layer ends, and the one above goes on. That has a link.
    pub(super) fn end_layer(&mut self) {
        self.single_blocks += u64::from(self.present == Seen::OneBlock);
        self.present = Seen::More;
    }
}

impl<I: Index> Items<'_, I> {
    /// Counts all entries of the index below, in the order of their keys: one layer behind the other. The census has the counts
    /// until [`Items::end_census`] compares them.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    pub(super) fn tally_all<'a>(
        &'a self,
        lane: &'a Lane<'_>,
        census: &'a mut Census,
    ) -> impl Future<Output = Result<(), OpError>> + 'a {
        async move {
            self.set_progress(lane, Progress::of(Operation { deadline_ns: u64::MAX, ..Operation::scan(u32::MAX) }));
            self.aim(lane, true);
            let mut layer = None;
            loop {
                let page = Operation { bounded: false, ..self.ask_page(lane)? };
                let outcome = self.execute_below(lane, page).await;
                self.take_page(lane, outcome)?;
                if lane.is_unsettled_below() {
                    self.below.settle(lane).await?;
                }
                if !self.tally_page(lane, &mut layer)? {
                    let mut tally = self.progress(lane).page.tally;
                    tally.end_layer();
                    (census.unlinked_entries, census.left_layers) = (tally.entries, tally.single_blocks);
                    return Ok(());
                }
            }
        }
    }

    /// Adds to the census what the scan of the items has counted, and takes from its counts of all entries what links lead to.
    pub(super) fn end_census(&self, lane: &Lane<'_>, census: &mut Census) {
        let page = self.progress(lane).page;
        census.records = page.records;
        census.live_bytes += page.live_bytes;
        census.block_bytes = page.live_bytes;
        census.item_bytes = page.item_bytes;
        let unlinked = census.unlinked_entries.saturating_sub(page.tally.entries);
        census.left_layers = census.left_layers.saturating_sub(page.tally.single_blocks).min(unlinked);
        census.unlinked_entries = unlinked - census.left_layers;
    }

    /// Counts the entries of the page of the index below. `layer`: that of the entry before. Returns whether there are more.
    fn tally_page(&self, lane: &Lane<'_>, layer: &mut Option<u64>) -> Result<bool, OpError> {
        let mut progress = self.progress(lane);
        let below = self.below.plan();
        let more = lane.port().with(|scratch| {
            let (front, ours) = self.split(scratch);
            for record in 0..progress.page.count as usize {
                let record = front.get(below.record(record)).unwrap_or_default();
                let (entry_key, slot) = record.split_at_checked(below.key_bytes).unwrap_or_default();
                let found = self.shape.read(entry_key).ok_or(Self::strange("an entry of no layer"))?.layer;
                if *layer != Some(found) {
                    progress.page.tally.end_layer();
                    progress.page.tally.begin_layer();
                    *layer = Some(found);
                }
                progress.page.tally.entry(matches!(Slot::read(entry_key, slot), Some(Slot::Block(_))));
            }
            Ok(self.behind_page(front, ours, &mut progress))
        });
        self.set_progress(lane, progress);
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tally of layers, each with the entries that a text says: b, a block; v, a value.
    fn tally_of(layers: &[&str]) -> Tally {
        let mut tally = Tally::BEGIN;
        for layer in layers {
            tally.begin_layer();
            layer.bytes().for_each(|entry| tally.entry(entry == b'b'));
            tally.end_layer();
        }
        tally
    }

    #[test]
    fn only_layers_with_one_block_can_have_been_left() {
        for (layers, entries, single_blocks) in
            [(&[""][..], 0, 0), (&["b"], 1, 1), (&["v"], 1, 0), (&["bb", "bv", "vb"], 6, 0), (&["b", "", "b"], 2, 2)]
        {
            let tally = tally_of(layers);
            assert_eq!((tally.entries, tally.single_blocks), (entries, single_blocks), "{layers:?}");
        }
        // The layer above a layer goes on behind its link.
        let mut tally = Tally::BEGIN;
        tally.entry(false);
        tally.begin_layer();
        tally.entry(true);
        tally.end_layer();
        tally.entry(true);
        tally.end_layer();
        assert_eq!((tally.entries, tally.single_blocks), (3, 1));
    }
}
