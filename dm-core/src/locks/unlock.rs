//! How the word of a held lock is freed: by CAS, or, where the fabric grants what that takes, by WRITE.
//!
//! A CAS costs a NIC an atomic, which is dearer than a WRITE and waits for other atomics of the same word. The CAS frees a word
//! only if the word is still the holder's. A WRITE looks at nothing, so nobody else may have changed the word, and no other
//! request may lose the WRITE. Why that holds, and what each [`Unlock`] needs: [`unlocks`](crate::manual::unlocks).

use crate::verbs::{Assumptions, Guarantees};

/// How held locks are freed. Each is more than the one before, and needs more of the fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unlock {
    /// By a CAS of the whole word.
    Cas,
    /// By a WRITE of the word, behind the WRITEs of the data.
    Write,
    /// By the WRITE of the data, if that and the word are in one line; otherwise as [`Unlock::Write`].
    WithLine,
    /// By the WRITE of the data also if the word is in a later line; as far as the index has the word behind the data (SMART).
    #[default]
    WithLines,
}

impl Unlock {
    /// All, from the one that needs least.
    pub const ALL: [Self; 4] = [Self::Cas, Self::Write, Self::WithLine, Self::WithLines];

    /// Name for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cas => "CAS",
            Self::Write => "WRITE",
            Self::WithLine => "WRITE, with the data of its line",
            Self::WithLines => "WRITE, with the data before it",
        }
    }

    /// What the fabric has to guarantee.
    pub const fn needs(self) -> Assumptions {
        let write = Assumptions::FAILED_CAS_IS_SILENT.union(Assumptions::ATOMIC_EXCLUDES_WRITE);
        match self {
            Self::Cas => Assumptions::empty(),
            Self::Write => write,
            Self::WithLine => write.union(Assumptions::LINE_ATOMIC),
            Self::WithLines => write.union(Assumptions::LINE_ATOMIC).union(Assumptions::WRITE_ASCENDING),
        }
    }

    /// This one, or what comes next to it of those for which the fabric grants what they need.
    #[must_use]
    pub fn granted(self, guarantees: &Guarantees) -> Self {
        let can = |unlock: &Self| *unlock <= self && guarantees.missing(unlock.needs()).is_empty();
        Self::ALL.into_iter().rev().find(can).unwrap_or(Self::Cas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fabric_gets_no_more_than_it_grants() {
        let grants = |by_construction| Guarantees { by_construction, asserted: Assumptions::empty(), profile: "" };
        let all = Assumptions::all();
        for (missing, best) in [
            (Assumptions::empty(), Unlock::WithLines),
            (Assumptions::WRITE_ASCENDING, Unlock::WithLine),
            (Assumptions::LINE_ATOMIC, Unlock::Write),
            (Assumptions::ATOMIC_EXCLUDES_WRITE, Unlock::Cas),
            (Assumptions::FAILED_CAS_IS_SILENT, Unlock::Cas),
            (all, Unlock::Cas),
        ] {
            let granted = grants(all.difference(missing));
            assert_eq!(Unlock::default().granted(&granted), best, "{missing:?}");
            for asked in Unlock::ALL {
                assert_eq!(asked.granted(&granted), asked.min(best), "{missing:?}");
            }
        }
    }
}
