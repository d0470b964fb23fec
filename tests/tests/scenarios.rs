//! Scenarios of earlier bugs: each test describes its bug, and then runs it.

use dm_core::btree::{Options, Subtrees};
use dm_core::lane::{Lane, Stage};
use dm_core::layout::LINE_BYTES;
use dm_core::locks::ChainedRead;
use dm_core::marks::Mark;
use dm_core::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome};
use dm_core::port::OUTBOX_REQUESTS;
use dm_core::verbs::{Flags, Label, NodeId, Request, Space, Status, Verb};
use dm_tests::client::{Client, Progress, Steps, alone, on_test_bed};
use dm_tests::fabric::{AnyFabric, Failure, locks_taken, peek, poke};
use dm_tests::subject::chime::ChimeSubject;
use dm_tests::subject::dex::DexSubject;
use dm_tests::subject::items::ItemsSubject;
use dm_tests::subject::sherman::ShermanSubject;
use dm_tests::subject::smart::SmartSubject;
use dm_tests::subject::{Shape, Subject};
use dm_tests::test_bed::{Direct, Fixture, Setup, Slow};
use std::collections::BTreeSet;

/// Inner nodes split before the new separator went in, so a node of two separators left a half with a single child.
/// Descending keys did that on every level: 129 records made sixteen levels, and the next root was one that no reader
/// accepted. Every key of the index was lost.
#[test]
fn descending_keys_make_no_tower() {
    alone(&ShermanSubject, &Direct, &Setup::new(Shape::words(2, 2)), |client| {
        for n in (0..2000u64).rev() {
            assert_eq!(client.ask(OperationKind::Insert, n, n as u32, 0).0, Outcome::Inserted);
        }
        let census = client.validate();
        assert_eq!(census.records, 2000);
        // Two children per inner node at least: no more levels than a binary tree of 2000 leaves has.
        assert!(census.levels <= 12, "{census:?}");
        assert_eq!(client.get(1999), Some(1999));
    });
}

/// A leaf of nine packets took an emulated NIC longer than versions can vouch for, every time, and the walk reported a
/// torn leaf.
#[test]
fn what_is_slow_is_not_torn() {
    for subject in [&ShermanSubject as &dyn Subject, &ChimeSubject] {
        alone(subject, &Slow, &Setup::new(Shape::words(8, 4)), |client| {
            for n in 0..200u64 {
                client.put(n, n as u32);
            }
            assert!((0..200).all(|n| client.get(n) == Some(n as u32)));
            assert!(client.lanes[0].marked(Mark::LOCKED_READ) > 100, "{}", subject.name());
            assert_eq!(client.validate().records, 200);
        });
    }
}

/// Lane 1 waited in the local queue and was dropped just when lane 0 handed it the lock. Settling learned of the
/// handover from the local table, which tells it once, and began to unlock; it was dropped, too. The next settling
/// found no lock to release: the lock word stayed held for ever.
#[test]
fn a_settling_that_was_dropped_forgets_no_hand_over() {
    alone(&ShermanSubject, &Direct, &Setup::new(Shape::words(4, 4)), |client| {
        client.put(1, 1);
        for lane in [0, 1] {
            client.arguments(lane, 1, 7, 0);
        }
        let (index, lanes, fabric) = (client.index, client.lanes, &mut *client.fabric);
        let update = |lane: usize| {
            Steps::new(&lanes[lane], index.execute(&lanes[lane], Operation::point(OperationKind::Update)))
        };
        let (mut first, mut second) = (update(0), update(1));
        assert_eq!(first.poll(), Progress::Submitted);
        assert_eq!(second.poll(), Progress::Parked);
        first.post(fabric);
        assert!(matches!(first.go(fabric), Progress::Done(Ok(Outcome::Updated))));
        assert_eq!(first.woken, [lanes[1].id()], "the lock was handed over");
        second.abandon(fabric);
        let mut settling = Steps::new(&lanes[1], index.settle(&lanes[1]));
        assert_eq!(settling.poll(), Progress::Submitted);
        // Its unlock is never sent.
        lanes[1].port().reset();
        settling.abandon(fabric);
        assert_eq!(locks_taken(fabric, client.geometry).len(), 1);
        client.settle(1).unwrap();
        client.assert_quiet("after the second settling");
        client.put(1, 2);
    });
}

