//! Every order of the steps of a few lanes on a store of two frames, with lanes that are dropped at any step, flushes
//! that fail, and WRITEs that land or do not.
//!
//! The steps are the calls of the store itself. Between two steps its words are set back to what they were, so that each
//! state is continued in every way. What happens inside of a call is the matter of the test with threads.

use super::*;
use crate::mutants::{Mutant, with_planted};
use core::hash::{Hash, Hasher};
use std::collections::{HashSet, hash_map::DefaultHasher};
use std::{format, string::String};

const PAGES: usize = 3;
const FRAMES: usize = 2;
const LANES: usize = 3;

/// How often a lane looks for a page in one operation, at most. Two lanes may take the frames from each other for ever.
const LOOKS_MAX: u8 = 3;

/// What a lane does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Want {
    /// Looks at a page.
    Read(usize),
    /// Changes a page.
    Write(usize),
    /// Flushes a page.
    Flush,
    /// Freezes a page if it is there, changes it, flushes it and thaws it.
    Split(usize),
}

/// Where a lane stands in what it does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    Start,
    /// It waits to be woken.
    Parked,
    /// It has the name of the page.
    Named(FrameName),
    /// It has a fill; the READ comes next.
    Fills {
        admitted: bool,
    },
    /// It has READ this.
    HasRead {
        admitted: bool,
        found: u32,
    },
    /// It has a copy of the page, and its WRITE comes next.
    Staged(Staged, u32),
    /// The WRITE is over.
    Written(Staged, bool),
    /// It has frozen the page.
    Freezes(Frozen),
    /// It has changed the page that it has frozen.
    Shrunk(Frozen),
    /// It was dropped, and all its requests have ended; it pays.
    Dropped,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Actor {
    at: At,
    /// Number of the operation, and how often it looked for its page.
    done: usize,
    looks: u8,
    /// A wake came since it parked last.
    woken: bool,
    /// It has frozen this, while it flushes.
    frozen: Option<Frozen>,
}

#[derive(Clone, Debug)]
struct State {
    words: Vec<u32>,
    actors: Vec<Actor>,
    /// The pool: a page's content is the number of its newest change.
    pool: [u32; PAGES],
    truth: [u32; PAGES],
    /// The page of each change.
    changed: Vec<u8>,
    drops_left: u8,
}

impl State {
    /// Changes a page. Returns the number of the change.
    fn change(&mut self, at: usize) -> u32 {
        self.changed.push(at as u8);
        self.truth[at] = self.changed.len() as u32;
        self.truth[at]
    }

    /// The oldest change of a page that is not in the pool.
    fn missing(&self, at: usize) -> Option<u64> {
        let behind = self.changed.iter().enumerate().skip(self.pool[at] as usize);
        behind.filter(|(_, page)| usize::from(**page) == at).map(|(before, _)| before as u64 + 1).next()
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.words, &self.actors, self.pool, &self.changed, self.drops_left).hash(&mut hasher);
        hasher.finish()
    }
}

struct Model<'m> {
    words: &'m [AtomicU32],
    shape: Shape,
    wants: &'m [&'m [Want]],
}

type Steps = Vec<Result<State, String>>;

