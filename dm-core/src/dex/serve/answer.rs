//! What an answer waits for.
//!
//! **The lease.** An answer from this compute node's memory may be old, if the compute node was paused and others have taken
//! its entry over. So the lease is looked at after the leaf was read. If it is valid then, nobody had waited a whole lease
//! when the leaf was read, and nobody had been admitted. A change that is in the ring, or in its page, needs no lease: its
//! completion came before the fence, and what was there at the fence is what is replayed.
//!
//! **The tenure.** An entry may be handed over while an operation reads: its pages leave the frames first, and then another
//! compute node changes them. So the tenure is looked at after the leaf was read, too. A change looks under the frame's latch.
//!
//! **The log.** A change is seen by lanes of this compute node before it is durable. An answer that tells of it waits until
//! it is, so that nobody outside learns what a death takes back. LSNs of earlier tenures were durable, or were replayed.

use super::{Dex, Level};
use crate::dex::log::append;
use crate::dex::ownership::partition::Tenure;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::pages::lsn::Lsn;
use crate::pages::{Acquired, Admit};
use crate::remote::address::Address;
use core::ops::Range;

impl Dex<'_> {
    /// Fails if the lease is not valid now.
    pub(super) fn check_lease(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        if (self.may_answer)(lane) || planted(Mutant::LEASE_UNCHECKED_ON_A_HIT) {
            return Ok(());
        }
        lane.mark(Mark::SELF_FENCED);
        Err(OpError::harmless(Cause::Fenced))
    }

    /// Fails if the tenure under which a leaf of the key at a scratch range was read has ended since.
    pub(super) fn check_tenure(&self, lane: &Lane<'_>, tenure: Tenure, key: &Range<usize>) -> Result<(), Interrupt> {
        if self.partition().holds(tenure) || planted(Mutant::TENURE_UNCHECKED_BEHIND_READ) {
            return Ok(());
        }
        Err(self.no_tenure(lane, key))
    }

    /// Waits for what an answer means that tells of a leaf of the operation's key with this LSN, which was read before.
    pub(super) async fn answer_read(&self, lane: &Lane<'_>, tenure: Tenure, lsn: Lsn) -> Result<(), Interrupt> {
        self.check_tenure(lane, tenure, &self.plan.key)?;
        self.check_lease(lane)?;
        if self.level(lane) == Level::Cache || lsn.epoch() != tenure.epoch || planted(Mutant::UNDURABLE_READ_ANSWERED) {
            return Ok(());
        }
        // What was read is not this operation's change: if it does not become durable, nothing was changed.
        Ok(self.wait_durable(lane, lsn).await.map_err(|error| OpError::harmless(error.cause))?)
    }

    /// Waits until a record of this compute node's ring is durable.
    pub(super) async fn wait_durable(&self, lane: &Lane<'_>, lsn: Lsn) -> Result<(), OpError> {
        if self.log.is_durable(lsn) {
            return Ok(());
        }
        append::wait(self.site()?, lane, lsn).await
    }

    /// Waits until a change of the leaf is in its page: flushes the leaf, if nobody does.
    pub(super) async fn wait_flushed(&self, lane: &Lane<'_>, leaf: Address) -> Result<(), OpError> {
        match self.store.acquire(lane, leaf, Admit::Never).await? {
            Acquired::Frame(name) => self.flush_frame(lane, name).await,
            // It was evicted, and it was clean then.
            Acquired::Mine(fill) => self.end_fill(lane, &fill).await,
            Acquired::NoFrame | Acquired::NoFill => {
                Err(OpError::harmless(Cause::BadInput("the lane has fills that it has not ended")))
            }
        }
    }
}
