//! Bit-exact building blocks that more than one structure uses.
//!
//! - [`stripes`]: cache-line versions, the codec of every node.
//! - [`city`]: CityHash64, by which hashed structures place keys.
//! - [`fields`]: field maps - the table of a structure's fields, from which the goldens under `layouts/` are made.

pub mod city;
pub mod fields;
pub mod stripes;
