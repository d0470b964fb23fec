//! Superblock, catalog, rows and chunk table under racing compute nodes, failing queue pairs and arbitrary bytes.
//!
//! A tiny memory executes the requests of several lanes one at a time, in an order that a list of choices gives. So
//! every interleaving of requests can occur, and a failing one can be repeated.

use dm_core::index::catalog::{self, CatalogError};
use dm_core::lane::Lane;
use dm_core::machine::{Step, poll_once};
use dm_core::marks::Mark;
use dm_core::membership::rows;
use dm_core::memory::chunks::{self, Granted, RequestIds, Tally, Want};
use dm_core::memory::rows::RowError;
use dm_core::remote::catalog::{Definition, Entry, EntryState, EntryWord, IndexKind, IndexNumber};
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, ChunkWord, Grant, RequestId};
use dm_core::remote::features::Features;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::{Joiner, Member, Row, RowState, RowWord};
use dm_core::remote::superblock::{PoolPlan, Superblock, SuperblockError};
use dm_core::remote::{NodeGeometry, SCRATCH_BYTES};
use dm_core::sherman::parameters::Parameters;
use dm_core::verbs::{Completion, LaneId, NodeId, Request, Status, Verb};
use proptest::prelude::*;
use std::pin::Pin;
use std::sync::LazyLock;
use zerocopy::IntoBytes;

// ---- a memory and lanes ------------------------------------------------------------------------------------------

/// The regions of a pool's memory nodes.
struct Pool {
    regions: Vec<Vec<u8>>,
    geometries: Vec<NodeGeometry>,
}

impl Pool {
    /// `nodes` memory nodes of `chunks` chunks of 4 KiB.
    fn new(nodes: u16, chunks: u64) -> Self {
        let mut pool = Self { regions: Vec::new(), geometries: Vec::new() };
        for node in 0..nodes {
            let plan = plan(NodeId(node), nodes, chunks);
            let superblock = plan.format().unwrap();
            let mut region = vec![0; plan.region_bytes as usize];
            region[..Superblock::BYTES].copy_from_slice(superblock.as_bytes());
            let geometry = Superblock::decode(&region).unwrap().geometry;
            assert_eq!(u64::from(geometry.chunk_count), chunks);
            pool.regions.push(region);
            pool.geometries.push(geometry);
        }
        pool
    }

    fn home(&self) -> NodeGeometry {
        self.geometries[0]
    }

    fn word(&mut self, node: u16, offset: u64) -> &mut [u8; 8] {
        let at = offset as usize;
        (&mut self.regions[usize::from(node)][at..at + 8]).try_into().unwrap()
    }

    fn execute(&mut self, request: &Request, scratch: &mut [u8]) -> u64 {
        let (at, local, bytes) = (request.offset as usize, request.local as usize, request.bytes as usize);
        let node = request.node.0;
        match request.verb {
            Verb::Read => {
                scratch[local..local + bytes].copy_from_slice(&self.regions[usize::from(node)][at..at + bytes]);
                0
            }
            Verb::Write if request.flags.contains(dm_core::verbs::Flags::INLINE) => {
                let payload = request.inline_payload();
                self.regions[usize::from(node)][at..at + bytes].copy_from_slice(&payload[..bytes]);
                0
            }
            Verb::Write => {
                self.regions[usize::from(node)][at..at + bytes].copy_from_slice(&scratch[local..local + bytes]);
                0
            }
            Verb::Cas => {
                assert_eq!(at % 8, 0);
                let word = self.word(node, request.offset);
                let old = u64::from_le_bytes(*word);
                if old == request.operands[0] {
                    *word = request.operands[1].to_le_bytes();
                }
                old
            }
            Verb::Pause => 0,
            other => panic!("not used here: {other:?}"),
        }
    }
}

fn plan(node: NodeId, nodes: u16, chunks: u64) -> PoolPlan {
    let mut plan = PoolPlan {
        pool_id: [7; 16],
        pool_incarnation: 1,
        node,
        nodes,
        region_bytes: 1 << 20,
        chunk_bytes: 4096,
        lock_count: 64,
        device_bytes: 0,
        redo_row_bytes: 0,
    };
    let heap = plan.format().unwrap().heap.get();
    plan.region_bytes = heap + chunks * plan.chunk_bytes;
    let heap = plan.format().unwrap().heap.get();
    plan.region_bytes = heap + chunks * plan.chunk_bytes;
    plan
}

/// A request that ends badly: the `position`-th of the lane, with or without having taken effect.
#[derive(Clone, Copy, Debug)]
struct Fault {
    position: usize,
    effect: bool,
}

/// One operation and the lane it runs on.
struct Runner<'l, 'm, T> {
    lane: &'l Lane<'m>,
    future: Pin<Box<dyn Future<Output = T> + 'l>>,
    scratch: Option<&'m mut [u8]>,
    next: usize,
    executed: usize,
    fault: Option<Fault>,
    done: Option<T>,
}

impl<'l, 'm, T> Runner<'l, 'm, T> {
    fn new(lane: &'l Lane<'m>, future: impl Future<Output = T> + 'l) -> Self {
        Self { lane, future: Box::pin(future), scratch: None, next: 0, executed: 0, fault: None, done: None }
    }

