//! `dm create`: an empty index.

use super::tool::PoolArguments;
use super::{Failure, print};
use dm_core::sherman::parameters::Parameters;

/// Arguments of `dm create`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: keys up to 31 bytes\n  dm create --pool /run/dm/0 --name names --key-bytes 32 --value-bytes 16"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Name of the index
    #[arg(long)]
    name: String,

    /// Bytes of a key slot, 8 to 64
    #[arg(long, default_value_t = 8)]
    key_bytes: usize,

    /// Bytes of a value, 8 to 1024
    #[arg(long, default_value_t = 8)]
    value_bytes: usize,

    /// Entries of a leaf [default: what fits 1 KiB, at least 16]
    #[arg(long)]
    leaf_span: Option<usize>,

    /// Separators of an inner node [default: what fits 1 KiB]
    #[arg(long)]
    inner_span: Option<usize>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // Checked with spans within their limits first, so that sizes out of range do not reach the arithmetic.
    let sizes = Parameters {
        key_bytes: arguments.key_bytes,
        value_bytes: arguments.value_bytes,
        leaf_span: arguments.leaf_span.unwrap_or(2),
        inner_span: arguments.inner_span.unwrap_or(2),
    };
    sizes.check().map_err(Failure::usage)?;
    let default = Parameters::with_sizes(arguments.key_bytes, arguments.value_bytes);
    let parameters = Parameters {
        leaf_span: arguments.leaf_span.unwrap_or(default.leaf_span),
        inner_span: arguments.inner_span.unwrap_or(default.inner_span),
        ..default
    };
    let memory = arguments.pool.connect()?;
    let node = arguments.pool.join(&memory)?;
    let entry = node
        .create_sherman(&arguments.name, &parameters)
        .map_err(|error| Failure::Run(format!("index \"{}\": {error}", arguments.name)))?;
    print(&format!(
        "index \"{}\", number {}: keys of {} bytes, values of {} bytes, {} entries a leaf, {} separators an inner node\n",
        arguments.name,
        entry.number.get(),
        parameters.key_bytes,
        parameters.value_bytes,
        parameters.leaf_span,
        parameters.inner_span
    ))
}
