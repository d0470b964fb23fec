//! Whether the READ of what a lock protects follows the lock's CAS in its chain: one round trip less if the CAS wins, one READ for
//! nothing if it loses.

/// When a READ follows the CAS of a lock in its chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChainedRead {
    /// Never: READs are posted when the lock is held.
    Never,
    /// Where few CASes lose, as far as this compute node has seen of each lock
    /// ([`LockTable::is_quiet`](super::table::LockTable::is_quiet)). Needs ATOMIC_THEN_READ.
    #[default]
    WhereQuiet,
    /// With every CAS. Needs ATOMIC_THEN_READ.
    Always,
}
