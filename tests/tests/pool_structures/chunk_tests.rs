//! The chunk table.

use crate::interleaving::{Fault, Pool, Runner, alone, race};
use crate::{choices, member};
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::memory::chunks;
use dm_core::memory::chunks::{Granted, RequestIds, Tally, Want};
use dm_core::remote::SCRATCH_BYTES;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, ChunkWord, Grant, RequestId};
use dm_core::verbs::{LaneId, NodeId};
use proptest::prelude::*;

pub fn want(row: u16, request: u32) -> Want {
    let request = RequestId::new(request).unwrap();
    let grant = Grant::new(member(row), ChunkKind::Leaf, IndexNumber::new(0).unwrap(), request);
    Want { grant, retry: false, reuse: false, hint: u32::from(row) * 70 }
}

pub fn tally(pool: &mut Pool, node: u16) -> Tally {
    lane!(lane);
    let geometry = pool.geometries[usize::from(node)];
    let mut tally = Tally::default();
    let mut visit = |_, entry| tally.count(entry);
    alone(pool, &lane, None, chunks::walk(&lane, NodeId(node), &geometry, 0, &mut visit)).unwrap();
    tally
}

#[test]
fn a_table_is_granted_to_its_last_chunk_and_no_further() {
    let mut pool = Pool::new(2, 150);
    let geometries = pool.geometries.clone();
    lane!(lane);
    let mut seen = std::collections::HashSet::new();
    let requests = RequestIds::new();
    let mut hint = 149;
    for step in 0..300 {
        let request = requests.next().unwrap().get();
        let want = Want { hint, ..want(1, request) };
        let grant = chunks::grant_any(&lane, &geometries, NodeId(1), &want, 0);
        let granted = alone(&mut pool, &lane, None, grant).unwrap().unwrap();
        assert_eq!(granted.node, NodeId(u16::from(step < 150)), "near first");
        assert!(seen.insert((granted.node, granted.offset)), "{granted:?} was granted before");
        assert_eq!(geometries[0].chunk_of(granted.offset + 4095), Some(granted.chunk));
        hint = granted.chunk;
    }
    let one_more = want(1, 999);
    let full = chunks::grant_any(&lane, &geometries, NodeId(1), &one_more, 0);
    assert_eq!(alone(&mut pool, &lane, None, full), Ok(None));
    assert_eq!(tally(&mut pool, 0).granted[0][ChunkKind::Leaf as usize], 150);
    assert_eq!(lane.marked(Mark::CHUNK_GRANTED), 300);
}

#[test]
fn a_chunk_that_was_used_is_not_granted_as_new() {
    let mut pool = Pool::new(1, 1);
    let home = pool.home();
    lane!(lane);
    let grant = |pool: &mut Pool, request, reuse| -> Option<Granted> {
        let want = Want { reuse, ..want(1, request) };
        alone(pool, &lane, None, chunks::grant(&lane, NodeId(0), &home, &want, 0)).unwrap()
    };
    let quiet = grant(&mut pool, 0, false).unwrap();
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &home, &quiet, false)), Ok(true));
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &home, &quiet, false)), Ok(false));
    let busy = grant(&mut pool, 1, false).unwrap();
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &home, &busy, true)), Ok(true));
    assert_eq!(tally(&mut pool, 0), Tally { used: 1, ..Tally::default() });
    assert_eq!(grant(&mut pool, 2, false), None);
    let again = grant(&mut pool, 3, true).unwrap();
    assert!(again.used);
    // Once used, always used.
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &home, &again, false)), Ok(true));
    assert_eq!(grant(&mut pool, 4, false), None);
}

#[test]
fn a_grant_is_retried_after_any_request_failed() {
    for effect in [false, true] {
        for position in 0..12 {
            let mut pool = Pool::new(2, 70);
            let geometries = pool.geometries.clone();
            lane!(first);
            let want = Want { hint: 69, ..want(1, 3) };
            let grant = chunks::grant_any(&first, &geometries, NodeId(1), &want, 0);
            let Err(error) = alone(&mut pool, &first, Some(Fault { position, effect }), grant) else { continue };
            assert!(error.effect_unknown());
            lane!(again);
            let retry = Want { retry: true, hint: 3, ..want };
            let grant = chunks::grant_any(&again, &geometries, NodeId(0), &retry, 0);
            assert!(alone(&mut pool, &again, None, grant).unwrap().is_some());
            let total = tally(&mut pool, 0).granted_total() + tally(&mut pool, 1).granted_total();
            assert_eq!(total, 1, "one request, one chunk");
        }
    }
}

