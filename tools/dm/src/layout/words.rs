//! Words that structures consist of: addresses, lock words, versions of cache lines.

use super::values::{hex, value, word};
use super::{Sample, Structure};
use dm_core::layout::fields::Field;
use dm_core::layout::stripes;
use dm_core::remote::address::Address;
use dm_core::remote::lock_word::{LockWord, RowId};
use dm_core::verbs::NodeId;

pub(super) const ADDRESS: Structure = Structure {
    name: "address",
    title: "pointer to a node: memory node, byte offset, generation",
    text: "One little-endian word. Nodes are 64-byte aligned; the low six bits of their offset hold the generation.\n\
           All zero is the null address.",
    tables: &[(
        "fields",
        &[
            Field::bits(
                0,
                0,
                6,
                "generation",
                "which of the nodes that lived there; repeated in the node's first line",
            ),
            Field::bits(0, 6, 42, "offset / 64", "byte offset in the memory node's region, divided by 64"),
            Field::bits(0, 48, 16, "node", "logical memory node"),
        ],
    )],
    constants: &[
        ("OFFSET_END", Address::OFFSET_END, "byte offsets are below this"),
        ("LINE_BYTES", dm_core::layout::LINE_BYTES as u64, "alignment of nodes"),
    ],
    samples: || {
        vec![
            Sample::new(
                "generation 42 of the node at 0xabcdef012340 of memory node 0x1234",
                &Address::new(NodeId(0x1234), 0xabcd_ef01_2340, 42).to_bits().to_le_bytes(),
                &[("node", "4660"), ("offset", "0xabcdef012340"), ("generation", "42")],
            ),
            Sample::new(
                "the null address",
                &Address::NULL.to_bits().to_le_bytes(),
                &[("node", "0"), ("offset", "0x0"), ("generation", "0")],
            ),
        ]
    },
    decode: |bytes| {
        let address = Address::from_bits(word(bytes));
        vec![
            value("node", &address.node().0),
            hex("offset", address.offset()),
            value("generation", &address.generation()),
        ]
    },
};

pub(super) const LOCK_WORD: Structure = Structure {
    name: "lock_word",
    title: "word of a lock table, held by a compute node",
    text: "One little-endian word; all zero is free. The lock of a node is the word at\n\
           ((offset / 64 * 0x9e3779b97f4a7c15 mod 2^64) / 2^32) * lock_count / 2^32 of its memory node's table.",
    tables: &[("fields", LockWord::FIELDS)],
    constants: &[],
    samples: || {
        let held = LockWord::new(RowId(9), 0xbeef).expect("far below the end");
        vec![
            Sample::new("free", &LockWord::FREE.0.to_le_bytes(), &[("row", "0"), ("sequence", "0")]),
            Sample::new(
                "held by row 9, its acquisition 48879",
                &held.0.to_le_bytes(),
                &[("row", "9"), ("sequence", "48879")],
            ),
        ]
    },
    decode: |bytes| {
        let lock = LockWord(word(bytes));
        vec![value("row", &lock.row().0), value("sequence", &lock.sequence())]
    },
};

pub(super) const STRIPES: Structure = Structure {
    name: "cache_line_versions",
    title: "how nodes are stored: a version byte before every 63 payload bytes",
    text: "A node is a whole number of 64-byte lines; payload byte p is stored at 64 * (p / 63) + 1 + p % 63. The node\n\
           version is the same in every line. An entry's version is in the entry, and repeated in the version byte of\n\
           every line that the entry reaches into from the line before.",
    tables: &[(
        "one line",
        &[
            Field::bits(0, 0, 4, "node version", "raised by every WRITE of the whole node, modulo 16"),
            Field::bits(0, 4, 4, "entry version", "that of the entry which reaches in from the line before"),
            Field::bytes(1, 63, "payload", ""),
        ],
    )],
    constants: &[("LINE_PAYLOAD_BYTES", stripes::LINE_PAYLOAD_BYTES as u64, "payload of a line")],
    samples: || {
        let mut image = vec![0; 192];
        stripes::set_node_version(&mut image, 7);
        let entry: Vec<u8> = (1..=70).collect();
        stripes::write(&mut image, 60, &entry);
        stripes::set_entry_version(&mut image, 60, entry.len(), 9);
        vec![Sample::new(
            "three lines of node version 7; bytes 1..=70 at payload 60..130, entry version 9",
            &image,
            &[
                ("node version", "7"),
                ("line 0", "entry version 0, payload 0..63 sums to 6"),
                ("line 1", "entry version 9, payload 63..126 sums to 2205"),
                ("line 2", "entry version 9, payload 126..189 sums to 274"),
            ],
        )]
    },
    decode: |bytes| {
        let mut values = vec![match stripes::node_version(bytes) {
            Some(version) => value("node version", &version),
            None => value("node version", &"torn"),
        }];
        let lines = bytes.len() / 64;
        values.extend((0..lines).map(|line| {
            let from = line * stripes::LINE_PAYLOAD_BYTES;
            let to = from + stripes::LINE_PAYLOAD_BYTES;
            let sum: u32 = (from..to).map(|at| u32::from(stripes::byte(bytes, at))).sum();
            let version = bytes[line * 64] >> 4;
            value(&format!("line {line}"), &format!("entry version {version}, payload {from}..{to} sums to {sum}"))
        }));
        values
    },
};
