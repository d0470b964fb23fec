//! Marks: events that are counted, for the coverage checks of tests and the retry counters of reports.
//!
//! A room declares its marks in its file `marks`; [`rooms`](crate::rooms) has all of them.

use core::fmt;

/// Room for marks in a lane, which has a counter for each number below.
pub const MARKS_MAX: usize = 108;

/// An event that is counted: a coverage mark of tests, a retry counter of reports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    number: u8,
    name: &'static str,
}

impl Mark {
    /// A mark with a number that no other has, below [`MARKS_MAX`]: [`rooms`](crate::rooms) does not compile otherwise.
    pub(crate) const fn new(number: u8, name: &'static str) -> Self {
        Self { number, name }
    }

    /// Number of its counter.
    pub const fn number(self) -> usize {
        self.number as usize
    }

    /// Its text in reports.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Declares the marks of a room: `FIRST; NAME = "text", ...`. They are numbered from `FIRST` on, and become constants of
/// [`Mark`].
macro_rules! declare_marks {
    () => {
        /// The marks that this room declares: none.
        pub(crate) const DECLARED: &[$crate::marks::Mark] = &[];
    };
    ($first:literal; $($(#[$doc:meta])* $NAME:ident = $text:literal,)*) => {
        const _: () = {
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Place { $($NAME,)* }

            impl $crate::marks::Mark {
                $($(#[$doc])* pub const $NAME: Self = Self::new($first + Place::$NAME as u8, $text);)*
            }
        };

        /// The marks that this room declares.
        pub(crate) const DECLARED: &[$crate::marks::Mark] = &[$($crate::marks::Mark::$NAME,)*];
    };
}

pub(crate) use declare_marks;
