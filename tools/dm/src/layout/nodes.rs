//! Nodes of the B+-trees. Fields are payload offsets; dumps show the stored bytes, version bytes included.

use super::row::MEMBER;
use super::values::{error, hex, value};
use super::{Sample, Structure, Values, words};
use crate::picture::leaf::{self, Map, Table};
use dm_core::btree::inner::{Inner, InnerMut, InnerShape};
use dm_core::btree::node::{self, FIELDS, Header, NodeFlags};
use dm_core::compute::cache::Branch;
use dm_core::layout::fields::Field;
use dm_core::layout::stripes;
use dm_core::registry;
use dm_core::remote::address::Address;
use dm_core::remote::owner_tag::OwnerTag;
use dm_core::remote::superblock::ROW_COUNT;
use dm_core::sherman::layout::{ENTRY_FIELDS, Leaf, LeafMut, LeafShape};
use dm_core::verbs::NodeId;

/// Leaves of 1 KiB for keys and values of eight bytes.
const LEAF: LeafShape = LeafShape::with_bytes(8, 8, 1024);

/// Inner nodes of 1 KiB for keys of eight bytes.
const INNER: InnerShape = InnerShape::with_bytes(8, 0, 1024);

pub(super) const fn address(offset: u64, generation: u8) -> Address {
    Address::new(NodeId(1), offset, generation)
}

fn key(image: &[u8], at: usize) -> u64 {
    let mut key = [0; 8];
    stripes::read(image, at, &mut key);
    u64::from_be_bytes(key)
}

/// What every node says of itself.
pub(super) fn header(image: &[u8]) -> Values {
    let header = Header::read(image);
    let mut high = [0; 8];
    let bounded = node::read_high(image, &mut high);
    vec![
        match stripes::node_version(image) {
            Some(version) => value("node version", &version),
            None => value("node version", &"torn"),
        },
        value("generation", &header.generation),
        value("level", &header.level),
        value("index", &header.index),
        value("retired", &header.flags.contains(NodeFlags::RETIRED)),
        match (OwnerTag::read(image), OwnerTag::read(image).row(ROW_COUNT).0) {
            _ if header.level > 0 => value("count", &header.count),
            (_, 0) => value("signer", &"nobody"),
            (signer, row) => {
                value("signer", &format_args!("row {row}, incarnation ..{}", signer.incarnation(ROW_COUNT)))
            }
        },
        value("sibling", &header.sibling),
        if header.flags.contains(NodeFlags::RETIRED) && !node::is_moved(image) {
            value("low", &format_args!("right neighbour {}", node::former_sibling(image)))
        } else {
            hex("low", key(image, node::LOW_AT))
        },
        if bounded { hex("high", u64::from_be_bytes(high)) } else { value("high", &"unbounded") },
    ]
}

