//! Every interleaving of two lanes that share an entry with a lane of another compute node, on one leaf, with a request
//! in doubt; then what the table does with lock records.

use super::*;
use crate::dolphin::spear::SEATS;
use crate::verbs::{LaneId, NodeId};
extern crate std;
use std::collections::HashMap;
use std::format;
use std::string::String;
use std::vec::Vec;

/// Lanes 0 and 1 share the entry of compute node 0; lane 2 has that of compute node 1.
const LANES: usize = 3;
const NODE_OF: [usize; LANES] = [0, 0, 1];
const LEAF: u64 = 7 << 10;

fn seat(node: usize) -> Seat {
    Seat::new(SEATS - 1 - node as u8).expect("a seat")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Want {
    /// Enter, WRITE a value, leave.
    Share,
    /// Enter, find nothing to change, leave.
    Look,
    /// Close, change the leaf, open.
    Change,
    /// Close, retire the leaf.
    Replace,
}

/// What follows a request of the seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Addition {
    Enter,
    Close,
    /// The field is out behind it. `ends`: so is the operation.
    Out {
        ends: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Idle,
    /// It has the entry alone, and READs the word next.
    Looking,
    /// The addition is posted.
    Posted(Addition, u64),
    /// It was executed, and found this word.
    Executed(Addition, Spear),
    /// Inside; it READs the leaf next.
    Inside,
    /// Inside, with an image.
    Read,
    /// Its WRITE is posted, with the subtraction behind it or not.
    Writing(Leave),
    /// Its WRITE has landed, without a subtraction behind it.
    Landed,
    /// It waits for those inside.
    Draining,
    Exclusive,
    /// Its requests may still take effect until the queue pair is closed: a WRITE, then an addition.
    Doubt {
        writes: bool,
        adds: Option<(u64, bool)>,
    },
    /// Its queue pair is closed, and it has the entry alone.
    Settling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    word: Spear,
    entries: [State; 2],
    lanes: [(At, u8); LANES],
    /// Additions in vain since the compute node READ the word last.
    vain: [u8; 2],
    doubts: u8,
}

/// What a test alters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Altered {
    Nothing,
    /// A lane joins while the addition is under way.
    JoinsAlone,
    /// A lane subtracts though WRITEs of others are under way.
    LeavesOthers,
    /// The entry is free before the subtraction has completed.
    FreesEarly,
    /// A lane that finds a closer does not say so.
    ForgetsCloser,
    /// A lane in doubt gives up the entry at once.
    FreesInDoubt,
    /// A lane in doubt is not counted, though its WRITE may still land.
    LeavesInDoubt,
    /// A lane joins though an image has shown a closer: slower, not wrong.
    JoinsForEver,
}

struct Model<'m> {
    wants: [&'m [Want]; LANES],
    altered: Altered,
}

type Next = Vec<Result<World, String>>;

