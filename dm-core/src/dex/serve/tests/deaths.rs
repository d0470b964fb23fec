//! An owner that dies at any line that lands, and the compute nodes that recover what it had.

use super::*;
use crate::membership::Numbers;
use crate::membership::lease::{Lease, LeaseConfig, ProgressCounter};
use crate::mutants::{Mutant, with_planted};

use crate::membership::redo::{self, Area};
use crate::remote::catalog::{IndexSet, owners_offset};
use crate::remote::row::{Joiner, Row, RowState};
use crate::remote::superblock::{PoolPlan, Superblock};
use zerocopy::IntoBytes;

/// Every key is in the first entry, whose leaves have room for few records. Few frames: most operations evict.
const CROWDED: Setup = Setup { leaf_span: 4, frames: 8, lanes: 2, entries: 2, owned: 2, ..SETUP };

pub(super) const KEYS: u64 = 14;

fn member_of(row: u16) -> Member {
    Member { row: RowId(row), incarnation: 1, nonce: u32::from(row) }
}

/// A pool with a superblock, and nothing in it.
pub(super) fn empty_pool() -> Pool {
    empty_pool_of(1)
}

/// The same of so many memory nodes.
pub(super) fn empty_pool_of(nodes: usize) -> Pool {
    let pool = Pool::of(nodes);
    let geometry = pool.geometry;
    let plan = PoolPlan {
        pool_id: [5; 16],
        pool_incarnation: POOL_INCARNATION,
        node: NodeId(0),
        nodes: nodes as u16,
        region_bytes: geometry.region_bytes,
        chunk_bytes: geometry.chunk_bytes,
        lock_count: geometry.lock_count,
        device_bytes: 0,
        redo_row_bytes: 0,
        index_count: geometry.index_count,
    };
    let superblock: Superblock = plan.format().unwrap();
    pool.region.borrow_mut()[..Superblock::BYTES].copy_from_slice(superblock.as_bytes());
    pool
}

/// The compute node of a row is fenced.
pub(super) fn kill(pool: &Pool, row: u16) {
    pool.lives.set(usize::MAX);
    let (word, at) = (member_of(row).word().with_state(RowState::Dead), pool.geometry.row_offset(RowId(row)) as usize);
    pool.region.borrow_mut()[at..at + 8].copy_from_slice(&word.0.to_le_bytes());
}

/// The owner of row 1 does its work, and dies after 0, 1, 2 and so on more lines of what it does then. That of row 2 finds what was told,
/// and `then` says whether what was begun has taken effect, of which it gets the word of entry 0: after two of these all deaths were tried.
pub(super) fn dies_at_every_line(
    begin: &impl AsyncFn(&Dex<'_>, &Lane<'_>),
    then: impl FnMut(&Pool, &Dex<'_>, &Lane<'_>, &Told, OwnerWord) -> bool,
) {
    dies_at_every_line_of(1, begin, then);
}

/// The same on so many memory nodes.
pub(super) fn dies_at_every_line_of(
    nodes: usize,
    begin: &impl AsyncFn(&Dex<'_>, &Lane<'_>),
    mut then: impl FnMut(&Pool, &Dex<'_>, &Lane<'_>, &Told, OwnerWord) -> bool,
) {
    let (mut deaths, mut done) = (0, 0);
    for lives in 0.. {
        let (pool, mut told) = (empty_pool_of(nodes), Told::default());
        with_owner(&pool, 2, usize::MAX, |second, two| {
            pool.run(two, second.take_part(two, 1)).unwrap();
            with_owner(&pool, 1, usize::MAX, |first, one| {
                work(&pool, first, one, Level::Log, &mut told);
                pool.lives.set(lives);
                let _ = pool.try_run(one, begin(first, one));
            });
            deaths += u32::from(pool.lives.get() == 0);
            let word = owner_word(&pool, 0);
            kill(&pool, 1);
            assert!(look(&pool, second, two, &told, &std::format!("after {lives} lines")));
            pool.run(two, second.validate(two)).unwrap();
            done += u32::from(then(&pool, second, two, &told, word));
        });
        if done == 2 {
            break;
        }
    }
    assert!(deaths > 5, "{deaths}");
}

