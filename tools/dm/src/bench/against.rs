//! `dm bench --against`: indexes beside each other, each alone in a process.
//!
//! Rounds of all sides run in turn, so that a disturbance of the machine affects all. One side is at work at a time, with one
//! thread. All get the same operations: see [`rounds`](crate::rounds).

use super::Arguments;
use super::bare;
use super::beside::{Against, Line, OPERATIONS, ROUNDS, SCANS};
use super::engine::Measured;
use super::plan::Plan;
use super::side::Side;
use crate::failure::Failure;
use crate::kinds::KindName;
use crate::progress::progress;
use crate::rounds::{Item, KINDS, READY, Round};
use crate::workload::keys::fill;
use crate::workload::spec::{Phase, Proportions, Spec};
use crate::workload::stream::{self, InsertCounter, Workload};
use clap::ValueEnum as _;
use dm_core::operation::OperationKind;
use std::env;
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::num::NonZeroU32;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

/// What an index is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// Another index of this engine.
    Kind(KindName),
    /// A concurrent adaptive radix tree in local memory.
    Congee,
}

impl Rival {
    /// Reads a name.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "congee" {
            return Ok(Self::Congee);
        }
        let kinds = KindName::value_variants().iter().map(|kind| kind.0.name());
        let names = || kinds.collect::<Vec<_>>().join(", ");
        KindName::from_str(text, false).map(Self::Kind).map_err(|_| format!("there are congee, {}", names()))
    }
}

/// A side, and its process.
struct Player {
    name: String,
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    /// Whether its process has a bare loop, too.
    bare: bool,
    /// Whether it still has no records.
    is_empty: bool,
}

impl Player {
    fn start(name: String, mut command: Command, how: &str) -> Result<Self, Failure> {
        let failed = |error: &dyn fmt::Display| Failure::Run(format!("--against: {name}: {error}{how}"));
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| failed(&error))?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let Some(from) = from.map(BufReader::new) else { return Err(failed(&"no pipe")) };
        let mut player = Self { name, child, to, from, bare: false, is_empty: false };
        if player.line()? != READY {
            return Err(Failure::Run(format!("--against: {} is no index to compare with", player.name)));
        }
        Ok(player)
    }

    /// This engine with `kind`, loaded.
    fn engine(side: Side) -> Result<Self, Failure> {
        let lanes = if side.lanes == 1 { "1 lane".to_owned() } else { format!("{} lanes", side.lanes) };
        let mut command = Command::new(env::current_exe().map_err(Failure::run)?);
        command.args(env::args_os().skip(1)).arg(side.to_option());
        let mut player = Self::start(format!("{}, {lanes}", side.kind.0.name()), command, "")?;
        player.bare = side.lanes == 1 && bare::check(side.kind.0).is_ok();
        Ok(player)
    }

    /// Congee, without records.
    fn congee() -> Result<Self, Failure> {
        let program = env::current_exe().map_err(Failure::run)?.with_file_name("examples").join("against_congee");
        let how = format!(
            " ({}: `cargo build --release -p dm --bins --example against_congee` builds it)",
            program.display()
        );
        let mut player = Self::start("congee".to_owned(), Command::new(program), &how)?;
        player.is_empty = true;
        Ok(player)
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(1..) => Ok(line.trim_end().to_owned()),
            // It has said why.
            _ => Err(Failure::Run(format!("--against: {} ended", self.name))),
        }
    }

    /// Has a round played; returns how long that took, in ns.
    fn play(&mut self, round: &Round) -> Result<f64, Failure> {
        if let Some(to) = &mut self.to {
            // If the process has ended, the line that it does not say tells so.
            let _ = round.write(to);
        }
        let line = self.line()?;
        line.parse().map_err(|_| Failure::Run(format!("--against: {} said {line:?}", self.name)))
    }

    /// Lets the process end, and waits for it.
    fn end(mut self) -> Result<(), Failure> {
        self.to = None;
        let status = self.child.wait().map_err(Failure::run)?;
        if status.success() { Ok(()) } else { Err(Failure::Run(format!("--against: {}: {status}", self.name))) }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // Without a pipe to read from it ends by itself, as its memory nodes then do.
        self.to = None;
        let _ = self.child.wait();
    }
}

/// Draws operations.
struct Draws<'a> {
    plan: &'a Plan,
    stream: stream::Lane<'static>,
    next_insert: u64,
    version: u32,
}

impl<'a> Draws<'a> {
    fn new(plan: &'a Plan) -> Result<Self, Failure> {
        let read = Proportions { read: 1.0, update: 0.0, insert: 0.0, scan: 0.0, read_modify_write: 0.0 };
        let base = plan.runs.first().map_or(Spec::core(), |run| run.spec.clone());
        let spec =
            Spec { phase: Phase::Run, record_count: plan.records, operation_count: None, proportions: read, ..base };
        let workload = Workload::new(spec, plan.seed, NonZeroU32::MIN).map_err(Failure::usage)?;
        let stream = workload.lane(0, Arc::new(InsertCounter::new(plan.records)));
        Ok(Self { plan, stream, next_insert: 0, version: 0 })
    }

