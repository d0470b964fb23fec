//! Dolphin on the command line.

use super::{CommandLine, NoOptions, Spans};
use crate::failure::Failure;
use dm_core::dolphin::parameters::Parameters;

impl CommandLine for Parameters {
    const ABOUT: &'static str = "Radix tree over leaves of dozens of records, shared writers in a leaf";
    const TITLE: &'static str = "Dolphin";
    const IS_RADIX: bool = true;

    type Create = NoOptions;
    type Bench = NoOptions;

    fn create((key_bytes, value_bytes): (usize, usize), spans: Spans, _: &NoOptions) -> Result<Self, Failure> {
        for (option, span) in [("leaf-span", spans.leaf), ("inner-span", spans.inner)] {
            if span.is_some() {
                return Err(Failure::Usage(format!("--{option}: a Dolphin index's leaves have 1024 bytes")));
            }
        }
        let parameters = Self::with_sizes(key_bytes, value_bytes);
        parameters.check().map_err(Failure::usage)?;
        Ok(parameters)
    }
}
