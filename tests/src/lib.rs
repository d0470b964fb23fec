//! One conformance suite over any index and any fabric.

pub mod pool;
