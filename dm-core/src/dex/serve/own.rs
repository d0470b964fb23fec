//! How a compute node comes to what it owns: the ownership table and its log ring when it opens, entries when operations
//! need them; and how it gives them up.
//!
//! ```text
//!  operation on a key without a tenure
//!      │ not open yet: superblock, own row ─► catalog: table's address ─► table ─► chunks of a ring ─► ring ─► row names it
//!      ▼                                        0: make the table, CAS
//!  word of the entry ─┬─ FREE ────────────────► CAS: OWNED by me ──────────────────────────────────┬─► tenure
//!                     ├─ OWNED by a live one ─► NotOwner                                           │
//!                     └─ its owner is silent ─► fenced ─► CAS: RECOVERING ─► [`recover`] ──────────┘
//! ```
//!
//! **Entries are taken when they are needed.** The first compute node that operates on a key of a free entry owns it until
//! it leaves, or until somebody has the entry moved (`moves`). A program that wants a certain division has each compute node
//! begin with its own keys.
//!
//! **One lane at a time** opens, creates leaves, or takes an entry ([`Taking`]): the others wait, and a lane that waited for
//! an entry takes what came of it. So a recovery has the page store's dirty list for one entry only, and the compute
//! node watches an owner once and not per lane.
//!
//! **If it fails or is dropped**, [`Dex::settle`] lets the next lane begin anew. Each step finds what was done before: the
//! table by the catalog, chunks by their requests' numbers, an entry by its word.
//!
//! **The table is made by the first that opens**, if its boundaries follow from the parameters; else by the creator, which was
//! told where keys are cut ([`owners::make`]). It is whole before the catalog names it, and of several that make one, the CAS
//! of the catalog's word decides.
//!
//! Round trips of opening: superblock; row; catalog's word; table, its count first; two for each chunk of the ring; ring; row. Of
//! an entry that is free: three, its word twice and the count of entries (`cut`). Of one whose owner lives: two, its word and the
//! owner's row. Of one whose owner is dead: those of [`recover`].

use super::flush::{FLUSHED, Flushing};
use super::{Dex, Owner};
use crate::btree::leaves::key_of;
use crate::dex::log::append;
use crate::dex::log::ring::{RING_CHUNKS, Ring, RingOwner};
use crate::dex::ownership::OwnerWord;
use crate::dex::ownership::partition::{EntryCell, NotOwner, Partition, Tenure};
use crate::dex::ownership::steps::{Entry, TableSite, read_table};
use crate::dex::ownership::table::{Table, TableError, TableShape};
use crate::dex::recover::{self, recover};
use crate::dex::restore;
use crate::index::owners;
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, Unsettled};
use crate::marks::Mark;
use crate::membership::rows;
use crate::memory::chunks::{self, Granted, Want};
use crate::memory::rows::RowError;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, Effect, OpError, unknown};
use crate::pages::Flush;
use crate::registry::KEY_BYTES_MAX;
use crate::remote::HOME;
use crate::remote::address::Address;
use crate::remote::chunk::{ChunkKind, Grant, REQUESTS_MAX, RequestId};
use crate::remote::owners::{ENTRIES_MAX, TableHeader};
use crate::remote::superblock::Superblock;
use crate::verbs::{Label, NodeId, Request};
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use spin::Once;

/// How long a lane pauses that waits for another one to open, or to take an entry, in ns.
const WAIT_NS: u64 = 10_000;

/// WRITEs of loads in one chain.
const RUNS_AT_ONCE: u32 = 8;

/// Storage for what a compute node knows of the ownership table.
pub struct OwnersRoom<'s> {
    /// [`Partition::boundary_words`].
    pub boundaries: &'s [AtomicU32],
    /// One for each entry for which the table has room.
    pub order: &'s [AtomicU32],
    /// The same.
    pub cells: &'s [EntryCell],
}

