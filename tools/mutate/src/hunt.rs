//! Tries the mutants, and keeps what was found.

use crate::Arguments;
use crate::points::{Key, Point};
use crate::runs::{self, Active, End, Means, Run};
use crate::table;
use crate::tree::{self, Built, fnv};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// A run that takes so many times as long as on clean code does not end.
const TIMES_MAX: f64 = 20.0;

/// The least cap of a run: a busy machine is not a mutant.
const CAP_MIN: Duration = Duration::from_secs(4);

/// The greatest.
const CAP_MAX: Duration = Duration::from_mins(4);

/// From this stage on runs are long.
const LONG_STAGE: u32 = 3;

/// Unit tests that take so many seconds together are one process.
const TESTS_TOGETHER_S: f64 = 2.0;

/// How a mutant fared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fate {
    /// The mutant.
    pub key: Key,
    /// Of the code it was tried in.
    pub code: u64,
    /// What caught it.
    pub caught: Option<Caught>,
    /// What did not.
    pub tried: BTreeSet<String>,
}

/// What caught a mutant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Caught {
    /// What it is.
    pub means: Means,
    /// The run.
    pub by: String,
    /// It did not end.
    pub hangs: bool,
    /// What the run said.
    pub said: String,
}

/// All that is known.
#[derive(Debug)]
pub struct Known {
    /// The copy.
    pub built: Built,
    /// What clean code does.
    pub runs: Vec<Run>,
    /// By key.
    pub fates: BTreeMap<Key, Fate>,
    /// Points to try, by number, in order.
    pub chosen: Vec<u32>,
    /// Points that some run reaches.
    pub reached: BTreeSet<u32>,
}

impl Known {
    /// Whether a mutant that survived was not tried with some run that reaches its point.
    pub fn has_more(&self, number: u32, fate: &Fate) -> bool {
        let stage = self.runs.iter().map(|run| run.stage).max().unwrap_or_default();
        let untried = |group: &Vec<&Run>| group.iter().any(|run| !fate.tried.contains(&run.name));
        tries(&self.runs, number, stage).iter().any(untried)
    }
}

/// Builds, measures, tries, writes the table.
pub fn run(arguments: &Arguments, root: &Path, state: &Path) -> io::Result<()> {
    let built = current(root, state, arguments.table)?;
    let runs = measured(&built, state, arguments)?;
    let fates = state.join("results.jsonl");
    let known: Vec<Fate> = lines(&fates)?;
    let chosen = choose(&built, arguments);
    let reached = runs.iter().flat_map(|run| run.reached.iter().copied()).collect();
    let mut known =
        Known { fates: known.into_iter().map(|fate| (fate.key.clone(), fate)).collect(), built, runs, chosen, reached };
    if let Some(number) = arguments.show {
        return show(&known, state, number);
    }
    if !arguments.table {
        let equivalent = table::equivalent(root)?;
        let mut out = fs::OpenOptions::new().create(true).append(true).open(&fates)?;
        let until = Instant::now() + Duration::from_secs(60 * arguments.minutes);
        for (at, number) in known.chosen.clone().into_iter().enumerate() {
            let point = &known.built.points[number as usize - 1];
            if Instant::now() > until {
                break;
            }
            if !known.reached.contains(&number) || equivalent.iter().any(|entry| entry.is(&point.key)) {
                continue;
            }
            let Some(fate) = try_one(&known, state, point, arguments.stage)? else { continue };
            let word = fate.caught.as_ref().map_or("SURVIVED", |caught| if caught.hangs { "hangs" } else { "caught" });
            let by = fate.caught.as_ref().map_or("", |caught| &caught.by);
            println!(
                "{}/{} {word} {}:{} {} `{}` {by}",
                at + 1,
                known.chosen.len(),
                point.key.file,
                point.line,
                point.key.kind.name(),
                point.key.code
            );
            writeln!(out, "{}", serde_json::to_string(&fate)?)?;
            known.fates.insert(fate.key.clone(), fate);
        }
    }
    table::write(&known, arguments, root)
}

/// The copy, built if the tree is not the one it is of.
fn current(root: &Path, state: &Path, as_it_is: bool) -> io::Result<Built> {
    let file = state.join("built.json");
    if as_it_is {
        return Ok(serde_json::from_slice(&fs::read(&file)?)?);
    }
    let old: Option<Built> = fs::read(&file).ok().and_then(|old| serde_json::from_slice(&old).ok());
    if let Some(old) = &old
        && old.hash == tree::hashes(root)?.0
    {
        return Ok(old.clone());
    }
    let built = tree::build(root, state, old.as_ref())?;
    if old.is_none_or(|old| old.code != built.code) {
        let _ = fs::remove_file(state.join("runs.jsonl"));
    }
    fs::write(&file, serde_json::to_vec(&built)?)?;
    Ok(built)
}

/// What clean code does in every run.
fn measured(built: &Built, state: &Path, arguments: &Arguments) -> io::Result<Vec<Run>> {
    let file = state.join("runs.jsonl");
    let mut known: Vec<Run> = lines(&file)?;
    let mut out = fs::OpenOptions::new().create(true).append(true).open(&file)?;
    if arguments.table {
        return Ok(known);
    }
    for run in runs::all(built, &arguments.index)? {
        if run.2 > arguments.stage || known.iter().any(|other| other.name == run.0) {
            continue;
        }
        let run = runs::measure(built, state, run)?;
        eprintln!("{:7.2} s, {:5} points: {}", run.seconds, run.reached.len(), run.name);
        writeln!(out, "{}", serde_json::to_string(&run)?)?;
        known.push(run);
    }
    Ok(known)
}

