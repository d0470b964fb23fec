//! CHIME indexes: B+-trees whose locks lie in leaves, and which may have a hotspot buffer.

use super::{Evidence, Kind};
use crate::assembly::tree::{Sizes, TreeRoom, TreeStorage};
use crate::assembly::{AssemblyError, LockQueues, Place, Spending, granted};
use dm_core::chime::layout::Leaf;
use dm_core::chime::parameters::{Parameters, REGION_BYTES_MAX};
use dm_core::chime::{Chime, LeafLocks};
use dm_core::compute::hotspot::{self, Hotspot};
use dm_core::compute::words::{self, WordTable};
use dm_core::memory::chunks::RequestIds;
use dm_core::registry::KindParameters;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::ChunkKind;

/// What one compute node's copy of a CHIME index borrows besides the memory of its tree.
struct LeafStorage {
    locks: LockQueues,
    words: Vec<words::RememberedWord>,
    hotspot: Vec<hotspot::Bucket>,
}

impl LeafStorage {
    fn new(place: &Place<'_>, spending: &Spending) -> Self {
        let locks = LockQueues::of_leaves(place, spending);
        let words = place.geometry.len() * locks.per_node as usize;
        Self {
            locks,
            words: (0..words).map(|_| words::RememberedWord::default()).collect(),
            hotspot: (0..Hotspot::buckets_for(spending.hotspot_bytes)).map(|_| hotspot::Bucket::default()).collect(),
        }
    }

    fn locks(&self) -> LeafLocks<'_> {
        let (table, words) = (self.locks.table(), WordTable::new(&self.words));
        LeafLocks { table, locks_per_node: self.locks.per_node, words }
    }
}

impl Kind for Parameters {
    type Index<'s> = Chime<'s>;

    fn build_each(
        &self,
        places: &[Place<'_>],
        spending: &Spending,
        run: &mut dyn FnMut(&[Chime<'_>]),
    ) -> Result<(), AssemblyError> {
        self.check()?;
        if places.iter().flat_map(|place| place.geometry).any(|node| node.region_bytes > REGION_BYTES_MAX) {
            let what = "a memory node of more than 256 GiB: local queues could not tell leaves apart";
            return Err(AssemblyError::Impossible(what));
        }
        let (plan, scratch) = self.plan(spending.page_records, spending.leaves_at_once);
        let leaf = self.leaf();
        let sizes = Sizes {
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            inner: self.inner(),
            leaf_bytes: leaf.bytes,
            leaf_place_bytes: leaf.place_bytes(),
            keeps_next: true,
            scratch,
            lane_bytes: plan.total_bytes,
        };
        let storages = places.iter().map(|place| TreeStorage::new(place, &sizes, spending));
        let mut storages = storages.collect::<Result<Vec<_>, _>>()?;
        let leaves: Vec<_> = places.iter().map(|place| LeafStorage::new(place, spending)).collect();
        let rooms: Vec<TreeRoom<'_>> = storages.iter_mut().map(TreeStorage::furnish).collect();
        let indexes = rooms.iter().zip(&leaves).zip(places).map(|((room, leaves), place)| {
            let tree = room.tree(place, &sizes, spending)?;
            let chime = Chime::new(tree, leaves.locks(), self, plan.clone())?;
            granted(place, chime.with_hotspot(Hotspot::new(&leaves.hotspot)))
        });
        run(&indexes.collect::<Result<Vec<_>, AssemblyError>>()?);
        Ok(())
    }

    fn requests<'i>(index: &'i Chime<'_>) -> &'i RequestIds {
        index.tree().requests
    }

    fn evidence(&self, number: IndexNumber, chunk: ChunkKind) -> Option<Evidence<'_>> {
        let shape = self.leaf();
        let records = move |image: &[u8]| Leaf::new(&shape, image).records();
        Some(Evidence::of_tree(number, chunk, self.node_bytes(), self.key_bytes, records))
    }
}
