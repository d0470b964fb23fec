//! Flushes: chains that fail, lanes that are dropped, and deaths at every line.

use super::*;
use crate::mutants::{Mutant, with_planted};
use crate::operation::Cause;
use crate::pages::Flush;

/// Makes this compute node the owner of entry 0.
fn own(node: &Node<'_>, lane: &Lane<'_>) {
    node.pool.run(lane, node.table.claim(lane, 0)).unwrap().unwrap();
    node.table.partition.admit(0).unwrap();
}

/// A key of another page than those up to 2.
const OTHER_PAGE: u64 = 4;

/// Settles a lane, as far as its flushes are concerned.
async fn settle(node: &Node<'_>, lane: &Lane<'_>) -> Result<(), OpError> {
    flush::write_again(node.flush(), lane).await?;
    flush::settle(node.flush(), lane).await
}

#[test]
fn a_flush_is_one_chain_of_an_image_and_the_page() {
    let pool = Pool::new();
    with_node(&pool, 5, |node, lanes| {
        let lane = &lanes[0];
        own(node, lane);
        assert_eq!(pool.run(lane, flush::flush(node.flush(), lane, Flush::Oldest)).unwrap(), Ok(None));
        pool.run(lane, node.change(lane, 1, Some(11))).unwrap().unwrap();
        let mut step = pin!(flush::flush(node.flush(), lane, Flush::Oldest));
        assert!(matches!(poll_once(lane.port(), step.as_mut()), Step::Requests));
        let posted: Vec<_> =
            lane.port().requests().iter().map(|request| (request.label, request.verb, request.bytes)).collect();
        let image_bytes = (redo::HEADER_BYTES + PAGE_BYTES) as u32;
        assert_eq!(posted, [(Label::Image, Verb::Write, image_bytes), (Label::Leaf, Verb::Write, PAGE_BYTES as u32)]);
        assert_eq!(node.progress_counters[0].under_way(), 1);
        assert_eq!(pool.run(lane, step).unwrap(), Ok(Some(pool.page(0))));
        assert_eq!((pool.stored(1), node.store.oldest_unflushed()), (Ok(Some(11)), Ok(None)));
        assert_eq!((node.progress_counters[0].under_way(), lane.in_doubt()), (0, false));
        let name = pool.run(lane, node.bring(lane, 1)).unwrap().unwrap();
        assert_eq!(pool.run(lane, flush::flush_frame(node.flush(), lane, name)).unwrap(), Ok(()), "it is clean");
        pool.run(lane, node.change(lane, 1, None)).unwrap().unwrap();
        assert_eq!(pool.run(lane, flush::flush_frame(node.flush(), lane, name)).unwrap(), Ok(()));
        assert_eq!(pool.stored(1), Ok(None));
    });
}

/// A chain fails after any number of its lines. Whether the page is in the pool when the store takes it for clean.
fn what_counts_as_flushed_is_in_the_pool() -> bool {
    let lines = 1 + 2 * PAGE_BYTES / LINE;
    (0..=lines).all(|lands| {
        let pool = Pool::new();
        with_node(&pool, 5, |node, lanes| {
            let lane = &lanes[0];
            own(node, lane);
            pool.run(lane, node.change(lane, 1, Some(11))).unwrap().unwrap();
            pool.fails.borrow_mut().push(Fails { lands, status: Status::Flushed });
            let flushed = pool.run(lane, flush::flush(node.flush(), lane, Flush::Oldest)).unwrap();
            assert_eq!((flushed, node.progress_counters[0].under_way()), (Ok(Some(pool.page(0))), 0));
            assert_eq!(node.store.oldest_unflushed(), Ok(None));
            pool.stored(1) == Ok(Some(11))
        })
    })
}

#[test]
fn a_chain_that_failed_is_posted_again() {
    assert!(what_counts_as_flushed_is_in_the_pool());
    assert!(!with_planted(Some(Mutant::FLUSHED_TAKEN_FOR_DONE), what_counts_as_flushed_is_in_the_pool));
}

