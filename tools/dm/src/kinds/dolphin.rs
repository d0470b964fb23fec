//! Dolphin on the command line.

use super::{CommandLine, Options, Spans};
use crate::failure::Failure;
use dm_core::dolphin::parameters::Parameters;
use dm_core::registry::KindParameters;

/// Options of `dm create` and `dm bench`.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub struct Leaves {
    /// The keys of a leaf of a Dolphin differ in the last byte only, as in the paper
    #[arg(long)]
    paper_leaves: bool,
}

impl Options for Leaves {
    const NAMES: &'static [&'static str] = &["paper-leaves"];

    fn given(&self) -> Option<&'static str> {
        self.paper_leaves.then_some("paper-leaves")
    }
}

impl CommandLine for Parameters {
    const ABOUT: &'static str = "Radix tree over leaves of dozens of records, shared writers in a leaf";
    const TITLE: &'static str = "Dolphin";
    const IS_RADIX: bool = true;
    const HAS_LOCK_WORDS: bool = false;

    type Create = Leaves;
    type Bench = Leaves;

    fn create((key_bytes, value_bytes): (usize, usize), spans: Spans, options: &Leaves) -> Result<Self, Failure> {
        for (option, span) in [("leaf-span", spans.leaf), ("inner-span", spans.inner)] {
            if span.is_some() {
                return Err(Failure::Usage(format!("--{option}: a Dolphin index's leaves have 1024 bytes")));
            }
        }
        let parameters = Self { paper_leaves: options.paper_leaves, ..Self::with_sizes(key_bytes, value_bytes) };
        parameters.check().map_err(Failure::usage)?;
        Ok(parameters)
    }

    fn bench(&mut self, options: &Leaves) -> Result<(), Failure> {
        self.paper_leaves = options.paper_leaves;
        Ok(())
    }
}
