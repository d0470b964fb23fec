//! DEX on the command line.

use super::{CommandLine, Options, Spans, Swept, Values};
use crate::failure::Failure;
use crate::notation::parse;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use dm_core::btree::Subtrees;
use dm_core::dex::parameters::{Cut, Parameters};
use dm_core::dex::serve::Level;
use dm_core::layout::LINE_BYTES;
use dm_core::pages::{Admission, Cooling};
use dm_core::registry::KindParameters;
use dm_host::assembly::{Mode, Spending};

/// Default of `--log-kib`: four lines for each leaf of 1 KiB that the default cache has room for.
const LOG_KIB: u64 = 16 << 10;

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

    /// DEX: keys, or @FILE with one a line, that stand for all keys: each range gets as many of them
    #[arg(long, value_name = "KEY,...", conflicts_with = "boundaries", value_parser = keys)]
    sample: Option<Boundaries>,
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
    const NAMES: &'static [&'static str] = &["entries", "boundaries", "sample"];

    fn given(&self) -> Option<&'static str> {
        let entries = self.entries.map(|_| "entries");
        entries.or(self.boundaries.as_ref().map(|_| "boundaries")).or(self.sample.as_ref().map(|_| "sample"))
    }
}

/// When operations are offloaded.
const MODES: &[&str] = &[Mode::Never.name(), Mode::Always.name(), Mode::ByCost.name()];

/// Options of `dm bench`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Bench {
    /// What an answer of a DEX means: a change is in the owner's log, in its leaf in the pool, or only in the owner's memory,
    /// so that the owner's death takes it back
    #[arg(long, value_name = "LEVEL", default_value = "log", value_parser = PossibleValuesParser::new(["log", "pool", "cache"]))]
    answers_at: String,

    /// Memory of each compute node for copies of the leaves that it owns, in MiB: DEX
    #[arg(long, default_value_t = 64, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1 << 20))]
    leaf_cache_mib: u64,

    /// Of 100 leaves that are READ, so many get a place there; 0: leaves are not cached
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = RangedU64ValueParser::<u64>::new().range(0..=100))]
    leaf_admission: u64,

    /// Leaves leave the cache of a DEX by one queue, not by the many of the cooling map
    #[arg(long)]
    one_fifo: bool,

    /// When operations of a DEX whose leaves are not cached are done by a memory node's processor, if the fabric has calls
    #[arg(long, value_name = "WHEN", default_value = "never", value_parser = PossibleValuesParser::new(MODES))]
    offload: String,

    /// A memory node that is full refuses new nodes of a DEX, although another one has room, so that memory nodes' processors can
    /// walk whole subtrees
    #[arg(long)]
    whole_subtrees: bool,

    /// Log of each compute node, in KiB of the pool; an eighth of a memory node at most: DEX
    #[arg(long, default_value_t = LOG_KIB, value_parser = RangedU64ValueParser::<u64>::new().range(1..=1 << 24))]
    log_kib: u64,
}

impl Options for Bench {
    const NAMES: &'static [&'static str] =
        &["answers-at", "leaf-cache-mib", "leaf-admission", "one-fifo", "offload", "whole-subtrees", "log-kib"];

    fn given(&self) -> Option<&'static str> {
        let given = [
            self.answers_at != "log",
            self.leaf_cache_mib != 64,
            self.leaf_admission != 10,
            self.one_fifo,
            self.offload != "never",
            self.whole_subtrees,
            self.log_kib != LOG_KIB,
        ];
        Self::NAMES.iter().zip(given).find_map(|(name, given)| given.then_some(*name))
    }
}

impl CommandLine for Parameters {
    const ABOUT: &'static str = "B+-tree whose leaves are cached by the owners of their keys";
    const TITLE: &'static str = "DEX";

    type Create = Create;
    type Bench = Bench;

    const SWEPT: &'static [Swept<Bench>] = &[
        Swept {
            name: "leaf-cache-mib",
            values: Values::Numbers(1, 1 << 20, |options, value| options.leaf_cache_mib = value),
        },
        Swept {
            name: "leaf-admission",
            values: Values::Numbers(0, 100, |options, value| options.leaf_admission = value),
        },
        Swept {
            name: "offload",
            values: Values::Words(MODES, |options, value| value.clone_into(&mut options.offload)),
        },
        Swept { name: "log-kib", values: Values::Numbers(1, 1 << 24, |options, value| options.log_kib = value) },
    ];

    fn spend(options: &Bench, spending: &mut Spending) {
        let level = Level::ALL.into_iter().find(|level| level.name() == options.answers_at);
        spending.level = level.unwrap_or_default();
        let mode = Mode::ALL.into_iter().find(|mode| mode.name() == options.offload);
        spending.offload = mode.unwrap_or_default();
        if options.whole_subtrees {
            spending.options.subtrees = Subtrees::Whole;
        }
        spending.page_cache_bytes = options.leaf_cache_mib << 20;
        spending.admission = Admission::per_10_000(100 * options.leaf_admission as u16);
        spending.cooling = if options.one_fifo { Cooling::OneFifo } else { Cooling::Map };
        spending.log_lines = (options.log_kib << 10) as usize / LINE_BYTES;
    }

    fn techniques(options: &Bench) -> Vec<String> {
        let mut said = vec![match options.answers_at.as_str() {
            "cache" => "answers at cache: an owner's death takes back its last changes".to_owned(),
            level => format!("answers at {level}"),
        }];
        said.extend((options.offload != "never").then(|| format!("offload {}", options.offload)));
        said.extend(options.whole_subtrees.then(|| "whole subtrees".to_owned()));
        said.extend(options.one_fifo.then(|| "one FIFO".to_owned()));
        said.extend((options.leaf_admission != 10).then(|| format!("leaf admission {} %", options.leaf_admission)));
        said
    }

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
        if let Some(Boundaries(keys)) = &options.sample {
            let bad = |what: String| Failure::Usage(format!("--sample: {what}"));
            let keys = keys.iter().map(|key| parse(key, self.key_bytes, "key").map_err(bad));
            let mut keys = keys.collect::<Result<Vec<_>, _>>()?;
            keys.sort_unstable();
            keys.dedup();
            return Ok(keys);
        }
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
        let (entries, cut) = match (&options.boundaries, &options.sample) {
            (Some(Boundaries(keys)), _) => {
                (u32::try_from(keys.len()).unwrap_or(u32::MAX).saturating_add(1), Cut::Given)
            }
            (None, Some(_)) => (options.entries.unwrap_or(default.entries), Cut::Quantiles),
            (None, None) => (options.entries.unwrap_or(default.entries), default.cut),
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
