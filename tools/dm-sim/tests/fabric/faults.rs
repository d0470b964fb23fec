//! Failures: senders that die half way, queue pairs, memory nodes.

use dm_core::error::VerbError;
use dm_core::lane::Lane;
use dm_core::verbs::{Assumptions, Completion, Label, LaneId, NodeId, Request, Status};
use dm_sim::world::LaneKey;
use dm_sim::{ComputeNode, Config, Driver, DriverConfig, Event, LaneAt, MemoryNode, World};

const SEEDS: u64 = 600;
const MN: NodeId = NodeId(0);
const DEAD: ComputeNode = ComputeNode(0);

fn lane(world: &mut World, compute_node: u16) -> LaneKey {
    let worker = world.add_worker(ComputeNode(compute_node));
    world.add_lane(worker, 0)
}

fn run_out(world: &mut World) -> Vec<Completion> {
    let mut completions = Vec::new();
    while world.step() {
        while let Some((_, submit)) = world.take_ready() {
            world.deliver(submit, |_, _, completion, _| completions.push(completion));
        }
    }
    completions
}

fn host(world: &World, offset: usize, bytes: usize) -> Vec<u8> {
    world.memories().get(MN).unwrap().host.bytes()[offset..offset + bytes].to_vec()
}

/// Three WRITEs of 256 bytes, each to a place of its own.
fn three_writes(world: &mut World, lane: LaneKey) {
    let write = |number: u64| Request::write(Label::Tool, MN, 4096 * number, 256, 0);
    world.post(lane, &[write(0), write(1), write(2)], &[0xFF; 256]);
}

/// How many bytes of each of the three landed; asserts that whole blocks did.
fn landed(world: &World, block: usize) -> [usize; 3] {
    [0, 1, 2].map(|number| {
        let bytes = host(world, 4096 * number, 256);
        for block in bytes.chunks(block) {
            assert!(block.iter().all(|byte| *byte == block[0]), "part of a block landed");
        }
        bytes.iter().filter(|byte| **byte != 0).count()
    })
}

#[test]
fn of_a_dead_sender_a_prefix_lands_and_one_write_may_be_cut() {
    for crash_atomic_bytes in [8, 64, 128, 4096] {
        let granted = Assumptions::all();
        let mut world = World::new(Config { crash_atomic_bytes, granted, ..Config::default() }, 0);
        let (mut whole, mut cut, mut late) = ([0; 4], 0, 0);
        for seed in 0..SEEDS {
            world.reset(seed);
            let lane = lane(&mut world, 0);
            three_writes(&mut world, lane);
            for _ in 0..seed % 5 {
                world.step();
            }
            let block = crash_atomic_bytes.min(256) as usize;
            world.kill_compute_node(DEAD);
            let before: usize = landed(&world, 8).iter().sum();
            for _ in 0..seed % 7 {
                world.step();
            }
            world.close_queue_pairs(DEAD);
            let counts = landed(&world, block);
            run_out(&mut world);
            assert_eq!(landed(&world, block), counts, "landed after the queue pairs were closed");
            let full = counts.iter().take_while(|count| **count == 256).count();
            assert!(counts.iter().skip(full + 1).all(|count| *count == 0), "not a prefix: {counts:?}");
            whole[full] += 1;
            cut += u64::from(full < 3 && counts[full] > 0);
            late += u64::from(counts.iter().sum::<usize>() > before);
        }
        assert!(whole.iter().all(|count| *count > 5), "{whole:?}");
        assert_eq!(cut > 20, crash_atomic_bytes < 256, "{cut} cut at {crash_atomic_bytes}");
        assert!(late > 20, "{late}");
    }
}

