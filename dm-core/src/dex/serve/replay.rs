//! What a recovery does to leaves: a record of a dead owner's ring goes into the leaf of its key.
//!
//! It is a change like any other, but for three things: there is no tenure yet, the record has its LSN already, and the
//! page is noted from the line on that the own log assigns next. No line is taken.
//!
//! **A leaf without room is split, and the record goes in with the split**: both halves are stamped with the record's LSN, and
//! one of them has the record. There is no LSN between the leaf's and the record's with which a split could be stamped
//! alone. The frame keeps the leaf as it was until left's flush has completed. If the split ends before, the leaf's LSN
//! says that the record is still due.

use super::Dex;
use super::find::{Look, Place};
use super::split::Why;
use crate::btree::Tree;
use crate::btree::node::{self, FenceCheck, Header, Wanted};
use crate::dex::leaf::{self, Leaf, LeafMut};
use crate::dex::recover::{self, Replayed, is_due};
use crate::dex::restore::TornFormat;
use crate::index::runner::Run;
use crate::lane::Lane;
use crate::layout::stripes;
use crate::operation::OpError;
use crate::pages::{Admit, Page, Refused};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;

/// What became of a record at a leaf that covers its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Applied {
    /// The leaf has it.
    Done,
    /// The leaf has to split.
    NoRoom,
}

impl TornFormat for Dex<'_> {
    /// A flush WRITEs all of a leaf, with a version of its own in every line.
    fn is_whole(&self, page: &[u8]) -> bool {
        stripes::node_version(page).is_some()
    }

    /// Of a long fence the first line has some bytes only: the rest may be anything.
    fn may_be_of(&self, page: &[u8], address: Address, entry: u32) -> bool {
        let header = Header::read(page);
        let (mut least, mut most) = ([0; KEY_BYTES_MAX], [0xff; KEY_BYTES_MAX]);
        let in_line = self.leaf.key_bytes.min(stripes::LINE_PAYLOAD_BYTES - node::LOW_AT);
        for low in [&mut least, &mut most] {
            stripes::read(page, node::LOW_AT, low.get_mut(..in_line).unwrap_or_default());
        }
        let of_key = |low| <[u8]>::get(low, ..self.leaf.key_bytes).unwrap_or_default();
        header.index == self.tree.index
            && header.level == 0
            && header.generation == address.generation()
            && self.partition().is_within(entry, of_key(&least), of_key(&most))
    }
}

impl recover::Leaves for Dex<'_> {
    async fn apply(&self, lane: &Lane<'_>, record: &Replayed) -> Result<(), OpError> {
        let key = record.key.at..record.key.at + record.key.bytes;
        let value_bytes = record.value.map_or(self.leaf.value_bytes, |value| value.bytes);
        if key.len() != self.leaf.key_bytes || value_bytes != self.leaf.value_bytes {
            let what = "a log record with a key or a value of another size than the index's";
            return Err(Tree::corrupt(Address::NULL, what));
        }
        let mut attempts = 0;
        loop {
            let look = |place, wanted: &_| self.apply_at(lane, record, place, wanted);
            let applied = match self.visit_owned(lane, &key, Admit::Always, look).await {
                Ok(Some(visited)) if visited.seen == Applied::Done => return Ok(()),
                Ok(Some(visited)) => self.split(lane, visited.leaf, Why::Replay(record)).await,
                Ok(None) => return Err(Tree::corrupt(Address::NULL, "a log of an index without leaves")),
                Err(interrupt) => Err(interrupt),
            };
            // The dead owner may have left locks of inner nodes.
            if let Err(interrupt) = applied {
                self.overcome(lane, false, interrupt).await?;
            }
            lane.attempt(&mut attempts, "making room for a record that is replayed")?;
        }
    }
}

impl Dex<'_> {
    fn apply_at(&self, lane: &Lane<'_>, record: &Replayed, place: Place, wanted: &Wanted) -> Look<Applied> {
        // Every leaf that is replayed into has a frame.
        let Place::Frame(name) = place else { return Look::Stale };
        lane.port().with(|scratch| {
            let scratch = &*scratch;
            let key = record.key.of(scratch);
            let value = record.value.map(|value| value.of(scratch));
            let apply = |page: &mut Page<'_, '_>| {
                let image = page.image();
                match leaf::judge_cached(image, wanted, key) {
                    Ok(FenceCheck::Here) => {}
                    judged => return Ok(Look::of(judged.map(Err))),
                }
                if !is_due(leaf::lsn(&self.leaf, image), record.lsn) {
                    return Ok(Look::Seen(Applied::Done));
                }
                let looked = Leaf::over(&self.leaf, image);
                let found = looked.scan_for(key);
                let slot = found.or(if value.is_some() { looked.free_slot() } else { None });
                if slot.is_none() && value.is_some() {
                    return Ok(Look::Seen(Applied::NoRoom));
                }
                let mut writing = page.record(self.log.floor(), || Ok::<_, Refused>(record.lsn))??;
                self.put(&mut writing, slot, key, value);
                leaf::stamp(&self.leaf, &mut writing, record.lsn);
                Ok(Look::Seen(Applied::Done))
            };
            self.store.change(lane, name, || true, apply).unwrap_or_else(Look::Refused)
        })
    }

    /// Makes the record of `key` in `slot` as it has to be.
    fn put<B: stripes::BytesMut + ?Sized>(&self, image: &mut B, slot: Option<usize>, key: &[u8], value: Option<&[u8]>) {
        let Some(slot) = slot else { return };
        let mut leaf = LeafMut::over(&self.leaf, image);
        match value {
            Some(value) => leaf.put(slot, key, value),
            None => leaf.clear(slot),
        }
    }

    /// Puts a record into the half of a split that has its key, of which `separator` is right's first.
    pub(super) fn put_replayed(
        &self,
        (left, right): (&mut [u8], &mut [u8]),
        separator: &[u8],
        key: &[u8],
        value: Option<&[u8]>,
    ) {
        let half = if key < separator { left } else { right };
        let looked = Leaf::new(&self.leaf, half);
        let slot = looked.scan_for(key).or(looked.free_slot());
        self.put(half, slot, key, value);
    }
}
