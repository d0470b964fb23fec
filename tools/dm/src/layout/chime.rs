//! Structures that only CHIME indexes have. Fields are payload offsets; dumps show the stored bytes, version bytes
//! included.

use super::values::{error, hex, value};
use super::{Sample, Structure, nodes};
use crate::picture::leaf::{self, Map, Table};
use dm_core::btree::node::{self, Header, NodeFlags};
use dm_core::chime::layout::{ENTRY_FIELDS, LOCK_FIELDS, Leaf, LeafMut, LeafShape, REPLICA_FIELDS, State, Touched};
use dm_core::chime::parameters::{ParameterBlock, Parameters};
use dm_core::chime::vacancy::{Buckets, HELD};
use dm_core::layout::LINE_BYTES;
use dm_core::layout::fields::Field;
use dm_core::registry::KindParameters;
use dm_core::remote::address::Address;
use dm_core::remote::lock_word::{LockWord, RowId};
use dm_core::verbs::NodeId;

fn held_word(row: RowId, sequence: u64) -> u64 {
    LockWord::new(row, sequence).and_then(LockWord::in_node).expect("a small sequence").0
}

const PAPER: Parameters = Parameters::with_sizes(8, 8);

/// The smallest leaf: eight entries in groups of two.
const LEAF: LeafShape = LeafShape::new(8, 8, 8, 2);

/// The paper's.
const PAPER_LEAF: LeafShape = PAPER.leaf();

/// A leaf of [`CHIME_LEAF`] as a picture: the small one with its bytes, the paper's as a whole.
pub(super) fn picture() -> leaf::Leaf {
    let replica = Table {
        heading: "replica of the header; payload offsets from the replica",
        fields: REPLICA_FIELDS,
        hues: &[5, 8, 8, 8, 5],
    };
    let entry = Table {
        heading: "entry; payload offsets from the entry",
        fields: ENTRY_FIELDS,
        hues: &[2, 2, 7, 7, 7, 7, 3, 4],
    };
    let lock = Table { heading: "line behind the image; stored offsets", fields: LOCK_FIELDS, hues: &[2] };
    let tables = [nodes::TABLES.as_slice(), &[replica, entry, lock]].concat();
    let map = |shape: &LeafShape| {
        let head = Map::new(shape.bytes, true).with(&tables, 1, 0, None);
        let replicas =
            (0..shape.groups()).fold(head, |map, group| map.with(&tables, 2, shape.replica_at(group), Some(group)));
        (0..shape.span).fold(replicas, |map, slot| map.with(&tables, 3, shape.entry_at(slot), Some(slot)))
    };
    let sample = (CHIME_LEAF.samples)().swap_remove(0);
    let (small, whole) = (map(&LEAF), map(&PAPER_LEAF).with_line(&tables, 4));
    leaf::Leaf {
        title: format!(
            "A leaf of a CHIME index: {} B, {} entries with keys and values of 8 B, and a line for the lock",
            PAPER_LEAF.bytes, PAPER_LEAF.span
        ),
        tables,
        map: small,
        sample: (
            format!(
                "the smallest leaf, {} entries, neighborhoods of {}: {}",
                LEAF.span, LEAF.neighborhood, sample.title
            ),
            sample.bytes,
        ),
        lines: (0..LEAF.bytes / LINE_BYTES).collect(),
        whole: Some((
            format!(
                "The whole leaf of {} entries, neighborhoods of {}, a cache line of 64 B in each row",
                PAPER_LEAF.span, PAPER_LEAF.neighborhood
            ),
            whole,
        )),
    }
}

pub(super) const CHIME_LEAF: Structure = Structure {
    name: "chime_leaf",
    title: "leaf of a CHIME index: a hopscotch table with replicas of its header",
    text: "After the header, groups of H entries, each behind a replica of what a reader of a part has to know. A replica and\n\
           an entry begin with a version byte: NV low, EV high, as the version bytes of lines. A key's home is its CityHash64\n\
           (version 1.1) modulo the span; it lies in one of the H entries from there on, cyclically. For H > 8 the bitmap takes\n\
           both bytes, and generation, dead and live a third one behind it. The value of a dead entry is zero, and so are key and\n\
           value of one that is neither dead nor live. The lock word has a line of its own behind the image.",
    tables: &[
        ("replica; offsets from the replica", REPLICA_FIELDS),
        ("entry, keys and values of 8 bytes; offsets from the entry", ENTRY_FIELDS),
        ("line behind the image; stored offsets", LOCK_FIELDS),
    ],
    constants: &[
        ("replica 0", PAPER_LEAF.replica_at(0) as u64, "payload offset, keys of 8 bytes"),
        ("entry 0", PAPER_LEAF.entry_at(0) as u64, "payload offset"),
        ("image", PAPER_LEAF.bytes as u64, "stored bytes with 64 entries of 8 + 8, H = 8"),
        ("place", PAPER_LEAF.place_bytes() as u64, "with the lock word's line"),
        ("SPAN_MAX", dm_core::chime::layout::SPAN_MAX as u64, "most entries"),
        ("SPAN_MIN", dm_core::chime::layout::SPAN_MIN as u64, "fewest entries"),
    ],
    samples: || {
        let mut image = vec![0; LEAF.bytes];
        let sibling = Address::new(NodeId(1), 0x8000, 1);
        let header = Header { generation: 3, level: 0, index: 1, flags: NodeFlags::empty(), count: 0, sibling };
        node::start(&mut image, &header, &0u64.to_be_bytes(), Some(&0x2000u64.to_be_bytes()));
        LeafMut::new(&LEAF, &mut image).seal(5);
        // Key 1 is at home; keys 2 and 3, of homes 1 and 2, lie one entry further on.
        let mut touched = Touched::default();
        let mut leaf = LeafMut::new(&LEAF, &mut image);
        for (key, home, slot, state) in [(1u64, 0, 0, State::Live), (2, 1, 2, State::Live), (3, 2, 3, State::Dead)] {
            leaf.put(slot, &key.to_be_bytes(), &(key + 0x100).to_le_bytes());
            leaf.set_bit(home, slot - home, true);
            if state == State::Dead {
                leaf.delete(slot);
            }
            touched.add(slot);
            touched.add(home);
        }
        leaf.raise(&touched);
        let replica = "generation 3, in use true, sibling 1:0x8000.1";
        let values = [
            ("node version", "5"),
            ("generation", "3"),
            ("level", "0"),
            ("index", "1"),
            ("retired", "false"),
            ("signer", "nobody"),
            ("sibling", "1:0x8000.1"),
            ("low", "0x0"),
            ("high", "0x2000"),
            ("replica 0", replica),
            ("replica 1", replica),
            ("replica 2", replica),
            ("replica 3", replica),
            ("entry 0", "bitmap 0b01, Live, key 0x1 of home 0, value 0x101"),
            ("entry 1", "bitmap 0b10, empty"),
            ("entry 2", "bitmap 0b10, Live, key 0x2 of home 1, value 0x102"),
            ("entry 3", "bitmap 0b00, Dead, key 0x3 of home 2, value 0x0"),
            ("vacancy", "0x5"),
        ];
        vec![Sample::new("two records, and one that was deleted", &image, &values)]
    },
    decode,
};