/// A merge that failed on a dead memory node left a lock to settle. Its operation had succeeded, and went on to help a
/// half-split under the same lock, so the lane queued behind itself. Now an operation that is started on a lane in
/// doubt fails.
#[test]
fn a_lane_in_doubt_refuses_operations() {
    alone(&ShermanSubject, &Direct, &Setup::new(Shape::words(4, 4)), |client| {
        client.put(1, 1);
        client.arguments(0, 1, 7, 0);
        let (index, lanes) = (client.index, client.lanes);
        let mut update = Steps::new(&lanes[0], index.execute(&lanes[0], Operation::point(OperationKind::Update)));
        assert_eq!(update.poll(), Progress::Submitted);
        update.post(client.fabric);
        update.abandon(client.fabric);
        let refused = client.run(OperationKind::Update, 1, 8, 0).result.expect_err("the lane holds a lock");
        assert!(refused.to_string().contains("in doubt"), "{refused}");
        client.settle(0).unwrap();
        assert_eq!(client.get(1), Some(1));
        client.assert_quiet("after settling");
    });
}

/// A merge failed with its queue pair while two of its WRITEs were under way to one memory node. Settling freed the
/// parent's lock on another memory node at once. Another lane locked the parent, saw that the right leaf was not
/// retired, and linked it again. Then the WRITE that retired it landed. Now settling first asks whether that queue pair
/// is closed, before it frees anything.
#[test]
fn settling_frees_nothing_while_a_write_that_failed_may_still_land() {
    for subject in [&ShermanSubject as &dyn Subject, &ChimeSubject, &SmartSubject] {
        alone(subject, &Direct, &Setup::new(Shape::words(8, 4)), |client| {
            client.put(1, 1);
            client.arguments(0, 1, 7, 0);
            let (index, lanes, fabric) = (client.index, client.lanes, &mut *client.fabric);
            let port = lanes[0].port();
            let asks = |label: Label| port.requests().iter().any(|request| request.label == label);
            let mut update = Steps::new(&lanes[0], index.execute(&lanes[0], Operation::point(OperationKind::Update)));
            let failed = loop {
                match update.poll() {
                    Progress::Submitted => {
                        if asks(Label::Unlock) {
                            fabric.failure =
                                Some(Failure { after: 0, times: 1, status: Status::Flushed, lands: false });
                        }
                        update.post(fabric);
                    }
                    stand => break stand,
                }
            };
            let Progress::Done(Err(error)) = failed else {
                panic!("{}: the update ended as {failed:?}", subject.name())
            };
            assert_eq!(error.effect, Effect::Unknown, "{}: {error}", subject.name());
            let mut settling = Steps::new(&lanes[0], index.settle(&lanes[0]));
            for _ in 0..3 {
                assert_eq!(settling.poll(), Progress::Submitted);
                assert!(asks(Label::Closed) && port.requests().len() == 1, "{}", subject.name());
                fabric.failure = Some(Failure { after: 0, times: 1, status: Status::Flushed, lands: false });
                settling.post(fabric);
                assert_eq!(settling.poll(), Progress::Submitted);
                assert!(asks(Label::Wait), "{}: it pauses and asks again", subject.name());
                settling.post(fabric);
            }
            fabric.failure = None;
            assert_eq!(settling.go(fabric), Progress::Done(Ok(())));
            client.assert_quiet("after settling");
            assert_eq!(client.get(1), Some(1));
        });
    }
}

/// An insert of SMART failed with its queue pair at the CAS of a slot. It held no lock, so nothing had its lane settle.
/// The lane's next operation gave up the pin of the failed one, and the CAS could still land, in a place that had been
/// reused. Now the lane settles after every request that failed so, with a lock or without.
#[test]
fn a_request_that_failed_without_a_lock_is_settled() {
    for subject in [&SmartSubject as &dyn Subject, &ItemsSubject(SmartSubject), &ShermanSubject] {
        // With a READ in the chain of each CAS, Sherman's inserts have no request without a lock.
        let options = Options { chain_lock_read: ChainedRead::Never, ..Options::default() };
        alone(subject, &Direct, &Setup::new(Shape::words(8, 4)).switched(options), |client| {
            client.put(1, 1);
            let mut without_lock = 0;
            for after in 0.. {
                client.fabric.failure = Some(Failure { after, times: 1, status: Status::Flushed, lands: false });
                let _ = client.run(OperationKind::Insert, u64::from(100 + after), 7, 0);
                if client.fabric.failure.take().is_some_and(|failure| failure.times > 0) {
                    break;
                }
                let when = format!("{}, submit {after}", subject.name());
                assert!(client.lanes[0].in_doubt(), "{when}");
                without_lock += u32::from(client.lanes[0].lock_records().is_empty());
                let refused = client.run(OperationKind::Get, 1, 0, 0).result.expect_err("a request may still land");
                assert!(refused.to_string().contains("in doubt"), "{when}: {refused}");
                client.settle(0).unwrap();
                client.assert_quiet(&when);
                assert_eq!(client.get(1), Some(1), "{when}");
            }
            assert!(without_lock > 0, "{}", subject.name());
        });
    }
}

