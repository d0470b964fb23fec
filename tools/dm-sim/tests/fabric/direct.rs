//! The fabric without time executes every verb, and `block_on` tells what was asked.

use dm_core::lane::Lane;
use dm_core::verbs::{Label, LaneId, NodeId, Request, Space, Status};
use dm_sim::{Config, DirectFabric, block_on};

const MN: NodeId = NodeId(0);

fn fabric() -> DirectFabric {
    DirectFabric::new(&Config::with_nodes(2, 8192))
}

#[test]
fn an_operation_is_counted_request_by_request() {
    let mut scratch = [7; 256];
    let lane = Lane::new(LaneId(3), &mut scratch);
    let mut fabric = fabric();
    let run = block_on(&lane, &mut fabric, async {
        let port = lane.port();
        port.push(Request::write(Label::Node, MN, 64, 128, 0));
        port.push(Request::write_word(Label::Unlock, MN, 0, 5).in_space(Space::Device));
        port.submit().await?;
        let old = port.call(Request::fetch_add(Label::Lock, MN, 0, 4).in_space(Space::Device)).await?.value;
        port.call(Request::pause(1000)).await?;
        port.call(Request::read(Label::Leaf, MN, 64, 64, 192)).await?;
        port.push(Request::wake(LaneId(9)));
        port.push(Request::write_word(Label::Unlock, NodeId(1), 8, 1).unsignaled());
        Ok::<_, dm_core::error::VerbError>((old, port.with(|scratch| scratch[192])))
    })
    .unwrap();
    assert_eq!(run.result, Ok((5, 7)));
    assert_eq!(
        run.steps(),
        "write node 128, write unlock 8; fetch-add lock 8; pause wait; read leaf 64; wake wait, write unlock 8"
    );
    assert_eq!((run.counts.round_trips, run.counts.requests), (3, 5));
    assert_eq!((run.counts.bytes_read, run.counts.bytes_written), (64, 144));
    assert_eq!(run.woken, [LaneId(9)]);
    assert_eq!(lane.port().elapsed_ns(), 2000 * 4 + 1000, "four submits with requests, one pause");
    assert_eq!(fabric.memories().get(MN).unwrap().device.word(0), 9);
    assert_eq!(fabric.memories().get(NodeId(1)).unwrap().host.word(8), 1);
    assert!(!lane.in_doubt());
}

#[test]
fn what_no_memory_node_takes_is_refused_without_effect() {
    let mut scratch = [0; 64];
    let lane = Lane::new(LaneId(0), &mut scratch);
    let config = Config { masked_atomics: false, device_bytes: 0, ..Config::with_nodes(1, 4096) };
    let mut fabric = DirectFabric::new(&config);
    let mut status =
        |request| block_on(&lane, &mut fabric, lane.port().call(request)).unwrap().result.unwrap_err().status;
    assert_eq!(status(Request::read(Label::Tool, MN, 4095, 2, 0)), Status::Refused);
    assert_eq!(status(Request::read(Label::Tool, NodeId(1), 0, 2, 0)), Status::Refused);
    assert_eq!(status(Request::cas(Label::Tool, MN, 4, 0, 1)), Status::Refused);
    assert_eq!(status(Request::masked_cas(Label::Tool, MN, 8, [0; 4])), Status::Unsupported);
    assert_eq!(status(Request::cas(Label::Tool, MN, 0, 0, 1).in_space(Space::Device)), Status::Unsupported);
    assert_eq!(status(Request::rpc(Label::Tool, MN, [0; 4])), Status::Unsupported);
}

#[test]
fn a_lane_that_parks_alone_is_told_so() {
    let mut scratch = [0; 64];
    let lane = Lane::new(LaneId(0), &mut scratch);
    let error = block_on(&lane, &mut fabric(), lane.port().call(Request::park(u64::MAX))).unwrap_err();
    assert_eq!(error.to_string(), "lane 0 parked after 0 submits, and it runs alone");
}
