//! `dm create`: an empty index.

use crate::failure::{Failure, print};
use crate::kinds::{CreateOptions, KindName, Spans};
use crate::tool::PoolArguments;
use dm_core::items::parameters::Parameters as AnyLength;
use dm_host::kinds::IndexParameters;

/// Arguments of `dm create`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: keys up to 31 bytes\n  dm create --pool /run/dm/0 --name names --key-bytes 32 --value-bytes 16\nKeys and values of any length:\n  dm create --pool /run/dm/0 --name files --any-length"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Name of the index
    #[arg(long)]
    name: String,

    /// Kind of the index
    #[arg(long, value_enum, default_value_t)]
    index: KindName,

    /// Keys and values of any length, up to --key-bytes and --value-bytes
    #[arg(long)]
    any_length: bool,

    /// Bytes of a key slot, 8 to 64 [default: 8]; with --any-length of the longest key, 1 to 4096 [default: 1024]
    #[arg(long)]
    key_bytes: Option<usize>,

    /// Bytes of a value, 8 to 1024 [default: 8]; with --any-length of the longest value, 0 to 65536 [default: 4096]
    #[arg(long)]
    value_bytes: Option<usize>,

    /// Store a checksum with each record, and compare it whenever the record is read: a record that changed in a memory node is an
    /// error then. Values have 4 bytes less room, and programs that do not know this cannot open the index
    #[arg(long)]
    checksums: bool,

    /// Entries of a leaf [default: Sherman what fits 1 KiB, at least 16; CHIME 64]
    #[arg(long)]
    leaf_span: Option<usize>,

    /// Separators of an inner node [default: Sherman what fits 1 KiB; CHIME 64]
    #[arg(long)]
    inner_span: Option<usize>,

    #[command(flatten)]
    kinds: CreateOptions,
}

/// The parameters asked for, checked, and the keys at which the index is cut, if they are given.
fn parameters(arguments: &Arguments) -> Result<(IndexParameters, Vec<Vec<u8>>), Failure> {
    let (parameters, boundaries) = without_checksums(arguments)?;
    if !arguments.checksums {
        return Ok((parameters, boundaries));
    }
    let parameters = parameters.with_checksums();
    parameters.check().map_err(Failure::usage)?;
    Ok((parameters, boundaries))
}

fn without_checksums(arguments: &Arguments) -> Result<(IndexParameters, Vec<Vec<u8>>), Failure> {
    let Arguments { index, any_length, key_bytes, value_bytes, leaf_span, inner_span, .. } = *arguments;
    if any_length {
        if leaf_span.is_some() || inner_span.is_some() || arguments.kinds.given_but_of(None).is_some() {
            let mut options = vec!["leaf-span", "inner-span"];
            options.extend(CreateOptions::names());
            let last = options.pop().unwrap_or_default();
            let others = options.join(", --");
            let what = format!("--any-length: --{others} and --{last} are for keys and values of one size");
            return Err(Failure::Usage(what));
        }
        let default = AnyLength::DEFAULT;
        let sizes = AnyLength {
            key_bytes_max: key_bytes.unwrap_or(default.key_bytes_max),
            value_bytes_max: value_bytes.unwrap_or(default.value_bytes_max),
        };
        let parameters = IndexParameters::with_any_length(index.0, sizes).map_err(Failure::usage)?;
        parameters.check().map_err(Failure::usage)?;
        return Ok((parameters, Vec::new()));
    }
    let spans = Spans { leaf: leaf_span, inner: inner_span };
    index.create((key_bytes.unwrap_or(8), value_bytes.unwrap_or(8)), spans, &arguments.kinds)
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (parameters, boundaries) = parameters(arguments)?;
    let memory = arguments.pool.connect()?;
    let node = arguments.pool.join(&memory)?;
    let entry = node
        .create_index_cut_at(&arguments.name, &parameters, &boundaries)
        .map_err(|error| Failure::Run(format!("index \"{}\": {error}", arguments.name)))?;
    print(&format!("index \"{}\", number {}: {parameters}\n", arguments.name, entry.number.get()))
}