    /// Executes one request, or runs the operation to its next submit.
    fn step(&mut self, pool: &mut Pool) {
        if self.done.is_some() {
            return;
        }
        let port = self.lane.port();
        let Some(scratch) = self.scratch.take() else {
            match poll_once(port, Pin::new(&mut self.future)) {
                Step::Requests => self.scratch = port.begin(),
                Step::Waiting => panic!("an operation waits for nothing"),
                Step::Done(result) => self.done = Some(result),
            }
            self.next = 0;
            return;
        };
        let request = port.requests()[self.next];
        let mut completion = Completion::default();
        let fault = self.fault.filter(|fault| fault.position == self.executed);
        if fault.is_none_or(|fault| fault.effect) {
            completion.value = pool.execute(&request, scratch);
        }
        if fault.is_some() {
            completion = Completion { status: Status::Flushed, ..Completion::default() };
        }
        port.complete(self.next, completion);
        self.next += 1;
        self.executed += 1;
        if self.next == port.requests().len() {
            port.finish(scratch, 1000);
        } else {
            self.scratch = Some(scratch);
        }
    }
}

/// Runs operations together: each choice names one of them and how many steps it takes. What is left when the choices
/// are used up runs in turn.
fn race<T>(pool: &mut Pool, mut runners: Vec<Runner<'_, '_, T>>, choices: &[(u8, u8)]) -> Vec<T> {
    for &(which, steps) in choices {
        let which = usize::from(which) % runners.len();
        for _ in 0..steps {
            runners[which].step(pool);
        }
    }
    let mut patience = 1_000_000;
    while runners.iter().any(|runner| runner.done.is_none()) {
        for runner in &mut runners {
            runner.step(pool);
        }
        patience -= 1;
        assert!(patience > 0, "the operations wait for each other");
    }
    runners.into_iter().map(|runner| runner.done.unwrap()).collect()
}

/// Runs one operation to its end, perhaps with a request that fails.
fn alone<'l, 'm, T>(
    pool: &mut Pool,
    lane: &'l Lane<'m>,
    fault: Option<Fault>,
    future: impl Future<Output = T> + 'l,
) -> T {
    let runner = Runner { fault, ..Runner::new(lane, future) };
    race(pool, vec![runner], &[]).remove(0)
}

/// Declares `$lane` with scratch of its own.
macro_rules! lane {
    ($lane:ident) => {
        let mut scratch = vec![0xee; SCRATCH_BYTES];
        let $lane = Lane::new(LaneId(0), &mut scratch);
    };
}

fn member(row: u16) -> Member {
    Member { row: RowId(row), incarnation: 1, nonce: u32::from(row) }
}

fn definition(name: &str) -> Definition<'_> {
    let parameters = Parameters::with_sizes(8, 8);
    Definition {
        name,
        kind: IndexKind::Sherman,
        parameters_version: Parameters::VERSION,
        parameters: parameters.encode(),
        features: Features::default(),
    }
}

fn choices() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec((any::<u8>(), 1..60_u8), 0..40)
}

// ---- catalog -----------------------------------------------------------------------------------------------------

/// States of all entries, and the names of the live ones.
fn catalog_now(pool: &mut Pool) -> (Vec<EntryState>, Vec<String>) {
    let home = pool.home();
    let states = (0..dm_core::remote::catalog::ENTRIES)
        .map(|entry| {
            let offset = home.catalog_entry(IndexNumber::new(entry).unwrap());
            EntryWord(u64::from_le_bytes(*pool.word(0, offset))).state().unwrap()
        })
        .collect();
    lane!(lane);
    let mut names = Vec::new();
    let mut visit = |entry: &dm_core::remote::catalog::IndexEntry| names.push(entry.name().to_owned());
    alone(pool, &lane, None, catalog::list(&lane, &home, 0, &mut visit)).unwrap();
    (states, names)
}

/// Creates one index per name, by compute nodes of their own, in the order of `choices`.
fn create_together(pool: &mut Pool, names: &[&str], choices: &[(u8, u8)]) -> Vec<Result<IndexNumber, CatalogError>> {
    let home = pool.home();
    let mut scratches = vec![[0; SCRATCH_BYTES]; names.len()];
    let lanes: Vec<Lane<'_>> = scratches.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
    let definitions: Vec<Definition<'_>> = names.iter().map(|name| definition(name)).collect();
    let runners = lanes.iter().zip(&definitions).enumerate().map(|(row, (lane, definition))| {
        Runner::new(lane, catalog::create(lane, &home, member(row as u16 + 1), 0, definition, 0))
    });
    race(pool, runners.collect(), choices)
}

