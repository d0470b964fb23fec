//! What the rooms of this crate declare, put together: every [mark](crate::marks) and every [mutant](crate::mutants).
//!
//! A room of a kind of index needs no line here: the [registry](crate::registry) names it.

use crate::marks::{MARKS_MAX, Mark};
use crate::mutants::Mutant;
use crate::{btree, compute, index, items, lane, layout, locks, membership, memory, pages, radix, recovery};

macro_rules! rooms {
    ([$($Kind:ident $kind:ident),*]) => {
        const ROOMS_MARKS: &[&[Mark]] = &[
            layout::marks::DECLARED,
            lane::marks::DECLARED,
            memory::marks::DECLARED,
            membership::marks::DECLARED,
            locks::marks::DECLARED,
            recovery::marks::DECLARED,
            compute::marks::DECLARED,
            pages::marks::DECLARED,
            index::marks::DECLARED,
            btree::marks::DECLARED,
            radix::marks::DECLARED,
            $(crate::$kind::marks::DECLARED,)*
            items::marks::DECLARED,
        ];

        const ROOMS_MUTANTS: &[&[Mutant]] = &[
            layout::mutants::DECLARED,
            lane::mutants::DECLARED,
            memory::mutants::DECLARED,
            membership::mutants::DECLARED,
            locks::mutants::DECLARED,
            recovery::mutants::DECLARED,
            compute::mutants::DECLARED,
            pages::mutants::DECLARED,
            index::mutants::DECLARED,
            btree::mutants::DECLARED,
            radix::mutants::DECLARED,
            $(crate::$kind::mutants::DECLARED,)*
            items::mutants::DECLARED,
        ];
    };
}

crate::for_each_kind! { [rooms] }

/// Every mark, room by room from the ground up.
pub const MARKS: &[Mark] = &joined::<Mark, { count(ROOMS_MARKS) }>(ROOMS_MARKS);

/// Every mutant, room by room from the ground up.
pub const MUTANTS: &[Mutant] = &joined::<Mutant, { count(ROOMS_MUTANTS) }>(ROOMS_MUTANTS);

/// The mutant with that name.
pub fn mutant(name: &str) -> Option<Mutant> {
    MUTANTS.iter().copied().find(|mutant| mutant.name() == name)
}

const fn count<T>(rooms: &[&[T]]) -> usize {
    let mut sum = 0;
    let mut room = 0;
    while room < rooms.len() {
        sum += rooms[room].len();
        room += 1;
    }
    sum
}

const fn joined<T: Copy, const COUNT: usize>(rooms: &[&[T]]) -> [T; COUNT] {
    let mut joined = [rooms[0][0]; COUNT];
    let (mut room, mut at) = (0, 0);
    while room < rooms.len() {
        let mut place = 0;
        while place < rooms[room].len() {
            joined[at] = rooms[room][place];
            at += 1;
            place += 1;
        }
        room += 1;
    }
    joined
}

// A number is given once. A room that declares more than its numbers runs into those of the next room, and has to move.
const _: () = {
    let mut at = 0;
    while at < MARKS.len() {
        assert!(MARKS[at].number() < MARKS_MAX, "a lane has no counter for this mark");
        let mut other = 0;
        while other < at {
            assert!(MARKS[at].number() != MARKS[other].number(), "two marks have one number");
            other += 1;
        }
        at += 1;
    }
    let mut at = 0;
    while at < MUTANTS.len() {
        assert!(MUTANTS[at].number() != u8::MAX as usize, "that number means that no mutant is planted");
        let mut other = 0;
        while other < at {
            assert!(MUTANTS[at].number() != MUTANTS[other].number(), "two mutants have one number");
            other += 1;
        }
        at += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::planted;

    #[test]
    fn names_are_told_apart_and_lead_back() {
        for found in MUTANTS {
            assert_eq!(mutant(found.name()), Some(*found));
            assert!(!planted(*found), "{} is planted though nobody did", found.name());
        }
        for mark in MARKS {
            assert_eq!(MARKS.iter().filter(|other| other.name() == mark.name()).count(), 1, "{}", mark.name());
        }
    }
}
