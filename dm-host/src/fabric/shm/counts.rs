//! Counters: what a worker asked of the memory nodes.

use dm_core::verbs::{Label, Request, Verb};

/// Verbs that travel to a memory node, 1-based as numbered by [`Verb`].
const VERBS: usize = 7;

/// What a fabric executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerbCounts {
    /// Requests for memory nodes.
    pub requests: u64,
    /// Submits with at least one of them.
    pub round_trips: u64,
    /// Payload of READs, in bytes.
    pub bytes_read: u64,
    /// Payload of WRITEs, in bytes.
    pub bytes_written: u64,
    /// CAS, masked CAS and fetch-and-add.
    pub atomics: u64,
}

/// [`VerbCounts`] and the same requests by label and verb.
#[derive(Clone, Debug)]
pub struct Counters {
    total: VerbCounts,
    steps: [[u64; VERBS]; Label::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Self { total: VerbCounts::default(), steps: [[0; VERBS]; Label::ALL.len()] }
    }
}

impl Counters {
    #[inline]
    pub(super) fn count(&mut self, request: &Request) {
        self.total.requests += 1;
        match request.verb {
            Verb::Read => self.total.bytes_read += u64::from(request.bytes),
            Verb::Write => self.total.bytes_written += u64::from(request.bytes),
            Verb::Cas | Verb::MaskedCas | Verb::FetchAdd => self.total.atomics += 1,
            _ => {}
        }
        if let Some(count) = self.steps[request.label as usize].get_mut(request.verb as usize) {
            *count += 1;
        }
    }

    #[inline]
    pub(super) fn count_round_trip(&mut self) {
        self.total.round_trips += 1;
    }

    /// All together.
    pub fn total(&self) -> VerbCounts {
        self.total
    }

    /// Requests of `verb` with `label`.
    pub fn step(&self, label: Label, verb: Verb) -> u64 {
        self.steps[label as usize].get(verb as usize).copied().unwrap_or(0)
    }

    /// Every (label, verb) that occurred, with its count, in the order of [`Label::ALL`].
    pub fn steps(&self) -> impl Iterator<Item = (Label, Verb, u64)> {
        const TRAVELLING: [Verb; 6] = [Verb::Read, Verb::Write, Verb::Cas, Verb::MaskedCas, Verb::FetchAdd, Verb::Rpc];
        Label::ALL
            .iter()
            .flat_map(|&label| TRAVELLING.map(|verb| (label, verb, self.step(label, verb))))
            .filter(|&(.., count)| count > 0)
    }
}
