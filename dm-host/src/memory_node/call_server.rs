//! The threads of a memory node's daemon that answer calls.

use super::call_area::CallArea;
use super::counters::Counters;
use crate::region::Region;
use crate::region::lines::WriterSlot;
use dm_core::offload::Walk;
use dm_core::verbs::{CALL_BYTES_MAX, Callee, NodeId, Space};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Room for a node: as much as the largest leaf that an index may have.
pub(super) const ROOM_BYTES: usize = 1 << 20;

/// Copies of one node that may differ from the one before.
const COPIES_MAX: u32 = 16;

/// One in so many rings makes a thread look at all slots.
const ALL_SLOTS_EVERY: u32 = 16;

/// A thread that has found no call for so long goes to sleep.
pub(super) const AWAKE: Duration = Duration::from_micros(20);

/// Looks at the bell before a thread that is awake gives its processor away: a client may be waiting for this processor. One look
/// is a load; giving the processor away takes as long as some tens of them, in which a call may wait. With a look at all slots each
/// time, and the processor given away after each, a call took 1.6 us; it takes 0.9 (example `call_speed`, shared memory).
const LOOKS: u32 = 16;

/// It looks once in so long in any case.
const ASLEEP_MAX: Duration = Duration::from_secs(1);

/// How long a fence waits for calls that are being served. A call is some microseconds of work, unless its thread was preempted.
const QUIET_WAIT: Duration = Duration::from_millis(50);

/// The owner of the threads' writer slots: no connection has this number.
const OWNER: u64 = u64::MAX;

/// Threads that answer calls, until they are dropped.
#[derive(Debug)]
pub(super) struct CallServer {
    area: Arc<CallArea>,
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Of each thread: odd while it may be serving.
    turns: Arc<[AtomicU64]>,
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
        let turns = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let mut server = Self { area, stops, threads: Vec::new(), turns };
        for number in 0..threads {
            let writer = region.claim_writer(OWNER).map_err(io::Error::other)?;
            let serving = Serving {
                number,
                area: Arc::clone(&server.area),
                stops: Arc::clone(&server.stops),
                turns: Arc::clone(&server.turns),
                region: Arc::clone(region),
                writer,
                counters: Arc::clone(counters),
            };
            let name = format!("dm-calls-{number}");
            let thread = std::thread::Builder::new().name(name);
            server.threads.push(thread.spawn(move || serving.answer_calls(node))?);
        }
        Ok(server)
    }

    /// Waits until every call that was being served when this was called is over, [`QUIET_WAIT`] at most. `false`: one is
    /// not. What `connection` had posted before, and nobody had begun to serve, is served no more: it has ended.
    pub(super) fn quiesce(&self, connection: Option<u32>) -> bool {
        if let Some(connection) = connection {
            self.area.release(connection);
        }
        // Either a thread sees the slots as they are now, or this sees that it is serving.
        fence(Ordering::SeqCst);
        let until = Instant::now() + QUIET_WAIT;
        self.turns.iter().all(|turn| {
            let seen = turn.load(Ordering::SeqCst);
            while seen % 2 == 1 && turn.load(Ordering::SeqCst) == seen {
                if Instant::now() > until {
                    return false;
                }
                std::thread::yield_now();
            }
            true
        })
    }

    /// The slots.
    pub(super) fn area(&self) -> &CallArea {
        &self.area
    }
}

impl Drop for CallServer {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
        self.area.ring(Callee::MEMORY_NODE);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// How a memory node's processor writes to its region.
pub(super) trait Writes {
    /// Writes `bytes` at `offset`. `None`: this memory node makes no changes, or the region has no such bytes; or a write failed, of
    /// which the kind of writer tells by itself.
    fn write(&mut self, region: &Region, offset: u64, bytes: &[u8]) -> Option<()>;
}

/// A processor whose own stores are whole lines for all who read.
impl Writes for WriterSlot {
    fn write(&mut self, region: &Region, offset: u64, bytes: &[u8]) -> Option<()> {
        region.area(Space::Host).write(*self, offset, bytes).ok()
    }
}

/// Perhaps none, which makes no changes.
impl<W: Writes> Writes for Option<W> {
    fn write(&mut self, region: &Region, offset: u64, bytes: &[u8]) -> Option<()> {
        self.as_mut()?.write(region, offset, bytes)
    }
}

/// Does what calls want in a memory node's region: the work of one thread that answers calls.
#[derive(Debug)]
pub(super) struct Searcher<W> {
    node: NodeId,
    /// For changes.
    pub(super) writer: W,
    room: Vec<u8>,
    /// Room for a second copy, if nodes are copied until two copies in a row are the same.
    second: Vec<u8>,
}

impl<W: Writes> Searcher<W> {
    /// Where a copy of the processor's has each line whole ([`Region::area`]).
    pub(super) fn new(node: NodeId, writer: W) -> Self {
        Self { node, writer, room: vec![0; ROOM_BYTES], second: Vec::new() }
    }

    /// Where a device WRITEs, and the processor copies by words.
    ///
    /// A line that a WRITE has changed in the middle of a copy is a mixture, which its version may not show. So a node counts only
    /// if two copies in a row are the same. Let a line of the first one be a mixture: some word of it is older than a WRITE that
    /// took effect before the second copy began. The second copy has that word of the WRITE, and so differs; or a later WRITE has
    /// brought the old word back, and then the line has another version than any that the first copy may have seen. Versions that
    /// came round meanwhile are told by the time that both copies take, as for a READ.
    #[cfg(feature = "verbs")]
    pub(super) fn beside_a_device(node: NodeId, writer: W) -> Self {
        Self { node, writer, room: vec![0; ROOM_BYTES], second: vec![0; ROOM_BYTES] }
    }

