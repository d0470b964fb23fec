//! Lanes that append to a ring in a region, in random schedules, with chains that fail and a crash at every few steps.

use super::super::append::{MAKE_BYTES, Site, make, post_staged, room_bytes, settle, wait};
use super::super::record::{Change, Record, Seal};
use super::super::replay::{Next, Replay};
use super::super::ring::{Ring, RingDescription, RingHead, RingOwner};
use super::super::staging::{Log, STAGING_LINES_MIN, mark_words};
use super::super::state::Full;
use super::SEAL;
use crate::lane::Lane;
use crate::layout::LINE_BYTES;
use crate::machine::{self, poll_once};
use crate::pages::lsn::Lsn;
use crate::remote::NodeGeometry;
use crate::remote::catalog::IndexNumber;
use crate::remote::lock_word::RowId;
use crate::remote::row::Member;
use crate::remote::superblock::small_for_tests;
use crate::verbs::{Completion, LaneId, NodeId, Request, Status, Verb};
extern crate std;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::AtomicU32;
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
use std::string::ToString;
use std::vec;
use std::vec::Vec;

const LANES: usize = 7;
const CHUNKS: [u32; 5] = [9, 3, 20, 21, 40];
const LINES_AT_ONCE: usize = 40;

fn owner() -> RingOwner {
    let member = Member { row: RowId(9), incarnation: 4, nonce: 7 };
    RingOwner::new((*b"0123456789abcdef", 3), IndexNumber::new(2).unwrap(), member, 0xfeed_0007)
}

/// A small generator with a fixed course.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % end as u64) as usize
    }
}

/// What the lanes share besides the log.
#[derive(Default)]
struct Shared {
    /// Records in no page, by line: the lines that are noted in frames.
    unflushed: RefCell<BTreeSet<u64>>,
    /// Values by line, of all records that were staged.
    staged: RefCell<BTreeMap<u64, Vec<u8>>>,
    acknowledged: RefCell<BTreeSet<u64>>,
    /// Acknowledged and flushed.
    flushed: RefCell<BTreeSet<u64>>,
    waited_for_room: Cell<u32>,
}

impl Shared {
    fn flush(&self, log: &Log<'_>, line: u64) {
        self.unflushed.borrow_mut().remove(&line);
        self.flushed.borrow_mut().insert(line);
        let bound = log.head_bound();
        log.advance_head(bound, self.unflushed.borrow().first().copied());
    }
}

/// One lane's operations: `records` changes of different lengths, each acknowledged.
async fn operations(site: Site<'_>, lane: &Lane<'_>, shared: &Shared, seed: u64, records: usize) {
    let mut random = Random(seed);
    for number in 0..records {
        let length = if random.below(4) == 0 { random.below(1000) } else { 8 };
        let value = vec![(number + usize::from(lane.id().0)) as u8; length];
        let lsn = loop {
            match site.log.stage(3, 5, Change::Put { key: b"a key", value: &value }) {
                Ok(lsn) => break lsn,
                Err(Full::Ring { .. } | Full::Staging) => {
                    shared.waited_for_room.set(shared.waited_for_room.get() + 1);
                    let oldest = shared.unflushed.borrow().first().copied();
                    if let Some(oldest) = oldest {
                        shared.flush(site.log, oldest);
                    }
                    let _ = post_staged(site, lane).await;
                    lane.port().call(Request::pause(1)).await.unwrap();
                }
                Err(other) => panic!("{other}"),
            }
        };
        shared.unflushed.borrow_mut().insert(lsn.line());
        shared.staged.borrow_mut().insert(lsn.line(), value);
        wait(site, lane, lsn).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(site.log.is_durable(lsn));
        shared.acknowledged.borrow_mut().insert(lsn.line());
        if random.below(3) == 0 {
            shared.flush(site.log, lsn.line());
        }
    }
}

