//! `dm drop` and `dm truncate`: an index that nobody has open goes, or is made empty.

use crate::failure::{Failure, print};
use crate::tool::PoolArguments;

/// Arguments of `dm drop` and `dm truncate`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Refused while a compute node has the index open. Example:\n  dm drop --pool /run/dm/0 --name users"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Name of the index
    #[arg(long)]
    name: String,
}

pub(super) fn drop(arguments: &Arguments) -> Result<(), Failure> {
    let memory = arguments.pool.connect()?;
    arguments.pool.join(&memory)?.drop_index(&arguments.name).map_err(Failure::run)?;
    print(&format!("index \"{}\" is dropped\n", arguments.name))
}

pub(super) fn truncate(arguments: &Arguments) -> Result<(), Failure> {
    let memory = arguments.pool.connect()?;
    arguments.pool.join(&memory)?.truncate_index(&arguments.name).map_err(Failure::run)?;
    print(&format!("index \"{}\" is empty\n", arguments.name))
}
