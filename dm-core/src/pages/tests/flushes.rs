//! Changes, and their way to the pool.

use super::*;
use crate::mutants::{Mutant, with_planted};

/// A store with pages 0 to 4, and the names of their frames.
fn with_pages(test: impl FnOnce(&PageStore<'_>, &Lane<'_>, [FrameName; 5])) {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let one = lane(0);
    let names = core::array::from_fn(|at| bring(&store, &one, page(at as u64), at as u32));
    test(&store, &one, names);
}

fn stage(store: &PageStore<'_>, lane: &Lane<'_>, which: Flush) -> Option<(Staged, u32)> {
    let mut out = [0; 64];
    let staged = store.stage(lane, which, &mut out).unwrap()?;
    Some((staged, u32::from_le_bytes(*out.first_chunk().unwrap())))
}

fn oldest(store: &PageStore<'_>) -> u64 {
    store.oldest_unflushed().unwrap().map_or(0, Lsn::to_bits)
}

#[test]
fn pages_are_flushed_in_the_order_of_their_oldest_change() {
    with_pages(|store, one, names| {
        assert_eq!((oldest(store), stage(store, one, Flush::Oldest)), (0, None));
        for (at, lsn) in [(2, 10), (0, 11), (3, 12), (2, 13), (1, 14)] {
            set(store, one, names[at], lsn, u64::from(lsn)).unwrap();
        }
        assert_eq!(store.stage(one, Flush::Oldest, &mut [0; 65]), Err(Refused::WrongLength));
        for (at, oldest_lsn, newest, content) in [(2, 10, 13, 13), (0, 11, 11, 11), (3, 12, 12, 12), (1, 14, 14, 14)] {
            assert_eq!(oldest(store), oldest_lsn);
            let (staged, copied) = stage(store, one, Flush::Oldest).unwrap();
            assert_eq!((staged.id(), staged.lsn(), copied), (page(at), Lsn::from_bits(newest), content));
            assert_eq!(oldest(store), oldest_lsn, "it is not in the pool yet");
            store.flushed(one, &staged, true).unwrap();
            assert_eq!(store.flushed(one, &staged, true), Err(Refused::Moved), "once");
        }
        assert_eq!((oldest(store), store.counts(LaneId(0)).flushes, store.owes(one)), (0, 4, false));
        assert!(states(store).iter().all(|(_, state, _)| *state == PageState::Clean));
    });
}

#[test]
fn the_very_first_line_of_a_log_is_kept_like_any_other() {
    with_pages(|store, one, names| {
        set(store, one, names[0], 100, 0).unwrap();
        assert_eq!(store.oldest_unflushed(), Ok(Some(Lsn::NONE)), "line 0, not line 1");
        set(store, one, names[1], 101, 1).unwrap();
        let (staged, copied) = stage(store, one, Flush::Oldest).unwrap();
        assert_eq!((copied, store.oldest_unflushed()), (100, Ok(Some(Lsn::NONE))));
        store.flushed(one, &staged, true).unwrap();
        assert_eq!(oldest(store), 1);
    });
}

#[test]
fn each_copy_is_told_from_the_one_before() {
    with_pages(|store, one, names| {
        let copies = |ok| {
            set(store, one, names[0], 100, 5).unwrap();
            let (staged, _) = stage(store, one, Flush::Oldest).unwrap();
            store.flushed(one, &staged, ok).unwrap();
            staged.copies()
        };
        assert_eq!([copies(true), copies(false), copies(true)], [1, 2, 3]);
        let frozen = store.freeze(one, names[0]).unwrap();
        store.renew(one, frozen, &image(7)).unwrap();
        store.thaw(one, frozen).unwrap();
        assert_eq!([copies(true), copies(true)], [1, 2], "the image that was written over it has a version of its own");
    });
}

/// A page is changed during its flush. Whether the change is flushed, too, after a flush that succeeds and after one
/// that fails.
fn changes_during_a_flush_are_flushed() -> bool {
    let mut all = true;
    for ok in [true, false] {
        with_pages(|store, one, names| {
            set(store, one, names[0], 100, 5).unwrap();
            let (staged, copied) = stage(store, one, Flush::Oldest).unwrap();
            assert_eq!((copied, states(store)[0].1), (100, PageState::Flushing));
            set(store, one, names[1], 200, 6).unwrap();
            set(store, one, names[0], 300, 7).unwrap();
            assert_eq!(store.stage_frame(one, names[0], &mut [0; 64]), Err(Refused::Flushing));
            store.flushed(one, &staged, ok).unwrap();
            assert_eq!(one.marked(Mark::PAGE_CHANGED_IN_FLUSH), 1);
            let mut flushed = Vec::new();
            while let Some((staged, copied)) = stage(store, one, Flush::Oldest) {
                flushed.push((copied, oldest(store)));
                store.flushed(one, &staged, true).unwrap();
            }
            let expected = if ok { [(200, 6), (300, 7)] } else { [(300, 5), (200, 6)] };
            all &= flushed == expected && oldest(store) == 0;
        });
    }
    all
}

#[test]
fn a_change_during_a_flush_is_not_taken_for_flushed() {
    assert!(changes_during_a_flush_are_flushed());
    assert!(!with_planted(Some(Mutant::FLUSHED_TAKEN_FOR_CLEAN), changes_during_a_flush_are_flushed));
}

