//! A compute node: a process that has a row in the pool it is connected to, and opens indexes.
//!
//! # Several indexes under one row
//!
//! A row stands for everything that others have to know of a compute node: a lease and the keeper's heartbeats, the epoch
//! that its operations have reached, where its redo records are, and which indexes it has open. Locks, chunks and redo
//! records name the row. So one row serves any number of indexes if nothing is counted twice and no lane has two jobs:
//!
//! ```text
//!  row: lease, heartbeat, epoch ──┬── lanes  0 .. 41   index a: cache, local locks, free memory, workers
//!       redo slots of all lanes   ├── lanes 41 .. 82   index b: ...
//!       list of open indexes      └── lanes 82 ..      not in use: the next index gets them
//! ```
//!
//! - **Lanes** are numbered over all indexes. A lane has a pin, a progress counter and redo slots; with a number of its own
//!   it shares none of them. An opening that would share lanes is refused ([`AssemblyError::LanesTaken`]). Without
//!   recovery it is not, and then nothing waits for epochs here.
//! - **Counts** are the compute node's: lock words, steps of redo records ([`Numbers`]), requests for chunks, and layers of
//!   keys of any length ([`LayerNumbers`]). So no word, no entry of a chunk table and no layer is used twice, though an index
//!   is closed and opened again.
//! - **Redo slots** are made once, for all lanes, and are as long as the largest node needs that the compute node was told
//!   of ([`ComputeNode::expect_nodes_of`]). An index with larger nodes is refused.
//! - **The list of open indexes** lies behind redo slots ([`redo::OpenIndexes`]). It says through which indexes a dead
//!   row has to be swept, and which of them nobody may drop.
//! - **Locks in tables** belong to the pool. Two indexes of a compute node may want one lock word. Each has its own local
//!   queue, so they compete for the word as two compute nodes would, and neither takes the other for dead.
//!
//! What a closed index had of free memory stays granted to the row until the row is free, and is collected then.
//!
//! **Limits.** A row names one log, so one index with a log ([`AssemblyError::SecondLog`]). An index is open once: a second
//! copy would have the same seats in the leaves of Dolphin.

mod drain;
mod drop;
mod rename;

use crate::assembly::{AssemblyError, Place, Spending};
use crate::clock::lease_us;
use crate::fabric::any::AnyFabric;
use crate::keeper::{Keeper, terms_here};
use crate::kinds::{AnyIndex, IndexParameters, with_index};
use crate::pool::{Opened, Pool, PoolError};
use crate::solo::block_on;
use dm_core::fabric::Fabric;
use dm_core::index::forward::caller::GivenUp;
use dm_core::index::{catalog, owners};
use dm_core::items::layer::LayerNumbers;
use dm_core::membership::lease::{Lease, LeaseConfig, ProgressCounter};
use dm_core::membership::redo::{self, Area, RedoError};
use dm_core::membership::{Numbers, Recovery, growth, rows};
use dm_core::memory::chunks::{self, Granted, RequestIds, Want};
use dm_core::memory::{Epochs, Participant, Pin};
use dm_core::operation::{Cause, OpError};
use dm_core::remote::SCRATCH_BYTES;
use dm_core::remote::catalog::{Definition, IndexEntry, IndexNumber, IndexSet};
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, Grant};
use dm_core::remote::row::{Joiner, Member};
use dm_core::verbs::NodeId;
use rustix::system::uname;
use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// How a compute node takes part in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// How long the node may be unresponsive before others fence it. It should be the same for all compute nodes of a
    /// pool.
    pub terms: LeaseConfig,
    /// Whether others can recover the locks of this node when it dies. This costs a redo record in the chain of each
    /// larger WRITE, and a chunk or more on each memory node. Without it, as on a fabric that cannot fence, a dead
    /// node's locks stay held.
    pub recovery: bool,
}

impl Default for Membership {
    fn default() -> Self {
        Self { terms: terms_here(), recovery: true }
    }
}

