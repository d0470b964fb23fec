//! What indexes whose keys have owners store beside their nodes: log rings, page images, ownership tables.

use crate::fuzz;
use crate::input::Input;
use crate::pool::{MEMBER, PLAN};
use dm_core::dex::image::PageImage;
use dm_core::dex::log::record::{Change, RECORD_LINES_MAX, Record};
use dm_core::dex::log::replay::{Next, Replay};
use dm_core::dex::log::ring::{RING_CHUNKS, Ring, RingHead, RingOwner};
use dm_core::dex::ownership::table::{Table, TableShape, TableWriter};
use dm_core::dex::ownership::{LoadWord, OwnerWord};
use dm_core::layout::LINE_BYTES;
use dm_core::membership::redo;
use dm_core::pages::lsn::{LINES_END, Lsn};
use dm_core::remote::address::Address;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::superblock::Superblock;
use dm_core::verbs::NodeId;
use zerocopy::IntoBytes as _;

const POOL: ([u8; 16], u64) = (PLAN.pool_id, PLAN.pool_incarnation);

fn number() -> IndexNumber {
    IndexNumber::new(3).expect("the fourth")
}

fn owner() -> RingOwner {
    RingOwner::new(POOL, number(), MEMBER, 0x77_0000_0005)
}

/// Gives changed bytes a right checksum, which is in front of them.
fn reseal(bytes: &mut [u8]) {
    let checksum = redo::checksum(bytes);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn log_ring() {
    let superblock = PLAN.format().expect("it fits");
    let geometry = Superblock::decode(superblock.as_bytes()).expect("it is sound").geometry;
    let sample = Ring::new(NodeId(1), &geometry, &[2, 5, 3]).expect("three chunks").describe(&owner(), &geometry);
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let (sealed, first) = (!input.one_in(4), input.word());
        let (mut description, mut head) = (sample, RingHead::new(MEMBER.incarnation, input.word() % (2 * LINES_END)));
        let changes = input.rest();
        Input::new(changes).change(description.as_mut_bytes());
        Input::new(changes.get(1..).unwrap_or_default()).change(head.as_mut_bytes());
        if sealed {
            reseal(description.as_mut_bytes());
            reseal(head.as_mut_bytes());
        }
        if let Ok(line) = head.decode(MEMBER.incarnation) {
            assert!(line < LINES_END);
        }
        let Ok((ring, _)) = description.decode(&owner(), NodeId(1), &geometry) else { return };
        assert!(ring.lines() <= Ring::lines_max(RING_CHUNKS, geometry.chunk_bytes));
        // Whatever line is asked for, its run lies in one chunk.
        let run = ring.run(first % LINES_END, ring.lines());
        let chunk = geometry.chunk_of(run.offset).expect("a chunk of the memory node");
        assert!(run.lines > 0 && geometry.chunk_of(run.offset + run.lines * LINE_BYTES as u64 - 1) == Some(chunk));
    });
}

#[test]
fn log_records() {
    const RING_LINES: u64 = 40;
    let seal = owner().seal();
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let sealed = !input.one_in(4);
        let (mut lines, mut at, mut line) = (vec![0; RING_LINES as usize * LINE_BYTES], 0, u64::from(input.byte()));
        let (head, mut written) = (line, 0);
        for _ in 0..=input.byte() % 6 {
            let (key, value) = ([input.byte(); 64], [input.byte(); 1024]);
            let (key, value) = (&key[..=usize::from(input.byte() % 64)], &value[..4 * usize::from(input.byte())]);
            let change = input.choose(&[Change::Put { key, value }, Change::Delete { key }, Change::None]);
            let record = Record { lsn: Lsn::new(2, line), entry: input.byte().into(), change };
            let count = record.write(seal.incarnation, &mut lines[at..]);
            seal.close(&mut lines[at..]);
            (at, line, written) = (at + count * LINE_BYTES, line + count as u64, written + u32::from(count > 0));
        }
        let before = lines.clone();
        input.change(&mut lines);
        if sealed {
            seal.close(&mut lines);
        }
        let mut replay = Replay::of(RING_LINES, seal, head);
        let (mut at, mut read, mut records) = (0, 0, 0);
        loop {
            match replay.next(&lines[at..at + read]) {
                Next::Record(record, count) => {
                    assert!(record.change.fits() && record.change.lines() == count && count <= RECORD_LINES_MAX);
                    (at, read, records) =
                        (at + count * LINE_BYTES, read.saturating_sub(count * LINE_BYTES), records + 1);
                    assert_eq!(replay.next_line(), head + (at / LINE_BYTES) as u64);
                }
                // It asks for more than it was shown, and never for lines that the ring does not have.
                Next::Read(count) => {
                    assert!(count * LINE_BYTES > read && count as u64 <= replay.lines_left());
                    read = count * LINE_BYTES;
                }
                Next::End => break,
            }
        }
        assert!(lines != before || records == written, "{records} of {written} records");
    });
}

