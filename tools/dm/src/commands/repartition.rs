//! `dm repartition`: which compute node has which range of the keys of an index, and ranges that move to another one while
//! the index is in use.

use super::inspect::owners::{Access, KeyRange};
use crate::failure::{Failure, print};
use crate::members::{members, with_read_access};
use crate::notation::{Format, show};
use crate::report::text::counted;
use crate::tool::{PoolArguments, Tool, seconds, with_tool};
use dm_core::operation::{Cause, Effect, OpError};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::owners::Owner;
use dm_host::pool::Pool;
use std::collections::BTreeMap;
use std::time::Duration;

/// Arguments of `dm repartition`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --move and --balance it shows the ranges. A range moves while programs use it: its owner writes back what it has \
                  changed, and operations of others are refused with the new owner's row. Both have to have the index open.\n\n\
                  Examples:\n  dm repartition --pool /run/dm/0 --index users\n  dm repartition --pool /run/dm/0 --index users --move 3,4 --to 7\n  \
                  dm repartition --pool /run/dm/0 --index users --balance"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// The index, whose keys have owners
    #[arg(long, value_name = "NAME")]
    index: String,

    /// Ranges that move, by their numbers in the order of keys
    #[arg(long = "move", value_name = "RANGE,...", value_delimiter = ',', requires = "to", conflicts_with = "balance")]
    moved: Vec<u32>,

    /// The compute-node row to which they move
    #[arg(long, value_name = "ROW", requires = "moved")]
    to: Option<u16>,

    /// Move ranges until all compute nodes that have the index open own as many, but for one
    #[arg(long)]
    balance: bool,

    /// How long an owner may take to give a range up, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    wait: Duration,
}

/// What the ownership table says, in the order of keys; and which rows can own keys.
struct Ranges {
    ranges: Vec<KeyRange>,
    /// Rows of compute nodes that live and have the index open.
    rows: Vec<RowId>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let memory = arguments.pool.connect()?;
    let ranges = read(&memory.pool, &arguments.index)?;
    if !arguments.balance && arguments.moved.is_empty() {
        return print(&ranges.text(&arguments.index));
    }
    let moves = match arguments.to {
        Some(to) => arguments.moved.iter().map(|range| (*range, RowId(to))).collect(),
        None => ranges.balanced(),
    };
    let count = ranges.ranges.len();
    if let Some((range, _)) = moves.iter().find(|(range, _)| *range as usize >= count) {
        let ranges = counted(count as u64, "range");
        return Err(Failure::Usage(format!(
            "--move {range}: index \"{}\" has {ranges}, numbered from 0 on",
            arguments.index
        )));
    }
    let node = arguments.pool.join(&memory)?;
    with_tool(&node, &arguments.index, |tool| {
        for (done, (range, to)) in moves.iter().enumerate() {
            move_one(tool, (*range, *to), arguments.wait).map_err(|error| {
                let moved = counted(done as u64, "range");
                Failure::Run(format!("range {range} does not move to row {}: {error}; {moved} moved before", to.0))
            })?;
        }
        Ok(())
    })?;
    let lines: Vec<String> = moves.iter().map(|(range, to)| format!("range {range} moves to row {}\n", to.0)).collect();
    let text = lines.concat();
    print(if text.is_empty() { "nothing to move\n" } else { &text })
}

fn move_one(tool: &mut Tool<'_, '_, '_, '_>, (range, to): (u32, RowId), wait: Duration) -> Result<(), OpError> {
    match tool.move_part(range, to, wait) {
        Err(OpError { cause: Cause::Deadline { .. }, .. }) => Err(OpError {
            cause: Cause::BadInput("its owner has not given it up in time, and keeps it"),
            effect: Effect::None,
        }),
        moved => moved,
    }
}

