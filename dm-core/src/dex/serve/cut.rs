//! Entries that are cut in two, because too many operations come for them, or too many keys are in them.
//!
//! ```text
//!  the owner of the entry
//!  tenure ends ─► drained, as for a move ─► READ: the leaf of the key ─► CAS: the word again, epoch + 1
//!     ─► table's lock: READ count ─► WRITE boundary and word, OWNED by the same one ─► WRITE count ─► unlock ─► both tenures begin
//! ```
//!
//! The new entry begins where the leaf of the key begins, so that leaves still end where entries do. Keys behind it belong to the
//! new entry from the WRITE of the count on. Nothing is copied, and pages stay where they are.
//!
//! **Who learns of it.** Other compute nodes READ the table now and then, and until then ask the owner of the old entry for keys of
//! the new one. That owner knows better: it executes them as long as it has both, and then says that it is not the owner. **Nobody
//! is admitted to the old entry with its old end**: a compute node that has made the entry's word its own looks at the count before it
//! is admitted, and from then on nobody else can cut the entry.
//!
//! **Operations of the owner** that have a tenure of the old entry for a key of the new one are refused: the tenure has ended, and
//! the next one has another epoch.
//!
//! **The log.** Records of the old entry stay in the ring. Their keys may lie in the new entry, which is not replayed by them: before the
//! cut everything is in the pages. Epochs of the new entry begin above those of the old one, so LSNs of its pages go on rising.
//!
//! **Two owners that cut at a time** would write the same place of the table. The lock of the table's address in the lock table keeps
//! them apart. If its holder dies, the compute node that takes the lock over has it fenced first, so none of its WRITEs comes late; what it
//! has left behind the count counts for nothing. **If the owner dies** before the count is WRITTEN, there was no cut; afterwards, both
//! entries are recovered, and its ring has nothing of them.

use super::own::{Opened, Taking};
use super::{Dex, Owner};
use crate::btree::node;
use crate::dex::ownership::OwnerWord;
use crate::dex::ownership::partition::{NotOwner, Partition, Tenure};
use crate::index::runner::Run;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes::Cursor;
use crate::locks::protocol::Locks;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::pages::Admit;
use crate::registry::KEY_BYTES_MAX;
use crate::remote::HOME;
use crate::remote::address::Address;

impl<'s> Dex<'s> {
    /// Cuts the entry of the key in the scratch in two, in front of the leaf of that key. This compute node owns it.
    pub(super) async fn cut(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let partition = &self.open(lane).await?.partition;
        loop {
            let entry = self.entry_of_argument(lane, partition);
            self.begin_taking(lane, Taking::Entry(entry)).await?;
            let cut = if entry == self.entry_of_argument(lane, partition) {
                self.cut_entry(lane, entry).await
            } else {
                Err(Interrupt::TenureEnded)
            };
            self.end_taking(lane);
            match cut {
                Ok(()) => return Ok(()),
                Err(interrupt) => self.overcome(lane, false, interrupt).await?,
            }
        }
    }

    fn entry_of_argument(&self, lane: &Lane<'_>, partition: &Partition<'_>) -> u32 {
        lane.port().with(|scratch| partition.entry_of(scratch.get(self.plan.key.clone()).unwrap_or_default()))
    }

    /// If this fails, the tenure has ended, and the next operation takes the entry again.
    async fn cut_entry(&self, lane: &Lane<'_>, entry: u32) -> Result<(), Interrupt> {
        let opened = self.open(lane).await?;
        let (partition, site) = (&opened.partition, self.table_site(opened));
        let word = site.read_word(lane, entry).await?;
        if word.decode() != Ok(Owner::Owned(partition.me())) {
            return Err(Self::not_owner(NotOwner { entry, row: word.row(), epoch: word.epoch() }).into());
        }
        // A cut before may have failed once it had taken effect: its boundary must not be appended twice.
        self.note_cuts(lane, opened).await?;
        if entry != self.entry_of_argument(lane, partition) {
            return Err(Interrupt::TenureEnded);
        }
        partition.close(entry);
        if !planted(Mutant::CUT_UNFLUSHED) {
            self.drain_entry(lane, entry).await?;
        }
        let mut low = [0; KEY_BYTES_MAX];
        let low = low.get_mut(..self.leaf.key_bytes).unwrap_or_default();
        if !self.read_low(lane, low).await? || *partition.low_of(low) == *low {
            _ = partition.admit(entry);
            let what = "the key is in the first leaf of its part: there is nothing in front of it to cut it off from";
            return Err(OpError::harmless(Cause::BadInput(what)).into());
        }
        let renewed = if planted(Mutant::CUT_UNRENEWED) {
            word
        } else {
            site.renew(lane, Tenure { entry, epoch: word.epoch() }).await?
        };
        let new = OwnerWord::new(Owner::Owned(partition.me()), renewed.epoch());
        let (held, _) = self.tree.acquire(lane, Address::new(HOME, site.table, 0), None).await?;
        let appended = self.append_entry(lane, opened, (new, low)).await;
        // A lane that has a request that failed releases the lock when it is settled.
        if !lane.has_failed_requests() {
            self.tree.release(lane, held).await?;
        }
        let number = appended?;
        self.note_table(lane, opened).await?;
        lane.mark(Mark::ENTRY_CUT);
        for entry in [entry, number] {
            _ = partition.admit(entry);
        }
        Ok(())
    }

    /// Puts an entry behind the others. The lane holds the table's lock. Returns its number.
    async fn append_entry(
        &self,
        lane: &Lane<'_>,
        opened: &Opened<'s>,
        (word, low): (OwnerWord, &[u8]),
    ) -> Result<u32, OpError> {
        let site = self.table_site(opened);
        let count = site.read_count(lane).await?;
        if count == opened.partition.capacity() {
            let what = "the ownership table has no room for another part: its size is chosen when the index is created";
            return Err(OpError::harmless(Cause::BadInput(what)));
        }
        site.append(lane, &self.table_shape()?, count, (word, low)).await?;
        Ok(count)
    }

    /// Where the leaf of the key in the scratch begins. `false`: the index has no leaf.
    async fn read_low(&self, lane: &Lane<'_>, low: &mut [u8]) -> Result<bool, Interrupt> {
        let key = &self.plan.key;
        let look = |place, wanted: &_| self.copy_out(lane, place, wanted, key);
        let Some(visited) = self.visit_owned(lane, key, Admit::Never, look).await? else { return Ok(false) };
        lane.port().with(|scratch| Cursor::at(node::LOW_AT).read(self.tree.leaf_image(0).of(scratch), low));
        if let Some(fill) = &visited.fill {
            self.end_fill(lane, fill).await?;
        }
        Ok(true)
    }
}
