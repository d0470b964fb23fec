//! What most histories never have: keys, values, scans, sizes and events at the edges. Each is an option.
//!
//! A history draws its options from a stream of its own. Without options it is the history that its seed always had.

use crate::rng::Rng;
use std::fmt;

macro_rules! options {
    ($($(#[doc = $doc:literal])+ $Option:ident = $name:literal, $percent:literal;)*) => {
        /// Something that most histories never have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum WideOption {
            $($(#[doc = $doc])+ $Option,)*
        }

        impl WideOption {
            /// Every option, in numeric order.
            pub const ALL: &'static [Self] = &[$(Self::$Option,)*];

            /// Its name on command lines and in records.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Option => $name,)*
                }
            }

            /// Of 100 histories, so many draw it.
            const fn percent(self) -> u32 {
                match self {
                    $(Self::$Option => $percent,)*
                }
            }
        }
    };
}

options! {
    /// The number of a key lies in several bytes, not next to each other.
    KeysSpread = "keys-spread", 12;
    /// Bytes of keys are 0x80 and more.
    KeysHigh = "keys-high", 12;
    /// The bytes of the largest key are all 0xff, and those of the others are near that.
    KeysLargest = "keys-largest", 10;
    /// Keys of the largest size, 64 bytes, whose number is at the end. Keys of items are longer.
    KeysLong = "keys-long", 10;
    /// Values begin with the same bytes.
    ValuesAlike = "values-alike", 12;
    /// Values are longer than a packet.
    ValuesLong = "values-long", 8;
    /// Values of items are shorter than a word, and some are the beginning of another one.
    ValuesShort = "values-short", 15;
    /// There are scans, whatever the profile.
    Scans = "scans", 15;
    /// Some scans want no record.
    ScanNothing = "scan-nothing", 8;
    /// Some scans want more records than a page has room for.
    ScanOverPage = "scan-over-page", 8;
    /// Some scans have an upper bound that is not above the key at which they begin.
    ScanInverted = "scan-inverted", 8;
    /// Some scans begin behind the last key.
    ScanPastEnd = "scan-past-end", 8;
    /// In the end everything is scanned, page by page.
    LastScan = "last-scan", 20;
    /// 4 to 8 memory nodes.
    MemoryNodes = "memory-nodes", 8;
    /// 5 to 12 compute nodes.
    ComputeNodes = "compute-nodes", 6;
    /// 9 to 24 lanes.
    Lanes = "lanes", 6;
    /// Leaves of more than 63 entries, and keys to fill them.
    WideLeaves = "wide-leaves", 6;
    /// 1,000 operations and more.
    LongHistory = "long-history", 1;
    /// Leases are shorter than some requests take, so that compute nodes that live are fenced. They end then.
    ShortLeases = "short-leases", 10;
    /// Rows of the dead are swept while others work.
    Sweeps = "sweeps", 20;
    /// The pool has few chunks, and gets full.
    SmallPool = "small-pool", 12;
    /// Lock tables have more words than a sweep READs at once.
    LockTables = "lock-tables", 8;
    /// Lease clocks tick and heartbeats come, but some compute nodes are silent for a while, though they live. Those that
    /// are fenced end then.
    LeaseClocks = "lease-clocks", 12;
    /// Compute nodes join while others work, most of them in the row of one that died, with its next incarnation.
    Rejoin = "rejoin", 20;
    /// The rows of the compute nodes are not among those that are READ first.
    RowTable = "row-table", 10;
    /// Parts of the keys move to other compute nodes, where keys have owners.
    Moves = "moves", 20;
    /// Memory nodes' processors look for keys, where the index lets them.
    Offload = "offload", 30;
    /// Operations on keys of another compute node are executed by that one, where keys have owners.
    Forward = "forward", 25;
    /// Some scans are of the last records of their range, where the index has such scans.
    ScansDown = "scans-down", 15;
    /// Several operations of a lane go to the owner of their keys in one message, where operations are forwarded.
    Packs = "packs", 60;
    /// Parts of the keys are cut in two, where keys have owners.
    Cuts = "cuts", 30;
    /// New inner nodes have slots in reserve, where an index has such nodes.
    NodeSlots = "node-slots", 30;
    /// Nodes move from one memory node to another, where keys have owners.
    Vacates = "vacates", 30;
    /// A compute node dies while a memory node executes a call of it, whose processor stops there for some leases.
    Stalls = "stalls", 40;
}

/// Number of options.
pub const WIDE_OPTIONS: usize = WideOption::ALL.len();

/// A set of options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WideOptions(u64);

impl WideOptions {
    /// None.
    pub const NONE: Self = Self(0);
    /// Every one.
    pub const ALL: Self = Self((1 << WIDE_OPTIONS) - 1);

    /// The same without `option`.
    #[must_use]
    pub const fn without(self, option: WideOption) -> Self {
        Self(self.0 & !(1 << option as u8))
    }

    /// The same with `option`.
    #[must_use]
    pub const fn with(self, option: WideOption) -> Self {
        Self(self.0 | 1 << option as u8)
    }

    /// Those in both.
    #[must_use]
    pub const fn of_both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `option` is among them.
    pub const fn has(self, option: WideOption) -> bool {
        self.0 & 1 << option as u8 != 0
    }

    /// Whether one of `options` is among them.
    pub fn has_any(self, options: &[WideOption]) -> bool {
        options.iter().any(|option| self.has(*option))
    }

    /// The options.
    pub fn options(self) -> impl Iterator<Item = WideOption> {
        WideOption::ALL.iter().copied().filter(move |option| self.has(*option))
    }

    /// `none`, `all`, or names separated by commas. The error names what is not known.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "none" => return Ok(Self::NONE),
            "all" => return Ok(Self::ALL),
            _ => {}
        }
        text.split(',').try_fold(Self::NONE, |options, name| {
            let option = WideOption::ALL.iter().find(|option| option.name() == name.trim());
            option.map(|option| options.with(*option)).ok_or_else(|| {
                let known: Vec<&str> = WideOption::ALL.iter().map(|option| option.name()).collect();
                format!("there is no option \"{}\"; there are none, all, {}", name.trim(), known.join(", "))
            })
        })
    }

    /// Those of `self` that the history of `seed` has, and those of `always`.
    #[must_use]
    pub(super) fn drawn(self, seed: u64, always: Self) -> Self {
        let mut rng = Rng::new(seed ^ 0x5eed_000c);
        // Every option is drawn in any case, so that allowing one does not change the others.
        let drawn = WideOption::ALL.iter().filter(|option| rng.percent(option.percent()));
        let mut drawn = drawn.fold(Self::NONE, |drawn, option| drawn.with(*option)).of_both(self);
        drawn = always.options().fold(drawn, Self::with);
        if drawn.has(WideOption::WideLeaves) {
            // Redo areas for such leaves would not fit.
            drawn = drawn.without(WideOption::KeysLong).without(WideOption::ValuesLong);
        }
        if drawn.fences_the_living() {
            // A lane that waits for another one of its compute node to look after a dead holder asks again after a 64th
            // of a lease. If that is as short as a few requests, many lanes keep each other from it.
            drawn = drawn.without(WideOption::Lanes);
        }
        if drawn.has(WideOption::Forward) {
            // Unknown changes stay open, and a long history has too many of them to be judged.
            drawn = drawn.without(WideOption::LongHistory);
        } else {
            drawn = drawn.without(WideOption::Packs);
        }
        if !drawn.has(WideOption::Offload) {
            drawn = drawn.without(WideOption::Stalls);
        }
        if drawn.has(WideOption::LongHistory) {
            // Operations on long keys of items take many steps.
            drawn = drawn.without(WideOption::KeysLong);
        }
        drawn
    }

    /// Whether compute nodes that live may be fenced.
    pub(super) fn fences_the_living(self) -> bool {
        self.has_any(&[WideOption::ShortLeases, WideOption::LeaseClocks])
    }

    /// Whether 512 KiB of each memory node may be too few.
    pub(super) fn needs_room(self) -> bool {
        use WideOption::{ComputeNodes, KeysLong, Lanes, LongHistory, Rejoin, ValuesLong, WideLeaves};
        self.has_any(&[ComputeNodes, KeysLong, Lanes, LongHistory, Rejoin, ValuesLong, WideLeaves])
    }

    /// Whether scans are to be among the operations.
    pub(super) fn wants_scans(self) -> bool {
        use WideOption::{ScanInverted, ScanNothing, ScanOverPage, ScanPastEnd, Scans, ScansDown};
        self.has_any(&[Scans, ScanNothing, ScanOverPage, ScanInverted, ScanPastEnd, ScansDown])
    }
}

