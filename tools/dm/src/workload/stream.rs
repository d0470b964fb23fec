//! The operations of one lane, one after the other.
//!
//! [`Workload`] holds what all lanes share (the [`Spec`], the seed, the zeta sums); [`Workload::lane`] gives each lane an
//! iterator of [`Draw`]s. A draw takes, in this order, from the lane's own [`Random`] stream: one number for the kind,
//! those of the record, one for the length of a scan. It allocates nothing. An operation over 60 M records costs
//! about 20 ns (workloads B, C), 25 ns (A, E, F) or 26 ns (D): release build, one core of an Intel Xeon VM, the least of
//! eight runs; a VM whose cores are shared shows up to three times as much.
//!
//! # Inserts
//!
//! [`InsertCounter`] hands out record numbers and learns which of them are in the index. Reads draw from the records
//! below the *watermark* only: every record below it has been acknowledged. (YCSB's `AcknowledgedCounterGenerator`,
//! without its lock.)
//!
//! ```text
//!   0 ......... acknowledged ..................... claimed
//!   | may be read | in flight, or done out of order | not drawn yet |
//!                 |<---- at most WINDOW records --->|
//! ```
//!
//! Compute nodes are processes and share no counter. Node i of n inserts the records R + i, R + i + n, R + i + 2n, ...
//! after the R loaded ones and reads those and the loaded ones, so that no two nodes insert the same key. Within a node the
//! records it may touch are numbered without gaps, in *positions*; with one node a position is a record.
//!
//! # Owners
//!
//! Where keys have owners, each compute node has a [`Share`]: lanes draw only records that it owns, and it has a counter of its
//! own. Records are drawn until one is the compute node's, as the program of DEX's authors does; so every compute node runs
//! as many operations. An insert takes the next record that the compute node owns. The counter skips those of others: no lane
//! of the compute node draws them, so they need not exist.

use super::{
    OperationKind,
    distribution::{Latest, Popularity, ScrambledZipfian, Zipfian},
    random::Random,
    spec::{Phase, RequestDistribution, ScanLengthDistribution, Spec, SpecError, ZipfianMeaning},
};
use std::{
    fmt,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

/// One operation to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// What to do.
    pub kind: OperationKind,
    /// The record to do it with; for a scan, the first one.
    pub record: u64,
    /// How many records a scan reads; 0 for the other kinds.
    pub scan_length: u32,
}

/// An insert cannot be drawn: an earlier insert has been in flight for [`InsertCounter::WINDOW`] inserts. Let other lanes
/// go on until it is acknowledged, then ask again; the lane remembers the insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {oldest} has not been acknowledged while {} later ones were inserted", InsertCounter::WINDOW)]
pub struct InsertWindowFull {
    /// The oldest record whose insert has not ended.
    pub oldest: u64,
}

/// A word that has its cache line to itself: all lanes write one of them and read the other.
#[derive(Debug)]
#[repr(align(64))]
struct Alone(AtomicU64);

/// The next record to insert and the watermark below which all records exist; shared by the lanes of a process.
#[derive(Debug)]
pub struct InsertCounter {
    /// Records that were loaded before the run.
    loaded: u64,
    node: u64,
    nodes: u64,
    /// The next position to insert.
    claimed: Alone,
    /// The watermark, a position.
    acknowledged: Alone,
    /// Records that other compute nodes insert: see [`InsertCounter::skip`].
    skipped: AtomicU64,
    /// Slot `position % WINDOW` holds `position + 1` once that insert has been acknowledged. The window is bounded by
    /// `claim`, so no two inserts in flight share a slot, and what an earlier one left there is told from it.
    slots: Box<[AtomicU64]>,
}

impl InsertCounter {
    /// How many inserts may run ahead of the oldest that has not ended (YCSB has the same number): a second of a million
    /// inserts a second, 8 MiB.
    pub const WINDOW: u64 = 1 << 20;

