//! From a key to its leaf: by the route, and through the page store.
//!
//! A leaf that a route leads to may be another compute node's, if the route is old. It is READ, since nobody can tell
//! before, and it does not come into a frame: only a leaf that covers the operation's key does, whose tenure this compute
//! node has. Leaves end where entries do, so all of that leaf is its own.
//!
//! A lane that READs has the page's fill. It ends the fill in every case; if its future is dropped, settling does.

use super::{Dex, Owner};
use crate::btree::descent::DescentCursor;
use crate::btree::leaves::{Leaves, key_of};
use crate::btree::node::{self, FenceCheck, Wanted};
use crate::btree::read::Target;
use crate::btree::router::{Router, seek};
use crate::btree::{MOVES_MAX, Tree};
use crate::dex::flush::PageFormat;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::span::Span;
use crate::operation::{Cause, OpError};
use crate::pages::{Acquired, Admit, Fill, FrameName, Refused};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use core::ops::Range;
use core::sync::atomic::Ordering;

/// Where a leaf is.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// In a frame.
    Frame(FrameName),
    /// In node image 0. This lane has the page's fill, and nobody else has a copy.
    Scratch,
    /// In the pool. This lane has the page's fill, and nobody has a copy. Only where [`Search::unread`] asks for it.
    Unread,
}

/// How a leaf is looked for.
#[derive(Clone, Copy)]
pub(super) struct Search {
    /// Whether it comes into a frame.
    pub(super) admit: Admit,
    /// A leaf that does not is not READ, but looked at as [`Place::Unread`].
    pub(super) unread: bool,
}

impl From<Admit> for Search {
    fn from(admit: Admit) -> Self {
        Self { admit, unread: false }
    }
}

/// Result of a look at a leaf, or of a change.
pub(super) enum Look<R> {
    /// The leaf covers the key.
    Seen(R),
    /// The key is in another leaf.
    Elsewhere(FenceCheck),
    /// It is not what the pointer promised.
    Stale,
    /// The page store did not do it.
    Refused(Refused),
    /// Remote bytes that no writer produces.
    Corrupt(&'static str),
}

impl<R> Look<R> {
    pub(super) fn of(seen: Result<Result<R, FenceCheck>, DecodeError>) -> Self {
        match seen {
            Ok(Ok(seen)) => Self::Seen(seen),
            Ok(Err(elsewhere)) => Self::Elsewhere(elsewhere),
            Err(DecodeError::Corrupt(what)) => Self::Corrupt(what),
            Err(_) => Self::Stale,
        }
    }
}

/// A leaf that covers the key, and what was seen there.
pub(super) struct Visited<R> {
    pub(super) seen: R,
    pub(super) leaf: Address,
    /// The leaf is not admitted: it is in node image 0, and this is its fill, which the caller ends.
    pub(super) fill: Option<Fill>,
    /// A half-split to finish, its separator in the `help` range.
    pub(super) help: Option<(u8, Address)>,
}

impl Dex<'_> {
    /// Finds the leaf that covers the key at scratch range `key`, and looks at it. `None`: the index has no leaf.
    pub(super) async fn visit_owned<R>(
        &self,
        lane: &Lane<'_>,
        key: &Range<usize>,
        search: impl Into<Search>,
        mut look: impl FnMut(Place, &Wanted) -> Look<R>,
    ) -> Result<Option<Visited<R>>, Interrupt> {
        let search = search.into();
        let mut cached = true;
        let mut attempts = 0;
        loop {
            let Some(mut cursor) = seek!(&self.tree, lane, key, cached) else { return Ok(None) };
            cursor.begins_again(attempts);
            match self.visit_from(lane, &mut cursor, key, search, &mut look).await {
                Ok(Some(visited)) => return Ok(Some(visited)),
                Ok(None) => {}
                // An old route may lead to a leaf that another compute node has left torn by its death, and that nobody has
                // taken over yet.
                Err(Interrupt::Failed(OpError { cause: Cause::Corrupt { .. }, .. })) if cached => {}
                Err(interrupt) => return Err(interrupt),
            }
            lane.mark(if cached { Mark::STALE_CACHE } else { Mark::RESTART });
            self.tree.forget_root(lane);
            cached = false;
            lane.attempt(&mut attempts, "finding the leaf of a key")?;
        }
    }

