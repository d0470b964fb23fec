//! What the caller decides about histories.

use super::faults::Faults;
use super::wide::{WideOption, WideOptions};
use crate::rng::Rng;
use dm_core::verbs::Assumptions;

/// What the caller decides about histories; seeds draw within. Ranges are inclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Compute nodes, at least 1.
    pub compute_nodes: (u32, u32),
    /// Lanes of all compute nodes together; every compute node has at least one.
    pub lanes: (u32, u32),
    /// Operations of a history.
    pub operations: (u32, u32),
    /// Keys of a history.
    pub keys: (u32, u32),
    /// Memory nodes, up to 8.
    pub memory_nodes: (u32, u32),
    /// Faults that some of the histories have.
    pub faults: Faults,
    /// Whether the fabric has masked CAS; `None`: some do.
    pub masked_cas: Option<bool>,
    /// What all histories are about; `None`: each draws its own.
    pub profile: Option<Profile>,
    /// Guarantees that the fabric says it grants and does not.
    pub withdrawn: Assumptions,
    /// Options that some of the histories have.
    pub wide: WideOptions,
    /// Options that all histories have, since the index is of no use without them.
    pub always: WideOptions,
    /// Bytes of memory nodes change while operations run, though nobody wrote them. Then nothing is judged but that
    /// everything ends.
    pub damage: bool,
}

impl Default for Settings {
    /// Few keys and lanes, so that operations meet.
    fn default() -> Self {
        Self {
            compute_nodes: (2, 4),
            lanes: (3, 8),
            operations: (60, 120),
            keys: (2, 64),
            memory_nodes: (1, 3),
            faults: Faults::NONE,
            masked_cas: None,
            profile: None,
            withdrawn: Assumptions::empty(),
            wide: WideOptions::NONE,
            always: WideOptions::NONE,
            damage: false,
        }
    }
}

impl Settings {
    /// The settings of the history of `seed` that has the options `wide`.
    pub(super) fn widened(&self, wide: WideOptions, seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5eed_000d);
        let mut settings = self.clone();
        if wide.has(WideOption::MemoryNodes) {
            settings.memory_nodes = (4, 8);
        }
        if wide.has(WideOption::ComputeNodes) {
            settings.compute_nodes = (5, 12);
        }
        if wide.has(WideOption::Lanes) {
            settings.lanes = (9, 24);
        }
        if wide.has(WideOption::LongHistory) {
            settings.operations = (1000, 2000);
        }
        if wide.has(WideOption::WideLeaves) {
            settings.keys = (90 + rng.below(100), 300);
            // Others have few keys.
            let profile = [Profile::Mixed, Profile::Mixed, Profile::Growth][rng.below(3) as usize];
            settings.profile = settings.profile.or(Some(profile));
        }
        settings
    }
}

/// The focus of a history. Most have none; some are made for events that need many things to coincide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Anything.
    Mixed,
    /// The last compute node only reads, and its requests take long. All others overwrite one or two keys, so often
    /// that version counters wrap around during a READ.
    Wraparound,
    /// The last compute node only reads, and its requests take long, but not so long that the exposure check notices.
    /// All others insert and delete, so that a READ covers several generations of an entry or a node.
    SlowReaders,
    /// Hardly more keys than a leaf holds are inserted and deleted: splits, merges, and nodes that are reused at once.
    Churn,
    /// The first compute node inserts and deletes, so that it reuses nodes, and its WRITEs take long. The others
    /// overwrite and read, often with old pointers. So they reach nodes during the first WRITE of the next generation.
    Reuse,
    /// Keys are only inserted: splits on many levels at a time.
    Growth,
    /// The first compute node fills and empties leaves, so that it reuses nodes. The last one only reads, and so rarely
    /// that its copies of inner nodes are often old. Never drawn: other profiles have some of it.
    OldRoutes,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 7] =
        [Self::Mixed, Self::Wraparound, Self::SlowReaders, Self::Churn, Self::Reuse, Self::Growth, Self::OldRoutes];

    /// Its name on command lines and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Wraparound => "wraparound",
            Self::SlowReaders => "slow-readers",
            Self::Churn => "churn",
            Self::Reuse => "reuse",
            Self::Growth => "growth",
            Self::OldRoutes => "old-routes",
        }
    }

    /// The profile of that name. The error names those there are.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|profile| profile.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name);
            format!("there is no profile \"{name}\"; there are {}", known.join(", "))
        })
    }
}
