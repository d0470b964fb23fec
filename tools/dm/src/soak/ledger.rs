//! A file that outlives a writer: which writes it intends, and which were acknowledged.
//!
//! Every key has one writer, so its versions are in order. A write of version `v` is noted as *intended* before it is
//! asked for, and as *acknowledged* after it was. Whether a version deletes the key or writes a value follows from key
//! and version alone ([`is_delete`]), and so does the value. If the ledger says `acknowledged..=intended` for a key,
//! exactly the states after one of these versions are possible. All but the first of them are states of writes in
//! doubt.
//!
//! A note is one `pwrite` of eight bytes: a process that is killed has made it or not.
//!
//! **Two processes of one writer.** If keys have owners, a writer that is stopped for longer than a lease gets a substitute,
//! which writes to the same ledger once it owns the keys. The ledger says which process is the *holder*: the one that
//! owned the keys last. A substitute makes itself the holder before it reads the entries, and both after its first
//! operation was answered. So exactly one of two is believed: an answer to an operation that *began* when another process was
//! the holder is wrong, whatever it says. An operation that began before may be answered late; a read is
//! therefore compared with what was acknowledged, by any process, before it began.

use crate::workload::random::mix;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Bytes of a value.
pub const VALUE_BYTES: usize = 32;

/// Bytes of a key's entry.
const ENTRY_BYTES: u64 = 16;

/// Bytes of the holder's number, behind the entries.
const HOLDER_BYTES: u64 = 8;

/// Which keys there are, and whose.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Writers.
    pub writers: u64,
    /// Keys of each.
    pub each: u64,
    /// Keys have owners: those of a writer are neighbours, and it reads no others. If not, neighbours have different writers,
    /// so that leaves are shared, and all writers read all keys.
    pub owned: bool,
}

impl Keys {
    /// The key at `position` of a writer.
    pub const fn key(&self, writer: u64, position: u64) -> u64 {
        if self.owned { writer * self.each + position } else { position * self.writers + writer }
    }

    /// The writer of a key, and the key's position among that writer's keys.
    pub const fn place(&self, key: u64) -> (u64, u64) {
        if self.owned { (key / self.each, key % self.each) } else { (key % self.writers, key / self.writers) }
    }

    /// The keys that a writer reads.
    pub const fn readable(&self, writer: u64) -> Range<u64> {
        if self.owned { writer * self.each..(writer + 1) * self.each } else { 0..self.writers * self.each }
    }
}

/// What is known of one key. Version 0: it was never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The last version that was acknowledged.
    pub acknowledged: u64,
    /// The last version that was asked for.
    pub intended: u64,
}

/// Whether version `version` of `key` deletes it.
pub const fn is_delete(key: u64, version: u64) -> bool {
    version == 0 || mix(key ^ mix(version)).is_multiple_of(5)
}