impl Pool {
    /// Joins the pool as a compute node with `lanes` lanes, and keeps its lease.
    pub fn join(self: &Arc<Self>, lanes: u16, membership: Membership) -> Result<ComputeNode, PoolError> {
        let unknown = self.descriptions().iter().fold(0, |bits, description| bits | description.read_only_unknown);
        if unknown != 0 {
            return Err(PoolError::ReadOnly { unknown });
        }
        let system = uname();
        let joiner = Joiner {
            token: token(),
            lanes,
            memory_nodes: self.nodes().len() as u16,
            host: system.nodename().to_str().unwrap_or_default(),
        };
        let member =
            self.with_lane(|fabric, lane| block_on(fabric, lane, rows::claim(lane, self.home(), &joiner, 0)))??;
        // Before the node's first WRITE, every memory node must know which process to end when this row is fenced:
        // `memory_node::members`.
        for node in self.nodes() {
            if let Err(error) = node.announce(member.row, member.incarnation) {
                self.part(member, true);
                return Err(error.into());
            }
        }
        self.with_lane(|fabric, lane| {
            block_on(fabric, lane, rows::publish_row(lane, self.home(), member, &joiner, 0))
        })??;
        // Behind the claim of the row: see `growth`.
        let confirmed = self.with_lane(|fabric, lane| {
            block_on(fabric, lane, growth::confirm(lane, self.home(), joiner.memory_nodes, 0))
        });
        if let Err(error) = confirmed.and_then(|confirmed| Ok(confirmed?)) {
            self.part(member, true);
            return Err(error);
        }
        let (lease_ns, lease) = (membership.terms.lease_ns(), Lease::new(membership.terms));
        // The others' lease begins when they first see the row with its lease.
        let joined_us = lease_us();
        lease.tick(joined_us);
        lease.renewed(joined_us);
        self.with_lane(|fabric, lane| {
            block_on(fabric, lane, rows::declare_lease(lane, self.home(), member, lease_ns))
        })??;
        let mut node = ComputeNode {
            pool: Arc::clone(self),
            member,
            recovery: membership.recovery,
            lease: Arc::new(lease),
            progress_counters: (0..lanes).map(|_| ProgressCounter::default()).collect(),
            epochs: Arc::default(),
            pins: (0..lanes).map(|_| Pin::default()).collect(),
            keeper: None,
            areas: OnceLock::new(),
            numbers: Numbers::new(),
            redo_bytes: AtomicUsize::new(0),
            openings: Mutex::new(Openings { taken: vec![false; lanes.into()], ..Openings::default() }),
            has_unsettled_lane: AtomicBool::new(false),
            changes: Mutex::default(),
            requests: RequestIds::default(),
            layers: LayerNumbers::new(),
            given_up: GivenUp::new(),
        };
        self.note_member(member);
        // From here on a failure makes this process leave the pool again.
        let epochs = (Arc::clone(&node.epochs), Arc::clone(&node.pins));
        let keeper = Keeper::start(self, member, Arc::clone(&node.lease), Arc::clone(&node.progress_counters), epochs)?;
        node.keeper = Some(keeper);
        Ok(node)
    }

    /// Leaves the pool as `member`. The caller writes nothing under that name any more.
    fn part(&self, member: Member, settled: bool) {
        // Withdraws first: the next node that gets this row may be fenced, and that must not end this process. What
        // follows is a CAS that expects this node's own row word, which no other node ever writes.
        for node in self.nodes() {
            if let Err(error) = node.withdraw(member.row, member.incarnation) {
                tracing::debug!("leaving the pool: {error}");
            }
        }
        // If the pool is down, there is no row to free.
        let left =
            self.with_lane(|fabric, lane| block_on(fabric, lane, rows::leave(lane, self.home(), member, settled)));
        if !matches!(left, Ok(Ok(()))) {
            tracing::debug!("leaving the pool: {left:?}");
        }
    }
}

/// A number that tells two starts of a process apart.
fn token() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    // `RandomState` is seeded by the system. The low 28 bits must not be 0.
    RandomState::new().hash_one((now, std::process::id())) | 1
}

