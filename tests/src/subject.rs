//! What is tested: an index, behind a face that does not know which.

use crate::fabric::{AnyFabric, peek, poke};
use dm_core::btree::Options;
use dm_core::btree::inner::Inner;
use dm_core::btree::node::Header;
use dm_core::index::Index;
use dm_core::items::block::{block_bytes, class_bytes, class_of};
use dm_core::items::parameters::Parameters as ItemParameters;
use dm_core::lane::Lane;
use dm_core::marks::Mark;
use dm_core::operation::{Census, OpError, Operation, OperationKind, Outcome, ScratchPlan};
use dm_core::radix::slot::{Child, Node, Slot};
use dm_core::remote::NodeGeometry;
use dm_core::remote::address::Address;
use dm_core::remote::catalog::{IndexNumber, root_offset};
use dm_core::remote::lock_word::{LockWord, RowId};
use dm_core::verbs::{Assumptions, NodeId, Space};
use dm_core::{chime, sherman, smart};
use dm_host::assembly::{AssemblyError, Place, Spending, with_chime, with_sherman, with_smart};
use dm_host::kinds::{IndexParameters, with_index};
use dm_sim::verify::Inside;
use dm_sim::verify::items::stretched::{Stretch, Stretched};
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

/// An index put together on one compute node.
pub struct Opened<'a> {
    /// The index.
    pub index: &'a dyn AnyIndex,
    /// Local lock entries that are taken.
    pub locks_held: &'a dyn Fn() -> usize,
}

/// An index that can be tested.
pub trait Subject: Sync {
    /// For messages.
    fn name(&self) -> &'static str;

    /// Bytes of its largest node of `shape`: chunks are made larger than that.
    fn node_bytes_max(&self, shape: &Shape) -> usize;