#[test]
fn an_index_is_created_found_and_dropped() {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    lane!(lane);
    let users = definition("users");
    assert_eq!(alone(&mut pool, &lane, None, catalog::find(&lane, &home, "users", 0)), Ok(None));
    let before = lane.port().round_trips();
    let create = catalog::create(&lane, &home, member(1), 0, &users, 0);
    let number = alone(&mut pool, &lane, None, create).unwrap();
    assert_eq!(lane.port().round_trips() - before, 5, "look, claim, body, look again, publish");

    let found = alone(&mut pool, &lane, None, catalog::find(&lane, &home, "users", 0)).unwrap().unwrap();
    assert_eq!((found.number, found.name(), found.root), (number, "users", 0));
    assert!(found.is(&users));
    assert!(Parameters::decode(found.parameters_version, &found.parameters).is_ok());

    let grown = alone(&mut pool, &lane, None, catalog::swap_root(&lane, &home, number, 0, 0x7000)).unwrap();
    assert_eq!(grown, 0x7000);
    let late = alone(&mut pool, &lane, None, catalog::swap_root(&lane, &home, number, 0, 0x8000)).unwrap();
    assert_eq!(late, 0x7000, "the root is what the first one made it");

    assert_eq!(alone(&mut pool, &lane, None, catalog::drop_index(&lane, &home, number, 0)), Ok(true));
    assert_eq!(alone(&mut pool, &lane, None, catalog::drop_index(&lane, &home, number, 0)), Ok(false));
    assert_eq!(alone(&mut pool, &lane, None, catalog::find(&lane, &home, "users", 0)), Ok(None));
    // Its number is not given to another before its chunks are given back.
    let other = definition("orders");
    let create = catalog::create(&lane, &home, member(1), 1, &other, 0);
    assert_ne!(alone(&mut pool, &lane, None, create), Ok(number));
    assert_eq!(alone(&mut pool, &lane, None, catalog::free_number(&lane, &home, number, 0)), Ok(true));
    let create = catalog::create(&lane, &home, member(1), 2, &users, 0);
    assert_eq!(alone(&mut pool, &lane, None, create), Ok(number));
    let found = alone(&mut pool, &lane, None, catalog::find(&lane, &home, "users", 0)).unwrap().unwrap();
    assert_eq!(found.root, 0, "a new index does not inherit a root");
}

#[test]
fn a_full_catalog_and_a_bad_name_are_refused() {
    let mut pool = Pool::new(1, 4);
    let names: Vec<String> = (0..dm_core::remote::catalog::ENTRIES).map(|entry| format!("index-{entry}")).collect();
    for name in &names {
        assert!(create_together(&mut pool, &[name], &[])[0].is_ok());
    }
    assert_eq!(create_together(&mut pool, &["one more"], &[]), [Err(CatalogError::Full)]);
    let long = "x".repeat(48);
    for name in ["", "a\nb", long.as_str()] {
        assert_eq!(create_together(&mut pool, &[name], &[]), [Err(CatalogError::BadName)], "{name:?}");
    }
}

#[test]
fn a_creator_that_died_is_named() {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    let dead = EntryWord::new(EntryState::Creating, dm_core::remote::catalog::tag_of("users"), 3, member(9));
    *pool.word(0, home.catalog_entry(IndexNumber::new(2).unwrap())) = dead.0.to_le_bytes();
    let result = create_together(&mut pool, &["users"], &[]);
    let busy = CatalogError::Busy { number: IndexNumber::new(2).unwrap(), row: RowId(9), incarnation: 1 };
    assert_eq!(result, [Err(busy)]);
    assert_eq!(catalog_now(&mut pool).0.iter().filter(|state| **state != EntryState::Free).count(), 1);
    // Its row fenced and dead, a sweep clears the way.
    lane!(lane);
    let sweep = |incarnation| catalog::sweep_claims(&lane, &home, RowId(9), incarnation, 0);
    assert_eq!(alone(&mut pool, &lane, None, sweep(2)), Ok(0), "another life of that row is not meant");
    assert_eq!(alone(&mut pool, &lane, None, sweep(1)), Ok(1));
    assert!(create_together(&mut pool, &["users"], &[])[0].is_ok());
}

/// An index of another name is dropped and its entry freed while two creators of one name race: an entry becomes free
/// below the one that a creator has chosen. Only so can both of them hold a claim.
fn create_amid_a_drop(choices: &[(u8, u8)]) {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    create_together(&mut pool, &["old"], &[]);
    let old = IndexNumber::new(0).unwrap();
    let mut scratches = [[0; SCRATCH_BYTES]; 3];
    let lanes: Vec<Lane<'_>> = scratches.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
    let users = definition("users");
    let dropping = async {
        assert!(catalog::drop_index(&lanes[2], &home, old, 0).await?);
        assert!(catalog::free_number(&lanes[2], &home, old, 0).await?);
        Ok(old)
    };
    let runners = vec![
        Runner::new(&lanes[0], catalog::create(&lanes[0], &home, member(1), 0, &users, 0)),
        Runner::new(&lanes[1], catalog::create(&lanes[1], &home, member(2), 0, &users, 0)),
        Runner::new(&lanes[2], dropping),
    ];
    let results = race(&mut pool, runners, choices);
    let winners = results[..2].iter().filter(|result| result.is_ok()).count();
    assert_eq!(winners, 1, "{results:?} after {choices:?}");
    assert_eq!(catalog_now(&mut pool).1, ["users"]);
}

#[test]
fn two_claims_of_one_name_leave_one_index() {
    // The first creator looks; the entry below its choice is freed; the second creator claims that one; then both go
    // on, the first ahead by any number of steps. A look takes 17 steps, a creation less than 80.
    for look in 16..24 {
        for second in (0..60).step_by(2) {
            for first in 0..60 {
                create_amid_a_drop(&[(0, look), (2, 100), (1, second), (0, first), (1, 100), (0, 100)]);
            }
        }
    }
}

