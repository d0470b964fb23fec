//! Items: entry keys, slots, blocks, and what the catalog keeps of them.

use super::values::{error, hex, value};
use super::{Sample, Structure};
use dm_core::items::block::{self, CLASSES, KEY_BYTES_LIMIT, VALUE_BYTES_LIMIT, class_bytes};
use dm_core::items::key::{KeyShape, LAYER_BYTES};
use dm_core::items::parameters::{BLOCK_AT, ItemsBlock, Parameters, mark_checksums, take_checksums};
use dm_core::items::slot::{self, BlockPointer, Slot};
use dm_core::layout::checksum::{CHECKSUM_BYTES, of_record};
use dm_core::layout::fields::Field;
use dm_core::remote::catalog::{FEATURE_CHECKSUMS, FEATURE_ITEMS};
use dm_core::verbs::NodeId;

/// Entry keys of 16 bytes: slices of seven.
const SHAPE: KeyShape = KeyShape::new(16);

const KEY_FIELDS: &[Field] = &[
    Field::bytes(0, LAYER_BYTES, "layer", "big-endian; 0 = where every key begins"),
    Field::bytes(8, 7, "slice", "bytes of the key from depth * S on, zero-padded (S bytes; here 7)"),
    Field::bytes(15, 1, "length", "bytes of the slice, 0..=S; S + 1 = the key goes on"),
];

fn text(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(bytes))
}

pub(super) const ITEMS_KEY: Structure = Structure {
    name: "items_key",
    title: "entry key of an index with keys of any length",
    text: "The key of an entry of the index below: as long as its key slots are, 16 to 64 bytes. For slots of K bytes a slice\n\
           has S = K - 9. Compared as byte strings, the entry keys of one layer stand in the order of the keys they are of.",
    tables: &[("entry key of 16 bytes", KEY_FIELDS)],
    constants: &[
        ("LAYER_BYTES", LAYER_BYTES as u64, "of a layer's number"),
        ("ENTRY_KEY_BYTES_MIN", dm_core::items::key::ENTRY_KEY_BYTES_MIN as u64, "of key slots"),
    ],
    samples: || {
        let entry = |layer, rest: &[u8]| {
            let mut bytes = [0; 16];
            SHAPE.write(layer, rest, &mut bytes);
            bytes
        };
        vec![
            Sample::new("the empty key", &entry(0, b""), &[("layer", "0x0"), ("slice", "\"\""), ("goes on", "false")]),
            Sample::new(
                "\"a\\0\" in layer 0x1000200000003",
                &entry(0x1_0002_0000_0003, b"a\0"),
                &[("layer", "0x1000200000003"), ("slice", "\"a\\0\""), ("goes on", "false")],
            ),
            Sample::new(
                "\"/usr/share\": more than seven bytes",
                &entry(0, b"/usr/share"),
                &[("layer", "0x0"), ("slice", "\"/usr/sh\""), ("goes on", "true")],
            ),
        ]
    },
    decode: |bytes| match SHAPE.read(bytes) {
        Some(entry) => {
            vec![hex("layer", entry.layer), value("slice", &text(entry.slice)), value("goes on", &entry.more)]
        }
        None => error(&"no entry key"),
    },
};

/// The entry key of a link.
fn link_key() -> [u8; 16] {
    let mut bytes = [0; 16];
    SHAPE.write(0, b"/usr/share", &mut bytes);
    bytes
}

const POINTER: BlockPointer =
    BlockPointer { place: BlockPointer::place_of(NodeId(2), 0x4_0130), life: 0x1_2345, bytes: 46 };