#[test]
fn a_dead_owners_chunk_has_one_heir() {
    let mut pool = Pool::new(1, 2);
    let home = pool.home();
    lane!(lane);
    let grant = want(1, 0);
    let granted = alone(&mut pool, &lane, None, chunks::grant(&lane, NodeId(0), &home, &grant, 0)).unwrap().unwrap();
    let heirs = [want(2, 0).grant, want(3, 0).grant];
    let mut inherit =
        |heir| alone(&mut pool, &lane, None, chunks::inherit(&lane, NodeId(0), &home, 0, &grant.grant, heir)).unwrap();
    assert_eq!([inherit(&heirs[0]), inherit(&heirs[1])], [true, false]);
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &home, &granted, true)), Ok(false));
}

#[test]
fn what_is_withheld_is_not_granted_until_it_is_given_back() {
    // Two windows of the table.
    let mut pool = Pool::new(2, 70);
    let geometries = pool.geometries.clone();
    lane!(lane);
    let grant = |pool: &mut Pool, request, near| {
        let want = Want { reuse: true, ..want(1, request) };
        alone(pool, &lane, None, chunks::grant_any(&lane, &geometries, NodeId(near), &want, 0)).unwrap().unwrap()
    };
    let withhold = |pool: &mut Pool, withholds| {
        let node = (NodeId(0), &geometries[0]);
        alone(pool, &lane, None, chunks::withhold(&lane, node, withholds, 0)).unwrap()
    };
    let (used, kept) = (grant(&mut pool, 0, 0), grant(&mut pool, 1, 0));
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &geometries[0], &used, true)), Ok(true));
    assert_eq!(withhold(&mut pool, true), 69);
    let granted = tally(&mut pool, 0).granted;
    assert_eq!(tally(&mut pool, 0), Tally { withheld: 69, granted, ..Tally::default() });
    assert_eq!(grant(&mut pool, 2, 0).node, NodeId(1), "the other one has room");
    // What is given back meanwhile may be granted, until it is withheld, too.
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &geometries[0], &kept, false)), Ok(true));
    assert_eq!([withhold(&mut pool, true), withhold(&mut pool, true)], [1, 0]);
    assert_eq!(tally(&mut pool, 0), Tally { withheld: 70, ..Tally::default() });
    // Redo images have to lie there.
    let mut redo = want(1, 4);
    redo.grant.kind = ChunkKind::Redo;
    let granted =
        alone(&mut pool, &lane, None, chunks::grant(&lane, NodeId(0), &geometries[0], &redo, 0)).unwrap().unwrap();
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &geometries[0], &granted, true)), Ok(true));
    assert_eq!(withhold(&mut pool, true), 0);
    assert_eq!([withhold(&mut pool, false), withhold(&mut pool, false)], [69, 0]);
    assert_eq!(tally(&mut pool, 0), Tally { used: 2, free: 68, ..Tally::default() }, "each as it was");
    assert_eq!(grant(&mut pool, 3, 0).node, NodeId(0));
}

#[test]
fn request_numbers_end() {
    assert_eq!(RequestId::new(dm_core::remote::chunk::REQUESTS_MAX), None);
    let requests = RequestIds::new();
    assert!((0..dm_core::remote::chunk::REQUESTS_MAX).all(|number| requests.next() == RequestId::new(number)));
    assert_eq!((requests.next(), requests.next()), (None, None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn granters_get_chunks_of_their_own(choices in choices(), granters in 2..5_usize, hint in any::<u32>()) {
        // Three chunks: of more granters than that, all but three learn that the node is full.
        let mut pool = Pool::new(1, 3);
        let home = pool.home();
        let mut scratches = vec![[0; SCRATCH_BYTES]; granters];
        let lanes: Vec<Lane<'_>> = scratches.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
        let wants: Vec<_> = (0..granters).map(|row| Want { hint, ..want(row as u16 + 1, 0) }).collect();
        let runners = lanes.iter().zip(&wants).map(|(lane, want)| {
            Runner::new(lane, chunks::grant(lane, NodeId(0), &home, want, 0))
        });
        let results = race(&mut pool, runners.collect(), &choices);
        let granted: Vec<_> = results.iter().filter_map(|result| result.unwrap()).collect();
        let offsets: std::collections::HashSet<_> = granted.iter().map(|granted| granted.offset).collect();
        prop_assert_eq!((granted.len(), offsets.len()), (granters.min(3), granters.min(3)));
        prop_assert_eq!(tally(&mut pool, 0).granted_total() as usize, granters.min(3));
        let lost: u32 = lanes.iter().map(|lane| lane.marked(Mark::CHUNK_RACE_LOST)).sum();
        let won: u32 = lanes.iter().map(|lane| lane.marked(Mark::CHUNK_GRANTED)).sum();
        prop_assert!(won as usize == granters.min(3) && lost <= 12);
    }

    #[test]
    fn a_chunk_word_is_read_as_it_was_written(bits in any::<u64>(), small in 0..4096_u64) {
        for bits in [bits, small, bits & !0x7f | 0x09] {
            if let Ok(ChunkEntry::Granted(grant)) = ChunkWord(bits).decode() {
                prop_assert_eq!(grant.word(), ChunkWord(bits));
            }
        }
    }
}
