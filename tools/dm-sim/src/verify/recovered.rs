//! Indexes whose compute nodes recover each other: rows, redo areas, leases.

use super::accounting::Holdings;
use super::coding::Coding;
use super::draw::Draw;
use super::membership::Membership;
use super::subject::{AfterDeath, HeldLock, InnerNodeImages, Joining, Opened, PoolState, Subject};
use super::tree::{Bounded, FREE_LIST_HOLDS_ALL, TreeCase, TreeKind, wide_options};
use super::walk;
use super::wide::WideOptions;
use crate::config::Config;
use crate::direct::DirectFabric;
use crate::memory::Memories;
use crate::rng::Rng;
use crate::run::block_on;
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::membership::lease::LeaseConfig;
use dm_core::membership::redo::{HEADER_BYTES, SLOTS_PER_LANE};
use dm_core::membership::{Recovery, UNIT_BYTES_MIN};
use dm_core::memory::Participant;
use dm_core::operation::Census;
use dm_core::remote::NodeGeometry;
use dm_core::remote::row::{Joiner, Member, REDO_CHUNKS};
use dm_core::verbs::{Assumptions, Guarantees, LaneId, NodeId};
use dm_host::assembly::Place;
use std::cell::Cell;

/// A subject: trees of a kind that survive the deaths of their compute nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovered<K>(pub K);

impl TreeCase {
    /// All compute nodes but those that come later join and get their redo areas, one after the other, in the same way
    /// every time.
    pub(super) fn join_all(&self, config: &Config, memories: &mut Memories) -> Result<Vec<Membership>, String> {
        let pool = self.pool();
        let geometry = pool.geometry(config);
        let mut fabric = DirectFabric::over(config, memories);
        let mut joined = Vec::new();
        for number in 0..self.compute_nodes {
            let mut scratch = vec![0; dm_core::remote::SCRATCH_BYTES];
            let lane = Lane::new(LaneId(0), &mut scratch);
            let join = self.join(&geometry, number, &lane, None);
            joined.push(block_on(&lane, &mut fabric, join).map_err(|error| error.to_string())?.result?);
        }
        Ok(joined)
    }

    /// Compute node `number` joins and gets its redo areas.
    async fn join(
        &self,
        geometry: &[NodeGeometry],
        number: usize,
        lane: &Lane<'_>,
        claimed: Option<&Cell<Option<Member>>>,
    ) -> Result<Membership, String> {
        let terms = LeaseConfig::of(self.lease_ns).map_err(|error| error.to_string())?;
        let joiner = Joiner { token: 77 + number as u64, lanes: self.lanes[number], memory_nodes: 1, host: "verify" };
        Membership::join(lane, geometry, &joiner, (self.pool().redo_bytes(), terms), claimed).await
    }

    /// Opens the index of compute node `number`, which recovers others, and which others recover.
    fn open_recovered(
        &self,
        place: Place<'_>,
        (number, recovery): (usize, &Recovery<'_>),
        then: &mut dyn FnMut(&dyn Opened),
    ) -> Result<(), String> {
        let (epochs, pins) = self.epochs_of(number);
        let epochs = Some(Participant { epochs: &epochs, pins: &pins });
        self.open(&Place { member: recovery.member(), recovery: Some(recovery), epochs, ..place }, number, then)
    }
}

impl<K: TreeKind> Subject for Recovered<K> {
    type Case = TreeCase;

    fn name(&self) -> String {
        format!("{}, recovered", K::NAME)
    }

    fn marks(&self) -> Vec<(&'static str, &'static [Mark])> {
        let mut marks = K::marks();
        marks.push(("recovery", dm_core::recovery::MARKS));
        // Collection of memory of dead compute nodes.
        marks.push(("reclaim", K::ORPHAN_COLLECTION));
        marks
    }

    fn rare_marks(&self) -> &'static [Mark] {
        K::rare_marks()
    }

    fn draw(&self, draw: &Draw, rng: &mut Rng) -> TreeCase {
        let mut case = K::draw(draw, rng);
        case.widen(draw);
        if case.spending.returned_nodes > 1 {
            // Free lists have room for the orphans, so that no place is lost.
            case.spending.returned_nodes = FREE_LIST_HOLDS_ALL;
        }
        // As large as the compute node with the most lanes needs for its redo area, and no smaller than a node, whose
        // WRITEs may need no redo record.
        let slot_bytes = (HEADER_BYTES + case.pool().redo_bytes()).next_multiple_of(HEADER_BYTES);
        let slots = SLOTS_PER_LANE * usize::from(case.lanes.iter().copied().max().unwrap_or(1));
        let (leaf_bytes, inner_bytes) = case.parameters.node_bytes();
        // A line follows.
        let redo_bytes = slots.div_ceil(REDO_CHUNKS) * slot_bytes + HEADER_BYTES;
        let chunk_bytes = redo_bytes.max(leaf_bytes).max(inner_bytes);
        case.chunk_bytes = chunk_bytes.next_multiple_of(4096) as u64;
        if !draw.wide.is_empty() {
            case.fit_chunks();
        }
        if draw.wide.fences_the_living() {
            case.lease_ns = 800_000 << Rng::new(draw.seed ^ 0x5eed_0011).below(4);
        }
        case
    }

