//! `--keys FILE|-`: real keys, one a line, for benchmarks over what people store.
//!
//! # From a line to a slot
//!
//! An index of keys of any length takes lines as they are, of up to 4096 bytes. A fixed-size index has slots of n bytes, 8..=64,
//! which hold byte strings of 0..=n-1 bytes:
//!
//! ```text
//! byte   0                 length             n-1
//!        +--------------------+----------------+--------+
//!        |  the key's bytes   |  zeroes        | length |
//!        +--------------------+----------------+--------+
//! ```
//!
//! Slots compare (as `memcmp` does) like the keys themselves, and no two keys share a slot: where padding makes two keys
//! alike up to the last byte ("a" and "a\0"), the longer one is the larger and the length says so.
//!
//! A line ends with LF or CRLF; any other byte belongs to the key. An empty line is the empty key. The n-th accepted line
//! is record n - 1.
//!
//! # Memory
//!
//! Millions of keys lie end to end in one arena, with eight bytes each that say where; while the file is read, a hash
//! table of four-byte record numbers (5.7 to 11.4 bytes a key) finds duplicates. Nothing is allocated per key.

use dm_core::items::block::KEY_BYTES_LIMIT;
use hashbrown::HashTable;
use std::{
    fs::File,
    hash::BuildHasher,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

/// The least bytes of a slot.
pub const SLOT_BYTES_MIN: usize = 8;

/// The most bytes of a slot.
pub const SLOT_BYTES_MAX: usize = 64;

/// The most keys of a file: record numbers have four bytes in the table that finds duplicates.
pub const KEYS_MAX: usize = u32::MAX as usize;

/// How many bytes are read at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// A slot or a key has the wrong length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// The slot is too short or too long to be one.
    #[error("a slot of {bytes} bytes: slots have {SLOT_BYTES_MIN} to {SLOT_BYTES_MAX} bytes")]
    SlotSize {
        /// Bytes of the slot.
        bytes: usize,
    },
    /// The key does not fit.
    #[error("a key of {bytes} bytes: the slots of this index hold up to {most}")]
    KeyTooLong {
        /// Bytes of the key.
        bytes: usize,
        /// The most that fit: one less than the slot.
        most: usize,
    },
}

/// Writes `key`, of fewer bytes than `slot`, into `slot`, of 8..=64 bytes.
#[inline]
pub fn encode(key: &[u8], slot: &mut [u8]) -> Result<(), SlotError> {
    let bytes = slot.len();
    if !(SLOT_BYTES_MIN..=SLOT_BYTES_MAX).contains(&bytes) {
        return Err(SlotError::SlotSize { bytes });
    }
    if key.len() >= bytes {
        return Err(SlotError::KeyTooLong { bytes: key.len(), most: bytes - 1 });
    }
    let (held, padding) = slot.split_at_mut(key.len());
    held.copy_from_slice(key);
    padding.fill(0);
    slot[bytes - 1] = key.len() as u8;
    Ok(())
}

/// The key that `slot` holds; `None` if [`encode`] writes no such slot.
pub fn decode(slot: &[u8]) -> Option<&[u8]> {
    let (&length, held) = slot.split_last()?;
    let (key, padding) = held.split_at_checked(usize::from(length))?;
    padding.iter().all(|&byte| byte == 0).then_some(key)
}

/// What to do with a line that cannot be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadKeys {
    /// Stop with an error that names the line.
    Refuse,
    /// Leave it out and count it (`--skip-bad-keys`).
    Skip,
}