/// The value of version `version` of `key`. It contains both, the writer, and a checksum.
pub fn value_of(key: u64, version: u64, writer: u64) -> [u8; VALUE_BYTES] {
    let sum = mix(key ^ mix(version ^ mix(writer)));
    let mut value = [0; VALUE_BYTES];
    for (place, word) in value.chunks_exact_mut(8).zip([key, version, writer, sum]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    value
}

/// The version in a value that was found under `key`, whose writer is `writer`. `Err` says what is wrong with it.
pub fn version_in(key: u64, writer: u64, value: &[u8]) -> Result<u64, String> {
    let word = |at: usize| value[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let version = word(8);
    if value.len() != VALUE_BYTES || value != value_of(key, version, writer) {
        return Err(format!("key {key} has a value nobody wrote: {value:02x?}"));
    }
    if is_delete(key, version) {
        return Err(format!("key {key} has a value of version {version}, which is a delete"));
    }
    Ok(version)
}

impl Entry {
    fn of(bytes: &[u8]) -> Self {
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        Self { acknowledged: word(0), intended: word(8) }
    }

    /// What a read may find that began when the ledger said this, and ended when it said `after`.
    pub const fn until(self, after: Self) -> Self {
        Self { acknowledged: self.acknowledged, intended: after.intended }
    }

    /// Whether `found`, a version or none, is a possible state of the key.
    pub fn explains(&self, key: u64, found: Option<u64>) -> Result<(), String> {
        let possible = match found {
            Some(version) => (self.acknowledged..=self.intended).contains(&version),
            None => (self.acknowledged..=self.intended).any(|version| is_delete(key, version)),
        };
        if possible {
            return Ok(());
        }
        let Self { acknowledged, intended } = self;
        let found = found.map_or_else(|| "is absent".to_owned(), |version| format!("has version {version}"));
        Err(format!("key {key} {found}; version {acknowledged} was acknowledged, {intended} is the last asked for"))
    }

    /// Whether the key exists: `None` if that is not known.
    pub fn is_present(&self, key: u64) -> Option<bool> {
        let mut states = (self.acknowledged..=self.intended).map(|version| !is_delete(key, version));
        let first = states.next()?;
        states.all(|state| state == first).then_some(first)
    }
}

/// The ledger of one writer.
#[derive(Debug)]
pub struct Ledger {
    file: File,
    keys: u64,
}

impl Ledger {
    /// Makes the file of a writer of `keys` keys.
    pub fn create(path: &Path, keys: u64) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        file.set_len(keys * ENTRY_BYTES + HOLDER_BYTES)?;
        Ok(Self { file, keys })
    }

    /// Opens it.
    pub fn open(path: &Path, keys: u64) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        Ok(Self { file, keys })
    }

    /// All entries, by position of the key.
    pub fn read(&self) -> io::Result<Vec<Entry>> {
        let mut bytes = vec![0; (self.keys * ENTRY_BYTES) as usize];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes.chunks_exact(ENTRY_BYTES as usize).map(Entry::of).collect())
    }

    /// The entry of the key at `position`. Its two halves may be of two instants, the acknowledged one of the earlier.
    pub fn entry(&self, position: u64) -> io::Result<Entry> {
        let mut bytes = [0; ENTRY_BYTES as usize];
        self.file.read_exact_at(&mut bytes, position * ENTRY_BYTES)?;
        Ok(Entry::of(&bytes))
    }

    /// The number of the process that owned the keys last; 0: none did.
    pub fn holder(&self) -> io::Result<u64> {
        let mut bytes = [0; HOLDER_BYTES as usize];
        self.file.read_exact_at(&mut bytes, self.keys * ENTRY_BYTES)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Notes that process `number` owns the keys now.
    pub fn hold(&self, number: u64) -> io::Result<()> {
        self.file.write_all_at(&number.to_le_bytes(), self.keys * ENTRY_BYTES)
    }

    /// Notes that `version` of the key at `position` is going to be written.
    pub fn intend(&self, position: u64, version: u64) -> io::Result<()> {
        self.file.write_all_at(&version.to_le_bytes(), position * ENTRY_BYTES + 8)
    }

    /// Notes that it was acknowledged.
    pub fn acknowledge(&self, position: u64, version: u64) -> io::Result<()> {
        self.file.write_all_at(&version.to_le_bytes(), position * ENTRY_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first version from `from` on that deletes, or not.
    fn next(key: u64, from: u64, delete: bool) -> u64 {
        (from..from + 1000).find(|&version| is_delete(key, version) == delete).unwrap()
    }

    #[test]
    fn an_acknowledged_version_or_a_later_one_that_was_asked_for() {
        let written = next(7, 1, false);
        let known = Entry { acknowledged: written, intended: written };
        assert!(known.explains(7, Some(written)).is_ok());
        assert!(known.explains(7, None).is_err(), "an acknowledged write is lost");
        assert!(known.explains(7, Some(written + 1)).is_err(), "nobody asked for that");
        assert_eq!(known.is_present(7), Some(true));
        let deleted = next(7, written + 1, true);
        let doubt = Entry { acknowledged: written, intended: deleted };
        assert!(doubt.explains(7, Some(written)).is_ok() && doubt.explains(7, None).is_ok());
        assert_eq!(doubt.is_present(7), None);
        let gone = Entry { acknowledged: deleted, intended: deleted };
        assert!(gone.explains(7, Some(written)).is_err(), "an acknowledged delete is undone");
        assert_eq!(Entry::default().is_present(7), Some(false));
    }

    /// A process that was stopped has its cache as it was, and a substitute has written since.
    #[test]
    fn a_read_that_began_after_a_substitute_wrote_is_stale_if_it_tells_what_was_before() {
        let old = next(7, 1, false);
        let new = next(7, old + 1, false);
        let before = Entry { acknowledged: old, intended: old };
        let now = Entry { acknowledged: new, intended: new };
        assert!(now.until(now).explains(7, Some(old)).is_err(), "it began when the ledger said `new`");
        assert!(before.until(now).explains(7, Some(old)).is_ok(), "it may have taken effect before");
        assert!(before.until(now).explains(7, Some(new)).is_ok());
    }

    #[test]
    fn keys_have_one_writer_and_one_place() {
        for owned in [false, true] {
            let keys = Keys { writers: 3, each: 5, owned };
            let mut all = Vec::new();
            for writer in 0..3 {
                for position in 0..5 {
                    let key = keys.key(writer, position);
                    assert_eq!(keys.place(key), (writer, position));
                    assert!(keys.readable(writer).contains(&key));
                    all.push(key);
                }
            }
            assert_eq!(all.is_sorted(), owned, "owned keys of a writer are neighbours");
            all.sort_unstable();
            assert!(all.into_iter().eq(0..15));
        }
    }

    #[test]
    fn values_check_themselves() {
        let version = next(9, 1, false);
        let mut value = value_of(9, version, 3);
        assert_eq!(version_in(9, 3, &value), Ok(version));
        assert!(version_in(8, 3, &value).is_err() && version_in(9, 2, &value).is_err());
        value[31] ^= 1;
        assert!(version_in(9, 3, &value).is_err());
        let deleted = next(9, 1, true);
        assert!(version_in(9, 3, &value_of(9, deleted, 3)).unwrap_err().contains("a delete"));
    }

    #[test]
    fn a_ledger_outlives_its_writer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger");
        let ledger = Ledger::create(&path, 3).unwrap();
        ledger.intend(1, 8).unwrap();
        ledger.acknowledge(1, 7).unwrap();
        assert_eq!(ledger.holder().unwrap(), 0);
        ledger.hold(9).unwrap();
        drop(ledger);
        let ledger = Ledger::open(&path, 3).unwrap();
        assert_eq!((ledger.holder().unwrap(), ledger.entry(1).unwrap().intended), (9, 8));
        drop(ledger);
        let entries = Ledger::open(&path, 3).unwrap().read().unwrap();
        assert_eq!(entries, [Entry::default(), Entry { acknowledged: 7, intended: 8 }, Entry::default()]);
    }
}
