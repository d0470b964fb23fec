//! DEX's steps over a pool of one memory node: flushes and recoveries, cut short at every line that lands.

extern crate std;
mod flushes;
mod recoveries;

use super::flush::{self, PageFormat};
use super::log::append::{self, MAKE_BYTES, room_bytes};
use super::log::record::Change;
use super::log::ring::{Ring, RingOwner};
use super::log::staging::{Log, STAGING_LINES_MIN, mark_words};
use super::ownership::partition::{EntryCell, Partition};
use super::ownership::steps::TableSite;
use super::ownership::table::{Table, TableShape, TableWriter};
use super::recover::{self, Leaves, Replayed, is_due};
use super::restore;
use super::restore::TornFormat;
use crate::lane::Lane;
use crate::layout::LINE_BYTES;
use crate::machine::{Step, poll_once};
use crate::membership::lease::{Lease, LeaseConfig, ProgressCounter};
use crate::membership::redo::{self, Area, HEADER_BYTES};
use crate::membership::{Numbers, Recovery, rows};
use crate::memory::chunks::RequestIds;
use crate::operation::OpError;
use crate::operation::span::Span;
use crate::pages::{Acquired, Admission, Admit, Cooling, FrameName, Lsn, PageStore, Refused, Shape, Writing};
use crate::remote::address::Address;
use crate::remote::catalog::{IndexNumber, IndexSet};
use crate::remote::chunk::{ChunkKind, Grant, RequestId};
use crate::remote::lock_word::RowId;
use crate::remote::row::{Joiner, Member, Row, RowState};
use crate::remote::superblock::small_for_tests;
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Capabilities, Completion, Flags, Label, LaneId, Request, Status, Verb};
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::ops::Range;
use core::pin::pin;
use core::sync::atomic::AtomicU32;
use std::vec;
use std::vec::Vec;
use zerocopy::IntoBytes;

const LINE: usize = 64;
const PAGE_BYTES: usize = 4 * LINE;
const LANES: usize = 2;
const ENTRIES: u32 = 2;
const TABLE_CHUNK: u32 = 40;
const PAGES_CHUNK: u32 = 41;
const POOL: ([u8; 16], u64) = (*b"0123456789abcdef", 3);
const TOKEN: u64 = 0xf000_0000;

/// What a chain that changes a page comes to.
#[derive(Clone, Copy)]
struct Fails {
    /// So many lines of it land.
    lands: usize,
    status: Status,
}

/// A memory node that executes WRITEs line by line.
#[derive(Clone)]
struct Pool {
    region: RefCell<Vec<u8>>,
    geometry: NodeGeometry,
    /// Lines that still land before the compute node dies. `None`: it lives.
    lives: Cell<Option<usize>>,
    /// The lines of a WRITE land in the other direction.
    is_backward: Cell<bool>,
    /// What becomes of the next chains that change pages.
    fails: RefCell<Vec<Fails>>,
}

fn index() -> IndexNumber {
    IndexNumber::new(2).unwrap()
}

fn member(row: u16) -> Member {
    Member { row: RowId(row), incarnation: 1, nonce: 7 }
}

/// The chunks of the ring of a row.
fn ring_chunks(row: u16) -> [u32; 5] {
    core::array::from_fn(|at| 50 + u32::from(row) * 5 + at as u32)
}

/// Entry and page of a key, and the line of its record. Keys of entry 1 have the top bit.
fn place_of(key: u64) -> (u32, u64, usize) {
    let (entry, number) = ((key >> 63) as u32, key & 7);
    (entry, u64::from(entry) * 2 + number / 3, 1 + (number % 3) as usize)
}

