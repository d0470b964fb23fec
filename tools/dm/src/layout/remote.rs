//! The structures every pool has.

use super::{Sample, Structure, Values};
use dm_core::layout::fields::Field;
use dm_core::layout::stripes;
use dm_core::membership::redo::{self, ImageHeader};
use dm_core::memory::closed::{ChunkName, Collector};
use dm_core::remote::address::Address;
use dm_core::remote::catalog::{Definition, Entry, EntryState, EntryWord, IndexKind, IndexNumber};
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, ChunkWord, Grant, RequestId};
use dm_core::remote::features::Features;
use dm_core::remote::lock_word::{LockWord, RowId};
use dm_core::remote::row::{Joiner, Member, Row, RowState, RowWord};
use dm_core::remote::superblock::{self, PoolPlan, Superblock};
use dm_core::sherman::parameters::{ParameterBlock, Parameters};
use dm_core::verbs::NodeId;
use std::fmt::{Display, Write as _};
use zerocopy::IntoBytes;

pub(super) fn value(name: &str, value: &dyn Display) -> (String, String) {
    (name.to_owned(), value.to_string())
}

pub(super) fn hex(name: &str, number: u64) -> (String, String) {
    (name.to_owned(), format!("{number:#x}"))
}

pub(super) fn error(what: &dyn Display) -> Values {
    vec![value("error", what)]
}

/// Two digits a byte.
fn digits(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The first word of `bytes`; a short image is continued by zeros.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(word)
}

// ---- address -----------------------------------------------------------------------------------------------------

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

// ---- lock word ---------------------------------------------------------------------------------------------------

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

// ---- cache-line versions -----------------------------------------------------------------------------------------

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

// ---- superblock --------------------------------------------------------------------------------------------------

