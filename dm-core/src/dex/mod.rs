//! DEX: partitions of keys with owners, which cache leaves, dirty, and write them back.
//!
//! After Lu et al., "DEX: Scalable Range Indexing on Disaggregated Memory" (PVLDB 17(10), 2024).
//!
//! ```text
//!  memory node 0                compute node                               memory nodes
//! ┌───────────────────────┐    ┌─────────────────────────────────────┐    ┌───────────────────────┐
//! │ entry 0: row 3, epoch │    │ inner nodes, copied, clean          │    │ inner nodes, shared   │
//! │ entry 1: row 7, epoch │◄──►│ leaves of its own entries, dirty    │───►│ leaves                │ flush: image, page
//! │ entry 2: free         │    │ log lines that are not durable      │───►│ ring of log lines     │ group: head, lines
//! └───────────────────────┘    └─────────────────────────────────────┘    └───────────────────────┘
//! ```
//!
//! **What exists**: an index that opens itself, takes entries when operations need them, serves and scans them, splits
//! leaves and merges them, recovers the entries of dead owners, moves entries to other owners, moves nodes off a memory
//! node, and gives its own up. A session that is closed gives its entries up, so that another compute node can claim them.
//!
//! | room | what it is | exists |
//! |---|---|---|
//! | [`plan`] | the whole index, argued: what an acknowledgement means, deaths, races, holes, steps | |
//! | [`ownership`] | which compute node has which keys: the table, changes of owners, tenures | yes |
//! | [`log`] | the ring of a compute node: records, groups, head, replay | yes |
//! | [`image`] | images of pages in front of their flushes | layout, and which image counts |
//! | [`pages`](crate::pages) | frames of leaves: fills, changes, dirty pages, eviction; log sequence numbers | yes |
//! | [`flush`] | a page goes to its memory node: image, page, completion | yes |
//! | [`restore`], [`recover`] | what a dead owner has left: torn pages, its log, admission | yes |
//! | [`leaf`] | leaves: Sherman's, with an LSN | yes |
//! | [`parameters`] | what is fixed at creation, and the catalog's block | yes |
//! | [`step`] | what an operation does to a leaf that covers its key | yes |
//! | [`offload`] | a memory node's processor looks for a key, changes a leaf, takes records | yes |
//! | [`serve`] | creation, gets, changes, scans, splits, merges; what an answer means | yes |

pub mod flush;
pub mod image;
pub mod leaf;
pub mod log;
pub(crate) mod marks;
pub mod mutants;
pub mod offload;
pub mod ownership;
pub mod parameters;
pub mod recover;
pub mod restore;
pub mod serve;
pub mod step;
#[cfg(test)]
mod tests;
pub use serve::Dex;

use crate::marks::Mark;

/// Marks of this room.
pub const MARKS: &[Mark] = marks::DECLARED;

#[doc = include_str!("plan.md")]
pub mod plan {}
