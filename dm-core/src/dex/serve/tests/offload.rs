//! Gets that a memory node answers, beside lanes that change, flush and evict what it reads.

use super::*;
use crate::dex::offload::Walk;
use crate::marks::Mark;
use crate::mutants::{Mutant, with_planted};

/// Answers a call: what the processor of the only memory node does.
pub(super) fn serve(region: &[u8], request: &[u8], answer: &mut [u8]) -> usize {
    let copy = |offset: u64, room: &mut [u8]| {
        let from = usize::try_from(offset).ok().and_then(|at| region.get(at..)?.get(..room.len()))?;
        room.copy_from_slice(from);
        Some(0)
    };
    Walk::new(request, NodeId(0)).run(&mut [0; 4096], answer, copy).0
}

/// What a memory node does that answers wrongly.
type Answering = fn(&[u8], &[u8], &mut [u8]) -> usize;

/// Inner nodes are not cached, and frames are few.
const SMALL: Setup = Setup { frames: 8, cache_words: 0, offload: Mode::Always, ..SETUP };

#[test]
fn a_get_that_calls_takes_one_round_trip_from_any_level() {
    for (cache_words, deep) in [(0, true), (8 << 10, false)] {
        with_index(Setup { cache_words, ..SMALL }, |pool, dex, lanes| {
            let lane = &lanes[0];
            for key in 0..160 {
                point(pool, dex, lane, OperationKind::Insert, key * 25, key).unwrap();
            }
            pool.run(lane, dex.flush_all(lane)).unwrap();
            let (mut offloaded, mut hits) = (0, 0);
            for key in 0..160 {
                pool.taken();
                assert_eq!(get(pool, dex, lane, key * 25), Some(key));
                match pool.taken()[..] {
                    [(Verb::Call, Label::Search)] => offloaded += 1,
                    [] => hits += 1,
                    // A copy that is short of a level, or a leaf that is cached below a node that is not.
                    _ => assert!(deep),
                }
                assert_eq!(get(pool, dex, lane, key * 25 + 1), None);
            }
            assert!(offloaded > 100, "{offloaded} of 160, {hits} hits");
        });
    }
}

#[test]
fn gets_that_call_find_what_a_map_has() {
    for (number, admission) in [Admission::EAGER, Admission::per_10_000(3_000)].into_iter().enumerate() {
        for cache_words in [0, 300, 8 << 10] {
            let setup = Setup { admission, cache_words, ..SMALL };
            for seed in 1..=3 {
                models::against_a_model(setup, seed * 7919 + number as u64, 700);
            }
            models::against_a_model(Setup { owned: 2, offload: Mode::ByCost, ..setup }, 104_729, 2500);
        }
    }
}

#[test]
fn a_memory_node_that_does_not_answer_costs_a_get_its_call_only() {
    with_index(SMALL, |pool, dex, lanes| {
        let lane = &lanes[0];
        for key in 0..160 {
            point(pool, dex, lane, OperationKind::Insert, key * 25, key).unwrap();
        }
        // Nobody; an answer that is none; one about nothing; the leaf of other keys.
        let answers: [Answering; 4] = [
            |_, _, _| 0,
            |_, _, answer| {
                answer.fill(0xff);
                answer.len()
            },
            |region, request, answer| serve(&region[..4096], request, answer),
            |region, request, answer| serve(region, &request[..request.len() - 1], answer),
        ];
        for answers in answers {
            *pool.calls.borrow_mut() = Some(Box::new(answers));
            assert!((0..160).all(|key| get(pool, dex, lane, key * 25) == Some(key)));
        }
        *pool.calls.borrow_mut() = None;
        assert!((0..160).all(|key| get(pool, dex, lane, key * 25) == Some(key)));
        assert_eq!(lane.marked(Mark::OFFLOADED), 0);
        assert!(lane.marked(Mark::OFFLOAD_IN_VAIN) > 500);
    });
}

