//! Random histories: good ones by construction, the same with one change, and the verdicts of the other judges on both.

use super::referees::{Map, any_order, parts, stateright};
use super::*;
use crate::rng::Rng;
use dm_core::operation::Effect;

/// How random histories are.
#[derive(Clone, Copy)]
struct Shape {
    operations: u32,
    keys: u64,
    /// Longest time from invocation to effect, and from effect to response. Operations take effect one per unit.
    reach: u32,
    failures_percent: u32,
    scans_percent: u32,
    closing: bool,
}

const SMALL: Shape = Shape { operations: 6, keys: 2, reach: 4, failures_percent: 15, scans_percent: 10, closing: true };

/// A good history: a map is worked on sequentially, one operation per instant, and every operation pretends to have
/// taken longer.
fn good(rng: &mut Rng, shape: Shape) -> HistoryBuilder {
    let mut map = Map::default();
    for key in 0..shape.keys {
        if rng.percent(40) {
            map.0.insert(key, 1000 + key);
        }
    }
    let initial: Vec<(u64, u64)> = map.0.iter().map(|(key, value)| (*key, *value)).collect();
    let mut history = HistoryBuilder::holding(&initial);
    // What the map held at each instant, for scans.
    let mut past = vec![map.clone()];
    for number in 1..=u64::from(shape.operations) {
        let at = number * 100;
        // A unique number of nanoseconds per event keeps the order of events free of ties.
        let early = u64::from(rng.below(shape.reach * 100));
        let late = u64::from(rng.below(shape.reach * 100));
        let (from, to) = (at.saturating_sub(early), at + late + 1);
        let key = u64::from(rng.below(shape.keys as u32));
        let lane = rng.below(8) as u16;
        if rng.percent(shape.scans_percent) {
            past.push(map.clone());
            history = scan_past(rng, history, &past, (from, at), lane, shape);
            continue;
        }
        let value = if rng.percent(20) { u64::from(rng.below(3)) } else { number };
        let guess = map.0.get(&key).copied().filter(|_| rng.percent(60)).unwrap_or(u64::from(rng.below(3)));
        let call = match rng.below(6) {
            0 => GET,
            1 => insert(value),
            2 => update(value),
            3 => upsert(value),
            4 => update_if(guess, value),
            _ => DELETE,
        };
        if rng.percent(shape.failures_percent) {
            history = fail(rng, history, &mut map, (lane, from, at), key, call, shape);
        } else {
            let answer = map.apply(key, call);
            history = history.op(lane, (from, to), key, call, answer);
        }
        past.push(map.clone());
    }
    history
}

/// An operation that fails around `at`, and has taken effect or not.
fn fail(
    rng: &mut Rng,
    history: HistoryBuilder,
    map: &mut Map,
    (lane, from, at): (u16, u64, u64),
    key: u64,
    call: Call,
    shape: Shape,
) -> HistoryBuilder {
    let late = u64::from(rng.below(shape.reach * 100)) + 1;
    match rng.below(4) {
        0 => history.op(lane, (from, at + late), key, call, Answer::Failed(Effect::None)),
        1 => {
            let before = map.clone();
            map.apply(key, call);
            let effect = if *map == before { Effect::None } else { Effect::Done };
            history.op(lane, (from, at + late), key, call, Answer::Failed(effect))
        }
        happens => {
            if happens == 2 {
                map.apply(key, call);
            }
            // The response may come before the effect.
            let to = if rng.percent(50) { from + 1 + (at - from) / 2 } else { at + late };
            let history = match rng.below(3) {
                0 => history.pending(lane, from, key, call),
                _ => history.op(lane, (from, to), key, call, Answer::Failed(Effect::Unknown)),
            };
            if shape.closing && rng.percent(60) {
                history.closed(at + late.max(to.saturating_sub(at)))
            } else {
                history
            }
        }
    }
}

