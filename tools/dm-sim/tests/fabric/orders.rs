//! Every cell of the table of orders: a promised order never fails, and an order that is not promised is seen to fail.

use dm_core::verbs::{Assumptions, Label, NodeId, Request, Space, Verb};
use dm_sim::log::What;
use dm_sim::world::LaneKey;
use dm_sim::{ComputeNode, Config, World};

const SEEDS: u64 = 400;
const MN: NodeId = NodeId(0);

fn everything() -> Config {
    Config { granted: Assumptions::all(), ..Config::default() }
}

fn lane(world: &mut World, compute_node: u16) -> LaneKey {
    let worker = world.add_worker(ComputeNode(compute_node));
    world.add_lane(worker, 0)
}

fn run_out(world: &mut World) {
    while world.step() {}
}

const fn is_effect(what: What) -> bool {
    matches!(what, What::Effect { .. } | What::Atomic { .. } | What::WriteBack { .. })
}

/// In how many seeds `second` has an effect before `first` has had its last.
fn overtakes(config: &Config, first: Request, second: Request) -> u64 {
    let mut world = World::new(config.clone(), 0);
    world.set_log(true);
    let first = Request { label: Label::Leaf, ..first };
    let second = Request { label: Label::Node, ..second };
    let mut count = 0;
    for seed in 0..SEEDS {
        world.reset(seed);
        let lane = lane(&mut world, 0);
        world.post(lane, &[first, second], &[1; 1024]);
        run_out(&mut world);
        let effects = || world.log().iter().filter(|line| is_effect(line.what));
        let last_of_first = effects().rposition_of(Label::Leaf);
        let first_of_second = effects().position(|line| line.request.label == Label::Node).unwrap();
        count += u64::from(first_of_second < last_of_first);
    }
    count
}

trait LastPosition {
    fn rposition_of(self, label: Label) -> usize;
}

impl<'l, I: Iterator<Item = &'l dm_sim::log::LogLine>> LastPosition for I {
    fn rposition_of(self, label: Label) -> usize {
        self.enumerate().filter(|(_, line)| line.request.label == label).map(|(at, _)| at).last().unwrap()
    }
}

fn read(offset: u64) -> Request {
    Request::read(Label::Tool, MN, offset, 512, 0)
}

fn write(offset: u64) -> Request {
    Request::write(Label::Tool, MN, offset, 512, 0)
}

fn atomic(offset: u64) -> Request {
    Request::fetch_add(Label::Tool, MN, offset, 1)
}

#[test]
fn what_the_specification_orders_is_ordered() {
    let config = everything();
    for (name, first, second) in [
        ("write, write", write(0), write(4096)),
        ("write, read", write(0), read(4096)),
        ("write, atomic", write(0), atomic(4096)),
        ("read, read", read(0), read(4096)),
        ("atomic, read", atomic(0), read(4096)),
        ("atomic, atomic", atomic(0), atomic(4096)),
        ("read, fenced write", read(0), write(4096).fenced()),
        ("read, fenced atomic", read(0), atomic(4096).fenced()),
        ("atomic, fenced write", atomic(0), write(4096).fenced()),
    ] {
        assert_eq!(overtakes(&config, first, second), 0, "{name}");
    }
}

#[test]
fn what_the_specification_leaves_open_is_reordered() {
    let config = everything();
    for (name, first, second) in [
        ("read, write", read(0), write(4096)),
        ("read, atomic", read(0), atomic(4096)),
        ("atomic, write", atomic(0), write(4096)),
    ] {
        let count = overtakes(&config, first, second);
        assert!((SEEDS / 20..SEEDS).contains(&count), "{name}: in {count} of {SEEDS} seeds");
    }
}

