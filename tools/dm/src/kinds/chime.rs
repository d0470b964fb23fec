//! CHIME on the command line.

use super::{CommandLine, Options, Spans, Swept, Values};
use crate::failure::Failure;
use clap::builder::RangedU64ValueParser;
use dm_core::chime::parameters::Parameters;
use dm_core::registry::KindParameters;
use dm_host::assembly::Spending;

/// Options of `dm create`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Create {
    /// CHIME: entries of a neighborhood, 2 to 16 [default: 8]
    #[arg(long)]
    neighborhood: Option<usize>,
}

impl Options for Create {
    const NAMES: &'static [&'static str] = &["neighborhood"];

    fn given(&self) -> Option<&'static str> {
        self.neighborhood.map(|_| "neighborhood")
    }
}

/// Options of `dm bench`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Bench {
    /// Entries of a neighborhood of a CHIME, 2 to 16 [default: 8]
    #[arg(long, value_name = "ENTRIES")]
    neighborhood: Option<usize>,

    /// Memory of each compute node for the places of popular keys in the leaves of a CHIME, in MiB
    #[arg(long, default_value_t = 0, value_parser = RangedU64ValueParser::<u64>::new().range(0..=1 << 16))]
    hotspot_mib: u64,
}

impl Options for Bench {
    const NAMES: &'static [&'static str] = &["neighborhood", "hotspot-mib"];

    fn given(&self) -> Option<&'static str> {
        let neighborhood = self.neighborhood.map(|_| "neighborhood");
        neighborhood.or((self.hotspot_mib > 0).then_some("hotspot-mib"))
    }
}

impl CommandLine for Parameters {
    const ABOUT: &'static str = "B+-tree whose leaves are hopscotch tables";
    const TITLE: &'static str = "CHIME";

    type Create = Create;
    type Bench = Bench;

    const SWEPT: &'static [Swept<Bench>] = &[
        Swept {
            name: "neighborhood",
            values: Values::Numbers(2, 16, |options, value| options.neighborhood = Some(value as usize)),
        },
        Swept {
            name: "hotspot-mib",
            values: Values::Numbers(0, 1 << 16, |options, value| options.hotspot_mib = value),
        },
    ];

    fn small(self) -> Self {
        Self { leaf_span: 16, inner_span: 8, neighborhood: 4, ..self }
    }

    fn create((key_bytes, value_bytes): (usize, usize), spans: Spans, options: &Create) -> Result<Self, Failure> {
        let default = Self::with_sizes(key_bytes, value_bytes);
        let parameters = Self {
            leaf_span: spans.leaf.unwrap_or(default.leaf_span),
            inner_span: spans.inner.unwrap_or(default.inner_span),
            neighborhood: options.neighborhood.unwrap_or(default.neighborhood),
            ..default
        };
        parameters.check().map_err(Failure::usage)?;
        Ok(parameters)
    }

    fn bench(&mut self, options: &Bench) -> Result<(), Failure> {
        if let Some(neighborhood) = options.neighborhood {
            self.neighborhood = neighborhood;
            self.check().map_err(|error| Failure::Usage(format!("--neighborhood: {error}")))?;
        }
        Ok(())
    }

    fn spend(options: &Bench, spending: &mut Spending) {
        spending.hotspot_bytes = options.hotspot_mib << 20;
    }
}
