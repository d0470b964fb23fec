//! DEX indexes.

use super::{Evidence, Kind};
use crate::assembly::tree::{Sizes, TreeRoom, TreeStorage};
use crate::assembly::{AssemblyError, Place, Spending, granted, huge_zeroes};
use dm_core::dex::leaf::Leaf;
use dm_core::dex::log::ring::Ring;
use dm_core::dex::log::staging::{Log, STAGING_LINES_MIN, mark_words};
use dm_core::dex::ownership::partition::{EntryCell, Partition};
use dm_core::dex::parameters::{Cut, Parameters};
use dm_core::dex::serve::{Dex, OwnersRoom, Parts};
use dm_core::lane::Lane;
use dm_core::layout::LINE_BYTES;
use dm_core::memory::chunks::RequestIds;
use dm_core::pages::{PageStore, Shape};
use dm_core::registry::{KindParameters, ParameterError};
use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::ChunkKind;
use memmap2::MmapMut;
use std::sync::atomic::{AtomicU8, AtomicU32};
use zerocopy::FromBytes;

/// Lines of the log's ring for each line that is staged: a ring has room for the lines that are staged, and for records
/// of leaves that are not flushed.
const RING_PER_STAGED: usize = 4;

/// A pool has room for the rings of several compute nodes beside its indexes.
const RINGS_PER_NODE: usize = 8;

/// Most lines that are staged: 512 KiB, which stay in a processor's cache until they are posted.
const STAGED_MAX: usize = 8 << 10;

impl Kind for Parameters {
    type Index<'s> = Dex<'s>;