/// Lines that were left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedLines {
    /// Lines equal to an earlier one.
    pub duplicate: u64,
    /// Lines too long for the slot.
    pub too_long: u64,
}

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The slot size itself is impossible.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// The file cannot be read.
    #[error("cannot read the keys in {}: {source}", path.display())]
    Unreadable {
        /// The file; `-` is the standard input.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A key comes twice.
    #[error("{}:{line}: the same key as line {earlier}; --skip-bad-keys leaves such lines out", path.display())]
    Duplicate {
        /// The file.
        path: PathBuf,
        /// The second line, from 1.
        line: u64,
        /// The first line with this key.
        earlier: u64,
    },
    /// A key does not fit into the slot.
    #[error(
        "{}:{line}: {bytes} bytes; {}keys of up to {most}; --skip-bad-keys leaves such lines out",
        path.display(), slot_bytes.map_or("there are ".to_owned(), |bytes| format!("a slot of {bytes} bytes holds "))
    )]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Bytes of the line.
        bytes: u64,
        /// The most that fit.
        most: usize,
        /// Bytes of the slot, if keys go into such.
        slot_bytes: Option<usize>,
    },
    /// More keys than record numbers.
    #[error("{}:{line}: more than {KEYS_MAX} keys", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
}

/// Where a key lies in the arena: its start in the upper 48 bits, its length (at most 4096) in the lower 16.
#[derive(Clone, Copy, Debug)]
struct Place(u64);

impl Place {
    const fn new(start: usize, bytes: usize) -> Self {
        Self((start as u64) << 16 | bytes as u64)
    }

    fn of(self, arena: &[u8]) -> &[u8] {
        let start = (self.0 >> 16) as usize;
        &arena[start..start + (self.0 & 0xffff) as usize]
    }
}

/// The keys of a file, by record number; all different, each shorter than the slot, if there is one.
#[derive(Debug)]
pub struct RealKeys {
    arena: Vec<u8>,
    places: Vec<Place>,
    slot_bytes: Option<usize>,
    longest: usize,
    skipped: SkippedLines,
}

impl RealKeys {
    /// Reads the keys of the file `path`, or of the standard input if `path` is `-`, for slots of `slot_bytes` bytes;
    /// `None`: for keys of any length.
    pub fn read(path: &Path, slot_bytes: Option<usize>, bad_keys: BadKeys) -> Result<Self, KeyFileError> {
        if path == Path::new("-") {
            return Self::read_from(io::stdin().lock(), path, slot_bytes, bad_keys);
        }
        let file = File::open(path).map_err(|source| KeyFileError::Unreadable { path: path.to_path_buf(), source })?;
        Self::read_from(BufReader::with_capacity(BUFFER_BYTES, file), path, slot_bytes, bad_keys)
    }