fn read(pool: &Pool, name: &str) -> Result<Ranges, Failure> {
    let (entry, parameters) = pool.find_index(name).map_err(Failure::run)?;
    with_read_access(pool, |fabric, lane| {
        let members = members(pool, fabric, lane)?;
        let mut access = Access { pool, fabric, lane };
        let Some(ranges) = access.ranges(&entry)? else {
            // An owner has a log. An index with owners has no ownership table before its first one opens it.
            let why = if parameters.has_log() {
                "no compute node has opened it yet, so that none of its keys has an owner".to_owned()
            } else {
                format!("any compute node serves any key of it, since it is of the kind {}", parameters.kind().name())
            };
            return Err(Failure::Run(format!("index \"{name}\": {why}")));
        };
        let mut rows = Vec::new();
        for member in members.iter().filter(|member| member.is_live()) {
            if access.ring_index(member)? == Some(entry.number) {
                rows.push(member.row);
            }
        }
        Ok(Ranges { ranges, rows })
    })
}

impl Ranges {
    /// One line for each range, and one with the rows that can own ranges.
    fn text(&self, index: &str) -> String {
        let mut lines = vec![format!("index \"{index}\": {}", counted(self.ranges.len() as u64, "range"))];
        for (number, (low, word)) in self.ranges.iter().enumerate() {
            let state = match word.owner() {
                Ok(Owner::Free) => "free".to_owned(),
                Ok(Owner::Owned(row)) => format!("row {}", row.0),
                Ok(Owner::Recovering { finder, log }) => format!("recovered by row {} from row {}", finder.0, log.0),
                Ok(Owner::Draining { owner, receiver }) => format!("row {}, moves to row {}", owner.0, receiver.0),
                Ok(Owner::Kept(row)) => format!("kept for row {}", row.0),
                Err(what) => format!("DAMAGED: {what}"),
            };
            lines.push(format!("{number:>5}  from {}: {state}", show(low, Format::Auto)));
        }
        let rows: Vec<String> = self.rows.iter().map(|row| row.0.to_string()).collect();
        lines.push(match rows.join(", ") {
            rows if rows.is_empty() => "no compute node has it open".to_owned(),
            rows => format!("compute-node rows that have it open: {rows}"),
        });
        lines.join("\n") + "\n"
    }

    /// The moves after which the rows that have the index open have as many ranges each, but for one.
    fn balanced(&self) -> Vec<(u32, RowId)> {
        let mut of: BTreeMap<RowId, Vec<u32>> = self.rows.iter().map(|row| (*row, Vec::new())).collect();
        for (number, (_, word)) in (0..).zip(&self.ranges) {
            let Ok(Owner::Owned(row) | Owner::Kept(row) | Owner::Draining { receiver: row, .. }) = word.owner() else {
                continue;
            };
            if let Some(ranges) = of.get_mut(&row) {
                ranges.push(number);
            }
        }
        let mut moves = Vec::new();
        loop {
            let most = of.iter().max_by_key(|(_, ranges)| ranges.len()).map(|(row, ranges)| (*row, ranges.len()));
            let least = of.iter().min_by_key(|(_, ranges)| ranges.len()).map(|(row, ranges)| (*row, ranges.len()));
            let (Some((from, most)), Some((to, least))) = (most, least) else { return moves };
            if most <= least + 1 {
                return moves;
            }
            if let Some(range) = of.get_mut(&from).and_then(Vec::pop) {
                moves.push((range, to));
                of.entry(to).or_default().push(range);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm_core::remote::owners::OwnerWord;

    #[test]
    fn ranges_are_evened_with_the_fewest_moves() {
        let owned = |row: u16| (vec![], OwnerWord::new(Owner::Owned(RowId(row)), 1));
        let kept = (vec![], OwnerWord::new(Owner::Kept(RowId(3)), 1));
        let ranges = vec![owned(1), owned(1), owned(1), owned(1), owned(1), kept, (vec![], OwnerWord::FREE), owned(9)];
        let ranges = Ranges { ranges, rows: vec![RowId(1), RowId(2), RowId(3)] };
        let moves = ranges.balanced();
        assert_eq!(moves.len(), 3, "two each: {moves:?}");
        let to = |row: u16| moves.iter().filter(|(range, to)| *range < 5 && to.0 == row).count();
        assert_eq!((to(2), to(3)), (2, 1));
        assert_eq!(Ranges { rows: vec![RowId(2)], ..ranges }.balanced(), [], "nobody else has it open");
    }
}
