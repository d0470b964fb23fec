//! A line of the shell: read, and run.

use super::Next;
use crate::failure::{Failure, print};
use crate::notation::{Format, Word, parse_item, words};
use crate::report::text::counted;
use crate::tool::{PAGE_RECORDS, Tool};
use dm_core::index::Index;
use dm_core::operation::{Operation, OperationKind, Outcome, Part};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const HELP: &str = "\
get KEY                     the value of a key
put KEY VALUE               write it, whether the key is there or not
insert KEY VALUE            write it if the key is not there
update KEY VALUE            write it if the key is there
update-if KEY OLD NEW       write NEW if the value is OLD
delete KEY                  remove it
delete-if KEY OLD           remove it if the value is OLD
scan [KEY] [N] [BOUNDS]     records in order, at most 10, or N
count [BOUNDS]              how many records there are
format keys|values FORMAT   how to show them: auto, hex, u64, i32, le64, ...
info                        what index this is
help                        this
quit                        leave

BOUNDS are any of: from KEY, after KEY, to KEY (without it), through KEY (with it), prefix TEXT, limit N or limit all.
A key or a value is text, a number (u64:123, u32:0xff, i64:-5, le64:1_000), or hex: and its bytes. Bytes of numbers begin with
the most significant, those of le64 with the least. What has blanks, or is one of these words, goes into \"double quotes\".
";

/// Commands, for completion.
pub(super) const COMMANDS: &[&str] = &[
    "count",
    "delete",
    "delete-if",
    "format",
    "get",
    "help",
    "info",
    "insert",
    "put",
    "quit",
    "scan",
    "update",
    "update-if",
];

/// Words that bounds begin with.
pub(super) const BOUNDS: &[&str] = &["after", "from", "limit", "prefix", "through", "to"];

/// Records a scan shows unless told otherwise.
const SCAN_RECORDS: u64 = 10;

/// Why a line could not be run.
#[derive(Debug)]
pub(super) enum Error {
    /// The line, or the operation, is at fault: the next one may be run.
    Line(String),
    /// Nobody reads the answers.
    Output(Failure),
}

impl From<String> for Error {
    fn from(error: String) -> Self {
        Self::Line(error)
    }
}

impl From<&str> for Error {
    fn from(error: &str) -> Self {
        Self::Line(error.to_owned())
    }
}

/// What to go through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Range {
    /// The first key, or the one in front of it.
    low: Option<Vec<u8>>,
    /// `low` is not included.
    after: bool,
    /// The first key behind it.
    high: Option<Vec<u8>>,
    /// Most records; `None`: all.
    limit: Option<u64>,
}

impl Range {
    /// Keeps the narrower of two lower bounds.
    fn raise(&mut self, low: Vec<u8>, after: bool) {
        if self.low.as_ref().is_none_or(|known| (&low, after) > (known, self.after)) {
            (self.low, self.after) = (Some(low), after);
        }
    }

    /// Keeps the narrower of two upper bounds.
    fn lower(&mut self, high: Vec<u8>) {
        if self.high.as_ref().is_none_or(|known| high < *known) {
            self.high = Some(high);
        }
    }
}

/// The first bytes, of the same length, behind all that begin with these. `None`: nothing is behind them.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

/// An index, and how to show what is in it.
pub(super) struct Shell<'t, 'a, 'i, 's, 'm> {
    tool: &'t mut Tool<'a, 'i, 's, 'm>,
    keys: Format,
    values: Format,
    /// Set when a person wants a scan to end.
    stop: Arc<AtomicBool>,
}

impl<'t, 'a, 'i, 's, 'm> Shell<'t, 'a, 'i, 's, 'm> {
    pub(super) fn new(tool: &'t mut Tool<'a, 'i, 's, 'm>, stop: Arc<AtomicBool>) -> Self {
        Self { tool, keys: Format::Auto, values: Format::Auto, stop }
    }