impl Model<'_> {
    fn next(&self, world: &World) -> Next {
        let mut next = Next::new();
        for who in 0..LANES {
            let (at, done) = world.lanes[who];
            if at != At::Idle || usize::from(done) < self.wants[who].len() {
                self.steps_of(world, who, &mut next);
            }
        }
        next
    }

    fn steps_of(&self, world: &World, who: usize, next: &mut Next) {
        let (at, done) = world.lanes[who];
        let (node, own) = (NODE_OF[who], seat(NODE_OF[who]));
        let want = self.wants[who].get(usize::from(done)).copied();
        let mut new = *world;
        let entry = &mut new.entries[node];
        let mut to = |at| new.lanes[who].0 = at;
        match at {
            At::Idle => {
                let shares = matches!(want, Some(Want::Share | Want::Look));
                let joins_alone = self.altered == Altered::JoinsAlone && shares && entry.holder == Holder::Alone;
                match if joins_alone { Ask::Join } else { entry.ask(LEAF, shares) } {
                    Ask::Add if shares => to(At::Posted(Addition::Enter, own.enter())),
                    Ask::Add => to(At::Posted(Addition::Close, own.close())),
                    Ask::Look => to(At::Looking),
                    Ask::Join => to(At::Inside),
                    // It comes again. What it has left in the entry counts.
                    Ask::Wait => {}
                }
            }
            At::Looking => {
                new.vain[node] = 0;
                match entry.looked(world.word, own) {
                    Looked::Add if matches!(want, Some(Want::Share | Want::Look)) => {
                        to(At::Posted(Addition::Enter, own.enter()));
                    }
                    Looked::Add => to(At::Posted(Addition::Close, own.close())),
                    Looked::Wait => to(At::Idle),
                    Looked::Retired => new.lanes[who] = (At::Idle, done + 1),
                    Looked::Unsound => return next.push(Err(format!("a look finds {:x?}", world.word))),
                }
            }
            At::Posted(addition, addend) => {
                if world.doubts > 0 {
                    let mut lost = *world;
                    lost.doubts -= 1;
                    let adds = Some((addend, matches!(addition, Addition::Out { ends: true })));
                    lost.lanes[who].0 = At::Doubt { writes: false, adds };
                    if self.altered == Altered::FreesInDoubt {
                        lost.entries[node].out();
                    }
                    next.push(Ok(lost));
                }
                if self.altered == Altered::FreesEarly && matches!(addition, Addition::Out { .. }) {
                    let mut early = *world;
                    early.entries[node].out();
                    next.push(Ok(early));
                }
                to(At::Executed(addition, world.word));
                new.word.0 = new.word.0.wrapping_add(addend);
            }
            At::Executed(Addition::Enter, found) => match entry.entered(found, own) {
                Entered::Granted => to(At::Inside),
                Entered::Closed => {
                    to(At::Posted(Addition::Out { ends: false }, own.leave()));
                    self.is_in_vain(&mut new, node);
                }
                Entered::Retired => to(At::Posted(Addition::Out { ends: true }, own.leave())),
                Entered::Unsound => return next.push(Err(format!("entering finds {found:x?}"))),
            },
            At::Executed(Addition::Close, found) => match entry.closed(found, own) {
                Closed::Exclusive => to(At::Exclusive),
                Closed::Wait => to(At::Draining),
                Closed::BackOff => {
                    to(At::Posted(Addition::Out { ends: false }, own.open()));
                    self.is_in_vain(&mut new, node);
                }
                Closed::Retired => to(At::Posted(Addition::Out { ends: true }, own.open())),
                Closed::Unsound => return next.push(Err(format!("closing finds {found:x?}"))),
            },
            At::Executed(Addition::Out { ends }, _) => {
                entry.out();
                new.lanes[who] = (At::Idle, done + u8::from(ends));
            }
            At::Inside => {
                if self.altered != Altered::JoinsForEver {
                    entry.saw(world.word, own);
                }
                to(At::Read);
            }
            At::Read if want == Some(Want::Look) => match entry.left() {
                Leave::Last => to(At::Posted(Addition::Out { ends: true }, own.leave())),
                Leave::Others => new.lanes[who] = (At::Idle, done + 1),
            },
            At::Read if self.altered == Altered::LeavesOthers => {
                entry.holder = Holder::Alone;
                to(At::Writing(Leave::Last));
            }
            At::Read => to(At::Writing(entry.leaves())),
            At::Writing(leave) => {
                if world.doubts > 0 {
                    let mut lost = *world;
                    lost.doubts -= 1;
                    let adds = (leave == Leave::Last).then_some((own.leave(), true));
                    lost.lanes[who].0 = At::Doubt { writes: true, adds };
                    if self.altered == Altered::LeavesInDoubt {
                        lost.entries[node].left();
                    }
                    next.push(Ok(lost));
                }
                new.lanes[who].0 = match leave {
                    Leave::Last => At::Posted(Addition::Out { ends: true }, own.leave()),
                    Leave::Others => At::Landed,
                };
                if world.word.field(own) != Presence::Inside {
                    return next.push(Err("a WRITE without a seat".into()));
                }
            }
            At::Landed => match entry.left() {
                Leave::Last => to(At::Posted(Addition::Out { ends: true }, own.leave())),
                Leave::Others => new.lanes[who] = (At::Idle, done + 1),
            },
            At::Draining => match judge_wait(world.word, own) {
                Waited::Drained => to(At::Exclusive),
                Waited::Wait => {}
                Waited::Fenced | Waited::Unsound => return next.push(Err(format!("waiting finds {:x?}", world.word))),
            },
            At::Exclusive => {
                let addend = if want == Some(Want::Replace) { own.retire() } else { own.open() };
                to(At::Posted(Addition::Out { ends: true }, addend));
            }
            At::Doubt { adds, .. } => {
                if let Some((addend, ends)) = adds {
                    let mut late = *world;
                    late.word.0 = late.word.0.wrapping_add(addend);
                    late.lanes[who].0 = At::Doubt { writes: false, adds: None };
                    late.lanes[who].1 += u8::from(ends && late.word.is_retired());
                    next.push(Ok(late));
                }
                // The queue pair is closed.
                match entry.left() {
                    Leave::Last => to(At::Settling),
                    Leave::Others => to(At::Idle),
                }
            }
            At::Settling => match entry.settled(world.word, own) {
                Settled::Out => {
                    entry.out();
                    to(At::Idle);
                }
                Settled::Leave(addend) | Settled::Open(addend) => {
                    to(At::Posted(Addition::Out { ends: false }, addend));
                }
                Settled::Unsound => return next.push(Err(format!("settling finds {:x?}", world.word))),
            },
        }
        next.push(Ok(new));
    }

    fn is_in_vain(&self, world: &mut World, node: usize) {
        world.vain[node] += 1;
        if self.altered == Altered::ForgetsCloser {
            world.entries[node].shut = 0;
        }
    }

    fn check(world: &World) -> Result<(), String> {
        if !world.word.is_sound() {
            return Err(format!("no sound word: {:x?}", world.word));
        }
        let count = |is: fn(At) -> bool| world.lanes.iter().filter(|(at, _)| is(*at)).count();
        let is_inside =
            |at| matches!(at, At::Writing(_) | At::Read | At::Inside | At::Landed | At::Doubt { writes: true, .. });
        let (exclusive, writing) = (count(|at| at == At::Exclusive), count(is_inside));
        if exclusive > 1 || exclusive > 0 && writing > 0 {
            return Err(format!("{exclusive} exclusive, {writing} inside"));
        }
        for node in 0..2 {
            if world.entries[node].holder == Holder::Nobody && world.word.field(seat(node)) != Presence::Out {
                return Err(format!("the entry of {node} is free, its field is not"));
            }
            if world.vain[node] > 1 {
                return Err(format!("{node} has added in vain without a look"));
            }
        }
        Ok(())
    }

    /// Visits every state that can be reached, and checks that an end can be reached from each.
    fn explore(&self, doubts: u8) -> Result<usize, String> {
        let start = World {
            word: Spear::FREE,
            entries: [State::default(); 2],
            lanes: [(At::Idle, 0); LANES],
            vain: [0; 2],
            doubts,
        };
        let mut numbers = HashMap::from([(start, 0_usize)]);
        let mut states = std::vec![start];
        let mut before: Vec<Vec<u32>> = std::vec![Vec::new()];
        let mut at = 0;
        while let Some(state) = states.get(at).copied() {
            Self::check(&state).map_err(|what| format!("{what} in {state:?}"))?;
            for next in self.next(&state) {
                let next = next.map_err(|what| format!("{what} in {state:?}"))?;
                let number = *numbers.entry(next).or_insert_with(|| {
                    states.push(next);
                    before.push(Vec::new());
                    states.len() - 1
                });
                before[number].push(at as u32);
            }
            at += 1;
        }
        let is_end = |world: &World| {
            let is_done =
                |((at, done), wants): (&(At, u8), &&[Want])| *at == At::Idle && usize::from(*done) == wants.len();
            world.lanes.iter().zip(&self.wants).all(is_done)
        };
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
            Some(stuck) => Err(format!("no end can be reached from {:?}", states[stuck])),
            None => Ok(states.len()),
        }
    }
}