pub(super) fn start(bytes: usize, level: u8, low: u64, high: Option<u64>, sibling: Address) -> Vec<u8> {
    let mut image = vec![0; bytes];
    let header = Header { generation: 3, level, index: 1, flags: NodeFlags::empty(), count: 0, sibling };
    node::start(&mut image, &header, &low.to_be_bytes(), high.map(u64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
    stripes::set_node_version(&mut image, 5);
    image
}

pub(super) const NODE_HEADER: Structure = Structure {
    name: "node_header",
    title: "the first payload bytes of every node of a B+-tree",
    text: "Offsets count payload bytes: see cache_line_versions. For keys of K bytes `low` and `high` have K bytes each and\n\
           what follows lies 2 * (K - 8) bytes later. Level, index, flags, sibling and `low` never change in the life of a\n\
           node, but for `retired`, and for `sibling` and `high` when it splits or takes over its neighbour. A reader compares\n\
           generation, level and index with what the pointer promised before it believes anything else.",
    tables: &[("header, keys of 8 bytes", FIELDS)],
    constants: &[
        ("KEY_BYTES_MIN", registry::KEY_BYTES_MIN as u64, "shortest key"),
        ("KEY_BYTES_MAX", registry::KEY_BYTES_MAX as u64, "longest key"),
        ("LEVELS_MAX", dm_core::btree::LEVELS_MAX as u64, "levels are below this"),
    ],
    samples: || {
        let bounded = start(64, 1, 0x1000, Some(0x2000), address(0x8000, 1));
        let edge = start(64, 0, 0x1000, None, Address::NULL);
        let mut retired = start(64, 0, 0x1000, Some(0x2000), address(0x8000, 1));
        node::retire(&mut retired, address(0x4000, 7), OwnerTag::of(MEMBER, ROW_COUNT));
        let life = |level, retired, sibling, high| {
            [
                ("node version", "5"),
                ("generation", "3"),
                ("level", level),
                ("index", "1"),
                ("retired", retired),
                match (level, retired) {
                    ("0", "true") => ("signer", "row 9, incarnation ..2"),
                    ("0", _) => ("signer", "nobody"),
                    _ => ("count", "0"),
                },
                ("sibling", sibling),
                ("low", if retired == "true" { "right neighbour 1:0x8000.1" } else { "0x1000" }),
                ("high", high),
            ]
        };
        vec![
            Sample::new("keys 0x1000..0x2000 on level 1", &bounded, &life("1", "false", "1:0x8000.1", "0x2000")),
            Sample::new("the right edge of the leaves", &edge, &life("0", "false", "null", "unbounded")),
            Sample::new(
                "retired: the left neighbour at 0x4000 took over",
                &retired,
                &life("0", "true", "1:0x4000.7", "0x2000"),
            ),
        ]
    },
    decode: header,
};

pub(super) const INNER_NODE: Structure = Structure {
    name: "btree_inner",
    title: "inner node of a B+-tree: separators and children",
    text: "After the header, and the next pointer if an index keeps one (CHIME: 8 bytes, the leftmost child of the right\n\
           neighbour; Sherman: none), child 0, then `count` pairs of a separator and the child to its right, ascending. Child i covers keys from separator i (child 0: from `low`) to\n\
           separator i + 1 (the last: to `high`). Inner nodes are written whole; entry versions are 0.",
    tables: &[(
        "after the header, keys of 8 bytes",
        &[
            Field::bytes(30, 8, "child 0", "address of the leftmost child"),
            Field::bytes(38, 8, "separator 1", "smallest key of child 1 (K bytes)"),
            Field::bytes(46, 8, "child 1", "and so on, every K + 8 bytes"),
        ],
    )],
    constants: &[("separators", INNER.span as u64, "that fit 1024 bytes with keys of 8")],
    samples: || {
        let mut image = start(INNER.bytes, 1, 0x1000, Some(0x2000), address(0x8000, 1));
        let mut inner = InnerMut::new(&INNER, &mut image);
        inner.set_child(0, address(0x10000, 0));
        inner.insert(&0x1800u64.to_be_bytes(), address(0x10800, 2));
        inner.insert(&0x1400u64.to_be_bytes(), address(0x10400, 1));
        let image = &image[..128];
        vec![Sample::new(
            "three children; the rest of its 1024 bytes is zero but for the node versions",
            image,
            &[
                ("node version", "5"),
                ("generation", "3"),
                ("level", "1"),
                ("index", "1"),
                ("retired", "false"),
                ("count", "2"),
                ("sibling", "1:0x8000.1"),
                ("low", "0x1000"),
                ("high", "0x2000"),
                ("child 0", "1:0x10000.0"),
                ("from 0x1400", "1:0x10400.1"),
                ("from 0x1800", "1:0x10800.2"),
            ],
        )]
    },
    decode: |bytes| {
        let mut image = bytes.to_vec();
        // Dumps are cut where only zeros follow.
        image.resize(INNER.bytes.max(bytes.len()), 0);
        let mut values = header(bytes);
        let Some(inner) = Inner::new(&INNER, &image) else { return error(&"more separators than its span") };
        values.push(value("child 0", &inner.child(0)));
        let mut separator = [0; 8];
        for i in 1..inner.children() {
            inner.read_separator(i, &mut separator);
            let from = format!("from {:#x}", u64::from_be_bytes(separator));
            values.push(value(&from, &inner.child(i)));
        }
        values
    },
};

/// Tables of every node: version bytes and header.
pub(super) const TABLES: [Table; 2] = [
    Table { heading: "first byte of every line of 64 B", fields: words::STRIPES.tables[0].1, hues: &[0] },
    Table { heading: "header; payload offsets", fields: FIELDS, hues: &[1, 6] },
];

/// The leaf of [`SHERMAN_LEAF`] as a picture.
pub(super) fn sherman_picture() -> leaf::Leaf {
    let entry = Table { heading: "entry; payload offsets from the entry", fields: ENTRY_FIELDS, hues: &[2, 2, 3, 4] };
    let tables = [TABLES.as_slice(), &[entry]].concat();
    let head = Map::new(LEAF.bytes, true).with(&tables, 1, 0, None);
    let map = (0..LEAF.span).fold(head, |map, slot| map.with(&tables, 2, LEAF.entry_at(slot), Some(slot)));
    let sample = (SHERMAN_LEAF.samples)().swap_remove(0);
    leaf::Leaf {
        title: format!(
            "A leaf of a Sherman index: {} B, {} entries with keys and values of 8 B",
            LEAF.bytes, LEAF.span
        ),
        tables,
        map: map.clone(),
        sample: (sample.title, sample.bytes),
        lines: vec![0, 1],
        whole: Some(("The whole leaf, a cache line of 64 B in each row".to_owned(), map)),
    }
}

pub(super) const SHERMAN_LEAF: Structure = Structure {
    name: "sherman_leaf",
    title: "leaf of a Sherman index: unsorted entries",
    text: "After the header, `span` entries of 1 + K + V bytes. A WRITE of one entry covers its stored bytes from the\n\
           control byte to the end, version bytes of lines in between included, and raises the entry version by one in all of\n\
           them. A delete clears `occupied`, and makes key and value zero: so is every entry that is not in use.",
    tables: &[("entry, keys and values of 8 bytes; offsets from the entry", ENTRY_FIELDS)],
    constants: &[
        ("first entry", LEAF.entry_at(0) as u64, "payload offset, keys of 8 bytes"),
        ("span", LEAF.span as u64, "entries that fit 1024 bytes with 8 + 8"),
        ("SPAN_MAX", dm_core::sherman::layout::SPAN_MAX as u64, "most entries"),
        ("SPAN_MIN", dm_core::sherman::layout::SPAN_MIN as u64, "fewest entries"),
    ],
    samples: || {
        let mut image = start(LEAF.bytes, 0, 0x1000, Some(0x2000), address(0x8000, 1));
        let mut leaf = LeafMut::new(&LEAF, &mut image);
        leaf.put(0, &0x1800u64.to_be_bytes(), &7u64.to_le_bytes());
        // The second lies across the first line's end. It has been written three times.
        for written in 1..=3u64 {
            leaf.put(1, &0x1234u64.to_be_bytes(), &written.to_le_bytes());
        }
        leaf.put(2, &0x1111u64.to_be_bytes(), &9u64.to_le_bytes());
        leaf.clear(2);
        let mut retired = start(LEAF.bytes, 0, 0x1000, Some(0x2000), address(0x8000, 1));
        node::retire(&mut retired, address(0x4000, 7), OwnerTag::of(MEMBER, ROW_COUNT));
        let head = |retired, sibling| {
            [
                ("node version", "5"),
                ("generation", "3"),
                ("level", "0"),
                ("index", "1"),
                ("retired", retired),
                ("signer", if retired == "true" { "row 9, incarnation ..2" } else { "nobody" }),
                ("sibling", sibling),
                ("low", if retired == "true" { "right neighbour 1:0x8000.1" } else { "0x1000" }),
                ("high", "0x2000"),
            ]
        };
        let mut values = head("false", "1:0x8000.1").to_vec();
        values.extend([
            ("entry 0", "key 0x1800, value 0x7"),
            ("entry 1", "key 0x1234, value 0x3"),
            ("free entries", "55"),
        ]);
        let mut none = head("true", "1:0x4000.7").to_vec();
        none.push(("free entries", "57"));
        vec![
            Sample::new("two records, the second across a line end; a third was deleted", &image[..128], &values),
            Sample::new("retired, empty", &retired[..64], &none),
        ]
    },
    decode: |bytes| {
        let mut image = bytes.to_vec();
        // Dumps are cut where only zeros follow.
        image.resize(LEAF.bytes.max(bytes.len()), 0);
        let leaf = Leaf::new(&LEAF, &image);
        let mut values = header(bytes);
        let (mut key, mut found) = ([0; 8], [0; 8]);
        for slot in (0..LEAF.span).filter(|&slot| leaf.is_occupied(slot)) {
            leaf.read_key(slot, &mut key);
            leaf.read_value(slot, &mut found);
            let text = if leaf.is_whole(slot) {
                format!("key {:#x}, value {:#x}", u64::from_be_bytes(key), u64::from_le_bytes(found))
            } else {
                "torn".to_owned()
            };
            values.push(value(&format!("entry {slot}"), &text));
        }
        values.push(value("free entries", &(LEAF.span - leaf.records())));
        values
    },
};
