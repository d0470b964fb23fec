//! A pool that this process is connected to: its memory nodes, and what their superblocks and the catalog say.
//!
//! [`Pool::open`] reaches the pool at an address, [`Pool::connect`] memory nodes of this machine, by the control sockets of
//! their daemons. [`Pool::embedded`] needs no daemon: its memory nodes are memory of this process.

mod address;
mod embedded;
mod growth;
mod usage;

pub use address::AddressError;
pub use embedded::EmbeddedOptions;
pub use usage::InUse;
pub(crate) use usage::Known;

use crate::error_text::debug_is_text;
use crate::fabric::any::{AnyFabric, FabricError, Node};
use crate::fabric::shm::{ShmFabric, ShmOptions};
#[cfg(feature = "verbs")]
use crate::fabric::verbs::{VerbsError, VerbsFabric, VerbsOptions};
use crate::kinds::{IndexParameterError, IndexParameters};
#[cfg(feature = "verbs")]
use crate::memory_node::verbs::secret::SecretError;
use crate::memory_node::{AnnounceError, ConnectError, RemoteNode, connect};
use crate::region::RegionError;
use crate::region::lines::AccessError;
use crate::solo::block_on;
use dm_core::error::VerbError;
#[cfg(feature = "verbs")]
use dm_core::fabric::Fabric;
use dm_core::index::catalog::{self, CatalogError};
use dm_core::lane::Lane;
use dm_core::memory::rows::RowError;
use dm_core::operation::OpError;
use dm_core::remote::catalog::{IndexEntry, IndexNumber, NAME_BYTES_MAX, is_name};
use dm_core::remote::row::Member;
use dm_core::remote::superblock::{FormatError, NodeDescription, PoolPlan, Superblock, SuperblockError};
use dm_core::remote::{NodeGeometry, SCRATCH_BYTES};
#[cfg(feature = "verbs")]
use dm_core::verbs::{Label, Request};
use dm_core::verbs::{LaneId, NodeId, Space};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Why a pool cannot be used. Its `Debug` is its text.
#[derive(Error)]
#[non_exhaustive]
pub enum PoolError {
    /// A memory node cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The fabric cannot be made.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A text is no address of a pool, or of one that this program cannot reach.
    #[error("{address:?} is no address of a pool: {source}")]
    Address {
        /// The text.
        address: String,
        /// Why not.
        source: AddressError,
    },
    /// The secret that a pool's address names cannot be read.
    #[cfg(feature = "verbs")]
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The superblock of a memory node is not one that this program can work with.
    #[error("memory node at {}: {source}", socket.display())]
    Superblock {
        /// Its control socket.
        socket: PathBuf,
        /// What is wrong.
        source: SuperblockError,
    },
    /// The memory nodes do not belong together.
    #[error("memory node at {} belongs to pool {found}, the others to pool {expected}", socket.display())]
    Mixed {
        /// The one that differs.
        socket: PathBuf,
        /// Its pool.
        found: String,
        /// The pool of the first one.
        expected: String,
    },
    /// Two names are of one memory node, or of two that say so.
    #[error("memory node {node} is named twice, by {} and {}: name each memory node of the pool once", first.display(), second.display())]
    Twice {
        /// The number of the memory node.
        node: u16,
        /// The first name.
        first: PathBuf,
        /// The second one.
        second: PathBuf,
    },
    /// Other memory nodes were named than the pool has.
    #[error(
        "the pool has {}, and {named} {} named: {}",
        counted(*count, "memory node"),
        if *named == 1 { "was" } else { "were" },
        if *named < usize::from(*count) { "name all of them" } else { "dm pool add adds one" }
    )]
    Count {
        /// How many were named.
        named: usize,
        /// How many the pool has.
        count: u16,
    },
    /// A memory node that is to be added has memory in use.
    #[error("memory node {node} cannot be added: {chunks} of its chunks are in use, so it is no new one")]
    NotNew {
        /// Its number.
        node: u16,
        /// Chunks that are granted, or were given back.
        chunks: u32,
    },
    /// A memory node grants nothing yet, since compute nodes do not know it.
    #[error(
        "memory node {node} grants nothing yet: {} joined before it was added; start again what has joined there",
        rows_text(rows)
    )]
    Behind {
        /// Its number.
        node: u16,
        /// The rows of these compute nodes.
        rows: Vec<u16>,
    },
    /// A memory node could not be made to fence compute nodes that are gone.
    #[error("memory node {node} grants nothing yet: it does not fence compute nodes that are gone: {source}")]
    Fence {
        /// Its number.
        node: u16,
        /// The reason.
        source: OpError,
    },
    /// The memory nodes have different incarnations of the pool.
    #[error(
        "memory node {node} is of incarnation {found} of the pool, memory node 0 of {expected}: restart all of them on \
         their files (or make a new pool), and with one --incarnation"
    )]
    Incarnation {
        /// The one that differs.
        node: u16,
        /// Its incarnation.
        found: u64,
        /// The incarnation of memory node 0.
        expected: u64,
    },
    /// A memory node did not note this compute node's announcement.
    #[error(transparent)]
    Announce(#[from] AnnounceError),
    /// The pool was written by a newer program.
    #[error("the pool uses features this program does not know (read-only {unknown:#x}): it may only be read")]
    ReadOnly {
        /// The feature bits.
        unknown: u64,
    },
    /// An operation on compute-node rows failed.
    #[error(transparent)]
    Row(#[from] RowError),
    /// An operation on the catalog failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// There is no index of that name.
    #[error("the pool has no index \"{name}\"; it has {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    NoIndex {
        /// The name that was looked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// An index cannot be dropped, since it is or may be open.
    #[error("index \"{name}\" is in use: compute-node row {row} {why}")]
    InUse {
        /// Its name.
        name: String,
        /// The compute node's row.
        row: u16,
        /// What is known of its use.
        why: InUse,
    },
    /// A dropped index's memory could not be given back. The next drop of any index tries again.
    #[error("index \"{name}\" is dropped, but not all its memory is free yet: {source}")]
    Erase {
        /// Its name.
        name: String,
        /// The reason.
        source: OpError,
    },
    /// No index can have this name.
    #[error("an index cannot be called {name:?}: a name has 1 to {NAME_BYTES_MAX} bytes and no control characters")]
    IndexName {
        /// The name.
        name: String,
    },
    /// An index has parameters that this program cannot use, or others than asked for.
    #[error("index \"{name}\": {source}")]
    Parameters {
        /// Its name.
        name: String,
        /// The reason.
        source: IndexParameterError,
    },
    /// The ownership table of a new index could not be made.
    #[error("index \"{name}\" was not created, since its ownership table could not be made: {source}")]
    Owners {
        /// Its name.
        name: String,
        /// The reason.
        source: OpError,
    },
    /// The root word of an index is 0, and the index's memory shows that it had a root.
    #[error("index \"{name}\": {source}")]
    RootLost {
        /// Its name.
        name: String,
        /// The evidence.
        source: RootLost,
    },
    /// The pool has no memory node of that number.
    #[error("there is no memory node {node}: the pool has {count}, numbered from 0 on")]
    NoMemoryNode {
        /// The number.
        node: u16,
        /// Memory nodes of the pool.
        count: usize,
    },
    /// A chunk table could not be read or changed.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// The keeper's thread could not be started.
    #[error("starting a thread: {0}")]
    Thread(std::io::Error),
    /// The memory of an embedded pool cannot be had.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// An embedded pool cannot have these sizes.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The first image of an embedded pool does not fit into its memory.
    #[error("cannot write the first image of an embedded pool: {0}")]
    Image(#[from] AccessError),
}

debug_is_text! { PoolError }

/// Why an index whose root word is 0 is not taken for an empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RootLost {
    /// There is a node that was its root.
    #[error(
        "its root word is 0, but a node that covers all keys is on memory node {} at {offset:#x}: the root word was overwritten",
        node.0
    )]
    Certain {
        /// The memory node.
        node: NodeId,
        /// Where the node is.
        offset: u64,
    },
    /// There are records, of departed compute nodes.
    #[error(
        "its root word is 0, but a leaf with a record is on memory node {} at {offset:#x}: the root word was overwritten, or a bulk \
         load into it died",
        node.0
    )]
    Doubtful {
        /// The memory node.
        node: NodeId,
        /// Where the leaf is.
        offset: u64,
    },
}

