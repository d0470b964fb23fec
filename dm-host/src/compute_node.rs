//! A compute node: a process that is connected to a pool's memory nodes, has a row there, and opens indexes.

use crate::assembly::{AssemblyError, Place, Spending};
use crate::fabric::any::{AnyFabric, FabricError, Node};
use crate::fabric::shm::{ShmFabric, ShmOptions};
#[cfg(feature = "verbs")]
use crate::fabric::verbs::{VerbsError, VerbsFabric, VerbsOptions};
use crate::keeper::{Keeper, terms_here};
use crate::kinds::{AnyIndex, IndexParameterError, IndexParameters, with_index};
use crate::memory_node::{AnnounceError, ConnectError, RemoteNode, connect};
use crate::rootless::RootLost;
use crate::solo::block_on;
use dm_core::error::VerbError;
use dm_core::fabric::Fabric;
use dm_core::index::catalog::{self, CatalogError};
use dm_core::lane::Lane;
use dm_core::membership::lease::{Lease, Pulse, Terms};
use dm_core::membership::redo::{self, Area};
use dm_core::membership::{Recovery, rows};
use dm_core::memory::chunks::{self, Granted, RequestIds};
use dm_core::memory::rows::RowError;
use dm_core::memory::{Epochs, Participant, Pin};
use dm_core::remote::catalog::{Definition, IndexEntry};
use dm_core::remote::chunk::{ChunkEntry, ChunkKind};
use dm_core::remote::row::{Joiner, Member};
use dm_core::remote::superblock::{NodeDescription, Superblock, SuperblockError};
use dm_core::remote::{NodeGeometry, SCRATCH_BYTES};
use dm_core::verbs::{Guarantees, LaneId, NodeId, Space};
#[cfg(feature = "verbs")]
use dm_core::verbs::{Label, Request};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// How a compute node is in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// How long it may be silent before others take it for dead: the same for all compute nodes of a pool.
    pub terms: Terms,
    /// Whether others can go on when it dies with a lock in its hands: costs a redo image in the chain of larger WRITEs,
    /// and a chunk or more on each memory node. Without it, as on a fabric that cannot fence, such a lock stays held.
    pub recovery: bool,
}

impl Default for Membership {
    fn default() -> Self {
        Self { terms: terms_here(), recovery: true }
    }
}