/// A compute node that joins, and dies when `lives` more lines have landed.
pub(super) fn with_owner<R>(pool: &Pool, row: u16, lives: usize, test: impl FnOnce(&Dex<'_>, &Lane<'_>) -> R) -> R {
    with_lanes_of_owner(pool, row, lives, |dex, lanes| test(dex, &lanes[0]))
}

/// The same with all its lanes.
pub(super) fn with_lanes_of_owner<R>(
    pool: &Pool,
    row: u16,
    lives: usize,
    test: impl FnOnce(&Dex<'_>, &[Lane<'_>]) -> R,
) -> R {
    let (member, geometry, setup) = (member_of(row), vec![pool.geometry; pool.nodes()], CROWDED);
    let memory_nodes = pool.nodes() as u16;
    let joiner = Joiner { token: u64::from(member.nonce), lanes: setup.lanes, memory_nodes, host: "here" };
    let at = pool.geometry.row_offset(member.row) as usize;
    pool.region.borrow_mut()[at..at + Row::BYTES].copy_from_slice(Row::of(member, &joiner).as_bytes());
    let (mut room, mut areas) = (vec![0; 4096], vec![Area::default(); pool.nodes()]);
    let node_bytes = setup.parameters().redo_bytes();
    let lane = Lane::new(LaneId(0), &mut room);
    let mut open = IndexSet::default();
    open.insert(IndexNumber::new(NUMBER).unwrap());
    let (requests, numbers) = (RequestIds::new(), Numbers::new());
    let prepared = redo::prepare(&lane, &geometry, member, &open, &requests, setup.lanes, node_bytes, 0, &mut areas);
    pool.run(&lane, prepared).unwrap();
    let lease = Lease::new(LeaseConfig::HARDWARE);
    let counters: Vec<ProgressCounter> = (0..setup.lanes).map(|_| ProgressCounter::default()).collect();
    let recovery = Recovery::new(member, &lease, &counters, &areas, &numbers, &capabilities()).unwrap();
    pool.lives.set(lives);
    with_member(pool, setup, member, Some(&recovery), test)
}

/// What was acknowledged, and what was under way.
#[derive(Default)]
pub(super) struct Told {
    records: BTreeMap<u64, u64>,
    /// The key of the operation that never answered, and its value; `None`: a delete.
    pending: Option<(u64, Option<u64>)>,
}

/// Inserts in an order that splits leaves in their middle, updates and deletes; then deletes until leaves are joined, and
/// inserts again. Returns when all is done, or the compute node has died.
pub(super) fn work(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>, level: Level, told: &mut Told) {
    dex.set_level(lane, level);
    let mixed = (0..3 * KEYS).map(|step| (step * 5 % KEYS, (step % 7 != 6).then_some(100 + step)));
    let emptied = (3..KEYS).rev().map(|key| (key, None));
    let again = (0..KEYS / 2).map(|key| (key * 2, Some(200 + key)));
    for (key, value) in mixed.chain(emptied).chain(again) {
        told.pending = Some((key, value));
        set(dex, lane, key, value.unwrap_or_default(), 0);
        let kind = if value.is_some() { OperationKind::Upsert } else { OperationKind::Delete };
        let Some(done) = pool.try_run(lane, dex.execute(lane, Operation::point(kind))) else { return };
        done.unwrap();
        match value {
            Some(value) => told.records.insert(key, value),
            None => told.records.remove(&key),
        };
    }
    told.pending = None;
}

/// Every key has the value that was acknowledged last; the pending one may have its own instead. Returns whether the
/// compute node has lived to see all.
pub(super) fn look(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>, told: &Told, what: &str) -> bool {
    for key in 0..KEYS {
        set(dex, lane, key, 0, 0);
        let found = match pool.try_run(lane, dex.execute(lane, Operation::point(OperationKind::Get))) {
            None => return false,
            Some(Ok(Outcome::Found)) => Some(output(dex, lane)),
            Some(Ok(Outcome::Absent)) => None,
            Some(other) => panic!("{what}: key {key}: {other:?}"),
        };
        let acknowledged = told.records.get(&key).copied();
        let may_be = told.pending.is_some_and(|(pending, value)| pending == key && value == found);
        assert!(
            found == acknowledged || may_be,
            "{what}: key {key} is {found:?}, and {acknowledged:?} was acknowledged"
        );
    }
    true
}

