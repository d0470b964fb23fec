//! Messages of daemons and of those that connect to them.

use crate::fuzz;
use crate::input::Input;
use dm_core::btree::node::{self, Header, NodeFlags};
use dm_core::dex::offload::Walk;
use dm_core::dex::offload::message::{self, Change, ImagePlace, Nodes, Page, Request as Asked, Scan, Task};
use dm_core::dex::offload::walk::NODES_MAX;
use dm_core::dex::parameters::Parameters;
use dm_core::index::forward::message as forward;
use dm_core::operation::{Cause, Effect, OpError, Operation, OperationKind, Outcome, Part, ScratchPlan};
use dm_core::pages::lsn::Lsn;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::NodeId;
use dm_host::memory_node::wire::{Answer, HELLO_BYTES, Hello, WELCOME_BYTES, Welcome, refusal};
use dm_host::region::{Layout, LineMode};
use std::cell::RefCell;

#[test]
fn greetings_over_a_socket() {
    let modes = [LineMode::Sequence, LineMode::Vector];
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let layout = Layout::new(1 << (12 + input.byte() % 24), 4096, input.choose(&modes), 4096);
        let Ok(layout) = layout else { return };
        let welcome =
            Welcome { connection: 7, node: 1, nodes: 3, layout, fencing: input.one_in(2), calls: input.one_in(2) };
        let mut bytes = welcome.encode();
        if input.one_in(8) {
            bytes = refusal(input.choose(&[Answer::Welcome, Answer::Version, Answer::Full]));
        }
        let mut hello = Hello { version: 3 }.encode();
        let changes = input.rest();
        Input::new(changes).change(&mut bytes);
        Input::new(changes).change(&mut hello);
        if let Ok(found) = Welcome::decode(&bytes) {
            assert_eq!(found.encode(), bytes);
            assert!(found.connection != 0 && found.node < found.nodes);
            // A client maps that much, and no more.
            let Layout { file_bytes, device_at, device_bytes, region_bytes, .. } = found.layout;
            assert!(region_bytes <= file_bytes && device_at + u64::from(device_bytes) <= file_bytes, "{found:?}");
        }
        if let Ok(found) = Hello::decode(&hello) {
            assert_eq!(found.encode()[..12], hello[..12]);
        }
        assert_eq!((bytes.len(), hello.len()), (WELCOME_BYTES, HELLO_BYTES));
    });
}

/// A call's request, the bytes that a memory node's processor walks through, and the answer.
#[test]
fn calls_for_memory_nodes() {
    let nodes = {
        let parameters = Parameters::with_sizes(8, 16);
        Nodes { index: 3, leaf: parameters.leaf(), inner: parameters.inner(), exposure_ns_max: 100 }
    };
    let (from, value_bytes) = (Address::new(NodeId(0), 1024, 0), nodes.leaf.value_bytes);
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let mut request = [0; 256];
        let (mut level, key) = (input.byte() % 4, [input.byte(); 8]);
        let kind = input.choose(&OperationKind::ALL);
        let high = [input.byte(); 8];
        let task = match kind {
            OperationKind::Get => Task::Search,
            OperationKind::Scan => {
                let limit = u16::from(input.byte() % 32);
                Task::Scan(Scan { limit, after: limit % 2 == 0, high: (limit % 3 == 0).then_some(&high) })
            }
            _ => {
                level = 0;
                let part = |part| if kind.parts().contains(&part) { &[7; 16][..] } else { &[] };
                let image = ImagePlace { offset: 6144, incarnation: 1, entry: 2, epoch: 3 };
                let (value, expected, lsn) = (part(Part::Value), part(Part::Expected), Lsn::new(9, 9));
                Task::Change(Change { kind, value, expected, lsn, image: (key[0] % 2 == 0).then_some(image) })
            }
        };
        let bytes = Asked { from, level, nodes, key: &key, task }.encode(&mut request).expect("it fits");
        assert!(Asked::decode(&request[..bytes]).is_some_and(|asked| asked.task == task));
        let changes_request = input.one_in(4);
        let mut region = [0; 8 << 10];
        let changes = input.rest();
        if changes_request {
            Input::new(changes).change(&mut request[..bytes]);
        }
        for (number, node) in region.chunks_exact_mut(1024).enumerate().skip(1) {
            let header = Header {
                generation: 0,
                level: (number % 3) as u8,
                index: 3,
                flags: NodeFlags::empty(),
                count: 4,
                sibling: Address::new(NodeId(0), (number as u64 * 5 % 8) * 1024, 0),
            };
            node::start(node, &header, &[0; 8], (number % 2 == 0).then_some(&[0x80; 8]));
        }
        Input::new(changes).change(&mut region[1024..]);
        let (mut room, mut answer) = ([0; 2048], [0; 512]);
        let region = RefCell::new(region);
        let copy = |offset: u64, room: &mut [u8]| {
            room.copy_from_slice(region.borrow().get(usize::try_from(offset).ok()?..)?.get(..room.len())?);
            Some(u32::from(offset % 3 == 2) * 200)
        };
        let write = |offset: u64, bytes: &[u8]| {
            let mut region = region.borrow_mut();
            region.get_mut(usize::try_from(offset).ok()?..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(0)
        };
        let (bytes, copies) = Walk::new(&request[..bytes], NodeId(0)).run(&mut room, &mut answer, copy, write);
        assert!(bytes <= answer.len() && copies <= NODES_MAX + 1, "{copies} nodes");
        let said = message::Answer::decode(&answer[..bytes], value_bytes);
        assert!(said.is_some() || bytes == 0 || bytes > 16);
        Input::new(changes).change(&mut answer[..bytes]);
        match message::Answer::decode(&answer[..bytes], value_bytes) {
            Some((message::Answer::Found(leaf) | message::Answer::Absent(leaf), value)) => {
                assert!(!leaf.is_null() && [0, value_bytes].contains(&value.len()));
            }
            Some((message::Answer::Page { leaves, records, .. }, behind)) => {
                if let Some(page) = Page::cut(behind, (leaves, records), (8, value_bytes)) {
                    assert_eq!(page.records.len(), usize::from(records) * (8 + value_bytes));
                    assert_eq!(page.leaves().count(), usize::from(leaves));
                }
            }
            _ => {}
        }
    });
}