/// `row 3` or `rows 3, 5`.
fn rows_text(rows: &[u16]) -> String {
    let list: Vec<String> = rows.iter().map(u16::to_string).collect();
    format!("compute-node {} {}", if rows.len() == 1 { "row" } else { "rows" }, list.join(", "))
}

/// `1 memory node` or `2 memory nodes`.
fn counted(count: u16, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Text of a pool id: its characters, or hex digits if it has other bytes.
pub fn pool_name(id: [u8; 16]) -> String {
    let text: Vec<u8> = id.into_iter().take_while(|&byte| byte != 0).collect();
    match String::from_utf8(text) {
        Ok(text) if !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic()) => text,
        _ => format!("{:032x}", u128::from_be_bytes(id)),
    }
}

/// A pool this process is connected to.
#[derive(Debug)]
pub struct Pool {
    nodes: Vec<Node>,
    descriptions: Vec<NodeDescription>,
    geometry: Vec<NodeGeometry>,
    reach: Reach,
    /// Fabrics for short, rare runs: connecting a queue pair takes longer than most of these runs.
    spare: Mutex<Vec<AnyFabric>>,
    /// The compute nodes that joined through this value, and the indexes that they have open.
    opened: Mutex<Known>,
}

/// An index that a compute node has open, for as long as this value is there.
pub(crate) struct Opened<'p> {
    pool: &'p Pool,
    member: Member,
    number: IndexNumber,
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if let Some(numbers) = self.pool.opened_now().get_mut(&(self.member.row, self.member.incarnation))
            && let Some(at) = numbers.iter().position(|number| *number == self.number)
        {
            numbers.swap_remove(at);
        }
    }
}

