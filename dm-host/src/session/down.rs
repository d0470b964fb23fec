//! Going down a range of keys.
//!
//! Some indexes have pages of the last records of a range (`Shape::takes_last`): then the range ends before each page that
//! was delivered. The others scan upwards only. There a page of the highest records is found by asking for pages from some
//! key up to the end of the range: a *probe*. What it brings decides what follows.
//!
//! ```text
//!  low ─────────────── floor ──────────── probe ──────────── high
//!      not delivered yet     a record was        │ all records    │ delivered
//!                            seen here           │ fit a page:    │
//!                                                │ they are next  │
//! ```
//!
//! - The page has all records of its range: they are delivered from the last one down, and the range ends where the probe
//!   began.
//! - There are none: the range ends where the probe began.
//! - There are more than fit a page: the last key of the page is the new floor, and the next probe begins above it.
//!
//! Between floor and end there are two ways to choose, in turn as long as probes find nothing: *halving* the numbers that
//! follow the bytes in common, and *climbing* to the end of half of the floor's prefix, which passes over a prefix that all
//! keys share in a few probes. After a page, the next probe is guessed from the distance of the keys in it.
//!
//! *It ends:* every probe lowers the end or raises the floor. *No record is left out that is there all the time, and none
//! is delivered twice:* the ranges of the delivered pages, and of the empty ones, make up the whole range, and none of them
//! overlap.

use super::page::Page;
use super::request::Shape;
use super::table::typed::above;
use std::ops::Bound;

/// Bytes that are taken for a number.
const NUMBER_BYTES: usize = 15;

/// One more than the largest number.
const NUMBERS_END: u128 = 1 << (8 * NUMBER_BYTES);

/// The bounds of a page.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A key that may be about a page below the end.
#[derive(Clone, Debug)]
struct Guess {
    key: Vec<u8>,
    /// How many bytes it has in common with the keys above.
    shared: usize,
    /// How far it is below the end, as a number behind those bytes.
    step: u128,
}

/// Where a scan downwards is.
#[derive(Clone, Debug)]
pub(super) struct Down {
    pub(super) low: Bound<Vec<u8>>,
    /// All records above have been delivered.
    pub(super) high: Bound<Vec<u8>>,
    /// A record was seen here that is not among the last ones.
    floor: Option<Vec<u8>>,
    /// The next probe climbs.
    climbs: bool,
    /// Where the next page may begin, guessed.
    guess: Option<Guess>,
    /// Records of a page that had no room for more.
    page_records: usize,
    ended: bool,
    /// How long keys are, or the longest.
    key_bytes: usize,
    have_lengths: bool,
    /// Pages are of the last records.
    pub(super) takes_last: bool,
}

