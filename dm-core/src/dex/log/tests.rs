//! The arithmetic of a small ring in every interleaving, with a crash at every point; and lanes that append to a ring in
//! a region, in random schedules.
//!
//! In the model a crash is judged by the real codec and the real [`Replay`]: the lines that have landed are bytes.

use super::append::{MAKE_BYTES, Site, make, room_bytes, settle, wait};
use super::record::{Change, Record, Seal};
use super::replay::{Next, Replay};
use super::ring::{Ring, RingDescription, RingHead, RingOwner};
use super::staging::{Log, STAGING_LINES_MIN, mark_words};
use super::state::{Appender, Begin, Full, HeadBound, Step};
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
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::string::{String, ToString};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;
use std::{format, println, vec};

/// A mutant is planted in the whole process: tests that could meet one run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

// ---- every interleaving ------------------------------------------------------------------------------------------

/// Lines of the records of a run, in their order.
const SIZES: [u64; 5] = [1, 2, 1, 2, 1];
const RECORDS: usize = SIZES.len();
const RING: usize = 4;
const STAGING: u64 = 3;
const SEAL: Seal = Seal { seed: 7, incarnation: 3 };
/// No line has landed there.
const NOTHING: u8 = u8::MAX;

/// The record that begins at a line, or has it.
fn record_of(line: u64) -> usize {
    let mut end = 0;
    SIZES
        .iter()
        .position(|lines| {
            end += lines;
            line < end
        })
        .expect("a line of the run")
}

fn first_line(record: usize) -> u64 {
    SIZES[..record].iter().sum()
}

/// The bytes of every line of a run.
fn all_lines() -> Vec<[u8; LINE_BYTES]> {
    let mut lines = Vec::new();
    for (record, size) in SIZES.iter().enumerate() {
        let mut bytes = vec![0; *size as usize * LINE_BYTES];
        let value = vec![record as u8; if *size == 1 { 8 } else { 40 }];
        let change = Change::Put { key: b"some key", value: &value };
        let lsn = Lsn::new(1, first_line(record));
        assert_eq!(Record { lsn, entry: 0, change }.write(SEAL.incarnation, &mut bytes) as u64, *size);
        SEAL.close(&mut bytes);
        lines.extend(bytes.chunks_exact(LINE_BYTES).map(|line| <[u8; LINE_BYTES]>::try_from(line).unwrap()));
    }
    lines
}

/// What a computation of the head that looks at the frames first has seen there.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Frames {
    Unseen,
    Seen(Option<u64>),
}

/// What a replay finds, by ring and head: a bit for each record.
type Replays = HashMap<([u8; RING], u64), Result<u8, String>>;

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    appender: Appender,
    /// Numbers of the lines in the pool.
    ring: [u8; RING],
    head: u64,
    /// Records that were staged.
    staged: usize,
    /// The line that a change has noted in its frame, which stages next.
    noted: Option<u64>,
    /// Of staged records that are in no page: the line that is noted in the frame.
    unflushed: [Option<u64>; RECORDS],
    /// What the computation of a head has looked up first.
    bound: Option<HeadBound>,
    /// As [`State::bound`], if it looks up the frames first.
    frames: Frames,
    /// WRITEs of the flight that have landed.
    landed: usize,
    failed: bool,
    failures: u8,
}

/// The order of what callers do, so that a test can alter one.
#[derive(Clone, Copy)]
struct Rules {
    notes_first: bool,
    looks_at_lines_first: bool,
    waits_for_close: bool,
}

const RULES: Rules = Rules { notes_first: true, looks_at_lines_first: true, waits_for_close: true };

struct Model {
    rules: Rules,
    lines: Vec<[u8; LINE_BYTES]>,
    /// What a replay finds, by ring and head.
    replays: RefCell<Replays>,
}

impl State {
    fn least(&self) -> Option<u64> {
        self.unflushed.iter().copied().chain([self.noted]).flatten().min()
    }

    fn steps(&self) -> Vec<Step> {
        self.appender.flight().map_or(Vec::new(), |flight| flight.steps().collect())
    }

    fn land(&mut self, which: u32) {
        let (Some(flight), Some(step)) = (self.appender.flight(), self.steps().get(self.landed).copied()) else {
            return;
        };
        match step {
            Step::Head(head) => self.head = head,
            Step::Lines => {
                for line in (flight.first..flight.end).filter(|line| which >> (line - flight.first) & 1 != 0) {
                    self.ring[line as usize % RING] = line as u8;
                }
            }
        }
    }
}

