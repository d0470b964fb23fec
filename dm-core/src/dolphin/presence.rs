//! Requests by which a lane gets into a leaf and out again. Who may add when is [`super::entries`]' part, what the words
//! mean is [`super::spear`]'s.

use super::Dolphin;
use super::entries::{Ask, Leave, Looked};
use super::layout::leaf::{HEIRS_WRITE, place_of};
use super::recover::unresponsive;
use super::spear::{Closed, Entered, Presence, Settled, Spear, Waited};
use crate::lane::interrupt::Interrupt;
use crate::lane::{Lane, Stage};
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, Effect, OpError, unknown};
use crate::radix::tree::corrupt;
use crate::remote::address::Address;
use crate::verbs::{Label, Request, Status};

/// First and longest pause of a lane that waits for others, in ns. The first is about half a round trip.
const PAUSE_NS: (u64, u64) = (1_000, 64_000);

/// A lane that is inside a leaf, beside others or alone.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct Inside {
    pub leaf: Address,
    /// What is added to the Spear word to get out.
    addend: u64,
    /// The lane has closed the leaf.
    closes: bool,
}

/// How an attempt to get in ended. Leaf image 0 is a READ behind the own addition.
#[derive(Clone, Copy, Debug)]
pub(super) enum Admitted {
    Inside(Inside),
    /// The leaf has left the tree. The lane is out.
    Retired,
}

/// Pauses between attempts, each longer than the one before.
struct Pauses {
    next_ns: u64,
}

impl Pauses {
    const fn new() -> Self {
        Self { next_ns: PAUSE_NS.0 }
    }

    /// `long_ns`: how long, if not the usual time.
    async fn pause(&mut self, lane: &Lane<'_>, long_ns: Option<u64>) -> Result<(), OpError> {
        lane.check_deadline()?;
        let spread_ns = u64::from(lane.next_turn()) % self.next_ns;
        lane.port().call(Request::pause(long_ns.unwrap_or(self.next_ns + spread_ns))).await?;
        self.next_ns = (self.next_ns * 2).min(PAUSE_NS.1);
        Ok(())
    }
}

