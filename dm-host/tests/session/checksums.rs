//! Indexes that store a checksum with each record. What the checksums find is tested where dumps are, and in `dm_host::checked`.

use crate::key;
use crate::session_support::{options, pool_here, small_pages};
use dm_core::operation::Cause;
use dm_core::registry::KINDS;
use dm_core::remote::catalog::{FEATURE_CHECKSUMS, FEATURE_ITEMS, IndexKind};
use dm_core::remote::superblock::PoolPlan;
use dm_core::verbs::{NodeId, Space};
use dm_host::fabric::shm::ShmOptions;
use dm_host::memory_node::RemoteNode;
use dm_host::pool::{Pool, format, pool_id};
use dm_host::prelude::*;
use dm_host::region::{Backing, LineMode, Region, RegionSpec};
use dm_host::session::{Session, SessionError};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

fn refused(index: IndexOptions) -> String {
    index.parameters().unwrap_err().to_string()
}

#[test]
fn the_option_is_in_the_catalog_and_takes_four_bytes() {
    let pool = pool_here(1);
    let table =
        Table::<u64, u64>::open_with(&pool, "sealed", &IndexOptions::new().checksums(), &options(1, 1)).unwrap();
    assert_eq!((table.session().key_bytes(), table.session().value_bytes()), (8, 8));
    let entry = pool.find_index("sealed").unwrap().0;
    assert_eq!(entry.features.incompatible, FEATURE_CHECKSUMS);
    let other = Table::<u64, u64>::open_with(&pool, "sealed", &IndexOptions::new(), &options(1, 1)).unwrap_err();
    assert!(matches!(other, OpenError::Other { .. }) && other.to_string().contains("checksums of records"), "{other}");
    let any = IndexOptions::new().any_length(10, 0).checksums().parameters().unwrap();
    assert_eq!((any.features().incompatible, any.value_bytes()), (FEATURE_ITEMS | FEATURE_CHECKSUMS, 0));
    for &kind in KINDS {
        let index = IndexOptions::new().kind(kind).checksums();
        assert_eq!(index.fixed_bytes(8, 1020).parameters().unwrap().value_bytes(), 1020);
        assert!(refused(index.fixed_bytes(8, 1021)).contains("1021"), "{}", refused(index.fixed_bytes(8, 1021)));
        assert_eq!(index.any_length(8, 65_532).parameters().unwrap().value_bytes(), 65_532);
        assert!(refused(index.any_length(8, 65_533)).contains("65533"), "{}", refused(index.any_length(8, 65_533)));
        // Leaves keep their size: they have fewer entries.
        let (with, without) =
            (index.fixed_bytes(8, 8).parameters().unwrap(), IndexOptions::new().kind(kind).fixed_bytes(8, 8));
        let without = without.parameters().unwrap();
        assert!(
            with.leaf_span() <= without.leaf_span() && with.redo_bytes() <= without.redo_bytes().next_multiple_of(2048)
        );
    }
    // A value that has no room in one size any more has any length.
    let long = IndexOptions::new().checksums().parameters_of::<u64, [u8; 1022]>().unwrap();
    assert!(long.any_length.is_some() && long.value_bytes() >= 1022);
}

#[test]
fn what_is_stored_is_found_both_ways_and_by_many_at_once() {
    for &kind in KINDS {
        for index in [IndexOptions::new().fixed_bytes(8, 8), IndexOptions::new().any_length(8, 300)] {
            let pool = pool_here(2);
            let index = index.kind(kind).checksums();
            let table = Table::<u64, &[u8]>::open_with(&pool, "sealed", &index, &options(2, 4)).unwrap();
            let long = table.session().have_lengths();
            let value = |n: u64| if long { vec![n as u8; (n % 290) as usize] } else { vec![n as u8; (n % 8) as usize] };
            let mut model: BTreeMap<_, _> = (0..1500).map(|n| (n * 7 % 1501, value(n))).collect();
            let records: Vec<_> = model.iter().map(|(key, value)| (*key, value.as_slice())).collect();
            assert!(table.multi_put(records).wait().into_iter().all(|put| put.is_ok()));
            for key in (0..1501).step_by(5) {
                assert_eq!(table.update(key, b"other").wait().unwrap() == Update::Updated, model.contains_key(&key));
                model.entry(key).and_modify(|value| *value = b"other".to_vec());
            }
            let got = table.multi_get(0..1501).wait();
            assert!(
                got.into_iter().zip(0..1501).all(|(got, key)| got.unwrap().as_ref() == model.get(&key)),
                "{kind:?}"
            );
            let found: Vec<_> = table.range(..).collect::<Result<_, _>>().unwrap();
            assert!(found.iter().map(|(key, value)| (key, value)).eq(&model), "{kind:?}");
            let mut last: Vec<_> = table.range(..).rev().collect::<Result<_, _>>().unwrap();
            last.reverse();
            assert_eq!(last, found);
        }
    }
}