/// A tree over two memory nodes: few leaves fill a chunk, chunks come from both in turn, and all leaves have one parent.
fn leaves_on_two_nodes() -> Setup {
    let shape = Shape { value_bytes: 400, ..Shape::words(2, 64) };
    Setup { chunk_nodes: 2, region_bytes: 1 << 20, ..Setup::new(shape).on(2) }
}

/// Whether a request is a WRITE of a merge.
fn merges(request: &Request) -> bool {
    request.verb == Verb::Write && matches!(request.label, Label::Parent | Label::Sibling | Label::Node)
}

/// Without recovery a merge posted its three WRITEs at once, wherever the nodes were. If the queue pair to the right
/// leaf's memory node failed, the parent forgot that leaf, the left leaf covered its keys, and it stayed live: a lane
/// with an old copy of the parent wrote into it, and no other lane saw that.
#[test]
fn a_merge_over_two_memory_nodes_awaits_each_write() {
    for subject in [&ShermanSubject as &dyn Subject, &ChimeSubject] {
        alone(subject, &Direct, &leaves_on_two_nodes(), |client| {
            (0..PARENT_RECORDS).for_each(|n| client.put(n * 10, 1));
            let mut over_two = 0;
            for n in 0..PARENT_RECORDS {
                client.arguments(0, n * 10, 0, 0);
                let (index, lanes) = (client.index, client.lanes);
                let mut delete =
                    Steps::new(&lanes[0], index.execute(&lanes[0], Operation::point(OperationKind::Delete)));
                let mut nodes = BTreeSet::new();
                while delete.up_to(client.fabric, merges) == Progress::Submitted {
                    let written: BTreeSet<_> =
                        lanes[0].port().requests().iter().filter(|it| merges(it)).map(|it| it.node).collect();
                    assert_eq!(written.len(), 1, "{}: one submit for {written:?}", subject.name());
                    nodes.extend(written);
                    delete.post(client.fabric);
                }
                delete.post(client.fabric);
                over_two += u32::from(nodes.len() > 1);
            }
            assert!(over_two > 3, "{}: {over_two} merges over two memory nodes", subject.name());
        });
    }
}

/// The memory node and offset of the WRITE with a label in the submit that a lane is about to post.
fn written(lane: &Lane<'_>, label: Label) -> Option<(NodeId, u64)> {
    let requests = lane.port().requests();
    let write = requests.iter().rfind(|request| request.label == label && request.verb == Verb::Write)?;
    Some((write.node, write.offset))
}

/// Drives an operation that is `at` a submit, or at its end, to its end.
fn finish(mut steps: Steps<'_, '_, Outcome>, at: &Progress<Result<Outcome, OpError>>, fabric: &mut AnyFabric) {
    steps.post(fabric);
    if *at == Progress::Submitted {
        steps.go(fabric);
    }
}

/// A merge was cut short before it wrote the left leaf, so that this still linked to the right one, which was retired.
/// Then the left leaf was merged away itself, and its place got another node. The right leaf led back to that place,
/// under an older generation: each descent began again, none counted more than one forwarding retry, and every
/// operation of those keys failed until somebody validated the index.
#[test]
fn a_half_merge_is_undone_after_its_left_leaf_was_reused() {
    for subject in [&ShermanSubject as &dyn Subject, &ChimeSubject] {
        // The first emptied leaf whose neighbours allow it.
        let undone = (4..PARENT_RECORDS).any(|first| half_merge_with_reused_left_leaf(subject, first));
        assert!(undone, "{}: no half-merge whose left leaf is reused", subject.name());
    }
}

