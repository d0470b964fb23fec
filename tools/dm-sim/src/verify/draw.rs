//! What a seed decides about a history.
//!
//! Each history draws its own sizes, mix, skew and delays, and omits some kinds of operations. A fault that needs many
//! deletes and no scans is met sooner that way than with everything on at once.

use super::fault_plan::FaultPlan;
use super::settings::{Profile, Settings};
use super::wide::{WideOption, WideOptions};
use crate::compute_node::ComputeNode;
use crate::config::{Config, Delays};
use crate::rng::Rng;
use dm_core::memory::GENERATIONS;
use dm_core::operation::OperationKind;
use dm_core::verbs::{Assumptions, Verb};
use std::fmt;

/// How the index is filled before lanes start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// Not at all.
    Empty,
    /// By inserts.
    Inserts,
    /// By a bulk load.
    Bulk,
}

/// Keys that most histories have at most: so few that operations meet.
const USUAL_KEYS_MAX: u32 = 24;

/// Keys of histories with many lanes, at least.
const MANY_LANES_KEYS_MIN: u32 = 16;

/// Keys of histories with many compute nodes, at least: if all of them change one key, a history in some thousand is too
/// hard to judge.
const MANY_NODES_KEYS_MIN: u32 = 4;

/// Rows before those of the compute nodes: so many, and fewer than so many more. A pool has 128, and 8 or 16 are READ at once.
const ROWS_USED_UP: (u32, u32) = (6, 90);

/// Of 100 calls of a lane in a history with turns, so many are turns or orphan collections.
const TURNS_PERCENT: u32 = 12;

/// Compute nodes that join while the others work, at most.
const LATER_MAX: u32 = 3;

/// With so many keys or more, leaves of [`Profile::SlowReaders`] are to be wide.
pub const WIDE_KEYS_MIN: u32 = 8;

/// A case: everything about a history that is not the subject's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The seed.
    pub seed: u64,
    /// What it is about.
    pub profile: Profile,
    /// Lanes of each compute node.
    pub lanes: Vec<u16>,
    /// Lanes of each compute node that joins while the others work.
    pub later_lanes: Vec<u16>,
    /// Lanes that share a queue pair.
    pub lanes_per_worker: u16,
    /// Memory nodes.
    pub memory_nodes: u32,
    /// Whether their NICs have memory of their own.
    pub device_memory: bool,
    /// Operations.
    pub operations: u32,
    /// Keys.
    pub keys: u32,
    /// Where a key's number is in its bytes: see `Coding`.
    pub key_shift: u32,
    /// Of 100 operations, so many go to one of two hot keys.
    pub hot_percent: u32,
    /// How often each kind is chosen, relatively; 0 = never.
    pub weights: [u32; OperationKind::ALL.len()],
    /// How it begins.
    pub filling: Filling,
    /// Of 100 keys, so many exist at the beginning.
    pub filled_percent: u32,
    /// The faults.
    pub plan: FaultPlan,
    /// How long an operation may wait, in ns; 0 = as long as the index likes.
    pub deadline_ns: u64,
    /// Generations of a place before they begin again.
    pub generations: u8,
    /// Of 100 calls of a lane, so many are turns or orphan collections.
    pub turns_percent: u32,
    /// Rows of the pool before those of its compute nodes: their incarnations are used up.
    pub rows_used_up: u16,
    /// The fabric: delays, freedoms, what it offers. What it grants is added by [`Draw::config`].
    pub fabric: FabricDraw,
    /// What it has that most histories never have.
    pub wide: WideOptions,
}

/// The fabric's part of a [`Draw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricDraw {
    /// How long things take.
    pub delays: Delays,
    /// See [`Config::freedom_percent`].
    pub freedom_percent: u32,
    /// See [`Config::bursts_max`].
    pub bursts_max: u32,
    /// See [`Config::masked_atomics`].
    pub masked_atomics: bool,
    /// See [`Config::order_within_chains_only`].
    pub order_within_chains_only: bool,
    /// See [`Config::packet_bytes`].
    pub packet_bytes: u32,
    /// See [`Config::crash_atomic_bytes`].
    pub crash_atomic_bytes: u32,
    /// Guarantees that are kept although the index does not need them.
    pub kept: Assumptions,
}