#[test]
fn each_order_that_is_withdrawn_is_broken_and_no_other() {
    let device = |request: Request| request.in_space(Space::Device);
    let cells = [
        (Assumptions::WRITE_THEN_WRITE, write(0), write(4096)),
        (Assumptions::WRITE_THEN_ATOMIC, write(0), atomic(4096)),
        (Assumptions::ATOMIC_THEN_READ, atomic(0), read(4096)),
        (Assumptions::READ_THEN_READ, read(0), read(4096)),
        (Assumptions::ATOMIC_THEN_ATOMIC, atomic(0), atomic(4096)),
        (Assumptions::HOST_BEFORE_DEVICE, write(0), device(atomic(0))),
        (Assumptions::HOST_BEFORE_DEVICE, write(0), device(Request::write_word(Label::Tool, MN, 0, 1))),
    ];
    for (withdrawn, ..) in cells {
        let config = everything().without(withdrawn);
        for (promised, first, second) in cells {
            let count = overtakes(&config, first, second);
            if promised == withdrawn {
                assert!(count > SEEDS / 20, "without {withdrawn:?}: only {count} of {SEEDS}");
            } else {
                assert_eq!(count, 0, "{promised:?} fails without {withdrawn:?}");
            }
        }
        // A fence still orders what it orders, and a READ still sees the WRITEs before it.
        assert_eq!(overtakes(&config, write(0), read(4096)), 0);
        assert_eq!(overtakes(&config, atomic(0), read(4096).fenced()), 0);
        assert_eq!(overtakes(&config, read(0), read(4096).fenced()), 0);
        assert_eq!(overtakes(&config, atomic(0), atomic(4096).fenced()), 0);
    }
}

#[test]
fn chains_of_one_queue_pair_are_ordered_unless_configured_otherwise() {
    let swapped = |config: &Config| {
        let mut world = World::new(config.clone(), 0);
        let mut count = 0;
        for seed in 0..SEEDS {
            world.reset(seed);
            let lane = lane(&mut world, 0);
            world.post(lane, &[Request::write_word(Label::Tool, MN, 0, 1).unsignaled()], &[]);
            world.post(lane, &[Request::write_word(Label::Tool, MN, 0, 2)], &[]);
            run_out(&mut world);
            count += u64::from(world.memories().get(MN).unwrap().host.word(0) == 1);
        }
        count
    };
    assert_eq!(swapped(&everything()), 0);
    assert!(swapped(&Config { order_within_chains_only: true, ..everything() }) > SEEDS / 20);
}

#[test]
fn queue_pairs_are_not_ordered_among_each_other() {
    let mut first_wins = 0;
    let mut world = World::new(everything(), 0);
    for seed in 0..SEEDS {
        world.reset(seed);
        let lanes = [lane(&mut world, 0), lane(&mut world, 1)];
        world.post(lanes[0], &[Request::cas(Label::Lock, MN, 0, 0, 1)], &[]);
        world.post(lanes[1], &[Request::cas(Label::Lock, MN, 0, 0, 2)], &[]);
        run_out(&mut world);
        first_wins += u64::from(world.memories().get(MN).unwrap().host.word(0) == 1);
    }
    assert!((SEEDS / 4..SEEDS * 3 / 4).contains(&first_wins), "{first_wins}");
}

/// Which units of a transfer take effect in which order: counts of seeds (in one instant, ascending in several,
/// in another order).
fn shapes(config: &Config, request: Request) -> (u64, u64, u64) {
    let mut world = World::new(config.clone(), 0);
    world.set_log(true);
    let (mut whole, mut ascending, mut mixed) = (0, 0, 0);
    for seed in 0..SEEDS {
        world.reset(seed);
        let lane = lane(&mut world, 0);
        world.post(lane, &[request], &[0; 1024]);
        run_out(&mut world);
        let effects: Vec<u64> = (world.log().iter())
            .filter_map(|line| if let What::Effect { units } = line.what { Some(units) } else { None })
            .filter(|units| *units != 0)
            .collect();
        assert_eq!(effects.iter().fold(0, |all, units| all | units), 0xFF, "eight lines, each once");
        if effects.len() == 1 {
            whole += 1;
        } else if effects.windows(2).all(|pair| pair[0].ilog2() < pair[1].trailing_zeros()) {
            ascending += 1;
        } else {
            mixed += 1;
        }
    }
    (whole, ascending, mixed)
}

