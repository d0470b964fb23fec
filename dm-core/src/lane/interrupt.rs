//! Why an attempt at an operation ended without an outcome.

use crate::error::VerbError;
use crate::lane::LockRecord;
use crate::operation::{Cause, OpError};

/// Why an attempt at an operation ended without an outcome. The runner of [`crate::index`] knows what to do about each
/// of these before it tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The operation failed, and its caller is told.
    Failed(OpError),
    /// The holder of a lock that the operation needs does not respond. Nothing was changed. The lane keeps the local
    /// entry of that lock until it has looked after the holder, or is settled. The lock record says which lock it is.
    Unresponsive(LockRecord),
    /// No memory node has room for what the operation needs. Nothing was changed.
    NoMemory,
    /// The tenure under which the operation ran has ended, and this compute node still owns the key. Nothing was changed.
    TenureEnded,
}

impl Interrupt {
    /// The caller's error, if nothing can be done about the interrupt, or no other attempt follows.
    #[cold]
    pub(crate) const fn into_error(self) -> OpError {
        match self {
            Self::Failed(error) => error,
            Self::Unresponsive(_) => {
                OpError::harmless(Cause::Retries { attempts: 0, what: "waiting for an unresponsive holder" })
            }
            Self::NoMemory => OpError::harmless(Cause::PoolFull),
            Self::TenureEnded => OpError::harmless(Cause::Retries { attempts: 0, what: "renewing a tenure" }),
        }
    }
}

impl From<OpError> for Interrupt {
    fn from(error: OpError) -> Self {
        Self::Failed(error)
    }
}

impl From<VerbError> for Interrupt {
    fn from(error: VerbError) -> Self {
        Self::Failed(error.into())
    }
}
