//! SMART on the command line.

use super::{CommandLine, NoOptions, Spans};
use crate::failure::Failure;
use dm_core::registry::KindParameters;
use dm_core::smart::parameters::Parameters;

impl CommandLine for Parameters {
    const ABOUT: &'static str = "Adaptive radix tree";
    const TITLE: &'static str = "SMART";
    const IS_RADIX: bool = true;

    type Create = NoOptions;
    type Bench = NoOptions;

    fn create((key_bytes, value_bytes): (usize, usize), spans: Spans, _: &NoOptions) -> Result<Self, Failure> {
        for (option, span) in [("leaf-span", spans.leaf), ("inner-span", spans.inner)] {
            if span.is_some() {
                return Err(Failure::Usage(format!("--{option}: a SMART index has none")));
            }
        }
        let parameters = Self::with_sizes(key_bytes, value_bytes);
        parameters.check().map_err(Failure::usage)?;
        Ok(parameters)
    }
}
