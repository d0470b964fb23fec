//! DEX on the command line.

use super::{CommandLine, NoOptions, Options, Spans};
use crate::failure::Failure;
use crate::notation::parse;
use dm_core::dex::parameters::{Cut, Parameters};
use dm_core::layout::LINE_BYTES;
use dm_core::registry::KindParameters;
use dm_host::assembly::Spending;

/// Options of `dm create`.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub struct Create {
    /// DEX: ranges into which all keys are cut evenly, each of which one compute node at a time owns, 1 to 4096 [default:
    /// 64]
    #[arg(long, value_name = "NUMBER")]
    entries: Option<u32>,

    /// DEX: keys, ascending, each of which begins another such range, or @FILE with one a line
    #[arg(long, value_name = "KEY,...", conflicts_with = "entries", value_parser = keys)]
    boundaries: Option<Boundaries>,
}

/// Keys as they were written.
#[derive(Clone, Debug)]
struct Boundaries(Vec<String>);

/// Reads `KEY,...` or `@FILE`.
fn keys(text: &str) -> Result<Boundaries, String> {
    let keys: Vec<String> = match text.strip_prefix('@') {
        Some(path) => {
            let lines = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
            lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
        }
        None => text.split(',').map(str::to_owned).collect(),
    };
    match keys.iter().position(String::is_empty) {
        Some(at) => Err(format!("key {} is missing", at + 1)),
        None if keys.is_empty() => Err("no keys".to_owned()),
        None => Ok(Boundaries(keys)),
    }
}

impl Options for Create {
    const NAMES: &'static [&'static str] = &["entries", "boundaries"];

    fn given(&self) -> Option<&'static str> {
        let entries = self.entries.map(|_| "entries");
        entries.or(self.boundaries.as_ref().map(|_| "boundaries"))
    }
}

impl CommandLine for Parameters {
    const ABOUT: &'static str = "B+-tree whose leaves are cached by the owners of their keys";
    const TITLE: &'static str = "DEX";

    type Create = Create;
    type Bench = NoOptions;

    fn cache_bytes(spending: &Spending) -> u64 {
        spending.cache_bytes + spending.page_cache_bytes
    }

    /// The ring of its log.
    fn pool_bytes(spending: &Spending) -> u64 {
        (spending.log_lines * LINE_BYTES) as u64
    }

    fn small(self) -> Self {
        Self { leaf_span: 12, inner_span: 8, ..self }
    }

    fn cut(self, owners: u32, keys: u64) -> Option<Self> {
        Some(Self { entries: owners, cut: Cut::Even { first: 0, last: keys.saturating_sub(1) }, ..self })
    }

    fn boundaries(&self, options: &Create) -> Result<Vec<Vec<u8>>, Failure> {
        let Some(Boundaries(keys)) = &options.boundaries else { return Ok(Vec::new()) };
        let mut boundaries = Vec::<Vec<u8>>::new();
        let least = vec![0; self.key_bytes];
        for (at, key) in keys.iter().enumerate() {
            let bad = |what: String| Failure::Usage(format!("--boundaries: {what}"));
            let bytes = parse(key, self.key_bytes, "key").map_err(bad)?;
            if bytes <= *boundaries.last().unwrap_or(&least) {
                let before = if at == 0 { "the least key, with which the first range begins" } else { &keys[at - 1] };
                return Err(bad(format!("key {key} is not above {before}")));
            }
            boundaries.push(bytes);
        }
        Ok(boundaries)
    }

    fn create((key_bytes, value_bytes): (usize, usize), spans: Spans, options: &Create) -> Result<Self, Failure> {
        // Checked with spans within their limits first, so that sizes out of range do not reach the arithmetic.
        let (leaf_span, inner_span) = (spans.leaf.unwrap_or(2), spans.inner.unwrap_or(2));
        let of_eight = Self::with_sizes(8, 8);
        Self { key_bytes, value_bytes, leaf_span, inner_span, ..of_eight }.check().map_err(Failure::usage)?;
        let default = Self::with_sizes(key_bytes, value_bytes);
        let (entries, cut) = match &options.boundaries {
            Some(Boundaries(keys)) => (u32::try_from(keys.len()).unwrap_or(u32::MAX).saturating_add(1), Cut::Given),
            None => (options.entries.unwrap_or(default.entries), default.cut),
        };
        let parameters = Self {
            leaf_span: spans.leaf.unwrap_or(default.leaf_span),
            inner_span: spans.inner.unwrap_or(default.inner_span),
            entries,
            cut,
            ..default
        };
        parameters.check().map_err(Failure::usage)?;
        Ok(parameters)
    }
}
