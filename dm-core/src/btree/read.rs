//! READs of one node, until it is whole.
//!
//! Readers take no lock. An image is accepted if its versions agree and the READ was short enough for 4-bit versions to
//! vouch for it. A torn one is READ again, a few times. A READ that took too long, or a node that stays torn, is READ
//! under its lock: no other lane writes the node then, so that path cannot loop. See
//! [`torn_reads`](crate::manual::torn_reads).

use super::Tree;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::locks::protocol::Locks;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::operation::span::Span;
use crate::remote::address::Address;
use crate::verbs::{Completion, Label, Request};
use core::ops::Range;

/// Torn READs of one node before it is READ under its lock.
pub(crate) const TORN_MAX: u32 = 8;

/// Torn READs of one node under its lock before it counts as residue, and the longest pause between two, in ns: some
/// milliseconds in all, a thousand times what a WRITE takes.
pub(crate) const TORN_LOCKED_MAX: u32 = 40;
pub(crate) const PAUSE_NS_MAX: u64 = 128_000;

/// A node to READ.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The pointer to follow.
    pub address: Address,
    /// Where its image goes: all of it, or its first bytes.
    pub image: Span,
    /// The label of the step.
    pub label: Label,
}

impl Target {
    /// The READ.
    #[inline]
    pub const fn request(&self) -> Request {
        self.image.read_from(self.label, self.address)
    }

    /// The READ of a part of it, to its place in the image.
    #[inline]
    pub(crate) const fn part_request(&self, label: Label, within: &Range<usize>) -> Request {
        let Span { at, bytes } = self.image.part(within);
        Request::read(label, self.address.node(), self.address.offset() + within.start as u64, bytes, at)
    }

    /// The READ under the node's lock: versions need not vouch for it, so it may take any time.
    #[inline]
    pub(crate) const fn request_locked(&self) -> Request {
        self.request().untimed()
    }
}

/// READs without the lock did not decide: the image stayed torn, or took longer than versions can vouch for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsure;

/// Result of a READ without the lock.
pub(crate) enum Seen<R> {
    /// What `look` returned; `None`: the image is sound and not what the pointer promised.
    Found(Option<R>),
    /// READ again.
    Torn,
    /// See [`Unsure`].
    Unsure,
}

/// An image under the lock is torn.
pub(crate) struct Torn;

/// [`Tree::read_unlocked`] without a future around the common case, an image that is whole. A READ of a leaf without
/// its lock, and one under it, have these steps themselves.
macro_rules! read_unlocked {
    ($tree:expr, $lane:expr, $target:expr, $look:expr) => {{
        let (tree, lane, target) = ($tree, $lane, $target);
        let mut attempts = 0;
        loop {
            let completion = lane.port().call(target.request()).await?;
            attempts += 1;
            match tree.look_unlocked(lane, target, completion, $look)? {
                $crate::btree::read::Seen::Found(found) => break Ok(found),
                $crate::btree::read::Seen::Torn if attempts < $crate::btree::read::TORN_MAX => {}
                _ => break Err($crate::btree::read::Unsure),
            }
        }
    }};
}
pub(crate) use read_unlocked;

/// [`Tree::read_locked`] likewise. It returns errors instead of ending the operation: the lock is to be released first.
macro_rules! read_locked {
    ($lane:expr, $target:expr, $already:expr, $look:expr) => {{
        let (lane, target) = ($lane, $target);
        let read = if $already {
            Ok(())
        } else {
            lane.port().push(target.request_locked());
            lane.port().submit().await
        };
        match read
            .map_err($crate::operation::OpError::from)
            .and_then(|()| $crate::btree::Tree::look_locked(lane, target, $look))
        {
            Ok(Ok(seen)) => Ok(seen),
            Ok(Err($crate::btree::read::Torn)) => $crate::btree::Tree::read_locked_again(lane, target, $look).await,
            Err(error) => Err(error),
        }
    }};
}
pub(crate) use read_locked;