/// Where a lane is.
enum Stand<'m> {
    Runs,
    /// Its requests travel.
    Posted(&'m mut [u8]),
    Sleeps(&'m mut [u8]),
    Done,
}

struct Pool {
    region: Vec<u8>,
    geometry: NodeGeometry,
}

impl Pool {
    fn execute(&mut self, request: &Request, scratch: &mut [u8]) {
        let (at, local, bytes) = (request.offset as usize, request.local as usize, request.bytes as usize);
        match request.verb {
            Verb::Read => scratch[local..local + bytes].copy_from_slice(&self.region[at..at + bytes]),
            Verb::Write => {
                assert!(
                    at.is_multiple_of(64)
                        && self.geometry.chunk_of(at as u64).is_some_and(|chunk| CHUNKS.contains(&chunk))
                );
                self.region[at..at + bytes].copy_from_slice(&scratch[local..local + bytes]);
            }
            verb => unreachable!("{verb:?}"),
        }
    }

    /// What a finder finds now: values by line.
    fn replayed(&self, ring: &Ring) -> BTreeMap<u64, Vec<u8>> {
        let at = ring.description_offset() as usize;
        let description = RingDescription::from_prefix(&self.region[at..]).unwrap();
        let (found, seal) = description.decode(&RingOwner { token: 0, ..owner() }, NodeId(0), &self.geometry).unwrap();
        assert_eq!(found, *ring);
        let head = RingHead::from_prefix(&self.region[ring.head_offset() as usize..]).unwrap().decode(4).unwrap();
        let (mut replay, mut values) = (Replay::new(ring, seal, head), BTreeMap::new());
        let (mut bytes, mut from) = (Vec::new(), head);
        loop {
            let line = replay.next_line();
            let skip = (line - from) as usize * LINE_BYTES;
            let (wanted, read) = match replay.next(&bytes[skip..]) {
                Next::Record(record, _) => {
                    let Change::Put { key, value } = record.change else { panic!("{record:?}") };
                    assert_eq!((key, record.entry, record.lsn), (&b"a key"[..], 3, Lsn::new(5, line)));
                    values.insert(line, value.to_vec());
                    continue;
                }
                Next::End => return values,
                Next::Read(lines) => (lines as u64, line),
            };
            // READ from the record's first line on, a few lines more than it wants.
            (bytes, from) = (Vec::new(), read);
            while (bytes.len() as u64) < wanted * 64 {
                let run = ring.run(read + bytes.len() as u64 / 64, (wanted + 3).min(replay.lines_left()));
                bytes.extend_from_slice(&self.region[run.offset as usize..][..run.lines as usize * 64]);
            }
        }
    }
}

/// Runs lanes in a random order until all are done. `failures`: chains that fail, and land in part.
fn run(seed: u64, failures: usize) -> u32 {
    let geometry = small_for_tests();
    let ring = Ring::new(NodeId(0), &geometry, &CHUNKS).unwrap();
    let staging: Vec<AtomicU32> = (0..STAGING_LINES_MIN * 3 * 16).map(|_| AtomicU32::new(0)).collect();
    let marks: Vec<AtomicU32> = (0..mark_words(LANES)).map(|_| AtomicU32::new(0)).collect();
    let log = Log::new(ring.lines(), &staging, &marks, LANES).unwrap();
    log.set_seal(owner().seal());
    let room = 64..64 + room_bytes(LINES_AT_ONCE);
    let site = Site { log: &log, ring: &ring, restarts: 0, recovery: None, room: &room };
    let shared = Shared::default();
    let mut scratches: Vec<Vec<u8>> = (0..LANES).map(|_| vec![0; room.end]).collect();
    let lanes: Vec<Lane<'_>> =
        scratches.iter_mut().enumerate().map(|(id, scratch)| Lane::new(LaneId(id as u16), scratch)).collect();
    // The chunks had another ring of this row and incarnation, whose lines have the same numbers.
    let mut pool = Pool { region: vec![0; geometry.region_bytes as usize], geometry };
    let stranger = Seal { seed: 1, incarnation: 4 };
    for line in 0..ring.lines() {
        let record = Record { lsn: Lsn::new(5, line), entry: 3, change: Change::Put { key: b"a key", value: b"old" } };
        let at = ring.run(line, 1).offset as usize;
        record.write(4, &mut pool.region[at..at + 64]);
        stranger.close(&mut pool.region[at..at + 64]);
    }
    let mut random = Random(seed | 1);
    let owner = owner();
    let mut making = Box::pin(make(&lanes[0], &ring, &owner, &geometry, 0));
    assert!(room.end >= MAKE_BYTES);
    while let machine::Step::Waiting | machine::Step::Requests = poll_once(lanes[0].port(), making.as_mut()) {
        let scratch = lanes[0].port().begin().unwrap();
        let request = lanes[0].port().requests()[0];
        pool.execute(&request, scratch);
        lanes[0].port().complete(0, Completion { status: Status::Ok, ..Completion::NOTHING });
        lanes[0].port().finish(scratch, 1);
    }
    drop(making);
    let mut futures: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = lanes
        .iter()
        .map(|lane| {
            let seed = random.below(1 << 30) as u64 + 1;
            Box::pin(operations(site, lane, &shared, seed, 30)) as Pin<Box<dyn Future<Output = ()> + '_>>
        })
        .collect();
    let mut stands: Vec<Stand<'_>> = (0..LANES).map(|_| Stand::Runs).collect();
    let mut woken = [false; LANES];
    let mut failures = failures;
    let mut steps = 0_u32;
    loop {
        steps += 1;
        assert!(steps < 1_000_000, "no end");
        let can_go: Vec<usize> = (0..LANES)
            .filter(|&lane| match stands[lane] {
                Stand::Runs | Stand::Posted(_) => true,
                Stand::Sleeps(_) => woken[lane],
                Stand::Done => false,
            })
            .collect();
        if can_go.is_empty() {
            let asleep = stands.iter().filter(|stand| matches!(stand, Stand::Sleeps(_))).count();
            assert_eq!(asleep, 0, "lanes sleep, and nobody wakes them: {:?}", log.state());
            break;
        }
        let which = can_go[random.below(can_go.len())];
        let port = lanes[which].port();
        match std::mem::replace(&mut stands[which], Stand::Runs) {
            Stand::Runs => {
                let is_done = matches!(poll_once(port, futures[which].as_mut()), machine::Step::Done(()));
                if is_done && !port.flush() {
                    stands[which] = Stand::Done;
                    continue;
                }
                let requests: Vec<Request> = port.requests().to_vec();
                let scratch = port.begin().unwrap();
                for request in requests.iter().filter(|request| request.verb == Verb::Wake) {
                    woken[request.operands[0] as usize] = true;
                }
                if is_done {
                    port.finish(scratch, 1);
                    stands[which] = Stand::Done;
                } else if requests.iter().any(|request| request.verb == Verb::Park) {
                    stands[which] = Stand::Sleeps(scratch);
                } else {
                    stands[which] = Stand::Posted(scratch);
                }
            }
            Stand::Posted(scratch) => {
                let requests: Vec<Request> = port.requests().to_vec();
                let remote = requests.iter().filter(|request| !request.verb.is_local()).count();
                let fails =
                    failures > 0 && requests.iter().any(|request| request.verb == Verb::Write) && random.below(8) == 0;
                failures -= usize::from(fails);
                // A chain that fails lands in part; all of it that lands does so before the queue pair is closed.
                let lands = if fails { random.below(remote + 1) } else { remote };
                let travelling = requests.iter().enumerate().filter(|(_, request)| !request.verb.is_local());
                for (place, (position, request)) in travelling.enumerate() {
                    if place < lands {
                        pool.execute(request, scratch);
                    }
                    let status = if fails { Status::Flushed } else { Status::Ok };
                    port.complete(position, Completion { status, ..Completion::NOTHING });
                }
                port.finish(scratch, 1);
            }
            Stand::Sleeps(scratch) => {
                woken[which] = false;
                port.finish(scratch, 1);
            }
            Stand::Done => unreachable!("it is done"),
        }
        if random.below(50) == 0 {
            judge(&pool, &ring, &shared);
        }
    }
    judge(&pool, &ring, &shared);
    assert_eq!(shared.acknowledged.borrow().len(), LANES * 30);
    assert!(log.state().next() > ring.lines(), "the ring has begun again");
    shared.waited_for_room.get()
}

/// A crash now.
fn judge(pool: &Pool, ring: &Ring, shared: &Shared) {
    let replayed = pool.replayed(ring);
    let staged = shared.staged.borrow();
    for (line, value) in &replayed {
        assert_eq!(staged.get(line), Some(value), "replay finds what was not staged at line {line}");
    }
    let flushed = shared.flushed.borrow();
    for line in shared.acknowledged.borrow().iter().filter(|line| !flushed.contains(line)) {
        assert!(replayed.contains_key(line), "line {line} was acknowledged, and is neither in a page nor replayed");
    }
}

#[test]
fn lanes_share_flights_and_none_sleeps_for_ever() {
    let waited: u32 = (1..=150).map(|seed| run(seed * 7919, 0)).sum();
    assert!(waited > 0, "the ring was never full");
}

#[test]
fn chains_that_fail_are_posted_again() {
    for seed in 1..=150 {
        run(seed * 104_729, 6);
    }
}

#[test]
fn a_lane_that_is_dropped_in_its_flight_is_settled_and_others_post_anew() {
    let geometry = small_for_tests();
    let ring = Ring::new(NodeId(0), &geometry, &CHUNKS).unwrap();
    let staging: Vec<AtomicU32> = (0..STAGING_LINES_MIN * 16).map(|_| AtomicU32::new(0)).collect();
    let marks: [AtomicU32; mark_words(2)] = Default::default();
    let log = Log::new(ring.lines(), &staging, &marks, 2).unwrap();
    log.set_seal(owner().seal());
    let room = 0..room_bytes(4);
    let site = Site { log: &log, ring: &ring, restarts: 0, recovery: None, room: &room };
    let (mut first, mut second) = (vec![0; room.end], vec![0; room.end]);
    let lanes = [Lane::new(LaneId(0), &mut first), Lane::new(LaneId(1), &mut second)];
    let mut pool = Pool { region: vec![0; geometry.region_bytes as usize], geometry };
    let lsn = log.stage(3, 5, Change::Delete { key: b"a key" }).unwrap();
    let mut dropped = Box::pin(wait(site, &lanes[0], lsn));
    assert!(matches!(poll_once(lanes[0].port(), dropped.as_mut()), machine::Step::Requests));
    drop(dropped);
    let mut sleeper = Box::pin(wait(site, &lanes[1], lsn));
    assert!(matches!(poll_once(lanes[1].port(), sleeper.as_mut()), machine::Step::Requests));
    assert_eq!(lanes[1].port().requests()[0].verb, Verb::Park);
    // The driver ends the dropped submit; the chain failed.
    let scratch = lanes[0].port().begin().unwrap();
    lanes[0].port().complete(0, Completion { status: Status::Flushed, ..Completion::NOTHING });
    lanes[0].port().finish(scratch, 1);
    lanes[0].port().reset();
    let mut settling = Box::pin(settle(site, &lanes[0]));
    while let machine::Step::Requests | machine::Step::Waiting = poll_once(lanes[0].port(), settling.as_mut()) {
        let scratch = lanes[0].port().begin().unwrap();
        let request = lanes[0].port().requests()[0];
        pool.execute(&request, scratch);
        lanes[0].port().complete(0, Completion { status: Status::Ok, ..Completion::NOTHING });
        lanes[0].port().finish(scratch, 1);
    }
    drop(settling);
    assert!(lanes[0].port().flush(), "the sleeper is woken");
    assert_eq!(lanes[0].port().requests()[0], Request::wake(LaneId(1)));
    let scratch = lanes[1].port().begin().unwrap();
    lanes[1].port().finish(scratch, 1);
    assert!(matches!(poll_once(lanes[1].port(), sleeper.as_mut()), machine::Step::Requests));
    assert_eq!(lanes[1].port().requests()[0].verb, Verb::Write, "it posts the line anew");
    let scratch = lanes[1].port().begin().unwrap();
    lanes[1].port().complete(0, Completion { status: Status::Ok, ..Completion::NOTHING });
    lanes[1].port().finish(scratch, 1);
    assert!(matches!(poll_once(lanes[1].port(), sleeper.as_mut()), machine::Step::Done(Ok(()))));
}

/// A lane waits for a record in a ring that is lost. Before it looks again, others have flushed all pages, made another ring,
/// and staged as many records.
#[test]
fn a_lane_that_waited_for_a_lost_ring_does_not_post_there_what_is_for_the_next() {
    let geometry = small_for_tests();
    let ring = Ring::new(NodeId(0), &geometry, &CHUNKS).unwrap();
    let staging: Vec<AtomicU32> = (0..STAGING_LINES_MIN * 16).map(|_| AtomicU32::new(0)).collect();
    let marks: [AtomicU32; mark_words(1)] = Default::default();
    let log = Log::new(ring.lines(), &staging, &marks, 1).unwrap();
    log.set_seal(owner().seal());
    let room = 0..room_bytes(4);
    let site = Site { log: &log, ring: &ring, restarts: 0, recovery: None, room: &room };
    let mut scratch = vec![0; room.end];
    let lane = Lane::new(LaneId(0), &mut scratch);
    let stage = || log.stage(3, 5, Change::Delete { key: b"a key" }).unwrap();
    let lsn = stage();
    log.lose();
    log.restart();
    let (_, last) = (stage(), stage());
    let mut waiting = Box::pin(wait(site, &lane, lsn));
    let step = poll_once(lane.port(), waiting.as_mut());
    assert!(matches!(step, machine::Step::Done(Ok(()))), "{:?}", lane.port().requests());
    drop(waiting);
    let mut posting = Box::pin(post_staged(site, &lane));
    assert!(matches!(poll_once(lane.port(), posting.as_mut()), machine::Step::Done(Ok(false))));
    assert!(!log.is_durable(last));
}

#[test]
fn too_little_room_is_refused() {
    let staging: Vec<AtomicU32> = (0..STAGING_LINES_MIN * 16).map(|_| AtomicU32::new(0)).collect();
    let marks: [AtomicU32; 2] = Default::default();
    let new = |lines, staging: &'static [AtomicU32], lanes| {
        Log::new(lines, staging, Box::leak(Box::new([const { AtomicU32::new(0) }; 2])), lanes).map(|_| ())
    };
    let staging: &'static [AtomicU32] = Vec::leak(staging);
    assert_eq!(new(1000, staging, 32), Ok(()));
    assert!(new(1000, staging, 33).unwrap_err().to_string().contains("33 lanes need 4"));
    assert!(new(36, staging, 1).is_err() && new(1000, &staging[1..], 1).is_err());
    let log = Log::new(1000, staging, &marks, 1).unwrap();
    log.set_seal(SEAL);
    assert_eq!(log.stage(0, 1, Change::Delete { key: &[0; 65] }), Err(Full::Size));
    assert!(!log.is_durable(Lsn::new(1, 0)), "nothing was staged");
}