/// Why a pool cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PoolError {
    /// A memory node cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The fabric cannot be made.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A memory node's superblock is not one to work with.
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
        /// That of the first.
        expected: String,
    },
    /// The memory nodes are not of one life of the pool.
    #[error(
        "memory node {node} is of incarnation {found} of the pool, memory node 0 of {expected}: restart all of them on \
         their files (or make a new pool), and with one --incarnation"
    )]
    Incarnation {
        /// The one that differs.
        node: u16,
        /// Its incarnation.
        found: u64,
        /// That of memory node 0.
        expected: u64,
    },
    /// A memory node did not take note of this compute node.
    #[error(transparent)]
    Announce(#[from] AnnounceError),
    /// The pool was written by a program that knows more.
    #[error("the pool uses features this program does not know (read-only {unknown:#x}): it may only be read")]
    ReadOnly {
        /// The feature bits.
        unknown: u64,
    },
    /// Something about compute-node rows.
    #[error(transparent)]
    Row(#[from] RowError),
    /// Something about the catalog.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// There is no index of that name.
    #[error("the pool has no index \"{name}\"; it has {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    NoIndex {
        /// What was looked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// An index whose parameters this program cannot use, or other ones than asked for.
    #[error("index \"{name}\": {source}")]
    Parameters {
        /// Its name.
        name: String,
        /// Why.
        source: IndexParameterError,
    },
    /// The root word of an index is 0, and its memory says that it had another one.
    #[error("index \"{name}\": {source}")]
    RootLost {
        /// Its name.
        name: String,
        /// Why.
        source: RootLost,
    },
    /// A chunk table could not be read or changed.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// The keeper's thread could not be started.
    #[error("starting a thread: {0}")]
    Thread(std::io::Error),
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
    /// For what is run now and then: a queue pair takes longer to connect than most of that takes to run.
    spare: Mutex<Vec<AnyFabric>>,
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
        let mut nodes = Vec::new();
        for socket in sockets {
            nodes.push((socket.clone(), connect(socket)?));
        }
        nodes.sort_by_key(|(_, node)| node.node_id().0);
        Self::of(nodes, options)
    }

    /// A pool of memory nodes that are connected already, with a name for each.
    pub fn of(nodes: Vec<(PathBuf, Arc<RemoteNode>)>, options: ShmOptions) -> Result<Self, PoolError> {
        let superblocks = nodes.iter().map(|(socket, node)| {
            let mut bytes = [0; Superblock::BYTES];
            // A region too small for a superblock reads as zeros, which is not one.
            let _ = node.region().area(Space::Host).read(0, &mut bytes);
            (socket.clone(), bytes)
        });
        let descriptions = describe(superblocks)?;
        let nodes = nodes.into_iter().map(|(_, node)| Node::Shm(node)).collect();
        let pool = Self::assemble(nodes, descriptions, Reach::Shm(options));
        // Checks order and number of the nodes.
        pool.fabric()?;
        Ok(pool)
    }

    /// Connects to all memory nodes of a pool on RDMA devices, given their addresses in any order.
    #[cfg(feature = "verbs")]
    pub fn connect_verbs(addresses: &[String], options: VerbsOptions) -> Result<Self, PoolError> {
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
        // Once for all workers: their fabrics differ in nothing that matters for it.
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
        Self { nodes, descriptions, geometry, reach, spare: Mutex::default() }
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

    /// Keeps a fabric for the next short run, if making one is worth avoiding.
    fn put_back(&self, fabric: AnyFabric) {
        if !matches!(self.reach, Reach::Shm(_)) {
            self.spare().push(fabric);
        }
    }

    /// The first memory node: the one whose catalog and rows count.
    pub(crate) fn home(&self) -> &NodeGeometry {
        // `of` made a fabric, which refuses a pool without nodes.
        &self.geometry[0]
    }

    /// Runs something short on a lane of its own, with [`SCRATCH_BYTES`] of scratch at offset 0.
    pub fn with_lane<R>(&self, run: impl FnOnce(&mut AnyFabric, &Lane<'_>) -> R) -> Result<R, PoolError> {
        Ok(self.with_lane_of(run)?)
    }

    fn with_lane_of<R>(&self, run: impl FnOnce(&mut AnyFabric, &Lane<'_>) -> R) -> Result<R, FabricError> {
        let spare = self.spare().pop();
        let mut fabric = spare.map_or_else(|| self.make_fabric(), Ok)?;
        let mut scratch = vec![0; SCRATCH_BYTES];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let result = run_on(&mut fabric, &lane, run);
        drop(lane);
        self.put_back(fabric);
        Ok(result)
    }

    /// Joins the pool as a compute node with `lanes` lanes, and keeps its lease.
    pub fn join(self: &Arc<Self>, lanes: u16, membership: Membership) -> Result<ComputeNode, PoolError> {
        let unknown = self.descriptions.iter().fold(0, |bits, description| bits | description.read_only_unknown);
        if unknown != 0 {
            return Err(PoolError::ReadOnly { unknown });
        }
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let joiner = Joiner { token: token(), lanes, host: host.trim() };
        let member =
            self.with_lane(|fabric, lane| block_on(fabric, lane, rows::claim(lane, self.home(), &joiner, 0)))??;
        // Before the first WRITE, every memory node knows whom to end if this row is fenced; its module tells why.
        for node in &self.nodes {
            if let Err(error) = node.announce(member.row, member.incarnation) {
                self.part(member, true);
                return Err(error.into());
            }
        }
        self.with_lane(|fabric, lane| block_on(fabric, lane, rows::introduce(lane, self.home(), member, &joiner, 0)))??;
        let lease_ns = membership.terms.lease_ns();
        self.with_lane(|fabric, lane| {
            block_on(fabric, lane, rows::declare_lease(lane, self.home(), member, lease_ns))
        })??;
        let mut node = ComputeNode {
            pool: Arc::clone(self),
            member,
            recovery: membership.recovery,
            lease: Arc::new(Lease::new(membership.terms)),
            pulses: (0..lanes).map(|_| Pulse::default()).collect(),
            epochs: Arc::default(),
            pins: (0..lanes).map(|_| Pin::default()).collect(),
            keeper: None,
            pinned: AtomicBool::new(false),
            opened: AtomicBool::new(false),
            owes: AtomicBool::new(false),
        };
        // From here on a failure leaves the pool.
        let epochs = (Arc::clone(&node.epochs), Arc::clone(&node.pins));
        let keeper = Keeper::start(self, member, Arc::clone(&node.lease), Arc::clone(&node.pulses), epochs)?;
        node.keeper = Some(keeper);
        Ok(node)
    }

    /// Leaves the pool as `member`, under whose name nothing is written any more.
    fn part(&self, member: Member, settled: bool) {
        // First, since whoever gets the row next may be fenced, and that is no business of ours any more. What follows
        // is a CAS that expects our own row word, which nobody else ever writes.
        for node in &self.nodes {
            if let Err(error) = node.withdraw(member.row, member.incarnation) {
                tracing::debug!("leaving the pool: {error}");
            }
        }
        // A pool that is gone needs no farewell.
        let left =
            self.with_lane(|fabric, lane| block_on(fabric, lane, rows::leave(lane, self.home(), member, settled)));
        if !matches!(left, Ok(Ok(()))) {
            tracing::debug!("leaving the pool: {left:?}");
        }
    }

    /// Every index of the pool.
    pub fn indexes(&self) -> Result<Vec<IndexEntry>, PoolError> {
        let mut found = Vec::new();
        self.with_lane(|fabric, lane| {
            block_on(fabric, lane, catalog::list(lane, self.home(), 0, &mut |entry| found.push(*entry)))
        })??;
        Ok(found)
    }

    /// The index called `name`.
    pub fn find_index(&self, name: &str) -> Result<(IndexEntry, IndexParameters), PoolError> {
        let entry =
            self.with_lane(|fabric, lane| block_on(fabric, lane, catalog::find(lane, self.home(), name, 0)))??;
        let Some(entry) = entry else {
            let known = self.indexes()?.iter().map(|entry| entry.name().to_owned()).collect();
            return Err(PoolError::NoIndex { name: name.to_owned(), known });
        };
        let parameters =
            IndexParameters::of(&entry).map_err(|source| PoolError::Parameters { name: name.to_owned(), source })?;
        Ok((entry, parameters))
    }
}

/// Ties the lane's lifetime to the fabric's.
fn run_on<'m, R>(fabric: &mut AnyFabric, lane: &Lane<'m>, run: impl FnOnce(&mut AnyFabric, &Lane<'m>) -> R) -> R {
    run(fabric, lane)
}

/// Decodes superblocks, each with the name of its memory node, which must be of one pool.
fn describe(
    superblocks: impl Iterator<Item = (PathBuf, [u8; Superblock::BYTES])>,
) -> Result<Vec<NodeDescription>, PoolError> {
    let mut descriptions: Vec<NodeDescription> = Vec::new();
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
        descriptions.push(description);
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

/// A number that tells two starts of a process apart.
fn token() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    // RandomState is seeded by the system; the low 28 bits must not be 0.
    RandomState::new().hash_one((now, std::process::id())) | 1
}

/// This process's place in a pool. Dropping it leaves the pool.
///
/// Others may take it for dead, if it is silent for a lease: then its operations fail with
/// [`dm_core::operation::Cause::Fenced`], and it joins the pool again for a new one. On shared memory they end the whole
/// process first.
#[derive(Debug)]
pub struct ComputeNode {
    pool: Arc<Pool>,
    member: Member,
    recovery: bool,
    lease: Arc<Lease>,
    /// One per lane.
    pulses: Arc<[Pulse]>,
    epochs: Arc<Epochs>,
    /// One per lane.
    pins: Arc<[Pin]>,
    keeper: Option<Keeper>,
    /// An index is open whose lanes have the pins.
    pinned: AtomicBool,
    /// An index was opened with recovery.
    opened: AtomicBool,
    /// A lock may name this row after it left.
    owes: AtomicBool,
}

impl ComputeNode {
    /// Says that a lane could not be settled, so that a lock may go on naming this row. When it leaves, the row stays
    /// for others to finish with, and is not given to anybody before they have.
    pub fn owe(&self) {
        self.owes.store(true, Ordering::Relaxed);
    }

    /// How long it may be silent.
    pub fn terms(&self) -> Terms {
        self.lease.terms()
    }

    /// Whether others have taken it for dead.
    pub fn is_fenced(&self) -> bool {
        self.lease.is_fenced()
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Its row and incarnation.
    pub fn member(&self) -> Member {
        self.member
    }

    /// Creates an index. Fails if there is one of that name.
    pub fn create_index(&self, name: &str, parameters: &IndexParameters) -> Result<IndexEntry, PoolError> {
        parameters.check().map_err(|source| PoolError::Parameters { name: name.to_owned(), source })?;
        let (block, parameters_version) = parameters.encode();
        let definition = Definition {
            name,
            kind: parameters.kind(),
            parameters_version,
            parameters: block,
            features: parameters.features(),
        };
        self.pool.with_lane(|fabric, lane| {
            block_on(fabric, lane, catalog::create(lane, self.pool.home(), self.member, 0, &definition, 0))
        })??;
        Ok(self.pool.find_index(name)?.0)
    }

    /// What an index is put together with: see [`crate::assembly`].
    pub fn place(&self, entry: &IndexEntry, fabric: &AnyFabric) -> Place<'_> {
        Place {
            geometry: self.pool.geometry(),
            number: entry.number,
            member: self.member,
            capabilities: fabric.capabilities(),
            guarantees: Self::guarantees(fabric),
            recovery: None,
            epochs: None,
        }
    }

    fn guarantees(fabric: &AnyFabric) -> Guarantees {
        fabric.guarantees()
    }

    /// Opens an index and passes it to `run`: with recovery, if it is wanted, the fabric can fence, and the index is of a kind
    /// that has it. That is possible once per join.
    pub fn with_index<R>(
        &self,
        entry: &IndexEntry,
        parameters: &IndexParameters,
        spending: &Spending,
        run: impl FnOnce(AnyIndex<'_, '_, '_>) -> R,
    ) -> Result<R, AssemblyError> {
        let place = self.pool.with_lane_of(|fabric, _| self.place(entry, fabric))?;
        let epochs = self.take_pins();
        let place = Place { epochs: epochs.as_ref().map(Pinning::part), ..place };
        if !self.recovery || !place.capabilities.fencing {
            return with_index(&place, parameters, spending, run);
        }
        parameters.check().map_err(AssemblyError::from)?;
        // Two indexes would count lock words from 1, both of them.
        if self.opened.swap(true, Ordering::Relaxed) {
            return Err(AssemblyError::Reopened);
        }
        let (lanes, node_bytes) = (self.pulses.len() as u16, parameters.redo_bytes());
        let mut areas = vec![Area::default(); self.pool.nodes.len()];
        let requests = RequestIds::default();
        let (geometry, member) = (&self.pool.geometry, self.member);
        self.pool.with_lane_of(|fabric, lane| {
            let redo = redo::prepare(lane, geometry, member, place.number, &requests, lanes, node_bytes, 0, &mut areas);
            block_on(fabric, lane, redo)
        })??;
        let recovery = Recovery::new(self.member, &self.lease, &self.pulses, &areas, &place.capabilities)?;
        with_index(&Place { recovery: Some(&recovery), ..place }, parameters, spending, run)
    }

    /// The pins of this compute node's lanes, for an index as long as it is open.
    fn take_pins(&self) -> Option<Pinning<'_>> {
        if self.pinned.swap(true, Ordering::Relaxed) {
            // Another one's lanes have the same numbers: no pin could tell whose pointers are how old.
            self.epochs.mute();
            return None;
        }
        Some(Pinning(self))
    }

    /// Gives the chunks of redo images back: every lock is free, so no image will be looked for.
    fn return_redo_chunks(&self) -> Result<(), PoolError> {
        self.pool.with_lane(|fabric, lane| {
            block_on(fabric, lane, async {
                for (number, geometry) in self.pool.geometry.iter().enumerate() {
                    let node = NodeId(number as u16);
                    let mut mine = Vec::new();
                    let mut see = |chunk, found| {
                        if let Ok(ChunkEntry::Granted(grant)) = found
                            && grant.kind == ChunkKind::Redo
                            && grant.row == self.member.row
                            && u32::from(grant.incarnation) == self.member.incarnation
                        {
                            mine.push((chunk, grant));
                        }
                    };
                    chunks::walk(lane, node, geometry, 0, &mut see).await?;
                    for (chunk, grant) in mine {
                        let (offset, bytes) = (geometry.chunk_offset(chunk), geometry.chunk_bytes);
                        let granted = Granted { node, chunk, offset, bytes, grant, used: false, free_percent: 0 };
                        // Not as good as new: the next nodes there would not be told from what the images have of nodes.
                        chunks::release(lane, geometry, &granted, true).await?;
                    }
                }
                Ok(())
            })
        })?
    }
}

/// The lanes of one index have the pins.
struct Pinning<'n>(&'n ComputeNode);

impl Pinning<'_> {
    fn part(&self) -> Participant<'_> {
        Participant { epochs: &self.0.epochs, pins: &self.0.pins }
    }
}

