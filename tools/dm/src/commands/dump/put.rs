//! The records of a dump put into an index, by several lanes at a time.
//!
//! One reader checks the dump and cuts it into *parts* of records that follow one another. Each lane takes the next part and puts
//! its records. The reader is at most a few parts ahead of the lanes, so memory is bounded.
//!
//! **Order** is free: the keys of a dump ascend, so none is in it twice. Neighboring parts have their keys in neighboring
//! leaves, and their lanes wait for each other at the leaves between two parts only.
//!
//! **Failures.** The first one ends the load, of the reader or of a lane. Every other lane ends the part that it has. So a load
//! that fails leaves the records before the failure, but for those of parts that were not ended, and some behind it.

use super::{Reader, Record};
use crate::failure::Failure;
use crate::tool::Tool;
use dm_core::operation::{Operation, OperationKind};
use indicatif::ProgressBar;
use std::io::Read;
use std::sync::mpsc::sync_channel;
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
struct Part {
    /// Of all keys and values.
    bytes: Vec<u8>,
    /// How long each key is, and each value.
    lengths: Vec<(usize, usize)>,
}

impl Part {
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

    fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut rest = &*self.bytes;
        self.lengths.iter().map(move |&(key_bytes, value_bytes)| {
            let (key, behind) = rest.split_at(key_bytes);
            let (value, behind) = behind.split_at(value_bytes);
            rest = behind;
            (key, value)
        })
    }

    fn put(&self, tool: &mut Tool<'_, '_, '_, '_>) -> Result<(), Failure> {
        self.records().try_for_each(|(key, value)| {
            tool.arguments(key, Some(value)).map_err(Failure::Run)?;
            tool.execute(Operation::point(OperationKind::Upsert)).map_err(Failure::run)?;
            Ok(())
        })
    }
}

/// Puts all records of a dump with `tools`, a thread for each.
pub(super) fn put<R: Read>(
    tools: &mut [Tool<'_, '_, '_, '_>],
    reader: &mut Reader<'_, R>,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let (sender, receiver) = sync_channel::<Part>(AHEAD * tools.len());
    // The lanes alone have the receiver: when all of them have ended, the reader cannot send any more, and ends.
    let receiver = Arc::new(Mutex::new(receiver));
    let failed = OnceLock::new();
    thread::scope(|scope| {
        for tool in tools {
            let (receiver, failed) = (Arc::clone(&receiver), &failed);
            scope.spawn(move || {
                while failed.get().is_none() {
                    let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(part) = next else { return };
                    match part.put(tool) {
                        Ok(()) => bar.inc(part.lengths.len() as u64),
                        // Of several failures the first one is told.
                        Err(failure) => drop(failed.set(failure)),
                    }
                }
            });
        }
        drop(receiver);
        while failed.get().is_none() {
            match Part::read(reader) {
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