pub(super) const SUPERBLOCK: Structure = Structure {
    name: "superblock",
    title: "byte 0 of every memory node's region",
    text: "All words little-endian. Written once, before the region is registered. Whatever lies between the areas it\n\
           names, and in them in a new pool, is zero.",
    tables: &[("fields", Superblock::FIELDS)],
    constants: &[
        ("FORMAT_VERSION", superblock::FORMAT_VERSION as u64, "what this describes"),
        ("SUPERBLOCK_ROOM_BYTES", superblock::SUPERBLOCK_ROOM_BYTES, "kept for the superblock"),
        ("HEAP_ALIGN_BYTES", superblock::HEAP_ALIGN_BYTES, "chunk 0 begins at, and chunks are, multiples of this"),
        ("ROW_COUNT", superblock::ROW_COUNT as u64, "compute-node rows of a new pool"),
        ("CATALOG_BYTES", dm_core::remote::catalog::CATALOG_BYTES, "size of the catalog"),
    ],
    samples: || {
        let plan = PoolPlan {
            pool_id: *b"0123456789abcdef",
            pool_incarnation: 3,
            node: NodeId(1),
            nodes: 2,
            region_bytes: 1 << 30,
            chunk_bytes: 8 << 20,
            lock_count: 32768,
            device_bytes: 262_144,
            redo_row_bytes: 0,
        };
        let in_device = plan.format().expect("the plan is sound");
        let in_host = PoolPlan { device_bytes: 0, redo_row_bytes: 4096, ..plan }.format().expect("the plan is sound");
        let mut other_version = in_device;
        other_version.format_version = 2.into();
        other_version.seal();
        vec![
            Sample::new(
                "memory node 1 of 2, 1 GiB in chunks of 8 MiB, 32768 locks in device memory",
                in_device.as_bytes(),
                &[
                    ("pool id", "30313233343536373839616263646566"),
                    ("pool incarnation", "3"),
                    ("node", "1 of 2"),
                    ("writable", "true"),
                    ("region bytes", "0x40000000"),
                    ("device bytes", "0x40000"),
                    ("catalog", "0x1000"),
                    ("rows", "128 at 0x2000"),
                    ("redo", "128 of 0 bytes at 0x6000"),
                    ("chunk table", "127 at 0x6000"),
                    ("heap", "0x7000, chunks of 0x800000 bytes"),
                    ("locks", "32768 at 0x0 of device memory"),
                ],
            ),
            Sample::new(
                "the same with a redo area of 4 KiB per row and without device memory",
                in_host.as_bytes(),
                &[
                    ("pool id", "30313233343536373839616263646566"),
                    ("pool incarnation", "3"),
                    ("node", "1 of 2"),
                    ("writable", "true"),
                    ("region bytes", "0x40000000"),
                    ("device bytes", "0x0"),
                    ("catalog", "0x1000"),
                    ("rows", "128 at 0x2000"),
                    ("redo", "128 of 4096 bytes at 0x6000"),
                    ("chunk table", "127 at 0x86000"),
                    ("heap", "0xc7000, chunks of 0x800000 bytes"),
                    ("locks", "32768 at 0x86400 of the region"),
                ],
            ),
            Sample::new(
                "a superblock of format version 2 is refused",
                other_version.as_bytes(),
                &[("error", "format version 2; this program reads version 1")],
            ),
        ]
    },
    decode: |bytes| {
        let node = match Superblock::decode(bytes) {
            Ok(node) => node,
            Err(found) => return error(&found),
        };
        let geometry = node.geometry;
        let memory = match geometry.lock_space {
            dm_core::verbs::Space::Host => "the region",
            dm_core::verbs::Space::Device => "device memory",
        };
        let id = digits(&node.identity.pool_id);
        vec![
            value("pool id", &id),
            value("pool incarnation", &node.identity.pool_incarnation),
            value("node", &format!("{} of {}", node.identity.node.0, node.identity.nodes)),
            value("writable", &node.writable()),
            hex("region bytes", geometry.region_bytes),
            hex("device bytes", node.device_bytes),
            hex("catalog", geometry.catalog),
            value("rows", &format!("{} at {:#x}", geometry.row_count, geometry.rows)),
            value(
                "redo",
                &format!("{} of {} bytes at {:#x}", geometry.row_count, geometry.redo_row_bytes, geometry.redo),
            ),
            value("chunk table", &format!("{} at {:#x}", geometry.chunk_count, geometry.chunk_table)),
            value("heap", &format!("{:#x}, chunks of {:#x} bytes", geometry.heap, geometry.chunk_bytes)),
            value("locks", &format!("{} at {:#x} of {memory}", geometry.lock_count, geometry.lock_table)),
        ]
    },
};

// ---- compute-node row --------------------------------------------------------------------------------------------

pub(super) const MEMBER: Member = Member { row: RowId(9), incarnation: 2, nonce: 0xabc_def1 };

