//! Lanes over a world: what they see, and what the driver says when they are stuck.

use dm_core::error::VerbError;
use dm_core::lane::Lane;
use dm_core::layout::stripes;
use dm_core::verbs::{Assumptions, Label, LaneId, NodeId, Request, Space};
use dm_sim::{ComputeNode, Config, Delays, Driver, DriverConfig, Event, LaneAt, Op, Stuck, Workload, World};
use std::cell::{Cell, RefCell};

const MN: NodeId = NodeId(0);
const SCRATCH_BYTES: usize = 1024;

/// Compute nodes with lanes, their scratch apart.
fn scratch(lanes: usize) -> Vec<Vec<u8>> {
    vec![vec![0; SCRATCH_BYTES]; lanes]
}

fn lanes(scratch: &mut [Vec<u8>]) -> Vec<Lane<'_>> {
    scratch.iter_mut().enumerate().map(|(id, bytes)| Lane::new(LaneId(id as u16), bytes)).collect()
}

/// Runs until quiet; results in the order of their arrival.
fn finish<T>(driver: &mut Driver<'_, '_, T>) -> Result<Vec<(LaneAt, T)>, Stuck> {
    let mut results = Vec::new();
    loop {
        match driver.next()? {
            Event::Done { at, result, .. } => results.push((at, result)),
            Event::Quiet => return Ok(results),
            Event::Abandoned { .. } | Event::Progress => {}
        }
    }
}

const NODE_BYTES: usize = 512;

/// Writes the striped node `times` times, each a round trip of its own.
async fn rewrite(lane: &Lane<'_>, times: u8, written: &Cell<u32>) -> Result<(), VerbError> {
    for version in 1..=times {
        lane.port().with(|scratch| {
            scratch[..NODE_BYTES].fill(version);
            stripes::set_node_version(&mut scratch[..NODE_BYTES], version);
        });
        lane.port().call(Request::write(Label::Node, MN, 0, NODE_BYTES, 0)).await?;
        written.set(written.get() + 1);
    }
    Ok(())
}

#[derive(Default, Debug)]
struct Seen {
    sound: u32,
    torn: u32,
    /// Versions agree but contents do not.
    fooled: u32,
    /// Of these, those whose READ was fast enough to be trusted.
    fooled_in_time: u32,
    /// Most WRITEs during one READ.
    slept_through: u32,
}

async fn look(
    lane: &Lane<'_>,
    times: u32,
    turn_ns: u32,
    written: &Cell<u32>,
    seen: &RefCell<Seen>,
) -> Result<(), VerbError> {
    for _ in 0..times {
        let before = written.get();
        let completion = lane.port().call(Request::read(Label::Leaf, MN, 0, NODE_BYTES, 0)).await?;
        let mut seen = seen.borrow_mut();
        seen.slept_through = seen.slept_through.max(written.get() - before);
        lane.port().with(|scratch| {
            let image = &scratch[..NODE_BYTES];
            let whole = (1..NODE_BYTES).filter(|at| at % 64 != 0).all(|at| image[at] == image[1]);
            match (stripes::node_version(image), whole) {
                (None, _) => seen.torn += 1,
                (Some(_), true) => seen.sound += 1,
                (Some(_), false) => {
                    seen.fooled += 1;
                    seen.fooled_in_time += u32::from(completion.elapsed_ns < 15 * turn_ns);
                }
            }
        });
    }
    Ok(())
}

fn rewrite_and_look(config: &Config, seeds: u64) -> Seen {
    let seen = RefCell::default();
    let mut world = World::new(config.clone(), 0);
    let turn_ns = config.capabilities().write_turn_ns_min;
    for seed in 0..seeds {
        world.reset(seed);
        let mut scratch = scratch(2);
        let lanes = lanes(&mut scratch);
        let written = Cell::new(0);
        let mut driver = Driver::new(&mut world, &[&lanes[..1], &lanes[1..]], DriverConfig::default());
        driver.spawn(LaneAt::new(0, 0), Box::pin(rewrite(&lanes[0], 100, &written)));
        driver.spawn(LaneAt::new(1, 0), Box::pin(look(&lanes[1], 100, turn_ns, &written, &seen)));
        assert!(finish(&mut driver).unwrap().iter().all(|(_, result)| result.is_ok()));
    }
    seen.into_inner()
}

