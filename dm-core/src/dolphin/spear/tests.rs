//! Every interleaving of three compute nodes with a few operations on one leaf, deaths, lost completions and repairs.
//!
//! A structure change has taken effect with the FAA that retires the leaf. Its slots are swung afterwards, by any compute
//! node that comes to the retired leaf: here two changes, which `population` computes from a node's
//! image.
//!
//! The model takes its decisions from the functions of this room, by way of [`Rules`]; the tests at the end alter one
//! decision each, and the model has to find a violation.

use super::*;
extern crate std;
use std::collections::{BTreeSet, HashMap};
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, println};

const NODES: usize = 3;

/// Slots that the structure change swings.
const SLOTS: u8 = 2;

fn seat(node: usize) -> Seat {
    // Neighbours, and the last seats, below the bits that have to stay 0.
    Seat::new(SEATS - 1 - node as u8).expect("a seat")
}

/// What a compute node wants of the leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Want {
    /// WRITE a value, shared.
    Share,
    /// Change the leaf in place, exclusively.
    Change,
    /// Replace the leaf by others, and retire it.
    Replace,
}

/// Where a compute node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Idle,
    /// Granted; its WRITE comes next.
    Inside,
    /// Its WRITE has landed; it leaves next.
    Written,
    /// Entered in vain; it leaves next.
    EnteredInVain,
    /// It backed off and waits.
    Waiting,
    /// Exclusive at once; the READ behind its FAA comes next.
    Closed,
    /// It waits for those inside, with the image that it READ behind its FAA.
    Draining(u8),
    /// Nobody is inside any more; it READs anew next.
    Drained(u8),
    /// It has an image of the leaf.
    Exclusive(u8),
    /// It changed the leaf; it opens next.
    Changed,
    /// New leaves are WRITTEN; the WRITE of the heirs lands next.
    Ready,
    /// The heirs are WRITTEN; it retires the leaf next.
    Named,
    /// The leaf is retired; it READs the slots next.
    Finishing,
    /// It has READ this many slots as swung; its CAS of the next one comes next.
    Swinging(u8),
    /// Closed in vain; it opens next.
    ClosedInVain,
    /// Its queue pair failed with one request in flight. `ends`: the operation is over once this is settled.
    Doubt {
        ends: bool,
    },
    /// It READ its field and adds this next.
    Settling {
        addend: u64,
        ends: bool,
    },
    /// It READ the word for a repair; its CAS comes next.
    Repairing {
        dead: u8,
        seen: Spear,
        drains: Option<u8>,
    },
}

impl At {
    /// Whether it waits for those inside.
    fn drains(self) -> bool {
        matches!(self, Self::Draining(_) | Self::Repairing { drains: Some(_), .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    at: At,
    /// Operations that are done.
    done: u8,
    alive: bool,
    fenced: bool,
    /// Its field was cleared after its death.
    cleared: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    word: Spear,
    /// Counts WRITEs to the leaf.
    body: u8,
    /// Whose heirs the leaf names.
    heirs: Option<u8>,
    /// The heirs own the tile.
    replaced: bool,
    /// Slots that lead to the heirs.
    swung: u8,
    /// Additions of each compute node since the closer came that waits for those inside.
    met: [u8; NODES],
    nodes: [Node; NODES],
    deaths: u8,
    doubts: u8,
}

/// The decisions, so that a test can alter one.
#[derive(Clone, Copy)]
struct Rules {
    enter: fn(Spear, Seat) -> Entered,
    close: fn(Spear, Seat) -> Closed,
    wait: fn(Spear, Seat) -> Waited,
    settle: fn(Spear, Seat) -> Settled,
    repair: fn(Spear, Seat) -> Repair,
    leave: fn(Seat) -> u64,
    retire: fn(Seat) -> u64,
    /// A closer that had to wait READs the leaf anew.
    rereads: bool,
    /// A lane that backs off subtracts what it added.
    subtracts: bool,
    /// A repair comes after a fence.
    fences: bool,
    /// A lane that backed off READs the word before it adds again.
    looks: bool,
    /// The heirs are WRITTEN in front of the FAA that retires the leaf.
    names: bool,
    /// Heirs of a leaf that is not retired mean nothing.
    ignores_living: bool,
}

const RULES: Rules = Rules {
    enter: judge_enter,
    close: judge_close,
    wait: judge_wait,
    settle,
    repair,
    leave: Seat::leave,
    retire: Seat::retire,
    rereads: true,
    subtracts: true,
    fences: true,
    looks: true,
    names: true,
    ignores_living: true,
};

struct Model<'m> {
    rules: Rules,
    wants: &'m [&'m [Want]; NODES],
}

type Next = Vec<Result<State, String>>;

impl Model<'_> {
    /// Every state that can follow.
    fn next(&self, state: &State) -> Next {
        let mut next = Next::new();
        for (who, node) in state.nodes.iter().enumerate() {
            if !node.alive {
                continue;
            }
            let idle = node.at == At::Idle;
            if idle && usize::from(node.done) == self.wants[who].len() {
                continue;
            }
            self.steps_of(state, who, &mut next);
            if state.deaths > 0 && !idle {
                let mut dead = *state;
                dead.deaths -= 1;
                dead.nodes[who].alive = false;
                next.push(Ok(dead));
            }
        }
        next
    }

