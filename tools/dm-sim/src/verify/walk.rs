//! Makes a pool for an index, and looks at the index from outside: directly in the memories, without its code. The
//! result is compared with that of the index's own `validate`. A kind of index describes itself by
//! [`MemoryWalk`](super::memory_walk::MemoryWalk): the walks of B+-trees are in [`super::btree`], those of radix trees
//! in [`super::radix`].

use super::accounting::{Holdings, Node};
use super::memory_walk::{LeafLocks, MemoryWalk as _, TreeNodes, only_holder};
use super::subject::{HeldLock, InnerNodeImages, Opened, PoolState, TestAccess};
use crate::config::Config;
use crate::memory::Memories;
use crate::pool::Pool;
use dm_core::lane::Lane;
use dm_core::match_kind;
use dm_core::memory::Collection;
use dm_core::operation::OpError;
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::{Definition, Entry, EntryState, EntryWord, IndexNumber, tag_of};
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, ChunkWord};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::{INCARNATION_MAX, Member, RowState, RowWord};
use dm_core::verbs::{Assumptions, Guarantees, NodeId};
use dm_host::assembly::Place;
use dm_host::kinds::{AnyIndex, Below, IndexParameters};
use zerocopy::IntoBytes;

/// The pool of a case: its lock tables and chunks, and the index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PoolLayout {
    /// Lock words per memory node.
    pub lock_count: u32,
    /// Bytes of every chunk.
    pub chunk_bytes: u64,
    /// Sizes.
    pub parameters: IndexParameters,
}

impl PoolLayout {
    /// For an index of any kind.
    pub const fn of(parameters: &IndexParameters, lock_count: u32, chunk_bytes: u64) -> Self {
        Self { lock_count, chunk_bytes, parameters: *parameters }
    }

    /// Its nodes, if it is a B+-tree.
    pub fn tree(&self) -> Option<TreeNodes> {
        match_kind!(&self.parameters.below, Below(below) => below.tree())
    }

    /// Bytes of the largest WRITE that needs a redo record.
    pub fn redo_bytes(&self) -> usize {
        self.parameters.redo_bytes()
    }

    /// The inner nodes.
    pub fn inner_node_images(&self, config: &Config, memories: &Memories) -> InnerNodeImages {
        let geometry = self.geometry(config);
        match_kind!(&self.parameters.below, Below(below) => below.inner_node_images(&geometry, memories))
    }

    /// Chunks of the index, and the nodes in them that it reaches.
    pub fn holdings(&self, config: &Config, memories: &Memories) -> Result<Holdings, String> {
        let geometry = self.geometry(config);
        match_kind!(&self.parameters.below, Below(below) => below.holdings(&self.parameters, &geometry, memories))
    }

    fn pool(&self, config: &Config) -> Pool {
        Pool::new(config, self.chunk_bytes, self.lock_count).expect("settings give memory nodes room for metadata")
    }

    /// The layout of the pool.
    pub fn geometry(&self, config: &Config) -> Vec<NodeGeometry> {
        self.pool(config).geometry().to_vec()
    }

    /// Writes the superblocks, and the rows that are used up.
    pub fn format(&self, config: &Config, memories: &mut Memories) {
        self.pool(config).format(memories);
        let geometry = self.geometry(config);
        let Some((home, memory)) = geometry.first().zip(memories.get_mut(NodeId(0))) else { return };
        let used_up = RowWord::new(RowState::Free, 0, INCARNATION_MAX);
        (1..=config.rows_used_up).for_each(|row| memory.host.set_word(home.row_offset(RowId(row)), used_up.0));
    }

    /// Writes the catalog entry of the index.
    pub fn format_entry(&self, config: &Config, name: &str, memories: &mut Memories) {
        let geometry = self.geometry(config);
        let Some((home, memory)) = geometry.first().zip(memories.get_mut(NodeId(0))) else { return };
        let ((parameters, parameters_version), kind) = (self.parameters.encode(), self.parameters.kind());
        let definition =
            Definition { name, kind, parameters_version, parameters, features: self.parameters.features() };
        let entry = Entry::of(&definition).expect("the name of a kind is one of an index");
        let number = IndexNumber::new(0).expect("a catalog has entries");
        let word = EntryWord::new(EntryState::Live, tag_of(name), 0, member(config, 0));
        let at = home.catalog_entry(number) as usize;
        memory.host.range_mut(at..at + entry.as_bytes().len()).copy_from_slice(entry.as_bytes());
        memory.host.set_word(home.catalog_word(number), word.0);
    }

    /// Writes rows for compute nodes that are not recovered.
    pub fn format_rows(&self, config: &Config, compute_nodes: u16, memories: &mut Memories) {
        let pool = self.pool(config);
        (0..compute_nodes).for_each(|number| pool.write_row(memories, member(config, number), "verify"));
    }