    /// Runs one line and prints its answer.
    pub(super) fn line(&mut self, line: &str) -> Result<Next, Error> {
        let words = words(line)?;
        let [verb, arguments @ ..] = words.as_slice() else { return Ok(Next::Line) };
        if self.tool.index.has_parts() {
            // If this fails, the compute node that wants the part asks again.
            let _ = self.tool.keep_parts();
        }
        let verb = verb.text.as_str();
        let kind = match (verb, arguments) {
            (comment, _) if comment.starts_with('#') => return Ok(Next::Line),
            ("quit" | "exit", []) => return Ok(Next::Leave),
            ("help", _) => return say(HELP),
            ("info", []) => return say(&self.info()),
            ("format", arguments) => return self.format(arguments),
            ("scan", arguments) => return self.scan(arguments),
            ("count", arguments) => return self.count(arguments),
            ("get", [_]) => OperationKind::Get,
            ("delete", [_]) => OperationKind::Delete,
            ("put", [_, _]) => OperationKind::Upsert,
            ("insert", [_, _]) => OperationKind::Insert,
            ("update", [_, _]) => OperationKind::Update,
            ("update-if", [_, _, _]) => OperationKind::UpdateIf,
            ("delete-if", [_, _]) => OperationKind::DeleteIf,
            ("get" | "delete", _) => return Err(format!("{verb} wants one KEY").into()),
            ("put" | "insert" | "update", _) => return Err(format!("{verb} wants KEY VALUE").into()),
            ("update-if", _) => return Err("update-if wants KEY OLD NEW".into()),
            ("delete-if", _) => return Err("delete-if wants KEY OLD".into()),
            ("quit" | "exit" | "info", _) => return Err(format!("{verb} wants nothing").into()),
            _ => return Err(format!("unknown command {verb:?}; help lists them").into()),
        };
        let parts: &[Part] = match kind {
            OperationKind::UpdateIf => &[Part::Key, Part::Expected, Part::Value],
            OperationKind::DeleteIf => &[Part::Key, Part::Expected],
            _ => &[Part::Key, Part::Value],
        };
        for (part, word) in parts.iter().zip(arguments) {
            let bytes = self.tool.parse(&word.text, *part)?;
            self.tool.argument(*part, &bytes)?;
        }
        let outcome = self.tool.execute(Operation::point(kind)).map_err(|error| error.to_string())?;
        say(&self.answer(outcome))
    }

    fn answer(&self, outcome: Outcome) -> String {
        let found = || {
            let plan = self.tool.index.plan();
            self.tool.lane.port().with(|scratch| self.tool.show_as(plan.part(scratch, Part::Output), self.values))
        };
        match outcome {
            Outcome::Found => format!("{}\n", found()),
            Outcome::Exists => format!("exists: {}\n", found()),
            Outcome::Mismatch => format!("differs: {}\n", found()),
            Outcome::Absent => "absent\n".to_owned(),
            Outcome::Inserted => "inserted\n".to_owned(),
            Outcome::Updated => "updated\n".to_owned(),
            Outcome::Replaced => "replaced\n".to_owned(),
            Outcome::Deleted => "deleted\n".to_owned(),
            outcome @ Outcome::Page { .. } => format!("{outcome:?}\n"),
        }
    }

    fn info(&self) -> String {
        format!("{}: {}\n", self.tool.name(), self.tool.parameters)
    }

    fn format(&mut self, arguments: &[Word]) -> Result<Next, Error> {
        let names = || Format::names().collect::<Vec<_>>().join(", ");
        let [what, name] = arguments else { return Err("format wants keys or values, and a format".into()) };
        let format =
            Format::named(&name.text).ok_or_else(|| format!("no format {:?}; there are {}", name.text, names()))?;
        match what.text.as_str() {
            "keys" => self.keys = format,
            "values" => self.values = format,
            other => return Err(format!("format of {other:?}: of keys or of values").into()),
        }
        Ok(Next::Line)
    }

    /// Reads bounds; a scan may begin with a key and a number instead.
    fn range(&self, arguments: &[Word], mut range: Range, positional: bool) -> Result<Range, String> {
        let is_bound = |word: &Word| !word.quoted && BOUNDS.contains(&word.text.as_str());
        let front = arguments.iter().take_while(|word| !is_bound(word)).count();
        let (front, bounds) = arguments.split_at(front);
        match front {
            [] => {}
            [key, rest @ ..] if positional && rest.len() <= 1 => {
                range.raise(self.tool.parse(&key.text, Part::Key)?, false);
                if let [limit] = rest {
                    range.limit = Some(number(&limit.text)?);
                }
            }
            [other, ..] => return Err(format!("{:?}: bounds are {}", other.text, BOUNDS.join(", "))),
        }
        for bound in bounds.chunks(2) {
            let [name, word] = bound else { return Err(format!("{} wants something behind it", bound[0].text)) };
            let key = || self.tool.parse(&word.text, Part::Key);
            match name.text.as_str() {
                "from" => range.raise(key()?, false),
                "after" => range.raise(key()?, true),
                "to" => range.lower(key()?),
                "through" => {
                    if let Some(high) = self.next(&key()?) {
                        range.lower(high);
                    }
                }
                "prefix" => {
                    let prefix = parse_item(&word.text, "prefix")?;
                    if prefix.len() > self.tool.index.plan().key_bytes {
                        return Err(format!("prefix of {} bytes: longer than any key", prefix.len()));
                    }
                    if let Some(high) = behind(&prefix) {
                        range.lower(self.filled(high));
                    }
                    range.raise(self.filled(prefix), false);
                }
                "limit" if word.text == "all" => range.limit = None,
                "limit" => range.limit = Some(number(&word.text)?),
                other => return Err(format!("{other:?}: bounds are {}", BOUNDS.join(", "))),
            }
        }
        Ok(range)
    }