/// Device memory of a NIC that has some.
pub const DEVICE_BYTES: u32 = 4096;

/// Bytes of host memory of each memory node.
const MEMORY_BYTES: usize = 512 << 10;

/// The same if keys, values or leaves are large, or many compute nodes have redo areas.
const WIDE_MEMORY_BYTES: usize = 8 << 20;

/// Keys of histories that forward, at least.
const FORWARD_KEYS_MIN: u32 = 10;
/// Keys of those whose calls carry several operations, at least: a call that is not answered leaves several changes unknown.
const PACKS_KEYS_MIN: u32 = 16;

/// How long callers of compute nodes wait, in ns: some times as long as most operations take.
const FORWARD_TIMEOUT_NS: u64 = 300_000;

/// The same for calls of memory nodes.
const CALL_TIMEOUT_NS: u64 = 50_000;

/// Deadlines where compute nodes die, in ns, are at least the first and the second for each lane: no operation waits that long for
/// others that live.
const DEADLINE_NS_MIN: u64 = 20_000_000;
const LANE_DEADLINE_NS: u64 = 4_000_000;

/// The deadline of operations that are forwarded, in ns, where histories have none.
const FORWARD_DEADLINE_NS: u64 = 4_000_000;

impl Draw {
    /// The compute node in whose part of the keys `key` is, if they are divided evenly.
    pub(super) fn home_of(&self, key: u32) -> usize {
        let (key, nodes, keys) = (u64::from(key), self.lanes.len() as u64, u64::from(self.keys.max(1)));
        (key * nodes / keys) as usize
    }

    /// A key in the part of compute node `by`, if it has one.
    pub(super) fn at_home(&self, by: ComputeNode, key: u32) -> u32 {
        let nodes = self.lanes.len() as u32;
        // One that joins later takes the part of another one over.
        let by = u32::from(by.0) % nodes;
        let first = (self.keys * by).div_ceil(nodes);
        let end = (self.keys * (by + 1)).div_ceil(nodes);
        if first < end { first + key % (end - first) } else { key }
    }

