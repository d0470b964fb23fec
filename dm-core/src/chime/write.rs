//! Insert, update, upsert, `update_if` and delete: one procedure.
//!
//! Steps: route; take nodes from the free lists (if it may split); lock, which brings the vacancy; READ the
//! neighborhood, or if it may insert, the hop range, never less than the neighborhood; decide; WRITE what changed +
//! unlock.
//!
//! The linearization point is the WRITE of the entry (or, of a change of the whole leaf, of the leaf): before it no
//! reader can see the change, after it every READ posted later does. An operation that changes nothing linearizes at
//! its READ under the lock.

use super::Chime;
use super::layout::{Leaf, LeafMut, State, Touched};
use crate::btree::descent::DescentCursor;
use crate::btree::leaves::Leaves;
use crate::btree::merge::Merge;
use crate::btree::node::{self, FenceCheck, Header};
use crate::btree::read::{PAUSE_NS_MAX, TORN_LOCKED_MAX};
use crate::btree::router::{Router, seek};
use crate::btree::{MOVES_MAX, Tree};
use crate::chime::lock::Part;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes;
use crate::locks::protocol::{Held, Locks, acquire, release_with};
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Arguments, OpError, OperationKind, Outcome, unknown};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;
use crate::verbs::{Label, Request};

/// A leaf is rewritten without its dead records when it has to be READ whole and has this share of them.
const DEAD_SHARE: usize = 8;

/// What has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// `count` entries from `first` on.
    Entries {
        first: usize,
        count: usize,
    },
    /// The image, for this reason.
    Leaf(Mark),
}

/// What a look at the locked leaf decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub outcome: Outcome,
    pub change: Change,
    pub vacancy: u64,
    /// The record deleted seems to have been the last.
    pub emptied: bool,
    /// Where the record is now, for the hotspot buffer, if it should know.
    pub slot: Option<usize>,
}

/// What a look at the locked leaf gave.
#[derive(Clone, Copy)]
enum Seen {
    /// What to do; done to the image already.
    Decided(Decision),
    /// A record has to go in and there is no way; the image is whole. With the vacancy.
    NoRoom(u64),
    /// The leaf is not the one the parent spoke of.
    Doubted,
    /// The key is in another leaf.
    Elsewhere(FenceCheck),
    /// The pointer was wrong.
    Lost,
}

/// How an attempt at one leaf ended.
enum Attempt {
    /// And the leaf at `emptied` seems to have no record any more.
    Done { outcome: Outcome, emptied: Option<Address> },
    /// The leaf, held, has no way for the record that has to go in.
    Full(Held),
    /// Look for the leaf again: the copy that led there is old.
    Old,
    /// Look for the leaf again, from the root: the route was wrong.
    Lost,
    /// The leaf has to split, and the lane has no nodes for that.
    Short,
}

impl Attempt {
    /// At the leaf that `cursor` names, after that decision was carried out.
    fn of(decision: Decision, cursor: &DescentCursor) -> Self {
        Self::Done { outcome: decision.outcome, emptied: decision.emptied.then_some(cursor.address) }
    }
}

/// Why a look at the locked leaf was not enough.
#[derive(Clone, Copy)]
enum Again {
    /// There is no room in the part that was READ.
    Whole,
    /// It was of two WRITEs.
    Torn,
}

/// Where and how to look.
#[derive(Clone, Copy)]
struct Aim<'a> {
    kind: OperationKind,
    cursor: &'a DescentCursor,
    home: usize,
    /// The parent's word counts, if the leaf's sibling agrees with it. Else the leaf's fences decide.
    trusted: bool,
}

/// [`Chime::look_locked`] without a future around the common case, one READ. `fetched`: so many entries from the home on
/// were READ in the chain of the lock's CAS.
macro_rules! look_locked {
    ($chime:expr, $lane:expr, $held:expr, $fetched:expr, $aim:expr) => {{
        let (chime, lane, held, aim) = ($chime, $lane, $held, $aim);
        let count = chime.push_rest(lane, held, $fetched, aim);
        match lane.port().submit().await {
            Ok(()) => match chime.judge_read(lane, held, aim, count) {
                Ok(seen) => seen,
                Err(again) => chime.look_again(lane, held, aim, count, again).await,
            },
            Err(error) => Err(error.into()),
        }
    }};
}

