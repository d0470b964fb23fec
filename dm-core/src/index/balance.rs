//! Which parts of the keys should move, so that compute nodes have about the same load: a plan, step by step.
//!
//! ```text
//!  row 1  ██████████ ▄▄▄▄ ▄▄ ▄       the row with the greatest load gives
//!  row 2  ▄▄▄▄                         the part after which the greater of both loads is least:  ▄▄▄▄
//!  row 3  ▄▄                  ◄─────── to the row with the least load
//! ```
//!
//! Only whole parts move, each at most once, so a part with more load than all others stays alone with a row. If the row with the
//! greatest load has no part that helps, the next one may have. A move has to lower the greater of both loads by 5 % at least:
//! loads are measured, and a part that moves has to be written back and read again.
//!
//! A part that nobody has counted, or that is idle, weighs one operation per second, so that such parts are divided by
//! number. If all are so, the plan evens numbers of parts, but for one ([`Balance::is_by_number`]).
//!
//! Nothing is allocated. The caller has room for the parts and the rows.

use crate::remote::lock_word::RowId;
use crate::remote::owners::{LoadWord, Owner, OwnerWord};

/// A move has to lower a load by one part in so many.
const NOTICEABLE: u64 = 20;

/// A part of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The compute-node row that has it, or is to have it; 0: nobody.
    row: RowId,
    load: u64,
    /// It stays where it is.
    stays: bool,
}

impl Part {
    /// The part whose entry of the ownership table says this.
    pub fn new(word: OwnerWord, load: LoadWord) -> Self {
        let (row, stays) = match word.owner() {
            Ok(Owner::Owned(row) | Owner::Kept(row)) => (row, false),
            Ok(Owner::Draining { receiver, .. }) => (receiver, true),
            Ok(Owner::Free | Owner::Recovering { .. }) | Err(_) => (RowId(0), true),
        };
        Self { row, load: load.of(word).unwrap_or_default().into(), stays }
    }

    /// The compute-node row that has it, or is to have it; 0: nobody, or nobody yet.
    pub const fn row(&self) -> RowId {
        self.row
    }
}

/// What a compute node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLoad {
    /// Its row.
    pub row: RowId,
    /// Operations per second that come for its parts.
    pub load: u64,
    /// Its parts.
    pub parts: u32,
    /// `load`, with at least one for each part.
    weight: u64,
}

impl RowLoad {
    /// A row that can have parts.
    pub const fn new(row: RowId) -> Self {
        Self { row, load: 0, parts: 0, weight: 0 }
    }
}

/// A part that should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its number, in the order of keys.
    pub part: u32,
    /// The row that has it.
    pub from: RowId,
    /// The row that should have it.
    pub to: RowId,
}

/// A plan that is being made.
#[derive(Debug)]
pub struct Balance<'a> {
    parts: &'a mut [Part],
    rows: &'a mut [RowLoad],
    by_number: bool,
}

/// A move that is looked at.
struct Candidate {
    part: usize,
    from: usize,
    /// Load of the row that gives, and the greater one of both rows afterwards.
    before: u64,
    after: u64,
}

impl<'a> Balance<'a> {
    /// Begins with `parts`, in the order of keys, and the rows among which they may be divided, each once.
    pub fn new(parts: &'a mut [Part], rows: &'a mut [RowLoad]) -> Self {
        for row in rows.iter_mut() {
            *row = RowLoad::new(row.row);
        }
        let mut by_number = true;
        for part in parts.iter() {
            if let Some(row) = rows.iter_mut().find(|row| row.row == part.row) {
                by_number &= part.load == 0;
                row.add(part);
            }
        }
        Self { parts, rows, by_number }
    }

    /// Whether none of the parts has a load, so that their numbers are evened.
    pub const fn is_by_number(&self) -> bool {
        self.by_number
    }

    /// What each row has, after the moves so far.
    pub fn rows(&self) -> &[RowLoad] {
        self.rows
    }