/// How the memory nodes are reached.
#[derive(Debug)]
enum Reach {
    Shm(ShmOptions),
    #[cfg(feature = "verbs")]
    Verbs(Arc<VerbsOptions>),
}

impl Pool {
    /// Connects to all memory nodes of a pool, given their control sockets in any order.
    pub fn connect(sockets: &[PathBuf], options: ShmOptions) -> Result<Self, PoolError> {
        Self::counted(Self::connect_shm(sockets, options)?, 0)
    }

    /// As [`Pool::connect`], to a pool and to one memory node that is to be added to it ([`Pool::add_memory_node`]).
    pub fn connect_to_add(sockets: &[PathBuf], options: ShmOptions) -> Result<Self, PoolError> {
        Self::counted(Self::connect_shm(sockets, options)?, 1)
    }

    fn connect_shm(sockets: &[PathBuf], options: ShmOptions) -> Result<Self, PoolError> {
        let mut nodes = Vec::new();
        for socket in sockets {
            nodes.push((socket.clone(), connect(socket)?));
        }
        nodes.sort_by_key(|(_, node)| node.node_id().0);
        Self::of_shm(nodes, options)
    }

    /// A pool of memory nodes that are connected already, with a name for each.
    pub fn of(nodes: Vec<(PathBuf, Arc<RemoteNode>)>, options: ShmOptions) -> Result<Self, PoolError> {
        Self::counted(Self::of_shm(nodes, options)?, 0)
    }

    fn of_shm(nodes: Vec<(PathBuf, Arc<RemoteNode>)>, options: ShmOptions) -> Result<Self, PoolError> {
        let superblocks = nodes.iter().map(|(socket, node)| {
            let mut bytes = [0; Superblock::BYTES];
            // A region too small for a superblock reads as zeros, which no superblock is.
            let _ = node.region().area(Space::Host).read(0, &mut bytes);
            (socket.clone(), bytes)
        });
        let descriptions = describe(superblocks)?;
        let nodes = nodes.into_iter().map(|(_, node)| Node::Shm(node)).collect();
        let pool = Self::assemble(nodes, descriptions, Reach::Shm(options));
        // Checks their order, and that none is missing of those that they were started with.
        pool.fabric()?;
        Ok(pool)
    }