fn key_of(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The bytes from `at` on, as a number.
fn number(key: &[u8], at: usize) -> u128 {
    let mut bytes = [0; 16];
    for (to, from) in bytes[16 - NUMBER_BYTES..].iter_mut().zip(key.get(at..).unwrap_or_default()) {
        *to = *from;
    }
    u128::from_be_bytes(bytes)
}

impl Down {
    pub(super) const fn new(low: Bound<Vec<u8>>, high: Bound<Vec<u8>>, shape: &Shape) -> Self {
        let (floor, guess) = (None, None);
        let Shape { key_bytes, have_lengths, takes_last, .. } = *shape;
        let page_records = 0;
        Self { low, high, floor, climbs: false, guess, page_records, ended: false, key_bytes, have_lengths, takes_last }
    }

    /// The bounds of the next probe; the same until its page is [`Down::take`]n. `None`: there is nothing left.
    pub(super) fn probe(&self) -> Option<Bounds> {
        (!self.ended).then(|| (self.begin(), self.high.clone()))
    }

    fn begin(&self) -> Bound<Vec<u8>> {
        let Some(floor) = &self.floor else {
            return self.guess.as_ref().map_or_else(|| self.low.clone(), |guess| Bound::Included(guess.key.clone()));
        };
        let high = key_of(&self.high);
        let shared = high.map_or(0, |high| common(floor, high));
        let halved = || {
            self.fit(
                floor,
                shared,
                u128::midpoint(number(floor, shared), high.map_or(NUMBERS_END, |key| number(key, shared))),
            )
        };
        let climbed = || {
            let above = above(floor.get(..(shared + 1 + floor.len()).div_ceil(2).min(floor.len()))?.to_vec())?;
            Some(self.sized(above))
        };
        let between = |key: &Vec<u8>| key > floor && high.is_none_or(|high| key.as_slice() < high);
        let (first, second) = if self.climbs { (climbed(), halved()) } else { (halved(), climbed()) };
        let begin = first.filter(between).or_else(|| second.filter(between));
        begin.map_or_else(|| Bound::Excluded(floor.clone()), Bound::Included)
    }

    /// The first `shared` bytes of `key`, and behind them a number.
    fn fit(&self, key: &[u8], shared: usize, number: u128) -> Option<Vec<u8>> {
        let mut fit = key.get(..shared)?.to_vec();
        fit.extend_from_slice(&number.to_be_bytes()[16 - NUMBER_BYTES..]);
        Some(self.sized(fit))
    }

    fn sized(&self, mut key: Vec<u8>) -> Vec<u8> {
        if self.have_lengths {
            key.truncate(self.key_bytes);
        } else {
            key.resize(self.key_bytes, 0);
        }
        key
    }

    /// Takes the page of the probe. Returns whether it has the last records of the range, which are to be delivered.
    pub(super) fn take(&mut self, page: &Page) -> bool {
        if self.takes_last {
            if let Some((first, _)) = page.record(0) {
                self.high = Bound::Excluded(first.to_vec());
            }
            self.ended = !page.has_more();
            return !page.is_empty();
        }
        if let Some(Bound::Excluded(last)) = page.cursor() {
            self.climbs = false;
            self.floor = Some(last.to_vec());
            self.page_records = page.len();
            return false;
        }
        let begin = self.begin();
        let was_guess = self.floor.is_none() && self.guess.is_some();
        let begin_is_floor = matches!(begin, Bound::Excluded(_));
        self.climbs = !self.climbs;
        self.ended = begin == self.low;
        self.high = match begin {
            Bound::Included(key) => Bound::Excluded(key),
            Bound::Excluded(key) => Bound::Included(key),
            Bound::Unbounded => Bound::Unbounded,
        };
        if begin_is_floor {
            self.floor = None;
        }
        if page.is_empty() {
            // A gap: farther down.
            let gap = if was_guess { self.guess.take() } else { None };
            self.guess =
                gap.and_then(|Guess { key, shared, step }| self.guess_below(&key, shared, step.saturating_mul(4)));
            return false;
        }
        self.floor = None;
        self.climbs = false;
        self.guess = self.guess_by(page);
        true
    }

    /// Where three quarters of a page may begin below this one, if its keys are as far from each other.
    fn guess_by(&self, page: &Page) -> Option<Guess> {
        let (first, _) = page.record(0)?;
        let (last, _) = page.record(page.len() - 1)?;
        // A step may be a carry into bytes that these keys share.
        let shared = common(first, last).saturating_sub(NUMBER_BYTES / 2);
        let distance = number(last, shared).checked_sub(number(first, shared))?;
        let step = (distance / page.len() as u128).saturating_mul(self.page_records as u128 * 3 / 4);
        self.guess_below(first, shared, step)
    }

    /// A guess so far below `key`, behind the bytes that are shared. `None`: that is below the range.
    fn guess_below(&self, key: &[u8], shared: usize, step: u128) -> Option<Guess> {
        let guess = self.fit(key, shared, number(key, shared).checked_sub(step.max(1))?)?;
        let is_inside = key_of(&self.low).is_none_or(|low| guess.as_slice() > low);
        let is_below = key_of(&self.high).is_none_or(|high| guess.as_slice() < high);
        (is_inside && is_below).then_some(Guess { key: guess, shared, step: step.max(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Goes down all of `keys` by pages of `records`. Returns the keys, and how many probes the first page and all of them
    /// took.
    fn down(
        keys: &BTreeSet<Vec<u8>>,
        (low, high): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        (key_bytes, have_lengths): (usize, bool),
        records: usize,
    ) -> (Vec<Vec<u8>>, usize, usize) {
        let shape = Shape { key_bytes, value_bytes: 0, have_lengths, page_records: records, takes_last: false };
        let mut down = Down::new(low, high, &shape);
        let (mut found, mut first, mut probes) = (Vec::new(), 0, 0);
        while let Some((low, high)) = down.probe() {
            probes += 1;
            assert!(probes < 10_000, "{down:?}");
            let all: Vec<_> = keys.range((low, high)).cloned().collect();
            let page = Page::of_keys(&all[..all.len().min(records)], all.len() > records);
            if down.take(&page) {
                found.extend(all.into_iter().rev());
                first = if first == 0 { probes } else { first };
            }
        }
        (found, first, probes)
    }

    fn check(keys: Vec<Vec<u8>>, shape: (usize, bool), records: usize) -> (usize, usize) {
        let keys: BTreeSet<_> = keys.into_iter().collect();
        let (found, first, probes) = down(&keys, (Bound::Unbounded, Bound::Unbounded), shape, records);
        assert_eq!(found, keys.iter().rev().cloned().collect::<Vec<_>>());
        // Some bounds, at keys and between them.
        let all: Vec<_> = keys.iter().cloned().collect();
        for (low, high) in [(1, 7), (0, 3), (all.len() / 3, all.len() / 2)] {
            let (Some(low), Some(high)) = (all.get(low), all.get(high)) else { continue };
            if low == high {
                // A map would panic.
                continue;
            }
            for bounds in [
                (Bound::Included(low.clone()), Bound::Included(high.clone())),
                (Bound::Excluded(low.clone()), Bound::Excluded(high.clone())),
                (Bound::Unbounded, Bound::Included(high.clone())),
                (Bound::Excluded(low.clone()), Bound::Unbounded),
            ] {
                let (found, ..) = down(&keys, bounds.clone(), shape, records);
                assert_eq!(found, keys.range(bounds).cloned().rev().collect::<Vec<_>>());
            }
        }
        (first, probes)
    }

    fn numbers(all: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
        all.map(|n| n.to_be_bytes().to_vec()).collect()
    }

    #[test]
    fn numbers_come_down_in_few_probes() {
        let (first, probes) = check(numbers(0..20_000), (8, false), 100);
        assert!(first <= 45 && probes < first + 500, "{first}, {probes}");
        let (first, probes) =
            check(numbers((0..20_000).map(|n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15))), (8, false), 100);
        assert!(first <= 15 && probes < first + 700, "{first}, {probes}");
        for few in [0, 1, 2, 5] {
            assert_eq!(check(numbers(0..few), (8, false), 100).1, 1, "one page has all");
        }
        check(numbers([0, 1, u64::MAX - 1, u64::MAX].into_iter()), (8, false), 1);
        check(numbers((0..64).map(|n| 1 << n)), (8, false), 3);
    }

    #[test]
    fn strings_with_a_prefix_in_common_come_down_in_few_probes() {
        let path = |n: u64| format!("https://example.com/a/rather/long/path/that/all/share/{:05}", n * 7).into_bytes();
        let (first, probes) = check((0..5_000).map(path).collect(), (200, true), 50);
        assert!(first <= 60 && probes < first + 1_300, "{first}, {probes}");
        let nested = (0..200).map(|n| vec![b'x'; n]).collect();
        check(nested, (200, true), 10);
        check((0..200).map(|n| vec![0xff; n]).collect(), (200, true), 10);
        check((0..200).map(|n| vec![0; n]).collect(), (200, true), 10);
    }

    #[test]
    fn gaps_and_clusters_come_down() {
        let clusters = (0..40_u64).flat_map(|c| (0..50).map(move |n| c << 40 | n << (c % 7)));
        let (_, probes) = check(numbers(clusters), (8, false), 30);
        assert!(probes < 2_000, "{probes}");
    }
}