impl Model<'_> {
    fn store(&self) -> PageStore<'_> {
        PageStore::divide(self.words, self.shape, FRAMES)
    }

    /// Takes a step from `state` as this actor's lane. `act` changes the model; the words are taken over behind it.
    fn step(
        &self,
        state: &State,
        who: usize,
        steps: &mut Steps,
        act: impl FnOnce(&PageStore<'_>, &Lane<'_>, &mut State) -> Result<(), String>,
    ) {
        for (word, value) in self.words.iter().zip(&state.words) {
            word.store(*value, Relaxed);
        }
        let (store, lane, mut next) = (self.store(), lane(who as u16), state.clone());
        let result = act(&store, &lane, &mut next).and_then(|()| {
            for woken in woken(&lane) {
                next.actors[usize::from(woken)].woken = true;
            }
            Self::check(&store, &next)
        });
        next.words = self.words.iter().map(|word| word.load(Relaxed)).collect();
        self.forget_counters(&mut next.words);
        steps.push(result.map(|()| next));
    }

    /// Counters and full sequence numbers make equal states look different.
    fn forget_counters(&self, words: &mut [u32]) {
        let start = self.words.as_ptr().align_offset(64);
        let frame_words = self.shape.frame_words();
        for frame in 0..FRAMES {
            words[start + frame * frame_words] &= 1;
        }
        let records = start + FRAMES * frame_words;
        for record in 0..LANES {
            words[records + record * 32 + 16..records + record * 32 + 32].fill(0);
        }
    }

    /// What holds in every state.
    fn check(store: &PageStore<'_>, state: &State) -> Result<(), String> {
        let seen = states(store);
        if let Some(pair) = seen.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("two copies: {pair:?}"));
        }
        let oldest = store.oldest_unflushed().map_err(|refused| format!("{refused}"))?;
        for at in 0..PAGES {
            let copy = store.lookup(page(at as u64));
            let newest = match copy {
                Some(name) => number(store, name).map_err(|refused| format!("{refused}"))?,
                None => state.pool[at],
            };
            if newest != state.truth[at] {
                return Err(format!("page {at} is {newest} after change {}", state.truth[at]));
            }
            if let Some(missing) = state.missing(at) {
                if oldest.is_none_or(|oldest| oldest.to_bits() > missing) {
                    return Err(format!("page {at}: change {missing} would be cut from the log"));
                }
                if seen.iter().any(|(id, state, _)| *id == page(at as u64) && *state == PageState::Clean) {
                    return Err(format!("page {at} counts as clean without change {missing}"));
                }
            }
        }
        Ok(())
    }

    fn next(&self, state: &State) -> Steps {
        let mut steps = Steps::new();
        for (who, actor) in state.actors.iter().enumerate() {
            let Some(want) = self.wants[who].get(actor.done) else { continue };
            self.steps_of(state, who, *want, &mut steps);
            if state.drops_left > 0 && actor.at != At::Start && actor.at != At::Dropped {
                self.step(state, who, &mut steps, |_, _, next| {
                    next.drops_left -= 1;
                    next.actors[who].at = At::Dropped;
                    Ok(())
                });
                if let At::Staged(staged, copied) = &actor.at {
                    // Its WRITE has landed all the same.
                    self.step(state, who, &mut steps, |_, _, next| {
                        next.drops_left -= 1;
                        Self::land(next, staged, *copied);
                        next.actors[who].at = At::Dropped;
                        Ok(())
                    });
                }
            }
        }
        steps
    }

    fn land(state: &mut State, staged: &Staged, copied: u32) {
        let at = (0..PAGES).find(|at| page(*at as u64) == staged.id()).unwrap();
        state.pool[at] = copied;
    }

    fn end(state: &mut State, who: usize) {
        let actor = &mut state.actors[who];
        *actor = Actor { at: At::Start, done: actor.done + 1, looks: 0, woken: false, frozen: None };
    }

    fn steps_of(&self, state: &State, who: usize, want: Want, steps: &mut Steps) {
        let actor = &state.actors[who];
        match (&actor.at, want) {
            (At::Start, Want::Flush) => {
                for which in [Flush::Oldest, Flush::Victim] {
                    self.step(state, who, steps, |store, lane, next| {
                        let mut out = [0; 64];
                        match store.stage(lane, which, &mut out) {
                            Ok(Some(staged)) => next.actors[who].at = At::Staged(staged, first_word(&out)),
                            Ok(None) => Self::end(next, who),
                            Err(refused) => return Err(format!("{refused}")),
                        }
                        Ok(())
                    });
                }
            }
            (At::Start, Want::Split(at)) => self.step(state, who, steps, |store, lane, next| {
                let frozen = store.lookup(page(at as u64)).map(|name| store.freeze(lane, name));
                match frozen {
                    Some(Ok(frozen)) => next.actors[who].at = At::Freezes(frozen),
                    _ => Self::end(next, who),
                }
                Ok(())
            }),
            (At::Start, Want::Read(at) | Want::Write(at)) => self.look(state, who, at, steps),
            (At::Parked, _) if actor.woken => self.step(state, who, steps, |store, lane, next| {
                next.actors[who].woken = false;
                if store.wake_next(lane) {
                    next.actors[who].at = At::Start;
                }
                Ok(())
            }),
            (At::Parked, _) => {}
            (At::Named(name), want) => self.use_page(state, who, want, *name, steps),
            (At::Fills { admitted }, Want::Read(at) | Want::Write(at)) => {
                self.step(state, who, steps, |_, _, next| {
                    next.actors[who].at = At::HasRead { admitted: *admitted, found: next.pool[at] };
                    Ok(())
                });
            }
            (At::HasRead { admitted, found }, Want::Read(at) | Want::Write(at)) => {
                self.end_fill(state, who, at, *admitted, *found, matches!(want, Want::Write(_)), steps);
            }
            (At::Staged(staged, copied), _) => {
                for (lands, ok) in [(true, true), (true, false), (false, false)] {
                    self.step(state, who, steps, |_, _, next| {
                        if lands {
                            Self::land(next, staged, *copied);
                        }
                        next.actors[who].at = At::Written(*staged, ok);
                        Ok(())
                    });
                }
            }
            (At::Written(staged, ok), _) => self.step(state, who, steps, |store, lane, next| {
                store.flushed(lane, staged, *ok).map_err(|refused| format!("flushed: {refused}"))?;
                if let Some(frozen) = next.actors[who].frozen {
                    store.thaw(lane, frozen).map_err(|refused| format!("thaw: {refused}"))?;
                }
                Self::end(next, who);
                Ok(())
            }),
            (At::Freezes(frozen), Want::Split(at)) => self.step(state, who, steps, |store, lane, next| {
                Self::write(store, lane, frozen.frame(), at, next).map_err(|refused| format!("frozen: {refused}"))?;
                next.actors[who].at = At::Shrunk(*frozen);
                Ok(())
            }),
            (At::Shrunk(frozen), _) => self.step(state, who, steps, |store, lane, next| {
                let mut out = [0; 64];
                match store.stage_frame(lane, frozen.frame(), &mut out) {
                    Ok(staged) => {
                        next.actors[who].frozen = Some(*frozen);
                        next.actors[who].at = At::Staged(staged, first_word(&out));
                    }
                    // A flush from before goes on. It is enough here to leave the page dirty.
                    Err(Refused::Flushing) => {
                        store.thaw(lane, *frozen).map_err(|refused| format!("thaw: {refused}"))?;
                        Self::end(next, who);
                    }
                    Err(refused) => return Err(format!("stage: {refused}")),
                }
                Ok(())
            }),
            (At::Dropped, _) => self.pay(state, who, steps),
            (at, want) => panic!("{at:?} of {want:?}"),
        }
    }

    fn look(&self, state: &State, who: usize, at: usize, steps: &mut Steps) {
        for admit in [Admit::Always, Admit::Never] {
            for draws in 0..2 {
                self.step(state, who, steps, |store, lane, next| {
                    (0..draws).for_each(|_| _ = lane.next_turn());
                    let actor = &mut next.actors[who];
                    actor.looks += 1;
                    if actor.looks > LOOKS_MAX {
                        Self::end(next, who);
                        return Ok(());
                    }
                    match store.find(lane, page(at as u64), admit) {
                        Found::Frame(name) => actor.at = At::Named(name),
                        Found::Mine(fill) => actor.at = At::Fills { admitted: fill.is_admitted() },
                        Found::Joined => actor.at = At::Parked,
                        Found::NoFrame => Self::end(next, who),
                        other => return Err(format!("{other:?}")),
                    }
                    Ok(())
                });
            }
        }
    }

    fn use_page(&self, state: &State, who: usize, want: Want, name: FrameName, steps: &mut Steps) {
        self.step(state, who, steps, |store, lane, next| {
            let used = match want {
                Want::Write(at) => Self::write(store, lane, name, at, next),
                Want::Read(at) => number(store, name).map(|found| assert_eq!(found, next.truth[at])),
                _ => unreachable!(),
            };
            match used {
                Ok(()) => Self::end(next, who),
                Err(Refused::Moved) => next.actors[who].at = At::Start,
                Err(Refused::Frozen) => match store.wait_behind(lane, name) {
                    Ok(true) => next.actors[who].at = At::Parked,
                    _ => next.actors[who].at = At::Start,
                },
                Err(refused) => return Err(format!("{refused}")),
            }
            Ok(())
        });
    }

    fn write(
        store: &PageStore<'_>,
        lane: &Lane<'_>,
        name: FrameName,
        at: usize,
        next: &mut State,
    ) -> Result<(), Refused> {
        let change = next.changed.len() as u32 + 1;
        set(store, lane, name, change, u64::from(change))?;
        next.change(at);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "one step with all that it depends on")]
    fn end_fill(
        &self,
        state: &State,
        who: usize,
        at: usize,
        admitted: bool,
        found: u32,
        writes: bool,
        steps: &mut Steps,
    ) {
        self.step(state, who, steps, |store, lane, next| {
            let fill = store.fill_of(lane.id()).ok_or("the fill is gone")?;
            if admitted {
                let name = store.admit(lane, &fill, &image(found)).map_err(|refused| format!("admit: {refused}"))?;
                next.actors[who].at = At::Named(name);
            } else {
                if writes {
                    next.pool[at] = next.change(at);
                }
                store.release(lane, &fill).map_err(|refused| format!("release: {refused}"))?;
                Self::end(next, who);
            }
            Ok(())
        });
    }

    fn pay(&self, state: &State, who: usize, steps: &mut Steps) {
        if self.is_stuck(state, who) {
            return;
        }
        self.step(state, who, steps, |store, lane, next| {
            next.actors[who].woken = false;
            match store.pay(lane).map_err(|refused| format!("pay: {refused}"))? {
                Paid::Nothing => Self::end(next, who),
                Paid::One | Paid::Waits => {}
            }
            Ok(())
        });
    }

    /// Whether a dropped lane is among waiters, and was not woken.
    fn is_stuck(&self, state: &State, who: usize) -> bool {
        let records = self.words.as_ptr().align_offset(64) + FRAMES * self.shape.frame_words();
        state.words[records + who * 32] == 1 && !state.actors[who].woken
    }

    /// Looks at every state that can come. Returns how many there are, or what is wrong with one.
    fn explore(&self, drops: u8) -> Result<usize, String> {
        clear(self.words);
        let actor = Actor { at: At::Start, done: 0, looks: 0, woken: false, frozen: None };
        let first = State {
            words: self.words.iter().map(|_| 0).collect(),
            actors: std::vec![actor; self.wants.len()],
            pool: [0; PAGES],
            truth: [0; PAGES],
            changed: Vec::new(),
            drops_left: drops,
        };
        let mut seen = HashSet::from([first.fingerprint()]);
        let mut open = Vec::from([first]);
        while let Some(state) = open.pop() {
            let steps = self.next(&state);
            if steps.is_empty() {
                self.check_end(&state)?;
            }
            for step in steps {
                let next = step?;
                if seen.insert(next.fingerprint()) {
                    open.push(next);
                }
            }
        }
        Ok(seen.len())
    }

    /// What holds when nobody can go on.
    fn check_end(&self, state: &State) -> Result<(), String> {
        for (who, actor) in state.actors.iter().enumerate() {
            if actor.done < self.wants[who].len() {
                return Err(format!("lane {who} is left for ever: {:?}", actor.at));
            }
        }
        for (word, value) in self.words.iter().zip(&state.words) {
            word.store(*value, Relaxed);
        }
        let store = self.store();
        let left = states(&store);
        let is_over = |state: &PageState| matches!(state, PageState::Clean | PageState::Dirty);
        if !left.iter().all(|(_, state, _)| is_over(state)) || (0..LANES).any(|who| store.owes(&lane(who as u16))) {
            return Err(format!("something is left: {left:?}"));
        }
        Ok(())
    }
}

