//! The records of a dump put into an index, by several lanes at a time.
//!
//! One reader checks the dump and cuts it into *parts* of records that follow one another. Each lane takes the next part and puts
//! its records. The reader is at most a few parts ahead of the lanes, so memory is bounded.
//!
//! **Order** is free: the keys of a dump ascend, so none is in it twice. Lanes wait for each other at leaves between two parts,
//! and at the nodes above. So they are those of workers, which wake each other's lanes.
//!
//! **Failures.** The first one ends the load, of the reader or of a lane. Every other lane ends the operation that it has. So a
//! load that fails leaves the records before the failure, but for those of parts that were not ended, and some behind it.

use super::Reader;
use crate::failure::Failure;
use crate::tool::Tool;
use dm_core::operation::{Operation, OperationKind, Part, ScratchPlan};
use dm_host::worker::{Finished, Next, Wakes, Work, run};
use indicatif::ProgressBar;
use std::io::Read;
use std::slice;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

/// Records of a part, at most.
const PART_RECORDS: usize = 1024;

/// Bytes of keys and values after which a part ends, too: an item may have many.
const PART_BYTES: usize = 1 << 20;

/// Parts that are read and not yet taken, for each lane.
const AHEAD: usize = 2;

/// Records that follow one another in a dump.
#[derive(Debug, Default)]
struct Records {
    /// Of all keys and values.
    bytes: Vec<u8>,
    /// How long each key is, and each value.
    lengths: Vec<(usize, usize)>,
}

impl Records {
    /// Reads the next part, and whether the dump goes on behind it.
    fn read<R: Read>(reader: &mut Reader<'_, R>) -> Result<(Self, bool), Failure> {
        let mut part = Self::default();
        while part.lengths.len() < PART_RECORDS && part.bytes.len() < PART_BYTES {
            let Some((key, value)) = reader.next()? else { return Ok((part, false)) };
            part.bytes.extend_from_slice(key);
            part.bytes.extend_from_slice(value);
            part.lengths.push((key.len(), value.len()));
        }
        Ok((part, true))
    }
}

/// The work of a lane: parts, one after the other.
struct Puts<'a> {
    parts: Arc<Mutex<Receiver<Records>>>,
    failed: &'a OnceLock<Failure>,
    bar: &'a ProgressBar,
    part: Records,
    /// Records of the part that are done or under way, and their bytes.
    at: usize,
    used_bytes: usize,
}

impl Puts<'_> {
    /// Takes the next part. `false`: there is none any more.
    fn take(&mut self) -> bool {
        self.bar.inc(self.part.lengths.len() as u64);
        (self.at, self.used_bytes) = (0, 0);
        let next = self.parts.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let is_one = next.is_ok();
        self.part = next.unwrap_or_default();
        is_one
    }

    /// Of several failures the first one is told.
    fn fail(&self, failure: Failure) {
        let _ = self.failed.set(failure);
    }
}

impl Work for Puts<'_> {
    const TIMED: bool = false;

    fn next(&mut self, _: usize, scratch: &mut [u8], plan: &ScratchPlan) -> Next {
        if self.failed.get().is_some() {
            return Next::Finished;
        }
        while self.at == self.part.lengths.len() {
            // The lane is idle: nobody waits for it meanwhile.
            if !self.take() {
                return Next::Finished;
            }
        }
        let (key_bytes, value_bytes) = self.part.lengths[self.at];
        let record = &self.part.bytes[self.used_bytes..][..key_bytes + value_bytes];
        let (key, value) = record.split_at(key_bytes);
        if !plan.put(scratch, Part::Key, key) || !plan.put(scratch, Part::Value, value) {
            self.fail(Failure::Run(format!("a record of {key_bytes}+{value_bytes} bytes: the index has no such")));
            return Next::Finished;
        }
        self.at += 1;
        self.used_bytes += key_bytes + value_bytes;
        Next::Run(Operation::point(OperationKind::Upsert))
    }

    fn done(&mut self, _: usize, finished: Finished<'_>) {
        if let Err(error) = finished.result {
            self.fail(Failure::run(error));
        }
    }
}

/// Puts all records of a dump with `tools`, a thread for each.
pub(super) fn put<R: Read>(
    tools: &mut [Tool<'_, '_, '_, '_>],
    reader: &mut Reader<'_, R>,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let (sender, receiver) = sync_channel(AHEAD * tools.len());
    // The lanes alone have the receiver: when all of them have ended, the reader cannot send any more, and ends.
    let receiver = Arc::new(Mutex::new(receiver));
    let failed = OnceLock::new();
    let wakes = Wakes::new(tools.len(), 1);
    thread::scope(|scope| {
        for tool in tools {
            let (parts, failed, wakes) = (Arc::clone(&receiver), &failed, &wakes);
            let mut puts = Puts { parts, failed, bar, part: Records::default(), at: 0, used_bytes: 0 };
            scope.spawn(move || {
                let index = tool.index;
                if let Err(error) = run(&index, slice::from_ref(&*tool.lane), tool.fabric, &mut puts, wakes) {
                    puts.fail(Failure::run(error));
                }
            });
        }
        drop(receiver);
        while failed.get().is_none() {
            match Records::read(reader) {
                Ok((part, more)) => {
                    if sender.send(part).is_err() || !more {
                        break;
                    }
                }
                Err(failure) => {
                    let _ = failed.set(failure);
                }
            }
        }
        drop(sender);
    });
    failed.into_inner().map_or(Ok(()), Err)
}
