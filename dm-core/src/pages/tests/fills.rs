//! Fills: one lane READs a page, others wait for it or go without.

use super::*;
use crate::mutants::{Mutant, with_planted};

#[test]
fn one_lane_reads_a_page_and_all_find_it() {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let (one, two) = (lane(0), lane(1));
    let fill = fill(&store, &one, page(7), Admit::ByChance);
    assert!(fill.is_admitted() && store.owes(&one));
    assert_eq!((fill.id(), states(&store)), (page(7), Vec::from([(page(7), PageState::Filling, 0)])));
    assert_eq!(store.admit(&one, &fill, &[0; 63]), Err(Refused::WrongLength));
    assert_eq!(store.find(&two, page(7), Admit::ByChance), Found::Joined);
    let name = store.admit(&one, &fill, &image(77)).unwrap();
    assert!(!store.owes(&one) && woken(&one) == [1]);
    assert!(store.wake_next(&two) && woken(&two).is_empty());
    assert_eq!(store.find(&two, page(7), Admit::ByChance), Found::Frame(name));
    assert_eq!(number(&store, name), Ok(77));
    let mut bytes = [0; 8];
    store.copy(name, 2, &mut bytes).unwrap();
    assert_eq!(bytes, image(77)[2..10]);
    assert_eq!(states(&store), [(page(7), PageState::Clean, 0)]);
    assert_eq!(store.admit(&one, &fill, &image(1)), Err(Refused::Moved), "a fill ends once");
    assert_eq!(store.release(&one, &fill), Err(Refused::Moved));
    let counts = store.total_counts();
    assert_eq!((counts.hits, counts.misses, counts.joins, counts.unadmitted), (1, 1, 1, 0));
    assert_eq!((one.marked(Mark::PAGE_JOINED), two.marked(Mark::PAGE_JOINED)), (0, 1));
}

/// Three lanes wait for a fill, and each wakes the next. Whether all of them come back.
fn all_that_joined_come_back() -> bool {
    let shape = Shape { lanes: 4, ..SHAPE };
    let words = storage(shape.words_for(16));
    let store = PageStore::new(&words, shape).unwrap();
    let filler = lane(0);
    let fill = fill(&store, &filler, page(1), Admit::Always);
    let waiters = [lane(3), lane(1), lane(2)];
    assert!(waiters.iter().all(|waiter| store.find(waiter, page(1), Admit::Always) == Found::Joined));
    assert!(waiters.iter().all(|waiter| !store.wake_next(waiter) && store.owes(waiter)));
    assert_eq!(store.find(&waiters[0], page(2), Admit::Always), Found::Joined, "it waits, whatever it asks for");
    store.admit(&filler, &fill, &image(5)).unwrap();
    let mut next = woken(&filler);
    for waiter in &waiters {
        if next != [waiter.id().0] {
            return false;
        }
        assert!(store.wake_next(waiter) && !store.owes(waiter));
        next = woken(waiter);
    }
    next.is_empty()
}

#[test]
fn each_lane_that_joined_is_woken_by_the_one_before() {
    assert!(all_that_joined_come_back());
    assert!(!with_planted(Some(Mutant::JOINED_NOT_WOKEN), all_that_joined_come_back));
}

/// A lane is dropped in the middle of a fill for which another waits. Whether the other one gets the page after all.
fn a_dropped_fill_is_paid() -> bool {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let (dropped, other) = (lane(0), lane(1));
    drop(fill(&store, &dropped, page(1), Admit::Always));
    drop(fill(&store, &dropped, page(2), Admit::Never));
    assert_eq!(store.find(&other, page(1), Admit::Always), Found::Joined);
    assert!(dropped.is_unsettled() && dropped.is_unsettled_below());
    while store.pay(&dropped) == Ok(Paid::One) {}
    if store.owes(&dropped) || woken(&dropped) != [1] || dropped.is_unsettled() {
        return false;
    }
    assert!(store.wake_next(&other));
    // No frame is lost: all eight have a page in the end. One was set aside for the next fill of the lane that had it.
    (1..8).for_each(|number| _ = bring(&store, &other, page(number), number as u32));
    bring(&store, &dropped, page(8), 8);
    store.total_counts().evictions == 0 && states(&store).len() == 8
}