impl Pool {
    fn new() -> Self {
        let geometry = small_for_tests();
        let pool = Self {
            region: RefCell::new(vec![0; geometry.region_bytes as usize]),
            geometry,
            lives: Cell::new(None),
            is_backward: Cell::new(false),
            fails: RefCell::default(),
        };
        let shape = shape();
        let mut table = vec![0; shape.bytes()];
        TableWriter::start(shape, index(), POOL.1, &mut table).unwrap().even(ENTRIES, 0, u64::MAX).unwrap();
        pool.put(geometry.chunk_offset(TABLE_CHUNK), &table);
        for page in 0..u64::from(ENTRIES) * 2 {
            pool.put(pool.page(page).offset() + 4, &((page / 2) as u32).to_le_bytes());
        }
        // Redo areas are granted elsewhere.
        let grant = Grant::new(member(100), ChunkKind::Other, index(), RequestId::new(1).unwrap());
        let taken = [TABLE_CHUNK, PAGES_CHUNK].into_iter().chain((1..10).flat_map(ring_chunks));
        taken.for_each(|chunk| pool.put(geometry.chunk_entry(chunk), &grant.word().0.to_le_bytes()));
        pool
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.region.borrow_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn bytes(&self, at: u64, count: usize) -> Vec<u8> {
        self.region.borrow()[at as usize..][..count].to_vec()
    }

    fn word(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.bytes(at, 8).try_into().unwrap())
    }

    fn page(&self, number: u64) -> Address {
        Address::new(HOME, self.geometry.chunk_offset(PAGES_CHUNK) + number * PAGE_BYTES as u64, 0)
    }

    /// What the pool's page says of a key, if the page is whole.
    fn stored(&self, key: u64) -> Result<Option<u64>, &'static str> {
        let (_, page, line) = place_of(key);
        let image = self.bytes(self.page(page).offset(), PAGE_BYTES);
        if !Lines.is_whole(&image) {
            return Err("torn");
        }
        let record = &image[line * LINE..][..LINE];
        Ok((record[1] != 0).then(|| u64::from_le_bytes(record[16..24].try_into().unwrap())))
    }

    /// The compute node of a row was fenced.
    fn kill(&self, row: u16) {
        let word = member(row).word().with_state(RowState::Dead);
        self.put(self.geometry.row_offset(RowId(row)), &word.0.to_le_bytes());
        self.lives.set(None);
    }

    /// One line, or one CAS, is about to take effect. `false`: the compute node dies before.
    fn lands(&self) -> bool {
        match self.lives.get() {
            Some(0) => return false,
            Some(left) => self.lives.set(Some(left - 1)),
            None => {}
        }
        true
    }

    /// Executes a request. `None`: the compute node dies in it.
    fn execute(&self, request: &Request, scratch: &mut [u8], lines_max: &mut usize) -> Option<u64> {
        let (at, local, bytes) = (request.offset as usize, request.local as usize, request.bytes as usize);
        match request.verb {
            Verb::Read => scratch[local..local + bytes].copy_from_slice(&self.region.borrow()[at..at + bytes]),
            Verb::Write => {
                let inline = request.inline_payload();
                let is_inline = request.flags.contains(Flags::INLINE);
                let from = if is_inline { &inline[..bytes] } else { &scratch[local..local + bytes] };
                let mut lines: Vec<Range<usize>> = Vec::new();
                let mut start = 0;
                while start < bytes {
                    let end = (start + LINE - (at + start) % LINE).min(bytes);
                    lines.push(start..end);
                    start = end;
                }
                if self.is_backward.get() {
                    lines.reverse();
                }
                for line in lines {
                    if *lines_max == 0 {
                        return Some(0);
                    }
                    *lines_max -= 1;
                    if !self.lands() {
                        return None;
                    }
                    self.region.borrow_mut()[at + line.start..at + line.end].copy_from_slice(&from[line]);
                }
            }
            Verb::Cas => {
                if !self.lands() {
                    return None;
                }
                let found = self.word(request.offset);
                if found == request.operands[0] {
                    self.put(request.offset, &request.operands[1].to_le_bytes());
                }
                return Some(found);
            }
            verb => unreachable!("{verb:?}"),
        }
        Some(0)
    }

    /// Runs a step to its end, with a look at the pool after each submit. `None`: the compute node dies in it.
    fn watch<R>(&self, lane: &Lane<'_>, step: impl Future<Output = R>, mut look: impl FnMut()) -> Option<R> {
        let mut step = pin!(step);
        loop {
            if let Step::Done(result) = poll_once(lane.port(), step.as_mut()) {
                return Some(result);
            }
            let requests: Vec<Request> = lane.port().requests().to_vec();
            let scratch = lane.port().begin().unwrap();
            let changes_page =
                requests.iter().any(|request| request.label == Label::Leaf && request.verb == Verb::Write);
            let fails = if changes_page { self.fails.borrow_mut().pop() } else { None };
            let mut lines_max = fails.map_or(usize::MAX, |fails| fails.lands);
            let status = fails.map_or(Status::Ok, |fails| fails.status);
            for (position, request) in requests.iter().enumerate().filter(|(_, request)| !request.verb.is_local()) {
                let value = self.execute(request, scratch, &mut lines_max)?;
                lane.port().complete(position, Completion { value, status, ..Completion::NOTHING });
            }
            lane.port().finish(scratch, 1000);
            look();
        }
    }

    fn run<R>(&self, lane: &Lane<'_>, step: impl Future<Output = R>) -> Option<R> {
        self.watch(lane, step, || ())
    }
}