/// What a compute node has that has opened an index.
pub(super) struct Opened<'s> {
    pub(super) partition: Partition<'s>,
    rings: Rings,
    /// Where the table is, on memory node 0.
    table: u64,
    /// The pool's identity and incarnation.
    pool: ([u8; 16], u64),
}

#[cfg(test)]
impl<'s> Opened<'s> {
    /// What tests have made themselves.
    pub(super) fn for_tests(partition: Partition<'s>, ring: Ring, owner: RingOwner, table: u64) -> Self {
        Self { partition, rings: Rings::new(ring, owner), table, pool: (owner.pool_id, owner.pool_incarnation) }
    }
}

/// A compute node has so many rings, one after the other: the memory node of a ring may go.
const RINGS_MAX: usize = 4;

/// The rings of a compute node.
struct Rings {
    owner: RingOwner,
    /// Those that were made. Lanes may still wait for a flight to an earlier one.
    made: [Once<Ring>; RINGS_MAX],
    /// The position of the one in use.
    now: AtomicUsize,
}

impl Rings {
    fn new(first: Ring, owner: RingOwner) -> Self {
        let rings = Self { owner, made: [const { Once::new() }; RINGS_MAX], now: AtomicUsize::new(0) };
        if let Some(place) = rings.made.first() {
            place.call_once(|| first);
        }
        rings
    }
}

impl Opened<'_> {
    /// The ring in use.
    pub(super) fn ring(&self) -> Result<&Ring, OpError> {
        let ring = self.rings.made.get(self.rings.now.load(Ordering::Acquire)).and_then(Once::get);
        ring.ok_or(bad("a log without a ring"))
    }
}

/// What one lane at a time does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// It opens the index.
    Opening,
    /// It makes the first leaves.
    Creating,
    /// It takes that entry.
    Entry(u32),
    /// It has the log begin again, and renews every tenure.
    Renewing,
}

/// What a lane does about the owner of an entry that it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It looks once, and watches only an owner that has been silent for a while.
    Look,
    /// It watches the owner until that is known to live, or to be dead.
    Watch,
}

/// Numbers of the requests for chunks, so that an opening that begins anew finds what it has: the table's, then the ring's.
pub(super) type RequestNumbers = [Option<RequestId>; 1 + RINGS_MAX * RING_CHUNKS];

/// No chunk was asked for.
pub(super) const NO_REQUESTS: RequestNumbers = [None; 1 + RINGS_MAX * RING_CHUNKS];

impl<'s> Dex<'s> {
    /// The tenure under which the operation in the scratch runs. Takes the entry of its key, if nobody has it.
    pub(super) async fn tenure(&self, lane: &Lane<'_>) -> Result<Tenure, Interrupt> {
        self.tenure_of(lane, &self.plan.key).await
    }

    /// The same for the key at a scratch range.
    pub(super) async fn tenure_of(&self, lane: &Lane<'_>, key: &Range<usize>) -> Result<Tenure, Interrupt> {
        match self.tenure_at(lane, key) {
            Ok(tenure) => Ok(tenure),
            Err(_) => self.take(lane, key).await,
        }
    }

    /// Takes the entry of a key, unless a compute node that lives has it.
    async fn take(&self, lane: &Lane<'_>, key: &Range<usize>) -> Result<Tenure, Interrupt> {
        let partition = &self.open(lane).await?.partition;
        let entry_now = || {
            lane.port().with(|scratch| {
                let mut room = [0; KEY_BYTES_MAX];
                partition.entry_of(key_of(scratch, key, &mut room))
            })
        };
        let mut entry = entry_now();
        let mut waited = self.begin_taking(lane, Taking::Entry(entry)).await?;
        // Another lane has cut the entry meanwhile.
        while entry != entry_now() {
            self.end_taking(lane);
            entry = entry_now();
            waited = self.begin_taking(lane, Taking::Entry(entry)).await?;
        }
        let is_over = waited || self.left.load(Ordering::Acquire);
        let taken = match self.tenure_at(lane, key) {
            Ok(tenure) => Ok(Some(tenure)),
            Err(_) if is_over => Ok(None),
            Err(_) => self.take_entry(lane, entry, Patience::Look).await,
        };
        self.end_taking(lane);
        match taken? {
            // What was taken may have turned out to end in front of the key.
            Some(tenure) if entry == entry_now() => Ok(tenure),
            Some(_) => Err(Interrupt::TenureEnded),
            // If it is this compute node's, the lane that was to take it was dropped.
            None => self.tenure_at(lane, key).map_err(|_| self.no_tenure(lane, key)),
        }
    }

