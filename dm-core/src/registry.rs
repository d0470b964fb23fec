//! The kinds of indexes in this program: one list, and what the parameters of every kind have in common.
//!
//! A kind is a module of this crate, a number in the catalog ([`IndexKind`]), and one line in
//! [`for_each_kind`](crate::for_each_kind). The other crates have one file for each kind, named after it, and make
//! their enums and their dispatch from this list. To have a kind in some builds only, put a second definition of the
//! macro's end behind a feature of this crate: the list is then the same in all crates of a build. The other crates
//! have a feature of that name, too; without it their files for the kind are empty.

use crate::layout::record::{Le16, Le32};
use crate::operation::ScratchPlan;
use crate::remote::catalog::{IndexKind, PARAMETER_BYTES};
use core::fmt;
use thiserror::Error;

/// Passes the kinds of indexes in this program to a macro: `for_each_kind!([make] argument ...)` becomes
/// `make! { [Sherman sherman, ...] argument ... }`. Of every kind it says the name of its index, which is also the one
/// in [`IndexKind`](crate::remote::catalog::IndexKind), and the name of its module.
#[macro_export]
macro_rules! for_each_kind {
    ([$($make:tt)*] $($argument:tt)*) => {
        $crate::kinds_of_this_build! { [$($make)*] [
            Sherman sherman,
            Chime chime,
            Smart smart,
            Dolphin dolphin,
            Dex dex
        ] $($argument)* }
    };
}

/// The end of [`for_each_kind`](crate::for_each_kind): passes on the kinds that every build has, and behind them those
/// that only this one has. Here there are none; the kind that is behind a feature has the other definition.
#[cfg(not(feature = "toy"))]
#[doc(hidden)]
#[macro_export]
macro_rules! kinds_of_this_build {
    ([$($make:tt)*] [$($kinds:tt)*] $($argument:tt)*) => {
        $($make)*! { [$($kinds)*] $($argument)* }
    };
}

/// One expression for a value of any kind: `match_kind!(value, Enum(pattern) => expression)`, for an enum with a
/// variant per kind. The expression is compiled for each kind on its own.
#[macro_export]
macro_rules! match_kind {
    ($value:expr, $Enum:ident ($($pattern:tt)*) => $expression:expr) => {
        $crate::for_each_kind! { [$crate::match_kind_arms] ($value) $Enum ($($pattern)*) { $expression } }
    };
}

/// The `match` of [`match_kind`].
#[doc(hidden)]
#[macro_export]
macro_rules! match_kind_arms {
    ([$($Kind:ident $kind:ident),*] ($value:expr) $Enum:ident $pattern:tt $expression:tt) => {
        match $value { $($Enum::$Kind $pattern => $expression)* }
    };
}

macro_rules! kinds {
    ([$($Kind:ident $kind:ident),*]) => {
        /// The kinds of indexes in this program, in the order in which they are listed.
        pub const KINDS: &[IndexKind] = &[$(IndexKind::$Kind),*];
    };
}

for_each_kind! { [kinds] }

/// Keys of an index of fixed sizes have at least this many bytes.
pub const KEY_BYTES_MIN: usize = 8;
/// And at most this many.
pub const KEY_BYTES_MAX: usize = 64;
/// Values of an index of fixed sizes have at least this many bytes.
pub const VALUE_BYTES_MIN: usize = 8;
/// And at most this many.
pub const VALUE_BYTES_MAX: usize = 1024;

/// Parameters that do not make an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// A parameter outside of its limits.
    #[error("{what} {found}: the index takes {least} to {most}")]
    Limit {
        /// The parameter.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The least that the index takes.
        least: usize,
        /// The most.
        most: usize,
    },
    /// A parameter that is none of those to choose from.
    #[error("{what} {found}: the index takes {choices}")]
    Choice {
        /// The parameter.
        what: &'static str,
        /// Its value.
        found: usize,
        /// What the index takes.
        choices: &'static str,
    },
    /// Another version of the kind wrote the catalog's block.
    #[error("parameter block of version {found}; this program reads version {supported}")]
    Version {
        /// That of the block.
        found: u16,
        /// What this program reads.
        supported: u16,
    },
    /// Entries of an index with keys and values of any length have another format.
    #[error(
        "keys and values of any length in format {found}; this program reads and writes format {supported}: dump the index with the \
         program that wrote it, and load the dump"
    )]
    ItemsVersion {
        /// That of the entries.
        found: u8,
        /// What this program reads.
        supported: u8,
    },
    /// Ranges of keys that overlap, or leave keys out.
    #[error("entry {entry}: {what}")]
    Boundaries {
        /// The range's number.
        entry: u32,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Room that is too small.
    #[error("{what} {found}: at least {least} are needed")]
    Small {
        /// What it is room for.
        what: &'static str,
        /// What there is.
        found: usize,
        /// The least that is needed.
        least: usize,
    },
    /// The catalog's block has options or bytes that this program does not know.
    #[error("parameter block with options or bytes that this program does not know")]
    Unknown,
}

