//! SMART: an adaptive radix tree whose nodes are changed by CAS and whose records are READ one by one.
//!
//! After Luo et al., "SMART: A High-Performance Adaptive Radix Tree for Disaggregated Memory" (OSDI 2023; extended in ACM
//! TOS 20(3), 2024). Slots, nodes and copies of nodes are [`crate::radix`]'s.
//!
//! ```text
//!  catalog            node at position 0        node at position 3           leaf
//! ┌───────────┐      ┌────────────────────┐    ┌─────────────────────┐    ┌──────┬───────┬─────┬──────┐
//! │ root slot │─────►│ header │ a │ k │ .. │───►│ header "eb" │ r │ .. │───►│ seal │ value │ key │ lock │
//! └───────────┘      └────────────────────┘    └─────────────────────┘    └──────┴───────┴─────┴──────┘
//! ```
//!
//! # Round trips
//!
//! With the key's slot known from copies (a miss adds one READ a node that is not copied, and one if not even the root slot
//! is known), new memory on the slot's memory node:
//!
//! | operation | round trips | requests |
//! |---|---|---|
//! | get of a record, present or deleted | 1 | READ leaf |
//! | get of a key that has no leaf, its byte in no slot | 1 | READ node |
//! | ... its slot leads to another key's leaf | 3 | READ leaf; READ slot; READ leaf |
//! | update, upsert, `update_if`, delete of a record | 3 | READ leaf; CAS lock + READ leaf; WRITE seal and value + CAS unlock |
//! | ... with [`Options::chain_lock_read`](crate::btree::Options) | 2 | CAS lock + READ leaf; WRITE + CAS unlock |
//! | insert of a record that is there; the others of one that is not | 1 | READ leaf |
//! | insert into an empty slot | 2 | READ node; WRITE leaf + CAS slot |
//! | insert of a deleted record | 3 | as update |
//! | leaf split | 4 | READ leaf; READ slot; READ leaf; WRITE nodes + WRITE leaf + CAS slot |
//! | header split | 4 | READ node; READ slot; READ node; WRITE node + WRITE leaf + CAS slot |
//! | insert into a full node of S slots | 2 + S/16 | READ node; S CAS freeze; WRITE node + WRITE leaf + CAS slot |
//! | scan | 1 + a READ a node + leaves / leaves READ at once | READ root slot; READ node; READ leaves of a node in parallel |
//!
//! New memory elsewhere adds one: the WRITE has to be done before the CAS is posted. A lock handed over saves CAS and
//! unlock.
//!
//! # Rooms
//!
//! | room | what it is |
//! |---|---|
//! | [`parameters`] | what is fixed at creation |
//! | [`layout`] | leaves |
//! | `search` | descents; get |
//! | `lock` | locks of leaves |
//! | `recover` | what survivors do for the dead |
//! | `write` | insert, update, upsert, `update_if`, delete, of a key that has a leaf |
//! | `insert` | slots and splits for one that has none |
//! | `switch` | full nodes |
//! | `walk` | scans; the walk that checks everything |
//! | `bulk` | bulk loads |
//!
//! # Why it is right
//!
//! *A key has at most one leaf, for ever.* A leaf's key never changes, a leaf is never taken out of the tree, and its memory
//! is never used for another one. A delete says so in the leaf ("tombstone"); an insert of the key brings it back. A leaf
//! comes into the tree by one CAS: of an empty slot of the node that the key's byte belongs to, of which it is known that no
//! slot has that byte ([`crate::radix`]: slots fill in ascending order, whoever tries one has seen all in front of it), or
//! of a slot whose word led to something else than the key's path. So:
//!
//! *Whoever holds an image of a leaf with the right key has the record*, however it got there and however old the slot was: get
//! and writes linearize at that leaf alone, its READ or its WRITE under its lock, and owe nothing to the structure above.
//!
//! *Absence is an answer of the structure*, and has to be seen at an instant within the call ("fresh"). A slot word that a
//! copy has may be old: another node may be in between now, or a larger one instead. So a leaf of another key, or a
//! node of another prefix, that only a copy led to means nothing before the slot has been READ and has the same word.
//! What is READ itself is fresh:
//!
//! - The root slot, READ now.
//! - A word that is not frozen, in a node READ now: a node is replaced only after all its slots are frozen, so when this
//!   word was READ the node was part of the tree. (Nodes get into the tree before anybody knows of them.)
//! - A frozen word, in a node READ now to which a fresh word led: if it was frozen when that word was READ, it was there then;
//!   else there is an instant in between at which it had just been frozen, and the node had not been replaced.
//! - That no slot of a node has the key's byte: if some slot is not frozen, at the instant the first empty slot was READ,
//!   all behind it were empty, and those in front have other bytes for ever; of a node that is full, whenever any slot that
//!   is not frozen was READ. If all are frozen, when the fresh word that led there was READ.
//!
//! *Every change of a slot expects the word it was decided on*, raw, as it was READ. No word comes back: a slot goes from
//! empty to a leaf, to new nodes above it, to replacements of these, and is frozen at last; none of their addresses is
//! used twice. So a CAS that wins was decided on what is there.
//!
//! *Updates.* A leaf is written by the holder of its lock only, and only its seal and value: not its key, which others compare,
//! nor its lock, which others CAS. The image that counts is READ behind the CAS that took the lock. The WRITE is over before
//! the CAS that unlocks (WRITE before atomic of one chain).
//!
//! # What it assumes
//!
//! WORD_ATOMIC (slots, seals); WRITE_THEN_WRITE and WRITE_THEN_ATOMIC (what is new before the slot that leads there; data
//! before unlock); ATOMIC_THEN_READ (the leaf behind its lock); COMPLETION_IS_VISIBLE (what is new on one memory node
//! before the slot on another). Nothing about lines or how long a READ takes: a seal fits one image, and words of one
//! READ are never related to each other by time. ATOMIC_EXCLUDES_WRITE and FAILED_CAS_IS_SILENT are *not* needed: once
//! published, words under CAS are never written otherwise.
//!
//! # Where it departs from the paper, and why
//!
//! - **No reverse pointers.** They are hints that have to be repaired, and each leaf and node pays 8 bytes and each split an
//!   atomic for them. Absence that a copy suggests is confirmed at the slot in any case, one READ of 8 bytes.
//! - **Headers do not change.** A header split puts a node above, and the old one keeps bytes that are then in the path, too:
//!   they cannot differ from the path, so it does not matter who compares them. No header CAS, no race of two trimmers.
//! - **A node has room for its own slots.** The paper reserves 2 KB for each, so that it grows in place; here a full node is
//!   frozen and replaced, at about one CAS more for each slot filled. So a slot that readers cannot see does not exist, and a
//!   type is the same in slot and header. Units of 16 bytes, 40 bits of them: 16 TB a memory node, 256 memory nodes.
//! - **Deletes are tombstones under the leaf's lock**, slots stay as they are, nodes never shrink. The paper's clears
//!   slots and merges nodes, which loses inserts.
//! - **The lock names its holder**, in a word of its own; it is released by CAS. The paper's is a bit at the end of the data,
//!   written back with it, and asks that a WRITE lands in ascending order.
//! - **The root slot and the top node are copied** like all others.
//! - **Copies are found by the slot that leads to their node**, not by prefix: a lookup follows the path as a descent does.
//! - **The leaf's length is not in the slot**: all leaves have one length. Those seven bits are 0.
//! - **Items of variable length are entries with blocks** ([`crate::items`]), not leaves that move. The paper writes another leaf
//!   and CASes the slot; then a copy of the slot leads to the old leaf, which has the right key and says it is valid until a
//!   later WRITE, so it has to be sealed first. Here what a slot leads to never moves: a leaf has an entry of fixed size, which
//!   is changed in place under its lock, and names the block. Nothing that is copied leads to a block, so each READ of one follows
//!   a READ of its leaf, in the same operation, and an entry that was changed is seen. The place of a block is given back after
//!   the leaf names it no more, and its life, its length and its checksum tell who READs it too late.
//!
//! # What the published design gets wrong, and where that would be here
//!
//! | there | here | planted as |
//! |---|---|---|
//! | an update writes the leaf back as it was before its lock was taken, flags and all | it decides on the image READ behind the lock's CAS, and writes seal and value | `leaf-before-lock`, `whole-leaf` |
//! | absence found through an old slot is believed | the slot is READ again | `cached-negative` |
//! | a writer goes on below a slot that readers cannot see yet | there are none; what comes nearest is a change below a frozen slot | `frozen-followed` |
//! | a late repair sets a reverse pointer back | no reverse pointers | |
//! | a delete clears the slot, and two inserts then fill two slots with one byte | slots stay | `delete-clears-slot`, `same-byte-twice` |
//! | a delete ignores the leaf's lock | it takes it | `delete-unlocked` |
//! | an insert is lost in a node that a merge is about to drop | nodes are dropped only when they grow, after all slots are frozen | `switch-unfrozen` |
//! | a merge of headers changes two words on two nodes, and may need more than six bytes | headers do not change, nodes do not merge | |
//! | a delete whose merge lost begins anew and reports absence | nothing follows the WRITE of a delete but its unlock; what comes nearest is another look | `delete-looks-again` |
//! | a replaced leaf is valid until a WRITE that nobody waits for | leaves are changed in place; of items, too | |
//!
//! # Open limits
//!
//! - Keys and values of one size, but for items.
//! - A deleted record keeps its leaf; nodes that were replaced keep their memory (together less than the nodes that are in
//!   use). Slots have no room for a generation, and copies that lead to a node may be kept for ever, so places that were
//!   published once are not used for anything else: bulk-load anew to get them back. What was carved by an operation that was
//!   dropped or failed, or by a compute node that died, is lost; nobody adopts it.
//! - Cached look-ups on shared memory take longer than Sherman's: their copies of nodes are as large as the records, and most of
//!   the time is spent waiting for lines of those.
//! - Opened without recovery: a compute node that dies while it holds a leaf's lock keeps it, and a leaf torn by a writer that
//!   died is reported as corrupt.
//! - When a slot was confirmed, what it leads to is READ once more, though it cannot have changed.
//! - A bulk load inserts record by record.
//! - `entry_writes`, `narrow_locks` and `read_guard` have nothing to switch here.

