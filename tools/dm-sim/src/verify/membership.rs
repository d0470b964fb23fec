//! A compute node that joined a pool on a simulated fabric, with the row, redo areas and lease that others recover it
//! by.

use dm_core::lane::Lane;
use dm_core::membership::lease::{Lease, LeaseConfig, ProgressCounter};
use dm_core::membership::redo::{self, Area};
use dm_core::membership::{Numbers, Recovery, RecoveryError, rows};
use dm_core::memory::chunks::RequestIds;
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::{IndexNumber, IndexSet};
use dm_core::remote::row::{Joiner, Member};
use dm_core::verbs::Capabilities;
use std::cell::Cell;
use std::rc::Rc;

/// A compute node that has joined, with its redo areas.
#[derive(Debug)]
pub struct Membership {
    /// Its row.
    pub member: Member,
    /// A progress counter per lane.
    pub progress_counters: Vec<ProgressCounter>,
    /// Its lease.
    pub lease: Rc<Lease>,
    areas: Vec<Area>,
    numbers: Numbers,
}

impl Membership {
    /// Joins with `lanes` lanes, and gets redo areas with slots for nodes of `node_bytes`. The lane needs
    /// [`SCRATCH_BYTES`](dm_core::remote::SCRATCH_BYTES) of scratch. As soon as it has a row, `claimed` says so.
    pub async fn join(
        lane: &Lane<'_>,
        geometry: &[NodeGeometry],
        joiner: &Joiner<'_>,
        (node_bytes, terms): (usize, LeaseConfig),
        claimed: Option<&Cell<Option<Member>>>,
    ) -> Result<Self, String> {
        let home = geometry.first().ok_or("a pool without memory nodes")?;
        let member = rows::claim(lane, home, joiner, 0).await.map_err(|error| error.to_string())?;
        claimed.inspect(|claimed| claimed.set(Some(member)));
        rows::publish_row(lane, home, member, joiner, 0).await.map_err(|error| error.to_string())?;
        let declared = rows::declare_lease(lane, home, member, terms.lease_ns()).await;
        declared.map_err(|error| error.to_string())?;
        let mut areas = vec![Area::default(); geometry.len()];
        let requests = RequestIds::default();
        let mut open = IndexSet::default();
        open.insert(IndexNumber::new(0).ok_or("a catalog without entries")?);
        let prepared =
            redo::prepare(lane, geometry, member, &open, &requests, joiner.lanes, node_bytes, 0, &mut areas).await;
        prepared.map_err(|error| error.to_string())?;
        let progress_counters = (0..joiner.lanes).map(|_| ProgressCounter::default()).collect();
        Ok(Self { member, progress_counters, lease: Rc::new(Lease::new(terms)), areas, numbers: Numbers::new() })
    }

    /// Its recovery.
    pub fn recovery<'s>(&'s self, offers: &Capabilities) -> Result<Recovery<'s>, RecoveryError> {
        Recovery::new(self.member, &self.lease, &self.progress_counters, &self.areas, &self.numbers, offers)
    }
}
