//! Structures of a DEX index.

use super::nodes;
use super::row::MEMBER;
use super::values::{digits, error, value, word};
use super::{Sample, Structure, Values};
use crate::picture::leaf as leaf_picture;
use dm_core::dex::image::{PageImage, PageImageHeader};
use dm_core::dex::leaf;
use dm_core::dex::log::record::{Change, Parsed, RECORD_LINES_MAX, Record, RecordHeader, parse};
use dm_core::dex::log::ring::{
    HEAD_AT, LINES_AT, RING_CHUNKS, RING_LINES_MIN, RING_VERSION, Ring, RingDescription, RingHead, RingOwner,
};
use dm_core::dex::ownership::table::{BoundaryHead, ENTRIES_MAX, Table, TableHeader, TableShape, TableWriter};
use dm_core::dex::ownership::{EPOCHS_FOR_DEATHS, LoadWord, Owner, OwnerWord};
use dm_core::dex::parameters::{Cut, ParameterBlock, Parameters};
use dm_core::pages::lsn::{LINES_END, Lsn};
use dm_core::registry::KindParameters;
use dm_core::remote::NodeGeometry;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::superblock::{PoolPlan, Superblock};
use dm_core::sherman::layout::{ENTRY_FIELDS, Leaf, LeafMut, LeafShape};
use dm_core::verbs::NodeId;
use zerocopy::IntoBytes;

const LINE_BYTES: usize = 64;
const POOL: ([u8; 16], u64) = (*b"0123456789abcdef", 3);
const TOKEN: u64 = 0x5eed_0123_4567_89ab;

fn index() -> IndexNumber {
    IndexNumber::new(2).expect("a catalog has more entries")
}

fn owner() -> RingOwner {
    RingOwner::new(POOL, index(), MEMBER, TOKEN)
}

/// A memory node of 16 MiB with chunks of 1 MiB.
fn geometry() -> NodeGeometry {
    let plan = PoolPlan {
        pool_id: POOL.0,
        pool_incarnation: POOL.1,
        node: NodeId(0),
        nodes: 1,
        region_bytes: 16 << 20,
        chunk_bytes: 1 << 20,
        lock_count: 61,
        device_bytes: 0,
        redo_row_bytes: 0,
        index_count: 15,
    };
    let superblock = plan.format().expect("room for a chunk");
    Superblock::decode(superblock.as_bytes()).expect("what was just made").geometry
}

// ---- parameters and leaves ---------------------------------------------------------------------------------------

const PARAMETERS: Parameters =
    Parameters { entries: 4, cut: Cut::Even { first: 0, last: 299 }, ..Parameters::with_sizes(8, 8) };

pub(super) const DEX_PARAMETERS: Structure = Structure {
    name: "dex_parameters",
    title: "parameter block of a DEX index in its catalog entry",
    text: "",
    tables: &[("fields", ParameterBlock::FIELDS)],
    constants: &[("VERSION", Parameters::VERSION as u64, "of the block")],
    samples: || {
        vec![
            Sample::new(
                "keys and values of 8 bytes, nodes of 1 KiB, four entries over the keys 0 to 299",
                &PARAMETERS.encode(),
                &[
                    ("key_bytes", "8"),
                    ("value_bytes", "8"),
                    ("leaf_span", "57"),
                    ("inner_span", "60"),
                    ("entries", "4"),
                    ("cut", "evenly, 0 to 299"),
                ],
            ),
            Sample::new(
                "more entries than keys",
                &Parameters { cut: Cut::Even { first: 7, last: 9 }, ..PARAMETERS }.encode(),
                &[("error", "entry 3: it would have no keys: there are too few")],
            ),
        ]
    },
    decode: |bytes| {
        let Some(block) = bytes.first_chunk() else { return error(&"too short") };
        match Parameters::decode(Parameters::VERSION, block) {
            Ok(parameters) => vec![
                value("key_bytes", &parameters.key_bytes),
                value("value_bytes", &parameters.value_bytes),
                value("leaf_span", &parameters.leaf_span),
                value("inner_span", &parameters.inner_span),
                value("entries", &parameters.entries),
                match parameters.cut {
                    Cut::Given => value("cut", &"at given boundaries"),
                    Cut::Even { first, last } => value("cut", &format_args!("evenly, {first} to {last}")),
                    Cut::Quantiles => value("cut", &"at quantiles"),
                },
            ],
            Err(found) => error(&found),
        }
    },
};

const LEAF: LeafShape = PARAMETERS.leaf();

