//! The catalog of indexes.

use crate::interleaving::{Fault, Pool, Runner, alone, race};
use crate::{choices, definition, member};
use dm_core::index::catalog;
use dm_core::index::catalog::CatalogError;
use dm_core::lane::Lane;
use dm_core::registry::KindParameters;
use dm_core::remote::catalog::{Definition, EntryState, EntryWord, INDEX_COUNT, IndexNumber};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::{NodeGeometry, SCRATCH_BYTES};
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::LaneId;
use proptest::prelude::*;
use std::sync::LazyLock;

/// States of all entries, and the names of the live ones.
fn catalog_now(pool: &mut Pool) -> (Vec<EntryState>, Vec<String>) {
    let home = pool.home();
    let states = (0..usize::from(home.index_count))
        .map(|entry| {
            let offset = home.catalog_word(IndexNumber::new(entry).unwrap());
            EntryWord(u64::from_le_bytes(*pool.word(0, offset))).state().unwrap()
        })
        .collect();
    lane!(lane);
    let mut names = Vec::new();
    let mut visit = |entry: &dm_core::remote::catalog::IndexEntry| names.push(entry.name().to_owned());
    alone(pool, &lane, None, catalog::list(&lane, &home, 0, &mut visit)).unwrap();
    (states, names)
}

/// Creates one index per name, by compute nodes of their own, in the order of `choices`.
fn create_together(pool: &mut Pool, names: &[&str], choices: &[(u8, u8)]) -> Vec<Result<IndexNumber, CatalogError>> {
    let home = pool.home();
    let mut scratches = vec![[0; SCRATCH_BYTES]; names.len()];
    let lanes: Vec<Lane<'_>> = scratches.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
    let definitions: Vec<Definition<'_>> = names.iter().map(|name| definition(name)).collect();
    let runners = lanes.iter().zip(&definitions).enumerate().map(|(row, (lane, definition))| {
        Runner::new(lane, catalog::create(lane, &home, member(row as u16 + 1), 0, definition, 0))
    });
    race(pool, runners.collect(), choices)
}

#[test]
fn an_index_is_created_found_and_dropped() {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    lane!(lane);
    let users = definition("users");
    assert_eq!(alone(&mut pool, &lane, None, catalog::find(&lane, &home, "users", 0)), Ok(None));
    let before = lane.port().round_trips();
    let create = catalog::create(&lane, &home, member(1), 0, &users, 0);
    let number = alone(&mut pool, &lane, None, create).unwrap();
    assert_eq!(lane.port().round_trips() - before, 6, "look, claim, look twice, body, publish");

    let found = alone(&mut pool, &lane, None, catalog::find(&lane, &home, "users", 0)).unwrap().unwrap();
    assert_eq!((found.number, found.name(), found.root), (number, "users", 0));
    assert!(found.is(&users));
    assert!(Parameters::decode(found.parameters_version, &found.parameters).is_ok());

    let grown = alone(&mut pool, &lane, None, catalog::swap_root(&lane, &home, number, 0, 0x7000)).unwrap();
    assert_eq!(grown, 0x7000);
    let late = alone(&mut pool, &lane, None, catalog::swap_root(&lane, &home, number, 0, 0x8000)).unwrap();
    assert_eq!(late, 0x7000, "the root is what the first one made it");

    let drop = |request| catalog::drop_index(&lane, &home, number, (member(2), request), 0);
    let dropped = alone(&mut pool, &lane, None, drop(1)).unwrap().unwrap();
    assert_eq!((dropped.state(), dropped.row()), (Some(EntryState::Dropped), member(2).row));
    assert_eq!(alone(&mut pool, &lane, None, drop(2)), Ok(None));
    assert_eq!(alone(&mut pool, &lane, None, catalog::find(&lane, &home, "users", 0)), Ok(None));
    // Its number is not given to another before its chunks are given back.
    let other = definition("orders");
    let create = catalog::create(&lane, &home, member(1), 1, &other, 0);
    assert_ne!(alone(&mut pool, &lane, None, create), Ok(number));
    let erasing = dropped.with_state(EntryState::Erasing);
    for (seen, next) in [(dropped, erasing), (erasing, EntryWord::FREE)] {
        assert_eq!(alone(&mut pool, &lane, None, catalog::change(&lane, &home, number, seen, next)), Ok(true));
    }
    let create = catalog::create(&lane, &home, member(1), 2, &users, 0);
    assert_eq!(alone(&mut pool, &lane, None, create), Ok(number));
    let found = alone(&mut pool, &lane, None, catalog::find(&lane, &home, "users", 0)).unwrap().unwrap();
    assert_eq!(found.root, 0, "a new index does not inherit a root");
}

