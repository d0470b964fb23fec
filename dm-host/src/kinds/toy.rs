//! The toy, in builds that have it.

#![cfg(feature = "toy")]

use super::{Evidence, Kind};
use crate::assembly::{AssemblyError, LockQueues, Needs, Place, Spending, granted};
use dm_core::memory::chunks::RequestIds;
use dm_core::registry::KindParameters;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::ChunkKind;
use dm_core::toy::layout::CHUNKS_MAX;
use dm_core::toy::parameters::Parameters;
use dm_core::toy::{Parts, Toy};

impl Kind for Parameters {
    type Index<'s> = Toy<'s>;

    fn build_each(
        &self,
        places: &[Place<'_>],
        spending: &Spending,
        run: &mut dyn FnMut(&[Toy<'_>]),
    ) -> Result<(), AssemblyError> {
        let storages = places.iter().map(|place| Storage::new(place, self, spending));
        let storages = storages.collect::<Result<Vec<_>, _>>()?;
        let indexes = storages.iter().zip(places).map(|(storage, place)| storage.toy(place, self, spending));
        run(&indexes.collect::<Result<Vec<_>, _>>()?);
        Ok(())
    }

    fn requests<'i>(index: &'i Toy<'_>) -> &'i RequestIds {
        index.requests()
    }

    /// Bytes of an array say nothing.
    fn evidence(&self, _: IndexNumber, _: ChunkKind) -> Option<Evidence<'_>> {
        None
    }
}

/// What one compute node's copy of a toy index borrows.
#[derive(Debug)]
struct Storage {
    locks: LockQueues,
    requests: RequestIds,
}

impl Storage {
    /// Checks that the index can be put together at `place` and allocates what it needs there.
    fn new(place: &Place<'_>, parameters: &Parameters, spending: &Spending) -> Result<Self, AssemblyError> {
        parameters.check()?;
        if place.geometry.first().is_some_and(|home| home.chunk_count > CHUNKS_MAX) {
            let what = "a memory node of more than 65,535 chunks: the root word cannot name them";
            return Err(AssemblyError::Impossible(what));
        }
        let (plan, _) = parameters.plan(spending.page_records, spending.leaves_at_once);
        let needs = Needs {
            node_bytes: parameters.array().place_bytes(),
            redo_bytes: Parameters::REDO_BYTES,
            lane_bytes: plan.total_bytes,
        };
        needs.check(place, spending)?;
        Ok(Self { locks: LockQueues::of_tables(place, spending), requests: RequestIds::default() })
    }

    /// The index. The arguments are those that the storage was made for.
    fn toy<'a>(
        &'a self,
        place: &Place<'a>,
        parameters: &Parameters,
        spending: &Spending,
    ) -> Result<Toy<'a>, AssemblyError> {
        let parts = Parts {
            number: place.number,
            owner: place.member,
            requests: place.requests.unwrap_or(&self.requests),
            geometry: place.geometry,
            options: place.options(spending),
            locks: self.locks.table(),
            recovery: place.recovery,
            epochs: place.epochs,
        };
        granted(place, Toy::new(parts, parameters, parameters.plan(spending.page_records, spending.leaves_at_once))?)
    }
}
