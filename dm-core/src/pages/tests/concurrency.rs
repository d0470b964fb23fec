//! Lanes on several threads: a store far too small for its pages, with flushes, splits and lanes that are dropped.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Barrier, Mutex};

const PAGES: u64 = 24;
const LANES: u16 = 4;

/// What is outside of the store.
struct World {
    /// The pool. A page has its number, repeated in all words, so that a mixture shows.
    pool: Vec<Mutex<u32>>,
    /// How often each page was changed. A page's number is this count, if no change was lost.
    changes: Vec<AtomicU64>,
    /// The end of the log.
    log: AtomicU64,
    woken: Vec<AtomicBool>,
}

/// A lane on a thread.
struct Actor<'w, 's> {
    store: &'w PageStore<'s>,
    world: &'w World,
    draw: u64,
    id: u16,
}

fn words_of(number: u32) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|word| *word = number.to_le_bytes());
    bytes
}

fn number_of(bytes: &[u8; 64]) -> u32 {
    let (words, _) = bytes.as_chunks::<4>();
    assert!(words.iter().all(|word| word == &words[0]), "a mixture: {words:?}");
    u32::from_le_bytes(words[0])
}

/// Tries until the store is not busy.
fn insist<R>(mut attempt: impl FnMut() -> Result<R, Refused>) -> Result<R, Refused> {
    loop {
        match attempt() {
            Err(Refused::Busy) => std::thread::yield_now(),
            other => return other,
        }
    }
}