    /// As [`Dex::visit_owned`], from a descent cursor. `None`: that does not lead to the leaf.
    async fn visit_from<R>(
        &self,
        lane: &Lane<'_>,
        cursor: &mut DescentCursor,
        key: &Range<usize>,
        search: Search,
        look: &mut impl FnMut(Place, &Wanted) -> Look<R>,
    ) -> Result<Option<Visited<R>>, Interrupt> {
        let mut moves = 0;
        while moves < MOVES_MAX {
            lane.check_deadline()?;
            let leaf = cursor.address;
            let wanted = self.leaf_wanted(leaf);
            let (look, fill) = match self.store.acquire(lane, leaf, search.admit).await? {
                Acquired::Frame(name) => {
                    let seen = look(Place::Frame(name), &wanted);
                    if let Look::Refused(refused) = seen {
                        self.wait_out(lane, name, refused, key).await?;
                        continue;
                    }
                    if let Look::Elsewhere(_) = seen {
                        // The router learns from an image. A refused copy may be a mixture, and its fence no separator.
                        let image = self.tree.leaf_image(0);
                        let copied = lane.port().with(|scratch| self.store.copy(name, 0, image.of_mut(scratch)));
                        if copied.is_err() {
                            continue;
                        }
                    }
                    (seen, None)
                }
                Acquired::Mine(fill) if search.unread && !fill.is_admitted() => {
                    (look(Place::Unread, &wanted), Some(fill))
                }
                Acquired::Mine(fill) => {
                    let changes = self.partition().changes();
                    match self.fill(lane, &fill, &wanted, key).await? {
                        Look::Seen(()) if fill.is_admitted() => {
                            if !self.admit(lane, &fill, changes).await? {
                                if !self.keeps_key(lane, key) {
                                    return Err(self.no_tenure(lane, key));
                                }
                                // No frame would ever take it.
                                if !self.is_of_entry(lane, key) {
                                    let what = "a leaf that begins in front of the entry of its keys";
                                    return Err(Tree::corrupt(leaf, what).into());
                                }
                            }
                            continue;
                        }
                        Look::Seen(()) => (look(Place::Scratch, &wanted), Some(fill)),
                        Look::Elsewhere(found) => (Look::Elsewhere(found), Some(fill)),
                        _ => (Look::Stale, Some(fill)),
                    }
                }
                Acquired::NoFrame => {
                    self.make_clean(lane).await?;
                    continue;
                }
                Acquired::NoFill => {
                    return Err(OpError::harmless(Cause::BadInput("the lane has fills that it has not ended")).into());
                }
            };
            if let Look::Seen(seen) = look {
                return Ok(Some(Visited { seen, leaf, fill, help: cursor.help }));
            }
            if let Some(fill) = fill
                && !planted(Mutant::FILL_DROPPED)
            {
                self.end_fill(lane, &fill).await?;
            }
            match look {
                Look::Elsewhere(found) => {
                    let from = cursor.from;
                    self.tree.learn(lane, cursor, found, self.tree.leaf_image(0));
                    if cursor.is_sent_back_too_often() {
                        self.revive(lane, (from, leaf), key).await?;
                    }
                    moves += 1;
                }
                Look::Refused(Refused::NoTenure) => return Err(self.no_tenure(lane, key)),
                Look::Corrupt(what) => return Err(Tree::corrupt(leaf, what).into()),
                _ => {
                    self.tree.forget(lane, cursor);
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// READs of leaves begin that other lanes may wait for. If they do not end, the heartbeat does.
    pub(super) fn begin_fills(&self, lane: &Lane<'_>) {
        if let Some(recovery) = self.tree.recovery {
            recovery.begin_work(lane);
        }
    }

    /// They have ended.
    pub(super) fn end_fills(&self, lane: &Lane<'_>) {
        if let Some(recovery) = self.tree.recovery {
            recovery.end_work(lane);
        }
    }

    /// READs a leaf into node image 0, whose fill this lane has, and judges it.
    pub(super) async fn fill(
        &self,
        lane: &Lane<'_>,
        fill: &Fill,
        wanted: &Wanted,
        key: &Range<usize>,
    ) -> Result<Look<()>, Interrupt> {
        let target: Target = self.leaf_target(fill.id(), 0);
        let look = |scratch: &mut [u8]| {
            let mut room = [0; KEY_BYTES_MAX];
            let key = key_of(scratch, key, &mut room);
            node::judge(target.image.of(scratch), wanted, key)
        };
        // Nobody writes it meanwhile, if it is this compute node's; another's that is torn is READ again for a while, and
        // then it is no leaf to go on with.
        self.begin_fills(lane);
        let read = Tree::read_locked(lane, target, false, look).await;
        // Of a request that failed, settling says that it is over.
        if !matches!(read, Err(OpError { cause: Cause::Verb(_), .. })) {
            self.end_fills(lane);
        }
        match read {
            Ok(Some(FenceCheck::Here)) => Ok(Look::Seen(())),
            Ok(Some(elsewhere)) => Ok(Look::Elsewhere(elsewhere)),
            Ok(None) => Ok(Look::Stale),
            Err(error) => {
                if let Cause::Corrupt { .. } = error.cause {
                    self.end_fill(lane, fill).await?;
                }
                Err(error.into())
            }
        }
    }

    /// As [`Dex::admit_from`], for the leaf in node image 0.
    pub(super) async fn admit(&self, lane: &Lane<'_>, fill: &Fill, changes: u32) -> Result<bool, OpError> {
        self.admit_from(lane, fill, self.tree.leaf_image(0), changes).await
    }

    /// Puts the leaf in `image` into the frame of its fill, and ends the fill; without a frame, and with `false`, if this compute
    /// node has not had the leaf's entry since `changes` were counted, which was before the READ.
    pub(super) async fn admit_from(
        &self,
        lane: &Lane<'_>,
        fill: &Fill,
        image: Span,
        changes: u32,
    ) -> Result<bool, OpError> {
        let may_keep = lane.port().with(|scratch| {
            let entry = self.entry_of(image.of(scratch));
            entry.is_some_and(|entry| self.partition().may_keep(entry, changes))
        });
        if !may_keep && !planted(Mutant::OLD_FILL_KEPT) {
            self.end_fill(lane, fill).await?;
            return Ok(false);
        }
        loop {
            match lane.port().with(|scratch| self.store.admit(lane, fill, image.of(scratch))) {
                Ok(_) => return Ok(true),
                Err(refused) => self.again(lane, refused).await?,
            }
        }
    }

    /// Whether pages of the entry of the key at a scratch range may be in frames.
    fn keeps_key(&self, lane: &Lane<'_>, key: &Range<usize>) -> bool {
        let mut room = [0; KEY_BYTES_MAX];
        let partition = self.partition();
        lane.port().with(|scratch| partition.is_mine(partition.entry_of(key_of(scratch, key, &mut room))))
    }

    /// Whether the leaf in node image 0 belongs to the entry of the key at a scratch range. Leaves begin where entries do.
    fn is_of_entry(&self, lane: &Lane<'_>, key: &Range<usize>) -> bool {
        let mut room = [0; KEY_BYTES_MAX];
        lane.port().with(|scratch| {
            let entry = self.partition().entry_of(key_of(scratch, key, &mut room));
            self.entry_of(self.tree.leaf_image(0).of(scratch)) == Some(entry)
        })
    }

    /// Ends a fill without a frame.
    pub(super) async fn end_fill(&self, lane: &Lane<'_>, fill: &Fill) -> Result<(), OpError> {
        while let Err(refused) = self.store.release(lane, fill) {
            self.again(lane, refused).await?;
        }
        Ok(())
    }

    /// Waits for a moment, because the store was asked when it could not do it.
    pub(super) async fn again(&self, lane: &Lane<'_>, refused: Refused) -> Result<(), OpError> {
        match refused {
            Refused::MailboxFull => Ok(lane.port().submit().await?),
            Refused::Busy => self.store.yield_now(lane).await,
            _ => Err(OpError::harmless(Cause::BadInput("the page store does not know this page"))),
        }
    }

    /// Waits until a frame that was refused may be asked again.
    async fn wait_out(
        &self,
        lane: &Lane<'_>,
        name: FrameName,
        refused: Refused,
        key: &Range<usize>,
    ) -> Result<(), Interrupt> {
        match refused {
            Refused::Moved => Ok(()),
            Refused::Frozen | Refused::Flushing => Ok(self.store.wait_for(lane, name).await?),
            Refused::NoTenure => Err(self.no_tenure(lane, key)),
            refused => Ok(self.again(lane, refused).await?),
        }
    }

    /// What becomes of an operation whose tenure has ended since it began.
    pub(super) fn no_tenure(&self, lane: &Lane<'_>, key: &Range<usize>) -> Interrupt {
        lane.port().with(|scratch| {
            let mut room = [0; KEY_BYTES_MAX];
            let partition = self.partition();
            let (_, word) = partition.owner_of(key_of(scratch, key, &mut room));
            let is_mine = word.decode() == Ok(Owner::Owned(partition.me()));
            if is_mine && !self.left.load(Ordering::Acquire) {
                return Interrupt::TenureEnded;
            }
            OpError::harmless(Cause::NotOwner { row: word.row(), epoch: word.epoch() }).into()
        })
    }
}
