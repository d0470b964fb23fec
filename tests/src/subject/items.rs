//! Items as subjects.

use super::{Opened, Shape, Subject};
use crate::fabric::AnyFabric;
use dm_core::btree::Options;
use dm_core::items::block::{block_bytes, class_bytes, class_of};
use dm_core::items::parameters::Parameters as ItemParameters;
use dm_core::marks::Mark;
use dm_core::operation::OperationKind;
use dm_core::remote::NodeGeometry;
use dm_host::assembly::{AssemblyError, Place, Spending};
use dm_host::kinds::{IndexParameters, with_index};
use dm_sim::verify::TestAccess;
use dm_sim::verify::items::stretched::{Stretch, Stretched};

/// Items over one of the indexes, with slices of seven bytes. Keys and values are stretched: most keys are some layers
/// deep, and most values lie in blocks.
#[derive(Clone, Copy, Debug)]
pub struct ItemsSubject<S>(pub S);

/// A subject that can have items over it.
pub trait UnderItems: Subject {
    /// The name of items over it.
    const WITH_ITEMS: &'static str;

    /// See [`Subject::few_keys`], with items over it.
    fn few_keys_with_items(&self) -> (u32, &'static [Mark]);

    /// See [`Subject::waiting`], with items over it.
    fn waiting_with_items(&self) -> &'static [Mark] {
        self.waiting()
    }
}

impl<S: UnderItems> ItemsSubject<S> {
    /// How long a byte of a key becomes.
    const KEY_REPEATS: usize = 3;

    const fn stretch(shape: &Shape) -> Stretch {
        Stretch {
            key_bytes: shape.key_bytes,
            value_bytes: shape.value_bytes,
            key_repeats: Self::KEY_REPEATS,
            trims_values: false,
        }
    }

    const fn items(shape: &Shape) -> ItemParameters {
        Self::stretch(shape).parameters()
    }

    /// The sizes with which the index below is created.
    const fn below(shape: &Shape) -> Shape {
        Shape { key_bytes: 16, value_bytes: 16, ..*shape }
    }
}

impl<S: UnderItems> Subject for ItemsSubject<S> {
    fn name(&self) -> &'static str {
        S::WITH_ITEMS
    }

    fn parameters(&self, shape: &Shape) -> IndexParameters {
        self.0.parameters(&Self::below(shape)).below.with_any_length(Self::items(shape))
    }

    fn node_bytes_max(&self, shape: &Shape) -> usize {
        let items = Self::items(shape);
        let block = class_bytes(class_of(block_bytes(items.key_bytes_max, items.value_bytes_max)));
        self.0.node_bytes_max(&Self::below(shape)).max(block)
    }

    fn seals_entries(&self) -> bool {
        self.0.seals_entries()
    }

    fn chunk_bytes_min(&self, shape: &Shape) -> usize {
        self.0.chunk_bytes_min(&Self::below(shape))
    }

    fn chunks_besides_nodes(&self, spending: &Spending, chunk_bytes: usize) -> usize {
        self.0.chunks_besides_nodes(spending, chunk_bytes)
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
        self.0.switches()
    }

    fn updates_take_memory(&self) -> bool {
        true
    }

    fn bad_sizes(&self) -> Vec<(Shape, &'static str)> {
        let right = Shape::words(4, 4);
        vec![
            (Shape { key_bytes: 0, ..right }, "longest key 0"),
            (Shape { key_bytes: 1366, ..right }, "longest key 4098"),
            (Shape { value_bytes: 21_846, ..right }, "longest value 65538"),
        ]
    }

    fn bad_spans(&self) -> Vec<(Shape, &'static str)> {
        self.0.bad_spans()
    }

    fn locks(&self, kind: OperationKind) -> bool {
        self.0.locks(kind)
    }

    fn answers_from_memory(&self) -> bool {
        self.0.answers_from_memory()
    }

    fn sleep_ns_max(&self) -> u64 {
        self.0.sleep_ns_max()
    }

    fn few_keys(&self) -> (u32, &'static [Mark]) {
        self.0.few_keys_with_items()
    }

    fn waiting(&self) -> &'static [Mark] {
        self.0.waiting_with_items()
    }

    fn set_node_locks(&self, fabric: &mut AnyFabric, geometry: &[NodeGeometry], shape: &Shape, held: bool) {
        self.0.set_node_locks(fabric, geometry, &Self::below(shape), held);
    }
}
