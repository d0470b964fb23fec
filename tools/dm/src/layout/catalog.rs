//! The catalog of indexes.

use super::row::MEMBER;
use super::sherman::SHERMAN;
use super::values::{digits, error, hex, value};
use super::{Sample, Structure};
use dm_core::registry::KindParameters;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::{Definition, Entry, EntryState, EntryWord, IndexKind, IndexNumber, StoredName};
use dm_core::remote::features::Features;
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::NodeId;
use zerocopy::IntoBytes;

pub(super) const CATALOG_ENTRY: Structure = Structure {
    name: "catalog_entry",
    title: "one index: its name, kind, parameters and root",
    text: "The words of all entries lie side by side, in whole lines; behind them the entries, four lines each. Those of\n\
           memory node 0 count. All zero is a free entry. The entry word, the root word and the word of the ownership\n\
           table are changed by CAS; the rest is written before the entry becomes live. Later only a rename writes: the\n\
           name that does not count.",
    tables: &[("entry", Entry::FIELDS), ("entry word", EntryWord::FIELDS)],
    constants: &[
        ("INDEXES_MAX", dm_core::remote::catalog::INDEXES_MAX as u64, "most entries of a catalog"),
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
        let mut entry = Entry::of(&definition).expect("the name is sound");
        entry.root = Address::new(NodeId(1), 0x80_7000, 0).to_bits().into();
        entry.owners = Address::new(NodeId(0), 0x80_0000, 0).to_bits().into();
        let mut damaged = entry;
        damaged.name_0[0] ^= 0x20;
        // As a sample: the word, and behind it the entry.
        let sample = |word: EntryWord, entry: &Entry| [&word.0.to_le_bytes(), entry.as_bytes()].concat();
        let owner = [("request", "4"), ("owner", "row 9, incarnation 2")];
        let live = [
            ("kind", "sherman"),
            ("parameters version", "1"),
            ("parameters", "08002700100000003c000000000000000000000000000000 and zeros"),
            ("root", "1:0x807000.0"),
            ("owners", "0:0x800000.0"),
        ];
        let people = StoredName::of("people").expect("a name");
        let mut renamed = entry;
        (renamed.name_1_checksum, renamed.name_1_bytes, renamed.name_1) = (people.checksum, people.bytes, people.name);
        vec![
            Sample::new(
                "a live Sherman index: its word, and its entry",
                &sample(word, &entry),
                &[&[("state", "Live"), ("tag", "0x26452")], &owner[..], &[("name", "users")], &live].concat(),
            ),
            Sample::new(
                "the same, called \"people\" now",
                &sample(word.renamed(dm_core::remote::catalog::tag_of("people")), &renamed),
                &[&[("state", "Live"), ("tag", "0xa992c")], &owner[..], &[("name", "people")], &live].concat(),
            ),
            Sample::new(
                "a claimed entry, nothing written yet",
                &sample(word.with_state(EntryState::Creating), &Entry::ZERO),
                &[&[("state", "Creating"), ("tag", "0x26452")], &owner[..]].concat(),
            ),
            Sample::new(
                "a letter of the name changed",
                &sample(word, &damaged),
                &[("error", "checksum of a name in the catalog")],
            ),
        ]
    },
    decode: |bytes| {
        let Some((word, bytes)) = bytes.split_first_chunk() else { return error(&"too short") };
        let Some(entry) = Entry::from_prefix(bytes) else { return error(&"too short") };
        let word = EntryWord(u64::from_le_bytes(*word));
        let Some(state) = word.state() else { return error(&"unknown state of a catalog entry") };
        let mut values = vec![
            value("state", &format!("{state:?}")),
            hex("tag", word.tag().into()),
            value("request", &word.request()),
            value("owner", &format!("row {}, incarnation {}", word.row().0, word.incarnation())),
        ];
        if state == EntryState::Live {
            // The number of an entry is its place in the catalog, which a lone entry does not tell.
            let number = IndexNumber::new(0).expect("a catalog has an entry 0");
            let live = match entry.decode(number, word) {
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
