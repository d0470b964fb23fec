//! The catalog of indexes.

use super::row::MEMBER;
use super::sherman::SHERMAN;
use super::values::{digits, error, hex, value};
use super::{Sample, Structure};
use dm_core::registry::KindParameters;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::{Definition, Entry, EntryState, EntryWord, IndexKind, IndexNumber};
use dm_core::remote::features::Features;
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::NodeId;
use zerocopy::IntoBytes;

pub(super) const CATALOG_ENTRY: Structure = Structure {
    name: "catalog_entry",
    title: "one index: its name, kind, parameters and root",
    text: "Four lines; the catalog has 16 entries, those of memory node 0 count. All zero is a free entry. The entry word,\n\
           the root word and the word of the ownership table are changed by CAS; the rest is written before the entry becomes\n\
           live and never after.",
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
        entry.owners = Address::new(NodeId(0), 0x80_0000, 0).to_bits().into();
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
                    ("owners", "0:0x800000.0"),
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
                value("owners", &live.owners),
            ]);
        }
        values
    },
};