#[test]
fn a_drop_that_was_taken_back_does_not_erase() {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    lane!(lane);
    create_together(&mut pool, &["users"], &[]);
    let number = IndexNumber::new(0).unwrap();
    let begin = |row, request| catalog::drop_index(&lane, &home, number, (member(row), request), 0);
    let first = alone(&mut pool, &lane, None, begin(1, 1)).unwrap().unwrap();
    let mut seen = 0;
    let mut visit = |entry: &dm_core::remote::catalog::IndexEntry, word| {
        seen += u32::from(entry.name() == "users" && word == first);
    };
    alone(&mut pool, &lane, None, catalog::list_dropped(&lane, &home, 0, &mut visit)).unwrap();
    assert_eq!(seen, 1);
    // Another compute node takes it back, somebody opens the index, and a second drop begins: of the same one, too.
    for (row, request) in [(2, 1), (1, 2)] {
        let word = alone(&mut pool, &lane, None, catalog::find(&lane, &home, "users", 0)).unwrap();
        assert_eq!(word, None, "a dropped index has no name");
        let now = EntryWord(u64::from_le_bytes(*pool.word(0, home.catalog_word(number))));
        let live = now.with_state(EntryState::Live);
        assert_eq!(alone(&mut pool, &lane, None, catalog::change(&lane, &home, number, now, live)), Ok(true));
        alone(&mut pool, &lane, None, begin(row, request)).unwrap().unwrap();
        let erase = catalog::change(&lane, &home, number, first, first.with_state(EntryState::Erasing));
        assert_eq!(alone(&mut pool, &lane, None, erase), Ok(false), "the first drop has looked before");
    }
}

#[test]
fn a_full_catalog_and_a_bad_name_are_refused() {
    let mut pool = Pool::with_indexes(1, 4, INDEX_COUNT);
    let names: Vec<String> = (0..INDEX_COUNT).map(|entry| format!("index-{entry}")).collect();
    for name in &names {
        assert!(create_together(&mut pool, &[name], &[])[0].is_ok());
    }
    assert_eq!(catalog_now(&mut pool).1, names);
    assert_eq!(create_together(&mut pool, &["one more"], &[]), [Err(CatalogError::Full { indexes: INDEX_COUNT })]);
    // A rename needs an entry for a moment.
    let mut rename = |from: &str, to: &str, number: u16| {
        let (home, number) = (pool.home(), IndexNumber::new(usize::from(number)).unwrap());
        lane!(lane);
        alone(&mut pool, &lane, None, catalog::rename(&lane, &home, (member(1), 1), number, (from, to), 0))
    };
    assert_eq!(rename("index-7", "another", 7), Err(CatalogError::Full { indexes: INDEX_COUNT }));
    for name in ["", "a\nb", "x".repeat(48).as_str()] {
        assert_eq!(rename("index-7", name, 7), Err(CatalogError::BadName), "{name:?}");
    }
    let long = "x".repeat(48);
    for name in ["", "a\nb", long.as_str()] {
        assert_eq!(create_together(&mut pool, &[name], &[]), [Err(CatalogError::BadName)], "{name:?}");
    }
}

