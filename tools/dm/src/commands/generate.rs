//! `dm man` and `dm completions`: what belongs to an installation, made from the command line's own definition.

use super::Cli;
use crate::failure::{Failure, print};
use clap::{CommandFactory as _, ValueEnum};
use clap_complete::Shell;
use dm_host::memory_node::daemon;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Arguments of `dm man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  dm man /usr/local/share/man/man1\n  man dm-dump")]
pub(super) struct ManArguments {
    /// Where to write them: a directory, which is made if there is none
    directory: PathBuf,
}

/// Arguments of `dm completions`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dm completions bash > /etc/bash_completion.d/dm\n  dm completions zsh > /usr/local/share/zsh/site-functions/_dm\n  \
                  dm completions bash --program dm-memd > /etc/bash_completion.d/dm-memd"
)]
pub(super) struct CompletionArguments {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,

    /// For which program
    #[arg(long, value_enum, default_value = "dm")]
    program: Program,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Program {
    /// This command
    Dm,
    /// The daemon of a memory node
    DmMemd,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Dm => "dm",
            Self::DmMemd => "dm-memd",
        }
    }

    fn command(self) -> clap::Command {
        match self {
            Self::Dm => Cli::command(),
            Self::DmMemd => daemon::Arguments::command(),
        }
    }
}

/// Writes a page for `dm`, one for each subcommand that is not hidden, and one for `dm-memd`: the last is also that of `dm
/// memd`, which is the same program.
pub(super) fn man(arguments: &ManArguments) -> Result<(), Failure> {
    let directory = &arguments.directory;
    let failed = |path: &Path, error: &io::Error| Failure::Run(format!("{}: {error}", path.display()));
    fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
    // There is no page of the command "help".
    let [mut dm, memd] = [Program::Dm, Program::DmMemd].map(|program| program.command().disable_help_subcommand(true));
    dm.build();
    let subcommands = dm.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "memd");
    let mut count = 0;
    for command in subcommands.cloned().chain([dm.clone(), memd]) {
        let man = clap_mangen::Man::new(command);
        let path = directory.join(man.get_filename());
        let mut page = Vec::new();
        man.render(&mut page)
            .and_then(|()| fs::write(&path, with_examples(&String::from_utf8_lossy(&page))))
            .map_err(|error| failed(&path, &error))?;
        count += 1;
    }
    print(&format!("{count} pages written to {}\n", directory.display()))
}

/// The page with its examples as they are: lines that begin with blanks. The formatter would break the long ones, and put what
/// follows behind the last.
fn with_examples(page: &str) -> String {
    let mut text = String::new();
    let mut is_example = false;
    for line in page.lines() {
        if line.starts_with(' ') != is_example {
            is_example = !is_example;
            text.push_str(if is_example { ".nf\n" } else { ".fi\n" });
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Prints a script for a shell.
pub(super) fn completions(arguments: &CompletionArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    let program = arguments.program;
    clap_complete::generate(arguments.shell, &mut program.command(), program.name(), &mut script);
    print(&String::from_utf8_lossy(&script))
}