    /// Reads keys from `input`; `path` is for messages.
    pub fn read_from(
        mut input: impl BufRead,
        path: &Path,
        slot_bytes: Option<usize>,
        bad_keys: BadKeys,
    ) -> Result<Self, KeyFileError> {
        let most = match slot_bytes {
            Some(bytes) if !(SLOT_BYTES_MIN..=SLOT_BYTES_MAX).contains(&bytes) => {
                return Err(SlotError::SlotSize { bytes }.into());
            }
            Some(bytes) => bytes - 1,
            None => KEY_BYTES_LIMIT,
        };
        let unreadable = |source| KeyFileError::Unreadable { path: path.to_path_buf(), source };
        let mut keys =
            Self { arena: Vec::new(), places: Vec::new(), slot_bytes, longest: 0, skipped: SkippedLines::default() };
        let hasher = std::hash::RandomState::new();
        let mut table = HashTable::<u32>::new();
        let mut line_number = 0_u64;
        // Room for the longest key and its CR; what a line has beyond that is counted and forgotten.
        let mut line = Vec::with_capacity(most + 1);
        while let Some(bytes) = read_line(&mut input, &mut line, most + 1).map_err(unreadable)? {
            line_number += 1;
            if bytes > most as u64 {
                match bad_keys {
                    BadKeys::Skip => keys.skipped.too_long += 1,
                    BadKeys::Refuse => {
                        let path = path.to_path_buf();
                        return Err(KeyFileError::TooLong { path, line: line_number, bytes, most, slot_bytes });
                    }
                }
                continue;
            }
            let hash = hasher.hash_one(&line[..]);
            if let Some(&earlier) = table.find(hash, |&record| keys.key_at(record) == line) {
                match bad_keys {
                    BadKeys::Skip => keys.skipped.duplicate += 1,
                    // Nothing has been skipped so far, so record numbers are line numbers.
                    BadKeys::Refuse => {
                        return Err(KeyFileError::Duplicate {
                            path: path.to_path_buf(),
                            line: line_number,
                            earlier: u64::from(earlier) + 1,
                        });
                    }
                }
                continue;
            }
            if keys.places.len() == KEYS_MAX {
                return Err(KeyFileError::TooMany { path: path.to_path_buf(), line: line_number });
            }
            let record = keys.places.len() as u32;
            keys.places.push(Place::new(keys.arena.len(), line.len()));
            keys.arena.extend_from_slice(&line);
            keys.longest = keys.longest.max(line.len());
            table.insert_unique(hash, record, |&record| hasher.hash_one(keys.key_at(record)));
        }
        keys.arena.shrink_to_fit();
        keys.places.shrink_to_fit();
        Ok(keys)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no key at all.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of a slot; `None`: keys go into none.
    pub const fn slot_bytes(&self) -> Option<usize> {
        self.slot_bytes
    }

    /// Bytes of the longest key.
    pub const fn longest(&self) -> usize {
        self.longest
    }

    /// Bytes of a key, on the average; 0 without keys.
    pub fn mean_bytes(&self) -> usize {
        self.arena.len().checked_div(self.places.len()).unwrap_or(0)
    }

    /// Lines that were left out.
    pub const fn skipped(&self) -> SkippedLines {
        self.skipped
    }

    /// The key of a record: 0..=slot_bytes - 1 bytes; `None` beyond the last.
    #[inline]
    pub fn key(&self, record: u64) -> Option<&[u8]> {
        let place = self.places.get(usize::try_from(record).ok()?)?;
        Some(place.of(&self.arena))
    }

    /// Writes the key of a record into `room`: a slot of [`slot_bytes`](Self::slot_bytes), or as it is. Says how many bytes that
    /// are; `None`: there is no such record.
    #[inline]
    pub fn write(&self, record: u64, room: &mut [u8]) -> Option<usize> {
        let key = self.key(record)?;
        match self.slot_bytes {
            Some(bytes) => encode(key, room.get_mut(..bytes)?).ok().map(|()| bytes),
            None => room.get_mut(..key.len()).map(|room| room.copy_from_slice(key)).map(|()| key.len()),
        }
    }

    fn key_at(&self, record: u32) -> &[u8] {
        self.places[record as usize].of(&self.arena)
    }
}

/// Reads one line into `line`, without its LF or CRLF, and gives its length in bytes; `None` at the end of the input. Of
/// a line longer than `most` bytes, only a part is kept.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, most: usize) -> io::Result<Option<u64>> {
    line.clear();
    let (mut bytes, mut last, mut is_started) = (0_u64, None, false);
    loop {
        let buffer = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            buffer => buffer?,
        };
        if buffer.is_empty() {
            return Ok(is_started.then_some(bytes));
        }
        is_started = true;
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        line.extend_from_slice(&part[..part.len().min(most - line.len())]);
        bytes += part.len() as u64;
        last = part.last().copied().or(last);
        let consumed = part.len() + usize::from(end.is_some());
        input.consume(consumed);
        if end.is_some() {
            if last == Some(b'\r') {
                bytes -= 1;
                line.truncate(bytes.min(most as u64) as usize);
            }
            return Ok(Some(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, time::Instant};

    fn read(text: &[u8], slot_bytes: usize, bad_keys: BadKeys) -> Result<RealKeys, KeyFileError> {
        // A buffer of three bytes: lines and their ends fall across its borders.
        let small = RealKeys::read_from(BufReader::with_capacity(3, text), Path::new("k"), Some(slot_bytes), bad_keys);
        let large = RealKeys::read_from(text, Path::new("k"), Some(slot_bytes), bad_keys);
        assert_eq!(small.as_ref().map(all).ok(), large.as_ref().map(all).ok());
        small
    }

    fn all(keys: &RealKeys) -> Vec<Vec<u8>> {
        (0..keys.len() as u64).map(|record| keys.key(record).unwrap().to_vec()).collect()
    }

    fn slot(key: &[u8], bytes: usize) -> Vec<u8> {
        let mut slot = vec![0xaa; bytes];
        encode(key, &mut slot).unwrap();
        slot
    }

    #[test]
    fn a_slot_is_the_key_zeroes_and_the_length() {
        assert_eq!(slot(b"", 8), [0; 8]);
        assert_eq!(slot(b"abc", 8), *b"abc\0\0\0\0\x03");
        assert_eq!(slot(b"abcdefg", 8), *b"abcdefg\x07");
    }

    #[test]
    fn slots_sort_as_keys_do_and_no_two_are_alike() {
        let mut keys: Vec<&[u8]> = vec![
            b"",
            b"\0",
            b"\0\0",
            b"\0\x01",
            b"a",
            b"a\0",
            b"a\0\0",
            b"a\0b",
            b"a\x01",
            b"ab",
            b"\xff",
            b"\xff\xff",
        ];
        keys.push(b"\xff\xff\xff\xff\xff\xff\xff");
        assert!(keys.is_sorted());
        for bytes in [8, 9, 64] {
            let slots: Vec<_> = keys.iter().map(|key| slot(key, bytes)).collect();
            assert!(slots.windows(2).all(|pair| pair[0] < pair[1]), "{bytes} bytes");
            assert!(keys.iter().zip(&slots).all(|(key, slot)| decode(slot) == Some(key)));
        }
    }

    #[test]
    fn what_is_no_slot_is_not_decoded() {
        assert_eq!(decode(b""), None);
        assert_eq!(decode(b"abc\0\0\0\0\x02"), None, "bytes in the padding");
        assert_eq!(decode(b"abc\0\0\0\0\x08"), None, "longer than the slot");
    }

    #[test]
    fn keys_and_slots_of_the_wrong_length_are_refused() {
        assert_eq!(encode(b"12345678", &mut [0; 8]), Err(SlotError::KeyTooLong { bytes: 8, most: 7 }));
        assert_eq!(encode(b"", &mut [0; 7]), Err(SlotError::SlotSize { bytes: 7 }));
        assert_eq!(encode(b"", &mut [0; 65]), Err(SlotError::SlotSize { bytes: 65 }));
        assert!(matches!(read(b"", 65, BadKeys::Skip), Err(KeyFileError::Slot(_))));
    }

    #[test]
    fn lines_end_with_lf_or_crlf_and_other_bytes_are_key() {
        let keys = read(b"one\ntwo\r\n\nth\rree\nfour\r\r\n\xff\0 five", 16, BadKeys::Refuse).unwrap();
        assert_eq!(all(&keys), [&b"one"[..], b"two", b"", b"th\rree", b"four\r", b"\xff\0 five"]);
        assert!(read(b"", 8, BadKeys::Refuse).unwrap().is_empty());
        assert_eq!(all(&read(b"\n", 8, BadKeys::Refuse).unwrap()), [b""]);
        assert_eq!(all(&read(b"\r\n", 8, BadKeys::Refuse).unwrap()), [b""]);
        assert_eq!(all(&read(b"a\r", 8, BadKeys::Refuse).unwrap()), [b"a\r"]);
    }

    #[test]
    fn prefixes_of_each_other_are_different_keys() {
        let keys = read(b"a\0\na\n\na\0\0\n", 8, BadKeys::Refuse).unwrap();
        assert_eq!(all(&keys), [&b"a\0"[..], b"a", b"", b"a\0\0"]);
        let mut slot = [0; 8];
        assert_eq!(keys.write(0, &mut slot), Some(slot.len()));
        assert_eq!(decode(&slot), Some(&b"a\0"[..]));
        assert_eq!(keys.write(4, &mut slot), None);
        assert_eq!(keys.key(u64::MAX), None);
    }

    #[test]
    fn a_duplicate_is_named_by_both_lines() {
        let error = read(b"x\ny\r\nz\ny\n", 8, BadKeys::Refuse).unwrap_err().to_string();
        assert_eq!(error, "k:4: the same key as line 2; --skip-bad-keys leaves such lines out");
    }

    #[test]
    fn a_line_that_does_not_fit_is_named_with_its_length() {
        let error = read(b"1234567\n1234567\r\n", 8, BadKeys::Skip).unwrap();
        assert_eq!(error.skipped(), SkippedLines { duplicate: 1, too_long: 0 });
        let error = read(b"1234567\n12345678\n", 8, BadKeys::Refuse).unwrap_err().to_string();
        assert_eq!(
            error,
            "k:2: 8 bytes; a slot of 8 bytes holds keys of up to 7; --skip-bad-keys leaves such lines out"
        );
        let long = [&b"x\n"[..], &vec![b'y'; 1_000_000], b"\r\nz"].concat();
        let error = read(&long, 64, BadKeys::Refuse).unwrap_err();
        assert!(matches!(error, KeyFileError::TooLong { line: 2, bytes: 1_000_000, most: 63, .. }), "{error}");
    }

    #[test]
    fn bad_lines_are_skipped_and_counted_by_reason() {
        let keys = read(b"a\n12345678\nb\na\na\r\n123456789\r\nc\n", 8, BadKeys::Skip).unwrap();
        assert_eq!(all(&keys), [b"a", b"b", b"c"]);
        assert_eq!(keys.skipped(), SkippedLines { duplicate: 2, too_long: 2 });
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = RealKeys::read(Path::new("no/such/keys"), Some(8), BadKeys::Skip).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the keys in no/such/keys: "), "{error}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(RealKeys::read(&path, Some(8), BadKeys::Refuse).unwrap().len(), 2);
    }

    #[test]
    fn a_million_keys_take_little_time_and_memory() {
        let mut text = Vec::new();
        (0..1_000_000_u64).for_each(|record| writeln!(text, "user{:016}", record * 7_919).unwrap());
        let start = Instant::now();
        let keys = RealKeys::read_from(&text[..], Path::new("k"), Some(32), BadKeys::Refuse).unwrap();
        let elapsed = start.elapsed();
        println!("{:.0} ns a key", elapsed.as_nanos() as f64 / 1e6);
        assert_eq!(keys.len(), 1_000_000);
        // Twenty bytes a key and eight to find it; nothing for vectors that grew too far.
        assert_eq!(keys.arena.capacity() + keys.places.capacity() * size_of::<Place>(), 28_000_000);
        assert!(elapsed.as_secs() < 10, "{elapsed:?}");
    }

    #[test]
    fn lines_of_any_length_are_keys() {
        let long = "x".repeat(KEY_BYTES_LIMIT);
        let text = format!("/a\n\n/{long}\n{long}\n");
        let error = RealKeys::read_from(text.as_bytes(), Path::new("k"), None, BadKeys::Refuse).unwrap_err();
        assert!(
            matches!(error, KeyFileError::TooLong { line: 3, bytes: 4097, most: 4096, slot_bytes: None, .. }),
            "{error}"
        );
        let keys = RealKeys::read_from(text.as_bytes(), Path::new("k"), None, BadKeys::Skip).unwrap();
        assert_eq!((keys.len(), keys.longest(), keys.skipped().too_long), (3, 4096, 1));
        let mut room = vec![0; 4096];
        assert_eq!((keys.write(0, &mut room), &room[..2]), (Some(2), &b"/a"[..]), "as it is");
        assert_eq!(keys.write(1, &mut room), Some(0));
        assert_eq!((keys.write(2, &mut room), &room[..]), (Some(4096), long.as_bytes()));
    }
}