pub(super) const DEX_LEAF: Structure = Structure {
    name: "dex_leaf",
    title: "leaf of a DEX index: an LSN, and unsorted entries",
    text: "As a leaf of Sherman (sherman_leaf), with an LSN between the header and the entries. Only its owner writes it, all of\n\
           it at once, and raises the node version.",
    tables: &[
        ("behind the header, keys of 8 bytes", leaf::FIELDS),
        ("entry, keys and values of 8 bytes; offsets from the entry", ENTRY_FIELDS),
    ],
    constants: &[
        ("first entry", LEAF.entry_at(0) as u64, "payload offset, keys of 8 bytes"),
        ("span", LEAF.span as u64, "entries that fit 1024 bytes with 8 + 8"),
    ],
    samples: || {
        let mut image = nodes::start(LEAF.bytes, 0, 0x1000, Some(0x2000), nodes::address(0x8000, 1));
        LeafMut::new(&LEAF, &mut image).put(0, &0x1800_u64.to_be_bytes(), &7_u64.to_le_bytes());
        leaf::stamp(&LEAF, &mut *image, Lsn::new(41, LINE));
        vec![Sample::new(
            "one record",
            &image[..128],
            &[
                ("node version", "5"),
                ("generation", "3"),
                ("level", "0"),
                ("index", "1"),
                ("retired", "false"),
                ("signer", "nobody"),
                ("sibling", "1:0x8000.1"),
                ("low", "0x1000"),
                ("high", "0x2000"),
                ("LSN", "epoch 41, line 77"),
                ("entry 0", "key 0000000000001800, value 0700000000000000"),
                ("free entries", "56"),
            ],
        )]
    },
    decode: |bytes| {
        let mut image = bytes.to_vec();
        // Dumps are cut where only zeros follow.
        image.resize(LEAF.bytes.max(bytes.len()), 0);
        let mut values = nodes::header(bytes);
        let lsn = leaf::lsn(&LEAF, &*image);
        values.push(value("LSN", &format_args!("epoch {}, line {}", lsn.epoch(), lsn.line())));
        let leaf = Leaf::new(&LEAF, &image);
        let (mut key, mut found) = ([0; 8], [0; 8]);
        for slot in (0..LEAF.span).filter(|&slot| leaf.is_occupied(slot)) {
            leaf.read_key(slot, &mut key);
            leaf.read_value(slot, &mut found);
            values
                .push(value(&format!("entry {slot}"), &format_args!("key {}, value {}", digits(&key), digits(&found))));
        }
        values.push(value("free entries", &(LEAF.span - leaf.records())));
        values
    },
};

/// The leaf of [`DEX_LEAF`] as a picture.
pub(super) fn picture() -> leaf_picture::Leaf {
    use leaf_picture::{Map, Table};
    let lsn = Table { heading: "behind the header; payload offsets", fields: leaf::FIELDS, hues: &[8] };
    let entry = Table { heading: "entry; payload offsets from the entry", fields: ENTRY_FIELDS, hues: &[2, 2, 3, 4] };
    let tables = [nodes::TABLES.as_slice(), &[lsn, entry]].concat();
    let head = Map::new(LEAF.bytes, true).with(&tables, 1, 0, None).with(&tables, 2, 0, None);
    let map = (0..LEAF.span).fold(head, |map, slot| map.with(&tables, 3, LEAF.entry_at(slot), Some(slot)));
    let sample = (DEX_LEAF.samples)().swap_remove(0);
    leaf_picture::Leaf {
        title: format!("A leaf of a DEX index: {} B, {} entries with keys and values of 8 B", LEAF.bytes, LEAF.span),
        tables,
        map: map.clone(),
        sample: (sample.title, sample.bytes),
        lines: vec![0, 1],
        whole: Some(("The whole leaf, a cache line of 64 B in each row".to_owned(), map)),
    }
}

// ---- ownership ---------------------------------------------------------------------------------------------------

fn owner_values(word: OwnerWord) -> Values {
    let mut values = match word.decode() {
        Ok(Owner::Free) => vec![value("state", &"free")],
        Ok(Owner::Owned(row)) => vec![value("state", &"owned"), value("owner", &row.0)],
        Ok(Owner::Recovering { finder, log }) => {
            vec![value("state", &"recovering"), value("finder", &finder.0), value("log of row", &log.0)]
        }
        Ok(Owner::Draining { owner, receiver }) => {
            vec![value("state", &"draining"), value("owner", &owner.0), value("receiver", &receiver.0)]
        }
        Ok(Owner::Kept(row)) => vec![value("state", &"kept"), value("receiver", &row.0)],
        Err(found) => return error(&found),
    };
    values.push(value("epoch", &word.epoch()));
    values
}