#[test]
fn a_failed_queue_pair_flushes_and_leaves_the_effect_unknown() {
    let mut world = World::new(Config::default(), 0);
    let mut taken = [0; 2];
    let mut late = 0;
    for seed in 0..SEEDS {
        world.reset(seed);
        let lanes = [lane(&mut world, 0), lane(&mut world, 1)];
        let add = Request::fetch_add(Label::Tool, MN, 0, 1);
        world.post(lanes[0], &[add], &[]);
        world.post(lanes[1], &[Request::fetch_add(Label::Tool, MN, 8, 1)], &[]);
        world.fail_queue_pair(0, MN);
        world.post(lanes[0], &[add], &[]);
        let first = loop {
            world.step();
            if let Some((lane, submit)) = world.take_ready() {
                let mut status = Status::Ok;
                world.deliver(submit, |_, _, completion, _| status = completion.status);
                if lane == lanes[0] {
                    break status;
                }
            }
        };
        assert_eq!(first, Status::Flushed);
        let at_completion = host(&world, 0, 1)[0];
        let rest = run_out(&mut world);
        assert!(rest.iter().any(|completion| completion.status == Status::Flushed), "posted on a failed queue pair");
        let after = host(&world, 0, 1)[0];
        assert_eq!(host(&world, 8, 1), [1], "another queue pair failed too");
        taken[after as usize] += 1;
        late += u32::from(after > at_completion);
        world.reconnect(0, MN);
        world.post(lanes[0], &[add], &[]);
        assert_eq!(run_out(&mut world).last().unwrap().status, Status::Ok);
        assert_eq!(host(&world, 0, 1)[0], after + 1);
    }
    assert!(taken[0] > 20 && taken[1] > 20, "{taken:?}");
    assert!(late > 5, "a flushed request landed after its completion in {late} seeds");
}

#[test]
fn a_dead_memory_node_answers_nothing_and_the_others_go_on() {
    let mut world = World::new(Config::with_nodes(2, 8192), 0);
    for seed in 0..100 {
        world.reset(seed);
        let lane = lane(&mut world, 0);
        let read = |node| Request::read(Label::Tool, NodeId(node), 0, 512, 0);
        world.post(lane, &[read(0), read(1)], &[0; 512]);
        for _ in 0..seed % 3 {
            world.step();
        }
        world.kill_memory_node(MN);
        world.post(lane, &[read(0), read(1)], &[0; 512]);
        let status: Vec<Status> = run_out(&mut world).iter().map(|completion| completion.status).collect();
        assert_eq!(status, [Status::NodeDown, Status::Ok, Status::NodeDown, Status::Ok]);
    }
}

#[test]
fn a_fenced_compute_node_changes_nothing_until_it_joins_again() {
    let mut world = World::new(Config::default(), 0);
    let mut effects = [0; 2];
    for seed in 0..100 {
        world.reset(seed);
        let lane = lane(&mut world, 0);
        let add = Request::fetch_add(Label::Tool, MN, 0, 1);
        world.post(lane, &[add], &[]);
        world.close_queue_pairs(DEAD);
        let before = host(&world, 0, 1)[0];
        effects[before as usize] += 1;
        world.post(lane, &[add], &[]);
        let status: Vec<Status> = run_out(&mut world).iter().map(|completion| completion.status).collect();
        assert_eq!(status, [Status::Flushed, Status::Fenced]);
        assert_eq!(host(&world, 0, 1)[0], before);
        world.readmit(DEAD);
        world.post(lane, &[add], &[]);
        assert_eq!(run_out(&mut world)[0].status, Status::Ok);
        assert_eq!(host(&world, 0, 1)[0], before + 1);
    }
    assert!(effects[0] > 5 && effects[1] > 5, "{effects:?}");
}

#[test]
fn a_dead_compute_node_is_silent_and_the_others_go_on() {
    let mut world = World::new(Config::default(), 3);
    let mut scratch = vec![vec![0; 64]; 2];
    let mut scratch = scratch.iter_mut();
    let mut lanes = || [Lane::new(LaneId(0), scratch.next().unwrap())];
    let (dead, alive) = (lanes(), lanes());
    let mut driver = Driver::new(&mut world, &[&dead, &alive], DriverConfig::default());
    async fn reads(lane: &Lane<'_>) -> Result<(), VerbError> {
        for _ in 0..10 {
            lane.port().call(Request::read(Label::Tool, MN, 0, 8, 0)).await?;
        }
        Ok(())
    }
    driver.spawn(LaneAt::new(0, 0), Box::pin(reads(&dead[0])));
    driver.spawn(LaneAt::new(1, 0), Box::pin(reads(&alive[0])));
    for _ in 0..8 {
        driver.step().unwrap();
    }
    driver.kill_compute_node(DEAD);
    assert!(matches!(driver.next(), Ok(Event::Done { at, result: Ok(()), .. }) if at == LaneAt::new(1, 0)));
    assert!(matches!(driver.next(), Ok(Event::Quiet)));
}

