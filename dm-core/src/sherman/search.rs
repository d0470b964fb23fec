//! Get: one READ of the leaf that the route names.

use super::layout::Leaf;
use super::merge::BOUNCES_MAX;
use super::{Sherman, Visit, judge_leaf, slice, slice_mut};
use crate::btree::{MOVES_MAX, RESTARTS_MAX, Tree};
use crate::error::{DecodeError, OpError};
use crate::index::Outcome;
use crate::lane::{Lane, Mark};
use core::ops::Range;

impl Sherman<'_> {
    /// Steps: route; READ leaf; judge it; take the value. Linearizes within the READ whose image was accepted.
    pub(super) async fn get(&self, lane: &Lane<'_>) -> Result<Outcome, OpError> {
        let output = self.plan.output.clone();
        let key_range = self.plan.key.clone();
        let at = self.tree.scratch.node(0);
        let visit = self
            .visit(
                lane,
                &key_range,
                at,
                |image, key, value| {
                    let leaf = Leaf::new(&self.leaf, image);
                    let slot = leaf.find(key)?;
                    if let Some(slot) = slot {
                        leaf.read_value(slot, value);
                    }
                    Ok(slot.is_some())
                },
                &output,
            )
            .await?;
        let Some(visit) = visit else { return Ok(Outcome::Absent) };
        self.help(lane, visit.help).await;
        Ok(if visit.seen { Outcome::Found } else { Outcome::Absent })
    }

    /// Descends to the leaf that covers the key, READs it into the image at `at` and looks at it: `look` gets the image,
    /// the key, and the scratch range `out` to write to. `None`: the tree has no root.
    pub(super) async fn visit<R>(
        &self,
        lane: &Lane<'_>,
        key_range: &Range<usize>,
        at: usize,
        mut look: impl FnMut(&[u8], &[u8], &mut [u8]) -> Result<R, DecodeError>,
        out: &Range<usize>,
    ) -> Result<Option<Visit<R>>, OpError> {
        let mut cached = true;
        let mut attempts = 0;
        loop {
            let Some(mut spot) = self.tree.locate(lane, key_range, 0, cached).await? else { return Ok(None) };
            for _ in 0..MOVES_MAX {
                let address = spot.address;
                let wanted = self.leaf_wanted(address);
                // Whoever joins from here on must not be told what this READ samples.
                self.tree.batches.seal(lane.id(), |_| ());
                let seen = self
                    .tree
                    .read(lane, self.leaf_target(address, at), |scratch| {
                        // Arguments and results lie in front of the node images.
                        let Some((front, nodes)) = scratch.split_at_mut_checked(self.tree.scratch.nodes) else {
                            return Err(DecodeError::Corrupt("scratch shorter than planned"));
                        };
                        let image = slice(nodes, at - self.tree.scratch.nodes, self.leaf.bytes);
                        let mut room = [0; crate::btree::node::KEY_BYTES_MAX];
                        let key = super::key_of(front, key_range, &mut room);
                        judge_leaf(image, &wanted, key, |image| {
                            look(image, key, slice_mut(front, out.start, out.len()))
                        })
                    })
                    .await?;
                match seen {
                    Some(Ok(seen)) => return Ok(Some(Visit { seen, help: spot.help })),
                    Some(Err(standing)) => {
                        spot.address = self.wrong_leaf(lane, standing, &mut spot, at);
                        if lane.bounced_more_than(BOUNCES_MAX) {
                            self.undo_merge(lane, spot.from, address).await?;
                        }
                    }
                    None => {
                        self.tree.cache.invalidate(spot.parent);
                        break;
                    }
                }
                // Half-splits are told by the parent that was followed; past the first hop there is none.
                spot.fresh = false;
            }
            lane.mark(if cached { Mark::StaleCache } else { Mark::Restart });
            self.tree.root.forget();
            cached = false;
            Tree::attempt(lane, &mut attempts, RESTARTS_MAX, "finding the leaf of a key")?;
        }
    }
}