/// What an owner answers to a request, of which nothing is known, if it is one.
fn served(
    request: &[u8],
    index: IndexNumber,
    plan: &ScratchPlan,
    results: &[Result<Outcome, OpError>],
) -> Option<Vec<u8>> {
    let room = 512;
    let mut serving = forward::Serving::decode(request, (index, false), plan, room)?;
    let (mut answer, mut scratch) = (vec![0; room], vec![7; plan.total_bytes]);
    let mut begun = 0;
    while let Some(heard) = serving.next(request, plan, &mut scratch, 0, &mut answer) {
        assert!(heard.limit as usize <= plan.page_records() && heard.wait_ns() <= Operation::WAIT_NS_DEFAULT);
        let result = match results[begun % results.len()] {
            // As the index: a page for a scan, and for no other operation.
            Ok(outcome) if matches!(outcome, Outcome::Page { .. }) != (heard.kind == OperationKind::Scan) => {
                Ok(if heard.kind == OperationKind::Scan {
                    Outcome::Page { records: 0, more: false }
                } else {
                    Outcome::Found
                })
            }
            Ok(Outcome::Page { records, more }) => Ok(Outcome::Page { records: records.min(heard.limit), more }),
            other => other,
        };
        serving.ended(&result, plan, &scratch, &mut answer);
        begun += 1;
    }
    assert!(begun <= usize::from(serving.count()) && begun <= forward::OPERATIONS_MAX);
    let bytes = serving.finish(&mut answer);
    answer.truncate(bytes);
    // Each of them is in the answer.
    assert_eq!(forward::Answers::decode(&answer, serving.count()).map(Iterator::count), Some(serving.count().into()));
    Some(answer)
}

