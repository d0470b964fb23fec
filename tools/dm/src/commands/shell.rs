//! `dm shell`: operations by hand.

use crate::failure::{Failure, print};
use crate::report::text::counted;
use crate::tool::{PAGE_RECORDS, PoolArguments, Tool, with_tool};
use dm_core::index::Index;
use dm_core::operation::{Operation, OperationKind, Outcome, Part};
use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

/// Arguments of `dm shell`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dm shell --pool /run/dm/0,/run/dm/1 --index names\n  printf 'put ada lovelace\\nget ada\\n' | dm shell --pool /run/dm/0 --index names\n\n\
                        Keys and values are text, u64:123 or hex:0a0b...; what has blanks goes into \"double quotes\".\n\
                        From a pipe every line is tried; the exit code is 1 if one failed."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Name of the index
    #[arg(long, default_value = "bench")]
    index: String,
}

const HELP: &str = "\
get KEY              the value of a key
put KEY VALUE        write it, whether the key is there or not
insert KEY VALUE     write it if the key is not there
update KEY VALUE     write it if the key is there
delete KEY           remove it
scan [KEY] [COUNT]   records from a key on (default: the first), at most 10, or COUNT
help                 this
quit                 leave

A key or a value is text, u64:123, or hex: and all its bytes; what has blanks goes into \"double quotes\".
";

/// Records a scan shows unless told otherwise.
const SCAN_RECORDS: u32 = 10;

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let memory = arguments.pool.connect()?;
    let node = arguments.pool.join(&memory)?;
    with_tool(&node, &arguments.index, |tool| {
        let input = io::stdin();
        let is_interactive = input.is_terminal();
        let mut failed = 0;
        let mut number = 0_u64;
        let mut line = String::new();
        loop {
            if is_interactive {
                // A prompt that cannot be written is no reason to stop.
                let _ = write!(io::stderr(), "dm> ").and_then(|()| io::stderr().flush());
            }
            line.clear();
            number += 1;
            match input.lock().read_line(&mut line) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Err(Failure::Run(format!("line {number} of the input: {error}"))),
            }
            match command(tool, line.trim_end_matches(['\n', '\r'])) {
                Ok(Some(answer)) => print(&answer)?,
                Ok(None) => break,
                Err(error) if is_interactive => eprintln!("{error}"),
                Err(error) => {
                    failed += 1;
                    eprintln!("line {number}: {error}");
                }
            }
        }
        match failed {
            0 => Ok(()),
            failed => Err(Failure::Run(format!("{failed} of {} failed", counted(number - 1, "line")))),
        }
    })
}

/// Runs one line. `None`: leave.
fn command(tool: &mut Tool<'_, '_, '_, '_>, line: &str) -> Result<Option<String>, String> {
    let words = words(line)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [verb, arguments @ ..] = words.as_slice() else { return Ok(Some(String::new())) };
    let kind = match (*verb, arguments) {
        (comment, _) if comment.starts_with('#') => return Ok(Some(String::new())),
        ("quit" | "exit", []) => return Ok(None),
        ("help", _) => return Ok(Some(HELP.to_owned())),
        ("get", [_]) => OperationKind::Get,
        ("delete", [_]) => OperationKind::Delete,
        ("put", [_, _]) => OperationKind::Upsert,
        ("insert", [_, _]) => OperationKind::Insert,
        ("update", [_, _]) => OperationKind::Update,
        ("scan", [] | [_] | [_, _]) => return scan(tool, arguments).map(Some),
        ("get" | "delete", _) => return Err(format!("{verb} wants one KEY")),
        ("put" | "insert" | "update", _) => return Err(format!("{verb} wants KEY VALUE")),
        ("scan", _) => return Err("scan wants [KEY] [COUNT]".to_owned()),
        ("quit" | "exit", _) => return Err(format!("{verb} wants nothing")),
        _ => return Err(format!("unknown command {verb:?}; help lists them")),
    };
    let key = tool.parse(arguments[0], Part::Key)?;
    let value = arguments.get(1).map(|text| tool.parse(text, Part::Value)).transpose()?;
    tool.arguments(&key, value.as_deref())?;
    let outcome = tool.execute(Operation::point(kind)).map_err(|error| error.to_string())?;
    let found = || {
        let plan = tool.index.plan();
        tool.lane.port().with(|scratch| tool.show(plan.part(scratch, Part::Output)))
    };
    Ok(Some(match outcome {
        Outcome::Found => format!("{}\n", found()),
        Outcome::Exists => format!("exists: {}\n", found()),
        Outcome::Absent => "absent\n".to_owned(),
        Outcome::Inserted => "inserted\n".to_owned(),
        Outcome::Updated => "updated\n".to_owned(),
        Outcome::Replaced => "replaced\n".to_owned(),
        Outcome::Deleted => "deleted\n".to_owned(),
        outcome => format!("{outcome:?}\n"),
    }))
}

fn scan(tool: &mut Tool<'_, '_, '_, '_>, arguments: &[&str]) -> Result<String, String> {
    let key = arguments.first().map_or_else(|| Ok(tool.least_key()), |text| tool.parse(text, Part::Key))?;
    let mut left = match arguments.get(1) {
        None => SCAN_RECORDS,
        Some(text) => text.parse().map_err(|_| format!("COUNT {text:?}: wants a whole number"))?,
    };
    tool.arguments(&key, None)?;
    let mut text = String::new();
    let mut after = false;
    while left > 0 {
        let operation = Operation { after, ..Operation::scan(left.min(PAGE_RECORDS as u32)) };
        let outcome = tool.execute(operation).map_err(|error| error.to_string())?;
        let Outcome::Page { records, more } = outcome else { break };
        let plan = tool.index.plan();
        tool.lane.port().with(|scratch| {
            for (key, value) in plan.records(scratch, records as usize) {
                // Writing to a string does not fail.
                let _ = writeln!(text, "{} {}", tool.show(key), tool.show(value));
            }
        });
        tool.go_on(records as usize);
        left -= records;
        after = true;
        if !more {
            break;
        }
    }
    Ok(text)
}

/// Cuts a line into words. Blanks separate; in double quotes they do not, and `\` takes the next character as it is.
pub(crate) fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut letters = line.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let Some(first) = letters.peek() else { return Ok(words) };
        let mut word = String::new();
        if *first == '"' {
            letters.next();
            loop {
                match letters.next() {
                    Some('"') => break,
                    Some('\\') => word.push(letters.next().ok_or("a \\ at the end of the line")?),
                    Some(letter) => word.push(letter),
                    None => return Err("a \" that is not closed".to_owned()),
                }
            }
        } else {
            while let Some(letter) = letters.next_if(|letter| !letter.is_whitespace()) {
                word.push(letter);
            }
        }
        words.push(word);
    }
}
