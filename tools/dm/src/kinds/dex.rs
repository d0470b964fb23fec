//! DEX on the command line, in builds that have it.

#![cfg(feature = "dex")]

use super::{CommandLine, NoOptions, Spans};
use crate::failure::Failure;
use dm_core::dex::parameters::Parameters;
use dm_core::layout::LINE_BYTES;
use dm_core::registry::KindParameters;
use dm_host::assembly::Spending;

impl CommandLine for Parameters {
    const ABOUT: &'static str = "B+-tree whose leaves are cached by the owners of their keys";
    const TITLE: &'static str = "DEX";

    type Create = NoOptions;
    type Bench = NoOptions;

    fn cache_bytes(spending: &Spending) -> u64 {
        spending.cache_bytes + spending.page_cache_bytes
    }

    /// The ring of its log.
    fn pool_bytes(spending: &Spending) -> u64 {
        (spending.log_lines * LINE_BYTES) as u64
    }

    fn create((key_bytes, value_bytes): (usize, usize), spans: Spans, _: &NoOptions) -> Result<Self, Failure> {
        // Checked with spans within their limits first, so that sizes out of range do not reach the arithmetic.
        let (leaf_span, inner_span) = (spans.leaf.unwrap_or(2), spans.inner.unwrap_or(2));
        let of_eight = Self::with_sizes(8, 8);
        Self { key_bytes, value_bytes, leaf_span, inner_span, ..of_eight }.check().map_err(Failure::usage)?;
        let default = Self::with_sizes(key_bytes, value_bytes);
        Ok(Self {
            leaf_span: spans.leaf.unwrap_or(default.leaf_span),
            inner_span: spans.inner.unwrap_or(default.inner_span),
            ..default
        })
    }
}