#[test]
fn page_image() {
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let sealed = !input.one_in(4);
        let page_bytes = usize::from(input.byte());
        let image = PageImage { address: Address::new(NodeId(1), 4096, 3), lsn: Lsn::new(5, 6), entry: 7, epoch: 8 };
        let mut slot = vec![input.byte(); redo::HEADER_BYTES + page_bytes];
        image.seal(MEMBER.incarnation, &mut slot);
        let before = slot.clone();
        input.change(&mut slot);
        let peeked = PageImage::peek(&slot, MEMBER.incarnation);
        if let Some((found, page)) = PageImage::read(&slot, MEMBER.incarnation, page_bytes) {
            assert_eq!((Some((found, page_bytes)), page), (peeked, &slot[redo::HEADER_BYTES..]));
            assert!(slot == before || slot[4..] != before[4..], "it is whole under another checksum");
        }
        if sealed && peeked.is_some_and(|(_, bytes)| bytes == page_bytes) {
            reseal(&mut slot);
            assert!(PageImage::read(&slot, MEMBER.incarnation, page_bytes).is_some());
        }
    });
}

#[test]
fn ownership_table() {
    let shape = TableShape::new(8, 6).expect("six keys of a word");
    let mut image = vec![0; shape.bytes()];
    let writer = TableWriter::start(shape, number(), POOL.1, &mut image).expect("it fits");
    assert_eq!(writer.even(5, 0, 1000), Ok(5));
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let sealed = !input.one_in(4);
        let mut table = image.clone();
        input.change(&mut table);
        if sealed {
            reseal_table(shape, &mut table);
        }
        let Ok(found) = Table::decode(shape, number(), POOL.1, &table) else { return };
        assert!((1..=shape.capacity()).contains(&found.count()));
        for entry in 0..found.count() {
            assert_eq!(found.boundary(entry).len(), shape.key_bytes());
            let (word, load) = (found.word(entry), found.load(entry));
            if let Ok(owner) = word.decode() {
                assert_eq!(OwnerWord::new(owner, word.epoch()), word);
            }
            if let Some(rate) = load.of(word) {
                assert_eq!((LoadWord::new(rate, load.epoch()), load.epoch() == 0), (load, false));
            }
            let _ = (word.state_name(), word.keeps(MEMBER.row));
            let next =
                [word.claim(MEMBER.row), word.ask(MEMBER.row), word.recover(MEMBER.row, RowId(2)), word.call_off()];
            for next in next.into_iter().flatten() {
                assert!(next.decode().is_ok() && next.check_after(word).is_ok(), "{word:?} {next:?}");
            }
        }
    });
}

/// Gives the boundaries of a table right checksums.
fn reseal_table(shape: TableShape, table: &mut [u8]) {
    for entry in 0..shape.capacity() {
        let at = shape.boundary_at(entry);
        table[at + 4..at + 8].copy_from_slice(&entry.to_le_bytes());
        reseal(&mut table[at..at + 8 + shape.key_bytes()]);
    }
}