    /// Answers a request. Returns the length of the answer, and how long this took, in ns.
    pub(super) fn serve(&mut self, region: &Region, request: &[u8], answer: &mut [u8]) -> (usize, u32) {
        let began = Instant::now();
        let second = &mut self.second;
        let copy = |offset: u64, room: &mut [u8]| {
            let mut began = Instant::now();
            region.area(Space::Host).read(offset, room).ok()?;
            if let Some(again) = second.get_mut(..room.len()) {
                let mut turns = 0;
                loop {
                    // The second copy begins when the first one is complete.
                    fence(Ordering::SeqCst);
                    let since = Instant::now();
                    region.area(Space::Host).read(offset, again).ok()?;
                    if again == room {
                        break;
                    }
                    turns += 1;
                    if turns > COPIES_MAX {
                        return None;
                    }
                    room.copy_from_slice(again);
                    began = since;
                }
            }
            u32::try_from(began.elapsed().as_nanos()).ok()
        };
        let writer = &mut self.writer;
        let write = |offset: u64, bytes: &[u8]| {
            let began = Instant::now();
            writer.write(region, offset, bytes)?;
            Some(u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX))
        };
        let (bytes, _) = Walk::new(request, self.node).run(&mut self.room, answer, copy, write);
        (bytes, u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX))
    }
}

/// What a thread answers calls with.
struct Serving {
    number: usize,
    area: Arc<CallArea>,
    stops: Arc<AtomicBool>,
    turns: Arc<[AtomicU64]>,
    region: Arc<Region>,
    writer: WriterSlot,
    counters: Arc<Counters>,
}

impl Serving {
    fn answer_calls(&self, node: NodeId) {
        let (area, stops) = (&self.area, &self.stops);
        let (mut searcher, mut buffer) = (Searcher::new(node, self.writer), vec![0; 2 * CALL_BYTES_MAX]);
        let mut idle_since = Instant::now();
        let mut seen = None;
        while !stops.load(Ordering::SeqCst) {
            // A call is posted before its client rings. So a bell that did not ring since the last look at all slots says that
            // there is none.
            let rung = (0..LOOKS).find_map(|_| {
                std::hint::spin_loop();
                Some(area.rings(Callee::MEMORY_NODE)).filter(|rings| seen != Some(*rings))
            });
            if let Some(rings) = rung {
                // One client has rung: its call is all there is, and where it is has been said. But another one may have said
                // something else in between, and ring later; so now and then all slots are looked at in any case.
                let one = seen == Some(rings.wrapping_sub(1)) && !rings.is_multiple_of(ALL_SLOTS_EVERY);
                seen = rung;
                self.turn();
                let served = area
                    .serve_posted(&mut buffer, one, |request, answer| searcher.serve(&self.region, request, answer));
                self.turn();
                self.counters.searches_total.fetch_add(served.into(), Ordering::Relaxed);
                idle_since = Instant::now();
            } else if idle_since.elapsed() < AWAKE {
                std::thread::yield_now();
            } else {
                area.sleep(Callee::MEMORY_NODE, ASLEEP_MAX, || {
                    area.has_posted(Callee::MEMORY_NODE) || stops.load(Ordering::SeqCst)
                });
                // Nobody has rung: there may be a call all the same.
                seen = seen.filter(|seen| *seen != area.rings(Callee::MEMORY_NODE));
            }
        }
        self.region.release_writer(self.writer);
    }

    /// Begins or ends serving.
    fn turn(&self) {
        if let Some(turn) = self.turns.get(self.number) {
            turn.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that are not there, each in such a turn.
    fn server(turns: &[u64]) -> CallServer {
        let turns = turns.iter().copied().map(AtomicU64::new).collect();
        CallServer { area: Arc::new(CallArea::create().unwrap()), stops: Arc::default(), threads: Vec::new(), turns }
    }

    #[test]
    fn a_fence_waits_for_what_is_served_and_nothing_of_the_dead_is_begun() {
        let idle = server(&[0, 8, 2]);
        let client = CallArea::attach(idle.area.fd().try_clone().unwrap()).unwrap();
        let _ = client.post(9, Callee::MEMORY_NODE, &[1], 8).unwrap();
        let _ = client.post(7, Callee::MEMORY_NODE, &[2], 8).unwrap();
        assert!(idle.quiesce(Some(9)));
        let mut asked = Vec::new();
        idle.area.serve_posted(&mut [0; 2 * CALL_BYTES_MAX], false, |request, _| {
            asked.push(request.to_vec());
            (0, 0)
        });
        assert_eq!(asked, [vec![2]], "the call of the one that lives");
        // A thread that stays in its turn may be executing a call of the dead.
        let busy = server(&[4, 5]);
        assert!(!busy.quiesce(None));
        std::thread::scope(|scope| {
            scope.spawn(|| while !busy.quiesce(None) {});
            // The next turn, in which it sees what was withdrawn.
            busy.turns[1].fetch_add(2, Ordering::SeqCst);
            busy.turns[1].fetch_add(1, Ordering::SeqCst);
        });
        assert!(busy.quiesce(None));
    }
}
