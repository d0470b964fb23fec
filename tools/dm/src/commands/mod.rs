//! The command line.
//!
//! Exit codes: 0 done, 1 it failed, 2 what was asked for makes no sense. Every error is one line on the standard error
//! that says what and where.

mod check;
mod create;
mod destination;
mod doctor;
mod drop;
mod dump;
mod generate;
mod inspect;
mod layout;
mod litmus;
mod pool;
mod rename;
mod repair;
mod repartition;
mod shell;
mod trial;
mod verify;

pub use dump::check_dump;

use crate::failure::Failure;
use crate::{bench, churn, figures, soak, top};
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use dm_host::memory_node::daemon;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Range indexes on disaggregated memory: benchmarks, and tools to look into pools
#[derive(Debug, Parser)]
#[command(
    name = "dm",
    version,
    after_help = "Examples:\n  dm bench                       all seven YCSB workloads on memory nodes of its own\n  dm bench --workload c --json c.json\n  dm layout check\n\n\
                  A pool that others use, of the memory node at /run/dm/0 (dm-memd(1) says how to run it):\n  \
                  dm top --pool /run/dm/0            watch it\n  \
                  dm inspect --pool /run/dm/0        what is in it, and who holds what\n  \
                  dm check --pool /run/dm/0          whether its indexes are sound\n  \
                  dm repair --pool /run/dm/0         recover what dead compute nodes left\n  \
                  dm dump --pool /run/dm/0 --index users > users.dump\n  \
                  dm load --pool /run/dm/0 --index users < users.dump\n\
                  The last two back an index up, and restore it. One that is damaged is dropped before that, with dm drop."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load an index, run YCSB workloads on it, report
    Bench(Box<bench::Arguments>),
    /// Write a pool over many times at a steady number of records, and check that its memory is reused
    Churn(churn::Arguments),
    /// Run published figures again on the simulated cluster
    Figures(figures::Arguments),
    /// Create an empty index in a pool
    Create(create::Arguments),
    /// Drop an index that nobody has open, and free its memory
    Drop(drop::Arguments),
    /// Make an index that nobody has open empty
    Truncate(drop::Arguments),
    /// Give an index another name, also while it is in use
    Rename(rename::Arguments),
    /// Show which compute node has which keys of an index, and move ranges of them while they are in use
    Repartition(repartition::Arguments),
    /// Add a memory node to a pool in use, or have one grant no more memory
    Pool(pool::Arguments),
    /// Get, put, update, delete, scan and count by hand
    Shell(shell::Arguments),
    /// Show what is in a pool: memory, indexes, compute nodes and their leases, locks and their holders
    Inspect(inspect::Arguments),
    /// Watch a pool: operations, memory, locks, epochs, compute nodes
    Top(top::Arguments),
    /// Walk every index of a pool, and tell what is damaged where
    Check(check::Arguments),
    /// Finish what dead compute nodes left; safe on a pool in use
    Repair(repair::Arguments),
    /// Write an index to a file or a pipe
    Dump(dump::DumpArguments),
    /// Load an index from what dump wrote, a file or a pipe
    Load(dump::LoadArguments),
    /// List, show, check or bless the golden files of the remote layouts
    Layout(layout::Arguments),
    /// Kill, stop and restart compute processes at random, and check that nothing acknowledged is lost
    Soak(soak::Arguments),
    /// A compute process of a soak
    #[command(hide = true)]
    SoakWriter(soak::writer::Arguments),
    /// Run random histories on the simulated fabric and judge them
    Verify(verify::Arguments),
    /// Say what this machine has for RDMA, what would be chosen, and what is missing
    Doctor(doctor::Arguments),
    /// Try to see on a pool what indexes rely on not to happen
    Litmus(litmus::Arguments),
    /// Try everything on two RDMA hosts, in bounded time, and write a report
    Trial(Box<trial::Arguments>),
    /// Write the manual pages of dm and dm-memd
    Man(generate::ManArguments),
    /// Print a script that completes command lines of dm or dm-memd in a shell
    Completions(generate::CompletionArguments),
    /// Be the daemon of one memory node, as dm-memd is
    Memd(Box<daemon::Arguments>),
}

/// Reads the command line and runs the command.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = writeln!(io::stderr(), "dm: {}", one_line(&error));
            return ExitCode::from(2);
        }
        // Help and version.
        Err(error) => error.exit(),
    };
    // The daemon starts a log of its own.
    if !matches!(cli.command, Command::Memd(_)) {
        let filter = tracing_subscriber::EnvFilter::try_from_default_env()
            .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error"));
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    }
    let done = match cli.command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Churn(arguments) => churn::run(&arguments),
        Command::Figures(arguments) => figures::run(&arguments),
        Command::Create(arguments) => create::run(&arguments),
        Command::Drop(arguments) => drop::drop(&arguments),
        Command::Truncate(arguments) => drop::truncate(&arguments),
        Command::Rename(arguments) => rename::run(&arguments),
        Command::Repartition(arguments) => repartition::run(&arguments),
        Command::Pool(arguments) => pool::run(&arguments),
        Command::Shell(arguments) => shell::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Repair(arguments) => repair::run(&arguments),
        Command::Dump(arguments) => dump::dump(&arguments),
        Command::Load(arguments) => dump::load(&arguments),
        Command::Layout(arguments) => layout::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::SoakWriter(arguments) => soak::writer::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Litmus(arguments) => litmus::run(&arguments),
        Command::Trial(arguments) => trial::run(&arguments),
        Command::Man(arguments) => generate::man(&arguments),
        Command::Completions(arguments) => generate::completions(&arguments),
        Command::Memd(arguments) => return daemon::main("dm memd", &arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // A closed standard error leaves no way to report this.
            let _ = writeln!(io::stderr(), "dm: {failure}");
            ExitCode::from(match failure {
                Failure::Usage(_) => 2,
                Failure::Run(_) => 1,
            })
        }
    }
}

/// The message of clap in one line, without usage and advice.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    let text = text.split("\n\nFor more information").next().unwrap_or_default();
    let words: Vec<_> = text.trim_start_matches("error: ").split_whitespace().collect();
    words.join(" ")
}
