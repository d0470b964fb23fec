//! `dm repair`: finishes what dead compute nodes left: see [`dm_host::repair`].

use crate::failure::{Failure, print};
use crate::report::repaired::Repaired;
use crate::report::text::counted;
use crate::tool::PoolArguments;
use dm_host::compute_node::Membership;
use dm_host::repair::{Scope, repair};
use std::fmt::Write as _;

/// Arguments of `dm repair`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: after a host with compute nodes is gone for good\n  dm repair --pool /run/dm/0,/run/dm/1\n\n\
                  It waits for a lease to see which compute nodes are unresponsive: --lease-ms or what the compute \
                  node's row says of its own, whichever is longer. A compute node that is alive and beats is left alone; \
                  one that is stopped for longer is ended."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let membership = Membership { terms: arguments.pool.terms()?, ..Membership::default() };
    let memory = arguments.pool.connect()?;
    let repaired = Repaired::from(repair(&memory.pool, membership, Scope::Unresponsive)?);
    if arguments.json {
        let json = serde_json::to_string_pretty(&repaired).map_err(Failure::run)?;
        return print(&(json + "\n"));
    }
    print(&render(&repaired))
}

fn render(repaired: &Repaired) -> String {
    let Repaired { rows_fenced, rows_freed, rows_kept, locks, chunks_freed, chunks_kept, unwritten_bytes } = repaired;
    let mut text = format!(
        "{} fenced, {} freed, {} recovered, {} given back\n",
        counted(*rows_fenced, "unresponsive compute node"),
        counted(*rows_freed, "row"),
        counted(*locks, "lock"),
        counted(*chunks_freed, "chunk")
    );
    if *rows_kept > 0 {
        let _ = writeln!(
            text,
            "{} kept dead: an index still needs what it left in its log, or it may have had an index open that this \
             program does not know",
            counted(*rows_kept, "row")
        );
    }
    if *chunks_kept > 0 {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{} with nodes kept for a compute node to collect; {unwritten_bytes} bytes of them were never written",
            counted(*chunks_kept, "chunk")
        );
    }
    text
}
