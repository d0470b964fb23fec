//! Nodes that leave a memory node, beside operations and deaths.

use super::deaths::{KEYS, dies_at_every_line_of, empty_pool_of, kill, look, with_lanes_of_owner, with_owner};
use super::*;
use crate::marks::Mark;
use crate::mutants::{Mutant, with_planted};
use crate::operation::Cause;
use crate::remote::chunk::{ChunkEntry, ChunkKind, ChunkWord};

const WAIT_NS: u64 = 1_000_000_000;
const HOME_NODE: NodeId = NodeId(0);
const SECOND_NODE: NodeId = NodeId(1);

async fn vacate_all(dex: &Dex<'_>, lane: &Lane<'_>, from: NodeId) -> Result<u64, OpError> {
    let (parts, mut moved) = (dex.parts(lane).await?, 0);
    for part in (0..parts).rev() {
        dex.take_part(lane, part).await?;
        moved += dex.vacate_part(lane, part, from, WAIT_NS).await?;
    }
    Ok(moved)
}

fn fill(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>, keys: u64, from: u64) {
    for key in 0..keys {
        point(pool, dex, lane, OperationKind::Upsert, key, from + key).unwrap();
    }
}

/// Overwrites every chunk of leaves and of inner nodes that a memory node has granted.
fn wipe(pool: &Pool, node: NodeId) -> u32 {
    let (geometry, mut region) = (pool.geometry, pool.region.borrow_mut());
    let base = usize::from(node.0) * geometry.region_bytes as usize;
    let mut wiped = 0;
    for chunk in 0..geometry.chunk_count {
        let at = base + geometry.chunk_entry(chunk) as usize;
        let word = ChunkWord(u64::from_le_bytes(region[at..at + 8].try_into().unwrap()));
        if let Ok(ChunkEntry::Granted(grant)) = word.decode()
            && matches!(grant.kind, ChunkKind::Leaf | ChunkKind::Inner)
        {
            let at = base + geometry.chunk_offset(chunk) as usize;
            region[at..at + geometry.chunk_bytes as usize].fill(0xa5);
            wiped += 1;
        }
    }
    wiped
}

#[test]
fn nothing_is_left_on_a_memory_node_that_is_vacated() {
    const MANY: u64 = 150;
    let pool = empty_pool_of(2);
    with_owner(&pool, 1, usize::MAX, |dex, lane| {
        dex.set_level(lane, Level::Cache);
        fill(&pool, dex, lane, MANY, 100);
        let before = pool.run(lane, dex.validate(lane)).unwrap();
        assert!(before.levels >= 4, "{before:?}");
        // The first leaves were spread over both.
        assert!(pool.run(lane, vacate_all(dex, lane, SECOND_NODE)).unwrap() > 0);
        // There and back, so that pointers lead to copies of copies if any is forgotten.
        for (from, value) in [(HOME_NODE, 100), (SECOND_NODE, 200), (HOME_NODE, 300)] {
            fill(&pool, dex, lane, MANY, value);
            let moved = pool.run(lane, vacate_all(dex, lane, from)).unwrap();
            let census = pool.run(lane, dex.validate(lane)).unwrap();
            assert_eq!(moved, census.leaves + census.inner_nodes);
            assert_eq!((census.records, census.moved_links), (MANY, 0), "{census:?}");
            assert_eq!((census.leaves, census.half_splits), (before.leaves, 0));
            assert_eq!(pool.run(lane, vacate_all(dex, lane, from)), Ok(0), "all were moved");
        }
        assert!(lane.marked(Mark::NODE_MOVED) > 100);
        assert!(
            (0..MANY).all(|key| get(&pool, dex, lane, key) == Some(300 + key)),
            "by old copies of inner nodes, too"
        );
        pool.run(lane, Index::leave(dex, lane)).unwrap();
    });
    assert!(wipe(&pool, HOME_NODE) >= 2);
    with_owner(&pool, 2, usize::MAX, |dex, lane| {
        assert!((0..MANY).all(|key| get(&pool, dex, lane, key) == Some(300 + key)));
        fill(&pool, dex, lane, 2 * MANY, 400);
        assert_eq!(pool.run(lane, dex.validate(lane)).unwrap().records, 2 * MANY);
    });
}