    /// The case of `seed`.
    pub fn new(settings: &Settings, seed: u64) -> Self {
        let wide = settings.wide.drawn(seed, settings.always);
        let settings = &settings.widened(wide, seed);
        let mut rng = Rng::new(seed ^ 0x5eed_0001);
        let compute_nodes = rng.within(settings.compute_nodes).max(1) as usize;
        let lane_count = (rng.within(settings.lanes) as usize).max(compute_nodes);
        let mut lanes = vec![1_u16; compute_nodes];
        for _ in compute_nodes..lane_count {
            lanes[rng.below(compute_nodes as u32) as usize] += 1;
        }
        let (keys_min, keys_max) = (settings.keys.0.max(1), settings.keys.1.max(1));
        let keys = rng.within((keys_min, keys_max.min(USUAL_KEYS_MAX).max(keys_min))) as u32;
        // Some histories have only a few keys, for which all operations compete.
        let keys = if rng.percent(20) { keys.min(3) } else { keys };
        let profile = match rng.below(100) {
            0..9 if compute_nodes > 1 => Profile::Wraparound,
            9..27 if compute_nodes > 1 => Profile::SlowReaders,
            27..40 => Profile::Churn,
            40..53 if compute_nodes > 1 => Profile::Reuse,
            53..67 => Profile::Growth,
            _ => Profile::Mixed,
        };
        let profile = settings.profile.unwrap_or(profile);
        if settings.compute_nodes.0 <= 2 {
            match profile {
                // Lanes of one compute node hand a lock over faster than compute nodes get it from each other.
                Profile::Wraparound => lanes = vec![lane_count as u16 - 1, 1],
                // Half of them read: the more READs, the more are torn.
                Profile::SlowReaders => lanes = vec![lane_count.div_ceil(2) as u16, (lane_count / 2) as u16],
                // Few lanes, so that leaves that could be merged are not busy.
                Profile::Reuse => lanes = vec![1 + rng.below(2) as u16, 2],
                Profile::OldRoutes => lanes = vec![1 + rng.below(2) as u16, 1],
                _ => {}
            }
        }
        let few = 1 + rng.below(2);
        let keys = match profile {
            Profile::Mixed => keys,
            Profile::Wraparound => keys.min(few),
            // With one or two keys, slots are reused; with some more, leaves are; with many, leaves split while they
            // are READ.
            Profile::SlowReaders => match rng.below(3) {
                0 if rng.percent(70) => keys.min(few),
                1 if rng.percent(70) => keys.min(3 + rng.below(6)),
                _ => keys_max.min(2 * USUAL_KEYS_MAX),
            },
            Profile::Churn => keys.min(3 + rng.below(6)),
            Profile::Reuse => keys_max.min(5 + rng.below(3)),
            Profile::Growth => keys_max,
            Profile::OldRoutes => keys_max.min(6 + rng.below(8)),
        };
        let compute_nodes = lanes.len();
        let memory_nodes = rng.within(settings.memory_nodes).clamp(1, 8) as u32;
        let plan =
            FaultPlan::new(settings, profile, compute_nodes as u32, memory_nodes, &mut Rng::new(seed ^ 0x5eed_0005));
        let deadline_ns = if plan.has(super::faults::FaultKind::Crash) {
            let lanes: u64 = lanes.iter().map(|lanes| u64::from(*lanes)).sum();
            DEADLINE_NS_MIN + LANE_DEADLINE_NS * lanes + rng.bits() % 8_000_000
        } else {
            0
        };
        // From a stream of its own, so that nothing else that is drawn depends on it.
        let turns = Rng::new(seed ^ 0x5eed_0006).percent(40);
        let mut draw = Self {
            seed,
            profile,
            lanes,
            later_lanes: Vec::new(),
            lanes_per_worker: 1 + rng.below(3) as u16,
            memory_nodes,
            device_memory: rng.percent(50),
            operations: rng.within(settings.operations) as u32,
            keys,
            key_shift: [0, 8, 40][rng.below(3) as usize],
            hot_percent: [0, 0, 30, 70][rng.below(4) as usize],
            weights: weights(&mut rng),
            filling: [Filling::Empty, Filling::Inserts, Filling::Bulk][rng.below(3) as usize],
            filled_percent: [30, 60, 100][rng.below(3) as usize],
            plan,
            deadline_ns,
            generations: if turns { 2 } else { GENERATIONS },
            turns_percent: if turns { TURNS_PERCENT } else { 0 },
            rows_used_up: 0,
            fabric: FabricDraw::new(&mut rng),
            wide,
        };
        if let Some(masked_cas) = settings.masked_cas {
            draw.fabric.masked_atomics = masked_cas;
        }
        if wide.has(WideOption::Forward) {
            // Unknown changes stay open: many of one key are too hard to judge.
            let least = if wide.has(WideOption::Packs) { PACKS_KEYS_MIN } else { FORWARD_KEYS_MIN };
            draw.keys = draw.keys.max(least);
            if draw.deadline_ns == 0 {
                // Ranges that move stay between two owners when these have nothing to do any more.
                draw.deadline_ns = FORWARD_DEADLINE_NS;
            }
        }
        draw.focus(&mut rng);
        if wide.has(WideOption::Forward) {
            draw.hot_percent = 0;
        }
        if draw.profile == Profile::Mixed && seed % 8 == 3 {
            // Only in this case, so that seeds that found bugs keep their histories.
            draw.weights[OperationKind::DeleteIf as usize] = 1 + Rng::new(seed ^ 0x5eed_0007).below(4);
        }
        draw.widen();
        draw
    }