    fn wide_options(&self) -> WideOptions {
        wide_options::<K>()
    }

    fn always(&self) -> WideOptions {
        Bounded(self.0).always()
    }

    fn assumptions(&self, draw: &Draw, case: &TreeCase) -> Assumptions {
        Bounded(self.0).assumptions(draw, case)
    }

    fn coding(&self, draw: &Draw, case: &TreeCase) -> Coding {
        Bounded(self.0).coding(draw, case)
    }

    fn configure_fabric(&self, _: &TreeCase, config: &mut Config) {
        config.fences = true;
        config.crash_atomic_bytes = config.crash_atomic_bytes.max(UNIT_BYTES_MIN);
    }

    fn small_pool(&self, case: &TreeCase, config: &Config, memories: &Memories, chunks: u32) -> Option<Vec<usize>> {
        Bounded(self.0).small_pool(case, config, memories, chunks)
    }

    fn format(&self, case: &TreeCase, config: &Config, memories: &mut Memories) {
        case.pool().format(config, memories);
        if K::HAS_OWNERS {
            case.pool().format_entry(config, K::NAME, memories);
        }
        // A failure occurs again when the index is opened, and is reported there.
        let _ = case.join_all(config, memories);
    }

    fn open(
        &self,
        _: &Draw,
        case: &TreeCase,
        config: &Config,
        guarantees: Guarantees,
        then: &mut dyn FnMut(&[&dyn Opened]),
    ) -> Result<(), String> {
        let geometry = case.pool().geometry(config);
        let mut twin = Memories::new(&config.host_bytes, config.device_bytes as usize);
        case.pool().format(config, &mut twin);
        let joined = case.join_all(config, &mut twin)?;
        let capabilities = config.capabilities();
        let mut recoveries = Vec::new();
        for membership in &joined {
            recoveries.push(membership.recovery(&capabilities).map_err(|error| error.to_string())?);
        }
        let place = walk::place(&geometry, config, guarantees, 0);
        let open = |number: usize, then: &mut dyn FnMut(&dyn Opened)| {
            case.open_recovered(place, (number, &recoveries[number]), then)
        };
        walk::open_all(recoveries.len(), &open, &[], then)
    }

    fn join<'l>(
        &'l self,
        case: &'l TreeCase,
        config: &'l Config,
        number: usize,
        lane: &'l Lane<'_>,
        claimed: &'l Cell<Option<Member>>,
    ) -> Joining<'l> {
        Box::pin(async move { case.join(&case.pool().geometry(config), number, lane, Some(claimed)).await })
    }

    fn open_later(
        &self,
        case: &TreeCase,
        config: &Config,
        guarantees: Guarantees,
        (number, membership): (usize, &Membership),
        then: &mut dyn FnMut(&dyn Opened),
    ) -> Result<(), String> {
        let geometry = case.pool().geometry(config);
        let recovery = membership.recovery(&config.capabilities()).map_err(|error| error.to_string())?;
        case.open_recovered(walk::place(&geometry, config, guarantees, 0), (number, &recovery), then)
    }

    fn remote_locks_held(&self, case: &TreeCase, config: &Config, memories: &Memories) -> Vec<HeldLock> {
        Bounded(self.0).remote_locks_held(case, config, memories)
    }

    fn unaccounted(&self, case: &TreeCase, census: &Census, stayed: u64) -> Option<String> {
        Bounded(self.0).unaccounted(case, census, stayed)
    }

    fn pool_state(
        &self,
        case: &TreeCase,
        config: &Config,
        memories: &Memories,
        down: Option<NodeId>,
    ) -> Option<PoolState> {
        Bounded(self.0).pool_state(case, config, memories, down)
    }

    fn rows(&self, case: &TreeCase, config: &Config) -> Vec<u64> {
        case.pool().rows(config, case.lanes.len() as u16)
    }

    fn after_death(&self) -> AfterDeath {
        AfterDeath::Recovered
    }

    fn mends_what_was_torn(&self) -> bool {
        true
    }

    fn inner_node_images(&self, case: &TreeCase, config: &Config, memories: &Memories) -> InnerNodeImages {
        Bounded(self.0).inner_node_images(case, config, memories)
    }

    fn holdings(&self, case: &TreeCase, config: &Config, memories: &Memories) -> Option<Result<Holdings, String>> {
        Bounded(self.0).holdings(case, config, memories)
    }

    fn rdwc(&self, case: &TreeCase) -> Option<bool> {
        Bounded(self.0).rdwc(case)
    }

    fn bulk_loads(&self, case: &TreeCase) -> bool {
        Bounded(self.0).bulk_loads(case)
    }

    fn collects_all(&self, case: &TreeCase) -> bool {
        // Collections include a compute node's own chunks.
        case.parameters.any_length.is_some()
    }

    fn holds_all_blocks(&self, case: &TreeCase) -> bool {
        Bounded(self.0).holds_all_blocks(case)
    }

    fn loses_with_owners(&self, case: &TreeCase) -> bool {
        Bounded(self.0).loses_with_owners(case)
    }

    fn never_leaks(&self, case: &TreeCase) -> bool {
        // This includes places in chunks of live compute nodes that only a dead one knew of.
        let collects = case.parameters.any_length.is_none() || self.collects_all(case);
        Bounded(self.0).never_leaks(case) && collects
    }
}
