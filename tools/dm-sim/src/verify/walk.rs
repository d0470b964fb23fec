//! Makes a pool for an index, and walks the index from outside: directly in the memories, by links and headers only.
//! The result is compared with that of the index's own `validate`. A kind of index describes itself by
//! [`MemoryWalk`](super::memory_walk::MemoryWalk). The walks of B+-trees are here, those of radix trees in
//! [`super::radix`].

use super::accounting::{Holdings, Node, UNIT_BYTES};
use super::blocks::Found;
use super::chunk_table::{chunks, pool_epoch};
use super::memory_walk::{LeafLocks, MemoryWalk as _, TreeNodes};
use super::subject::{HeldLock, InnerNodeImages, Opened, TestAccess};
use crate::config::Config;
use crate::memory::Memories;
use crate::pool::Pool;
use dm_core::btree::Tree;
use dm_core::btree::inner::Inner;
use dm_core::btree::node::{Header, NodeFlags};
use dm_core::lane::Lane;
use dm_core::layout::stripes;
use dm_core::match_kind;
use dm_core::memory::Collection;
use dm_core::memory::rows::RowError;
use dm_core::operation::{Cause, Effect, OpError};
use dm_core::remote::NodeGeometry;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::{IndexNumber, root_offset};
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, ChunkWord};
use dm_core::remote::lock_word::{LockWord, RowId};
use dm_core::remote::place::NodeClass;
use dm_core::remote::row::{Joiner, Member, Row};
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

    /// Writes the superblocks.
    pub fn format(&self, config: &Config, memories: &mut Memories) {
        self.pool(config).format(memories);
    }

    /// Writes rows for compute nodes that are not recovered.
    pub fn format_rows(&self, config: &Config, compute_nodes: u16, memories: &mut Memories) {
        let geometry = self.geometry(config);
        let Some((home, memory)) = geometry.first().zip(memories.get_mut(NodeId(0))) else { return };
        for number in 0..compute_nodes {
            let member = member(number);
            let joiner = Joiner { token: u64::from(member.nonce), lanes: 1, host: "verify" };
            let offset = home.row_offset(member.row) as usize;
            memory.host.range_mut(offset..offset + Row::BYTES).copy_from_slice(Row::of(member, &joiner).as_bytes());
        }
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
        let LeafLocks { place_bytes, lock_at, held_bits } = locks;
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
                    let word = memory.host.word(offset + lock_at as u64);
                    if word & held_bits != 0 {
                        held.push(HeldLock { node: number, compute_node: (word as u16).wrapping_sub(1) });
                    }
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
                let word = memory.word(geometry.lock_offset(index));
                if word != 0 {
                    let row = LockWord(word).row().0;
                    held.push(HeldLock { node: NodeId(number), compute_node: row.wrapping_sub(1) });
                }
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
fn member(number: u16) -> Member {
    Member { row: RowId(number + 1), incarnation: 1, nonce: 1 }
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
        member: member(number),
        capabilities: config.capabilities(),
        guarantees,
        recovery: None,
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

    async fn turn<'a>(&'a self, lane: &'a Lane<'_>) -> Result<(), OpError> {
        match_kind!(self, AnyIndex(form) => TestAccess::turn(form.below(), lane).await)
    }
}

/// See [`TestAccess::for_each_ready`]: nodes of a B+-tree.
pub(super) fn for_each_ready(tree: &Tree<'_>, visit: &mut dyn FnMut(Node)) {
    let nodes = &tree.nodes;
    nodes.for_each_ready(&mut |class: NodeClass, fresh| {
        let (node, offset) = (fresh.address.node(), fresh.address.offset());
        visit(Node { node, offset, bytes: nodes.node_bytes(class) as u64 });
    });
}

/// See [`TestAccess::restore_copies`]: copies of a B+-tree.
pub(super) fn restore_copies(tree: &Tree<'_>, images: &InnerNodeImages) {
    let (root, level) = images.root.unwrap_or((Address::NULL, 0));
    tree.root.set(root, level);
    if images.nodes.is_empty() {
        tree.cache.clear();
    }
    for (address, image) in &images.nodes {
        if let Some(inner) = Inner::new(&tree.inner, image) {
            tree.cache.insert(*address, &inner, images.epoch);
        }
    }
}