    /// A counter for the only compute node, over an index that holds the records `0..loaded`.
    pub fn new(loaded: u64) -> Self {
        Self::for_node(loaded, 0, NonZeroU32::MIN)
    }

    /// A counter for compute node `node` of `nodes` (`node` is taken modulo `nodes`), over an index that holds the
    /// records `0..loaded`.
    pub fn for_node(loaded: u64, node: u32, nodes: NonZeroU32) -> Self {
        Self {
            loaded,
            node: u64::from(node % nodes),
            nodes: u64::from(nodes.get()),
            claimed: Alone(AtomicU64::new(loaded)),
            acknowledged: Alone(AtomicU64::new(loaded)),
            skipped: AtomicU64::new(0),
            slots: (0..Self::WINDOW).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The watermark: how many records, in positions from 0 on without a gap, are in the index for this node to read.
    #[inline]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.0.load(SeqCst)
    }

    /// The record at a position.
    #[inline]
    pub const fn record_at(&self, position: u64) -> u64 {
        if position < self.loaded { position } else { self.loaded + (position - self.loaded) * self.nodes + self.node }
    }

    /// The next record to insert.
    pub fn claim(&self) -> Result<u64, InsertWindowFull> {
        let next_in_window = |claimed: u64| {
            // Other lanes may have claimed and acknowledged beyond the value that was read. The exchange then fails,
            // and this runs again with a newer value.
            let is_room = claimed.saturating_sub(self.acknowledged()) < Self::WINDOW;
            is_room.then_some(claimed + 1)
        };
        let claimed = self.claimed.0.fetch_update(SeqCst, SeqCst, next_in_window);
        let position = claimed.map_err(|_| InsertWindowFull { oldest: self.record_at(self.acknowledged()) })?;
        Ok(self.record_at(position))
    }

    /// The insert of `record` has ended. To be called once for every claimed record, also when the insert failed: a read
    /// of it will find nothing, but the records after it become visible. Records of the load are below the watermark
    /// already and need no call; one does no harm.
    pub fn acknowledge(&self, record: u64) {
        if record < self.loaded {
            return;
        }
        let position = self.loaded + (record - self.loaded) / self.nodes;
        self.slot(position).store(position + 1, SeqCst);
        // A lane that finds the position at the watermark acknowledged moves it on by one. None is left behind: of two
        // neighbours that end at the same time, the one whose store is later in the order of all SeqCst operations
        // finds the other's, either here or after the other has moved the watermark up to it.
        loop {
            let watermark = self.acknowledged();
            if self.slot(watermark).load(SeqCst) != watermark + 1 {
                return;
            }
            // Failure means that another lane has moved it.
            let _ = self.acknowledged.0.compare_exchange(watermark, watermark + 1, SeqCst, SeqCst);
        }
    }

    /// A record that was claimed is another compute node's: nobody here inserts it, or draws it.
    pub fn skip(&self, record: u64) {
        self.skipped.fetch_add(1, SeqCst);
        self.acknowledge(record);
    }

    /// How many records were inserted and acknowledged here, below the watermark.
    pub fn inserted(&self) -> u64 {
        (self.acknowledged() - self.loaded).saturating_sub(self.skipped.load(SeqCst))
    }

    fn slot(&self, position: u64) -> &AtomicU64 {
        &self.slots[(position % Self::WINDOW) as usize]
    }
}

/// A checked workload with everything that its lanes share.
#[derive(Clone, Debug)]
pub struct Workload {
    spec: Spec,
    seed: u64,
    lanes: NonZeroU32,
    popularity: Popularity,
    scan_lengths: ScanLengths,
    /// Upper end of each kind's part of the unit interval, in the order of [`OperationKind::ALL`].
    kind_ends: [f64; OperationKind::ALL.len()],
}

impl Workload {
    /// The workload `spec`, drawn from `seed` by `lanes` lanes (of all threads and compute nodes together).
    pub fn new(spec: Spec, seed: u64, lanes: NonZeroU32) -> Result<Self, SpecError> {
        spec.validate()?;
        let theta = spec.zipfian_constant;
        let popularity = match (spec.request_distribution, spec.zipfian_meaning) {
            (RequestDistribution::Uniform, _) => Popularity::Uniform { records: spec.record_count },
            (RequestDistribution::Latest, _) => Popularity::Latest(Latest::new(spec.record_count, theta)),
            (RequestDistribution::Zipfian, ZipfianMeaning::Ranked) => {
                Popularity::Ranked(Zipfian::new(spec.record_count, theta))
            }
            (RequestDistribution::Zipfian, ZipfianMeaning::Ycsb) => {
                // YCSB's range includes its upper bound, hence one record more than can be.
                let range = spec.record_count + spec.expected_inserts() + 1;
                Popularity::Ycsb(ScrambledZipfian::new(range, theta))
            }
        };
        let (scan_lengths, kind_ends) = (ScanLengths::of(&spec), kind_ends(&spec));
        Ok(Self { spec, seed, lanes, popularity, scan_lengths, kind_ends })
    }

