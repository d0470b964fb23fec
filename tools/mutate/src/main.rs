//! Mutants of dm-core's protocol files: how many of them do histories, enumerated deaths and unit tests catch?
//!
//! ```text
//! cargo run --release -p dm-mutate -- --percent 25 --minutes 60
//! ```
//!
//! One build has all of them: a copy of the tree in `target/mutate/tree`, in which every comparison, boundary, connective,
//! statement and pair of pushes has its mutant beside it ([`points`]), behind a number that the environment chooses
//! (`switch.rs`). The mutants of `dm_core::mutants` are few, have names and one byte; these have neither, so the switch is
//! another. Points that do not compile are dropped ([`tree`]).
//!
//! Every run is made on clean code first, and notes which points it evaluates ([`runs`]). A mutant is tried with the runs
//! that reach its point, cheap ones first, until one fails that passes on clean code: so no other bug gets the credit. What
//! takes 20 times as long as on clean code has failed, too: the mutant *hangs*.
//!
//! Results are kept in `target/mutate/results.jsonl`: a run that was stopped goes on, and a mutant that survived is tried
//! with what it was not tried with. The table is [tests/mutants.md](../../../tests/mutants.md); of the rooms that `--only` names,
//! the page that `--page` names: [tests/mutants-dex.md](../../../tests/mutants-dex.md) is of DEX, its page store, its owners. Mutants that change nothing that is promised are listed in `tools/mutate/equivalent.md`, each with
//! the reason; they are found again by their code, not by line numbers.

mod hunt;
mod points;
mod runs;
mod table;
mod tree;

use clap::Parser;
use std::io;
use std::path::{Path, PathBuf};

/// Mutants of dm-core's protocol files, and what catches them
#[derive(Debug, Parser)]
pub struct Arguments {
    /// Of each file, this part of the points, drawn by --seed
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    percent: u64,

    /// What chooses the points
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Stop after so many minutes of trying mutants
    #[arg(long, default_value_t = 600)]
    minutes: u64,

    /// Only files whose names begin so: of these, all points that are chosen. The page is of them alone
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,

    /// Histories and deaths of these indexes only, besides the unit tests
    #[arg(long, value_delimiter = ',')]
    index: Vec<String>,

    /// The page to write
    #[arg(long, default_value = "tests/mutants.md")]
    page: String,

    /// The last stage of runs to try: 0 unit tests, 1 to 5 more and more histories and deaths
    #[arg(long, default_value_t = 5)]
    stage: u32,

    /// Try no mutant: write the table of what is known
    #[arg(long)]
    table: bool,

    /// Show how this mutant, by its number in the table, fares in every run
    #[arg(long)]
    show: Option<u32>,
}

impl Arguments {
    /// Whether `--only` asks for this file.
    pub fn has(&self, file: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| file.starts_with(name))
    }
}

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let state = target.join("mutate");
    std::fs::create_dir_all(&state)?;
    let state = state.canonicalize()?;
    hunt::run(&arguments, &root, &state)
}
