//! Structures of a Dolphin index.

use super::row::MEMBER;
use super::values::{digits, error, hex, value};
use super::{Sample, Structure, Values};
use crate::picture::leaf::{self, Map, Table};
use dm_core::dolphin::layout::block::{self, BlockHead, BlockPointer};
use dm_core::dolphin::layout::leaf::{CELL_FIELDS, GENERATION_AT, HEAD_FIELDS, Head, INDEX_AT, Leaf, LeafMut, Value};
use dm_core::dolphin::layout::shape::{LEAF_BYTES, LeafShape, PREFIX_BYTES};
use dm_core::dolphin::parameters::{ParameterBlock, Parameters};
use dm_core::dolphin::spear::{Presence, SEATS, Seat, Spear};
use dm_core::layout::LINE_BYTES;
use dm_core::radix::slot::{self, Child, Header, Node, NodeType, Place, Slot, word};
use dm_core::radix::tile::{Bounds, Tile};
use dm_core::registry::KindParameters;
use dm_core::remote::address::Address;
use dm_core::remote::owner_tag::OwnerTag;
use dm_core::remote::superblock::ROW_COUNT;
use dm_core::verbs::NodeId;

const LEAF: Address = Address::new(NodeId(1), 0x1_2340, 41);
/// What it becomes when it is cut.
const HEIRS: [Address; 2] = [Address::new(NodeId(1), 0x1_2740, 3), Address::new(NodeId(2), 0x4_5600, 0)];

const fn shape(key_bytes: usize, value_bytes: usize) -> LeafShape {
    LeafShape::new(key_bytes, value_bytes).expect("sizes that an index takes")
}

fn seat(number: u8) -> Seat {
    Seat::new(number).expect("a seat")
}

fn tile(low: u8, last: u8) -> Tile {
    Tile::new(low, last).expect("a tile")
}

// ---- parameters --------------------------------------------------------------------------------------------------