/// Two names with one tag.
static TWINS: LazyLock<(String, String)> = LazyLock::new(|| {
    let mut seen = std::collections::HashMap::new();
    let clash = |number| {
        let name = format!("index-{number}");
        seen.insert(dm_core::remote::catalog::tag_of(&name), name.clone()).map(|other| (other, name))
    };
    (0..1 << 21).find_map(clash).expect("tags have 21 bits")
});

#[test]
fn a_creation_is_retried_after_any_request_failed() {
    let users = definition("users");
    for effect in [false, true] {
        for position in 0..60 {
            let mut pool = Pool::new(1, 4);
            let home = pool.home();
            lane!(first);
            let fault = Some(Fault { position, effect });
            let create = catalog::create(&first, &home, member(1), 5, &users, 0);
            let Err(error) = alone(&mut pool, &first, fault, create) else { continue };
            assert!(matches!(error, CatalogError::Verb(error) if error.effect_unknown()), "{error}");
            lane!(again);
            let create = catalog::create(&again, &home, member(1), 5, &users, 0);
            let number = alone(&mut pool, &again, None, create).unwrap();
            let (states, names) = catalog_now(&mut pool);
            assert_eq!((states[usize::from(number.get())], names), (EntryState::Live, vec!["users".to_owned()]));
            assert_eq!(states.iter().filter(|state| **state != EntryState::Free).count(), 1, "{fault:?}");
        }
    }
}

// ---- rows --------------------------------------------------------------------------------------------------------

fn joiner(token: u64) -> Joiner<'static> {
    Joiner { token, lanes: 4, host: "host-\u{e9}" }
}

fn row_now(pool: &mut Pool, row: RowId) -> Row {
    let at = pool.home().row_offset(row) as usize;
    Row::from_prefix(&pool.regions[0][at..]).unwrap()
}

#[test]
fn a_compute_node_joins_beats_and_leaves() {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    lane!(lane);
    let me = joiner(0xfeed_0000_0001);
    let member = alone(&mut pool, &lane, None, rows::join(&lane, &home, &me, 0)).unwrap();
    assert_eq!((member.row, member.incarnation), (RowId(1), 1));
    alone(&mut pool, &lane, None, rows::heartbeat(&lane, &home, member, 42, 7, 0)).unwrap();
    let row = row_now(&mut pool, member.row);
    let life = row.decode().unwrap().life.unwrap();
    assert_eq!((life.heartbeat, life.epoch, life.lanes, life.host), (42, 7, 4, "host-\u{e9}"));

    alone(&mut pool, &lane, None, rows::leave(&lane, &home, member, true)).unwrap();
    assert_eq!(row_now(&mut pool, member.row).decode().unwrap().life, None);
    let gone = alone(&mut pool, &lane, None, rows::heartbeat(&lane, &home, member, 43, 7, 0));
    assert!(matches!(gone, Err(RowError::Fenced { .. })));
    // The row's next incarnation has another name.
    let next = alone(&mut pool, &lane, None, rows::join(&lane, &home, &joiner(2), 0)).unwrap();
    assert_eq!((next.row, next.incarnation), (RowId(1), 2));
    // A late leave of the first incarnation does not end the second.
    alone(&mut pool, &lane, None, rows::leave(&lane, &home, member, true)).unwrap();
    assert_eq!(row_now(&mut pool, next.row).decode().unwrap().state, RowState::Live);
}

#[test]
fn rows_that_await_a_sweep_or_are_used_up_are_not_joined() {
    let mut pool = Pool::new(1, 4);
    let home = pool.home();
    lane!(lane);
    let member = alone(&mut pool, &lane, None, rows::join(&lane, &home, &joiner(5), 0)).unwrap();
    alone(&mut pool, &lane, None, rows::leave(&lane, &home, member, false)).unwrap();
    assert_eq!(row_now(&mut pool, member.row).decode().unwrap().state, RowState::Fencing);
    let used_up = RowWord::new(RowState::Free, 0, dm_core::remote::row::INCARNATION_MAX);
    *pool.word(0, home.row_offset(RowId(2))) = used_up.0.to_le_bytes();
    let next = alone(&mut pool, &lane, None, rows::join(&lane, &home, &joiner(5), 0)).unwrap();
    assert_eq!(next.row, RowId(3));
    let live = RowWord::new(RowState::Live, 99, 1).0;
    for row in 4..home.row_count {
        *pool.word(0, home.row_offset(RowId(row as u16))) = live.to_le_bytes();
    }
    let full = alone(&mut pool, &lane, None, rows::join(&lane, &home, &joiner(6), 0));
    assert_eq!(full, Err(RowError::NoFreeRow { rows: 127, live: 125, fenced: 1, used_up: 1 }));
    assert_eq!(alone(&mut pool, &lane, None, rows::join(&lane, &home, &joiner(1 << 28), 0)), Err(RowError::BadToken));
}

