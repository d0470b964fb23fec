//! `dm pool drain`: a memory node that is to become empty.

use crate::failure::{Failure, print};
use crate::members::{on_lane, with_read_access};
use crate::report::text::counted;
use crate::tool::PoolArguments;
use clap::Subcommand;
use dm_core::memory::chunks::{self, Tally};
use dm_core::remote::chunk::ChunkKind;
use dm_core::verbs::NodeId;
use dm_host::pool::Pool;
use dm_host::solo::block_on;

/// Arguments of `dm pool`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Have a memory node grant no more memory, and show what is left on it
    Drain(DrainArguments),
}

/// Arguments of `dm pool drain`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Programs go on: those that need memory get it from other memory nodes. Nodes of indexes stay where they are, and programs \
                  fill chunks that they have. What is left goes when its indexes are dropped, or dumped and loaded again; chunks for redo \
                  images come and go with programs. \
                  Chunks that were given back since are withheld when this is run again.\n\n\
                  Examples:\n  dm pool drain --pool /run/dm/0,/run/dm/1 --node 1\n  dm pool drain --pool /run/dm/0,/run/dm/1 --node 1 --undo"
)]
struct DrainArguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Number of the memory node, as in the order of --pool
    #[arg(long, value_name = "NUMBER")]
    node: u16,

    /// Have it grant memory again
    #[arg(long)]
    undo: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Command::Drain(arguments) = &arguments.command;
    let memory = arguments.pool.connect()?;
    let (node, pool) = (NodeId(arguments.node), &memory.pool);
    let changed = arguments.pool.join(&memory)?.withhold_chunks(node, !arguments.undo).map_err(Failure::run)?;
    let (tally, chunks) = (tally(pool, node)?, counted(changed, "chunk"));
    if arguments.undo {
        return print(&format!("memory node {}: {chunks} may be granted again\n", node.0));
    }
    print(&format!("memory node {}: {chunks} withheld, {} in all\n{}", node.0, tally.withheld, remains(pool, &tally)?))
}

/// Counts the chunks of a memory node.
fn tally(pool: &Pool, node: NodeId) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let Some(geometry) = pool.geometry().get(usize::from(node.0)) else { return Ok(tally) };
    with_read_access(pool, |fabric, lane| {
        let mut see = |_, entry| tally.count(entry);
        let walk = |fabric: &mut _, lane: &_| block_on(fabric, lane, chunks::walk(lane, node, geometry, 0, &mut see));
        on_lane(fabric, lane, walk).map_err(Failure::run)
    })?;
    Ok(tally)
}

/// What is left, one line for each index.
fn remains(pool: &Pool, tally: &Tally) -> Result<String, Failure> {
    let indexes = pool.indexes().map_err(Failure::run)?;
    let mut lines = String::new();
    for (number, kinds) in tally.granted.iter().enumerate().filter(|(_, kinds)| kinds.iter().any(|count| *count > 0)) {
        let name = indexes.iter().find(|index| usize::from(index.number.get()) == number);
        let name = name.map_or_else(|| "of no index".to_owned(), |index| format!("of index \"{}\"", index.name()));
        let of_kinds = ChunkKind::ALL.iter().map(|kind| (kind.name(), kinds[*kind as usize]));
        let of_kinds: Vec<String> =
            of_kinds.filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{count} {kind}")).collect();
        lines += &(name + ": " + &of_kinds.join(", ") + "\n");
    }
    Ok(if lines.is_empty() {
        "nothing is left on it\n".to_owned()
    } else {
        format!("left on it, {}:\n{lines}", counted(tally.granted_total(), "chunk"))
    })
}
