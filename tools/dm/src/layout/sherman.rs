//! The parameters of Sherman.

use super::values::{error, value};
use super::{Sample, Structure};
use dm_core::registry::KindParameters;
use dm_core::sherman::parameters::{ParameterBlock, Parameters};

pub(super) const SHERMAN: Parameters = Parameters::with_sizes(8, 16);

pub(super) const SHERMAN_PARAMETERS: Structure = Structure {
    name: "sherman_parameters",
    title: "parameter block of a Sherman index in its catalog entry",
    text: "",
    tables: &[("fields", ParameterBlock::FIELDS)],
    constants: &[("VERSION", Parameters::VERSION as u64, "of the block")],
    samples: || {
        vec![
            Sample::new(
                "keys of 8 bytes, values of 16, nodes of 1 KiB",
                &SHERMAN.encode(),
                &[("key_bytes", "8"), ("value_bytes", "16"), ("leaf_span", "39"), ("inner_span", "60")],
            ),
            Sample::new(
                "a leaf too small to split",
                &Parameters { leaf_span: 1, ..SHERMAN }.encode(),
                &[("error", "entries per leaf 1: the index takes 2 to 512")],
            ),
        ]
    },
    decode: |bytes| {
        let Some(block) = bytes.first_chunk() else { return error(&"too short") };
        match Parameters::decode(Parameters::VERSION, block) {
            Ok(parameters) => vec![
                value("key_bytes", &parameters.key_bytes),
                value("value_bytes", &parameters.value_bytes),
                value("leaf_span", &parameters.leaf_span),
                value("inner_span", &parameters.inner_span),
            ],
            Err(found) => error(&found),
        }
    },
};