fn shape() -> TableShape {
    TableShape::new(8, ENTRIES).unwrap()
}

/// Pages of four lines. Each line begins with the page's version. Line 0: generation, entry, LSN. The others: a key and its
/// value.
struct Lines;

impl PageFormat for Lines {
    fn entry_of(&self, page: &[u8]) -> Option<u32> {
        Some(u32::from_le_bytes(*page.get(4..)?.first_chunk()?))
    }

    fn stamp(&self, page: &mut [u8], copies: u32) {
        page.chunks_mut(LINE).for_each(|line| line[0] = line[0].wrapping_add(copies as u8) & 15);
    }
}

impl TornFormat for Lines {
    fn is_whole(&self, page: &[u8]) -> bool {
        page.chunks(LINE).all(|line| line[0] == page[0])
    }

    fn may_be_of(&self, page: &[u8], address: Address, entry: u32) -> bool {
        page[1] == address.generation() && self.entry_of(page) == Some(entry)
    }
}

/// Changes a page that is being written: the record of `key`, and the LSN.
fn put_record(writing: &mut Writing<'_, '_>, key: u64, value: Option<u64>) {
    let (_, _, line) = place_of(key);
    let lsn = writing.lsn();
    writing.put(8, &lsn.to_bits().to_le_bytes());
    writing.put(line * LINE + 1, &[u8::from(value.is_some())]);
    writing.put(line * LINE + 8, &key.to_be_bytes());
    writing.put(line * LINE + 16, &value.unwrap_or(0).to_le_bytes());
}

/// The LSN that a page says it has.
fn lsn_of(image: crate::pages::Image<'_>) -> Lsn {
    Lsn::from_bits(u64::from(image.word(3)) << 32 | u64::from(image.word(2)))
}

/// Where the lanes' scratch is used for what.
struct Rooms {
    flush: Range<usize>,
    restore: Range<usize>,
    lines: Range<usize>,
    log: Range<usize>,
    row: Range<usize>,
    fill: Range<usize>,
}

impl Rooms {
    fn new() -> Self {
        let mut end = 0;
        let mut take = |bytes: usize| {
            let start = end;
            end += bytes;
            start..end
        };
        Self {
            flush: take(LINE_BYTES + HEADER_BYTES + PAGE_BYTES),
            restore: take(restore::room_bytes(PAGE_BYTES)),
            lines: take(recover::LINES_BYTES_MIN),
            log: take(room_bytes(20).max(MAKE_BYTES)),
            row: take(512),
            fill: take(PAGE_BYTES),
        }
    }
}

