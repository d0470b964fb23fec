//! Packs operations that one call of the session's user began together, and whose keys have one owner: one message takes them
//! there ([`dm_core::index::forward::pack`]).
//!
//! Who owns a key is what this compute node saw last, without asking. An operation that its owner does not begin goes alone
//! then. So does one that is not known to have an owner elsewhere, and a scan.

use super::watch::Watched;
use crate::worker::{CallEnded, Cost, Finished};
use dm_core::index::Index;
use dm_core::index::forward::Forwarder;
use dm_core::index::forward::message::RequestWriter;
use dm_core::index::forward::pack::Pack;
use dm_core::operation::{Operation, OperationKind, ScratchPlan};
use dm_core::remote::lock_word::RowId;

/// Operations that are looked at for one message, at most, beside the first.
pub(super) const LOOKED_AT_MAX: usize = 256;

/// Knows who owns keys.
pub(super) trait Owners {
    /// `None`: no operation is forwarded.
    fn forwarder(&self) -> Option<&Forwarder>;

    /// The compute node to which an operation on `key` goes, if that is known to be another one.
    fn owner_elsewhere(&self, key: &[u8]) -> Option<RowId>;
}

impl<I: Index> Owners for Watched<'_, I> {
    fn forwarder(&self) -> Option<&Forwarder> {
        self.forwarder.as_ref()
    }

    fn owner_elsewhere(&self, key: &[u8]) -> Option<RowId> {
        self.owner_of(key).filter(|row| *row != self.row)
    }
}

/// A message for one owner that is being written.
pub(super) struct Packer<'o> {
    owners: &'o dyn Owners,
    forwarder: &'o Forwarder,
    row: RowId,
    writer: RequestWriter,
    wait_ns: u64,
}

impl<'o> Packer<'o> {
    /// For the owner of this key. `None`: an operation on it does not go in such a message.
    pub(super) fn new(owners: &'o dyn Owners, kind: OperationKind, key: &[u8]) -> Option<Self> {
        let forwarder = owners.forwarder().filter(|_| kind != OperationKind::Scan)?;
        let row = owners.owner_elsewhere(key)?;
        let writer = RequestWriter::new(forwarder.index);
        Some(Self { owners, forwarder, row, writer, wait_ns: u64::MAX })
    }

    /// Whether the key has the same owner.
    pub(super) fn is_for(&self, key: &[u8]) -> bool {
        self.owners.owner_elsewhere(key) == Some(self.row)
    }

    /// Adds an operation, whose arguments are in the scratch. `false`: there is no room for it.
    #[must_use = "an operation that was not added has to go later"]
    pub(super) fn add(&mut self, operation: &Operation, plan: &ScratchPlan, scratch: &mut [u8]) -> bool {
        let Some((front, behind)) = scratch.split_at_mut_checked(self.forwarder.room.at) else { return false };
        let is_added = self.writer.add(operation, plan, front, behind);
        if is_added {
            self.wait_ns = self.wait_ns.min(operation.wait_ns());
        }
        is_added
    }

    /// The message, if it has several operations. They have the time of the one that has the least.
    pub(super) fn finish(&self, plan: &ScratchPlan, scratch: &mut [u8]) -> Option<Pack> {
        let (_, behind) = scratch.split_at_mut_checked(self.forwarder.room.at)?;
        let room = (self.forwarder.messages(), behind);
        let pack = Pack::new(&self.writer, (self.forwarder.index, self.row), self.wait_ns, plan, room);
        pack.filter(|pack| pack.count() > 1)
    }
}

/// Says what became of each operation of a call: `each` is told its place and how it ended, or `None`: it was not begun. What
/// the call cost is not theirs.
pub(super) fn hand_out(
    ended: CallEnded<'_>,
    asked: impl Fn(usize) -> Operation,
    mut each: impl FnMut(usize, Option<Finished<'_>>),
) {
    let CallEnded { pack, called, latency_ns, scratch, plan, .. } = ended;
    let asked = |place| asked(usize::from(place));
    pack.results(called, plan, scratch, asked, |place, result, scratch| {
        let (operation, cost) = (asked(place), Cost::default());
        let finished = result.map(|result| Finished { operation, result, latency_ns, cost, retries: 0, scratch, plan });
        each(usize::from(place), finished);
    });
}
