//! What a memory node counts, and what its region says, for Prometheus.

use crate::metrics::{Kind, Labels, Page};
use crate::pool::pool_name;
use crate::region::Region;
use dm_core::remote::NodeGeometry;
use dm_core::remote::chunk::{ChunkEntry, ChunkKind, ChunkState, ChunkWord};
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::{RowState, RowWord, epoch_offset};
use dm_core::remote::superblock::{NodeDescription, Superblock};
use dm_core::verbs::Space;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $kind:ident $help:literal,)*) => {
        /// What a memory node counts since its daemon started.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $($(#[$doc])* pub(super) $name: AtomicU64,)*
        }

        impl Counters {
            fn put(&self, page: &mut Page, labels: &Labels) {
                $(
                    let name = concat!("dm_memd_", stringify!($name));
                    page.put(name, Kind::$kind, $help, [(labels.clone(), self.$name.load(Ordering::Relaxed))]);
                )*
            }
        }
    };
}

counters! {
    /// Compute processes now.
    processes: Gauge "Compute processes connected now.",
    /// Compute processes so far.
    processes_total: Counter "Compute processes let in so far.",
    /// Clients turned away.
    refused_total: Counter "Clients turned away: wrong secret or version, no protocol at all, or too many.",
    /// Calls answered.
    calls_total: Counter "Procedure calls answered.",
    /// Searches of calls.
    searches_total: Counter "Calls answered for compute nodes: searches, pages of scans, changes of leaves.",
    /// Compute nodes that joined.
    joins_total: Counter "Compute nodes that joined.",
    /// Compute nodes that left.
    leaves_total: Counter "Compute nodes that left.",
    /// Compute nodes that died.
    deaths_total: Counter "Compute nodes whose process ended without leaving.",
    /// Compute processes fenced off.
    fenced_total: Counter "Compute processes fenced off.",
}

pub(super) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn sub(counter: &AtomicU64) {
    counter.fetch_sub(1, Ordering::Relaxed);
}

/// The labels of a memory node's metrics, and the page of what it counts and holds.
pub(super) fn page(region: &Region, counters: &Counters) -> (Labels, Page) {
    let mut page = Page::default();
    let mut bytes = [0; Superblock::BYTES];
    let read = region.area(Space::Host).read(0, &mut bytes);
    let description = read.ok().and_then(|()| Superblock::decode(&bytes).ok());
    let mut labels = Labels::default();
    if let Some(NodeDescription { identity, .. }) = &description {
        labels = labels.with("pool", pool_name(identity.pool_id)).with("memory_node", identity.node.0);
    }
    counters.put(&mut page, &labels);
    let bytes = [(labels.clone(), region.layout().region_bytes)];
    page.put("dm_memd_region_bytes", Kind::Gauge, "Bytes of the region.", bytes);
    if let Some(NodeDescription { identity, geometry, .. }) = &description {
        let incarnation = [(labels.clone(), identity.pool_incarnation)];
        page.put("dm_memd_pool_incarnation", Kind::Gauge, "The pool's incarnation.", incarnation);
        put_chunks(&mut page, &labels, region, geometry);
        // Rows and the epoch of the pool are on its first memory node.
        if identity.node.0 == 0 {
            put_rows(&mut page, &labels, region, geometry);
            let raised = [(labels.clone(), word(region, epoch_offset(geometry)))];
            page.put("dm_memd_epochs_total", Kind::Counter, "How often the pool's epoch was raised.", raised);
        }
    }
    (labels, page)
}

/// A word of the region. What cannot be read reads as 0.
fn word(region: &Region, offset: u64) -> u64 {
    let mut bytes = [0; 8];
    let _ = region.area(Space::Host).read(offset, &mut bytes);
    u64::from_le_bytes(bytes)
}

fn put_chunks(page: &mut Page, labels: &Labels, region: &Region, geometry: &NodeGeometry) {
    let (mut free, mut withheld, mut corrupt) = (0, 0, 0);
    let (mut used, mut granted) = ([0; ChunkKind::COUNT], [0; ChunkKind::COUNT]);
    for chunk in 0..geometry.chunk_count {
        match ChunkWord(word(region, geometry.chunk_entry(chunk))).decode() {
            Ok(ChunkEntry::Free) => free += 1,
            Ok(ChunkEntry::Withheld { .. }) => withheld += 1,
            Ok(ChunkEntry::Used { kind, .. }) => used[kind as usize] += 1,
            Ok(ChunkEntry::Granted(grant)) => granted[grant.kind as usize] += 1,
            Err(_) => corrupt += 1,
        }
    }
    let kinds = |state: ChunkState, counts: [u32; ChunkKind::COUNT]| {
        ChunkKind::ALL.map(|kind| (labels.with("state", state.name()).with("kind", kind.name()), counts[kind as usize]))
    };
    let mut samples = vec![(labels.with("state", ChunkState::Free.name()).with("kind", ""), free)];
    samples.extend(kinds(ChunkState::Used, used));
    samples.extend(kinds(ChunkState::Granted, granted));
    samples.push((labels.with("state", ChunkState::Withheld.name()).with("kind", ""), withheld));
    samples.push((labels.with("state", "corrupt").with("kind", ""), corrupt));
    page.put("dm_memd_chunks", Kind::Gauge, "Chunks of the memory node, by state and kind.", samples);
    let bytes = [(labels.clone(), geometry.chunk_bytes)];
    page.put("dm_memd_chunk_bytes", Kind::Gauge, "Bytes of a chunk.", bytes);
}

fn put_rows(page: &mut Page, labels: &Labels, region: &Region, geometry: &NodeGeometry) {
    const STATES: [RowState; 4] = [RowState::Free, RowState::Live, RowState::Fencing, RowState::Dead];
    let mut counts = [0; STATES.len()];
    for row in 1..geometry.row_count as u16 {
        let state = RowWord(word(region, geometry.row_offset(RowId(row)))).state();
        if let Some(at) = STATES.iter().position(|known| Some(*known) == state) {
            counts[at] += 1;
        }
    }
    let samples = STATES.iter().zip(counts).map(|(state, count)| (labels.with("state", state.name()), count));
    page.put("dm_memd_rows", Kind::Gauge, "Compute-node rows of the pool, by state.", samples);
}
