//! The records of an index in ascending order, scanned by several lanes at a time.
//!
//! The key space is cut into *parts*, at keys that are in the index. A lane takes the first part that nobody has, and scans at
//! most [`PART_RECORDS`] of it. What is left of it is a part again, which is cut in two while there are fewer parts than lanes can
//! take. Whoever writes takes parts from the front, in the order of their keys; lanes are at most a few parts ahead, so memory is
//! bounded.
//!
//! **Where a part is cut** needs not be known well: any key is as right as another, and only spreads the work more or less
//! evenly. A cut is the first key behind the middle of the part's key space. If there is none, the part ends before the
//! middle, and the middle of the rest is tried: so cuts find their way to where the keys are, in as many steps as a key has bits.
//!
//! Each key belongs to one part, whatever others write meanwhile.

use crate::failure::Failure;
use crate::notation::{Format, show};
use crate::tool::{Span, Tool};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Records of a part, at most: a few pages.
const PART_RECORDS: u64 = 4096;

/// Parts that are scanned and not yet written, and parts that wait to be scanned, for each lane.
const AHEAD: usize = 2;

/// Where a part begins: its key, and whether the part begins behind it.
type Low = (Vec<u8>, bool);

/// The records of a part as they are written.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// As [`Encode`] has made them.
    pub bytes: Vec<u8>,
    /// How many they are.
    pub records: u64,
    /// First and last key.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
}

/// Appends a record to bytes.
pub(super) type Encode<'a> = &'a (dyn Fn(&mut Vec<u8>, &[u8], &[u8]) + Sync);

/// A part that is not yet written.
#[derive(Debug)]
enum Part {
    /// Where it ends, if it is not the last part.
    Waiting(Option<Vec<u8>>),
    Scanning,
    Scanned(Scanned),
}

#[derive(Debug)]
struct State {
    parts: BTreeMap<Low, Part>,
    /// Ends all lanes.
    failure: Option<Failure>,
    stop: bool,
}

/// What lanes and the writer share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something has changed.
    changed: Condvar,
    lanes: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The part to scan next; `None`: there is none any more.
    fn take(&self) -> Option<(Low, Option<Vec<u8>>)> {
        let mut state = self.lock();
        loop {
            if state.stop || state.parts.is_empty() {
                return None;
            }
            let scanned = state.parts.values().filter(|part| matches!(part, Part::Scanned(_))).count();
            let mut waiting = state.parts.iter_mut().enumerate();
            let found = waiting.find_map(|(at, (low, part))| match part {
                Part::Waiting(high) => Some((at, low.clone(), high.take(), part)),
                _ => None,
            });
            // The first part is always taken: everything behind it waits for it.
            match found {
                Some((at, low, high, part)) if at == 0 || scanned < AHEAD * self.lanes => {
                    *part = Part::Scanning;
                    return Some((low, high));
                }
                Some((.., high, part)) => *part = Part::Waiting(high),
                None => {}
            }
            state = self.wait(state);
        }
    }

    /// Whether more parts would give more lanes something to do.
    fn wants_parts(&self) -> bool {
        let state = self.lock();
        state.parts.values().filter(|part| matches!(part, Part::Waiting(_))).count() < AHEAD * self.lanes
    }

    fn fail(&self, failure: Failure) {
        let mut state = self.lock();
        state.failure.get_or_insert(failure);
        state.stop = true;
        drop(state);
        self.changed.notify_all();
    }

    /// Notes what was scanned, and what is left of the part.
    fn done(&self, low: Low, scanned: Scanned, rest: Vec<(Low, Option<Vec<u8>>)>) {
        let mut state = self.lock();
        state.parts.insert(low, Part::Scanned(scanned));
        for (low, high) in rest {
            state.parts.insert(low, Part::Waiting(high));
        }
        drop(state);
        self.changed.notify_all();
    }

    /// What a lane does.
    fn work(&self, tool: &mut Tool<'_, '_, '_, '_>, encode: Encode<'_>) -> Result<(), Failure> {
        while let Some((low, high)) = self.take() {
            let mut scanned = Scanned::default();
            let span = Span { low: &low.0, after: low.1, high: high.as_deref(), most: PART_RECORDS };
            let ended = tool.span(&span, |key, value| {
                encode(&mut scanned.bytes, key, value);
                match &mut scanned.keys {
                    Some((_, last)) => {
                        last.clear();
                        last.extend_from_slice(key);
                    }
                    keys => *keys = Some((key.to_vec(), key.to_vec())),
                }
                Ok(())
            })?;
            scanned.records = ended.records;
            let mut rest = Vec::new();
            if ended.more
                && let Some((_, last)) = &scanned.keys
            {
                let cut = if self.wants_parts() { cut(tool, last, high.as_deref())? } else { Cut::Whole(high) };
                match cut {
                    Cut::Nothing => {}
                    Cut::Whole(high) => rest.push(((last.clone(), true), high)),
                    Cut::At(key, high) => {
                        rest.push(((last.clone(), true), Some(key.clone())));
                        rest.push(((key, false), high));
                    }
                }
            }
            self.done(low, scanned, rest);
        }
        Ok(())
    }
}

/// How a part is cut.
enum Cut {
    /// It has no records.
    Nothing,
    /// It stays whole, and ends here.
    Whole(Option<Vec<u8>>),
    /// Before this key, which is in it.
    At(Vec<u8>, Option<Vec<u8>>),
}

/// Looks for the middle at most so often: keys may begin alike for thousands of bytes.
const MIDDLES_MAX: u32 = 128;

