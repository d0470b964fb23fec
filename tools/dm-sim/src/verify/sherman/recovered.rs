//! Sherman whose compute nodes recover one another: rows, redo areas, leases.

use super::{Case, SHELF_HOLDS_ALL, ShermanSubject, place, with_sherman};
use crate::config::Config;
use crate::direct::DirectFabric;
use crate::memory::Memories;
use crate::rng::Rng;
use crate::run::block_on;
use crate::verify::accounting::Holdings;
use crate::verify::draw::Draw;
use crate::verify::membership::Membership;
use crate::verify::subject::{AfterDeath, HeldLock, Opened, Picture, Subject, With};
use dm_core::lane::{Lane, Mark};
use dm_core::recovery::lease::Terms;
use dm_core::recovery::redo::{HEADER_BYTES, SLOTS_PER_LANE};
use dm_core::recovery::{Recovery, UNIT_BYTES_MIN};
use dm_core::remote::rows::{Joiner, REDO_CHUNKS};
use dm_core::verbs::{Assumptions, Guarantees, LaneId};
use dm_host::assembly::{Place, Spending};

/// Makes Sherman trees that survive the deaths of their compute nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShermanRecovered;

/// Longer than any live lane holds a lock, however long its requests sleep: nobody keeps heartbeats here.
const LEASE_NS: u64 = 60_000_000;

const INNER: ShermanSubject = ShermanSubject;

impl Case {
    fn node_bytes(&self) -> usize {
        self.parameters.leaf().bytes.max(self.parameters.inner().bytes)
    }

    /// All compute nodes join and get their redo areas, one after the other; the same every time.
    fn join_all(&self, config: &Config, memories: &mut Memories) -> Result<Vec<Membership>, String> {
        let geometry = self.geometry(config);
        let mut fabric = DirectFabric::over(config, memories);
        let terms = Terms::of(LEASE_NS).map_err(|error| error.to_string())?;
        let mut joined = Vec::new();
        for (number, &lanes) in self.lanes.iter().enumerate() {
            let mut scratch = vec![0; dm_core::remote::SCRATCH_BYTES];
            let lane = Lane::new(LaneId(0), &mut scratch);
            let joiner = Joiner { token: 77 + number as u64, lanes, host: "verify" };
            let join = Membership::join(&lane, &geometry, &joiner, self.node_bytes(), terms);
            joined.push(block_on(&lane, &mut fabric, join).map_err(|error| error.to_string())?.result?);
        }
        Ok(joined)
    }
}

impl Subject for ShermanRecovered {
    type Case = Case;

    fn name(&self) -> &'static str {
        "sherman, recovered"
    }

    fn marks(&self) -> Vec<(&'static str, &'static [Mark])> {
        let mut marks = INNER.marks();
        marks.push(("recovery", dm_core::recovery::MARKS));
        marks.push(("reclaim", dm_core::reclaim::MARKS));
        marks
    }

    fn rare_marks(&self) -> &'static [Mark] {
        INNER.rare_marks()
    }

    fn draw(&self, draw: &Draw, rng: &mut Rng) -> Case {
        let mut case = INNER.draw(draw, rng);
        case.spending.options.narrow_locks = false;
        if case.spending.returned_nodes > 1 {
            // So that memory of the dead finds room, and nothing is lost.
            case.spending.returned_nodes = SHELF_HOLDS_ALL;
        }
        // As large as the redo area of the compute node with the most lanes needs.
        let slot_bytes = (HEADER_BYTES + case.node_bytes()).next_multiple_of(HEADER_BYTES);
        let slots = SLOTS_PER_LANE * usize::from(case.lanes.iter().copied().max().unwrap_or(1));
        case.chunk_bytes = (slots.div_ceil(REDO_CHUNKS) * slot_bytes).next_multiple_of(4096) as u64;
        case
    }

    fn assumptions(&self, draw: &Draw, case: &Case) -> Assumptions {
        INNER.assumptions(draw, case)
    }

    fn dial(&self, _: &Case, config: &mut Config) {
        config.fences = true;
        config.crash_atomic_bytes = config.crash_atomic_bytes.max(UNIT_BYTES_MIN);
    }

    fn format(&self, case: &Case, config: &Config, memories: &mut Memories) {
        INNER.format(case, config, memories);
        // What fails here fails again when the index is opened, and is reported there.
        let _ = case.join_all(config, memories);
    }

    fn open(
        &self,
        _: &Draw,
        case: &Case,
        config: &Config,
        guarantees: Guarantees,
        then: &mut dyn FnMut(&[&dyn Opened]),
    ) -> Result<(), String> {
        let geometry = case.geometry(config);
        let mut twin = Memories::new(&config.host_bytes, config.device_bytes as usize);
        INNER.format(case, config, &mut twin);
        let joined = case.join_all(config, &mut twin)?;
        let capabilities = config.capabilities();
        let mut recoveries = Vec::new();
        for membership in &joined {
            recoveries.push(membership.recovery(&capabilities).map_err(|error| error.to_string())?);
        }
        let place = place(&geometry, config, guarantees, 0);
        open_rest(&place, case, &recoveries, &[], then)
    }

    fn remote_locks_held(&self, case: &Case, config: &Config, memories: &Memories) -> Vec<HeldLock> {
        INNER.remote_locks_held(case, config, memories)
    }

    fn after_death(&self) -> AfterDeath {
        AfterDeath::Recovered
    }

    fn picture(&self, case: &Case, config: &Config, memories: &Memories) -> Picture {
        INNER.picture(case, config, memories)
    }

    fn holdings(&self, case: &Case, config: &Config, memories: &Memories) -> Option<Result<Holdings, String>> {
        INNER.holdings(case, config, memories)
    }

    fn never_leaks(&self, case: &Case) -> bool {
        INNER.never_leaks(case)
    }
}

fn open_rest(
    place: &Place<'_>,
    case: &Case,
    recoveries: &[Recovery<'_>],
    opened: &[&dyn Opened],
    then: &mut dyn FnMut(&[&dyn Opened]),
) -> Result<(), String> {
    let Some((recovery, rest)) = recoveries.split_first() else {
        then(opened);
        return Ok(());
    };
    let here = Place { member: recovery.member(), recovery: Some(recovery), ..*place };
    let spending = Spending { lanes: case.lanes[opened.len()].into(), ..case.spending.clone() };
    let inside = with_sherman(&here, &case.parameters, &spending, |index| {
        let index = With(index);
        let mut more = opened.to_vec();
        more.push(&index);
        open_rest(place, case, rest, &more, then)
    });
    inside.map_err(|error| error.to_string())?
}