pub(super) fn owner_word(pool: &Pool, entry: u32) -> OwnerWord {
    let region = pool.region.borrow();
    let word = |at: u64| u64::from_le_bytes(region[at as usize..][..8].try_into().unwrap());
    let table = crate::remote::address::Address::from_bits(word(owners_offset(
        &pool.geometry,
        IndexNumber::new(NUMBER).unwrap(),
    )));
    OwnerWord(word(table.offset() + TableShape::word_at(entry) as u64))
}

#[test]
fn an_index_opens_itself_and_is_given_up() {
    let pool = empty_pool();
    let mut told = Told::default();
    with_owner(&pool, 1, usize::MAX, |dex, lane| {
        assert_eq!(get(&pool, dex, lane, 3), None, "no leaves yet");
        work(&pool, dex, lane, Level::Cache, &mut told);
        assert_eq!(owner_word(&pool, 0).decode(), Ok(Owner::Owned(RowId(1))));
        assert_eq!(owner_word(&pool, 1).decode(), Ok(Owner::Free), "nobody has asked for it");
        pool.run(lane, Index::leave(dex, lane)).unwrap();
        assert_eq!(owner_word(&pool, 0).decode(), Ok(Owner::Free));
        let refused = point(&pool, dex, lane, OperationKind::Get, 3, 0).unwrap_err();
        assert!(matches!(refused.cause, Cause::NotOwner { row: RowId(0), .. }), "{refused:?}");
    });
    with_owner(&pool, 2, usize::MAX, |dex, lane| {
        assert!(look(&pool, dex, lane, &told, "the next owner"));
        let census = pool.run(lane, dex.validate(lane)).unwrap();
        assert_eq!(census.records, told.records.len() as u64);
        assert_eq!(owner_word(&pool, 0).decode(), Ok(Owner::Owned(RowId(2))));
    });
}

#[test]
fn a_part_is_taken_unless_its_owner_lives() {
    let (pool, mut told) = (empty_pool(), Told::default());
    with_owner(&pool, 1, usize::MAX, |dex, lane| {
        work(&pool, dex, lane, Level::Log, &mut told);
        with_owner(&pool, 2, usize::MAX, |other, lane| {
            assert_eq!(pool.run(lane, Index::parts(other, lane)), Ok(2));
            assert_eq!(pool.run(lane, other.take_part(lane, 1)), Ok(()), "nobody had it");
            assert_eq!(owner_word(&pool, 1).decode(), Ok(Owner::Owned(RowId(2))));
            assert_eq!(pool.run(lane, other.take_part(lane, 1)), Ok(()), "it is this compute node's");
            assert!(pool.run(lane, other.take_part(lane, 2)).is_err(), "there is no such part");
            kill(&pool, 1);
            assert_eq!(pool.run(lane, other.take_part(lane, 0)), Ok(()));
            assert!(look(&pool, other, lane, &told, "the one that took it"));
            pool.run(lane, Index::leave(other, lane)).unwrap();
            let refused = pool.run(lane, other.take_part(lane, 0)).unwrap_err();
            assert!(matches!(refused.cause, Cause::NotOwner { row: RowId(0), .. }), "{refused:?}");
        });
    });
}

#[test]
fn an_owner_may_die_at_any_line() {
    for level in [Level::Log, Level::Pool] {
        let mut deaths = 0;
        for lives in 0.. {
            let (pool, mut told) = (empty_pool(), Told::default());
            with_owner(&pool, 1, lives, |dex, lane| work(&pool, dex, lane, level, &mut told));
            let died = pool.lives.get() == 0;
            kill(&pool, 1);
            with_owner(&pool, 2, usize::MAX, |dex, lane| {
                assert!(look(&pool, dex, lane, &told, &std::format!("{} after {lives} lines", level.name())));
                pool.run(lane, dex.validate(lane)).unwrap();
            });
            if !died {
                break;
            }
            deaths += 1;
        }
        assert!(deaths > 50, "{deaths}");
    }
}