impl Model {
    fn new(rules: Rules) -> Self {
        Self { rules, lines: all_lines(), replays: RefCell::default() }
    }

    fn next(&self, state: &State) -> Vec<State> {
        let mut next = Vec::new();
        let mut push = |change: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            change(&mut after);
            next.push(after);
        };
        let stage = |state: &mut State, noted: Option<u64>| {
            let assigned = state.appender.assign(SIZES[state.staged]);
            match assigned {
                Ok(line) => {
                    assert_eq!(line, first_line(state.staged));
                    state.unflushed[state.staged] = noted;
                    state.staged += 1;
                }
                Err(Full::Ring { .. } | Full::Staging) => {}
                Err(other) => panic!("{other}"),
            }
            state.noted = None;
        };
        if state.staged < RECORDS {
            if !self.rules.notes_first {
                // It stages, and its frame is noted later.
                if state.staged == 0 || state.unflushed[state.staged - 1] != Some(u64::MAX) {
                    push(&|state| stage(state, Some(u64::MAX)));
                }
            } else if state.noted.is_none() {
                push(&|state| state.noted = Some(state.appender.next()));
            } else {
                push(&|state| stage(state, state.noted));
            }
        }
        for record in 0..state.staged {
            if state.unflushed[record] == Some(u64::MAX) {
                push(&|state| state.unflushed[record] = Some(first_line(record)));
            } else if state.unflushed[record].is_some() {
                push(&|state| state.unflushed[record] = None);
            }
        }
        match (state.bound, state.frames) {
            (None, Frames::Unseen) if self.rules.looks_at_lines_first => {
                push(&|state| state.bound = Some(state.appender.head_bound()));
            }
            (None, Frames::Unseen) => push(&|state| state.frames = Frames::Seen(state.least())),
            (Some(bound), _) => push(&|state| {
                state.appender.advance_head(bound, state.least());
                state.bound = None;
            }),
            (None, Frames::Seen(frames)) => push(&|state| {
                let bound = state.appender.head_bound();
                state.appender.advance_head(bound, frames);
                state.frames = Frames::Unseen;
            }),
        }
        match state.appender.flight() {
            None => push(&|state| {
                if let Begin::Post(_) = state.appender.begin(0, |_, next| next) {
                    (state.landed, state.failed) = (0, false);
                }
            }),
            Some(flight) => {
                if state.landed < state.steps().len() {
                    push(&|state| {
                        state.land(u32::MAX);
                        state.landed += 1;
                    });
                } else if !state.failed {
                    push(&|state| assert!(state.appender.completed(&flight)));
                }
                if state.failures > 0 && !state.failed {
                    push(&|state| {
                        state.failed = true;
                        state.failures -= 1;
                    });
                }
                if state.failed {
                    push(&|state| assert!(state.appender.closed(0)));
                }
            }
        }
        next
    }

    /// What replay finds, a bit for each record.
    fn replay(&self, ring: [u8; RING], head: u64) -> Result<u8, String> {
        if let Some(known) = self.replays.borrow().get(&(ring, head)) {
            return known.clone();
        }
        let line_bytes = |line: u64| match ring[line as usize % RING] {
            NOTHING => [0x77; LINE_BYTES],
            number => self.lines[usize::from(number)],
        };
        let mut found = 0;
        let mut replay = Replay::of(RING as u64, SEAL, head);
        let result = loop {
            let first = replay.next_line();
            let bytes: Vec<u8> = (first..first + replay.lines_left()).flat_map(line_bytes).collect();
            match replay.next(&bytes) {
                Next::Record(record, lines) => {
                    let which = record_of(first);
                    let Change::Put { value, .. } = record.change else { break Err("another kind".into()) };
                    if first_line(which) != first || value[0] != which as u8 || SIZES[which] != lines as u64 {
                        break Err(format!("at line {first} replay finds {record:?}"));
                    }
                    found |= 1 << which;
                }
                Next::Read(lines) => break Err(format!("replay wants {lines} lines of a ring that was READ")),
                Next::End => break Ok(found),
            }
        };
        self.replays.borrow_mut().insert((ring, head), result.clone());
        result
    }

    /// A crash now: whatever part of the next WRITE has landed, what was acknowledged is in its page, or is found.
    fn check(&self, state: &State) -> Result<(), String> {
        let lines = match (state.appender.flight(), state.steps().get(state.landed)) {
            (Some(flight), Some(Step::Lines)) => flight.end - flight.first,
            _ => 0,
        };
        for which in 0..1_u32 << lines {
            let mut crashed = state.clone();
            crashed.land(which);
            let found = self.replay(crashed.ring, crashed.head)?;
            for record in 0..state.staged {
                let is_safe = state.unflushed[record].is_none() || found >> record & 1 != 0;
                if state.appender.is_durable(first_line(record)) && !is_safe {
                    return Err(format!(
                        "record {record} was acknowledged and is lost: ring {:?}, head {}, flight {:?}",
                        crashed.ring,
                        crashed.head,
                        state.appender.flight()
                    ));
                }
            }
        }
        Ok(())
    }

    fn explore(&self) -> Result<usize, String> {
        let start = State {
            appender: Appender::new(RING as u64, STAGING),
            ring: [NOTHING; RING],
            head: 0,
            staged: 0,
            noted: None,
            unflushed: [None; RECORDS],
            bound: None,
            frames: Frames::Unseen,
            landed: 0,
            failed: false,
            failures: 1,
        };
        let mut numbers = HashMap::from([(start.clone(), 0_usize)]);
        let mut states = vec![start];
        let mut before: Vec<Vec<u32>> = vec![Vec::new()];
        let mut at = 0;
        while let Some(state) = states.get(at).cloned() {
            self.check(&state)?;
            for mut next in self.next(&state) {
                if !self.rules.waits_for_close && next.failed {
                    // The flight is given up at once; its WRITEs land later, or not.
                    Self::land_late(&mut next);
                }
                let number = *numbers.entry(next.clone()).or_insert_with(|| {
                    states.push(next);
                    before.push(Vec::new());
                    states.len() - 1
                });
                before[number].push(at as u32);
            }
            at += 1;
        }
        // From every state all records can get durable.
        let is_end = |state: &State| state.staged == RECORDS && state.appender.durable() == state.appender.next();
        let mut ends: Vec<bool> = states.iter().map(is_end).collect();
        let mut open: Vec<usize> = (0..states.len()).filter(|&number| ends[number]).collect();
        while let Some(number) = open.pop() {
            for &earlier in &before[number] {
                if !std::mem::replace(&mut ends[earlier as usize], true) {
                    open.push(earlier as usize);
                }
            }
        }
        match ends.iter().position(|ends| !ends) {
            Some(stuck) => Err(format!("records stay undurable behind {:?}", states[stuck].appender)),
            None => Ok(states.len()),
        }
    }

    /// A flight that nobody waits for any more: the next one is posted and completes, and then the head of the first
    /// lands. One of the interleavings that waiting excludes.
    fn land_late(state: &mut State) {
        let late = state.appender.flight().and_then(|flight| flight.head);
        let _ = state.appender.closed(0);
        state.unflushed = state.unflushed.map(|_| None);
        loop {
            let bound = state.appender.head_bound();
            state.appender.advance_head(bound, None);
            if state.staged < RECORDS && state.appender.assign(SIZES[state.staged]).is_ok() {
                state.unflushed[state.staged] = Some(first_line(state.staged));
                state.staged += 1;
            }
            let Begin::Post(flight) = state.appender.begin(0, |_, next| next) else { break };
            (state.landed, state.failed) = (0, false);
            for _ in 0..state.steps().len() {
                state.land(u32::MAX);
                state.landed += 1;
            }
            assert!(state.appender.completed(&flight));
            if state.staged < RECORDS {
                state.unflushed = state.unflushed.map(|_| None);
            }
        }
        state.head = late.unwrap_or(state.head);
    }
}