#[test]
fn a_creator_that_died_is_named() {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    let dead = EntryWord::new(EntryState::Creating, dm_core::remote::catalog::tag_of("users"), 3, member(9));
    *pool.word(0, home.catalog_word(IndexNumber::new(2).unwrap())) = dead.0.to_le_bytes();
    let result = create_together(&mut pool, &["users"], &[]);
    let busy = CatalogError::Busy { number: IndexNumber::new(2).unwrap(), row: RowId(9), incarnation: 1 };
    assert_eq!(result, [Err(busy)]);
    assert_eq!(catalog_now(&mut pool).0.iter().filter(|state| **state != EntryState::Free).count(), 1);
    // Its row gone, another one clears the way.
    lane!(lane);
    let mut begun = Vec::new();
    let mut see = |number, word| begun.push((number, word));
    alone(&mut pool, &lane, None, catalog::list_begun(&lane, &home, 0, &mut see)).unwrap();
    assert_eq!(begun, [(IndexNumber::new(2).unwrap(), dead)]);
    let put_back = |entry| catalog::put_back(&lane, &home, entry, (member(1), 1));
    assert_eq!(alone(&mut pool, &lane, None, put_back(begun[0])), Ok(true));
    assert_eq!(alone(&mut pool, &lane, None, put_back(begun[0])), Ok(false), "of several, one does");
    assert!(create_together(&mut pool, &["users"], &[])[0].is_ok());
}

/// An index of another name is dropped and its entry freed while two creators of one name race: an entry becomes free
/// below the one that a creator has chosen. Only so can both of them hold a claim.
fn create_amid_a_drop(choices: &[(u8, u8)]) {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    create_together(&mut pool, &["old"], &[]);
    let old = IndexNumber::new(0).unwrap();
    let mut scratches = [[0; SCRATCH_BYTES]; 3];
    let lanes: Vec<Lane<'_>> = scratches.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
    let users = definition("users");
    let dropping = async {
        let dropped = catalog::drop_index(&lanes[2], &home, old, (member(3), 1), 0).await?.expect("it is live");
        assert!(catalog::change(&lanes[2], &home, old, dropped, EntryWord::FREE).await?);
        Ok(old)
    };
    let runners = vec![
        Runner::new(&lanes[0], catalog::create(&lanes[0], &home, member(1), 0, &users, 0)),
        Runner::new(&lanes[1], catalog::create(&lanes[1], &home, member(2), 0, &users, 0)),
        Runner::new(&lanes[2], dropping),
    ];
    let results = race(&mut pool, runners, choices);
    let winners = results[..2].iter().filter(|result| result.is_ok()).count();
    assert_eq!(winners, 1, "{results:?} after {choices:?}");
    assert_eq!(catalog_now(&mut pool).1, ["users"]);
}

#[test]
fn two_claims_of_one_name_leave_one_index() {
    // The first creator looks; the entry below its choice is freed; the second creator claims that one; then both go
    // on, the first ahead by any number of steps. A look takes a step, a creation less than 20.
    for look in 0..8 {
        for second in 0..20 {
            for first in 0..20 {
                create_amid_a_drop(&[(0, look), (2, 100), (1, second), (0, first), (1, 100), (0, 100)]);
            }
        }
    }
}

/// Two names with one tag.
static TWINS: LazyLock<(String, String)> = LazyLock::new(|| {
    let mut seen = std::collections::HashMap::new();
    let clash = |number| {
        let name = format!("index-{number}");
        seen.insert(dm_core::remote::catalog::tag_of(&name), name.clone()).map(|other| (other, name))
    };
    (0..1 << 20).find_map(clash).expect("tags have 20 bits")
});

#[test]
fn a_creation_is_retried_after_any_request_failed() {
    let users = definition("users");
    for effect in [false, true] {
        for position in 0..20 {
            let mut pool = Pool::new(1, 4);
            let home = pool.home();
            lane!(first);
            let fault = Some(Fault { position, effect });
            let create = catalog::create(&first, &home, member(1), 5, &users, 0);
            let Err(error) = alone(&mut pool, &first, fault, create) else { continue };
            assert!(matches!(error, CatalogError::Verb(error) if error.effect_unknown()), "{error}");
            lane!(again);
            let create = catalog::create(&again, &home, member(1), 5, &users, 0);
            let number = alone(&mut pool, &again, None, create).unwrap();
            let (states, names) = catalog_now(&mut pool);
            assert_eq!((states[usize::from(number.get())], names), (EntryState::Live, vec!["users".to_owned()]));
            assert_eq!(states.iter().filter(|state| **state != EntryState::Free).count(), 1, "{fault:?}");
        }
    }
}