/// Deletes records from record `first` on until a leaf is merged into one on another memory node, and cuts that merge
/// short. Then deletes the records to the left, until the left leaf is merged away, and inserts others, until its place
/// is reused. `false`: it does not come to that.
fn half_merge_with_reused_left_leaf(subject: &dyn Subject, first: u64) -> bool {
    let mut undone = false;
    alone(subject, &Direct, &leaves_on_two_nodes(), |client| {
        (0..PARENT_RECORDS).for_each(|n| client.put(n * 10, 1));
        let (index, lanes) = (client.index, client.lanes);
        let lane = &lanes[0];
        let begin = |kind| Steps::new(lane, index.execute(lane, Operation::point(kind)));
        // Up to the WRITE of the left leaf.
        let mut left = None;
        let mut emptied = first;
        while emptied < first + 6 && left.is_none() {
            client.arguments(0, emptied * 10, 0, 0);
            let mut delete = begin(OperationKind::Delete);
            let is_left = |request: &Request| request.label == Label::Node && request.verb == Verb::Write;
            let at = delete.up_to(client.fabric, is_left);
            if at == Progress::Submitted && written(lane, Label::Sibling).is_none() {
                left = written(lane, Label::Node);
                client.fabric.failure = Some(Failure { after: 0, times: 1, status: Status::Flushed, lands: false });
            }
            finish(delete, &at, client.fabric);
            client.fabric.failure = None;
            emptied += 1;
        }
        let Some(left) = left else { return };
        client.settle(0).unwrap();
        client.assert_quiet("after the half-merge");
        let merged = lane.marked(Mark::MERGE);
        // The records of the left leaf and of some to its left.
        for n in (first.saturating_sub(3)..first).rev() {
            client.ask(OperationKind::Delete, n * 10, 0, 0);
        }
        if lane.marked(Mark::MERGE) == merged {
            return;
        }
        let mut is_reused = false;
        for n in 0..60 {
            client.arguments(0, 10_000 + n, 1, 0);
            let mut insert = begin(OperationKind::Insert);
            let is_new = |request: &Request| {
                request.verb == Verb::Write && (request.node, request.offset) == left && request.label == Label::Sibling
            };
            let at = insert.up_to(client.fabric, is_new);
            is_reused |= at == Progress::Submitted;
            finish(insert, &at, client.fabric);
        }
        if !is_reused {
            return;
        }
        for n in first..emptied {
            assert_eq!(client.get(n * 10), None, "{}, record {n}", subject.name());
        }
        undone = lane.marked(Mark::MERGE_UNDONE) > 0;
        client.put(first * 10, 3);
        assert_eq!(client.get(first * 10), Some(3));
        client.validate();
    });
    undone
}

/// A compute node died in a merge of CHIME. The redo record of the right leaf had landed, and the WRITE that retires that
/// leaf had not. Others freed the parent and the left leaf. A lane met the right leaf as a half-split, saw under the
/// parent's lock that it was live, and linked it. Then the redo record was replayed: the parent named a retired leaf.
/// Now the first line of the leaf, at which a linker looks, is retired ahead of the redo record.
#[test]
fn no_replay_retires_a_leaf_that_a_linker_has_seen_live() {
    let mut setup = Setup { recovery: Some(64), ..leaves_on_two_nodes() };
    setup.spending.lanes = 2;
    let met = (4..PARENT_RECORDS).filter(|first| link_before_replay(&setup, *first)).count();
    assert!(met > 0, "no merge");
}

/// Deletes records from record `first` on until leaves are merged, and cuts that merge short. `false`: none are.
fn link_before_replay(setup: &Setup, first: u64) -> bool {
    let mut test_bed = Direct.test_bed(&ChimeSubject, setup);
    // The lock words of the merge, and what they say when they are free.
    let mut words: Vec<(Request, u64)> = Vec::new();
    let mut cut = None;
    on_test_bed(&ChimeSubject, &mut test_bed, setup, 0, &mut |client| {
        (0..PARENT_RECORDS).for_each(|n| client.put(n * 10, 1));
        let (index, lanes) = (client.index, client.lanes);
        let port = lanes[0].port();
        for n in first..(first + 6).min(PARENT_RECORDS) {
            client.arguments(0, n * 10, 0, 0);
            let mut delete = Steps::new(&lanes[0], index.execute(&lanes[0], Operation::point(OperationKind::Delete)));
            while delete.poll() == Progress::Submitted {
                let requests = port.requests().to_vec();
                let is_whole =
                    |request: &Request| request.label == Label::Sibling && request.bytes as usize > LINE_BYTES;
                if let Some(position) = requests.iter().position(is_whole) {
                    // What is in front of the WRITE of the whole leaf lands.
                    let payload = |request: &Request| payload(&lanes[0], request);
                    for request in &requests[..position] {
                        poke(client.fabric, request.space, request.node, request.offset, &payload(request));
                    }
                    cut = Some((n, requests[position], payload(&requests[position])));
                    port.reset();
                    delete.abandon(client.fabric);
                    return;
                }
                for request in requests {
                    let is_same = |word: &Request| (word.node, word.offset) == (request.node, request.offset);
                    if matches!(request.label, Label::Lock | Label::Unlock) && request.verb != Verb::Read {
                        words.retain(|(word, _)| !is_same(word));
                    }
                    if request.label == Label::Lock && request.verb != Verb::Read {
                        words.push((request, request.operands[0]));
                    }
                }
                delete.post(client.fabric);
            }
            delete.post(client.fabric);
        }
    });
    let Some((n, retires, image)) = cut else { return false };
    let (right, _) = words.pop().expect("the right leaf is locked last");
    assert_eq!(words.len(), 2, "the parent and the left leaf");
    for (word, free) in words {
        poke(&mut test_bed.fabric, word.space, word.node, word.offset, &free.to_le_bytes());
    }
    on_test_bed(&ChimeSubject, &mut test_bed, setup, 1, &mut |client| {
        client.arguments(0, n * 10, 0, 0);
        let (index, lanes) = (client.index, client.lanes);
        let mut get = Steps::new(&lanes[0], index.execute(&lanes[0], Operation::point(OperationKind::Get)));
        // It waits for the lock of the right leaf.
        let links = |request: &Request| request.label == Label::Parent && request.verb == Verb::Write;
        let at = get.up_to(client.fabric, |request| links(request) || request.verb == Verb::Pause);
        let is_linked = lanes[0].port().requests().iter().any(links);
        assert!(at == Progress::Submitted && !is_linked, "record {n}: it links a leaf that a redo record retires");
        get.abandon(client.fabric);
        client.settle(0).unwrap();
        // The replay.
        poke(client.fabric, retires.space, retires.node, retires.offset, &image);
        poke(client.fabric, right.space, right.node, right.offset, &0u64.to_le_bytes());
        assert_eq!(client.get(n * 10), None);
        assert_eq!(client.lanes[0].marked(Mark::MERGE_UNDONE), 1, "record {n}");
        assert_eq!(client.validate().records, PARENT_RECORDS - (n + 1 - first));
    });
    true
}

