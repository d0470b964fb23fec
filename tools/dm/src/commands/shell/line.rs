//! Lines typed at a terminal: editing, history, completion.

use super::command::{BOUNDS, COMMANDS};
use crate::failure::Failure;
use crate::notation::{Format, words};
use rustyline::completion::{Completer, Pair};
use rustyline::config::{CompletionType, Config};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use std::path::{Path, PathBuf};

/// What stands before a line.
pub(super) const PROMPT: &str = "dm> ";

/// Keys that a completion offers at most.
pub(super) const KEYS: u64 = 20;

/// Lines that are kept.
const LINES: usize = 1000;

/// A terminal, the lines that were typed there, and a function that looks up keys by how they begin.
pub(super) struct Editing<F: Fn(&str) -> Vec<String>> {
    editor: Editor<Assistant<F>, FileHistory>,
    file: Option<PathBuf>,
}

impl<F: Fn(&str) -> Vec<String>> Editing<F> {
    /// With the lines that were typed before. `file`: where they are kept, if not at the usual place; an empty name: nowhere.
    pub(super) fn new(file: Option<PathBuf>, keys: F) -> Result<Self, Failure> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .max_history_size(LINES)
            .map_err(Failure::run)?
            .build();
        let mut editor = Editor::with_config(config).map_err(Failure::run)?;
        editor.set_helper(Some(Assistant(keys)));
        let file = file.or_else(usual_file).filter(|file| !file.as_os_str().is_empty());
        if let Some(file) = file.as_deref().filter(|file| file.exists()) {
            editor.load_history(file).map_err(|error| failed(file, &error))?;
        }
        Ok(Self { editor, file })
    }

    /// The next line; `None`: there is none.
    pub(super) fn read(&mut self) -> Result<Option<String>, Failure> {
        loop {
            match self.editor.readline(PROMPT) {
                Ok(line) => {
                    self.editor.add_history_entry(&line).map_err(Failure::run)?;
                    return Ok(Some(line));
                }
                // Control-C: another line.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(Failure::Run(format!("the terminal: {error}"))),
            }
        }
    }

    /// Writes the lines to the file.
    pub(super) fn keep(mut self) -> Result<(), Failure> {
        let Some(file) = self.file else { return Ok(()) };
        if let Some(directory) = file.parent() {
            std::fs::create_dir_all(directory).map_err(|error| failed(&file, &error))?;
        }
        self.editor.save_history(&file).map_err(|error| failed(&file, &error))
    }
}

fn failed(file: &Path, error: &impl std::fmt::Display) -> Failure {
    Failure::Run(format!("the history {}: {error}; --history names another file", file.display()))
}

/// Where programs keep what is not worth a backup.
fn usual_file() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    Some(state.join("dm/shell-history"))
}

/// Completes words, with that function.
struct Assistant<F>(F);

impl<F: Fn(&str) -> Vec<String>> Completer for Assistant<F> {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let Some(line) = line.get(..position) else { return Ok((position, Vec::new())) };
        let (start, word) = begun(line);
        let candidates: Vec<String> = match wanted(&line[..start]) {
            Wanted::Keys => (self.0)(&word),
            Wanted::Words(words) => {
                words.into_iter().filter(|known| known.starts_with(&word)).map(str::to_owned).collect()
            }
        };
        // A word that is complete ends with a blank.
        let pair = |word: String| Pair { replacement: format!("{word} "), display: word };
        Ok((start, candidates.into_iter().map(pair).collect()))
    }
}

impl<F> Hinter for Assistant<F> {
    type Hint = String;
}
impl<F> Highlighter for Assistant<F> {}
impl<F> Validator for Assistant<F> {}
impl<F: Fn(&str) -> Vec<String>> Helper for Assistant<F> {}

/// Where the word at the end of a line begins, and its letters so far, without a quote that opens it.
fn begun(line: &str) -> (usize, String) {
    let mut letters = line.char_indices().peekable();
    loop {
        while letters.next_if(|(_, letter)| letter.is_whitespace()).is_some() {}
        let Some(&(start, first)) = letters.peek() else { return (line.len(), String::new()) };
        let mut word = String::new();
        if first == '"' {
            letters.next();
            while let Some((_, letter)) = letters.next_if(|(_, letter)| *letter != '"') {
                let letter = if letter == '\\' { letters.next().map(|(_, taken)| taken) } else { Some(letter) };
                word.extend(letter);
            }
            letters.next();
        } else {
            while let Some((_, letter)) = letters.next_if(|(_, letter)| !letter.is_whitespace()) {
                word.push(letter);
            }
        }
        if letters.peek().is_none() {
            return (start, word);
        }
    }
}

/// What may stand behind the words so far.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Keys,
    Words(Vec<&'static str>),
}

fn wanted(before: &str) -> Wanted {
    let none = Wanted::Words(Vec::new());
    let Ok(words) = words(before) else { return none };
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    match words[..] {
        [] => Wanted::Words(COMMANDS.to_vec()),
        ["format"] => Wanted::Words(vec!["keys", "values"]),
        ["format", _] => Wanted::Words(Format::names().collect()),
        ["get" | "put" | "insert" | "update" | "update-if" | "delete" | "delete-if"]
        | ["scan" | "count", .., "from" | "after" | "to" | "through" | "prefix"] => Wanted::Keys,
        ["scan" | "count", .., "limit"] => Wanted::Words(vec!["all"]),
        ["scan" | "count", ..] => Wanted::Words(BOUNDS.to_vec()),
        _ => none,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_may_be_begun_with_a_quote() {
        let word = |text: &str| text.to_owned();
        assert_eq!(begun(""), (0, word("")));
        assert_eq!(begun("get an"), (4, word("an")));
        assert_eq!(begun("get an "), (7, word("")));
        assert_eq!(begun("get \"hello w"), (4, word("hello w")));
        assert_eq!(begun("put \"a b\" \"c \\\"d"), (10, word("c \"d")));
    }

    #[test]
    fn what_is_completed_depends_on_the_words_before() {
        assert_eq!(wanted("  "), Wanted::Words(COMMANDS.to_vec()));
        assert_eq!(wanted("get "), Wanted::Keys);
        assert_eq!(wanted("get a "), Wanted::Words(Vec::new()));
        assert_eq!(wanted("scan "), Wanted::Words(BOUNDS.to_vec()));
        assert_eq!(wanted("count from a to "), Wanted::Keys);
        assert_eq!(wanted("format keys "), Wanted::Words(Format::names().collect()));
        assert_eq!(wanted("get \"open"), Wanted::Words(Vec::new()));
    }
}
