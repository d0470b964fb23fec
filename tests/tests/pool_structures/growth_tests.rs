//! A pool that gets a memory node while compute nodes join.

use crate::choices;
use crate::interleaving::{Pool, Runner, alone, race};
use crate::row_tests::joiner;
use dm_core::lane::Lane;
use dm_core::membership::{growth, rows};
use dm_core::memory::rows::RowError;
use dm_core::remote::NodeGeometry;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::{Joiner, Row};
use proptest::prelude::*;

/// One that knows so many memory nodes.
fn knows(memory_nodes: u16, token: u64) -> Joiner<'static> {
    Joiner { memory_nodes, ..joiner(token) }
}

#[derive(Debug)]
enum Came {
    /// A compute node that knows one memory node.
    Joined(Result<(), RowError>),
    /// To the end of a look: how many may not know both memory nodes.
    Behind(usize),
}

async fn joins(lane: &Lane<'_>, home: &NodeGeometry, me: &Joiner<'_>) -> Came {
    let member = rows::join(lane, home, me, 0).await.unwrap();
    let confirmed = growth::confirm(lane, home, me.memory_nodes, 0).await;
    if confirmed.is_err() {
        rows::leave(lane, home, member, true).await.unwrap();
    }
    Came::Joined(confirmed)
}

/// Asks before it claims a row: wrong.
async fn joins_late(lane: &Lane<'_>, home: &NodeGeometry, me: &Joiner<'_>) -> Came {
    let confirmed = growth::confirm(lane, home, me.memory_nodes, 0).await;
    rows::join(lane, home, me, 0).await.unwrap();
    Came::Joined(confirmed)
}

async fn adds(lane: &Lane<'_>, home: &NodeGeometry) -> Came {
    growth::announce(lane, home, (1, 1), 0).await.unwrap();
    let mut count = 0;
    growth::behind(lane, home, 2, 0, &mut |_| count += 1).await.unwrap();
    Came::Behind(count)
}

/// If the adder saw no compute node that knows one memory node, none may be in the pool.
fn is_sound(came: &[Came]) -> bool {
    !matches!(came, [Came::Joined(Ok(())), Came::Behind(0)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_compute_node_that_joins_while_a_memory_node_is_added_is_seen_or_leaves(choices in choices()) {
        let mut pool = Pool::new(2, 4);
        let home = pool.home();
        let me = knows(1, 0x5_0000_0001);
        lane!(one);
        lane!(two);
        let runners = vec![Runner::new(&one, joins(&one, &home, &me)), Runner::new(&two, adds(&two, &home))];
        let came = race(&mut pool, runners, &choices);
        prop_assert!(is_sound(&came), "{:?}", came);
    }
}

#[test]
fn one_that_asks_before_it_claims_a_row_would_be_missed() {
    let mut pool = Pool::new(2, 4);
    let home = pool.home();
    let me = knows(1, 0x5_0000_0001);
    lane!(one);
    lane!(two);
    let runners = vec![Runner::new(&one, joins_late(&one, &home, &me)), Runner::new(&two, adds(&two, &home))];
    // The answer to its question, then all that the other one does.
    let came = race(&mut pool, runners, &[(0, 3), (1, 200)]);
    assert!(!is_sound(&came), "{came:?}");
}

#[test]
fn rows_that_may_not_know_a_memory_node_are_told() {
    let mut pool = Pool::new(2, 4);
    let home = pool.home();
    lane!(lane);
    let join = |pool: &mut Pool, me: &Joiner<'_>| alone(pool, &lane, None, rows::join(&lane, &home, me, 0)).unwrap();
    let old = join(&mut pool, &knows(1, 1));
    let new = join(&mut pool, &knows(2, 2));
    // What the last one in the row knew says nothing of one that has only claimed it.
    let gone = join(&mut pool, &knows(2, 3));
    alone(&mut pool, &lane, None, rows::leave(&lane, &home, gone, true)).unwrap();
    let claims = alone(&mut pool, &lane, None, rows::claim(&lane, &home, &knows(2, 4), 0)).unwrap();
    assert_eq!(claims.row, gone.row);
    let behind = |pool: &mut Pool| {
        let mut rows = Vec::new();
        alone(pool, &lane, None, growth::behind(&lane, &home, 2, 0, &mut |row| rows.push(row))).unwrap();
        rows
    };
    assert_eq!(behind(&mut pool), [old.row, claims.row]);
    // The compute node that fences it may know one memory node.
    alone(&mut pool, &lane, None, rows::leave(&lane, &home, new, false)).unwrap();
    assert_eq!(behind(&mut pool), [old.row, new.row, claims.row]);
    alone(&mut pool, &lane, None, rows::leave(&lane, &home, old, true)).unwrap();
    assert_eq!(behind(&mut pool), [new.row, claims.row]);
}

#[test]
fn a_memory_node_is_added_once_and_strange_words_are_told() {
    let mut pool = Pool::new(3, 4);
    let home = pool.home();
    lane!(lane);
    let announce = |pool: &mut Pool, counts| alone(pool, &lane, None, growth::announce(&lane, &home, counts, 0));
    let now = |pool: &mut Pool| alone(pool, &lane, None, growth::memory_nodes(&lane, &home, 0));
    assert_eq!(now(&mut pool), Ok(0));
    // Not the number of memory nodes that there are.
    assert_eq!(announce(&mut pool, (3, 4)), Err(RowError::Grown { known: 5, memory_nodes: 3 }));
    for _ in 0..2 {
        assert_eq!(announce(&mut pool, (3, 3)), Ok(()));
        assert_eq!(now(&mut pool), Ok(4));
    }
    assert_eq!(announce(&mut pool, (3, 4)), Ok(()));
    assert_eq!(announce(&mut pool, (3, 3)), Err(RowError::Grown { known: 4, memory_nodes: 5 }));
    let at = home.row_offset(RowId(0)) + std::mem::offset_of!(Row, incarnation) as u64;
    pool.word(0, at)[0] = 1;
    assert!(matches!(now(&mut pool), Err(RowError::Corrupt { row: RowId(0), .. })));
}