#[test]
fn a_reader_sees_torn_nodes_and_sleeps_through_sixteen_writes() {
    let delays = Delays { long_per_1024: 100, ..Delays::default() };
    let seen = rewrite_and_look(&Config { delays, ..Config::default() }, 300);
    assert!(seen.sound > 1000 && seen.torn > 1000, "{seen:?}");
    assert!(seen.slept_through > 16, "{seen:?}");
    assert!(seen.fooled > 0, "sixteen turns of a version during one READ never happened: {seen:?}");
    assert_eq!(seen.fooled_in_time, 0, "a READ in time was exposed to sixteen WRITEs");
}

#[test]
fn bounded_delays_never_let_a_version_turn() {
    let seen = rewrite_and_look(&Config { delays: Delays::default().bounded(), ..Config::default() }, 50);
    assert!(seen.torn > 100 && seen.fooled == 0 && seen.slept_through < 15, "{seen:?}");
}

#[test]
fn untimed_reads_are_fooled_in_time() {
    let delays = Delays { long_per_1024: 100, ..Delays::default() };
    let config = Config { delays, ..Config::default() }.without(Assumptions::TIMED_READS);
    let seen = rewrite_and_look(&config, 300);
    assert!(seen.fooled_in_time > 0, "{seen:?}");
}

/// Locks by masked CAS in device memory, adds one to a host word, unlocks by WRITE in the same chain.
async fn count_up(lane: &Lane<'_>, times: u32) -> Result<(), VerbError> {
    let port = lane.port();
    let lock = Request::masked_cas(Label::Lock, MN, 8, [0, 1, 1, 1]).in_space(Space::Device);
    for _ in 0..times {
        while port.call(lock).await?.value & 1 == 1 {
            port.call(Request::pause(500)).await?;
        }
        port.call(Request::read(Label::Entry, MN, 640, 8, 0)).await?;
        port.with(|scratch| scratch[0] += 1);
        port.push(Request::write(Label::Entry, MN, 640, 8, 0));
        port.push(Request::write_word(Label::Unlock, MN, 8, 0).in_space(Space::Device));
        port.submit().await?;
    }
    Ok(())
}

fn counted(config: &Config, seed: u64) -> (u64, Vec<String>) {
    let mut world = World::new(config.clone(), seed);
    world.set_log(true);
    {
        let mut scratch = scratch(4);
        let lanes = lanes(&mut scratch);
        let mut driver = Driver::new(&mut world, &[&lanes[..2], &lanes[2..]], DriverConfig::default());
        for lane in 0..4 {
            let at = LaneAt::new(lane / 2, lane % 2);
            driver.spawn(at, Box::pin(count_up(&lanes[lane as usize], 10)));
        }
        finish(&mut driver).unwrap();
    }
    assert!(world.misuses().is_empty());
    (world.memories().get(MN).unwrap().host.word(640), world.log().iter().map(ToString::to_string).collect())
}

#[test]
fn a_lock_in_device_memory_protects_host_memory() {
    for seed in 0..50 {
        assert_eq!(counted(&Config::default(), seed).0, 40, "seed {seed}");
    }
}

#[test]
fn the_same_lock_fails_when_device_memory_runs_ahead() {
    let config = Config::default().without(Assumptions::HOST_BEFORE_DEVICE);
    assert!((0..50).any(|seed| counted(&config, seed).0 < 40));
}

#[test]
fn a_seed_determines_everything() {
    for seed in 0..5 {
        // (A lost unlock would be a deadlock in every run alike.)
        let unlocks = Assumptions::ATOMIC_EXCLUDES_WRITE | Assumptions::FAILED_CAS_IS_SILENT;
        let config = Config { granted: unlocks, ..Config::default() };
        assert_eq!(counted(&config, seed), counted(&config, seed));
    }
    assert_ne!(counted(&Config::default(), 1).1, counted(&Config::default(), 2).1);
}

