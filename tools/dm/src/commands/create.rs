//! `dm create`: an empty index.

use super::tool::PoolArguments;
use super::{Failure, print};
use dm_core::{chime::parameters as chime, sherman::parameters as sherman, smart::parameters as smart};
use dm_host::kinds::IndexParameters;

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

    /// Kind of the index
    #[arg(long, value_enum, default_value = "sherman")]
    index: Kind,

    /// Bytes of a key slot, 8 to 64
    #[arg(long, default_value_t = 8)]
    key_bytes: usize,

    /// Bytes of a value, 8 to 1024
    #[arg(long, default_value_t = 8)]
    value_bytes: usize,

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
    let Arguments { key_bytes, value_bytes, leaf_span, inner_span, neighborhood, .. } = *arguments;
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
    print(&format!(
        "index \"{}\", number {}: {}, keys of {} bytes, values of {} bytes, {} entries a leaf, {} separators an inner \
         node\n",
        arguments.name,
        entry.number.get(),
        parameters.kind().name(),
        parameters.key_bytes(),
        parameters.value_bytes(),
        parameters.leaf_span(),
        parameters.inner_span()
    ))
}