/// The bytes that a WRITE of a lane sends.
fn payload(lane: &Lane<'_>, request: &Request) -> Vec<u8> {
    let bytes = request.bytes as usize;
    if request.flags.contains(Flags::INLINE) {
        return request.inline_payload()[..bytes].to_vec();
    }
    lane.port().with(|scratch| scratch[request.local as usize..][..bytes].to_vec())
}

/// A lane handed a lock word over, with the redo record of its WRITE in its slot. The next lane wrote the same leaf,
/// handed the word on, and used its own slot again under another lock. The third lane failed, and settling took the
/// redo record of the first lane for the last one. So the value of the second lane, whose update had succeeded, was
/// overwritten by the earlier one.
#[test]
fn a_word_with_redo_records_of_two_lanes_is_not_handed_on() {
    // An entry is longer than a line: its WRITE needs a redo record.
    let setup = Setup { recovery: Some(64), ..Setup::new(Shape { value_bytes: 120, ..Shape::words(4, 4) }) };
    for subject in [&ShermanSubject as &dyn Subject, &ChimeSubject, &SmartSubject] {
        alone(subject, &Direct, &setup, |client| {
            for n in 0..40 {
                client.put(n, 1);
            }
            let (index, lanes) = (client.index, client.lanes);
            let update = |lane: usize| {
                Steps::new(&lanes[lane], index.execute(&lanes[lane], Operation::point(OperationKind::Update)))
            };
            for (lane, stamp) in [(0, 10), (1, 11), (2, 12)] {
                client.arguments(lane, 1, stamp, 0);
            }
            let [mut first, mut second, mut third] = [0, 1, 2].map(update);
            assert_eq!(first.up_to(client.fabric, |request| request.label == Label::Lock), Progress::Submitted);
            for waiting in [&mut second, &mut third] {
                assert_eq!(waiting.go(client.fabric), Progress::Parked);
            }
            assert_eq!(first.go(client.fabric), Progress::Done(Ok(Outcome::Updated)));
            assert_eq!(first.woken, [lanes[1].id()], "{}", subject.name());
            second.post(client.fabric);
            assert_eq!(second.go(client.fabric), Progress::Done(Ok(Outcome::Updated)));
            assert_eq!((lanes[1].marked(Mark::HAND_OVER), &*second.woken), (1, &[lanes[2].id()][..]));
            client.arguments(1, 39, 5, 0);
            assert_eq!(update(1).go(client.fabric), Progress::Done(Ok(Outcome::Updated)));
            third.abandon(client.fabric);
            client.settle(2).unwrap();
            client.assert_quiet("after settling");
            assert_eq!(client.get(1), Some(11), "{}", subject.name());
        });
    }
}

