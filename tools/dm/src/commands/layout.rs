//! `dm layout`.

use crate::failure::{Failure, print};
use crate::layout::{self, STRUCTURES};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Arguments of `dm layout`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dm layout list\n  dm layout show lock_word\n  dm layout check   (exit code 1 if a \
                        golden does not hold)\n  dm layout bless   (writes what changed: a change of the format)"
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,

    /// Directory of the golden files
    #[arg(long, global = true, default_value = "layouts")]
    directory: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Name every structure, one a line
    List,
    /// Print the layout of one structure as the code has it
    Show {
        /// Its name
        name: String,
        /// As a C header
        #[arg(long)]
        c: bool,
    },
    /// Check every golden file both ways
    Check,
    /// Write every golden file that is not as the code has it
    Bless,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let directory = &arguments.directory;
    match &arguments.action {
        Action::List => {
            let width = STRUCTURES.iter().map(|structure| structure.name.len()).max().unwrap_or(0);
            let line = |s: &layout::Structure| format!("{:width$}  {}\n", s.name, s.title);
            print(&STRUCTURES.iter().map(line).collect::<String>())
        }
        Action::Show { name, c } => {
            let Some(structure) = layout::find(name) else {
                let known: Vec<_> = STRUCTURES.iter().map(|structure| structure.name).collect();
                return Err(Failure::Usage(format!("unknown structure \"{name}\"; there are {}", known.join(", "))));
            };
            print(&if *c { layout::c::header(structure) } else { layout::render(structure) })
        }
        Action::Check => {
            let found = layout::check(directory);
            if found.is_empty() {
                return print(&format!("{} layouts hold\n", STRUCTURES.len()));
            }
            print(&lines(&found))?;
            Err(Failure::Run(format!("{} of the layouts in {} do not hold", found.len(), directory.display())))
        }
        Action::Bless => {
            let written =
                layout::bless(directory).map_err(|error| Failure::Run(format!("{}: {error}", directory.display())))?;
            if written.is_empty() {
                return print("nothing to bless: every golden is as the code has it\n");
            }
            print(&lines(&written.iter().map(|file| format!("blessed {}", file.display())).collect::<Vec<_>>()))
        }
    }
}

/// Each on a line of its own.
fn lines(items: &[impl ToString]) -> String {
    items.iter().flat_map(|item| [item.to_string(), "\n".to_owned()]).collect()
}