impl Chime<'_> {
    pub(super) async fn write(&self, lane: &Lane<'_>, kind: OperationKind) -> Result<Outcome, Interrupt> {
        let inserts = matches!(kind, OperationKind::Insert | OperationKind::Upsert);
        let mut cached = true;
        let mut attempts = 0;
        loop {
            // Route, by copies or by a descent.
            let Some(mut cursor) = seek!(&self.tree, lane, &self.plan.key, cached) else {
                if !inserts {
                    return Ok(Outcome::Absent);
                }
                self.plant(lane).await?;
                lane.attempt(&mut attempts, "planting the first leaf")?;
                continue;
            };
            cursor.begins_again(attempts);
            // Nodes for a split, before the lock.
            if inserts {
                self.tree.prepare_to_split(lane, cursor.address.node());
            }
            // The root word was READ again since the last attempt.
            cursor.fresh |= cursor.parent.is_null() && attempts > 0;
            // Lock, READ, decide, WRITE + unlock.
            match self.write_at(lane, kind, &mut cursor).await? {
                // What may follow is done from here: a future for it is not to lie within that of the attempt.
                Attempt::Done { outcome, emptied } => {
                    if let Some(leaf) = emptied {
                        self.join_emptied(lane, leaf).await;
                    }
                    if cursor.help.is_some() {
                        self.help(lane, cursor.help).await;
                    }
                    return Ok(outcome);
                }
                Attempt::Full(held) => {
                    let right = self.split_and_insert(lane, held).await?;
                    // The record is in. If the parent cannot be told now, an operation that meets the half-split tells
                    // it.
                    let linked = self.router().link(lane, 0, right).await;
                    if planted(Mutant::ROOT_RACE_GIVES_UP) {
                        linked?;
                    }
                    lane.end_change(linked);
                    self.help(lane, cursor.help).await;
                    return Ok(Outcome::Inserted);
                }
                Attempt::Short => {
                    if !self.tree.reserve_to_split(lane, cursor.address.node()).await? {
                        return Err(Interrupt::NoMemory);
                    }
                    lane.attempt(&mut attempts, "reserving nodes for a split")?;
                }
                Attempt::Old => {
                    lane.mark(Mark::STALE_CACHE);
                    self.forget(lane, &cursor);
                    lane.attempt(&mut attempts, "finding the leaf of a key")?;
                }
                Attempt::Lost => {
                    lane.mark(if cached { Mark::STALE_CACHE } else { Mark::RESTART });
                    self.tree.forget(lane, &cursor);
                    self.tree.forget_root(lane);
                    cached = false;
                    lane.attempt(&mut attempts, "finding the leaf of a key")?;
                }
            }
        }
    }

    /// Writes at the leaf that `cursor` names, or at one that it leads to.
    async fn write_at(
        &self,
        lane: &Lane<'_>,
        kind: OperationKind,
        cursor: &mut DescentCursor,
    ) -> Result<Attempt, Interrupt> {
        let hashed = self.hashed(lane);
        let mut trusted = true;
        for _ in 0..MOVES_MAX {
            let mut aim = Aim { kind, cursor: &*cursor, home: hashed.home, trusted };
            // Lock. The vacancy comes with the word; by what it was, the READ can follow the lock's CAS.
            let guess =
                if trusted && Self::needs_one_entry(kind) { self.guess(lane, cursor.address, hashed) } else { None };
            let follow = (trusted && self.chains_read(cursor.address)).then(|| self.probably_needed(aim, guess));
            let (mut held, early) = acquire!(self, lane, cursor.address, follow);
            // READ the entry where the key probably is; if it is not there, the neighborhood or the hop range. Decide,
            // and change the image.
            let at_once = match guess {
                Some(slot) => self.change_entry(lane, &held, (slot, early), kind).await,
                None => Ok(None),
            };
            let mut seen = match at_once {
                Ok(Some(decision)) => Ok(Seen::Decided(decision)),
                Ok(None) => {
                    let fetched = match follow {
                        Some(Part::Entries { count, .. }) if early => count,
                        _ => 0,
                    };
                    look_locked!(self, lane, &held, fetched, aim)
                }
                Err(error) => Err(error),
            };
            if matches!(seen, Ok(Seen::Doubted)) && cursor.fresh {
                // What the parent says now is not what the leaf says: a half-split, most likely.
                lane.mark(Mark::DOUBTED);
                aim.trusted = false;
                seen = self.look_locked(lane, &held, aim).await;
            }
            if let Ok(Seen::Decided(Decision { slot: slot @ Some(_), .. })) = seen {
                self.note(held.protects, hashed, slot);
            }
            // WRITE what changed + unlock. The word says then where the leaf has room.
            if let Ok(Seen::Decided(Decision { vacancy, .. }) | Seen::NoRoom(vacancy)) = seen {
                held = held.freed_as(vacancy);
            }
            if let Ok(Seen::Decided(decision)) = seen
                && decision.change != Change::Nothing
            {
                self.push_change(lane, &held, decision.change)?;
                release_with!(self, lane, held);
                return Ok(Attempt::of(decision, cursor));
            }
            if matches!(seen, Ok(Seen::NoRoom(_))) && Tree::ready_to_split(lane) {
                return Ok(Attempt::Full(held));
            }
            // Nothing to write: unlock.
            self.release(lane, held).await?;
            match seen? {
                Seen::Decided(decision) => return Ok(Attempt::of(decision, cursor)),
                Seen::NoRoom(_) => return Ok(Attempt::Short),
                Seen::Doubted => return Ok(Attempt::Old),
                Seen::Elsewhere(fence_check) => {
                    let (from, address) = (cursor.from, cursor.address);
                    self.tree.learn(lane, cursor, fence_check, self.tree.leaf_image(0));
                    if cursor.is_sent_back_too_often() {
                        self.mend_forwarding(lane, from, address).await?;
                    }
                    trusted = false;
                }
                Seen::Lost => return Ok(Attempt::Lost),
            }
        }
        Ok(Attempt::Lost)
    }

    /// What is READ of a leaf before its vacancy is known.
    fn probably_needed(&self, aim: Aim<'_>, guess: Option<usize>) -> Part {
        if let Some(slot) = guess {
            return Part::Entry(slot);
        }
        let vacancy = self.remembered_vacancy(aim.cursor.address);
        Part::Entries { first: aim.home, count: self.entries_for(aim, vacancy) }
    }

    /// Entries from the home on that an operation looks at in a leaf whose lock word says `vacancy`.
    fn entries_for(&self, aim: Aim<'_>, vacancy: u64) -> usize {
        let neighborhood = self.leaf.neighborhood;
        match aim.kind {
            _ if !aim.trusted => self.leaf.span,
            // The whole neighborhood in any case: the key may be in it behind the first entry with room.
            OperationKind::Insert | OperationKind::Upsert => {
                self.buckets.hop_range(vacancy, aim.home).max(neighborhood).min(self.leaf.span)
            }
            _ => neighborhood,
        }
    }

    /// READs what it takes of the locked leaf and decides.
    async fn look_locked(&self, lane: &Lane<'_>, held: &Held, aim: Aim<'_>) -> Result<Seen, OpError> {
        look_locked!(self, lane, held, 0, aim)
    }

    /// Pushes the READs of what it takes of the locked leaf beyond the `fetched` entries from the home on that were
    /// READ in the chain of the lock's CAS. Returns how many entries that makes.
    #[inline]
    fn push_rest(&self, lane: &Lane<'_>, held: &Held, fetched: usize, aim: Aim<'_>) -> usize {
        let count = self.entries_for(aim, held.free).max(fetched);
        if fetched >= count {
            // It is all there.
        } else if count >= self.leaf.span {
            self.push_runs(lane, held.protects, 0, count, true);
        } else {
            let first = self.leaf.after(aim.home, fetched);
            self.push_runs(lane, held.protects, first, count - fetched, true);
        }
        count
    }

    /// Judges what was READ and decides, unless it has to be READ again.
    #[inline]
    fn judge_read(
        &self,
        lane: &Lane<'_>,
        held: &Held,
        aim: Aim<'_>,
        count: usize,
    ) -> Result<Result<Seen, OpError>, Again> {
        match lane.port().with(|scratch| self.judge_locked(lane, scratch, held, aim, count)) {
            Ok(Seen::NoRoom(_)) if count < self.leaf.span => {
                lane.mark(Mark::VACANCY_MISS);
                Err(Again::Whole)
            }
            Ok(seen) => Ok(Ok(seen)),
            Err(DecodeError::Stale) => Ok(Ok(Seen::Lost)),
            Err(DecodeError::Corrupt(what)) => Ok(Err(Tree::corrupt(held.protects, what))),
            Err(DecodeError::Torn) => {
                lane.mark(Mark::TORN_READ);
                Err(Again::Torn)
            }
        }
    }

    /// READs again, after `count` entries that would not do. A torn image is READ again for a while, as in
    /// [`Tree::read_locked`].
    async fn look_again(
        &self,
        lane: &Lane<'_>,
        held: &Held,
        aim: Aim<'_>,
        count: usize,
        again: Again,
    ) -> Result<Seen, OpError> {
        let port = lane.port();
        let (mut count, mut again) = (count, again);
        let mut torn = 0;
        let mut pause_ns = 1_000;
        loop {
            match again {
                Again::Whole => count = self.leaf.span,
                Again::Torn => {
                    torn += 1;
                    if torn >= TORN_LOCKED_MAX {
                        let what = "torn for good: a writer died in a WRITE";
                        return Err(Tree::corrupt(held.protects, what));
                    }
                    port.push(Request::pause(pause_ns));
                    port.submit().await?;
                    pause_ns = (pause_ns * 2).min(PAUSE_NS_MAX);
                }
            }
            let first = if count >= self.leaf.span { 0 } else { aim.home };
            self.push_runs(lane, held.protects, first, count, true);
            port.submit().await?;
            match self.judge_read(lane, held, aim, count) {
                Ok(seen) => return seen,
                Err(other) => again = other,
            }
        }
    }

    /// Judges the `count` entries READ from the home on, or the whole image, and decides.
    fn judge_locked(
        &self,
        lane: &Lane<'_>,
        scratch: &mut [u8],
        held: &Held,
        aim: Aim<'_>,
        count: usize,
    ) -> Result<Seen, DecodeError> {
        let (mut arguments, image) = self.plan.arguments_and(self.tree.leaf_image(0), scratch)?;
        if count >= self.leaf.span {
            let key = arguments.key();
            let mut fence_check = node::judge(image, &self.leaf_wanted(held.protects), key);
            if planted(Mutant::LARGEST_KEY_DECIDES) {
                fence_check = fence_check
                    .or(Ok(FenceCheck::Here))
                    .map(|fence_check| self.by_largest_key(image, key, fence_check));
            }
            let fence_check = fence_check?;
            if fence_check != FenceCheck::Here {
                return Ok(Seen::Elsewhere(fence_check));
            }
            Leaf::new(&self.leaf, image).settled()?;
        } else {
            if !self.is_spoken_of(image, &self.leaf.runs(aim.home, count), aim.home, aim.cursor)? {
                return Ok(Seen::Doubted);
            }
            if !Leaf::new(&self.leaf, image).entries_whole(aim.home, count) {
                return Err(DecodeError::Torn);
            }
        }
        self.seal_write(lane, &mut arguments);
        Ok(self.decide(aim, &mut arguments, image, held.free, count))
    }

    /// Where a leaf stands to a key by what it holds.
    fn by_largest_key(&self, image: &[u8], key: &[u8], fence_check: FenceCheck) -> FenceCheck {
        let leaf = Leaf::new(&self.leaf, image);
        let mut resident = [0; KEY_BYTES_MAX];
        let Some(resident) = resident.get_mut(..key.len()) else { return fence_check };
        let any_above = (0..self.leaf.span).any(|slot| {
            leaf.read_key(slot, resident);
            leaf.state(slot) == State::Live && &*resident >= key
        });
        let sibling = Header::read(image).sibling;
        match fence_check {
            FenceCheck::Here if !any_above && !sibling.is_null() => FenceCheck::Right(sibling),
            fence_check => fence_check,
        }
    }

    /// Decides what the operation does to the locked leaf, and does it to the image.
    fn decide(
        &self,
        aim: Aim<'_>,
        arguments: &mut Arguments<'_>,
        image: &mut [u8],
        vacancy: u64,
        count: usize,
    ) -> Seen {
        use OperationKind::{DeleteIf, Insert, UpdateIf, Upsert};
        let Aim { kind, home, .. } = aim;
        let leaf = Leaf::new(&self.leaf, image);
        let found = leaf.find_locked(home, arguments.key(), State::Live);
        let seen = |slot: usize| {
            let range = if planted(Mutant::RANGE_ENDS_AT_ROOM) {
                self.buckets.hop_range(vacancy, home)
            } else {
                self.leaf.span
            };
            !matches!(kind, Insert | Upsert) || self.leaf.distance(home, slot) < range
        };
        let Some(slot) = found.filter(|slot| seen(*slot)) else {
            if !matches!(kind, Insert | Upsert) {
                let outcome = Outcome::Absent;
                let change = Change::Nothing;
                return Seen::Decided(Decision { outcome, change, vacancy, emptied: false, slot: None });
            }
            return self.insert(arguments.key(), arguments.value(), image, home, vacancy, count);
        };
        let differs = matches!(kind, UpdateIf | DeleteIf) && !leaf.value_is(slot, arguments.expected());
        if matches!(kind, Insert) || differs {
            leaf.read_value(slot, arguments.output());
        }
        let outcome = kind.outcome_of_present(differs);
        let mut touched = Touched::default();
        let mut leaf = LeafMut::new(&self.leaf, image);
        let mut change = Change::Entries { first: slot, count: 1 };
        match outcome {
            Outcome::Updated | Outcome::Replaced => {
                leaf.set_value(slot, arguments.value());
                touched.add(slot);
            }
            Outcome::Deleted => {
                leaf.delete(slot);
                touched.add(slot);
                if planted(Mutant::DELETE_EMPTIES) {
                    leaf.vacate(slot);
                    touched.add(home);
                    change = Change::Entries { first: home, count: self.leaf.distance(home, slot) + 1 };
                }
            }
            _ => change = Change::Nothing,
        }
        leaf.raise(&touched);
        // Only a delete changes what is vacant; else the hint stays what it was.
        let vacancy = if outcome == Outcome::Deleted {
            self.buckets.observed(vacancy, &self.leaf, &leaf.view(), (home, count), None)
        } else {
            vacancy
        };
        // No bucket is full and the neighborhood is empty: worth a look at the whole leaf.
        let emptied = outcome == Outcome::Deleted
            && vacancy == 0
            && (0..self.leaf.neighborhood)
                .all(|distance| leaf.view().state(self.leaf.after(home, distance)) != State::Live);
        let slot = (outcome != Outcome::Deleted).then_some(slot);
        Seen::Decided(Decision { outcome, change, vacancy, emptied, slot })
    }

    /// Puts a record into the image, whose `count` entries from `home` on may be looked at and do not have it.
    fn insert(&self, key: &[u8], value: &[u8], image: &mut [u8], home: usize, vacancy: u64, count: usize) -> Seen {
        let outcome = Outcome::Inserted;
        let mut touched = Touched::default();
        let mut leaf = LeafMut::new(&self.leaf, image);
        let whole = count >= self.leaf.span;
        let room = if let Some(slot) = leaf.view().find_locked(home, key, State::Dead) {
            leaf.set_value(slot, value);
            leaf.set_state(slot, State::Live);
            touched.add(slot);
            Some((slot, 1, slot))
        } else if whole && leaf.view().dead() * DEAD_SHARE >= self.leaf.span {
            None
        } else {
            leaf.place(home, key, value, count, &mut touched).map(|hole| (home, hole + 1, self.leaf.after(home, hole)))
        };
        if let Some((first, changed, filled)) = room {
            leaf.raise(&touched);
            let vacancy = self.buckets.observed(vacancy, &self.leaf, &leaf.view(), (home, count), Some(filled));
            let change = Change::Entries { first, count: changed };
            let slot = self.hotspot.is_on().then(|| leaf.view().find_locked(home, key, State::Live)).flatten();
            return Seen::Decided(Decision { outcome, change, vacancy, emptied: false, slot });
        }
        if !whole {
            return Seen::NoRoom(vacancy);
        }
        // Dead entries are in the way, or there are many: the next image of the leaf leaves them out. If hops do not
        // help, another arrangement may.
        let dead = leaf.view().dead();
        leaf.purge();
        let reason = if dead > 0 && leaf.place(home, key, value, count, &mut touched).is_some() {
            Mark::PURGE
        } else if self.tree.options.rearrange && leaf.rearrange(home, key, value) {
            Mark::REARRANGED
        } else {
            return Seen::NoRoom(self.buckets.exact(&leaf.view()));
        };
        let vacancy = self.buckets.exact(&leaf.view());
        leaf.raise(&touched);
        let version = stripes::node_version(image).unwrap_or(0);
        LeafMut::new(&self.leaf, image).seal(version.wrapping_add(1));
        Seen::Decided(Decision { outcome, change: Change::Leaf(reason), vacancy, emptied: false, slot: None })
    }

    /// Pushes the WRITEs of what was changed in image 0.
    fn push_change(&self, lane: &Lane<'_>, held: &Held, change: Change) -> Result<(), OpError> {
        let image = self.tree.leaf_image(0);
        if change != Change::Nothing {
            lane.change_is_next();
        }
        match change {
            Change::Nothing => {}
            Change::Entries { first, count } => {
                if count > self.leaf.neighborhood {
                    lane.mark(Mark::HOP);
                }
                let [high, low] = self.leaf.runs(first, count).map(|run| self.leaf.write_range(&run));
                let (tree, lock, leaf) = (&self.tree, held.lock, held.protects);
                if low.is_empty() {
                    tree.push_in_place(lane, lock, Label::Entry, leaf, high, image)?;
                } else {
                    // One without the other would be a key that is on its way, twice there or not at all.
                    let images = (image, tree.leaf_image(1));
                    tree.push_both_in_place(lane, lock, Label::Entry, leaf, [high, low], images)?;
                }
            }
            Change::Leaf(reason) => {
                lane.mark(reason);
                self.tree.push_in_place(lane, held.lock, Label::Node, held.protects, 0..image.bytes, image)?;
            }
        }
        Ok(())
    }
}
