//! Get: a look at the leaf, without a lock.
//!
//! It linearizes when the leaf's words were read, between two looks at the frame's sequence number; of a leaf that is not
//! admitted, within its READ. It answers when the lease was valid after that, and, unless at level `cache`, when the record
//! that the leaf's LSN names is in the ring. What was READ from the pool waits for nothing: it is in its page, whether its
//! records are in the ring or not.

use super::Dex;
use super::find::{Look, Place};
use crate::btree::leaves::{Leaves, key_of};
use crate::btree::node::{FenceCheck, Wanted};
use crate::dex::leaf;
use crate::dex::leaf::Leaf;
use crate::dex::offload::choice::Class;
use crate::dex::ownership::partition::Tenure;
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::layout::stripes::Bytes;
use crate::operation::Outcome;
use crate::pages::Admit;
use crate::pages::lsn::Lsn;
use crate::registry::KEY_BYTES_MAX;
use core::cell::RefCell;

/// Whether the key is present, and the LSN for which the answer waits.
type Seen = (bool, Lsn);

impl Dex<'_> {
    pub(super) async fn get(&self, lane: &Lane<'_>) -> Result<Outcome, Interrupt> {
        let tenure = self.tenure(lane).await?;
        self.count(lane, tenure);
        let Some(start) = self.offload_from(lane, &self.plan.key) else { return self.get_by_reads(lane, tenure).await };
        let waited_ns = lane.port().elapsed_ns();
        let way = self.way(lane, Class::Get, start.level);
        let answer = if way.calls { self.get_by_call(lane, tenure, &start).await? } else { None };
        let answer = match answer {
            Some(answer) => answer,
            None => self.get_by_reads(lane, tenure).await?,
        };
        self.choice.note(Class::Get, start.level, way.calls, lane.port().elapsed_ns().saturating_sub(waited_ns));
        Ok(answer)
    }

    async fn get_by_reads(&self, lane: &Lane<'_>, tenure: Tenure) -> Result<Outcome, Interrupt> {
        let look = |place, wanted: &_| self.look_up(lane, place, wanted);
        let visited = self.visit_owned(lane, &self.plan.key, Admit::ByChance, look).await?;
        let Some(visited) = visited else { return Ok(Outcome::Absent) };
        if let Some(fill) = &visited.fill {
            self.end_fill(lane, fill).await?;
        }
        let (is_found, lsn) = visited.seen;
        self.answer_read(lane, tenure, lsn).await?;
        if visited.help.is_some() {
            self.help(lane, visited.help).await;
        }
        Ok(if is_found { Outcome::Found } else { Outcome::Absent })
    }

    /// Looks for the operation's key, and copies its value out.
    fn look_up(&self, lane: &Lane<'_>, place: Place, wanted: &Wanted) -> Look<Seen> {
        lane.port().with(|scratch| {
            let mut room = [0; KEY_BYTES_MAX];
            let key = key_of(scratch, &self.plan.key, &mut room);
            let image = self.tree.leaf_image(0);
            let Some((front, image)) = image.split(scratch) else {
                return Look::Corrupt("scratch shorter than planned");
            };
            let out = front.get_mut(self.plan.output.clone()).unwrap_or_default();
            match place {
                // All that it has is in its page.
                Place::Scratch => match self.look_at(&*image, wanted, key, out) {
                    Ok(Ok((is_found, _))) => Look::Seen((is_found, Lsn::NONE)),
                    elsewhere => Look::of(elsewhere),
                },
                Place::Unread => Look::Stale,
                Place::Frame(name) => {
                    let out = RefCell::new(out);
                    // A closure that is called again writes the value again.
                    let seen = self.store.read(name, |image| self.look_at(image, wanted, key, &mut out.borrow_mut()));
                    seen.map_or_else(Look::Refused, Look::of)
                }
            }
        })
    }

    #[inline]
    fn look_at(
        &self,
        image: impl Bytes,
        wanted: &Wanted,
        key: &[u8],
        out: &mut [u8],
    ) -> Result<Result<Seen, FenceCheck>, DecodeError> {
        match leaf::judge_cached(image, wanted, key)? {
            FenceCheck::Here => {}
            elsewhere => return Ok(Err(elsewhere)),
        }
        let records = Leaf::over(&self.leaf, image);
        let slot = records.scan_for(key);
        if let Some(slot) = slot {
            records.read_value(slot, out);
        }
        Ok(Ok((slot.is_some(), leaf::lsn(&self.leaf, image))))
    }
}
