//! The requests of ownership, on a memory node in this process.

extern crate std;
use super::*;
use crate::dex::ownership::partition::EntryCell;
use crate::dex::ownership::table::{Table, TableWriter};
use crate::index::owners::{self, keeps_row};
use crate::lane::LockRecord;
use crate::machine::{Step, poll_once};
use crate::membership::Numbers;
use crate::membership::lease::{Lease, LeaseConfig};
use crate::mutants::{Mutant, with_planted};
use crate::recovery::Swept;
use crate::recovery::sweep::{Dead, Sweep, Sweepable};
use crate::remote::catalog::{Definition, Entry as CatalogEntry, EntryState, EntryWord};
use crate::remote::catalog::{IndexKind, IndexNumber, IndexSet, PARAMETER_BYTES, tag_of};
use crate::remote::chunk::{ChunkEntry, ChunkKind, ChunkWord, Grant, RequestId};
use crate::remote::features::Features;
use crate::remote::row::{Joiner, Member, RowWord};
use crate::remote::superblock::small_for_tests;
use crate::verbs::{Capabilities, Completion, LaneId, NodeId, Space, Status, Verb};
use core::cell::RefCell;
use core::future::Future;
use core::pin::pin;
use core::sync::atomic::AtomicU32;
use std::vec;
use std::vec::Vec;
use zerocopy::IntoBytes;

const TABLE: u64 = 0x8_0000;

/// Memory node 0.
struct Home {
    region: RefCell<Vec<u8>>,
    geometry: NodeGeometry,
    shape: TableShape,
}

impl Home {
    fn new() -> Self {
        let geometry = small_for_tests();
        let shape = TableShape::new(8, 100).unwrap();
        let mut region = vec![0; geometry.region_bytes as usize];
        let table = &mut region[TABLE as usize..];
        TableWriter::start(shape, index(), 3, table).unwrap().even(100, 0, u64::MAX).unwrap();
        let home = Self { region: RefCell::new(region), geometry, shape };
        let definition = Definition {
            name: "owned",
            kind: IndexKind::Dex,
            parameters_version: 1,
            parameters: [0; PARAMETER_BYTES],
            features: Features::default(),
        };
        let word = EntryWord::new(EntryState::Live, tag_of("owned"), 0, member(1));
        let entry = CatalogEntry::of(&definition).unwrap();
        home.put(geometry.catalog_word(index()), &word.0.to_le_bytes());
        home.put(geometry.catalog_entry(index()), entry.as_bytes());
        home
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.region.borrow_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn word(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.region.borrow()[at as usize..][..8].try_into().unwrap())
    }

    fn join(&self, member: Member, state: RowState) {
        let mut row =
            Row::of(member, &Joiner { token: u64::from(member.nonce), lanes: 1, memory_nodes: 1, host: "here" });
        row.word = member.word().with_state(state).0.into();
        self.put(self.geometry.row_offset(member.row), row.as_bytes());
    }

    fn set(&self, entry: u32, word: OwnerWord) {
        self.put(TABLE + TableShape::word_at(entry) as u64, &word.0.to_le_bytes());
    }

    /// Runs a step to its end. A CAS whose number is in `lost` takes effect, and its completion is lost.
    fn run<R>(&self, lane: &Lane<'_>, lost: Option<usize>, step: impl Future<Output = R>) -> R {
        let (mut step, mut cases) = (pin!(step), 0);
        loop {
            if let Step::Done(result) = poll_once(lane.port(), step.as_mut()) {
                return result;
            }
            let requests: Vec<Request> = lane.port().requests().to_vec();
            let scratch = lane.port().begin().unwrap();
            for (position, request) in requests.iter().enumerate().filter(|(_, request)| !request.verb.is_local()) {
                let mut region = self.region.borrow_mut();
                let (at, local, bytes) = (request.offset as usize, request.local as usize, request.bytes as usize);
                let mut completion = Completion { status: Status::Ok, ..Completion::NOTHING };
                match request.verb {
                    Verb::Read => scratch[local..local + bytes].copy_from_slice(&region[at..at + bytes]),
                    Verb::Cas => {
                        completion.value = u64::from_le_bytes(region[at..at + 8].try_into().unwrap());
                        if completion.value == request.operands[0] {
                            region[at..at + 8].copy_from_slice(&request.operands[1].to_le_bytes());
                        }
                        if lost == Some(cases) {
                            completion.status = Status::Flushed;
                        }
                        cases += 1;
                    }
                    verb => unreachable!("{verb:?}"),
                }
                lane.port().complete(position, completion);
            }
            lane.port().finish(scratch, 1000);
        }
    }
}

