//! Operations that a memory node does, beside lanes that change, flush and evict what it reads.

use super::*;
use crate::dex::offload::Walk;
use crate::dex::offload::message::Answer;
use crate::marks::Mark;
use crate::memory::memory_node::LOST;
use crate::mutants::{Mutant, with_planted};
use crate::operation::Effect;
use core::cell::RefCell;
use std::rc::Rc;

/// Answers a call: what the processor of the only memory node does.
pub(super) fn serve(region: &mut [u8], request: &[u8], answer: &mut [u8]) -> usize {
    let region = RefCell::new(region);
    let range = |offset: u64, bytes: usize| {
        let start = usize::try_from(offset).ok()?;
        Some(start..start.checked_add(bytes)?)
    };
    let copy = |offset: u64, room: &mut [u8]| {
        room.copy_from_slice(region.borrow().get(range(offset, room.len())?)?);
        Some(0)
    };
    let write = |offset: u64, bytes: &[u8]| {
        region.borrow_mut().get_mut(range(offset, bytes.len())?)?.copy_from_slice(bytes);
        Some(0)
    };
    Walk::new(request, NodeId(0)).run(&mut [0; 4096], answer, copy, write).0
}

/// What a memory node does that answers wrongly.
type Answering = fn(&mut [u8], &[u8], &mut [u8]) -> usize;

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
            |region, request, answer| serve(&mut region[..4096], request, answer),
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
    let admission = if seed.is_multiple_of(2) { Admission::EAGER } else { Admission::per_10_000(3_000) };
    let setup = Setup { lanes: 6, frames: 24, owned: 2, leaf_span: 3, cache_words: 200, admission, ..SMALL };
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

/// Few leaves come into frames, and inner nodes are cached.
const UNADMITTED: Setup = Setup { admission: Admission::per_10_000(0), cache_words: 8 << 10, leaf_span: 4, ..SMALL };

/// Inserts records, and returns a key whose leaf is in no frame, nor comes into one.
fn key_without_frame(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>) -> u64 {
    for key in 0..160 {
        point(pool, dex, lane, OperationKind::Insert, key * 25, 1).unwrap();
    }
    let calls = |key: &u64| {
        pool.taken();
        point(pool, dex, lane, OperationKind::Update, *key, 1).unwrap();
        pool.taken().contains(&(Verb::Call, Label::Change))
    };
    (0..160).map(|key| key * 25).find(calls).expect("more leaves than frames")
}

#[test]
fn a_change_that_calls_takes_one_round_trip() {
    with_index(UNADMITTED, |pool, dex, lanes| {
        let lane = &lanes[0];
        for key in 0..160 {
            point(pool, dex, lane, OperationKind::Insert, key * 25, key).unwrap();
        }
        // The answers of changes are in their pages.
        dex.set_level(lane, Level::Pool);
        let (mut called, mut value) = (0, 1000);
        for key in 0..160 {
            for kind in [OperationKind::Update, OperationKind::Upsert, OperationKind::Insert, OperationKind::Delete] {
                pool.taken();
                value += 1;
                let outcome = point(pool, dex, lane, kind, key * 25, value).unwrap();
                assert_eq!(outcome, kind.outcome_of_present(false));
                let requests = pool.taken();
                called += u32::from(requests == [(Verb::Call, Label::Change)]);
                let is_read = requests.iter().any(|(_, label)| *label == Label::Leaf);
                assert!(
                    !is_read || requests.contains(&(Verb::Write, Label::Leaf)),
                    "a flush, or a merge: {requests:?}"
                );
                if kind == OperationKind::Insert {
                    assert_eq!(output(dex, lane), value - 1);
                }
            }
            assert_eq!(point(pool, dex, lane, OperationKind::Delete, key * 25, 0), Ok(Outcome::Absent));
            assert_eq!(point(pool, dex, lane, OperationKind::Insert, key * 25, key), Ok(Outcome::Inserted));
        }
        assert!(called > 300, "{called} of 640");
        assert!((0..160).all(|key| get(pool, dex, lane, key * 25) == Some(key)));
        let census = pool.run(lane, crate::btree::walk::Walk::walk(dex, lane)).unwrap();
        assert_eq!((census.records, census.half_splits), (160, 0));
        assert!(census.leaves > 30 && !lane.is_unsettled());
    });
}

/// A change whose call is repeated after another change of the same record. Returns what a get finds then.
fn change_that_comes_again() -> Option<u64> {
    with_index(UNADMITTED, |pool, dex, lanes| {
        let lane = &lanes[0];
        let key = key_without_frame(pool, dex, lane);
        let first = Rc::new(RefCell::new(Vec::new()));
        let heard = Rc::clone(&first);
        *pool.calls.borrow_mut() = Some(Box::new(move |region, request, answer| {
            heard.borrow_mut().push(request.to_vec());
            serve(region, request, answer)
        }));
        for value in [2, 3] {
            point(pool, dex, lane, OperationKind::Update, key, value).unwrap();
        }
        let request = first.borrow()[0].clone();
        serve(&mut pool.region.borrow_mut(), &request, &mut [0; 64]);
        get(pool, dex, lane, key)
    })
}

