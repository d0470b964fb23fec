//! Get and scan: how the array is READ without the lock. Why that is right: [`super`].

use super::layout::{RootWord, copy};
use super::{OUT_OF_ORDER, SHORT, Toy};
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, word_at};
use crate::locks::protocol::Locks;
use crate::marks::Mark;
use crate::operation::{OpError, Operation, OperationKind, Outcome};
use crate::remote::HOME;
use crate::verbs::{Label, Request};
use core::ops::Range;

/// Versions that a reader meets before it READs under the lock.
const READS_MAX: u32 = 8;

impl Toy<'_> {
    pub(super) async fn get(&self, lane: &Lane<'_>) -> Result<Outcome, Interrupt> {
        let root = self.read(lane).await?;
        Ok(self.decide(lane, OperationKind::Get, root.records())?.0)
    }

    pub(super) async fn scan(&self, lane: &Lane<'_>, operation: &Operation) -> Result<Outcome, Interrupt> {
        let root = self.read(lane).await?;
        lane.port().with(|scratch| {
            let (array, (front, image)) = (&self.array, self.scratch.image.split(scratch).ok_or(SHORT)?);
            let bound = |range: &Range<usize>| front.get(range.clone()).unwrap_or_default();
            let key = bound(&self.plan.key);
            let low = array.find(image, root.records(), key);
            let start = low.unwrap_or_else(|gap| gap) + usize::from(operation.after && low.is_ok());
            let high = operation.bounded.then(|| array.find(image, root.records(), bound(&self.plan.key_high)));
            let rest = high.map_or(root.records(), |high| high.unwrap_or_else(|gap| gap)).saturating_sub(start);
            let count = rest.min(operation.limit as usize).min(self.plan.page_records());
            let first = array.key(image, start);
            let is_in_front = first < key || operation.after && first == key;
            if count > 0 && is_in_front || !array.ascend(image, start..start + count) {
                return Err(self.corrupt(OUT_OF_ORDER).into());
            }
            let found = image.get(start * array.record_bytes()..(start + count) * array.record_bytes());
            copy(front.get_mut(self.plan.page.clone()).unwrap_or_default(), found.unwrap_or_default());
            Ok(Outcome::Page { records: count as u32, more: rest > count })
        })
    }

    pub(super) fn root_request(&self) -> Request {
        Request::read(Label::Root, HOME, self.root_at.offset(), 8, self.scratch.small).untimed()
    }

    /// The root word that was READ, if it can be one.
    pub(super) fn seen_root(&self, lane: &Lane<'_>) -> Result<RootWord, OpError> {
        let root = RootWord(word_at(lane, self.scratch.small));
        let Some(chunk) = root.chunk() else {
            return if root == RootWord::NONE { Ok(root) } else { Err(self.corrupt("a root word without a chunk")) };
        };
        if chunk >= self.home()?.chunk_count || root.records() > self.array.capacity {
            return Err(self.corrupt("a root word with more than there can be"));
        }
        Ok(root)
    }

    pub(super) async fn read_root(&self, lane: &Lane<'_>) -> Result<RootWord, OpError> {
        lane.port().call(self.root_request()).await?;
        self.seen_root(lane)
    }

    /// Bytes and place of the records that `root` names.
    pub(super) fn records_of(&self, root: RootWord) -> Result<(usize, u64), OpError> {
        let chunk = self.home()?.chunk_offset(root.chunk().unwrap_or(0));
        Ok((root.records() * self.array.record_bytes(), chunk + (root.array() * self.array.bytes()) as u64))
    }

    /// READs the records that `root` names into the image.
    pub(super) async fn read_array(&self, lane: &Lane<'_>, root: RootWord) -> Result<(), OpError> {
        let (bytes, offset) = self.records_of(root)?;
        if bytes > 0 {
            let read = Request::read(Label::Leaf, HOME, offset, bytes, self.scratch.image.at);
            lane.port().call(read.untimed()).await?;
        }
        Ok(())
    }

    /// READs the array as it is at an instant of this call.
    pub(super) async fn read(&self, lane: &Lane<'_>) -> Result<RootWord, Interrupt> {
        let mut root = self.read_root(lane).await?;
        for _ in 0..READS_MAX {
            if root.records() == 0 {
                return Ok(root);
            }
            self.read_array(lane, root).await?;
            let seen = root;
            root = self.read_root(lane).await?;
            if root == seen {
                return Ok(root);
            }
            lane.mark(Mark::TORN_READ);
            lane.check_deadline()?;
        }
        lane.mark(Mark::LOCKED_READ);
        let (held, root) = self.lock(lane).await?;
        self.release(lane, held).await?;
        Ok(root)
    }
}