/// A compute node.
struct Node<'a> {
    pool: &'a Pool,
    table: TableSite<'a>,
    store: &'a PageStore<'a>,
    recovery: &'a Recovery<'a>,
    log: &'a Log<'a>,
    ring: &'a Ring,
    rooms: &'a Rooms,
    progress_counters: &'a [ProgressCounter],
}

impl Leaves for Node<'_> {
    async fn apply(&self, lane: &Lane<'_>, record: &Replayed) -> Result<(), OpError> {
        let number = |span: Span| lane.port().with(|scratch| <[u8; 8]>::try_from(span.of(scratch)).unwrap());
        let key = u64::from_be_bytes(number(record.key));
        let value = record.value.map(|value| u64::from_le_bytes(number(value)));
        let name = self.bring(lane, key).await?;
        let applied = self.store.change(
            lane,
            name,
            || true,
            |page| {
                if is_due(lsn_of(page.image()), record.lsn) {
                    put_record(&mut page.record(self.log.floor(), || Ok::<_, Refused>(record.lsn))??, key, value);
                }
                Ok(())
            },
        );
        applied.unwrap();
        Ok(())
    }
}

impl<'a> Node<'a> {
    fn flush(&self) -> flush::Site<'a, Lines> {
        let (store, partition, recovery) = (self.store, self.table.partition, Some(self.recovery));
        let line_at = self.rooms.flush.start;
        let page = Span::new(line_at + LINE_BYTES + HEADER_BYTES, PAGE_BYTES);
        flush::Site { store, format: &Lines, partition, recovery, page, line_at }
    }

    fn restore(&self) -> restore::Site<'a, Lines> {
        let (geometry, recovery, room) = (self.table.geometry, self.recovery, &self.rooms.restore);
        restore::Site { format: &Lines, page_bytes: PAGE_BYTES, recovery, geometry, room }
    }

    fn recover(&self) -> recover::Site<'_, Lines, Self> {
        recover::Site {
            table: self.table,
            pool: POOL,
            index: index(),
            log: self.log,
            restore: self.restore(),
            flush: self.flush(),
            leaves: self,
            lines: &self.rooms.lines,
        }
    }

    fn append(&self) -> append::Site<'_> {
        let restarts = self.log.restarts();
        append::Site { log: self.log, ring: self.ring, restarts, recovery: Some(self.recovery), room: &self.rooms.log }
    }

    /// The frame of a key's page.
    async fn bring(&self, lane: &Lane<'_>, key: u64) -> Result<FrameName, OpError> {
        let id = self.pool.page(place_of(key).1);
        match self.store.acquire(lane, id, Admit::Always).await? {
            Acquired::Frame(name) => Ok(name),
            Acquired::Mine(fill) => {
                let room = self.rooms.fill.clone();
                lane.port().call(Request::read(Label::Leaf, id.node(), id.offset(), PAGE_BYTES, room.start)).await?;
                Ok(lane.port().with(|scratch| self.store.admit(lane, &fill, &scratch[room])).unwrap())
            }
            other => panic!("{other:?}"),
        }
    }

    /// Changes a key, and stages the record of that.
    async fn change(&self, lane: &Lane<'_>, key: u64, value: Option<u64>) -> Result<Lsn, OpError> {
        let name = self.bring(lane, key).await?;
        let tenure = self.table.partition.tenure_of(&key.to_be_bytes()).unwrap();
        let key_bytes = key.to_be_bytes();
        let value_bytes = value.map(u64::to_le_bytes);
        let change = match &value_bytes {
            Some(value) => Change::Put { key: &key_bytes, value },
            None => Change::Delete { key: &key_bytes },
        };
        let stage = || Ok::<_, Refused>(self.log.stage(tenure.entry, tenure.epoch, change).unwrap());
        let changed = self.store.change(
            lane,
            name,
            || self.table.partition.holds(tenure),
            |page| {
                let mut writing = page.record(self.log.floor(), stage)??;
                put_record(&mut writing, key, value);
                Ok::<_, Refused>(writing.lsn())
            },
        );
        Ok(changed.unwrap())
    }
}

