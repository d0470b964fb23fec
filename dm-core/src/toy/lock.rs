//! The one lock. How it is acquired and released: `crate::locks::protocol`.

use super::Toy;
use super::layout::RootWord;
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, LockRecord};
use crate::locks::kind::{Held, LockKind, Techniques};
use crate::locks::protocol::Locks;
use crate::locks::table::LockTable;
use crate::membership::Recovery;
use crate::operation::OpError;
use crate::recovery::takeover::Recoverable;
use crate::remote::address::Address;
use crate::remote::lock_word::{LockId, RowId, lock_of};
use crate::verbs::{NodeId, Space};

impl Locks for Toy<'_> {}

/// One lock, in the lock table of memory node 0. Others of the tables are taken over as well, by a sweep.
impl LockKind for Toy<'_> {
    const IN_NODES: bool = false;

    /// The root word.
    type Follow = ();

    fn queues(&self) -> &LockTable<'_> {
        &self.parts.locks
    }

    fn techniques(&self) -> Techniques {
        self.parts.options.of_locks()
    }

    fn recovery(&self) -> Option<&Recovery<'_>> {
        self.parts.recovery
    }

    fn row(&self) -> RowId {
        self.parts.owner.row
    }

    fn scratch_at(&self) -> usize {
        self.scratch.small
    }

    fn lock_of(&self, address: Address) -> Result<LockId, OpError> {
        Ok(lock_of(address, self.home()?.lock_count))
    }

    fn word_place(&self, lock: LockId, _: Address) -> (NodeId, u64, Space) {
        let geometry = self.parts.geometry.get(usize::from(lock.node.0));
        let (offset, space) = geometry.map_or((0, Space::Host), |node| (node.lock_offset(lock.index), node.lock_space));
        (lock.node, offset, space)
    }

    /// There is nothing else that the entry of its lock could be for.
    fn tag(&self, _: Address) -> u32 {
        0
    }

    fn push_follow(&self, lane: &Lane<'_>, _: &Held, (): ()) {
        lane.port().push(self.root_request());
    }

    /// Only of another index, whose lock it was taking over.
    async fn replay_own(&self, lane: &Lane<'_>, lock_record: &LockRecord) -> Result<(), OpError> {
        match Recoverable::site(self) {
            Some(site) => site.replay_own(lane, lock_record).await,
            None => Ok(()),
        }
    }
}

impl Toy<'_> {
    /// Acquires the lock and READs the array.
    pub(super) async fn lock(&self, lane: &Lane<'_>) -> Result<(Held, RootWord), Interrupt> {
        let follow = self.chains_read(self.root_at).then_some(());
        let (held, is_read) = self.acquire(lane, self.root_at, follow).await?;
        let read = async {
            let root = if is_read { self.seen_root(lane)? } else { self.read_root(lane).await? };
            self.read_array(lane, root).await.map(|()| root)
        };
        match read.await {
            Ok(root) => Ok((held, root)),
            Err(error) => {
                self.release(lane, held).await?;
                Err(error.into())
            }
        }
    }
}
