//! Mutants: the toy has none of its own.

crate::mutants::declare_mutants! {}