fn explore(rules: Rules) -> Result<usize, String> {
    Model::new(rules).explore()
}

#[test]
fn nothing_acknowledged_is_lost_in_any_interleaving_of_a_small_ring() {
    let _alone = alone();
    let states = explore(RULES).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{states} states");
    assert!(states > 10_000, "the model does not move: {states} states");
}

#[test]
fn altered_orders_are_found() {
    let _alone = alone();
    for (what, rules) in [
        ("a frame is noted after its record was staged", Rules { notes_first: false, ..RULES }),
        ("the frames are looked at before the lines", Rules { looks_at_lines_first: false, ..RULES }),
        ("a failed flight is not waited for", Rules { waits_for_close: false, ..RULES }),
    ] {
        match explore(rules) {
            Ok(states) => panic!("{what}: {states} states without a violation"),
            Err(violation) => assert!(violation.contains("is lost"), "{what}: found {violation}"),
        }
    }
}

/// Needs the feature that can plant them.
#[cfg(feature = "planted")]
#[test]
fn every_mutant_of_the_log_is_found() {
    use crate::mutants::plant;
    let _alone = alone();
    for &mutant in crate::dex::mutants::DECLARED {
        plant(Some(mutant));
        let found = explore(RULES);
        plant(None);
        match found {
            Ok(states) => panic!("{}: {states} states without a violation", mutant.name()),
            Err(violation) => assert!(violation.contains("is lost"), "{}: found {violation}", mutant.name()),
        }
    }
    explore(RULES).unwrap_or_else(|violation| panic!("none is planted: {violation}"));
}

