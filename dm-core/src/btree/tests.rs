//! A Sherman tree of one compute node on a memory node in this process's memory: what the shared procedures do with nodes
//! in states that others left.

extern crate std;
use super::inner::Inner;
use super::merge::Merge as _;
use super::node::{self, Header, NodeFlags};
use super::sweep::TreeLocks;
use super::*;
use crate::index::Index as _;
use crate::locks::table::{Entry, Waiter};

use crate::membership::Numbers;
use crate::membership::lease::{Lease, LeaseConfig, ProgressCounter};
use crate::membership::redo::{self, Area};
use crate::memory::memory_node::MemoryNode;
use crate::memory::node_pool::{FreeNode, NodeLimbo, NodeSlab, WaitingNode};
use crate::memory::orphans::CollectedOrphans;
use crate::memory::{Epochs, LimboList};
use crate::operation::{Operation, OperationKind, Outcome};
use crate::recovery::sweep::Sweep as _;
use crate::registry::KindParameters as _;
use crate::remote::catalog::{IndexSet, root_offset};
use crate::remote::chunk::{ChunkKind, Grant, RequestId};
use crate::remote::lock_word::RowId;
use crate::remote::place::{NodeClass, UnlinkedNode};
use crate::remote::row::{Joiner, Row, RowState, RowWord};
use crate::sherman::Sherman;
use crate::sherman::parameters::Parameters;
use crate::verbs::{Label, LaneId, Verb};
use core::sync::atomic::AtomicU32;
use spin::Mutex;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;
use zerocopy::IntoBytes as _;

const ME: Member = Member { row: RowId(1), incarnation: 1, nonce: 1 };

/// A compute node that has departed: its row is free again.
const GONE: Member = Member { row: RowId(2), incarnation: 1, nonce: 2 };

/// Chunks of the one that has departed.
const LEAF_CHUNK: u32 = 20;
const INNER_CHUNK: u32 = 21;

const PARAMETERS: Parameters = Parameters { key_bytes: 8, value_bytes: 8, leaf_span: 4, inner_span: 8 };

/// An index, a lane of it, and the memory node.
struct Bench<'a, 's> {
    node: &'a MemoryNode,
    sherman: &'a Sherman<'s>,
    lane: &'a Lane<'a>,
}