    /// Takes the entry whose boundary has that rank, and waits until it is known whether its owner lives.
    pub(super) async fn take_rank(&self, lane: &Lane<'_>, rank: u32) -> Result<(), OpError> {
        let partition = &self.open(lane).await?.partition;
        let entry = partition.entry_of_rank(rank).ok_or(bad("a part that the index does not have"))?;
        self.begin_taking(lane, Taking::Entry(entry)).await?;
        let taken = if self.left.load(Ordering::Acquire) {
            Ok(None)
        } else {
            self.take_entry(lane, entry, Patience::Watch).await
        };
        self.end_taking(lane);
        let word = partition.word(entry);
        let not_owner = NotOwner { entry, row: word.row(), epoch: word.epoch() };
        taken?.map(|_| ()).ok_or(Self::not_owner(not_owner))
    }

    /// `None`: a compute node that lives has it.
    pub(super) async fn take_entry(
        &self,
        lane: &Lane<'_>,
        entry: u32,
        patience: Patience,
    ) -> Result<Option<Tenure>, OpError> {
        let opened = self.open(lane).await?;
        let site = self.table_site(opened);
        loop {
            lane.check_deadline()?;
            let mut found = site.claim(lane, entry).await?;
            if let Entry::Others(word) = found
                && let Ok(Owner::Kept(_)) = word.decode()
            {
                found = site.take_kept(lane, (entry, word)).await?;
                if found == Entry::Others(word) && patience == Patience::Watch {
                    lane.port().call(Request::pause(WAIT_NS)).await?;
                    continue;
                }
            } else if let Entry::Others(word) = found
                && (patience == Patience::Watch || site.may_be_dead(lane, entry, word.row()).await?)
            {
                found = site.look_after(lane, entry).await?;
                if let Entry::Others(word) = found
                    && let Ok(Owner::Kept(_)) = word.decode()
                {
                    // Its owner has given it up meanwhile.
                    continue;
                }
            }
            if let Entry::Mine(_) | Entry::Recovering(_) = found {
                self.note_cuts(lane, opened).await?;
            }
            match found {
                Entry::Mine(_) => return Ok(opened.partition.admit(entry)),
                Entry::Recovering(_) => {
                    let Some(recovery) = self.tree.recovery else { return Ok(None) };
                    let (format, geometry, room) = (self, self.tree.geometry, &self.scratch.restore);
                    let page_bytes = self.leaf.bytes;
                    let site = recover::Site {
                        table: site,
                        pool: opened.pool,
                        index: self.tree.number,
                        log: &self.log,
                        restore: restore::Site { format, page_bytes, recovery, geometry, room },
                        flush: self.flushing(FLUSHED),
                        leaves: self,
                        lines: &self.scratch.lines,
                    };
                    return recover(&site, lane, entry).await.map(Some);
                }
                Entry::Draining(word) => {
                    self.drain_entry(lane, entry).await?;
                    if site.hand_over(lane, (entry, word)).await? {
                        lane.mark(Mark::ENTRY_HANDED_OVER);
                        return Ok(None);
                    }
                }
                Entry::Free(_) => {}
                Entry::Others(_) => return Ok(None),
            }
        }
    }