#[test]
fn a_parked_lane_is_woken_and_a_wake_that_came_first_counts() {
    for seed in 0..50 {
        let mut world = World::new(Config::default(), seed);
        let mut scratch = scratch(2);
        let lanes = lanes(&mut scratch);
        let mut driver = Driver::new(&mut world, &[&lanes], DriverConfig::default());
        driver.spawn(
            LaneAt::new(0, 0),
            Box::pin(async { lanes[0].port().call(Request::park(u64::MAX)).await.map(|_| ()) }),
        );
        let waker = async {
            lanes[1].port().push(Request::wake(LaneId(0)));
            lanes[1].port().call(Request::read(Label::Tool, MN, 0, 8, 0)).await.map(|_| ())
        };
        driver.spawn(LaneAt::new(0, 1), Box::pin(waker));
        assert_eq!(finish(&mut driver).unwrap().len(), 2, "seed {seed}");
    }
}

#[test]
fn a_deadlock_is_told_with_who_waits_for_what() {
    let mut world = World::new(Config::default(), 1);
    let mut scratch = scratch(2);
    let lanes = lanes(&mut scratch);
    let mut driver = Driver::new(&mut world, &[&lanes], DriverConfig::default());
    driver
        .spawn(LaneAt::new(0, 1), Box::pin(async { lanes[1].port().call(Request::park(u64::MAX)).await.map(|_| ()) }));
    let Err(Stuck::Deadlock { dump, .. }) = finish(&mut driver) else { panic!("no deadlock") };
    assert_eq!(dump, "  c0.l1 is parked, park\n");
}

#[test]
fn an_endless_operation_is_told() {
    let mut world = World::new(Config::default(), 1);
    let mut scratch = scratch(1);
    let lanes = lanes(&mut scratch);
    let config = DriverConfig { steps_max: 1000, ..DriverConfig::default() };
    let mut driver = Driver::<Result<(), VerbError>>::new(&mut world, &[&lanes], config);
    let endless = async {
        loop {
            lanes[0].port().call(Request::read(Label::Tool, MN, 0, 8, 0)).await?;
        }
    };
    driver.spawn(LaneAt::new(0, 0), Box::pin(endless));
    assert!(matches!(finish(&mut driver), Err(Stuck::Steps { steps: 1000, .. })));
}

#[test]
fn requests_left_behind_are_posted_when_the_operation_ends() {
    let mut world = World::new(Config::default(), 1);
    {
        let mut scratch = scratch(1);
        let lanes = lanes(&mut scratch);
        let mut driver = Driver::new(&mut world, &[&lanes], DriverConfig::default());
        let op = async {
            lanes[0].port().push(Request::write_word(Label::Unlock, MN, 8, 5).unsignaled());
        };
        driver.spawn(LaneAt::new(0, 0), Box::pin(op));
        assert!(matches!(driver.next(), Ok(Event::Done { .. })));
        assert!(driver.is_idle(LaneAt::new(0, 0)));
        finish(&mut driver).unwrap();
        assert!(!lanes[0].in_doubt());
    }
    assert_eq!(world.memories().get(MN).unwrap().host.word(8), 5);
}

#[test]
fn requests_of_a_dropped_operation_run_on_and_the_lane_comes_back() {
    let mut landed = [0; 2];
    for seed in 0..100 {
        let mut world = World::new(Config::default(), seed);
        {
            let mut scratch = scratch(1);
            let lanes = lanes(&mut scratch);
            let at = LaneAt::new(0, 0);
            let mut driver = Driver::new(&mut world, &[&lanes], DriverConfig::default());
            driver.spawn(
                at,
                Box::pin(async { lanes[0].port().call(Request::fetch_add(Label::Tool, MN, 8, 1)).await.map(|_| ()) }),
            );
            for _ in 0..seed % 3 {
                driver.step().unwrap();
            }
            driver.drop_future(at);
            assert!(!driver.is_idle(at) || seed % 3 == 0);
            let Ok(Event::Abandoned { .. }) = driver.next() else { panic!("seed {seed}") };
            assert!(driver.is_idle(at) && !lanes[0].in_doubt());
            // The scratch is back: the lane can be used again.
            driver.spawn(
                at,
                Box::pin(async { lanes[0].port().call(Request::read(Label::Tool, MN, 8, 8, 0)).await.map(|_| ()) }),
            );
            assert_eq!(finish(&mut driver).unwrap().len(), 1);
        }
        landed[world.memories().get(MN).unwrap().host.word(8) as usize] += 1;
    }
    assert!(landed[0] > 0 && landed[1] > 0, "{landed:?}");
}

