//! What Dolphin's remote bytes mean. Its slots and nodes are [`crate::radix::slot`]'s, of tiles
//! ([`crate::radix::floor`]).
//!
//! | file | what it is |
//! |---|---|
//! | [`shape`] | where the cells of a leaf lie, for every size of keys and values |
//! | [`leaf`] | leaves: head, bounds, key cells, value cells |
//! | [`block`] | values longer than a line |
//!
//! Decoding answers [`DecodeError`](crate::error::DecodeError): `Torn` (READ again), `Stale` (find the way anew) or
//! `Corrupt`. It never panics, whatever the bytes.

pub mod block;
pub mod leaf;
pub mod shape;

#[cfg(test)]
mod tests;