pub(super) const ROW: Structure = Structure {
    name: "row",
    title: "compute-node row: who is in the pool",
    text: "Two lines; those of memory node 0 count, row 0 is nobody. All zero is a free row that nobody ever joined. The\n\
           row word is changed by CAS only; the compute node WRITEs the rest. While the incarnation of the rest is not\n\
           that of the word, or the token does not end in its nonce, the rest is of an earlier life and means nothing.",
    tables: &[("row", Row::FIELDS), ("row word", RowWord::FIELDS)],
    constants: &[
        ("INCARNATION_MAX", dm_core::remote::row::INCARNATION_MAX as u64, "a row that has seen it is used up"),
        ("ROW_COUNT_MAX", dm_core::remote::row::ROW_COUNT_MAX as u64, "rows there can be"),
    ],
    samples: || {
        let joiner = Joiner { token: 0x1234_5678_9abc_def1, lanes: 8, host: "cn-3.example" };
        let mut row = Row::of(MEMBER, &joiner);
        row.heartbeat = 77.into();
        row.epoch = 5.into();
        row.lease_us = 2_000_000.into();
        let mut fencing = row;
        fencing.word = MEMBER.word().with_state(RowState::Fencing).0.into();
        let mut left = row;
        left.word = MEMBER.word().with_state(RowState::Free).0.into();
        let mut joining = row;
        joining.word = Member { incarnation: 3, nonce: 1, ..MEMBER }.word().0.into();
        let life = |state| {
            [
                ("state", state),
                ("incarnation", "2"),
                ("heartbeat", "77"),
                ("epoch", "5"),
                ("lanes", "8"),
                ("token", "0x123456789abcdef1"),
                ("lease", "2000000 us"),
                ("redo chunks", "null, null, null, null"),
                ("host", "cn-3.example"),
            ]
        };
        vec![
            Sample::new("live, after 77 heartbeats", row.as_bytes(), &life("live")),
            Sample::new("the same compute node being fenced off", fencing.as_bytes(), &life("fencing")),
            Sample::new("the same row after it left", left.as_bytes(), &[("state", "free"), ("incarnation", "2")]),
            Sample::new(
                "the next compute node has claimed the row and not yet written the rest",
                joining.as_bytes(),
                &[("state", "live"), ("incarnation", "3")],
            ),
        ]
    },
    decode: |bytes| {
        let Some(row) = Row::from_prefix(bytes) else { return error(&"too short") };
        let view = match row.decode() {
            Ok(view) => view,
            Err(what) => return error(&what),
        };
        let mut values = vec![value("state", &view.state.name()), value("incarnation", &view.incarnation)];
        if let Some(life) = view.life {
            let redo: Vec<String> = life.redo.iter().map(|bits| Address::from_bits(*bits).to_string()).collect();
            values.extend([
                value("heartbeat", &life.heartbeat),
                value("epoch", &life.epoch),
                value("lanes", &life.lanes),
                hex("token", life.token),
                match life.lease_ns {
                    Some(ns) => value("lease", &format_args!("{} us", ns / 1000)),
                    None => value("lease", &"not said"),
                },
                value("redo chunks", &redo.join(", ")),
                value("host", &life.host),
            ]);
        }
        values
    },
};

// ---- catalog -----------------------------------------------------------------------------------------------------

const SHERMAN: Parameters = Parameters::with_sizes(8, 16);

pub(super) const CATALOG_ENTRY: Structure = Structure {
    name: "catalog_entry",
    title: "one index: its name, kind, parameters and root",
    text: "Four lines; the catalog has 16 entries, those of memory node 0 count. All zero is a free entry. The entry word\n\
           and the root word are changed by CAS; the rest is written before the entry becomes live and never after.",
    tables: &[("entry", Entry::FIELDS), ("entry word", EntryWord::FIELDS)],
    constants: &[
        ("ENTRIES", dm_core::remote::catalog::ENTRIES as u64, "entries of a catalog"),
        ("NAME_BYTES_MAX", dm_core::remote::catalog::NAME_BYTES_MAX as u64, "longest name"),
    ],
    samples: || {
        let word = EntryWord::new(EntryState::Live, dm_core::remote::catalog::tag_of("users"), 4, MEMBER);
        let definition = Definition {
            name: "users",
            kind: IndexKind::Sherman,
            parameters_version: Parameters::VERSION,
            parameters: SHERMAN.encode(),
            features: Features::default(),
        };
        let mut entry = Entry::of(word, &definition).expect("the name is sound");
        entry.root = Address::new(NodeId(1), 0x80_7000, 0).to_bits().into();
        let mut damaged = entry;
        damaged.name[0] ^= 0x20;
        vec![
            Sample::new(
                "a live Sherman index",
                entry.as_bytes(),
                &[
                    ("state", "Live"),
                    ("tag", "0x126452"),
                    ("request", "4"),
                    ("creator", "row 9, incarnation 2"),
                    ("name", "users"),
                    ("kind", "sherman"),
                    ("parameters version", "1"),
                    ("parameters", "08002700100000003c000000000000000000000000000000 and zeros"),
                    ("root", "1:0x807000.0"),
                ],
            ),
            Sample::new(
                "a claimed entry, nothing written yet",
                Entry { word: word.with_state(EntryState::Creating).0.into(), ..Entry::ZERO }.as_bytes(),
                &[("state", "Creating"), ("tag", "0x126452"), ("request", "4"), ("creator", "row 9, incarnation 2")],
            ),
            Sample::new(
                "a letter of the name changed",
                damaged.as_bytes(),
                &[("error", "checksum of a catalog entry")],
            ),
        ]
    },
    decode: |bytes| {
        let Some(entry) = Entry::from_prefix(bytes) else { return error(&"too short") };
        let word = EntryWord(entry.word.get());
        let Some(state) = word.state() else { return error(&"unknown state of a catalog entry") };
        let mut values = vec![
            value("state", &format!("{state:?}")),
            hex("tag", word.tag().into()),
            value("request", &word.request()),
            value("creator", &format!("row {}, incarnation {}", word.row().0, word.incarnation())),
        ];
        if state == EntryState::Live {
            // The number of an entry is its place in the catalog, which a lone entry does not tell.
            let number = IndexNumber::new(0).expect("a catalog has an entry 0");
            let live = match entry.decode(number) {
                Ok(live) => live,
                Err(what) => return error(&what),
            };
            let (head, rest) = live.parameters.split_at(24);
            let head = digits(head);
            let rest = if rest.iter().all(|&byte| byte == 0) { "zeros" } else { "more" };
            values.extend([
                value("name", &live.name()),
                value("kind", &live.kind.name()),
                value("parameters version", &live.parameters_version),
                value("parameters", &format!("{head} and {rest}")),
                value("root", &Address::from_bits(live.root)),
            ]);
        }
        values
    },
};