    /// Rows of `compute_nodes` from the first one that is not used up on, and chunk tables. No chunk counts as free if a memory
    /// node has fewer than the `at_once` that a compute node may ask it for.
    pub fn state(
        &self,
        config: &Config,
        compute_nodes: u16,
        memories: &Memories,
        down: Option<NodeId>,
        at_once: u32,
    ) -> PoolState {
        let mut state = PoolState::default();
        let mut has_too_few = false;
        for (number, geometry) in (0..).map(NodeId).zip(self.geometry(config)) {
            let Some(memory) = memories.get(number) else { continue };
            if number == NodeId(0) {
                let word = |row: RowId| RowWord(memory.host.word(geometry.row_offset(row)));
                let is_over = |row: &RowId| word(*row).incarnation() > 0 && word(*row).state() != Some(RowState::Live);
                let first = config.rows_used_up + 1;
                state.not_live = (first..first + compute_nodes).map(RowId).filter(is_over).collect();
            }
            if Some(number) != down {
                let word = |chunk| ChunkWord(memory.host.word(geometry.chunk_entry(chunk))).decode();
                let is_free = |chunk: &u32| match word(*chunk) {
                    Ok(ChunkEntry::Free) => true,
                    // Those that operations ask for. A chunk is used again for its own kind only.
                    Ok(ChunkEntry::Used { kind, .. }) => !matches!(kind, ChunkKind::Redo | ChunkKind::Other),
                    _ => false,
                };
                let free = (0..geometry.chunk_count).filter(is_free).count() as u32;
                has_too_few |= free < at_once;
                state.free_chunks += free;
            }
        }
        if has_too_few {
            state.free_chunks = 0;
        }
        state
    }

    /// Where the rows of the first `compute_nodes` are, on memory node 0.
    pub fn rows(&self, config: &Config, compute_nodes: u16) -> Vec<u64> {
        let geometry = self.geometry(config);
        geometry.first().map_or_else(Vec::new, |home| {
            (0..compute_nodes).map(|node| home.row_offset(member(config, node).row)).collect()
        })
    }

    /// Bytes of host memory for memory nodes with `chunks` chunks each behind the last one that is granted.
    pub fn small(&self, config: &Config, memories: &Memories, chunks: u32) -> Vec<usize> {
        let bytes = |(number, geometry): (u16, &NodeGeometry)| {
            let is_granted = |chunk: &u32| {
                let memory = memories.get(NodeId(number));
                let entry = memory.map(|memory| ChunkWord(memory.host.word(geometry.chunk_entry(*chunk))).decode());
                matches!(entry, Some(Ok(ChunkEntry::Granted(_))))
            };
            let granted = (0..geometry.chunk_count).rev().find(is_granted).map_or(0, |last| last + 1);
            geometry.chunk_offset((granted + chunks).min(geometry.chunk_count)) as usize
        };
        (0..).zip(&self.geometry(config)).map(bytes).collect()
    }

    /// The rows that a lock word names as holders.
    pub fn holders(&self) -> fn(u64) -> Vec<u16> {
        let in_leaves = match_kind!(&self.parameters.below, Below(below) => below.leaf_locks());
        in_leaves.map_or(|word| only_holder(word, u64::MAX), |locks| locks.holders)
    }

    /// Lock words that name a holder, in lock tables or in leaves.
    pub fn locks_held(&self, config: &Config, memories: &Memories) -> Vec<HeldLock> {
        let mut held = self.table_locks_held(config, memories);
        if let Some(in_leaves) = match_kind!(&self.parameters.below, Below(below) => below.leaf_locks()) {
            held.extend(self.leaf_locks_held(config, memories, in_leaves));
        }
        held
    }

    /// Looks at every place in chunks for leaves: a place that is not in use may be locked, too.
    fn leaf_locks_held(&self, config: &Config, memories: &Memories, locks: LeafLocks) -> Vec<HeldLock> {
        let LeafLocks { place_bytes, lock_at, holders, is_shared } = locks;
        let mut held = Vec::new();
        for (number, geometry) in (0..).map(NodeId).zip(self.geometry(config)) {
            let Some(memory) = memories.get(number) else { continue };
            for chunk in 0..geometry.chunk_count {
                let entry = ChunkWord(memory.host.word(geometry.chunk_entry(chunk))).decode();
                let Ok(ChunkEntry::Granted(grant)) = entry else { continue };
                if grant.kind != ChunkKind::Leaf {
                    continue;
                }
                for place in 0..geometry.chunk_bytes / place_bytes as u64 {
                    let offset = geometry.chunk_offset(chunk) + place * place_bytes as u64;
                    let at = offset + lock_at as u64;
                    let word = memory.host.word(at);
                    let of_row =
                        |row: u16| HeldLock { node: number, row: RowId(row), place: (false, at), word, is_shared };
                    held.extend(holders(word).into_iter().map(of_row));
                }
            }
        }
        held
    }

