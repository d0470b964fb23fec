//! `dm repartition`: which compute node has which range of the keys of an index, ranges that move to another one while
//! the index is in use, to a row that is named or so that loads are evened, and ranges that are cut in two.

use super::inspect::owners::{Access, KeyRange};
use crate::failure::{Failure, print};
use crate::members::{members, with_read_access};
use crate::notation::{Format, parse, show};
use crate::pool::Memory;
use crate::report::text::counted;
use crate::tool::{PoolArguments, Tool, seconds, with_tool};
use dm_core::index::balance::{Balance, Part, RowLoad};
use dm_core::operation::{Cause, Effect, OpError};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::owners::Owner;
use dm_host::pool::Pool;
use std::iter;
use std::time::Duration;

/// Arguments of `dm repartition`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --move, --balance and --cut it shows the ranges, each with the operations per second that its owner has counted \
                  lately; a range without them has an owner that has not said any yet, or none. --balance has the rows with the most \
                  operations give whole ranges, as long as a move lowers the greater load of both rows by 5 % at least. Owners say \
                  their loads while their sessions are open: dm shell does with each command. A range moves while programs use it: its owner writes back what it has \
                  changed, and operations of others are refused with the new owner's row. Both have to have the index open. For a cut, \
                  a range comes to this program and goes back to its owner, as two; an index has room for as many cuts as it has ranges at first.\n\n\
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

    /// Move ranges so that all compute nodes that have the index open have about the same load; without any load, the same
    /// number of ranges, but for one
    #[arg(long)]
    balance: bool,

    /// Cut the range of each of these keys in two, where the leaf begins that has the key
    #[arg(long, value_name = "KEY,...", value_delimiter = ',', conflicts_with_all = ["moved", "balance"])]
    cut: Vec<String>,

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
    if !arguments.cut.is_empty() {
        return cut_all(arguments, &memory);
    }
    if !arguments.balance && arguments.moved.is_empty() {
        return print(&ranges.text(&arguments.index));
    }
    let (moves, plan) = match arguments.to {
        Some(to) => (arguments.moved.iter().map(|range| (*range, RowId(to))).collect(), String::new()),
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
    let moved = if lines.is_empty() { "nothing to move\n".to_owned() } else { lines.concat() };
    print(&(moved + &plan))
}

/// Cuts the ranges of the keys that were named, one after the other.
fn cut_all(arguments: &Arguments, memory: &Memory) -> Result<(), Failure> {
    let node = arguments.pool.join(memory)?;
    let me = node.member().row;
    with_tool(&node, &arguments.index, |tool| {
        let lines: Result<Vec<String>, Failure> = arguments
            .cut
            .iter()
            .map(|text| {
                let bad = |what: String| Failure::Usage(format!("--cut: {what}"));
                let key = parse(text, tool.parameters.key_bytes(), "key").map_err(bad)?;
                let range = cut_one(tool, me, &key, arguments.wait)
                    .map_err(|error| Failure::Run(format!("the range of key {text} is not cut: {error}")))?;
                Ok(format!("range {range} is cut: it is ranges {range} and {} now\n", range + 1))
            })
            .collect();
        print(&lines?.concat())
    })
}

/// Returns the number of the range.
fn cut_one(tool: &mut Tool<'_, '_, '_, '_>, me: RowId, key: &[u8], wait: Duration) -> Result<u32, OpError> {
    let (range, owner) = tool.part_of(key)?;
    with_range(tool, me, (range, owner), wait, |tool| tool.cut_part(key, wait).map(|()| 2))?;
    Ok(range)
}

