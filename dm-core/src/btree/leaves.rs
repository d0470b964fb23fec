//! What the indexes of this family do alike with leaves that differ.
//!
//! Leaves begin with the header of every node. What follows it, how an image is found whole, and which lock protects a
//! leaf is the index's own: it says so by `Leaves`. This file visits the leaf of a key; scans ([`super::scan`]), bulk
//! loads ([`super::bulk`]) and the walk ([`super::walk`]) build on it.

use super::node::{self, FenceCheck, Header, NodeFlags, Wanted};
use super::read::{Target, Unsure, read_unlocked};
use super::router::{Cursor, Router, seek};
use super::{MOVES_MAX, Tree};
use crate::btree::load::BulkLoad;
use crate::error::DecodeError;
use crate::index::runner::Run;
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, NO_DEADLINE_NS};
use crate::layout::stripes::{self, Look};
use crate::locks::kind::LockKind;
use crate::marks::Mark;
use crate::memory::orphans::CollectedOrphans;
use crate::operation::span::Span;
use crate::operation::{Arguments, OpError, Operation, ScratchPlan};
use crate::recovery::takeover::Recoverable;
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::remote::lock_word::LockId;
use crate::remote::place::NodeClass;
use crate::verbs::{Label, NodeId};
use core::future::Future;
use core::ops::Range;
use spin::Mutex;

/// Entries a leaf can have at most.
pub const SPAN_MAX: usize = 512;

/// How long settling waits for a lock, in ns, to find out whether a node that its lane was about to link has been
/// linked.
const PENDING_WAIT_NS: u64 = 10_000_000;

/// How often in a row something without a deadline looks after the holder of one lock: a walk, a sweep, an orphan
/// collection. A holder that lives gives its lock back sooner, and the lock of one that does not is taken over by the first
/// look; but damage may have put the name of a compute node there that lives and knows nothing of it.
const LOOKS_MAX: u32 = 32;

/// The same for all locks together: several damaged words may be in the way in turn.
const LOOKS_IN_ALL_MAX: u32 = 4096;

/// Counts how often the holder of a lock was in the way.
#[derive(Default)]
pub(crate) struct Looks {
    lock: Option<LockId>,
    count: u32,
    in_all: u32,
}

impl Looks {
    /// Whether it may look after what interrupted it once more; if not, the interrupt is an error.
    pub(crate) fn again(&mut self, interrupt: Interrupt) -> Result<(), OpError> {
        let Interrupt::Unresponsive(lock_record) = interrupt else { return Ok(()) };
        if self.lock != Some(lock_record.lock) {
            (self.lock, self.count) = (Some(lock_record.lock), 0);
        }
        self.count += 1;
        self.in_all += 1;
        if self.count > LOOKS_MAX || self.in_all > LOOKS_IN_ALL_MAX { Err(interrupt.into_error()) } else { Ok(()) }
    }
}

/// Result of a descent to a leaf and a look at it.
pub(crate) struct Visit<R> {
    /// What was seen.
    pub seen: R,
    /// A half-split to finish, its separator in the `help` range.
    pub help: Option<(u8, Address)>,
}

/// An index of this family: the shared tree, and what is its own about leaves.
pub(crate) trait Leaves<'s>: Sized + Run<'s> {
    /// How leaves are locked.
    type LeafLocks: Recoverable;

    /// How leaves are found.
    type Router: Router;

    /// The part that B+-trees share.
    fn tree(&self) -> &Tree<'s>;

    /// What finds the leaf of a key.
    fn router(&self) -> &Self::Router;

    /// Where arguments and results are.
    fn plan(&self) -> &ScratchPlan;

    /// The bulk load under way.
    fn bulk(&self) -> &Mutex<BulkLoad>;

    /// Entries of a leaf.
    fn span(&self) -> usize;

    /// Bytes that the walk READs of a leaf: the image, and what is behind it in its place.
    fn walk_bytes(&self) -> usize {
        self.tree().leaf_bytes
    }