/// Renames entry 0, which is called "old".
async fn rename_old(lane: &Lane<'_>, home: &NodeGeometry, by: u16, to: &str) -> Result<bool, CatalogError> {
    let number = IndexNumber::new(0).unwrap();
    catalog::rename(lane, home, (member(by), 1), number, ("old", to), 0).await
}

#[test]
fn an_index_gets_another_name_and_keeps_all_else() {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    lane!(lane);
    create_together(&mut pool, &["old"], &[]);
    let number = IndexNumber::new(0).unwrap();
    alone(&mut pool, &lane, None, catalog::swap_root(&lane, &home, number, 0, 0x7000)).unwrap();
    let mut name = "old".to_owned();
    // More often than an entry has room for names.
    for round in 0..5 {
        let before = lane.port().round_trips();
        let next = format!("name {round}");
        let rename = catalog::rename(&lane, &home, (member(2), round), number, (&name, &next), 0);
        assert_eq!(alone(&mut pool, &lane, None, rename), Ok(true));
        // Three looks, one of which meets nothing to READ; claim, word, word and body, rename, name, publish, free.
        assert_eq!(lane.port().round_trips() - before, 10);
        assert_eq!(alone(&mut pool, &lane, None, catalog::find(&lane, &home, &name, 0)), Ok(None));
        let found = alone(&mut pool, &lane, None, catalog::find(&lane, &home, &next, 0)).unwrap().unwrap();
        assert_eq!((found.number, found.name(), found.root), (number, &*next, 0x7000));
        assert!(found.is(&definition(&next)));
        name = next;
    }
    let rename = |from, to| catalog::rename(&lane, &home, (member(2), 9), number, (from, to), 0);
    assert_eq!(alone(&mut pool, &lane, None, rename("old", "other")), Ok(false), "it is not called so any more");
    assert_eq!(alone(&mut pool, &lane, None, rename(&name, &name)), Ok(true));
    create_together(&mut pool, &["taken"], &[]);
    let taken = IndexNumber::new(1).unwrap();
    assert_eq!(alone(&mut pool, &lane, None, rename(&name, "taken")), Err(CatalogError::Exists { number: taken }));
    let (states, names) = catalog_now(&mut pool);
    assert_eq!(names, [name.as_str(), "taken"]);
    assert_eq!(states.iter().filter(|state| **state != EntryState::Free).count(), 2);
}

