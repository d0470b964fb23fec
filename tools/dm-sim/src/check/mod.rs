//! The judge of histories: compares the operations of an index's lanes, and their answers, with what indexes promise.
//!
//! ```text
//!   History ──► scan: shape of every page ──► one get per key a page covers ─┐
//!      │                                                                     ├─► items per key ──► search ──► verdict
//!      └──────► point operations ────────────────────────────────────────────┘                        │
//!                                                                                        shrink, explain (a sentence)
//! ```
//!
//! In reading order: [`history`] (what is recorded), [`model`] (what one operation needs of its key and makes of it),
//! [`linearizability`] (the search), [`scan`] (pages), [`shrink`] (the shortest history that shows a violation, in
//! words).
//!
//! # What is checked
//!
//! * **Point operations are linearizable.** Keys are independent registers, so a history is linearizable if each
//!   key's part of it is (Herlihy and Wing 1990, Theorem 1; the "P-compositionality" of Horn and Kroening 2015).
//! * **Failed operations** keep their word: [`Effect::None`](dm_core::operation::Effect::None) never took effect,
//!   [`Effect::Done`](dm_core::operation::Effect::Done) did before it responded, and
//!   [`Effect::Unknown`](dm_core::operation::Effect::Unknown) did, will or never does, but not after it is
//!   [closed](history::History::close). A failed operation without effect may have had any reason to fail.
//! * **Changes that a death may take back**, where an owner of keys acknowledges what only its memory has: a suffix of each
//!   key's, and nothing that another compute node's answer has shown (`loss`).
//! * **Scans**: keys ascend strictly within the bounds, no more than the limit, a page that says `more` is full; and
//!   for every key the page covers the scan is a get with the answer it implies: the pair, or absent. That is the
//!   whole of the weak promise: each pair was current at some instant of the call, and a key present throughout
//!   cannot be missing, because an absent answer must be explained by an instant of absence. A page with `more`
//!   covers keys up to its last one; without it, all up to the bound, which makes `more` sound.
//!
//! # What is not
//!
//! A scan is no snapshot, so nothing relates the instants of two of its keys. Deadlines and errors that should not
//! have happened are the caller's to judge.

pub mod history;
pub mod linearizability;
mod loss;
pub mod model;
pub mod scan;
pub mod search;
pub mod shrink;
#[cfg(test)]
mod tests;

pub use history::{Answer, Call, History, Moment, OpId, Record};
pub use linearizability::{Checker, Verdict};
pub use scan::PageFault;
pub use search::SearchLimit;
pub use shrink::{PageViolation, PointViolation, Violation};