/// This process's membership in a pool. Dropping it leaves the pool.
///
/// Others may fence the node when it misses its lease. Then its operations fail with
/// [`dm_core::operation::Cause::Fenced`], and the process has to join the pool again. On shared memory the daemons end
/// the whole process first.
#[derive(Debug)]
pub struct ComputeNode {
    pool: Arc<Pool>,
    member: Member,
    recovery: bool,
    lease: Arc<Lease>,
    /// One per lane.
    progress_counters: Arc<[ProgressCounter]>,
    epochs: Arc<Epochs>,
    /// One per lane.
    pins: Arc<[Pin]>,
    keeper: Option<Keeper>,
    /// Its redo area on each memory node, once it has opened an index with recovery.
    areas: OnceLock<Vec<Area>>,
    numbers: Numbers,
    /// Nodes that redo slots have room for at least, in bytes.
    redo_bytes: AtomicUsize,
    openings: Mutex<Openings>,
    /// A lock word may still name this row after the node has left.
    has_unsettled_lane: AtomicBool,
    /// Held while the node changes the catalog; counts changes.
    changes: Mutex<u8>,
    /// Of chunks that it asks for, for any index and for none.
    requests: RequestIds,
    /// That it makes in indexes with keys of any length.
    layers: LayerNumbers,
    /// How often it has given up calls to others.
    given_up: GivenUp,
}

/// Sequences of lock words between those of two openings without recovery: an hour of four million acquisitions a second.
const SEQUENCES_PER_OPENING: u64 = 1 << 34;

/// The indexes that a compute node has open.
#[derive(Debug, Default)]
struct Openings {
    /// By lane: whether an index has it.
    taken: Vec<bool>,
    open: IndexSet,
    /// What the list in the pool says.
    listed: IndexSet,
    count: usize,
    /// How many there ever were.
    ever: u64,
    had_log: bool,
    /// Redo chunks were asked for.
    asked_for_redo: bool,
}

/// The right of a compute node to change the catalog, and the number of the next change. One change at a time, so that
/// what the catalog shows as begun by this compute node is what it did not finish.
struct Changing<'n>(MutexGuard<'n, u8>);

impl Changing<'_> {
    fn next(&mut self) -> u8 {
        *self.0 = self.0.wrapping_add(1);
        *self.0
    }
}

impl ComputeNode {
    fn changing(&self) -> Changing<'_> {
        Changing(self.changes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that a lane could not be settled, so that a lock word may still name this row. When the node leaves,
    /// others must sweep the row before any node can claim it.
    pub fn mark_unsettled(&self) {
        self.has_unsettled_lane.store(true, Ordering::Relaxed);
    }

    /// Whether a lane could not be settled.
    pub(crate) fn has_unsettled(&self) -> bool {
        self.has_unsettled_lane.load(Ordering::Relaxed)
    }

    /// How long the node may be unresponsive.
    pub fn terms(&self) -> LeaseConfig {
        self.lease.config()
    }

    /// Whether others have fenced this node.
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

    /// Creates an index. Fails if an index of that name exists.
    pub fn create_index(&self, name: &str, parameters: &IndexParameters) -> Result<IndexEntry, PoolError> {
        self.create_index_cut_at(name, parameters, &[])
    }

    /// Creates an index whose keys have owners, one for each part of the keys: the first part begins at the least key, and each
    /// of the others at one of `boundaries`, which ascend. The parameters have to say that boundaries are given, and how
    /// many parts there are. If they say that keys are cut at quantiles, `boundaries` is a sample of keys, ascending: each part
    /// has as many of them. Without boundaries this is [`ComputeNode::create_index`].
    ///
    /// The index exists before its boundaries do: if this process dies in between, nobody can open it, and it has to be
    /// dropped.
    pub fn create_index_cut_at(
        &self,
        name: &str,
        parameters: &IndexParameters,
        boundaries: &[Vec<u8>],
    ) -> Result<IndexEntry, PoolError> {
        let bad = |source| PoolError::Parameters { name: name.to_owned(), source };
        parameters.check().map_err(bad)?;
        let incarnation = self.pool.descriptions()[0].identity.pool_incarnation;
        // Before anything is written.
        parameters.table(IndexNumber::NONE, incarnation, boundaries).map_err(bad)?;
        let (block, parameters_version) = parameters.encode();
        let definition = Definition {
            name,
            kind: parameters.kind(),
            parameters_version,
            parameters: block,
            features: parameters.features(),
        };
        let mut changing = self.changing();
        self.put_back_begun(&mut changing)?;
        self.create_defined(&definition, &mut changing)?;
        let entry = self.pool.find_index(name)?.0;
        let table = parameters.table(entry.number, incarnation, boundaries).map_err(bad)?;
        let Some(table) = table else { return Ok(entry) };
        if let Err(error) = self.make_owners(&entry, &table) {
            // Nobody can open it. What led here says more than why it cannot be dropped.
            let _ = self.drop_entry(&entry, &mut changing);
            return Err(error);
        }
        drop(changing);
        Ok(self.pool.find_index(name)?.0)
    }

    /// Makes the ownership table of an index that this compute node has just created.
    fn make_owners(&self, entry: &IndexEntry, table: &[u8]) -> Result<(), PoolError> {
        let failed = |source| PoolError::Owners { name: entry.name().to_owned(), source };
        let used_up = "this incarnation has used all its requests for chunks: join anew";
        let request = self.requests.next().ok_or(OpError::harmless(Cause::BadInput(used_up))).map_err(failed)?;
        let grant = Grant::new(self.member, ChunkKind::Other, entry.number, request);
        // Old bytes do no harm: the table is written whole.
        let want = Want { reuse: true, ..Want::new(grant) };
        let image = SCRATCH_BYTES..SCRATCH_BYTES + table.len();
        let made = self.pool.with_lane_of_bytes(image.end, |fabric, lane| {
            lane.port().with(|scratch| scratch[image.clone()].copy_from_slice(table));
            block_on(fabric, lane, owners::make(lane, self.pool.home(), entry.number, &want, &image, 0))
        })?;
        made.map(drop).map_err(failed)
    }

    fn create_defined(&self, definition: &Definition<'_>, changing: &mut Changing<'_>) -> Result<(), PoolError> {
        let request = changing.next();
        self.pool.with_lane(|fabric, lane| {
            block_on(fabric, lane, catalog::create(lane, self.pool.home(), self.member, request, definition, 0))
        })??;
        Ok(())
    }

    /// What an index is put together with: see [`crate::assembly`].
    pub fn place(&self, entry: &IndexEntry, fabric: &AnyFabric) -> Place<'_> {
        Place {
            geometry: self.pool.geometry(),
            number: entry.number,
            member: self.member,
            capabilities: fabric.capabilities(),
            guarantees: fabric.guarantees(),
            recovery: None,
            requests: Some(&self.requests),
            layers: Some(&self.layers),
            given_up: Some(&self.given_up),
            first_sequence: 1,
            epochs: None,
        }
    }