    /// The operations of lane `lane`, `0..lanes`. `inserts` is shared by the lanes of a process (a compute node) and starts
    /// at the record count, for a load too.
    pub fn lane(&self, lane: u32, inserts: Arc<InsertCounter>) -> Lane<'static> {
        self.lane_of(lane, inserts, None)
    }

    /// The same for a lane of a compute node that has a share of the records.
    pub fn lane_of<'k>(&self, lane: u32, inserts: Arc<InsertCounter>, share: Option<Share<'k>>) -> Lane<'k> {
        let all = (u64::from(lane), u64::from(self.lanes.get()));
        // The lanes of each compute node go through all records to load, and pass over those of others.
        let loading = share.map_or(all, |Share { lanes, .. }| (u64::from(lane % lanes), u64::from(lanes.get())));
        let share_of = |(lane, lanes): (u64, u64), total: u64| total / lanes + u64::from(lane < total % lanes);
        let remaining = match self.spec.phase {
            Phase::Load => Some(share_of(loading, self.spec.record_count)),
            Phase::Run => self.spec.operation_count.map(|total| share_of(all, total)),
        };
        Lane {
            phase: self.spec.phase,
            random: Random::stream(self.seed, u64::from(lane)),
            popularity: self.popularity.clone(),
            scan_lengths: self.scan_lengths.clone(),
            kind_ends: self.kind_ends,
            remaining,
            next_load: loading.0,
            load_step: loading.1,
            insert_is_due: false,
            inserts,
            share,
        }
    }
}

/// The upper ends of the kinds' parts of the unit interval; the last kind that occurs takes what rounding leaves.
fn kind_ends(spec: &Spec) -> [f64; OperationKind::ALL.len()] {
    let mut end = 0.0;
    let mut ends = OperationKind::ALL.map(|kind| {
        end += spec.proportions.of(kind);
        end
    });
    let last = OperationKind::ALL.iter().rposition(|&kind| spec.proportions.of(kind) > 0.0).unwrap_or(0);
    ends[last..].fill(f64::INFINITY);
    ends
}

/// How long the next scan is.
#[derive(Clone, Debug)]
enum ScanLengths {
    Uniform { least: u32, choices: u64 },
    Zipfian { least: u32, ranks: Zipfian },
}

impl ScanLengths {
    fn of(spec: &Spec) -> Self {
        let (least, choices) = (spec.scan_length_min, u64::from(spec.scan_length_max - spec.scan_length_min) + 1);
        match spec.scan_length_distribution {
            ScanLengthDistribution::Uniform => Self::Uniform { least, choices },
            // YCSB takes its default skew here, whatever the skew of the records.
            ScanLengthDistribution::Zipfian => {
                Self::Zipfian { least, ranks: Zipfian::new(choices, super::distribution::DEFAULT_THETA) }
            }
        }
    }

