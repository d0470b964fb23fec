//! Get: one READ of the key's neighborhood in the leaf that the route names, or of the key's entry alone.

use super::Chime;
use super::layout::{Leaf, Runs};
use crate::btree::descent::DescentCursor;
use crate::btree::leaves::Leaves;
use crate::btree::read::TORN_MAX;
use crate::btree::router::{Router, seek};
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{OpError, Outcome};
use crate::remote::address::Address;
use crate::verbs::Label;

/// Result of a look at a neighborhood.
enum Look {
    /// The key is there, in this slot, its value in the output; or it is not there.
    Seen(Option<usize>),
    /// The leaf is not the one that the parent means.
    Doubted,
    /// Torn again and again, or READ too slowly for versions to vouch.
    Unsure,
}

/// Result of looks at the parts of a leaf.
enum Near {
    /// Whether the key is there, its value in the output; and a half-split to finish.
    Told(bool, Option<(u8, Address)>),
    /// The whole leaf has to be READ.
    Unsure(DescentCursor),
}

impl Chime<'_> {
    /// Steps: route; if the hotspot buffer knows the key, READ its entry, and take the value if the key is there; READ
    /// neighborhood; check versions, then the sibling against the parent's next pointer; take the value. Linearizes
    /// within the READ whose image was accepted.
    ///
    /// If the sibling differs, the parent's copy may be old: the parent is READ again. If the sibling still differs,
    /// the leaf has split and the parent does not know: the leaf is READ as a whole and its fences decide.
    pub(super) async fn get(&self, lane: &Lane<'_>) -> Result<Outcome, Interrupt> {
        // One after the other from here: futures of the later ones must not lie within those of the earlier.
        let (found, help) = match self.find(lane).await? {
            Near::Told(found, help) => (found, help),
            Near::Unsure(cursor) => self.find_in_leaf(lane, cursor).await?,
        };
        if help.is_some() {
            self.help(lane, help).await;
        }
        Ok(if found { Outcome::Found } else { Outcome::Absent })
    }

    /// Looks for the key in its entry and its neighborhood.
    async fn find(&self, lane: &Lane<'_>) -> Result<Near, Interrupt> {
        let key_range = &self.plan.key;
        let hashed = self.hashed(lane);
        let home = hashed.home;
        let mut attempts = 0;
        loop {
            let Some(mut cursor) = seek!(&self.tree, lane, key_range, true) else {
                return Ok(Near::Told(false, None));
            };
            if let Some(slot) = self.guess(lane, cursor.address, hashed)
                && self.get_entry(lane, &cursor, slot).await?
            {
                return Ok(Near::Told(true, cursor.help));
            }
            match self.look(lane, &cursor, home).await? {
                Look::Seen(slot) => {
                    self.note(cursor.address, hashed, slot);
                    return Ok(Near::Told(slot.is_some(), cursor.help));
                }
                Look::Unsure => return Ok(Near::Unsure(cursor)),
                Look::Doubted => {
                    // The root word was READ again since the last look, or the parent in this descent.
                    cursor.fresh |= cursor.parent.is_null() && attempts > 0;
                    if cursor.fresh {
                        lane.mark(Mark::DOUBTED);
                        return Ok(Near::Unsure(cursor));
                    }
                }
            }
            lane.mark(Mark::STALE_CACHE);
            self.forget(lane, &cursor);
            lane.attempt(&mut attempts, "finding the leaf of a key")?;
        }
    }

    /// Looks for the key in the whole leaf that a descent arrived at, or in the one that this leads to: fences decide.
    async fn find_in_leaf(
        &self,
        lane: &Lane<'_>,
        cursor: DescentCursor,
    ) -> Result<(bool, Option<(u8, Address)>), Interrupt> {
        let mut cursor = cursor;
        let key_range = &self.plan.key;
        let home = self.hashed(lane).home;
        let look = |image: &[u8], key: &[u8], value: &mut [u8]| {
            let leaf = Leaf::new(&self.leaf, image);
            let slot = leaf.find(home, key)?;
            if let Some(slot) = slot {
                leaf.read_value(slot, value);
            }
            Ok(slot.is_some())
        };
        if let Some(visit) = self.visit_at(lane, &mut cursor, key_range, look, &self.plan.output).await? {
            return Ok((visit.seen, visit.help));
        }
        self.tree.forget_root(lane);
        let visit = self.visit(lane, key_range, look, &self.plan.output).await?;
        Ok(visit.map_or((false, None), |visit| (visit.seen, visit.help)))
    }

    /// Invalidates the copy that led to a leaf.
    pub(super) fn forget(&self, lane: &Lane<'_>, cursor: &DescentCursor) {
        if cursor.parent.is_null() {
            self.tree.forget_root(lane);
        } else {
            self.tree.forget(lane, cursor);
        }
    }

    /// Pushes READs of the `count` entries from `first` on into node image 0, each byte to its own place; of all
    /// entries, of the whole image. Returns the positions of the READs.
    pub(super) fn push_runs(
        &self,
        lane: &Lane<'_>,
        leaf: Address,
        first: usize,
        count: usize,
        locked: bool,
    ) -> core::ops::Range<usize> {
        let port = lane.port();
        let target = self.leaf_target(leaf, 0);
        let mut positions = 0..0;
        let mut push = |label, range: core::ops::Range<usize>| {
            let request = target.part_request(label, &range);
            let position = port.push(if locked { request.untimed() } else { request });
            if positions.is_empty() {
                positions.start = position;
            }
            positions.end = position + 1;
        };
        if count >= self.leaf.span {
            push(Label::Leaf, 0..self.leaf.bytes);
            return positions;
        }
        let runs = self.leaf.runs(first, count);
        for range in runs.iter().map(|run| self.leaf.read_range(run)).filter(|range| !range.is_empty()) {
            push(Label::Neighborhood, range);
        }
        if !runs[1].is_empty() {
            lane.mark(Mark::WRAP);
        }
        positions
    }

    async fn look(&self, lane: &Lane<'_>, cursor: &DescentCursor, home: usize) -> Result<Look, OpError> {
        let port = lane.port();
        // A neighborhood that is the whole leaf is READ as such, header included.
        let runs = self.leaf.runs(home, self.leaf.neighborhood);
        // A member that joins from here on must not be told what this READ samples.
        self.tree.batches.seal(lane, |_| ());
        for _ in 0..TORN_MAX {
            let reads = self.push_runs(lane, cursor.address, home, self.leaf.neighborhood, false);
            port.submit().await?;
            let elapsed_ns = reads.map(|read| port.completion(read).elapsed_ns).max().unwrap_or(0);
            if self.tree.exposed_too_long(elapsed_ns) {
                lane.mark(Mark::GUARD_REFUSAL);
                return Ok(Look::Unsure);
            }
            let seen: Result<_, DecodeError> = port.with(|scratch| {
                let (mut arguments, image) = self.plan.arguments_and(self.tree.leaf_image(0), scratch)?;
                if !self.is_spoken_of(image, &runs, home, cursor)? {
                    return Ok(None);
                }
                let leaf = Leaf::new(&self.leaf, image);
                let slot = leaf.find(home, arguments.key())?;
                if let Some(slot) = slot {
                    leaf.read_value(slot, arguments.output());
                }
                Ok(Some(slot))
            });
            match seen {
                Ok(Some(slot)) => return Ok(Look::Seen(slot)),
                Ok(None) => return Ok(Look::Doubted),
                Err(_) => {
                    let hop = port.with(|scratch| {
                        let leaf = Leaf::new(&self.leaf, self.tree.leaf_image(0).of(scratch));
                        leaf.agrees(&runs) && leaf.entries_whole(home, self.leaf.neighborhood)
                    });
                    lane.mark(if hop { Mark::HOP_SEEN } else { Mark::TORN_READ });
                }
            }
            lane.check_deadline()?;
        }
        Ok(Look::Unsure)
    }

    /// Whether the entries READ, a neighborhood at least, are of one image, and that image is of the leaf that the
    /// parent means: in use, of the pointer's generation, and with the sibling that the parent names next. Then it
    /// covers what the parent says ([`chime_leaf_identity`](crate::manual::chime_leaf_identity)).
    pub(super) fn is_spoken_of(
        &self,
        image: &[u8],
        runs: &Runs,
        home: usize,
        cursor: &DescentCursor,
    ) -> Result<bool, DecodeError> {
        let leaf = Leaf::new(&self.leaf, image);
        if !leaf.agrees(runs) {
            return Err(DecodeError::Torn);
        }
        let replica = leaf.replica(self.leaf.replica_near(home));
        if planted(Mutant::LIFE_UNCHECKED) {
            return Ok(replica.in_use && replica.sibling.place() == cursor.next.place());
        }
        Ok(replica.in_use && replica.generation == cursor.address.generation() && replica.sibling == cursor.next)
    }
}
