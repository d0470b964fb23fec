//! What is posted, as seen by a device that executes in this process.

use super::null::executing::{Answers, MACHINE};
use super::*;
use crate::memory_node::verbs::call_wire::{CallMessage, REPLY_HEAD_BYTES, ReplyMessage};
use crate::memory_node::verbs::planted::{Planted, with_planted};
use dm_core::verbs::{CallAnswer, Callee};
use std::cmp::Ordering;

const N0: NodeId = NodeId(0);
const WORD: u64 = 0x0102_0304_0506_0708;

fn fabric(answers: Answers, peer_too: bool) -> VerbsFabric {
    with_options(answers, peer_too, VerbsOptions::default())
}

fn with_options(answers: Answers, peer_too: bool, options: VerbsOptions) -> VerbsFabric {
    MACHINE.with_borrow_mut(|machine| {
        (machine.sent, machine.serve) = (Vec::new(), None);
        machine.words = [WORD, 0, 0xff00, 7, 0, 0, 0, 0];
        machine.answers = answers;
        machine.entries.clear();
        machine.doorbells.clear();
    });
    let options = Arc::new(VerbsOptions { write_turn_ns_min: Some(1), ..options });
    VerbsFabric::on_device(Device::null(true), &[Peer::null(4096, peer_too).unwrap()], &options).unwrap()
}

