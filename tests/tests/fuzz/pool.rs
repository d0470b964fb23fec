//! What a pool says of itself: superblock, catalog, rows, chunk table, collection sets, redo headers.

use crate::fuzz;
use crate::input::Input;
use dm_core::membership::redo::{self, ImageHeader};
use dm_core::memory::closed::{ChunkName, Collector};
use dm_core::remote::catalog::{
    self, Definition, Entry, EntryState, EntryWord, IndexKind, IndexNumber, PARAMETER_BYTES,
};
use dm_core::remote::chunk::{ChunkEntry, ChunkWord};
use dm_core::remote::features::Features;
use dm_core::remote::lock_word::{LockWord, RowId};
use dm_core::remote::row::{Joiner, Member, Row};
use dm_core::remote::rpc::{Procedure, Reply};
use dm_core::remote::superblock::{PoolPlan, Superblock};
use dm_core::verbs::{NodeId, Space};
use dm_host::kinds::IndexParameters;
use zerocopy::IntoBytes as _;

/// The pool of the samples.
pub(crate) const PLAN: PoolPlan = PoolPlan {
    pool_id: [9; 16],
    pool_incarnation: 1,
    node: NodeId(1),
    nodes: 3,
    region_bytes: 1 << 20,
    chunk_bytes: 64 << 10,
    lock_count: 1024,
    device_bytes: 0,
    redo_row_bytes: 0,
    index_count: 15,
};

/// The compute node of the samples.
pub(crate) const MEMBER: Member = Member { row: RowId(7), incarnation: 3, nonce: 5 };

#[test]
fn superblock() {
    let samples = [PLAN, PoolPlan { device_bytes: 1 << 16, redo_row_bytes: 128, ..PLAN }]
        .map(|plan| plan.format().expect("it fits"));
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let mut superblock = input.choose(&samples);
        let sealed = !input.one_in(4);
        input.change(superblock.as_mut_bytes());
        if sealed {
            superblock.seal();
        }
        let Ok(found) = Superblock::decode(superblock.as_bytes()) else { return };
        // All that follows from it lies in the region.
        let geometry = found.geometry;
        let inside = |end: u64| assert!(end <= geometry.region_bytes, "{found:?}");
        assert!(found.identity.node.0 < found.identity.nodes);
        inside(geometry.catalog + catalog::catalog_bytes(geometry.index_count));
        inside(geometry.row_offset(RowId((geometry.row_count - 1) as u16)) + Row::BYTES as u64);
        // An area without bytes is nowhere.
        let redo = if geometry.redo_row_bytes == 0 { 0 } else { geometry.redo };
        inside(redo + u64::from(geometry.row_count) * u64::from(geometry.redo_row_bytes));
        inside(geometry.chunk_entry(geometry.chunk_count - 1) + 8);
        inside(geometry.chunk_offset(geometry.chunk_count - 1) + geometry.chunk_bytes);
        let locks_end = geometry.lock_offset(geometry.lock_count - 1) + 8;
        match geometry.lock_space {
            Space::Host => inside(locks_end),
            Space::Device => assert!(locks_end <= found.device_bytes),
        }
        let last = geometry.chunk_count - 1;
        assert_eq!(geometry.chunk_of(geometry.chunk_offset(last) + geometry.chunk_bytes - 1), Some(last));
    });
}

/// Parameter blocks of every kind, with items and without, and their versions.
fn parameters() -> Vec<IndexParameters> {
    let mut all = Vec::new();
    for kind in IndexKind::ALL {
        all.extend(IndexParameters::with_sizes(*kind, 8, 8));
        all.extend(IndexParameters::with_sizes(*kind, 64, 1024).ok().filter(|found| found.check().is_ok()));
        let items = dm_core::items::parameters::Parameters { key_bytes_max: 300, value_bytes_max: 5000 };
        all.extend(IndexParameters::with_any_length(*kind, items));
    }
    assert!(all.len() >= 3 * 4);
    all
}

#[test]
fn catalog_entry() {
    let parameters = parameters();
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let chosen = &parameters[usize::from(input.byte()) % parameters.len()];
        let sealed = !input.one_in(4);
        let (block, parameters_version) = chosen.encode();
        let name = "users \u{e4}";
        let definition = Definition {
            name,
            kind: chosen.kind(),
            parameters_version,
            parameters: block,
            features: chosen.features(),
        };
        let word = EntryWord::new(EntryState::Live, catalog::tag_of(name), 1, MEMBER);
        let word = if input.one_in(2) { word } else { EntryWord(input.word()) };
        let mut entry = Entry::of(&definition).expect("a name");
        input.change(entry.as_mut_bytes());
        if sealed {
            entry.seal();
        }
        let _ = (word.state(), word.tag(), word.request(), word.row(), word.incarnation());
        let number = IndexNumber::new(3).expect("the fourth");
        let Ok(found) = entry.decode(number, word) else { return };
        assert!(catalog::is_name(found.name()) && catalog::tag_of(found.name()) == word.tag());
        if let Ok(index) = IndexParameters::of(&found) {
            sizes_are_sane(&index);
        }
    });
}

