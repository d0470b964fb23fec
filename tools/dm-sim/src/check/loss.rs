//! What the death of a compute node may take back. Where keys have owners, and an owner acknowledges what only its memory has
//! ([`Level::Cache`](dm_core::dex::serve::Level::Cache)), its death costs a suffix of each key's changes: what the next owner
//! finds is what the key held at some instant of the dead owner's tenure.
//!
//! Each such state becomes a step, of which one may happen or none, behind the last answer of the dead, and before the first answer of
//! another compute node that follows it. The tenure of a key begins behind the instant of which the last answer of another compute
//! node before that tells. That answer may come later: a scan of an index without leaves tells of keys that have no owner yet.

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

/// What one death may have taken back of a key: one of these steps, or nothing.
pub(crate) type Loss = Vec<Item>;

/// What deaths may have taken back of one key, whose items ascend by invocation; the first death first.
pub(crate) fn losses(history: &History, initial: State, items: &[Item]) -> Vec<Loss> {
    let node_of = |item: &Item| history.operation(OpId(item.operation)).lane.compute_node;
    let last_answer = |of: ComputeNode| {
        items.iter().filter(|item| !item.optional && node_of(item) == of).max_by_key(|item| item.until).copied()
    };
    let mut losers: Vec<(ComputeNode, Item)> =
        history.losers.iter().filter_map(|&node| Some((node, last_answer(node)?))).collect();
    losers.sort_by_key(|(_, last)| last.until);
    let mut losses: Vec<Loss> = Vec::new();
    for (loser, last) in losers {
        let others = || items.iter().filter(|item| !item.optional && node_of(item) != loser);
        let before = others().filter(|item| item.until < last.until).max_by_key(|item| item.until);
        let until = others().map(|item| item.until).filter(|until| *until > last.until).min().unwrap_or(u32::MAX);
        let since = before.map_or(0, |before| before.from);
        let own = || items.iter().filter(|item| node_of(item) == loser && item.until >= since);
        // What the tenure began with: what its own answers say, or else what others may have left.
        let first_change = own().filter(|item| !item.step.only_looks()).map(|item| item.from).min().unwrap_or(u32::MAX);
        let seen =
            own().filter(|item| !item.optional && item.until < first_change).find_map(|item| state_after(item.step));
        let left = || {
            let others = items.iter().filter(|item| node_of(item) != loser).chain(losses.iter().flatten());
            let mut left: Vec<_> = others
                .filter(|item| item.from < last.until && item.until >= since)
                .filter_map(|item| Some((item.operation, state_after(item.step)?)))
                .collect();
            if before.is_none() {
                left.push((last.operation, initial));
            }
            left
        };
        let base = seen.map_or_else(left, |state| vec![(last.operation, state)]);
        let changes = own().filter(|item| !item.step.only_looks() && item.from < last.until);
        let changed = changes.filter_map(|item| Some((item.operation, state_after(item.step)?)));
        // Of the values that no later answer names, one does for all.
        let is_named = |state: State| {
            let names = |item: &Item| item.until > last.until && state.is_some_and(|value| item.step.names(value));
            items.iter().any(names)
        };
        let mut found: Vec<(u32, State)> = Vec::new();
        for (operation, state) in base.into_iter().chain(changed) {
            let same = |other: State| other == state || state.is_some() && other.is_some() && !is_named(state);
            if !found.iter().any(|(_, other)| same(*other)) {
                found.push((operation, state));
            }
        }
        let from = last.until + 1;
        let steps = found.into_iter().map(|(operation, state)| {
            let makes = state.map_or(Makes::Absent, Makes::Value);
            Item { operation, step: Step { needs: Needs::Anything, makes }, optional: true, from, until }
        });
        losses.push(steps.collect());
    }
    losses
}

/// Takes the next combination of one step of each loss; `false`: there is none. It begins with the first of each.
pub(crate) fn next_choice(losses: &[Loss], choice: &mut [usize]) -> bool {
    for (at, loss) in choice.iter_mut().zip(losses) {
        *at += 1;
        if *at < loss.len() {
            return true;
        }
        *at = 0;
    }
    false
}