    /// The least key that begins so.
    fn filled(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let plan = self.tool.index.plan();
        if !plan.has_lengths() {
            bytes.resize(plan.key_bytes, 0);
        }
        bytes
    }

    /// The first key behind `key`.
    fn next(&self, key: &[u8]) -> Option<Vec<u8>> {
        let plan = self.tool.index.plan();
        if plan.has_lengths() && key.len() < plan.key_bytes {
            return Some([key, &[0]].concat());
        }
        behind(key).map(|high| self.filled(high))
    }

    fn scan(&mut self, arguments: &[Word]) -> Result<Next, Error> {
        let limit = Some(SCAN_RECORDS);
        let range = self.range(arguments, Range { limit, ..Range::default() }, true)?;
        let (keys, values) = (self.keys, self.values);
        self.pages(&range, |tool, page| {
            let mut text = String::new();
            for (key, value) in page {
                // Writing to a string does not fail.
                let _ = writeln!(text, "{} {}", tool.show_as(key, keys), tool.show_as(value, values));
            }
            print(&text)
        })?;
        Ok(Next::Line)
    }

    fn count(&mut self, arguments: &[Word]) -> Result<Next, Error> {
        let range = self.range(arguments, Range::default(), false)?;
        let count = self.pages(&range, |_, _| Ok(()))?;
        say(&format!("{}\n", counted(count, "record")))
    }

    /// Shows pages of a range to `visit`, and returns how many records were in them.
    fn pages(
        &mut self,
        range: &Range,
        mut visit: impl FnMut(&Tool<'a, 'i, 's, 'm>, &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<(), Failure>,
    ) -> Result<u64, Error> {
        let low = range.low.clone().unwrap_or_else(|| self.tool.least_key());
        self.tool.argument(Part::Key, &low)?;
        let (mut after, mut count) = (range.after, 0);
        if range.high.as_ref().is_some_and(|high| *high <= low) {
            return Ok(0);
        }
        loop {
            let left =
                range.limit.map_or(PAGE_RECORDS as u64, |limit| limit.saturating_sub(count).min(PAGE_RECORDS as u64));
            if left == 0 {
                return Ok(count);
            }
            if let Some(high) = &range.high {
                self.tool.argument(Part::KeyHigh, high)?;
            }
            let operation = Operation { after, bounded: range.high.is_some(), ..Operation::scan(left as u32) };
            let outcome = self.tool.execute(operation).map_err(|error| error.to_string())?;
            let Outcome::Page { records, more } = outcome else { return Ok(count) };
            let (tool, plan) = (&*self.tool, self.tool.index.plan());
            tool.lane
                .port()
                .with(|scratch| visit(tool, &mut plan.records(scratch, records as usize)))
                .map_err(Error::Output)?;
            self.tool.go_on(records as usize);
            (after, count) = (true, count + u64::from(records));
            if !more || records == 0 {
                return Ok(count);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(format!("interrupted after {}", counted(count, "record")).into());
            }
        }
    }

    /// Keys that begin so, as they are shown: for completion. What cannot be looked up completes nothing.
    pub(super) fn keys_like(&mut self, start: &str, most: u64) -> Vec<String> {
        let prefix = Word { text: "prefix".to_owned(), quoted: false };
        let start = Word { text: start.to_owned(), quoted: true };
        let Ok(range) = self.range(&[prefix, start], Range { limit: Some(most), ..Range::default() }, false) else {
            return Vec::new();
        };
        let (format, mut keys) = (self.keys, Vec::new());
        let seen = self.pages(&range, |tool, page| {
            keys.extend(page.map(|(key, _)| tool.show_as(key, format)));
            Ok(())
        });
        if seen.is_ok() { keys } else { Vec::new() }
    }
}

fn say(text: &str) -> Result<Next, Error> {
    print(text).map(|()| Next::Line).map_err(Error::Output)
}

fn number(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("COUNT {text:?}: wants a whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_prefix_is_not_behind_its_keys() {
        assert_eq!(behind(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(behind(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(behind(b"\xff\xff"), None);
        assert_eq!(behind(b""), None);
    }

    #[test]
    fn the_narrower_bound_counts() {
        let mut range = Range::default();
        range.raise(vec![5], false);
        range.raise(vec![3], true);
        assert_eq!((range.low.clone(), range.after), (Some(vec![5]), false));
        range.raise(vec![5], true);
        assert!(range.after);
        range.lower(vec![9]);
        range.lower(vec![12]);
        assert_eq!(range.high, Some(vec![9]));
    }

    #[test]
    fn help_names_every_command_and_every_bound() {
        for command in COMMANDS {
            assert!(HELP.lines().any(|line| line.split(' ').next() == Some(command)), "{command}");
        }
        assert!(BOUNDS.iter().all(|bound| HELP.contains(&format!(" {bound} "))), "{HELP}");
        assert!(COMMANDS.is_sorted() && BOUNDS.is_sorted());
    }
}