    fn draw(&self, random: &mut Random) -> u32 {
        match self {
            Self::Uniform { least, choices } => least + random.below(*choices) as u32,
            Self::Zipfian { least, ranks } => least + ranks.rank(random) as u32,
        }
    }
}

/// The records of a compute node, where keys have owners.
#[derive(Clone, Copy)]
pub struct Share<'k> {
    /// Lanes of this compute node.
    pub lanes: NonZeroU32,
    /// Whether it owns the key of a record.
    pub owns: &'k (dyn Fn(u64) -> bool + Sync),
}

impl fmt::Debug for Share<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("lanes", &self.lanes).finish_non_exhaustive()
    }
}

/// The operations of one lane: an iterator that ends with the lane's share of the operations.
///
/// A load gives lane l of n the records l, l + n, l + 2n, ...; a run splits the operation count evenly.
#[derive(Clone, Debug)]
pub struct Lane<'k> {
    phase: Phase,
    random: Random,
    popularity: Popularity,
    scan_lengths: ScanLengths,
    kind_ends: [f64; OperationKind::ALL.len()],
    /// Operations still to be drawn; `None`: without end.
    remaining: Option<u64>,
    next_load: u64,
    load_step: u64,
    /// An insert was drawn while the window was full.
    insert_is_due: bool,
    inserts: Arc<InsertCounter>,
    /// `None`: any lane may draw any record.
    share: Option<Share<'k>>,
}

impl Lane<'_> {
    /// How often a record is drawn that another compute node owns, before the next one is taken that this one owns. A
    /// compute node that owns a hundredth of the draws takes the next one in one operation of `10^17`.
    const REDRAWS_MAX: u32 = 4096;

    /// The insert of `record` has ended: see [`InsertCounter::acknowledge`].
    #[inline]
    pub fn acknowledge(&self, record: u64) {
        self.inserts.acknowledge(record);
    }

    /// Whether this lane may draw `record`.
    #[inline]
    fn owns(&self, record: u64) -> bool {
        self.share.is_none_or(|share| (share.owns)(record))
    }

    /// Passes over records that other compute nodes load.
    fn pass_others(&mut self) {
        while self.remaining.is_some_and(|remaining| remaining > 0) && !self.owns(self.next_load) {
            self.next_load += self.load_step;
            self.remaining = self.remaining.map(|remaining| remaining - 1);
        }
    }

    fn draw(&mut self) -> Result<Draw, InsertWindowFull> {
        if self.phase == Phase::Load {
            let record = self.next_load;
            self.next_load += self.load_step;
            return Ok(Draw { kind: OperationKind::Insert, record, scan_length: 0 });
        }
        let kind = if self.insert_is_due { OperationKind::Insert } else { self.draw_kind() };
        match kind {
            OperationKind::Insert => {
                self.insert_is_due = true;
                let mut record = self.inserts.claim()?;
                while !self.owns(record) {
                    self.inserts.skip(record);
                    record = self.inserts.claim()?;
                }
                self.insert_is_due = false;
                Ok(Draw { kind, record, scan_length: 0 })
            }
            OperationKind::Scan => {
                let record = self.draw_record();
                Ok(Draw { kind, record, scan_length: self.scan_lengths.draw(&mut self.random) })
            }
            OperationKind::Read | OperationKind::Update | OperationKind::ReadModifyWrite => {
                Ok(Draw { kind, record: self.draw_record(), scan_length: 0 })
            }
        }
    }

    fn draw_kind(&mut self) -> OperationKind {
        let unit = self.random.unit();
        let is_in_part = |&(_, &end): &(OperationKind, &f64)| unit < end;
        let parts = OperationKind::ALL.into_iter().zip(&self.kind_ends);
        parts.into_iter().find(is_in_part).map_or(OperationKind::Read, |(kind, _)| kind)
    }

    #[inline]
    fn draw_record(&mut self) -> u64 {
        let existing = self.inserts.acknowledged();
        let position = self.popularity.record(&mut self.random, existing);
        let record = self.inserts.record_at(position);
        if self.owns(record) { record } else { self.draw_own(existing) }
    }

    /// A record that this compute node owns, of the first `existing`.
    fn draw_own(&mut self, existing: u64) -> u64 {
        let mut record = 0;
        for _ in 0..Self::REDRAWS_MAX {
            record = self.popularity.record(&mut self.random, existing);
            if self.owns(record) {
                return record;
            }
        }
        (record..existing).chain(0..record).find(|&record| self.owns(record)).unwrap_or(record)
    }
}

