//! Sherman indexes.

use super::{Evidence, Kind};
use crate::assembly::tree::{Sizes, TreeStorage};
use crate::assembly::{AssemblyError, Place, Spending, granted};
use dm_core::memory::chunks::RequestIds;
use dm_core::registry::KindParameters;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::ChunkKind;
use dm_core::sherman::Sherman;
use dm_core::sherman::layout::Leaf;
use dm_core::sherman::parameters::Parameters;

impl Kind for Parameters {
    type Index<'s> = Sherman<'s>;

    fn build_each(
        &self,
        places: &[Place<'_>],
        spending: &Spending,
        run: &mut dyn FnMut(&[Sherman<'_>]),
    ) -> Result<(), AssemblyError> {
        self.check()?;
        let (plan, scratch) = self.plan(spending.page_records, spending.leaves_at_once);
        let leaf_bytes = self.leaf().bytes;
        let sizes = Sizes {
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            inner: self.inner(),
            leaf_bytes,
            leaf_place_bytes: leaf_bytes,
            keeps_next: false,
            scratch,
            lane_bytes: plan.total_bytes,
        };
        let storages = places.iter().map(|place| TreeStorage::new(place, &sizes, spending));
        let mut storages = storages.collect::<Result<Vec<_>, _>>()?;
        let rooms: Vec<_> = storages.iter_mut().map(TreeStorage::furnish).collect();
        let indexes = rooms.iter().zip(places).map(|(room, place)| {
            granted(place, Sherman::new(room.tree(place, &sizes, spending)?, self, plan.clone())?)
        });
        run(&indexes.collect::<Result<Vec<_>, AssemblyError>>()?);
        Ok(())
    }

    fn requests<'i>(index: &'i Sherman<'_>) -> &'i RequestIds {
        index.tree().requests
    }

    fn evidence(&self, number: IndexNumber, chunk: ChunkKind) -> Option<Evidence<'_>> {
        let shape = self.leaf();
        let records = move |image: &[u8]| Leaf::new(&shape, image).records();
        Some(Evidence::of_tree(number, chunk, self.node_bytes(), self.key_bytes, records))
    }
}
