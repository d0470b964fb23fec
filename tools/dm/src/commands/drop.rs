//! `dm drop` and `dm truncate`: an index that nobody has open goes, or is made empty.

use crate::failure::{Failure, print};
use crate::tool::PoolArguments;
use dm_host::compute_node::ComputeNode;
use dm_host::pool::{InUse, PoolError};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at an index that is open.
const PAUSE: Duration = Duration::from_millis(100);

/// Arguments of `dm drop` and `dm truncate`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Refused while a compute node has the index open: it would go on with memory that others are granted. The message \
                  names the compute node's row, and the log of a memory node names the row's process. Examples:\n  \
                  dm drop --pool /run/dm/0 --name users\n  dm drop --pool /run/dm/0 --name users --wait 60"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Name of the index
    #[arg(long)]
    name: String,

    /// While the index is open, try again for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=86_400))]
    wait: u64,
}

pub(super) fn drop(arguments: &Arguments) -> Result<(), Failure> {
    when_closed(arguments, |node| node.drop_index(&arguments.name))?;
    print(&format!("index \"{}\" is dropped\n", arguments.name))
}

pub(super) fn truncate(arguments: &Arguments) -> Result<(), Failure> {
    when_closed(arguments, |node| node.truncate_index(&arguments.name))?;
    print(&format!("index \"{}\" is empty\n", arguments.name))
}

/// Does it, again as long as the index is open and there is time. Each try is complete: an index that is refused is as it was.
fn when_closed(arguments: &Arguments, change: impl Fn(&ComputeNode) -> Result<(), PoolError>) -> Result<(), Failure> {
    let memory = arguments.pool.connect()?;
    let node = arguments.pool.join(&memory)?;
    let began = Instant::now();
    loop {
        match change(&node) {
            Err(PoolError::InUse { why: InUse::Open | InUse::Unknown, .. })
                if began.elapsed() < Duration::from_secs(arguments.wait) =>
            {
                thread::sleep(PAUSE);
            }
            changed => return changed.map_err(Failure::run),
        }
    }
}