#[test]
fn a_lane_learns_that_its_queue_pair_failed_and_can_go_on_after_the_reconnection() {
    let mut world = World::new(Config::default(), 5);
    let mut scratch = [0; 64];
    let lanes = [Lane::new(LaneId(0), &mut scratch)];
    let mut driver = Driver::new(&mut world, &[&lanes], DriverConfig::default());
    let at = LaneAt::new(0, 0);
    let add = || async {
        lanes[0].port().call(Request::fetch_add(Label::Tool, MN, 0, 1)).await.map_err(|error| error.status)
    };
    driver.spawn(at, Box::pin(add()));
    // The first step polls and posts.
    driver.step().unwrap();
    let worker = driver.worker(at);
    driver.world().fail_queue_pair(worker, MN);
    assert!(matches!(driver.next(), Ok(Event::Done { result: Err(Status::Flushed), .. })));
    driver.world().reconnect(worker, MN);
    driver.spawn(at, Box::pin(add()));
    assert!(matches!(driver.next(), Ok(Event::Done { result: Ok(_), .. })));
}

#[test]
fn without_an_order_of_writes_any_of_a_dead_senders_may_be_missing() {
    let config = Config { granted: Assumptions::all(), ..Config::default() };
    for granted in [true, false] {
        let config = if granted { config.clone() } else { config.clone().without(Assumptions::WRITE_THEN_WRITE) };
        let mut world = World::new(config, 0);
        let mut gaps = 0;
        for seed in 0..SEEDS {
            world.reset(seed);
            let lane = lane(&mut world, 0);
            three_writes(&mut world, lane);
            world.kill_compute_node(DEAD);
            run_out(&mut world);
            let counts = landed(&world, 256);
            gaps += u64::from(counts.windows(2).any(|pair| pair[0] == 0 && pair[1] > 0));
        }
        assert_eq!(gaps > 20, !granted, "{gaps}");
    }
}

#[test]
fn an_atomic_behind_writes_proves_them() {
    let config = Config { granted: Assumptions::all(), ..Config::default() };
    let mut world = World::new(config.without(Assumptions::WRITE_THEN_WRITE), 0);
    let mut executed = 0;
    for seed in 0..SEEDS {
        world.reset(seed);
        let lane = lane(&mut world, 0);
        let write = |number: u64| Request::write(Label::Tool, MN, 4096 * (1 + number), 256, 0);
        world.post(lane, &[write(0), write(1), Request::fetch_add(Label::Tool, MN, 0, 1)], &[0xFF; 256]);
        world.kill_compute_node(DEAD);
        run_out(&mut world);
        if host(&world, 0, 1) == [1] {
            executed += 1;
            assert!([4096, 8192].iter().all(|&at| host(&world, at, 256).iter().all(|byte| *byte == 0xFF)));
        }
    }
    assert!(executed > 20, "{executed}");
}

/// Counts calls in the node's first word.
#[expect(clippy::unnecessary_wraps, reason = "the signature of those that serve RPCs")]
fn count(node: &mut MemoryNode, _: [u64; 4]) -> Result<u64, Status> {
    let calls = node.host.word(0) + 1;
    node.host.set_word(0, calls);
    Ok(calls)
}

#[test]
fn a_lost_rpc_may_have_been_executed_and_a_repeated_one_was_twice() {
    let lost = Config { rpc: Some(count), rpc_lost_percent: 100, ..Config::default() };
    let repeated = Config { rpc: Some(count), rpc_repeated_percent: 100, ..Config::default() };
    let mut world = World::new(Config::default(), 0);
    let mut executed = [0; 2];
    for seed in 0..SEEDS {
        for config in [&lost, &repeated] {
            world.reset(seed);
            world.set_config(config.clone());
            let lane = lane(&mut world, 0);
            world.post(lane, &[Request::rpc(Label::Tool, MN, [1, 0, 0, 0])], &[]);
            let completions = run_out(&mut world);
            let calls = world.memories().get(MN).unwrap().host.word(0);
            if config.rpc_lost_percent > 0 {
                assert_eq!(completions[0].status, Status::Flushed);
                assert_eq!((completions[0].value, world.rpc_faults().lost), (0, 1));
                executed[calls as usize] += 1;
            } else {
                assert_eq!((completions[0].status, completions[0].value), (Status::Ok, 1), "the first answer counts");
                assert_eq!((calls, world.rpc_faults().repeated), (2, 1));
            }
        }
    }
    assert!(executed[0] > 20 && executed[1] > 20, "{executed:?}");
}