mod bulk;
mod insert;
pub mod layout;
mod lock;
pub mod parameters;
mod recover;
mod search;
mod switch;
mod walk;
mod write;

use crate::btree::{Options, RESTARTS_MAX};
use crate::compute::batches::{Batches, Begun};
use crate::compute::locks::LockTable;
use crate::error::{Cause, OpError};
use crate::index::{Census, Index, Operation, OperationKind, Outcome, ScratchPlan};
use crate::lane::{Lane, Mark};
use crate::radix::cache::NodeCache;
use crate::radix::slot::{MEMORY_NODES_MAX, Place};
use crate::radix::space::Space;
use crate::recovery::Recovery;
use crate::recovery::sweep::Swept;
use crate::remote::HOME;
use crate::remote::NodeGeometry;
use crate::remote::catalog::{IndexNumber, root_offset};
use crate::remote::chunks::RequestIds;
use crate::remote::lock_word::RowId;
use crate::remote::rows::Member;
use crate::verbs::{Assumptions, Capabilities};
use bulk::BulkLoad;
use layout::LeafShape;
use parameters::{ParameterError, Parameters, Scratch};
use spin::Mutex;

/// Marks that this room counts itself; those of [`crate::remote::chunks::MARKS`] come on top.
pub const MARKS: &[Mark] = &[
    Mark::TornRead,
    Mark::LockedRead,
    Mark::StaleCache,
    Mark::LockLost,
    Mark::LockQueued,
    Mark::HandOver,
    Mark::LeafSplit,
    Mark::Restart,
    Mark::Settled,
    Mark::HeaderSplit,
    Mark::LongPath,
    Mark::TypeSwitch,
    Mark::HelpedSwitch,
    Mark::SwitchLost,
    Mark::SlotLost,
    Mark::SameByte,
    Mark::Confirmed,
    Mark::FrozenSlot,
    Mark::Revived,
];

