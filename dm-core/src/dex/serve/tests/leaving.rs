//! Lanes that are dropped at any time, while others wait for what they have.

use super::*;
use crate::dex::log::append::PARK_NS_MAX;
use crate::lane::Lane;

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), OpError>> + 'a>>;

/// What a lane does.
struct Busy<'a> {
    future: Running<'a>,
    /// Its submit is not executed yet.
    unposted: bool,
    parked: bool,
    /// It was woken.
    token: bool,
    /// Its sleep ends by itself: a lane that was to wake it may be gone.
    sleeps_shortly: bool,
}

/// Random lanes take random steps, and are dropped now and then. A lane that was dropped settles before it goes on. Every
/// lane ends, and nothing stays owed.
pub(super) fn scuffle(pool: &Pool, dex: &Dex<'_>, lanes: &[Lane<'_>], random: &mut Random, what: &str) {
    let mut running: Vec<Option<Busy<'_>>> = lanes.iter().map(|_| None).collect();
    let mut left = 120;
    // Steps since a lane has posted something.
    let mut idle = 0;
    loop {
        let at = random.below(lanes.len());
        let lane = &lanes[at];
        let Some(run) = &mut running[at] else {
            let future: Running<'_> = if lane.in_doubt() {
                Box::pin(dex.settle(lane))
            } else if left > 0 {
                left -= 1;
                let kind = [OperationKind::Upsert, OperationKind::Delete, OperationKind::Insert, OperationKind::Get]
                    [random.below(4)];
                set(dex, lane, random.below(12) as u64, left, 0);
                dex.set_level(lane, Level::ALL[random.below(3)]);
                Box::pin(async move { dex.execute(lane, Operation::point(kind)).await.map(|_| ()) })
            } else if running.iter().all(Option::is_none) && lanes.iter().all(|lane| !lane.in_doubt()) {
                break;
            } else {
                continue;
            };
            lane.port().start();
            running[at] = Some(Busy { future, unposted: false, parked: false, token: false, sleeps_shortly: false });
            continue;
        };
        let mut woken = Vec::new();
        if left > 0 && random.below(25) == 0 {
            // Its requests go on, and complete.
            let was_submitted = lane.port().state() == crate::port::State::Submitted;
            running[at] = None;
            if was_submitted {
                woken = pool.execute(lane);
            }
            lane.port().reset();
        } else if run.unposted {
            run.unposted = false;
            woken = pool.execute(lane);
        } else if run.parked && !run.token {
            // Time passes.
            idle += 1;
            run.token = run.sleeps_shortly && random.below(100) == 0;
            assert!(idle < 100_000, "{what}: every lane waits to be woken");
        } else {
            (run.parked, run.token) = (false, false);
            match poll_once(lane.port(), run.future.as_mut()) {
                Step::Waiting => {}
                Step::Requests if lane.port().requests().iter().any(|request| request.verb == Verb::Park) => {
                    let shortly = |request: &Request| request.verb == Verb::Park && request.operands[0] <= PARK_NS_MAX;
                    (run.parked, run.sleeps_shortly) = (true, lane.port().requests().iter().any(shortly));
                    woken = pool.execute(lane);
                }
                Step::Requests => (run.unposted, idle) = (true, 0),
                Step::Done(result) => {
                    result.unwrap_or_else(|error| panic!("{what}: {error}"));
                    running[at] = None;
                    if lane.port().flush() {
                        woken = pool.execute(lane);
                        lane.port().reset();
                    }
                }
            }
        }
        for id in woken {
            if let Some(run) = &mut running[usize::from(id)] {
                run.token = true;
            }
        }
    }
}

#[test]
fn lanes_may_leave_at_any_time() {
    for seed in 1..=300 {
        let frames = [16, 24, 64][seed as usize % 3];
        let admission = if seed % 2 == 0 { Admission::per_10_000(4_000) } else { Admission::EAGER };
        let setup = Setup { lanes: 4, frames, admission, owned: 2, leaf_span: 2, ..SETUP };
        with_index(setup, |pool, dex, lanes| {
            let what = std::format!("seed {seed}");
            scuffle(pool, dex, lanes, &mut Random(seed * 7919), &what);
            pool.run(&lanes[0], dex.validate(&lanes[0])).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(lanes.iter().all(|lane| !lane.in_doubt()), "{what}");
        });
    }
}