impl Iterator for Lane<'_> {
    type Item = Result<Draw, InsertWindowFull>;

    /// The next operation; an error is not the end, and asking again draws the same insert.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.phase == Phase::Load {
            self.pass_others();
        }
        if self.remaining == Some(0) {
            return None;
        }
        let draw = self.draw();
        if let (Ok(_), Some(remaining)) = (&draw, &mut self.remaining) {
            *remaining -= 1;
        }
        Some(draw)
    }
}

#[cfg(test)]
mod owner_tests;

#[cfg(test)]
mod tests {
    use super::{super::spec::StandardWorkload, *};
    use std::{collections::HashSet, thread, time::Instant};

    fn workload(spec: Spec, lanes: u32) -> (Workload, Arc<InsertCounter>) {
        let counter = Arc::new(InsertCounter::new(spec.record_count));
        (Workload::new(spec, 42, NonZeroU32::new(lanes).unwrap()).unwrap(), counter)
    }

    pub(super) fn standard(workload: StandardWorkload, records: u64, operations: u64) -> Spec {
        Spec { record_count: records, operation_count: Some(operations), ..Spec::standard(workload) }
    }

    fn count(draws: &[Draw], kind: OperationKind) -> usize {
        draws.iter().filter(|draw| draw.kind == kind).count()
    }

    #[test]
    fn a_load_inserts_every_record_once_whatever_the_lanes() {
        for lanes in [1, 3, 7, 200] {
            let (load, counter) = workload(standard(StandardWorkload::Load, 100, 0), lanes);
            let draws: Vec<Draw> =
                (0..lanes).flat_map(|lane| load.lane(lane, counter.clone()).map(Result::unwrap)).collect();
            assert_eq!(draws.len(), 100);
            assert_eq!(draws.iter().map(|draw| draw.record).collect::<HashSet<_>>(), (0..100).collect());
            assert_eq!(count(&draws, OperationKind::Insert), 100);
        }
    }

    #[test]
    fn kinds_come_in_their_proportions() {
        for (name, standard_workload) in StandardWorkload::ALL.into_iter().skip(1) {
            let spec = standard(standard_workload, 1_000, 100_000);
            let proportions = spec.proportions;
            let (workload, counter) = workload(spec, 4);
            let mut draws = Vec::new();
            for draw in (0..4).flat_map(|lane| workload.lane(lane, counter.clone())) {
                let draw = draw.unwrap();
                if draw.kind == OperationKind::Insert {
                    counter.acknowledge(draw.record);
                }
                draws.push(draw);
            }
            assert_eq!(draws.len(), 100_000);
            for kind in OperationKind::ALL {
                let (drawn, expected) = (count(&draws, kind) as f64, proportions.of(kind) * 100_000.0);
                // Five standard deviations; a kind with no share never comes.
                let noise = 5.0 * (expected * (1.0 - proportions.of(kind))).sqrt();
                assert!((drawn - expected).abs() <= noise, "workload {name}: {kind} {drawn}, expected {expected}");
            }
        }
    }