#[test]
fn a_change_that_comes_again_is_told_by_the_number_in_the_leaf() {
    assert_eq!(change_that_comes_again(), Some(3));
    assert_eq!(with_planted(Some(Mutant::LATE_CHANGE_MADE), change_that_comes_again), Some(2));
}

/// A lane gives up before it knows what became of its change. Returns what it asks when it is settled.
fn change_that_is_given_up() -> Vec<(Verb, Label)> {
    with_index(UNADMITTED, |pool, dex, lanes| {
        let [lane, other] = [&lanes[0], &lanes[1]];
        let key = key_without_frame(pool, dex, lane);
        *pool.calls.borrow_mut() = None;
        set(dex, lane, key, 2, 0);
        let mut update = Box::pin(dex.execute(lane, Operation::point(OperationKind::Update)));
        lane.port().start();
        pool.taken();
        while pool.taken() != [(Verb::Call, Label::Change)] {
            if let Step::Requests = poll_once(lane.port(), update.as_mut()) {
                pool.execute(lane);
            }
        }
        drop(update);
        lane.port().reset();
        assert!(lane.is_unsettled());
        // Nobody else gets at the leaf.
        set(dex, other, key, 0, 0);
        let late = Operation { deadline_ns: 20_000, ..Operation::point(OperationKind::Get) };
        let waited = pool.run(other, dex.execute(other, late)).unwrap_err();
        assert!(matches!(waited.cause, Cause::Deadline { .. }), "{waited}");
        pool.taken();
        pool.run(lane, dex.settle(lane)).unwrap();
        let asked = pool.taken();
        pool.run(other, dex.settle(other)).unwrap();
        assert!(!lane.is_unsettled());
        assert_eq!(get(pool, dex, other, key), Some(1));
        asked
    })
}

#[test]
fn a_change_that_is_given_up_keeps_its_leaf_until_it_is_known_to_be_over() {
    assert_eq!(change_that_is_given_up(), [(Verb::Read, Label::Closed)]);
    assert_eq!(with_planted(Some(Mutant::LEAF_LEFT_TO_CALL), change_that_is_given_up), []);
}

#[test]
fn what_a_memory_node_does_not_take_on_the_lane_does() {
    with_index(UNADMITTED, |pool, dex, lanes| {
        let [lane, other] = [&lanes[0], &lanes[1]];
        let key = key_without_frame(pool, dex, lane);
        // What a memory node does not take on, the lane does.
        *pool.calls.borrow_mut() = Some(Box::new(|_, _, answer| Answer::Refused.encode(answer)));
        point(pool, dex, lane, OperationKind::Update, key, 3).unwrap();
        assert_eq!(get(pool, dex, other, key), Some(3));
        // An answer that is none: nobody knows.
        *pool.calls.borrow_mut() = Some(Box::new(|_, _, _| 0));
        let error = point(pool, dex, lane, OperationKind::Update, key, 4).unwrap_err();
        assert_eq!(error.effect, Effect::Unknown, "{error}");
        pool.run(lane, dex.settle(lane)).unwrap();
        assert_eq!(get(pool, dex, other, key), Some(3));
    });
}

#[test]
fn the_leaf_tells_what_became_of_a_change_that_is_not_answered() {
    use OperationKind::{Delete, Insert, Update, Upsert};
    with_index(UNADMITTED, |pool, dex, lanes| {
        let lane = &lanes[0];
        let key = key_without_frame(pool, dex, lane);
        for (number, kind) in [(2, Update), (3, Delete), (4, Insert), (5, Upsert), (6, Update)] {
            // Made, and its answer lost: nobody knows what an upsert has found.
            *pool.calls.borrow_mut() = Some(Box::new(|region, request, answer| {
                serve(region, request, answer);
                LOST
            }));
            let made = point(pool, dex, lane, kind, key, number);
            match kind {
                Upsert => assert_eq!(made.unwrap_err().effect, Effect::Done),
                Insert => assert_eq!(made, Ok(Outcome::Inserted)),
                kind => assert_eq!(made, Ok(kind.outcome_of_present(false))),
            }
            pool.run(lane, dex.settle(lane)).unwrap();
            // Not made, and never will be: the lane makes it.
            *pool.calls.borrow_mut() = None;
            assert_eq!(get(pool, dex, lane, key), (kind != Delete).then_some(number));
            if kind != Delete {
                point(pool, dex, lane, Update, key, number + 10).unwrap();
                assert_eq!(get(pool, dex, lane, key), Some(number + 10));
            }
        }
        assert!(!lane.is_unsettled());
    });
}