fn with_index(test: impl FnOnce(&Bench<'_, '_>)) {
    let node = MemoryNode::new();
    let geometry = [node.geometry];
    let number = IndexNumber::new(2).unwrap();
    let write = |at: u64, bytes: &[u8]| node.region.borrow_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
    let row = Row::of(ME, &Joiner { token: 1, lanes: 1, memory_nodes: 1, host: "here" });
    write(geometry[0].row_offset(ME.row), row.as_bytes());
    let free = RowWord::new(RowState::Free, 0, GONE.incarnation);
    write(geometry[0].row_offset(GONE.row), &free.0.to_le_bytes());
    for (chunk, kind) in [(LEAF_CHUNK, ChunkKind::Leaf), (INNER_CHUNK, ChunkKind::Inner)] {
        let word = Grant::new(GONE, kind, number, RequestId::new(chunk).unwrap()).word();
        write(geometry[0].chunk_entry(chunk), &word.0.to_le_bytes());
    }
    let (plan, scratch) = PARAMETERS.plan(4, 2);
    let (requests, numbers) = (RequestIds::new(), Numbers::new());
    let mut open = IndexSet::default();
    open.insert(number);
    let (mut room, mut areas) = (vec![0; 4096], [Area::default()]);
    let lane = Lane::new(LaneId(0), &mut room);
    let node_bytes = PARAMETERS.redo_bytes();
    node.run(&lane, redo::prepare(&lane, &geometry, ME, &open, &requests, 1, node_bytes, 0, &mut areas)).unwrap();
    let capabilities = Capabilities {
        masked_atomics: false,
        device_bytes: 0,
        inline_bytes_max: 32,
        outstanding_reads_max: 16,
        chain_requests_max: 16,
        fencing: true,
        crash_atomic_bytes: 64,
        write_turn_ns_min: 0,
        call_bytes_max: 0,
        calls_change: false,
    };
    let (lease, counters) = (Lease::new(LeaseConfig::HARDWARE), [ProgressCounter::default()]);
    let recovery = Recovery::new(ME, &lease, &counters, &areas, &numbers, &capabilities).unwrap();
    let locks = geometry[0].lock_count;
    let entries: Vec<Entry> = (0..locks).map(|_| Entry::default()).collect();
    let waiters = [Waiter::default()];
    let mut free = [(); NodeClass::COUNT].map(|()| vec![FreeNode::default(); 64]);
    let slabs = free.each_mut().map(|free| Mutex::new(NodeSlab::new(free)));
    let (epochs, mut waiting) = (Epochs::new(), [WaitingNode::default(); 4]);
    let limbo: Mutex<NodeLimbo<'_>> = Mutex::new(LimboList::new(&mut waiting));
    let cache: Vec<AtomicU32> = (0..8 << 10).map(|_| AtomicU32::new(0)).collect();
    let node_bytes = [PARAMETERS.leaf().bytes as u32, PARAMETERS.inner().bytes as u32];
    let tree = Tree {
        number,
        index: number.in_nodes(),
        owner: ME,
        requests: &requests,
        geometry: &geometry,
        root_word: (NodeId(0), root_offset(&geometry[0], number)),
        root: RootCopy::default(),
        inner: PARAMETERS.inner(),
        leaf_bytes: PARAMETERS.leaf().bytes,
        capabilities,
        options: Options::default(),
        recovery: Some(&recovery),
        epochs: None,
        scratch,
        locks: LockTable::new(&entries, locks, &waiters, 4),
        batches: Batches::new(&[], &[], &[]),
        nodes: NodePool::new(&slabs, node_bytes).with_limbo(&limbo, &epochs, 2),
        cache: IndexCache::new(&cache, 8, PARAMETERS.inner_span + 1),
    };
    let mut room = vec![0; plan.total_bytes];
    let sherman = Sherman::new(tree, &PARAMETERS, plan).unwrap();
    let lane = Lane::new(LaneId(0), &mut room);
    test(&Bench { node: &node, sherman: &sherman, lane: &lane });
}

impl<'s> Bench<'_, 's> {
    fn tree(&self) -> &Tree<'s> {
        self.sherman.tree()
    }

    fn point(&self, kind: OperationKind, key: u64) -> Outcome {
        self.lane.port().with(|scratch| {
            scratch[self.tree().scratch.key.clone()].copy_from_slice(&key.to_be_bytes());
        });
        self.node.run(self.lane, self.sherman.execute(self.lane, Operation::point(kind))).unwrap()
    }

    /// An index with these keys.
    fn fill(&self, keys: core::ops::Range<u64>) {
        keys.for_each(|key| assert_eq!(self.point(OperationKind::Insert, key), Outcome::Inserted));
    }

    fn image(&self, at: Address, bytes: usize) -> Vec<u8> {
        self.node.region.borrow()[at.offset() as usize..][..bytes].to_vec()
    }

    fn write(&self, at: Address, image: &[u8]) {
        self.node.region.borrow_mut()[at.offset() as usize..][..image.len()].copy_from_slice(image);
    }

    fn leaf(&self, at: Address) -> Vec<u8> {
        self.image(at, self.tree().leaf_bytes)
    }

    fn root(&self) -> Address {
        self.node.run(self.lane, self.tree().root(self.lane)).unwrap().unwrap().0
    }

    /// The first two leaves under a root that is above the leaves.
    fn leaves(&self) -> (Address, Address) {
        let image = self.image(self.root(), self.tree().inner.bytes);
        let inner = Inner::new(&self.tree().inner, &image).unwrap();
        (inner.child(0), inner.child(1))
    }

    fn collect_orphans(&self) -> CollectedOrphans {
        self.node.run(self.lane, self.sherman.collect_orphans(self.lane)).unwrap()
    }

    /// The place in a chunk of the one that has departed.
    fn place(&self, chunk: u32, number: usize, bytes: usize) -> Address {
        Address::new(NodeId(0), self.node.geometry.chunk_offset(chunk) + (number * bytes) as u64, 0)
    }

    fn tag_of_gone(&self) -> OwnerTag {
        OwnerTag::of(GONE, self.tree().row_count())
    }
}

