//! Binds dm-core's verb requests to memory.

pub mod assembly;
