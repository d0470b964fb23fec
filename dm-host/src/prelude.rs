//! The names that most programs need: `use dm_host::prelude::*;`

pub use crate::pool::{EmbeddedOptions, Pool, PoolError};
pub use crate::session::{
    Call, Calls, Delete, DeleteIf, Insert, OpenError, Page, Scan, Session, SessionError, SessionOptions, Update,
    UpdateIf, Upsert,
};
pub use dm_core::operation::Effect;
pub use dm_core::remote::catalog::IndexKind;