    fn item(&mut self, kind: OperationKind) -> Item {
        let record = if kind == OperationKind::Insert {
            self.next_insert += 1;
            self.next_insert - 1
        } else {
            // The stream has no end and no inserts.
            self.stream.next().and_then(Result::ok).map_or(0, |draw| draw.record)
        };
        self.version += 1;
        let (mut key, mut value) = ([0; 8], [0; 8]);
        self.plan.keys.write(record, &mut key);
        fill(record, self.version, &mut value);
        Item { record, key: u64::from_be_bytes(key), value: u64::from_le_bytes(value) }
    }

    fn round(&mut self, kind: OperationKind, operations: u64) -> Round {
        Round { kind, bare: false, items: (0..operations).map(|_| self.item(kind)).collect() }
    }
}

/// Starts all sides, has them play, and returns what that took.
pub fn run(arguments: &Arguments, plan: &Plan) -> Result<Measured, Failure> {
    check(arguments, plan)?;
    // Before minutes of work.
    if let Some(path) = &plan.json {
        File::create(path).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    }
    let mut players = Vec::new();
    let kinds = arguments.against.iter().filter_map(|rival| match rival {
        Rival::Kind(kind) => Some(*kind),
        Rival::Congee => None,
    });
    for kind in std::iter::once(arguments.index).chain(kinds) {
        let lanes = if arguments.lanes == 1 { vec![1] } else { vec![1, arguments.lanes] };
        for lanes in lanes {
            players.push(Player::engine(Side { kind, lanes })?);
        }
    }
    if arguments.against.contains(&Rival::Congee) {
        players.push(Player::congee()?);
    }
    let mut draws = Draws::new(plan)?;
    let bar = progress("loading", Some(plan.records));
    while draws.next_insert < plan.records {
        let count = (plan.records - draws.next_insert).min(OPERATIONS);
        let round = draws.round(OperationKind::Insert, count);
        for player in players.iter_mut().filter(|player| player.is_empty) {
            player.play(&round)?;
        }
        bar.inc(count);
    }
    let mut lines = Vec::new();
    for kind in KINDS {
        lines.extend(compare(&mut players, &mut draws, kind)?);
    }
    players.into_iter().try_for_each(Player::end)?;
    let against = Against { records: plan.records, rounds: ROUNDS, lines };
    Ok(Measured { against: Some(against), ..Measured::default() })
}

/// Rounds of one kind of operation.
fn compare(players: &mut [Player], draws: &mut Draws<'_>, kind: OperationKind) -> Result<Vec<Line>, Failure> {
    let operations = if kind == OperationKind::Scan { SCANS } else { OPERATIONS };
    let has_bare_loop = matches!(kind, OperationKind::Get | OperationKind::Update);
    let bare_loops = (0..players.len()).filter(|&at| has_bare_loop && players[at].bare).map(|at| (at, true));
    let turns: Vec<_> = bare_loops.chain((0..players.len()).map(|at| (at, false))).collect();
    let mut taken = vec![Vec::with_capacity(ROUNDS); turns.len()];
    let bar = progress(kind.name(), Some(ROUNDS as u64));
    for number in 0..ROUNDS {
        let mut round = draws.round(kind, operations);
        for turn in 0..turns.len() {
            // The order changes from round to round, so that no side is always the first.
            let who = (turn + number) % turns.len();
            let (at, bare) = turns[who];
            round.bare = bare;
            taken[who].push(players[at].play(&round)? / operations as f64);
        }
        bar.inc(1);
    }
    let last = taken.last().cloned().unwrap_or_default();
    let line = |(&(at, bare), ns): (&(usize, bool), Vec<f64>)| {
        let ratios = sorted(ns.iter().zip(&last).map(|(ns, last)| ns / last).collect());
        let ns = sorted(ns);
        let name = &players[at].name;
        Line {
            operation: kind.name().to_owned(),
            side: if bare { format!("{name}, bare loop") } else { name.clone() },
            operations,
            median_ns: ns[ROUNDS / 2],
            low_tenth_ns: ns[ROUNDS / 10],
            high_tenth_ns: ns[ROUNDS - 1 - ROUNDS / 10],
            ratio: ratios[ROUNDS / 2],
        }
    };
    Ok(turns.iter().zip(taken).map(line).collect())
}

fn sorted(mut numbers: Vec<f64>) -> Vec<f64> {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers
}

/// Refuses what cannot be compared.
fn check(arguments: &Arguments, plan: &Plan) -> Result<(), Failure> {
    let given = [
        ("--pool", !arguments.pool.is_empty()),
        ("--keys", arguments.keys.is_some()),
        ("--any-length", arguments.any_length),
        ("--trace", arguments.trace.is_some()),
        ("--sweep", !arguments.sweep.is_empty()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
        return Err(Failure::Usage(format!(
            "{option}: not with --against, whose sides start memory nodes of their own and draw keys that are made"
        )));
    }
    if plan.parameters.key_bytes() != 8 || plan.parameters.value_bytes() != 8 {
        return Err(Failure::Usage("--against: keys and values of 8 bytes only".to_owned()));
    }
    if plan.runs.is_empty() {
        return Err(Failure::Usage("--against: a workload whose records are drawn, not load".to_owned()));
    }
    Ok(())
}