/// Refuses a parameter outside of its limits.
pub(crate) fn check_limit(what: &'static str, found: usize, least: usize, most: usize) -> Result<(), ParameterError> {
    if (least..=most).contains(&found) { Ok(()) } else { Err(ParameterError::Limit { what, found, least, most }) }
}

/// A field of a parameter block that stores a number, which [`KindParameters::check`] has found to fit.
pub(crate) trait Stored {
    fn of(number: usize) -> Self;

    fn number(self) -> usize;
}

impl Stored for u8 {
    fn of(number: usize) -> Self {
        number as Self
    }

    fn number(self) -> usize {
        self.into()
    }
}

impl Stored for Le16 {
    fn of(number: usize) -> Self {
        (number as u16).into()
    }

    fn number(self) -> usize {
        self.get().into()
    }
}

impl Stored for Le32 {
    fn of(number: usize) -> Self {
        (number as u32).into()
    }

    fn number(self) -> usize {
        self.get() as usize
    }
}

/// What [`KindParameters`] of all kinds have alike: the sizes, and how a parameter block stores the parameters that it
/// has under their own names. So what is stored is what is read. `encode` and `parse` add what a kind stores in its own
/// way.
macro_rules! stored_parameters {
    ($Block:ident: $($field:ident),+ $(; encode |$parameters:pat_param, $to:ident| $encode:block parse |$from:pat_param| {
        $($own:ident: $read:expr),*
    })?) => {
        fn with_sizes(key_bytes: usize, value_bytes: usize) -> Self {
            Self::with_sizes(key_bytes, value_bytes)
        }

        fn resized(mut self, key_bytes: usize, value_bytes: usize) -> Self {
            (self.key_bytes, self.value_bytes) = (key_bytes, value_bytes);
            self
        }

        fn key_bytes(&self) -> usize {
            self.key_bytes
        }

        fn value_bytes(&self) -> usize {
            self.value_bytes
        }

        fn encode(&self) -> [u8; $crate::remote::catalog::PARAMETER_BYTES] {
            let mut block = $Block::ZERO;
            $(block.$field = $crate::registry::Stored::of(self.$field);)+
            $({
                let ($parameters, $to) = (self, &mut block);
                $encode
            })?
            zerocopy::transmute!(block)
        }

        fn parse(block: &[u8; $crate::remote::catalog::PARAMETER_BYTES]) -> Self {
            let block: $Block = zerocopy::transmute!(*block);
            $(let $from = &block;)?
            Self { $($field: $crate::registry::Stored::number(block.$field),)+ $($($own: $read,)*)? }
        }
    };
}
pub(crate) use stored_parameters;

/// What [`KindParameters`] of a kind say whose leaves and inner nodes have as many entries as its creator chooses.
macro_rules! chosen_spans {
    () => {
        fn leaf_span(&self) -> usize {
            self.leaf_span
        }

        fn set_leaf_span(&mut self, span: usize) -> bool {
            self.leaf_span = span;
            true
        }

        fn inner_span(&self) -> usize {
            self.inner_span
        }

        fn set_inner_span(&mut self, span: usize) -> bool {
            self.inner_span = span;
            true
        }
    };
}
pub(crate) use chosen_spans;

/// Parameters of an index: what is fixed when it is created. This is what the parameters of every kind have in common.
pub trait KindParameters: Copy + Eq + fmt::Debug {
    /// The kind.
    const KIND: IndexKind;

    /// Version of the parameter block.
    const VERSION: u16 = 1;

    /// Whether locks lie in leaves, so that those of a dead compute node are found only by a look at every leaf.
    const LOCKS_IN_LEAVES: bool;

    /// Whether the index scans downwards ([`Operation::down`](crate::operation::Operation::down)).
    const SCANS_DOWN: bool = false;

    /// Whether a compute node that opens the index has a log. Its row names one log, so it opens one such index.
    const HAS_LOG: bool = false;

    /// Whether a checksum covers each record where it is stored, whatever its creator chose.
    const RECORDS_HAVE_CHECKSUMS: bool = false;

    /// Scratch ranges of a lane, besides the operation's own.
    type Scratch;

    /// The paper's node sizes, for keys and values of these sizes. Use only sizes that pass [`KindParameters::check`].
    fn with_sizes(key_bytes: usize, value_bytes: usize) -> Self;

    /// The same for keys and values of other sizes.
    #[must_use]
    fn resized(self, key_bytes: usize, value_bytes: usize) -> Self;

    /// Bytes of every key.
    fn key_bytes(&self) -> usize;

    /// Bytes of every value.
    fn value_bytes(&self) -> usize;

    /// Checks the limits of what the kind leaves to choose besides the sizes of keys and values.
    fn check_choices(&self) -> Result<(), ParameterError> {
        Ok(())
    }