/// What a SMART index on one compute node is put together from.
pub struct Parts<'s> {
    /// Number in the catalog.
    pub number: IndexNumber,
    /// This compute node.
    pub owner: Member,
    /// Numbers of this compute node's requests for chunks.
    pub requests: &'s RequestIds,
    /// Memory nodes of the pool, by logical number; at least one, at most [`MEMORY_NODES_MAX`].
    pub geometry: &'s [NodeGeometry],
    /// What the fabric offers.
    pub capabilities: Capabilities,
    /// Techniques.
    pub options: Options,
    /// Local queues: `locks_per_node` entries per memory node, a waiter per lane.
    pub locks: LockTable<'s>,
    /// Local entries per memory node, at least 1.
    pub locks_per_node: u32,
    /// Operations of several lanes on one key.
    pub batches: Batches<'s>,
    /// Memory ready for use.
    pub space: Space<'s>,
    /// Copies of nodes.
    pub cache: NodeCache<'s>,
    /// What makes its locks recoverable; `None`: a dead holder's locks stay held.
    pub recovery: Option<&'s Recovery<'s>>,
}

/// A SMART index on one compute node: all its lanes share this.
pub struct Smart<'s> {
    number: IndexNumber,
    /// Catalog number plus 1: what nodes carry.
    index: u8,
    owner: Member,
    requests: &'s RequestIds,
    geometry: &'s [NodeGeometry],
    /// Where the root slot is.
    root: Place,
    capabilities: Capabilities,
    options: Options,
    locks: LockTable<'s>,
    locks_per_node: u32,
    batches: Batches<'s>,
    space: Space<'s>,
    cache: NodeCache<'s>,
    recovery: Option<&'s Recovery<'s>>,
    leaf: LeafShape,
    plan: ScratchPlan,
    scratch: Scratch,
    bulk: Mutex<BulkLoad>,
}