#[test]
fn a_join_is_retried_after_any_request_failed() {
    for effect in [false, true] {
        for position in 0..140 {
            let mut pool = Pool::new(1, 4);
            let home = pool.home();
            let me = joiner(0x1234_5678);
            lane!(first);
            let join = rows::join(&first, &home, &me, 0);
            let Err(error) = alone(&mut pool, &first, Some(Fault { position, effect }), join) else { continue };
            assert!(matches!(error, RowError::Verb(error) if error.effect_unknown()), "{error}");
            lane!(again);
            let member = alone(&mut pool, &again, None, rows::join(&again, &home, &me, 0)).unwrap();
            assert_eq!(member.row, RowId(1));
            let row = row_now(&mut pool, RowId(1));
            assert_eq!(row.decode().unwrap().life.unwrap().token, me.token);
            assert_eq!(row_now(&mut pool, RowId(2)).decode().unwrap().state, RowState::Free);
        }
    }
}

// ---- chunk table -------------------------------------------------------------------------------------------------

fn want(row: u16, request: u32) -> Want {
    let request = RequestId::new(request).unwrap();
    let grant = Grant::new(member(row), ChunkKind::Leaf, IndexNumber::new(0).unwrap(), request);
    Want { grant, retry: false, reuse: false, hint: u32::from(row) * 70 }
}

fn tally(pool: &mut Pool, node: u16) -> Tally {
    lane!(lane);
    let geometry = pool.geometries[usize::from(node)];
    let mut tally = Tally::default();
    let mut visit = |_, entry| tally.count(entry);
    alone(pool, &lane, None, chunks::walk(&lane, NodeId(node), &geometry, 0, &mut visit)).unwrap();
    tally
}

#[test]
fn a_table_is_granted_to_its_last_chunk_and_no_further() {
    let mut pool = Pool::new(2, 150);
    let geometries = pool.geometries.clone();
    lane!(lane);
    let mut seen = std::collections::HashSet::new();
    let requests = RequestIds::new();
    let mut hint = 149;
    for step in 0..300 {
        let request = requests.next().unwrap().get();
        let want = Want { hint, ..want(1, request) };
        let grant = chunks::grant_any(&lane, &geometries, NodeId(1), &want, 0);
        let granted = alone(&mut pool, &lane, None, grant).unwrap().unwrap();
        assert_eq!(granted.node, NodeId(u16::from(step < 150)), "near first");
        assert!(seen.insert((granted.node, granted.offset)), "{granted:?} was granted before");
        assert_eq!(geometries[0].chunk_of(granted.offset + 4095), Some(granted.chunk));
        hint = granted.chunk;
    }
    let one_more = want(1, 999);
    let full = chunks::grant_any(&lane, &geometries, NodeId(1), &one_more, 0);
    assert_eq!(alone(&mut pool, &lane, None, full), Ok(None));
    assert_eq!(tally(&mut pool, 0).granted[0][ChunkKind::Leaf as usize], 150);
    assert_eq!(lane.marked(Mark::CHUNK_GRANTED), 300);
}

#[test]
fn a_chunk_that_was_used_is_not_granted_as_new() {
    let mut pool = Pool::new(1, 1);
    let home = pool.home();
    lane!(lane);
    let grant = |pool: &mut Pool, request, reuse| -> Option<Granted> {
        let want = Want { reuse, ..want(1, request) };
        alone(pool, &lane, None, chunks::grant(&lane, NodeId(0), &home, &want, 0)).unwrap()
    };
    let quiet = grant(&mut pool, 0, false).unwrap();
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &home, &quiet, false)), Ok(true));
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &home, &quiet, false)), Ok(false));
    let busy = grant(&mut pool, 1, false).unwrap();
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &home, &busy, true)), Ok(true));
    assert_eq!(tally(&mut pool, 0), Tally { used: 1, ..Tally::default() });
    assert_eq!(grant(&mut pool, 2, false), None);
    let again = grant(&mut pool, 3, true).unwrap();
    assert!(again.used);
    // Once used, always used.
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &home, &again, false)), Ok(true));
    assert_eq!(grant(&mut pool, 4, false), None);
}

#[test]
fn a_grant_is_retried_after_any_request_failed() {
    for effect in [false, true] {
        for position in 0..12 {
            let mut pool = Pool::new(2, 70);
            let geometries = pool.geometries.clone();
            lane!(first);
            let want = Want { hint: 69, ..want(1, 3) };
            let grant = chunks::grant_any(&first, &geometries, NodeId(1), &want, 0);
            let Err(error) = alone(&mut pool, &first, Some(Fault { position, effect }), grant) else { continue };
            assert!(error.effect_unknown());
            lane!(again);
            let retry = Want { retry: true, hint: 3, ..want };
            let grant = chunks::grant_any(&again, &geometries, NodeId(0), &retry, 0);
            assert!(alone(&mut pool, &again, None, grant).unwrap().is_some());
            let total = tally(&mut pool, 0).granted_total() + tally(&mut pool, 1).granted_total();
            assert_eq!(total, 1, "one request, one chunk");
        }
    }
}

#[test]
fn a_dead_owners_chunk_has_one_heir() {
    let mut pool = Pool::new(1, 2);
    let home = pool.home();
    lane!(lane);
    let grant = want(1, 0);
    let granted = alone(&mut pool, &lane, None, chunks::grant(&lane, NodeId(0), &home, &grant, 0)).unwrap().unwrap();
    let heirs = [want(2, 0).grant, want(3, 0).grant];
    let mut inherit =
        |heir| alone(&mut pool, &lane, None, chunks::inherit(&lane, NodeId(0), &home, 0, &grant.grant, heir)).unwrap();
    assert_eq!([inherit(&heirs[0]), inherit(&heirs[1])], [true, false]);
    assert_eq!(alone(&mut pool, &lane, None, chunks::release(&lane, &home, &granted, true)), Ok(false));
}