impl fmt::Display for WideOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.options().map(WideOption::name).collect();
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(",") }.as_str())
    }
}

/// Keys whose digits lie in bytes of their own, the most significant first. All other bytes are the same in every key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideKeys {
    /// Bits of a digit, 1 to 8.
    bits: u32,
    /// Digits.
    count: u32,
    /// Position of the first digit.
    at: usize,
    /// Distance from one digit to the next, in bytes.
    stride: usize,
    /// Added to every digit.
    low: u8,
    /// All other bytes.
    fill: u8,
    /// The number of key 0.
    first: u64,
}

impl WideKeys {
    /// The keys of a history with `all` keys, in slots of `key_bytes`, at least 8. `None`: its options say nothing about keys.
    pub(super) fn of(wide: WideOptions, seed: u64, all: u32, key_bytes: usize) -> Option<Self> {
        use WideOption::{KeysHigh, KeysLargest, KeysLong, KeysSpread};
        if !wide.has_any(&[KeysSpread, KeysHigh, KeysLargest, KeysLong]) {
            return None;
        }
        let mut rng = Rng::new(seed ^ 0x5eed_000e);
        // Bounds of scans are up to twice the number of keys.
        let needed_bits = u64::BITS - (2 * u64::from(all)).leading_zeros();
        let is_spread = wide.has(KeysSpread);
        let drawn = if is_spread { [1, 2, 3] } else { [4, 7, 7] }[rng.below(3) as usize];
        let bits = needed_bits.div_ceil(key_bytes as u32).max(drawn);
        let count = needed_bits.div_ceil(bits);
        let stride = if is_spread { 1 + rng.below((key_bytes / count as usize) as u32) as usize } else { 1 };
        let rest = key_bytes - ((count as usize - 1) * stride + 1);
        let at = rng.below(rest as u32 + 1) as usize;
        let mut keys = Self {
            bits,
            count,
            at: if wide.has(KeysLong) { rest } else { at },
            stride,
            low: if wide.has(KeysHigh) { 0x80 } else { 0 },
            fill: [0, 0, 0x41, 0x80, 0xff][rng.below(5) as usize],
            first: 0,
        };
        if wide.has(KeysLargest) {
            (keys.low, keys.fill) = (0xff << bits, 0xff);
            keys.first = (1 << (bits * count)) - u64::from(all);
        }
        Some(keys)
    }

