//! Frozen pages: splits and merges.

use super::*;

#[test]
fn a_frozen_page_is_read_by_all_and_changed_by_one() {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let (one, two) = (lane(0), lane(1));
    let name = bring(&store, &one, page(1), 1);
    set(&store, &two, name, 2, 5).unwrap();
    let frozen = store.freeze(&one, name).unwrap();
    assert_eq!(store.freeze(&two, name), Err(Refused::Frozen));
    assert_eq!((number(&store, name), states(&store)[0].1), (Ok(2), PageState::Frozen));
    assert_eq!(set(&store, &two, name, 3, 6), Err(Refused::Frozen));
    assert_eq!(two.marked(Mark::PAGE_FROZEN), 1);
    let mut out = [0; 64];
    assert_eq!(store.stage(&two, Flush::Oldest, &mut out), Ok(None));
    assert_eq!(store.stage_frame(&two, name, &mut out), Err(Refused::Frozen));
    assert_eq!(store.thaw(&two, frozen), Err(Refused::Moved));
    // The lane that has frozen it goes on: it changes the page and flushes it.
    set(&store, &one, frozen.frame(), 4, 7).unwrap();
    assert_eq!(store.discard(&one, frozen), Err(Refused::Dirty));
    let staged = store.stage_frame(&one, name, &mut out).unwrap();
    assert_eq!(
        (staged.lsn(), out),
        (Lsn::from_bits(7), {
            let mut expected = image(1);
            expected[..4].copy_from_slice(&4u32.to_le_bytes());
            expected
        })
    );
    assert_eq!(store.renew(&one, frozen, &image(9)), Err(Refused::Flushing));
    store.flushed(&one, &staged, true).unwrap();
    store.thaw(&one, frozen).unwrap();
    assert!(!store.owes(&one));
    set(&store, &two, name, 5, 8).unwrap();
}

#[test]
fn a_merge_renews_one_page_and_drops_the_other() {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let (one, two) = (lane(0), lane(1));
    let names = [1, 2, 3, 4, 5].map(|at| bring(&store, &one, page(at), at as u32));
    let [left, right, ..] = names.map(|name| store.freeze(&one, name).ok());
    let (left, right) = (left.unwrap(), right.unwrap());
    assert_eq!(store.freeze(&one, names[4]), Err(Refused::TooManyFrozen));
    assert_eq!(store.frozen_by(&one).count(), FROZEN_PER_LANE);
    assert_eq!(store.renew(&one, left, &[0; 63]), Err(Refused::WrongLength));
    store.renew(&one, left, &image(12)).unwrap();
    store.discard(&one, right).unwrap();
    assert_eq!((number(&store, left.frame()), number(&store, right.frame())), (Ok(12), Err(Refused::Moved)));
    assert_eq!(store.thaw(&one, right), Err(Refused::Moved));
    // The page is filled anew, if it exists again, and its frame is not lost.
    assert_ne!(bring(&store, &two, page(2), 22), right.frame());
    // The others are thawed when the lane settles.
    while store.pay(&one) == Ok(Paid::One) {}
    assert!(!store.owes(&one) && states(&store).iter().all(|(_, state, _)| *state == PageState::Clean));
    (6..9).for_each(|at| _ = bring(&store, &two, page(at), 0));
    assert_eq!((states(&store).len(), store.total_counts().evictions), (8, 0));
}

#[test]
fn a_frozen_page_is_not_evicted() {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let (one, two) = (lane(0), lane(1));
    let name = bring(&store, &one, page(0), 7);
    let _frozen = store.freeze(&one, name).unwrap();
    (1..200).for_each(|at| _ = bring(&store, &two, page(at), 0));
    assert_eq!(number(&store, name), Ok(7));
}

#[test]
fn lanes_that_wait_for_a_page_are_woken_when_it_is_thawed_flushed_or_gone() {
    let shape = Shape { lanes: 3, ..SHAPE };
    let words = storage(shape.words_for(12));
    let store = PageStore::new(&words, shape).unwrap();
    let name = bring(&store, &lane(0), page(0), 0);
    assert_eq!(store.wait_behind(&lane(1), name), Ok(false), "for nothing");
    for how in 0..3 {
        let (one, two, three) = (lane(0), lane(1), lane(2));
        let frozen = store.freeze(&one, name).unwrap();
        assert_eq!(store.wait_behind(&one, name), Ok(false), "not for itself");
        let staged = (how == 1).then(|| {
            set(&store, &one, name, 1, 1).unwrap();
            store.stage_frame(&one, name, &mut [0; 64]).unwrap()
        });
        assert_eq!((store.wait_behind(&two, name), store.wait_behind(&three, name)), (Ok(true), Ok(true)));
        assert!(!store.wake_next(&two) && !store.wake_next(&three));
        match staged {
            Some(staged) => store.flushed(&one, &staged, true).unwrap(),
            None if how == 0 => store.thaw(&one, frozen).unwrap(),
            None => store.discard(&one, frozen).unwrap(),
        }
        assert_eq!(woken(&one), [1]);
        assert!(!store.wake_next(&three) && store.wake_next(&two) && woken(&two) == [2] && store.wake_next(&three));
        if how == 1 {
            store.thaw(&one, frozen).unwrap();
        }
    }
    assert_eq!(store.wait_behind(&lane(1), name), Err(Refused::Moved));
}
