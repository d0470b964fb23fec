//! Rows of compute nodes.

use crate::choices;
use crate::interleaving::{Fault, Pool, Runner, alone, race};
use dm_core::lane::Lane;
use dm_core::membership::rows;
use dm_core::memory::rows::RowError;
use dm_core::remote::SCRATCH_BYTES;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::{Joiner, Row, RowState, RowWord};
use dm_core::verbs::LaneId;
use proptest::prelude::*;

pub fn joiner(token: u64) -> Joiner<'static> {
    Joiner { token, lanes: 4, memory_nodes: 1, host: "host-\u{e9}" }
}

fn row_now(pool: &mut Pool, row: RowId) -> Row {
    let at = pool.home().row_offset(row) as usize;
    Row::from_prefix(&pool.regions[0][at..]).unwrap()
}

#[test]
fn a_compute_node_joins_beats_and_leaves() {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    lane!(lane);
    let me = joiner(0xfeed_0000_0001);
    let member = alone(&mut pool, &lane, None, rows::join(&lane, &home, &me, 0)).unwrap();
    assert_eq!((member.row, member.incarnation), (RowId(1), 1));
    alone(&mut pool, &lane, None, rows::heartbeat(&lane, &home, member, 42, 7, 0)).unwrap();
    let row = row_now(&mut pool, member.row);
    let life = row.decode().unwrap().life.unwrap();
    assert_eq!((life.heartbeat, life.epoch, life.lanes, life.host), (42, 7, 4, "host-\u{e9}"));

    alone(&mut pool, &lane, None, rows::leave(&lane, &home, member, true)).unwrap();
    assert_eq!(row_now(&mut pool, member.row).decode().unwrap().life, None);
    let gone = alone(&mut pool, &lane, None, rows::heartbeat(&lane, &home, member, 43, 7, 0));
    assert!(matches!(gone, Err(RowError::Fenced { .. })));
    // The row's next incarnation has another name.
    let next = alone(&mut pool, &lane, None, rows::join(&lane, &home, &joiner(2), 0)).unwrap();
    assert_eq!((next.row, next.incarnation), (RowId(1), 2));
    // A late leave of the first incarnation does not end the second.
    alone(&mut pool, &lane, None, rows::leave(&lane, &home, member, true)).unwrap();
    assert_eq!(row_now(&mut pool, next.row).decode().unwrap().state, RowState::Live);
}

#[test]
fn rows_that_await_a_sweep_or_are_used_up_are_not_joined() {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    lane!(lane);
    let member = alone(&mut pool, &lane, None, rows::join(&lane, &home, &joiner(5), 0)).unwrap();
    alone(&mut pool, &lane, None, rows::leave(&lane, &home, member, false)).unwrap();
    assert_eq!(row_now(&mut pool, member.row).decode().unwrap().state, RowState::Fencing);
    let used_up = RowWord::new(RowState::Free, 0, dm_core::remote::row::INCARNATION_MAX);
    *pool.word(0, home.row_offset(RowId(2))) = used_up.0.to_le_bytes();
    let next = alone(&mut pool, &lane, None, rows::join(&lane, &home, &joiner(5), 0)).unwrap();
    assert_eq!(next.row, RowId(3));
    let live = RowWord::new(RowState::Live, 99, 1).0;
    for row in 4..home.row_count {
        *pool.word(0, home.row_offset(RowId(row as u16))) = live.to_le_bytes();
    }
    let full = alone(&mut pool, &lane, None, rows::join(&lane, &home, &joiner(6), 0));
    assert_eq!(full, Err(RowError::NoFreeRow { rows: 127, live: 125, fenced: 1, used_up: 1 }));
    assert_eq!(alone(&mut pool, &lane, None, rows::join(&lane, &home, &joiner(1 << 28), 0)), Err(RowError::BadToken));
}

#[test]
fn a_join_is_retried_after_any_request_failed() {
    for effect in [false, true] {
        for position in 0..140 {
            let mut pool = Pool::new(1, 4);
            let home = pool.home();
            let me = joiner(0x1234_5678);
            lane!(first);
            let join = rows::join(&first, &home, &me, 0);
            let Err(error) = alone(&mut pool, &first, Some(Fault { position, effect }), join) else { continue };
            assert!(matches!(error, RowError::Verb(error) if error.effect_unknown()), "{error}");
            lane!(again);
            let member = alone(&mut pool, &again, None, rows::join(&again, &home, &me, 0)).unwrap();
            assert_eq!(member.row, RowId(1));
            let row = row_now(&mut pool, RowId(1));
            assert_eq!(row.decode().unwrap().life.unwrap().token, me.token);
            assert_eq!(row_now(&mut pool, RowId(2)).decode().unwrap().state, RowState::Free);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn joiners_get_rows_of_their_own(choices in choices(), joiners in 2..5_usize) {
        let mut pool = Pool::new(1, 4);
        let home = pool.home();
        let mut scratches = vec![[0; SCRATCH_BYTES]; joiners];
        let lanes: Vec<Lane<'_>> = scratches.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
        let who: Vec<_> = (0..joiners).map(|number| joiner(number as u64 + 1)).collect();
        let runners = lanes.iter().zip(&who).map(|(lane, who)| Runner::new(lane, rows::join(lane, &home, who, 0)));
        let results = race(&mut pool, runners.collect(), &choices);
        let mut taken = std::collections::HashSet::new();
        for (result, who) in results.iter().zip(&who) {
            let member = result.unwrap();
            prop_assert!(taken.insert(member.row));
            let row = row_now(&mut pool, member.row);
            prop_assert_eq!(row.decode().unwrap().life.unwrap().token, who.token);
        }
    }
}