fn index() -> IndexNumber {
    IndexNumber::new(2).unwrap()
}

fn member(row: u16) -> Member {
    Member { row: RowId(row), incarnation: 1, nonce: 7 }
}

/// One compute node over the table, and what `check` does with it.
fn with(home: &Home, row: u16, check: impl FnOnce(&TableSite<'_>, &Lane<'_>)) {
    home.join(member(row), RowState::Live);
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
    let numbers = Numbers::new();
    let recovery = Recovery::new(member(row), &lease, &[], &[], &numbers, &capabilities).unwrap();
    let image = home.region.borrow()[TABLE as usize..][..home.shape.bytes()].to_vec();
    let table = Table::decode(home.shape, index(), 3, &image).unwrap();
    let cells: Vec<EntryCell> = (0..100).map(|_| EntryCell::default()).collect();
    let boundaries: Vec<_> = (0..200).map(|_| AtomicU32::new(0)).collect();
    let order: Vec<_> = (0..100).map(|_| AtomicU32::new(0)).collect();
    let partition = Partition::open(&table, RowId(row), &boundaries, &order, &cells).unwrap();
    let (mut scratch, geometry, room) = (vec![0; 1024], [home.geometry], 0..512);
    let lane = Lane::new(LaneId(0), &mut scratch);
    let site =
        TableSite { table: TABLE, partition: &partition, recovery: Some(&recovery), geometry: &geometry, room: &room };
    check(&site, &lane);
}

#[test]
fn an_entry_is_claimed_renewed_and_released() {
    let home = Home::new();
    with(&home, 3, |site, lane| {
        let Ok(Entry::Mine(word)) = home.run(lane, None, site.claim(lane, 70)) else { panic!("not claimed") };
        assert_eq!((word.row(), word.epoch()), (RowId(3), 1));
        let tenure = site.partition.admit(70).unwrap();
        assert!(home.run(lane, None, site.release(lane, tenure)).is_err(), "operations are still admitted");
        site.partition.close(70);
        let renewed = home.run(lane, None, site.renew(lane, tenure)).unwrap();
        assert_eq!((renewed.row(), renewed.epoch()), (RowId(3), 2));
        let tenure = site.partition.admit(70).unwrap();
        site.partition.close(70);
        // The completion of its CAS is lost: it looks, and finds that it had been executed.
        assert!(home.run(lane, Some(0), site.release(lane, tenure)).is_err());
        let free = home.run(lane, None, site.release(lane, tenure)).unwrap();
        assert_eq!(free, OwnerWord::new(Owner::Free, 3));
        for row in [3, 9] {
            let kept = home.run(lane, None, keeps_row(lane, &home.geometry, RowId(row), 0));
            assert_eq!(kept, Ok(false));
        }
    });
}

