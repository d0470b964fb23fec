//! What a READ costs on shared memory: random 1 KiB reads of a large region, by every way of copying.
//!
//! `cargo run --release --example read_speed [-- GIB [READ_BYTES]]`

use dm_core::fabric::Fabric;
use dm_core::lane::Lane;
use dm_core::verbs::{Label, LaneId, NodeId, Request, Space};
use dm_host::clock::Clock;
use dm_host::fabric::shm::{ShmFabric, ShmOptions, litmus, measured_write_turn_ns};
use dm_host::memory_node::RemoteNode;
use dm_host::region::{Backing, LineMode, Region, RegionSpec};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const READS: u64 = 8_000;
const RUNS: usize = 50;

/// Calls `read` with random line offsets; returns ns per call of the fastest run: others share the machine.
fn time(lines: u64, bytes: usize, mut read: impl FnMut(u64)) -> f64 {
    let span = lines - bytes.div_ceil(64) as u64;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut run = || {
        let began = Instant::now();
        for _ in 0..READS {
            // xorshift64: cheaper than what it drives.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            read(state % span * 64);
        }
        began.elapsed().as_nanos() as f64 / READS as f64
    };
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let gib: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let bytes: usize = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    println!("vectors: {}", litmus::probe());
    println!("best of {RUNS} x {READS} random READs of {bytes} bytes, ns each");
    for mode in [LineMode::Vector, LineMode::Sequence] {
        let spec = RegionSpec { region_bytes: gib << 30, device_bytes: 0, mode, backing: Backing::Memfd };
        let region = Region::create(&spec)?;
        println!("-- {} on {gib} GiB, {}", mode.profile(), region.pages());
        let lines = region.layout().region_bytes / 64;
        let area = region.area(Space::Host);
        let mut out = vec![0u8; bytes + 64];
        let aligned = out.as_ptr().align_offset(64);
        let out = &mut out[aligned..aligned + bytes];

        if mode == LineMode::Vector {
            // Baselines need a pointer of their own: a second mapping of the same file, to which no thread writes.
            let map = memmap2::MmapOptions::new().map_raw_read_only(&region.fd().expect("created here"))?;
            let base = map.as_ptr();
            let _ = map.advise(memmap2::Advice::HugePage);
            map.advise(memmap2::Advice::PopulateRead)?;
            let ns = time(lines, bytes, |offset| {
                // SAFETY: inside the mapping; no thread of this program writes to the region while this runs.
                unsafe { out.as_mut_ptr().copy_from_nonoverlapping(base.add(offset as usize), bytes) };
                black_box(&out);
            });
            println!("memcpy                        {ns:8.1}");
            let clock = Clock::get();
            let ns = time(lines, bytes, |offset| {
                black_box(clock.before());
                // SAFETY: as above.
                unsafe { out.as_mut_ptr().copy_from_nonoverlapping(base.add(offset as usize), bytes) };
                black_box(clock.after());
            });
            println!("memcpy between two stamps     {ns:8.1}   (one at a time, as a READ whose result is looked at)");
            let ns = time(lines, bytes, |offset| {
                for (at, word) in out.chunks_exact_mut(8).enumerate() {
                    // SAFETY: inside the mapping, aligned, and only loaded, which a read-only mapping allows.
                    let shared = unsafe { AtomicU64::from_ptr(base.add(offset as usize + at * 8).cast_mut().cast()) };
                    word.copy_from_slice(&shared.load(Ordering::Relaxed).to_le_bytes());
                }
                black_box(&out);
            });
            println!("8-byte atomics                {ns:8.1}");
        }
        let ns = time(lines, bytes, |offset| {
            let _ = area.read(offset, out);
            black_box(&out);
        });
        println!("Area::read                    {ns:8.1}");

        let node = Arc::new(RemoteNode::in_process(region));
        let mut fabric = ShmFabric::new(vec![node], ShmOptions::default())?;
        let mut scratch = vec![0u8; 16 * bytes + 64];
        let aligned = scratch.as_ptr().align_offset(64);
        let lanes = [Lane::new(LaneId(0), &mut scratch[aligned..])];
        let port = lanes[0].port();
        let mut exposed_ns = 0u64;
        let ns = time(lines, bytes, |offset| {
            port.push(Request::read(Label::Leaf, NodeId(0), offset, bytes, 0));
            port.flush();
            fabric.post(&lanes, 0);
            exposed_ns += u64::from(port.completion(0).elapsed_ns);
            port.reset();
        });
        println!(
            "post of one READ              {ns:8.1}   exposed {:.1}",
            exposed_ns as f64 / (RUNS as u64 * READS) as f64
        );

        let mut batch = Vec::new();
        exposed_ns = 0;
        let ns = time(lines, bytes, |offset| {
            batch.push(offset);
            if batch.len() == 16 {
                for (position, offset) in batch.drain(..).enumerate() {
                    port.push(Request::read(Label::Leaf, NodeId(0), offset, bytes, position * bytes));
                }
                port.flush();
                fabric.post(&lanes, 0);
                exposed_ns += (0..16).map(|position| u64::from(port.completion(position).elapsed_ns)).sum::<u64>();
                port.reset();
            }
        });
        println!(
            "READ in a post of 16          {ns:8.1}   exposed {:.1}",
            exposed_ns as f64 / (RUNS as u64 * READS) as f64
        );

        // Overhead per request: small, hot, all of it machinery.
        let ns = time(lines, bytes, |_| {
            for position in 0..16 {
                port.push(Request::read(Label::Entry, NodeId(0), 4096, 8, position * 8));
            }
            port.flush();
            fabric.post(&lanes, 0);
            port.reset();
        });
        println!("8-byte READ in a post of 16   {:8.1}   (hot)", ns / 16.0);
        let ns = time(lines, bytes, |_| {
            port.push(Request::read(Label::Entry, NodeId(0), 4096, 8, 0));
            port.flush();
            fabric.post(&lanes, 0);
            port.reset();
        });
        println!("post of one 8-byte READ       {ns:8.1}   (hot)");
        let ns = time(lines, bytes, |_| {
            port.push(Request::write(Label::Entry, NodeId(0), 4096, 64, 0));
            port.flush();
            fabric.post(&lanes, 0);
            port.reset();
        });
        println!("post of one 64-byte WRITE     {ns:8.1}   (hot)");
        let ns = time(lines, bytes, |_| {
            port.push(Request::cas(Label::Lock, NodeId(0), 8192, 1, 1));
            port.flush();
            fabric.post(&lanes, 0);
            port.reset();
        });
        println!("post of one CAS               {ns:8.1}   (hot)");
        println!("write_turn_ns_min             {:8}", measured_write_turn_ns(mode));
    }
    Ok(())
}
