//! Structures that only radix trees have, and those of a SMART index.

use super::values::{error, hex, value};
use super::{Sample, Structure};
use crate::picture::leaf::{self, Map, Table};
use dm_core::radix::slot::{self, Child, Header, NODE_BYTES_MAX, Node, NodeType, Place, Slot, UNIT_BYTES};
use dm_core::registry::KindParameters;
use dm_core::smart::layout::{LEAF_FIELDS, LeafShape, LeafState};
use dm_core::smart::parameters::{ParameterBlock, Parameters};
use dm_core::verbs::NodeId;

const LEAF: LeafShape = LeafShape::new(8, 8);

fn slot_values(slot: Slot) -> super::Values {
    let what = match slot.child() {
        Ok(Child::Empty | Child::Void(_)) => "nothing".to_owned(),
        Ok(Child::Leaf(place)) => format!("leaf at {}:{:#x}", place.node().0, place.offset()),
        Ok(Child::Node(kind, place)) => {
            format!("node of {} slots at {}:{:#x}", kind.slots(), place.node().0, place.offset())
        }
        Err(found) => return error(&found),
    };
    vec![hex("partial", u64::from(slot.partial())), value("frozen", &slot.is_frozen()), value("leads to", &what)]
}

pub(super) const RADIX_SLOT: Structure = Structure {
    name: "radix_slot",
    title: "slot of a radix tree's node, and its root slot in the catalog",
    text: "One little-endian word, changed by CAS only once its node is published. All zero is empty. Empty -> leaf -> node ->\n\
           other node, and at last the same word frozen.",
    tables: &[("word", Slot::FIELDS)],
    constants: &[("UNIT_BYTES", UNIT_BYTES as u64, "nodes and leaves begin at multiples of this")],
    samples: || {
        let place = Place::new(NodeId(3), 0x12_3456_7890);
        let kind = NodeType::new(3).expect("a type");
        let sample = |title, slot: Slot, values: &[(&str, &str)]| Sample::new(title, &slot.0.to_le_bytes(), values);
        vec![
            sample(
                "a leaf",
                Slot::leaf(0xab, place),
                &[("partial", "0xab"), ("frozen", "false"), ("leads to", "leaf at 3:0x1234567890")],
            ),
            sample(
                "a node, frozen",
                Slot::node(0xab, kind, place).frozen(),
                &[("partial", "0xab"), ("frozen", "true"), ("leads to", "node of 16 slots at 3:0x1234567890")],
            ),
            sample("empty", Slot::EMPTY, &[("partial", "0x0"), ("frozen", "false"), ("leads to", "nothing")]),
        ]
    },
    decode: |bytes| {
        let Some(word) = bytes.first_chunk() else { return error(&"too short") };
        slot_values(Slot(u64::from_le_bytes(*word)))
    },
};

pub(super) const RADIX_NODE: Structure = Structure {
    name: "radix_node",
    title: "node of a radix tree",
    text: "Header and mark never change. Slots are filled in ascending order, each byte has one. A node of type t has\n\
           4 << (t - 1) slots and no room for more; a full one is frozen and replaced.",
    tables: &[("fields", Header::FIELDS)],
    constants: &[
        ("smallest", NodeType::SMALLEST.bytes() as u64, "bytes of a node of 4 slots"),
        ("largest", NODE_BYTES_MAX as u64, "bytes of a node of 256 slots"),
    ],
    samples: || {
        let header = Header::new(NodeType::SMALLEST, 4, 7, b"the root");
        let mut image = [0; NodeType::SMALLEST.bytes()];
        let place = Place::new(NodeId(0), 0x10_0000);
        slot::build(&mut image, &header, 1, [Slot::leaf(b't', place), Slot::leaf(b'f', place.plus(32))]);
        vec![Sample::new(
            "below \"the roo\": \"the root\" and \"the roof\", entered at byte 4",
            &image,
            &[
                ("position", "7"),
                ("type", "1"),
                ("bytes", "[114, 111, 111]"),
                ("index", "1"),
                ("slot 0", "partial 0x74, frozen false, leads to leaf at 0:0x100000"),
                ("slot 1", "partial 0x66, frozen false, leads to leaf at 0:0x100020"),
            ],
        )]
    },
    decode: |bytes| {
        let Some(header) = Header::from_word(slot::word(bytes, 0)) else { return error(&"no header") };
        let index = slot::word(bytes, 8);
        let node = match Node::new(bytes, header.kind, index as u8) {
            Ok(node) => node,
            Err(found) => return error(&found),
        };
        let mut values = vec![
            value("position", &header.position),
            value("type", &header.kind.number()),
            value("bytes", &format!("{:?}", &header.bytes[..usize::from(header.size)])),
            value("index", &index),
        ];
        for (i, slot) in node.slots().enumerate().filter(|(_, slot)| !slot.is_empty()) {
            let text: Vec<_> = slot_values(slot).into_iter().map(|(name, text)| format!("{name} {text}")).collect();
            values.push(value(&format!("slot {i}"), &text.join(", ")));
        }
        values
    },
};

