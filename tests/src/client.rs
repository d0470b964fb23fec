//! Lanes that a test drives by hand: to the end of each operation, or only to a certain step.

use crate::fabric::{AnyFabric, locks_taken};
use crate::oracle::{Answer, key, stamp, value};
use crate::subject::{AnyIndex, Opened, Running, Subject};
use crate::test_bed::{Fixture, Setup, TestBed};
use dm_core::fabric::{Fabric, Posted};
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::membership::lease::{Lease, LeaseConfig, ProgressCounter};
use dm_core::membership::redo::{self, Area};
use dm_core::membership::{Numbers, Recovery};
use dm_core::memory::chunks::RequestIds;
use dm_core::memory::{Epochs, Participant, Pin};
use dm_core::operation::{Census, OpError, Operation, OperationKind, Outcome};
use dm_core::port::State;
use dm_core::remote::catalog::IndexSet;
use dm_core::remote::{NodeGeometry, SCRATCH_BYTES};
use dm_core::verbs::{LaneId, Request, Verb};
use dm_sim::{Run, block_on};

/// Submits that an operation of a test may take. The longest legitimate ones give up after some 256 restarts.
pub const SUBMITS_MAX: u32 = 200_000;

/// Everything a test of lanes driven by hand has.
pub struct Client<'b, 'm> {
    /// The index.
    pub index: &'b dyn AnyIndex,
    /// Its lanes; most tests use the first alone.
    pub lanes: &'b [Lane<'m>],
    /// The fabric.
    pub fabric: &'b mut AnyFabric,
    /// The layout of the pool.
    pub geometry: &'b [NodeGeometry],
    /// Local lock entries that are taken.
    pub locks_held: &'b dyn Fn() -> usize,
}

/// Makes a test bed, opens the index there on one compute node, and runs `test`.
pub fn alone(subject: &dyn Subject, fixture: &dyn Fixture, setup: &Setup, mut test: impl FnMut(&mut Client<'_, '_>)) {
    let mut test_bed = fixture.test_bed(subject, setup);
    on_test_bed(subject, &mut test_bed, setup, 0, &mut test);
}

/// Opens the index on a test bed, as compute node `number`.
pub fn on_test_bed(
    subject: &dyn Subject,
    test_bed: &mut TestBed,
    setup: &Setup,
    number: u16,
    test: &mut dyn FnMut(&mut Client<'_, '_>),
) {
    let TestBed { geometry, fabric } = test_bed;
    let mut place = crate::pool::place(geometry, number, Fabric::capabilities(fabric), Fabric::guarantees(fabric));
    let lease = Lease::new(LeaseConfig::HARDWARE);
    let progress_counters: Vec<_> = (0..setup.spending.lanes).map(|_| ProgressCounter::default()).collect();
    let mut areas = vec![Area::default(); geometry.len()];
    if setup.recovery.is_some() {
        let mut scratch = vec![0; SCRATCH_BYTES];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let requests = RequestIds::default();
        let (lanes, node_bytes) = (progress_counters.len() as u16, subject.node_bytes_max(&setup.shape));
        let (member, mut open) = (place.member, IndexSet::default());
        open.insert(place.number);
        let prepare = redo::prepare(&lane, geometry, member, &open, &requests, lanes, node_bytes, 0, &mut areas);
        block_on(&lane, fabric, prepare).unwrap().result.unwrap_or_else(|error| panic!("{error}"));
    }
    let numbers = Numbers::new();
    let recovery = setup.recovery.map(|_| {
        Recovery::new(place.member, &lease, &progress_counters, &areas, &numbers, &place.capabilities)
            .expect("lines survive whole")
    });
    place.recovery = recovery.as_ref();
    let epochs = Epochs::new();
    let pins: Vec<_> = (0..setup.spending.lanes).map(|_| Pin::default()).collect();
    place.epochs = setup.epochs.then_some(Participant { epochs: &epochs, pins: &pins });
    let mut run = |opened: &Opened<'_>| {
        let mut scratch = vec![vec![0; opened.index.plan().total_bytes]; setup.spending.lanes];
        let lanes: Vec<_> = (0..).zip(&mut scratch).map(|(id, bytes)| Lane::new(LaneId(id), bytes)).collect();
        for lane in &lanes {
            // It stands at the time when the lease began.
            lane.port().set_clock(Some(|| 0));
        }
        let (index, locks_held) = (opened.index, opened.locks_held);
        test(&mut Client { index, lanes: &lanes, fabric, geometry, locks_held });
    };
    let opened = subject.open(&place, &setup.shape, &setup.spending, &mut run);
    opened.unwrap_or_else(|error| panic!("{}: {error}", subject.name()));
}

