//! The arithmetic of a small ring in every interleaving, with a crash at every point.
//!
//! In the model a crash is judged by the real codec and the real [`Replay`]: the lines that have landed are bytes.

mod lanes;

use super::record::{Change, Record, Seal};
use super::replay::{Next, Replay};
use super::state::{Appender, Begin, Full, HeadBound, Step};
use crate::layout::LINE_BYTES;
use crate::mutants::{Mutant, with_planted};
use crate::pages::lsn::Lsn;
extern crate std;
use core::cell::RefCell;
use std::collections::HashMap;
use std::string::String;
use std::vec::Vec;
use std::{format, println, vec};

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
    let states = explore(RULES).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{states} states");
    assert!(states > 10_000, "the model does not move: {states} states");
}

#[test]
fn altered_orders_are_found() {
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

#[test]
fn every_mutant_of_the_log_is_found() {
    for mutant in
        [Mutant::ACK_BEFORE_DURABLE, Mutant::HEAD_WRITTEN_LATE, Mutant::REPLAY_STOPS_EARLY, Mutant::APPEND_DROPPED]
    {
        match with_planted(Some(mutant), || explore(RULES)) {
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
