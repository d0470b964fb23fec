//! Sizes of everything that exists once per lane or per request: the golden `tests/goldens/sizes.txt`.
//!
//! A future may have [`FUTURE_BYTES_MAX`] bytes: firmware keeps them in static memory, hosts one per lane.

use dm_core::chime::Chime;
use dm_core::index::Index;
use dm_core::lane::{Lane, LockRecords};
use dm_core::locks::table::{Entry, Waiter};
use dm_core::operation::{Operation, OperationKind};
use dm_core::port::Port;
use dm_core::sherman::Sherman;
use dm_core::smart::Smart;
use dm_core::verbs::{Completion, LaneId, Request};
use dm_host::assembly::{Spending, with_items};
use dm_host::kinds::Kind as _;
use dm_sim::Config;
use dm_tests::goldens;
use dm_tests::pool::Pool;
use std::fmt::Write as _;
use std::mem::{size_of, size_of_val};

const FUTURE_BYTES_MAX: usize = 2048;

/// Of items: the futures of the index below lie within theirs, in one that has the owner of a step execute it.
const ITEMS_FUTURE_BYTES_MAX: usize = FUTURE_BYTES_MAX + 320;

/// Notes the sizes of an index's futures. Those of execute, settle and bulk loads are once per lane and keep the bound;
/// the others are once per compute node.
fn futures(text: &mut String, name: &str, index: &impl Index, bytes_max: usize) {
    let mut scratch = vec![0; index.plan().total_bytes];
    let lane = Lane::new(LaneId(0), &mut scratch);
    let operation = Operation::point(OperationKind::Get);
    let _ = writeln!(text, "\nfutures of {name}\n");
    for (what, bytes) in [
        ("execute, any operation", size_of_val(&index.execute(&lane, operation))),
        ("settle", size_of_val(&index.settle(&lane))),
        ("validate", size_of_val(&index.validate(&lane))),
        ("bulk_append", size_of_val(&index.bulk_append(&lane))),
        ("bulk_finish", size_of_val(&index.bulk_finish(&lane))),
    ] {
        assert!(bytes <= bytes_max, "{name}, {what}: {bytes} bytes, at most {bytes_max}");
        let _ = writeln!(text, "{what:<40} {bytes:>6}");
    }
}

#[test]
fn sizes_are_as_blessed_and_futures_fit_their_bound() {
    let mut text = String::from("bytes on this 64-bit host\n\n");
    for (name, bytes) in [
        ("Request", size_of::<Request>()),
        ("Completion", size_of::<Completion>()),
        ("Port", size_of::<Port<'_>>()),
        ("LockRecords", size_of::<LockRecords>()),
        ("Lane", size_of::<Lane<'_>>()),
        ("Sherman", size_of::<Sherman<'_>>()),
        ("Chime", size_of::<Chime<'_>>()),
        ("Smart", size_of::<Smart<'_>>()),
        ("local lock entry", size_of::<Entry>()),
        ("local lock waiter", size_of::<Waiter>()),
    ] {
        let _ = writeln!(text, "{name:<40} {bytes:>6}");
    }
    let config = Config::default();
    let pool = Pool::new(&config);
    let (place, spending) = (pool.place(0), Spending::default());
    let sherman = dm_core::sherman::parameters::Parameters::with_sizes(8, 8);
    sherman.with(&place, &spending, |index| futures(&mut text, "Sherman", index, FUTURE_BYTES_MAX)).unwrap();
    let chime = dm_core::chime::parameters::Parameters::with_sizes(8, 8);
    chime.with(&place, &spending, |index| futures(&mut text, "CHIME", index, FUTURE_BYTES_MAX)).unwrap();
    let smart = dm_core::smart::parameters::Parameters::with_sizes(8, 8);
    smart.with(&place, &spending, |index| futures(&mut text, "SMART", index, FUTURE_BYTES_MAX)).unwrap();
    let below = dm_core::sherman::parameters::Parameters::with_sizes(64, 16);
    let items = dm_core::items::parameters::Parameters { key_bytes_max: 256, value_bytes_max: 256 };
    below
        .with(&place, &spending, |below| {
            with_items(&place, below, below.tree().requests, &items, &spending, |index| {
                futures(&mut text, "items over Sherman", index, ITEMS_FUTURE_BYTES_MAX);
            })
            .unwrap();
        })
        .unwrap();
    let below = dm_core::smart::parameters::Parameters::with_sizes(64, 16);
    below
        .with(&place, &spending, |below| {
            with_items(&place, below, below.requests(), &items, &spending, |index| {
                futures(&mut text, "items over SMART", index, ITEMS_FUTURE_BYTES_MAX);
            })
            .unwrap();
        })
        .unwrap();
    goldens::check("sizes.txt", &text);
}
