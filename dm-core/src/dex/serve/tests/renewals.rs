//! Logs that begin again at line 0, since their line numbers are used up.

use super::deaths::{Told, empty_pool, kill, look, with_owner, work};
use super::leaving::scuffle;
use super::*;
use crate::pages::lsn::LINES_END;

/// Whether the log has begun again.
fn has_restarted(dex: &Dex<'_>) -> bool {
    dex.log.state().next() >= LINES_END
}

#[test]
fn changes_go_on_when_line_numbers_end() {
    for level in Level::ALL {
        let pool = empty_pool();
        let mut told = Told::default();
        with_owner(&pool, 1, usize::MAX, |dex, lane| {
            dex.log.begin_at(LINES_END - 20);
            work(&pool, dex, lane, level, &mut told);
            assert!(has_restarted(dex), "{}", level.name());
            assert!(look(&pool, dex, lane, &told, level.name()));
            assert_eq!(dex.partition().word(0).epoch(), 2, "claimed, then renewed");
            pool.run(lane, Index::leave(dex, lane)).unwrap();
        });
        with_owner(&pool, 2, usize::MAX, |dex, lane| {
            assert!(look(&pool, dex, lane, &told, "the next owner"));
            pool.run(lane, dex.validate(lane)).unwrap();
        });
    }
}

#[test]
fn an_owner_may_die_at_any_line_while_it_renews() {
    for level in [Level::Log, Level::Pool] {
        let mut restarted = 0;
        for lives in 0.. {
            let (pool, mut told) = (empty_pool(), Told::default());
            with_owner(&pool, 1, lives, |dex, lane| {
                dex.log.begin_at(LINES_END - 20);
                work(&pool, dex, lane, level, &mut told);
                restarted += u32::from(has_restarted(dex));
            });
            let died = pool.lives.get() == 0;
            kill(&pool, 1);
            with_owner(&pool, 2, usize::MAX, |dex, lane| {
                assert!(look(&pool, dex, lane, &told, &std::format!("{} after {lives} lines", level.name())));
                pool.run(lane, dex.validate(lane)).unwrap();
            });
            if !died {
                break;
            }
        }
        assert!(restarted > 20, "{restarted}");
    }
}

#[test]
fn lanes_may_leave_while_tenures_are_renewed() {
    let mut restarted = 0;
    for seed in 1..=150 {
        let frames = [16, 24, 64][seed as usize % 3];
        let admission = if seed % 2 == 0 { Admission::per_10_000(4_000) } else { Admission::EAGER };
        let setup = Setup { lanes: 4, frames, admission, owned: 2, leaf_span: 2, ..SETUP };
        with_index(setup, |pool, dex, lanes| {
            let what = std::format!("seed {seed}");
            let mut random = Random(seed * 7919);
            dex.log.begin_at(LINES_END - 1 - random.below(40) as u64);
            scuffle(pool, dex, lanes, &mut random, &what);
            restarted += u32::from(has_restarted(dex));
            pool.run(&lanes[0], dex.validate(&lanes[0])).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(lanes.iter().all(|lane| !lane.in_doubt()), "{what}");
        });
    }
    assert!(restarted > 100, "{restarted}");
}
