//! Which pages leave.

use super::*;
use crate::mutants::{Mutant, with_planted};

/// A stream of pages through a small store, every third of which is changed and not flushed until the store is full of
/// such pages. Whether no change is lost.
fn no_unflushed_change_is_evicted() -> bool {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let one = lane(0);
    let mut pool = [0u32; 64];
    let mut truth = pool;
    let mut intact = true;
    for turn in 1..2_000u32 {
        let at = (turn * 7 % 64) as usize;
        let name = match store.find(&one, page(at as u64), Admit::Always) {
            Found::Frame(name) => name,
            Found::Mine(fill) => store.admit(&one, &fill, &image(pool[at])).unwrap(),
            Found::NoFrame => {
                let mut out = [0; 64];
                let Some(staged) = store.stage(&one, Flush::Victim, &mut out).unwrap() else {
                    let staged = store.stage(&one, Flush::Oldest, &mut out).unwrap().expect("a dirty page");
                    let at = (0..64).find(|at| page(*at) == staged.id()).unwrap();
                    pool[at as usize] = u32::from_le_bytes(*out.first_chunk().unwrap());
                    store.flushed(&one, &staged, true).unwrap();
                    continue;
                };
                let at = (0..64).find(|at| page(*at) == staged.id()).unwrap();
                pool[at as usize] = u32::from_le_bytes(*out.first_chunk().unwrap());
                store.flushed(&one, &staged, true).unwrap();
                continue;
            }
            other => panic!("{other:?}"),
        };
        intact &= number(&store, name) == Ok(truth[at]);
        if turn % 3 == 0 {
            set(&store, &one, name, turn, u64::from(turn)).unwrap();
            truth[at] = turn;
        }
    }
    assert!(store.total_counts().evictions > 100);
    intact
}

#[test]
fn only_clean_pages_are_evicted() {
    assert!(no_unflushed_change_is_evicted());
    assert!(!with_planted(Some(Mutant::DIRTY_EVICTED), no_unflushed_change_is_evicted));
}

#[test]
fn a_victim_that_is_dirty_is_named_to_the_lane_that_flushes() {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let one = lane(0);
    for at in 0..8 {
        let name = bring(&store, &one, page(at), 0);
        set(&store, &one, name, 1, at + 1).unwrap();
    }
    let mut out = [0; 64];
    assert_eq!(store.stage(&one, Flush::Victim, &mut out), Ok(None));
    assert_eq!(store.find(&one, page(9), Admit::Always), Found::NoFrame);
    let staged = store.stage(&one, Flush::Victim, &mut out).unwrap().expect("eviction picked one");
    // It cools when it is flushed, so it is the next to go.
    store.flushed(&one, &staged, true).unwrap();
    let fill = fill(&store, &one, page(9), Admit::Always);
    assert_eq!(number(&store, staged.frame()), Err(Refused::Moved));
    store.admit(&one, &fill, &image(9)).unwrap();
    assert_eq!(store.stage_frame(&one, staged.frame(), &mut out), Err(Refused::Moved));
}

/// Pages found among the last half of a stream, in percent: half of it goes to a few pages, the rest comes once.
fn found_in_a_mixed_stream(cooling: Cooling, admission: Admission, frames: usize) -> (u64, Counts) {
    let shape = Shape { cooling, admission, ..SHAPE };
    let words = storage(shape.words_for(frames));
    let store = PageStore::new(&words, shape).unwrap();
    let one = lane(0);
    let (mut hits, mut state) = (0, 1u64);
    for turn in 0..40_000u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let popular = (state >> 40) % (frames as u64 / 2);
        let at = if turn % 2 == 0 { popular } else { 1_000_000 + turn };
        match store.find(&one, page(at), Admit::ByChance) {
            Found::Frame(name) => {
                hits += u64::from(turn >= 20_000);
                number(&store, name).unwrap();
            }
            Found::Mine(fill) if fill.is_admitted() => _ = store.admit(&one, &fill, &image(0)).unwrap(),
            Found::Mine(fill) => store.release(&one, &fill).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    assert!(one.marked(Mark::PAGE_SECOND_CHANCE) > 0);
    (hits * 100 / 10_000, store.total_counts())
}

#[test]
fn pages_that_are_used_again_stay() {
    for cooling in [Cooling::Map, Cooling::OneFifo] {
        let (eager, counts) = found_in_a_mixed_stream(cooling, Admission::EAGER, 600);
        assert!(counts.evictions > 10_000 && eager > 60, "{cooling:?}: {eager} %, {counts:?}");
        let (lazy, counts) = found_in_a_mixed_stream(cooling, Admission::PUBLISHED, 600);
        assert!(counts.evictions < 5_000 && lazy > eager, "{cooling:?}: {lazy} % after {eager} %, {counts:?}");
    }
}

#[test]
fn the_smallest_store_finds_its_one_clean_page() {
    for cooling in [Cooling::Map, Cooling::OneFifo] {
        let shape = Shape { cooling, ..SHAPE };
        let words = storage(shape.words_for(8));
        let store = PageStore::new(&words, shape).unwrap();
        let one = lane(0);
        for at in 0..8 {
            let name = bring(&store, &one, page(at), 0);
            if at != 5 {
                set(&store, &one, name, 1, at + 1).unwrap();
            }
        }
        for at in 8..50 {
            bring(&store, &one, page(at), 0);
        }
        assert_eq!(store.total_counts().evictions, 42);
    }
}
