//! SMART on the command line.

use super::{CommandLine, Options, Spans, Swept, Values};
use crate::failure::Failure;
use dm_core::registry::KindParameters;
use dm_core::smart::parameters::Parameters;

/// Options of `dm create` and `dm bench`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct NodeSlots {
    /// SMART: slots of a new inner node, 4, 8 or 16: more take memory, and save replacements when nodes grow. With 8 and 16, a
    /// bulk load leaves a quarter of each node free, too [default: 4]
    #[arg(long, value_name = "SLOTS")]
    node_slots: Option<usize>,
}

impl Options for NodeSlots {
    const NAMES: &'static [&'static str] = &["node-slots"];

    fn given(&self) -> Option<&'static str> {
        self.node_slots.map(|_| "node-slots")
    }
}

impl CommandLine for Parameters {
    const ABOUT: &'static str = "Adaptive radix tree";
    const TITLE: &'static str = "SMART";
    const IS_RADIX: bool = true;

    type Create = NodeSlots;
    type Bench = NodeSlots;

    const SWEPT: &'static [Swept<NodeSlots>] = &[Swept {
        name: "node-slots",
        values: Values::Numbers(4, 16, |options, value| options.node_slots = Some(value as usize)),
    }];

    fn create((key_bytes, value_bytes): (usize, usize), spans: Spans, options: &NodeSlots) -> Result<Self, Failure> {
        for (option, span) in [("leaf-span", spans.leaf), ("inner-span", spans.inner)] {
            if span.is_some() {
                return Err(Failure::Usage(format!("--{option}: a SMART index has none")));
            }
        }
        let mut parameters = Self::with_sizes(key_bytes, value_bytes);
        parameters.bench(options)?;
        parameters.check().map_err(Failure::usage)?;
        Ok(parameters)
    }

    fn bench(&mut self, options: &NodeSlots) -> Result<(), Failure> {
        if let Some(slots) = options.node_slots {
            self.node_slots = slots;
            self.check().map_err(|error| Failure::Usage(format!("--node-slots: {error}")))?;
        }
        Ok(())
    }
}
