//! The manual: the words of this crate, and the proofs that its rooms rely on, one page each.
//!
//! Begin with the [`glossary`]. A page of a proof has the claim, the rule, why the rule is enough, the race that it
//! closes, and the mutants ([`crate::mutants`]) that show that the rule is needed. The code points to its page.
//!
//! | page | question |
//! |---|---|
//! | [`glossary`] | what does a word mean |
//! | [`pictures`] | what do the house, the leaves and the requests of operations look like |
//! | [`drivers`] | what does a driver supply, on firmware or elsewhere |
//! | **every index** | |
//! | [`locks`] | why is a lock held once, and never for ever |
//! | [`unlocks`] | when may a WRITE free a lock |
//! | [`leases`] | when does a compute node count as unresponsive |
//! | [`rows`] | why do row and incarnation never name two compute nodes |
//! | [`redo_records`] | how is a WRITE completed that a death cut short |
//! | [`takeover`] | how is a dead holder's lock taken over |
//! | [`crashes`] | what does each crash leave, and what finishes it |
//! | [`epochs`] | when does no compute node have a pointer any more |
//! | [`generations`] | why may most places be reused at once |
//! | [`orphans`] | how is memory of departed compute nodes found, with owner tags |
//! | [`mark_and_sweep`] | how is it found without |
//! | [`batches`] | why may lanes share one operation |
//! | [`cache_frames`] | why does a reader of the index cache need no lock |
//! | [`page_store`] | why is no change of a cached leaf lost, and why does nobody wait for it for ever |
//! | **B+-trees** | |
//! | [`torn_reads`] | why is an accepted image of one WRITE |
//! | [`half_splits`] | why may a split stop half-way |
//! | [`merges`] | why may a merge stop half-way |
//! | [`btree_scans`] | what does a scan promise |
//! | **CHIME** | |
//! | [`chime_leaf_identity`] | how does a part of a leaf tell which leaf it is of |
//! | [`chime_neighborhoods`] | why is a key found that hops |
//! | [`chime_entries`] | when is one entry enough |
//! | [`chime_splits`] | why does a split make room, and the sibling need no lock |
//! | **SMART** | |
//! | [`smart_records`] | why is a record, or its absence, believed |
//! | [`tombstones`] | how do deleted leaves leave the tree |
//! | [`node_replacement`] | how is a full node replaced |
//! | [`smart_memory`] | when is memory reused |
//! | [`smart_scans`] | what do scans and collections meet |
//! | [`node_copies`] | what may a copy of a node be |
//! | [`smart_published`] | what does the published design get wrong |
//! | **Items** | |
//! | [`items_layers`] | why is an operation on keys of any length one change |
//! | [`items_memory`] | how long do blocks stay, and what does a crash leave |

#[doc = include_str!("glossary.md")]
pub mod glossary {}
#[doc = include_str!("drivers.md")]
pub mod drivers {}
#[doc = include_str!("locks.md")]
pub mod locks {}
#[doc = include_str!("unlocks.md")]
pub mod unlocks {}
#[doc = include_str!("leases.md")]
pub mod leases {}
#[doc = include_str!("rows.md")]
pub mod rows {}
#[doc = include_str!("redo_records.md")]
pub mod redo_records {}
#[doc = include_str!("takeover.md")]
pub mod takeover {}
#[doc = include_str!("crashes.md")]
pub mod crashes {}
#[doc = include_str!("epochs.md")]
pub mod epochs {}
#[doc = include_str!("generations.md")]
pub mod generations {}
#[doc = include_str!("orphans.md")]
pub mod orphans {}
#[doc = include_str!("mark_and_sweep.md")]
pub mod mark_and_sweep {}
#[doc = include_str!("batches.md")]
pub mod batches {}
#[doc = include_str!("cache_frames.md")]
pub mod cache_frames {}
#[doc = include_str!("page_store.md")]
pub mod page_store {}
#[doc = include_str!("torn_reads.md")]
pub mod torn_reads {}
#[doc = include_str!("half_splits.md")]
pub mod half_splits {}
#[doc = include_str!("merges.md")]
pub mod merges {}
#[doc = include_str!("btree_scans.md")]
pub mod btree_scans {}
#[doc = include_str!("chime_leaf_identity.md")]
pub mod chime_leaf_identity {}
#[doc = include_str!("chime_neighborhoods.md")]
pub mod chime_neighborhoods {}
#[doc = include_str!("chime_entries.md")]
pub mod chime_entries {}
#[doc = include_str!("chime_splits.md")]
pub mod chime_splits {}
#[doc = include_str!("smart_records.md")]
pub mod smart_records {}
#[doc = include_str!("tombstones.md")]
pub mod tombstones {}
#[doc = include_str!("node_replacement.md")]
pub mod node_replacement {}
#[doc = include_str!("smart_memory.md")]
pub mod smart_memory {}
#[doc = include_str!("smart_scans.md")]
pub mod smart_scans {}
#[doc = include_str!("node_copies.md")]
pub mod node_copies {}
#[doc = include_str!("smart_published.md")]
pub mod smart_published {}
#[doc = include_str!("items_layers.md")]
pub mod items_layers {}
#[doc = include_str!("items_memory.md")]
pub mod items_memory {}
/// What things look like, in `cargo doc`. The tools draw these pictures from the tables of layouts, the goldens of requests and the sources; a test
/// holds them against it.
///
/// # The house
///
#[cfg_attr(doc, doc = include_str!("pictures/house.svg"))]
///
/// # Leaves
///
#[cfg_attr(doc, doc = include_str!("pictures/leaf-sherman.svg"))]
///
#[cfg_attr(doc, doc = include_str!("pictures/leaf-chime.svg"))]
///
#[cfg_attr(doc, doc = include_str!("pictures/leaf-smart.svg"))]
///
#[cfg_attr(doc, doc = include_str!("pictures/leaf-dolphin.svg"))]
///
#[cfg_attr(doc, doc = include_str!("pictures/leaf-dex.svg"))]
///
/// # Requests of operations
///
#[cfg_attr(doc, doc = include_str!("pictures/verbs-sherman.svg"))]
///
#[cfg_attr(doc, doc = include_str!("pictures/verbs-chime.svg"))]
///
#[cfg_attr(doc, doc = include_str!("pictures/verbs-smart.svg"))]
///
#[cfg_attr(doc, doc = include_str!("pictures/verbs-dolphin.svg"))]
///
#[cfg_attr(doc, doc = include_str!("pictures/verbs-dex.svg"))]
pub mod pictures {}
