//! Decoders under arbitrary bytes: nodes, what a pool says of itself, messages of daemons, and files of the command.
//!
//! An input is a list of changes to a sound sample ([`input`]), so that most of the sample stays sound and a decoder is not
//! left at its first check. Where a checksum covers the bytes, half of the inputs get a right one. What every target
//! asserts: no panic; each result an error, or a value that obeys the decoder's promises.
//!
//! Each target runs the inputs in `__fuzz__/TARGET/corpus`, then random ones: [`INPUTS`], or as many as
//! `BOLERO_RANDOM_ITERATIONS` says. A failure prints the shrunken input, and the seed with which it comes again
//! (`BOLERO_RANDOM_SEED`). Guided by coverage, where cargo-bolero and a C++ compiler are there:
//! `cargo bolero test -p dm-tests --sanitizer NONE nodes::sherman_leaf`.

mod files;
mod input;
mod nodes;
mod owners;
mod pool;
mod radix;
mod wire;

/// Random inputs of a target, unless the environment says how many.
const INPUTS: usize = 2000;

/// Runs the target of the calling test: `each` gets every input.
macro_rules! fuzz {
    ($each:expr) => {
        // Inputs are recipes: longer ones leave nothing of the sample.
        bolero::check!().with_iterations(crate::INPUTS).with_max_len(96).for_each(|input: &[u8]| $each(input))
    };
}
use fuzz;