#[test]
fn a_finder_may_die_at_any_line_too() {
    let mut deaths = 0;
    for first in (30..).step_by(13).take(8) {
        for lives in (0..).step_by(2) {
            let (pool, mut told) = (empty_pool(), Told::default());
            with_owner(&pool, 1, first, |dex, lane| work(&pool, dex, lane, Level::Log, &mut told));
            kill(&pool, 1);
            let what = std::format!("after {first} and {lives} lines");
            let lived = with_owner(&pool, 2, lives, |dex, lane| look(&pool, dex, lane, &told, &what));
            kill(&pool, 2);
            with_owner(&pool, 3, usize::MAX, |dex, lane| {
                assert!(look(&pool, dex, lane, &told, &what));
                pool.run(lane, dex.validate(lane)).unwrap();
            });
            if lived {
                break;
            }
            deaths += 1;
        }
    }
    assert!(deaths > 20, "{deaths}");
}

#[test]
fn a_leaf_on_its_way_is_work_that_the_heartbeat_vouches_for() {
    let pool = empty_pool();
    with_owner(&pool, 1, usize::MAX, |dex, lane| {
        work(&pool, dex, lane, Level::Log, &mut Told::default());
        pool.run(lane, dex.leave(lane)).unwrap();
    });
    // All that this one does is to READ leaves.
    with_owner(&pool, 2, usize::MAX, |dex, lane| {
        let counter = dex.tree.recovery.unwrap().progress_counter(lane).unwrap();
        let mut fills = 0;
        for key in 0..KEYS {
            set(dex, lane, key, 0, 0);
            let mut future = Box::pin(dex.execute(lane, Operation::point(OperationKind::Get)));
            lane.port().start();
            loop {
                match poll_once(lane.port(), future.as_mut()) {
                    Step::Done(result) => break assert!(result.is_ok(), "{result:?}"),
                    Step::Waiting => {}
                    Step::Requests => {
                        fills += counter.under_way();
                        pool.execute(lane);
                    }
                }
            }
            assert_eq!(counter.under_way(), 0, "a get has ended");
        }
        assert!(fills > 0);
    });
}

/// An owner dies in a merge, and what it owned is taken by a compute node whose copies of inner nodes are older than the
/// merge: they lead to the leaf that was joined to its neighbour. Returns whether another one finds all that it changed.
fn old_routes_to_a_joined_leaf_lose_nothing() -> bool {
    for lives in 0.. {
        let (pool, mut told, mut died) = (empty_pool(), Told::default(), false);
        with_owner(&pool, 1, usize::MAX, |dex, lane| {
            for key in 0..KEYS {
                point(&pool, dex, lane, OperationKind::Insert, key, 100 + key).unwrap();
                told.records.insert(key, 100 + key);
            }
            with_owner(&pool, 2, usize::MAX, |other, its_lane| {
                // The first leaf of the second entry has the same parent as the last ones of the first.
                get(&pool, other, its_lane, WIDTH);
                pool.lives.set(lives);
                for key in (1..KEYS).rev() {
                    set(dex, lane, key, 0, 0);
                    told.pending = Some((key, None));
                    if pool.try_run(lane, dex.execute(lane, Operation::point(OperationKind::Delete))).is_none() {
                        died = true;
                        break;
                    }
                    told.records.remove(&key);
                }
                if died {
                    kill(&pool, 1);
                    look(&pool, other, its_lane, &told, &std::format!("after {lives} lines"));
                    for key in 0..KEYS {
                        point(&pool, other, its_lane, OperationKind::Upsert, key, 200 + key).unwrap();
                    }
                    pool.run(its_lane, Index::leave(other, its_lane)).unwrap();
                }
            });
        });
        if !died {
            assert!(lives > 20, "{lives}");
            return true;
        }
        let found = with_owner(&pool, 3, usize::MAX, |dex, lane| {
            let all = (0..KEYS).all(|key| get(&pool, dex, lane, key) == Some(200 + key));
            all && pool.run(lane, dex.validate(lane)).is_ok_and(|census| census.records == KEYS)
        });
        if !found {
            return false;
        }
    }
    true
}

#[test]
fn a_leaf_that_was_joined_is_retired_before_its_neighbour_has_its_keys() {
    assert!(old_routes_to_a_joined_leaf_lose_nothing());
    assert!(!with_planted(Some(Mutant::LEFT_BEFORE_RETIRED), old_routes_to_a_joined_leaf_lose_nothing));
}
