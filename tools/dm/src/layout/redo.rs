//! Redo records, and what lies behind them.

use super::row::MEMBER;
use super::values::{digits, error, value};
use super::{Sample, Structure};
use dm_core::membership::redo::{self, ImageHeader, OpenIndexes};
use dm_core::remote::catalog::{IndexNumber, IndexSet};
use dm_core::remote::lock_word::{LockWord, RowId};
use zerocopy::IntoBytes;

pub(super) const REDO_RECORD: Structure = Structure {
    name: "redo_record",
    title: "redo record: what a WRITE under a lock was about to do",
    text: "Header, then the bytes of the WRITE, then those of a second one that has to land with it. A record fills a slot of\n\
           its compute node's redo area on the memory node of the lock, from the slot's start; the row says where slots are\n\
           and how long. The last step under a lock word counts, if its checksum holds.",
    tables: &[("header", ImageHeader::FIELDS)],
    constants: &[
        ("HEADER_BYTES", redo::HEADER_BYTES as u64, "the bytes begin behind them"),
        ("SLOTS_PER_LANE", redo::SLOTS_PER_LANE as u64, "slots of a lane on each memory node"),
        (
            "SLOTS_FOR_WRITES",
            redo::SLOTS_FOR_WRITES as u64,
            "of these for WRITEs; the other is for copies of repairers",
        ),
    ],
    samples: || {
        let word = LockWord::new(MEMBER.row, 0xbeef).expect("far below the end");
        let one = ImageHeader {
            bytes: 17.into(),
            word: word.0.into(),
            offset: 0x80_7040.into(),
            lock: 1234.into(),
            incarnation: MEMBER.incarnation.into(),
            step: 1.into(),
            ..ImageHeader::ZERO
        };
        let two = ImageHeader {
            step: 2.into(),
            repair: 1.into(),
            more_offset: 0x80_7400.into(),
            more_bytes: 8.into(),
            ..one
        };
        let record = |header: ImageHeader| {
            let bytes: Vec<u8> = (0x41..0x41 + (header.bytes.get() + header.more_bytes.get()) as u8).collect();
            [header.sealed(&bytes).as_bytes(), &bytes].concat()
        };
        let mut torn = record(one);
        torn[redo::HEADER_BYTES + 16] ^= 0x20;
        vec![
            Sample::new(
                "an entry of 17 bytes, written by row 9 under its acquisition 48879 of lock 1234",
                &record(one),
                &[
                    ("lock word", "row 9, sequence 48879"),
                    ("lock", "1234"),
                    ("incarnation", "2"),
                    ("step", "1"),
                    ("copied by a repairer", "false"),
                    ("WRITE", "17 bytes at 0x807040: 4142434445464748494a4b4c4d4e4f5051"),
                    ("second WRITE", "none"),
                ],
            ),
            Sample::new(
                "the next step, of two WRITEs, as a repairer copied it",
                &record(two),
                &[
                    ("lock word", "row 9, sequence 48879"),
                    ("lock", "1234"),
                    ("incarnation", "2"),
                    ("step", "2"),
                    ("copied by a repairer", "true"),
                    ("WRITE", "17 bytes at 0x807040: 4142434445464748494a4b4c4d4e4f5051"),
                    ("second WRITE", "8 bytes at 0x807400: 5253545556575859"),
                ],
            ),
            Sample::new(
                "the first with its last byte not yet written",
                &torn,
                &[("error", "checksum of a redo record")],
            ),
            Sample::new(
                "a slot in which nothing was written yet",
                ImageHeader::ZERO.as_bytes(),
                &[("error", "checksum of a redo record")],
            ),
        ]
    },
    decode: |bytes| {
        let Some(header) = ImageHeader::from_prefix(bytes) else { return error(&"too short") };
        let (first, second) = (header.bytes.get() as usize, header.more_bytes.get() as usize);
        let total = redo::HEADER_BYTES.checked_add(first).and_then(|total| total.checked_add(second));
        let Some(record) = total.and_then(|total| bytes.get(..total)) else { return error(&"longer than its slot") };
        if redo::checksum(record) != header.checksum.get() {
            return error(&"checksum of a redo record");
        }
        let (first, second) = record[redo::HEADER_BYTES..].split_at(first);
        let word = LockWord(header.word.get());
        let write = |bytes: &[u8], at: u64| match bytes {
            [] => "none".to_owned(),
            bytes => format!("{} bytes at {at:#x}: {}", bytes.len(), digits(bytes)),
        };
        vec![
            value("lock word", &format!("row {}, sequence {}", word.row().0, word.sequence())),
            value("lock", &header.lock.get()),
            value("incarnation", &header.incarnation.get()),
            value("step", &header.step.get()),
            value("copied by a repairer", &(header.repair.get() != 0)),
            value("WRITE", &write(first, header.offset.get())),
            value("second WRITE", &write(second, header.more_offset.get())),
        ]
    },
};

pub(super) const OPEN_INDEXES: Structure = Structure {
    name: "open_indexes",
    title: "list of open indexes: where a compute node may have locks",
    text: "A line at the start of the slot behind the last redo slot of a compute node's area on memory node 0. Its compute node\n\
           WRITEs it whenever it opens or closes an index. Without a list that fits the row, nothing is known of it.",
    tables: &[("line", OpenIndexes::FIELDS)],
    constants: &[],
    samples: || {
        let mut open = IndexSet::default();
        for number in [0, 4, 254] {
            open.insert(IndexNumber::new(number).expect("a catalog has as many entries"));
        }
        let list = OpenIndexes::of(MEMBER, &open);
        let mut torn = OpenIndexes::of(MEMBER, &open);
        torn.indexes[1] = 1.into();
        let shown = |indexes| [("row", "9"), ("incarnation", "2"), ("open", indexes)];
        vec![
            Sample::new("row 9 has indexes 0, 4 and 254 open", list.as_bytes(), &shown("0, 4, 254")),
            Sample::new("it has none", OpenIndexes::of(MEMBER, &IndexSet::default()).as_bytes(), &shown("none")),
            Sample::new("of two WRITEs", torn.as_bytes(), &[("error", "checksum of a list of open indexes")]),
            Sample::new(
                "before the first index is opened",
                OpenIndexes::ZERO.as_bytes(),
                &[("error", "checksum of a list of open indexes")],
            ),
        ]
    },
    decode: |bytes| {
        let Some(list) = OpenIndexes::from_prefix(bytes) else { return error(&"too short") };
        let (row, incarnation) = (list.row.get(), list.incarnation.get());
        let Some(open) = list.open_of((RowId(row), incarnation)) else {
            return error(&"checksum of a list of open indexes");
        };
        let open: Vec<_> = open.iter().map(|number| number.get().to_string()).collect();
        let open = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
        vec![value("row", &row), value("incarnation", &incarnation), value("open", &open)]
    },
};