#[test]
fn a_flush_that_is_given_up_leaves_the_page_dirty() {
    for (status, count) in [(Status::Flushed, flush::FLUSH_TRIES), (Status::NodeDown, 1)] {
        let pool = Pool::new();
        with_node(&pool, 5, |node, lanes| {
            let lane = &lanes[0];
            own(node, lane);
            pool.run(lane, node.change(lane, 1, Some(11))).unwrap().unwrap();
            pool.fails.replace((0..count).map(|_| Fails { lands: 0, status }).collect());
            let flushed = pool.run(lane, flush::flush(node.flush(), lane, Flush::Oldest)).unwrap();
            assert!(matches!(flushed.unwrap_err().cause, Cause::Verb(error) if error.status == status));
            // Only settling ends a flush whose page may be torn.
            let may_be_torn = status == Status::Flushed;
            assert_eq!(lane.is_unsettled(), may_be_torn);
            if may_be_torn {
                pool.run(lane, settle(node, lane)).unwrap().unwrap();
                assert_eq!(pool.stored(1), Ok(Some(11)), "it was posted once more");
            }
            assert_eq!(node.store.oldest_unflushed(), Ok(Some(Lsn::NONE)), "line 0 is still needed");
            assert_eq!((node.progress_counters[0].under_way(), lane.is_unsettled()), (0, false));
            assert_eq!(
                pool.run(lane, flush::flush(node.flush(), lane, Flush::Oldest)).unwrap(),
                Ok(Some(pool.page(0)))
            );
            assert_eq!(pool.stored(1), Ok(Some(11)));
        });
    }
}

#[test]
fn a_compute_node_whose_lease_is_over_flushes_nothing() {
    let pool = Pool::new();
    with_node(&pool, 5, |node, lanes| {
        let lane = &lanes[0];
        own(node, lane);
        pool.run(lane, node.change(lane, 1, Some(11))).unwrap().unwrap();
        node.recovery.lease.tick(1 << 40);
        let flushed = pool.run(lane, flush::flush(node.flush(), lane, Flush::Oldest)).unwrap();
        assert_eq!(flushed.unwrap_err().cause, Cause::Fenced);
        assert_eq!((pool.stored(1), lane.is_unsettled()), (Ok(None), false));
    });
}

#[test]
fn a_lane_that_is_dropped_in_its_flush_is_settled() {
    let pool = Pool::new();
    with_node(&pool, 5, |node, lanes| {
        let lane = &lanes[0];
        own(node, lane);
        pool.run(lane, node.change(lane, 1, Some(11))).unwrap().unwrap();
        {
            let mut step = pin!(flush::flush(node.flush(), lane, Flush::Oldest));
            assert!(matches!(poll_once(lane.port(), step.as_mut()), Step::Requests));
        }
        assert!(lane.in_doubt() && node.progress_counters[0].under_way() == 1, "it is still under way");
        // The driver ends the submit.
        let scratch = lane.port().begin().unwrap();
        for position in 0..2 {
            lane.port().complete(position, Completion { status: Status::Flushed, ..Completion::NOTHING });
        }
        lane.port().finish(scratch, 1);
        lane.port().reset();
        pool.run(lane, settle(node, lane)).unwrap().unwrap();
        assert_eq!((node.progress_counters[0].under_way(), lane.in_doubt()), (0, false));
        assert_eq!(node.store.oldest_unflushed(), Ok(Some(Lsn::NONE)), "it counts as failed");
        assert_eq!(pool.run(lane, flush::flush(node.flush(), lane, Flush::Oldest)).unwrap(), Ok(Some(pool.page(0))));
        assert_eq!(pool.stored(1), Ok(Some(11)));
    });
}