impl<'m> Client<'_, 'm> {
    /// Bytes of every key.
    pub fn key_bytes(&self) -> usize {
        self.index.plan().key_bytes
    }

    /// The key of number `n`.
    pub fn key(&self, n: u64) -> Vec<u8> {
        key(n, self.key_bytes())
    }

    /// The value of key `n` that `stamp` names.
    pub fn value(&self, n: u64, stamp: u32) -> Vec<u8> {
        value(&self.key(n), stamp, self.index.plan().value_bytes)
    }

    /// Writes an operation's arguments to a lane's scratch.
    pub fn arguments(&self, lane: usize, n: u64, new: u32, expected: u32) {
        let plan = self.index.plan();
        self.lanes[lane].port().with(|scratch| {
            scratch[plan.key.clone()].copy_from_slice(&self.key(n));
            scratch[plan.value.clone()].copy_from_slice(&self.value(n, new));
            scratch[plan.expected.clone()].copy_from_slice(&self.value(n, expected));
            scratch[plan.output.clone()].fill(0xee);
        });
    }

    /// Drives one future of a lane to its end.
    pub fn drive<T>(&mut self, lane: usize, future: Running<'_, T>) -> Run<Result<T, OpError>> {
        block_on(&self.lanes[lane], self.fabric, future).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs a point operation on lane 0.
    pub fn run(&mut self, kind: OperationKind, n: u64, new: u32, expected: u32) -> Run<Result<Outcome, OpError>> {
        self.arguments(0, n, new, expected);
        let future = self.index.execute(&self.lanes[0], Operation::point(kind));
        block_on(&self.lanes[0], self.fabric, future).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The stamp in the output of lane `lane`, for key `n`.
    pub fn output(&self, lane: usize, n: u64) -> Option<u32> {
        let plan = self.index.plan();
        self.lanes[lane].port().with(|scratch| stamp(&self.key(n), &scratch[plan.output.clone()]))
    }

    /// Runs a point operation, which must succeed. Returns the outcome, and the stamp of the value if there is one.
    pub fn ask(&mut self, kind: OperationKind, n: u64, new: u32, expected: u32) -> (Outcome, Option<u32>) {
        let outcome = self.run(kind, n, new, expected).result.unwrap_or_else(|error| panic!("{kind:?} {n}: {error}"));
        assert!(!self.lanes[0].in_doubt(), "{kind:?} {n}: an operation that ended left no lock record");
        let comes_with_value = matches!(outcome, Outcome::Found | Outcome::Exists | Outcome::Mismatch);
        let output = comes_with_value.then(|| {
            self.output(0, n).unwrap_or_else(|| panic!("{kind:?} {n}: {outcome:?} with a value nobody wrote"))
        });
        (outcome, output)
    }

    /// Runs a point operation and compares its answer with the expected one.
    pub fn expect(&mut self, kind: OperationKind, n: u64, new: u32, expected: u32, answer: &Answer) {
        let (outcome, output) = self.ask(kind, n, new, expected);
        assert_eq!((outcome, output), (answer.outcome, answer.output), "{kind:?} of key {n}");
    }

    /// The stamp of key `n`.
    pub fn get(&mut self, n: u64) -> Option<u32> {
        self.ask(OperationKind::Get, n, 0, 0).1
    }

    /// Inserts or replaces.
    pub fn put(&mut self, n: u64, stamp: u32) {
        self.ask(OperationKind::Upsert, n, stamp, 0);
    }

    /// One page: numbers and stamps, and whether there may be more.
    pub fn page(&mut self, operation: Operation, low: &[u8], high: &[u8]) -> (Vec<(Vec<u8>, u32)>, bool) {
        let plan = self.index.plan();
        self.lanes[0].port().with(|scratch| {
            scratch[plan.key.clone()].copy_from_slice(low);
            scratch[plan.key_high.clone()].copy_from_slice(high);
        });
        let future = self.index.execute(&self.lanes[0], operation);
        let run = block_on(&self.lanes[0], self.fabric, future).unwrap_or_else(|error| panic!("{error}"));
        let Ok(Outcome::Page { records, more }) = run.result else { panic!("a scan gave {:?}", run.result) };
        assert!(!self.lanes[0].in_doubt(), "a scan that ended left no lock record");
        let records = self.lanes[0].port().with(|scratch| {
            let record = |position| {
                let (key, value) = scratch[plan.record(position)].split_at(plan.key_bytes);
                let stamp = stamp(key, value).expect("a value somebody wrote for this key");
                (key.to_vec(), stamp)
            };
            (0..records as usize).map(record).collect()
        });
        (records, more)
    }

    /// Everything, page by page.
    pub fn everything(&mut self) -> Vec<(Vec<u8>, u32)> {
        let limit = self.index.plan().page_records() as u32;
        let mut all: Vec<(Vec<u8>, u32)> = Vec::new();
        let mut low = vec![0; self.key_bytes()];
        loop {
            let operation = Operation { after: !all.is_empty(), ..Operation::scan(limit) };
            let (page, more) = self.page(operation, &low, &low.clone());
            all.extend(page);
            if !more {
                return all;
            }
            if let Some((last, _)) = all.last() {
                low.clone_from(last);
            }
        }
    }

    /// Walks the index, which must be sound.
    pub fn validate(&mut self) -> Census {
        let future = self.index.validate(&self.lanes[0]);
        let run = block_on(&self.lanes[0], self.fabric, future).unwrap_or_else(|error| panic!("{error}"));
        run.result.and_then(Census::at_rest).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Settles a lane.
    pub fn settle(&mut self, lane: usize) -> Result<(), OpError> {
        let future = self.index.settle(&self.lanes[lane]);
        block_on(&self.lanes[lane], self.fabric, future).unwrap_or_else(|error| panic!("{error}")).result
    }

    /// Asserts that no lane is in doubt, and that no lock is held, local or remote.
    pub fn assert_quiet(&mut self, when: &str) {
        for lane in self.lanes {
            assert!(!lane.in_doubt(), "{when}: lane {} has lock records {:?}", lane.id().0, lane.lock_records());
        }
        assert_eq!((self.locks_held)(), 0, "{when}: a local lock entry is taken");
        assert_eq!(locks_taken(self.fabric, self.geometry), [], "{when}: a lock word is held");
    }

    /// Keys 0, 10, ... of a bulk load, `records` of them.
    pub fn load(&mut self, records: u64) {
        for n in 0..records {
            self.bulk_append(n * 10, n as u32).unwrap_or_else(|error| panic!("{error}"));
        }
        self.bulk_finish().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Runs a scan of up to `limit` records from key `n` on, on lane 0.
    pub fn scan(&mut self, n: u64, limit: u32) -> Run<Result<Outcome, OpError>> {
        self.scan_as(n, Operation::scan(limit))
    }

    /// A scan of another kind, from key `n` on.
    pub fn scan_as(&mut self, n: u64, operation: Operation) -> Run<Result<Outcome, OpError>> {
        self.arguments(0, n, 0, 0);
        let future = self.index.execute(&self.lanes[0], operation);
        block_on(&self.lanes[0], self.fabric, future).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Appends a record to a bulk load.
    pub fn bulk_append(&mut self, n: u64, stamp: u32) -> Result<(), OpError> {
        self.arguments(0, n, stamp, 0);
        let future = self.index.bulk_append(&self.lanes[0]);
        block_on(&self.lanes[0], self.fabric, future).unwrap_or_else(|error| panic!("{error}")).result
    }

    /// Ends a bulk load.
    pub fn bulk_finish(&mut self) -> Result<(), OpError> {
        let future = self.index.bulk_finish(&self.lanes[0]);
        block_on(&self.lanes[0], self.fabric, future).unwrap_or_else(|error| panic!("{error}")).result
    }

    /// Begins an operation on a lane, to be driven step by step.
    pub fn begin<'s>(&'s self, lane: usize, operation: Operation) -> Steps<'s, 'm, Outcome> {
        Steps::new(&self.lanes[lane], self.index.execute(&self.lanes[lane], operation))
    }
}

/// Where a lane that is driven step by step stands.
#[derive(Debug, PartialEq)]
pub enum Progress<T> {
    /// It submitted requests; [`Steps::post`] executes them.
    Submitted,
    /// It waits to be woken.
    Parked,
    /// It is done.
    Done(T),
}

/// An operation driven step by step.
pub struct Steps<'s, 'm, T> {
    lane: &'s Lane<'m>,
    future: Option<Running<'s, T>>,
    /// Lanes it woke.
    pub woken: Vec<LaneId>,
}

impl<'s, 'm, T> Steps<'s, 'm, T> {
    /// Any future of an operation on `lane`.
    pub fn new(lane: &'s Lane<'m>, future: Running<'s, T>) -> Self {
        lane.port().start();
        Self { lane, future: Some(future), woken: Vec::new() }
    }

    /// Polls once.
    pub fn poll(&mut self) -> Progress<Result<T, OpError>> {
        let future = self.future.as_mut().expect("a future that was neither finished nor dropped");
        match poll_once(self.lane.port(), future.as_mut()) {
            Step::Requests => {
                self.collect_wakes();
                let parks = self.lane.port().requests().iter().any(|request| request.verb == Verb::Park);
                if parks { Progress::Parked } else { Progress::Submitted }
            }
            Step::Waiting => panic!("lane {} waits for something that is not a submit", self.lane.id().0),
            Step::Done(result) => {
                self.future = None;
                Progress::Done(result)
            }
        }
    }

    /// How long a lane that parked sleeps without a wake, in nanoseconds.
    pub fn parks_ns(&self) -> u64 {
        let requests = self.lane.port().requests();
        requests
            .iter()
            .filter(|request| request.verb == Verb::Park)
            .map(|request| request.operands[0])
            .min()
            .unwrap_or(0)
    }

    fn collect_wakes(&mut self) {
        let requests = self.lane.port().requests();
        let wakes = requests.iter().filter(|request| request.verb == Verb::Wake);
        self.woken.extend(wakes.map(|request| LaneId(request.operands[0] as u16)));
    }

    /// Executes what was submitted (ends the park of a lane that was woken), or what the finished operation left.
    pub fn post(&mut self, fabric: &mut AnyFabric) {
        let port = self.lane.port();
        if port.state() == State::Idle {
            if !port.flush() {
                return;
            }
            self.collect_wakes();
        }
        assert_eq!(fabric.post(std::slice::from_ref(self.lane), 0), Posted::Completed);
        if self.future.is_none() {
            port.reset();
        }
    }

    /// Drives it until it parks or is done.
    pub fn go(&mut self, fabric: &mut AnyFabric) -> Progress<Result<T, OpError>> {
        for _ in 0..SUBMITS_MAX {
            match self.poll() {
                Progress::Submitted => self.post(fabric),
                Progress::Parked => return Progress::Parked,
                Progress::Done(result) => {
                    self.post(fabric);
                    return Progress::Done(result);
                }
            }
        }
        panic!("lane {} comes to no end", self.lane.id().0);
    }

    /// Drives it to a submit that has a `wanted` request, and does not post that submit. It may park or end before.
    pub fn up_to(&mut self, fabric: &mut AnyFabric, wanted: impl Fn(&Request) -> bool) -> Progress<Result<T, OpError>> {
        for _ in 0..SUBMITS_MAX {
            let progress = self.poll();
            if !matches!(progress, Progress::Submitted) || self.lane.port().requests().iter().any(&wanted) {
                return progress;
            }
            self.post(fabric);
        }
        panic!("lane {} comes to no end", self.lane.id().0);
    }

    /// Drops the future where it stands. What it submitted is executed all the same, as on a fabric, where a posted
    /// request ends by its completion only; the lane's port is idle afterwards.
    pub fn abandon(&mut self, fabric: &mut AnyFabric) {
        self.future = None;
        if self.lane.port().state() == State::Submitted {
            self.post(fabric);
        }
        self.lane.port().reset();
    }
}
