//! Committed pictures are what the tools draw: `DM_BLESS=1 cargo test -p dm-tests --test pictures` draws them anew.
//!
//! Leaves are drawn from the tables of layouts, requests from the goldens of `tests/goldens/verbs`, the house from the sources
//! of dm-core. The papers' figures are drawn from the table in `tools/README.md`, which is what `dm figures` printed.

use dm_tests::goldens::check_file;
use dm_tests::imports::{FLOORS, Imports};
use dm_tool::picture::house::{self, Room};
use dm_tool::picture::verbs::{self, Chapter, Group};
use std::path::{Path, PathBuf};

fn picture(name: &str) -> PathBuf {
    Path::new("dm-core/src/manual/pictures").join(name).with_extension("svg")
}

#[test]
fn leaves() {
    for (index, leaf) in dm_tool::layout::LEAVES {
        check_file(&picture(&format!("leaf-{index}")), &leaf().draw());
    }
}

#[test]
fn the_house() {
    let imports = Imports::read("dm-core");
    let rooms: Vec<Room> = FLOORS
        .iter()
        .enumerate()
        .flat_map(|(floor, rooms)| rooms.iter().map(move |name| Room { name: (*name).to_owned(), floor }))
        .filter(|room| room.name != "manual")
        .collect();
    let count = |from: &str, to: &str| {
        let files = imports.edges.iter().filter(|(module, _)| module[0] == from);
        files.filter(|(_, targets)| targets.iter().any(|target| target[0] == to)).count()
    };
    let pairs = rooms.iter().flat_map(|from| rooms.iter().map(move |to| (from, to)));
    let between = pairs.filter(|(from, to)| from != to && count(&from.name, &to.name) > 0).count();
    assert!(between > 100, "the reader finds only {between} imports between rooms");
    let (few, some) = (house::FEW, house::SOME);
    let about = format!(
        "Each room of dm-core stands above all that it imports. On the right, a mark says that files of the room of that row \
         import the room of that column: small, 1 to {few} files; middle, up to {some}; large, more. The manual, which has no \
         code, is not shown."
    );
    check_file(&picture("house"), &house::draw("The house: rooms of dm-core and their imports", &about, &rooms, count));
}

fn chapters(file: &str) -> Vec<Chapter> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/verbs").join(file).with_extension("txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    verbs::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A chapter of a golden, and which of its operations are drawn: those whose names begin with one of these; all if there is
/// none.
type Part = (&'static str, &'static str, &'static [&'static str]);

const CAPTION: &str = "Time goes to the right, a round trip from a compute node (CN) to a memory node (MN) and back in each \
                       step. Requests of one step are posted together and executed in this order; CAS* changes some bits of a \
                       word. Keys and values of 8 B; nodes are small where it takes few inserts to fill them.";

fn requests(index: &str, title: &str, parts: &[Part]) {
    let read: Vec<(Vec<Chapter>, &Part)> = parts.iter().map(|part| (chapters(part.0), part)).collect();
    let groups: Vec<Group<'_>> = read
        .iter()
        .map(|(chapters, (file, title, wanted))| {
            let chapter = chapters.iter().find(|chapter| chapter.title.starts_with(title));
            let chapter = chapter.unwrap_or_else(|| panic!("{file} has no chapter \"{title}\""));
            let is_wanted = |what: &str| wanted.is_empty() || wanted.iter().any(|wanted| what.starts_with(wanted));
            let operations: Vec<_> = chapter.operations.iter().filter(|operation| is_wanted(&operation.what)).collect();
            assert!(!operations.is_empty(), "{file}, {title}: none of {wanted:?}");
            // What a chapter cites is not for this picture.
            let title = chapter.title.split(" (").next().unwrap_or_default();
            Group { title, operations }
        })
        .collect();
    check_file(&picture(&format!("verbs-{index}")), &verbs::draw(title, CAPTION, &groups));
}

#[test]
fn requests_of_sherman() {
    requests(
        "sherman",
        "Sherman: the requests of its operations",
        &[
            ("cached_route", "leaf known from the cache", &[]),
            ("scans", "4 leaves at once", &["scan of 400"]),
            ("structure_changes", "splits on one memory node, everything on", &["insert of key 3", "insert of key 6"]),
        ],
    );
}

#[test]
fn requests_of_chime() {
    requests(
        "chime",
        "CHIME: the requests of its operations",
        &[
            ("chime_cached_route", "leaf known from the cache", &[]),
            ("chime_scans", "4 leaves at once", &["scan of 400"]),
            ("chime_structure", "an insert that splits", &["insert"]),
        ],
    );
}

#[test]
fn requests_of_smart() {
    requests(
        "smart",
        "SMART: the requests of its operations",
        &[
            ("smart_known_slot", "slot known from a copy", &[]),
            ("smart_structure", "a node of four slots that fills up", &[]),
            ("smart_structure", "splits of what a copy knows", &["insert"]),
        ],
    );
}

#[test]
fn requests_of_dolphin() {
    requests(
        "dolphin",
        "Dolphin: the requests of its operations",
        &[
            ("dolphin_known_leaf", "leaf known from a copy", &[]),
            ("dolphin_scans", "4 leaves at once", &["scan of 400"]),
            ("dolphin_structure", "insert: leaf-split", &["insert"]),
        ],
    );
}

#[test]
fn requests_of_dex() {
    requests(
        "dex",
        "DEX: the requests of its operations",
        &[
            ("dex_cached", "leaf is cached, answers at level log", &[]),
            ("dex_cached", "leaf is cached, answers at level pool", &["update, present"]),
            ("dex_cached", "leaf is cached, answers at level cache", &["update, present"]),
            ("dex_misses", "leaf is not cached, answers at level log", &[]),
            ("dex_misses", "leaf is not cached, and gets no frame", &[]),
            ("dex_owners", "first operations of a compute node", &[]),
            ("dex_structure", "an insert that splits", &["insert of key 25"]),
        ],
    );
}