/// The result of [`TestAccess::turn`].
pub(super) fn turned(end: Result<(), RowError>) -> Result<(), OpError> {
    end.map_err(|error| match error {
        RowError::Verb(error) => error.into(),
        RowError::Fenced { .. } => OpError { cause: Cause::Fenced, effect: Effect::None },
        _ => OpError { cause: Cause::BadInput("the compute-node rows cannot be read"), effect: Effect::None },
    })
}

/// Nodes a walk visits at most: more than the memories hold.
const NODES_MAX: usize = 1 << 16;

/// Bytes of a node, if they lie in memory.
fn image(memories: &Memories, address: Address, bytes: usize) -> Option<&[u8]> {
    let start = address.offset() as usize;
    memories.get(address.node())?.host.bytes().get(start..start + bytes)
}

fn root(tree: &TreeNodes, geometry: &[NodeGeometry], memories: &Memories) -> Option<(Address, u8)> {
    let home = geometry.first()?;
    let number = IndexNumber::new(0)?;
    let word = memories.get(NodeId(0))?.host.word(root_offset(home, number));
    let address = Address::from_bits(word);
    if address.is_null() {
        return None;
    }
    let bytes = tree.leaf_bytes.min(tree.inner.bytes);
    Some((address, Header::read(image(memories, address, bytes)?).level))
}

/// Calls `visit` with every node along the links of every level, with its level and image. Stops with an error at a
/// node that gives no sound link to go on from.
fn walk<'m>(
    tree: &TreeNodes,
    geometry: &[NodeGeometry],
    memories: &'m Memories,
    lowest: u8,
    mut visit: impl FnMut(Address, u8, &'m [u8]),
) -> Result<(), String> {
    let Some((mut first, root_level)) = root(tree, geometry, memories) else { return Ok(()) };
    let inner = tree.inner;
    let mut visited = 0;
    for level in (lowest..=root_level).rev() {
        let bytes = if level == 0 { tree.leaf_bytes } else { inner.bytes };
        let mut next = first;
        let mut below = Address::NULL;
        while !next.is_null() {
            let image = image(memories, next, bytes).ok_or(format!("{next} lies outside the memories"))?;
            let header = Header::read(image);
            if header.level != level || header.generation != next.generation() {
                return Err(format!("the link to {next} leads to something else"));
            }
            if header.flags.contains(NodeFlags::RETIRED) {
                return Err(format!("the link to {next} leads to a retired node"));
            }
            visited += 1;
            if visited > NODES_MAX {
                return Err(format!("level {level} has no end"));
            }
            if level > 0 && next == first {
                below = Inner::new(&inner, image).ok_or(format!("{next} has more separators than it can"))?.child(0);
            }
            visit(next, level, image);
            next = header.sibling;
        }
        first = below;
    }
    Ok(())
}

/// The inner nodes that are not torn.
pub(super) fn inner_node_images(tree: &TreeNodes, geometry: &[NodeGeometry], memories: &Memories) -> InnerNodeImages {
    let epoch = pool_epoch(geometry, memories);
    let mut images = InnerNodeImages { root: root(tree, geometry, memories), nodes: Vec::new(), epoch };
    // A walk during a change may end early. The images then has the nodes before that.
    let _ = walk(tree, geometry, memories, 1, |address, _, image| {
        // A compute node copies only images that are not torn.
        if stripes::node_version(image).is_some() {
            images.nodes.push((address, image.to_vec()));
        }
    });
    images
}

/// Chunks of the index, and the nodes in them that it reaches.
pub(super) fn holdings(
    tree: &TreeNodes,
    parameters: &IndexParameters,
    geometry: &[NodeGeometry],
    memories: &Memories,
) -> Result<Holdings, String> {
    let (leaf, inner) = (tree.leaf_place_bytes as u64, tree.inner.bytes as u64);
    let sizes = |kind| match kind {
        ChunkKind::Leaf => Some(leaf),
        ChunkKind::Inner => Some(inner),
        ChunkKind::Items if parameters.items.is_some() => Some(UNIT_BYTES),
        _ => None,
    };
    let mut holdings = Holdings { chunks: chunks(geometry, memories, sizes, false)?, ..Holdings::default() };
    let mut found = Found::nothing(parameters);
    walk(tree, geometry, memories, 0, |address, level, image| {
        let bytes = if level == 0 { leaf } else { inner };
        holdings.reached.push(Node { node: address.node(), offset: address.offset(), bytes });
        if level == 0
            && let Some(found) = &mut found
        {
            found.add(parameters, image);
        }
    })?;
    if let Some(found) = found {
        holdings.reached.extend(found.blocks()?);
    }
    Ok(holdings)
}