fn decode(bytes: &[u8]) -> super::Values {
    let leaf = Leaf::new(&LEAF, bytes);
    let mut values = nodes::header(bytes);
    for group in 0..LEAF.groups() {
        let replica = leaf.replica(group);
        let text = format!("generation {}, in use {}, sibling {}", replica.generation, replica.in_use, replica.sibling);
        values.push(value(&format!("replica {group}"), &text));
    }
    let (mut key, mut found) = ([0; 8], [0; 8]);
    for slot in 0..LEAF.span {
        let (state, bitmap) = (leaf.state(slot), leaf.bitmap(slot));
        if state == State::Empty && bitmap == 0 {
            continue;
        }
        leaf.read_key(slot, &mut key);
        leaf.read_value(slot, &mut found);
        let record = match state {
            State::Empty => "empty".to_owned(),
            _ if !leaf.is_whole(slot) => "torn".to_owned(),
            state => {
                let home = leaf.home_of(slot);
                let (key, found) = (u64::from_be_bytes(key), u64::from_le_bytes(found));
                format!("{state:?}, key {key:#x} of home {home}, value {found:#x}")
            }
        };
        values.push(value(&format!("entry {slot}"), &format!("bitmap {bitmap:#04b}, {record}")));
    }
    values.push(hex("vacancy", Buckets::new(LEAF.span).exact(&leaf)));
    values
}

pub(super) const CHIME_LOCK: Structure = Structure {
    name: "chime_lock_word",
    title: "lock word of a CHIME leaf: vacancy while it is free, holder while it is held",
    text: "One little-endian word, changed by CAS and freed by its holder, in every life of the place. The entries are divided into\n\
           V = min(63, span) buckets; entry i is in bucket i * V / span. Vacancy is a hint; all zero says that there is room\n\
           everywhere.",
    tables: &[
        (
            "free",
            &[
                Field::bits(0, 0, 63, "vacancy", "bit b = 1: treat bucket b as full"),
                Field::bits(0, 63, 1, "held", "0"),
            ],
        ),
        (
            "held",
            &[
                Field::bits(0, 0, 16, "row", "compute-node row of the holder"),
                Field::bits(0, 16, 16, "turn", "the holder's acquisition counter"),
                Field::bits(0, 63, 1, "held", "1"),
            ],
        ),
    ],
    constants: &[],
    samples: || {
        vec![
            Sample::new(
                "free; entries 1 and 2 of a small leaf are full",
                &6u64.to_le_bytes(),
                &[("held", "false"), ("vacancy", "0x6")],
            ),
            Sample::new(
                "held by row 9, its 48,879th turn",
                &held_word(RowId(9), 0xbeef).to_le_bytes(),
                &[("held", "true"), ("row", "9"), ("turn", "48879")],
            ),
        ]
    },
    decode: |bytes| {
        let Some(word) = bytes.first_chunk() else { return error(&"too short") };
        let word = u64::from_le_bytes(*word);
        if word & HELD == 0 {
            return vec![value("held", &false), hex("vacancy", word)];
        }
        vec![value("held", &true), value("row", &(word as u16)), value("turn", &((word >> 16) as u16))]
    },
};

pub(super) const CHIME_PARAMETERS: Structure = Structure {
    name: "chime_parameters",
    title: "parameter block of a CHIME index in its catalog entry",
    text: "",
    tables: &[("fields", ParameterBlock::FIELDS)],
    constants: &[("VERSION", Parameters::VERSION as u64, "of the block")],
    samples: || {
        vec![
            Sample::new(
                "keys and values of 8 bytes, the paper's spans",
                &PAPER.encode(),
                &[
                    ("key_bytes", "8"),
                    ("value_bytes", "8"),
                    ("leaf_span", "64"),
                    ("neighborhood", "8"),
                    ("inner_span", "64"),
                ],
            ),
            Sample::new(
                "a neighborhood longer than bitmaps",
                &Parameters { neighborhood: 17, ..PAPER }.encode(),
                &[("error", "entries of a neighborhood 17: the index takes 2 to 16")],
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
                value("neighborhood", &parameters.neighborhood),
                value("inner_span", &parameters.inner_span),
            ],
            Err(found) => error(&found),
        }
    },
};
