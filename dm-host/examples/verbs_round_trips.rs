//! What round trips cost on an RDMA device, request by request, with no index in between.
//!
//!     cargo run --release -p dm-host --features verbs --example verbs_round_trips -- 10.0.0.1
//!
//! The memory node must have no other users, and must be started with `--insecure`: its last bytes are written to.

use dm_core::fabric::{Fabric as _, Posted};
use dm_core::lane::Lane;
use dm_core::port::State;
use dm_core::verbs::{Label, LaneId, NodeId, Request};
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
    let kinds: [(&str, &[Request]); 6] = [
        ("READ of 8 bytes", &[read(8)]),
        ("READ of 1024 bytes", &[read(1024)]),
        ("CAS", &[cas]),
        ("WRITE of 17 bytes", &[write]),
        ("WRITE of 17 bytes and CAS", &[write.unsignaled(), cas]),
        ("CAS and READ of 1024 bytes", &[cas.unsignaled(), read(1024)]),
    ];
    let mut times_ns = vec![Vec::with_capacity(TURNS); kinds.len()];
    for _ in 0..TURNS {
        for ((_, requests), times_ns) in kinds.iter().zip(&mut times_ns) {
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
            port.reset();
        }
    }
    for ((name, _), times_ns) in kinds.iter().zip(&mut times_ns) {
        times_ns.sort_unstable();
        let at = |share: usize| times_ns[TURNS * share / 100] as f64 / 1000.0;
        println!("{name:<28} p50 {:7.1} us   p10 {:7.1}   p90 {:7.1}", at(50), at(10), at(90));
    }
    Ok(())
}