/// A lane wrote a parent and handed the parent's lock over. The next lane merged two leaves. It wrote the parent,
/// retired the right leaf on another memory node, and failed at the left leaf, whose redo record had overwritten that
/// of the parent. Settling took the redo record of the lane before it for the last one. So the parent pointed to the
/// retired leaf again.
///
/// The test searches for keys that make lanes meet like this.
#[test]
fn a_redo_record_of_a_parent_stays_while_its_lock_is_held() {
    for subject in [&ShermanSubject as &dyn Subject, &ChimeSubject] {
        let choices = (0..PARENT_RECORDS).flat_map(|first| (1..=6).map(move |count| (first, count)));
        let merges: Vec<_> = choices.filter(|choice| merge_of_handed_over_parent(subject, *choice, None)).collect();
        let mut meets = merges.iter().flat_map(|choice| (0..PARENT_RECORDS).map(move |n| (*choice, n)));
        let met = meets.any(|(choice, n)| merge_of_handed_over_parent(subject, choice, Some(n)));
        assert!(met, "{}: {} merges, and no lane meets one", subject.name(), merges.len());
    }
}

/// Records in the tree of [`merge_of_handed_over_parent`].
const PARENT_RECORDS: u64 = 36;

/// Lane 1 deletes the last of `count` records from record `first` on. Lane 0 inserts a key behind record `behind` and
/// hands lane 1 the lock of the parent. Returns `false` if no such merge occurs. Without `behind`, returns whether the
/// delete causes one by itself.
fn merge_of_handed_over_parent(subject: &dyn Subject, (first, count): (u64, u64), behind: Option<u64>) -> bool {
    // Few leaves fill a chunk, chunks come from both memory nodes in turn, and all leaves have one parent.
    let shape = Shape { value_bytes: 400, ..Shape::words(2, 64) };
    let mut setup = Setup { recovery: Some(64), chunk_nodes: 2, region_bytes: 1 << 20, ..Setup::new(shape).on(2) };
    setup.spending.lanes = 2;
    let mut met = false;
    alone(subject, &Direct, &setup, |client| {
        for n in 0..PARENT_RECORDS {
            client.put(n * 10, 1);
        }
        let last = (first + count - 1) % PARENT_RECORDS;
        for n in first..first + count - 1 {
            client.ask(OperationKind::Delete, n % PARENT_RECORDS * 10, 0, 0);
        }
        let (index, lanes) = (client.index, client.lanes);
        let begin = |lane: usize, kind| Steps::new(&lanes[lane], index.execute(&lanes[lane], Operation::point(kind)));
        let writes = |label: Label| move |request: &Request| request.label == label && request.verb == Verb::Write;
        client.arguments(1, last * 10, 0, 0);
        let mut merge = begin(1, OperationKind::Delete);
        let inserted = behind.map(|n| n * 10 + 5);
        if let Some(n) = inserted {
            client.arguments(0, n, 1, 0);
            let mut insert = begin(0, OperationKind::Insert);
            // Up to the READ of the parent under its lock.
            let holds = || lanes[0].lock_records().iter().any(|record| record.stage == Stage::Held);
            let locked = |request: &Request| request.label == Label::Parent && request.verb == Verb::Read && holds();
            if insert.up_to(client.fabric, locked) != Progress::Submitted {
                return;
            }
            let parked = merge.go(client.fabric) == Progress::Parked;
            insert.go(client.fabric);
            if !parked || insert.woken != [lanes[1].id()] {
                return;
            }
            merge.post(client.fabric);
        }
        let Progress::Submitted = merge.up_to(client.fabric, writes(Label::Parent)) else { return };
        let node_of = |label: Label| lanes[1].port().requests().iter().find(|r| r.label == label).map(|r| r.node);
        let parent = node_of(Label::Parent);
        let Progress::Submitted = merge.up_to(client.fabric, writes(Label::Node)) else { return };
        if node_of(Label::Node) != parent || node_of(Label::Sibling).is_some() || lanes[1].lock_records().len() < 3 {
            return;
        }
        met = lanes[1].marked(Mark::HAND_OVER) == u32::from(inserted.is_some());
        if !met || inserted.is_none() {
            return;
        }
        // The redo record of the left leaf lands. The leaf does not.
        let record = lanes[1].port().requests()[0];
        assert_eq!(record.label, Label::Redo);
        let start = record.local as usize;
        let bytes = lanes[1].port().with(|scratch| scratch[start..start + record.bytes as usize].to_vec());
        client.fabric.failure = Some(Failure { after: 0, times: 1, status: Status::Flushed, lands: false });
        merge.go(client.fabric);
        client.fabric.failure = None;
        poke(client.fabric, Space::Host, record.node, record.offset, &bytes);
        client.settle(1).unwrap();
        client.assert_quiet("after settling");
        assert_eq!(client.validate().records, PARENT_RECORDS - count + 1, "{}", subject.name());
    });
    met
}

