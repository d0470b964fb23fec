//! Creation and bulk load: leaves that end where entries do.
//!
//! An index begins with one empty leaf for each entry, and the inner nodes above: a bulk load without records, in which a
//! leaf begins at each boundary. A bulk load with records does the same on its way.

use super::Dex;
use super::own::Taking;
use crate::btree::bulk::Bulk;
use crate::btree::leaves::key_of;
use crate::btree::load::BulkLoad;
use crate::lane::{Lane, NO_DEADLINE_NS};
use crate::operation::OpError;
use crate::registry::KEY_BYTES_MAX;
use core::sync::atomic::Ordering;

impl Dex<'_> {
    /// Makes the leaves of an index that has none, and the inner nodes above. Both work with the same state: a bulk load
    /// that is under way cannot continue.
    pub(super) async fn create(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let ends_load = { self.bulk.lock().is_under_way() } && !self.creating.load(Ordering::Relaxed);
        self.begin_load(true);
        let created = self.load_rest(lane).await;
        self.begin_load(false);
        if ends_load {
            *self.bulk.lock() = BulkLoad::broken();
        }
        created
    }

    /// Forgets what a creation has left that was dropped.
    fn begin_load(&self, is_creation: bool) {
        if is_creation || self.creating.load(Ordering::Relaxed) {
            *self.bulk.lock() = BulkLoad::default();
            self.cuts.store(0, Ordering::Relaxed);
        }
        self.creating.store(is_creation, Ordering::Relaxed);
    }

    /// Appends the record in the scratch to a bulk load into an index without leaves.
    pub(super) async fn append_record(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        self.open_to_load(lane).await?;
        let appended = self.append_behind_cuts(lane).await;
        self.end_taking(lane);
        appended
    }

    async fn append_behind_cuts(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let mut room = [0; KEY_BYTES_MAX];
        let key = lane.port().with(|scratch| key_of(scratch, &self.plan.key, &mut room).len());
        self.cut_to(lane, room.get(..key)).await?;
        self.set_key(lane, room.get(..key).unwrap_or_default());
        self.bulk_next(lane).await
    }

    /// Makes the records of a bulk load visible, and a leaf for each entry that has none. Without a load, an index that has
    /// leaves stays as it is.
    pub(super) async fn finish_load(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        self.open_to_load(lane).await?;
        let finished = self.finish_or_keep(lane).await;
        self.end_taking(lane);
        finished
    }

    async fn finish_or_keep(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let is_load = { self.bulk.lock().is_under_way() };
        if !is_load && self.tree.read_root(lane).await?.is_some() {
            return Ok(());
        }
        self.load_rest(lane).await
    }

    /// A bulk load needs to know where entries begin, and that no lane creates the index meanwhile. The caller ends this
    /// taking.
    async fn open_to_load(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.begin(NO_DEADLINE_NS);
        self.open(lane).await?;
        self.begin_taking(lane, Taking::Creating).await?;
        self.begin_load(false);
        Ok(())
    }

    /// A leaf for each entry that is left, and the root.
    async fn load_rest(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        self.bulk_open(lane, false).await?;
        self.cut_to(lane, None).await?;
        let ended = self.bulk_end(lane).await;
        self.cuts.store(0, Ordering::Relaxed);
        ended
    }

    pub(super) fn set_key(&self, lane: &Lane<'_>, key: &[u8]) {
        lane.port().with(|scratch| {
            if let Some(place) = scratch.get_mut(self.plan.key.clone()) {
                place.copy_from_slice(key);
            }
        });
    }

    /// Begins a leaf at each boundary that is not above `key`; `None`: at all that are left. The operation's key is
    /// another one afterwards.
    async fn cut_to(&self, lane: &Lane<'_>, key: Option<&[u8]>) -> Result<(), OpError> {
        loop {
            let rank = self.cuts.load(Ordering::Relaxed) + 1;
            let next = self.partition().boundary_of_rank(rank);
            let Some(next) = next.filter(|next| key.is_none_or(|key| **next <= *key)) else { return Ok(()) };
            self.set_key(lane, &next);
            self.bulk_open(lane, true).await?;
            self.cuts.store(rank, Ordering::Relaxed);
        }
    }
}
