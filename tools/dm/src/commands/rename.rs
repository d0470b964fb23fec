//! `dm rename`: an index gets another name.

use crate::failure::{Failure, print};
use crate::tool::PoolArguments;

/// Arguments of `dm rename`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Compute nodes that have the index open go on. Example:\n  dm rename --pool /run/dm/0 --name users --to people"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Name of the index
    #[arg(long)]
    name: String,

    /// Its new name, which no other index has
    #[arg(long, value_name = "NAME")]
    to: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let memory = arguments.pool.connect()?;
    arguments.pool.join(&memory)?.rename_index(&arguments.name, &arguments.to).map_err(Failure::run)?;
    print(&format!("index \"{}\" is called \"{}\" now\n", arguments.name, arguments.to))
}
