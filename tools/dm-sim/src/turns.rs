//! A check on the writers: does the time between two WRITEs to one place keep what `write_turn_ns_min` says?
//!
//! The fabric makes it true for writers of which each waits for the completion of the WRITE before
//! ([`crate::config::Config::write_turn_ns_min`]). An algorithm that does not wait (two WRITEs to one place in a chain,
//! a handover before the completion) takes the ground from under timed READs without any test noticing.

use dm_core::verbs::{Request, Space};
use std::collections::HashMap;
use std::ops::Range;

/// When each byte was last written, by words that were written at all.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    last_ns: HashMap<(u16, Space, u64), [Option<u64>; 8]>,
}

impl Turns {
    /// Notes that bytes `remote` of the request's memory were written; says whether one of them was written before,
    /// less than `turn_ns` ago.
    pub(crate) fn too_soon(&mut self, request: &Request, remote: Range<u64>, now_ns: u64, turn_ns: u64) -> bool {
        let mut soon = false;
        for byte in remote {
            let word = self.last_ns.entry((request.node.0, request.space, byte / 8)).or_default();
            let last_ns = word[byte as usize % 8].replace(now_ns);
            soon |= last_ns.is_some_and(|last_ns| now_ns - last_ns < turn_ns);
        }
        soon
    }

    pub(crate) fn clear(&mut self) {
        self.last_ns.clear();
    }
}
