//! Superblock, catalog, rows and chunk table under racing compute nodes, failing queue pairs and arbitrary bytes.

/// Declares `$lane` with scratch of its own.
macro_rules! lane {
    ($lane:ident) => {
        let mut scratch = vec![0xee; dm_core::remote::SCRATCH_BYTES];
        let $lane = dm_core::lane::Lane::new(dm_core::verbs::LaneId(0), &mut scratch);
    };
}

// The modules have the macro's name only if they come behind it.
mod catalog_tests;
mod chunk_tests;
mod growth_tests;
mod interleaving;
mod row_tests;
mod superblock_tests;

use chunk_tests::{tally, want};
use dm_core::index::catalog;
use dm_core::membership::rows;
use dm_core::memory::chunks;
use dm_core::registry::KindParameters;
use dm_core::remote::catalog::{Definition, Entry, EntryWord, IndexKind, IndexNumber};
use dm_core::remote::features::Features;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::{Member, Row};
use dm_core::remote::superblock::Superblock;
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::NodeId;
use interleaving::{Pool, alone};
use proptest::prelude::*;
use row_tests::joiner;

fn member(row: u16) -> Member {
    Member { row: RowId(row), incarnation: 1, nonce: u32::from(row) }
}

fn definition(name: &str) -> Definition<'_> {
    let parameters = Parameters::with_sizes(8, 8);
    Definition {
        name,
        kind: IndexKind::Sherman,
        parameters_version: Parameters::VERSION,
        parameters: parameters.encode(),
        features: Features::default(),
    }
}

fn choices() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec((any::<u8>(), 1..60_u8), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_make_a_record_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 256)) {
        let _ = Superblock::decode(&bytes);
        let _ = Row::from_prefix(&bytes).unwrap().decode();
        let mut entry = Entry::from_prefix(&bytes).unwrap();
        let word = EntryWord(u64::from_le_bytes(*bytes.last_chunk().unwrap()));
        let number = IndexNumber::new(3).unwrap();
        let _ = entry.decode(number, word);
        // Past the checksum.
        entry.seal();
        let _ = entry.decode(number, word);
        let _ = Parameters::decode(1, bytes.first_chunk().unwrap());
    }

    #[test]
    fn rows_and_chunks_of_arbitrary_bytes_are_an_error_at_worst(seed in any::<[u8; 32]>()) {
        let mut pool = Pool::new(1, 70);
        let home = pool.home();
        let (from, to) = (home.rows as usize, home.heap as usize);
        for (at, byte) in pool.regions[0][from..to].iter_mut().enumerate() {
            *byte = seed[at % 32].wrapping_mul(at as u8 | 1);
        }
        lane!(lane);
        let _ = alone(&mut pool, &lane, None, rows::join(&lane, &home, &joiner(1), 0));
        let _ = alone(&mut pool, &lane, None, chunks::grant(&lane, NodeId(0), &home, &want(1, 1), 0));
        let _ = tally(&mut pool, 0);
    }
}

#[test]
fn futures_stay_small() {
    let pool = Pool::new(1, 4);
    let home = pool.home();
    lane!(lane);
    let (users, me, want) = (definition("users"), joiner(1), want(1, 1));
    let sizes = [
        ("create", size_of_val(&catalog::create(&lane, &home, member(1), 0, &users, 0))),
        (
            "rename",
            size_of_val(&catalog::rename(
                &lane,
                &home,
                (member(1), 0),
                IndexNumber::new(0).unwrap(),
                ("users", "people"),
                0,
            )),
        ),
        ("find", size_of_val(&catalog::find(&lane, &home, "users", 0))),
        ("join", size_of_val(&rows::join(&lane, &home, &me, 0))),
        ("grant", size_of_val(&chunks::grant(&lane, NodeId(0), &home, &want, 0))),
        ("grant any", size_of_val(&chunks::grant_any(&lane, &pool.geometries, NodeId(0), &want, 0))),
    ];
    for (name, bytes) in sizes {
        assert!(bytes <= 2048, "the future of {name} has {bytes} bytes: {sizes:?}");
    }
    println!("{sizes:?}");
}
