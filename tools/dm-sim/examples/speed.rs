//! How fast the judge is: small histories of a toy index, in events and histories a second.
//!
//! `cargo run --release -p dm-sim --example speed [seconds]`

use dm_core::error::VerbError;
use dm_core::lane::Lane;
use dm_core::verbs::{Label, LaneId, NodeId, Request, Space};
use dm_sim::{Config, Driver, DriverConfig, LaneAt, Op, Workload, World};
use std::time::{Duration, Instant};

const MN: NodeId = NodeId(0);
const COMPUTE_NODES: usize = 3;
const LANES: usize = 2;
const OPERATIONS: u32 = 20;

/// Two levels down by READs of 1 KiB; every second operation locks, reads again, and writes an entry and the lock.
async fn operate(lane: &Lane<'_>, number: u64) -> Result<(), VerbError> {
    let port = lane.port();
    let leaf = 65_536 + number % 7 * 1024;
    port.call(Request::read(Label::Inner, MN, 4096, 1024, 0)).await?;
    if number.is_multiple_of(2) {
        port.call(Request::read(Label::Leaf, MN, leaf, 1024, 0)).await?;
        return Ok(());
    }
    let lock = number % 7 * 8;
    while port.call(Request::cas(Label::Lock, MN, lock, 0, 1).in_space(Space::Device)).await?.value != 0 {
        port.call(Request::pause(1000)).await?;
    }
    port.call(Request::read(Label::Leaf, MN, leaf, 1024, 0)).await?;
    port.push(Request::write(Label::Entry, MN, leaf + 200, 24, 0));
    port.push(Request::write_word(Label::Unlock, MN, lock, 0).in_space(Space::Device));
    port.submit().await
}

struct Toy<'a, 'm> {
    lanes: &'a [Vec<Lane<'m>>],
    left: [[u32; LANES]; COMPUTE_NODES],
    number: u64,
}

impl<'a> Workload<'a, Result<(), VerbError>> for Toy<'a, '_> {
    fn invoke(&mut self, at: LaneAt, _: u64) -> Option<Op<'a, Result<(), VerbError>>> {
        let left = &mut self.left[at.compute_node.0 as usize][at.lane as usize];
        *left = left.checked_sub(1)?;
        self.number = self.number.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
        let lanes: &'a [Vec<Lane<'_>>] = self.lanes;
        Some(Box::pin(operate(&lanes[at.compute_node.0 as usize][at.lane as usize], self.number >> 20)))
    }

    fn respond(&mut self, _: LaneAt, _: u64, result: Result<(), VerbError>) {
        assert!(result.is_ok());
    }
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2);
    let mut world = World::new(Config::default(), 0);
    let mut scratch = vec![vec![0; 4096]; COMPUTE_NODES * LANES];
    let (mut histories, mut steps, mut effects) = (0_u64, 0, 0);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        world.reset(histories);
        let mut scratch = scratch.iter_mut();
        let lanes: Vec<Vec<Lane<'_>>> = (0..COMPUTE_NODES)
            .map(|_| scratch.by_ref().take(LANES).zip(0..).map(|(bytes, id)| Lane::new(LaneId(id), bytes)).collect())
            .collect();
        let slices: Vec<&[Lane<'_>]> = lanes.iter().map(Vec::as_slice).collect();
        let mut driver = Driver::new(&mut world, &slices, DriverConfig::default());
        let mut toy = Toy { lanes: &lanes, left: [[OPERATIONS; LANES]; COMPUTE_NODES], number: histories };
        dm_sim::run_workload(&mut driver, &mut toy).expect("the toy ends");
        steps += driver.steps();
        drop(driver);
        effects += world.effects();
        histories += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let operations = OPERATIONS as usize * LANES * COMPUTE_NODES;
    println!(
        "{:.0} histories of {operations} operations a second ({:.0} a minute)",
        histories as f64 / seconds,
        histories as f64 / seconds * 60.0
    );
    println!("{:.2} M effects, {:.2} M steps a second", effects as f64 / seconds / 1e6, steps as f64 / seconds / 1e6);
    println!(
        "{:.0} effects, {:.0} steps a history",
        effects as f64 / histories as f64,
        steps as f64 / histories as f64
    );
}