/// One thread looks a record up; another one posts it, and completes its flight. Then nothing is staged, and the record is
/// durable. More than one thread is needed to come between.
#[test]
fn a_flight_closes_its_own_records_only() {
    let staging: Vec<AtomicU32> = (0..STAGING_LINES_MIN * 16).map(|_| AtomicU32::new(0)).collect();
    let marks: Vec<AtomicU32> = (0..mark_words(1)).map(|_| AtomicU32::new(0)).collect();
    let log = Log::new(STAGING_LINES_MIN as u64 + 1, &staging, &marks, 1).unwrap();
    log.set_seal(SEAL);
    let change = Change::Put { key: b"key", value: b"value" };
    let lsn = log.stage(0, 1, change).unwrap();
    // As if a longer flight had left lines there, each of which begins a record of one line.
    let mut room = vec![1; 3 * LINE_BYTES];
    log.copy(0, 1, &mut room);
    let mut record = vec![0; LINE_BYTES];
    Record { lsn, entry: 0, change }.write(SEAL.incarnation, &mut record);
    SEAL.close(&mut record);
    assert_eq!(room[..LINE_BYTES], record[..]);
    assert!(room[LINE_BYTES..].iter().all(|&byte| byte == 1), "lines of another flight were changed");
}

#[test]
fn a_record_that_another_thread_has_posted_meanwhile_is_durable() {
    const THREADS: u16 = 2;
    let geometry = small_for_tests();
    let ring = &Ring::new(NodeId(0), &geometry, &CHUNKS).unwrap();
    let staging: Vec<AtomicU32> = (0..STAGING_LINES_MIN * 16).map(|_| AtomicU32::new(0)).collect();
    let marks: Vec<AtomicU32> = (0..mark_words(THREADS.into())).map(|_| AtomicU32::new(0)).collect();
    let log = &Log::new(ring.lines(), &staging, &marks, THREADS.into()).unwrap();
    log.set_seal(owner().seal());
    let room = &(64..64 + room_bytes(LINES_AT_ONCE));
    let append = move |id: u16| {
        let mut scratch = vec![0; room.end];
        let lane = Lane::new(LaneId(id), &mut scratch);
        let (port, site) = (lane.port(), Site { log, ring, restarts: 0, recovery: None, room });
        for _ in 0..20_000 {
            // All that is durable is in its page.
            log.advance_head(log.head_bound(), None);
            let lsn = log.stage(3, 5, Change::Put { key: b"a key", value: b"a value" }).unwrap();
            let mut waiting = core::pin::pin!(wait(site, &lane, lsn));
            loop {
                match poll_once(port, waiting.as_mut()) {
                    machine::Step::Done(waited) => break waited.unwrap(),
                    machine::Step::Requests | machine::Step::Waiting => {}
                }
                let scratch = port.begin().unwrap();
                for position in 0..port.requests().len() {
                    if !port.requests()[position].verb.is_local() {
                        port.complete(position, Completion { status: Status::Ok, ..Completion::NOTHING });
                    }
                }
                // A lane that sleeps is woken early, which does no harm.
                port.finish(scratch, 1);
            }
            if port.flush() {
                let scratch = port.begin().unwrap();
                port.finish(scratch, 1);
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|id| drop(scope.spawn(move || append(id)))));
    assert_eq!(log.state().durable(), u64::from(THREADS) * 20_000);
}
