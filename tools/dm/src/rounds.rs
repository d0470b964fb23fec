//! Rounds of operations that one process asks of another over a pipe: see `dm bench --against`.
//!
//! The process that asks draws the operations. So all indexes that are compared get the same keys, and no generator is in
//! what is measured. The one that answers measures processor time of its thread, which other processes do not affect.
//!
//! Its standard input has, for each round, a line with the kind of the operations, their number, and perhaps the word
//! `bare`; then [`Item::BYTES`] of each operation. Its standard output has the line `ready`, and for each round a line
//! with the nanoseconds that it took.

use dm_core::operation::OperationKind;
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, BufRead, BufReader, Error, Read as _, Write};

/// The kinds of operations that are compared, in order: inserts come last, since they change the index.
pub const KINDS: [OperationKind; 4] =
    [OperationKind::Get, OperationKind::Update, OperationKind::Scan, OperationKind::Insert];

/// Records of a scan.
pub const SCANNED: usize = 100;

/// What the process that answers says first.
pub const READY: &str = "ready";

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The record, by which [`check`](crate::workload::keys::check) recognises its values.
    pub record: u64,
    /// Its key: a number in the order of keys.
    pub key: u64,
    /// What an update or insert writes.
    pub value: u64,
}

impl Item {
    /// Its bytes in a pipe: three little-endian words.
    pub const BYTES: usize = 24;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (room, word) in bytes.chunks_exact_mut(8).zip([self.record, self.key, self.value]) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes);
        let mut next = || words.next().unwrap_or_default();
        Self { record: next(), key: next(), value: next() }
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// What all operations are.
    pub kind: OperationKind,
    /// Whether a bare loop does them, and not the engine.
    pub bare: bool,
    /// The operations.
    pub items: Vec<Item>,
}

impl Round {
    /// Sends it.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        writeln!(to, "{} {}{}", self.kind.name(), self.items.len(), if self.bare { " bare" } else { "" })?;
        let bytes: Vec<u8> = self.items.iter().flat_map(|item| item.to_bytes()).collect();
        to.write_all(&bytes)?;
        to.flush()
    }

    /// Receives one; `None`: no more are asked for.
    pub fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let bad = || Error::new(io::ErrorKind::InvalidData, format!("no round begins with {line:?}"));
        let mut words = line.split_whitespace();
        let kind = words.next().and_then(|word| KINDS.into_iter().find(|kind| kind.name() == word)).ok_or_else(bad)?;
        let count: usize = words.next().and_then(|word| word.parse().ok()).ok_or_else(bad)?;
        let bare = words.next() == Some("bare");
        let mut bytes = Vec::new();
        let wanted = count.saturating_mul(Item::BYTES);
        if from.take(wanted as u64).read_to_end(&mut bytes)? < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(Self { kind, bare, items: bytes.chunks_exact(Item::BYTES).map(Item::of_bytes).collect() }))
    }
}

/// Answers all rounds that the standard input asks for. `play` does the operations of one.
pub fn serve(mut play: impl FnMut(&Round) -> Result<(), String>) -> io::Result<()> {
    let (mut from, mut to) = (BufReader::new(io::stdin().lock()), io::stdout().lock());
    writeln!(to, "{READY}")?;
    to.flush()?;
    while let Some(round) = Round::read(&mut from)? {
        let began_ns = thread_ns();
        play(&round).map_err(|why| Error::other(format!("{}: {why}", round.kind.name())))?;
        writeln!(to, "{}", thread_ns() - began_ns)?;
        to.flush()?;
    }
    Ok(())
}

/// Processor time of this thread so far.
pub fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_arrive_as_they_were_sent() {
        let item = |record| Item { record, key: !record, value: record << 32 };
        let rounds = [
            Round { kind: OperationKind::Get, bare: true, items: (0..3).map(item).collect() },
            Round { kind: OperationKind::Insert, bare: false, items: Vec::new() },
        ];
        let mut sent = Vec::new();
        for round in &rounds {
            round.write(&mut sent).unwrap();
        }
        let mut from = &sent[..];
        for round in rounds {
            assert_eq!(Round::read(&mut from).unwrap(), Some(round));
        }
        assert_eq!(Round::read(&mut from).unwrap(), None);
    }

    #[test]
    fn what_is_no_round_is_an_error() {
        for sent in ["got 1\n", "get\n", "get x\n", "get 1\n too short"] {
            assert!(Round::read(&mut sent.as_bytes()).is_err(), "{sent:?}");
        }
    }
}
