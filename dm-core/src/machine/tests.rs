//! What a driver may do wrong: each misuse is told, and does no harm.

use super::{Machine, Step};
use crate::error::{Misuse, VerbError};
use crate::lane::Lane;
use crate::port::{Port, State};
use crate::verbs::{Completion, Label, LaneId, NodeId, Request, Status};
use core::pin::pin;

const NODE: NodeId = NodeId(3);

const fn answer(value: u64) -> Completion {
    Completion { value, elapsed_ns: 0, status: Status::Ok }
}

/// Asks for two words at once, and for a wake that needs no completion.
async fn two_words(port: &Port<'_>) -> Result<[u64; 2], VerbError> {
    port.push(Request::fetch_add(Label::Tool, NODE, 0, 1));
    port.push(Request::fetch_add(Label::Tool, NODE, 8, 1));
    port.push(Request::wake(LaneId(1)));
    port.submit().await?;
    Ok([port.completion(0).value, port.completion(1).value])
}

/// Calls `drive` when a machine has asked for two words, and then polls the machine.
fn after(drive: impl FnOnce(&Port<'_>)) -> Step<Result<[u64; 2], VerbError>> {
    let mut scratch = [0; 16];
    let port = Port::new(&mut scratch);
    let future = pin!(two_words(&port));
    let mut machine = Machine::new(&port, future);
    assert_eq!(machine.poll(), Step::Requests);
    drive(&port);
    machine.poll()
}

#[test]
fn completions_in_any_order_are_no_misuse() {
    let ended = after(|port| {
        let scratch = port.begin().unwrap();
        assert_eq!(port.complete(1, answer(8)), None);
        assert_eq!(port.complete(0, answer(7)), None);
        assert_eq!(port.finish(scratch, 0), None);
    });
    assert_eq!(ended, Step::Done(Ok([7, 8])));
}

#[test]
fn the_first_of_two_completions_counts() {
    let ended = after(|port| {
        let scratch = port.begin().unwrap();
        assert_eq!(port.complete(0, answer(7)), None);
        let flushed = Completion { status: Status::Flushed, ..answer(9) };
        assert_eq!(port.complete(0, flushed), Some(Misuse::CompletedTwice { position: 0 }));
        assert_eq!(port.complete(1, answer(8)), None);
        assert_eq!(port.finish(scratch, 0), None);
    });
    assert_eq!(ended, Step::Done(Ok([7, 8])));
}

#[test]
fn completions_out_of_order_with_the_submit_are_ignored() {
    let ended = after(|port| {
        assert_eq!(port.complete(0, answer(1)), Some(Misuse::NotInFlight), "before the driver began");
        let scratch = port.begin().unwrap();
        assert!(port.begin().is_none(), "it has begun");
        assert_eq!(port.complete(3, answer(1)), Some(Misuse::NotPosted { position: 3 }));
        assert_eq!(port.complete(usize::MAX, answer(1)), Some(Misuse::NotPosted { position: usize::MAX }));
        assert_eq!(port.complete(0, answer(7)), None);
        assert_eq!(port.complete(1, answer(8)), None);
        assert_eq!(port.finish(scratch, 0), None);
        assert_eq!(port.complete(1, answer(1)), Some(Misuse::NotInFlight), "after the driver finished");
    });
    assert_eq!(ended, Step::Done(Ok([7, 8])));
}

/// A dropped atomic that counted as done would have the old value 0: a lock's CAS would have won.
#[test]
fn a_dropped_request_counts_as_flushed_and_its_queue_pair_as_failed() {
    let ended = after(|port| {
        let scratch = port.begin().unwrap();
        assert_eq!(port.complete(0, answer(7)), None);
        assert_eq!(port.finish(scratch, 0), Some(Misuse::Dropped { position: 1 }));
        assert_eq!(port.state(), State::Completed, "the submit has ended all the same");
        assert_eq!(port.unclosed(), Some(NODE));
    });
    let Step::Done(Err(error)) = ended else { panic!("{ended:?}") };
    assert_eq!((error.status, error.offset), (Status::Flushed, 8));
    assert!(error.effect_unknown());
}

#[test]
fn unsignaled_requests_may_stay_without_a_completion() {
    let mut scratch = [0; 16];
    let port = Port::new(&mut scratch);
    port.push(Request::write_word(Label::Unlock, NODE, 0, 0).unsignaled());
    assert!(port.flush());
    let scratch = port.begin().unwrap();
    assert_eq!(port.finish(scratch, 0), None);
    assert_eq!(port.reset(), None);
    assert_eq!(port.unclosed(), None);
}

#[test]
fn the_scratch_is_neither_lost_nor_exchanged() {
    let ended = after(|port| {
        assert_eq!(port.finish(&mut [], 0), Some(Misuse::NotInFlight), "before the driver began");
        let scratch = port.begin().unwrap();
        assert_eq!(scratch.len(), 16);
        assert_eq!(port.reset(), Some(Misuse::InFlight));
        assert!(!port.flush());
        assert_eq!(port.state(), State::InFlight);
        port.complete(0, answer(7));
        port.complete(1, answer(8));
        assert_eq!(port.finish(scratch, 0), None);
        assert_eq!(port.finish(&mut [], 0), Some(Misuse::NotInFlight), "after the driver finished");
        assert!(!port.flush(), "what is done is not posted again");
        assert_eq!(port.with(|scratch| scratch.len()), 16);
    });
    assert_eq!(ended, Step::Done(Ok([7, 8])));
}

#[test]
fn a_machine_that_is_done_waits() {
    let mut scratch = [];
    let port = Port::new(&mut scratch);
    let future = pin!(async { 7 });
    let mut machine = Machine::new(&port, future);
    assert_eq!(machine.poll(), Step::Done(7));
    assert_eq!(machine.poll(), Step::Waiting);
}

#[test]
fn no_operation_begins_while_the_driver_has_requests_of_the_lane() {
    let mut scratch = [0; 16];
    let lane = Lane::new(LaneId(0), &mut scratch);
    assert!(lane.check_settled().is_ok());
    let _ = Machine::new(lane.port(), pin!(two_words(lane.port()))).poll();
    assert!(lane.check_settled().is_err(), "submitted");
    let scratch = lane.port().begin().unwrap();
    assert!(lane.check_settled().is_err(), "in flight");
    lane.port().finish(scratch, 0);
    assert!(lane.check_settled().is_err(), "completed, and nobody has looked");
    lane.port().reset();
    assert!(lane.check_settled().is_err(), "nobody has completed them, so they may still take effect");
    lane.port().closed();
    assert!(lane.check_settled().is_ok());
}

/// A driver's calls in every order, as many as fit. An operation succeeds only if each of its requests was completed
/// once, and then with the values that were accepted. Nothing panics.
#[test]
fn no_order_of_calls_makes_an_operation_succeed_that_was_not_executed() {
    const CALLS: u32 = 6;
    const KINDS: u32 = 8;
    let mut succeeded = 0;
    for order in 0..KINDS.pow(CALLS) {
        let mut memory = [0; 16];
        let port = Port::new(&mut memory);
        let future = pin!(two_words(&port));
        let mut machine = Machine::new(&port, future);
        let (mut scratch, mut accepted) = (None, [None; 2]);
        for call in 0..CALLS {
            let value = u64::from(call) + 1;
            match order / KINDS.pow(call) % KINDS {
                0 => {
                    if let Step::Done(Ok(values)) = machine.poll() {
                        assert_eq!(values.map(Some), accepted, "order {order:#o}");
                        succeeded += 1;
                    }
                }
                1 => scratch = port.begin().or(scratch),
                position @ (2 | 3) => {
                    let position = position as usize - 2;
                    if port.complete(position, answer(value)).is_none() {
                        accepted[position] = Some(value);
                    }
                }
                4 => assert!(port.complete(9, answer(value)).is_some()),
                5 => {
                    // Without a scratch there is nothing in flight.
                    let _ = port.finish(scratch.take().unwrap_or_default(), 0);
                }
                6 => _ = port.reset(),
                _ => _ = port.flush(),
            }
        }
    }
    assert!(succeeded > 0);
}