pub(super) const DEX_OWNER: Structure = Structure {
    name: "dex_owner",
    title: "word of an entry of the ownership table: which compute node has it",
    text: "One little-endian word, changed by CAS only. Every change raises the epoch by one. Records that are in no page are in\n\
           the ring of the log row; a row is not freed while an entry names it or is recovering.",
    tables: &[("word", OwnerWord::FIELDS)],
    constants: &[("EPOCHS_FOR_DEATHS", EPOCHS_FOR_DEATHS as u64, "the last epochs: for recoveries, not for claims")],
    samples: || {
        let owned = OwnerWord::new(Owner::Owned(MEMBER.row), 41);
        let finder = RowId(12);
        let recovering = owned.recover(finder, MEMBER.row).expect("row 9 is in the way");
        vec![
            Sample::new("of a new entry", &OwnerWord::FREE.0.to_le_bytes(), &[("state", "free"), ("epoch", "0")]),
            Sample::new("row 9 has it", &owned.0.to_le_bytes(), &[("state", "owned"), ("owner", "9"), ("epoch", "41")]),
            Sample::new(
                "row 12 recovers it after the death of row 9",
                &recovering.0.to_le_bytes(),
                &[("state", "recovering"), ("finder", "12"), ("log of row", "9"), ("epoch", "42")],
            ),
            Sample::new(
                "no writer makes it",
                &(owned.0 ^ 1 << 20).to_le_bytes(),
                &[(
                    "error",
                    "an owner word is corrupt (0x0000029000800091): its owner and its log differ, or it has none",
                )],
            ),
        ]
    },
    decode: |bytes| owner_values(OwnerWord(word(bytes))),
};

fn shape() -> TableShape {
    TableShape::new(8, 4).expect("keys of 8 bytes, four entries")
}

pub(super) const DEX_TABLE: Structure = Structure {
    name: "dex_table",
    title: "ownership table on memory node 0: boundaries, and who has what",
    text: "A header; a word (dex_owner) for each entry for which there is room; a load for each, which its owner WRITEs now and\n\
           then, and which is a hint; from the next multiple of 64 on, a boundary for each. A load counts only in the epoch of its\n\
           entry's word; of an entry that moves, in one or two before. A boundary is a head, the entry's least key, and zeros up\n\
           to a multiple of 8. An entry reaches to the next greater boundary, wherever that is in the table. Boundary 0 is the\n\
           least key of all.",
    tables: &[
        ("header", TableHeader::FIELDS),
        ("load", LoadWord::FIELDS),
        ("head of a boundary", BoundaryHead::FIELDS),
    ],
    constants: &[("ENTRIES_MAX", ENTRIES_MAX as u64, "entries of a table, at most")],
    samples: || {
        let shape = shape();
        let mut image = vec![0; shape.bytes()];
        let writer = TableWriter::start(shape, index(), POOL.1, &mut image).expect("room");
        writer.even(3, 0, 299).expect("300 keys");
        let at = TableShape::word_at(1);
        image[at..at + 8].copy_from_slice(&OwnerWord::new(Owner::Owned(MEMBER.row), 41).0.to_le_bytes());
        let at = shape.load_at(1);
        image[at..at + 8].copy_from_slice(&LoadWord::new(1200, 41).0.to_le_bytes());
        let mut damaged = image.clone();
        damaged[shape.boundary_at(2) + 15] ^= 1;
        vec![
            Sample::new(
                "three entries over the keys 0 to 299, and room for a fourth; row 9 has the second, with 1200 operations per second",
                &image,
                &[
                    ("entries", "3"),
                    ("entry 0", "from 0000000000000000 on: free, epoch 0"),
                    ("entry 1", "from 0000000000000064 on: owned, epoch 41, load 1200"),
                    ("entry 2", "from 00000000000000c8 on: free, epoch 0"),
                ],
            ),
            Sample::new(
                "a changed boundary",
                &damaged,
                &[("error", "no ownership table: the checksum of a boundary does not hold")],
            ),
        ]
    },
    decode: |bytes| match Table::decode(shape(), index(), POOL.1, bytes) {
        Ok(table) => {
            let mut values = vec![value("entries", &table.count())];
            for entry in 0..table.count() {
                let word = table.word(entry);
                let text =
                    format!("from {} on: {}, epoch {}", digits(table.boundary(entry)), word.state_name(), word.epoch());
                let load = table.load(entry).of(word).map_or_else(String::new, |rate| format!(", load {rate}"));
                values.push(value(&format!("entry {entry}"), &(text + &load)));
            }
            values
        }
        Err(found) => error(&found),
    },
};

