//! Memory that a pool grants: the chunk table, and the chunks of a collection.

use super::row::MEMBER;
use super::values::{error, value, word};
use super::{Sample, Structure};
use dm_core::memory::closed::{ChunkName, Collector};
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, ChunkWord, Grant, RequestId};
use dm_core::verbs::NodeId;

pub(super) const CHUNK_ENTRY: Structure = Structure {
    name: "chunk_entry",
    title: "word of the chunk table: the compute node that was granted a chunk, and what for",
    text: "One little-endian word, changed by CAS only. All zero is free.",
    tables: &[("fields", ChunkWord::FIELDS)],
    constants: &[
        ("REQUESTS_MAX", dm_core::remote::chunk::REQUESTS_MAX as u64, "grants of one compute node in one incarnation"),
        ("INDEX_NONE", IndexNumber::NONE.get() as u64, "index of a chunk that serves none or all"),
    ],
    samples: || {
        let index = IndexNumber::new(4).expect("a catalog has more entries");
        let request = RequestId::new(0xbeef).expect("requests have 18 bits");
        let grant = Grant::new(MEMBER, ChunkKind::Inner, index, request);
        let redo = Grant::new(MEMBER, ChunkKind::Redo, IndexNumber::NONE, request);
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
                "redo images of a compute node",
                &redo.word().0.to_le_bytes(),
                &[
                    ("state", "granted"),
                    ("kind", "redo"),
                    ("index", "511"),
                    ("request", "48879"),
                    ("row", "9"),
                    ("incarnation", "2"),
                ],
            ),
            Sample::new(
                "given back after leaves of index 0 lived there",
                &[0x06, 0, 0, 0, 0, 0, 0, 0],
                &[("state", "used"), ("kind", "leaf"), ("index", "0")],
            ),
            Sample::new("withheld, never used", &[0x03, 0, 0, 0, 0, 0, 0, 0], &[("state", "withheld")]),
            Sample::new(
                "withheld after leaves of index 0 lived there",
                &[0x07, 0, 0, 0, 0, 0, 0, 0],
                &[("state", "withheld"), ("kind", "leaf"), ("index", "0")],
            ),
            Sample::new("a kind that does not exist", &[0x19, 0, 0, 0, 9, 0, 2, 0], &[("error", "unknown chunk kind")]),
        ]
    },
    decode: |bytes| match ChunkWord(word(bytes)).decode() {
        Ok(ChunkEntry::Free) => vec![value("state", &"free")],
        Ok(ChunkEntry::Used { kind, index }) => {
            vec![value("state", &"used"), value("kind", &kind.name()), value("index", &index.get())]
        }
        Ok(ChunkEntry::Withheld { used: None }) => vec![value("state", &"withheld")],
        Ok(ChunkEntry::Withheld { used: Some((kind, index)) }) => {
            vec![value("state", &"withheld"), value("kind", &kind.name()), value("index", &index.get())]
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
