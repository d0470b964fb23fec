//! Locks: the queues of a compute node's lanes in front of remote lock words, and the one protocol that all indexes
//! take locks by.
//!
//! ```text
//!  lane ─► local queue ─► CAS of the remote word ─► held: WRITEs ─► unlock with the last of them
//!              ▲            │ lost: back off, and again       └───► or handover to the next lane of the queue
//!              └────────────┴─ no response for long: crate::recovery
//! ```
//!
//! - [`table`]: which lane of this compute node holds or waits for a lock, and how a held lock is handed over.
//! - `kind`: what an index says of its locks: where their words lie, what these carry, and what is READ with them.
//! - `protocol`: acquire, hand over, back off, release, settle; the same for all kinds.
//! - `chained`: whether the READ of what a lock protects follows its CAS at once.
//! - `unlock`: how a word is freed: by CAS, or by WRITE where the fabric allows that.

mod chained;
pub(crate) mod kind;
pub(crate) mod marks;
pub mod mutants;
pub(crate) mod protocol;
pub mod table;
mod unlock;

pub use chained::ChainedRead;
pub use kind::Held;
pub use unlock::Unlock;