    /// The pool, if as many memory nodes were named as it has, or up to `more` beyond them.
    fn counted(pool: Self, more: u16) -> Result<Self, PoolError> {
        let (named, count) = (pool.nodes.len(), pool.memory_nodes()?);
        if (usize::from(count)..=usize::from(count + more)).contains(&named) {
            Ok(pool)
        } else {
            Err(PoolError::Count { named, count })
        }
    }

    /// Connects to all memory nodes of a pool on RDMA devices, given their addresses in any order.
    #[cfg(feature = "verbs")]
    pub fn connect_verbs(addresses: &[String], options: VerbsOptions) -> Result<Self, PoolError> {
        Self::counted(Self::connect_peers(addresses, options)?, 0)
    }

    /// As [`Pool::connect_verbs`], to a pool and to one memory node that is to be added to it ([`Pool::add_memory_node`]).
    #[cfg(feature = "verbs")]
    pub fn connect_verbs_to_add(addresses: &[String], options: VerbsOptions) -> Result<Self, PoolError> {
        Self::counted(Self::connect_peers(addresses, options)?, 1)
    }

    #[cfg(feature = "verbs")]
    fn connect_peers(addresses: &[String], options: VerbsOptions) -> Result<Self, PoolError> {
        use crate::memory_node::verbs::client::Peer;
        let mut peers = Vec::new();
        for address in addresses {
            peers.push(
                Peer::connect(address, options.secret.as_ref()).map_err(VerbsError::from).map_err(FabricError::from)?,
            );
        }
        peers.sort_by_key(|peer| peer.node_id().0);
        let mut options = options;
        let mut fabric = VerbsFabric::new(&peers, &Arc::new(options.clone())).map_err(FabricError::from)?;
        // Measured once for all workers: their fabrics do not differ in it.
        options.write_turn_ns_min = Some(Fabric::capabilities(&fabric).write_turn_ns_min);
        let mut superblocks = Vec::new();
        for peer in &peers {
            let mut scratch = vec![0; Superblock::BYTES];
            let lane = Lane::new(LaneId(0), &mut scratch);
            let read = Request::read(Label::Super, peer.node_id(), 0, Superblock::BYTES, 0);
            block_on(&mut fabric, &lane, lane.port().call(read)).map_err(RowError::from)?;
            let bytes = lane.port().with(|scratch| scratch.first_chunk().copied());
            superblocks.push((PathBuf::from(peer.address()), bytes.unwrap_or([0; Superblock::BYTES])));
        }
        let descriptions = describe(superblocks.into_iter())?;
        let nodes = peers.into_iter().map(Node::Verbs).collect();
        let pool = Self::assemble(nodes, descriptions, Reach::Verbs(Arc::new(options)));
        pool.put_back(AnyFabric::Verbs(Box::new(fabric)));
        Ok(pool)
    }

    fn assemble(nodes: Vec<Node>, descriptions: Vec<NodeDescription>, reach: Reach) -> Self {
        let geometry = descriptions.iter().map(|description| description.geometry).collect();
        Self { nodes, descriptions, geometry, reach, spare: Mutex::default(), opened: Mutex::default() }
    }

    /// What each memory node's superblock says.
    pub fn descriptions(&self) -> &[NodeDescription] {
        &self.descriptions
    }

    /// Where things are on each memory node.
    pub fn geometry(&self) -> &[NodeGeometry] {
        &self.geometry
    }

    /// The memory nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A fabric for one worker.
    pub fn fabric(&self) -> Result<AnyFabric, PoolError> {
        Ok(self.make_fabric()?)
    }