impl Dolphin<'_> {
    const fn spear_at(leaf: Address) -> u64 {
        leaf.offset()
    }

    fn add(leaf: Address, label: Label, addend: u64) -> Request {
        Request::fetch_add(label, leaf.node(), Self::spear_at(leaf), addend)
    }

    /// READs the Spear word.
    pub(super) async fn read_spear(&self, lane: &Lane<'_>, leaf: Address) -> Result<Spear, OpError> {
        let at = self.tree.scratch.small;
        lane.port().call(Request::read(Label::Lock, leaf.node(), Self::spear_at(leaf), 8, at)).await?;
        Ok(Spear(crate::lane::word_at(lane, at)))
    }

    /// The error of a word that no writer makes. The lane still has its lock record, so it settles first.
    fn unsound(leaf: Address) -> Interrupt {
        corrupt(place_of(leaf), "the lock word of a leaf").into()
    }

    /// Asks for the local entry until the lane may add, or has joined.
    async fn ask(
        &self,
        lane: &Lane<'_>,
        leaf: Address,
        closes: bool,
        pauses: &mut Pauses,
    ) -> Result<Option<Ask>, Interrupt> {
        loop {
            let mut long_ns = None;
            let ask = if closes { self.entries.close(lane, leaf) } else { self.entries.enter(lane, leaf) }?;
            match ask {
                Ask::Add | Ask::Join => return Ok(Some(ask)),
                Ask::Wait => lane.mark(Mark::LOCK_QUEUED),
                Ask::Look => {
                    let word = self.read_spear(lane, leaf).await?;
                    match self.entries.looked(lane, leaf, word)? {
                        Looked::Add => return Ok(Some(Ask::Add)),
                        Looked::Wait => {
                            long_ns = self.watch_seats(lane, leaf, word, Presence::Closing).map_err(unresponsive)?;
                        }
                        Looked::Retired => return Ok(None),
                        Looked::Unsound => return Err(Self::unsound(leaf)),
                    }
                }
            }
            pauses.pause(lane, long_ns).await?;
        }
    }

    /// Subtracts, awaits that, and gives up the local entry.
    async fn get_out(&self, lane: &Lane<'_>, leaf: Address, addend: u64) -> Result<(), OpError> {
        lane.port().call(Self::add(leaf, Label::Unlock, addend)).await?;
        self.entries.out(lane, leaf);
        Ok(())
    }

    /// Gets inside, beside others, and READs the leaf into image 0. The own block is WRITTEN meanwhile.
    pub(super) async fn enter(&self, lane: &Lane<'_>, leaf: Address) -> Result<Admitted, Interrupt> {
        let (seat, mut pauses) = (self.entries.seat(), Pauses::new());
        let inside = Inside { leaf, addend: seat.leave(), closes: false };
        loop {
            match self.ask(lane, leaf, false, &mut pauses).await? {
                None => return self.saw_retired(lane, leaf).await,
                Some(Ask::Join) => {
                    lane.mark(Mark::SEAT_SHARED);
                    self.push_block_beside(lane);
                    if planted(Mutant::JOINED_ADDS) {
                        lane.port().push(Self::add(leaf, Label::Lock, seat.enter()));
                    }
                    lane.port().call(self.leaf_request(leaf, 0)).await?;
                    self.entries.saw(leaf, self.spear_in_image(lane));
                    return Ok(Admitted::Inside(inside));
                }
                Some(_) => {}
            }
            let port = lane.port();
            if planted(Mutant::READ_BEFORE_ENTER) {
                port.call(self.leaf_request(leaf, 0)).await?;
            }
            self.push_block_beside(lane);
            let added = port.push(Self::add(leaf, Label::Lock, seat.enter()));
            if !planted(Mutant::READ_BEFORE_ENTER) {
                port.push(self.leaf_request(leaf, 0));
            }
            port.submit().await?;
            let found = Spear(port.completion(added).value);
            match self.entries.entered(lane, leaf, found, self.spear_in_image(lane)) {
                Entered::Granted => return Ok(Admitted::Inside(inside)),
                Entered::Retired => {
                    self.get_out(lane, leaf, seat.leave()).await?;
                    return Ok(Admitted::Retired);
                }
                Entered::Closed => {
                    lane.mark(Mark::LOCK_LOST);
                    self.get_out(lane, leaf, seat.leave()).await?;
                }
                Entered::Unsound => return Err(Self::unsound(leaf)),
            }
            pauses.pause(lane, None).await?;
        }
    }

    /// The Spear word in leaf image 0, which says of closers what was so when it was READ.
    fn spear_in_image(&self, lane: &Lane<'_>) -> Spear {
        Spear(lane.port().with(|scratch| self.tree.scratch.leaf(0).with_bytes(8).word(scratch)))
    }

    /// READs a leaf that was seen retired, for its heirs.
    async fn saw_retired(&self, lane: &Lane<'_>, leaf: Address) -> Result<Admitted, Interrupt> {
        lane.port().call(self.leaf_request(leaf, 0)).await?;
        Ok(Admitted::Retired)
    }

    /// Closes the leaf, waits for those inside, and has its final content in image 0. The own block is WRITTEN
    /// meanwhile.
    pub(super) async fn close(&self, lane: &Lane<'_>, leaf: Address) -> Result<Admitted, Interrupt> {
        let (seat, mut pauses) = (self.entries.seat(), Pauses::new());
        let inside = Inside { leaf, addend: seat.open(), closes: true };
        loop {
            if self.ask(lane, leaf, true, &mut pauses).await?.is_none() {
                return self.saw_retired(lane, leaf).await;
            }
            let port = lane.port();
            if planted(Mutant::READ_BEFORE_CLOSE) {
                port.call(self.leaf_request(leaf, 0)).await?;
            }
            self.push_block_beside(lane);
            let added = port.push(Self::add(leaf, Label::Lock, seat.close()));
            if !planted(Mutant::READ_BEFORE_CLOSE) {
                port.push(self.leaf_request(leaf, 0));
            }
            port.submit().await?;
            match self.entries.closed(lane, leaf, Spear(port.completion(added).value)) {
                Closed::Exclusive => return Ok(Admitted::Inside(inside)),
                Closed::Wait if planted(Mutant::CLOSED_UNDRAINED) => return Ok(Admitted::Inside(inside)),
                Closed::Wait => {
                    lane.mark(Mark::LEAF_DRAINED);
                    self.drain(lane, leaf, &mut pauses).await?;
                    return Ok(Admitted::Inside(inside));
                }
                Closed::Retired => {
                    self.get_out(lane, leaf, seat.open()).await?;
                    return Ok(Admitted::Retired);
                }
                Closed::BackOff => {
                    lane.mark(Mark::LOCK_LOST);
                    self.get_out(lane, leaf, seat.open()).await?;
                }
                Closed::Unsound => return Err(Self::unsound(leaf)),
            }
            pauses.pause(lane, None).await?;
        }
    }

    /// Waits until nobody else is inside, and READs the leaf anew. If it gives up, the lane's lock record stays, and the
    /// lane settles.
    async fn drain(&self, lane: &Lane<'_>, leaf: Address, pauses: &mut Pauses) -> Result<(), Interrupt> {
        loop {
            let word = self.read_spear(lane, leaf).await?;
            match self.entries.drained(lane, leaf, word) {
                Waited::Drained => break,
                Waited::Wait => match self.watch_seats(lane, leaf, word, Presence::Inside) {
                    Ok(long_ns) => pauses.pause(lane, long_ns).await?,
                    Err(lock_record) => {
                        // It keeps the local entry: otherwise another lane of this compute node would close the leaf,
                        // and the field would say so all the time.
                        let opens = Self::add(leaf, Label::Unlock, self.entries.seat().open());
                        lane.port().call(opens).await?;
                        lane.advance(lock_record.lock, Stage::Queued);
                        return Err(unresponsive(lock_record));
                    }
                },
                Waited::Fenced | Waited::Unsound => return Err(Self::unsound(leaf)),
            }
        }
        if !planted(Mutant::BODY_BEFORE_DRAIN) {
            lane.port().call(self.leaf_request(leaf, 0)).await?;
        }
        Ok(())
    }

    /// A lane posts WRITEs only while the lease of its compute node allows it. The addition may have taken long. The lane
    /// gets out if not: memory nodes refuse its subtraction if they have fenced the compute node.
    pub(super) async fn check_lease_inside(&self, lane: &Lane<'_>, inside: Inside) -> Result<(), OpError> {
        let Err(error) = self.entries.check_lease(lane) else { return Ok(()) };
        self.leave(lane, inside).await?;
        Err(error)
    }

    /// Gets out without having changed anything. If a request failed that may still take effect, the lane stays inside
    /// until it settles.
    pub(super) async fn leave(&self, lane: &Lane<'_>, inside: Inside) -> Result<(), OpError> {
        if lane.port().unclosed().is_some() {
            return Ok(());
        }
        let Inside { leaf, addend, closes } = inside;
        if closes || self.entries.left(lane, leaf) == Leave::Last {
            self.get_out(lane, leaf, addend).await?;
        }
        Ok(())
    }

    /// Gets out behind the requests that are pushed, in their chain. Answers what the first of them found.
    pub(super) async fn leave_with(&self, lane: &Lane<'_>, inside: Inside) -> Result<u64, OpError> {
        let Inside { leaf, addend, closes } = inside;
        let port = lane.port();
        if planted(Mutant::BLOCK_NAMED_EARLY) {
            self.push_block(lane);
        }
        let is_last = closes || self.entries.leaves(leaf) == Leave::Last;
        if is_last {
            port.push(Self::add(leaf, Label::Unlock, addend));
        }
        if planted(Mutant::ANSWERED_EARLY) && is_last && !self.has_blocks() {
            self.entries.out(lane, leaf);
            return Ok(0);
        }
        port.submit().await.map_err(unknown)?;
        let found = port.completion(0).value;
        if is_last {
            self.entries.out(lane, leaf);
        } else if self.entries.left(lane, leaf) == Leave::Last {
            // The others left meanwhile.
            port.call(Self::add(leaf, Label::Unlock, addend)).await.map_err(took_effect)?;
            self.entries.out(lane, leaf);
        }
        Ok(found)
    }

    /// WRITEs the heirs of leaf image 0, and retires the leaf behind that.
    pub(super) async fn retire_with(&self, lane: &Lane<'_>, inside: Inside) -> Result<(), OpError> {
        let Inside { leaf, .. } = inside;
        lane.change_is_next();
        let retire = Self::add(leaf, Label::Unlock, self.entries.seat().retire());
        if planted(Mutant::RETIRE_BEFORE_HEIRS) {
            lane.port().push(retire);
            self.push_cell(lane, leaf, HEIRS_WRITE);
        } else {
            self.push_cell(lane, leaf, HEIRS_WRITE);
            lane.port().push(retire);
        }
        lane.port().submit().await.map_err(unknown)?;
        self.entries.out(lane, leaf);
        Ok(())
    }

    /// Settles what a failed or dropped operation of this lane has left in a leaf.
    pub(super) async fn settle_seats(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        while let Some(leaf) = self.entries.abandon(lane) {
            match self.settle_seat(lane, leaf).await {
                Ok(()) => {}
                // There is no field any more.
                Err(OpError { cause: Cause::Verb(error), .. })
                    if matches!(error.status, Status::NodeDown | Status::Fenced) =>
                {
                    self.entries.out(lane, leaf);
                }
                Err(error) => return Err(error),
            }
            lane.mark(Mark::SETTLED);
        }
        Ok(())
    }

    async fn settle_seat(&self, lane: &Lane<'_>, leaf: Address) -> Result<(), OpError> {
        let word = self.read_spear(lane, leaf).await?;
        match self.entries.settled(leaf, word) {
            Settled::Leave(addend) | Settled::Open(addend) => self.get_out(lane, leaf, addend).await,
            Settled::Out | Settled::Unsound => {
                self.entries.out(lane, leaf);
                Ok(())
            }
        }
    }
}

/// The error of a request behind the operation's change.
fn took_effect(error: crate::error::VerbError) -> OpError {
    OpError { effect: Effect::Done, cause: error.into() }
}