    pub(super) fn table_site<'a>(&'a self, opened: &'a Opened<'s>) -> TableSite<'a> {
        TableSite {
            table: opened.table,
            partition: &opened.partition,
            recovery: self.tree.recovery,
            geometry: self.tree.geometry,
            room: &self.tree.scratch.recovery,
        }
    }

    /// Begins what one lane at a time does. Returns whether another lane has done the same meanwhile, or has failed at it.
    pub(super) async fn begin_taking(&self, lane: &Lane<'_>, what: Taking) -> Result<bool, OpError> {
        let mut waited = false;
        loop {
            let other = {
                let mut taking = self.taking.lock();
                match *taking {
                    Some((other, taken)) if other != lane.id() => taken,
                    _ => {
                        *taking = Some((lane.id(), what));
                        lane.set_unsettled(Unsettled::OWNERS, true);
                        return Ok(waited);
                    }
                }
            };
            waited |= other == what;
            lane.check_deadline()?;
            lane.port().call(Request::pause(WAIT_NS)).await?;
        }
    }

    /// Ends it, or what a lane has left that failed or was dropped. If a request has failed, only settling ends it: until its
    /// queue pair is closed, a WRITE may land over what the next lane WRITEs in the same place (the table, the head of the
    /// ring, a page that is restored).
    pub(super) fn end_taking(&self, lane: &Lane<'_>) {
        if lane.has_failed_requests() {
            return;
        }
        let mut taking = self.taking.lock();
        if taking.is_some_and(|(of, _)| of == lane.id()) {
            *taking = None;
        }
        lane.set_unsettled(Unsettled::OWNERS, false);
    }

    /// What this compute node knows of the table, and its ring. Opens the index, if no lane has.
    pub(super) async fn open(&self, lane: &Lane<'_>) -> Result<&Opened<'s>, OpError> {
        if self.opened.get().is_none() {
            self.begin_taking(lane, Taking::Opening).await?;
            let made = if self.opened.get().is_none() { self.make_opened(lane).await.map(Some) } else { Ok(None) };
            if let Ok(Some(opened)) = made {
                self.opened.call_once(|| opened);
                self.end_taking(lane);
            } else {
                self.end_taking(lane);
                made?;
            }
        }
        self.opened.get().ok_or(OpError::harmless(Cause::BadInput("an index that is not open")))
    }

    async fn make_opened(&self, lane: &Lane<'_>) -> Result<Opened<'s>, OpError> {
        let (tree, port, at) = (&self.tree, lane.port(), self.scratch.table.start);
        let home = tree.geometry.first().ok_or(bad("a pool without memory nodes"))?;
        port.call(Request::read(Label::Super, HOME, 0, Superblock::BYTES, at)).await?;
        let described = port.with(|scratch| Superblock::decode(scratch.get(at..).unwrap_or_default()));
        let identity = described.map_err(|_| bad("the superblock of memory node 0 cannot be read"))?.identity;
        let pool = (identity.pool_id, identity.pool_incarnation);
        let token = match tree.recovery {
            Some(_) => rows::read(lane, home, tree.owner.row, at).await.map_err(row_error)?.token.get(),
            None => 0,
        };
        let table = self.find_table(lane, pool.1).await?;
        let owner = RingOwner::new(pool, tree.number, tree.owner, token);
        let rings = Rings::new(self.make_ring(lane, &owner, 0, None).await?, owner);
        // The words may have changed meanwhile. They are only what is known of them.
        let shape = self.table_shape()?;
        port.call(Request::read(Label::Owner, HOME, table, TableHeader::BYTES, at)).await?;
        let header = port.with(|scratch| scratch.get(at..).and_then(TableHeader::from_prefix));
        let count = header.and_then(|header| header.entries(tree.number).ok()).unwrap_or(ENTRIES_MAX);
        read_table(lane, table, &shape, at).await?;
        let Some(OwnersRoom { boundaries, order, cells }) = self.owners.lock().take() else {
            return Err(bad("the ownership table of this index was found damaged before"));
        };
        let partition = port.with(|scratch| {
            let image = scratch.get(at..).unwrap_or_default();
            let table = Table::decode_first(shape, tree.number, pool.1, image, count)?;
            Partition::open(&table, tree.owner.row, boundaries, order, cells)
        });
        let what = "the ownership table is damaged, or another index's";
        let corrupt = |_| OpError::harmless(Cause::Corrupt { address: Address::new(HOME, table, 0), what });
        Ok(Opened { partition: partition.map_err(corrupt)?, rings, table, pool })
    }

    /// Looks whether entries were cut in two since this compute node READ the table, before it is admitted to one of them: what it
    /// has claimed may have ended earlier. Only owners cut entries, so it is asked once the entry's word is this compute node's. One
    /// round trip, or those of [`Dex::note_table`].
    pub(super) async fn note_cuts(&self, lane: &Lane<'_>, opened: &Opened<'s>) -> Result<(), OpError> {
        if planted(Mutant::CUTS_UNSEEN) {
            return Ok(());
        }
        if self.table_site(opened).read_count(lane).await? > opened.partition.count() {
            self.note_table(lane, opened).await?;
        }
        Ok(())
    }

    /// READs the words and the loads of all entries, and the boundaries of those that are new. Other lanes may be at work: what they
    /// have noted since stays. Returns whether the load of an entry that this compute node serves is another one's. One round trip, or
    /// two.
    pub(super) async fn note_table(&self, lane: &Lane<'_>, opened: &Opened<'s>) -> Result<bool, OpError> {
        let (shape, at) = (self.table_shape()?, self.scratch.table.start);
        // Before the READ: another lane may learn of an entry that this READ has brought in part.
        let known = opened.partition.count();
        read_table(lane, opened.table, &shape, at).await?;
        let header = lane.port().with(|scratch| scratch.get(at..).and_then(TableHeader::from_prefix));
        let count = header.and_then(|header| header.entries(self.tree.number).ok()).unwrap_or(ENTRIES_MAX);
        if count > known {
            read_table(lane, opened.table, &shape, at).await?;
        }
        let noted = lane.port().with(|scratch| {
            let image = scratch.get(at..).unwrap_or_default();
            let table = Table::decode_first(shape, self.tree.number, opened.pool.1, image, count)?;
            opened.partition.grow(&table)?;
            let mut is_news = false;
            for entry in 0..table.count() {
                let noted = opened.partition.note(entry, table.word(entry), OwnerWord::FREE);
                noted.map_err(|_| TableError::Corrupt("a word that no writer makes"))?;
                is_news |= opened.partition.note_load(entry, table.load(entry));
            }
            Ok::<_, TableError>(is_news)
        });
        let what = "the ownership table is damaged";
        noted.map_err(|_| OpError::harmless(Cause::Corrupt { address: Address::new(HOME, opened.table, 0), what }))
    }

    /// Says in the table how many operations come for the entries that this compute node serves, if it is time to, or if it is
    /// `news`. Round trips: none, or one for some [`RUNS_AT_ONCE`] runs of entries that lie beside each other.
    pub(super) async fn publish_loads(
        &self,
        lane: &Lane<'_>,
        opened: &Opened<'s>,
        is_news: bool,
    ) -> Result<(), OpError> {
        let (port, partition, at) = (lane.port(), &opened.partition, self.scratch.table.start);
        let shape = self.table_shape()?;
        let may_write = self.tree.recovery.is_none_or(|recovery| recovery.lease.may_write());
        let elapsed_us = port.now_us().filter(|_| may_write).and_then(|now_us| partition.end_count(now_us, is_news));
        let Some(elapsed_us) = elapsed_us else { return Ok(()) };
        let (mut entry, mut runs) = (0, 0);
        while entry < partition.count() {
            let first = shape.load_at(entry);
            while let Some(load) = partition.take_load(entry, elapsed_us) {
                let word = at + shape.load_at(entry);
                port.with(|scratch| {
                    if let Some(place) = scratch.get_mut(word..word + 8) {
                        place.copy_from_slice(&load.0.to_le_bytes());
                    }
                });
                entry += 1;
            }
            let bytes = shape.load_at(entry) - first;
            if bytes > 0 {
                port.push(Request::write(Label::Owner, HOME, opened.table + first as u64, bytes, at + first));
                runs += 1;
            }
            if runs == RUNS_AT_ONCE {
                port.submit().await?;
                runs = 0;
            }
            // The one that ended the run.
            entry += 1;
        }
        if runs > 0 {
            port.submit().await?;
        }
        Ok(())
    }

    pub(super) fn table_shape(&self) -> Result<TableShape, OpError> {
        self.parameters.table_shape().map_err(|_| bad("an ownership table of this size"))
    }

    /// Where the table is. Makes it, if there is none.
    async fn find_table(&self, lane: &Lane<'_>, pool_incarnation: u64) -> Result<u64, OpError> {
        let (tree, port, at) = (&self.tree, lane.port(), self.tree.scratch.small);
        let home = tree.geometry.first().ok_or(bad("a pool without memory nodes"))?;
        let mut named = owners::named(lane, home, tree.number, at).await?;
        if named.is_null() {
            let room = self.scratch.table.clone();
            let bytes = self.table_shape()?.bytes();
            let made = port.with(|scratch| {
                let image = scratch.get_mut(room.clone()).unwrap_or_default();
                self.parameters.even_table(tree.number, pool_incarnation, image)
            });
            if made.map_err(|_| bad("keys cannot be cut as the parameters say"))?.is_none() {
                let what = "the ownership table was not made: the creator of the index says where keys are cut, and is about to, \
                            or has died before";
                return Err(bad(what));
            }
            let (want, image) = (self.want(0, ChunkKind::Other)?, room.start..room.start + bytes);
            named = owners::make(lane, home, tree.number, &want, &image, at).await?;
        }
        let ends = named.offset().saturating_add(self.table_shape()?.bytes() as u64 - 1);
        let in_heap = home.chunk_of(named.offset()).is_some() && home.chunk_of(ends).is_some();
        if named.node() != HOME || !in_heap {
            let what = "the catalog names an ownership table that is not in the heap of memory node 0";
            return Err(OpError::harmless(Cause::Corrupt { address: named, what }));
        }
        Ok(named.offset())
    }

    /// A request for a chunk, of that place among [`RequestNumbers`].
    fn want(&self, place: usize, kind: ChunkKind) -> Result<Want, OpError> {
        let mut numbers = self.numbers.lock();
        let number = numbers.get_mut(place).ok_or(bad("a log ring of too many chunks"))?;
        let retry = number.is_some();
        if number.is_none() {
            // The last numbers, from the end: redo chunks, which are of the same kind, were asked for with the first ones.
            *number = RequestId::new(REQUESTS_MAX - 1 - place as u32);
        }
        let request = number.ok_or(bad("a log ring of too many chunks"))?;
        let grant = Grant::new(self.tree.owner, kind, self.tree.number, request);
        // Old bytes do no harm: a table is written whole, and lines of a ring name what they belong to.
        Ok(Want { retry, reuse: true, ..Want::new(grant) })
    }

    /// Makes ring number `ring`, on one memory node, which is not `lost`, and announces it.
    async fn make_ring(
        &self,
        lane: &Lane<'_>,
        owner: &RingOwner,
        ring: usize,
        lost: Option<NodeId>,
    ) -> Result<Ring, OpError> {
        let (tree, at) = (&self.tree, self.tree.scratch.small);
        let full = || OpError::harmless(Cause::PoolFull);
        let near = NodeId(tree.owner.row.0 % tree.geometry.len().max(1) as u16);
        let numbers = 1 + ring * RING_CHUNKS;
        let want = self.want(numbers, ChunkKind::Redo)?;
        let first = match lost {
            None => chunks::grant_any(lane, tree.geometry, near, &want, at).await?,
            Some(lost) => self.grant_elsewhere(lane, lost, &want).await?,
        };
        let first = first.ok_or_else(full)?;
        let (node, geometry) = (first.node, tree.geometry.get(usize::from(first.node.0)).ok_or_else(full)?);
        let mut granted = heapless::Vec::<u32, RING_CHUNKS>::from_iter([first.chunk]);
        let ring = loop {
            if let Ok(ring) = Ring::new(node, geometry, &granted)
                && ring.lines() >= self.ring_lines
            {
                break ring;
            }
            let want = self.want(numbers + granted.len(), ChunkKind::Redo)?;
            let next = chunks::grant(lane, node, geometry, &want, at).await?.ok_or_else(full)?;
            granted.push(next.chunk).map_err(|_| bad("a log ring of too many chunks"))?;
        };
        append::make(lane, &ring, owner, geometry, self.scratch.table.start).await?;
        if tree.recovery.is_some()
            && let Some(home) = tree.geometry.first()
        {
            let begins = Address::new(node, ring.description_offset(), 0);
            rows::announce_ring(lane, home, tree.owner, begins).await.map_err(row_error)?;
        }
        self.log.set_seal(owner.seal());
        Ok(ring)
    }

    /// Asks for a chunk on every memory node but `lost`, until one has it.
    async fn grant_elsewhere(&self, lane: &Lane<'_>, lost: NodeId, want: &Want) -> Result<Option<Granted>, OpError> {
        for (node, geometry) in (0..).map(NodeId).zip(self.tree.geometry).filter(|(node, _)| *node != lost) {
            if let Some(granted) = chunks::grant(lane, node, geometry, want, self.tree.scratch.small).await? {
                return Ok(Some(granted));
            }
        }
        Ok(None)
    }

    /// Has the log begin again at line 0, since its line numbers are used up, or its ring is lost; in a new ring then. Every
    /// page is flushed first, and every tenure is renewed.
    ///
    /// **Until the restart no record is staged**: the log is frozen, and tenures are closed. A lane that looked at its tenure
    /// before that, and stages after the restart, is refused ([`Log::stage_while`](crate::dex::log::staging::Log::stage_while)).
    /// **If this fails or is dropped**, the log stays frozen: entries are taken again, for reads, and the next change goes on.
    /// **If the compute node dies**, every record is in its page, whatever words and head a finder meets.
    pub(super) async fn renew(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let opened = self.open(lane).await?;
        self.begin_taking(lane, Taking::Renewing).await?;
        let renewed = self.renew_all(lane, opened).await;
        self.end_taking(lane);
        renewed
    }

    async fn renew_all(&self, lane: &Lane<'_>, opened: &Opened<'s>) -> Result<(), OpError> {
        if !self.log.needs_restart() {
            // Another lane has done it.
            return Ok(());
        }
        self.log.freeze();
        let Opened { partition, rings, .. } = opened;
        let mine = |entry: &u32| partition.word(*entry).decode() == Ok(Owner::Owned(partition.me()));
        let entries = || (0..partition.count()).filter(mine);
        entries().for_each(|entry| partition.close(entry));
        self.drain(lane).await?;
        let site = self.table_site(opened);
        for entry in entries() {
            let epoch = partition.word(entry).epoch();
            site.renew(lane, Tenure { entry, epoch }).await?;
        }
        let (ring, now) = (opened.ring()?, rings.now.load(Ordering::Acquire));
        if self.log.freeze() {
            let place = rings.made.get(now + 1).ok_or_else(|| OpError::from(ring.lost()))?;
            let made = self.make_ring(lane, &rings.owner, now + 1, Some(ring.node())).await?;
            place.call_once(|| made);
            rings.now.store(now + 1, Ordering::Release);
            lane.mark(Mark::RING_REPLACED);
        } else {
            let geometry =
                self.tree.geometry.get(usize::from(ring.node().0)).ok_or(bad("a ring without a memory node"))?;
            append::make(lane, ring, &rings.owner, geometry, self.scratch.table.start).await?;
        }
        self.log.restart();
        lane.mark(Mark::LOG_RESTARTED);
        entries().for_each(|entry| _ = partition.admit(entry));
        Ok(())
    }

    /// Flushes every page, and posts every record that is staged, until there is none; those of a lost ring are given up.
    async fn drain(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        loop {
            let log = self.log.state();
            let is_posted = log.is_lost() || log.durable() == log.next();
            if is_posted && matches!(self.store.oldest_unflushed(), Ok(None)) {
                return Ok(());
            }
            lane.check_deadline()?;
            let flushed = self.flush_one(lane, Flush::Oldest).await?;
            let posted = !is_posted && append::post_staged(self.site()?, lane).await?;
            if flushed == Flushing::Nothing && !posted {
                self.store.yield_now(lane).await?;
            }
        }
    }

    /// Makes the first leaves, if there are none. The operation's arguments stay as they are.
    pub(super) async fn create_for(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        self.begin_taking(lane, Taking::Creating).await?;
        let created = self.create_if_empty(lane).await;
        self.end_taking(lane);
        created
    }

    async fn create_if_empty(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        if self.tree.read_root(lane).await?.is_some() {
            return Ok(());
        }
        let (left_ns, mut key) = (lane.remaining_ns(), [0; KEY_BYTES_MAX]);
        let key = lane.port().with(|scratch| {
            let key = key.get_mut(..self.plan.key_bytes).unwrap_or_default();
            key.copy_from_slice(scratch.get(self.plan.key.clone()).unwrap_or_default());
            key
        });
        let created = self.create(lane).await;
        lane.begin(lane.port().elapsed_ns().saturating_add(left_ns));
        self.set_key(lane, key);
        match created {
            // Another compute node was faster. A lane whose request failed is settled first: until then it could not look after
            // a holder of a lock that does not respond.
            Err(error)
                if error.effect == Effect::None
                    && !lane.must_settle()
                    && self.tree.read_root(lane).await?.is_some() =>
            {
                Ok(())
            }
            created => created,
        }
    }

    /// Gives up every entry: flushes what is dirty, and makes the words FREE. No operation of this compute node is under
    /// way, and it takes no entry afterwards.
    pub(super) async fn give_up(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        self.left.store(true, Ordering::Release);
        let Some(opened) = self.opened.get() else { return Ok(()) };
        let partition = &opened.partition;
        // A claim whose completion was lost may have been executed.
        self.note_table(lane, opened).await?;
        let owner = |entry| partition.word(entry).decode().ok();
        let recovers =
            |entry| matches!(owner(entry), Some(Owner::Recovering { finder, .. }) if finder == partition.me());
        for entry in (0..partition.count()).filter(|&entry| recovers(entry)) {
            self.take_entry(lane, entry, Patience::Look).await?;
        }
        let mine = |entry| match owner(entry) {
            Some(Owner::Owned(owner) | Owner::Draining { owner, .. } | Owner::Kept(owner)) => owner == partition.me(),
            _ => false,
        };
        for entry in (0..partition.count()).filter(|&entry| mine(entry)) {
            partition.close(entry);
        }
        while self.flush_one(lane, Flush::Oldest).await? == Flushing::Page {}
        let site = self.table_site(opened);
        for entry in (0..partition.count()).filter(|&entry| mine(entry)) {
            let epoch = partition.word(entry).epoch();
            site.release(lane, Tenure { entry, epoch }).await?;
        }
        Ok(())
    }
}

const fn bad(what: &'static str) -> OpError {
    OpError::harmless(Cause::BadInput(what))
}

fn row_error(error: RowError) -> OpError {
    match error {
        RowError::Verb(error) => unknown(error),
        RowError::Fenced { .. } => OpError::harmless(Cause::Fenced),
        _ => bad("the row of this compute node cannot be read"),
    }
}
