//! SMART indexes.

use super::radix;
use super::{Evidence, Kind};
use crate::assembly::{AssemblyError, LockQueues, Needs, Place, Spending, granted};
use dm_core::memory::chunks::RequestIds;
use dm_core::radix::slot::NODE_BYTES_MAX;
use dm_core::registry::KindParameters;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::ChunkKind;
use dm_core::smart::layout::LeafState;
use dm_core::smart::parameters::{Parameters, REGION_BYTES_MAX};
use dm_core::smart::{Parts, RETIRED_AT_ONCE_MAX, Smart};

impl Kind for Parameters {
    type Index<'s> = Smart<'s>;

    fn build_each(
        &self,
        places: &[Place<'_>],
        spending: &Spending,
        run: &mut dyn FnMut(&[Smart<'_>]),
    ) -> Result<(), AssemblyError> {
        let storages = places.iter().map(|place| Storage::new(place, self, spending));
        let mut storages = storages.collect::<Result<Vec<_>, _>>()?;
        let rooms: Vec<_> = storages.iter_mut().map(Storage::furnish).collect();
        let indexes = rooms.iter().zip(places).map(|(room, place)| room.smart(place, self, spending));
        run(&indexes.collect::<Result<Vec<_>, _>>()?);
        Ok(())
    }

    fn requests<'i>(index: &'i Smart<'_>) -> &'i RequestIds {
        index.requests()
    }

    fn evidence(&self, _: IndexNumber, chunk: ChunkKind) -> Option<Evidence<'_>> {
        let shape = self.leaf();
        let is_it = move |image: &[u8]| shape.state(image) == Ok(LeafState::Valid);
        let evidence = Evidence { bytes: self.node_bytes().0, is_it: Box::new(is_it), doubtful: true };
        (chunk == ChunkKind::Leaf).then_some(evidence)
    }
}

/// What one compute node's copy of a SMART index borrows.
#[derive(Debug)]
struct Storage {
    locks: LockQueues,
    tree: radix::Storage,
}

/// A [`Storage`], ready to be borrowed by an index.
#[derive(Debug)]
struct Room<'a> {
    locks: &'a LockQueues,
    tree: radix::Room<'a>,
}

impl Storage {
    /// Checks that the index can be put together at `place` and allocates what it needs there.
    fn new(place: &Place<'_>, parameters: &Parameters, spending: &Spending) -> Result<Self, AssemblyError> {
        parameters.check()?;
        if place.geometry.iter().any(|node| node.region_bytes > REGION_BYTES_MAX) {
            let what = "a memory node of more than 64 GiB: local queues could not tell leaves apart";
            return Err(AssemblyError::Impossible(what));
        }
        let (plan, _) = parameters.plan(spending.page_records, spending.leaves_at_once);
        let needs = Needs {
            node_bytes: NODE_BYTES_MAX.max(parameters.leaf().place_bytes),
            redo_bytes: parameters.leaf().write_bytes(),
            lane_bytes: plan.total_bytes,
        };
        needs.check(place, spending)?;
        Ok(Self {
            locks: LockQueues::of_leaves(place, spending),
            tree: radix::Storage::new(place, parameters.value_bytes, RETIRED_AT_ONCE_MAX, spending)?,
        })
    }

    /// Makes the room: what the index borrows of this storage.
    fn furnish(&mut self) -> Room<'_> {
        Room { locks: &self.locks, tree: self.tree.furnish() }
    }
}

impl<'a> Room<'a> {
    /// The index. `place`, `parameters` and `spending` are those that the storage was made for.
    fn smart(
        &'a self,
        place: &Place<'a>,
        parameters: &Parameters,
        spending: &Spending,
    ) -> Result<Smart<'a>, AssemblyError> {
        let parts = Parts {
            number: place.number,
            owner: place.member,
            requests: place.requests.unwrap_or(self.tree.requests),
            geometry: place.geometry,
            capabilities: place.capabilities,
            options: place.options(spending),
            locks: self.locks.table(),
            locks_per_node: self.locks.per_node,
            batches: self.tree.batches(),
            space: self.tree.space(place),
            cache: self.tree.cache(),
            recovery: place.recovery,
            epochs: place.epochs,
        };
        let plan = parameters.plan(spending.page_records, spending.leaves_at_once);
        granted(place, Smart::new(parts, parameters, plan)?)
    }
}
