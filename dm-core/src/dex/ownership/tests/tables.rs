//! Tables: how boundaries are made, what is refused, and what a compute node knows of one.

use super::super::partition::{EntryCell, NotOwner, Partition, Tenure};
use super::super::table::{Table, TableError, TableShape, TableWriter};
use super::super::{OwnerWord, Refused};
use crate::remote::catalog::IndexNumber;
use crate::remote::lock_word::RowId;
use crate::remote::owners::{LoadWord, TableHeader};
extern crate std;
use std::string::ToString;
use std::sync::atomic::AtomicU32;
use std::vec;
use std::vec::Vec;
use zerocopy::IntoBytes;

/// Entries for which the table has room.
const CAPACITY: usize = 6;

/// Storage for what is known of the table.
fn room() -> ([AtomicU32; 2 * CAPACITY], [AtomicU32; CAPACITY]) {
    ([const { AtomicU32::new(0) }; 2 * CAPACITY], [const { AtomicU32::new(0) }; CAPACITY])
}

const INDEX: IndexNumber = match IndexNumber::new(2) {
    Some(index) => index,
    None => IndexNumber::NONE,
};

fn image_of(
    shape: TableShape,
    make: impl FnOnce(TableWriter<'_>) -> Result<u32, TableError>,
) -> Result<Vec<u8>, TableError> {
    let mut image = vec![0xee; shape.bytes()];
    make(TableWriter::start(shape, INDEX, 3, &mut image)?)?;
    Ok(image)
}

fn boundaries(image: &[u8], shape: TableShape) -> Vec<u64> {
    let table = Table::decode(shape, INDEX, 3, image).unwrap();
    (0..table.count()).map(|entry| u64::from_be_bytes(table.boundary(entry)[..8].try_into().unwrap())).collect()
}

/// As a table was before there were loads.
fn without_loads(image: &[u8]) -> Vec<u8> {
    let (header, rest) = image.split_at(TableHeader::BYTES);
    let header = TableHeader { version: 0, ..TableHeader::from_prefix(header).unwrap() }.sealed();
    [header.as_bytes(), rest].concat()
}

fn shape() -> TableShape {
    TableShape::new(8, CAPACITY as u32).unwrap()
}

#[test]
fn boundaries_are_even_given_or_quantiles() {
    let even = image_of(shape(), |writer| writer.even(4, 0, u64::MAX)).unwrap();
    assert_eq!(boundaries(&even, shape()), [0, 1 << 62, 2 << 62, 3 << 62]);
    let dense = image_of(shape(), |writer| writer.even(3, 100, 129)).unwrap();
    assert_eq!(boundaries(&dense, shape()), [0, 110, 120]);
    let keys: Vec<[u8; 8]> = (0..10_u64).map(|key| (key * key).to_be_bytes()).collect();
    let quantiles = image_of(shape(), |writer| writer.quantiles(5, 10, |i| &keys[i as usize])).unwrap();
    assert_eq!(boundaries(&quantiles, shape()), [0, 4, 16, 36, 64]);
    let given = image_of(shape(), |writer| writer.given(keys[2..4].iter().map(<[u8; 8]>::as_slice))).unwrap();
    assert_eq!(boundaries(&given, shape()), [0, 4, 9]);
    let one = image_of(shape(), |writer| writer.even(1, 0, 0)).unwrap();
    assert_eq!(boundaries(&one, shape()), [0]);
    let long = TableShape::new(13, 3).unwrap();
    let long_keys = image_of(long, |writer| writer.even(3, 0, u64::MAX)).unwrap();
    assert_eq!(boundaries(&long_keys, long), [0, u64::MAX / 3, u64::MAX / 3 * 2]);
}

#[test]
fn overlaps_gaps_and_too_few_keys_are_refused() {
    let [zero, one, two, three] = [0_u64, 1, 2, 3].map(u64::to_be_bytes);
    let ranges = |ranges: &[(&[u8], Option<&[u8]>)]| {
        image_of(shape(), |writer| writer.ranges(ranges.iter().copied())).map(|_| ())
    };
    assert_eq!(ranges(&[(&zero, Some(&one)), (&one, Some(&two)), (&two, None)]), Ok(()));
    assert_eq!(ranges(&[(&zero, Some(&two)), (&one, None)]), Err(TableError::Overlap { entry: 1 }));
    assert_eq!(ranges(&[(&zero, None), (&one, None)]), Err(TableError::Overlap { entry: 1 }));
    assert_eq!(ranges(&[(&zero, Some(&one)), (&two, None)]), Err(TableError::Gap { entry: 1 }));
    assert_eq!(ranges(&[(&one, None)]), Err(TableError::Gap { entry: 0 }));
    assert_eq!(ranges(&[(&zero, Some(&one)), (&one, Some(&three))]), Err(TableError::NoEnd { entry: 1 }));
    assert_eq!(ranges(&[(&zero, Some(&zero))]), Err(TableError::Overlap { entry: 1 }));
    assert_eq!(ranges(&[]), Err(TableError::Entries { entries: 0 }));
    let given = |keys: &[&[u8]]| image_of(shape(), |writer| writer.given(keys.iter().copied())).map(|_| ());
    assert_eq!(given(&[&two, &two]), Err(TableError::Overlap { entry: 2 }));
    assert_eq!(given(&[&zero]), Err(TableError::Overlap { entry: 1 }));
    assert_eq!(given(&[b"short"]), Err(TableError::KeyBytes { key_bytes: 8, found: 5 }));
    assert_eq!(given(&[one.as_slice(); 6]), Err(TableError::Overlap { entry: 2 }));
    let even = |entries, last| image_of(shape(), |writer| writer.even(entries, 0, last)).map(|_| ());
    assert_eq!(even(5, 3), Err(TableError::TooFewKeys { entries: 5, keys: 4, entry: 1 }));
    assert_eq!(even(0, 3), Err(TableError::Entries { entries: 0 }));
    assert_eq!(even(7, u64::MAX), Err(TableError::Entries { entries: 7 }));
    let same = image_of(shape(), |writer| writer.quantiles(3, 9, |_| &two)).unwrap_err();
    assert_eq!(same, TableError::TooFewKeys { entries: 3, keys: 9, entry: 2 });
    assert!(image_of(shape(), |writer| writer.quantiles(3, 2, |_| &two)).is_err());
    assert!(TableShape::new(7, 1).is_err() && TableShape::new(8, 0).is_err() && TableShape::new(8, 4097).is_err());
    assert!(matches!(TableWriter::start(shape(), INDEX, 3, &mut [0; 64]), Err(TableError::Room { .. })));
}

#[test]
fn a_damaged_table_or_another_ones_is_refused() {
    let image = image_of(shape(), |writer| writer.even(4, 0, u64::MAX)).unwrap();
    let decode = |image: &[u8]| Table::decode(shape(), INDEX, 3, image).map(|_| ());
    assert_eq!(decode(&image), Ok(()));
    assert_eq!(Table::decode(shape(), INDEX, 4, &image).map(|_| ()), Err(TableError::Other));
    assert_eq!(Table::decode(shape(), IndexNumber::NONE, 3, &image).map(|_| ()), Err(TableError::Other));
    assert_eq!(Table::decode(TableShape::new(8, 5).unwrap(), INDEX, 3, &image).map(|_| ()), Err(TableError::Other));
    assert_eq!(decode(&without_loads(&image)), Err(TableError::Version { found: 0 }));
    assert!(decode(&image[..image.len() - 1]).is_err() && decode(&vec![0; image.len()]).is_err());
    // Words change, and say themselves whether they can be; so do loads. Everything else that is in use is checked.
    let words = TableShape::word_at(0)..shape().load_at(6);
    for at in
        (0..shape().boundary_at(4)).filter(|at| !words.contains(at) && !(4..8).contains(at) && !(160..192).contains(at))
    {
        let mut damaged = image.clone();
        damaged[at] ^= 0x40;
        assert!(decode(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn every_key_has_one_entry_whatever_their_order_in_the_table() {
    let image = image_of(shape(), |writer| writer.even(5, 0, 49)).unwrap();
    // As after a cut of entry 1: the new entry is the last of the table, and not the last of the keys.
    let mut shuffled = image.clone();
    let [a, b] = [2, 4].map(|entry| shape().boundary_at(entry));
    let keys = [a, b].map(|at| image[at + 8..at + 16].to_vec());
    for (at, entry, key) in [(a, 2_u32, &keys[1]), (b, 4, &keys[0])] {
        let mut checked = entry.to_le_bytes().to_vec();
        checked.extend(key);
        shuffled[at..at + 4].copy_from_slice(&crate::layout::record::CRC.checksum(&checked).to_le_bytes());
        shuffled[at + 8..at + 16].copy_from_slice(key);
    }
    for (image, order) in [(&image, [0, 1, 2, 3, 4]), (&shuffled, [0, 1, 4, 3, 2])] {
        let table = Table::decode(shape(), INDEX, 3, image).unwrap();
        let (bounds, ranks) = room();
        let cells: [EntryCell; CAPACITY] = Default::default();
        let partition = Partition::open(&table, RowId(3), &bounds, &ranks, &cells).unwrap();
        for key in 0..60_u64 {
            let rank = (key / 10).min(4) as usize;
            assert_eq!(partition.entry_of(&key.to_be_bytes()), order[rank], "key {key}");
            // Entries between those of both ends have keys within, too.
            let have = |entry: &u32| partition.is_within(*entry, &key.to_be_bytes(), &(key + 20).to_be_bytes());
            let last = ((key + 20) / 10).min(4) as usize;
            assert!(order[rank..=last].iter().all(have) && !order[..rank].iter().chain(&order[last + 1..]).any(have));
            let (low, high) = (partition.low_of(&key.to_be_bytes()), partition.high_of(&key.to_be_bytes()));
            assert_eq!(*low, (rank as u64 * 10).to_be_bytes());
            assert_eq!(
                high.map(|high| high.to_vec()),
                (rank < 4).then(|| (rank as u64 * 10 + 10).to_be_bytes().to_vec())
            );
        }
    }
    let mut twice = image;
    let at = shape().boundary_at(3);
    let key = twice[shape().boundary_at(2) + 8..][..8].to_vec();
    let mut checked = 3_u32.to_le_bytes().to_vec();
    checked.extend(&key);
    twice[at..at + 4].copy_from_slice(&crate::layout::record::CRC.checksum(&checked).to_le_bytes());
    twice[at + 8..at + 16].copy_from_slice(&key);
    let table = Table::decode(shape(), INDEX, 3, &twice).unwrap();
    let cells: [EntryCell; CAPACITY] = Default::default();
    let opened = Partition::open(&table, RowId(3), &room().0, &room().1, &cells).map(|_| ());
    assert!(matches!(opened, Err(TableError::Overlap { .. })), "{opened:?}");
}

#[test]
fn a_tenure_ends_with_its_epoch() {
    let image = image_of(shape(), |writer| writer.even(2, 0, u64::MAX)).unwrap();
    let table = Table::decode(shape(), INDEX, 3, &image).unwrap();
    let (bounds, ranks) = room();
    let cells: [EntryCell; CAPACITY] = Default::default();
    let me = RowId(3);
    let partition = Partition::open(&table, me, &bounds, &ranks, &cells).unwrap();
    let key = [0xff; 8];
    assert_eq!(partition.tenure_of(&key), Err(NotOwner { entry: 1, row: RowId(0), epoch: 0 }));
    assert_eq!(partition.admit(1), None, "the word is not its own");
    let owned = OwnerWord::FREE.claim(me).unwrap();
    partition.note(1, owned, OwnerWord::FREE).unwrap();
    assert_eq!(partition.tenure_of(&key), Err(NotOwner { entry: 1, row: me, epoch: 1 }), "not admitted yet");
    let tenure = partition.admit(1).unwrap();
    assert_eq!((tenure, partition.tenure_of(&key)), (Tenure { entry: 1, epoch: 1 }, Ok(tenure)));
    assert!(partition.holds(tenure) && partition.tenure_of(&[0; 8]).is_err());
    let changes = partition.changes();
    partition.note(1, owned, owned).unwrap();
    assert!(partition.may_keep(1, changes), "this compute node has had it all the time");
    assert!(partition.holds(tenure), "the same word ends nothing");
    partition.close(1);
    assert!(!partition.holds(tenure));
    let again = partition.admit(1).unwrap();
    let recovering = owned.recover(RowId(7), me).unwrap();
    partition.note(1, recovering, owned).unwrap();
    assert!(!partition.holds(again), "others took this compute node for dead");
    assert!(!partition.may_keep(1, changes) && !partition.may_keep(1, partition.changes()));
    assert_eq!(partition.note(1, owned, recovering), Err(Refused::FromThePast { seen: 2, found: 1 }));
    partition.note(1, owned, owned).unwrap();
    assert!(matches!(partition.note(1, OwnerWord(9), recovering), Err(Refused::Corrupt { .. })));
    assert_eq!(partition.owner_of(&key), (1, recovering));
    let not_owner = partition.tenure_of(&key).unwrap_err();
    assert_eq!(not_owner.to_string(), "the key belongs to entry 1, which row 7 has since epoch 2 (0 = nobody)");
}

#[test]
fn an_owner_says_what_it_has_counted_in_its_own_tenure() {
    let image = image_of(shape(), |writer| writer.even(3, 0, u64::MAX)).unwrap();
    let table = Table::decode(shape(), INDEX, 3, &image).unwrap();
    assert_eq!(table.load(2), LoadWord::NONE);
    let (bounds, ranks) = room();
    let cells: [EntryCell; CAPACITY] = Default::default();
    let partition = Partition::open(&table, RowId(3), &bounds, &ranks, &cells).unwrap();
    let owned = OwnerWord::FREE.claim(RowId(3)).unwrap();
    partition.note(0, owned, OwnerWord::FREE).unwrap();
    let tenure = partition.admit(0).unwrap();
    let garbage = LoadWord(0xfedc_ba98_7654_3210);
    assert!(partition.note_load(0, garbage), "it serves this one");
    assert!(!partition.note_load(1, garbage) && !partition.note_load(9, garbage), "others say what these have");
    assert_eq!((partition.load(0), partition.load(1)), (LoadWord::new(0, 1), garbage));
    assert_eq!(partition.end_count(7, false), Some(0), "the first time");
    assert_eq!(partition.end_count(8, false), None);
    assert_eq!(partition.end_count(8, true), Some(1));
    assert_eq!(partition.take_load(0, 1), Some(LoadWord::new(0, 1)));
    for _ in 0..100 {
        partition.count_sample(tenure);
    }
    partition.count_sample(Tenure { entry: 9, epoch: 1 });
    let elapsed_us = partition.end_count(1_000_008, false).unwrap();
    assert_eq!(
        partition.take_load(0, elapsed_us),
        Some(LoadWord::new(1600 / 3, 1)),
        "1600 in a second, and 2 of 0 before"
    );
    assert_eq!([1, 9].map(|entry| partition.take_load(entry, elapsed_us)), [None; 2]);
    assert_eq!(partition.end_count(5, false), None, "a clock that goes back counts nothing");
    partition.close(0);
    assert_eq!(partition.take_load(0, 1), None);
}