    /// Changes the draws to fit the profile.
    fn focus(&mut self, rng: &mut Rng) {
        use OperationKind::{Delete, Get, Insert, Scan, Update, UpdateIf, Upsert};
        let weigh = |weights: &[(OperationKind, u32)]| {
            let mut all = [0; OperationKind::ALL.len()];
            for (kind, weight) in weights {
                all[*kind as usize] = *weight;
            }
            all
        };
        let last = ComputeNode(self.lanes.len() as u16 - 1);
        match self.profile {
            Profile::Mixed => {}
            Profile::Wraparound => {
                self.weights = weigh(&[(Update, 4 + rng.below(4)), (Upsert, 3), (UpdateIf, rng.below(2)), (Get, 1)]);
                self.filling = Filling::Inserts;
                self.filled_percent = 100;
                self.operations *= 2;
                self.fabric.delays = Delays {
                    long_per_1024: 600,
                    long_ns: (40_000, 100_000 + rng.below(300_000)),
                    sleeper: Some((last, Verb::Read)),
                    ..Delays::default()
                };
                self.fabric.bursts_max = 2 + rng.below(7);
            }
            Profile::SlowReaders => {
                self.weights = weigh(&[(Insert, 5), (Upsert, 2 + rng.below(2)), (Delete, 5 + rng.below(3)), (Get, 1)]);
                self.weights[Scan as usize] = rng.below(2);
                if self.keys > WIDE_KEYS_MIN {
                    // Leaves that fill up.
                    self.weights[Delete as usize] = 1;
                    self.filled_percent = 30;
                }
                self.operations *= 2;
                self.fabric.delays = Delays {
                    long_per_1024: 500,
                    long_ns: (3_000, 24_000),
                    sleeper: Some((last, Verb::Read)),
                    // The longer the shortest turn, the longer a READ is trusted.
                    request_ns: (900, 1200),
                    response_ns: (900, 1200),
                    ..Delays::default()
                };
                self.fabric.bursts_max = 2 + rng.below(7);
                self.fabric.freedom_percent = self.fabric.freedom_percent.max(60);
            }
            Profile::Churn => {
                let scans = rng.below(2);
                self.weights = weigh(&[(Insert, 5), (Upsert, 2), (Delete, 6 + rng.below(4)), (Get, 4), (Scan, scans)]);
                self.operations *= 2;
                if rng.percent(70) {
                    self.fabric.delays = Delays { long_per_1024: 200, long_ns: (5_000, 40_000), ..Delays::default() };
                }
            }
            Profile::Reuse => {
                self.weights = weigh(&[(Insert, 5), (Delete, 5 + rng.below(3)), (Upsert, 2), (Get, 4)]);
                self.operations *= 2;
                self.fabric.delays = Delays {
                    long_per_1024: 350,
                    long_ns: (6_000, 30_000),
                    sleeper: Some((ComputeNode(0), Verb::Write)),
                    ..Delays::default()
                };
                self.fabric.bursts_max = 2 + rng.below(7);
            }
            Profile::OldRoutes => {
                self.weights = weigh(&[(Insert, 5), (Delete, 4 + rng.below(3)), (Get, 1)]);
                self.operations *= 2;
                self.hot_percent = 0;
                self.fabric.delays = Delays {
                    long_per_1024: 400,
                    long_ns: (20_000, 200_000),
                    sleeper: Some((last, Verb::Read)),
                    ..Delays::default()
                };
            }
            Profile::Growth => {
                self.operations *= 2;
                self.weights = weigh(&[(Insert, 8), (Upsert, 2), (Get, rng.below(3)), (Scan, rng.below(2))]);
                self.filling = Filling::Empty;
                self.hot_percent = 0;
                match rng.below(3) {
                    // The compute node that links new nodes to parents is slow.
                    0 => {
                        self.fabric.delays = Delays {
                            long_per_1024: 300,
                            long_ns: (5_000, 100_000),
                            sleeper: Some((last, Verb::Cas)),
                            ..Delays::default()
                        };
                    }
                    1 => {
                        self.fabric.delays =
                            Delays { long_per_1024: 120, long_ns: (5_000, 60_000), ..Delays::default() };
                    }
                    _ => {}
                }
            }
        }
    }

