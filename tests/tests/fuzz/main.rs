//! Decoders under arbitrary bytes: nodes, what a pool says of itself, messages of daemons, and files of the command.
//!
//! An input is a list of changes to a sound sample ([`input`]), so that most of the sample stays sound and a decoder is not
//! left at its first check. Where a checksum covers the bytes, half of the inputs get a right one. What every target
//! asserts: no panic; each result an error, or a value that obeys the decoder's promises.
//!
//! Each target runs the inputs in `__fuzz__/TARGET/corpus`, then random ones: [`INPUTS`], or as many as
//! `BOLERO_RANDOM_ITERATIONS` says, for as long as `BOLERO_RANDOM_TEST_TIME_MS` says. A failure prints the shrunken input, and the
//! seed with which it comes again (`BOLERO_RANDOM_SEED`).
//!
//! The corpora are inputs that libFuzzer found guided by coverage, one for each edge that any of them reaches, and those that have
//! found something, which have names. To go on with them, where a C++ compiler is there (the flags are those of cargo-bolero):
//!
//! ```text
//! export RUSTFLAGS="--cfg fuzzing --cfg fuzzing_libfuzzer -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
//!     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
//!     -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-sanitizer-coverage-stack-depth" BOLERO_FUZZER=libfuzzer
//! cargo test -p dm-tests --target x86_64-unknown-linux-gnu --target-dir target/guided --test fuzz --no-run   # names the binary
//! BOLERO_TEST_NAME=wire::greetings_over_a_socket BOLERO_LIBFUZZER_ARGS="tests/fuzz/__fuzz__/wire__greetings_over_a_socket/corpus \
//!     -max_total_time=60 -max_len=64" BINARY --exact wire::greetings_over_a_socket --nocapture --test-threads 1   # in tests/
//! # and with -merge=1 -use_counters=0 EMPTY_DIRECTORY CORPUS: the fewest inputs that reach as much
//! ```

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
