//! `dm pool add` and `dm pool drain`: a memory node that a pool gets, and one that is to become empty.

use super::repartition::with_range;
use crate::failure::{Failure, print};
use crate::members::{members, on_lane, with_read_access};
use crate::report::text::counted;
use crate::tool::{PoolArguments, Tool, seconds, with_tool};
use clap::Subcommand;
use dm_core::memory::chunks::{self, Tally};
use dm_core::remote::chunk::ChunkKind;
use dm_core::verbs::NodeId;
use dm_host::compute_node::ComputeNode;
use dm_host::pool::{Pool, PoolError};
use dm_host::solo::block_on;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Arguments of `dm pool`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a memory node to a pool that is in use
    Add(AddArguments),
    /// Have a memory node grant no more memory, and show what is left on it
    Drain(DrainArguments),
}

/// Arguments of `dm pool add`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Start the new memory node first, with the next --node-id, one more in --memory-nodes, and the --pool-name and --incarnation \
                  of the others (dm inspect shows both). Programs that are in the pool go on with the memory nodes that they know, and \
                  get no memory of the new one; a program that joins from now on has to name it, too. Once those that \
                  joined before have been started again, one after the other, the new memory node grants memory. Memory node 0 sweeps dead \
                  compute nodes only if its --peers has all others: start its daemon again, too, and leave its --memory-nodes as it is. \
                  What is in memory nodes stays where it is. This may be run again at any time: it goes on where it was.\n\n\
                  Examples:\n  dm memd --node-id 2 --memory-nodes 3 --size 4GiB --socket /run/dm/2 &\n  \
                  dm pool add --pool /run/dm/0,/run/dm/1 --new /run/dm/2 --wait 600"
)]
struct AddArguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// The new memory node, named as those of --pool
    #[arg(long, value_name = "MEMORY NODE")]
    new: PathBuf,

    /// How long to wait for programs that joined before to leave, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
}

/// Pause between two looks at the rows.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Arguments of `dm pool drain`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Programs go on: those that need memory get it from other memory nodes. Nodes of indexes whose keys have owners move to \
                  other memory nodes, range after range of their keys: a range comes to this program, and goes back to its owner. A \
                  program's session can do that for its own ranges, which then stay with it (Session::vacate). Places that nodes have \
                  left are not used again before the index is dropped, because programs may have pointers to them. \
                  Nodes of other indexes stay where they are, and programs fill chunks that they have. What is left goes when its \
                  indexes are dropped, or dumped and loaded again; chunks for redo images come and go with programs. \
                  Chunks that were given back since are withheld when this is run again, and nodes that were made there since move.\n\n\
                  Examples:\n  dm pool drain --pool /run/dm/0,/run/dm/1 --node 1\n  dm pool drain --pool /run/dm/0,/run/dm/1 --node 1 --undo"
)]
struct DrainArguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Number of the memory node, as in the order of --pool
    #[arg(long, value_name = "NUMBER")]
    node: u16,

    /// Have it grant memory again. What has moved stays where it is
    #[arg(long)]
    undo: bool,

    /// How long an owner may take to give a range of keys up, and a range to move its nodes, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    wait: Duration,
}

/// How often all ranges are looked at again, because others have made nodes on the memory node meanwhile.
const PASSES_MAX: u32 = 8;

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Add(arguments) => add(arguments),
        Command::Drain(arguments) => drain(arguments),
    }
}

fn add(arguments: &AddArguments) -> Result<(), Failure> {
    let memory = arguments.pool.connect_to_add(&arguments.new)?;
    let pool = &memory.pool;
    let node = NodeId(pool.nodes().len() as u16 - 1);
    if pool.descriptions()[0].identity.nodes > node.0 {
        return Err(Failure::Usage("--new: the pool has all of these memory nodes since it was made".to_owned()));
    }
    let added = pool.add_memory_node().map_err(Failure::run)?;
    print(&format!("memory node {} {}\n", node.0, if added { "is added" } else { "was added before" }))?;
    let (began, wait) = (Instant::now(), arguments.wait.unwrap_or_default());
    let granted = loop {
        match pool.grant_from(node) {
            Err(PoolError::Behind { .. }) if began.elapsed() < wait => thread::sleep(LOOK_AGAIN),
            Err(PoolError::Behind { node, rows }) => {
                let who = with_read_access(pool, |fabric, lane| members(pool, fabric, lane).map_err(Failure::run))?;
                let who = who.iter().filter(|member| rows.contains(&member.row.0)).map(|member| {
                    format!(
                        "row {}, on {}, {}\n",
                        member.row.0,
                        member.host.as_deref().unwrap_or("?"),
                        member.state.name()
                    )
                });
                print(&who.collect::<String>())?;
                return Err(Failure::run(PoolError::Behind { node, rows }));
            }
            granted => break granted.map_err(Failure::run)?,
        }
    };
    print(&format!("memory node {}: {} may be granted\n", node.0, counted(granted, "chunk")))
}

