//! The runs that may catch a mutant: unit tests, histories, enumerated deaths; which points each reaches on clean code.

use crate::tree::Built;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The indexes that histories are about.
const INDEXES: [&str; 6] = ["sherman", "chime", "smart", "dolphin", "dex", "any-length"];

/// What an index without recovery stands.
const UNMENDED: &str = "drops,crash,node-death,stale-cache";

/// What compute nodes recover from.
const MENDED: &str = "drops,crash,qp-error,rpc-lost,rpc-repeated,stale-cache";

/// Histories of one run. Most mutants show in a few: so a few come first.
pub const HISTORIES: [u32; 3] = [40, 400, 2500];

/// Crash points of each operation and tree. All of them would take hours for the mutants that survive all else.
const POINTS: u32 = 30;

/// A run that has not ended after so many times its cap waits for something, whatever it has used.
const WAITS_TIMES: u32 = 10;

/// A unit test that takes longer is tried after the first histories.
const TEST_SLOW_S: f64 = 0.3;

/// What caught a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// Unit tests of dm-core.
    Tests,
    /// Random histories.
    Histories,
    /// Enumerated deaths.
    Enumeration,
}

/// A run, and how it went on clean code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Its name: of a unit test its path, of others the arguments of `dm verify`.
    pub name: String,
    /// What it is.
    pub means: Means,
    /// Cheap ones come first.
    pub stage: u32,
    /// Seconds it took.
    pub seconds: f64,
    /// Points it reaches. Empty also if it failed on clean code: then it catches nothing.
    pub reached: BTreeSet<u32>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// As on clean code.
    Passed,
    /// It failed, and said this.
    Failed(String),
    /// It did not end.
    Hung,
}

/// All runs, or of histories and deaths those of `indexes`: names, means and stages.
pub fn all(built: &Built, indexes: &[String]) -> io::Result<Vec<(String, Means, u32)>> {
    let out = Command::new(&built.tests).args(["--list", "--format", "terse"]).output()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
    let mut runs: Vec<_> = tests.map(|name| (name.to_owned(), Means::Tests, 0)).collect();
    let asked: Vec<&str> = indexes.iter().map(String::as_str).collect();
    let all: Vec<&str> = INDEXES.into_iter().chain(["any-length-over-chime", "any-length-over-smart"]).collect();
    let with_items = if asked.is_empty() { all } else { asked };
    let of_one_size: Vec<&str> = with_items.iter().copied().filter(|index| !index.starts_with("any-length")).collect();
    for (stage, histories) in HISTORIES.into_iter().enumerate() {
        let stage = 1 + 2 * stage as u32;
        for index in with_items.iter().copied() {
            let unmended = if matches!(index, "sherman" | "chime" | "smart") { "all" } else { UNMENDED };
            for options in [
                format!("--faults {unmended}"),
                format!("--recovery --faults {MENDED}"),
                format!("--recovery --faults {MENDED} --wide"),
            ] {
                runs.push((format!("--index {index} {options} --histories {histories}"), Means::Histories, stage));
            }
        }
    }
    for index in with_items.iter().filter(|index| !index.contains("-over-")) {
        let damaged = format!("--index {index} --faults drops --damage --histories {}", HISTORIES[1]);
        runs.push((damaged, Means::Histories, 3));
    }
    for index in of_one_size {
        let name = format!("--index {index} --enumerate --points {POINTS} --histories {}", HISTORIES[0]);
        runs.push((name, Means::Enumeration, 4));
    }
    Ok(runs)
}

/// Runs it on clean code.
pub fn measure(built: &Built, state: &Path, (name, means, stage): (String, Means, u32)) -> io::Result<Run> {
    let cover = state.join("cover");
    let _ = fs::remove_file(&cover);
    let started = Instant::now();
    let end = execute(built, state, means, &[&name], Active::Cover(&cover), Duration::from_mins(10))?;
    let text = fs::read_to_string(&cover).unwrap_or_default();
    let mut reached: BTreeSet<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    if end != End::Passed {
        eprintln!("left out, since it fails on clean code: {name}: {end:?}");
        reached.clear();
    }
    // Noting points takes time, too: the clean run is not slower than this.
    let seconds = started.elapsed().as_secs_f64();
    let stage = if means == Means::Tests && seconds > TEST_SLOW_S { stage + 2 } else { stage };
    Ok(Run { name, means, stage, seconds, reached })
}

/// How long the threads of a process have run: what else the machine does is not of the mutant.
fn processor_time(process: u32) -> Duration {
    let stat = procfs::process::Process::new(process.cast_signed()).and_then(|process| process.stat());
    stat.map_or(Duration::MAX, |stat| {
        Duration::from_secs_f64((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
    })
}

/// What is switched on.
#[derive(Clone, Copy, Debug)]
pub enum Active<'a> {
    /// Nothing; points that are evaluated are written to this file.
    Cover(&'a Path),
    /// The mutant of this number.
    Mutant(u32),
}

/// Runs tests of these names together, or one run of `dm verify`. `cap`: of processor time.
pub fn execute(
    built: &Built,
    state: &Path,
    means: Means,
    names: &[&str],
    active: Active<'_>,
    cap: Duration,
) -> io::Result<End> {
    // A mutant that takes all memory must not take that of others.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 6000000; exec \"$0\" \"$@\""]);
    if means == Means::Tests {
        command.arg(&built.tests).args(["--exact", "--test-threads", "1", "--quiet"]).args(names);
    } else {
        command.arg(&built.dm).arg("verify").args(names.iter().flat_map(|name| name.split(' ')));
    }
    match active {
        Active::Cover(file) => command.env("DM_MUTANT_COVER", file),
        Active::Mutant(number) => command.env("DM_MUTANT", number.to_string()),
    };
    // Not where sources are: failed cases of mutants are nobody's regressions.
    command.current_dir(state);
    let said = state.join("said");
    let out = fs::File::create(&said)?;
    let mut child = command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn()?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        // One that waits for ever uses no processor.
        let waits = started.elapsed() > cap * WAITS_TIMES;
        if waits || (started.elapsed() > cap && processor_time(child.id()) > cap) {
            child.kill()?;
            child.wait()?;
            return Ok(End::Hung);
        }
        std::thread::sleep(Duration::from_millis(3));
    };
    if status.success() {
        return Ok(End::Passed);
    }
    let text = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
    let panic = text.lines().skip_while(|line| !line.contains("panicked at")).take(2).collect::<Vec<_>>().join(" ");
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    let said = if panic.is_empty() { last } else { panic };
    Ok(End::Failed(said.chars().take(200).collect()))
}
