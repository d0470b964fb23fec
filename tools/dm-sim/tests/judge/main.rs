//! Tests of indexes by the judge.

mod combining;
mod deaths;
mod items;
mod mixtures;
mod reuse;
mod wide;