#[test]
fn what_a_dropped_lane_owes_is_paid() {
    assert!(a_dropped_fill_is_paid());
    assert!(!with_planted(Some(Mutant::FILL_UNPAID), a_dropped_fill_is_paid));
}

#[test]
fn a_page_that_is_not_admitted_belongs_to_one_lane_until_it_is_done() {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let (one, two) = (lane(0), lane(1));
    let alone = fill(&store, &one, page(1), Admit::Never);
    assert!(!alone.is_admitted());
    assert_eq!(store.admit(&one, &alone, &image(1)), Err(Refused::Moved), "it has no frame");
    assert_eq!(store.claim(&two, page(1), Admit::Always), Found::Joined);
    assert!(!store.owes(&two), "claiming is not waiting");
    assert_eq!(store.find(&two, page(1), Admit::Always), Found::Joined);
    store.release(&one, &alone).unwrap();
    assert_eq!(woken(&one), [1]);
    assert!(store.wake_next(&two));
    bring(&store, &two, page(1), 1);
    assert_eq!((store.total_counts().unadmitted, one.marked(Mark::PAGE_UNADMITTED)), (1, 1));
}

#[test]
fn a_lane_with_fills_does_not_wait() {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let (one, two) = (lane(0), lane(1));
    let first = fill(&store, &one, page(1), Admit::Always);
    assert!(matches!(store.find(&one, page(1), Admit::Always), Found::Mine(again) if again == first), "its own");
    let second = fill(&store, &one, page(2), Admit::Always);
    assert_eq!(store.find(&one, page(3), Admit::Always), Found::NoFill, "it has all that it can have");
    let third = fill(&store, &two, page(3), Admit::Always);
    assert_eq!(store.find(&one, page(3), Admit::Always), Found::NoFill, "lane 1 might wait for lane 0");
    assert_eq!(store.claim(&one, page(3), Admit::Always), Found::Joined);
    store.release(&one, &first).unwrap();
    store.release(&one, &second).unwrap();
    assert_eq!(store.find(&one, page(3), Admit::Always), Found::Joined);
    store.release(&two, &third).unwrap();
    assert_eq!(store.find(&two, Address::NULL, Admit::Always), Found::NoFill);
    assert_eq!(store.find(&lane(9), page(1), Admit::Always), Found::NoFill, "no record");
}

#[test]
fn without_a_frame_a_page_is_refused_or_not_admitted() {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let one = lane(0);
    for at in 0..8 {
        let name = bring(&store, &one, page(at), at as u32);
        set(&store, &one, name, 100, at + 1).unwrap();
    }
    assert_eq!(store.find(&one, page(8), Admit::Always), Found::NoFrame);
    assert_eq!(one.marked(Mark::PAGE_NO_FRAME), 1);
    let alone = fill(&store, &one, page(8), Admit::ByChance);
    assert!(!alone.is_admitted());
    store.release(&one, &alone).unwrap();
    // A flush makes room.
    let mut out = [0; 64];
    let staged = store.stage(&one, Flush::Oldest, &mut out).unwrap().unwrap();
    assert_eq!(store.find(&one, page(8), Admit::Always), Found::NoFrame, "a page on its way stays");
    store.flushed(&one, &staged, true).unwrap();
    bring(&store, &one, page(8), 8);
    assert_eq!(store.total_counts().evictions, 1);
    assert_eq!(number(&store, staged.frame()), Err(Refused::Moved));
}

#[test]
fn pages_are_admitted_by_chance_once_every_frame_had_one() {
    let shape = Shape { admission: Admission::per_10_000(2_500), ..SHAPE };
    let words = storage(shape.words_for(8));
    let store = PageStore::new(&words, shape).unwrap();
    let one = lane(0);
    let mut admitted = 0;
    for at in 0..1_008 {
        let fill = fill(&store, &one, page(at), Admit::ByChance);
        assert!(fill.is_admitted() || at >= 8, "all are admitted at first");
        admitted += u32::from(fill.is_admitted());
        if fill.is_admitted() {
            store.admit(&one, &fill, &image(0)).unwrap();
        } else {
            store.release(&one, &fill).unwrap();
        }
    }
    assert!((200..320).contains(&admitted), "{admitted}");
    assert_eq!(store.counts(LaneId(0)).unadmitted, u64::from(1_008 - admitted));
}
