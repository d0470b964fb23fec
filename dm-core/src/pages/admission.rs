//! Admission: which missing pages get a frame (DEX section 5.4).
//!
//! Most pages are needed once. A page that is not admitted displaces nothing; the operation READs it and works on its
//! own copy. A page that is needed often comes again, and each time it has the same chance. Until every frame has had a
//! page, all are admitted.

use super::PageStore;
use crate::lane::Lane;

/// The share of missing pages that get a frame, once every frame has had a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission(u16);

impl Admission {
    const PARTS: u16 = 10_000;

    /// Every page gets a frame.
    pub const EAGER: Self = Self(Self::PARTS);

    /// The published share for leaves: one in ten.
    pub const PUBLISHED: Self = Self::per_10_000(1_000);

    /// So many of 10,000 pages; at most all of them.
    pub const fn per_10_000(pages: u16) -> Self {
        Self(if pages > Self::PARTS { Self::PARTS } else { pages })
    }

    /// Whether a page is admitted, by a number that is evenly spread over all 32-bit numbers.
    #[inline]
    pub const fn admits(self, drawn: u32) -> bool {
        (drawn as u64 * Self::PARTS as u64) >> 32 < self.0 as u64
    }
}

/// What the caller of [`PageStore::find`] wants for a missing page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// The page gets a frame if the draw says so and a frame is to be had.
    ByChance,
    /// The page needs a frame: for a split or a merge.
    Always,
    /// The page gets no frame.
    Never,
}

impl PageStore<'_> {
    pub(super) fn admits(&self, lane: &Lane<'_>, admit: Admit) -> bool {
        match admit {
            Admit::Always => true,
            Admit::Never => false,
            Admit::ByChance => !self.is_full() || self.shape.admission.admits(lane.next_turn()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::LaneId;

    #[test]
    fn the_share_of_admitted_pages_is_as_asked_for() {
        for (per_10_000, id) in [(0, 0), (1_000, 1), (2_500, 2), (10_000, 3), (20_000, 4)] {
            let admission = Admission::per_10_000(per_10_000);
            let lane = Lane::new(LaneId(id), &mut []);
            let admitted = (0..10_000).filter(|_| admission.admits(lane.next_turn())).count() as u16;
            let expected = per_10_000.min(10_000);
            assert!(admitted.abs_diff(expected) <= 200, "{admitted} of 10000 where {expected} were asked for");
            assert!(admitted == expected || (1..10_000).contains(&expected));
        }
        assert_eq!(Admission::PUBLISHED, Admission::per_10_000(1_000));
        assert!(Admission::EAGER.admits(u32::MAX) && Admission::EAGER.admits(0));
    }
}
