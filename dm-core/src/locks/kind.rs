//! What an index says of its locks: where the word of a lock lies, which CAS takes it, what the word carries while
//! nobody holds the lock, and what is READ behind the CAS.

use super::chained::ChainedRead;
use super::table::LockTable;
use super::unlock::Unlock;
use crate::lane::{Lane, LockRecord};
use crate::membership::Recovery;
use crate::operation::OpError;
use crate::remote::address::Address;
use crate::remote::lock_word::{LockId, LockWord, RowId};
use crate::verbs::{Label, NodeId, Request, Space};

/// A lock that a lane holds, or has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The lock.
    pub lock: LockId,
    /// The node that the lane wants to write.
    pub protects: Address,
    /// The remote word while this lane holds the lock.
    pub word: u64,
    /// What the word says while nobody holds the lock: until the lock is held, what the lane expects; then what the CAS
    /// found; and at the release, what the unlock writes.
    pub free: u64,
}

impl Held {
    /// The same lock, whose word shall say `free` when it is released.
    pub(crate) const fn freed_as(self, free: u64) -> Self {
        Self { free, ..self }
    }
}

/// Techniques of Sherman that can be turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Techniques {
    /// Lanes queue locally before they send a CAS.
    pub hierarchical: bool,
    /// The unlock follows the WRITEs in their chain.
    pub combine: bool,
    /// A lane whose CAS lost pauses before the next one.
    pub back_off: bool,
    /// How a word is freed.
    pub unlock: Unlock,
    /// When a READ follows the CAS.
    pub chained: ChainedRead,
}

/// What an index says of one kind of its locks. [`Locks`](super::protocol::Locks) does the rest.
pub(crate) trait LockKind {
    /// Whether the words lie in the nodes that they protect, and not in tables of the memory nodes.
    const IN_NODES: bool;

    /// What can be READ behind the CAS of a lock, in its chain.
    type Follow: Copy;

    /// Whether that is READ behind every CAS, whatever was seen of the lock.
    const FOLLOWS: bool = false;

    /// The local queues.
    fn queues(&self) -> &LockTable<'_>;

    /// Which techniques are on.
    fn techniques(&self) -> Techniques;

    /// `None`: the index was opened without recovery.
    fn recovery(&self) -> Option<&Recovery<'_>>;

    /// This compute node's row.
    fn row(&self) -> RowId;

    /// Where in the scratch a lock word may be READ to.
    fn scratch_at(&self) -> usize;

    /// The lock of the node at `address`. An address that cannot be such a node's is refused: no CAS may go there.
    fn lock_of(&self, address: Address) -> Result<LockId, OpError>;

    /// Where the word of `lock` is, which the lane wants for the node at `protects`.
    fn word_place(&self, lock: LockId, protects: Address) -> (NodeId, u64, Space);

    /// Tells nodes that share a local entry apart.
    fn tag(&self, node: Address) -> u32;

    /// Pushes what is READ of the locked node behind its CAS.
    fn push_follow(&self, lane: &Lane<'_>, held: &Held, follow: Self::Follow);

    /// Repeats the WRITE under the lock of `lock_record` that this lane's own queue pair may have cut short.
    async fn replay_own(&self, lane: &Lane<'_>, lock_record: &LockRecord) -> Result<(), OpError>;

    /// A CAS of the whole word of a lock.
    fn word_request(&self, label: Label, (lock, protects): (LockId, Address), compare: u64, swap: u64) -> Request {
        let (node, offset, space) = self.word_place(lock, protects);
        Request::cas(label, node, offset, compare, swap).in_space(space)
    }

    /// The CAS that takes a lock which nobody holds and whose word says `held.free`.
    #[inline]
    fn take_request(&self, held: &Held) -> Request {
        self.word_request(Label::Lock, (held.lock, held.protects), held.free, held.word)
    }

    /// Makes the request that was pushed last free the word, too, if it is a WRITE of data in front of the word, and `how` has
    /// that. Its position, or `None`: the word takes a request of its own.
    #[inline]
    fn extend_to_word(&self, _lane: &Lane<'_>, _held: &Held, _how: Unlock) -> Option<usize> {
        None
    }

    /// Whether somebody holds a lock whose word is `found`.
    #[inline]
    fn is_held(found: u64) -> bool {
        found != 0
    }

    /// Whether the CAS of [`LockKind::take_request`] succeeds whatever a free word says.
    #[inline]
    fn takes_any_free_word(&self) -> bool {
        false
    }

    /// The form that the word of an acquisition has here. `None`: the sequence has no room in it.
    fn formed(word: LockWord) -> Option<LockWord> {
        Some(word)
    }

    /// The table that counts sequences for all locks of the index, without recovery.
    fn sequences(&self) -> &LockTable<'_> {
        self.queues()
    }

    /// What a CAS of the lock should expect.
    #[inline]
    fn expected(&self, _lock: LockId, _protects: Address) -> u64 {
        0
    }

    /// What the word of a lock that was handed over says when it is free.
    fn handed_free(&self, _lock: LockId, _protects: Address) -> u64 {
        0
    }

    /// Remembers what the word says when it is free: before a handover, or of a lock that has been `unlocked`.
    #[inline]
    fn remember(&self, _held: &Held, _unlocked: bool) {}

    /// What the word has to say when it is free. That may take a READ of the node it lies in, which nobody is writing.
    async fn free_word(&self, _lane: &Lane<'_>, _protects: Address) -> Result<u64, OpError> {
        Ok(0)
    }
}
