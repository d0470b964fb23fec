//! Compares combined writes and delegated reads with the requests that were posted. An operation that reports a write,
//! or returns a value, must have been under way when a request of its compute node changed memory, or READ it.
//!
//! The histories have one key, so that every WRITE of an entry and every READ of a leaf is about that key.

use dm_core::marks::{MARKS_MAX, Mark};
use dm_core::verbs::Verb;
use dm_sim::check::{Answer, Call, Record};
use dm_sim::log::What;
use dm_sim::verify::{Bounded, Replay, Settings, Sherman, Verifier};

/// Whether a request of `verb` by the operation's compute node took effect while the operation was under way.
fn overlaps(replay: &Replay, operation: &Record, verb: Verb, labels: &[&str]) -> bool {
    let Some((_, answered)) = &operation.answer else { return true };
    replay.events.iter().any(|event| {
        event.compute_node == operation.lane.compute_node.0
            && event.request.verb == verb
            && labels.contains(&event.request.label.name())
            && matches!(event.what, What::Effect { .. })
            && (operation.invoked.now_ns..=answered.now_ns).contains(&event.now_ns)
    })
}

#[test]
fn who_is_told_was_under_way_when_memory_was_changed_or_looked_at() {
    let settings = Settings { keys: (1, 1), ..Settings::default() };
    let mut verifier = Verifier::new(Bounded(Sherman), settings);
    let mut marks = vec![0; MARKS_MAX];
    let (mut writes, mut reads) = (0, 0);
    for seed in 0..400 {
        let replay = verifier.replay(seed);
        assert!(replay.history.findings.is_empty(), "seed {seed}\n{replay}");
        for (sum, mark) in marks.iter_mut().zip(&replay.history.marks) {
            *sum += mark;
        }
        // The reads that come after the load are made by hand and leave no events.
        for operation in replay.history.record.operations().iter().take(replay.history.operations as usize) {
            let Some((answer, _)) = &operation.answer else { continue };
            let is_seen = match (&operation.call, answer) {
                (Call::Update { .. } | Call::Upsert { .. }, Answer::Updated | Answer::Inserted | Answer::Replaced) => {
                    writes += 1;
                    overlaps(&replay, operation, Verb::Write, &["entry", "node"])
                }
                (Call::Get, Answer::Found(_) | Answer::Absent) => {
                    reads += 1;
                    overlaps(&replay, operation, Verb::Read, &["leaf", "root"])
                }
                _ => true,
            };
            assert!(is_seen, "seed {seed}: {operation:?}\n{}", replay.with_events());
        }
    }
    println!("{writes} writes, {reads} reads");
    assert!(writes > 1000 && reads > 1000, "{writes} writes and {reads} reads are too few to tell");
    for mark in [Mark::COMBINED_WRITE, Mark::DELEGATED_READ] {
        assert!(marks[mark.number()] > 100, "{}: {}", mark.name(), marks[mark.number()]);
    }
}