/// Does `work` while this program, of row `me`, has a range, and gives it back to its owner, also if that fails. `work` returns how
/// many ranges it is afterwards.
pub(super) fn with_range(
    tool: &mut Tool<'_, '_, '_, '_>,
    me: RowId,
    (range, owner): (u32, RowId),
    wait: Duration,
    work: impl FnOnce(&mut Tool<'_, '_, '_, '_>) -> Result<u32, OpError>,
) -> Result<(), OpError> {
    let is_others = owner != me && owner != RowId(0);
    if is_others {
        move_one(tool, (range, me), wait)?;
    }
    tool.take_part(range)?;
    let worked = work(tool);
    if is_others {
        for range in range..range + worked.as_ref().map_or(1, |ranges| *ranges) {
            match tool.move_part(range, owner, wait) {
                // The owner has died or left meanwhile. The range is free when this program has left.
                Err(OpError { cause: Cause::BadInput(_), .. }) => {}
                moved => moved?,
            }
        }
    }
    worked.map(|_| ())
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
        for (number, KeyRange { low, word, load }) in self.ranges.iter().enumerate() {
            let state = match word.owner() {
                Ok(Owner::Free) => "free".to_owned(),
                Ok(Owner::Owned(row)) => format!("row {}", row.0),
                Ok(Owner::Recovering { finder, log }) => format!("recovered by row {} from row {}", finder.0, log.0),
                Ok(Owner::Draining { owner, receiver }) => format!("row {}, moves to row {}", owner.0, receiver.0),
                Ok(Owner::Kept(row)) => format!("kept for row {}", row.0),
                Err(what) => format!("DAMAGED: {what}"),
            };
            let load = load.of(*word).map_or_else(String::new, |rate| format!(", {rate} operations/s"));
            lines.push(format!("{number:>5}  from {}: {state}{load}", show(low, Format::Auto)));
        }
        let rows: Vec<String> = self.rows.iter().map(|row| row.0.to_string()).collect();
        lines.push(match rows.join(", ") {
            rows if rows.is_empty() => "no compute node has it open".to_owned(),
            rows => format!("compute-node rows that have it open: {rows}"),
        });
        lines.join("\n") + "\n"
    }

    /// The moves that even the loads of the rows that have the index open, and a text with the loads before and afterwards.
    fn balanced(&self) -> (Vec<(u32, RowId)>, String) {
        let mut parts: Vec<_> = self.ranges.iter().map(|range| Part::new(range.word, range.load)).collect();
        let mut rows: Vec<_> = self.rows.iter().copied().map(RowLoad::new).collect();
        let mut balance = Balance::new(&mut parts, &mut rows);
        let before = balance.rows().to_vec();
        let moves: Vec<_> = iter::from_fn(|| balance.next_move()).map(|step| (step.part, step.to)).collect();
        let mut lines = vec![if balance.is_by_number() {
            "no owner has counted operations lately: numbers of ranges are evened\n".to_owned()
        } else {
            "operations/s of each compute-node row, and as planned:\n".to_owned()
        }];
        for (before, after) in before.iter().zip(balance.rows()) {
            let of = |row: &RowLoad| {
                let ranges = counted(u64::from(row.parts), "range");
                if balance.is_by_number() { ranges } else { format!("{} in {ranges}", row.load) }
            };
            lines.push(format!("  row {}: {}, then {}\n", before.row.0, of(before), of(after)));
        }
        (moves, lines.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm_core::remote::owners::{LoadWord, OwnerWord};

    fn range(owner: Owner, load: u32) -> KeyRange {
        KeyRange { low: vec![0; 8], word: OwnerWord::new(owner, 1), load: LoadWord::new(load, 1) }
    }

    #[test]
    fn without_loads_ranges_are_evened_with_the_fewest_moves() {
        let owned = |row| range(Owner::Owned(RowId(row)), 0);
        let kept = range(Owner::Kept(RowId(3)), 0);
        let ranges = vec![
            owned(1),
            owned(1),
            owned(1),
            owned(1),
            owned(1),
            kept,
            range(Owner::Free, 0),
            range(Owner::Owned(RowId(9)), 5),
        ];
        let ranges = Ranges { ranges, rows: vec![RowId(1), RowId(2), RowId(3)] };
        let (moves, plan) = ranges.balanced();
        assert_eq!(moves.len(), 3, "two each: {moves:?}");
        let to = |row: u16| moves.iter().filter(|(range, to)| *range < 5 && to.0 == row).count();
        assert_eq!((to(2), to(3)), (2, 1));
        assert!(
            plan.starts_with("no owner has counted") && plan.contains("  row 2: 0 ranges, then 2 ranges\n"),
            "{plan}"
        );
        let (moves, _) = Ranges { rows: vec![RowId(2)], ..ranges }.balanced();
        assert_eq!(moves, [], "nobody else has it open");
    }

    #[test]
    fn loads_are_evened_and_shown() {
        let ranges = [(1, 700), (1, 300), (2, 10)].map(|(row, load)| range(Owner::Owned(RowId(row)), load));
        let ranges = Ranges { ranges: ranges.to_vec(), rows: vec![RowId(1), RowId(2)] };
        let (moves, plan) = ranges.balanced();
        assert_eq!(moves, [(1, RowId(2))]);
        let rows = "  row 1: 1000 in 2 ranges, then 700 in 1 range\n  row 2: 10 in 1 range, then 310 in 2 ranges\n";
        assert!(plan.ends_with(rows), "{plan}");
        assert!(ranges.text("it").contains(": row 1, 700 operations/s\n"), "{}", ranges.text("it"));
    }
}