/// Runs `test` on a compute node that joins as `row`.
fn with_node<R>(pool: &Pool, row: u16, test: impl FnOnce(&Node<'_>, &[Lane<'_>; LANES]) -> R) -> R {
    let (member, geometry, rooms) = (member(row), [pool.geometry], Rooms::new());
    let joiner = Joiner { token: TOKEN + 7, lanes: LANES as u16, memory_nodes: 1, host: "here" };
    pool.put(pool.geometry.row_offset(member.row), Row::of(member, &joiner).as_bytes());
    let (mut first, mut second) = (vec![0; rooms.fill.end], vec![0; rooms.fill.end]);
    let lanes = [Lane::new(LaneId(0), &mut first), Lane::new(LaneId(1), &mut second)];
    let ring = Ring::new(HOME, &pool.geometry, &ring_chunks(row)).unwrap();
    let owner = RingOwner::new(POOL, index(), member, joiner.token);
    let (requests, numbers, mut areas) = (RequestIds::new(), Numbers::new(), [Area::default()]);
    let mut open = IndexSet::default();
    open.insert(index());
    let prepare = async {
        append::make(&lanes[0], &ring, &owner, &pool.geometry, rooms.log.start).await.unwrap();
        let at = Address::new(HOME, ring.description_offset(), 0);
        rows::announce_ring(&lanes[0], &pool.geometry, member, at).await.unwrap();
        let (lanes_max, at) = (LANES as u16, rooms.row.start);
        redo::prepare(&lanes[0], &geometry, member, &open, &requests, lanes_max, PAGE_BYTES, at, &mut areas)
            .await
            .unwrap();
    };
    let lives = pool.lives.take();
    pool.run(&lanes[0], prepare).unwrap();
    pool.lives.set(lives);
    let lease = Lease::new(LeaseConfig::HARDWARE);
    let capabilities = Capabilities {
        masked_atomics: false,
        device_bytes: 0,
        inline_bytes_max: 64,
        outstanding_reads_max: 16,
        chain_requests_max: 16,
        fencing: true,
        crash_atomic_bytes: 64,
        write_turn_ns_min: 0,
        call_bytes_max: 0,
        calls_change: false,
    };
    let progress_counters: [ProgressCounter; LANES] = Default::default();
    let recovery = Recovery::new(member, &lease, &progress_counters, &areas, &numbers, &capabilities).unwrap();
    let table_at = pool.geometry.chunk_offset(TABLE_CHUNK);
    let image = pool.bytes(table_at, shape().bytes());
    let table = Table::decode(shape(), index(), POOL.1, &image).unwrap();
    let cells: [EntryCell; ENTRIES as usize] = Default::default();
    let (boundaries, order) = (words(ENTRIES as usize * 2), words(ENTRIES as usize));
    let partition = Partition::open(&table, member.row, &boundaries, &order, &cells).unwrap();
    let (staging, marks) = (words(STAGING_LINES_MIN * 16), words(mark_words(LANES)));
    let log = Log::new(ring.lines(), &staging, &marks, LANES).unwrap();
    log.set_seal(owner.seal());
    let store_shape = Shape {
        page_bytes: PAGE_BYTES,
        lanes: LANES as u16,
        fills_per_lane: 1,
        cooling: Cooling::Map,
        admission: Admission::EAGER,
    };
    let storage = words(store_shape.words_for(LANES * 4));
    let store = PageStore::new(&storage, store_shape).unwrap();
    let table = TableSite {
        table: table_at,
        partition: &partition,
        recovery: Some(&recovery),
        geometry: &geometry,
        room: &rooms.row,
    };
    let node = Node {
        pool,
        table,
        store: &store,
        recovery: &recovery,
        log: &log,
        ring: &ring,
        rooms: &rooms,
        progress_counters: &progress_counters,
    };
    test(&node, &lanes)
}

fn words(count: usize) -> Vec<AtomicU32> {
    (0..count).map(|_| AtomicU32::new(0)).collect()
}
