//! Random posts and disturbances under any setting: every request ends with exactly one completion, and seeds replay.

use dm_core::verbs::{Assumptions, Flags, Label, NodeId, Request, Space, Status};
use dm_sim::rng::Rng;
use dm_sim::world::LaneKey;
use dm_sim::{ComputeNode, Config, MemoryNode, World, log};

const NODES: u32 = 2;
const COMPUTE_NODES: u32 = 3;
const HOST_BYTES: usize = 8192;

/// Answers with the sum of its arguments, in the node's first word too.
fn sum(node: &mut MemoryNode, operands: [u64; 4]) -> Result<u64, Status> {
    let [procedure, a, b, _] = operands;
    if procedure != 1 {
        return Err(Status::Refused);
    }
    node.host.set_word(0, a + b);
    Ok(a + b)
}

fn any_config(rng: &mut Rng) -> Config {
    Config {
        device_bytes: 512,
        granted: Assumptions::from_bits_truncate(rng.bits() as u32 | rng.bits() as u32),
        freedom_percent: [0, 50, 100][rng.below(3) as usize],
        bursts_max: rng.below(12),
        tear_bytes: 8 << rng.below(3),
        crash_atomic_bytes: [8, 64, 1000, 4096][rng.below(4) as usize],
        order_within_chains_only: rng.percent(30),
        masked_atomics: rng.percent(70),
        check_write_turns: rng.percent(30),
        rpc: rng.percent(50).then_some(sum),
        ..Config::with_nodes(NODES as usize, HOST_BYTES)
    }
}

fn any_request(rng: &mut Rng) -> Request {
    let node = NodeId(rng.below(NODES) as u16);
    // Now and then a little too far, or not aligned.
    let beyond = rng.below(1100);
    let offset = u64::from(rng.below(HOST_BYTES as u32 - 1000 + beyond));
    let word = offset & !7;
    let bytes = 1 + rng.below(1000) as usize;
    let request = match rng.below(8) {
        0 | 1 => Request::read(Label::Leaf, node, offset, bytes, rng.below(24) as usize),
        2 | 3 => Request::write(Label::Node, node, offset, bytes, rng.below(24) as usize),
        4 => Request::write_word(Label::Unlock, node, word, rng.bits()),
        5 => Request::cas(Label::Lock, node, word + u64::from(rng.percent(5)), u64::from(rng.below(2)), 1),
        6 => Request::masked_cas(Label::Lock, node, word, [0, 1, u64::from(rng.below(2)), u64::MAX]),
        _ if rng.percent(50) => Request::rpc(Label::Tool, node, [u64::from(rng.below(2)), 3, 4, 0]),
        _ => Request::fetch_add(Label::Tool, node, word, 1),
    };
    let request = if rng.percent(20) { request.fenced() } else { request };
    let request = if rng.percent(20) { request.unsignaled() } else { request };
    if rng.percent(20) {
        Request { offset: request.offset % 256, bytes: request.bytes.min(200), ..request }.in_space(Space::Device)
    } else {
        request
    }
}

fn disturb(world: &mut World, rng: &mut Rng) {
    let compute_node = ComputeNode(rng.below(COMPUTE_NODES) as u16);
    let node = NodeId(rng.below(NODES) as u16);
    let worker = rng.below(COMPUTE_NODES);
    match rng.below(12) {
        0 => world.kill_compute_node(compute_node),
        1 | 2 => world.close_queue_pairs(compute_node),
        3 | 4 => world.readmit(compute_node),
        5 | 6 => world.fail_queue_pair(worker, node),
        7..=10 => world.reconnect(worker, node),
        _ => world.kill_memory_node(node),
    }
}

#[derive(Default)]
struct Ended {
    submits: u64,
    signaled: u64,
    status: [u64; 8],
}

fn take(world: &mut World, ended: &mut Ended) {
    while let Some((_, submit)) = world.take_ready() {
        ended.submits += 1;
        world.deliver(submit, |_, request, completion, data| {
            ended.signaled += u64::from(request.flags.contains(Flags::SIGNALED));
            ended.status[completion.status as usize] += 1;
            assert!(data.len() <= request.bytes as usize);
        });
    }
}

/// Two hundred turns of posting, disturbing or waiting.
fn storm(world: &mut World, seed: u64) -> Ended {
    let mut rng = Rng::new(!seed);
    world.reset(seed);
    world.set_config(any_config(&mut rng));
    let lanes: Vec<LaneKey> = (0..COMPUTE_NODES as u16)
        .flat_map(|number| {
            let worker = world.add_worker(ComputeNode(number));
            [world.add_lane(worker, 0), world.add_lane(worker, 1)]
        })
        .collect();
    let scratch: [u8; 1024] = std::array::from_fn(|at| at as u8);
    let (mut submits, mut signaled) = (0, 0);
    let mut ended = Ended::default();
    for _ in 0..200 {
        match rng.below(40) {
            0 => disturb(world, &mut rng),
            1..=10 => {
                let requests: Vec<Request> = (0..=rng.below(6)).map(|_| any_request(&mut rng)).collect();
                world.post(lanes[rng.below(lanes.len() as u32) as usize], &requests, &scratch);
                submits += 1;
                signaled += requests.iter().filter(|request| request.flags.contains(Flags::SIGNALED)).count() as u64;
            }
            _ => {
                world.step();
            }
        }
        take(world, &mut ended);
    }
    while world.step() {
        take(world, &mut ended);
    }
    assert_eq!((ended.submits, ended.signaled), (submits, signaled), "seed {seed}");
    assert!(lanes.iter().all(|lane| world.outstanding(*lane) == 0), "seed {seed}");
    ended
}

#[test]
fn every_request_ends_by_one_completion_whatever_happens() {
    let mut world = World::new(Config { device_bytes: 512, ..Config::with_nodes(NODES as usize, HOST_BYTES) }, 0);
    let mut status = [0; 8];
    for seed in 0..2000 {
        for (sum, now) in status.iter_mut().zip(storm(&mut world, seed).status) {
            *sum += now;
        }
    }
    assert!(status[..6].iter().all(|count| *count > 100), "a way to end was never seen: {status:?}");
}

#[test]
fn a_reset_world_is_as_good_as_a_new_one() {
    let new = || World::new(Config { device_bytes: 512, ..Config::with_nodes(NODES as usize, HOST_BYTES) }, 0);
    let mut used = new();
    storm(&mut used, 1);
    for seed in 2..20 {
        let mut fresh = new();
        for world in [&mut fresh, &mut used] {
            world.set_log(true);
            storm(world, seed);
        }
        assert_eq!(log::text(fresh.log()), log::text(used.log()), "seed {seed}");
        for node in [NodeId(0), NodeId(1)] {
            let (fresh, used) = (fresh.memories().get(node).unwrap(), used.memories().get(node).unwrap());
            assert!(fresh.host.bytes() == used.host.bytes() && fresh.device.bytes() == used.device.bytes());
        }
    }
}