/// A look takes several READs in a catalog of several windows. The index is in the first window, and the claim of its new
/// name in the second one, since the first was full. Then an entry of the first window becomes free, which a creator of
/// that name claims. Its look may READ the index's word before the name moves there, and the claim's word when it is free
/// again.
#[test]
fn a_name_that_moves_during_a_look_is_not_missed() {
    let mut full = Pool::with_indexes(1, 4, catalog::WINDOW as u16 + 6);
    create_together(&mut full, &["old"], &[]);
    let others: Vec<String> = (1..catalog::WINDOW).map(|number| format!("other {number}")).collect();
    create_together(&mut full, &others.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let (home, new, freed) = (full.home(), definition("new"), IndexNumber::new(3).unwrap());
    let mut gets = [0; 2];
    // Steps of the rename before and behind its claim, of the creation before its claim and in the look behind it.
    for (before, look, behind, again) in
        (3..6).flat_map(|a| (4..8).flat_map(move |b| (8..24).flat_map(move |c| (1..8).map(move |d| (a, b, c, d)))))
    {
        let mut pool = Pool { regions: full.regions.clone(), geometries: full.geometries.clone() };
        let mut scratches = [[0; SCRATCH_BYTES]; 3];
        let lanes: Vec<Lane<'_>> = scratches.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
        let create = async { catalog::create(&lanes[1], &home, member(2), 0, &new, 0).await.map(|_| true) };
        let drop = async {
            let dropped = catalog::drop_index(&lanes[2], &home, freed, (member(3), 0), 0).await?.unwrap();
            catalog::change(&lanes[2], &home, freed, dropped, EntryWord::FREE).await
        };
        let runners = vec![
            Runner::new(&lanes[0], rename_old(&lanes[0], &home, 1, "new")),
            Runner::new(&lanes[1], create),
            Runner::new(&lanes[2], drop),
        ];
        let choices = [(0, before), (2, 100), (1, look), (0, behind), (1, again), (0, 100)];
        let results = race(&mut pool, runners, &choices);
        let did: Vec<bool> = results.iter().map(|result| *result == Ok(true)).collect();
        assert!(did[2] && did[0] != did[1], "{results:?} after {choices:?}");
        gets[usize::from(did[1])] += 1;
        let names = catalog_now(&mut pool).1;
        assert_eq!(names.iter().filter(|name| *name == "new").count(), 1, "{choices:?}");
    }
    assert!(gets.iter().all(|&times| times > 20), "each of them gets the name in some orders: {gets:?}");
}

#[test]
fn a_rename_that_ends_anywhere_leaves_one_of_the_two_names() {
    for effect in [false, true] {
        for position in 0..20 {
            let mut pool = Pool::new(1, 4);
            let home = pool.home();
            create_together(&mut pool, &["old"], &[]);
            lane!(first);
            let fault = Some(Fault { position, effect });
            let ended = alone(&mut pool, &first, fault, rename_old(&first, &home, 1, "new"));
            lane!(second);
            let mut begun = Vec::new();
            let mut see = |number, word| begun.push((number, word));
            alone(&mut pool, &second, None, catalog::list_begun(&second, &home, 0, &mut see)).unwrap();
            assert!(ended.is_err() || begun.is_empty(), "{fault:?}");
            // An index that is being renamed is there all the time.
            assert_eq!(catalog_now(&mut pool).1.len(), 1, "{fault:?}");
            for entry in begun {
                let put_back = catalog::put_back(&second, &home, entry, (member(2), 1));
                assert_eq!(alone(&mut pool, &second, None, put_back), Ok(true));
            }
            let (states, names) = catalog_now(&mut pool);
            assert!(names == ["old"] || names == ["new"], "{names:?} after {fault:?}");
            assert_eq!(states.iter().filter(|state| **state == EntryState::Free).count(), states.len() - 1);
            let number = IndexNumber::new(0).unwrap();
            let again = catalog::rename(&second, &home, (member(2), 2), number, (&names[0], "third"), 0);
            assert_eq!(alone(&mut pool, &second, None, again), Ok(true));
            assert_eq!(catalog_now(&mut pool).1, ["third"]);
        }
    }
}

#[test]
fn a_drop_waits_for_a_rename() {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    create_together(&mut pool, &["old"], &[]);
    let number = IndexNumber::new(0).unwrap();
    let word = EntryWord(u64::from_le_bytes(*pool.word(0, home.catalog_word(number))));
    let renaming = word.taken(EntryState::Renaming, 1, member(9));
    *pool.word(0, home.catalog_word(number)) = renaming.0.to_le_bytes();
    lane!(lane);
    let drop = || catalog::drop_index(&lane, &home, number, (member(2), 1), 0);
    let busy = CatalogError::Busy { number, row: RowId(9), incarnation: 1 };
    assert_eq!(alone(&mut pool, &lane, None, drop()), Err(busy));
    let put_back = catalog::put_back(&lane, &home, (number, renaming), (member(2), 2));
    assert_eq!(alone(&mut pool, &lane, None, put_back), Ok(true));
    assert!(alone(&mut pool, &lane, None, drop()).unwrap().is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn one_of_several_creators_wins(choices in choices(), creators in 2..4_usize) {
        let mut pool = Pool::new(1, 4);
        let results = create_together(&mut pool, &["users", "users", "users"][..creators], &choices);
        let winner = results.iter().find_map(|result| result.ok());
        prop_assert!(winner.is_some(), "{results:?}");
        let winner = winner.unwrap();
        let wins = results.iter().filter(|result| result.is_ok()).count();
        let exists = results.iter().filter(|r| **r == Err(CatalogError::Exists { number: winner })).count();
        prop_assert_eq!((wins, exists), (1, creators - 1));
        let (states, names) = catalog_now(&mut pool);
        prop_assert_eq!(names, vec!["users".to_owned()]);
        prop_assert_eq!(states.iter().filter(|state| **state != EntryState::Free).count(), 1);
    }

    #[test]
    fn names_of_one_tag_both_come_to_be(choices in choices()) {
        let mut pool = Pool::new(1, 4);
        let (one, other) = &*TWINS;
        let results = create_together(&mut pool, &[one, other], &choices);
        prop_assert!(results.iter().all(Result::is_ok), "{results:?}");
        let (_, mut names) = catalog_now(&mut pool);
        names.sort();
        prop_assert_eq!(names, vec![one.clone(), other.clone()]);
    }

    #[test]
    fn a_drop_amid_two_creations_leaves_one(choices in choices()) {
        create_amid_a_drop(&choices);
    }

    #[test]
    fn names_given_and_taken_at_once_are_of_one_index_each(choices in choices()) {
        let mut pool = Pool::new(1, 4);
        let home = pool.home();
        create_together(&mut pool, &["old"], &[]);
        let mut scratches = [[0; SCRATCH_BYTES]; 5];
        let lanes: Vec<Lane<'_>> = scratches.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
        let (new, old) = (definition("new"), definition("old"));
        let create = async |lane: usize, definition| {
            catalog::create(&lanes[lane], &home, member(lane as u16 + 1), 0, definition, 0).await.map(|_| true)
        };
        // It looks for the old name first: an index that has not got it any more has the new one.
        let look = async {
            let old = catalog::find(&lanes[4], &home, "old", 0).await?;
            Ok(old.is_some() || catalog::find(&lanes[4], &home, "new", 0).await?.is_some())
        };
        let runners = vec![
            Runner::new(&lanes[0], rename_old(&lanes[0], &home, 1, "new")),
            Runner::new(&lanes[1], create(1, &new)),
            Runner::new(&lanes[2], create(2, &old)),
            Runner::new(&lanes[3], rename_old(&lanes[3], &home, 4, "third")),
            Runner::new(&lanes[4], look),
        ];
        let results = race(&mut pool, runners, &choices);
        let did: Vec<bool> = results.iter().map(|result| *result == Ok(true)).collect();
        prop_assert!(!(did[0] && did[3]), "one of two renames finds the name: {:?}", results);
        prop_assert!(did[0] || did[1], "somebody gets the name: {:?}", results);
        prop_assert_eq!(did[0], !did[1], "and only one: {:?}", results);
        prop_assert!(!did[2] || did[0] || did[3], "the old name was free: {:?}", results);
        let mut names = vec!["new"];
        if did[3] {
            names.push("third");
        }
        if did[2] || !(did[0] || did[3]) {
            names.push("old");
        }
        let (states, mut found) = catalog_now(&mut pool);
        found.sort();
        names.sort_unstable();
        prop_assert_eq!(&found, &names, "{:?}", results);
        prop_assert_eq!(states.iter().filter(|state| **state != EntryState::Free).count(), names.len());
        prop_assert!(did[4] || did[3], "it is found by one name at any time: {:?}", results);
    }

    #[test]
    fn a_catalog_of_arbitrary_bytes_is_an_error_at_worst(
        bytes in proptest::collection::vec(any::<u8>(), 4096), tidy in any::<bool>()
    ) {
        let mut pool = Pool::new(1, 4);
        let home = pool.home();
        let at = home.catalog as usize;
        pool.regions[0][at..at + 4096].copy_from_slice(&bytes);
        if tidy {
            // States that exist, so that bodies are looked at.
            (0..15).for_each(|entry| pool.regions[0][at + entry * 8] &= !4);
        }
        lane!(lane);
        let _ = alone(&mut pool, &lane, None, catalog::find(&lane, &home, "users", 0));
        let _ = alone(&mut pool, &lane, None, catalog::list(&lane, &home, 0, &mut |_| {}));
        let users = definition("users");
        let _ = alone(&mut pool, &lane, None, catalog::create(&lane, &home, member(1), 0, &users, 0));
        let number = IndexNumber::new(3).unwrap();
        let rename = catalog::rename(&lane, &home, (member(1), 0), number, ("users", "people"), 0);
        let _ = alone(&mut pool, &lane, None, rename);
    }
}
