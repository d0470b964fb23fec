//! A compute node: a process that has a row in the pool it is connected to, and opens indexes.

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
use dm_core::index::{catalog, owners};
use dm_core::membership::lease::{Lease, LeaseConfig, ProgressCounter};
use dm_core::membership::redo::{self, Area};
use dm_core::membership::{Recovery, rows};
use dm_core::memory::chunks::{self, Granted, RequestIds, Want};
use dm_core::memory::{Epochs, Participant, Pin};
use dm_core::operation::{Cause, OpError};
use dm_core::remote::SCRATCH_BYTES;
use dm_core::remote::catalog::{Definition, IndexEntry, IndexNumber};
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, Grant};
use dm_core::remote::row::{Joiner, Member};
use dm_core::verbs::{Guarantees, NodeId};
use rustix::system::uname;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
        let joiner = Joiner { token: token(), lanes, host: system.nodename().to_str().unwrap_or_default() };
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
            pinned: AtomicBool::new(false),
            opened: AtomicBool::new(false),
            has_unsettled_lane: AtomicBool::new(false),
            changes: Mutex::default(),
            requests: RequestIds::default(),
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
    /// An index is open whose lanes use the pins.
    pinned: AtomicBool,
    /// An index was opened with recovery.
    opened: AtomicBool,
    /// A lock word may still name this row after the node has left.
    has_unsettled_lane: AtomicBool,
    /// Held while the node changes the catalog; counts changes.
    changes: Mutex<u8>,
    /// Of chunks that it asks for without an index.
    requests: RequestIds,
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
    /// many parts there are. Without boundaries this is [`ComputeNode::create_index`].
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
            guarantees: Self::guarantees(fabric),
            recovery: None,
            epochs: None,
        }
    }

    fn guarantees(fabric: &AnyFabric) -> Guarantees {
        fabric.guarantees()
    }

    /// Opens an index and passes it to `run`. The index has recovery if that is wanted, the fabric can fence, and the
    /// index is of a kind that has recovery. A node can open an index with recovery once per join.
    pub fn with_index<R>(
        &self,
        entry: &IndexEntry,
        parameters: &IndexParameters,
        spending: &Spending,
        run: impl FnOnce(AnyIndex<'_, '_, '_>) -> R,
    ) -> Result<R, AssemblyError> {
        Self::with_places(slice::from_ref(self), entry, parameters, |places| match places {
            [place] => with_index(place, parameters, spending, run),
            _ => Err(AssemblyError::Impossible("an index nowhere")),
        })
    }

    /// As [`ComputeNode::with_index`], for several compute nodes of this process: passes to `run` what the index on each of
    /// them is put together with.
    pub fn with_places<R>(
        nodes: &[Self],
        entry: &IndexEntry,
        parameters: &IndexParameters,
        run: impl FnOnce(&[Place<'_>]) -> Result<R, AssemblyError>,
    ) -> Result<R, AssemblyError> {
        let openings = nodes.iter().map(|node| node.begin_opening(entry, parameters)).collect::<Result<Vec<_>, _>>()?;
        let recoveries = openings.iter().map(Opening::recovery).collect::<Result<Vec<_>, _>>()?;
        let places = openings.iter().zip(&recoveries);
        let places: Vec<_> =
            places.map(|(opening, recovery)| Place { recovery: recovery.as_ref(), ..opening.place }).collect();
        run(&places)
    }

    /// What an index borrows of this compute node while it is open.
    fn begin_opening(&self, entry: &IndexEntry, parameters: &IndexParameters) -> Result<Opening<'_>, AssemblyError> {
        // Before the look at the entry below: a drop looks for this, and so one of the two sees the other.
        let opened = self.pool.note_opened(self.member, entry.number);
        let place = self.pool.with_lane_of(|fabric, _| self.place(entry, fabric))?;
        let pinning = self.take_pins();
        let place = Place { epochs: pinning.as_ref().map(Pinning::part), ..place };
        let mut opening = Opening { node: self, place, areas: None, _pinning: pinning, _opened: opened };
        if !self.recovery || !place.capabilities.fencing {
            self.check_live(entry)?;
            return Ok(opening);
        }
        parameters.check().map_err(AssemblyError::from)?;
        // Two indexes would both number their lock words from 1.
        if self.opened.swap(true, Ordering::Relaxed) {
            return Err(AssemblyError::Reopened);
        }
        let (lanes, node_bytes) = (self.progress_counters.len() as u16, parameters.redo_bytes());
        let mut areas = vec![Area::default(); self.pool.nodes().len()];
        let requests = RequestIds::default();
        let (geometry, member) = (self.pool.geometry(), self.member);
        self.pool.with_lane_of(|fabric, lane| {
            let redo = redo::prepare(lane, geometry, member, place.number, &requests, lanes, node_bytes, 0, &mut areas);
            block_on(fabric, lane, redo)
        })??;
        self.check_live(entry)?;
        opening.areas = Some(areas);
        Ok(opening)
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

    /// The pins of this compute node's lanes, for as long as the index is open.
    fn take_pins(&self) -> Option<Pinning<'_>> {
        if self.pinned.swap(true, Ordering::Relaxed) {
            // The lanes of a second index have the same numbers. So no pin could tell how old the pointers of which
            // lane are.
            self.epochs.publish_no_epoch();
            return None;
        }
        Some(Pinning(self))
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
    /// Where the redo records are, on each memory node; `None`: the index is opened without recovery.
    areas: Option<Vec<Area>>,
    _pinning: Option<Pinning<'n>>,
    _opened: Opened<'n>,
}

impl Opening<'_> {
    fn recovery(&self) -> Result<Option<Recovery<'_>>, AssemblyError> {
        let Some(areas) = &self.areas else { return Ok(None) };
        let ComputeNode { member, lease, progress_counters, .. } = self.node;
        let capabilities = &self.place.capabilities;
        Ok(Some(Recovery::new(*member, lease, progress_counters, areas, capabilities)?))
    }
}

/// The lanes of one index use the pins.
struct Pinning<'n>(&'n ComputeNode);

impl<'n> Pinning<'n> {
    fn part(&self) -> Participant<'n> {
        Participant { epochs: &self.0.epochs, pins: &self.0.pins }
    }
}

impl Drop for Pinning<'_> {
    fn drop(&mut self) {
        // Others collect what was in the limbo list when this compute node has departed.
        self.0.epochs.forget_waiting();
        self.0.pinned.store(false, Ordering::Relaxed);
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
            && *self.opened.get_mut()
            && let Err(error) = self.return_redo_chunks()
        {
            tracing::debug!("giving redo chunks back: {error}");
        }
        self.pool.part(self.member, settled);
        self.pool.forget_member(self.member);
    }
}