#[test]
fn numbers_and_room_end_with_errors() {
    let mut full = Appender::new(RING as u64, STAGING);
    assert_eq!(full.assign(4), Err(Full::Staging));
    assert_eq!(full.assign(5), Err(Full::Ring { head: 0 }));
    assert_eq!((full.assign(3), full.next()), (Ok(0), 3), "what was refused took nothing");
    assert_eq!(full.assign(crate::pages::lsn::LINES_END), Err(Full::UsedUp));
    let Begin::Post(flight) = full.begin(5, |_, next| next) else { panic!("nothing to post") };
    assert_eq!((full.begin(6, |_, next| next), full.closed(6)), (Begin::Busy, false));
    full.lose();
    assert!(full.is_lost() && !full.completed(&flight));
    assert_eq!((full.assign(1), full.begin(5, |_, next| next)), (Err(Full::Lost), Begin::Lost));
}

// ---- lanes over a region -----------------------------------------------------------------------------------------

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
                    let _ = super::append::post_staged(site, lane).await;
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
    let log = Log::new(ring.lines(), owner().seal(), &staging, &marks, LANES).unwrap();
    let room = 64..64 + room_bytes(LINES_AT_ONCE);
    let site = Site { log: &log, ring: &ring, recovery: None, room: &room };
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
    let _alone = alone();
    let waited: u32 = (1..=150).map(|seed| run(seed * 7919, 0)).sum();
    assert!(waited > 0, "the ring was never full");
}

#[test]
fn chains_that_fail_are_posted_again() {
    let _alone = alone();
    for seed in 1..=150 {
        run(seed * 104_729, 6);
    }
}

#[test]
fn a_lane_that_is_dropped_in_its_flight_is_settled_and_others_post_anew() {
    let _alone = alone();
    let geometry = small_for_tests();
    let ring = Ring::new(NodeId(0), &geometry, &CHUNKS).unwrap();
    let staging: Vec<AtomicU32> = (0..STAGING_LINES_MIN * 16).map(|_| AtomicU32::new(0)).collect();
    let marks: [AtomicU32; mark_words(2)] = Default::default();
    let log = Log::new(ring.lines(), owner().seal(), &staging, &marks, 2).unwrap();
    let room = 0..room_bytes(4);
    let site = Site { log: &log, ring: &ring, recovery: None, room: &room };
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

#[test]
fn too_little_room_is_refused() {
    let staging: Vec<AtomicU32> = (0..STAGING_LINES_MIN * 16).map(|_| AtomicU32::new(0)).collect();
    let marks: [AtomicU32; 2] = Default::default();
    let new = |lines, staging: &'static [AtomicU32], lanes| {
        Log::new(lines, SEAL, staging, Box::leak(Box::new([const { AtomicU32::new(0) }; 2])), lanes).map(|_| ())
    };
    let staging: &'static [AtomicU32] = Vec::leak(staging);
    assert_eq!(new(1000, staging, 32), Ok(()));
    assert!(new(1000, staging, 33).unwrap_err().to_string().contains("33 lanes need 4"));
    assert!(new(36, staging, 1).is_err() && new(1000, &staging[1..], 1).is_err());
    let log = Log::new(1000, SEAL, staging, &marks, 1).unwrap();
    assert_eq!(log.stage(0, 1, Change::Delete { key: &[0; 65] }), Err(Full::Size));
    assert!(!log.is_durable(Lsn::new(1, 0)), "nothing was staged");
}