/// Lanes that change few keys and lanes that get them, in random turns, over a store that always evicts. Returns whether every
/// get saw what a get could see, and how many gets memory nodes answered, and how many of their answers did not count.
fn gets_beside_changes(seed: u64) -> (bool, u32, u32) {
    // One lane changes each key, so what a get may see is in two numbers.
    const KEYS: usize = 96;
    let (begun, ended) = (vec![Cell::new(0); KEYS], vec![Cell::new(0); KEYS]);
    let setup = Setup { lanes: 6, frames: 24, owned: 2, leaf_span: 3, cache_words: 200, ..SMALL };
    with_index(setup, |pool, dex, lanes| {
        for key in 0..KEYS as u64 {
            point(pool, dex, &lanes[0], OperationKind::Insert, key * 20, 0).unwrap();
        }
        let (begun, ended) = (&begun, &ended);
        let work = lanes.iter().map(|lane| {
            let future = async move {
                let id = u64::from(lane.id().0);
                let mut random = Random(seed * 48_271 + id + 1);
                dex.set_level(lane, Level::Cache);
                let mut sound = true;
                for round in 1..=80_u64 {
                    // Some keys are wanted more often than others.
                    let wanted_often = random.below(2) == 0;
                    let at = random.below(if wanted_often { 8 } else { KEYS });
                    let key = at as u64 * 20;
                    if id < 2 && at as u64 % 2 == id {
                        set(dex, lane, key, round, 0);
                        begun[at].set(round);
                        dex.execute(lane, Operation::point(OperationKind::Upsert)).await.unwrap();
                        ended[at].set(round);
                    } else {
                        set(dex, lane, key, 0, 0);
                        let least = ended[at].get();
                        let found = dex.execute(lane, Operation::point(OperationKind::Get)).await.unwrap();
                        let found = if found == Outcome::Found { output(dex, lane) } else { u64::MAX };
                        sound &= (least..=begun[at].get()).contains(&found);
                    }
                    if round % 3 == 0 {
                        let _ = dex.flush_one(lane, crate::pages::Flush::Oldest).await;
                    }
                }
                sound
            };
            (lane, Box::pin(future) as Pin<Box<dyn Future<Output = bool> + '_>>)
        });
        let mut random = Random(seed * 31_337);
        let sound = pool.run_all(work.collect(), |able| random.below(able)).into_iter().all(|sound| sound);
        let marked = |mark| lanes.iter().map(|lane| lane.marked(mark)).sum();
        (sound, marked(Mark::OFFLOADED), marked(Mark::OFFLOAD_OVERTAKEN))
    })
}

#[test]
fn gets_that_call_see_what_lanes_of_this_compute_node_have_changed() {
    let (mut offloaded, mut overtaken) = (0, 0);
    for seed in 1..=200 {
        let (sound, answered, dropped) = gets_beside_changes(seed);
        assert!(sound, "seed {seed}");
        (offloaded, overtaken) = (offloaded + answered, overtaken + dropped);
    }
    assert!(offloaded > 1_000 && overtaken > 100, "{offloaded} answers counted, {overtaken} did not");
    let mutant = Some(Mutant::CACHED_UNSEEN);
    assert!((1..=200).any(|seed| !with_planted(mutant, || gets_beside_changes(seed)).0));
}

/// A memory node reads a leaf whose last change is in a frame. Before the get has its answer, the leaf is flushed and gives its
/// frame up. Returns what the get finds.
fn get_of_a_leaf_that_departs() -> u64 {
    with_index(Setup { frames: 16, ..SMALL }, |pool, dex, lanes| {
        let [lane, other] = [&lanes[0], &lanes[1]];
        for key in 0..160 {
            point(pool, dex, lane, OperationKind::Insert, key * 25, 1).unwrap();
        }
        pool.run(lane, dex.flush_all(lane)).unwrap();
        dex.set_level(other, Level::Cache);
        point(pool, dex, other, OperationKind::Upsert, 0, 2).unwrap();
        set(dex, lane, 0, 0, 0);
        let mut future = Box::pin(dex.execute(lane, Operation::point(OperationKind::Get)));
        lane.port().start();
        pool.taken();
        while pool.taken() != [(Verb::Call, Label::Search)] {
            if let Step::Requests = poll_once(lane.port(), future.as_mut()) {
                pool.execute(lane);
            }
        }
        pool.run(other, dex.flush_all(other)).unwrap();
        for key in 40..160 {
            point(pool, dex, other, OperationKind::Upsert, key * 25, 3).unwrap();
        }
        assert_eq!(pool.run(lane, future), Ok(Outcome::Found));
        output(dex, lane)
    })
}

#[test]
fn a_changed_leaf_that_has_left_its_frame_since_the_call_is_read_again() {
    assert_eq!(get_of_a_leaf_that_departs(), 2);
    assert_eq!(with_planted(Some(Mutant::DEPARTED_UNSEEN), get_of_a_leaf_that_departs), 1);
}
