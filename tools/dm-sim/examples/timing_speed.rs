//! How fast the timing simulator is: simulated requests a second of processor time.
//!
//! `cargo run --release -p dm-sim --example timing_speed [seconds]`

use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::operation::{Operation, OperationKind, ScratchPlan};
use dm_core::verbs::LaneId;
use dm_host::worker::{Finished, Next, Work};
use dm_sim::Memories;
use dm_sim::timing::workers::Until;
use dm_sim::timing::{Cluster, Profile, RawReads, Shape, Usage, Workers};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Processor time of this thread so far.
fn processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

struct Draws(u64);

impl Work for Draws {
    fn next(&mut self, _: usize, scratch: &mut [u8], _: &ScratchPlan) -> Next {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        scratch[..8].copy_from_slice(&(self.0 >> 20).to_le_bytes());
        Next::Run(Operation::point(OperationKind::Get))
    }

    fn done(&mut self, _: usize, finished: Finished<'_>) {
        assert!(finished.result.is_ok());
    }
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2);
    for (name, bytes) in [("cx6", 64), ("cx6", 1024), ("cx7-200g", 64)] {
        let profile = Profile::load(name).expect("a profile of ours");
        let host_bytes = 1 << 28;
        let shape = Shape {
            compute_nodes: 10,
            threads: 32,
            lanes: 2,
            host_bytes: vec![host_bytes],
            colocated: false,
            device_bytes: None,
        };
        let config = Cluster::config(&profile, &shape);
        let memories = Memories::new(&config.host_bytes, config.device_bytes as usize);
        let index = RawReads::new(bytes, host_bytes, 1);
        let indexes = vec![index; 10];
        let lane_bytes = indexes[0].plan().total_bytes;
        let mut scratch = vec![0; lane_bytes * 640];
        let lanes: Vec<_> =
            scratch.chunks_mut(lane_bytes).zip(0..).map(|(s, i)| Lane::new(LaneId(i % 64), s)).collect();
        let mut cluster = Cluster::new(&profile, &shape, memories);
        let mut workers = Workers::new(&mut cluster, &indexes, &lanes, |index, lane, op| index.execute(lane, op));
        let mut work = Draws(1);
        let before = workers.snapshot();
        let began = processor();
        while processor().saturating_sub(began) < Duration::from_secs(seconds) {
            let done = workers.done();
            workers.run(&mut work, Until::Operations(done + 10_000)).expect("reads do not wait for each other");
        }
        let processor_s = (processor().saturating_sub(began)).as_secs_f64();
        let after = workers.snapshot();
        let usage = Usage::between(workers.cluster(), &before, &after);
        println!(
            "{name}, READs of {bytes} bytes: {:.2} M simulated requests a second; simulated: {:.2} M/s, limited by {}",
            usage.requests as f64 / processor_s / 1e6,
            usage.memory_nodes[0].rate_mops,
            usage.bottleneck,
        );
    }
}
