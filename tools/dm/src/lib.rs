//! What the command `dm` is made of, for tests to use.

pub mod layout;
