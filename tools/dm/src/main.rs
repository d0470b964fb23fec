//! dm: the command of the disaggregated-memory index engine.

use std::process::ExitCode;

fn main() -> ExitCode {
    dm_tool::commands::main()
}
