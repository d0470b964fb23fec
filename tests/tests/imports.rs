//! The floors of dm-core: a file imports from its own module and from lower floors, and no files import each other in a
//! circle. For the other crates only the second rule holds.

use dm_tests::imports::{FLOORS, Imports, Module};
use std::collections::BTreeSet;

/// The crates in which no files import each other in a circle.
const CRATES: &[&str] = &["dm-core", "dm-host", "tools/dm", "tools/dm-sim", "tests"];

#[test]
fn files_of_dm_core_import_from_their_room_and_from_lower_floors() {
    let imports = Imports::read("dm-core");
    let floor = |module: &Module| {
        let room = &module[0];
        let floor = FLOORS.iter().position(|rooms| rooms.contains(&room.as_str()));
        floor.unwrap_or_else(|| panic!("room {room} of dm-core has no floor: say in this test where it stands"))
    };
    let mut upward = BTreeSet::new();
    for (module, targets) in &imports.edges {
        for target in targets.iter().filter(|target| target[0] != module[0] && floor(target) >= floor(module)) {
            upward.insert((module.join("::"), target.join("::")));
        }
    }
    assert!(upward.is_empty(), "imports from the same floor or a higher one: {upward:?}");
    let rooms: BTreeSet<&str> = imports.files.iter().filter_map(|module| module.first()).map(String::as_str).collect();
    let gone: Vec<&str> =
        FLOORS.iter().flat_map(|rooms| rooms.iter()).copied().filter(|room| !rooms.contains(room)).collect();
    assert!(gone.is_empty(), "floors for rooms that are not there: {gone:?}");
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for krate in CRATES {
        let circles = Imports::read(krate).circles();
        assert!(circles.is_empty(), "{krate}: {circles:?}");
    }
}
