//! What is tested: an index, behind an interface that hides its kind.

pub mod chime;
pub mod dex;
pub mod dolphin;
pub mod items;
pub mod sherman;
pub mod smart;
pub mod toy;

use crate::fabric::{AnyFabric, peek};
use dm_core::btree::Options;
use dm_core::index::Index;
use dm_core::lane::Lane;
use dm_core::locks::ChainedRead;
use dm_core::marks::Mark;
use dm_core::operation::{Census, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::{IndexNumber, root_offset};
use dm_core::verbs::{Assumptions, NodeId, Space};
use dm_host::assembly::{AssemblyError, Place, Spending};
use dm_host::kinds::{IndexParameters, with_index};
use dm_sim::verify::TestAccess;
use std::future::Future;
use std::pin::Pin;

/// The future of an operation of any index.
pub type Running<'a, T> = Pin<Box<dyn Future<Output = Result<T, OpError>> + 'a>>;

/// [`Index`] as a trait object.
pub trait AnyIndex: Sync {
    /// See [`Index::plan`].
    fn plan(&self) -> &ScratchPlan;
    /// See [`Index::assumptions`].
    fn assumptions(&self) -> Assumptions;
    /// See [`Index::execute`].
    fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Running<'a, Outcome>;
    /// See [`Index::settle`].
    fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Running<'a, ()>;
    /// See [`Index::validate`].
    fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Running<'a, Census>;
    /// See [`Index::bulk_append`].
    fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Running<'a, ()>;
    /// See [`Index::bulk_finish`].
    fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Running<'a, ()>;
    /// See [`Index::leave`].
    fn leave<'a>(&'a self, lane: &'a Lane<'_>) -> Running<'a, ()>;
    /// See [`Index::cache_bytes`].
    fn cache_bytes(&self) -> (u64, u64);
}

impl<I: Index> AnyIndex for I {
    fn plan(&self) -> &ScratchPlan {
        Index::plan(self)
    }

    fn assumptions(&self) -> Assumptions {
        Index::assumptions(self)
    }

    fn execute<'a>(&'a self, lane: &'a Lane<'_>, operation: Operation) -> Running<'a, Outcome> {
        Box::pin(Index::execute(self, lane, operation))
    }

    fn settle<'a>(&'a self, lane: &'a Lane<'_>) -> Running<'a, ()> {
        Box::pin(Index::settle(self, lane))
    }

    fn validate<'a>(&'a self, lane: &'a Lane<'_>) -> Running<'a, Census> {
        Box::pin(Index::validate(self, lane))
    }

    fn bulk_append<'a>(&'a self, lane: &'a Lane<'_>) -> Running<'a, ()> {
        Box::pin(Index::bulk_append(self, lane))
    }

    fn bulk_finish<'a>(&'a self, lane: &'a Lane<'_>) -> Running<'a, ()> {
        Box::pin(Index::bulk_finish(self, lane))
    }

    fn leave<'a>(&'a self, lane: &'a Lane<'_>) -> Running<'a, ()> {
        Box::pin(Index::leave(self, lane))
    }

    fn cache_bytes(&self) -> (u64, u64) {
        Index::cache_bytes(self)
    }
}

/// Sizes of what is stored. Small spans make splits, growth and merges common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of every key.
    pub key_bytes: usize,
    /// Bytes of every value.
    pub value_bytes: usize,
    /// Entries per leaf and separators per inner node, for indexes that have such.
    pub spans: (usize, usize),
}

impl Shape {
    /// Keys and values of 8 bytes.
    pub const fn words(leaf_span: usize, inner_span: usize) -> Self {
        Self { key_bytes: 8, value_bytes: 8, spans: (leaf_span, inner_span) }
    }
}

/// The root word of index 0.
fn root_word(fabric: &mut AnyFabric, geometry: &[NodeGeometry]) -> u64 {
    let number = IndexNumber::new(0).expect("the first entry");
    let word = peek(fabric, Space::Host, NodeId(0), root_offset(&geometry[0], number), 8);
    u64::from_le_bytes(word.try_into().expect("eight bytes"))
}

/// An index put together on one compute node.
pub struct Opened<'a> {
    /// The index.
    pub index: &'a dyn AnyIndex,
    /// Local lock entries that are taken.
    pub locks_held: &'a dyn Fn() -> usize,
}

/// See [`Subject::switches`]: settings of techniques that every kind has, and of shared operations.
fn switches() -> Vec<(&'static str, Options)> {
    let on = Options::default();
    vec![
        ("default", on),
        ("no command combination", Options { combine: false, ..on }),
        ("no local queues", Options { hierarchical: false, ..on }),
        ("READ when the lock is held", Options { chain_lock_read: ChainedRead::Never, ..on }),
        (SHARED_OPERATIONS, Options { rdwc: true, ..on }),
        (
            "everything else",
            Options { combine: false, hierarchical: false, chain_lock_read: ChainedRead::Always, ..on },
        ),
    ]
}