/// A scan that ended at `at` and saw each key at some instant of its own.
fn scan_past(
    rng: &mut Rng,
    history: HistoryBuilder,
    past: &[Map],
    (from, at): (u64, u64),
    lane: u16,
    shape: Shape,
) -> HistoryBuilder {
    let instants: Vec<&Map> =
        (0..).zip(past).filter(|(number, _)| number * 100 >= from && number * 100 <= at).map(|(_, map)| map).collect();
    let limit = rng.below(shape.keys as u32 + 1) + 1;
    let low = u64::from(rng.below(shape.keys as u32));
    let (after, bounded) = (rng.percent(30), rng.percent(30));
    let high = bounded.then(|| u64::from(rng.below(shape.keys as u32 + 1)));
    let end = high.unwrap_or(shape.keys);
    let mut seen: Vec<(u64, u64)> = (low + u64::from(after)..end)
        .filter_map(|key| {
            let map = instants[rng.below(instants.len() as u32) as usize];
            map.0.get(&key).map(|value| (key, *value))
        })
        .collect();
    let more = seen.len() > limit as usize || (seen.len() == limit as usize && rng.percent(50));
    let down = rng.percent(30);
    if down {
        seen.drain(..seen.len().saturating_sub(limit as usize));
    }
    seen.truncate(limit as usize);
    history.scan(lane, (from, at + 1), low, Call::Scan { after, high, limit, down }, &seen, more)
}

/// Changes one thing.
fn mutate(rng: &mut Rng, mut history: HistoryBuilder, keys: u64) -> HistoryBuilder {
    let number = rng.below(history.operations.len() as u32) as usize;
    let value = u64::from(rng.below(history.operations.len() as u32 + 1));
    let operation = &mut history.operations[number];
    match rng.below(5) {
        0 => operation.key = (operation.key + 1) % keys,
        1 => {
            operation.from = operation.to.min(operation.from + 300);
            operation.closed = operation.closed.map(|at| at.max(operation.from));
        }
        2 if operation.answer.is_some() => operation.to = operation.to.max(operation.from + 2) - 1,
        _ => {
            operation.answer = operation.answer.map(|answer| match answer {
                Answer::Absent if operation.call == GET => Answer::Found(value),
                Answer::Absent if operation.call == DELETE => Answer::Deleted,
                Answer::Absent => Answer::Updated,
                Answer::Inserted if matches!(operation.call, Call::Insert { .. }) => Answer::Exists(value),
                Answer::Inserted => Answer::Replaced,
                Answer::Replaced | Answer::Exists(_) => Answer::Inserted,
                Answer::Found(_) | Answer::Updated | Answer::Deleted | Answer::Mismatch(_) => Answer::Absent,
                Answer::Failed(Effect::Unknown) => Answer::Failed(Effect::Done),
                Answer::Failed(_) => Answer::Failed(Effect::None),
                page @ Answer::Page { .. } => {
                    if !operation.page.is_empty() {
                        let at = rng.below(operation.page.len() as u32) as usize;
                        operation.page.remove(at);
                    }
                    page
                }
            });
        }
    }
    history
}

fn passes(checker: &mut Checker, history: &History) -> bool {
    match checker.check(history) {
        Verdict::Linearizable => true,
        Verdict::Violation(_) => false,
        Verdict::TooHard { .. } => panic!("too hard:\n{}", history.render()),
    }
}

#[test]
fn good_histories_of_any_size_pass() {
    let mut checker = Checker::default();
    for seed in 0..4000 {
        let mut rng = Rng::new(seed);
        let shape = Shape {
            operations: 1 + rng.below(200),
            keys: 1 + u64::from(rng.below(16)),
            reach: 1 + rng.below(8),
            failures_percent: rng.below(3) * 3,
            scans_percent: rng.below(30),
            closing: true,
        };
        let history = good(&mut rng, shape).history();
        let verdict = checker.check(&history);
        assert_eq!(verdict, Verdict::Linearizable, "seed {seed}\n{}", history.render());
    }
}