fn first_word(out: &[u8; 64]) -> u32 {
    u32::from_le_bytes(*out.first_chunk().unwrap())
}

/// What lanes do at the same time, and how many of them are dropped.
const SCENARIOS: &[(&[&[Want]], u8)] = &[
    // Three lanes want one page.
    (&[&[Want::Write(0)], &[Want::Write(0)], &[Want::Read(0)]], 2),
    // A page is changed while it is flushed, and evicted for another.
    (&[&[Want::Write(0), Want::Write(0)], &[Want::Flush, Want::Read(1)], &[Want::Flush]], 1),
    // Three pages, two frames.
    (&[&[Want::Write(0), Want::Read(1)], &[Want::Write(2), Want::Read(0)], &[Want::Flush]], 1),
    // A split between changes and flushes.
    (&[&[Want::Write(0), Want::Split(0)], &[Want::Write(0)], &[Want::Flush]], 1),
];

/// Explores all scenarios. Returns the number of states of each.
fn explore_all() -> Result<Vec<usize>, String> {
    let shape = Shape { lanes: LANES as u16, fills_per_lane: 1, ..SHAPE };
    let words = storage(shape.words_for(FRAMES));
    let explored = SCENARIOS.iter().map(|(wants, drops)| Model { words: &words, shape, wants }.explore(*drops));
    explored.collect()
}

#[test]
fn in_no_order_a_change_or_a_lane_is_lost() {
    let states = explore_all().unwrap();
    std::println!("{states:?} states");
    assert!(states.iter().all(|count| *count > 1_000), "{states:?}");
}

#[test]
fn some_order_shows_each_mutant() {
    for mutant in [
        Mutant::FILL_UNPAID,
        Mutant::FLUSHED_TAKEN_FOR_CLEAN,
        Mutant::DIRTY_EVICTED,
        Mutant::JOINED_NOT_WOKEN,
        Mutant::FLUSHING_FORGOTTEN,
    ] {
        let violation = with_planted(Some(mutant), explore_all).expect_err(mutant.name());
        std::println!("{}: {violation}", mutant.name());
    }
}