    /// An addition of `who`, which leads to `then(found)`; and the same with its completion lost, before and behind the
    /// memory node.
    fn add(
        state: &State,
        who: usize,
        addend: u64,
        ends: bool,
        next: &mut Next,
        then: impl Fn(&mut State, Spear) -> Result<(), String>,
    ) {
        let mut added = *state;
        added.word.0 = added.word.0.wrapping_add(addend);
        added.replaced |= state.nodes[who].at == At::Named;
        if state.nodes[who].at == At::Idle && state.nodes.iter().any(|node| node.alive && node.at.drains()) {
            added.met[who] += 1;
        }
        if state.doubts > 0 {
            for mut lost in [*state, added] {
                lost.doubts -= 1;
                lost.nodes[who].at = At::Doubt { ends };
                next.push(Ok(lost));
            }
        }
        let result = then(&mut added, state.word);
        next.push(result.map(|()| added));
    }

    fn steps_of(&self, state: &State, who: usize, next: &mut Next) {
        let (rules, own, node) = (&self.rules, seat(who), state.nodes[who]);
        let to = |at: At| {
            let mut state = *state;
            state.nodes[who].at = at;
            state
        };
        let finish = |state: &mut State| {
            state.nodes[who].at = At::Idle;
            state.nodes[who].done += 1;
        };
        // Its operation is over, or it looks at the word before it adds again; if the leaf is retired, it finishes the
        // change.
        let out_of_doubt = |state: &State, ends: bool| {
            let mut out = *state;
            if state.word.is_retired() || !ends {
                out.nodes[who].at = At::Waiting;
            } else {
                finish(&mut out);
            }
            out
        };
        match node.at {
            At::Idle => match self.wants[who][usize::from(node.done)] {
                Want::Share => Self::add(state, who, own.enter(), false, next, |state, found| {
                    state.nodes[who].at = match (rules.enter)(found, own) {
                        Entered::Granted => At::Inside,
                        Entered::Closed | Entered::Retired => At::EnteredInVain,
                        Entered::Unsound => return Err(format!("entering finds {found:x?}")),
                    };
                    Ok(())
                }),
                Want::Change | Want::Replace => Self::add(state, who, own.close(), false, next, |state, found| {
                    state.nodes[who].at = match (rules.close)(found, own) {
                        Closed::Exclusive => At::Closed,
                        Closed::Wait => {
                            state.met = [0; NODES];
                            At::Draining(state.body)
                        }
                        Closed::BackOff | Closed::Retired => At::ClosedInVain,
                        Closed::Unsound => return Err(format!("closing finds {found:x?}")),
                    };
                    Ok(())
                }),
            },
            At::Inside => {
                let mut wrote = to(At::Written);
                wrote.body += 1;
                next.push(if state.replaced { Err("a WRITE to a leaf that was replaced".into()) } else { Ok(wrote) });
            }
            At::Written => Self::add(state, who, (rules.leave)(own), true, next, |state, _| {
                finish(state);
                Ok(())
            }),
            At::EnteredInVain | At::ClosedInVain if !rules.subtracts => next.push(Ok(to(At::Waiting))),
            At::EnteredInVain => Self::add(state, who, own.leave(), false, next, |state, _| {
                state.nodes[who].at = At::Waiting;
                Ok(())
            }),
            At::ClosedInVain => Self::add(state, who, own.open(), false, next, |state, _| {
                state.nodes[who].at = At::Waiting;
                Ok(())
            }),
            At::Waiting => {
                if state.word.is_retired() || !rules.ignores_living && state.heirs.is_some() {
                    next.push(Ok(to(At::Finishing)));
                } else if state.word.others_close(own) && rules.looks {
                    self.repairs(state, who, None, next);
                } else {
                    next.push(Ok(to(At::Idle)));
                }
            }
            At::Closed => next.push(Ok(to(At::Exclusive(state.body)))),
            At::Draining(image) => match (rules.wait)(state.word, own) {
                Waited::Drained => {
                    let mut drained = to(At::Drained(image));
                    drained.met = [0; NODES];
                    next.push(Ok(drained));
                }
                Waited::Wait => self.repairs(state, who, Some(image), next),
                Waited::Fenced => next.push(Err("a closer lost its field".into())),
                Waited::Unsound => next.push(Err("a closer READs an unsound word".into())),
            },
            At::Drained(image) => {
                next.push(Ok(to(At::Exclusive(if rules.rereads { state.body } else { image }))));
            }
            At::Exclusive(image) if image != state.body => {
                next.push(Err("an exclusive lane has an image that is not final".into()));
            }
            At::Exclusive(_) if self.wants[who][usize::from(node.done)] == Want::Replace => {
                next.push(Ok(to(At::Ready)));
            }
            At::Exclusive(_) => {
                let mut changed = to(At::Changed);
                changed.body += 1;
                next.push(Ok(changed));
            }
            At::Changed => Self::add(state, who, own.open(), true, next, |state, _| {
                finish(state);
                Ok(())
            }),
            At::Ready => {
                let mut named = to(At::Named);
                named.heirs = if rules.names { Some(who as u8) } else { state.heirs };
                next.push(Ok(named));
            }
            At::Named if state.heirs != Some(who as u8) => {
                next.push(Err("a leaf is retired without its heirs".into()));
            }
            At::Named => Self::add(state, who, (rules.retire)(own), true, next, |state, _| {
                state.nodes[who].at = At::Finishing;
                Ok(())
            }),
            At::Finishing => {
                let mut read = to(At::Swinging(state.swung));
                if state.swung == SLOTS {
                    finish(&mut read);
                }
                next.push(Ok(read));
            }
            At::Swinging(_) if !state.replaced => {
                next.push(Err("a slot is swung to heirs of a leaf that lives".into()));
            }
            At::Swinging(seen) => {
                // A CAS that expects what the slot said; whatever it finds, the lane looks again.
                let mut swung = to(At::Finishing);
                swung.swung += u8::from(state.swung == seen);
                next.push(Ok(swung));
            }
            At::Doubt { ends } => match (rules.settle)(state.word, own) {
                Settled::Out => next.push(Ok(out_of_doubt(state, ends))),
                Settled::Leave(addend) | Settled::Open(addend) => next.push(Ok(to(At::Settling { addend, ends }))),
                Settled::Unsound => next.push(Err("settling finds a broken field".into())),
            },
            At::Settling { addend, ends } => {
                let mut out = out_of_doubt(state, ends);
                out.word.0 = out.word.0.wrapping_add(addend);
                next.push(Ok(out));
            }
            At::Repairing { dead, seen, drains } => {
                let back = drains.map_or(At::Waiting, At::Draining);
                let dead = usize::from(dead);
                let new = match (rules.repair)(seen, seat(dead)) {
                    Repair::Nothing => return next.push(Ok(to(back))),
                    Repair::Clear(new) => new,
                    Repair::Unsound => return next.push(Err("a repair finds a broken field".into())),
                };
                let mut repaired = to(back);
                if state.word == seen {
                    repaired.word = new;
                    repaired.nodes[dead].cleared = true;
                }
                next.push(Ok(repaired));
            }
        }
    }