/// A lane of CHIME that lost the CAS of a leaf's lock paused before the next one even with back-off switched off. So
/// measurements labelled "without back-off" had it.
#[test]
fn without_back_off_the_next_cas_follows_at_once() {
    for subject in [&ShermanSubject as &dyn Subject, &ChimeSubject, &SmartSubject] {
        for back_off in [true, false] {
            let options = Options { hierarchical: false, back_off, ..Options::default() };
            alone(subject, &Direct, &Setup::new(Shape::words(8, 4)).switched(options), |client| {
                client.put(1, 1);
                for lane in [0, 1] {
                    client.arguments(lane, 1, 7, 0);
                }
                let (index, lanes, fabric) = (client.index, client.lanes, &mut *client.fabric);
                // Up to the CAS of the lock.
                let [mut holder, mut loser] = [0, 1].map(|lane: usize| {
                    let update = index.execute(&lanes[lane], Operation::point(OperationKind::Update));
                    let mut update = Steps::new(&lanes[lane], update);
                    loop {
                        assert_eq!(update.poll(), Progress::Submitted);
                        let locks = lanes[lane].port().requests().iter().any(|request| request.label == Label::Lock);
                        update.post(fabric);
                        if locks {
                            return update;
                        }
                    }
                });
                assert_eq!(loser.poll(), Progress::Submitted);
                let next = lanes[1].port().requests()[0];
                assert_eq!(next.verb == Verb::Pause, back_off, "{}: {next:?}", subject.name());
                assert_eq!(next.label == Label::Lock, !back_off, "{}: {next:?}", subject.name());
                for update in [&mut holder, &mut loser] {
                    assert_eq!(update.go(fabric), Progress::Done(Ok(Outcome::Updated)));
                }
                client.assert_quiet("after both");
            });
        }
    }
}

/// A scan READ a leaf under its lock and handed the lock over. The wake of the lane that got it waits for the scan's next
/// submit, and READs of sixteen leaves, or of sixteen blocks, were to go with it. That was one request too many: the scan
/// failed, and the wake was lost.
#[test]
fn a_scan_has_room_for_a_wake_that_it_owes() {
    let setup = Setup { region_bytes: 16 << 20, ..Setup::new(Shape { value_bytes: 40, ..Shape::words(57, 12) }) };
    for subject in [&ItemsSubject(ShermanSubject) as &dyn Subject, &ItemsSubject(ChimeSubject)] {
        let turns = (0..8).flat_map(|turn| [1, 20, 39].map(|n| (turn, n)));
        let blocks = turns.filter_map(|(turn, n)| blocks_behind_a_handover(subject, &setup, turn, n)).max();
        assert_eq!(blocks, Some(OUTBOX_REQUESTS - 1), "{}", subject.name());
    }
    assert_eq!(leaves_behind_a_handover(&setup), Some(OUTBOX_REQUESTS - 1));
}

/// Records of these scenarios.
const SCANNED_RECORDS: u64 = 40;

/// Lane 0 scans all records, each leaf under its lock. Lane 1 waits for the lock that lane 0 takes after `turn` others, to
/// update record `n`. See [`reads_behind_a_wake`]; `None`: record `n` has another lock.
fn blocks_behind_a_handover(subject: &dyn Subject, setup: &Setup, turn: u32, n: u64) -> Option<usize> {
    let mut together = None;
    alone(subject, &Slow, setup, |client| {
        (0..SCANNED_RECORDS).for_each(|n| client.put(n, 1));
        let (index, lanes) = (client.index, client.lanes);
        client.arguments(0, 0, 0, 0);
        client.arguments(1, n, 2, 0);
        let mut scan = Steps::new(&lanes[0], index.execute(&lanes[0], Operation::scan(SCANNED_RECORDS as u32)));
        let (mut locked, mut locks) = (false, 0);
        while locks <= turn {
            let Progress::Submitted = scan.poll() else { return scan.abandon(client.fabric) };
            scan.post(client.fabric);
            let before = core::mem::replace(&mut locked, !lanes[0].lock_records().is_empty());
            locks += u32::from(locked && !before);
        }
        let mut update = Steps::new(&lanes[1], index.execute(&lanes[1], Operation::point(OperationKind::Update)));
        if update.go(client.fabric) == Progress::Parked {
            together = Some(reads_behind_a_wake(&mut scan, &mut update, &lanes[0], Label::Block, client.fabric));
        } else {
            scan.go(client.fabric);
        }
        client.assert_quiet("after both");
    });
    together
}

