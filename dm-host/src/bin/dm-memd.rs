//! dm-memd: the daemon of one memory node.

use clap::Parser;
use dm_host::memory_node::daemon::{self, Arguments};
use std::process::ExitCode;

fn main() -> ExitCode {
    daemon::main("dm-memd", &Arguments::parse())
}
