//! `dm shell`: operations by hand, on a terminal or from a pipe.
//!
//! `command` reads a line and runs it; `line` is what a person at a terminal has beside it: editing, history, completion.

mod command;
mod line;

use crate::failure::Failure;
use crate::report::text::counted;
use crate::tool::{PoolArguments, Tool, with_tool};
use command::Shell;
use line::Editing;
use std::cell::RefCell;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Arguments of `dm shell`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dm shell --pool /run/dm/0,/run/dm/1 --index names\n  printf 'put ada lovelace\\nget ada\\n' | dm shell --pool /run/dm/0 --index names\n  \
                        echo 'count prefix user:' | dm shell --pool /run/dm/0 --index names\n\n\
                        Keys and values are text, numbers as u64:123 or i64:-5, or hex:0a0b...; what has blanks goes into \"double quotes\". \
                        The command help says more.\n\
                        On a terminal, Tab completes commands and keys, the arrow keys find earlier lines, and Control-C ends a scan. \
                        A line that begins with a blank is not kept.\n\
                        From a pipe every line is tried; the exit code is 1 if one failed."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Name of the index
    #[arg(long, default_value = "bench")]
    index: String,

    /// Where keys have owners: refuse operations on keys of another compute node, and do not have that one execute them
    #[arg(long)]
    no_forward: bool,

    /// Where lines typed at a terminal are kept, keys and values included; an empty name: nowhere [default:
    /// dm/shell-history in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// What a line asks the loop for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    Leave,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let memory = arguments.pool.connect()?;
    let node = arguments.pool.join(&memory)?;
    with_tool(&node, &arguments.index, |tool| {
        if !arguments.no_forward {
            tool.forward();
        }
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            return at_a_terminal(tool, arguments.history.clone());
        }
        from_a_pipe(tool)
    })
}

fn at_a_terminal(tool: &mut Tool<'_, '_, '_, '_>, history: Option<PathBuf>) -> Result<(), Failure> {
    // While a line is edited, the terminal sends no signals.
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop))
        .map_err(|error| Failure::Run(format!("watching for signals: {error}")))?;
    // Completions look keys up while a line is edited; a line is run when it is not.
    let shell = RefCell::new(Shell::new(tool, Arc::clone(&stop)));
    let mut editing = Editing::new(history, |start: &str| shell.borrow_mut().keys_like(start, line::KEYS))?;
    while let Some(line) = editing.read()? {
        stop.store(false, Ordering::Relaxed);
        match shell.borrow_mut().line(&line) {
            Ok(Next::Line) => {}
            Ok(Next::Leave) => break,
            Err(command::Error::Line(error)) => eprintln!("{error}"),
            Err(command::Error::Output(failure)) => return Err(failure),
        }
    }
    editing.keep()
}

fn from_a_pipe(tool: &mut Tool<'_, '_, '_, '_>) -> Result<(), Failure> {
    let input = io::stdin();
    let is_interactive = input.is_terminal();
    let mut shell = Shell::new(tool, Arc::default());
    let mut failed = 0;
    let mut number = 0_u64;
    let mut line = String::new();
    loop {
        if is_interactive {
            // A prompt that cannot be written is no reason to stop.
            let _ = write!(io::stderr(), "{}", line::PROMPT).and_then(|()| io::stderr().flush());
        }
        line.clear();
        match input.lock().read_line(&mut line) {
            Ok(0) => break,
            Ok(_) => number += 1,
            Err(error) => return Err(Failure::Run(format!("line {} of the input: {error}", number + 1))),
        }
        match shell.line(line.trim_end_matches(['\n', '\r'])) {
            Ok(Next::Line) => {}
            Ok(Next::Leave) => break,
            Err(command::Error::Output(failure)) => return Err(failure),
            Err(command::Error::Line(error)) if is_interactive => eprintln!("{error}"),
            Err(command::Error::Line(error)) => {
                failed += 1;
                eprintln!("line {number}: {error}");
            }
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(Failure::Run(format!("{failed} of {} failed", counted(number, "line")))),
    }
}