    /// A waiter fences a compute node whose field is in its way, or begins to repair it.
    fn repairs(&self, state: &State, who: usize, drains: Option<u8>, next: &mut Next) {
        for (dead, node) in state.nodes.iter().enumerate() {
            if dead == who || state.word.field(seat(dead)) == Presence::Out {
                continue;
            }
            let suspect = !node.alive || state.deaths > 0;
            if self.rules.fences && !node.fenced && suspect {
                // A compute node that only pauses is fenced like a dead one, and never resumes.
                let mut fenced = *state;
                fenced.deaths -= u8::from(node.alive);
                fenced.nodes[dead].alive = false;
                fenced.nodes[dead].fenced = true;
                next.push(Ok(fenced));
            } else if node.fenced || !self.rules.fences && suspect {
                let mut looked = *state;
                looked.nodes[who].at = At::Repairing { dead: dead as u8, seen: state.word, drains };
                next.push(Ok(looked));
            }
        }
    }

    /// What every state must satisfy.
    fn check(state: &State) -> Result<(), String> {
        if !state.word.is_sound() {
            return Err(format!("no sound word: {:x?}", state.word));
        }
        let alone = |node: &&Node| {
            node.alive && matches!(node.at, At::Exclusive(_) | At::Changed | At::Ready | At::Named | At::Closed)
        };
        let writes = |node: &&Node| node.alive && node.at == At::Inside;
        let (exclusive, inside) = (state.nodes.iter().filter(alone).count(), state.nodes.iter().filter(writes).count());
        if exclusive > 1 || exclusive > 0 && inside > 0 {
            return Err(format!("{exclusive} exclusive, {inside} inside"));
        }
        if state.swung > 0 && !state.replaced {
            return Err("a slot leads to heirs of a leaf that lives".into());
        }
        if state.met.iter().any(|&additions| additions > 1) {
            return Err(format!("a closer waits for additions of one compute node again and again: {:?}", state.met));
        }
        for (who, node) in state.nodes.iter().enumerate() {
            let expected = match node.at {
                _ if node.cleared => Presence::Out,
                At::Doubt { .. } | At::Settling { .. } => continue,
                At::Idle | At::Waiting | At::Finishing | At::Swinging(_) | At::Repairing { drains: None, .. } => {
                    Presence::Out
                }
                At::Inside | At::Written | At::EnteredInVain => Presence::Inside,
                _ => Presence::Closing,
            };
            let found = state.word.field(seat(who));
            if found != expected {
                return Err(format!("seat of {who} is {found:?} at {:?}", node.at));
            }
        }
        Ok(())
    }

