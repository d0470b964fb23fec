//! The requests of every operation, step by step: the goldens in `tests/goldens/verbs`.

mod chime;
mod dex;
mod dolphin;
mod sherman;
mod smart;