use Want::{Change, Look, Replace, Share};

const SCENARIOS: &[[&[Want]; LANES]] = &[
    [&[Share, Share], &[Share, Look], &[Change, Share]],
    [&[Share, Change], &[Share, Share], &[Change, Change]],
    [&[Change, Share], &[Change], &[Change, Share]],
    [&[Share, Share], &[Replace], &[Share, Change]],
    [&[Share, Look], &[Share, Change], &[Replace]],
];

fn explore_all(altered: Altered) -> Result<usize, String> {
    let mut states = 0;
    for wants in SCENARIOS {
        for doubts in [0, 1, 2] {
            states += Model { wants: *wants, altered }.explore(doubts)?;
        }
    }
    Ok(states)
}

#[test]
fn every_interleaving_of_two_lanes_with_one_seat_is_right() {
    let states = explore_all(Altered::Nothing).unwrap_or_else(|violation| panic!("{violation}"));
    std::println!("{states} states");
    assert!(states > 10_000, "the model does not move: {states} states");
    explore_all(Altered::JoinsForEver).unwrap_or_else(|violation| panic!("{violation}"));
}

/// Each altered decision, and a word of the violation that the model finds.
#[test]
fn altered_entries_are_found() {
    for (altered, word) in [
        (Altered::JoinsAlone, ""),
        (Altered::LeavesOthers, ""),
        (Altered::FreesEarly, "free"),
        (Altered::ForgetsCloser, "in vain"),
        (Altered::FreesInDoubt, ""),
        (Altered::LeavesInDoubt, ""),
    ] {
        match explore_all(altered) {
            Ok(states) => panic!("{altered:?}: {states} states without a violation"),
            Err(violation) => assert!(violation.contains(word), "{altered:?}: found {violation}"),
        }
    }
}