#[test]
fn a_memory_node_is_not_vacated_without_another_one_or_the_part() {
    let pool = empty_pool_of(1);
    with_owner(&pool, 1, usize::MAX, |dex, lane| {
        fill(&pool, dex, lane, KEYS, 100);
        let refused = pool.run(lane, vacate_all(dex, lane, HOME_NODE)).unwrap_err();
        assert_eq!(refused.cause, Cause::PoolFull);
        assert_eq!(pool.run(lane, vacate_all(dex, lane, SECOND_NODE)), Ok(0), "nothing lies there");
        let refused = pool.run(lane, dex.vacate_part(lane, 7, HOME_NODE, WAIT_NS)).unwrap_err();
        assert!(matches!(refused.cause, Cause::BadInput(_)), "{refused:?}");
        with_owner(&pool, 2, usize::MAX, |other, lane| {
            let refused = pool.run(lane, other.vacate_part(lane, 0, HOME_NODE, WAIT_NS)).unwrap_err();
            assert!(matches!(refused.cause, Cause::NotOwner { .. }), "{refused:?}");
        });
        assert!((0..KEYS).all(|key| get(&pool, dex, lane, key) == Some(100 + key)));
    });
}

/// A part is cut, and another compute node gets what was cut off, while the nodes of the part leave a memory node. Returns whether
/// its change of a key there is kept.
fn what_is_cut_off_stays() -> bool {
    let pool = empty_pool_of(2);
    with_owner(&pool, 1, usize::MAX, |first, one| {
        let last = (KEYS - 1).to_be_bytes();
        fill(&pool, first, one, KEYS, 100);
        pool.run(one, first.take_part(one, 1)).unwrap();
        let (rank, end) = (first.partition().rank_of(&last), first.partition().high_of(&last));
        let begin = first.partition().boundary_of_rank(rank as u32).unwrap();
        pool.run(one, first.cut_part(one, &last, WAIT_NS)).unwrap();
        with_owner(&pool, 2, usize::MAX, |second, two| {
            pool.run(two, second.parts(two)).unwrap();
            let cut_off = first.partition().rank_of(&last) as u32;
            pool.run(one, first.move_part(one, cut_off, RowId(2), WAIT_NS)).unwrap();
            second.set_level(two, Level::Cache);
            point(&pool, second, two, OperationKind::Upsert, KEYS - 1, 500).unwrap();
            let mut moved = 0;
            for from in [HOME_NODE, SECOND_NODE] {
                pool.run(one, async {
                    let vacated = first.vacate_once(one, from, (&begin, end.as_deref()), &mut moved).await;
                    vacated.map_err(Interrupt::into_error)
                })
                .unwrap();
            }
            assert!(moved > 0);
            pool.run(two, Index::leave(second, two)).unwrap();
        });
        let found = point(&pool, first, one, OperationKind::Get, KEYS - 1, 0);
        found == Ok(Outcome::Found) && output(first, one) == 500
    })
}

#[test]
fn what_is_cut_off_is_not_vacated() {
    assert!(what_is_cut_off_stays());
    assert!(!with_planted(Some(Mutant::CUT_OFF_VACATED), what_is_cut_off_stays));
}

#[test]
fn an_owner_may_die_at_any_line_while_it_vacates() {
    dies_at_every_line_of(
        2,
        &async |first, one| _ = first.vacate_part(one, 0, HOME_NODE, WAIT_NS).await,
        |pool, second, two, told, _| {
            let before = pool.run(two, second.validate(two)).unwrap();
            let left = pool.run(two, second.vacate_part(two, 0, HOME_NODE, WAIT_NS)).unwrap();
            assert!(look(pool, second, two, told, "after the rest was moved"));
            pool.run(two, vacate_all(second, two, HOME_NODE)).unwrap();
            let census = pool.run(two, second.validate(two)).unwrap();
            assert_eq!((census.moved_links, census.records), (0, before.records), "{census:?}");
            assert!(look(pool, second, two, told, "after all was moved"));
            wipe(pool, HOME_NODE);
            assert!(look(pool, second, two, told, "without the memory node"));
            pool.run(two, second.validate(two)).unwrap();
            left == 0 && before.moved_links == 0
        },
    );
}

/// An owner changes what is in its cache only, vacates a memory node, and gives its part up. Returns whether all is there.
fn cached_changes_move_along() -> bool {
    let pool = empty_pool_of(2);
    with_owner(&pool, 1, usize::MAX, |dex, lane| {
        dex.set_level(lane, Level::Cache);
        fill(&pool, dex, lane, KEYS, 100);
        pool.run(lane, vacate_all(dex, lane, HOME_NODE)).unwrap();
        pool.run(lane, Index::leave(dex, lane)).unwrap();
    });
    with_owner(&pool, 2, usize::MAX, |dex, lane| {
        let found = |key| point(&pool, dex, lane, OperationKind::Get, key, 0);
        (0..KEYS).all(|key| found(key) == Ok(Outcome::Found) && output(dex, lane) == 100 + key)
    })
}