#[test]
fn three_judges_agree_on_small_histories() {
    let mut checker = Checker::default();
    let (mut good_ones, mut bad_ones, mut asked_stateright) = (0, 0, 0);
    for seed in 0..12_000 {
        let mut rng = Rng::new(seed);
        let closing = seed % 2 == 0;
        let shape = Shape { operations: 2 + rng.below(5), closing, ..SMALL };
        let history = good(&mut rng, shape);
        let history = if seed % 4 < 3 { mutate(&mut rng, history, shape.keys) } else { history };
        let history = history.history();
        // Ill-shaped pages are nothing the referees know of.
        if history.operations().iter().any(|record| crate::check::scan::page_fault(&history, record).is_some()) {
            continue;
        }
        let map = Map(history.initial().iter().copied().collect());
        let parts = parts(&history, 0..shape.keys);
        let verdict = passes(&mut checker, &history);
        if parts.len() <= 8 {
            assert_eq!(verdict, any_order(&map, &parts), "seed {seed}\n{}", history.render());
        }
        if !closing && parts.len() <= 8 {
            asked_stateright += 1;
            assert_eq!(verdict, stateright(&map, &parts), "seed {seed}\n{}", history.render());
        }
        good_ones += u32::from(verdict);
        bad_ones += u32::from(!verdict);
    }
    assert!(
        good_ones > 3000 && bad_ones > 3000 && asked_stateright > 4000,
        "{good_ones} {bad_ones} {asked_stateright}"
    );
}

#[test]
fn what_is_left_of_a_bad_history_is_bad_and_short() {
    let mut checker = Checker::default();
    let mut bad_ones = 0;
    let (mut operations, mut left) = (0, 0);
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let shape = Shape { operations: 60, keys: 4, reach: 4, failures_percent: 2, scans_percent: 10, closing: true };
        let history = good(&mut rng, shape);
        let history = mutate(&mut rng, history, shape.keys).history();
        let Verdict::Violation(violation) = checker.check(&history) else { continue };
        let Violation::Point(point) = *violation else { continue };
        bad_ones += 1;
        operations += history.operations().len();
        left += point.operations.len();
        assert!(point.operations.contains(&point.operation), "seed {seed}: {point:?}");
        // The shrunk history is bad by itself, without the rest.
        let mut alone = History::new();
        if let Some(value) = point.initial {
            alone.start_with(point.key, value);
        }
        let mut events: Vec<(u32, u8, OpId)> = Vec::new();
        for &id in &point.operations {
            let record = history.operation(id);
            events.push((record.invoked.sequence, 0, id));
            events.extend(record.answer.map(|(_, at)| (at.sequence, 1, id)));
            events.extend(record.closed.map(|at| (at.sequence, 2, id)));
        }
        events.sort_unstable();
        let mut ids = std::collections::BTreeMap::new();
        for (at, what, id) in events {
            let record = history.operation(id);
            let at = u64::from(at);
            let answer = record.answer.map(|(answer, _)| answer);
            let (call, answer) = match answer {
                Some(page @ Answer::Page { .. }) => {
                    let found = history.page(page).iter().find(|(key, _)| *key == point.key);
                    (GET, Some(found.map_or(Answer::Absent, |(_, value)| Answer::Found(*value))))
                }
                answer => (record.call, answer),
            };
            match what {
                0 => {
                    ids.insert(id, alone.invoke(record.lane, at, point.key, call));
                }
                1 => alone.respond(ids[&id], at, answer.unwrap()),
                _ => alone.close(ids[&id], at),
            }
        }
        assert!(!passes(&mut Checker::default(), &alone), "seed {seed}\n{}\n{}", history.render(), alone.render());
    }
    assert!(bad_ones > 500, "{bad_ones}");
    assert!(left * 8 < operations, "{left} of {operations} operations are left");
}

#[test]
fn thousands_of_usual_histories_a_second() {
    let histories: Vec<History> = (0..200)
        .map(|seed| {
            let mut rng = Rng::new(seed);
            let shape =
                Shape { operations: 120, keys: 8, reach: 4, failures_percent: 2, scans_percent: 5, closing: true };
            good(&mut rng, shape).history()
        })
        .collect();
    let mut checker = Checker::default();
    let start = std::time::Instant::now();
    for history in histories.iter().cycle().take(4000) {
        assert!(passes(&mut checker, history));
    }
    let elapsed = start.elapsed();
    let rate = 4000.0 / elapsed.as_secs_f64();
    println!("{rate:.0} histories of 120 operations a second; {:?}", checker.statistics());
    // Far below what any machine shows, so that only an explosion fails it.
    assert!(rate > 200.0, "{rate:.0} histories a second");
}