    /// The largest number that has a key.
    pub(super) const fn largest(self) -> u64 {
        (1 << (self.bits * self.count)) - 1 - self.first
    }

    pub(super) fn write(self, number: u64, key: &mut [u8]) {
        key.fill(self.fill);
        let number = number + self.first;
        for i in 0..self.count {
            let digit = number >> ((self.count - 1 - i) * self.bits) & ((1 << self.bits) - 1);
            key[self.at + i as usize * self.stride] = self.low + digit as u8;
        }
    }

    /// The number of these bytes, if they are a key.
    pub(super) fn read(self, key: &[u8]) -> Option<u64> {
        let digit = |i: u32| u64::from(key[self.at + i as usize * self.stride].wrapping_sub(self.low));
        let number = (0..self.count).fold(0, |number: u64, i| number << self.bits | digit(i));
        let number = number.checked_sub(self.first).filter(|number| *number <= self.largest())?;
        let mut right = vec![0; key.len()];
        self.write(number, &mut right);
        (right == key).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::Draw;
    use super::super::settings::Settings;
    use super::*;

    #[test]
    fn names_lead_to_sets_and_back() {
        assert_eq!(WideOptions::parse("none"), Ok(WideOptions::NONE));
        assert_eq!(WideOptions::parse("all"), Ok(WideOptions::ALL));
        assert_eq!(WideOptions::parse(&WideOptions::ALL.to_string()), Ok(WideOptions::ALL));
        assert!(WideOptions::parse("scans,floods").is_err_and(|error| error.contains("\"floods\"")));
    }

    #[test]
    fn a_history_without_options_is_as_it_always_was() {
        let usual = Settings::default();
        let wide = Settings { wide: WideOptions::ALL, ..Settings::default() };
        let mut drawn = WideOptions::NONE;
        let mut without = 0;
        for seed in 0..3000 {
            let draw = Draw::new(&wide, seed);
            draw.wide.options().for_each(|option| drawn = drawn.with(option));
            if draw.wide.is_empty() {
                without += 1;
                assert_eq!(draw, Draw::new(&usual, seed));
            }
        }
        assert_eq!(drawn, WideOptions::ALL);
        assert!(without > 20, "{without}");
    }

    #[test]
    fn keys_keep_their_order_and_come_back() {
        use WideOption::{KeysHigh, KeysLargest, KeysLong, KeysSpread, WideLeaves};
        let options = [KeysSpread, KeysHigh, KeysLargest, KeysLong, WideLeaves];
        let allowed = options.iter().fold(WideOptions::NONE, |options, option| options.with(*option));
        let settings = Settings { wide: allowed, ..Settings::default() };
        let (mut seen, mut largest) = (0, 0);
        for seed in 0..1000 {
            let draw = Draw::new(&settings, seed);
            for key_bytes in [8, 16, 64] {
                let Some(keys) = WideKeys::of(draw.wide, draw.seed, draw.keys, key_bytes) else { continue };
                seen += 1;
                let mut before = vec![0; key_bytes];
                assert_eq!(keys.read(&vec![0x11; key_bytes]), None, "{keys:?}");
                for number in 0..=keys.largest().min(2 * u64::from(draw.keys)) {
                    let mut key = vec![0; key_bytes];
                    keys.write(number, &mut key);
                    assert_eq!(keys.read(&key), Some(number), "{keys:?}");
                    assert!(number == 0 || key > before, "{keys:?}: {number}");
                    before = key;
                }
                let all_ones = before.iter().all(|byte| *byte == 0xff);
                assert!(!draw.wide.has(KeysLargest) || all_ones, "{keys:?}");
                largest += u32::from(all_ones);
            }
        }
        assert!(seen > 300 && largest > 50, "{seen} {largest}");
    }
}