// ---- log ---------------------------------------------------------------------------------------------------------

pub(super) const DEX_LSN: Structure = Structure {
    name: "dex_lsn",
    title: "log sequence number: where a change is in the history of its entry",
    text: "One little-endian word in log records, leaves and page images; compared as a number.",
    tables: &[("word", Lsn::FIELDS)],
    constants: &[("LINES_END", LINES_END, "line numbers lie below it; the owner's tenures are renewed before")],
    samples: || {
        vec![
            Sample::new("nothing was logged", &Lsn::NONE.to_bits().to_le_bytes(), &[("epoch", "0"), ("line", "0")]),
            Sample::new(
                "a record of the tenure of epoch 41",
                &Lsn::new(41, 1_000_000).to_bits().to_le_bytes(),
                &[("epoch", "41"), ("line", "1000000")],
            ),
        ]
    },
    decode: |bytes| {
        let lsn = Lsn::from_bits(word(bytes));
        vec![value("epoch", &lsn.epoch()), value("line", &lsn.line())]
    },
};

pub(super) const DEX_RING: Structure = Structure {
    name: "dex_ring",
    title: "beginning of a log ring: whose it is, where it is, and where replay begins",
    text: "At the start of the ring's first chunk; log lines of 64 bytes follow, through all chunks in their order. Line n is at\n\
           n modulo the ring's lines. The description is written once, before the row announces the ring. The head is\n\
           written in front of the lines that replace lines before it, in their chain.",
    tables: &[("description", RingDescription::FIELDS), ("head", RingHead::FIELDS)],
    constants: &[
        ("VERSION", RING_VERSION as u64, "of the description"),
        ("HEAD_AT", HEAD_AT, "offset of the head in the first chunk"),
        ("LINES_AT", LINES_AT, "offset of the first line there"),
        ("RING_CHUNKS", RING_CHUNKS as u64, "chunks of a ring, at most"),
        ("RING_LINES_MIN", RING_LINES_MIN, "lines of a ring, at least"),
    ],
    samples: || {
        let ring = Ring::new(NodeId(0), &geometry(), &[4, 7]).expect("two of the chunks");
        let mut image = ring.describe(&owner(), &geometry()).as_bytes().to_vec();
        image.extend(RingHead::new(MEMBER.incarnation, 1_000_000).as_bytes());
        let elsewhere = RingOwner { pool_incarnation: 2, ..owner() };
        let mut strange = ring.describe(&elsewhere, &geometry()).as_bytes().to_vec();
        strange.extend(RingHead::new(MEMBER.incarnation, 0).as_bytes());
        vec![
            Sample::new(
                "two chunks of 1 MiB, after a million lines",
                &image,
                &[
                    ("lines", "32765"),
                    ("first chunk", "4"),
                    ("line 16381 is in chunk", "7"),
                    ("replay begins at line", "1000000"),
                ],
            ),
            Sample::new(
                "of the pool before it was formatted anew",
                &strange,
                &[(
                    "error",
                    "this log ring belongs to another pool, or to an earlier formatting of this one: it cannot be replayed here",
                )],
            ),
        ]
    },
    decode: |bytes| {
        let head = bytes.get(HEAD_AT as usize..).and_then(RingHead::from_prefix);
        let (Some(description), Some(head)) = (RingDescription::from_prefix(bytes), head) else {
            return error(&"too short");
        };
        let geometry = geometry();
        let (ring, seal) = match description.decode(&owner(), NodeId(0), &geometry) {
            Ok(found) => found,
            Err(found) => return error(&found),
        };
        match head.decode(seal.incarnation) {
            Ok(head) => {
                let chunk_of = |line| geometry.chunk_of(ring.run(line, 1).offset).unwrap_or_default();
                vec![
                    value("lines", &ring.lines()),
                    value("first chunk", &chunk_of(0)),
                    value("line 16381 is in chunk", &chunk_of(16381)),
                    value("replay begins at line", &head),
                ]
            }
            Err(found) => error(&found),
        }
    },
};

/// The line at which the samples' records are.
const LINE: u64 = 77;