    /// Changes the draws to fit the options.
    fn widen(&mut self) {
        let scans = &mut self.weights[OperationKind::Scan as usize];
        if self.wide.wants_scans() {
            *scans = (*scans).max(1);
        }
        if self.wide.has(WideOption::Lanes) {
            // If all of them met at one key, the history would be too hard to judge. They meet at locks.
            (self.keys, self.hot_percent) = (self.keys.max(MANY_LANES_KEYS_MIN), 0);
        }
        if self.wide.has(WideOption::ComputeNodes) {
            self.keys = self.keys.max(MANY_NODES_KEYS_MIN);
        }
        if self.wide.has(WideOption::ValuesLong) {
            self.fabric.packet_bytes = 256;
        }
        if self.wide.has(WideOption::RowTable) {
            let (least, more) = ROWS_USED_UP;
            self.rows_used_up = (least + Rng::new(self.seed ^ 0x5eed_0025).below(more)) as u16;
        }
        if self.wide.has(WideOption::Rejoin) {
            let later = 1 + Rng::new(self.seed ^ 0x5eed_0024).below(LATER_MAX) as usize;
            self.later_lanes = self.lanes.iter().copied().cycle().take(later).collect();
            // They need some that are left when they have joined; and turns, if what was in their row before holds epochs.
            self.operations *= 2;
            self.turns_percent = self.turns_percent.max(TURNS_PERCENT);
        }
    }

    /// The kind of operation to run on this compute node instead of `kind`, in profiles whose compute nodes differ.
    pub fn kind_on(&self, compute_node: ComputeNode, kind: OperationKind) -> OperationKind {
        use OperationKind::{Delete, Get, Insert, Scan, Upsert};
        match (self.profile, kind) {
            (_, kind) if self.only_reads(compute_node) && kind != Scan => Get,
            (Profile::Reuse, Insert) if compute_node.0 > 0 => Upsert,
            (Profile::Reuse, Delete) if compute_node.0 > 0 => Get,
            (_, kind) => kind,
        }
    }

    /// Whether this compute node only reads.
    fn only_reads(&self, compute_node: ComputeNode) -> bool {
        matches!(self.profile, Profile::Wraparound | Profile::SlowReaders | Profile::OldRoutes)
            && usize::from(compute_node.0) == self.lanes.len() - 1
    }

    /// The fabric for an index that needs `needed`.
    pub fn config(&self, settings: &Settings, needed: Assumptions) -> Config {
        let FabricDraw { delays, freedom_percent, bursts_max, masked_atomics, .. } = self.fabric;
        let FabricDraw { order_within_chains_only, packet_bytes, crash_atomic_bytes, kept, .. } = self.fabric;
        let memory_bytes = if self.wide.needs_room() { WIDE_MEMORY_BYTES } else { MEMORY_BYTES };
        Config {
            host_bytes: vec![memory_bytes; self.memory_nodes as usize],
            device_bytes: if self.device_memory { DEVICE_BYTES } else { 0 },
            granted: needed.union(kept).difference(settings.withdrawn),
            freedom_percent,
            masked_atomics,
            bursts_max,
            order_within_chains_only,
            packet_bytes,
            crash_atomic_bytes,
            rows_used_up: self.rows_used_up,
            forwards: self.wide.has(WideOption::Forward),
            call_timeout_ns: if self.wide.has(WideOption::Forward) { FORWARD_TIMEOUT_NS } else { CALL_TIMEOUT_NS },
            rpc_lost_percent: self.plan.rpc_lost_percent,
            rpc_repeated_percent: self.plan.rpc_repeated_percent,
            delays,
            ..Config::default()
        }
    }

    /// Lanes of each compute node, those that join later at the end.
    pub fn all_lanes(&self) -> Vec<u16> {
        [self.lanes.as_slice(), &self.later_lanes].concat()
    }

    /// Lanes of all compute nodes.
    pub fn lane_count(&self) -> usize {
        self.all_lanes().into_iter().map(usize::from).sum()
    }
}

/// Each kind is omitted in a third of the cases; every case has some writes and some reads.
fn weights(rng: &mut Rng) -> [u32; OperationKind::ALL.len()] {
    // The caller sets the weight of the last kind, so that seeds that found bugs keep their histories.
    let mut weights = OperationKind::ALL.map(|kind| match kind {
        OperationKind::DeleteIf => 0,
        _ if rng.percent(33) => 0,
        _ => 1 + rng.below(8),
    });
    // Scans touch many keys at once, so a few suffice.
    weights[OperationKind::Scan as usize] = weights[OperationKind::Scan as usize].min(3);
    if weights[OperationKind::Insert as usize] + weights[OperationKind::Upsert as usize] == 0 {
        weights[OperationKind::Upsert as usize] = 4;
    }
    if weights[OperationKind::Get as usize] + weights[OperationKind::Scan as usize] == 0 {
        weights[OperationKind::Get as usize] = 3;
    }
    weights
}

