//! The lanes' futures: where they park, what they post, and what is left when they are dropped.

use super::*;
use crate::operation::{Cause, OpError};
use crate::verbs::Request;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

/// Polls a future once. What it submits is returned, and has completed at its next poll.
fn poll<T>(lane: &Lane<'_>, future: Pin<&mut impl Future<Output = T>>) -> Result<T, Vec<Request>> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Ok(result),
        Poll::Pending => {
            let requests = lane.port().requests().to_vec();
            let scratch = lane.port().begin().expect("something was submitted");
            for position in 0..requests.len() {
                lane.port().complete(position, crate::verbs::Completion::NOTHING);
            }
            lane.port().finish(scratch, 1_000);
            Err(requests)
        }
    }
}

fn verbs(requests: &[Request]) -> Vec<Verb> {
    requests.iter().map(|request| request.verb).collect()
}

#[test]
fn a_lane_parks_until_the_page_is_there() {
    let shape = Shape { lanes: 3, ..SHAPE };
    let words = storage(shape.words_for(12));
    let store = PageStore::new(&words, shape).unwrap();
    let (filler, one, two) = (lane(0), lane(1), lane(2));
    let fill = fill(&store, &filler, page(1), Admit::Always);
    let mut first = pin!(store.acquire(&one, page(1), Admit::ByChance));
    let mut second = pin!(store.acquire(&two, page(1), Admit::ByChance));
    assert_eq!(verbs(&poll(&one, first.as_mut()).unwrap_err()), [Verb::Park]);
    assert_eq!(verbs(&poll(&two, second.as_mut()).unwrap_err()), [Verb::Park]);
    assert!(one.is_unsettled() && two.is_unsettled());
    assert_eq!(verbs(&poll(&one, first.as_mut()).unwrap_err()), [Verb::Park], "woken by something else");
    let name = store.admit(&filler, &fill, &image(1)).unwrap();
    assert_eq!(woken(&filler), [1]);
    assert_eq!(poll(&one, first).unwrap(), Ok(Acquired::Frame(name)));
    assert_eq!(woken(&one), [2], "before anything else");
    assert_eq!(poll(&two, second).unwrap(), Ok(Acquired::Frame(name)));
    assert!(![&filler, &one, &two].iter().any(|lane| lane.is_unsettled()));
}

#[test]
fn a_lane_that_was_dropped_while_it_waited_wakes_the_next_when_it_settles() {
    let shape = Shape { lanes: 3, ..SHAPE };
    let words = storage(shape.words_for(12));
    let store = PageStore::new(&words, shape).unwrap();
    let (filler, dropped, last) = (lane(0), lane(1), lane(2));
    let fill = fill(&store, &filler, page(1), Admit::Never);
    {
        let mut future = pin!(store.acquire(&dropped, page(1), Admit::ByChance));
        assert!(poll(&dropped, future.as_mut()).is_err());
    }
    assert_eq!(dropped.port().reset(), None, "the driver has the completions");
    let mut waits = pin!(store.acquire(&last, page(1), Admit::Always));
    assert!(poll(&last, waits.as_mut()).is_err());
    let mut settles = pin!(store.settle(&dropped));
    assert_eq!(verbs(&poll(&dropped, settles.as_mut()).unwrap_err()), [Verb::Park], "its record is in the list");
    store.release(&filler, &fill).unwrap();
    assert_eq!(poll(&dropped, settles).unwrap(), Ok(()));
    assert_eq!((woken(&dropped), dropped.is_unsettled()), (Vec::from([2]), false));
    assert!(matches!(poll(&last, waits).unwrap(), Ok(Acquired::Mine(_))));
}

#[test]
fn settling_ends_fills_flushes_and_freezes() {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let (one, two) = (lane(0), lane(1));
    let names = [1, 2].map(|at| bring(&store, &one, page(at), 0));
    set(&store, &one, names[0], 1, 5).unwrap();
    let staged = store.stage(&one, Flush::Oldest, &mut [0; 64]).unwrap();
    let frozen = store.freeze(&one, names[1]).unwrap();
    drop(fill(&store, &one, page(3), Admit::Always));
    assert!(one.is_unsettled() && staged.is_some());
    assert_eq!(store.frozen_by(&one).collect::<Vec<_>>(), [frozen]);
    assert_eq!(store.find(&two, page(3), Admit::Always), Found::Joined);
    let mut settles = pin!(store.settle(&one));
    let mut posted = Vec::new();
    loop {
        match poll(&one, settles.as_mut()) {
            Ok(result) => break assert_eq!(result, Ok(())),
            Err(requests) => posted.extend(verbs(&requests)),
        }
    }
    assert_eq!(posted, [Verb::Wake, Verb::Pause, Verb::Pause, Verb::Pause]);
    assert!(!one.is_unsettled());
    assert_eq!(states(&store), [(page(2), PageState::Clean, 0), (page(1), PageState::Dirty, 5)]);
}

#[test]
fn a_lane_waits_for_a_frozen_page_and_no_longer_than_its_deadline() {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let (one, two) = (lane(0), lane(1));
    let name = bring(&store, &one, page(1), 0);
    let frozen = store.freeze(&one, name).unwrap();
    two.begin(1_500);
    let mut waits = pin!(store.wait_for(&two, name));
    assert_eq!(verbs(&poll(&two, waits.as_mut()).unwrap_err()), [Verb::Park]);
    assert_eq!(verbs(&poll(&two, waits.as_mut()).unwrap_err()), [Verb::Park]);
    assert!(matches!(poll(&two, waits).unwrap(), Err(OpError { cause: Cause::Deadline { .. }, .. })));
    assert!(two.is_unsettled(), "it is still in the list");
    store.thaw(&one, frozen).unwrap();
    assert_eq!(woken(&one), [1]);
    let mut settles = pin!(store.settle(&two));
    assert_eq!(poll(&two, settles.as_mut()).unwrap(), Ok(()));
    let mut waits = pin!(store.wait_for(&one, name));
    assert_eq!(poll(&one, waits.as_mut()).unwrap(), Ok(()), "for nothing");
}

#[test]
fn no_wake_is_lost_in_a_full_mailbox() {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let (one, two) = (lane(0), lane(1));
    let fill = fill(&store, &one, page(1), Admit::Always);
    assert_eq!(store.find(&two, page(1), Admit::Always), Found::Joined);
    (0..crate::port::OUTBOX_REQUESTS).for_each(|_| _ = one.port().push(Request::pause(0)));
    assert_eq!(store.admit(&one, &fill, &image(1)), Err(Refused::MailboxFull));
    assert_eq!(store.release(&one, &fill), Err(Refused::MailboxFull));
    assert_eq!(one.port().reset(), None);
    store.admit(&one, &fill, &image(1)).unwrap();
    assert_eq!(woken(&one), [1]);
}

#[test]
fn a_lane_that_is_refused_as_busy_pauses() {
    let words = storage(SHAPE.words_for(8));
    let store = PageStore::new(&words, SHAPE).unwrap();
    let one = lane(0);
    let mut acquires = pin!(store.acquire(&one, page(1), Admit::Always));
    {
        let _chain = store.chain(page(1)).unwrap();
        assert_eq!(verbs(&poll(&one, acquires.as_mut()).unwrap_err()), [Verb::Pause]);
        assert_eq!(verbs(&poll(&one, acquires.as_mut()).unwrap_err()), [Verb::Pause]);
    }
    assert!(matches!(poll(&one, acquires).unwrap(), Ok(Acquired::Mine(_))));
}