fn record(change: Change<'_>) -> Vec<u8> {
    let mut lines = vec![0; RECORD_LINES_MAX * LINE_BYTES];
    let seal = owner().seal();
    let count = Record { lsn: Lsn::new(41, LINE), entry: 1, change }.write(seal.incarnation, &mut lines);
    seal.close(&mut lines);
    lines.truncate(count * LINE_BYTES);
    lines
}

pub(super) const DEX_RECORD: Structure = Structure {
    name: "dex_record",
    title: "log record: the state of one key after a change",
    text: "Header, key, value; zeros up to the end of the last line. The checksum begins with the ring's seed: the CRC-32C of pool\n\
           id, pool incarnation, token, incarnation and row, each as in the ring's description. Replay ends at the first\n\
           line whose record has another line number or incarnation, or whose checksum does not hold.",
    tables: &[("header", RecordHeader::FIELDS)],
    constants: &[("RECORD_LINES_MAX", RECORD_LINES_MAX as u64, "lines of the longest record")],
    samples: || {
        let key = 5_u64.to_be_bytes();
        let put = record(Change::Put { key: &key, value: &[0x5a; 8] });
        let mut old = put.clone();
        old[LINE_BYTES - 1] ^= 1;
        vec![
            Sample::new(
                "key 5 has a new value",
                &put,
                &[("LSN", "epoch 41, line 77"), ("entry", "1"), ("change", "put 0000000000000005 = 5a5a5a5a5a5a5a5a")],
            ),
            Sample::new(
                "key 5 was deleted",
                &record(Change::Delete { key: &key }),
                &[("LSN", "epoch 41, line 77"), ("entry", "1"), ("change", "delete 0000000000000005")],
            ),
            Sample::new(
                "an LSN for a page whose change is not logged",
                &record(Change::None),
                &[("LSN", "epoch 41, line 77"), ("entry", "1"), ("change", "none")],
            ),
            Sample::new("a line that was not written", &old, &[("error", "the log ends")]),
        ]
    },
    decode: |bytes| match parse(bytes, owner().seal(), LINE) {
        Parsed::Record(Record { lsn, entry, change }, _) => {
            let text = match change {
                Change::Put { key, value } => format!("put {} = {}", digits(key), digits(value)),
                Change::Delete { key } => format!("delete {}", digits(key)),
                Change::None => "none".to_owned(),
            };
            vec![
                value("LSN", &format_args!("epoch {}, line {}", lsn.epoch(), lsn.line())),
                value("entry", &entry),
                value("change", &text),
            ]
        }
        Parsed::More(_) | Parsed::End => error(&"the log ends"),
    },
};

// ---- page image --------------------------------------------------------------------------------------------------

/// Bytes of the sample's page: a line of one.
const PAGE_BYTES: usize = 64;

pub(super) const DEX_IMAGE: Structure = Structure {
    name: "dex_image",
    title: "page image: what a flush was about to write",
    text: "Header, then the page, in a redo slot (redo_record) of the flushing lane on the memory node of the page. Word 0 tells it\n\
           from a redo record. Of several images of one page the one of the greatest epoch counts, then of the greatest LSN.",
    tables: &[("header", PageImageHeader::FIELDS)],
    constants: &[],
    samples: || {
        let address = Address::new(NodeId(1), 0x1_2340, 5);
        let image = PageImage { address, lsn: Lsn::new(41, LINE), entry: 1, epoch: 42 };
        let mut slot = vec![0; PageImageHeader::BYTES];
        slot.extend([0x5a; PAGE_BYTES]);
        image.seal(MEMBER.incarnation, &mut slot);
        let mut torn = slot.clone();
        torn[PageImageHeader::BYTES] ^= 1;
        vec![
            Sample::new(
                "the first line of a page that row 12 flushes while it replays records of epoch 41",
                &slot,
                &[("page", "1:0x12340.5"), ("LSN", "epoch 41, line 77"), ("entry", "1"), ("epoch", "42")],
            ),
            Sample::new("not yet complete", &torn, &[("error", "no whole image")]),
        ]
    },
    decode: |bytes| match PageImage::read(bytes, MEMBER.incarnation, PAGE_BYTES) {
        Some((image, _)) => vec![
            value("page", &image.address),
            value("LSN", &format_args!("epoch {}, line {}", image.lsn.epoch(), image.lsn.line())),
            value("entry", &image.entry),
            value("epoch", &image.epoch),
        ],
        None => error(&"no whole image"),
    },
};