/// The same in SMART, of leaves: the last one of those that are READ together is torn until lane 0 has its lock.
fn leaves_behind_a_handover(setup: &Setup) -> Option<usize> {
    let mut together = None;
    alone(&SmartSubject, &Direct, setup, |client| {
        // Leaves that lie one behind the other are READ in one.
        (0..SCANNED_RECORDS).for_each(|n| client.put(n * 7 % SCANNED_RECORDS, 1));
        let (index, lanes) = (client.index, client.lanes);
        client.arguments(0, 0, 0, 0);
        let mut scan = Steps::new(&lanes[0], index.execute(&lanes[0], Operation::scan(SCANNED_RECORDS as u32)));
        assert_eq!(scan.up_to(client.fabric, |request| request.label == Label::Leaf), Progress::Submitted);
        let leaves = lanes[0].port().requests().to_vec();
        let Some(last) = leaves.last() else { return };
        let at = last.offset + u64::from(last.bytes) / 2;
        let whole = peek(client.fabric, Space::Host, last.node, at, 1);
        poke(client.fabric, Space::Host, last.node, at, &[!whole[0]]);
        while lanes[0].lock_records().is_empty() {
            scan.post(client.fabric);
            assert_eq!(scan.poll(), Progress::Submitted);
        }
        scan.post(client.fabric);
        client.arguments(1, leaves.len() as u64 - 1, 2, 0);
        let mut update = Steps::new(&lanes[1], index.execute(&lanes[1], Operation::point(OperationKind::Update)));
        assert_eq!(update.go(client.fabric), Progress::Parked);
        poke(client.fabric, Space::Host, last.node, at, &whole);
        together = Some(reads_behind_a_wake(&mut scan, &mut update, &lanes[0], Label::Leaf, client.fabric));
        client.assert_quiet("after both");
    });
    together
}

/// Drives a scan to its end, which has to succeed, and an update that waits for it. Returns how many READs with this label went
/// with the wake.
fn reads_behind_a_wake(
    scan: &mut Steps<'_, '_, Outcome>,
    update: &mut Steps<'_, '_, Outcome>,
    lane: &Lane<'_>,
    label: Label,
    fabric: &mut AnyFabric,
) -> usize {
    let mut together = None;
    loop {
        let progress = scan.poll();
        if together.is_none() && (!scan.woken.is_empty() || matches!(progress, Progress::Done(_))) {
            together = Some(lane.port().requests().iter().filter(|request| request.label == label).count());
            update.post(fabric);
            assert_eq!(update.go(fabric), Progress::Done(Ok(Outcome::Updated)));
        }
        scan.post(fabric);
        if let Progress::Done(result) = progress {
            assert_eq!(result, Ok(Outcome::Page { records: SCANNED_RECORDS as u32, more: true }));
            return together.unwrap_or(0);
        }
    }
}

/// Ranges of keys into which the creation of a DEX cuts all keys evenly, each with leaves of its own.
const RANGES: u64 = 64;

/// Inserts ascending keys until there is no memory for more: how many, and why.
fn inserts_until_full(client: &mut Client<'_, '_>) -> (u64, Cause) {
    for n in 0.. {
        match client.run(OperationKind::Insert, n, 1, 0).result {
            Ok(outcome) => assert_eq!(outcome, Outcome::Inserted),
            Err(error) => {
                assert_eq!(error.effect, Effect::None);
                return (n, error.cause);
            }
        }
    }
    unreachable!("a pool has an end")
}

/// A DEX whose subtrees stay on one memory node each says which memory node is full, and goes on elsewhere. One whose subtrees
/// need not has room as long as any memory node has.
#[test]
fn an_index_that_keeps_its_subtrees_whole_says_which_memory_node_is_full() {
    let setup = |subtrees| {
        let mut setup = Setup { nodes: 2, region_bytes: 1 << 20, ..Setup::new(Shape::words(2, 2)) };
        setup.spending.log_lines = 64;
        setup.spending.options.subtrees = subtrees;
        setup
    };
    let mut anywhere = 0;
    alone(&DexSubject, &Direct, &setup(Subtrees::Near), |client| {
        let (inserted, cause) = inserts_until_full(client);
        assert_eq!(cause, Cause::PoolFull);
        anywhere = inserted;
    });
    alone(&DexSubject, &Direct, &setup(Subtrees::Whole), |client| {
        let (inserted, cause) = inserts_until_full(client);
        let Cause::NodeFull { node } = cause else { panic!("{cause}") };
        assert!(inserted < anywhere, "{inserted} records on memory node {} alone, {anywhere} on both", node.0);
        let (mut room, mut full) = (0, 0);
        for range in 1..RANGES {
            // More than a leaf has room for.
            for n in 0..6 {
                match client.run(OperationKind::Insert, (range << 58) + n, 1, 0).result {
                    Ok(_) => room += 1,
                    Err(error) => {
                        assert_eq!(error, OpError { effect: Effect::None, cause });
                        full += 1;
                    }
                }
            }
        }
        assert!(room > 6 * RANGES / 4 && full > 0, "{room} inserted, {full} refused");
        assert_eq!(client.validate().records, inserted + room);
    });
}