impl<'s> Smart<'s> {
    /// Puts an index together. `plan` comes from [`Parameters::plan`].
    pub fn new(
        parts: Parts<'s>,
        parameters: &Parameters,
        (plan, scratch): (ScratchPlan, Scratch),
    ) -> Result<Self, ParameterError> {
        parameters.check()?;
        let Parts { number, owner, requests, geometry, capabilities, options, .. } = parts;
        debug_assert!(geometry.len() <= MEMORY_NODES_MAX);
        let root = geometry.first().map_or(0, |home| root_offset(home, number));
        Ok(Self {
            number,
            index: number.get() + 1,
            owner,
            requests,
            geometry,
            root: Place::new(HOME, root),
            capabilities,
            options,
            locks: parts.locks,
            locks_per_node: parts.locks_per_node,
            batches: parts.batches,
            space: parts.space,
            cache: parts.cache,
            recovery: parts.recovery,
            leaf: parameters.leaf(),
            plan,
            scratch,
            bulk: Mutex::new(BulkLoad::default()),
        })
    }

    /// Shape of leaves.
    pub const fn leaf_shape(&self) -> &LeafShape {
        &self.leaf
    }

    /// Numbers of this compute node's requests for chunks.
    pub const fn requests(&self) -> &'s RequestIds {
        self.requests
    }

    /// Copies of nodes.
    pub const fn cache(&self) -> &NodeCache<'s> {
        &self.cache
    }

    /// Memory for nodes and leaves.
    pub const fn space(&self) -> &Space<'s> {
        &self.space
    }

    /// Local lock entries with a holder.
    pub fn locks_held(&self) -> usize {
        self.locks.held()
    }

    /// Counts an attempt at something that others may keep from succeeding, against the operation's bounds.
    fn attempt(lane: &Lane<'_>, attempts: &mut u32, what: &'static str) -> Result<(), OpError> {
        *attempts += 1;
        if *attempts > RESTARTS_MAX {
            return Err(OpError::harmless(Cause::Retries { attempts: RESTARTS_MAX, what }));
        }
        lane.check_deadline()
    }
}

impl Index for Smart<'_> {
    fn plan(&self) -> &ScratchPlan {
        &self.plan
    }

    fn assumptions(&self) -> Assumptions {
        Assumptions::WORD_ATOMIC
            | Assumptions::WRITE_THEN_WRITE
            | Assumptions::WRITE_THEN_ATOMIC
            | Assumptions::ATOMIC_THEN_READ
            | Assumptions::COMPLETION_IS_VISIBLE
    }

    async fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Result<Outcome, OpError> {
        if lane.owes() || lane.is_joined() {
            return Err(OpError::harmless(Cause::BadInput("the lane is in doubt and has to be settled first")));
        }
        lane.set_deadline(operation.wait_ns());
        self.check_standing()?;
        lane.forget_watch();
        let mut leads = false;
        let alone = self.options.rdwc && self.batches.stays_away(operation.kind);
        if self.options.rdwc && !alone {
            match self.batches.begin(lane, &self.plan, operation.kind).await? {
                Begun::Told(outcome) => return Ok(outcome),
                begun => leads = begun == Begun::Leads,
            }
        }
        // A leader that tries again goes on leading, for the reason given at the B+-trees' `perform`.
        let result = loop {
            let result = match operation.kind {
                OperationKind::Get => self.get(lane).await,
                OperationKind::Scan => self.scan(lane, &operation).await,
                kind => self.write(lane, kind).await,
            };
            match self.unless_silent(lane, leads, result).await {
                Ok(None) => {}
                Ok(Some(outcome)) => break Ok(outcome),
                Err(error) => break Err(error),
            }
        };
        if leads {
            self.batches.finish(lane, &self.plan, &result).await?;
        }
        if alone {
            self.batches.worked_alone(lane, operation.kind);
        }
        result
    }

    async fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.set_deadline(Operation::WAIT_NS_DEFAULT);
        // The locks first: members of a batch this lane leads may be queued behind them.
        self.settle_leaves(lane).await?;
        if self.options.rdwc { self.batches.settle(lane, &self.plan).await } else { Ok(()) }
    }

    async fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Result<Census, OpError> {
        lane.set_deadline(u64::MAX);
        self.check(lane).await
    }

    async fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.set_deadline(u64::MAX);
        self.bulk_next(lane).await
    }

    async fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        lane.set_deadline(u64::MAX);
        self.bulk_end(lane).await
    }

    async fn sweep<'a>(&'a self, lane: &'a Lane<'_>, row: RowId) -> Result<Swept, OpError> {
        lane.set_deadline(u64::MAX);
        self.check_standing()?;
        lane.forget_watch();
        self.sweep_row(lane, row).await
    }

    fn cache_bytes(&self) -> (u64, u64) {
        let usage = self.cache.usage();
        (usage.used_bytes + usage.bucket_bytes, usage.budget_bytes)
    }
}
