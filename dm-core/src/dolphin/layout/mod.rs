//! What Dolphin's remote bytes mean.
//!
//! | file | what it is |
//! |---|---|
//! | [`slot`] | slot words: a leaf with its generation, a void with its tile, a node |
//! | [`node`] | nodes of tiles, and the floor look-up in an image of one |
//! | [`shape`] | where the cells of a leaf lie, for every size of keys and values |
//! | [`leaf`] | leaves: head, bounds, key cells, value cells |
//! | [`block`] | values longer than a line |
//!
//! Decoding answers [`DecodeError`](crate::error::DecodeError): `Torn` (READ again), `Stale` (find the way anew) or
//! `Corrupt`. It never panics, whatever the bytes.

pub mod block;
pub mod leaf;
pub mod node;
pub mod shape;
pub mod slot;

#[cfg(test)]
mod tests;