    /// Whether an image with one node version has every record that was there throughout the READ.
    fn whole(&self, look: Look<'_>) -> Result<(), DecodeError>;

    /// Writes the slots whose keys are not below `low` and, if given, below `high` into `slots`, in ascending key
    /// order, each key once; returns how many.
    fn sorted(&self, look: Look<'_>, low: &[u8], high: Option<&[u8]>, slots: &mut [u16; SPAN_MAX]) -> usize;

    /// Copies the first `bytes` of the records of `slots`, each a key and a value, out, one behind the other.
    fn read_records(&self, look: Look<'_>, slots: &[u16], bytes: usize, out: &mut [u8]);

    /// Checks every invariant of a quiet leaf, of which `image` has [`Leaves::walk_bytes`]; returns its records.
    fn check(&self, image: &[u8], low: &[u8], high: Option<&[u8]>) -> Result<u64, DecodeError>;

    /// Puts the next record of a bulk load into an image that has `used` records. `false`: there is no room.
    fn append(&self, image: &mut [u8], used: usize, key: &[u8], value: &[u8]) -> bool;

    /// Updates what an image repeats of its header, before it is written for the first time.
    fn seal(&self, _image: &mut [u8]) {}

    /// Pushes what a leaf needs besides its image when it is written for the first time.
    fn push_companions(&self, _lane: &Lane<'_>, _address: Address, _image: Span) {}

    /// READs a leaf under its lock until `look` accepts it, because READs without the lock did not decide. `None`: it
    /// is not what the pointer promised.
    ///
    /// No `async fn`: an index that has nothing to add returns the tree's future, without another one around it.
    fn read_leaf_locked<R>(
        &self,
        lane: &Lane<'_>,
        target: Target,
        look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> impl Future<Output = Result<Option<R>, Interrupt>>;

    /// Called when `right` may be a retired leaf to which `left` still links. An index that can tell whether a lane
    /// died in the middle of a merge undoes that merge.
    async fn mend_forwarding(&self, _lane: &Lane<'_>, _left: Address, _right: Address) -> Result<(), Interrupt> {
        Ok(())
    }

    /// The locks of leaves.
    fn leaf_locks(&self) -> &Self::LeafLocks;

    /// The lock of a leaf whose word lies in the leaf. `None`: it lies in a table, or that cannot be a leaf.
    fn lock_in(&self, leaf: Address) -> Option<LockId> {
        if Self::LeafLocks::IN_NODES { self.leaf_locks().lock_of(leaf).ok() } else { None }
    }

    /// The last part of settling, after locks and batches: finds out what became of nodes that the lane was about to
    /// link. Nothing depends on it: what cannot be decided soon, because a lock in the way is held, is decided when the
    /// lane is settled next. `true`: it may have locked nodes, and requests of its own may have failed, so that there is
    /// something to settle again.
    async fn look_after_pending(&self, lane: &Lane<'_>) -> bool {
        if lane.pending().is_none() || lane.must_settle() || self.check_not_fenced().is_err() {
            return false;
        }
        lane.begin(PENDING_WAIT_NS);
        let _ = self.tree().resolve_pending(self, lane).await;
        lane.begin(Operation::WAIT_NS_DEFAULT);
        true
    }

    /// [`Tree::collect_orphans`], again whenever a dead holder was in the way.
    async fn collect_all_orphans(&self, lane: &Lane<'_>) -> Result<CollectedOrphans, OpError> {
        lane.begin(NO_DEADLINE_NS);
        self.check_not_fenced()?;
        let mut looks = Looks::default();
        loop {
            let collected_orphans = self.tree().collect_orphans(self, lane).await;
            match collected_orphans {
                Ok(collected_orphans) => return Ok(collected_orphans),
                Err(interrupt) => {
                    looks.again(interrupt)?;
                    self.overcome(lane, false, interrupt).await?;
                }
            }
        }
    }

    /// The leaf at `address`, to be READ into node image `i`.
    fn leaf_target(&self, address: Address, i: usize) -> Target {
        Target { address, image: self.tree().leaf_image(i), label: Label::Leaf }
    }

    /// What a pointer to a leaf promises.
    fn leaf_wanted(&self, address: Address) -> Wanted {
        Wanted { address, index: self.tree().index, level: 0 }
    }

    /// Closes the batch that the lane leads. The leaf is locked and what was READ of it is whole: what is decided now
    /// is true until the WRITE, which takes the value that joined last.
    #[inline]
    fn seal_write(&self, lane: &Lane<'_>, arguments: &mut Arguments<'_>) {
        self.tree().batches.seal(lane, |value| {
            // Both as long as values are.
            for (to, from) in arguments.value_mut().iter_mut().zip(value) {
                *to = *from;
            }
        });
    }

    /// Gives an empty tree its first leaf. Of several lanes that try, one wins; the others' leaves return to the free
    /// list.
    async fn plant(&self, lane: &Lane<'_>) -> Result<(), Interrupt> {
        if !self.tree().reserve(lane, NodeClass::Leaf, 1, NodeId(0)).await? {
            return Err(Interrupt::NoMemory);
        }
        let Some(fresh) = lane.take_to_link(NodeClass::Leaf, self.router().home()) else {
            return Err(Interrupt::NoMemory);
        };
        let target = self.tree().leaf_image(1);
        let port = lane.port();
        port.with(|scratch| {
            let image = target.of_mut(scratch);
            let header = Header {
                generation: fresh.address.generation(),
                level: 0,
                index: self.tree().index,
                flags: NodeFlags::empty(),
                count: 0,
                sibling: Address::NULL,
            };
            node::start(image, &header, &[0; KEY_BYTES_MAX][..self.plan().key_bytes], None);
            self.tree().owner_tag().write(image);
            stripes::set_node_version(image, fresh.version.wrapping_add(1));
            self.seal(image);
        });
        let address = fresh.address;
        port.call(target.write_to(Label::Root, address)).await?;
        let is_first = self.router().plant(lane, address).await?;
        lane.is_through(fresh);
        if !is_first {
            self.tree().give_back_again(lane, NodeClass::Leaf, fresh.after_write());
        }
        Ok(())
    }

    /// Finishes a half-split that the operation met. The operation's own result stands, whatever comes of it.
    async fn help(&self, lane: &Lane<'_>, help: Option<(u8, Address)>) {
        let tree = self.tree();
        let Some((level, right)) = help else { return };
        if lane.must_settle() {
            // A request of the operation's last part failed. If it left a lock, asking for more locks might ask for
            // that one: the lane would queue behind itself.
            return;
        }
        lane.mark(Mark::HELPED_SPLIT);
        lane.port().with(|scratch| {
            let from = tree.scratch.help.clone();
            let to = tree.scratch.separator.start;
            if from.end <= scratch.len() && to + from.len() <= scratch.len() {
                scratch.copy_within(from, to);
            }
        });
        lane.end_change(self.router().link(lane, level, right).await);
    }

    /// Descends to the leaf that covers the key, READs it into node image 0 and looks at it: `look` gets the image, the
    /// key, and the scratch range `out` to write to. `None`: the tree has no root.
    async fn visit<R>(
        &self,
        lane: &Lane<'_>,
        key_range: &Range<usize>,
        mut look: impl FnMut(&[u8], &[u8], &mut [u8]) -> Result<R, DecodeError>,
        out: &Range<usize>,
    ) -> Result<Option<Visit<R>>, Interrupt> {
        let mut cached = true;
        let mut attempts = 0;
        loop {
            let Some(mut cursor) = seek!(self.router(), lane, key_range, cached) else { return Ok(None) };
            cursor.begins_again(attempts);
            if let Some(visit) = self.visit_at(lane, &mut cursor, key_range, &mut look, out).await? {
                return Ok(Some(visit));
            }
            lane.mark(if cached { Mark::STALE_CACHE } else { Mark::RESTART });
            self.router().forget_root(lane);
            cached = false;
            lane.attempt(&mut attempts, "finding the leaf of a key")?;
        }
    }

    /// As [`Leaves::visit`], from a descent cursor. `None`: that does not lead to the leaf.
    async fn visit_at<R>(
        &self,
        lane: &Lane<'_>,
        cursor: &mut <Self::Router as Router>::Cursor,
        key_range: &Range<usize>,
        mut look: impl FnMut(&[u8], &[u8], &mut [u8]) -> Result<R, DecodeError>,
        out: &Range<usize>,
    ) -> Result<Option<Visit<R>>, Interrupt> {
        for _ in 0..MOVES_MAX {
            let address = cursor.leaf();
            // A member that joins from here on must not be told what this READ samples.
            self.tree().batches.seal(lane, |_| ());
            let wanted = self.leaf_wanted(address);
            let target = self.leaf_target(address, 0);
            let mut look = |scratch: &mut [u8]| {
                // Arguments and results lie in front of the node images.
                let Some((front, image)) = target.image.split(scratch) else {
                    return Err(DecodeError::Corrupt("scratch shorter than planned"));
                };
                let mut room = [0; KEY_BYTES_MAX];
                let key = key_of(front, key_range, &mut room);
                judge_leaf(image, &wanted, key, |image| {
                    look(image, key, front.get_mut(out.clone()).unwrap_or_default())
                })
            };
            let seen = match read_unlocked!(self.tree(), lane, target, &mut look) {
                Ok(seen) => seen,
                Err(Unsure) => self.read_leaf_locked(lane, target, &mut look).await?,
            };
            match seen {
                Some(Ok(seen)) => return Ok(Some(Visit { seen, help: cursor.help() })),
                Some(Err(fence_check)) => {
                    let from = cursor.from();
                    if !self.router().learn(lane, cursor, fence_check, target.image) {
                        break;
                    }
                    if cursor.is_sent_back_too_often() {
                        self.mend_forwarding(lane, from, address).await?;
                    }
                }
                None => {
                    self.router().forget(lane, cursor);
                    break;
                }
            }
        }
        Ok(None)
    }
}

/// Copies the key at `range` to the stack, so that the scratch can be borrowed for something else.
#[inline]
pub(crate) fn key_of<'k>(scratch: &[u8], range: &Range<usize>, room: &'k mut [u8; KEY_BYTES_MAX]) -> &'k [u8] {
    let bytes = scratch.get(range.start..range.end);
    if let Some(Ok(bytes)) = bytes.map(<[u8; 8]>::try_from) {
        // The common case, without a call of memcpy.
        let (key, _) = room.split_at_mut(8);
        key.copy_from_slice(&bytes);
        return key;
    }
    let Some(key) = room.get_mut(..range.len()) else { return &[] };
    match bytes {
        Some(bytes) => key.copy_from_slice(bytes),
        None => key.fill(0),
    }
    key
}

/// Judges a leaf image and, if it is the right leaf, looks at it.
#[inline]
pub(crate) fn judge_leaf<R>(
    image: &[u8],
    wanted: &Wanted,
    key: &[u8],
    look: impl FnOnce(&[u8]) -> Result<R, DecodeError>,
) -> Result<Result<R, FenceCheck>, DecodeError> {
    match node::judge(image, wanted, key)? {
        FenceCheck::Here => look(image).map(Ok),
        elsewhere => Ok(Err(elsewhere)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::LockRecord;

    /// Looks after holders of locks of these numbers, until it is to end.
    fn looks_until_the_end(mut lock: impl FnMut(u32) -> u32) -> u32 {
        let mut looks = Looks::default();
        (0..=LOOKS_IN_ALL_MAX)
            .find(|look| {
                let lock = LockId { node: NodeId(0), index: lock(*look) };
                looks.again(Interrupt::Unresponsive(LockRecord::queued(lock, Address::NULL))).is_err()
            })
            .unwrap_or_default()
    }

    #[test]
    fn one_holder_and_all_together_are_looked_after_so_many_times() {
        assert_eq!(looks_until_the_end(|_| 1), LOOKS_MAX);
        assert_eq!(looks_until_the_end(|look| look), LOOKS_IN_ALL_MAX);
        assert_eq!(looks_until_the_end(|look| look / LOOKS_MAX), LOOKS_IN_ALL_MAX);
    }
}