    /// Lets redo slots have room for nodes of so many bytes ([`IndexParameters::redo_bytes`]), of indexes that this compute
    /// node will open. It has to be said before the first index is opened; of that one it is known.
    pub fn expect_nodes_of(&self, bytes: usize) {
        self.redo_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Opens an index and passes it to `run`. The index has recovery if that is wanted, the fabric can fence, and the
    /// index is of a kind that has recovery. Several indexes may be open at a time, each with lanes of its own
    /// ([`Spending::first_lane`]).
    pub fn with_index<R>(
        &self,
        entry: &IndexEntry,
        parameters: &IndexParameters,
        spending: &Spending,
        run: impl FnOnce(AnyIndex<'_, '_, '_>) -> R,
    ) -> Result<R, AssemblyError> {
        let lanes = spending.first_lane..spending.lanes;
        Self::with_places_of(slice::from_ref(self), entry, parameters, Some(&lanes), |places| match places {
            [place] => with_index(place, parameters, spending, run),
            _ => Err(AssemblyError::Impossible("an index nowhere")),
        })
    }

    /// As [`ComputeNode::with_index`], for several compute nodes of this process: passes to `run` what the index on each of
    /// them is put together with. The index has all lanes of each.
    pub fn with_places<R>(
        nodes: &[Self],
        entry: &IndexEntry,
        parameters: &IndexParameters,
        run: impl FnOnce(&[Place<'_>]) -> Result<R, AssemblyError>,
    ) -> Result<R, AssemblyError> {
        Self::with_places_of(nodes, entry, parameters, None, run)
    }

    /// `lanes`: those of the index; `None`: all.
    fn with_places_of<R>(
        nodes: &[Self],
        entry: &IndexEntry,
        parameters: &IndexParameters,
        lanes: Option<&Range<usize>>,
        run: impl FnOnce(&[Place<'_>]) -> Result<R, AssemblyError>,
    ) -> Result<R, AssemblyError> {
        let lanes_of = |node: &Self| lanes.cloned().unwrap_or(0..node.pins.len());
        let openings = nodes.iter().map(|node| node.begin_opening(entry, parameters, lanes_of(node)));
        let openings = openings.collect::<Result<Vec<_>, _>>()?;
        let recoveries = openings.iter().map(Opening::recovery).collect::<Result<Vec<_>, _>>()?;
        let places = openings.iter().zip(&recoveries);
        let places: Vec<_> =
            places.map(|(opening, recovery)| Place { recovery: recovery.as_ref(), ..opening.place }).collect();
        run(&places)
    }

    /// What an index borrows of this compute node while it is open.
    fn begin_opening(
        &self,
        entry: &IndexEntry,
        parameters: &IndexParameters,
        lanes: Range<usize>,
    ) -> Result<Opening<'_>, AssemblyError> {
        // Before the look at the entry below: a drop looks for this, and so one of the two sees the other.
        let opened = self.pool.note_opened(self.member, entry.number);
        let place = self.pool.with_lane_of(|fabric, _| self.place(entry, fabric))?;
        let recovers = self.recovery && place.capabilities.fencing;
        parameters.check().map_err(AssemblyError::from)?;
        let open = self.take(entry, parameters, lanes, recovers)?;
        let epochs = open.pins.then_some(Participant { epochs: &self.epochs, pins: &self.pins });
        let place = Place { epochs, first_sequence: open.first_sequence, ..place };
        let listed = if recovers { self.list(parameters) } else { Ok(()) };
        if let Err(error) = listed.and_then(|()| self.check_live(entry)) {
            // It has not had one.
            self.openings().had_log &= !parameters.has_log();
            return Err(error);
        }
        Ok(Opening { node: self, place, recovers, _open: open, _opened: opened })
    }

    fn openings(&self) -> MutexGuard<'_, Openings> {
        // A panic leaves whole structures: what is changed is changed without a call that could panic.
        self.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes lanes for an index, until the result is dropped.
    fn take(
        &self,
        entry: &IndexEntry,
        parameters: &IndexParameters,
        lanes: Range<usize>,
        recovers: bool,
    ) -> Result<Open<'_>, AssemblyError> {
        let mut openings = self.openings();
        if openings.open.contains(entry.number) {
            return Err(AssemblyError::AlreadyOpen { name: entry.name().to_owned() });
        }
        if parameters.has_log() && std::mem::replace(&mut openings.had_log, true) {
            return Err(AssemblyError::SecondLog { name: entry.name().to_owned() });
        }
        let is_free = openings.taken.get(lanes.clone()).is_some_and(|taken| !taken.contains(&true));
        if is_free {
            openings.taken[lanes.clone()].fill(true);
        } else if recovers && lanes.end <= openings.taken.len() {
            return Err(AssemblyError::LanesTaken { first: lanes.start, last: lanes.end.saturating_sub(1) });
        } else {
            // No pin can tell how old the pointers of which lane are. Lanes that the compute node has not are refused
            // with recovery, when the index is put together.
            self.epochs.publish_no_epoch();
        }
        openings.open.insert(entry.number);
        openings.count += 1;
        let first_sequence = 1 + openings.ever * SEQUENCES_PER_OPENING;
        openings.ever += 1;
        Ok(Open { node: self, number: entry.number, lanes: is_free.then_some(lanes), pins: is_free, first_sequence })
    }

    /// Lets the list in the pool say what is open. The first time it makes the redo areas, too.
    fn list(&self, parameters: &IndexParameters) -> Result<(), AssemblyError> {
        let mut openings = self.openings();
        // One that waits for an index to be closed has its name in the list until it is settled.
        let open = openings.listed.with(&openings.open);
        let (geometry, member) = (self.pool.geometry(), self.member);
        if let Some(areas) = self.areas.get() {
            let listed = self.pool.with_lane_of(|fabric, lane| {
                block_on(fabric, lane, redo::list_open(lane, &areas[0], member, &open, 0))
            })?;
            listed.map_err(RedoError::from)?;
            openings.listed = open;
            return Ok(());
        }
        openings.asked_for_redo = true;
        let node_bytes = self.redo_bytes.load(Ordering::Relaxed).max(parameters.redo_bytes());
        let (lanes, mut areas) = (self.pins.len() as u16, vec![Area::default(); self.pool.nodes().len()]);
        self.pool.with_lane_of(|fabric, lane| {
            let (requests, areas) = (&self.requests, areas.as_mut_slice());
            block_on(fabric, lane, redo::prepare(lane, geometry, member, &open, requests, lanes, node_bytes, 0, areas))
        })??;
        openings.listed = open;
        // There is none: the lock is held.
        let _ = self.areas.set(areas);
        Ok(())
    }

    /// Fails if an index that is about to be opened has been dropped.
    fn check_live(&self, entry: &IndexEntry) -> Result<(), AssemblyError> {
        let found = self.pool.with_lane_of(|fabric, lane| {
            block_on(fabric, lane, catalog::find(lane, self.pool.home(), entry.name(), 0))
        })?;
        let mut found = found.map_err(AssemblyError::Catalog)?;
        if let Some(found) = &mut found {
            // It may have grown, and another compute node may have made its ownership table.
            (found.root, found.owners) = (entry.root, entry.owners);
        }
        if found == Some(*entry) { Ok(()) } else { Err(AssemblyError::Dropped { name: entry.name().to_owned() }) }
    }

    /// Gives the chunks of redo records back: every lock is free, so no node will look for a record.
    fn return_redo_chunks(&self) -> Result<(), PoolError> {
        self.pool.with_lane(|fabric, lane| {
            block_on(fabric, lane, async {
                for (number, geometry) in self.pool.geometry().iter().enumerate() {
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
                        // Released as used: redo records hold images of nodes, and the chunk's next owner could not
                        // tell these from nodes of its own.
                        chunks::release(lane, geometry, &granted, true).await?;
                    }
                }
                Ok(())
            })
        })?
    }
}

/// An index is being opened, or is open.
struct Opening<'n> {
    node: &'n ComputeNode,
    /// Without recovery.
    place: Place<'n>,
    recovers: bool,
    // Before `_opened`: fields are dropped in this order.
    _open: Open<'n>,
    _opened: Opened<'n>,
}

impl Opening<'_> {
    fn recovery(&self) -> Result<Option<Recovery<'_>>, AssemblyError> {
        let ComputeNode { member, lease, progress_counters, areas, numbers, .. } = self.node;
        let Some(areas) = areas.get().filter(|_| self.recovers) else { return Ok(None) };
        let capabilities = &self.place.capabilities;
        Ok(Some(Recovery::new(*member, lease, progress_counters, areas, numbers, capabilities)?))
    }
}