    fn is_end(&self, state: &State) -> bool {
        state
            .nodes
            .iter()
            .zip(self.wants)
            .all(|(node, wants)| !node.alive || node.at == At::Idle && usize::from(node.done) == wants.len())
    }

    /// Visits every state that can be reached. Returns how many there are, or the first violation.
    fn explore(&self, deaths: u8, doubts: u8) -> Result<usize, String> {
        let idle = Node { at: At::Idle, done: 0, alive: true, fenced: false, cleared: false };
        let start = State {
            word: Spear::FREE,
            body: 0,
            heirs: None,
            replaced: false,
            swung: 0,
            met: [0; NODES],
            nodes: [idle; NODES],
            deaths,
            doubts,
        };
        let mut numbers = HashMap::from([(start, 0_usize)]);
        let mut states = std::vec![start];
        let mut before: Vec<Vec<u32>> = std::vec![Vec::new()];
        let mut at = 0;
        while let Some(state) = states.get(at).copied() {
            for next in self.next(&state) {
                let next = next?;
                let number = *numbers.entry(next).or_insert_with(|| {
                    states.push(next);
                    before.push(Vec::new());
                    states.len() - 1
                });
                before[number].push(at as u32);
            }
            Self::check(&state).map_err(|what| format!("{what} in {state:?}"))?;
            at += 1;
        }
        // From every state an end can be reached.
        let mut ends: Vec<bool> = states.iter().map(|state| self.is_end(state)).collect();
        let mut open: Vec<usize> = (0..states.len()).filter(|&number| ends[number]).collect();
        while let Some(number) = open.pop() {
            for &earlier in &before[number] {
                if !std::mem::replace(&mut ends[earlier as usize], true) {
                    open.push(earlier as usize);
                }
            }
        }
        match ends.iter().position(|ends| !ends) {
            Some(stuck) => Err(format!("no end can be reached from {:?}", states[stuck])),
            None => Ok(states.len()),
        }
    }
}

use Want::{Change, Replace, Share};

/// What three compute nodes want, in all combinations that differ by more than their names.
const SCENARIOS: &[[&[Want]; NODES]] = &[
    [&[Share, Share], &[Share, Share], &[Change]],
    [&[Share, Change], &[Share], &[Change, Share]],
    [&[Change], &[Change], &[Change, Change]],
    [&[Share, Share], &[Replace], &[Share, Change]],
    [&[Replace], &[Replace], &[Share, Share]],
    [&[Replace], &[Change, Replace], &[Change]],
    [&[Replace, Share], &[Share, Replace], &[Share, Replace]],
];