impl Tree<'_> {
    /// READs a node and looks at it. `look` sees the whole scratch; it judges the image and takes from it what the
    /// operation wants. `None`: the image is sound and not what the pointer promised.
    ///
    /// The linearization point of what `look` accepts lies within the last READ.
    pub async fn read<R>(
        &self,
        lane: &Lane<'_>,
        target: Target,
        mut look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, Interrupt> {
        // A statement of its own: as what a `match` is about, the future would live on beside the other one.
        let found = self.read_unlocked(lane, target, &mut look).await?;
        if let Ok(found) = found {
            return Ok(found);
        }
        self.read_under_lock(lane, target, look).await
    }

    /// As [`Tree::read`], but it never takes the lock.
    pub(crate) async fn read_unlocked<R>(
        &self,
        lane: &Lane<'_>,
        target: Target,
        mut look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Result<Option<R>, Unsure>, OpError> {
        Ok(read_unlocked!(self, lane, target, &mut look))
    }

    /// Looks at the image of a READ without the lock.
    #[inline]
    pub(crate) fn look_unlocked<R>(
        &self,
        lane: &Lane<'_>,
        target: Target,
        completion: Completion,
        look: impl FnOnce(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Seen<R>, OpError> {
        if self.exposed_too_long(completion.elapsed_ns) {
            lane.mark(Mark::GUARD_REFUSAL);
            return Ok(Seen::Unsure);
        }
        match lane.port().with(look) {
            Ok(found) => return Ok(Seen::Found(Some(found))),
            Err(DecodeError::Stale) => return Ok(Seen::Found(None)),
            Err(DecodeError::Corrupt(what)) => return Err(Self::corrupt(target.address, what)),
            Err(DecodeError::Torn) => lane.mark(Mark::TORN_READ),
        }
        lane.check_deadline()?;
        Ok(Seen::Torn)
    }

    /// READs a node under its lock, because READs without the lock did not decide.
    pub(crate) async fn read_under_lock<R>(
        &self,
        lane: &Lane<'_>,
        target: Target,
        look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, Interrupt> {
        lane.mark(Mark::LOCKED_READ);
        let (held, _) = self.acquire(lane, target.address, None).await?;
        let found = Self::read_locked(lane, target, planted(Mutant::LOCKED_READ_KEEPS_IMAGE), look).await;
        self.release(lane, held).await?;
        Ok(found?)
    }

    /// READs a node whose lock this lane holds, unless `already`: then it was READ in the chain of the lock's CAS.
    ///
    /// No lane changes a node in use without its lock. But the place may have been retired, and the first image of the
    /// next node may be on its way there, without a lock. So a torn image is READ again until that WRITE must have
    /// landed. Only what stays torn is what a dead writer left ([`torn_reads`](crate::manual::torn_reads)).
    pub(crate) async fn read_locked<R>(
        lane: &Lane<'_>,
        target: Target,
        already: bool,
        mut look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, OpError> {
        read_locked!(lane, target, already, &mut look)
    }

    /// Looks at the image of a READ under the lock.
    #[inline]
    pub(crate) fn look_locked<R>(
        lane: &Lane<'_>,
        target: Target,
        look: impl FnOnce(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Result<Option<R>, Torn>, OpError> {
        match lane.port().with(look) {
            Ok(found) => Ok(Ok(Some(found))),
            Err(DecodeError::Stale) => Ok(Ok(None)),
            Err(DecodeError::Corrupt(what)) => Err(Self::corrupt(target.address, what)),
            Err(DecodeError::Torn) => Ok(Err(Torn)),
        }
    }

    /// Continues after an image that was torn under the lock.
    pub(crate) async fn read_locked_again<R>(
        lane: &Lane<'_>,
        target: Target,
        mut look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, OpError> {
        let mut pause_ns = 1_000;
        for _ in 1..TORN_LOCKED_MAX {
            if planted(Mutant::TORN_IS_RESIDUE) {
                break;
            }
            lane.mark(Mark::TORN_READ);
            lane.port().call(Request::pause(pause_ns)).await?;
            pause_ns = (pause_ns * 2).min(PAUSE_NS_MAX);
            lane.port().call(target.request_locked()).await?;
            if let Ok(found) = Self::look_locked(lane, target, &mut look)? {
                return Ok(found);
            }
        }
        Err(Self::corrupt(target.address, "torn for good: a writer died in a WRITE"))
    }
}
