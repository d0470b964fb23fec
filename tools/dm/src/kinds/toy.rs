//! The toy on the command line, in builds that have it.

#![cfg(feature = "toy")]

use super::{CommandLine, NoOptions, Spans};
use crate::failure::Failure;
use dm_core::registry::KindParameters;
use dm_core::toy::parameters::Parameters;

impl CommandLine for Parameters {
    const ABOUT: &'static str = "Sorted array under one lock, not for use";
    const TITLE: &'static str = "toy";

    type Create = NoOptions;
    type Bench = NoOptions;

    /// Its array is its only leaf.
    fn create((key_bytes, value_bytes): (usize, usize), spans: Spans, _: &NoOptions) -> Result<Self, Failure> {
        if spans.inner.is_some() {
            return Err(Failure::Usage("--inner-span: a toy index has none".to_owned()));
        }
        let default = Self::with_sizes(key_bytes, value_bytes);
        let parameters = Self { capacity: spans.leaf.unwrap_or(default.capacity), ..default };
        parameters.check().map_err(Failure::usage)?;
        Ok(parameters)
    }
}