#[test]
fn a_transfer_that_nobody_waits_for_is_told() {
    let mut world = World::new(Config::default(), 1);
    let worker = world.add_worker(ComputeNode(0));
    let lane = world.add_lane(worker, 0);
    let read = Request::read(Label::Tool, MN, 0, 8, 0).unsignaled();
    world.post(lane, &[read, Request::read(Label::Tool, MN, 0, 8, 8)], &[0; 16]);
    assert!(world.misuses().is_empty(), "a later signaled one of the chain says it is done");
    world.post(lane, &[read], &[0; 16]);
    assert_eq!(world.misuses().len(), 1);
    world.post(lane, &[Request::read(Label::Tool, MN, 0, 8, 9)], &[0; 16]);
    assert_eq!(world.misuses().len(), 2, "outside the scratch");
}

/// Every lane adds one to a counter of its own, ten times; the recorder checks that calls and returns alternate.
struct Counting<'a, 'm> {
    lanes: &'a [Lane<'m>],
    left: Vec<u32>,
    history: Vec<(LaneAt, u64, bool)>,
}

impl<'a> Workload<'a, Result<u64, VerbError>> for Counting<'a, '_> {
    fn invoke(&mut self, at: LaneAt, now_ns: u64) -> Option<Op<'a, Result<u64, VerbError>>> {
        let left = &mut self.left[at.lane as usize];
        *left = left.checked_sub(1)?;
        self.history.push((at, now_ns, true));
        let lane = &self.lanes[at.lane as usize];
        let request = Request::fetch_add(Label::Tool, MN, 8, 1);
        Some(Box::pin(async move { lane.port().call(request).await.map(|completion| completion.value) }))
    }

    fn respond(&mut self, at: LaneAt, now_ns: u64, result: Result<u64, VerbError>) {
        assert!(result.is_ok());
        self.history.push((at, now_ns, false));
    }
}

#[test]
fn a_workload_keeps_lanes_busy_and_sees_calls_and_returns() {
    let mut world = World::new(Config::default(), 1);
    let mut scratch = scratch(4);
    let lanes = lanes(&mut scratch);
    let mut driver = Driver::new(&mut world, &[&lanes], DriverConfig::default());
    let mut workload = Counting { lanes: &lanes, left: vec![10; 4], history: Vec::new() };
    dm_sim::run_workload(&mut driver, &mut workload).unwrap();
    assert_eq!(workload.history.len(), 80);
    assert!(workload.history.is_sorted_by_key(|(_, now_ns, _)| *now_ns));
    drop(driver);
    assert_eq!(world.memories().get(MN).unwrap().host.word(8), 40);
}

#[test]
fn writers_that_do_not_wait_for_each_other_are_told() {
    let mut world = World::new(Config { check_write_turns: true, ..Config::default() }, 1);
    let mut scratch = scratch(2);
    let lanes = lanes(&mut scratch);
    let written = Cell::new(0);
    let mut driver = Driver::new(&mut world, &[&lanes], DriverConfig::default());
    driver.spawn(LaneAt::new(0, 0), Box::pin(rewrite(&lanes[0], 50, &written)));
    finish(&mut driver).unwrap();
    assert!(driver.world().misuses().is_empty(), "each waited for the one before");
    let at_once = async {
        lanes[1].port().push(Request::write_word(Label::Node, MN, 0, 1));
        lanes[1].port().push(Request::write_word(Label::Node, MN, 4, 1));
        lanes[1].port().submit().await
    };
    driver.spawn(LaneAt::new(0, 1), Box::pin(at_once));
    finish(&mut driver).unwrap();
    assert!(driver.world().misuses().iter().any(|misuse| misuse.request.offset == 4));
}
