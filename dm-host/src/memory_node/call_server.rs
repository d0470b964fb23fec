//! The threads of a memory node's daemon that answer calls.

use super::call_area::CallArea;
use super::counters::Counters;
use crate::region::Region;
use dm_core::offload::Walk;
use dm_core::verbs::{CALL_BYTES_MAX, NodeId, Space};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Room for a node: as much as the largest leaf that an index may have.
const ROOM_BYTES: usize = 1 << 20;

/// A thread that has found no call for so long goes to sleep.
const AWAKE: Duration = Duration::from_micros(20);

/// It looks once in so long in any case.
const ASLEEP_MAX: Duration = Duration::from_secs(1);

/// Threads that answer calls, until they are dropped.
#[derive(Debug)]
pub(super) struct CallServer {
    area: Arc<CallArea>,
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl CallServer {
    /// Starts `threads` threads that answer calls about `region`.
    pub(super) fn start(
        threads: usize,
        node: NodeId,
        region: &Arc<Region>,
        counters: &Arc<Counters>,
    ) -> io::Result<Self> {
        let (area, stops) = (Arc::new(CallArea::create()?), Arc::new(AtomicBool::new(false)));
        let mut server = Self { area, stops, threads: Vec::new() };
        for number in 0..threads {
            let (area, stops) = (Arc::clone(&server.area), Arc::clone(&server.stops));
            let (region, counters) = (Arc::clone(region), Arc::clone(counters));
            let name = format!("dm-calls-{number}");
            let thread = std::thread::Builder::new().name(name);
            server.threads.push(thread.spawn(move || answer_calls(&area, &stops, node, &region, &counters))?);
        }
        Ok(server)
    }

    /// The slots.
    pub(super) fn area(&self) -> &CallArea {
        &self.area
    }
}

impl Drop for CallServer {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
        self.area.ring();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn answer_calls(area: &CallArea, stops: &AtomicBool, node: NodeId, region: &Region, counters: &Counters) {
    let (mut room, mut buffer) = (vec![0; ROOM_BYTES], vec![0; 2 * CALL_BYTES_MAX]);
    let mut idle_since = Instant::now();
    while !stops.load(Ordering::SeqCst) {
        let served = area.serve_posted(&mut buffer, |request, answer| {
            let began = Instant::now();
            let copy = |offset: u64, room: &mut [u8]| {
                let began = Instant::now();
                region.area(Space::Host).read(offset, room).ok()?;
                u32::try_from(began.elapsed().as_nanos()).ok()
            };
            let (bytes, _) = Walk::new(request, node).run(&mut room, answer, copy);
            (bytes, u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX))
        });
        if served > 0 {
            counters.searches_total.fetch_add(served.into(), Ordering::Relaxed);
            idle_since = Instant::now();
        } else if idle_since.elapsed() < AWAKE {
            // Its client may be waiting for this processor.
            std::thread::yield_now();
        } else {
            area.sleep(ASLEEP_MAX, || area.has_posted() || stops.load(Ordering::SeqCst));
        }
    }
}
