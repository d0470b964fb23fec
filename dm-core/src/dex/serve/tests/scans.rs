//! Scans, with leaves in frames and in the pool, and at the end of what is owned.

use super::*;
use crate::mutants::{Mutant, with_planted};

/// A page from a key on: its records, and whether there may be more.
fn page(
    pool: &Pool,
    dex: &Dex<'_>,
    lane: &Lane<'_>,
    operation: Operation,
    (key, high): (u64, u64),
) -> Result<(Vec<(u64, u64)>, bool), OpError> {
    set(dex, lane, key, 0, 0);
    lane.port().with(|scratch| scratch[dex.plan.key_high.clone()].copy_from_slice(&high.to_be_bytes()));
    match pool.run(lane, dex.execute(lane, operation))? {
        Outcome::Page { records, more } => {
            let of = |(key, value): (&[u8], &[u8])| {
                (u64::from_be_bytes(key.try_into().unwrap()), u64::from_le_bytes(value.try_into().unwrap()))
            };
            let records = lane.port().with(|scratch| dex.plan.records(scratch, records as usize).map(of).collect());
            Ok((records, more))
        }
        other => panic!("{other:?}"),
    }
}

/// All pages from the least key on, and the error with which the last one ended.
fn all(pool: &Pool, dex: &Dex<'_>, lane: &Lane<'_>, limit: u32) -> (Vec<(u64, u64)>, OpError) {
    let (mut records, mut operation, mut key) = (Vec::new(), Operation::scan(limit), 0);
    loop {
        match page(pool, dex, lane, operation, (key, 0)) {
            Ok((more, true)) => {
                assert!(!more.is_empty());
                key = more.last().unwrap().0;
                records.extend(more);
                operation.after = true;
            }
            Ok((_, false)) => panic!("the last entry is another compute node's"),
            Err(error) => return (records, error),
        }
    }
}

#[test]
fn scans_find_what_a_map_finds_and_end_with_what_is_owned() {
    let rarely = Admission::per_10_000(3_000);
    for (frames, admission, leaves, offload) in [
        (64, Admission::EAGER, 2, Mode::Never),
        (8, Admission::EAGER, 2, Mode::Never),
        (8, rarely, 1, Mode::Never),
        (8, Admission::EAGER, 3, Mode::Always),
        (8, rarely, 4, Mode::ByCost),
    ] {
        let pool = Pool::new();
        let setup = Setup { frames, admission, offload, ..SETUP };
        let mut model = BTreeMap::new();
        with_node(&pool, setup, 1, |dex, lanes| {
            let lane = &lanes[0];
            pool.run(lane, dex.create(lane)).unwrap();
            let mut random = Random(77 + frames as u64 + leaves);
            for step in 0..300 {
                let key = random.below(4000) as u64;
                point(&pool, dex, lane, OperationKind::Upsert, key, step).unwrap();
                model.insert(key, step);
            }
            let wanted: Vec<(u64, u64)> = model.iter().map(|(key, value)| (*key, *value)).collect();
            for limit in [1, 7, 16, 100] {
                let (records, error) = all(&pool, dex, lane, limit);
                assert_eq!(records, wanted, "pages of {limit}");
                assert_eq!(error, OpError::harmless(Cause::NotOwner { row: OTHER, epoch: 1 }));
            }
            // Below a bound the end is known.
            for _ in 0..50 {
                let (low, high) = (random.below(3000) as u64, 1000 + random.below(2900) as u64);
                let operation = Operation { bounded: true, ..Operation::scan(16) };
                let (records, more) = page(&pool, dex, lane, operation, (low, high)).unwrap();
                let wanted: Vec<(u64, u64)> = if low < high {
                    model.range(low..high).take(16).map(|(key, value)| (*key, *value)).collect()
                } else {
                    Vec::new()
                };
                assert_eq!(records, wanted, "{low}..{high}");
                assert!(more || records.len() == model.range(low..high.max(low)).count());
            }
            assert!(!lane.is_unsettled());
        });
    }
}

#[test]
fn leaves_that_are_in_no_frame_are_read_at_once() {
    let pool = Pool::new();
    with_node(&pool, SETUP, 1, |dex, lanes| {
        let lane = &lanes[0];
        for key in 0..60 {
            set(dex, lane, key * 10, key, 0);
            pool.run(lane, dex.append_record(lane)).unwrap();
        }
        pool.run(lane, dex.finish_load(lane)).unwrap();
        // The inner nodes come into the cache.
        for key in 0..60 {
            get(&pool, dex, lane, key * 10);
        }
        pool.taken();
        let (records, _) = page(&pool, dex, lane, Operation::scan(16), (0, 0)).unwrap();
        assert_eq!((records.len(), pool.taken()), (16, vec![]), "every leaf is in a frame");
    });
    with_node(&pool, SETUP, 2, |dex, lanes| {
        let lane = &lanes[0];
        for key in [0, 590] {
            get(&pool, dex, lane, key);
        }
        pool.taken();
        let (records, _) = page(&pool, dex, lane, Operation::scan(16), (0, 0)).unwrap();
        let reads = pool.taken().iter().filter(|request| **request == (Verb::Read, Label::Leaf)).count();
        assert_eq!(records.len(), 16);
        // Leaves have seven records: the first is in a frame, and the others are READ two at a time.
        assert!(reads >= 2 && lane.port().round_trips() < 2 + reads as u32, "{reads} READs");
    });
}

/// Whether a page at level `log` waits for what another lane has changed at level `cache`.
fn a_page_waits_for_what_it_saw() -> bool {
    with_index(SETUP, |pool, dex, lanes| {
        dex.set_level(&lanes[0], Level::Cache);
        point(pool, dex, &lanes[0], OperationKind::Insert, 5, 1).unwrap();
        point(pool, dex, &lanes[0], OperationKind::Insert, 1005, 2).unwrap();
        pool.taken();
        let (records, _) = page(pool, dex, &lanes[1], Operation::scan(16), (0, 0)).unwrap();
        assert_eq!(records, [(5, 1), (1005, 2)]);
        pool.may_answer.store(false, Ordering::Relaxed);
        let refused = page(pool, dex, &lanes[1], Operation::scan(16), (0, 0));
        assert_eq!(refused, Err(OpError::harmless(Cause::Fenced)));
        pool.taken().contains(&(Verb::Write, Label::Log))
    })
}

#[test]
fn a_page_answers_like_a_get() {
    assert!(a_page_waits_for_what_it_saw());
    assert!(!with_planted(Some(Mutant::UNDURABLE_READ_ANSWERED), a_page_waits_for_what_it_saw));
}