/// An owner dies at any line while it vacates a memory node. Returns whether the next one finds all.
fn all_is_there_after_a_death() -> bool {
    (0..60).all(|lives| {
        let pool = empty_pool_of(2);
        with_owner(&pool, 1, usize::MAX, |dex, lane| {
            dex.set_level(lane, Level::Log);
            fill(&pool, dex, lane, KEYS, 100);
            pool.lives.set(lives);
            let _ = pool.try_run(lane, vacate_all(dex, lane, HOME_NODE));
        });
        kill(&pool, 1);
        with_owner(&pool, 2, usize::MAX, |dex, lane| {
            let found = |key| point(&pool, dex, lane, OperationKind::Get, key, 0);
            (0..KEYS).all(|key| found(key) == Ok(Outcome::Found) && output(dex, lane) == 100 + key)
        })
    })
}

#[test]
fn what_is_changed_moves_along_and_outlives_a_death() {
    assert!(cached_changes_move_along());
    assert!(!with_planted(Some(Mutant::MOVED_UNGUARDED), cached_changes_move_along));
    assert!(all_is_there_after_a_death());
    assert!(!with_planted(Some(Mutant::MOVED_BEFORE_COPY), all_is_there_after_a_death));
}

/// One lane moves all nodes from one memory node to the other and back, while another one splits and joins leaves.
#[test]
fn operations_go_on_while_nodes_move() {
    let (mut moved, mut forwarded, mut joined) = (0, 0, 0);
    for seed in 1..40 {
        let pool = empty_pool_of(2);
        with_lanes_of_owner(&pool, 1, usize::MAX, |dex, lanes| {
            let [one, two, ..] = lanes else { panic!("two lanes") };
            fill(&pool, dex, one, 1, 0);
            let moves = async {
                for round in 0..6 {
                    vacate_all(dex, one, NodeId(round % 2)).await.unwrap();
                }
            };
            let operations = async {
                let mut random = Random(seed * 7 + 1);
                let mut model = BTreeMap::from([(0, 0)]);
                for step in 0..160 {
                    let key = random.below(40) as u64;
                    let kind = [OperationKind::Upsert, OperationKind::Delete, OperationKind::Get][random.below(3)];
                    // Some times nearly all is deleted.
                    let kind = if step % 80 > 50 { OperationKind::Delete } else { kind };
                    set(dex, two, key, step, 0);
                    let outcome = dex.execute(two, Operation::point(kind)).await.unwrap();
                    let before = model.get(&key).copied();
                    match kind {
                        OperationKind::Upsert => {
                            assert_eq!(outcome == Outcome::Replaced, before.is_some(), "key {key}, step {step}");
                            model.insert(key, step);
                        }
                        OperationKind::Delete => {
                            assert_eq!(outcome == Outcome::Deleted, before.is_some(), "key {key}, step {step}");
                            model.remove(&key);
                        }
                        _ => {
                            let found = (outcome == Outcome::Found).then(|| output(dex, two));
                            assert_eq!(found, before, "key {key}, step {step}");
                        }
                    }
                }
                for key in 0..40 {
                    set(dex, two, key, 0, 0);
                    let outcome = dex.execute(two, Operation::point(OperationKind::Get)).await.unwrap();
                    assert_eq!((outcome == Outcome::Found).then(|| output(dex, two)), model.get(&key).copied());
                }
            };
            let work = vec![
                (one, Box::pin(moves) as Pin<Box<dyn Future<Output = ()> + '_>>),
                (two, Box::pin(operations) as Pin<Box<dyn Future<Output = ()> + '_>>),
            ];
            let mut random = Random(seed * 31_337);
            pool.run_all(work, |able| random.below(able));
            pool.run(one, vacate_all(dex, one, HOME_NODE)).unwrap();
            let census = pool.run(one, dex.validate(one)).unwrap();
            assert_eq!((census.moved_links, census.half_splits), (0, 0), "seed {seed}: {census:?}");
            assert!(lanes.iter().all(|lane| !lane.is_unsettled()));
            moved += one.marked(Mark::NODE_MOVED);
            forwarded += two.marked(Mark::FORWARDED);
            joined += two.marked(Mark::MERGE);
        });
    }
    assert!(moved > 1000 && forwarded > 50 && joined > 30, "{moved} moves, {forwarded} forwarded, {joined} joined");
}