pub(super) const SHERMAN_PARAMETERS: Structure = Structure {
    name: "sherman_parameters",
    title: "parameter block of a Sherman index in its catalog entry",
    text: "",
    tables: &[("fields", ParameterBlock::FIELDS)],
    constants: &[("VERSION", Parameters::VERSION as u64, "of the block")],
    samples: || {
        vec![
            Sample::new(
                "keys of 8 bytes, values of 16, nodes of 1 KiB",
                &SHERMAN.encode(),
                &[("key_bytes", "8"), ("value_bytes", "16"), ("leaf_span", "39"), ("inner_span", "60")],
            ),
            Sample::new(
                "a leaf too small to split",
                &Parameters { leaf_span: 1, ..SHERMAN }.encode(),
                &[("error", "1 entries per leaf: the index takes 2 to 512")],
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
            ],
            Err(found) => error(&found),
        }
    },
};

// ---- chunk table -------------------------------------------------------------------------------------------------

pub(super) const CHUNK_ENTRY: Structure = Structure {
    name: "chunk_entry",
    title: "word of the chunk table: who was granted a chunk, and what for",
    text: "One little-endian word, changed by CAS only. All zero is free.",
    tables: &[("fields", ChunkWord::FIELDS)],
    constants: &[
        ("REQUESTS_MAX", dm_core::remote::chunk::REQUESTS_MAX as u64, "grants of one compute node in one incarnation"),
        ("INDEX_NONE", IndexNumber::NONE.get() as u64, "index of a chunk that serves none or all"),
    ],
    samples: || {
        let index = IndexNumber::new(4).expect("a catalog has 16 entries");
        let request = RequestId::new(0xbeef).expect("requests have 20 bits");
        let grant = Grant::new(MEMBER, ChunkKind::Inner, index, request);
        let redo = Grant::new(MEMBER, ChunkKind::Redo, index, request);
        vec![
            Sample::new("free", &ChunkWord::FREE.0.to_le_bytes(), &[("state", "free")]),
            Sample::new(
                "inner nodes of index 4",
                &grant.word().0.to_le_bytes(),
                &[
                    ("state", "granted"),
                    ("kind", "inner"),
                    ("index", "4"),
                    ("request", "48879"),
                    ("row", "9"),
                    ("incarnation", "2"),
                ],
            ),
            Sample::new(
                "redo images of a compute node that has opened index 4",
                &redo.word().0.to_le_bytes(),
                &[
                    ("state", "granted"),
                    ("kind", "redo"),
                    ("index", "4"),
                    ("request", "48879"),
                    ("row", "9"),
                    ("incarnation", "2"),
                ],
            ),
            Sample::new(
                "given back after leaves of index 0 lived there",
                &[0x0a, 0, 0, 0, 0, 0, 0, 0],
                &[("state", "used"), ("kind", "leaf"), ("index", "0")],
            ),
            Sample::new("a kind that does not exist", &[0x49, 0, 0, 0, 9, 0, 2, 0], &[("error", "unknown chunk kind")]),
        ]
    },
    decode: |bytes| match ChunkWord(word(bytes)).decode() {
        Ok(ChunkEntry::Free) => vec![value("state", &"free")],
        Ok(ChunkEntry::Used { kind, index }) => {
            vec![value("state", &"used"), value("kind", &kind.name()), value("index", &index.get())]
        }
        Ok(ChunkEntry::Granted(grant)) => vec![
            value("state", &"granted"),
            value("kind", &grant.kind.name()),
            value("index", &grant.index.get()),
            value("request", &grant.request.get()),
            value("row", &grant.row.0),
            value("incarnation", &grant.incarnation),
        ],
        Err(what) => error(&what),
    },
};