#[test]
fn request_numbers_end() {
    assert_eq!(RequestId::new(dm_core::remote::chunk::REQUESTS_MAX), None);
    let requests = RequestIds::new();
    assert!((0..dm_core::remote::chunk::REQUESTS_MAX).all(|number| requests.next() == RequestId::new(number)));
    assert_eq!((requests.next(), requests.next()), (None, None));
}

// ---- superblock --------------------------------------------------------------------------------------------------

#[test]
fn every_wrong_field_of_a_superblock_has_its_error() {
    let good = plan(NodeId(1), 3, 10).format().unwrap();
    let decode = |change: &dyn Fn(&mut Superblock), seal: bool| {
        let mut superblock = good;
        change(&mut superblock);
        if seal {
            superblock.seal();
        }
        Superblock::decode(superblock.as_bytes())
    };
    let heap = good.heap.get();
    let huge = u64::MAX;
    type Change = Box<dyn Fn(&mut Superblock)>;
    let changes: Vec<(Change, &str)> = vec![
        (Box::new(|s| s.magic[0] ^= 1), "not a pool"),
        (Box::new(|s| s.format_version = 2.into()), "format version 2"),
        (Box::new(|s| s.features_incompatible = 0x14.into()), "incompatible bits 0x14"),
        (Box::new(|s| s.nodes = 0.into()), "field nodes"),
        (Box::new(|s| s.node = 3.into()), "field node "),
        (Box::new(|s| s.row_count = 1.into()), "field row_count"),
        (Box::new(|s| s.row_count = 65537.into()), "field row_count"),
        (Box::new(|s| s.row_count = 129.into()), "rows and chunk_table overlap"),
        (Box::new(|s| s.region_bytes = 4096.into()), "outside the region"),
        (Box::new(|s| s.region_bytes = 4095.into()), "field chunk_bytes"),
        (Box::new(move |s| s.region_bytes = huge.into()), "field region_bytes"),
        (Box::new(|s| s.catalog = 0.into()), "superblock and catalog overlap"),
        (Box::new(|s| s.catalog = 4097.into()), "field catalog"),
        (Box::new(move |s| s.catalog = (huge & !63).into()), "field catalog"),
        (Box::new(move |s| s.rows = heap.into()), "overlap"),
        (Box::new(|s| s.rows = 64.into()), "superblock and rows overlap"),
        (Box::new(|s| s.redo_row_bytes = 1.into()), "field redo_row_bytes"),
        (Box::new(|s| s.redo_row_bytes = 64.into()), "overlap"),
        (Box::new(|s| s.chunk_count = 0.into()), "field chunk_count"),
        (Box::new(|s| s.chunk_count = 11.into()), "field heap"),
        (Box::new(|s| s.chunk_count = u32::MAX.into()), "outside the region"),
        (Box::new(|s| s.chunk_table = 1.into()), "field chunk_table"),
        (Box::new(move |s| s.chunk_table = (heap - 64).into()), "overlap"),
        (Box::new(move |s| s.heap = (heap + 64).into()), "field heap"),
        (Box::new(move |s| s.heap = (heap + 4096).into()), "field heap"),
        (Box::new(move |s| s.heap = (heap - 4096).into()), "overlap"),
        (Box::new(|s| s.chunk_bytes = 0.into()), "field chunk_bytes"),
        (Box::new(|s| s.chunk_bytes = 4100.into()), "field chunk_bytes"),
        (Box::new(move |s| s.chunk_bytes = (huge & !4095).into()), "field chunk_bytes"),
        (Box::new(|s| s.lock_count = 0.into()), "field lock_count"),
        (Box::new(|s| s.lock_count = u32::MAX.into()), "field lock_table"),
        (Box::new(|s| s.lock_table = 8.into()), "field lock_table"),
        (Box::new(|s| s.lock_table = 0.into()), "superblock and lock_table overlap"),
        (Box::new(|s| s.lock_space = 2), "field lock_space"),
        (Box::new(|s| s.lock_space = 1), "outside device memory"),
    ];
    for (position, (change, expected)) in changes.iter().enumerate() {
        let error = decode(change, true).expect_err(&format!("change {position} ({expected}) was accepted"));
        let text = error.to_string();
        assert!(text.contains(expected), "change {position}: {text}, expected {expected}");
    }
    // Without a new checksum every change past the version is damage.
    assert!(matches!(decode(&|s| s.heap = 0.into(), false), Err(SuperblockError::Checksum { .. })));
    assert!(matches!(decode(&|s| s.checksum = 0.into(), false), Err(SuperblockError::Checksum { .. })));
    // What a reader may ignore, it ignores; what it must not write, it does not.
    assert!(decode(&|s| s.features_compatible = 1.into(), true).unwrap().writable());
    let read_only = decode(&|s| s.features_read_only = 4.into(), true).unwrap();
    assert!(!read_only.writable());
    assert_eq!(read_only.read_only_unknown, 4);
    assert!(matches!(Superblock::decode(&good.as_bytes()[..255]), Err(SuperblockError::Short { got: 255 })));
}

