//! Messages of daemons and of those that connect to them.

use crate::fuzz;
use crate::input::Input;
use dm_core::btree::node::{self, Header, NodeFlags};
use dm_core::dex::offload::Walk;
use dm_core::dex::offload::message::{self, Nodes, Request as Search};
use dm_core::dex::offload::walk::NODES_MAX;
use dm_core::dex::parameters::Parameters;
use dm_core::remote::address::Address;
use dm_core::verbs::NodeId;
use dm_host::memory_node::wire::{Answer, HELLO_BYTES, Hello, WELCOME_BYTES, Welcome, refusal};
use dm_host::region::{Layout, LineMode};

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
fn calls_for_a_search() {
    let nodes = {
        let parameters = Parameters::with_sizes(8, 16);
        Nodes { index: 3, leaf: parameters.leaf(), inner: parameters.inner(), exposure_ns_max: 100 }
    };
    let (from, value_bytes) = (Address::new(NodeId(0), 1024, 0), nodes.leaf.value_bytes);
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let mut request = [0; 64];
        let level = input.byte() % 4;
        let search = Search { from, level, nodes, key: &[input.byte(); 8] };
        let bytes = search.encode(&mut request).expect("it fits");
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
        let (mut room, mut answer) = ([0; 2048], [0; 128]);
        let copy = |offset: u64, room: &mut [u8]| {
            room.copy_from_slice(region.get(usize::try_from(offset).ok()?..)?.get(..room.len())?);
            Some(u32::from(offset % 3 == 2) * 200)
        };
        let (bytes, copies) = Walk::new(&request[..bytes], NodeId(0)).run(&mut room, &mut answer, copy);
        assert!(bytes <= answer.len() && copies <= NODES_MAX + 1, "{copies} nodes");
        let said = message::Answer::decode(&answer[..bytes], value_bytes);
        assert!(said.is_some_and(|(_, value)| value.is_empty() || value.len() == value_bytes) || bytes > 16);
        Input::new(changes).change(&mut answer[..bytes]);
        if let Some((message::Answer::Found(leaf) | message::Answer::Absent(leaf), _)) =
            message::Answer::decode(&answer[..bytes], value_bytes)
        {
            assert!(!leaf.is_null());
        }
    });
}

/// The greeting over TCP, and private data of connection requests.
#[cfg(feature = "rdma-device")]
#[test]
fn greetings_over_tcp() {
    use dm_host::fabric::verbs::profile::Profile;
    use dm_host::memory_node::verbs::wire::{self, KEYS_MAX, Pair};
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let region_bytes = 4096 << (input.byte() % 24);
        let welcome = wire::Welcome {
            ticket: 77,
            node: 1,
            nodes: 3,
            profile: Profile::SoftRoce,
            region_bytes,
            device_bytes: 0,
            device_key: 0,
            masked_atomics: input.one_in(2),
            base: 0x7000_0000_0000,
            registration_bytes: 4 << 20,
            keys: vec![5; region_bytes.div_ceil(4 << 20) as usize],
        };
        let mut bytes = welcome.encode(&[9; 32]);
        let mut hello = wire::Hello { version: 2, answer: wire::Answer::Yes, nonce: [3; 32] }.encode();
        let mut pair = Pair { mtu: 3, ticket: 1 << 60, number: 9 }.encode().to_vec();
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
            assert_eq!(found.encode()[8..], pair[8..]);
        }
        let _ = wire::decode_pair_refusal(&pair);
    });
}
