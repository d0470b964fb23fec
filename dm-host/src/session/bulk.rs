//! Bulk loads: a new index, made of records that come in ascending order of their keys.

use super::Session;
use super::error::SessionError;
use super::request::Shape;
use crate::assembly::{AssemblyError, Spending};
use crate::compute_node::{ComputeNode, Membership};
use crate::error_text::debug_is_text;
use crate::fabric::any::AnyFabric;
use crate::kinds::{AnyIndex, IndexParameterError, IndexParameters};
use crate::pool::{Pool, PoolError};
use crate::solo::block_on;
use dm_core::index::Index as _;
use dm_core::lane::Lane;
use dm_core::operation::{OpError, Operation, OperationKind, Part};
use dm_core::verbs::LaneId;
use std::sync::Arc;
use thiserror::Error;

/// Why a bulk load failed. Its `Debug` is its text.
#[derive(Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No index can have these parameters.
    #[error(transparent)]
    Parameters(#[from] IndexParameterError),
    /// An operation on the pool or its catalog failed; above all: an index of that name exists.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The index cannot be put together.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// A key is not above the one before it.
    #[error("record {position}: its key is not above the one before it")]
    Order {
        /// How many records came before it.
        position: u64,
    },
    /// A record has another size than those of the index, or could not be written.
    #[error("record {position}: {source}")]
    Record {
        /// How many records came before it.
        position: u64,
        /// The reason.
        source: SessionError,
    },
    /// The records are written, and could not be made visible.
    #[error("making the records visible: {0}")]
    End(OpError),
}

debug_is_text! { LoadError }

impl Session {
    /// Creates the index called `name`, loads `records`, whose keys ascend, and returns how many there were: faster than
    /// inserts, and leaves are as full as they should be.
    ///
    /// An index that cuts its keys at quantiles cuts them at those of `records`, which are all kept in memory then.
    ///
    /// If keys and values have one size each, nobody sees a record before the last one is loaded. Such of any length are
    /// inserted one by one.
    ///
    /// A load that fails drops the index again, unless another session has opened it meanwhile. If the process dies, an
    /// index is left that has no records, or part of them.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        pool: &Arc<Pool>,
        name: &str,
        parameters: impl Into<IndexParameters>,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64, LoadError> {
        load(pool, name, &parameters.into(), records.into_iter().map(Ok))
    }
}

/// As [`Session::bulk_load`], of records that may be refused on the way.
pub(super) fn load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    pool: &Arc<Pool>,
    name: &str,
    parameters: &IndexParameters,
    mut records: impl Iterator<Item = Result<(K, V), SessionError>>,
) -> Result<u64, LoadError> {
    parameters.check()?;
    let mut kept = Vec::new();
    if parameters.cuts_at_quantiles() {
        kept.extend(records.by_ref());
    }
    let keys = kept.iter().flatten().map(|(key, _)| key.as_ref().to_vec());
    let sample: Vec<_> = keys.collect();
    let records = kept.into_iter().chain(records);
    let node = pool.join(1, Membership::default())?;
    let entry = node.create_index_cut_at(name, parameters, &sample)?;
    let mut unfinished = Unfinished { node: &node, name: Some(name) };
    let mut fabric = pool.fabric()?;
    let loaded = node.with_index(&entry, parameters, &Spending::default(), |index| {
        let mut scratch = vec![0; index.plan().total_bytes];
        let lane = Lane::new(LaneId(0), &mut scratch);
        let mut load = Load { index, lane: &lane, fabric: &mut fabric, shape: shape_of(parameters) };
        let loaded = load.all(records);
        if let Err(error) = load.leave() {
            // Something in the pool may still name this compute node: its row has to be swept.
            node.mark_unsettled();
            // What went wrong before says more.
            return loaded.and(Err(LoadError::End(error)));
        }
        loaded
    })??;
    unfinished.name = None;
    Ok(loaded)
}

/// How long keys and values of such an index are.
pub(super) fn shape_of(parameters: &IndexParameters) -> Shape {
    Shape {
        key_bytes: parameters.key_bytes(),
        value_bytes: parameters.value_bytes(),
        have_lengths: parameters.any_length.is_some(),
        page_records: Spending::default().page_records,
        takes_last: parameters.scans_down(),
    }
}

/// An index that is dropped again if it is not loaded, also where the records come from something that panics.
struct Unfinished<'a> {
    node: &'a ComputeNode,
    name: Option<&'a str>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name {
            // What led here says more than this error could.
            let _ = self.node.drop_index(name);
        }
    }
}

/// A load under way, on a lane of this thread.
struct Load<'a, 'i, 's, 'm> {
    index: AnyIndex<'a, 'i, 's>,
    lane: &'a Lane<'m>,
    fabric: &'a mut AnyFabric,
    shape: Shape,
}

impl Load<'_, '_, '_, '_> {
    fn all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        records: impl Iterator<Item = Result<(K, V), SessionError>>,
    ) -> Result<u64, LoadError> {
        let mut last = Vec::new();
        let mut position = 0;
        for record in records {
            let refused = |source| LoadError::Record { position, source };
            let (key, value) = record.map_err(refused)?;
            let (key, value) = (key.as_ref(), value.as_ref());
            self.shape.check_key(key).and_then(|()| self.shape.check_value(value)).map_err(refused)?;
            if position > 0 && key <= last.as_slice() {
                return Err(LoadError::Order { position });
            }
            self.append(key, value).map_err(|error| refused(error.into()))?;
            last.clear();
            last.extend_from_slice(key);
            position += 1;
        }
        if position > 0 && !self.shape.have_lengths {
            block_on(self.fabric, self.lane, self.index.bulk_finish(self.lane)).map_err(LoadError::End)?;
        }
        Ok(position)
    }

    /// Gives up what only this compute node has of the index: the next one with its row would take that for its own.
    fn leave(&mut self) -> Result<(), OpError> {
        let left = block_on(self.fabric, self.lane, self.index.leave(self.lane));
        if self.lane.in_doubt() {
            block_on(self.fabric, self.lane, self.index.settle(self.lane))?;
        }
        left
    }

    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<(), OpError> {
        let Self { index, lane, fabric, shape } = self;
        let plan = index.plan();
        // They have the lengths that go there.
        lane.port().with(|scratch| plan.put(scratch, Part::Key, key) && plan.put(scratch, Part::Value, value));
        if !shape.have_lengths {
            return block_on(*fabric, lane, index.bulk_append(lane));
        }
        let inserted = block_on(*fabric, lane, index.execute(lane, Operation::point(OperationKind::Insert)));
        if lane.in_doubt() {
            // Its own error would say less than the operation's.
            let _ = block_on(*fabric, lane, index.settle(lane));
        }
        inserted.map(drop)
    }
}