#[test]
fn lines_of_a_transfer_come_in_any_order() {
    let free = everything().without(Assumptions::WRITE_ASCENDING);
    for request in [read(0), write(0)] {
        let (whole, ascending, mixed) = shapes(&free, request);
        assert!(whole > 20 && ascending > 0 && mixed > 100, "{whole} {ascending} {mixed}");
    }
    let (_, ascending, mixed) = shapes(&everything(), write(0));
    assert!(ascending > 100 && mixed == 0, "{ascending} {mixed}");
    let (_, _, mixed) = shapes(&everything(), read(0));
    assert!(mixed > 100, "a READ is ordered by nothing");
}

#[test]
fn completions_come_in_post_order_and_after_effects() {
    let config = everything();
    let mut world = World::new(config, 0);
    world.set_log(true);
    for seed in 0..SEEDS {
        world.reset(seed);
        let lane = lane(&mut world, 0);
        world.post(lane, &[read(0), write(0), atomic(0), read(64)], &[0; 1024]);
        run_out(&mut world);
        let done: Vec<_> = world.log().iter().filter(|line| matches!(line.what, What::Done(_))).collect();
        assert_eq!(done.iter().map(|line| line.request).collect::<Vec<_>>(), [read(0), write(0), atomic(0), read(64)]);
        for line in done {
            let later = world.log().iter().filter(|other| other.now_ns > line.now_ns && other.request == line.request);
            assert!(!later.into_iter().any(|other| is_effect(other.what)));
        }
    }
}

#[test]
fn a_completed_write_is_visible_unless_configured_otherwise() {
    let unseen = |config: &Config| {
        let mut world = World::new(config.clone(), 0);
        let mut count = 0;
        for seed in 0..SEEDS {
            world.reset(seed);
            let lane = lane(&mut world, 0);
            world.post(lane, &[Request::write_word(Label::Tool, MN, 0, 1)], &[]);
            while world.take_ready().is_none() {
                assert!(world.step());
            }
            count += u64::from(world.memories().get(MN).unwrap().host.word(0) == 0);
            run_out(&mut world);
            assert_eq!(world.memories().get(MN).unwrap().host.word(0), 1);
        }
        count
    };
    assert_eq!(unseen(&everything()), 0);
    assert!(unseen(&everything().without(Assumptions::COMPLETION_IS_VISIBLE)) > SEEDS / 20);
}

/// In how many seeds a WRITE of 100 to a word is lost to a concurrent atomic.
fn lost(config: &Config, atomic: Request, kept: &[u64]) -> u64 {
    let mut world = World::new(config.clone(), 0);
    let mut count = 0;
    for seed in 0..SEEDS {
        world.reset(seed);
        world.memories_mut().get_mut(MN).unwrap().host.set_word(0, 7);
        let lanes = [lane(&mut world, 0), lane(&mut world, 1)];
        world.post(lanes[0], &[atomic], &[]);
        world.post(lanes[1], &[Request::write_word(Label::Unlock, MN, 0, 100)], &[]);
        run_out(&mut world);
        count += u64::from(!kept.contains(&world.memories().get(MN).unwrap().host.word(0)));
    }
    count
}

