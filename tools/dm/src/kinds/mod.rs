//! What the command line has to know of each kind of index, in one file per kind.

mod chime;
mod dex;
mod dolphin;
mod sherman;
mod smart;
mod toy;

use crate::failure::Failure;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use dm_core::registry::{KINDS, KindParameters};
use dm_core::remote::catalog::IndexKind;
use dm_core::{for_each_kind, match_kind};
use dm_host::assembly::Spending;
use dm_host::kinds::{Below, IndexParameters, Kind};
use dm_sim::verify::items::Below as _;
use std::fmt;

/// What the command line has to know of a kind of index, by its parameters.
pub trait CommandLine: Kind {
    /// What it is, in a line of help.
    const ABOUT: &'static str;

    /// Its name in messages.
    const TITLE: &'static str;

    /// Whether it is a radix tree: its nodes are of many sizes, and lie anywhere in its chunks.
    const IS_RADIX: bool = false;

    /// Whether a lock has one holder, which frees its word.
    const HAS_LOCK_WORDS: bool = true;

    /// Options of `dm create` that only this kind has.
    type Create: Options;

    /// Options of `dm bench` that only this kind has.
    type Bench: Options;

    /// Those of `dm bench` that can be swept.
    const SWEPT: &'static [Swept<Self::Bench>] = &[];

    /// The parameters of an index with keys and values of one size, checked: see [`KindName::create`].
    fn create(sizes: (usize, usize), spans: Spans, options: &Self::Create) -> Result<Self, Failure>;

    /// The keys at which an index is cut into parts that have owners, if the options of `dm create` give them.
    fn boundaries(&self, options: &Self::Create) -> Result<Vec<Vec<u8>>, Failure> {
        let _ = options;
        Ok(Vec::new())
    }

    /// The same with small nodes, which split and merge all the time. Each has several lines, so that a death can tear it.
    /// For `dm soak`.
    #[must_use]
    fn small(self) -> Self {
        self
    }

    /// The same for keys that have owners: keys of eight bytes, numbers below `keys`, are cut into `owners` parts of equal
    /// width. `None`: any compute node serves any key.
    fn cut(self, owners: u32, keys: u64) -> Option<Self> {
        let _ = (owners, keys);
        None
    }

    /// Sets what the options of `dm bench` say of the parameters, and checks it.
    fn bench(&mut self, options: &Self::Bench) -> Result<(), Failure> {
        let _ = options;
        Ok(())
    }

    /// Spends what the options of `dm bench` say.
    fn spend(options: &Self::Bench, spending: &mut Spending) {
        let _ = (options, spending);
    }

    /// What reports say of these options.
    fn techniques(options: &Self::Bench) -> Vec<String> {
        let _ = options;
        Vec::new()
    }

    /// Bytes that a compute node spends on caches.
    fn cache_bytes(spending: &Spending) -> u64 {
        spending.cache_bytes + spending.hotspot_bytes
    }

    /// Bytes of the pool that a compute node takes for itself, and that are no nodes.
    fn pool_bytes(_: &Spending) -> u64 {
        0
    }
}

/// Options that only one kind has.
pub trait Options: clap::Args + Clone + fmt::Debug + 'static {
    /// Their names.
    const NAMES: &'static [&'static str];

    /// The first one that is on the command line.
    fn given(&self) -> Option<&'static str>;
}

/// No options.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[group(skip)]
pub struct NoOptions {}

impl Options for NoOptions {
    const NAMES: &'static [&'static str] = &[];

    fn given(&self) -> Option<&'static str> {
        None
    }
}

/// An option of `dm bench` that can be swept.
pub struct Swept<O: 'static> {
    name: &'static str,
    values: Values<O>,
}

/// What such an option can be.
enum Values<O: 'static> {
    /// A number from the first to the second.
    Numbers(u64, u64, fn(&mut O, u64)),
    /// One of these words.
    Words(&'static [&'static str], fn(&mut O, &'static str)),
}

/// Entries of a leaf and separators of an inner node, if the command line says them.
#[derive(Clone, Copy, Debug)]
pub struct Spans {
    /// `--leaf-span`
    pub leaf: Option<usize>,
    /// `--inner-span`
    pub inner: Option<usize>,
}

/// A kind of index, as named on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindName(pub IndexKind);

impl Default for KindName {
    fn default() -> Self {
        Self(KINDS[0])
    }
}

/// An index to judge, as named on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedName {
    /// The kind; with keys and values of any length, that of the index below.
    pub kind: IndexKind,
    /// Whether keys and values have any length.
    pub any_length: bool,
}

impl Default for JudgedName {
    fn default() -> Self {
        Self { kind: KINDS[0], any_length: false }
    }
}