/// The setting in which lanes share operations on one key.
const SHARED_OPERATIONS: &str = "shared operations";

/// An index that can be tested.
pub trait Subject: Sync {
    /// For messages.
    fn name(&self) -> &'static str;

    /// What it is created with.
    fn parameters(&self, shape: &Shape) -> IndexParameters;

    /// Bytes of its largest node of `shape`: chunks are made larger than that.
    fn node_bytes_max(&self, shape: &Shape) -> usize {
        let (leaf, inner) = self.parameters(shape).node_bytes();
        leaf.max(inner)
    }

    /// Chunks are made at least this large, in bytes, however few of its nodes a test wants in one.
    fn chunk_bytes_min(&self, shape: &Shape) -> usize {
        let _ = shape;
        0
    }

    /// Whether a checksum covers each entry.
    fn seals_entries(&self) -> bool {
        false
    }

    /// Chunks of `chunk_bytes` that it takes besides those of nodes: for a table, or for a log.
    fn chunks_besides_nodes(&self, spending: &Spending, chunk_bytes: usize) -> usize {
        let _ = (spending, chunk_bytes);
        0
    }

    /// Puts it together at `place` and passes it to `run`, once.
    fn open(
        &self,
        place: &Place<'_>,
        shape: &Shape,
        spending: &Spending,
        run: &mut dyn FnMut(&Opened<'_>),
    ) -> Result<(), AssemblyError> {
        with_index(place, &self.parameters(shape), spending, |index| {
            run(&Opened { index: &index, locks_held: &|| index.locks_held() });
        })
    }

    /// Settings of its techniques that differ in the requests it makes, by name.
    fn switches(&self) -> Vec<(&'static str, Options)> {
        switches()
    }

    /// Whether the memory of deleted records can be used for any key at once. If not, it serves only the deleted keys
    /// until the epochs have advanced.
    fn reuses_for_any_key(&self) -> bool {
        true
    }

    /// Whether an update of a value may need memory: then it may fail on a full pool.
    fn updates_take_memory(&self) -> bool {
        false
    }

    /// Whether an operation of `kind` on a record that is there always takes a lock.
    fn locks(&self, kind: OperationKind) -> bool {
        kind != OperationKind::Get
    }

    /// Whether it may answer an operation that changes nothing without a request.
    fn answers_from_memory(&self) -> bool {
        false
    }

    /// The longest sleep, in nanoseconds, after which a lane looks by itself: what it waits for may happen without a wake.
    /// 0: every lane that waits for another is woken.
    fn sleep_ns_max(&self) -> u64 {
        0
    }

    /// Sizes of keys and values that it refuses, and what it says.
    fn bad_sizes(&self) -> Vec<(Shape, &'static str)> {
        let right = Shape::words(4, 4);
        vec![
            (Shape { key_bytes: 7, ..right }, "key bytes 7"),
            (Shape { key_bytes: 65, ..right }, "key bytes 65"),
            (Shape { value_bytes: 7, ..right }, "value bytes 7"),
            (Shape { value_bytes: 1025, ..right }, "value bytes 1025"),
        ]
    }

    /// Parameters out of range besides those of keys and values, and what the error says.
    fn bad_spans(&self) -> Vec<(Shape, &'static str)> {
        vec![
            (Shape::words(1, 4), "entries per leaf 1"),
            (Shape::words(4, 1), "separators per inner node 1"),
            (Shape::words(4, 5000), "separators per inner node 5000"),
        ]
    }

    /// How full a bulk load leaves the slots, in percent: at least, at most.
    fn bulk_fill_percent(&self) -> (u64, u64) {
        (75, 85)
    }

    /// For how many keys a few lanes have to compete so that leaves change, and the marks of the changes that are
    /// frequent.
    fn few_keys(&self) -> (u32, &'static [Mark]) {
        (3, &[Mark::LEAF_SPLIT, Mark::MERGE])
    }

    /// Marks of lanes of a compute node that wait for each other, and may leave meanwhile.
    fn waiting(&self) -> &'static [Mark] {
        &[Mark::LOCK_QUEUED, Mark::HAND_OVER, Mark::SETTLED]
    }

    /// Makes every lock word in a node that of a holder that never releases it, or free.
    fn set_node_locks(&self, fabric: &mut AnyFabric, geometry: &[NodeGeometry], shape: &Shape, held: bool) {
        let _ = (fabric, geometry, shape, held);
    }
}
