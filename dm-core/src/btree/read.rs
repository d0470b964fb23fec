//! One node, READ until it is whole.
//!
//! Readers take no lock. An image is accepted if its versions agree and the READ was short enough for 4-bit versions
//! to vouch for it; a torn one is READ again, a few times. A READ that took too long, or a node that stays torn, is
//! READ under its lock: nobody writes it then, so that path cannot loop.

use super::Tree;
use crate::error::{DecodeError, OpError};
use crate::lane::{Lane, Mark};
use crate::remote::address::Address;
use crate::verbs::{Label, Request};

/// Torn READs of one node before it is READ under its lock.
const TORN_MAX: u32 = 8;

/// Where a node image goes, and what the READ is called.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The pointer to follow.
    pub address: Address,
    /// Stored bytes of the node.
    pub bytes: usize,
    /// Scratch offset of the image.
    pub at: usize,
    /// The step.
    pub label: Label,
}

impl Target {
    /// The READ.
    #[inline]
    pub const fn request(&self) -> Request {
        Request::read(self.label, self.address.node(), self.address.offset(), self.bytes, self.at)
    }
}

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
    ) -> Result<Option<R>, OpError> {
        for _ in 0..TORN_MAX {
            let completion = lane.port().call(target.request()).await?;
            if self.exposed_too_long(completion.elapsed_ns) {
                lane.mark(Mark::GuardRefusal);
                break;
            }
            match lane.port().with(&mut look) {
                Ok(found) => return Ok(Some(found)),
                Err(DecodeError::Stale) => return Ok(None),
                Err(DecodeError::Corrupt(what)) => return Err(Self::corrupt(target.address, what)),
                Err(DecodeError::Torn) => lane.mark(Mark::TornRead),
            }
            lane.check_deadline()?;
        }
        self.read_under_lock(lane, target, look).await
    }

    async fn read_under_lock<R>(
        &self,
        lane: &Lane<'_>,
        target: Target,
        look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, OpError> {
        lane.mark(Mark::LockedRead);
        let (held, _) = self.acquire(lane, target.address, None).await?;
        let found = self.read_locked(lane, target, look).await;
        self.release(lane, held).await?;
        found
    }

    /// READs a node whose lock this lane holds. Nobody writes it, so a torn image is what a dead writer left.
    pub async fn read_locked<R>(
        &self,
        lane: &Lane<'_>,
        target: Target,
        look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, OpError> {
        lane.port().call(target.request()).await?;
        Self::look_locked(lane, target, look)
    }

    /// Looks at an image that was READ under its node's lock.
    pub fn look_locked<R>(
        lane: &Lane<'_>,
        target: Target,
        look: impl FnMut(&mut [u8]) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, OpError> {
        match lane.port().with(look) {
            Ok(found) => Ok(Some(found)),
            Err(DecodeError::Stale) => Ok(None),
            Err(DecodeError::Corrupt(what)) => Err(Self::corrupt(target.address, what)),
            Err(DecodeError::Torn) => {
                Err(Self::corrupt(target.address, "torn under its lock: a writer died in a WRITE"))
            }
        }
    }
}