#[test]
fn a_root_word_that_leads_to_no_root_is_damage() {
    with_index(|bench| {
        let nowhere = bench.place(LEAF_CHUNK, 0, 0);
        let at = Address::new(NodeId(0), bench.tree().root_word.1, 0);
        bench.write(at, &nowhere.to_bits().to_le_bytes());
        let read = bench.node.run(bench.lane, bench.tree().read_root(bench.lane));
        assert!(
            matches!(read, Err(OpError { cause: Cause::Corrupt { address, .. }, .. }) if address == nowhere),
            "{read:?}"
        );
    });
}

#[test]
fn a_root_that_is_not_split_does_not_grow_and_that_ends() {
    with_index(|bench| {
        bench.fill(0..1);
        let root = bench.root();
        let grown = bench.node.run(bench.lane, bench.tree().grow_above(bench.lane, 0, root));
        assert!(grown.is_err());
        assert_eq!(bench.root(), root);
    });
}

#[test]
fn a_place_that_begins_its_lives_anew_waits_unless_it_had_none() {
    with_index(|bench| {
        let at = |number| bench.place(LEAF_CHUNK, number, bench.tree().leaf_bytes);
        let mut collected = CollectedOrphans::default();
        let mut take_back = |fresh| {
            bench.tree().take_back(bench.lane, NodeClass::Leaf, fresh, &mut collected);
            bench.lane.marked(Mark::LIMBO_ENTERED)
        };
        assert_eq!(take_back(UnlinkedNode { address: at(0), version: 0 }), 0, "nobody has a pointer to it");
        assert_eq!(take_back(UnlinkedNode { address: at(1), version: 3 }), 1);
        assert_eq!(collected.nodes, 2);
    });
}

#[test]
fn a_merge_leaves_no_lock_held_and_is_not_undone() {
    with_index(|bench| {
        bench.fill(0..20);
        let (left, right) = bench.leaves();
        let image = bench.leaf(right);
        let (mut low, mut high) = ([0; 8], [0; 8]);
        crate::layout::stripes::read(&image, node::LOW_AT, &mut low);
        assert!(node::read_high(&image, &mut high), "a leaf is to its right");
        for key in u64::from_be_bytes(low)..u64::from_be_bytes(high) {
            bench.point(OperationKind::Delete, key);
            assert!(bench.lane.lock_records().is_empty(), "after the delete of key {key}");
        }
        assert!(bench.lane.marked(Mark::MERGE) > 0);
        let retired = bench.leaf(right);
        assert!(Header::read(&retired).flags.contains(NodeFlags::RETIRED));
        bench.node.run(bench.lane, bench.sherman.undo_merge(bench.lane, left, right)).map_err(|_| ()).unwrap();
        assert_eq!(bench.lane.marked(Mark::MERGE_UNDONE), 0);
        assert_eq!(bench.leaf(right), retired, "nothing links to it any more");
    });
}

#[test]
fn all_places_of_a_departed_compute_node_are_collected_and_leaves_are_signed() {
    with_index(|bench| {
        bench.fill(0..8);
        let (leaf_bytes, inner_bytes) = (bench.tree().leaf_bytes, bench.tree().inner.bytes);
        // A leaf and an inner node that were never linked; all other places were never written.
        let leaf = bench.place(LEAF_CHUNK, 1, leaf_bytes);
        let mut image = bench.leaf(bench.leaves().1);
        bench.tag_of_gone().write(&mut image);
        bench.write(leaf, &image);
        bench.write(bench.place(INNER_CHUNK, 0, inner_bytes), &bench.image(bench.root(), inner_bytes));
        let collected = bench.collect_orphans();
        assert!(collected.is_complete(), "{collected:?}");
        let chunk_bytes = bench.node.geometry.chunk_bytes as usize;
        let places = (chunk_bytes / leaf_bytes + chunk_bytes / inner_bytes) as u64;
        assert_eq!((collected.chunks, collected.nodes), (2, places), "{collected:?}");
        let image = bench.leaf(leaf);
        assert_eq!(
            OwnerTag::read(&image),
            bench.tree().owner_tag(),
            "others find it when this compute node has departed"
        );
        assert!(Header::read(&image).flags.contains(NodeFlags::RETIRED));
    });
}