#[test]
fn calls_of_compute_nodes() {
    let mut plan = ScratchPlan::new(8, 16);
    plan.page = plan.take(4 * 24);
    let (index, row) = (IndexNumber::new(3).expect("a number"), RowId(7));
    let outcomes = [Outcome::Found, Outcome::Inserted, Outcome::Absent, Outcome::Page { records: 3, more: true }];
    let causes = [Cause::PoolFull, Cause::NotOwner { row, epoch: 5 }, Cause::Fenced, Cause::Deadline { elapsed_ns: 9 }];
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let mut mine = vec![input.byte(); plan.total_bytes];
        let (mut message, mut asked) = (vec![0; 512], Vec::new());
        let mut writer = forward::RequestWriter::new(index);
        for _ in 0..=input.byte() % 6 {
            let operation = match input.choose(&OperationKind::ALL) {
                OperationKind::Scan => {
                    Operation { after: input.one_in(2), bounded: input.one_in(2), ..Operation::scan(4) }
                }
                kind => Operation::point(kind),
            };
            if writer.add(&operation, &plan, &mine, &mut message) {
                asked.push(operation);
            }
        }
        let results = [(); 3].map(|()| {
            let (effects, failed) = ([Effect::None, Effect::Unknown], input.one_in(2));
            let error = OpError { effect: input.choose(&effects), cause: input.choose(&causes) };
            if failed { Err(error) } else { Ok(input.choose(&outcomes)) }
        });
        let changes_request = input.one_in(2);
        let changes = input.rest();
        let bytes = writer.finish(77, &plan, &mut message).expect("it has an operation");
        if changes_request {
            Input::new(changes).change(&mut message[..bytes]);
        }
        let answer = served(&message[..bytes], index, &plan, &results);
        assert!(changes_request || answer.is_some());
        let mut answer = answer.unwrap_or_else(|| forward::not_here().to_vec());
        Input::new(changes).change(&mut answer);
        let Some(answers) = forward::Answers::decode(&answer, writer.count()) else { return };
        let mut places = Vec::new();
        for (place, said) in answers {
            places.push(usize::from(place));
            let asked = asked[usize::from(place)];
            let Some(said) = said else { continue };
            match said.read(&asked, row, &plan, &mut mine) {
                Ok(forward::Answer::Outcome(Outcome::Page { records, .. })) => {
                    assert!(asked.kind == OperationKind::Scan && records <= asked.limit);
                }
                Ok(forward::Answer::Outcome(_)) => assert!(asked.kind != OperationKind::Scan),
                Ok(forward::Answer::Elsewhere) => {}
                Ok(forward::Answer::Refused) => panic!("no answer says that"),
                Err(error) => {
                    let reads = matches!(asked.kind, OperationKind::Get | OperationKind::Scan);
                    assert!(!reads || error.effect == Effect::None);
                }
            }
        }
        places.sort_unstable();
        assert!(places.into_iter().eq(0..asked.len()), "each operation is there once");
    });
}

/// The greeting over TCP, and private data of connection requests.
#[cfg(feature = "rdma-device")]
#[test]
fn greetings_over_tcp() {
    use dm_core::verbs::Callee;
    use dm_host::fabric::verbs::profile::Profile;
    use dm_host::memory_node::verbs::wire::{self, KEYS_MAX, Pair};
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let region_bytes = 4096 << (input.byte() % 24);
        let masked_atomics = input.one_in(2);
        let welcome = wire::Welcome {
            ticket: 77,
            node: 1,
            nodes: 3,
            profile: Profile::SoftRoce,
            region_bytes,
            device_bytes: 0,
            device_key: 0,
            masked_atomics,
            calls_change: !masked_atomics,
            base: 0x7000_0000_0000,
            registration_bytes: 4 << 20,
            keys: vec![5; region_bytes.div_ceil(4 << 20) as usize],
        };
        let mut bytes = welcome.encode(&[9; 32]);
        let mut hello = wire::Hello { version: 2, answer: wire::Answer::Yes, nonce: [3; 32] }.encode();
        let serves = Callee::compute_node(5, 2);
        let mut pair = Pair { mtu: 3, ticket: 1 << 60, number: 9, calls: 4, serves }.encode().to_vec();
        let (offset, length) = (input.word(), input.word() as u32);
        let changes = input.rest();
        Input::new(changes).change(&mut bytes[..wire::WELCOME_BYTES]);
        Input::new(changes).change(&mut hello);
        Input::new(changes).change(&mut pair);
        if let Ok((mut found, _, keys)) = wire::Welcome::decode(bytes.first_chunk().expect("a welcome")) {
            assert!(keys <= KEYS_MAX && found.node < found.nodes);
            assert!(keys as u64 * found.registration_bytes >= found.region_bytes);
            found.keys = vec![1; keys];
            if found.key(offset, length).is_some() {
                assert!(offset + u64::from(length) <= found.region_bytes);
            }
        }
        let _ = wire::Hello::decode(&hello);
        if let Ok(found) = Pair::decode(&pair) {
            // Between the two are bytes that mean nothing.
            assert_eq!(found.encode()[8..36], pair[8..36]);
            assert_eq!(found.encode()[40..], pair[40..]);
        }
        let _ = wire::decode_pair_refusal(&pair);
    });
}