    #[test]
    fn a_lane_replays_and_no_two_lanes_are_alike() {
        let (a, counter) = workload(standard(StandardWorkload::A, 10_000, 2_000), 2);
        let draws = |lane| a.lane(lane, counter.clone()).map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!(draws(0), draws(0));
        assert_ne!(draws(0), draws(1));
    }

    #[test]
    fn the_first_draws_of_a_seed_are_pinned() {
        let (f, counter) = workload(standard(StandardWorkload::F, 1_000_000, 6), 1);
        let drawn: Vec<_> = f.lane(0, counter).map(|draw| draw.map(|draw| (draw.kind.name(), draw.record))).collect();
        // From a second implementation, in Python.
        let expected = [
            ("read", 457_173),
            ("read_modify_write", 680_612),
            ("read", 691_714),
            ("read", 15_649),
            ("read_modify_write", 995_065),
            ("read", 117_063),
        ];
        assert_eq!(drawn, expected.map(Ok));
    }

    #[test]
    fn operations_are_split_over_the_lanes_without_loss() {
        let (c, counter) = workload(standard(StandardWorkload::C, 10, 11), 4);
        let shares: Vec<usize> = (0..4).map(|lane| c.lane(lane, counter.clone()).count()).collect();
        assert_eq!(shares, [3, 3, 3, 2]);
    }

    #[test]
    fn without_an_operation_count_a_lane_does_not_end() {
        let (c, counter) = workload(Spec { operation_count: None, ..Spec::standard(StandardWorkload::C) }, 1);
        assert_eq!(c.lane(0, counter).take(5_000).count(), 5_000);
    }

    #[test]
    fn scans_have_the_lengths_asked_for() {
        for scan_length_distribution in [ScanLengthDistribution::Uniform, ScanLengthDistribution::Zipfian] {
            let e = standard(StandardWorkload::E, 1_000, 50_000);
            let spec = Spec { scan_length_min: 5, scan_length_max: 14, scan_length_distribution, ..e };
            let (workload, counter) = workload(spec, 1);
            let mut counts = [0_u32; 15];
            for draw in workload.lane(0, counter.clone()).map(Result::unwrap) {
                match draw.kind {
                    OperationKind::Scan => counts[draw.scan_length as usize] += 1,
                    _ => assert_eq!(draw.scan_length, 0),
                }
            }
            assert_eq!(counts[..5], [0; 5]);
            let is_skewed = counts[5] > 3 * counts[14];
            assert_eq!(is_skewed, scan_length_distribution == ScanLengthDistribution::Zipfian, "{counts:?}");
            assert!(counts[5..].iter().all(|&count| count > 0), "{counts:?}");
        }
    }

    #[test]
    fn reads_never_touch_a_record_that_is_not_acknowledged() {
        for standard_workload in [StandardWorkload::D, StandardWorkload::E] {
            let (workload, counter) = workload(standard(standard_workload, 100, 20_000), 1);
            let mut in_flight = Vec::new();
            for draw in workload.lane(0, counter.clone()) {
                let draw = draw.unwrap();
                if draw.kind != OperationKind::Insert {
                    assert!(draw.record < counter.acknowledged());
                    continue;
                }
                in_flight.push(draw.record);
                // Eight inserts in flight; the newest ends first, so the watermark waits for the oldest.
                if in_flight.len() == 8 {
                    let before = counter.acknowledged();
                    in_flight.drain(1..).rev().for_each(|record| counter.acknowledge(record));
                    assert_eq!(counter.acknowledged(), before);
                    in_flight.drain(..).for_each(|record| counter.acknowledge(record));
                    assert_eq!(counter.acknowledged(), before + 8);
                }
            }
            assert!(counter.acknowledged() > 500);
        }
    }