#[test]
fn a_dead_owner_and_a_dead_finder_are_recovered_and_their_rows_kept() {
    let home = Home::new();
    let owned = OwnerWord::FREE.claim(RowId(5)).unwrap();
    home.set(99, owned);
    home.join(member(5), RowState::Dead);
    with(&home, 3, |site, lane| {
        let table = Address::new(HOME, TABLE, 0);
        let kept = || home.run(lane, None, keeps_row(lane, &home.geometry, RowId(5), 0));
        assert_eq!(kept(), Ok(false), "the catalog does not name the table yet");
        for named in [table, Address::new(HOME, TABLE + 4096, 0)] {
            let found = home.run(lane, None, owners::publish(lane, &home.geometry, index(), named));
            assert_eq!(found, Ok(table), "the first one counts");
        }
        assert_eq!(home.run(lane, None, site.claim(lane, 99)), Ok(Entry::Others(owned)));
        assert_eq!(home.run(lane, None, keeps_row(lane, &home.geometry, RowId(5), 0)), Ok(true));
        assert_eq!(home.run(lane, None, keeps_row(lane, &home.geometry, RowId(6), 0)), Ok(false));
        let Ok(Entry::Recovering(word)) = home.run(lane, None, site.look_after(lane, 99)) else {
            panic!("not recovered")
        };
        assert_eq!(word.decode(), Ok(Owner::Recovering { finder: RowId(3), log: RowId(5) }));
        assert!(site.partition.admit(99).is_none(), "its log is not replayed yet");
    });
    home.join(member(3), RowState::Dead);
    with(&home, 4, |site, lane| {
        let Ok(Entry::Recovering(word)) = home.run(lane, None, site.look_after(lane, 99)) else {
            panic!("not recovered")
        };
        assert_eq!(word.decode(), Ok(Owner::Recovering { finder: RowId(4), log: RowId(5) }));
        for row in [3, 4, 5, 77] {
            assert_eq!(home.run(lane, None, keeps_row(lane, &home.geometry, RowId(row), 0)), Ok(true));
        }
        let Ok(Entry::Mine(word)) = home.run(lane, None, site.finish_recovery(lane, 99)) else {
            panic!("not finished")
        };
        assert_eq!((word.decode(), word.epoch()), (Ok(Owner::Owned(RowId(4))), 4));
        assert_eq!(site.partition.admit(99).map(|tenure| tenure.epoch), Some(4));
        assert_eq!(home.run(lane, None, keeps_row(lane, &home.geometry, RowId(3), 0)), Ok(false));
    });
}

#[test]
fn a_damaged_table_keeps_every_row_unless_its_index_is_gone() {
    let home = Home::new();
    with(&home, 3, |site, lane| {
        let at = owners::publish(lane, &home.geometry, index(), Address::new(HOME, TABLE, 0));
        home.run(lane, None, at).unwrap();
        let asked = || home.run(lane, None, keeps_row(lane, &home.geometry, RowId(5), site.room.start));
        assert_eq!(asked(), Ok(false));
        home.set(70, OwnerWord(15));
        assert_eq!(asked(), Ok(true), "a word that cannot be read");
        home.put(TABLE + 8, &200_u64.to_le_bytes());
        assert!(matches!(asked().unwrap_err().cause, Cause::Corrupt { .. }), "more entries than room");
        let named = crate::remote::catalog::owners_offset(&home.geometry, index());
        for elsewhere in [Address::new(NodeId(1), TABLE, 0), Address::new(HOME, 1 << 40, 0), Address::from_bits(8)] {
            home.put(named, &elsewhere.to_bits().to_le_bytes());
            assert!(matches!(asked().unwrap_err().cause, Cause::Corrupt { .. }), "{elsewhere}");
        }
        home.put(home.geometry.catalog_word(index()), &[0; 8]);
        assert_eq!(asked(), Ok(false), "the index was dropped");
    });
}

/// An index of another kind, whose sweep finds no lock.
struct Other<'a>(Site<'a>);

struct NoLocks;

impl Sweepable for NoLocks {
    fn lock_record(&self, _: Address) -> Result<LockRecord, OpError> {
        unreachable!()
    }

    fn place_of_word(&self, _: &LockRecord) -> (NodeId, u64, Space) {
        unreachable!()
    }

    fn is_of(_: u64, _: RowId) -> bool {
        unreachable!()
    }

    async fn sweep_lock(&self, _: &Lane<'_>, _: Site<'_>, _: LockRecord, _: Dead) -> Result<bool, OpError> {
        unreachable!()
    }
}

impl Sweep for Other<'_> {
    type Tables = NoLocks;
    type Leaves = NoLocks;

    fn site(&self) -> Option<Site<'_>> {
        Some(self.0)
    }

    fn number(&self) -> IndexNumber {
        IndexNumber::new(7).unwrap()
    }

    fn tables(&self) -> Option<&NoLocks> {
        None
    }

    fn leaves(&self) -> Option<(&NoLocks, usize)> {
        None
    }

    fn leaf_at(&self, _: NodeId, _: u64) -> Address {
        unreachable!()
    }

    async fn others(&self, _: &Lane<'_>) -> Result<IndexSet, OpError> {
        Ok(IndexSet::default())
    }

    async fn keeps_row(&self, lane: &Lane<'_>, row: RowId) -> Result<bool, OpError> {
        owners::keeps_row(lane, &self.0.geometry[0], row, self.0.room.start).await
    }
}