fn run(fabric: &mut VerbsFabric, lanes: &[Lane<'_>], requests: &[Request]) -> Vec<Completion> {
    let port = lanes[0].port();
    for &request in requests {
        port.push(request);
    }
    port.flush();
    if fabric.post(lanes, 0) == Posted::InFlight {
        while port.state() == dm_core::port::State::InFlight {
            fabric.poll(lanes, &mut |_| {});
        }
    }
    let completions = (0..requests.len()).map(|position| port.completion(position)).collect();
    port.reset();
    completions
}

#[test]
fn masked_atomics_are_offered_in_whichever_byte_order_the_device_answers() {
    for answers in [Answers::Native, Answers::Swapped] {
        let mut fabric = fabric(answers, true);
        assert!(fabric.capabilities().masked_atomics, "{answers:?}");
        assert_eq!(MACHINE.with_borrow(|machine| machine.words[0]), WORD, "the trial changes nothing");
        let mut scratch = [0; 64];
        let lanes = [Lane::new(LaneId(0), &mut scratch)];
        // Take bit 0 of word 2 whatever the others are, and READ word 3 behind it.
        let lock = Request::masked_cas(Label::Tool, N0, 16, [0, u64::MAX, 1, 1]).unsignaled();
        let done = run(&mut fabric, &lanes, &[lock, Request::read(Label::Tool, N0, 24, 8, 0)]);
        assert_eq!((done[0].value, done[0].status), (0xff00, Status::Ok), "{answers:?}");
        assert_eq!(lanes[0].port().with(|scratch| scratch[0]), 7);
        MACHINE.with_borrow(|machine| {
            assert_eq!(machine.words[2], 0xff01, "one bit");
            assert_eq!(machine.doorbells.last().unwrap(), &["masked CAS", "READ"], "one list, one doorbell");
            let entry = machine.entries.last().unwrap();
            assert_eq!(entry[11], 0, "the READ behind it brings the completion");
        });
        // The second attempt does not get the bit.
        let again = run(&mut fabric, &lanes, &[lock]);
        assert_eq!(again[0].value, 0xff01);
        assert_eq!(MACHINE.with_borrow(|machine| machine.words[2]), 0xff01);
    }
}

#[test]
fn masked_atomics_are_not_offered_where_either_end_lacks_them_or_answers_nonsense() {
    for (answers, peer_too) in [(Answers::Nonsense, true), (Answers::Native, false)] {
        let mut fabric = fabric(answers, peer_too);
        assert!(!fabric.capabilities().masked_atomics, "{answers:?}");
        let mut scratch = [0; 64];
        let lanes = [Lane::new(LaneId(0), &mut scratch)];
        let done = run(&mut fabric, &lanes, &[Request::masked_cas(Label::Tool, N0, 16, [0, 1, 1, 1])]);
        assert_eq!(done[0].status, Status::Unsupported);
    }
}

#[test]
fn a_send_queue_drains_though_nobody_waits() {
    let mut fabric = VerbsFabric::null(1 << 20).unwrap();
    let mut scratch = [0; 64];
    let lanes = [Lane::new(LaneId(0), &mut scratch)];
    for turn in 0..10_000 {
        run(&mut fabric, &lanes, &[Request::write_word(Label::Tool, N0, 0, turn).unsignaled()]);
        assert!(fabric.links[0].unsignaled as usize <= fabric.links[0].depth() / 4);
    }
}

#[test]
fn a_chain_is_reported_up_to_the_last_request_that_is_waited_for() {
    let mut fabric = VerbsFabric::null(1 << 20).unwrap();
    let mut scratch = [0; 64];
    let lanes = [Lane::new(LaneId(0), &mut scratch)];
    let (waited, tail) =
        (Request::read(Label::Tool, N0, 0, 8, 0), Request::write_word(Label::Tool, N0, 8, 1).unsignaled());
    let left = |fabric: &VerbsFabric| (fabric.links[0].outstanding(), fabric.links[0].unsignaled);
    for (requests, still_posted) in [
        (&[waited, tail, waited, tail, tail][..], 2),
        // The next chain drains it.
        (&[tail, waited][..], 0),
        // A request that is refused ends its chain; those before it are posted.
        (&[waited, tail, Request::read(Label::Tool, N0, 1 << 20, 8, 0), waited][..], 1),
    ] {
        let refused = requests.iter().position(|request| request.offset == 1 << 20).unwrap_or(requests.len());
        for (position, completion) in run(&mut fabric, &lanes, requests).iter().enumerate() {
            let expected = match position.cmp(&refused) {
                Ordering::Less => Status::Ok,
                Ordering::Equal => Status::Refused,
                Ordering::Greater => Status::Flushed,
            };
            assert_eq!(completion.status, expected, "{position} of {requests:?}");
        }
        assert_eq!(left(&fabric), (still_posted, still_posted as u32));
    }
}

const CALL: Request = Request::call(Label::Search, N0, 8, 5, 16);

/// The reply to a message: its request, backwards.
fn reply_to(message: &[u8]) -> Vec<u8> {
    let (call, request) = CallMessage::decode(message).unwrap();
    let head = ReplyMessage { id: call.id, is_served: true, queued: 3, service_ns: 700 }.encode();
    head.into_iter().chain(request.iter().rev().copied()).collect()
}

/// Calls without an answer wait for none.
fn impatient() -> VerbsOptions {
    VerbsOptions { calls: 4, answer_wait: Some(Duration::ZERO), ..VerbsOptions::default() }
}

#[test]
fn a_call_is_a_message_and_its_reply_goes_to_its_lane() {
    let mut fabric = fabric(Answers::Native, true);
    assert_eq!(fabric.capabilities().call_bytes_max, CALL_BYTES_MAX as u32);
    MACHINE
        .with_borrow_mut(|machine| machine.serve = Some(|sent| sent.drain(..).map(|sent| reply_to(&sent)).collect()));
    let mut scratch = [0; 64];
    let lanes = [Lane::new(LaneId(0), &mut scratch)];
    for turn in 0..100_u8 {
        lanes[0].port().with(|scratch| scratch[8..13].copy_from_slice(&[turn, 2, 3, 4, 5]));
        // More than fit into the send queue in all, so it drains.
        for behind in [None, Some(Request::read(Label::Tool, N0, 24, 8, 32))] {
            let requests: Vec<_> = [Some(CALL), behind].into_iter().flatten().collect();
            let done = run(&mut fabric, &lanes, &requests);
            assert_eq!((done[0].status, CallAnswer(done[0].value)), (Status::Ok, CallAnswer::new(5, 3, 700)));
            lanes[0].port().with(|scratch| {
                if behind.is_none() {
                    assert_eq!(scratch[8..14], [5, 4, 3, 2, turn, 0]);
                } else {
                    assert_eq!((&scratch[8..13], scratch[32]), (&[turn, 2, 3, 4, 5][..], 7));
                }
            });
        }
    }
    assert_eq!((fabric.waiting_calls, fabric.links[0].credits.waiting()), (0, 0));
}

#[test]
fn calls_that_cannot_be_sent_say_so_and_send_nothing() {
    let mut fabric = fabric(Answers::Native, true);
    let mut scratch = [0; 64];
    let lanes = [Lane::new(LaneId(0), &mut scratch)];
    let far = Request::call(Label::Search, N0, 60, 5, 4);
    let long = Request::call(Label::Search, N0, 0, 5, CALL_BYTES_MAX + 1);
    for (request, status) in [
        (far, Status::Refused),
        (long, Status::Refused),
        (CALL.to(Callee(7), 1000), Status::Unsupported),
        (Request::call(Label::Search, NodeId(7), 0, 5, 8), Status::Refused),
    ] {
        assert_eq!(run(&mut fabric, &lanes, &[request])[0].status, status, "{request:?}");
    }
    assert!(MACHINE.with_borrow(|machine| machine.sent.is_empty()));
    let mut none = with_options(Answers::Native, true, VerbsOptions { calls: 0, ..VerbsOptions::default() });
    assert_eq!(none.capabilities().call_bytes_max, 0);
    assert_eq!(run(&mut none, &lanes, &[CALL])[0].status, Status::Unanswered);
}

/// Calls, each of which is given up before its reply comes, with the next call. How many of 40 were sent.
fn sent_though_replies_are_late(bug: Option<Planted>) -> usize {
    let mut fabric = with_options(Answers::Native, true, impatient());
    MACHINE.with_borrow_mut(|machine| {
        machine.serve = Some(|sent| {
            let last = sent.len() - 1;
            sent.get(last.wrapping_sub(1)).map(|before| reply_to(before)).into_iter().collect()
        });
    });
    let mut scratch = [0; 64];
    let lanes = [Lane::new(LaneId(0), &mut scratch)];
    with_planted(bug, || {
        for turn in 0..40_u8 {
            lanes[0].port().with(|scratch| scratch[8..13].fill(turn));
            let done = run(&mut fabric, &lanes, &[CALL]);
            assert_eq!(done[0].status, Status::Unanswered);
            assert!(lanes[0].port().with(|scratch| scratch[8..13] == [turn; 5]), "the answer of another call");
        }
    });
    MACHINE.with_borrow(|machine| machine.sent.len())
}

#[test]
fn a_late_reply_answers_no_other_call_and_gives_its_credit_back() {
    assert_eq!(sent_though_replies_are_late(None), 40);
    assert_eq!(sent_though_replies_are_late(Some(Planted::CreditLeak)), 4);
}

#[test]
fn replies_of_any_bytes_are_nobodys_or_bounded() {
    let mut fabric = with_options(Answers::Native, true, VerbsOptions { calls: 8, ..VerbsOptions::default() });
    MACHINE.with_borrow_mut(|machine| {
        machine.serve = Some(|sent| {
            let reply = reply_to(sent.last().unwrap());
            let long = [&reply[..REPLY_HEAD_BYTES], &[9; 400]].concat();
            let other = [&[0xff; 8], &reply[8..]].concat();
            // Too short for a head, of no call; then one with more than was asked for, and the same once more.
            vec![reply[..7].to_vec(), Vec::new(), other, long.clone(), long]
        });
    });
    let mut scratch = [0; 64];
    let lanes = [Lane::new(LaneId(0), &mut scratch)];
    for _ in 0..50 {
        lanes[0].port().with(|scratch| scratch.fill(1));
        let done = run(&mut fabric, &lanes, &[CALL]);
        assert_eq!((done[0].status, CallAnswer(done[0].value).bytes()), (Status::Ok, 16));
        lanes[0].port().with(|scratch| assert_eq!((scratch[7], &scratch[8..24], scratch[24]), (1, &[9; 16][..], 1)));
    }
}

#[test]
fn calls_end_with_their_queue_pair_and_the_next_one_has_all_credits() {
    let mut fabric = with_options(Answers::Native, true, VerbsOptions { calls: 4, ..VerbsOptions::default() });
    let mut scratch = [0; 64];
    let lanes = [Lane::new(LaneId(0), &mut scratch)];
    let port = lanes[0].port();
    port.push(CALL);
    port.flush();
    assert_eq!(fabric.post(&lanes, 0), Posted::InFlight);
    fabric.poll(&lanes, &mut |_| panic!("nobody replies"));
    fabric.links[0].fail(Instant::now());
    fabric.finalize(&lanes, 0);
    let mut ready = Vec::new();
    fabric.poll(&lanes, &mut |lane| ready.push(lane));
    assert_eq!((ready, port.completion(0).status, fabric.waiting_calls), (vec![0], Status::Flushed, 0));
    port.reset();
    // The reply comes now, by the queue pair that is gone: nobody's. The next call has a queue pair of its own.
    fabric.links[0].connect_null().unwrap();
    MACHINE.with_borrow_mut(|machine| {
        machine.serve = Some(|sent| sent.iter().map(|sent| reply_to(sent)).collect());
    });
    assert_eq!(run(&mut fabric, &lanes, &[CALL])[0].status, Status::Ok);
}
