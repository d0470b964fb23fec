//! Bytes of memory nodes that change though nobody wrote them, while operations run: a history with
//! [`Settings::damage`](super::Settings).
//!
//! No index promises right answers then: an entry has no checksum in most of them, so a changed value is a value. Judged
//! is that everything ends. No operation panics, none goes on far beyond its deadline, the driver comes to rest, and in the end
//! a walk and a scan of everything end, each with a result or an error.

use crate::memory::{Memories, Memory};
use crate::rng::Rng;
use dm_core::verbs::{NodeId, Space};

/// Changes of a history, at most.
const STRIKES_MAX: u32 = 8;

/// Changes happen before this step of the driver.
const STEPS: u32 = 3000;

/// Places that are tried until one is found that is in use.
const TRIES: u32 = 200;

/// By how much an operation may take longer than its deadline allows. A lane that holds a lock READs a torn node again until
/// a WRITE must have landed, whatever its deadline: that is 10 ms of virtual time and more. It may meet a few such nodes.
pub(super) const LATE_NS: u64 = 50_000_000;

/// The changes of one history.
#[derive(Clone, Debug)]
pub(super) struct Damage {
    rng: Rng,
    /// Steps before which they happen, the last one first.
    steps: Vec<u64>,
}

impl Damage {
    /// Those that the seed draws.
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5eed_0020);
        let mut steps: Vec<u64> = (0..=rng.below(STRIKES_MAX)).map(|_| u64::from(rng.below(STEPS))).collect();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        Self { rng, steps }
    }

    /// How long an operation may take: the history waits for a lock that damage holds until then.
    pub(super) fn deadline_ns(seed: u64) -> u64 {
        200_000 << Rng::new(seed ^ 0x5eed_0021).below(5)
    }

    /// Carries out what is due before `step`.
    pub(super) fn strike(&mut self, step: u64, memories: &mut Memories) {
        while self.steps.pop_if(|due| *due <= step).is_some() {
            let node = NodeId(self.rng.below(memories.count() as u32) as u16);
            let Some(node) = memories.get_mut(node) else { continue };
            let in_device = !node.device.bytes().is_empty() && self.rng.percent(10);
            self.change(node.space_mut(if in_device { Space::Device } else { Space::Host }));
        }
    }

    /// A word that is in use, mostly; `None`: none was found.
    fn word(&mut self, memory: &Memory) -> Option<usize> {
        let words = memory.bytes().len() as u32 / 8;
        let mut tries = (0..TRIES).map(|_| self.rng.below(words.max(1)) as usize * 8);
        tries.find(|at| memory.bytes()[*at..].first_chunk::<8>().is_some_and(|word| *word != [0; 8]))
    }

    fn change(&mut self, memory: &mut Memory) {
        let (Some(at), Some(from)) = (self.word(memory), self.word(memory)) else { return };
        let line = (from & !63)..(from & !63) + 64;
        let here = at & !63;
        match self.rng.below(8) {
            0 | 1 => memory.range_mut(at..at + 1)[0] ^= 1 << self.rng.below(8),
            2 => memory.range_mut(at..at + 1)[0] = self.rng.bits() as u8,
            3 => memory.set_word(at as u64, self.rng.bits()),
            4 => memory.range_mut(at..at + 8).fill(if self.rng.percent(50) { 0 } else { 0xff }),
            // As a WRITE to a wrong place would: a pointer of another node, or a whole line.
            5 | 6 => {
                let word = memory.word(from as u64);
                memory.set_word(at as u64, word);
            }
            _ => {
                let line = memory.bytes()[line].to_vec();
                memory.range_mut(here..here + 64).copy_from_slice(&line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn struck(seed: u64) -> (Memories, Memories) {
        let mut before = Memories::new(&[8192, 4096], 0);
        for node in [NodeId(0), NodeId(1)] {
            let Some(node) = before.get_mut(node) else { panic!("two memory nodes") };
            (0..256).for_each(|word| node.host.set_word(word * 8, 0x0101_0101_0101_0101 + word));
        }
        let mut after = before.clone();
        Damage::new(seed).strike(u64::MAX, &mut after);
        (before, after)
    }

    fn bytes(memories: &Memories) -> Vec<&[u8]> {
        [NodeId(0), NodeId(1)].iter().filter_map(|node| memories.get(*node)).map(|node| node.host.bytes()).collect()
    }

    #[test]
    fn a_seed_changes_what_is_in_use_in_one_way() {
        let mut changed = 0;
        for seed in 0..50 {
            let ((before, after), (_, again)) = (struck(seed), struck(seed));
            assert_eq!(bytes(&after), bytes(&again));
            let (before, after) = (bytes(&before), bytes(&after));
            changed += u32::from(before != after);
            for (before, after) in before.iter().zip(&after) {
                assert_eq!(before[2048..], after[2048..], "nothing is there");
            }
        }
        assert!(changed > 45, "{changed}");
    }
}
