//! Mutants: bugs that can be planted in locks.

crate::mutants::declare_mutants! {
    28;
    /// A lock whose CAS lost is taken for held.
    LOST_CAS_WINS = "lost-cas-wins",
    /// A waiter that is cancelled stays in the queue, and the lock is handed to it.
    HAND_TO_CANCELLED = "hand-to-cancelled",
    /// The unlock is sent although the lock is handed over.
    HAND_OVER_UNLOCKS = "hand-over-unlocks",
    /// Unlock is posted before the WRITE of the data.
    UNLOCK_FIRST = "unlock-first",
    /// Unlock is a WRITE where the fabric does not grant what that takes: a CAS that lost may restore the held word.
    UNLOCK_BY_WRITE = "unlock-by-write",
    /// Settling frees whatever lock word it finds.
    SETTLE_FREES_STRANGER = "settle-frees-stranger",
    /// Settling forgets a lock that it holds.
    SETTLE_FORGETS = "settle-forgets",
}