    /// The next move that helps. It counts as done.
    pub fn next_move(&mut self) -> Option<Move> {
        let to = self.least(None)?;
        self.next_move_to(to)
    }

    /// The next move that helps and is one to the row `to`: its share of the load. It counts as done.
    pub fn next_for(&mut self, to: RowId) -> Option<Move> {
        let to = self.rows.iter().position(|row| row.row == to)?;
        self.next_move_to(to)
    }

    /// The next move of a row that gives all of its parts to others. It counts as done. `None`: it has none, or there is nobody.
    pub fn next_from(&mut self, from: RowId) -> Option<Move> {
        let from = self.rows.iter().position(|row| row.row == from)?;
        let to = self.least(Some(from))?;
        let of = self.rows.get(from)?.row;
        let parts = self.parts.iter().enumerate().filter(|(_, part)| part.row == of && !part.stays);
        let (part, _) = parts.max_by_key(|(_, part)| part.load)?;
        self.done(part, from, to)
    }

    /// The row with the least load, but for `without`.
    fn least(&self, without: Option<usize>) -> Option<usize> {
        let rows = self.rows.iter().enumerate().filter(|(at, _)| Some(*at) != without);
        rows.min_by_key(|(_, row)| row.weight).map(|(at, _)| at)
    }

    fn next_move_to(&mut self, to: usize) -> Option<Move> {
        let receiver = self.rows.get(to)?.weight;
        let mut best: Option<Candidate> = None;
        for (at, part) in self.parts.iter().enumerate().filter(|(_, part)| !part.stays) {
            let Some(from) = self.rows.iter().position(|row| row.row == part.row).filter(|from| *from != to) else {
                continue;
            };
            let before = self.rows.get(from)?.weight;
            let after = before.saturating_sub(part.weight()).max(receiver.saturating_add(part.weight()));
            let noticeable = if self.by_number { 1 } else { (before / NOTICEABLE).max(1) };
            let helps = before.saturating_sub(after) >= noticeable;
            let is_better = |best: &Candidate| (before, best.after) > (best.before, after);
            if helps && best.as_ref().is_none_or(is_better) {
                best = Some(Candidate { part: at, from, before, after });
            }
        }
        let Candidate { part, from, .. } = best?;
        self.done(part, from, to)
    }

    fn done(&mut self, at: usize, from: usize, to: usize) -> Option<Move> {
        let part = self.parts.get_mut(at)?;
        let giver = self.rows.get_mut(from)?;
        giver.take(part);
        let from = giver.row;
        let receiver = self.rows.get_mut(to)?;
        receiver.add(part);
        (part.row, part.stays) = (receiver.row, true);
        Some(Move { part: at as u32, from, to: receiver.row })
    }
}

impl Part {
    fn weight(&self) -> u64 {
        self.load.max(1)
    }
}

impl RowLoad {
    fn add(&mut self, part: &Part) {
        self.load = self.load.saturating_add(part.load);
        self.weight = self.weight.saturating_add(part.weight());
        self.parts += 1;
    }