/// A pool of one memory node in this process, and its memory.
fn pool_with_memory() -> (Arc<Pool>, Arc<RemoteNode>) {
    let (region_bytes, device_bytes, mode) = (8 << 20, 4096, LineMode::Sequence);
    let region = Region::create(&RegionSpec { region_bytes, device_bytes, mode, backing: Backing::Memfd }).unwrap();
    let plan = PoolPlan {
        pool_id: pool_id("here").unwrap(),
        pool_incarnation: 1,
        node: NodeId(0),
        nodes: 1,
        region_bytes,
        chunk_bytes: 64 << 10,
        lock_count: 128,
        device_bytes: u64::from(device_bytes),
        redo_row_bytes: 0,
        index_count: 15,
    };
    region.write_image(0, &format(&plan).unwrap()).unwrap();
    let memory = Arc::new(RemoteNode::in_process(region));
    (Arc::new(Pool::of(vec![("here".into(), Arc::clone(&memory))], ShmOptions::default()).unwrap()), memory)
}

fn cause_of<T: std::fmt::Debug>(result: Result<T, SessionError>) -> Cause {
    match result.unwrap_err() {
        SessionError::Operation(error) => error.cause,
        other => panic!("{other:?}"),
    }
}

/// Whoever asks is told what is damaged, also where the owner of the key executes the operation: the caller once got an error that
/// said nothing of it.
#[test]
fn a_caller_is_told_what_the_owner_of_a_damaged_record_finds() {
    let (pool, memory) = pool_with_memory();
    let parameters = IndexOptions::new().kind(IndexKind::Dex).fixed_bytes(8, 8).checksums().parameters().unwrap();
    let open = || Session::open_or_create(&pool, "index", parameters, &small_pages()).unwrap();
    let first = open();
    let value = |n: u64| (0xabcd_ef01_2345_0000 + n).to_be_bytes();
    for n in 0..100 {
        first.insert(&key(n), &value(n)).wait().unwrap();
    }
    first.close();
    let mut heap = vec![0; 8 << 20];
    memory.region().area(Space::Host).read(0, &mut heap).unwrap();
    // The leaf has key and value side by side, unless the end of a line is between them. So has the log.
    let places = |n: u64| {
        let record = [&key(n)[..], &value(n)].concat();
        heap.windows(16).enumerate().filter(|(_, at)| *at == record).map(|(at, _)| at as u64).collect::<Vec<_>>()
    };
    let damaged = (0..6).max_by_key(|n| places(*n).len()).unwrap();
    for at in places(damaged) {
        memory.region().write_image(at + 15, &[heap[at as usize + 15] ^ 1]).unwrap();
    }
    let (there, other_key) = (key(damaged), key(damaged ^ 1));
    let (owner, other) = (open(), open());
    assert_eq!(owner.get(&other_key).wait().unwrap(), Some(value(damaged ^ 1).to_vec()), "it owns the keys now");
    let told = cause_of(owner.get(&there).wait());
    assert!(matches!(told, Cause::Checksum { .. }), "{told:?}");
    assert_eq!(cause_of(other.get(&there).wait()), told);
    assert_eq!(cause_of(other.insert(&there, &value(1)).wait()), told);
    assert_eq!(cause_of(other.delete_if(&there, &value(1)).wait()), told);
    let scanned: Result<Vec<_>, _> = other.scan(Bound::Unbounded, Bound::Unbounded).collect();
    assert_eq!(cause_of(scanned), told);
    assert_eq!(cause_of(other.local().unwrap().get(&there)), told);
    // An upsert repairs it, also there.
    other.upsert(&there, &value(8)).wait().unwrap();
    assert_eq!(other.get(&there).wait().unwrap(), Some(value(8).to_vec()));
    assert_eq!(other.scan(Bound::Unbounded, Bound::Unbounded).count_records(), Ok(100));
    other.close();
    owner.close();
}
