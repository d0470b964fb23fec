//! Mutants: bugs that are put in on purpose, to test whether the judge finds them.
//!
//! Each is one line in the room to which it belongs, or in a simulator that stands for a host or a memory node:
//! `if planted(Mutant::X) { do it wrong }`. Without the cargo feature
//! `planted` the function is a constant `false`, and the lines compile to nothing: no product has them. With the
//! feature, a tool chooses one mutant with `plant`; none is the default.
//!
//! A room declares its mutants in its file `mutants`; [`rooms`](crate::rooms) has all of them.

use core::fmt;

/// In which histories a mutant shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// In any.
    Anywhere,
    /// In those in which compute nodes die.
    Deaths,
    /// In those in which WRITEs fail with their queue pair, and the queue pair is set up again.
    BrokenQueuePairs,
    /// In those in which places are used again while operations pause.
    Reuse,
    /// In those with options, sizes and events that most histories never have, and whose compute nodes are recovered.
    Wide,
}

/// A mutant: a bug that can be planted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mutant {
    number: u8,
    name: &'static str,
    what: &'static str,
    shows: Shows,
}

impl Mutant {
    /// A mutant with a number that no other has: [`rooms`](crate::rooms) does not compile otherwise.
    pub(crate) const fn new(number: u8, name: &'static str, what: &'static str, shows: Shows) -> Self {
        Self { number, name, what, shows }
    }

    /// Its number. [`u8::MAX`] is nobody's.
    pub const fn number(self) -> usize {
        self.number as usize
    }

    /// Its name on command lines and in tables.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// What the mutant does wrong.
    pub const fn what(self) -> &'static str {
        self.what
    }

    /// In which histories it shows.
    pub const fn shows(self) -> Shows {
        self.shows
    }
}

impl fmt::Debug for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Declares the mutants of a room: `FIRST; NAME = "text", ...`, or `NAME = "text" => Deaths` if it shows only in these
/// histories ([`Shows`]). They are numbered from `FIRST` on, and become constants of [`Mutant`].
macro_rules! declare_mutants {
    () => {
        /// The mutants that this room declares: none.
        pub const DECLARED: &[$crate::mutants::Mutant] = &[];
    };
    ($first:literal; $($(#[doc = $doc:literal])+ $NAME:ident = $text:literal $(=> $shows:ident)?,)*) => {
        const _: () = {
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Place { $($NAME,)* }

            impl $crate::mutants::Mutant {
                $($(#[doc = $doc])+ pub const $NAME: Self = Self::new(
                    $first + Place::$NAME as u8,
                    $text,
                    concat!($($doc),+),
                    $crate::mutants::shows!($($shows)?),
                );)*
            }
        };

        /// The mutants that this room declares.
        pub const DECLARED: &[$crate::mutants::Mutant] = &[$($crate::mutants::Mutant::$NAME,)*];
    };
}

macro_rules! shows {
    () => {
        $crate::mutants::Shows::Anywhere
    };
    ($shows:ident) => {
        $crate::mutants::Shows::$shows
    };
}

pub(crate) use {declare_mutants, shows};

#[cfg(feature = "planted")]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(u8::MAX);

/// Plants a mutant, or none, for the whole process.
#[cfg(feature = "planted")]
pub fn plant(mutant: Option<Mutant>) {
    PLANTED.store(mutant.map_or(u8::MAX, |mutant| mutant.number), core::sync::atomic::Ordering::Relaxed);
}

/// Whether this mutant is planted.
#[cfg(all(feature = "planted", not(test)))]
#[inline]
pub fn planted(mutant: Mutant) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == mutant.number
}

/// Whether this mutant is planted: no.
#[cfg(not(any(feature = "planted", test)))]
#[inline]
pub const fn planted(_: Mutant) -> bool {
    false
}

#[cfg(test)]
pub(crate) use in_tests::{planted, with_planted};

/// In unit tests a mutant is planted for the calling thread and one closure, since tests run side by side.
#[cfg(test)]
mod in_tests {
    extern crate std;
    use super::Mutant;
    use core::cell::Cell;

    std::thread_local! {
        static PLANTED: Cell<Option<u8>> = const { Cell::new(None) };
    }

    /// Whether this mutant is planted in this thread.
    pub(crate) fn planted(mutant: Mutant) -> bool {
        PLANTED.get() == Some(mutant.number)
    }

    /// Runs `test` with a mutant, or with none, also if `test` panics.
    pub(crate) fn with_planted<R>(mutant: Option<Mutant>, test: impl FnOnce() -> R) -> R {
        struct Restore(Option<u8>);
        impl Drop for Restore {
            fn drop(&mut self) {
                PLANTED.set(self.0);
            }
        }
        let _restore = Restore(PLANTED.replace(mutant.map(|mutant| mutant.number)));
        test()
    }
}