impl FabricDraw {
    fn new(rng: &mut Rng) -> Self {
        let usual = Delays::default();
        let delays = match rng.below(7) {
            0 => usual.bounded(),
            // Only the order of effects differs.
            1 => Delays { request_ns: (900, 1000), response_ns: (900, 1000), spread_ns_max: 50, ..usual.bounded() },
            // Effects of one request far apart.
            2 => Delays { spread_ns_max: 6000, ..usual },
            // Slow compute nodes.
            3 => Delays { cpu_ns: (50, 8000), ..usual },
            // Many slow requests.
            4 => Delays { long_per_1024: 80, ..usual },
            // Readers whose requests outlast many writes of their entry.
            5 => Delays { long_per_1024: 40, long_ns: (50_000, 1_500_000), ..usual },
            _ => usual,
        };
        Self {
            delays,
            freedom_percent: 20 + rng.below(80),
            bursts_max: 1 + rng.below(8),
            masked_atomics: rng.percent(60),
            order_within_chains_only: rng.percent(40),
            packet_bytes: [256, 256, 1024, 4096][rng.below(4) as usize],
            // With less than a line, readers that take no locks would see mixtures of words.
            crash_atomic_bytes: [64, 64, 256, 4096][rng.below(4) as usize],
            kept: Assumptions::from_bits_truncate(if rng.percent(50) { 0 } else { rng.bits() as u32 }),
        }
    }
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FabricDraw { delays, freedom_percent, bursts_max, masked_atomics, kept, .. } = self.fabric;
        let FabricDraw { order_within_chains_only, packet_bytes, crash_atomic_bytes, .. } = self.fabric;
        writeln!(
            f,
            "seed {}, {:?}: {} compute nodes with {:?} lanes, {} to a queue pair; {} memory nodes {} device memory",
            self.seed,
            self.profile,
            self.lanes.len(),
            self.lanes,
            self.lanes_per_worker,
            self.memory_nodes,
            if self.device_memory { "with" } else { "without" },
        )?;
        let kinds: Vec<String> = OperationKind::ALL
            .iter()
            .zip(self.weights)
            .filter(|(_, weight)| *weight > 0)
            .map(|(kind, weight)| format!("{} {weight}", kind.name()))
            .collect();
        writeln!(
            f,
            "{} operations ({}) on {} keys, {} % on hot ones; {:?}, {} % of the keys",
            self.operations,
            kinds.join(", "),
            self.keys,
            self.hot_percent,
            self.filling,
            self.filled_percent,
        )?;
        if !self.wide.is_empty() {
            writeln!(f, "options: {}", self.wide)?;
        }
        if !self.later_lanes.is_empty() {
            writeln!(f, "compute nodes with {:?} lanes join later", self.later_lanes)?;
        }
        if self.turns_percent > 0 {
            writeln!(
                f,
                "generations begin anew after {} lives; {} % of calls are for epochs",
                self.generations, self.turns_percent
            )?;
        }
        let FaultPlan { faults, rpc_lost_percent, rpc_repeated_percent } = &self.plan;
        if !faults.is_empty() {
            writeln!(f, "planned faults:")?;
            for planned in faults.iter().take(12) {
                writeln!(f, "  step {:>6}: {:?}", planned.step, planned.fault)?;
            }
            if faults.len() > 12 {
                writeln!(f, "  and {} more", faults.len() - 12)?;
            }
        }
        if rpc_lost_percent + rpc_repeated_percent > 0 {
            writeln!(f, "of 100 RPCs {rpc_lost_percent} are lost and {rpc_repeated_percent} repeated")?;
        }
        let names: Vec<&str> = kept.names().collect();
        writeln!(
            f,
            "{freedom_percent} % of freedoms used, up to {bursts_max} bursts, masked atomics {masked_atomics}, \
             chains {}, packets of {packet_bytes} bytes, a dying sender cuts at {crash_atomic_bytes}, kept [{}]",
            if order_within_chains_only { "unordered" } else { "ordered" },
            names.join(" ")
        )?;
        write!(f, "{delays:?}")
    }
}
