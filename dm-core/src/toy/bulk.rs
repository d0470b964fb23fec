//! Bulk load: records are collected in the scratch of the lane, and written at once.

use super::Toy;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::locks::protocol::Locks;
use crate::operation::{Cause, OpError};

const NOT_EMPTY: OpError = OpError::harmless(Cause::BadInput("a bulk load needs an empty index"));

/// A bulk load under way. Its records are in the scratch of the lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BulkLoad {
    records: usize,
    /// It did not fit.
    broken: bool,
}

impl Toy<'_> {
    /// See [`Index::bulk_append`](crate::index::Index::bulk_append).
    pub(super) async fn append_to_load(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let mut load = *self.bulk.lock();
        if load.broken {
            return Err(OpError::harmless(Cause::PoolFull));
        }
        if load.records == 0 && self.read_root(lane).await?.records() > 0 {
            return Err(NOT_EMPTY);
        }
        let appended = self.append(lane, &mut load);
        *self.bulk.lock() = load;
        appended
    }

    /// See [`Index::bulk_finish`](crate::index::Index::bulk_finish).
    pub(super) async fn finish_load(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let load = core::mem::take(&mut *self.bulk.lock());
        if load.broken {
            return Err(OpError::harmless(Cause::BadInput("the bulk load failed earlier: nothing of it is kept")));
        }
        if load.records == 0 {
            return Ok(());
        }
        let (held, root) = self.lock(lane).await.map_err(Interrupt::into_error)?;
        let root = if root.records() == 0 { self.with_chunk(lane, root).await } else { Err(NOT_EMPTY.into()) };
        match root {
            Ok(root) => self.publish(lane, held, root.next(load.records), self.scratch.load.at).await,
            Err(interrupt) => {
                self.release(lane, held).await?;
                Err(interrupt.into_error())
            }
        }
    }

    /// Appends a record to the load in the scratch. `Err`: it cannot be the next one.
    fn append(&self, lane: &Lane<'_>, load: &mut BulkLoad) -> Result<(), OpError> {
        lane.port().with(|scratch| {
            let (arguments, image) = self.arguments(self.scratch.load, scratch)?;
            if self.array.find(image, load.records, arguments.key()) != Err(load.records) {
                return Err(OpError::harmless(Cause::BadInput("keys of a bulk load must ascend")));
            }
            load.broken = load.records == self.array.capacity;
            if load.broken {
                return Err(OpError::harmless(Cause::PoolFull));
            }
            self.array.insert(image, load.records, load.records, arguments.key(), arguments.value());
            load.records += 1;
            Ok(())
        })
    }
}