/// Whether the log would be kept as long as a flush may fail.
fn the_log_is_kept_during_flushes() -> bool {
    let mut all = true;
    with_pages(|store, one, names| {
        set(store, one, names[0], 100, 5).unwrap();
        set(store, one, names[1], 100, 6).unwrap();
        set(store, one, names[2], 100, 7).unwrap();
        let (_, second) = (stage(store, one, Flush::Oldest), stage(store, one, Flush::Oldest).unwrap().0);
        store.flushed(one, &second, true).unwrap();
        all &= oldest(store) == 5;
        // The lane is dropped: the flush counts as failed.
        while store.pay(one) == Ok(Paid::One) {}
        all &= oldest(store) == 5 && !store.owes(one);
        let order: Vec<_> =
            core::iter::from_fn(|| stage(store, one, Flush::Oldest)).map(|(staged, _)| staged.id()).collect();
        all &= order == [page(0), page(2)];
    });
    all
}

#[test]
fn what_is_being_flushed_keeps_the_log() {
    assert!(the_log_is_kept_during_flushes());
    assert!(!with_planted(Some(Mutant::FLUSHING_FORGOTTEN), the_log_is_kept_during_flushes));
}

/// Whether a record with a number is among the unflushed ones from the instant at which it has its number.
fn records_are_never_missing() -> bool {
    let mut all = true;
    with_pages(|store, one, names| {
        let change = |page: &mut Page<'_, '_>| {
            let mut assign = || {
                all &= (1..=9).contains(&oldest(store));
                Lsn::from_bits(9)
            };
            page.record(Lsn::from_bits(8), || Ok::<_, Refused>(assign()))?.map(|writing| writing.lsn())
        };
        assert_eq!(store.change(one, names[0], || true, change), Ok(Lsn::from_bits(9)));
        all &= oldest(store) == 8;
    });
    all
}

#[test]
fn a_page_is_dirty_before_its_record_has_a_number() {
    assert!(records_are_never_missing());
    assert!(!with_planted(Some(Mutant::DIRTY_AFTER_RECORD), records_are_never_missing));
}

#[test]
fn lists_keep_their_order_when_changes_come_out_of_it() {
    with_pages(|store, one, names| {
        // Lanes on other threads read the end of the log before this one, and came later.
        for (at, lsn) in [(0, 30), (1, 10), (2, 20), (3, 40), (4, 10)] {
            set(store, one, names[at], 0, lsn).unwrap();
        }
        // Eviction wants page 3 first; then its flush fails.
        let mut out = [0; 64];
        let early = store.stage_frame(one, names[3], &mut out).unwrap();
        let (next, _) = stage(store, one, Flush::Oldest).unwrap();
        assert_eq!((next.id(), oldest(store)), (page(1), 10));
        store.flushed(one, &early, false).unwrap();
        store.flushed(one, &next, false).unwrap();
        let order: Vec<_> = core::iter::from_fn(|| stage(store, one, Flush::Oldest)).collect();
        let pages: Vec<_> = order.iter().map(|(staged, _)| staged.id()).collect();
        assert!(pages == [1, 4, 2, 0, 3].map(page) || pages == [4, 1, 2, 0, 3].map(page), "{pages:?}");
    });
}

#[test]
fn a_change_without_tenure_or_without_need_changes_nothing() {
    with_pages(|store, one, names| {
        let never = |_: &mut Page<'_, '_>| -> Result<(), Refused> { panic!("called without tenure") };
        assert_eq!(store.change(one, names[0], || false, never), Err(Refused::NoTenure));
        let newest = store.change(one, names[0], || true, |page| Ok((page.image().word(0), page.newest())));
        assert_eq!(newest, Ok((0, Lsn::NONE)));
        assert_eq!((oldest(store), states(store)[0].1), (0, PageState::Clean));
        let late = FrameName { generation: names[0].generation + 1, ..names[0] };
        assert_eq!(set(store, one, late, 1, 1), Err(Refused::Moved));
        assert_eq!(store.stage_frame(one, names[0], &mut [0; 64]), Err(Refused::Clean));
    });
}

#[test]
fn nothing_waits_for_a_latch_for_ever() {
    with_pages(|store, one, names| {
        set(store, one, names[1], 1, 1).unwrap();
        let inside = store.change(
            one,
            names[0],
            || true,
            |page| {
                assert_eq!(set(store, one, names[0], 2, 2), Err(Refused::Busy));
                assert_eq!(store.freeze(one, names[0]), Err(Refused::Busy));
                assert_eq!(number(store, names[0]), Ok(0), "readers do not mind the latch");
                let _writing = page.record(Lsn::from_bits(2), || Ok::<_, Refused>(Lsn::from_bits(2)))??;
                assert_eq!(number(store, names[0]), Err(Refused::Busy), "but they do mind a write");
                assert_eq!(number(store, names[1]), Ok(1));
                Ok(())
            },
        );
        assert_eq!(inside, Ok(()));
        let lists = crate::pages::latch::Latched::take(store.control(0).unwrap()).unwrap();
        assert_eq!(store.oldest_unflushed(), Err(Refused::Busy));
        assert_eq!(set(store, one, names[2], 2, 2), Err(Refused::Busy));
        assert_eq!(number(store, names[2]), Ok(2), "nothing was changed");
        assert_eq!(store.stage(one, Flush::Oldest, &mut [0; 64]), Err(Refused::Busy));
        drop(lists);
        assert_eq!(oldest(store), 1);
    });
}
