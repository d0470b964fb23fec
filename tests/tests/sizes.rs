//! Sizes of everything that exists once per lane or per request: the golden `tests/goldens/sizes.txt`.
//!
//! A future may have [`FUTURE_BYTES_MAX`] bytes: firmware keeps them in static memory, hosts one per lane.

use dm_core::compute::locks::{Entry, Waiter};
use dm_core::index::{Index, Operation, OperationKind};
use dm_core::lane::{Lane, Ledger};
use dm_core::port::Port;
use dm_core::sherman::Sherman;
use dm_core::verbs::{Completion, LaneId, Request};
use dm_host::assembly::{Spending, with_items, with_sherman};
use dm_sim::Config;
use dm_tests::goldens;
use dm_tests::pool::Pool;
use std::fmt::Write as _;
use std::mem::{size_of, size_of_val};

const FUTURE_BYTES_MAX: usize = 2048;

/// Of items: the futures of the index below lie within theirs.
const ITEMS_FUTURE_BYTES_MAX: usize = FUTURE_BYTES_MAX + 512;

#[test]
fn sizes_are_as_blessed_and_futures_fit_their_bound() {
    let mut text = String::from("bytes on this 64-bit host\n\n");
    for (name, bytes) in [
        ("Request", size_of::<Request>()),
        ("Completion", size_of::<Completion>()),
        ("Port", size_of::<Port<'_>>()),
        ("Ledger", size_of::<Ledger>()),
        ("Lane", size_of::<Lane<'_>>()),
        ("Sherman", size_of::<Sherman<'_>>()),
        ("local lock entry", size_of::<Entry>()),
        ("local lock waiter", size_of::<Waiter>()),
    ] {
        let _ = writeln!(text, "{name:<40} {bytes:>6}");
    }
    text.push('\n');
    let config = Config::default();
    let pool = Pool::new(&config);
    let parameters = dm_core::sherman::parameters::Parameters::with_sizes(8, 8);
    with_sherman(&pool.place(0), &parameters, &Spending::default(), |index| {
        let mut scratch = vec![0; index.plan().total_bytes];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let operation = Operation::point(OperationKind::Get);
        for (name, bytes) in [
            ("future of execute, any operation", size_of_val(&index.execute(&lane, operation))),
            ("future of settle", size_of_val(&index.settle(&lane))),
            ("future of validate", size_of_val(&index.validate(&lane))),
            ("future of bulk_append", size_of_val(&index.bulk_append(&lane))),
            ("future of bulk_finish", size_of_val(&index.bulk_finish(&lane))),
        ] {
            assert!(bytes <= FUTURE_BYTES_MAX, "{name}: {bytes} bytes, at most {FUTURE_BYTES_MAX}");
            let _ = writeln!(text, "{name:<40} {bytes:>6}");
        }
    })
    .unwrap();
    text.push_str("\nitems over Sherman\n\n");
    let parameters = dm_core::sherman::parameters::Parameters::with_sizes(64, 16);
    let place = pool.place(0);
    let items = dm_core::items::parameters::Parameters { key_bytes_max: 256, value_bytes_max: 256 };
    with_sherman(&place, &parameters, &Spending::default(), |below| {
        with_items(&place, below, below.tree().requests, &items, &Spending::default(), |index| {
            let mut scratch = vec![0; index.plan().total_bytes];
            let lane = Lane::new(LaneId(0), &mut scratch);
            let operation = Operation::point(OperationKind::Get);
            for (name, bytes) in [
                ("future of execute, any operation", size_of_val(&index.execute(&lane, operation))),
                ("future of settle", size_of_val(&index.settle(&lane))),
                ("future of validate", size_of_val(&index.validate(&lane))),
            ] {
                assert!(bytes <= ITEMS_FUTURE_BYTES_MAX, "{name}: {bytes} bytes, at most {ITEMS_FUTURE_BYTES_MAX}");
                let _ = writeln!(text, "{name:<40} {bytes:>6}");
            }
        })
        .unwrap();
    })
    .unwrap();
    goldens::check("sizes.txt", &text);
}
