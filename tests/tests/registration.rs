//! A kind of index is registered by a few lines. All other code about it lies in files and folders that are named after
//! it.
//!
//! The test counts lines of Rust, without comments, in which a kind's name is a word or a part of one. It does not
//! count
//!
//! - tests and examples, which may be about any kind;
//! - what only one kind has: the manual's pages, mutants, the figures of papers, which compare kinds with each other,
//!   the layouts, which are described beside each other, the bare loop that `dm bench` compares an index with, the
//!   account of a radix tree's memory, the report of a trial, which has
//!   figures of papers, too, and the list of dm-core's floors, which has every room.
//!
//! The first kind of the list has some lines more: programs that need any index take that one, and DEX has its leaf. DEX
//! has one more: what its answers mean is among what a compute node spends. A kind that is behind a
//! feature is counted in builds that have the feature; its files are empty in all others.

use dm_core::registry::KINDS;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that have a file for each kind.
const CRATES: [&str; 5] = ["dm-core", "dm-host", "tools/dm-sim", "tools/dm", "tests"];

/// Lines about a kind outside of its files, at most.
const LINES_MAX: usize = 8;

/// The same of the first kind in the list.
const LINES_MAX_OF_FIRST: usize = 12;

/// What is about kinds, and is not counted.
const BESIDE: [&str; 11] = [
    "dm-core/src/manual",
    "tests/src/imports.rs",
    "tools/dm/src/bench/bare.rs",
    "tools/dm/src/bench/baseline.rs",
    "tools/dm/src/commands/inspect/owners.rs",
    "tools/dm/src/commands/inspect/radix.rs",
    "tools/dm/src/commands/trial",
    "tools/dm/src/figures",
    "tools/dm/src/figures.rs",
    "tools/dm/src/layout",
    "tools/dm/src/layout.rs",
];

#[test]
fn a_kind_is_named_in_few_lines_outside_its_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for krate in CRATES {
        sources(&root.join(krate).join("src"), &mut files);
    }
    assert!(files.len() > 100, "the sources are not where this test looks for them");
    for kind in KINDS {
        let mut lines = Vec::new();
        for path in &files {
            let place = path.strip_prefix(&root).expect("a file below the root");
            let named = |part: &Path| names(&part.with_extension("").to_string_lossy(), kind.name());
            if BESIDE.iter().any(|beside| place.starts_with(beside)) || place.iter().any(|part| named(Path::new(part)))
            {
                continue;
            }
            let text = fs::read_to_string(path).expect("a source file");
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let code = text.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with("//"));
            for (line, number) in code.filter(|(line, _)| names(line, kind.name())) {
                lines.push(format!("{}:{number}: {}", place.display(), line.trim()));
            }
        }
        let max = match kind.name() {
            _ if *kind == KINDS[0] => LINES_MAX_OF_FIRST,
            "dex" => LINES_MAX + 1,
            _ => LINES_MAX,
        };
        let count = lines.len();
        println!("{}: {count} lines\n{}", kind.name(), lines.join("\n"));
        assert!(count <= max, "{}: {count} lines, at most {max}\n{}", kind.name(), lines.join("\n"));
        assert!(count >= 2, "{}: a kind has a number and a line in the list", kind.name());
    }
}

/// Whether a text has a kind's name in it, as a word or as a part of one that begins there: "index" does not name DEX.
fn names(text: &str, name: &str) -> bool {
    let (first, rest) = name.split_at(1);
    let (title, upper) = (first.to_uppercase() + rest, name.to_uppercase());
    let begins_there = |(at, _): (usize, &str)| !text[..at].ends_with(|before: char| before.is_ascii_alphabetic());
    text.contains(&title) || [name, &upper].iter().any(|name| text.match_indices(name).any(begins_there))
}

/// The sources below a folder, without those of tests.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry of a folder").path();
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