fn with_entries(count: usize, test: impl FnOnce(&Entries<'_>, &[Lane<'_>])) {
    let entries: Vec<_> = (0..count).map(|_| Entry::default()).collect();
    let lanes: Vec<_> = (0..20).map(|number| Lane::new(LaneId(number), &mut [])).collect();
    test(&Entries::new(&entries, seat(0), None), &lanes);
}

fn leaf(number: u64) -> Address {
    Address::new(NodeId(1), 1 << 20 | number << 10, 3)
}

#[test]
fn lanes_share_one_addition_and_one_subtraction() {
    with_entries(16, |entries, lanes| {
        let [first, second, third, ..] = lanes else { unreachable!() };
        assert_eq!(entries.enter(first, leaf(0)), Ok(Ask::Add));
        assert_eq!(entries.enter(second, leaf(0)), Ok(Ask::Wait), "the addition is under way");
        assert!(!second.has_lock_records() && first.has_lock_records());
        assert_eq!(entries.entered(first, leaf(0), Spear::FREE, Spear::FREE), Entered::Granted);
        assert_eq!(entries.enter(second, leaf(0)), Ok(Ask::Join));
        assert!([first, second].iter().all(|lane| lane.holds(entries.lock_of(leaf(0))).is_some()), "both are inside");
        assert_eq!(entries.close(third, leaf(0)), Ok(Ask::Wait));
        assert_eq!(entries.enter(third, leaf(0)), Ok(Ask::Wait), "a lane wants to close");
        assert_eq!(entries.leaves(leaf(0)), Leave::Others);
        assert_eq!(entries.left(second, leaf(0)), Leave::Others);
        assert!(!second.has_lock_records());
        assert_eq!(entries.leaves(leaf(0)), Leave::Last);
        assert_eq!(entries.close(third, leaf(0)), Ok(Ask::Wait), "the subtraction is under way");
        entries.out(first, leaf(0));
        assert_eq!(entries.close(third, leaf(0)), Ok(Ask::Add));
        assert_eq!(entries.closed(third, leaf(0), Spear::FREE), Closed::Exclusive);
        assert!(third.holds(entries.lock_of(leaf(0))).is_some());
        entries.out(third, leaf(0));
        assert_eq!(entries.held(), 0);
        assert!(lanes.iter().all(|lane| !lane.has_lock_records()));
    });
}

#[test]
fn a_lane_that_was_told_to_wait_finds_the_leaf_still_shared() {
    with_entries(16, |entries, lanes| {
        let [first, second, ..] = lanes else { unreachable!() };
        for others in [leaf(0), leaf(1)] {
            assert_eq!(entries.enter(first, leaf(0)), Ok(Ask::Add));
            assert_eq!(entries.enter(second, leaf(0)), Ok(Ask::Wait));
            assert_eq!(entries.entered(first, leaf(0), Spear::FREE, Spear::FREE), Entered::Granted);
            assert_eq!(entries.leaves(leaf(0)), Leave::Others, "the second lane may come");
            if others == leaf(0) {
                assert_eq!(entries.enter(second, others), Ok(Ask::Join));
                assert_eq!(entries.left(first, leaf(0)), Leave::Others);
                assert_eq!(entries.leaves(leaf(0)), Leave::Last, "nobody else was told to wait");
                entries.out(second, leaf(0));
            } else {
                assert_eq!(entries.left(first, leaf(0)), Leave::Last, "nobody came");
                entries.out(first, leaf(0));
            }
        }
    });
}