#[test]
fn every_flipped_bit_of_a_superblock_is_noticed() {
    let good = plan(NodeId(1), 3, 10).format().unwrap();
    for bit in 0..Superblock::BYTES * 8 {
        let mut bytes = good.as_bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Superblock::decode(&bytes).is_err(), "bit {bit}");
    }
}

// ---- properties --------------------------------------------------------------------------------------------------

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn one_of_several_creators_wins(choices in choices(), creators in 2..4_usize) {
        let mut pool = Pool::new(1, 4);
        let results = create_together(&mut pool, &["users", "users", "users"][..creators], &choices);
        let winner = results.iter().find_map(|result| result.ok());
        prop_assert!(winner.is_some(), "{results:?}");
        let winner = winner.unwrap();
        let wins = results.iter().filter(|result| result.is_ok()).count();
        let exists = results.iter().filter(|r| **r == Err(CatalogError::Exists { number: winner })).count();
        prop_assert_eq!((wins, exists), (1, creators - 1));
        let (states, names) = catalog_now(&mut pool);
        prop_assert_eq!(names, vec!["users".to_owned()]);
        prop_assert_eq!(states.iter().filter(|state| **state != EntryState::Free).count(), 1);
    }

    #[test]
    fn names_of_one_tag_both_come_to_be(choices in choices()) {
        let mut pool = Pool::new(1, 4);
        let (one, other) = &*TWINS;
        let results = create_together(&mut pool, &[one, other], &choices);
        prop_assert!(results.iter().all(Result::is_ok), "{results:?}");
        let (_, mut names) = catalog_now(&mut pool);
        names.sort();
        prop_assert_eq!(names, vec![one.clone(), other.clone()]);
    }

    #[test]
    fn a_drop_amid_two_creations_leaves_one(choices in choices()) {
        create_amid_a_drop(&choices);
    }

    #[test]
    fn joiners_get_rows_of_their_own(choices in choices(), joiners in 2..5_usize) {
        let mut pool = Pool::new(1, 4);
        let home = pool.home();
        let mut scratches = vec![[0; SCRATCH_BYTES]; joiners];
        let lanes: Vec<Lane<'_>> = scratches.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
        let who: Vec<_> = (0..joiners).map(|number| joiner(number as u64 + 1)).collect();
        let runners = lanes.iter().zip(&who).map(|(lane, who)| Runner::new(lane, rows::join(lane, &home, who, 0)));
        let results = race(&mut pool, runners.collect(), &choices);
        let mut taken = std::collections::HashSet::new();
        for (result, who) in results.iter().zip(&who) {
            let member = result.unwrap();
            prop_assert!(taken.insert(member.row));
            let row = row_now(&mut pool, member.row);
            prop_assert_eq!(row.decode().unwrap().life.unwrap().token, who.token);
        }
    }

    #[test]
    fn granters_get_chunks_of_their_own(choices in choices(), granters in 2..5_usize, hint in any::<u32>()) {
        // Three chunks: of more granters than that, all but three learn that the node is full.
        let mut pool = Pool::new(1, 3);
        let home = pool.home();
        let mut scratches = vec![[0; SCRATCH_BYTES]; granters];
        let lanes: Vec<Lane<'_>> = scratches.iter_mut().map(|scratch| Lane::new(LaneId(0), scratch)).collect();
        let wants: Vec<_> = (0..granters).map(|row| Want { hint, ..want(row as u16 + 1, 0) }).collect();
        let runners = lanes.iter().zip(&wants).map(|(lane, want)| {
            Runner::new(lane, chunks::grant(lane, NodeId(0), &home, want, 0))
        });
        let results = race(&mut pool, runners.collect(), &choices);
        let granted: Vec<_> = results.iter().filter_map(|result| result.unwrap()).collect();
        let offsets: std::collections::HashSet<_> = granted.iter().map(|granted| granted.offset).collect();
        prop_assert_eq!((granted.len(), offsets.len()), (granters.min(3), granters.min(3)));
        prop_assert_eq!(tally(&mut pool, 0).granted_total() as usize, granters.min(3));
        let lost: u32 = lanes.iter().map(|lane| lane.marked(Mark::CHUNK_RACE_LOST)).sum();
        let won: u32 = lanes.iter().map(|lane| lane.marked(Mark::CHUNK_GRANTED)).sum();
        prop_assert!(won as usize == granters.min(3) && lost <= 12);
    }

    #[test]
    fn a_chunk_word_is_read_as_it_was_written(bits in any::<u64>(), small in 0..4096_u64) {
        for bits in [bits, small, bits & !0x7f | 0x09] {
            if let Ok(ChunkEntry::Granted(grant)) = ChunkWord(bits).decode() {
                prop_assert_eq!(grant.word(), ChunkWord(bits));
            }
        }
    }

    #[test]
    fn no_bytes_make_a_superblock_that_lies(
        at in 12..252_usize, word in any::<u64>(), bytes in 1..=8_usize, shift in 0..64_u32
    ) {
        let mut superblock = plan(NodeId(1), 3, 10).format().unwrap();
        let end = (at + bytes).min(252);
        superblock.as_mut_bytes()[at..end].copy_from_slice(&(word >> shift).to_le_bytes()[..end - at]);
        superblock.seal();
        if let Ok(node) = Superblock::decode(superblock.as_bytes()) {
            let geometry = node.geometry;
            prop_assert!(geometry.chunk_offset(geometry.chunk_count) <= geometry.region_bytes);
            prop_assert!(geometry.chunk_entry(geometry.chunk_count) <= geometry.region_bytes);
            prop_assert!(geometry.rows + u64::from(geometry.row_count) * 128 <= geometry.region_bytes);
            prop_assert!(geometry.lock_count > 0 && node.identity.node.0 < node.identity.nodes);
        }
    }

    #[test]
    fn what_is_planned_is_decoded(
        node in 0..9_u16,
        region_bytes in 0..1_u64 << 34,
        chunk_pages in 1..4096_u64,
        lock_count in 1..1_000_000_u32,
        device_bytes in 0..1_u64 << 20,
        redo_lines in 0..128_u32,
    ) {
        let plan = PoolPlan {
            pool_id: [3; 16],
            pool_incarnation: 9,
            node: NodeId(node),
            nodes: 9,
            region_bytes,
            chunk_bytes: chunk_pages * 4096,
            lock_count,
            device_bytes,
            redo_row_bytes: redo_lines * 64,
        };
        if let Ok(superblock) = plan.format() {
            let node = Superblock::decode(superblock.as_bytes()).unwrap();
            prop_assert_eq!(node.identity.node, plan.node);
            prop_assert_eq!(node.geometry.region_bytes, region_bytes);
            prop_assert_eq!(node.geometry.lock_count, lock_count);
            prop_assert_eq!(node.geometry.redo_row_bytes, plan.redo_row_bytes);
            // One chunk more, with its entry, would not fit.
            let end = node.geometry.chunk_offset(node.geometry.chunk_count);
            prop_assert!(end <= region_bytes && end + plan.chunk_bytes + 8192 > region_bytes);
        }
    }

    #[test]
    fn no_bytes_make_a_record_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 256)) {
        let _ = Superblock::decode(&bytes);
        let _ = Row::from_prefix(&bytes).unwrap().decode();
        let mut entry = Entry::from_prefix(&bytes).unwrap();
        let number = IndexNumber::new(3).unwrap();
        let _ = entry.decode(number);
        // Past the checksum.
        entry = Entry::of(EntryWord(entry.word.get()), &definition("users")).unwrap();
        entry.name_bytes = bytes[0];
        let _ = entry.decode(number);
        let _ = Parameters::decode(1, bytes.first_chunk().unwrap());
    }

    #[test]
    fn a_catalog_of_arbitrary_bytes_is_an_error_at_worst(
        bytes in proptest::collection::vec(any::<u8>(), 4096), tidy in any::<bool>()
    ) {
        let mut pool = Pool::new(1, 4);
        let home = pool.home();
        let at = home.catalog as usize;
        pool.regions[0][at..at + 4096].copy_from_slice(&bytes);
        if tidy {
            // States that exist, so that bodies are looked at.
            (0..16).for_each(|entry| pool.regions[0][at + entry * 256] &= !4);
        }
        lane!(lane);
        let _ = alone(&mut pool, &lane, None, catalog::find(&lane, &home, "users", 0));
        let _ = alone(&mut pool, &lane, None, catalog::list(&lane, &home, 0, &mut |_| {}));
        let users = definition("users");
        let _ = alone(&mut pool, &lane, None, catalog::create(&lane, &home, member(1), 0, &users, 0));
    }

    #[test]
    fn rows_and_chunks_of_arbitrary_bytes_are_an_error_at_worst(seed in any::<[u8; 32]>()) {
        let mut pool = Pool::new(1, 70);
        let home = pool.home();
        let (from, to) = (home.rows as usize, home.heap as usize);
        for (at, byte) in pool.regions[0][from..to].iter_mut().enumerate() {
            *byte = seed[at % 32].wrapping_mul(at as u8 | 1);
        }
        lane!(lane);
        let _ = alone(&mut pool, &lane, None, rows::join(&lane, &home, &joiner(1), 0));
        let _ = alone(&mut pool, &lane, None, chunks::grant(&lane, NodeId(0), &home, &want(1, 1), 0));
        let _ = tally(&mut pool, 0);
    }
}

#[test]
fn futures_stay_small() {
    let pool = Pool::new(1, 4);
    let home = pool.home();
    lane!(lane);
    let (users, me, want) = (definition("users"), joiner(1), want(1, 1));
    let sizes = [
        ("create", size_of_val(&catalog::create(&lane, &home, member(1), 0, &users, 0))),
        ("find", size_of_val(&catalog::find(&lane, &home, "users", 0))),
        ("join", size_of_val(&rows::join(&lane, &home, &me, 0))),
        ("grant", size_of_val(&chunks::grant(&lane, NodeId(0), &home, &want, 0))),
        ("grant any", size_of_val(&chunks::grant_any(&lane, &pool.geometries, NodeId(0), &want, 0))),
    ];
    for (name, bytes) in sizes {
        assert!(bytes <= 2048, "the future of {name} has {bytes} bytes: {sizes:?}");
    }
    println!("{sizes:?}");
}