    /// Puts it together at `place` and passes it to `run`, once.
    fn open(
        &self,
        place: &Place<'_>,
        shape: &Shape,
        spending: &Spending,
        run: &mut dyn FnMut(&Opened<'_>),
    ) -> Result<(), AssemblyError>;

    /// Settings of its switches that differ in what it asks of the fabric, by name.
    fn switches(&self) -> Vec<(&'static str, Options)>;

    /// Whether the memory of deleted records serves any key at once; otherwise, until the epochs pass, only their own keys.
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

    /// What many lanes under adversity have to come across, and what while others are dropped.
    fn crowd_marks(&self) -> (&'static [Mark], &'static [Mark]) {
        let adversity = &[
            Mark::TornRead,
            Mark::GuardRefusal,
            Mark::LockedRead,
            Mark::StaleCache,
            Mark::MoveRight,
            Mark::Forwarded,
            Mark::LockLost,
            Mark::LockQueued,
            Mark::HandOver,
            Mark::LeafSplit,
            Mark::InnerSplit,
            Mark::RootGrowth,
            Mark::HelpedSplit,
            Mark::Merge,
            Mark::NodeReused,
        ];
        (adversity, &[Mark::Settled, Mark::HandOver, Mark::Merge, Mark::HelpedSplit])
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

    /// Parameters out of range besides those of keys and values, and what is to be said of them.
    fn bad_spans(&self) -> Vec<(Shape, &'static str)> {
        vec![
            (Shape::words(1, 4), "1 entries"),
            (Shape::words(4, 1), "1 separators"),
            (Shape::words(4, 5000), "5000 separators"),
        ]
    }

    /// How full a bulk load leaves the slots, in percent: at least, at most.
    fn bulk_fill_percent(&self) -> (u64, u64) {
        (75, 85)
    }

    /// How many keys a few lanes have to fight for so that leaves change, and what of that they do often.
    fn few_keys(&self) -> (u32, &'static [Mark]) {
        (3, &[Mark::LeafSplit, Mark::Merge])
    }

    /// Makes the lock words that lie in nodes those of a stranger who never lets go, or free.
    fn set_node_locks(&self, fabric: &mut AnyFabric, geometry: &[NodeGeometry], shape: &Shape, held: bool) {
        let _ = (fabric, geometry, shape, held);
    }
}

/// Sherman.
#[derive(Clone, Copy, Debug)]
pub struct ShermanSubject;

impl ShermanSubject {
    const fn parameters(shape: &Shape) -> sherman::parameters::Parameters {
        sherman::parameters::Parameters {
            key_bytes: shape.key_bytes,
            value_bytes: shape.value_bytes,
            leaf_span: shape.spans.0,
            inner_span: shape.spans.1,
        }
    }
}

impl Subject for ShermanSubject {
    fn name(&self) -> &'static str {
        "sherman"
    }

    fn node_bytes_max(&self, shape: &Shape) -> usize {
        let parameters = Self::parameters(shape);
        parameters.leaf().bytes.max(parameters.inner().bytes)
    }

    fn open(
        &self,
        place: &Place<'_>,
        shape: &Shape,
        spending: &Spending,
        run: &mut dyn FnMut(&Opened<'_>),
    ) -> Result<(), AssemblyError> {
        with_sherman(place, &Self::parameters(shape), spending, |index| {
            run(&Opened { index, locks_held: &|| index.tree().locks.held() });
        })
    }

    fn switches(&self) -> Vec<(&'static str, Options)> {
        let on = Options::default();
        let mut switches = vec![
            ("default", on),
            ("no command combination", Options { combine: false, ..on }),
            ("no local queues", Options { hierarchical: false, ..on }),
            ("whole-node writes", Options { entry_writes: false, ..on }),
            ("READ chained to the lock", Options { chain_lock_read: true, ..on }),
            ("shared operations", Options { rdwc: true, ..on }),
        ];
        let off = Options { combine: false, hierarchical: false, entry_writes: false, ..on };
        switches.push(("the paper's baseline", off));
        switches.push(("everything else", Options { chain_lock_read: true, combine: false, ..on }));
        switches
    }
}

/// CHIME. Its leaves have eight entries at least: smaller spans become that, with neighborhoods so short that leaves split
/// when they have a few records.
#[derive(Clone, Copy, Debug)]
pub struct ChimeSubject;

impl ChimeSubject {
    fn parameters(shape: &Shape) -> chime::parameters::Parameters {
        let (leaf_span, inner_span) = shape.spans;
        chime::parameters::Parameters {
            key_bytes: shape.key_bytes,
            value_bytes: shape.value_bytes,
            // One is to be refused.
            leaf_span: if leaf_span > 1 { leaf_span.max(chime::layout::SPAN_MIN) } else { leaf_span },
            neighborhood: leaf_span.clamp(2, chime::parameters::Parameters::NEIGHBORHOOD),
            inner_span,
        }
    }
}

impl Subject for ChimeSubject {
    fn name(&self) -> &'static str {
        "chime"
    }

    fn node_bytes_max(&self, shape: &Shape) -> usize {
        let parameters = Self::parameters(shape);
        parameters.leaf().place_bytes().max(parameters.inner().bytes)
    }

    fn open(
        &self,
        place: &Place<'_>,
        shape: &Shape,
        spending: &Spending,
        run: &mut dyn FnMut(&Opened<'_>),
    ) -> Result<(), AssemblyError> {
        with_chime(place, &Self::parameters(shape), spending, |index| {
            run(&Opened { index, locks_held: &|| index.locks_held() });
        })
    }

    fn switches(&self) -> Vec<(&'static str, Options)> {
        let on = Options::default();
        vec![
            ("default", on),
            ("no command combination", Options { combine: false, ..on }),
            ("no local queues", Options { hierarchical: false, ..on }),
            ("READ chained to the lock", Options { chain_lock_read: true, ..on }),
            ("shared operations", Options { rdwc: true, ..on }),
            ("everything else", Options { combine: false, hierarchical: false, chain_lock_read: true, ..on }),
        ]
    }

    fn crowd_marks(&self) -> (&'static [Mark], &'static [Mark]) {
        // Leaves are joined when one has no records left, which is rare; to be seen from the left at that moment is rarer.
        let adversity = &[
            Mark::TornRead,
            Mark::GuardRefusal,
            Mark::LockedRead,
            Mark::StaleCache,
            Mark::MoveRight,
            Mark::LockLost,
            Mark::LockQueued,
            Mark::HandOver,
            Mark::LeafSplit,
            Mark::InnerSplit,
            Mark::RootGrowth,
            Mark::HelpedSplit,
            Mark::Merge,
            Mark::NodeReused,
            Mark::Hop,
            Mark::Wrap,
        ];
        (adversity, &[Mark::Settled, Mark::HandOver, Mark::Merge, Mark::HelpedSplit])
    }

    fn bulk_fill_percent(&self) -> (u64, u64) {
        // Small leaves are closed when a key finds no way, or with seven of eight entries.
        (60, 88)
    }

    fn few_keys(&self) -> (u32, &'static [Mark]) {
        // Leaves have room for more than are fought for: they split, and are rid of their dead.
        (14, &[Mark::LeafSplit, Mark::Purge])
    }

    fn set_node_locks(&self, fabric: &mut AnyFabric, geometry: &[NodeGeometry], shape: &Shape, held: bool) {
        let parameters = Self::parameters(shape);
        let (leaf, inner) = (parameters.leaf(), parameters.inner());
        let held_word = LockWord::new(RowId(99), 7).and_then(LockWord::in_node).expect("a small sequence");
        let word = if held { held_word.0 } else { 0 };
        let read =
            |fabric: &mut AnyFabric, at: Address, bytes| peek(fabric, Space::Host, at.node(), at.offset(), bytes);
        let number = IndexNumber::new(0).expect("the first entry");
        let root = peek(fabric, Space::Host, NodeId(0), root_offset(&geometry[0], number), 8);
        let mut address = Address::from_bits(u64::from_le_bytes(root.try_into().expect("eight bytes")));
        // Down the left edge, then along the leaves.
        while Header::read(&read(fabric, address, 64)).level > 0 {
            let image = read(fabric, address, inner.bytes);
            address = Inner::new(&inner, &image).expect("a sound inner node").child(0);
        }
        while !address.is_null() {
            let offset = address.offset() + leaf.bytes as u64;
            poke(fabric, Space::Host, address.node(), offset, &word.to_le_bytes());
            address = Header::read(&read(fabric, address, leaf.bytes)).sibling;
        }
    }
}

/// SMART. Its nodes have the sizes they have.
#[derive(Clone, Copy, Debug)]
pub struct SmartSubject;

impl SmartSubject {
    const fn parameters(shape: &Shape) -> smart::parameters::Parameters {
        smart::parameters::Parameters::with_sizes(shape.key_bytes, shape.value_bytes)
    }
}

impl Subject for SmartSubject {
    fn name(&self) -> &'static str {
        "smart"
    }

    fn node_bytes_max(&self, shape: &Shape) -> usize {
        // The largest node fits eight times this, as many as any test asks for at least: with chunks of many of the largest
        // no test's pool had one for each compute node.
        Self::parameters(shape).leaf().place_bytes.max(272)
    }

    fn open(
        &self,
        place: &Place<'_>,
        shape: &Shape,
        spending: &Spending,
        run: &mut dyn FnMut(&Opened<'_>),
    ) -> Result<(), AssemblyError> {
        with_smart(place, &Self::parameters(shape), spending, |index| {
            run(&Opened { index, locks_held: &|| index.locks_held() });
        })
    }

    fn switches(&self) -> Vec<(&'static str, Options)> {
        let on = Options::default();
        vec![
            ("default", on),
            ("no command combination", Options { combine: false, ..on }),
            ("no local queues", Options { hierarchical: false, ..on }),
            ("lock before READ", Options { chain_lock_read: true, ..on }),
            ("shared operations", Options { rdwc: true, ..on }),
            ("everything else", Options { combine: false, hierarchical: false, chain_lock_read: true, ..on }),
        ]
    }

    fn reuses_for_any_key(&self) -> bool {
        false
    }

    fn locks(&self, kind: OperationKind) -> bool {
        !matches!(kind, OperationKind::Get | OperationKind::Insert)
    }

    fn crowd_marks(&self) -> (&'static [Mark], &'static [Mark]) {
        let adversity = &[
            Mark::TornRead,
            Mark::StaleCache,
            Mark::Confirmed,
            Mark::LockLost,
            Mark::LockQueued,
            Mark::HandOver,
            Mark::LeafSplit,
            Mark::HeaderSplit,
            Mark::TypeSwitch,
            Mark::SlotLost,
            Mark::Revived,
        ];
        (adversity, &[Mark::Settled, Mark::HandOver, Mark::TypeSwitch])
    }

    fn bad_spans(&self) -> Vec<(Shape, &'static str)> {
        Vec::new()
    }

    fn bulk_fill_percent(&self) -> (u64, u64) {
        // A leaf is a record.
        (100, 100)
    }

    fn few_keys(&self) -> (u32, &'static [Mark]) {
        (3, &[Mark::Revived])
    }

    fn set_node_locks(&self, fabric: &mut AnyFabric, geometry: &[NodeGeometry], shape: &Shape, held: bool) {
        let leaf = Self::parameters(shape).leaf();
        let number = IndexNumber::new(0).expect("the first entry");
        let word = if held { LockWord::new(RowId(99), 7).expect("a small sequence") } else { LockWord::FREE };
        let root = peek(fabric, Space::Host, NodeId(0), root_offset(&geometry[0], number), 8);
        let mut slots = vec![Slot(u64::from_le_bytes(root.try_into().expect("eight bytes")))];
        while let Some(slot) = slots.pop() {
            match slot.child().expect("a sound slot") {
                Child::Empty => {}
                Child::Leaf(at) => {
                    let offset = at.offset() + leaf.lock_at as u64;
                    poke(fabric, Space::Host, at.node(), offset, &word.0.to_le_bytes());
                }
                Child::Node(kind, at) => {
                    let image = peek(fabric, Space::Host, at.node(), at.offset(), kind.bytes());
                    slots.extend(Node::new(&image, kind, number.get() + 1).expect("a sound node").slots());
                }
            }
        }
    }
}

/// Items over one of the indexes, slices of seven bytes, keys and values stretched: most keys are some layers deep, most values
/// in blocks.
#[derive(Clone, Copy, Debug)]
pub enum ItemsSubject {
    /// Over Sherman.
    Sherman,
    /// Over CHIME.
    Chime,
    /// Over SMART.
    Smart,
}

impl ItemsSubject {
    /// How long a byte of a key becomes.
    const KEY_REPEATS: usize = 3;

    const fn stretch(shape: &Shape) -> Stretch {
        Stretch { key_bytes: shape.key_bytes, value_bytes: shape.value_bytes, key_repeats: Self::KEY_REPEATS }
    }

    const fn items(shape: &Shape) -> ItemParameters {
        Self::stretch(shape).parameters()
    }

    /// What the index below is created with.
    const fn below(shape: &Shape) -> Shape {
        Shape { key_bytes: 16, value_bytes: 16, ..*shape }
    }

    fn subject(self) -> &'static dyn Subject {
        match self {
            Self::Sherman => &ShermanSubject,
            Self::Chime => &ChimeSubject,
            Self::Smart => &SmartSubject,
        }
    }

    fn parameters(self, shape: &Shape) -> IndexParameters {
        let (items, below) = (Self::items(shape), Self::below(shape));
        match self {
            Self::Sherman => IndexParameters::ShermanItems(ShermanSubject::parameters(&below), items),
            Self::Chime => IndexParameters::ChimeItems(ChimeSubject::parameters(&below), items),
            Self::Smart => IndexParameters::SmartItems(SmartSubject::parameters(&below), items),
        }
    }
}

impl Subject for ItemsSubject {
    fn name(&self) -> &'static str {
        match self {
            Self::Sherman => "items over sherman",
            Self::Chime => "items over chime",
            Self::Smart => "items over smart",
        }
    }

    fn node_bytes_max(&self, shape: &Shape) -> usize {
        let items = Self::items(shape);
        let block = class_bytes(class_of(block_bytes(items.key_bytes_max, items.value_bytes_max)));
        self.subject().node_bytes_max(&Self::below(shape)).max(block)
    }

    fn open(
        &self,
        place: &Place<'_>,
        shape: &Shape,
        spending: &Spending,
        run: &mut dyn FnMut(&Opened<'_>),
    ) -> Result<(), AssemblyError> {
        let (stretch, page_records) = (Self::stretch(shape), spending.page_records);
        let page_bytes = stretch.page_bytes(page_records);
        let spending = &Spending { page_bytes, links: 64, returned_blocks: 4096, ..spending.clone() };
        with_index(place, &self.parameters(shape), spending, |index| {
            let stretched = Stretched::new(&index, &stretch, page_records);
            run(&Opened { index: &stretched, locks_held: &|| index.locks_held() });
        })
    }

    fn switches(&self) -> Vec<(&'static str, Options)> {
        self.subject().switches()
    }

    fn updates_take_memory(&self) -> bool {
        true
    }

    fn bad_sizes(&self) -> Vec<(Shape, &'static str)> {
        let right = Shape::words(4, 4);
        vec![
            (Shape { key_bytes: 0, ..right }, "keys of up to 0 bytes"),
            (Shape { key_bytes: 1366, ..right }, "keys of up to 4098 bytes"),
            (Shape { value_bytes: 21_846, ..right }, "values of up to 65538 bytes"),
        ]
    }

    fn bad_spans(&self) -> Vec<(Shape, &'static str)> {
        self.subject().bad_spans()
    }

    fn locks(&self, kind: OperationKind) -> bool {
        self.subject().locks(kind)
    }

    fn crowd_marks(&self) -> (&'static [Mark], &'static [Mark]) {
        self.subject().crowd_marks()
    }

    fn few_keys(&self) -> (u32, &'static [Mark]) {
        match self {
            Self::Sherman => (3, &[Mark::LeafSplit, Mark::Merge, Mark::LayerMade]),
            Self::Chime => (14, &[Mark::LeafSplit, Mark::LayerMade]),
            Self::Smart => (3, &[Mark::Revived, Mark::LayerMade]),
        }
    }

    fn set_node_locks(&self, fabric: &mut AnyFabric, geometry: &[NodeGeometry], shape: &Shape, held: bool) {
        self.subject().set_node_locks(fabric, geometry, &Self::below(shape), held);
    }
}