#[test]
fn a_leaf_to_which_half_a_merge_still_links_is_not_collected() {
    with_index(|bench| {
        bench.fill(0..8);
        let (left, right) = bench.leaves();
        let mut image = bench.leaf(right);
        node::retire(&mut image, left, bench.tag_of_gone());
        bench.write(right, &image);
        let collected = bench.collect_orphans();
        assert_eq!(collected.unsure, 1, "{collected:?}");
        assert_eq!(bench.leaf(right), image);
    });
}

#[test]
fn a_place_that_is_reused_while_it_is_looked_at_is_not_in_use() {
    with_index(|bench| {
        bench.fill(0..8);
        let (leaf, _) = bench.leaves();
        let place = orphans::Place {
            class: NodeClass::Leaf,
            node: NodeId(0),
            offset: leaf.offset(),
            head: bench.tree().head(),
        };
        let image = bench.leaf(leaf);
        let header = Header::read(&image);
        let is_in_use = || {
            bench.lane.port().with(|scratch| {
                let bytes = place.head.of_mut(scratch);
                let count = bytes.len();
                bytes.copy_from_slice(&image[..count]);
            });
            let look = bench.tree().is_in_use(bench.sherman, bench.lane, place, &header);
            bench.node.run(bench.lane, look).map_err(|_| ()).unwrap()
        };
        bench.node.taken();
        assert!(is_in_use());
        let asked = bench.node.taken();
        let lock = asked.iter().position(|asked| *asked == (Verb::Read, Label::Lock)).unwrap();
        for change in [
            Header { generation: header.generation ^ 1, ..header },
            Header { index: header.index + 1, ..header },
            Header { level: 1, ..header },
        ] {
            // After the look at the lock word, before the head is READ again.
            let (mut other, at, mut requests) = (image.clone(), leaf.offset() as usize, 0);
            change.write(&mut other);
            *bench.node.after.borrow_mut() = Some(Box::new(move |region| {
                if requests == lock {
                    region[at..][..other.len()].copy_from_slice(&other);
                }
                requests += 1;
            }));
            assert!(!is_in_use(), "{change:?}");
            *bench.node.after.borrow_mut() = None;
            bench.write(leaf, &image);
        }
    });
}

#[test]
fn bytes_that_were_never_written_are_counted_by_nodes() {
    with_index(|bench| {
        bench.fill(0..8);
        let leaf_bytes = bench.tree().leaf_bytes;
        let nodes = bench.node.geometry.chunk_bytes / leaf_bytes as u64;
        for written in 0..3 {
            let locks = TreeLocks { tree: bench.tree(), index: bench.sherman };
            let chunk = (NodeId(0), &bench.node.geometry, LEAF_CHUNK);
            let counted =
                bench.node.run(bench.lane, locks.unwritten_bytes(bench.lane, chunk, ChunkKind::Leaf)).unwrap();
            assert_eq!(counted, (nodes - written) * leaf_bytes as u64);
            bench.write(bench.place(LEAF_CHUNK, written as usize, leaf_bytes), &bench.leaf(bench.leaves().0));
        }
    });
}

#[test]
fn a_node_that_was_to_be_linked_and_was_never_written_comes_back() {
    with_index(|bench| {
        bench.fill(0..1);
        let (tree, lane) = (bench.tree(), bench.lane);
        bench.node.run(lane, tree.reserve(lane, NodeClass::Leaf, 1, NodeId(0))).map_err(|_| ()).unwrap();
        let fresh = lane.take_to_link(NodeClass::Leaf, NodeId(0)).unwrap();
        bench.node.run(lane, tree.resolve_pending(bench.sherman, lane)).map_err(|_| ()).unwrap();
        assert_eq!(lane.pending(), None);
        let mut ready = Vec::new();
        tree.nodes.for_each_ready(&mut |_, free| ready.push(free.address));
        assert!(ready.contains(&fresh.address));
    });
}
