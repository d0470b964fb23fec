//! A compute node: a process that is connected to a pool's memory nodes, has a row there, and opens indexes.

use crate::assembly::Place;
use crate::fabric::shm::{ShmError, ShmFabric, ShmOptions};
use crate::kinds::{IndexParameterError, IndexParameters};
use crate::memory_node::{AnnounceError, ConnectError, RemoteNode, connect};
use crate::solo::block_on;
use dm_core::lane::Lane;
use dm_core::remote::catalog::{self, CatalogError, Definition, IndexEntry};
use dm_core::remote::rows::{self, Joiner, Member, RowError};
use dm_core::remote::superblock::{Features, NodeDescription, Superblock, SuperblockError};
use dm_core::remote::{NodeGeometry, SCRATCH_BYTES};
use dm_core::verbs::{Fabric, Guarantees, LaneId, Space};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// How often a compute node raises its heartbeat: eight times per lease of two seconds.
const HEARTBEAT: Duration = Duration::from_millis(250);

/// Why a pool cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PoolError {
    /// A memory node cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The fabric cannot be made.
    #[error(transparent)]
    Fabric(#[from] ShmError),
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
    /// The heartbeat's thread could not be started.
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
    nodes: Vec<Arc<RemoteNode>>,
    descriptions: Vec<NodeDescription>,
    geometry: Vec<NodeGeometry>,
    options: ShmOptions,
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
        let mut descriptions: Vec<NodeDescription> = Vec::new();
        for (socket, node) in &nodes {
            let mut bytes = [0; Superblock::BYTES];
            // A region too small for a superblock reads as zeros, which is not one.
            let _ = node.region().area(Space::Host).read(0, &mut bytes);
            let description = Superblock::decode(&bytes)
                .map_err(|source| PoolError::Superblock { socket: socket.clone(), source })?;
            if let Some(first) = descriptions.first()
                && first.identity.pool_id != description.identity.pool_id
            {
                return Err(PoolError::Mixed {
                    socket: socket.clone(),
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
        let geometry = descriptions.iter().map(|description| description.geometry).collect();
        let nodes = nodes.into_iter().map(|(_, node)| node).collect();
        let pool = Self { nodes, descriptions, geometry, options };
        // Checks order and number of the nodes.
        pool.fabric()?;
        Ok(pool)
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
    pub fn nodes(&self) -> &[Arc<RemoteNode>] {
        &self.nodes
    }

    /// A fabric for one worker.
    pub fn fabric(&self) -> Result<ShmFabric, PoolError> {
        Ok(ShmFabric::new(self.nodes.clone(), self.options)?)
    }

    /// The first memory node: the one whose catalog and rows count.
    fn home(&self) -> &NodeGeometry {
        // `of` made a fabric, which refuses a pool without nodes.
        &self.geometry[0]
    }

    /// Runs something short on a lane of its own, with [`SCRATCH_BYTES`] of scratch at offset 0.
    pub fn with_lane<R>(&self, run: impl FnOnce(&mut ShmFabric, &Lane<'_>) -> R) -> Result<R, PoolError> {
        let mut fabric = self.fabric()?;
        let mut scratch = vec![0; SCRATCH_BYTES];
        let lane = Lane::new(LaneId(0), &mut scratch);
        Ok(run_on(&mut fabric, &lane, run))
    }

    /// Joins the pool as a compute node with `lanes` lanes, and keeps its heartbeat going.
    pub fn join(self: &Arc<Self>, lanes: u16) -> Result<ComputeNode, PoolError> {
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
        let (stop, stopped) = mpsc::channel();
        let pool = Arc::clone(self);
        let heart = thread::Builder::new()
            .name("heartbeat".to_owned())
            .spawn(move || {
                let mut counter = 1;
                while stopped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
                    let beat = pool.with_lane(|fabric, lane| {
                        block_on(fabric, lane, rows::heartbeat(lane, pool.home(), member, counter, 0, 0))
                    });
                    counter += 1;
                    if !matches!(beat, Ok(Ok(()))) {
                        tracing::warn!("the heartbeat of compute-node row {} stopped: {beat:?}", member.row.0);
                        return;
                    }
                }
            })
            .map_err(PoolError::Thread)?;
        Ok(ComputeNode { pool: Arc::clone(self), member, heart: Some((stop, heart)), owes: AtomicBool::new(false) })
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
fn run_on<'m, R>(fabric: &mut ShmFabric, lane: &Lane<'m>, run: impl FnOnce(&mut ShmFabric, &Lane<'m>) -> R) -> R {
    run(fabric, lane)
}

/// A number that tells two starts of a process apart.
fn token() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    // RandomState is seeded by the system; the low 28 bits must not be 0.
    RandomState::new().hash_one((now, std::process::id())) | 1
}

/// This process's place in a pool. Dropping it leaves the pool.
#[derive(Debug)]
pub struct ComputeNode {
    pool: Arc<Pool>,
    member: Member,
    heart: Option<(Sender<()>, JoinHandle<()>)>,
    /// A lock may name this row after it left.
    owes: AtomicBool,
}

impl ComputeNode {
    /// Says that a lane could not be settled, so that a lock may go on naming this row. When it leaves, the row stays
    /// for others to finish with, and is not given to anybody before they have.
    pub fn owe(&self) {
        self.owes.store(true, Ordering::Relaxed);
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
            features: Features::default(),
        };
        self.pool.with_lane(|fabric, lane| {
            block_on(fabric, lane, catalog::create(lane, self.pool.home(), self.member, 0, &definition, 0))
        })??;
        Ok(self.pool.find_index(name)?.0)
    }

    /// What an index is put together with: see [`crate::assembly`].
    pub fn place(&self, entry: &IndexEntry, fabric: &ShmFabric) -> Place<'_> {
        Place {
            geometry: self.pool.geometry(),
            number: entry.number,
            member: self.member,
            capabilities: fabric.capabilities(),
            guarantees: Self::guarantees(fabric),
        }
    }

    fn guarantees(fabric: &ShmFabric) -> Guarantees {
        fabric.guarantees()
    }
}

impl Drop for ComputeNode {
    fn drop(&mut self) {
        if let Some((stop, heart)) = self.heart.take() {
            drop(stop);
            // A heartbeat that panicked has nothing to tell any more.
            let _ = heart.join();
        }
        let settled = !*self.owes.get_mut();
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