    /// Checks every limit.
    fn check(&self) -> Result<(), ParameterError> {
        check_limit("key bytes", self.key_bytes(), KEY_BYTES_MIN, KEY_BYTES_MAX)?;
        check_limit("value bytes", self.value_bytes(), VALUE_BYTES_MIN, VALUE_BYTES_MAX)?;
        self.check_choices()
    }

    /// The parameter block for a catalog entry.
    fn encode(&self) -> [u8; PARAMETER_BYTES];

    /// The parameters in a block, unchecked. What they do not say is checked by [`KindParameters::decode`].
    fn parse(block: &[u8; PARAMETER_BYTES]) -> Self;

    /// Reads and checks the parameter block of a catalog entry. A block that has anything besides these parameters,
    /// such as a reserved byte that is not zero, is refused.
    fn decode(version: u16, block: &[u8; PARAMETER_BYTES]) -> Result<Self, ParameterError> {
        if version != Self::VERSION {
            return Err(ParameterError::Version { found: version, supported: Self::VERSION });
        }
        let parameters = Self::parse(block);
        parameters.check()?;
        if parameters.encode() == *block { Ok(parameters) } else { Err(ParameterError::Unknown) }
    }

    /// Entries of a leaf.
    fn leaf_span(&self) -> usize;

    /// Sets the number of entries of a leaf. `false`: the kind leaves no choice.
    fn set_leaf_span(&mut self, _span: usize) -> bool {
        false
    }

    /// Separators of an inner node; slots of the largest node if a kind has no separators.
    fn inner_span(&self) -> usize;

    /// Sets the number of separators of an inner node. `false`: the kind leaves no choice.
    fn set_inner_span(&mut self, _span: usize) -> bool {
        false
    }

    /// Bytes of a leaf's place and of an inner node; of the largest one if inner nodes differ.
    fn node_bytes(&self) -> (usize, usize);

    /// Bytes of the largest WRITE that may need a redo record.
    fn redo_bytes(&self) -> usize {
        let (leaf, inner) = self.node_bytes();
        leaf.max(inner)
    }

    /// Scratch of a lane: `page_records` records that a scan returns at most, `leaves_at_once` leaves that it READs in
    /// parallel.
    fn plan(&self, page_records: usize, leaves_at_once: usize) -> (ScratchPlan, Self::Scratch);

    /// Writes each parameter besides the sizes of keys and values, with a comma before it.
    fn write_choices(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    fn are_read_back<P: KindParameters>() {
        let parameters = P::with_sizes(32, 1024);
        let block = parameters.encode();
        assert_eq!(P::decode(P::VERSION, &block), Ok(parameters));
        let later = P::VERSION + 1;
        let refused = ParameterError::Version { found: later, supported: P::VERSION };
        assert_eq!(P::decode(later, &block), Err(refused));
        // Every byte is a parameter's, or a reserved one that has to be zero.
        for at in 0..PARAMETER_BYTES {
            let mut other = block;
            other[at] ^= 1;
            assert_ne!(P::decode(P::VERSION, &other), Ok(parameters), "{:?}: byte {at}", P::KIND);
        }
        assert!(P::decode(P::VERSION, &[0xff; PARAMETER_BYTES]).is_err() && P::decode(P::VERSION, &[0; 64]).is_err());
    }

    fn limits_are_said<P: KindParameters>() {
        let say = |key_bytes, value_bytes| {
            P::with_sizes(8, 8).resized(key_bytes, value_bytes).check().unwrap_err().to_string()
        };
        assert_eq!(say(7, 8), "key bytes 7: the index takes 8 to 64");
        assert_eq!(say(65, 8), "key bytes 65: the index takes 8 to 64");
        assert_eq!(say(8, 7), "value bytes 7: the index takes 8 to 1024");
        assert_eq!(say(8, 1025), "value bytes 1025: the index takes 8 to 1024");
    }

    fn ranges_of_a_scratch_do_not_overlap<P: KindParameters>() {
        for (page_records, leaves_at_once) in [(0, 0), (1, 1), (17, 40)] {
            let plan = P::with_sizes(9, 17).plan(page_records, leaves_at_once).0;
            assert!(plan.page_records() >= page_records);
            let mut ranges = [plan.key, plan.key_high, plan.value, plan.expected, plan.output, plan.page];
            ranges.sort_unstable_by_key(|range| (range.start, range.end));
            assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{:?}: {ranges:?}", P::KIND);
            assert!(ranges.iter().all(|range| range.end <= plan.total_bytes), "{:?}: {ranges:?}", P::KIND);
        }
    }

    macro_rules! of_every_kind {
        ([$($Kind:ident $kind:ident),*]) => {
            #[test]
            fn parameters_of_every_kind() {
                $({
                    type Parameters = crate::$kind::parameters::Parameters;
                    are_read_back::<Parameters>();
                    limits_are_said::<Parameters>();
                    ranges_of_a_scratch_do_not_overlap::<Parameters>();
                })*
            }
        };
    }

    for_each_kind! { [of_every_kind] }
}
