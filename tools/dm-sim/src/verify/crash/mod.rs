//! Deaths: compute nodes that die in the middle of an operation, and what the survivors make of it.
//!
//! [`enumerate`](mod@enumerate) goes through *every* point at which an operation may be cut short: for each of its submits, every
//! prefix of every chain, and for the WRITE after the prefix every part of it that may have landed; landed at once, or
//! only while the memory nodes are being asked to fence. Each point is a run of its own from zeroed memories, without
//! concurrency: a *table* ([`table`]) executes requests one after the other. Then the survivors go on, in several
//! orders, and are judged by a model. What they do is cut short in turn: repairers die, too.
//!
//! [`cases`]: which operations, on which trees.

pub mod cases;
pub mod enumerate;
pub mod table;

pub use cases::{Act, Case};
pub use enumerate::{Enumeration, enumerate};