fn explore_all(rules: Rules) -> Result<usize, String> {
    let mut states = 0;
    for wants in SCENARIOS {
        for (deaths, doubts) in [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)] {
            states += Model { rules, wants }.explore(deaths, doubts)?;
        }
    }
    Ok(states)
}

#[test]
fn every_interleaving_of_three_seats_is_right() {
    let states = explore_all(RULES).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{states} states");
    assert!(states > 100_000, "the model does not move: {states} states");
}

/// Each altered decision, and a word of the violation that the model finds.
#[test]
fn altered_decisions_are_found() {
    fn enters_closed(found: Spear, seat: Seat) -> Entered {
        match judge_enter(found, seat) {
            Entered::Closed => Entered::Granted,
            right => right,
        }
    }
    fn enters_retired(found: Spear, seat: Seat) -> Entered {
        match judge_enter(found, seat) {
            Entered::Retired => Entered::Granted,
            right => right,
        }
    }
    fn closes_at_once(found: Spear, seat: Seat) -> Closed {
        match judge_close(found, seat) {
            Closed::Wait => Closed::Exclusive,
            right => right,
        }
    }
    fn closes_beside(found: Spear, seat: Seat) -> Closed {
        match judge_close(found, seat) {
            Closed::BackOff if found.others_inside(seat) => Closed::Wait,
            Closed::BackOff => Closed::Exclusive,
            right => right,
        }
    }
    fn never_drained(word: Spear, seat: Seat) -> Waited {
        if word.others_inside(seat) || word.others_close(seat) { Waited::Wait } else { Waited::Drained }
    }
    fn drained_at_once(_: Spear, _: Seat) -> Waited {
        Waited::Drained
    }
    fn settles_nothing(_: Spear, _: Seat) -> Settled {
        Settled::Out
    }
    fn repairs_neighbour(word: Spear, dead: Seat) -> Repair {
        match repair(word, dead) {
            Repair::Clear(_) => Repair::Clear(Spear(word.0 & !(0b1111 << dead.shift().min(56)))),
            right => right,
        }
    }
    fn repairs_nothing(_: Spear, _: Seat) -> Repair {
        Repair::Nothing
    }
    fn repairs_closers_only(word: Spear, dead: Seat) -> Repair {
        match word.field(dead) {
            Presence::Inside => Repair::Nothing,
            _ => repair(word, dead),
        }
    }
    fn leaves_as_closer(seat: Seat) -> u64 {
        seat.open()
    }
    fn stays(_: Seat) -> u64 {
        0
    }
    fn retires_closed(_: Seat) -> u64 {
        Spear::RETIRED
    }
    fn opens_only(seat: Seat) -> u64 {
        seat.open()
    }
    let altered: &[(&str, Rules, &str)] = &[
        ("enters though another closes", Rules { enter: enters_closed, ..RULES }, ""),
        ("enters a retired leaf", Rules { enter: enters_retired, ..RULES }, "replaced"),
        ("is exclusive beside those inside", Rules { close: closes_at_once, ..RULES }, ""),
        ("closes beside another closer", Rules { close: closes_beside, ..RULES }, "exclusive"),
        ("does not wait for those inside", Rules { wait: drained_at_once, ..RULES }, ""),
        ("READs before it waited only", Rules { rereads: false, ..RULES }, "not final"),
        ("does not settle", Rules { settle: settles_nothing, ..RULES }, ""),
        ("clears the neighbour's field, too", Rules { repair: repairs_neighbour, ..RULES }, ""),
        ("repairs nothing", Rules { repair: repairs_nothing, ..RULES }, ""),
        ("clears no seat that is inside", Rules { repair: repairs_closers_only, ..RULES }, ""),
        ("clears without a fence", Rules { fences: false, ..RULES }, ""),
        ("leaves with the wrong addend", Rules { leave: leaves_as_closer, ..RULES }, ""),
        ("does not leave", Rules { leave: stays, ..RULES }, ""),
        ("does not subtract after backing off", Rules { subtracts: false, ..RULES }, ""),
        ("retires without opening", Rules { retire: retires_closed, ..RULES }, ""),
        ("opens without retiring", Rules { retire: opens_only, ..RULES }, ""),
        ("adds again without a look", Rules { looks: false, ..RULES }, "again and again"),
        ("retires before the heirs are WRITTEN", Rules { names: false, ..RULES }, "without its heirs"),
        ("follows heirs of a leaf that lives", Rules { ignores_living: false, ..RULES }, "lives"),
    ];
    for (what, rules, word) in altered {
        match explore_all(*rules) {
            Ok(states) => panic!("{what}: {states} states without a violation"),
            Err(violation) => assert!(violation.contains(word), "{what}: found {violation}"),
        }
    }
    // A closer that also waits for other closers to leave is slower, not wrong.
    explore_all(Rules { wait: never_drained, ..RULES }).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn additions_stay_in_their_field() {
    assert_eq!(Seat::new(30), Err(NoSeat { row: RowId(31) }));
    assert!(Seat::of_row(RowId(31)).unwrap_err().to_string().contains("row 31"));
    assert!(Seat::of_row(RowId(0)).is_err());
    let seats: Vec<Seat> = (0..SEATS).map(|number| Seat::new(number).unwrap()).collect();
    let mut full = Spear::FREE;
    for &seat in &seats {
        assert_eq!(Seat::of_row(seat.row()), Ok(seat));
        for (there, back, presence) in
            [(seat.enter(), seat.leave(), Presence::Inside), (seat.close(), seat.open(), Presence::Closing)]
        {
            let word = Spear(full.0.wrapping_add(there));
            assert_eq!(word.field(seat), presence);
            assert_eq!(word.without(seat), full, "no other field changes");
            assert_eq!(word.0.wrapping_add(back), full.0);
        }
        full.0 += seat.close();
    }
    assert!(full.is_sound() && !full.is_retired());
    assert_eq!(full.taken().count(), 30);
    for &seat in &seats {
        full.0 = full.0.wrapping_add(seat.open());
        assert!(full.is_sound());
    }
    assert_eq!(full, Spear::FREE);
    assert_eq!(Spear(seats[29].close()).0.wrapping_add(seats[29].retire()), Spear::RETIRED);
    assert!(!Spear(3 << 58).is_sound() && !Spear(1 << 60).is_sound());
}

#[test]
fn a_place_is_born_from_any_word() {
    assert_eq!(Spear::birth(Spear::FREE), None);
    let left = Spear(Spear::RETIRED | Seat::new(5).unwrap().enter());
    assert_eq!(Spear::birth(left), Some(left), "a field of a compute node that died");
}

#[test]
fn a_broken_field_ends_the_wait() {
    let (own, other) = (Seat::new(4).unwrap(), Seat::new(5).unwrap());
    assert_eq!(judge_wait(Spear(own.close()), own), Waited::Drained);
    assert_eq!(judge_wait(Spear(own.close() | other.enter() | other.close()), own), Waited::Unsound);
}

/// Any word gives an answer, and no two answers contradict each other.
#[test]
fn any_word_is_judged() {
    let seats: BTreeSet<Seat> = [0, 1, 13, 29].into_iter().map(|number| Seat::new(number).unwrap()).collect();
    let mut word = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..100_000 {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Thinned, so that sound words are among them.
        let spear = Spear(word & word.rotate_left(21) & word.rotate_left(42));
        for &seat in &seats {
            if judge_close(spear, seat) == Closed::Exclusive {
                assert_eq!(spear, Spear::FREE);
            }
            if judge_enter(spear, seat) == Entered::Granted {
                assert!(judge_close(spear, seat) != Closed::BackOff);
            }
            if let Repair::Clear(clear) = repair(spear, seat) {
                assert_eq!(clear.field(seat), Presence::Out);
            }
            let _ = (judge_wait(spear, seat), settle(spear, seat));
        }
    }
}

#[test]
fn an_own_field_that_is_taken_and_a_word_that_nobody_makes_are_unsound() {
    let (own, other) = (seat(0), seat(1));
    let unsound = Spear(!0);
    assert!(!unsound.is_sound());
    let taken = Spear(own.enter());
    assert!(taken.is_sound());
    let strange = (0..64).map(|bit| Spear(1 << bit)).find(|word| !word.is_sound() && word.field(own) == Presence::Out);
    for found in [unsound, taken, strange.unwrap()] {
        assert_eq!(judge_enter(found, own), Entered::Unsound, "{found:?}");
    }
    assert_eq!(judge_enter(taken, other), Entered::Granted);
}