    fn make_fabric(&self) -> Result<AnyFabric, FabricError> {
        match &self.reach {
            Reach::Shm(options) => {
                let nodes = self.nodes.iter().filter_map(Node::shm).cloned().collect();
                Ok(AnyFabric::Shm(Box::new(ShmFabric::new(nodes, *options)?)))
            }
            #[cfg(feature = "verbs")]
            Reach::Verbs(options) => {
                let peers: Vec<_> = self.nodes.iter().filter_map(Node::verbs).cloned().collect();
                Ok(AnyFabric::Verbs(Box::new(VerbsFabric::new(&peers, options)?)))
            }
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<AnyFabric>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a fabric for the next short run, if making one is expensive.
    fn put_back(&self, fabric: AnyFabric) {
        if !matches!(self.reach, Reach::Shm(_)) {
            self.spare().push(fabric);
        }
    }

    /// The first memory node: its catalog and rows are the pool's.
    pub(crate) fn home(&self) -> &NodeGeometry {
        // `of` made a fabric, and a fabric refuses a pool without nodes.
        &self.geometry[0]
    }

    /// Runs a short operation on a lane of its own, with [`SCRATCH_BYTES`] of scratch at offset 0.
    pub fn with_lane<R>(&self, run: impl FnOnce(&mut AnyFabric, &Lane<'_>) -> R) -> Result<R, PoolError> {
        Ok(self.with_lane_of(run)?)
    }

    pub(crate) fn with_lane_of<R>(&self, run: impl FnOnce(&mut AnyFabric, &Lane<'_>) -> R) -> Result<R, FabricError> {
        self.with_lane_of_bytes(SCRATCH_BYTES, run)
    }

    /// As [`Pool::with_lane`], with `scratch_bytes` of zeroed scratch.
    pub(crate) fn with_lane_of_bytes<R>(
        &self,
        scratch_bytes: usize,
        run: impl FnOnce(&mut AnyFabric, &Lane<'_>) -> R,
    ) -> Result<R, FabricError> {
        let spare = self.spare().pop();
        let mut fabric = spare.map_or_else(|| self.make_fabric(), Ok)?;
        let mut scratch = vec![0; scratch_bytes];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let result = run_on(&mut fabric, &lane, run);
        drop(lane);
        self.put_back(fabric);
        Ok(result)
    }

    /// Every index of the pool.
    pub fn indexes(&self) -> Result<Vec<IndexEntry>, PoolError> {
        let mut found = Vec::new();
        self.with_lane(|fabric, lane| {
            block_on(fabric, lane, catalog::list(lane, self.home(), 0, &mut |entry| found.push(*entry)))
        })??;
        Ok(found)
    }

    fn opened_now(&self) -> MutexGuard<'_, Known> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the compute nodes that joined through this value have open.
    pub(crate) fn opened(&self) -> Known {
        self.opened_now().clone()
    }

    /// Notes that `member` joined.
    pub(crate) fn note_member(&self, member: Member) {
        self.opened_now().entry((member.row, member.incarnation)).or_default();
    }

    /// Notes that `member` has left.
    pub(crate) fn forget_member(&self, member: Member) {
        self.opened_now().remove(&(member.row, member.incarnation));
    }

    /// Notes that `member` opens an index.
    pub(crate) fn note_opened(&self, member: Member, number: IndexNumber) -> Opened<'_> {
        self.opened_now().entry((member.row, member.incarnation)).or_default().push(number);
        Opened { pool: self, member, number }
    }

    /// The index called `name`.
    pub fn find_index(&self, name: &str) -> Result<(IndexEntry, IndexParameters), PoolError> {
        let entry = self.find_entry(name)?;
        let parameters =
            IndexParameters::of(&entry).map_err(|source| PoolError::Parameters { name: name.to_owned(), source })?;
        Ok((entry, parameters))
    }

    /// As [`Pool::find_index`], of an index of any kind, also one that this program does not know.
    pub(crate) fn find_entry(&self, name: &str) -> Result<IndexEntry, PoolError> {
        if !is_name(name) {
            return Err(PoolError::IndexName { name: name.to_owned() });
        }
        let entry =
            self.with_lane(|fabric, lane| block_on(fabric, lane, catalog::find(lane, self.home(), name, 0)))??;
        let Some(entry) = entry else {
            let known = self.indexes()?.iter().map(|entry| entry.name().to_owned()).collect();
            return Err(PoolError::NoIndex { name: name.to_owned(), known });
        };
        Ok(entry)
    }
}

/// Ties the lane's lifetime to the fabric's.
fn run_on<'m, R>(fabric: &mut AnyFabric, lane: &Lane<'m>, run: impl FnOnce(&mut AnyFabric, &Lane<'m>) -> R) -> R {
    run(fabric, lane)
}

/// Decodes superblocks, each with the name of its memory node. All must be of one pool.
fn describe(
    superblocks: impl Iterator<Item = (PathBuf, [u8; Superblock::BYTES])>,
) -> Result<Vec<NodeDescription>, PoolError> {
    let mut descriptions: Vec<NodeDescription> = Vec::new();
    let mut names: Vec<PathBuf> = Vec::new();
    for (socket, bytes) in superblocks {
        let description = match Superblock::decode(&bytes) {
            Ok(description) => description,
            Err(source) => return Err(PoolError::Superblock { socket, source }),
        };
        if let Some(first) = descriptions.first()
            && first.identity.pool_id != description.identity.pool_id
        {
            return Err(PoolError::Mixed {
                socket,
                found: pool_name(description.identity.pool_id),
                expected: pool_name(first.identity.pool_id),
            });
        }
        let node = description.identity.node;
        if let Some(at) = descriptions.iter().position(|other| other.identity.node == node) {
            return Err(PoolError::Twice { node: node.0, first: names.swap_remove(at), second: socket });
        }
        descriptions.push(description);
        names.push(socket);
    }
    if let Some(first) = descriptions.first()
        && let Some(other) =
            descriptions.iter().find(|other| other.identity.pool_incarnation != first.identity.pool_incarnation)
    {
        return Err(PoolError::Incarnation {
            node: other.identity.node.0,
            found: other.identity.pool_incarnation,
            expected: first.identity.pool_incarnation,
        });
    }
    Ok(descriptions)
}

/// Formats the region of a new memory node, for the daemon and for tools that serve memory themselves.
pub fn format(plan: &PoolPlan) -> Result<Vec<u8>, FormatError> {
    use zerocopy::IntoBytes;
    Ok(plan.format()?.as_bytes().to_vec())
}

/// Bytes of a pool's id, and of the longest name of a pool.
const POOL_ID_BYTES: usize = 16;

/// No pool can have this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a pool cannot be called {name:?}: a name has 1 to {POOL_ID_BYTES} bytes, none of them 0, and this one has {}", name.len())]
pub struct PoolNameError {
    /// The name.
    name: String,
}

/// The id of a pool called `name`: its bytes, followed by zeros.
pub fn pool_id(name: &str) -> Result<[u8; POOL_ID_BYTES], PoolNameError> {
    let mut id = [0; POOL_ID_BYTES];
    match id.get_mut(..name.len()) {
        Some(place) if !name.is_empty() && !name.contains('\0') => place.copy_from_slice(name.as_bytes()),
        _ => return Err(PoolNameError { name: name.to_owned() }),
    }
    Ok(id)
}

/// The path of a control socket in `directory`, by number of the memory node.
pub fn socket_in(directory: &Path, node: u16) -> PathBuf {
    directory.join(format!("memory-node-{node}.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pools_are_ids_or_are_refused() {
        assert_eq!(pool_id("pool").map(pool_name).as_deref(), Ok("pool"));
        assert_eq!(pool_id("sixteen-bytes-16").map(pool_name).as_deref(), Ok("sixteen-bytes-16"));
        for name in ["", "seventeen-bytes-7", "a\0b"] {
            assert!(pool_id(name).is_err(), "{name:?}");
        }
        let refused = pool_id("seventeen-bytes-7").unwrap_err().to_string();
        assert!(refused.ends_with("a name has 1 to 16 bytes, none of them 0, and this one has 17"), "{refused}");
    }
}
