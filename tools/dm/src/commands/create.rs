//! `dm create`: an empty index.

use crate::failure::{Failure, print};
use crate::tool::PoolArguments;
use dm_core::remote::catalog::IndexKind;
use dm_core::{
    chime::parameters as chime, items::parameters as items, sherman::parameters as sherman, smart::parameters as smart,
};
use dm_host::kinds::IndexParameters;

/// Arguments of `dm create`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: keys up to 31 bytes\n  dm create --pool /run/dm/0 --name names --key-bytes 32 --value-bytes 16\nKeys and values of any length:\n  dm create --pool /run/dm/0 --name files --items"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Name of the index
    #[arg(long)]
    name: String,

    /// Kind of the index
    #[arg(long, value_enum, default_value = "sherman")]
    index: Kind,

    /// Keys and values of any length, up to --key-bytes and --value-bytes
    #[arg(long)]
    items: bool,

    /// Bytes of a key slot, 8 to 64 [default: 8]; with --items of the longest key, 1 to 4096 [default: 1024]
    #[arg(long)]
    key_bytes: Option<usize>,

    /// Bytes of a value, 8 to 1024 [default: 8]; with --items of the longest value, 0 to 65536 [default: 4096]
    #[arg(long)]
    value_bytes: Option<usize>,

    /// Entries of a leaf [default: Sherman what fits 1 KiB, at least 16; CHIME 64]
    #[arg(long)]
    leaf_span: Option<usize>,

    /// Separators of an inner node [default: Sherman what fits 1 KiB; CHIME 64]
    #[arg(long)]
    inner_span: Option<usize>,

    /// CHIME: entries of a neighborhood, 2 to 16 [default: 8]
    #[arg(long)]
    neighborhood: Option<usize>,
}

/// An index that can be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// B+-tree with unsorted leaves
    Sherman,
    /// B+-tree whose leaves are hopscotch tables
    Chime,
    /// Adaptive radix tree
    Smart,
}

/// The parameters asked for, checked.
fn parameters(arguments: &Arguments) -> Result<IndexParameters, Failure> {
    let Arguments { items, key_bytes, value_bytes, leaf_span, inner_span, neighborhood, .. } = *arguments;
    if items {
        if leaf_span.is_some() || inner_span.is_some() || neighborhood.is_some() {
            let what = "--items: --leaf-span, --inner-span and --neighborhood are for keys and values of one size";
            return Err(Failure::Usage(what.to_owned()));
        }
        let kind = match arguments.index {
            Kind::Sherman => IndexKind::Sherman,
            Kind::Chime => IndexKind::Chime,
            Kind::Smart => IndexKind::Smart,
        };
        let default = items::Parameters::DEFAULT;
        let sizes = items::Parameters {
            key_bytes_max: key_bytes.unwrap_or(default.key_bytes_max),
            value_bytes_max: value_bytes.unwrap_or(default.value_bytes_max),
        };
        let parameters = IndexParameters::with_items(kind, sizes).map_err(Failure::usage)?;
        parameters.check().map_err(Failure::usage)?;
        return Ok(parameters);
    }
    let (key_bytes, value_bytes) = (key_bytes.unwrap_or(8), value_bytes.unwrap_or(8));
    match arguments.index {
        Kind::Sherman => {
            if neighborhood.is_some() {
                return Err(Failure::Usage("--neighborhood: a Sherman index has none".to_owned()));
            }
            // Checked with spans within their limits first, so that sizes out of range do not reach the arithmetic.
            let (leaf, inner) = (leaf_span.unwrap_or(2), inner_span.unwrap_or(2));
            let sizes = sherman::Parameters { key_bytes, value_bytes, leaf_span: leaf, inner_span: inner };
            sizes.check().map_err(Failure::usage)?;
            let default = sherman::Parameters::with_sizes(key_bytes, value_bytes);
            Ok(sherman::Parameters {
                leaf_span: leaf_span.unwrap_or(default.leaf_span),
                inner_span: inner_span.unwrap_or(default.inner_span),
                ..default
            }
            .into())
        }
        Kind::Chime => {
            let default = chime::Parameters::with_sizes(key_bytes, value_bytes);
            let parameters = chime::Parameters {
                leaf_span: leaf_span.unwrap_or(default.leaf_span),
                inner_span: inner_span.unwrap_or(default.inner_span),
                neighborhood: neighborhood.unwrap_or(default.neighborhood),
                ..default
            };
            parameters.check().map_err(Failure::usage)?;
            Ok(parameters.into())
        }
        Kind::Smart => {
            let given = [("leaf-span", leaf_span), ("inner-span", inner_span), ("neighborhood", neighborhood)];
            if let Some((option, _)) = given.into_iter().find(|(_, value)| value.is_some()) {
                return Err(Failure::Usage(format!("--{option}: a SMART index has none")));
            }
            let parameters = smart::Parameters::with_sizes(key_bytes, value_bytes);
            parameters.check().map_err(Failure::usage)?;
            Ok(parameters.into())
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let parameters = parameters(arguments)?;
    let memory = arguments.pool.connect()?;
    let node = arguments.pool.join(&memory)?;
    let entry = node
        .create_index(&arguments.name, &parameters)
        .map_err(|error| Failure::Run(format!("index \"{}\": {error}", arguments.name)))?;
    print(&format!("index \"{}\", number {}: {parameters}\n", arguments.name, entry.number.get()))
}
