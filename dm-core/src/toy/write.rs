//! Writes: what an operation does to the array, and how the next version is written.

use super::Toy;
use super::layout::{RootWord, copy};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::locks::protocol::{Held, Locks};
use crate::memory::chunks::{self, Want};
use crate::operation::{OpError, OperationKind, Outcome};
use crate::remote::HOME;
use crate::remote::chunk::{ChunkKind, Grant};
use crate::verbs::{Label, Request};

impl Toy<'_> {
    pub(super) async fn write(&self, lane: &Lane<'_>, kind: OperationKind) -> Result<Outcome, Interrupt> {
        let (held, root) = self.lock(lane).await?;
        match self.change(lane, kind, root).await {
            Ok((outcome, Some(next))) => {
                lane.change_is_next();
                self.publish(lane, held, next, self.scratch.image.at).await?;
                Ok(outcome)
            }
            unchanged => {
                self.release(lane, held).await?;
                Ok(unchanged?.0)
            }
        }
    }

    /// Changes the image, and has a chunk granted if there is none. The answer has the next root word, if there is one.
    async fn change(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        root: RootWord,
    ) -> Result<(Outcome, Option<RootWord>), Interrupt> {
        let (outcome, records) = self.decide(lane, kind, root.records())?;
        let Some(records) = records else { return Ok((outcome, None)) };
        Ok((outcome, Some(self.with_chunk(lane, root).await?.next(records))))
    }

    /// Decides what an operation does to the image of so many records, and does it. The answer has the number of
    /// records afterwards, if anything was changed.
    pub(super) fn decide(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        records: usize,
    ) -> Result<(Outcome, Option<usize>), Interrupt> {
        use OperationKind::{Delete, DeleteIf, Get, Insert, Scan, Update, UpdateIf, Upsert};
        let array = &self.array;
        lane.port().with(|scratch| {
            let (mut arguments, image) = self.arguments(self.scratch.image, scratch)?;
            let at = match array.find(image, records, arguments.key()) {
                Ok(at) => at,
                Err(_) if !matches!(kind, Insert | Upsert) => return Ok((Outcome::Absent, None)),
                Err(_) if records >= array.capacity => return Err(Interrupt::NoMemory),
                Err(gap) => {
                    array.insert(image, records, gap, arguments.key(), arguments.value());
                    return Ok((Outcome::Inserted, Some(records + 1)));
                }
            };
            let value = array.value(image, at);
            let differs = matches!(kind, UpdateIf | DeleteIf) && *value != *arguments.expected();
            if matches!(kind, Get | Insert) || differs {
                copy(arguments.output(), &*value);
            }
            Ok(match kind {
                Get | Scan => (Outcome::Found, None),
                Insert => (Outcome::Exists, None),
                UpdateIf | DeleteIf if differs => (Outcome::Mismatch, None),
                Delete | DeleteIf => {
                    array.remove(image, records, at);
                    (Outcome::Deleted, Some(records - 1))
                }
                Update | UpdateIf | Upsert => {
                    copy(value, arguments.value());
                    (if kind == Upsert { Outcome::Replaced } else { Outcome::Updated }, Some(records))
                }
            })
        })
    }

    /// The root word with a chunk. The lane holds the lock: nobody else gives the index one.
    pub(super) async fn with_chunk(&self, lane: &Lane<'_>, root: RootWord) -> Result<RootWord, Interrupt> {
        if root.chunk().is_some() {
            return Ok(root);
        }
        let Some(request) = self.request else { return Err(Interrupt::NoMemory) };
        let grant = Grant::new(self.parts.owner, ChunkKind::Other, self.parts.number, request);
        let want = Want { grant, retry: true, reuse: false, hint: 0 };
        let granted = chunks::grant(lane, HOME, self.home()?, &want, self.scratch.small).await?;
        granted.map(|granted| RootWord::of_chunk(granted.chunk)).ok_or(Interrupt::NoMemory)
    }

    /// WRITEs the records from scratch offset `at` on to the array of `next`, then `next`, and releases the lock.
    pub(super) async fn publish(&self, lane: &Lane<'_>, held: Held, next: RootWord, at: usize) -> Result<(), OpError> {
        let (bytes, offset) = self.records_of(next)?;
        if bytes > 0 {
            lane.port().push(Request::write(Label::Node, HOME, offset, bytes, at));
        }
        lane.port().push(Request::write_word(Label::Root, HOME, self.root_at.offset(), next.0));
        lane.wrote_in_place();
        self.release_with(lane, held).await
    }
}
