//! Every interleaving of three compute nodes over one entry with one page: claims, gets, writes, flushes that may be
//! torn, releases, leases that end, deaths, fences, recoveries, sweeps, and rows that are used again.
//!
//! The model takes its decisions from [`OwnerWord`], by way of [`Rules`]; a test alters one decision at a time, and the
//! model has to find a violation. A value is the number of the write that made it, so a later one is greater.

mod tables;

use super::*;
use crate::dex::image::PageImage;
use crate::pages::lsn::Lsn;
use crate::remote::address::Address;
extern crate std;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, println, vec};

const NODES: usize = 3;

fn row(node: usize) -> RowId {
    RowId(node as u16 + 1)
}

fn node_of(row: RowId) -> usize {
    usize::from(row.0) - 1
}

/// Where a compute node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Idle,
    /// It has READ the word.
    Seen(OwnerWord),
    /// It has fenced this row, which the word named; its CAS comes next.
    Fenced(OwnerWord, RowId),
    /// Its word is in the table; it READs the page, and repairs it, next.
    Recovering,
    /// It replays next.
    Repaired,
    /// It has replayed, and flushes next.
    Replayed,
    /// Its CAS that ends the recovery comes next.
    Flushed,
    /// It serves the entry.
    Owner,
    /// A mutant's: it has checked its lease, and reads the cached page next.
    Checked,
    /// It has read the cached page; the lease is checked next. `fresh`: nothing newer was acknowledged then.
    Got {
        fresh: bool,
    },
    /// It has changed the page and staged a record; the record lands next.
    Staged,
    /// The record has landed; it acknowledges next.
    Logged,
    /// It serves the entry no more, and flushes next.
    Leaving,
    /// It has flushed; its CAS comes next.
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row {
    Live,
    Dead,
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    at: At,
    alive: bool,
    /// Its lease is valid by its own clock.
    lease: bool,
    row: Row,
    /// The epoch of its tenure; 0: none.
    tenure: u32,
    /// What its cached page says.
    cached: u8,
    /// The last record in its ring.
    ring: u8,
    /// The image of its last flush: epoch and value.
    image: Option<(u32, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    word: OwnerWord,
    page: u8,
    torn: bool,
    acknowledged: u8,
    nodes: [Node; NODES],
    writes: u8,
    gets: u8,
    flushes: u8,
    deaths: u8,
    joins: u8,
    releases: u8,
    /// Compute nodes that have done something: they begin in order, since none differs from another before.
    begun: u8,
}

/// The decisions, so that a test can alter one.
#[derive(Clone, Copy)]
struct Rules {
    recover: fn(OwnerWord, RowId, RowId) -> Result<OwnerWord, Refused>,
    claim: fn(OwnerWord, RowId) -> Result<OwnerWord, Refused>,
    keeps: fn(OwnerWord, RowId) -> bool,
    /// An owner is fenced before it is recovered.
    fences: bool,
    /// The lease is checked after the page was read.
    checks_lease: bool,
    /// It is, but before.
    checks_before: bool,
    /// A finder serves the entry only when its CAS has ended the recovery.
    admits_last: bool,
    /// A finder flushes before it ends the recovery.
    flushes_first: bool,
    /// An owner flushes before it gives the entry up.
    flushes_to_leave: bool,
    /// A torn page gets the image of its last writer.
    repairs: bool,
    /// A write is acknowledged when its record has landed.
    logs_first: bool,
}

const RULES: Rules = Rules {
    recover: OwnerWord::recover,
    claim: OwnerWord::claim,
    keeps: OwnerWord::keeps,
    fences: true,
    checks_lease: true,
    checks_before: false,
    admits_last: true,
    flushes_first: true,
    flushes_to_leave: true,
    repairs: true,
    logs_first: true,
};

type Next = Vec<Result<State, String>>;

/// Faster than what the standard library has for keys of strangers.
#[derive(Default)]
struct Hash64(u64);

impl Hasher for Hash64 {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

struct Model(Rules);

impl Model {
    fn next(&self, state: &State) -> Next {
        let mut next = Next::new();
        for (who, node) in state.nodes.iter().enumerate() {
            if node.alive {
                self.steps_of(state, who, &mut next);
                if state.deaths > 0 && node.at != At::Idle {
                    let mut dead = *state;
                    dead.deaths -= 1;
                    dead.nodes[who].alive = false;
                    next.push(Ok(dead));
                    if node.lease {
                        // It pauses, or cannot renew; it may go on as if nothing had happened.
                        let mut late = *state;
                        late.deaths -= 1;
                        late.nodes[who].lease = false;
                        next.push(Ok(late));
                    }
                }
            }
            if node.row == Row::Dead && !(self.0.keeps)(state.word, row(who)) {
                let mut swept = *state;
                swept.nodes[who] = Node { row: Row::Free, ring: 0, image: None, ..node.dead() };
                next.push(Ok(swept));
            }
            if node.row == Row::Free && state.joins > 0 {
                let mut joined = *state;
                joined.joins -= 1;
                joined.nodes[who] = Node::JOINED;
                next.push(Ok(joined));
            }
        }
        next
    }

    /// A request of `who`: a row that was fenced has no effect any more, and its compute node learns that.
    fn request(state: &State, who: usize, effect: impl FnOnce(&mut State)) -> State {
        let mut after = *state;
        if state.nodes[who].row == Row::Live {
            effect(&mut after);
        } else {
            after.nodes[who] = state.nodes[who].dead();
        }
        after
    }

    fn cas(state: &State, who: usize, from: OwnerWord, to: OwnerWord, won: At, lost: At) -> State {
        Self::request(state, who, |state| {
            let wins = state.word == from;
            if wins {
                state.word = to;
            }
            state.nodes[who].at = if wins { won } else { lost };
        })
    }

    fn steps_of(&self, state: &State, who: usize, next: &mut Next) {
        let (rules, node, me) = (&self.0, state.nodes[who], row(who));
        let to = |at| {
            let mut state = *state;
            state.nodes[who].at = at;
            state
        };
        match node.at {
            At::Idle if who > usize::from(state.begun) => {}
            At::Idle => next.push(Ok(Self::request(state, who, |after| {
                after.nodes[who].at = At::Seen(state.word);
                after.begun = state.begun.max(who as u8 + 1);
            }))),
            At::Seen(seen) => match seen.decode() {
                Err(error) => next.push(Err(error.to_string())),
                Ok(Owner::Free) => match (rules.claim)(seen, me) {
                    Ok(word) => {
                        let mut after = Self::cas(state, who, seen, word, At::Owner, At::Idle);
                        if after.nodes[who].at == At::Owner {
                            // The page is READ at the first miss; here at once.
                            after.nodes[who].tenure = word.epoch();
                            after.nodes[who].cached = state.page;
                            if state.torn {
                                return next.push(Err("a free entry has a torn page".into()));
                            }
                        }
                        next.push(Ok(after));
                    }
                    Err(error) => next.push(Err(error.to_string())),
                },
                Ok(_) if seen.row() == me => next.push(Ok(to(At::Idle))),
                Ok(_) => {
                    let other = state.nodes[node_of(seen.row())];
                    if other.row == Row::Dead || !other.alive || !other.lease || !rules.fences && state.deaths > 0 {
                        // The lease is over; the fence closes every queue pair of the row.
                        next.push(Ok(Self::request(state, who, |state| {
                            if rules.fences && state.nodes[node_of(seen.row())].row == Row::Live {
                                state.nodes[node_of(seen.row())].row = Row::Dead;
                            }
                            state.nodes[who].at = At::Fenced(seen, seen.row());
                        })));
                    }
                    next.push(Ok(to(At::Idle)));
                }
            },
            At::Fenced(seen, dead) => match (rules.recover)(seen, me, dead) {
                Ok(word) => next.push(Ok(Self::cas(state, who, seen, word, At::Recovering, At::Idle))),
                Err(error) => next.push(Err(error.to_string())),
            },
            At::Recovering => {
                let mut after = Self::request(state, who, |state| state.nodes[who].at = At::Repaired);
                if after.nodes[who].alive && state.torn {
                    if !rules.repairs {
                        return next.push(Err("a torn page is believed".into()));
                    }
                    let images =
                        state.nodes.iter().filter(|other| other.row == Row::Dead).filter_map(|dead| dead.image);
                    let image_of = |(epoch, value): (u32, u8)| PageImage {
                        address: Address::NULL,
                        lsn: Lsn::new(epoch, u64::from(value)),
                        entry: 0,
                        epoch,
                    };
                    let last = images.reduce(|a, b| if image_of(b).is_later_than(&image_of(a)) { b } else { a });
                    match last {
                        Some((_, value)) => (after.page, after.torn) = (value, false),
                        None => return next.push(Err("a torn page has no image".into())),
                    }
                }
                next.push(Ok(after));
            }
            At::Repaired => {
                let log = match state.word.decode() {
                    Ok(Owner::Recovering { finder, log }) if finder == me => log,
                    _ if node.row != Row::Live => return next.push(Ok(Self::request(state, who, |_| ()))),
                    other => return next.push(Err(format!("a finder lives and the word says {other:?}"))),
                };
                next.push(Ok(Self::request(state, who, |after| {
                    let ring = state.nodes[node_of(log)].ring;
                    after.nodes[who].cached = state.page.max(ring);
                    after.nodes[who].at = if rules.flushes_first { At::Replayed } else { At::Flushed };
                    if !rules.admits_last {
                        after.nodes[who].tenure = state.word.epoch();
                        after.nodes[who].at = At::Owner;
                    }
                })));
            }
            At::Replayed => Self::flush(state, who, At::Flushed, next),
            At::Flushed => match state.word.recovered(me) {
                Ok(word) => {
                    let mut after = Self::cas(state, who, state.word, word, At::Owner, At::Idle);
                    if after.nodes[who].at == At::Owner {
                        after.nodes[who].tenure = word.epoch();
                    }
                    next.push(Ok(after));
                }
                Err(_) => next.push(Ok(Self::request(state, who, |state| state.nodes[who].at = At::Idle))),
            },
            At::Owner => {
                if state.gets > 0 && (node.lease || !rules.checks_before) {
                    let fresh = node.cached >= state.acknowledged;
                    let mut got = to(if rules.checks_before { At::Checked } else { At::Got { fresh } });
                    got.gets -= 1;
                    next.push(Ok(got));
                }
                if state.writes > 0 {
                    let mut wrote = to(if rules.logs_first { At::Staged } else { At::Logged });
                    wrote.writes -= 1;
                    // The number of the write: none comes twice.
                    wrote.nodes[who].cached = WRITES - state.writes + 1;
                    next.push(Ok(wrote));
                }
                if state.flushes > 0 && state.page != node.cached {
                    let mut flushes = *state;
                    flushes.flushes -= 1;
                    Self::flush(&flushes, who, At::Owner, next);
                }
                if state.releases > 0 {
                    let mut leaves = to(if rules.flushes_to_leave { At::Leaving } else { At::Left });
                    leaves.releases -= 1;
                    leaves.nodes[who].tenure = 0;
                    next.push(Ok(leaves));
                }
            }
            At::Checked => next.push(Ok(to(At::Got { fresh: node.cached >= state.acknowledged }))),
            At::Got { fresh } => {
                if rules.checks_lease && !rules.checks_before && !node.lease {
                    // Its operations end with an error; it joins anew.
                    let mut ended = *state;
                    ended.nodes[who] = node.dead();
                    next.push(Ok(ended));
                } else {
                    next.push(if fresh {
                        Ok(to(At::Owner))
                    } else {
                        Err("a get is answered with an old value".into())
                    });
                }
            }
            At::Staged => next.push(Ok(Self::request(state, who, |state| {
                state.nodes[who].ring = node.cached;
                state.nodes[who].at = At::Logged;
            }))),
            At::Logged => {
                let mut done = to(At::Owner);
                done.acknowledged = done.acknowledged.max(node.cached);
                next.push(Ok(done));
            }
            At::Leaving => Self::flush(state, who, At::Left, next),
            At::Left => match state.word.release(me) {
                Ok(word) => next.push(Ok(Self::cas(state, who, state.word, word, At::Idle, At::Idle))),
                Err(_) => next.push(Ok(Self::request(state, who, |state| state.nodes[who].at = At::Idle))),
            },
        }
    }

    /// A flush: image, then page, in one chain. A death cuts it short anywhere.
    fn flush(state: &State, who: usize, then: At, next: &mut Next) {
        let epoch = state.word.epoch();
        let value = state.nodes[who].cached;
        let image = Self::request(state, who, |state| state.nodes[who].image = Some((epoch, value)));
        if state.deaths > 0 && image.nodes[who].alive {
            for torn in [false, true] {
                let mut dead = image;
                dead.deaths -= 1;
                dead.torn |= torn;
                dead.nodes[who].alive = false;
                next.push(Ok(dead));
            }
        }
        next.push(Ok(Self::request(&image, who, |state| {
            state.page = value;
            state.torn = false;
            state.nodes[who].at = then;
        })));
    }

    /// What every state must satisfy.
    fn check(state: &State) -> Result<(), String> {
        let serves = |node: &&Node| node.alive && node.lease && node.tenure != 0;
        if state.nodes.iter().filter(serves).count() > 1 {
            return Err("two compute nodes serve the entry".into());
        }
        let readers = state.nodes.iter().filter(|node| node.alive && node.lease && node.at == At::Owner);
        for node in readers {
            if node.cached < state.acknowledged {
                return Err("an owner does not know what was acknowledged".into());
            }
        }
        if state.word.decode() == Ok(Owner::Free) && (state.torn || state.page < state.acknowledged) {
            return Err("an entry is free, and its page is not what was acknowledged".into());
        }
        Ok(())
    }

    /// Somebody serves the entry, or nobody is left that could.
    fn is_end(state: &State) -> bool {
        state.nodes.iter().any(|node| node.alive && node.tenure != 0)
            || !state.nodes.iter().any(|node| node.alive && node.row == Row::Live)
    }

    /// Visits every state that can be reached. Returns how many there are, or the first violation.
    fn explore(&self, deaths: u8, joins: u8) -> Result<usize, String> {
        let start = State {
            word: OwnerWord::FREE,
            page: 0,
            torn: false,
            acknowledged: 0,
            nodes: [Node::JOINED; NODES],
            writes: WRITES,
            gets: 1,
            flushes: 1,
            deaths,
            joins,
            releases: 1,
            begun: 0,
        };
        let mut numbers: HashMap<State, usize, BuildHasherDefault<Hash64>> = HashMap::default();
        numbers.insert(start, 0);
        let mut states = vec![start];
        let mut before: Vec<Vec<u32>> = vec![Vec::new()];
        let mut at = 0;
        while let Some(state) = states.get(at).copied() {
            Self::check(&state).map_err(|what| format!("{what} in {state:?}"))?;
            // Releases and claims could go on for ever.
            let next = if state.word.epoch() > EPOCHS { Vec::new() } else { self.next(&state) };
            for next in next {
                let next = next.map_err(|what| format!("{what} behind {state:?}"))?;
                let number = *numbers.entry(next).or_insert_with(|| {
                    states.push(next);
                    before.push(Vec::new());
                    states.len() - 1
                });
                before[number].push(at as u32);
            }
            at += 1;
        }
        let is_cut = |state: &State| state.word.epoch() > EPOCHS;
        let mut ends: Vec<bool> = states.iter().map(|state| Self::is_end(state) || is_cut(state)).collect();
        let mut open: Vec<usize> = (0..states.len()).filter(|&number| ends[number]).collect();
        while let Some(number) = open.pop() {
            for &earlier in &before[number] {
                if !std::mem::replace(&mut ends[earlier as usize], true) {
                    open.push(earlier as usize);
                }
            }
        }
        match ends.iter().position(|ends| !ends) {
            Some(stuck) => Err(format!("nobody can ever serve the entry behind {:?}", states[stuck])),
            None => Ok(states.len()),
        }
    }
}

/// Writes of a run.
const WRITES: u8 = 1;

/// Epochs of a run.
const EPOCHS: u32 = 4;

impl Node {
    const JOINED: Self =
        Self { at: At::Idle, alive: true, lease: true, row: Row::Live, tenure: 0, cached: 0, ring: 0, image: None };

    fn dead(self) -> Self {
        Self { at: At::Idle, alive: false, lease: false, tenure: 0, cached: 0, ..self }
    }
}

fn explore_all(rules: Rules) -> Result<usize, String> {
    let mut states = 0;
    for (deaths, joins) in [(0, 0), (1, 1), (2, 0)] {
        let found = Model(rules).explore(deaths, joins)?;
        println!("{deaths} deaths, {joins} joins: {found} states");
        states += found;
    }
    Ok(states)
}

#[test]
fn every_interleaving_of_owners_finders_and_deaths_is_right() {
    let states = explore_all(RULES).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{states} states");
    assert!(states > 50_000, "the model does not move: {states} states");
}

/// Each altered decision, and a word of the violation that the model finds.
#[test]
fn altered_decisions_are_found() {
    fn log_forgotten(word: OwnerWord, me: RowId, dead: RowId) -> Result<OwnerWord, Refused> {
        let right = word.recover(me, dead)?;
        Ok(OwnerWord::new(Owner::Recovering { finder: me, log: dead }, right.epoch()))
    }
    fn claim_in_old_epoch(word: OwnerWord, me: RowId) -> Result<OwnerWord, Refused> {
        Ok(OwnerWord::new(word.claim(me)?.decode()?, 1))
    }
    fn keeps_named_only(word: OwnerWord, row: RowId) -> bool {
        word.row() == row || word.log_row() == row
    }
    fn keeps_nothing(_: OwnerWord, _: RowId) -> bool {
        false
    }
    fn keeps_owners_only(word: OwnerWord, row: RowId) -> bool {
        word.row() == row
    }
    let altered: &[(&str, Rules, &str)] = &[
        ("the finder's row replaces the log row", Rules { recover: log_forgotten, ..RULES }, ""),
        ("a claim does not raise the epoch", Rules { claim: claim_in_old_epoch, ..RULES }, ""),
        ("rows are freed while they are named", Rules { keeps: keeps_nothing, ..RULES }, ""),
        ("the log row is freed", Rules { keeps: keeps_owners_only, ..RULES }, ""),
        ("the row of a dead finder is freed", Rules { keeps: keeps_named_only, ..RULES }, "no image"),
        ("recovered without a fence", Rules { fences: false, ..RULES }, ""),
        ("the lease is not checked", Rules { checks_lease: false, ..RULES }, "old value"),
        ("the lease is checked before the page is read", Rules { checks_before: true, ..RULES }, "old value"),
        ("a finder serves before it is done", Rules { admits_last: false, ..RULES }, ""),
        ("a finder does not flush", Rules { flushes_first: false, ..RULES }, ""),
        ("an owner leaves without a flush", Rules { flushes_to_leave: false, ..RULES }, "free"),
        ("a torn page is not repaired", Rules { repairs: false, ..RULES }, "torn"),
        ("a write is acknowledged before it is logged", Rules { logs_first: false, ..RULES }, "acknowledged"),
    ];
    for (what, rules, word) in altered {
        match explore_all(*rules) {
            Ok(states) => panic!("{what}: {states} states without a violation"),
            Err(violation) => assert!(violation.contains(word), "{what}: found {violation}"),
        }
    }
}

#[test]
fn words_are_changed_by_those_who_may_only() {
    let (me, other) = (RowId(3), RowId(5));
    let owned = OwnerWord::FREE.claim(me).unwrap();
    assert_eq!((owned.decode(), owned.epoch(), owned.row(), owned.log_row()), (Ok(Owner::Owned(me)), 1, me, me));
    assert_eq!(owned.claim(other), Err(Refused::State(owned)));
    assert_eq!(owned.release(other), Err(Refused::State(owned)));
    assert_eq!(owned.recover(other, RowId(4)), Err(Refused::State(owned)), "another one was fenced");
    assert_eq!(owned.recover(me, me), Err(Refused::State(owned)));
    let recovering = owned.recover(other, me).unwrap();
    assert_eq!(recovering.decode(), Ok(Owner::Recovering { finder: other, log: me }));
    assert_eq!(
        recovering.recover(me, other),
        Err(Refused::State(recovering)),
        "its ring is to be replayed, so it is dead"
    );
    let again = recovering.recover(RowId(9), other).unwrap();
    assert_eq!(again.decode(), Ok(Owner::Recovering { finder: RowId(9), log: me }));
    assert_eq!(recovering.recovered(me), Err(Refused::State(recovering)));
    let done = again.recovered(RowId(9)).unwrap();
    assert_eq!((done.decode(), done.epoch()), (Ok(Owner::Owned(RowId(9))), 4));
    assert_eq!(done.renew(RowId(9)).unwrap().epoch(), 5);
    assert_eq!(done.release(RowId(9)).unwrap(), OwnerWord::new(Owner::Free, 5));
    for kept in [me, other, RowId(9), RowId(77)] {
        assert!(again.keeps(kept), "while it recovers, every row is kept");
        assert_eq!(done.keeps(kept), kept == RowId(9));
    }
}

#[test]
fn epochs_end_and_deaths_still_have_some() {
    let (me, other) = (RowId(3), RowId(5));
    let last = EPOCH_MAX - EPOCHS_FOR_DEATHS;
    assert_eq!(OwnerWord::new(Owner::Free, last).claim(me), Err(Refused::UsedUp { epoch: last }));
    let owned = OwnerWord::new(Owner::Owned(me), last);
    assert!(owned.renew(me).is_err() && owned.recover(other, me).is_ok());
    let end = OwnerWord::new(Owner::Owned(me), EPOCH_MAX);
    assert_eq!(end.release(me), Err(Refused::UsedUp { epoch: EPOCH_MAX }));
}

#[test]
fn words_that_no_writer_makes_are_refused() {
    for (word, what) in [
        (OwnerWord(5), "unknown state"),
        (OwnerWord(3 | 5 << 4), "no receiver"),
        (OwnerWord(3 | 5 << 4 | 5 << 20), "the same"),
        (OwnerWord(4), "kept for nobody"),
        (OwnerWord(4 | 5 << 4 | 6 << 20), "names a log"),
        (OwnerWord(1 << 4), "names a row"),
        (OwnerWord(1), "or it has none"),
        (OwnerWord(1 | 5 << 4 | 6 << 20), "differ"),
        (OwnerWord(2 | 5 << 4), "no log"),
        (OwnerWord(2 | 5 << 4 | 5 << 20), "the same"),
    ] {
        let error = word.decode().unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert!(word.keeps(RowId(1)), "a word that cannot be read keeps every row");
        assert!(word.claim(RowId(1)).is_err() && word.recover(RowId(1), word.row()).is_err());
    }
    let owned = OwnerWord::FREE.claim(RowId(3)).unwrap();
    assert_eq!(OwnerWord::FREE.check_after(owned), Err(Refused::FromThePast { seen: 1, found: 0 }));
    assert!(OwnerWord::FREE.claim(RowId(4)).unwrap().check_after(owned).is_err(), "one epoch, two owners");
    assert_eq!(owned.check_after(owned), Ok(()));
}

/// A part that moves: every change raises the epoch, and only the one that may makes it.
#[test]
fn an_entry_is_asked_for_drained_kept_and_taken() {
    let (owner, receiver, other) = (RowId(3), RowId(5), RowId(9));
    let owned = OwnerWord::FREE.claim(owner).unwrap();
    assert_eq!(owned.ask(owner), Err(Refused::State(owned)), "it is its already");
    let draining = owned.ask(receiver).unwrap();
    assert_eq!((draining.decode(), draining.epoch()), (Ok(Owner::Draining { owner, receiver }), 2));
    assert!(draining.keeps(owner) && !draining.keeps(receiver), "only the owner's ring has records of it");
    assert_eq!(draining.call_off().unwrap(), OwnerWord::new(Owner::Owned(owner), 3));
    for refused in
        [draining.ask(other), draining.claim(receiver), draining.hand_over(receiver), draining.release(other)]
    {
        assert_eq!(refused, Err(Refused::State(draining)));
    }
    let dead = draining.recover(other, owner).unwrap();
    assert_eq!(dead.decode(), Ok(Owner::Recovering { finder: other, log: owner }), "it dies while it drains");
    let renewed = draining.renew(owner).unwrap();
    assert_eq!((renewed.decode(), renewed.epoch()), (draining.decode(), 3));
    assert_eq!(draining.release(owner).unwrap().decode(), Ok(Owner::Free), "it leaves");
    let kept = draining.hand_over(owner).unwrap();
    assert_eq!((kept.decode(), kept.epoch()), (Ok(Owner::Kept(receiver)), 3));
    assert!(![owner, receiver].into_iter().any(|row| kept.keeps(row)), "all of it is in the pool");
    assert_eq!(kept.recover(other, receiver), Err(Refused::State(kept)), "there is nothing to recover");
    for row in [receiver, other] {
        assert_eq!(kept.claim(row).unwrap(), OwnerWord::new(Owner::Owned(row), 4));
    }
    assert_eq!(kept.ask(other).unwrap().decode(), Ok(Owner::Kept(other)));
    assert_eq!(OwnerWord::FREE.ask(receiver).unwrap(), OwnerWord::new(Owner::Kept(receiver), 1));
    for wrong in [Owner::Draining { owner, receiver: owner }, Owner::Draining { owner: RowId(0), receiver }] {
        assert!(matches!(OwnerWord::new(wrong, 1).decode(), Err(Refused::Corrupt { .. })));
    }
}
