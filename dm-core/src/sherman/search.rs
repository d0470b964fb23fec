//! Get: one READ of the leaf that the route names.

use super::Sherman;
use super::layout::Leaf;
use crate::btree::leaves::Leaves;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::operation::Outcome;

impl Sherman<'_> {
    /// Steps: route; READ leaf; judge it; take the value. Linearizes within the READ whose image was accepted.
    pub(super) async fn get(&self, lane: &Lane<'_>) -> Result<Outcome, Interrupt> {
        let output = self.plan.output.clone();
        let key_range = self.plan.key.clone();
        let visit = self
            .visit(
                lane,
                &key_range,
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
        if visit.help.is_some() {
            self.help(lane, visit.help).await;
        }
        Ok(if visit.seen { Outcome::Found } else { Outcome::Absent })
    }
}
