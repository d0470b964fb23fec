//! What the death of a compute node may take back. Where keys have owners, and an owner acknowledges what only its memory has
//! ([`Level::Cache`](dm_core::dex::serve::Level::Cache)), its death costs a suffix of each key's changes: what the next owner
//! finds is what the key held at some instant of the dead owner's tenure.
//!
//! Each such state becomes a step that may happen or not, behind the last answer of the dead, and before the first answer of
//! another compute node that follows it. The tenure of a key begins behind the last answer of another compute node before that.

use crate::ComputeNode;
use crate::check::history::{History, OpId};
use crate::check::model::{Item, Makes, Needs, State, Step};

/// What an item leaves the register with, if that is known.
fn state_after(step: Step) -> Option<State> {
    match (step.makes, step.needs) {
        (Makes::Value(value), _) | (Makes::Same, Needs::Value(value)) => Some(Some(value)),
        (Makes::Absent, _) | (Makes::Same, Needs::Absent) => Some(None),
        (Makes::Same, _) => None,
    }
}

/// Adds to the items of one key, which ascend by invocation, what deaths may have taken back.
pub(crate) fn add_losses(history: &History, initial: State, items: &mut Vec<Item>) {
    let node_of = |item: &Item| history.operation(OpId(item.operation)).lane.compute_node;
    let last_answer = |items: &[Item], of: ComputeNode| {
        items.iter().filter(|item| !item.optional && node_of(item) == of).max_by_key(|item| item.until).copied()
    };
    let mut losers: Vec<(ComputeNode, Item)> =
        history.losers.iter().filter_map(|&node| Some((node, last_answer(items, node)?))).collect();
    losers.sort_by_key(|(_, last)| last.until);
    for (loser, last) in losers {
        let others = || items.iter().filter(|item| !item.optional && node_of(item) != loser);
        let before = others().filter(|item| item.until < last.until).max_by_key(|item| item.until);
        let until = others().map(|item| item.until).filter(|until| *until > last.until).min().unwrap_or(u32::MAX);
        let (since, begins) = before.map_or((0, 0), |before| (before.from, before.until));
        let in_tenure =
            |item: &&Item| item.from < last.until && item.until >= if node_of(item) == loser { begins } else { since };
        let states = items.iter().filter(in_tenure).filter_map(|item| Some((item.operation, state_after(item.step)?)));
        let first = before.is_none().then_some((last.operation, initial));
        // Of the values that no later answer names, one does for all.
        let is_named = |state: State| {
            let named = |item: &Item| item.until > last.until && state.is_some_and(|value| item.step.names(value));
            items.iter().any(named)
        };
        let mut found: Vec<(u32, State)> = Vec::new();
        for (operation, state) in first.into_iter().chain(states) {
            let same = |other: State| other == state || state.is_some() && other.is_some() && !is_named(state);
            if !found.iter().any(|(_, other)| same(*other)) {
                found.push((operation, state));
            }
        }
        let from = last.until + 1;
        items.extend(found.into_iter().map(|(operation, state)| {
            let makes = state.map_or(Makes::Absent, Makes::Value);
            Item { operation, step: Step { needs: Needs::Anything, makes }, optional: true, from, until }
        }));
        items.sort_by_key(|item| item.from);
    }
}
