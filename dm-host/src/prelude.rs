//! The names that most programs need: `use dm_host::prelude::*;`

pub use crate::fabric::shm::ShmOptions;
pub use crate::pool::{EmbeddedOptions, Pool, PoolError};
pub use crate::session::{
    Call, Calls, Delete, DeleteIf, IndexOptions, Insert, Key, LoadError, Local, LocalTable, OpenError, Page, Range,
    Scan, Session, SessionError, SessionOptions, SharedRow, Table, Update, UpdateIf, Upsert, Value,
};
pub use dm_core::operation::Effect;
pub use dm_core::remote::catalog::IndexKind;
