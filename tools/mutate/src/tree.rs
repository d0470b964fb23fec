//! The copy of the tree, with all mutants in it: written, and built without the points that do not compile.

use crate::points::{Key, Mutated, Point, Source};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The rooms of dm-core whose files have protocols in them.
const ROOMS: [&str; 15] = [
    "btree",
    "chime",
    "compute",
    "dex",
    "dolphin",
    "index",
    "items",
    "locks",
    "membership",
    "memory",
    "pages",
    "radix",
    "recovery",
    "sherman",
    "smart",
];

/// Files of these names have none: what is declared, what is checked when an index is created, and the walks that
/// look for damage.
const LEFT_OUT: [&str; 5] = ["check.rs", "marks.rs", "mutants.rs", "parameters.rs", "tests.rs"];

/// Where dm-core's code is.
const CORE: &str = "dm-core/src";

/// What the copy is built with. The packages it shares with others are built once; assertions are those of the judge's
/// own builds.
const PROFILE: [&str; 4] = [
    "profile.release.lto='off'",
    "profile.release.codegen-units=16",
    "profile.release.opt-level=2",
    "profile.release.package.dm-core.debug-assertions=true",
];

/// Errors of a build, at most so often: each round shows those that the ones before hid.
const ROUNDS_MAX: usize = 20;

/// The copy as it was built.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Built {
    /// The commit, with a `+` if the tree had changes.
    pub commit: String,
    /// Of all that went into it.
    pub hash: u64,
    /// The same without the unit tests of dm-core: what was tried with other code is tried again.
    pub code: u64,
    /// All points, by number.
    pub points: Vec<Point>,
    /// Points that do not compile.
    pub dropped: BTreeSet<u32>,
    /// The command `dm`.
    pub dm: PathBuf,
    /// The unit tests of dm-core.
    pub tests: PathBuf,
}

/// Of all files that decide what the copy is: all of them, and without the unit tests of dm-core.
pub fn hashes(root: &Path) -> io::Result<(u64, u64)> {
    let (mut all, mut code) = (fnv(&[]), fnv(&[]));
    for file in listed(root)?.iter().filter(|file| is_deciding(file)) {
        let bytes = fs::read(root.join(file))?;
        all = more(all, &bytes);
        if !file.starts_with(CORE) {
            code = more(code, &bytes);
        } else if !is_of_tests(file) {
            let text = String::from_utf8_lossy(&bytes);
            // Unit tests are the last thing in a file.
            code = more(code, text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().trim_end().as_bytes());
        }
    }
    Ok((all, code))
}

fn is_of_tests(file: &Path) -> bool {
    file.iter().any(|part| part == "tests" || part == "tests.rs")
}

/// What else there is may change: it is not in the programs.
fn is_deciding(file: &Path) -> bool {
    const PROGRAMS: [&str; 6] = ["Cargo.toml", "dm-core/Cargo.toml", CORE, "dm-host", "tools/dm", "tools/dm-sim"];
    const TOOL: [&str; 3] = ["tools/mutate/src/points.rs", "tools/mutate/src/tree.rs", "tools/mutate/switch.rs"];
    PROGRAMS.iter().any(|program| file.starts_with(program)) || TOOL.iter().any(|of_tool| file == Path::new(of_tool))
}

fn more(hash: u64, bytes: &[u8]) -> u64 {
    hash.wrapping_mul(0x0100_0000_01b3) ^ fnv(bytes)
}

/// Copies the tree at `root` into `state`, and builds it. Points that did not compile in the copy `before` are dropped
/// from the beginning, and a command whose code is the same is kept: so nothing is built twice.
pub fn build(root: &Path, state: &Path, before: Option<&Built>) -> io::Result<Built> {
    let tree = state.join("tree");
    let (hash, code) = hashes(root)?;
    let core = Path::new(CORE);
    let (mut sources, mut first) = (BTreeMap::new(), 1);
    for file in &listed(root)? {
        let mut bytes = fs::read(root.join(file))?;
        if let Ok(name) = file.strip_prefix(core)
            && is_protocol(name)
        {
            let text = String::from_utf8(bytes).map_err(io::Error::other)?;
            let name = name.to_string_lossy().into_owned();
            let source =
                Source::read(&name, text, first).map_err(|error| io::Error::other(format!("{name}: {error}")))?;
            first += source.points.len() as u32;
            sources.insert(name, source);
        } else {
            if file == &core.join("lib.rs") {
                let library =
                    String::from_utf8_lossy(&bytes).replacen("pub mod btree;", "pub mod mutate;\npub mod btree;", 1);
                bytes = library.into_bytes();
            }
            write(&tree.join(file), &without_lints(file, bytes))?;
        }
    }
    write(&tree.join(core).join("mutate.rs"), include_bytes!("../switch.rs"))?;

    let failed = before.map(|built| built.dropped.iter().map(|number| &built.points[*number as usize - 1].key));
    let failed: BTreeSet<&Key> = failed.into_iter().flatten().collect();
    let points = sources.values().flat_map(|source| &source.points);
    let mut dropped: BTreeSet<u32> =
        points.filter(|point| failed.contains(&point.key)).map(|point| point.number).collect();
    let mut round = 0;
    loop {
        let mut mutated = BTreeMap::new();
        for (name, source) in &sources {
            let text = source.mutate(&dropped);
            write(&tree.join(core).join(name), text.text.as_bytes())?;
            mutated.insert(name.clone(), text);
        }
        let messages = cargo(&tree, &["check", "-p", "dm-core", "--lib"])?;
        let blamed = blamed(&messages, &sources, &mutated, &dropped);
        eprintln!("{} points, {} of them do not compile so far", first - 1, dropped.len() + blamed.len());
        if messages.iter().all(|message| !is_error(message)) {
            break;
        }
        let before = dropped.len();
        dropped.extend(blamed);
        round += 1;
        if dropped.len() == before || round == ROUNDS_MAX {
            let errors = messages.iter().filter(|message| is_error(message));
            errors.take(5).for_each(|message| eprintln!("{}", message["message"]["rendered"].as_str().unwrap_or("")));
            return Err(io::Error::other("the copy does not build, and the errors name no point"));
        }
    }
    let dm = match before {
        Some(before) if before.code == code => before.dm.clone(),
        _ => put_aside(&executable(&cargo(&tree, &["build", "-p", "dm", "--bin", "dm"])?, "dm")?, state, "dm")?,
    };
    let messages = cargo(&tree, &["test", "--no-run", "-p", "dm-core", "--lib"])?;
    let tests = executable(&messages, "dm_core")?;
    let points = sources.into_values().flat_map(|source| source.points).collect();
    let tests = put_aside(&tests, state, "tests")?;
    Ok(Built { commit: commit(root)?, hash, code, points, dropped, dm, tests })
}