macro_rules! kinds {
    ([$($Kind:ident $kind:ident),*]) => {
        impl ValueEnum for KindName {
            fn value_variants<'a>() -> &'a [Self] {
                const { &[$(Self(IndexKind::$Kind)),*] }
            }

            fn to_possible_value(&self) -> Option<PossibleValue> {
                match self.0 {
                    $(
                        IndexKind::$Kind => {
                            let about = <dm_core::$kind::parameters::Parameters as CommandLine>::ABOUT;
                            Some(PossibleValue::new(self.0.name()).help(about))
                        }
                    )*
                    #[allow(unreachable_patterns, reason = "a build may have every kind")]
                    _ => None,
                }
            }
        }

        impl ValueEnum for JudgedName {
            fn value_variants<'a>() -> &'a [Self] {
                const {
                    &[
                        $(Self { kind: IndexKind::$Kind, any_length: false },)*
                        $(Self { kind: IndexKind::$Kind, any_length: true },)*
                    ]
                }
            }

            fn to_possible_value(&self) -> Option<PossibleValue> {
                match (self.kind, self.any_length) {
                    (kind, false) => Some(PossibleValue::new(kind.name())),
                    $(
                        (IndexKind::$Kind, true) => Some(
                            PossibleValue::new(dm_sim::verify::$Kind::ITEMS_OPTION)
                                .help(concat!("Keys and values of any length, over ", stringify!($kind))),
                        ),
                    )*
                    #[allow(unreachable_patterns, reason = "a build may have every kind")]
                    _ => None,
                }
            }
        }

        /// Options of `dm create` that only one kind has, of all kinds.
        #[derive(Clone, Debug, clap::Args)]
        #[group(skip)]
        pub struct CreateOptions {
            $(
                #[command(flatten)]
                $kind: <dm_core::$kind::parameters::Parameters as CommandLine>::Create,
            )*
        }

        impl CreateOptions {
            /// Names of the options.
            pub fn names() -> Vec<&'static str> {
                [$(<dm_core::$kind::parameters::Parameters as CommandLine>::Create::NAMES),*].concat()
            }

            /// An option of any kind but `kind` that is on the command line; `None`: of any kind at all.
            pub fn given_but_of(&self, kind: Option<IndexKind>) -> Option<&'static str> {
                let all = [$((IndexKind::$Kind, self.$kind.given())),*];
                all.into_iter().filter(|(of, _)| Some(*of) != kind).find_map(|(_, given)| given)
            }
        }

        impl KindName {
            /// The parameters of an index with keys and values of one size, checked; and the keys at which it is cut, if they
            /// are given.
            pub fn create(
                self,
                sizes: (usize, usize),
                spans: Spans,
                options: &CreateOptions,
            ) -> Result<(IndexParameters, Vec<Vec<u8>>), Failure> {
                match self.0 {
                    $(
                        IndexKind::$Kind => {
                            let own = &options.$kind;
                            let has_none = options.given_but_of(Some(self.0));
                            let below =
                                created::<dm_core::$kind::parameters::Parameters>(sizes, spans, own, has_none)?;
                            Ok((IndexParameters::from(below), CommandLine::boundaries(&below, own)?))
                        }
                    )*
                    #[allow(unreachable_patterns, reason = "a build may have every kind")]
                    kind => Err(Failure::Usage(format!("this program has no {} indexes", kind.name()))),
                }
            }
        }

        impl KindName {
            /// The parameters of an index for `dm soak`, with `owners` writers of keys that are numbers below `keys`; and
            /// whether its keys have owners.
            pub fn soak(self, value_bytes: usize, owners: u32, keys: u64) -> Result<(IndexParameters, bool), Failure> {
                match self.0 {
                    $(
                        IndexKind::$Kind => {
                            soaked::<dm_core::$kind::parameters::Parameters>(value_bytes, owners, keys)
                                .map(|(below, owned)| (IndexParameters::from(below), owned))
                        }
                    )*
                    #[allow(unreachable_patterns, reason = "a build may have every kind")]
                    kind => Err(Failure::Usage(format!("this program has no {} indexes", kind.name()))),
                }
            }
        }

        /// Options of `dm bench` that only one kind has, of all kinds.
        #[derive(Clone, Debug, clap::Args)]
        #[group(skip)]
        pub struct BenchOptions {
            $(
                #[command(flatten)]
                $kind: <dm_core::$kind::parameters::Parameters as CommandLine>::Bench,
            )*
        }

        impl BenchOptions {
            /// Sets what they say of the parameters, and checks it.
            pub fn set(&self, parameters: &mut IndexParameters) -> Result<(), Failure> {
                let kind = parameters.kind();
                for (of, given) in [$((IndexKind::$Kind, self.$kind.given())),*] {
                    if let Some(option) = given.filter(|_| of != kind) {
                        return Err(Failure::Usage(format!("--{option}: only with --index {}", of.name())));
                    }
                }
                match &mut parameters.below {
                    $(Below::$Kind(below) => below.bench(&self.$kind),)*
                }
            }

            /// Spends what they say.
            pub fn spend(&self, spending: &mut Spending) {
                $(<dm_core::$kind::parameters::Parameters as CommandLine>::spend(&self.$kind, spending);)*
            }

            /// What reports say of those of a kind.
            pub fn techniques(&self, kind: IndexKind) -> Vec<String> {
                match kind {
                    $(
                        IndexKind::$Kind => {
                            <dm_core::$kind::parameters::Parameters as CommandLine>::techniques(&self.$kind)
                        }
                    )*
                    #[allow(unreachable_patterns, reason = "a build may have every kind")]
                    _ => Vec::new(),
                }
            }

            /// Names of the options that can be swept.
            pub fn swept() -> Vec<&'static str> {
                let mut names = Vec::new();
                $(names.extend(<dm_core::$kind::parameters::Parameters as CommandLine>::SWEPT.iter().map(|one| one.name));)*
                names
            }

            /// Sets an option that is swept to the value that `number` reads, within a range, or to the one of some words that `word`
            /// reads. `false`: it is another one.
            pub fn sweep(
                &mut self,
                option: &str,
                number: impl Fn(u64, u64) -> Result<u64, Failure>,
                word: impl Fn(&'static [&'static str]) -> Result<&'static str, Failure>,
            ) -> Result<bool, Failure> {
                $(
                    for swept in <dm_core::$kind::parameters::Parameters as CommandLine>::SWEPT {
                        if swept.name == option {
                            match swept.values {
                                Values::Numbers(least, most, set) => set(&mut self.$kind, number(least, most)?),
                                Values::Words(words, set) => set(&mut self.$kind, word(words)?),
                            }
                            return Ok(true);
                        }
                    }
                )*
                Ok(false)
            }
        }
    };
}

