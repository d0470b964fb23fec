//! Congee, a concurrent adaptive radix tree in the memory of its process: what `dm bench --against congee` compares with.
//!
//! An example, so that the command does not carry it:
//! `cargo build --release -p dm --bins --example against_congee`.

use congee::Congee;
use dm_core::operation::OperationKind;
use dm_tool::rounds::{self, Item, SCANNED};
use dm_tool::workload::keys::check;
use std::io;

fn main() -> io::Result<()> {
    let tree = Congee::<usize, usize>::default();
    let mut page = [(0, 0); SCANNED];
    rounds::serve(|round| {
        // Once a round: its documentation says that this is expensive, and its own benchmark does it once a thread.
        let guard = tree.pin();
        let mut play = |&Item { record, key, value }: &Item| {
            let (key, value) = (key as usize, value as usize);
            let is_of_record = |value: usize| check(record, &value.to_le_bytes()).is_some();
            match round.kind {
                OperationKind::Get => tree.get(&key, &guard).is_some_and(is_of_record),
                OperationKind::Update => tree.compute_if_present(&key, |_| Some(value), &guard).is_some(),
                OperationKind::Insert => tree.insert(key, value, &guard).is_ok_and(|old| old.is_none()),
                // The key itself is there.
                _ => tree.range(&key, &usize::MAX, &mut page, &guard) > 0 && page[0].0 == key,
            }
        };
        let wrong = round.items.iter().filter(|item| !play(item)).count();
        if wrong == 0 { Ok(()) } else { Err(format!("{wrong} wrong answers")) }
    })
}