#[test]
fn one_addition_is_for_a_bounded_number_of_operations() {
    with_entries(16, |entries, lanes| {
        assert_eq!(entries.enter(&lanes[0], leaf(0)), Ok(Ask::Add));
        entries.entered(&lanes[0], leaf(0), Spear::FREE, Spear::FREE);
        for lane in &lanes[1..usize::from(JOINS_MAX)] {
            assert_eq!(entries.enter(lane, leaf(0)), Ok(Ask::Join));
            assert_eq!(entries.left(lane, leaf(0)), Leave::Others);
        }
        assert_eq!(entries.enter(&lanes[17], leaf(0)), Ok(Ask::Wait));
        assert_eq!(entries.left(&lanes[0], leaf(0)), Leave::Last);
    });
}

#[test]
fn a_leaf_that_was_found_closed_is_looked_at_first() {
    let (own, other) = (seat(0), seat(1));
    with_entries(1, |entries, lanes| {
        let lane = &lanes[0];
        assert_eq!(entries.enter(lane, leaf(0)), Ok(Ask::Add));
        assert_eq!(entries.entered(lane, leaf(0), Spear(other.close()), Spear::FREE), Entered::Closed);
        entries.out(lane, leaf(0));
        // The same entry is used for another leaf; the mark stays.
        assert_eq!(entries.close(lane, leaf(1)), Ok(Ask::Add));
        assert_eq!(entries.enter(&lanes[1], leaf(0)), Ok(Ask::Wait), "one leaf at a time");
        entries.out(lane, leaf(1));
        assert_eq!(entries.close(lane, leaf(0)), Ok(Ask::Look));
        assert_eq!(entries.looked(lane, leaf(0), Spear(other.close())), Ok(Looked::Wait));
        assert!(!lane.has_lock_records());
        assert_eq!(entries.enter(lane, leaf(0)), Ok(Ask::Look));
        assert_eq!(entries.looked(lane, leaf(0), Spear(other.enter())), Ok(Looked::Add));
        // Its image shows a closer.
        let image = Spear(own.enter() | other.close());
        assert_eq!(entries.entered(lane, leaf(0), Spear(other.enter()), image), Entered::Granted);
        assert_eq!(entries.enter(&lanes[1], leaf(0)), Ok(Ask::Wait));
        assert_eq!(entries.left(lane, leaf(0)), Leave::Last);
        entries.out(lane, leaf(0));
        assert_eq!(entries.close(lane, leaf(0)), Ok(Ask::Look));
        assert_eq!(entries.looked(lane, leaf(0), Spear(Spear::RETIRED)), Ok(Looked::Retired));
        assert_eq!(entries.held(), 0);
    });
}

#[test]
fn a_lane_in_doubt_keeps_the_entry() {
    let own = seat(0);
    with_entries(16, |entries, lanes| {
        let [first, second, third, ..] = lanes else { unreachable!() };
        assert_eq!(entries.abandon(first), None);
        assert_eq!(entries.enter(first, leaf(0)), Ok(Ask::Add));
        // Its addition is lost, and was executed.
        assert_eq!(entries.enter(second, leaf(0)), Ok(Ask::Wait));
        for _ in 0..2 {
            assert_eq!(entries.abandon(first), Some(leaf(0)), "settling may be begun again");
        }
        assert_eq!(entries.settled(leaf(0), Spear(own.enter())), Settled::Leave(own.leave()));
        entries.out(first, leaf(0));
        // A lane beside others leaves the field to them.
        assert_eq!(entries.enter(first, leaf(0)), Ok(Ask::Add));
        entries.entered(first, leaf(0), Spear::FREE, Spear::FREE);
        assert_eq!(entries.enter(second, leaf(0)), Ok(Ask::Join));
        assert_eq!(entries.abandon(first), None);
        assert!(!first.has_lock_records());
        assert_eq!(entries.abandon(second), Some(leaf(0)));
        // A word that no writer makes is not added to.
        assert_eq!(entries.settled(leaf(0), Spear(own.enter() | own.close())), Settled::Unsound);
        entries.out(second, leaf(0));
        assert_eq!(entries.close(third, leaf(0)), Ok(Ask::Look));
        assert_eq!(entries.looked(third, leaf(0), Spear(own.enter() | own.close())), Ok(Looked::Unsound));
    });
}

#[test]
fn an_index_without_entries_adds_nothing() {
    with_entries(0, |entries, lanes| {
        assert!(entries.enter(&lanes[0], leaf(0)).is_err());
        assert!(!lanes[0].has_lock_records());
    });
}