/// What everything else relies on.
fn sizes_are_sane(index: &IndexParameters) {
    assert_eq!(index.check(), Ok(()));
    let (leaf, inner) = index.node_bytes();
    assert!(leaf > 0 && inner > 0 && leaf < 1 << 24 && inner < 1 << 24, "{index:?}");
    assert!(index.redo_bytes() < 1 << 24 && index.leaf_span() > 0 && index.inner_span() > 0, "{index:?}");
    assert!(index.key_bytes() > 0 && index.value_bytes() < 1 << 17, "{index:?}");
}

#[test]
fn index_parameters() {
    let parameters = parameters();
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let chosen = &parameters[usize::from(input.byte()) % parameters.len()];
        let other = input.choose(IndexKind::ALL);
        let kind = if input.one_in(8) { other } else { chosen.kind() };
        let (mut block, mut version) = chosen.encode();
        if input.one_in(8) {
            version = input.byte().into();
        }
        input.change(&mut block);
        let Ok(found) = IndexParameters::decode(kind, version, &block) else { return };
        sizes_are_sane(&found);
        let (again, version) = found.encode();
        assert_eq!(IndexParameters::decode(kind, version, &again), Ok(found));
        assert_eq!(again, block, "bytes that nobody reads: a later version could not use them");
        assert_eq!(again.len(), PARAMETER_BYTES);
    });
}

#[test]
fn row() {
    let joiner = Joiner { token: 0x77_0000_0005, lanes: 8, memory_nodes: 1, host: "a host" };
    let sample = Row::of(MEMBER, &joiner);
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let mut row = sample;
        row.lease_us = u32::from(input.byte()).into();
        input.change(row.as_mut_bytes());
        let _ = row.lease_ns();
        let Ok(view) = row.decode() else { return };
        if let Some(life) = view.life {
            assert!(!life.host.chars().any(char::is_control), "{life:?}");
        }
    });
}

#[test]
fn words() {
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let mut word = input.word();
        if input.one_in(2) {
            // Words of which most bits are small numbers.
            word &= 0x0007_0007_0000_7fff;
        }
        if let Ok(entry) = ChunkWord(word).decode() {
            match entry {
                ChunkEntry::Free => assert_eq!(word, 0),
                ChunkEntry::Used { kind, .. } => assert!(!kind.name().is_empty()),
                ChunkEntry::Granted(grant) => assert_eq!(grant.word().0, word),
                ChunkEntry::Withheld { .. } => {
                    let grantable = ChunkWord(word).grantable().expect("it is withheld");
                    assert_eq!(grantable.withheld(), Some(ChunkWord(word)));
                }
            }
        }
        let held = LockWord(word);
        assert_eq!(LockWord::new(held.row(), held.sequence()), Some(held));
        let collector = Collector(word);
        let member = Member { row: collector.row(), incarnation: collector.incarnation().into(), nonce: 0 };
        assert_eq!(Collector::new(member, collector.number()), collector);
        let name = ChunkName(word);
        if let Some(chunk) = name.chunk() {
            assert_eq!(ChunkName::new(name.node(), chunk).0, word & ((1 << 48) - 1));
        }
        if let Some(procedure) = Procedure::from_number(word) {
            assert_eq!(procedure as u64, word);
        }
        if let Some(reply) = Reply::from_value(word) {
            assert_eq!(reply as u64, word);
        }
        let _ = Features { compatible: word, read_only: word, incompatible: word };
    });
}

#[test]
fn redo_header() {
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let bytes = vec![input.byte(); usize::from(input.byte())];
        let mut header = ImageHeader::ZERO;
        header.bytes = (bytes.len() as u32).into();
        header.word = input.word().into();
        let mut image = header.sealed(&bytes).as_bytes().to_vec();
        image.extend(&bytes);
        let before = image.clone();
        input.change(&mut image);
        let found = ImageHeader::from_prefix(&image).expect("long enough");
        // One change of up to 32 bits in a row never has the old checksum.
        if image != before && image[4..].iter().zip(&before[4..]).filter(|(a, b)| a != b).count() == 1 {
            assert_ne!(redo::checksum(&image), u32::from_le_bytes(*before.first_chunk().expect("four")));
        }
        let _ = (found.checksum.get(), redo::checksum(&image[..2.min(image.len())]));
    });
}