    fn build_each(
        &self,
        places: &[Place<'_>],
        spending: &Spending,
        run: &mut dyn FnMut(&[Dex<'_>]),
    ) -> Result<(), AssemblyError> {
        self.check()?;
        let (plan, scratch) = self.plan(spending.page_records, spending.leaves_at_once);
        let leaf_bytes = self.leaf().bytes;
        let sizes = Sizes {
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            inner: self.inner(),
            leaf_bytes,
            leaf_place_bytes: leaf_bytes,
            keeps_next: false,
            scratch: scratch.tree.clone(),
            lane_bytes: plan.total_bytes,
        };
        let shape = page_shape(leaf_bytes, spending)?;
        let trees = places.iter().map(|place| TreeStorage::new(place, &sizes, spending));
        let mut trees = trees.collect::<Result<Vec<_>, _>>()?;
        let storages = places.iter().map(|place| Storage::new(self, place, spending));
        let mut storages = storages.collect::<Result<Vec<_>, _>>()?;
        let leases: Vec<_> = places
            .iter()
            .map(|place| {
                let recovery = place.recovery;
                move |lane: &Lane<'_>| recovery.is_none_or(|recovery| recovery.may_answer(lane))
            })
            .collect();
        let trees: Vec<TreeRoom<'_>> = trees.iter_mut().map(TreeStorage::furnish).collect();
        let indexes = trees.iter().zip(&mut storages).zip(places.iter().zip(&leases));
        let indexes = indexes.map(|((tree, storage), (place, may_answer))| {
            let tree = tree.tree(place, &sizes, spending)?;
            let Storage { pages, ring_lines, staging, marks, levels, boundaries, order, cells } = storage;
            // A mapping begins on a page, and its length was asked for in whole words.
            let pages = <[AtomicU32]>::mut_from_bytes(pages).map_or(&[][..], |words| words);
            let parts = Parts {
                tree,
                store: PageStore::new(pages, shape).map_err(ParameterError::from)?,
                owners: OwnersRoom { boundaries, order, cells },
                log: Log::new(*ring_lines, staging, marks, spending.lanes).map_err(ParameterError::from)?,
                ring_lines: *ring_lines,
                may_answer,
                levels,
            };
            let index = Dex::new(parts, self, plan.clone(), scratch.clone())?;
            index.set_offload(spending.offload);
            granted(place, index)
        });
        run(&indexes.collect::<Result<Vec<_>, AssemblyError>>()?);
        Ok(())
    }

    fn cuts_at_quantiles(&self) -> bool {
        self.cut == Cut::Quantiles
    }

    fn table(
        &self,
        number: IndexNumber,
        pool_incarnation: u64,
        boundaries: &[Vec<u8>],
    ) -> Result<Option<Vec<u8>>, ParameterError> {
        if let Cut::Even { .. } = self.cut {
            let no = |_| ParameterError::Boundaries { entry: 1, what: "keys are not cut at boundaries that are given" };
            return boundaries.first().map_or(Ok(None), |boundary| Err(no(boundary)));
        }
        let (given, entries) = (boundaries.len() as u64 + 1, u64::from(self.entries));
        if self.cut == Cut::Quantiles {
            let mut image = vec![0; self.table_shape()?.bytes()];
            let writer = self.begin_table(number, pool_incarnation, &mut image)?;
            let key = |at: u64| boundaries.get(at as usize).map_or(&[][..], Vec::as_slice);
            writer.quantiles(self.entries, boundaries.len() as u64, key)?;
            return Ok(Some(image));
        }
        if given < entries {
            let entry = u32::try_from(given).unwrap_or(u32::MAX);
            return Err(ParameterError::Boundaries { entry, what: "its boundary, the least key, is not given" });
        }
        if given > entries {
            let most = self.entries as usize;
            let found = usize::try_from(given).unwrap_or(usize::MAX);
            return Err(ParameterError::Limit { what: "entries of the ownership table", found, least: 1, most });
        }
        let mut image = vec![0; self.table_shape()?.bytes()];
        let writer = self.begin_table(number, pool_incarnation, &mut image)?;
        writer.given(boundaries.iter().map(Vec::as_slice))?;
        Ok(Some(image))
    }

    fn requests<'i>(index: &'i Dex<'_>) -> &'i RequestIds {
        index.tree().requests
    }

    fn evidence(&self, number: IndexNumber, chunk: ChunkKind) -> Option<Evidence<'_>> {
        let shape = self.leaf();
        let records = move |image: &[u8]| Leaf::new(&shape, image).records();
        Some(Evidence::of_tree(number, chunk, self.node_bytes(), self.key_bytes, records))
    }
}

/// The pages of a compute node's page cache.
fn page_shape(leaf_bytes: usize, spending: &Spending) -> Result<Shape, AssemblyError> {
    let many = || AssemblyError::Impossible("more lanes, or leaves READ at once, than a page cache serves");
    let lanes = u16::try_from(spending.lanes).map_err(|_| many())?;
    let fills_per_lane = u16::try_from(spending.leaves_at_once.max(1)).map_err(|_| many())?;
    let (admission, cooling) = (spending.admission, spending.cooling);
    Ok(Shape { page_bytes: leaf_bytes, lanes, fills_per_lane, cooling, admission })
}

/// What one compute node's copy of a DEX index borrows besides the memory of its inner nodes.
struct Storage {
    pages: MmapMut,
    ring_lines: u64,
    staging: Vec<AtomicU32>,
    marks: Vec<AtomicU32>,
    levels: Vec<AtomicU8>,
    boundaries: Vec<AtomicU32>,
    order: Vec<AtomicU32>,
    cells: Vec<EntryCell>,
}

impl Storage {
    fn new(parameters: &Parameters, place: &Place<'_>, spending: &Spending) -> Result<Self, AssemblyError> {
        let table = parameters.table_shape()?;
        let words = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        // Any memory node may get the ring, which takes an eighth of it at most.
        let most = |node: &NodeGeometry| {
            Ring::lines_max((node.chunk_count as usize / RINGS_PER_NODE).max(1), node.chunk_bytes)
        };
        let most = place.geometry.iter().map(most).min().unwrap_or(0);
        let log_lines = spending.log_lines.min(usize::try_from(most).unwrap_or(usize::MAX));
        let staged = (log_lines / RING_PER_STAGED).clamp(STAGING_LINES_MIN, STAGED_MAX);
        let bytes = spending.page_cache_bytes;
        // If they are too few, the store refuses them and says how many it needs.
        let pages = huge_zeroes(usize::try_from(bytes).unwrap_or(usize::MAX) / 4 * 4);
        let pages = pages.map_err(|error| AssemblyError::Memory { cache_bytes: bytes, reason: error.to_string() })?;
        Ok(Self {
            pages,
            ring_lines: (staged + 1).max(log_lines) as u64,
            staging: words(staged * LINE_BYTES / 4),
            marks: words(mark_words(spending.lanes)),
            levels: (0..spending.lanes).map(|_| AtomicU8::new(spending.level as u8)).collect(),
            boundaries: words(Partition::boundary_words(&table)),
            order: words(table.capacity() as usize),
            cells: (0..table.capacity()).map(|_| EntryCell::default()).collect(),
        })
    }
}