impl<'s> Actor<'_, 's> {
    fn below(&mut self, end: u64) -> u64 {
        self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.draw >> 33) % end
    }

    /// Does something with the store as this lane, and delivers the wakes.
    fn with<R>(&self, act: impl FnOnce(&PageStore<'s>, &Lane<'_>) -> R) -> R {
        let lane = lane(self.id);
        // The draws differ from one call to the next.
        (0..self.draw % 7).for_each(|_| _ = lane.next_turn());
        let result = act(self.store, &lane);
        for woken in woken(&lane) {
            self.world.woken[usize::from(woken)].store(true, Relaxed);
        }
        result
    }

    /// Parks until the lane is woken, and wakes the next. `false`: the test has failed elsewhere.
    fn park(&self) {
        loop {
            while !self.world.woken[usize::from(self.id)].swap(false, Relaxed) {
                std::thread::yield_now();
            }
            if self.with(PageStore::wake_next) {
                return;
            }
        }
    }

    fn settle(&self) {
        loop {
            match insist(|| self.with(PageStore::pay)).unwrap() {
                Paid::Nothing => break,
                Paid::One => {}
                Paid::Waits => self.park(),
            }
        }
        assert!(!self.with(PageStore::owes));
    }

    /// The first of all: lane 0 has a fill until every other lane waits for it.
    fn meet(&mut self, filled: &Barrier) {
        if self.id != 0 {
            filled.wait();
            return self.visit(0, true);
        }
        let Found::Mine(fill) = self.with(|store, lane| store.find(lane, page(0), Admit::Always)) else { panic!() };
        filled.wait();
        while !(1..LANES).all(|id| self.store.record(LaneId(id)).unwrap().is_waiting()) {
            std::thread::yield_now();
        }
        insist(|| self.with(|store, lane| store.admit(lane, &fill, &words_of(0)))).unwrap();
    }

    /// Changes a page by one, in the store or without a frame, or looks at it.
    fn visit(&mut self, at: u64, changes: bool) {
        let admit = [Admit::ByChance, Admit::Always, Admit::Never][self.below(3) as usize];
        loop {
            let name = match self.with(|store, lane| store.find(lane, page(at), admit)) {
                Found::Frame(name) => name,
                Found::Mine(fill) => {
                    std::thread::yield_now();
                    if self.below(16) == 0 {
                        // Dropped.
                        return self.settle();
                    }
                    let number = *self.world.pool[at as usize].lock().unwrap();
                    if !fill.is_admitted() {
                        if changes {
                            *self.world.pool[at as usize].lock().unwrap() = number + 1;
                            self.world.changes[at as usize].fetch_add(1, Relaxed);
                        }
                        return insist(|| self.with(|store, lane| store.release(lane, &fill))).unwrap();
                    }
                    insist(|| self.with(|store, lane| store.admit(lane, &fill, &words_of(number)))).unwrap()
                }
                Found::Joined => {
                    self.park();
                    continue;
                }
                Found::NoFrame => {
                    self.flush();
                    continue;
                }
                Found::Busy => {
                    std::thread::yield_now();
                    continue;
                }
                Found::NoFill => panic!("the lane has no fills"),
            };
            let done = if changes { self.change(at, name) } else { self.read(at, name) };
            match done {
                Ok(()) => return,
                Err(Refused::Frozen) => {
                    if insist(|| self.with(|store, lane| store.wait_behind(lane, name))) == Ok(true) {
                        self.park();
                    }
                }
                Err(Refused::Busy) => std::thread::yield_now(),
                Err(Refused::Moved) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }

    fn change(&self, at: u64, name: FrameName) -> Result<(), Refused> {
        let world = self.world;
        self.with(|store, lane| {
            store.change(
                lane,
                name,
                || true,
                |page| {
                    let number = page.image().word(0);
                    let floor = Lsn::from_bits(world.log.load(Relaxed) + 1);
                    let mut writing =
                        page.record(floor, || Ok::<_, Refused>(Lsn::from_bits(world.log.fetch_add(1, Relaxed) + 1)))??;
                    writing.put(0, &words_of(number + 1));
                    assert_eq!(
                        u64::from(number),
                        world.changes[at as usize].fetch_add(1, Relaxed),
                        "page {at} lost a change"
                    );
                    Ok(())
                },
            )
        })
    }

    fn read(&self, at: u64, name: FrameName) -> Result<(), Refused> {
        let before = self.world.changes[at as usize].load(Relaxed);
        let mut bytes = [0; 64];
        self.store.copy(name, 0, &mut bytes)?;
        let number = u64::from(number_of(&bytes));
        // A change is counted just before it shows.
        assert!(number + 1 >= before, "page {at}: read {number} after {before} changes");
        Ok(())
    }

    /// Flushes a page. One flush in five fails, before or after the WRITE has landed; or the lane is dropped.
    fn flush(&mut self) {
        let which = if self.below(2) == 0 { Flush::Victim } else { Flush::Oldest };
        let mut out = [0; 64];
        let Ok(Some(staged)) = self.with(|store, lane| store.stage(lane, which, &mut out)) else { return };
        let at = (0..PAGES).find(|at| page(*at) == staged.id()).unwrap() as usize;
        let fate = self.below(15);
        if fate != 0 {
            *self.world.pool[at].lock().unwrap() = number_of(&out);
        }
        match fate {
            0..=1 => insist(|| self.with(|store, lane| store.flushed(lane, &staged, false))).unwrap(),
            2 => self.settle(),
            _ => insist(|| self.with(|store, lane| store.flushed(lane, &staged, true))).unwrap(),
        }
    }

    /// Freezes a page, changes it, and thaws it; or is dropped.
    fn split(&mut self, at: u64) {
        let Found::Frame(name) = self.with(|store, lane| store.claim(lane, page(at), Admit::Never)) else {
            return self.settle();
        };
        let Ok(frozen) = self.with(|store, lane| store.freeze(lane, name)) else { return };
        std::thread::yield_now();
        insist(|| self.change(at, frozen.frame())).unwrap();
        if self.below(4) == 0 {
            return self.settle();
        }
        insist(|| self.with(|store, lane| store.thaw(lane, frozen))).unwrap();
    }
}

#[test]
fn threads_lose_no_change_and_no_lane() {
    const TURNS: u64 = 60_000;
    for cooling in [Cooling::Map, Cooling::OneFifo] {
        let shape = Shape { lanes: LANES, cooling, admission: Admission::per_10_000(5_000), ..SHAPE };
        let words = storage(shape.words_for(shape.frames_needed()));
        let store = PageStore::new(&words, shape).unwrap();
        let world = World {
            pool: (0..PAGES).map(|_| Mutex::new(0)).collect(),
            changes: (0..PAGES).map(|_| AtomicU64::new(0)).collect(),
            log: AtomicU64::new(0),
            woken: (0..LANES).map(|_| AtomicBool::new(false)).collect(),
        };
        let filled = Barrier::new(usize::from(LANES));
        std::thread::scope(|scope| {
            for id in 0..LANES {
                let mut actor = Actor { store: &store, world: &world, draw: u64::from(id) + 1, id };
                let filled = &filled;
                scope.spawn(move || {
                    actor.meet(filled);
                    for _ in 0..TURNS {
                        let at = actor.below(PAGES);
                        match actor.below(16) {
                            0..=6 => actor.visit(at, true),
                            7..=11 => actor.visit(at, false),
                            12..=14 => actor.flush(),
                            _ => actor.split(at),
                        }
                    }
                });
            }
        });
        // Everything that is left is flushed, and then the pool has every change.
        let mut last = Actor { store: &store, world: &world, draw: 77, id: 0 };
        while store.oldest_unflushed().unwrap().is_some() {
            last.flush();
        }
        for at in 0..PAGES as usize {
            assert_eq!(u64::from(*world.pool[at].lock().unwrap()), world.changes[at].load(Relaxed), "page {at}");
        }
        let states = states(&store);
        assert!(states.windows(2).all(|pair| pair[0].0 != pair[1].0), "two copies: {states:?}");
        assert!(states.iter().all(|(_, state, _)| *state == PageState::Clean));
        let counts = store.total_counts();
        assert!(counts.evictions > 1_000 && counts.joins >= 3 && counts.unadmitted > 1_000, "{counts:?}");
        // No frame was lost: all have a page when each lane has used the one that it may have set aside.
        for at in 0..u64::from(store.frames()) {
            bring(&store, &lane(at as u16 % LANES), page(100 + at), 0);
        }
        let mut pages = 0;
        store.for_each_page(&mut |_, _, _| pages += 1);
        assert_eq!(pages, store.frames());
    }
}