/// The lanes and the name of an index that is open.
struct Open<'n> {
    node: &'n ComputeNode,
    number: IndexNumber,
    /// `None`: another index has them.
    lanes: Option<Range<usize>>,
    pins: bool,
    first_sequence: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let node = self.node;
        let mut openings = node.openings();
        openings.count -= 1;
        if openings.count == 0 {
            // Others collect what was in the limbo lists when this compute node has departed.
            node.epochs.forget_waiting();
        }
        openings.open.remove(self.number);
        // A lane that could not be settled may have a lock, and nobody knows which lane it is.
        if node.has_unsettled() || node.is_fenced() {
            return;
        }
        if let Some(lanes) = &self.lanes {
            openings.taken[lanes.clone()].fill(false);
        }
        let Some(areas) = node.areas.get() else { return };
        let open = openings.open;
        let listed = node.pool.with_lane_of(|fabric, lane| {
            block_on(fabric, lane, redo::list_open(lane, &areas[0], node.member, &open, 0))
        });
        match listed {
            Ok(Ok(())) => openings.listed = open,
            // Then it cannot be dropped while this compute node lives.
            failed => tracing::debug!("closing an index: {failed:?}"),
        }
    }
}

impl Drop for ComputeNode {
    fn drop(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            keeper.stop();
        }
        // A fenced node does nothing more under this name, and leaves the rest to others.
        let settled = !*self.has_unsettled_lane.get_mut() && !self.lease.is_fenced();
        if settled
            && self.openings().asked_for_redo
            && let Err(error) = self.return_redo_chunks()
        {
            tracing::debug!("giving redo chunks back: {error}");
        }
        self.pool.part(self.member, settled);
        self.pool.forget_member(self.member);
    }
}