    fn take(&mut self, part: &Part) {
        self.load = self.load.saturating_sub(part.load);
        self.weight = self.weight.saturating_sub(part.weight());
        self.parts = self.parts.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    fn owned(row: u16, load: u32) -> Part {
        Part::new(OwnerWord::new(Owner::Owned(RowId(row)), 1), LoadWord::new(load, 1))
    }

    fn rows(count: u16) -> Vec<RowLoad> {
        (1..=count).map(|row| RowLoad::new(RowId(row))).collect()
    }

    fn planned(parts: &[Part], count: u16) -> (Vec<(u32, u16)>, Vec<u64>, bool) {
        let (mut parts, mut rows) = (parts.to_vec(), rows(count));
        let mut balance = Balance::new(&mut parts, &mut rows);
        let moves = core::iter::from_fn(|| balance.next_move()).map(|step| (step.part, step.to.0)).collect();
        (moves, balance.rows().iter().map(|row| row.load).collect(), balance.is_by_number())
    }

    #[test]
    fn loads_are_evened_by_the_parts_that_help_most() {
        let parts = [owned(1, 60), owned(1, 30), owned(1, 20), owned(1, 10), owned(2, 20)];
        assert_eq!(planned(&parts, 2), (std::vec![(0, 2)], std::vec![60, 80], false));
        let parts = [owned(1, 500), owned(2, 100), owned(2, 100), owned(3, 0)];
        let (moves, loads, _) = planned(&parts, 3);
        assert_eq!(loads, [500, 100, 100], "one part with most of the load stays, and the next row gives");
        assert_eq!(moves.len(), 1);
    }

    #[test]
    fn a_move_that_helps_little_is_none() {
        assert_eq!(planned(&[owned(1, 1000), owned(1, 20), owned(2, 990)], 2).0, []);
        assert_eq!(planned(&[owned(1, 7)], 1).0, [], "nobody else");
        assert_eq!(planned(&[], 0).0, []);
        assert_eq!(planned(&[owned(9, 7)], 2).0, [], "it is of a row that is not among them");
        let most = [owned(1, u32::MAX), owned(1, u32::MAX), owned(2, 0)];
        assert_eq!(planned(&most, 2).0.len(), 1);
    }

    #[test]
    fn without_loads_numbers_are_evened() {
        let free = Part::new(OwnerWord::FREE, LoadWord::NONE);
        let mut parts = std::vec![owned(1, 0); 50];
        parts.extend([Part::new(OwnerWord::new(Owner::Kept(RowId(3)), 1), LoadWord::NONE), free, owned(9, 5)]);
        let (moves, _, by_number) = planned(&parts, 3);
        assert!(by_number && moves.iter().all(|(part, _)| *part < 50));
        let to = |row| moves.iter().filter(|(_, to)| *to == row).count();
        assert_eq!((to(2), to(3)), (17, 16));
    }

    #[test]
    fn parts_that_move_already_stay() {
        let draining = OwnerWord::new(Owner::Draining { owner: RowId(1), receiver: RowId(2) }, 5);
        let recovering = OwnerWord::new(Owner::Recovering { finder: RowId(1), log: RowId(7) }, 5);
        let parts = [draining, recovering].map(|word| Part::new(word, LoadWord::new(100, 4)));
        assert_eq!(parts[0].row(), RowId(2), "its load is the receiver's");
        assert_eq!(planned(&parts, 3).0, []);
        assert_eq!(planned(&parts, 3).1, [0, 100, 0]);
    }

    #[test]
    fn a_row_takes_its_share_or_gives_all() {
        let all = [owned(1, 40), owned(1, 40), owned(1, 40), owned(2, 70)];
        let (mut parts, mut among) = (all.to_vec(), rows(3));
        let mut balance = Balance::new(&mut parts, &mut among);
        let mine: Vec<_> = core::iter::from_fn(|| balance.next_for(RowId(3))).collect();
        assert_eq!(mine.len(), 1, "{mine:?}");
        assert_eq!((mine[0].from, mine[0].to), (RowId(1), RowId(3)));
        assert_eq!(balance.next_for(RowId(8)), None);
        let (mut parts, mut among) = (all.to_vec(), rows(3));
        let mut balance = Balance::new(&mut parts, &mut among);
        let given: Vec<_> = core::iter::from_fn(|| balance.next_from(RowId(1))).map(|step| step.to.0).collect();
        assert_eq!(given, [3, 3, 2], "each to the row that has least by then");
        let (mut parts, mut among) = (all.to_vec(), rows(1));
        assert_eq!(Balance::new(&mut parts, &mut among).next_from(RowId(1)), None, "there is nobody else");
    }
}
