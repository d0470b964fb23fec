//! eviction
