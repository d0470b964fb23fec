//! What round trips cost on an RDMA device, request by request, with no index in between. A call is one of the memory node's
//! processor, which looks at a page that is no node, and says so.
//!
//!     cargo run --release -p dm-host --features verbs --example verbs_round_trips -- 10.0.0.1
//!
//! The memory node must have no other users, and must be started with `--insecure`: its last bytes are written to.

use dm_core::dex::offload::message::{ANSWER_HEADER_BYTES, Nodes, Request as Search, Task};
use dm_core::dex::parameters::Parameters;
use dm_core::fabric::{Fabric as _, Posted};
use dm_core::lane::Lane;
use dm_core::port::State;
use dm_core::remote::address::Address;
use dm_core::verbs::{CallAnswer, Label, LaneId, NodeId, Request, Status};
use dm_host::fabric::verbs::{VerbsFabric, VerbsOptions};
use dm_host::memory_node::verbs::client::Peer;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// Round trips of each kind, taking turns.
const TURNS: usize = 1000;

const N0: NodeId = NodeId(0);

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("give the address of a memory node")?;
    let peer = Peer::connect(&address, None)?;
    let end = peer.welcome().region_bytes - 4096;
    let mut fabric = VerbsFabric::new(&[peer], &Arc::new(VerbsOptions::default()))?;
    let mut scratch = vec![0; 4096];
    let lanes = [Lane::new(LaneId(0), &mut scratch)];
    let port = lanes[0].port();

    let read = |bytes| Request::read(Label::Tool, N0, end, bytes, 0);
    let cas = Request::cas(Label::Tool, N0, end + 2048, 0, 0);
    let write = Request::write(Label::Tool, N0, end, 17, 0);
    let parameters = Parameters::with_sizes(8, 8);
    let nodes = Nodes { index: 1, leaf: parameters.leaf(), inner: parameters.inner(), exposure_ns_max: u32::MAX };
    let search = Search { from: Address::new(N0, end, 0), level: 0, nodes, key: &[0; 8], task: Task::Search };
    let call = Request::call(Label::Tool, N0, 2048, Search::bytes(8), ANSWER_HEADER_BYTES + 8);
    let kinds: [(&str, &[Request]); 7] = [
        ("READ of 8 bytes", &[read(8)]),
        ("READ of 1024 bytes", &[read(1024)]),
        ("CAS", &[cas]),
        ("WRITE of 17 bytes", &[write]),
        ("WRITE of 17 bytes and CAS", &[write.unsignaled(), cas]),
        ("CAS and READ of 1024 bytes", &[cas.unsignaled(), read(1024)]),
        ("call", &[call]),
    ];
    let (mut served_ns, mut failed) = (Vec::with_capacity(TURNS), 0);
    let mut times_ns = vec![Vec::with_capacity(TURNS); kinds.len()];
    for _ in 0..TURNS {
        for ((_, requests), times_ns) in kinds.iter().zip(&mut times_ns) {
            // Its answer took its place.
            port.with(|scratch| search.encode(&mut scratch[2048..])).ok_or("a call that does not fit")?;
            let began = Instant::now();
            for &request in *requests {
                port.push(request);
            }
            port.flush();
            if fabric.post(&lanes, 0) == Posted::InFlight {
                while port.state() == State::InFlight {
                    fabric.poll(&lanes, &mut |_| {});
                }
            }
            times_ns.push(began.elapsed().as_nanos() as u64);
            failed += usize::from(port.completion(0).status != Status::Ok);
            if requests[0] == call {
                served_ns.push(u64::from(CallAnswer(port.completion(0).value).service_ns()));
            }
            port.reset();
        }
    }
    let names = kinds.iter().map(|(name, _)| *name).chain(["the processor's part of a call"]);
    times_ns.push(served_ns);
    for (name, times_ns) in names.zip(&mut times_ns) {
        times_ns.sort_unstable();
        let at = |share: usize| times_ns[TURNS * share / 100] as f64 / 1000.0;
        println!("{name:<30} p50 {:7.1} us   p10 {:7.1}   p90 {:7.1}", at(50), at(10), at(90));
    }
    println!("{failed} requests failed");
    Ok(())
}