fn lines<T: DeserializeOwned>(file: &Path) -> io::Result<Vec<T>> {
    let text = if file.exists() { fs::read_to_string(file)? } else { String::new() };
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The part of every file's points that was asked for, in an order in which every beginning is such a part of all files.
fn choose(built: &Built, arguments: &Arguments) -> Vec<u32> {
    let mut files: BTreeMap<&str, Vec<(u64, u32)>> = BTreeMap::new();
    let asked = built.points.iter().filter(|point| arguments.has(&point.key.file));
    for point in asked.filter(|point| !built.dropped.contains(&point.number)) {
        let Key { file, function, kind, code, nth } = &point.key;
        let drawn = fnv(format!("{} {file} {function} {} {code} {nth}", arguments.seed, kind.name()).as_bytes());
        files.entry(file).or_default().push((drawn, point.number));
    }
    let mut chosen = Vec::new();
    for points in files.values_mut() {
        points.sort_unstable();
        let count = (points.len() as u64 * arguments.percent).div_ceil(100) as usize;
        chosen.extend(
            points[..count]
                .iter()
                .enumerate()
                .map(|(rank, (drawn, number))| (((rank as u64) << 32) / points.len() as u64, *drawn, *number)),
        );
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|(.., number)| number).collect()
}

/// Groups of runs that reach a point, in the order in which they are tried.
fn tries(runs: &[Run], number: u32, stage: u32) -> Vec<Vec<&Run>> {
    let mut reaching: Vec<&Run> =
        runs.iter().filter(|run| run.stage <= stage && run.reached.contains(&number)).collect();
    // Long runs of keys of any length over an index cost three times as much as the index's own.
    let is_long = |run: &Run| run.means == Means::Histories && run.stage >= LONG_STAGE;
    let of_items = |run: &Run| run.name.contains("--index any-length");
    if reaching.iter().any(|run| is_long(run) && !of_items(run)) {
        reaching.retain(|run| !is_long(run) || !of_items(run));
    }
    reaching
        .sort_by(|a, b| (a.stage, a.seconds).partial_cmp(&(b.stage, b.seconds)).unwrap_or(core::cmp::Ordering::Equal));
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for run in reaching {
        let seconds = |group: &Vec<&Run>| group.iter().map(|run| run.seconds).sum::<f64>();
        match groups.last_mut() {
            Some(group) if run.means == Means::Tests && seconds(group) + run.seconds < TESTS_TOGETHER_S => {
                group.push(run);
            }
            _ => groups.push(vec![run]),
        }
    }
    groups
}

fn attempt(built: &Built, state: &Path, group: &[&Run], number: u32) -> io::Result<End> {
    let seconds: f64 = group.iter().map(|run| run.seconds).sum();
    let cap = Duration::from_secs_f64(seconds * TIMES_MAX).clamp(CAP_MIN, CAP_MAX);
    let names: Vec<&str> = group.iter().map(|run| run.name.as_str()).collect();
    runs::execute(built, state, group[0].means, &names, Active::Mutant(number), cap)
}

/// Tries a mutant with what it was not tried with. `None`: with everything.
fn try_one(known: &Known, state: &Path, point: &Point, stage: u32) -> io::Result<Option<Fate>> {
    let code = known.built.code;
    let mut fate = Fate { key: point.key.clone(), code, caught: None, tried: BTreeSet::new() };
    if let Some(old) = known.fates.get(&point.key) {
        if old.caught.is_some() {
            return Ok(None);
        }
        if old.code == code {
            fate.tried.clone_from(&old.tried);
        }
    }
    let mut is_new = false;
    for group in tries(&known.runs, point.number, stage) {
        if group.iter().all(|run| fate.tried.contains(&run.name)) {
            continue;
        }
        is_new = true;
        let (hangs, said) = match attempt(&known.built, state, &group, point.number)? {
            End::Passed => {
                fate.tried.extend(group.iter().map(|run| run.name.clone()));
                continue;
            }
            End::Failed(said) => (false, said),
            End::Hung => (true, String::new()),
        };
        let by = group.iter().map(|run| run.name.as_str()).take(3).collect::<Vec<_>>().join(", ");
        fate.caught = Some(Caught { means: group[0].means, by, hangs, said });
        break;
    }
    Ok(is_new.then_some(fate))
}

fn show(known: &Known, state: &Path, number: u32) -> io::Result<()> {
    let Some(point) = known.built.points.get((number as usize).wrapping_sub(1)) else { return Ok(()) };
    println!(
        "{}:{} {}: {} `{}`",
        point.key.file,
        point.line,
        point.key.function,
        point.key.kind.name(),
        point.key.code
    );
    for group in tries(&known.runs, number, u32::MAX) {
        for run in group {
            println!("{}: {:?}", run.name, attempt(&known.built, state, &[run], number)?);
        }
    }
    Ok(())
}