const fn name(state: LeafState) -> &'static str {
    match state {
        LeafState::Valid => "there",
        LeafState::Deleted => "deleted",
        LeafState::Finalized => "finalized",
    }
}

/// The leaf of [`SMART_LEAF`] as a picture.
pub(super) fn picture() -> leaf::Leaf {
    let tables = vec![Table { heading: "fields", fields: LEAF_FIELDS, hues: &[5, 1, 4, 3, 2] }];
    let sample = (SMART_LEAF.samples)().swap_remove(0);
    leaf::Leaf {
        title: format!("A leaf of a SMART index: {} B, one record with a key and a value of 8 B", LEAF.place_bytes),
        map: Map::new(LEAF.place_bytes, false).with(&tables, 0, 0, None),
        tables,
        sample: (sample.title, sample.bytes),
        lines: vec![0],
        whole: None,
    }
}

pub(super) const SMART_LEAF: Structure = Structure {
    name: "smart_leaf",
    title: "leaf of a SMART index: one record",
    text: "An update writes seal and value, a delete the seal, and so does who buries a deleted leaf, for ever; the key never \
           changes, and the lock is changed by CAS, and freed by the WRITE of its holder.",
    tables: &[("fields, keys and values of 8 bytes", LEAF_FIELDS)],
    constants: &[
        ("place", LEAF.place_bytes as u64, "bytes of a leaf with keys and values of 8 bytes"),
        ("longest place", LeafShape::new(64, 1024).place_bytes as u64, "bytes of one with the longest of both"),
    ],
    samples: || {
        let sample = |title, sealed: LeafState| {
            let mut image = [0; LEAF.place_bytes];
            LEAF.build(&mut image, b"\x10\x11\x12\x13\x14\x15\x16\x17", &0x1122_3344_5566_7788_u64.to_le_bytes());
            LEAF.close(&mut image, sealed);
            let state = name(sealed);
            let values =
                [("state", state), ("key", "0x1011121314151617"), ("value", "0x1122334455667788"), ("lock", "0x0")];
            Sample::new(title, &image, &values)
        };
        vec![
            sample("a record", LeafState::Valid),
            sample("the same, deleted", LeafState::Deleted),
            sample("the same, and its leaf finalized", LeafState::Finalized),
        ]
    },
    decode: |bytes| {
        let state = match LEAF.state(bytes) {
            Ok(state) => name(state),
            Err(found) => return error(&found),
        };
        let key = LEAF.key(bytes).iter().fold(0, |key, byte| key << 8 | u64::from(*byte));
        vec![
            value("state", &state),
            hex("key", key),
            hex("value", slot::word(LEAF.value(bytes), 0)),
            hex("lock", slot::word(bytes, LEAF.lock_at)),
        ]
    },
};

pub(super) const SMART_PARAMETERS: Structure = Structure {
    name: "smart_parameters",
    title: "parameter block of a SMART index in its catalog entry",
    text: "",
    tables: &[("fields", ParameterBlock::FIELDS)],
    constants: &[("VERSION", Parameters::VERSION as u64, "of the block")],
    samples: || {
        vec![
            Sample::new(
                "keys of 32 bytes and values of 8",
                &Parameters::with_sizes(32, 8).encode(),
                &[("key_bytes", "32"), ("value_bytes", "8")],
            ),
            Sample::new(
                "keys that are too long",
                &Parameters::with_sizes(65, 8).encode(),
                &[("error", "key bytes 65: the index takes 8 to 64")],
            ),
        ]
    },
    decode: |bytes| {
        let Some(block) = bytes.first_chunk() else { return error(&"too short") };
        match Parameters::decode(Parameters::VERSION, block) {
            Ok(parameters) => {
                vec![value("key_bytes", &parameters.key_bytes), value("value_bytes", &parameters.value_bytes)]
            }
            Err(found) => error(&found),
        }
    },
};