fn put_aside(program: &Path, state: &Path, name: &str) -> io::Result<PathBuf> {
    let to = state.join(name);
    let _ = fs::remove_file(&to);
    fs::copy(program, &to)?;
    Ok(to)
}

fn is_protocol(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let is_of_room = parts.len() > 1 && ROOMS.contains(&&*parts[0]);
    is_of_room
        && file.extension().is_some_and(|extension| extension == "rs")
        && !parts.iter().any(|part| part == "tests" || LEFT_OUT.contains(&&**part))
}

/// All files that the copy needs and git would not ignore.
fn listed(root: &Path) -> io::Result<Vec<PathBuf>> {
    let wanted = ["ls-files", "-co", "--exclude-standard", "--", ".", ":!tests/*.md", ":!tools/mutate/*.md"];
    let out = Command::new("git").args(wanted).current_dir(root).output()?;
    let names = String::from_utf8(out.stdout).map_err(io::Error::other)?;
    let files = names.lines().map(PathBuf::from).filter(|file| root.join(file).is_file());
    Ok(files.collect())
}

fn commit(root: &Path) -> io::Result<String> {
    let git = |arguments: &[&str]| -> io::Result<String> {
        let out = Command::new("git").args(arguments).current_dir(root).output()?;
        Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    let changed =
        if git(&["status", "--porcelain", "dm-core", "tools/dm", "tools/dm-sim"])?.is_empty() { "" } else { "+" };
    Ok(git(&["rev-parse", "--short=10", "HEAD"])? + changed)
}

/// Changed code is not held to the lints.
fn without_lints(file: &Path, bytes: Vec<u8>) -> Vec<u8> {
    if file.file_name().is_some_and(|name| name == "Cargo.toml") {
        let text = String::from_utf8_lossy(&bytes).replace("[lints]\nworkspace = true", "");
        return text.into_bytes();
    }
    bytes
}

/// Writes a file, unless it says the same already: what is not new is not built again.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, bytes)
}

/// Runs cargo in the copy; its messages.
fn cargo(tree: &Path, arguments: &[&str]) -> io::Result<Vec<Value>> {
    let mut command = Command::new("cargo");
    command.args(arguments).args(["--quiet", "--release", "--message-format", "json"]).current_dir(tree);
    for setting in PROFILE {
        command.args(["--config", setting]);
    }
    let out = command.stderr(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let messages: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if !out.status.success() && !messages.iter().any(is_error) {
        return Err(io::Error::other(format!("cargo {} failed in {}", arguments.join(" "), tree.display())));
    }
    Ok(messages)
}

fn is_error(message: &Value) -> bool {
    message["reason"] == "compiler-message" && message["message"]["level"] == "error"
}

fn executable(messages: &[Value], target: &str) -> io::Result<PathBuf> {
    let built = messages.iter().filter(|message| message["target"]["name"] == target);
    let path = built.filter_map(|message| message["executable"].as_str()).next_back();
    path.map(PathBuf::from).ok_or_else(|| io::Error::other(format!("cargo names no program {target}")))
}

/// The points that the errors speak of.
fn blamed(
    messages: &[Value],
    sources: &BTreeMap<String, Source>,
    mutated: &BTreeMap<String, Mutated>,
    dropped: &BTreeSet<u32>,
) -> BTreeSet<u32> {
    let mut blamed = BTreeSet::new();
    for message in messages.iter().filter(|message| is_error(message)) {
        let mut spans: BTreeMap<String, Vec<(Range<usize>, bool)>> = BTreeMap::new();
        let own = message["message"]["spans"].as_array().into_iter().flatten();
        let notes = message["message"]["children"].as_array().into_iter().flatten();
        let notes = notes.flat_map(|note| note["spans"].as_array().into_iter().flatten());
        for (span, is_primary) in
            own.map(|span| (span, span["is_primary"] == true)).chain(notes.map(|span| (span, false)))
        {
            let place = |field: &str| span[field].as_u64().map(|at| at as usize);
            if let Some(name) =
                span["file_name"].as_str().and_then(|name| name.split_once("src/").map(|(_, name)| name))
                && let (Some(start), Some(end)) = (place("byte_start"), place("byte_end"))
            {
                spans.entry(name.to_owned()).or_default().push((start..end, is_primary));
            }
        }
        for (name, spans) in spans {
            if let (Some(source), Some(mutated)) = (sources.get(&name), mutated.get(&name)) {
                blamed.extend(source.blamed(mutated, &spans, dropped));
            }
        }
    }
    blamed
}

/// FNV-1a.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