pub(super) const ITEMS_SLOT: Structure = Structure {
    name: "items_slot",
    title: "value of an entry of an index with values of any length",
    text: "The value of an entry of the index below: 16 to 1024 bytes, as chosen at creation. Unused bytes are zero, so that\n\
           two slots say the same if and only if all their bytes are equal.",
    tables: &[("slot", slot::FIELDS)],
    constants: &[("SLOT_BYTES_MIN", slot::SLOT_BYTES_MIN as u64, "of a slot")],
    samples: || {
        let slot = |slot: Slot<'_>| {
            let mut bytes = [0; 16];
            slot.write(&link_key(), &mut bytes);
            bytes
        };
        vec![
            Sample::new(
                "a value of five bytes",
                &slot(Slot::Inline(b"value")),
                &[("kind", "inline"), ("value", "\"value\"")],
            ),
            Sample::new(
                "a block of 46 bytes on memory node 2",
                &slot(Slot::Block(POINTER)),
                &[("kind", "block"), ("node", "2"), ("offset", "0x40130"), ("life", "0x12345"), ("bytes", "46")],
            ),
            Sample::new(
                "a link to a layer, from \"/usr/share\" and other keys with its first seven bytes in layer 0",
                &slot(Slot::Link(0x1_0002_0000_0003)),
                &[("kind", "link"), ("layer", "0x1000200000003")],
            ),
        ]
    },
    decode: |bytes| match Slot::read(&link_key(), bytes) {
        Some(Slot::Inline(held)) => vec![value("kind", &"inline"), value("value", &text(held))],
        Some(Slot::Block(pointer)) => vec![
            value("kind", &"block"),
            value("node", &pointer.node().0),
            hex("offset", pointer.offset()),
            hex("life", pointer.life.into()),
            value("bytes", &pointer.bytes),
        ],
        Some(Slot::Link(layer)) => vec![value("kind", &"link"), hex("layer", layer)],
        None => error(&"no slot"),
    },
};

pub(super) const ITEMS_BLOCK: Structure = Structure {
    name: "items_block",
    title: "a whole key and its value",
    text: "Anywhere in a chunk of kind \"block\", at a multiple of 16 bytes; key and value follow the header. Places have the sizes\n\
           16, 32, ... 256, then eight sizes per doubling; a block lies in the smallest that holds it, and its WRITE is padded\n\
           with zeros to a multiple of 16. A reader believes a block whose life, length, index and checksum are those of the\n\
           slot that led to it; anything else is another block, or none.",
    tables: &[("header", block::FIELDS)],
    constants: &[
        ("KEY_BYTES_LIMIT", KEY_BYTES_LIMIT as u64, "longest key"),
        ("VALUE_BYTES_LIMIT", VALUE_BYTES_LIMIT as u64, "longest value"),
        ("CLASSES", CLASSES as u64, "sizes of places"),
        ("largest place", class_bytes(CLASSES - 1) as u64, "bytes"),
    ],
    samples: || {
        let mut image = [0; 48];
        // It fits.
        let _ = block::write(&mut image, &POINTER, 1, b"/usr/share/doc/bash", b"a README...");
        vec![Sample::new(
            "\"/usr/share/doc/bash\" at 0x40130 of memory node 2, life 0x12345",
            &image,
            &[("key", "\"/usr/share/doc/bash\""), ("value", "\"a README...\"")],
        )]
    },
    decode: |bytes| match block::read(bytes, &POINTER, 1) {
        Some((key, held)) => vec![value("key", &text(key)), value("value", &text(held))],
        None => error(&"not that block"),
    },
};

/// What is said of parameters of that version.
fn of_version(found: u32) -> String {
    format!(
        "keys and values of any length in format {found}; this program reads and writes format 2: dump the index with the program that \
         wrote it, and load the dump"
    )
}

