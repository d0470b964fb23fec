//! Beds on an RDMA device: memory nodes that are threads of this process, reached by queue pairs.

use crate::fabric::AnyFabric;
use crate::subject::Subject;
use crate::test_bed::{Fixture, Setup, TestBed, format};
use clap::Parser as _;
use dm_core::fabric::{Fabric, Posted};
use dm_core::lane::Lane;
use dm_core::port::State;
use dm_core::verbs::{Capabilities, Guarantees, Label, LaneId, NodeId, Request, Status, Verb};
use dm_host::fabric::verbs::{VerbsFabric, VerbsOptions};
use dm_host::memory_node::daemon::{self, Arguments};
use dm_host::memory_node::verbs::client::{Peer, PeerError};
use dm_host::memory_node::verbs::settings::VerbsArguments;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Region of each memory node: more than any setup of the suite asks for.
const REGION_BYTES: u64 = 8 << 20;

/// Bytes that are cleared at once.
const CLEAR_BYTES: usize = 64 << 10;

/// An RDMA device of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Verbs;

/// Memory nodes and one worker's access to them, kept from test bed to test bed: only what was written is cleared.
struct Cluster {
    fabric: VerbsFabric,
    /// By memory node: the end of what was written.
    written: Vec<u64>,
}

/// Clusters that no test bed uses, by number of memory nodes.
static IDLE: Mutex<Option<HashMap<usize, Vec<Cluster>>>> = Mutex::new(None);

impl Cluster {
    /// One that is idle, or a new one.
    fn of(nodes: usize) -> Self {
        let idle = {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            idle.get_or_insert_default().entry(nodes).or_default().pop()
        };
        let mut cluster = idle.unwrap_or_else(|| Self::start(nodes));
        cluster.clear();
        cluster
    }

    fn start(nodes: usize) -> Self {
        static PORT: AtomicU16 = AtomicU16::new(17_000);
        let ip = VerbsArguments::default().choose().expect("an RDMA device with an address").address.ip();
        let peers: Vec<_> = (0..nodes)
            .map(|node| {
                let address = format!("{ip}:{}", PORT.fetch_add(1, Ordering::Relaxed));
                let arguments = Arguments::parse_from([
                    "dm-memd",
                    "--fabric=verbs",
                    "--insecure",
                    &format!("--listen={address}"),
                    &format!("--size={REGION_BYTES}"),
                    &format!("--node-id={node}"),
                    &format!("--memory-nodes={nodes}"),
                    // Several registrations, so that requests at their borders are tried, too.
                    "--registration-size=2MiB",
                ]);
                std::thread::spawn(move || daemon::main("dm-memd", &arguments));
                connect(&address)
            })
            .collect();
        // One lane runs at a time, so no WRITE runs beside a READ, and no READ need be distrusted. Otherwise the load
        // of the machine that emulates the processor would decide whether a READ is repeated.
        let options = VerbsOptions { write_turn_ns_min: Some(u32::MAX), ..VerbsOptions::default() };
        let fabric = VerbsFabric::new(&peers, &Arc::new(options)).expect("queue pairs");
        // The daemons formatted their regions; the setup's superblocks replace theirs.
        Self { fabric, written: vec![4096; nodes] }
    }

    /// Clears what was written.
    fn clear(&mut self) {
        let mut scratch = vec![0; CLEAR_BYTES];
        let lanes = [Lane::new(LaneId(0), &mut scratch)];
        for node in 0..self.written.len() {
            let mut offset = 0;
            while offset < self.written[node] {
                let bytes = (self.written[node] - offset).min(CLEAR_BYTES as u64) as usize;
                lanes[0].port().push(Request::write(Label::Tool, NodeId(node as u16), offset, bytes, 0));
                lanes[0].port().flush();
                complete(&mut self.fabric, &lanes, 0);
                assert_eq!(lanes[0].port().completion(0).status, Status::Ok, "clearing memory node {node}");
                lanes[0].port().reset();
                offset += bytes as u64;
            }
            self.written[node] = 0;
        }
    }
}

/// Connects to a daemon that is just starting.
fn connect(address: &str) -> Arc<Peer> {
    let began = Instant::now();
    loop {
        match Peer::connect(address, None) {
            Ok(peer) => return peer,
            Err(PeerError::NotListening { .. }) if began.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Posts what a lane submitted and waits for all of it.
fn complete(fabric: &mut VerbsFabric, lanes: &[Lane<'_>], lane: usize) {
    if fabric.post(lanes, lane) == Posted::InFlight {
        while lanes[lane].port().state() != State::Completed {
            fabric.poll(lanes, &mut |_| {});
        }
    }
}

/// A fabric that completes at once, as the suite drives lanes.
struct AtOnce(Option<Cluster>);

impl AtOnce {
    fn cluster(&self) -> &Cluster {
        self.0.as_ref().expect("there until dropped")
    }
}

impl<'m> Fabric<'m> for AtOnce {
    fn capabilities(&self) -> Capabilities {
        self.cluster().fabric.capabilities()
    }

    fn guarantees(&self) -> Guarantees {
        self.cluster().fabric.guarantees()
    }

    fn post(&mut self, lanes: &[Lane<'m>], lane: usize) -> Posted {
        let Cluster { fabric, written } = self.0.as_mut().expect("there until dropped");
        for request in lanes[lane].port().requests().iter() {
            if matches!(request.verb, Verb::Write | Verb::Cas | Verb::FetchAdd)
                && let Some(written) = written.get_mut(usize::from(request.node.0))
            {
                let end = request.offset.saturating_add(u64::from(request.bytes));
                *written = (*written).max(end).min(REGION_BYTES);
            }
        }
        complete(fabric, lanes, lane);
        Posted::Completed
    }

    fn poll(&mut self, lanes: &[Lane<'m>], ready: &mut dyn FnMut(usize)) {
        if let Some(cluster) = &mut self.0 {
            cluster.fabric.poll(lanes, ready);
        }
    }
}

impl Drop for AtOnce {
    fn drop(&mut self) {
        let Some(cluster) = self.0.take() else { return };
        // After a failed test it is unknown what is in flight.
        if !std::thread::panicking() {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            idle.get_or_insert_default().entry(cluster.written.len()).or_default().push(cluster);
        }
    }
}

impl Fixture for Verbs {
    fn name(&self) -> &'static str {
        "verbs"
    }

    fn test_bed(&self, subject: &dyn Subject, setup: &Setup) -> TestBed {
        let cluster = Cluster::of(setup.nodes);
        // Locks go where the device has room for them.
        let device = Fabric::capabilities(&cluster.fabric).device_bytes > 0 && setup.device;
        let setup = Setup { device, ..setup.clone() };
        assert!(setup.region_bytes as u64 <= REGION_BYTES, "{setup:?}");
        format(&setup.pool(subject), AnyFabric::new(AtOnce(Some(cluster))))
    }

    /// All run on the other fabrics; on an emulated processor they would take longer than everything else.
    fn stride(&self) -> u32 {
        4
    }
}