/// Cuts what is behind `low` and below `high` in two parts that have records.
fn cut(tool: &mut Tool<'_, '_, '_, '_>, low: &[u8], high: Option<&[u8]>) -> Result<Cut, Failure> {
    let most = tool.most_key_bytes();
    let Some(first) = tool.first(low, true, high)? else { return Ok(Cut::Nothing) };
    let mut end = high.map(<[u8]>::to_vec);
    for _ in 0..MIDDLES_MAX {
        // A key that is in the part: the middle only says where to look for one.
        let Some(middle) = middle(low, end.as_deref(), most, tool.has_lengths()) else { return Ok(Cut::Whole(end)) };
        match tool.first(&middle, false, end.as_deref())? {
            None => end = Some(middle),
            Some(key) if key == first => return Ok(Cut::Whole(end)),
            Some(key) => return Ok(Cut::At(key, end)),
        }
    }
    Ok(Cut::Whole(end))
}

/// A key between two, if there is one: half the way from the one to the other, as numbers with as many digits as it takes to
/// tell them apart and two more. `None` for the upper one: behind all keys.
fn middle(low: &[u8], high: Option<&[u8]>, most: usize, any_length: bool) -> Option<Vec<u8>> {
    let digit = |key: &[u8], at: usize| u32::from(key.get(at).copied().unwrap_or(0));
    let same = high.map_or(0, |high| low.iter().zip(high).take_while(|(a, b)| a == b).count());
    let digits = (same + 3).min(most);
    let number = |key: &[u8]| (same..digits).fold(0, |sum, at| sum << 8 | digit(key, at));
    let bits = 8 * (digits - same.min(digits)) as u32;
    let above = high.map_or(1 << bits, number);
    let half = number(low) + above.saturating_sub(number(low)) / 2;
    let mut key = low.get(..same)?.to_vec();
    key.extend((same..digits).rev().map(|at| (half >> (8 * (at - same))) as u8));
    if !any_length {
        key.resize(most, 0);
    }
    let is_between = *key > *low && high.is_none_or(|high| *key < *high);
    is_between.then_some(key)
}

/// Scans all records with `tools`, a thread for each, and calls `write` with parts in ascending order. Returns how many records
/// there were.
pub(super) fn scan(
    tools: &mut [Tool<'_, '_, '_, '_>],
    encode: Encode<'_>,
    mut write: impl FnMut(&Scanned) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let Some(least) = tools.first().map(Tool::least_key) else { return Ok(0) };
    let parts = BTreeMap::from([((least, false), Part::Waiting(None))]);
    let shared = Shared {
        state: Mutex::new(State { parts, failure: None, stop: false }),
        changed: Condvar::new(),
        lanes: tools.len(),
    };
    let mut last: Option<Vec<u8>> = None;
    thread::scope(|scope| {
        for tool in tools {
            let shared = &shared;
            scope.spawn(move || {
                if let Err(failure) = shared.work(tool, encode) {
                    shared.fail(failure);
                }
            });
        }
        let mut records = 0;
        let written = loop {
            let mut state = shared.lock();
            let scanned = loop {
                if let Some(failure) = state.failure.take() {
                    break Err(failure);
                }
                match state.parts.first_entry() {
                    None => break Ok(None),
                    Some(part) if matches!(part.get(), Part::Scanned(_)) => break Ok(Some(part.remove())),
                    Some(_) => state = shared.wait(state),
                }
            };
            drop(state);
            shared.changed.notify_all();
            match scanned {
                Ok(Some(Part::Scanned(scanned))) => {
                    records += scanned.records;
                    // A scan that leaves its bounds is damage.
                    if let (Some((first, _)), Some(last)) = (&scanned.keys, &last)
                        && first <= last
                    {
                        let (first, last) = (show(first, Format::Auto), show(last, Format::Auto));
                        break Err(Failure::Run(format!("the index is damaged: key {first} comes behind key {last}")));
                    }
                    if let Err(failure) = write(&scanned) {
                        break Err(failure);
                    }
                    last = scanned.keys.map(|(_, last)| last).or(last);
                }
                Ok(_) => break Ok(records),
                Err(failure) => break Err(failure),
            }
        };
        shared.lock().stop = true;
        shared.changed.notify_all();
        written
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middle_is_between_and_halves_the_way() {
        let of = |low: &[u8], high: Option<&[u8]>| middle(low, high, 8, false);
        assert_eq!(of(&[0; 8], None), Some(vec![0x80, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(of(&[1, 2, 3, 4, 5, 6, 7, 8], Some(&[1, 2, 3, 4, 5, 6, 7, 9])), None, "nothing is between");
        assert_eq!(of(&[7; 8], Some(&[7, 7, 7, 7, 9, 0, 0, 0])).unwrap()[..5], [7, 7, 7, 7, 8]);
        assert_eq!(of(&[255; 8], None), None);
        assert_eq!(middle(b"", None, 100, true), Some(vec![0x80, 0, 0]));
        assert_eq!(middle(b"abc", Some(b"abcd"), 100, true), Some(b"abc2\0\0".to_vec()));
        // From anywhere to anywhere in as many steps as there are bits.
        let (low, mut high) = (b"users:0001".to_vec(), None);
        let mut steps = 0;
        while let Some(next) = middle(&low, high.as_deref(), 10, false) {
            assert!(next > low && high.is_none_or(|high| next < high));
            high = Some(next);
            steps += 1;
        }
        assert!(steps <= 8 * 10, "{steps}");
    }
}