pub(super) const RECORD_CHECKSUM: Structure = Structure {
    name: "record_checksum",
    title: "value of an index whose records have checksums",
    text: "What an index has for a value, if its catalog entry has the incompatible feature FEATURE_CHECKSUMS: the user's value, and\n\
           the checksum behind its last byte. Where keys have any length, the key is the user's, not that of an entry.",
    tables: &[(
        "value of 8 bytes",
        &[
            Field::bytes(0, 8, "value", "the user's"),
            Field::bytes(8, CHECKSUM_BYTES, "checksum", "CRC-32C of the key, then of the value; little-endian"),
        ],
    )],
    constants: &[("FEATURE_CHECKSUMS", FEATURE_CHECKSUMS, "bit of the incompatible features")],
    samples: || {
        let mut sound = *b"a value.....";
        sound[8..].copy_from_slice(&of_record(CHECKED_KEY, b"a value."));
        let mut damaged = sound;
        damaged[0] ^= 1;
        vec![
            Sample::new("of \"its key.\"", &sound, &[("value", "\"a value.\"")]),
            Sample::new("the same with a bit that changed", &damaged, &[("error", "the checksum does not fit")]),
        ]
    },
    decode: |bytes| match bytes.split_last_chunk() {
        Some((held, checksum)) if of_record(CHECKED_KEY, held) == *checksum => vec![value("value", &text(held))],
        _ => error(&"the checksum does not fit"),
    },
};

/// The key of the samples above.
const CHECKED_KEY: &[u8] = b"its key.";

pub(super) const ITEMS_PARAMETERS: Structure = Structure {
    name: "items_parameters",
    title: "the end of a parameter block of an index with keys and values of any length",
    text: "The last eight bytes of the parameter block in the catalog entry; what is in front is the index below's, which has\n\
           zeros here if all keys and values have one size; else the catalog entry has the incompatible feature FEATURE_ITEMS.\n\
           If checksums is 1, it has the incompatible feature FEATURE_CHECKSUMS: see record_checksum. Sizes of values, here and in\n\
           front, are those with the checksum.",
    tables: &[("fields, from offset 56 of the parameter block on", ItemsBlock::FIELDS)],
    constants: &[
        ("offset", BLOCK_AT as u64, "in the parameter block"),
        ("FEATURE_ITEMS", FEATURE_ITEMS, "bit of the incompatible features"),
        ("FEATURE_CHECKSUMS", FEATURE_CHECKSUMS, "bit of the incompatible features"),
    ],
    samples: || {
        let mut block = [0; 64];
        Parameters { key_bytes_max: 1024, value_bytes_max: 65536 }.encode_into(&mut block);
        let (mut older, mut newer) = (block, block);
        (older[BLOCK_AT + 2], newer[BLOCK_AT + 2]) = (1, 3);
        let (mut with_items, mut without) = (block, [0; 64]);
        mark_checksums(&mut with_items);
        mark_checksums(&mut without);
        vec![
            Sample::new(
                "keys of up to 1 KiB, values of up to 64 KiB",
                &block[BLOCK_AT..],
                &[("key_bytes_max", "1024"), ("value_bytes_max", "65536")],
            ),
            Sample::new("keys and values of one size", &[0; 8], &[("lengths", "none")]),
            Sample::new(
                "keys of up to 1 KiB, values of up to 64 KiB less 4 bytes, with checksums",
                &with_items[BLOCK_AT..],
                &[("checksums", "1"), ("key_bytes_max", "1024"), ("value_bytes_max", "65536")],
            ),
            Sample::new(
                "keys and values of one size, with checksums",
                &without[BLOCK_AT..],
                &[("checksums", "1"), ("lengths", "none")],
            ),
            Sample::new("of an older version", &older[BLOCK_AT..], &[("error", &of_version(1))]),
            Sample::new("of a newer version", &newer[BLOCK_AT..], &[("error", &of_version(3))]),
        ]
    },
    decode: |bytes| {
        let mut block = [0; 64];
        if let Some((place, bytes)) = block.get_mut(BLOCK_AT..).zip(bytes.get(..64 - BLOCK_AT)) {
            place.copy_from_slice(bytes);
        }
        let mut decoded = match take_checksums(&mut block) {
            Ok(true) => vec![value("checksums", &1)],
            Ok(false) => Vec::new(),
            Err(what) => return error(&what),
        };
        match Parameters::take_from(&mut block) {
            Ok(Some(parameters)) => decoded.extend([
                value("key_bytes_max", &parameters.key_bytes_max),
                value("value_bytes_max", &parameters.value_bytes_max),
            ]),
            Ok(None) => decoded.push(value("lengths", &"none")),
            Err(what) => return error(&what),
        }
        decoded
    },
};