for_each_kind! { [kinds] }

/// See [`KindName::create`]. `other` is an option of another kind that was given.
fn created<P: CommandLine>(
    sizes: (usize, usize),
    spans: Spans,
    options: &P::Create,
    other: Option<&str>,
) -> Result<P, Failure> {
    if let Some(option) = other {
        let one = if P::TITLE.starts_with(['A', 'E', 'I', 'O']) { "an" } else { "a" };
        return Err(Failure::Usage(format!("--{option}: {one} {} index has none", P::TITLE)));
    }
    P::create(sizes, spans, options)
}

/// See [`KindName::soak`].
fn soaked<P: CommandLine>(value_bytes: usize, owners: u32, keys: u64) -> Result<(P, bool), Failure> {
    let small = P::with_sizes(8, value_bytes).small();
    let (parameters, is_cut) = small.cut(owners, keys).map_or((small, false), |cut| (cut, true));
    parameters.check().map_err(Failure::usage)?;
    Ok((parameters, is_cut))
}

const fn is_radix_of<P: CommandLine>(_: &P) -> bool {
    P::IS_RADIX
}

const fn title_of<P: CommandLine>(_: &P) -> &'static str {
    P::TITLE
}

/// Whether the index is a radix tree: see [`CommandLine::IS_RADIX`].
pub fn is_radix(parameters: &IndexParameters) -> bool {
    match_kind!(&parameters.below, Below(below) => is_radix_of(below))
}

fn cache_bytes_of<P: CommandLine>(_: &P, spending: &Spending) -> u64 {
    P::cache_bytes(spending)
}

/// Bytes that a compute node spends on caches.
pub fn cache_bytes(parameters: &IndexParameters, spending: &Spending) -> u64 {
    match_kind!(&parameters.below, Below(below) => cache_bytes_of(below, spending))
}

fn has_lock_words_of<P: CommandLine>(_: &P) -> bool {
    P::HAS_LOCK_WORDS
}

/// Whether its locks have one holder each, which frees the lock's word.
pub fn has_lock_words(parameters: &IndexParameters) -> bool {
    match_kind!(&parameters.below, Below(below) => has_lock_words_of(below))
}

fn pool_bytes_of<P: CommandLine>(_: &P, spending: &Spending) -> u64 {
    P::pool_bytes(spending)
}

/// Bytes of the pool that a compute node takes for itself, and that are no nodes.
pub fn pool_bytes(parameters: &IndexParameters, spending: &Spending) -> u64 {
    match_kind!(&parameters.below, Below(below) => pool_bytes_of(below, spending))
}

/// The name of its kind in messages.
pub fn title(parameters: &IndexParameters) -> &'static str {
    match_kind!(&parameters.below, Below(below) => title_of(below))
}

/// Scratch of a lane.
pub fn scratch(parameters: &IndexParameters, spending: &Spending) -> dm_core::operation::ScratchPlan {
    let (page_records, leaves_at_once) = (spending.page_records, spending.leaves_at_once);
    match_kind!(&parameters.below, Below(below) => KindParameters::plan(below, page_records, leaves_at_once).0)
}
