//! What is posted, as seen by a device that executes in this process.

use super::null::executing::{Answers, MACHINE};
use super::*;

const N0: NodeId = NodeId(0);
const WORD: u64 = 0x0102_0304_0506_0708;

fn fabric(answers: Answers, peer_too: bool) -> VerbsFabric {
    MACHINE.with_borrow_mut(|machine| {
        machine.words = [WORD, 0, 0xff00, 7, 0, 0, 0, 0];
        machine.answers = answers;
        machine.entries.clear();
        machine.doorbells.clear();
    });
    let options = Arc::new(VerbsOptions { write_turn_ns_min: Some(1), ..VerbsOptions::default() });
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