// ---- redo records ------------------------------------------------------------------------------------------------

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

// ---- closed chunks -----------------------------------------------------------------------------------------------

pub(super) const CLOSED_CHUNKS: Structure = Structure {
    name: "closed_chunks",
    title: "line of closed chunks: who collects memory, and in which chunks",
    text: "The second line of row 0 of memory node 0. Word 0 is changed by CAS only and names the collector; the other seven\n\
           words are that one's, and each names a chunk. While word 0 is zero nobody collects, and the rest means nothing.",
    tables: &[("word 0", Collector::FIELDS), ("words 1..8", ChunkName::FIELDS)],
    constants: &[(
        "CHUNKS_AT_ONCE",
        dm_core::remote::row::CHUNKS_AT_ONCE as u64,
        "chunks that can be closed at a time",
    )],
    samples: || {
        let line = |collector: Collector| {
            let mut words = [0; 1 + dm_core::remote::row::CHUNKS_AT_ONCE];
            words[0] = collector.0;
            words[1] = ChunkName::new(NodeId(1), 0).0;
            words[2] = ChunkName::new(NodeId(3), 0xbeef).0;
            words.map(u64::to_le_bytes).concat()
        };
        vec![
            Sample::new(
                "the fifth collection of row 9 in its incarnation 2, of two chunks",
                &line(Collector::new(MEMBER, 5)),
                &[
                    ("collector", "row 9, incarnation 2"),
                    ("collection", "5"),
                    ("closed", "chunk 0 of memory node 1, chunk 48879 of memory node 3"),
                ],
            ),
            Sample::new("names without a collector", &line(Collector::NOBODY), &[("collector", "nobody")]),
        ]
    },
    decode: |bytes| {
        let Some(line) = bytes.first_chunk::<{ 8 * (1 + dm_core::remote::row::CHUNKS_AT_ONCE) }>() else {
            return error(&"too short");
        };
        let collector = Collector(word(line));
        if collector == Collector::NOBODY {
            return vec![value("collector", &"nobody")];
        }
        let closed: Vec<String> = line
            .chunks_exact(8)
            .skip(1)
            .map(|bytes| ChunkName(word(bytes)))
            .filter_map(|name| Some(format!("chunk {} of memory node {}", name.chunk()?, name.node().0)))
            .collect();
        vec![
            value("collector", &format!("row {}, incarnation {}", collector.row().0, collector.incarnation())),
            value("collection", &collector.number()),
            value("closed", &closed.join(", ")),
        ]
    },
};