/// An owner has died. Whether a sweep of another index leaves its row and its log ring until its entry is recovered.
fn a_named_row_and_its_ring_stay() -> bool {
    const RING: u32 = 60;
    let (home, dead) = (Home::new(), member(5));
    home.set(99, OwnerWord::FREE.claim(dead.row).unwrap());
    home.join(dead, RowState::Dead);
    let grant = Grant::new(dead, ChunkKind::Redo, index(), RequestId::new(1).unwrap());
    home.put(home.geometry.chunk_entry(RING), &grant.word().0.to_le_bytes());
    let (mut stay, mut swept_at_last) = (true, Swept::default());
    with(&home, 3, |site, lane| {
        let table = Address::new(HOME, TABLE, 0);
        home.run(lane, None, owners::publish(lane, &home.geometry, index(), table)).unwrap();
        let recovery = site.recovery.unwrap();
        let member = recovery.member();
        let other = Other(Site { recovery, geometry: site.geometry, owner: member, room: site.room });
        let sweep = || home.run(lane, None, other.sweep_row(lane, dead.row, IndexSet::default())).unwrap();
        let is_as_before = || {
            let row = RowWord(home.word(home.geometry.row_offset(dead.row)));
            let chunk = ChunkWord(home.word(home.geometry.chunk_entry(RING))).decode();
            row.state() == Some(RowState::Dead) && chunk == Ok(ChunkEntry::Granted(grant))
        };
        stay &= sweep() == Swept::default() && is_as_before();
        if !stay {
            return;
        }
        let looked = home.run(lane, None, site.look_after(lane, 99));
        assert!(matches!(looked, Ok(Entry::Recovering(_))), "{looked:?}");
        stay &= sweep() == Swept::default() && is_as_before();
        assert!(matches!(home.run(lane, None, site.finish_recovery(lane, 99)), Ok(Entry::Mine(_))));
        swept_at_last = sweep();
    });
    assert!(!stay || swept_at_last == Swept { chunks_freed: 1, row_free: true, ..Swept::default() });
    stay
}

#[test]
fn no_sweep_frees_a_row_that_an_entry_names() {
    assert!(a_named_row_and_its_ring_stay());
    assert!(!with_planted(Some(Mutant::ROW_FREED_WHILE_NAMED), a_named_row_and_its_ring_stay));
}

#[test]
fn a_row_that_was_freed_while_it_was_named_and_an_old_table_are_errors() {
    let home = Home::new();
    home.set(1, OwnerWord::FREE.claim(RowId(5)).unwrap());
    with(&home, 3, |site, lane| {
        let error = home.run(lane, None, site.look_after(lane, 1)).unwrap_err();
        assert!(matches!(error.cause, Cause::Corrupt { what, .. } if what.contains("names a row that is free")));
        let Ok(Entry::Mine(_)) = home.run(lane, None, site.claim(lane, 2)) else { panic!("not claimed") };
        home.set(2, OwnerWord::FREE);
        let error = home.run(lane, None, site.read_word(lane, 2)).unwrap_err();
        assert!(matches!(error.cause, Cause::Corrupt { what, .. } if what.contains("older than one")));
    });
}

/// The owner was silent when it was looked at, and has given the entry up since, for a compute node that is gone by now.
#[test]
fn an_entry_that_is_kept_by_now_has_no_owner_to_look_after() {
    let home = Home::new();
    let kept = OwnerWord::FREE.ask(RowId(5)).unwrap();
    home.set(99, kept);
    with(&home, 3, |site, lane| {
        let look = || home.run(lane, None, site.look_after(lane, 99));
        assert_eq!(look(), Ok(Entry::Others(kept)), "there is no such row");
        home.join(member(5), RowState::Dead);
        assert_eq!(look(), Ok(Entry::Others(kept)), "the row is dead");
        let taken = home.run(lane, None, site.take_kept(lane, (99, kept)));
        assert!(matches!(taken, Ok(Entry::Mine(word)) if word.row() == RowId(3)), "{taken:?}");
    });
}