    #[test]
    fn a_full_window_asks_for_patience_and_keeps_the_insert() {
        let counter = Arc::new(InsertCounter::new(10));
        let records: Vec<u64> = (0..InsertCounter::WINDOW).map(|_| counter.claim().unwrap()).collect();
        let inserts_only = Spec { operation_count: Some(1), ..Spec::standard(StandardWorkload::Load) };
        let spec = Spec { phase: Phase::Run, record_count: 10, ..inserts_only };
        let mut lane = Workload::new(spec, 1, NonZeroU32::MIN).unwrap().lane(0, counter.clone());
        records[1..].iter().for_each(|&record| counter.acknowledge(record));
        assert_eq!(lane.next(), Some(Err(InsertWindowFull { oldest: 10 })));
        assert_eq!(lane.next(), Some(Err(InsertWindowFull { oldest: 10 })));
        counter.acknowledge(10);
        assert_eq!(counter.acknowledged(), 10 + InsertCounter::WINDOW);
        let record = 10 + InsertCounter::WINDOW;
        assert_eq!(lane.next(), Some(Ok(Draw { kind: OperationKind::Insert, record, scan_length: 0 })));
        assert_eq!(lane.next(), None);
    }

    #[test]
    fn compute_nodes_insert_different_records_and_read_their_own() {
        const NODES: u32 = 3;
        let d = standard(StandardWorkload::D, 100, 9_000);
        let workload = Workload::new(d, 42, NonZeroU32::new(NODES).unwrap()).unwrap();
        let mut inserted = HashSet::new();
        for node in 0..NODES {
            let counter = Arc::new(InsertCounter::for_node(100, node, NonZeroU32::new(NODES).unwrap()));
            let mut own: HashSet<u64> = (0..100).collect();
            for draw in workload.lane(node, counter.clone()).map(Result::unwrap) {
                if draw.kind == OperationKind::Insert {
                    assert!(inserted.insert(draw.record), "record {} twice", draw.record);
                    counter.acknowledge(draw.record);
                    own.insert(draw.record);
                } else {
                    assert!(own.contains(&draw.record), "record {} of another node", draw.record);
                }
            }
            assert_eq!(counter.acknowledged(), own.len() as u64);
        }
        assert!(inserted.len() > 300);
    }

    #[test]
    fn acknowledging_a_loaded_record_changes_nothing() {
        let counter = InsertCounter::new(10);
        counter.acknowledge(3);
        assert_eq!(counter.acknowledged(), 10);
    }

    #[test]
    fn lanes_that_insert_at_once_leave_no_record_behind() {
        const THREADS: u64 = 4;
        const INSERTS: u64 = 50_000;
        let counter = InsertCounter::new(0);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let counter = &counter;
                scope.spawn(move || {
                    // Every thread holds back one record for a while, a different one each.
                    let mut held_back = None;
                    for insert in 0..INSERTS {
                        let record = counter.claim().unwrap();
                        if insert % 7 == thread {
                            held_back.replace(record).into_iter().for_each(|record| counter.acknowledge(record));
                        } else {
                            counter.acknowledge(record);
                        }
                    }
                    counter.acknowledge(held_back.unwrap());
                });
            }
        });
        assert_eq!(counter.acknowledged(), THREADS * INSERTS);
    }

    #[test]
    fn operations_are_cheap_to_draw() {
        for (name, standard_workload) in StandardWorkload::ALL {
            let spec = standard(standard_workload, 60_000_000, 1_000_000);
            let (workload, counter) = workload(spec, 1);
            let (start, mut sum) = (Instant::now(), 0_u64);
            let mut draws = 0;
            for draw in workload.lane(0, counter.clone()).take(1_000_000) {
                let draw = draw.unwrap();
                if draw.kind == OperationKind::Insert {
                    counter.acknowledge(draw.record);
                }
                (sum, draws) = (sum.wrapping_add(draw.record), draws + 1);
            }
            std::hint::black_box(sum);
            let cost_ns = start.elapsed().as_nanos() as f64 / f64::from(draws);
            println!("workload {name}: {cost_ns:.1} ns an operation");
            assert!(cost_ns < 2_000.0, "workload {name}: {cost_ns} ns an operation");
        }
    }
}