#[test]
fn a_write_is_lost_to_an_atomic_only_where_configured() {
    let adds = Request::fetch_add(Label::Tool, MN, 0, 1);
    let fails = Request::cas(Label::Tool, MN, 0, 1, 2);
    assert_eq!(lost(&everything(), adds, &[100, 101]), 0);
    assert_eq!(lost(&everything(), fails, &[100]), 0);
    let config = everything().without(Assumptions::ATOMIC_EXCLUDES_WRITE);
    assert!(lost(&config, adds, &[100, 101]) > SEEDS / 20);
    assert_eq!(lost(&config, fails, &[100]), 0, "a failed CAS writes nothing");
    let config = everything().without(Assumptions::FAILED_CAS_IS_SILENT);
    assert_eq!(lost(&config, adds, &[100, 101]), 0);
    assert!(lost(&config, fails, &[100]) > SEEDS / 20);
}

#[test]
fn atomics_never_lose_each_other() {
    let mut world =
        World::new(everything().without(Assumptions::ATOMIC_EXCLUDES_WRITE | Assumptions::FAILED_CAS_IS_SILENT), 0);
    for seed in 0..SEEDS {
        world.reset(seed);
        for compute_node in 0..4 {
            let lane = lane(&mut world, compute_node);
            let space = if seed % 2 == 0 { Space::Host } else { Space::Device };
            world.post(lane, &[Request::fetch_add(Label::Tool, MN, 8, 1).in_space(space); 3], &[]);
        }
        run_out(&mut world);
        let node = world.memories().get(MN).unwrap();
        assert_eq!(node.host.word(8) + node.device.word(8), 12);
    }
}

/// Whether a 64-byte READ of a line that is being written ever mixes old and new bytes, and at which byte.
fn line_tears(config: &Config) -> (u64, bool) {
    let mut world = World::new(config.clone(), 0);
    let (mut torn, mut inside_words) = (0, false);
    for seed in 0..SEEDS {
        world.reset(seed);
        let lanes = [lane(&mut world, 0), lane(&mut world, 1)];
        world.post(lanes[0], &[Request::write(Label::Tool, MN, 128, 64, 0)], &[1; 64]);
        world.post(lanes[1], &[Request::read(Label::Tool, MN, 128, 64, 0)], &[0; 64]);
        while world.step() {
            while let Some((_, submit)) = world.take_ready() {
                world.deliver(submit, |_, _, _, data| {
                    torn += u64::from(data.iter().any(|byte| *byte != data[0]));
                    inside_words |= data.chunks(8).any(|word| word.iter().any(|byte| *byte != word[0]));
                });
            }
        }
    }
    (torn, inside_words)
}

#[test]
fn lines_and_words_tear_only_where_configured() {
    assert_eq!(line_tears(&everything()), (0, false));
    let (torn, inside_words) = line_tears(&everything().without(Assumptions::LINE_ATOMIC));
    assert!(torn > SEEDS / 20 && !inside_words, "{torn}");
    let (torn, inside_words) = line_tears(&everything().without(Assumptions::LINE_ATOMIC | Assumptions::WORD_ATOMIC));
    assert!(torn > SEEDS / 20 && inside_words, "{torn}");
}

#[test]
fn elapsed_times_cover_the_read_unless_configured_otherwise() {
    let understated = |config: &Config| {
        let mut world = World::new(config.clone(), 0);
        let mut count = 0;
        for seed in 0..SEEDS {
            world.reset(seed);
            let lane = lane(&mut world, 0);
            world.post(lane, &[read(0)], &[0; 512]);
            while world.step() {
                let now_ns = world.now_ns();
                if let Some((_, submit)) = world.take_ready() {
                    world.deliver(submit, |_, _, completion, _| {
                        count += u64::from(u64::from(completion.elapsed_ns) < now_ns);
                    });
                }
            }
        }
        count
    };
    assert_eq!(understated(&everything()), 0);
    assert!(understated(&everything().without(Assumptions::TIMED_READS)) > SEEDS / 20);
}

/// Every request loses a packet, and nothing else makes it fall apart.
fn lossy(packet_bytes: u32) -> Config {
    let delays = dm_sim::Delays { loss_per_1024: 1024, long_per_1024: 0, ..dm_sim::Delays::default() };
    Config { packet_bytes, freedom_percent: 0, delays, ..everything() }
}