impl Drop for Pinning<'_> {
    fn drop(&mut self) {
        // What waited is for others to adopt when this compute node is gone.
        self.0.epochs.nobody_waits();
        self.0.pinned.store(false, Ordering::Relaxed);
    }
}

impl Drop for ComputeNode {
    fn drop(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            keeper.stop();
        }
        // Whoever was fenced does nothing more under this name, and leaves the rest to others.
        let settled = !*self.owes.get_mut() && !self.lease.is_fenced();
        if settled
            && *self.opened.get_mut()
            && let Err(error) = self.return_redo_chunks()
        {
            tracing::debug!("giving redo chunks back: {error}");
        }
        self.pool.part(self.member, settled);
    }
}

/// Formats the region of a new memory node: used by the daemon and by tools that serve memory themselves.
pub fn format(
    plan: &dm_core::remote::superblock::PoolPlan,
) -> Result<Vec<u8>, dm_core::remote::superblock::FormatError> {
    use zerocopy::IntoBytes;
    Ok(plan.format()?.as_bytes().to_vec())
}

/// The id of a pool called `name`: its first 16 bytes.
pub fn pool_id(name: &str) -> [u8; 16] {
    let mut id = [0; 16];
    for (to, from) in id.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    id
}

/// A control socket's path in `directory`, by number of the memory node.
pub fn socket_in(directory: &Path, node: u16) -> PathBuf {
    directory.join(format!("memory-node-{node}.sock"))
}