    /// Words of lock tables that name a holder.
    fn table_locks_held(&self, config: &Config, memories: &Memories) -> Vec<HeldLock> {
        let mut held = Vec::new();
        for (number, geometry) in (0..).zip(self.geometry(config)) {
            let Some(node) = memories.get(NodeId(number)) else { continue };
            let memory = node.space(geometry.lock_space);
            for index in 0..geometry.lock_count {
                let at = geometry.lock_offset(index);
                let word = memory.word(at);
                let (node, place) = (NodeId(number), (true, at));
                let of_row = |row: u16| HeldLock { node, row: RowId(row), place, word, is_shared: false };
                held.extend(only_holder(word, u64::MAX).into_iter().map(of_row));
            }
        }
        held
    }
}

/// A fabric that grants everything.
pub(super) const fn everything() -> Guarantees {
    Guarantees { by_construction: Assumptions::all(), asserted: Assumptions::empty(), profile: "" }
}

/// The row of compute node `number`, if it is not recovered.
fn member(config: &Config, number: u16) -> Member {
    Member { row: RowId(config.rows_used_up + 1 + number), incarnation: 1, nonce: 1 }
}

/// How compute node `number` opens the index.
pub(super) fn place<'a>(
    geometry: &'a [NodeGeometry],
    config: &Config,
    guarantees: Guarantees,
    number: u16,
) -> Place<'a> {
    Place {
        geometry,
        number: IndexNumber::new(0).expect("a catalog has entries"),
        member: member(config, number),
        capabilities: config.capabilities(),
        guarantees,
        recovery: None,
        requests: None,
        layers: None,
        given_up: None,
        first_sequence: 1,
        epochs: None,
    }
}

/// Opens the index of a compute node and passes it on.
type Open<'o> = dyn Fn(usize, &mut dyn FnMut(&dyn Opened)) -> Result<(), String> + 'o;

/// Opens one compute node's index after the other, each within the call that opened the one before, since their storage
/// is on the stack. `open` opens the index of a number and calls the closure that it is given.
pub(super) fn open_all(
    count: usize,
    open: &Open<'_>,
    opened: &[&dyn Opened],
    then: &mut dyn FnMut(&[&dyn Opened]),
) -> Result<(), String> {
    if opened.len() == count {
        then(opened);
        return Ok(());
    }
    let mut inside = Ok(());
    open(opened.len(), &mut |index| {
        let mut more = opened.to_vec();
        more.push(index);
        inside = open_all(count, open, &more, then);
    })?;
    inside
}

impl TestAccess for AnyIndex<'_, '_, '_> {
    fn locks_held(&self) -> usize {
        match_kind!(self, AnyIndex(form) => TestAccess::locks_held(form.below()))
    }

    fn for_each_ready(&self, visit: &mut dyn FnMut(Node)) {
        match_kind!(self, AnyIndex(form) => {
            TestAccess::for_each_ready(form.below(), visit);
            if let Some(items) = form.items() {
                items.blocks().for_each_ready(&mut |node, offset, bytes| visit(Node { node, offset, bytes }));
            }
        });
    }

    fn retired_bytes(&self) -> u64 {
        match_kind!(self, AnyIndex(form) => TestAccess::retired_bytes(form.below()))
    }

    fn left_places(&self) -> u64 {
        match_kind!(self, AnyIndex(form) => TestAccess::left_places(form.below()))
    }

    fn restore_copies(&self, images: &InnerNodeImages) {
        match_kind!(self, AnyIndex(form) => TestAccess::restore_copies(form.below(), images));
    }

    fn demand_collection(&self) -> bool {
        match_kind!(self, AnyIndex(form) => {
            let nodes = TestAccess::demand_collection(form.below());
            let blocks = form.items().and_then(|items| items.blocks().collection()).map(Collection::demand);
            nodes || blocks.is_some()
        })
    }

    fn has_epochs(&self) -> bool {
        match_kind!(self, AnyIndex(form) => TestAccess::has_epochs(form.below()))
    }

    fn capacity(&self) -> u64 {
        match_kind!(self, AnyIndex(form) => TestAccess::capacity(form.below()))
    }

    async fn turn<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        match_kind!(self, AnyIndex(form) => TestAccess::turn(form.below(), lane).await)
    }

    async fn turn_after<'a>(&'a self, lane: &'a Lane<'_>, waited: (u64, u64)) -> Result<(), OpError> {
        match_kind!(self, AnyIndex(form) => TestAccess::turn_after(form.below(), lane, waited).await)
    }
}