#[test]
fn a_read_is_executed_again_from_a_lost_packet_on() {
    let mut world = World::new(lossy(256), 0);
    let mut mixed = 0;
    for seed in 0..SEEDS {
        world.reset(seed);
        let lanes = [lane(&mut world, 0), lane(&mut world, 1)];
        // 1024 bytes: four packets, of which the first arrived.
        world.post(lanes[0], &[Request::read(Label::Tool, MN, 64, 1024, 0)], &[0; 1024]);
        // Time enough for the packets before the loss, and too little for those after it.
        while world.next_ns().is_some_and(|next_ns| next_ns < 5_000) {
            world.step();
        }
        world.memories_mut().get_mut(MN).unwrap().host.range_mut(64..64 + 1024).fill(7);
        let mut seen = Vec::new();
        while world.step() {
            while let Some((_, submit)) = world.take_ready() {
                world.deliver(submit, |_, _, _, data| seen = data.to_vec());
            }
        }
        let old = seen.iter().take_while(|byte| **byte == 0).count();
        assert!(seen[old..].iter().all(|byte| *byte == 7), "what comes again comes from one place on: {seen:?}");
        assert!(old % 256 == 0 && (256..1024).contains(&old), "{old} bytes before the loss");
        mixed += 1;
    }
    assert_eq!(mixed, SEEDS);
}

#[test]
fn what_is_sent_again_is_applied_once() {
    let mut world = World::new(lossy(256), 0);
    world.set_log(true);
    let mut late_answers = 0;
    for seed in 0..SEEDS {
        world.reset(seed);
        let lane = lane(&mut world, 0);
        let requests = [atomic(0), Request::write(Label::Tool, MN, 4096, 1024, 0), atomic(0)];
        world.post(lane, &requests, &[1; 1024]);
        run_out(&mut world);
        assert_eq!(world.memories().get(MN).unwrap().host.word(0), 2, "seed {seed}");
        let writes = world.log().iter().filter(|line| line.request == requests[1]);
        let units: Vec<u64> =
            writes.filter_map(|line| if let What::Effect { units } = line.what { Some(units) } else { None }).collect();
        assert_eq!(units.iter().sum::<u64>(), 0xffff, "every line lands, and no line twice");
        let at = |wanted: fn(&What) -> bool| {
            let mut lines = world.log().iter().filter(|line| line.request == requests[0]);
            lines.find(|line| wanted(&line.what)).unwrap().now_ns
        };
        let answered_ns = at(|what| matches!(what, What::Done(_))) - at(|what| matches!(what, What::Atomic { .. }));
        late_answers += u64::from(answered_ns > 10_000);
    }
    assert!((SEEDS / 4..SEEDS).contains(&late_answers), "{late_answers} atomics were answered from a saved result");
}

#[test]
fn only_the_sleeper_sleeps() {
    let delays = dm_sim::Delays {
        long_per_1024: 1024,
        sleeper: Some((ComputeNode(1), Verb::Read)),
        ..dm_sim::Delays::default()
    };
    let mut world = World::new(Config { delays, ..everything() }, 0);
    for seed in 0..SEEDS {
        world.reset(seed);
        let lanes = [lane(&mut world, 0), lane(&mut world, 1)];
        for lane in lanes {
            world.post(lane, &[Request::read(Label::Tool, MN, 0, 8, 0)], &[0; 8]);
        }
        let mut elapsed_ns = [0; 2];
        while world.step() {
            while let Some((lane, submit)) = world.take_ready() {
                let of = usize::from(lane == lanes[1]);
                world.deliver(submit, |_, _, completion, _| elapsed_ns[of] = completion.elapsed_ns);
            }
        }
        assert!(elapsed_ns[0] < 5_000 && elapsed_ns[1] > 5_000, "{elapsed_ns:?}");
    }
}