/// An owner dies in a flush, after any number of lines, which land in either direction. Whether its page is whole
/// afterwards: the old one, or the new one.
fn torn_pages_are_restored() -> bool {
    let (mut all, mut outcomes) = (true, Vec::new());
    for is_backward in [false, true] {
        for lives in 0.. {
            let pool = Pool::new();
            let died = with_node(&pool, 5, |node, lanes| {
                let lane = &lanes[0];
                own(node, lane);
                for (key, value) in [(0, 10), (1, 11)] {
                    pool.run(lane, node.change(lane, key, Some(value))).unwrap().unwrap();
                    pool.run(lane, flush::flush(node.flush(), lane, Flush::Oldest)).unwrap().unwrap();
                }
                pool.run(lane, node.change(lane, 1, Some(21))).unwrap().unwrap();
                pool.run(lane, node.change(lane, 0, None)).unwrap().unwrap();
                pool.is_backward.set(is_backward);
                pool.lives.set(Some(lives));
                pool.run(lane, flush::flush(node.flush(), lane, Flush::Oldest)).is_none()
            });
            let was_torn = pool.stored(1).is_err();
            pool.kill(5);
            let restored = with_node(&pool, 6, |node, lanes| {
                pool.run(&lanes[0], restore::restore(node.restore(), &lanes[0], 0)).unwrap()
            });
            all &= restored == Ok(u32::from(was_torn));
            let found = (pool.stored(0), pool.stored(1));
            all &= found == (Ok(Some(10)), Ok(Some(11))) || found == (Ok(None), Ok(Some(21)));
            outcomes.push(was_torn);
            if !died {
                break;
            }
        }
    }
    assert!(outcomes.contains(&true) && outcomes.contains(&false));
    all
}

/// A chain fails after any number of its lines, each time that it is posted; the lane gives up, is settled, flushes another
/// page, and dies in that, after any number of lines. Whether both pages are whole afterwards.
fn a_lane_that_gave_up_leaves_no_torn_page() -> bool {
    let lines = 1 + 2 * PAGE_BYTES / LINE;
    (0..=lines).all(|lands| {
        (0..2 * lines).all(|lives| {
            let pool = Pool::new();
            with_node(&pool, 5, |node, lanes| {
                let lane = &lanes[0];
                own(node, lane);
                for key in [1, OTHER_PAGE] {
                    pool.run(lane, node.change(lane, key, Some(11))).unwrap().unwrap();
                    pool.run(lane, flush::flush(node.flush(), lane, Flush::Oldest)).unwrap().unwrap();
                }
                for key in [1, OTHER_PAGE] {
                    pool.run(lane, node.change(lane, key, Some(21))).unwrap().unwrap();
                }
                let fails = Fails { lands, status: Status::Flushed };
                pool.fails.replace((0..flush::FLUSH_TRIES).map(|_| fails).collect());
                let given_up = pool.run(lane, flush::flush(node.flush(), lane, Flush::Oldest)).unwrap();
                assert!(given_up.is_err());
                pool.lives.set(Some(lives));
                let _ = pool.run(lane, async {
                    settle(node, lane).await?;
                    while flush::flush(node.flush(), lane, Flush::Oldest).await?.is_some() {}
                    Ok::<_, OpError>(())
                });
            });
            pool.kill(5);
            let restored = with_node(&pool, 6, |node, lanes| {
                pool.run(&lanes[0], restore::restore(node.restore(), &lanes[0], 0)).unwrap()
            });
            restored.is_ok() && [1, OTHER_PAGE].iter().all(|key| matches!(pool.stored(*key), Ok(Some(11 | 21))))
        })
    })
}

#[test]
fn a_page_that_a_failed_flush_has_torn_is_whole_before_its_image_goes() {
    assert!(a_lane_that_gave_up_leaves_no_torn_page());
    assert!(!with_planted(Some(Mutant::TORN_PAGE_LEFT), a_lane_that_gave_up_leaves_no_torn_page));
}

#[test]
fn a_page_that_a_death_has_torn_gets_its_image() {
    assert!(torn_pages_are_restored());
    assert!(!with_planted(Some(Mutant::IMAGE_OMITTED), torn_pages_are_restored));
}
