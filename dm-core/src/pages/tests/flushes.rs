//! flushes