fn drain(arguments: &DrainArguments) -> Result<(), Failure> {
    let memory = arguments.pool.connect()?;
    let (node, pool) = (NodeId(arguments.node), &memory.pool);
    let member = arguments.pool.join(&memory)?;
    let changed = member.withhold_chunks(node, !arguments.undo).map_err(Failure::run)?;
    let chunks = counted(changed, "chunk");
    if arguments.undo {
        return print(&format!("memory node {}: {chunks} may be granted again\n", node.0));
    }
    print(&format!("memory node {}: {chunks} withheld, {} in all\n", node.0, tally(pool, node)?.withheld))?;
    let mut vacated = Vec::new();
    for index in pool.indexes().map_err(Failure::run)? {
        let (name, number) = (index.name().to_owned(), usize::from(index.number.get()));
        // Others have nothing there, or nothing that moves.
        let has_chunks =
            tally(pool, node)?.granted.get(number).is_some_and(|kinds| kinds.iter().any(|count| *count > 0));
        let (_, parameters) = pool.find_index(&name).map_err(Failure::run)?;
        if has_chunks && parameters.has_log() {
            let moved = vacate(&member, &name, node, arguments.wait)?;
            print(&format!("index \"{name}\": {} moved to other memory nodes\n", counted(moved, "node")))?;
            vacated.push(number);
        }
    }
    print(&remains(pool, &tally(pool, node)?, &vacated)?)
}

/// Moves the nodes of an index off a memory node. Returns how many.
fn vacate(member: &ComputeNode, name: &str, from: NodeId, wait: Duration) -> Result<u64, Failure> {
    let me = member.member().row;
    with_tool(member, name, |tool| {
        let mut moved = 0;
        for _ in 0..PASSES_MAX {
            let before = moved;
            // From the last one to the first one: the link to a range's first leaf is in the range before.
            for range in (0..tool.parts().map_err(Failure::run)?).rev() {
                // READs who owns it now.
                tool.keep_parts().map_err(Failure::run)?;
                let owner = tool.owner_of_part(range);
                let work = |tool: &mut Tool<'_, '_, '_, '_>| {
                    moved += tool.vacate_part(range, from, wait)?;
                    Ok(1)
                };
                with_range(tool, me, (range, owner), wait, work).map_err(|error| {
                    let moved = counted(moved, "node");
                    Failure::Run(format!(
                        "range {range} of index \"{name}\" does not move: {error}; {moved} moved before"
                    ))
                })?;
            }
            if moved == before {
                return Ok(moved);
            }
        }
        Err(Failure::Run(format!(
            "index \"{name}\": programs go on making nodes on memory node {}; {} moved, and this can be run again",
            from.0,
            counted(moved, "node")
        )))
    })
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

/// What is left, one line for each index. Of those that were `vacated` no node is in use there.
fn remains(pool: &Pool, tally: &Tally, vacated: &[usize]) -> Result<String, Failure> {
    let indexes = pool.indexes().map_err(Failure::run)?;
    let mut lines = String::new();
    for (number, kinds) in tally.granted.iter().enumerate().filter(|(_, kinds)| kinds.iter().any(|count| *count > 0)) {
        let name = indexes.iter().find(|index| usize::from(index.number.get()) == number);
        let name = name.map_or_else(|| "of no index".to_owned(), |index| format!("of index \"{}\"", index.name()));
        let of_kinds = ChunkKind::ALL.iter().map(|kind| (kind.name(), kinds[*kind as usize]));
        let of_kinds: Vec<String> =
            of_kinds.filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{count} {kind}")).collect();
        let in_use = if vacated.contains(&number) { ", without a node in use" } else { "" };
        lines += &(name + ": " + &of_kinds.join(", ") + in_use + "\n");
    }
    Ok(if lines.is_empty() {
        "nothing is left on it\n".to_owned()
    } else {
        format!("left on it, {}:\n{lines}", counted(tally.granted_total(), "chunk"))
    })
}
