//! Dolphin indexes.

use super::radix;
use super::{Evidence, Kind};
use crate::assembly::{AssemblyError, LEAF_LOCKS_MAX, Needs, Place, Spending, granted};
use dm_core::dolphin::entries::{Entries, Entry};
use dm_core::dolphin::layout::leaf::Leaf;
use dm_core::dolphin::layout::shape::LEAF_BYTES;
use dm_core::dolphin::parameters::Parameters;
use dm_core::dolphin::spear::{NoSeat, SEATS, Seat};
use dm_core::dolphin::{Dolphin, Parts};
use dm_core::memory::chunks::RequestIds;
use dm_core::radix::slot::NODE_BYTES_MAX;
use dm_core::registry::KindParameters;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::ChunkKind;

/// Places that one change takes out of the tree: a leaf, a node that is replaced for it, and a block.
const RETIRED_AT_ONCE_MAX: usize = 3;

impl Kind for Parameters {
    type Index<'s> = Dolphin<'s>;

    fn build_each(
        &self,
        places: &[Place<'_>],
        spending: &Spending,
        run: &mut dyn FnMut(&[Dolphin<'_>]),
    ) -> Result<(), AssemblyError> {
        let storages = places.iter().map(|place| Storage::new(place, self, spending));
        let mut storages = storages.collect::<Result<Vec<_>, _>>()?;
        let rooms: Vec<_> = storages.iter_mut().map(Storage::furnish).collect();
        let indexes = rooms.iter().zip(places).map(|(room, place)| room.dolphin(place, self, spending));
        run(&indexes.collect::<Result<Vec<_>, _>>()?);
        Ok(())
    }

    fn requests<'i>(index: &'i Dolphin<'_>) -> &'i RequestIds {
        index.requests()
    }

    /// A leaf says which index it is of.
    fn evidence(&self, number: IndexNumber, chunk: ChunkKind) -> Option<Evidence<'_>> {
        let is_it = move |image: &[u8]| Leaf::is_of(image, number.in_nodes());
        let evidence = Evidence { bytes: LEAF_BYTES, is_it: Box::new(is_it), doubtful: true };
        (chunk == ChunkKind::Leaf).then_some(evidence)
    }
}

/// What one compute node's copy of a Dolphin index borrows.
#[derive(Debug)]
struct Storage {
    entries: Vec<Entry>,
    tree: radix::Storage,
}

/// A [`Storage`], ready to be borrowed by an index.
#[derive(Debug)]
struct Room<'a> {
    entries: &'a [Entry],
    tree: radix::Room<'a>,
}

impl Storage {
    /// Checks that the index can be put together at `place` and allocates what it needs there.
    fn new(place: &Place<'_>, parameters: &Parameters, spending: &Spending) -> Result<Self, AssemblyError> {
        parameters.check()?;
        let (plan, _) = parameters.plan(spending.page_records, spending.leaves_at_once);
        let needs = Needs { node_bytes: NODE_BYTES_MAX, redo_bytes: 0, lane_bytes: plan.total_bytes };
        needs.check(place, spending)?;
        let entries = place.geometry.len() * spending.leaf_locks.clamp(1, LEAF_LOCKS_MAX);
        Ok(Self {
            entries: (0..entries).map(|_| Entry::default()).collect(),
            tree: radix::Storage::new(place, parameters.value_bytes, RETIRED_AT_ONCE_MAX, spending)?,
        })
    }

    /// Makes the room: what the index borrows of this storage.
    fn furnish(&mut self) -> Room<'_> {
        Room { entries: &self.entries, tree: self.tree.furnish() }
    }
}

impl<'a> Room<'a> {
    /// The index. `place`, `parameters` and `spending` are those that the storage was made for.
    fn dolphin(
        &'a self,
        place: &Place<'a>,
        parameters: &Parameters,
        spending: &Spending,
    ) -> Result<Dolphin<'a>, AssemblyError> {
        let seat = Seat::of_row(place.member.row)
            .map_err(|NoSeat { row }| AssemblyError::Row { row: row.0, last: u16::from(SEATS) })?;
        let parts = Parts {
            number: place.number,
            owner: place.member,
            requests: place.requests.unwrap_or(self.tree.requests),
            geometry: place.geometry,
            capabilities: place.capabilities,
            options: spending.options,
            entries: Entries::new(self.entries, seat, place.recovery),
            batches: self.tree.batches(),
            space: self.tree.space(place),
            cache: self.tree.cache(),
            recovery: place.recovery,
            epochs: place.epochs,
        };
        let plan = parameters.plan(spending.page_records, spending.leaves_at_once);
        granted(place, Dolphin::new(parts, parameters, plan)?)
    }
}
