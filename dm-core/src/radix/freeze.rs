//! Freezing: a lane sets the frozen bit of every slot of a node. No slot of the node changes after that, so the node
//! can be replaced ([`super::replace`]) or left out of the node above ([`super::tombstones`]).

use super::slot::{NodeType, Place, SLOTS_AT, Slot};
use super::tree::Tree;
use crate::lane::Lane;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::port::OUTBOX_REQUESTS;
use crate::verbs::{Label, Request};
use heapless::Vec;

/// Passes over the slots of a node, at most. A pass leaves a slot unfrozen only if another lane has changed it
/// meanwhile.
const PASSES_MAX: u32 = 64;

impl Tree<'_> {
    /// Freezes every slot and leaves the frozen words in node image `image`, which is of this node.
    ///
    /// With masked atomics a CAS freezes a slot whatever its word is. Without them the CAS expects the word that was
    /// seen last. If another lane has changed it, the CAS returns the new word, and the next pass expects that.
    pub(crate) async fn freeze(
        &self,
        lane: &Lane<'_>,
        node: Place,
        kind: NodeType,
        image: usize,
    ) -> Result<(), OpError> {
        if planted(Mutant::REPLACED_UNFROZEN) {
            return Ok(());
        }
        let port = lane.port();
        let masked = self.capabilities.masked_atomics;
        let slot_at = |i: usize| Slot(port.with(|scratch| self.scratch.slot(image, i).word(scratch)));
        for _ in 0..PASSES_MAX {
            let (mut from, mut left) = (0, false);
            while from < kind.slots() {
                let mut posted = Vec::<(usize, usize), OUTBOX_REQUESTS>::new();
                while from < kind.slots() && port.room() > 0 {
                    let seen = slot_at(from);
                    if !seen.is_frozen() {
                        let offset = node.offset() + (SLOTS_AT + 8 * from) as u64;
                        let position = port.push(if masked {
                            let operands = [0, Slot::FROZEN, 0, Slot::FROZEN];
                            Request::masked_cas(Label::Freeze, node.node(), offset, operands)
                        } else {
                            Request::cas(Label::Freeze, node.node(), offset, seen.0, seen.frozen().0)
                        });
                        // The outbox has no more room than that.
                        let _ = posted.push((position, from));
                    }
                    from += 1;
                }
                port.submit().await?;
                for (position, number) in posted {
                    let found = Slot(port.completion(position).value);
                    let now = if masked || found == slot_at(number) { found.frozen() } else { found };
                    left |= !now.is_frozen();
                    port.with(|scratch| self.scratch.slot(image, number).set_word(scratch, now.0));
                }
            }
            if !left {
                return Ok(());
            }
            lane.check_deadline()?;
        }
        let what = "freezing the slots of a full node";
        Err(OpError::harmless(Cause::Retries { attempts: PASSES_MAX, what }))
    }
}