pub(super) const DOLPHIN_PARAMETERS: Structure = Structure {
    name: "dolphin_parameters",
    title: "parameter block of a Dolphin index in its catalog entry",
    text: "",
    tables: &[("fields", ParameterBlock::FIELDS)],
    constants: &[("VERSION", Parameters::VERSION as u64, "of the block")],
    samples: || {
        vec![
            Sample::new(
                "keys of 32 bytes and values of 63",
                &Parameters::with_sizes(32, 63).encode(),
                &[("key_bytes", "32"), ("value_bytes", "63")],
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

// ---- Spear word --------------------------------------------------------------------------------------------------

fn spear_values(word: Spear) -> Values {
    let mut values = vec![value("retired", &word.is_retired()), value("sound", &word.is_sound())];
    for (seat, presence) in word.taken() {
        let what = match presence {
            Presence::Out => "out",
            Presence::Inside => "inside",
            Presence::Closing => "closing",
            Presence::Broken => "broken",
        };
        values.push(value(&format!("seat {}", seat.number()), &what));
    }
    values
}

pub(super) const DOLPHIN_SPEAR: Structure = Structure {
    name: "dolphin_spear",
    title: "first word of a leaf: who writes it, and who closes it",
    text: "One little-endian word. A compute node changes its own seat only, by FAA: +1 to enter, +2 to close, and the same\n\
           subtracted. A retirement and the opening of the closer's seat are one FAA. A repair after a death is a CAS of the\n\
           whole word. The word is never written otherwise, and not when the place is reused.",
    tables: &[("word", Spear::FIELDS)],
    constants: &[("SEATS", SEATS as u64, "compute nodes that can write to an index")],
    samples: || {
        let word = seat(0).enter() + seat(17).enter() + seat(29).close();
        vec![
            Sample::new("free", &Spear::FREE.0.to_le_bytes(), &[("retired", "false"), ("sound", "true")]),
            Sample::new(
                "two compute nodes inside, a third waits until they have left",
                &word.to_le_bytes(),
                &[
                    ("retired", "false"),
                    ("sound", "true"),
                    ("seat 0", "inside"),
                    ("seat 17", "inside"),
                    ("seat 29", "closing"),
                ],
            ),
            Sample::new(
                "retired by seat 29, while seat 3 has entered in vain",
                &(seat(29).close() + seat(3).enter()).wrapping_add(seat(29).retire()).to_le_bytes(),
                &[("retired", "true"), ("sound", "true"), ("seat 3", "inside")],
            ),
            Sample::new(
                "no writer makes it",
                &3_u64.to_le_bytes(),
                &[("retired", "false"), ("sound", "false"), ("seat 0", "broken")],
            ),
        ]
    },
    decode: |bytes| spear_values(Spear(word(bytes, 0))),
};

// ---- slots and nodes ---------------------------------------------------------------------------------------------

fn slot_text(slot: Slot) -> String {
    let mut text = match slot.tile_child() {
        Ok(Child::Empty) => "nothing".to_owned(),
        Ok(Child::Void(tile)) => format!("void {:#04x}..={:#04x}", tile.low(), tile.last()),
        Ok(Child::Leaf(leaf)) => format!("leaf at {leaf}"),
        Ok(Child::Node(kind, place)) => {
            let tiles = if slot.is_special() { " with tiles" } else { "" };
            format!("node of {} slots{tiles} at {}:{:#x}", kind.slots(), place.node().0, place.offset())
        }
        Err(found) => return found.to_string(),
    };
    text.push_str(if slot.is_frozen() { ", frozen" } else { "" });
    text
}

pub(super) const DOLPHIN_SLOT: Structure = Structure {
    name: "dolphin_slot",
    title: "slot of a node with tiles, and the root slot in the catalog",
    text: "One little-endian word, changed by CAS only once its node is published. Nodes and empty slots are radix_slot's with\n\
           one mark more. A slot's tile reaches from its byte to the next slot's; a leaf says its bounds itself, a void says\n\
           where it ends, a node's tile has one byte.",
    tables: &[("word", Slot::TILE_FIELDS)],
    constants: &[],
    samples: || {
        let kind = NodeType::new(2).expect("a type");
        let sample = |title, slot: Slot, leads_to| {
            let low = format!("{:#x}", slot.partial());
            Sample::new(title, &slot.0.to_le_bytes(), &[("low", low.as_str()), ("leads to", leads_to)])
        };
        vec![
            sample("a leaf of generation 41", Slot::tile_leaf(0x20, LEAF).expect("a leaf"), "leaf at 1:0x12340.41"),
            sample(
                "the same, frozen",
                Slot::tile_leaf(0x20, LEAF).expect("a leaf").frozen(),
                "leaf at 1:0x12340.41, frozen",
            ),
            sample("no leaf for bytes 0x30 to 0x7f", Slot::void(tile(0x30, 0x7f)), "void 0x30..=0x7f"),
            sample(
                "a node",
                Slot::tile_node(0x2f, kind, Place::new(NodeId(3), 0x1230)),
                "node of 8 slots with tiles at 3:0x1230",
            ),
            sample("empty", Slot::EMPTY, "nothing"),
        ]
    },
    decode: |bytes| {
        let Some(word) = bytes.first_chunk() else { return error(&"too short") };
        let slot = Slot(u64::from_le_bytes(*word));
        vec![hex("low", u64::from(slot.partial())), value("leads to", &slot_text(slot))]
    },
};

pub(super) const DOLPHIN_NODE: Structure = Structure {
    name: "dolphin_node",
    title: "node with tiles",
    text: "As radix_node. The first slot begins at byte 0. The child of a key is that of the greatest byte not above the key's.",
    tables: &[("fields", Header::FIELDS)],
    constants: &[],
    samples: || {
        let kind = NodeType::SMALLEST;
        let header = Header::new(kind, 0, 3, b"abcd");
        let mut image = [0; NodeType::SMALLEST.bytes()];
        let slots = [
            Slot::tile_leaf(0, LEAF).expect("a leaf"),
            Slot::void(tile(0x62, 0xff)),
            Slot::tile_node(0x61, kind, Place::new(NodeId(0), 0x4000)),
        ];
        slot::build(&mut image, &header, 1, slots);
        vec![Sample::new(
            "below \"abc\": a leaf, then a node for one byte, then nothing",
            &image,
            &[
                ("position", "3"),
                ("floor of 0x60", "slot 0: leaf at 1:0x12340.41"),
                ("floor of 0x61", "slot 2: node of 4 slots with tiles at 0:0x4000"),
                ("floor of 0xff", "slot 1: void 0x62..=0xff"),
            ],
        )]
    },
    decode: |bytes| {
        let Some(header) = Header::from_word(word(bytes, 0)) else { return error(&"no header") };
        let node = match Node::new(bytes, header.kind, word(bytes, 8) as u8) {
            Ok(node) => node,
            Err(found) => return error(&found),
        };
        if let Err(found) = node.check_tiles() {
            return error(&found);
        }
        let mut values = vec![value("position", &header.position)];
        for byte in [0x60, 0x61, 0xff] {
            let text = match node.floor(byte) {
                Ok(floor) => format!("slot {}: {}", floor.index, slot_text(floor.slot)),
                Err(found) => found.to_string(),
            };
            values.push(value(&format!("floor of {byte:#x}"), &text));
        }
        values
    },
};

// ---- leaf --------------------------------------------------------------------------------------------------------

fn leaf_values(shape: &LeafShape, bytes: &[u8]) -> Values {
    let mut image = bytes.to_vec();
    // Dumps are cut behind the first line of cells.
    image.resize(LEAF_BYTES, 0);
    let (generation, index) = (image[GENERATION_AT], image[INDEX_AT]);
    let leaf = match Leaf::new(shape, &image, Address::new(NodeId(0), 64, generation), index) {
        Ok(leaf) => leaf,
        Err(found) => return error(&found),
    };
    let mut room = [0; 64];
    let bounds = leaf.bounds(&mut room);
    let owner = leaf.owner();
    let mut values = spear_values(leaf.spear());
    if leaf.spear().is_retired() {
        for (number, heir) in leaf.heirs().into_iter().enumerate() {
            values.push(value(
                &format!("heir {number}"),
                &format_args!("from {:#04x} on {}", heir.partial(), slot_text(heir)),
            ));
        }
    }
    values.extend([
        value("generation", &generation),
        value("index", &index),
        value("prefix", &digits(bounds.prefix())),
        value("tile", &format_args!("{:#04x}..={:#04x}", bounds.tile().low(), bounds.tile().last())),
        value("owner", &format_args!("row {}, incarnation ..{}", owner.row(ROW_COUNT).0, owner.incarnation(ROW_COUNT))),
        hex("absent word", leaf.absent()),
        value("not bound", &format_args!("{:#04x}", bounds.unbound())),
    ]);
    values
}

/// The cells that a whole leaf has in use.
fn cells(shape: &LeafShape, bytes: &[u8]) -> Values {
    let address = Address::new(NodeId(0), 64, bytes[GENERATION_AT]);
    let Ok(leaf) = Leaf::new(shape, bytes, address, bytes[INDEX_AT]) else {
        return error(&"no leaf");
    };
    let text = |cell| match leaf.value(cell) {
        Ok(Value::Absent) => "absent".to_owned(),
        Ok(Value::Here(bytes)) => digits(bytes),
        Ok(Value::Block(block)) => format!("block at {:#x}", block.place().offset()),
        Err(found) => found.to_string(),
    };
    let mut values: Values = (0..leaf.bound())
        .map(|cell| {
            value(&format!("cell {cell}"), &format_args!("key {}, value {}", digits(leaf.key(cell)), text(cell)))
        })
        .collect();
    values.push(match leaf.check() {
        Ok(records) => value("records", &records),
        Err(found) => value("records", &found),
    });
    values
}

fn start<'a>(shape: &'a LeafShape, image: &'a mut [u8], prefix: &[u8], tile: Tile) -> LeafMut<'a> {
    let bounds = Bounds::new(prefix, tile).expect("some bounds");
    let owner = OwnerTag::of(MEMBER, ROW_COUNT);
    let head = Head { address: LEAF, index: 1, bounds, owner, absent: 0 };
    LeafMut::start(shape, image, &head).expect("bounds that fit the keys")
}

const WORDS: LeafShape = shape(8, 8);
const LONG: LeafShape = shape(64, 8);

/// The leaf of [`DOLPHIN_LEAF`] as a picture.
pub(super) fn picture() -> leaf::Leaf {
    // What a head of two lines has more is not in this one.
    let one_line = HEAD_FIELDS.iter().take_while(|field| field.offset < WORDS.head_bytes).count();
    let tables = vec![
        Table { heading: "head", fields: &HEAD_FIELDS[..one_line], hues: &[2, 8, 5, 1, 1, 6, 1, 6, 1, 6, 7, 1] },
        Table { heading: "cells", fields: CELL_FIELDS, hues: &[3, 3, 4, 4] },
    ];
    let head = Map::new(LEAF_BYTES, false).with(&tables, 0, 0, None);
    let map = (0..WORDS.span).fold(head, |map, cell| {
        let (key, value) = (WORDS.key_at(cell), WORDS.value_at(cell));
        let map = map.with_field((1, 0), key..key + WORDS.key_bytes, cell);
        map.with_field((1, 2), value..value + WORDS.cell_bytes(), cell)
    });
    let sample = (DOLPHIN_LEAF.samples)().swap_remove(0);
    leaf::Leaf {
        title: format!("A leaf of a Dolphin index: {LEAF_BYTES} B, {} cells for keys and values of 8 B", WORDS.span),
        tables,
        map: map.clone(),
        sample: (sample.title, sample.bytes),
        lines: vec![0, 1, WORDS.value_at(0) / LINE_BYTES],
        whole: Some(("The whole leaf, a cache line of 64 B in each row".to_owned(), map)),
    }
}

pub(super) const DOLPHIN_LEAF: Structure = Structure {
    name: "dolphin_leaf",
    title: "leaf of a Dolphin index",
    text: "The head never changes but for its first word, and for the heirs right before the leaf is retired. A key cell is\n\
           bound once in a leaf's life. A record is there if its key cell has the key and its value cell is not absent: values\n\
           of 8 bytes, not the leaf's absent word; of 9 to 63, a state byte of 1 and then the value; longer ones, the name of a\n\
           block (dolphin_block) that is not 0. No line cuts a cell: key cells come first, as many to a line as fit; value\n\
           cells fill what is left of these lines, words at multiples of 8, and the lines behind.",
    tables: &[("head", HEAD_FIELDS), ("cells, keys and values of 8 bytes", CELL_FIELDS)],
    constants: &[
        ("LEAF_BYTES", LEAF_BYTES as u64, "of a leaf, whatever the sizes"),
        ("PREFIX_BYTES", PREFIX_BYTES as u64, "of a prefix in the first line"),
        ("span 8/8", WORDS.span as u64, "records with keys and values of 8 bytes"),
        ("span 32/8", shape(32, 8).span as u64, "keys of 32"),
        ("span 64/8", LONG.span as u64, "keys of 64"),
        ("span 8/16", shape(8, 16).span as u64, "values of 16"),
        ("span 8/1024", shape(8, 1024).span as u64, "values in blocks"),
    ],
    samples: || {
        let mut image = vec![0; LEAF_BYTES];
        let mut leaf = start(&WORDS, &mut image, b"\x00\x00\x00", tile(0x20, 0x2f));
        for (cell, (key, there)) in
            [(0x21_0000_0001_u64, true), (0x20_0000_0007, false), (0x2f_ffff_ffff, true)].into_iter().enumerate()
        {
            leaf.bind(cell, &key.to_be_bytes());
            assert!(!there || leaf.put(cell, &(cell as u64 + 7).to_le_bytes()), "a value");
        }
        image[..8].copy_from_slice(&seat(4).enter().to_le_bytes());
        let mut long = vec![0; LEAF_BYTES];
        let prefix: Vec<u8> = (1..=44).collect();
        let heirs = [(0, HEIRS[0]), (0x30, HEIRS[1])].map(|(low, leaf)| Slot::tile_leaf(low, leaf).expect("a leaf"));
        start(&LONG, &mut long, &prefix, tile(0, 0x7f)).set_heirs(heirs);
        long[..8].copy_from_slice(&Spear::RETIRED.to_le_bytes());
        long.truncate(128);
        vec![
            Sample::new(
                "keys and values of 8 bytes: two records, a third was deleted, one compute node writes",
                &image,
                &[
                    ("retired", "false"),
                    ("sound", "true"),
                    ("seat 4", "inside"),
                    ("generation", "41"),
                    ("index", "1"),
                    ("prefix", "000000"),
                    ("tile", "0x20..=0x2f"),
                    ("owner", "row 9, incarnation ..2"),
                    ("absent word", "0xffffffffffffffff"),
                    ("not bound", "0x00"),
                    ("cell 0", "key 0000002100000001, value 0700000000000000"),
                    ("cell 1", "key 0000002000000007, value absent"),
                    ("cell 2", "key 0000002fffffffff, value 0900000000000000"),
                    ("records", "2"),
                ],
            ),
            Sample::new(
                "the head of a retired leaf with keys of 64 bytes and a prefix of 44",
                &long,
                &[
                    ("retired", "true"),
                    ("sound", "true"),
                    ("heir 0", "from 0x00 on leaf at 1:0x12740.3"),
                    ("heir 1", "from 0x30 on leaf at 2:0x45600.0"),
                    ("generation", "41"),
                    ("index", "1"),
                    (
                        "prefix",
                        "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c",
                    ),
                    ("tile", "0x00..=0x7f"),
                    ("owner", "row 9, incarnation ..2"),
                    ("absent word", "0xffffffffffffffff"),
                    ("not bound", "0x00"),
                ],
            ),
        ]
    },
    decode: |bytes| {
        if bytes.len() < LEAF_BYTES {
            return leaf_values(&LONG, bytes);
        }
        let mut values = leaf_values(&WORDS, bytes);
        values.extend(cells(&WORDS, bytes));
        values
    },
};

// ---- block -------------------------------------------------------------------------------------------------------

pub(super) const DOLPHIN_BLOCK: Structure = Structure {
    name: "dolphin_block",
    title: "value of 64 bytes or more, outside its leaf",
    text: "A leaf's value cell has the block's name, one little-endian word. Places are multiples of 16 bytes; the image is\n\
           filled with zeros up to one. A block does not change while a leaf names it.",
    tables: &[("name, in the leaf", BlockPointer::FIELDS), ("head; the value follows", BlockHead::FIELDS)],
    constants: &[
        ("place 64", block::place_bytes(64) as u64, "bytes of the place of a value of 64 bytes"),
        ("place 1024", block::place_bytes(1024) as u64, "and of 1024"),
    ],
    samples: || {
        let name = BlockPointer::new(Place::new(NodeId(2), 0x5670), 7).expect("a name");
        let mut bytes = name.to_bits().to_le_bytes().to_vec();
        let mut image = [0; block::place_bytes(64)];
        block::write(&mut image, name, 1, &[0x5a; 64]).expect("room");
        bytes.extend(image);
        vec![Sample::new(
            "a name, and behind it the block",
            &bytes,
            &[("place", "2:0x5670"), ("generation", "7"), ("value", "64 bytes of 0x5a")],
        )]
    },
    decode: |bytes| {
        let Some(name) = BlockPointer::from_bits(word(bytes, 0)) else { return error(&"no block") };
        let text = match block::read(bytes.get(8..).unwrap_or_default(), name, 1, 64) {
            Ok(found) if found.iter().all(|byte| *byte == found[0]) => format!("64 bytes of {:#x}", found[0]),
            Ok(_) => "64 bytes".to_owned(),
            Err(found) => found.to_string(),
        };
        vec![
            value("place", &format_args!("{}:{:#x}", name.place().node().0, name.place().offset())),
            value("generation", &name.generation()),
            value("value", &text),
        ]
    },
};
