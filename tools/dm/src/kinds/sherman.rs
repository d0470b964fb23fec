//! Sherman on the command line.

use super::{CommandLine, NoOptions, Spans};
use crate::failure::Failure;
use dm_core::registry::KindParameters;
use dm_core::sherman::parameters::Parameters;

impl CommandLine for Parameters {
    const ABOUT: &'static str = "B+-tree with unsorted leaves";
    const TITLE: &'static str = "Sherman";

    type Create = NoOptions;
    type Bench = NoOptions;

    fn small(self) -> Self {
        Self { leaf_span: 12, inner_span: 8, ..self }
    }

    fn create((key_bytes, value_bytes): (usize, usize), spans: Spans, _: &NoOptions) -> Result<Self, Failure> {
        // Checked with spans within their limits first, so that sizes out of range do not reach the arithmetic.
        let (leaf_span, inner_span) = (spans.leaf.unwrap_or(2), spans.inner.unwrap_or(2));
        Self { key_bytes, value_bytes, leaf_span, inner_span }.check().map_err(Failure::usage)?;
        let default = Self::with_sizes(key_bytes, value_bytes);
        Ok(Self {
            leaf_span: spans.leaf.unwrap_or(default.leaf_span),
            inner_span: spans.inner.unwrap_or(default.inner_span),
            ..default
        })
    }
}
