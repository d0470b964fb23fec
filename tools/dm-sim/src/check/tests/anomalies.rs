//! Each anomaly once, beside a good history that looks much like it.

use super::*;
use crate::check::{PointViolation, SearchLimit};
use dm_core::operation::Effect;

const UNKNOWN: Answer = Answer::Failed(Effect::Unknown);
const NO_EFFECT: Answer = Answer::Failed(Effect::None);
const DONE: Answer = Answer::Failed(Effect::Done);

fn point(violation: Violation) -> PointViolation {
    match violation {
        Violation::Point(point) => point,
        Violation::Page(page) => panic!("{page:?}"),
    }
}

#[test]
fn all_outcomes_in_sequence_are_good() {
    HistoryBuilder::default()
        .op(0, (0, 1), 5, GET, Answer::Absent)
        .op(0, (2, 3), 5, update(1), Answer::Absent)
        .op(0, (4, 5), 5, update_if(1, 2), Answer::Absent)
        .op(0, (6, 7), 5, DELETE, Answer::Absent)
        .op(0, (8, 9), 5, insert(3), Answer::Inserted)
        .op(0, (10, 11), 5, insert(4), Answer::Exists(3))
        .op(0, (12, 13), 5, update(5), Answer::Updated)
        .op(0, (14, 15), 5, update_if(3, 6), Answer::Mismatch(5))
        .op(0, (16, 17), 5, update_if(5, 6), Answer::Updated)
        .op(0, (18, 19), 5, upsert(7), Answer::Replaced)
        .op(0, (20, 21), 5, GET, Answer::Found(7))
        .op(0, (22, 23), 5, DELETE, Answer::Deleted)
        .op(0, (24, 25), 5, upsert(8), Answer::Inserted)
        .op(0, (26, 27), 5, GET, Answer::Found(8))
        .passes();
}

#[test]
fn overlapping_writers_may_take_effect_in_any_order() {
    let history = |read| {
        HistoryBuilder::holding(&[(5, 1)])
            .op(0, (0, 10), 5, update(2), Answer::Updated)
            .op(1, (5, 15), 5, update(3), Answer::Updated)
            .op(2, (20, 21), 5, GET, Answer::Found(read))
    };
    history(2).passes();
    history(3).passes();
    history(1).fails(
        "Lane c1.l0 read key 5 as 1 (#2) although update of 3 by lane c0.l1 (#1) had been acknowledged before, or update \
         of 2 by lane c0.l0 (#0) had been acknowledged before.",
    );
}

#[test]
fn a_lost_update_is_found() {
    let history = |second| {
        HistoryBuilder::holding(&[(5, 1)]).op(0, (0, 10), 5, update_if(1, 2), Answer::Updated).op(
            1,
            (5, 15),
            5,
            update_if(1, 3),
            second,
        )
    };
    history(Answer::Mismatch(2)).passes();
    history(Answer::Mismatch(1))
        .fails("Lane c0.l1 was told by its update-if that key 5 holds 1 (#1) which is no answer to that call.");
    history(Answer::Updated).fails(
        "Lane c0.l1 was told by its update-if that it changed key 5 (#1) although no order of the operations on this key \
         explains that together with the answers before it.",
    );
    // One after the other, the second has no instant at which the old value was there.
    HistoryBuilder::holding(&[(5, 1)])
        .op(0, (0, 10), 5, update_if(1, 2), Answer::Updated)
        .op(1, (11, 15), 5, update_if(1, 3), Answer::Updated)
        .fails(
            "Lane c0.l1 was told by its update-if that it changed key 5 (#1) expecting 1, although update-if of 2 by lane \
             c0.l0 (#0) had been acknowledged before.",
        );
}

#[test]
fn a_lost_write_is_found() {
    HistoryBuilder::holding(&[(5, 1)])
        .op(0, (0, 10), 5, upsert(2), Answer::Replaced)
        .op(1, (3, 12), 6, insert(3), Answer::Inserted)
        .op(2, (20, 30), 5, GET, Answer::Found(1))
        .fails("Lane c1.l0 read key 5 as 1 (#2) although upsert of 2 by lane c0.l0 (#0) had been acknowledged before.");
}

#[test]
fn two_reads_never_go_back_in_time() {
    let history = |second| {
        HistoryBuilder::holding(&[(5, 1)])
            .op(0, (0, 100), 5, update(2), Answer::Updated)
            .op(1, (10, 20), 5, GET, Answer::Found(2))
            .op(2, (30, 40), 5, GET, Answer::Found(second))
    };
    history(2).passes();
    let point = point(
        history(1).fails("Lane c1.l0 read key 5 as 1 (#2) although update of 2 by lane c0.l0 (#0) was under way."),
    );
    assert_eq!(point.operations.len(), 3, "the read that saw the new value is needed");
}

#[test]
fn a_key_absent_though_present_is_found() {
    let point = point(
        HistoryBuilder::default()
            .op(1, (0, 10), 5, insert(7), Answer::Inserted)
            .op(2, (12, 14), 5, GET, Answer::Found(7))
            .op(3, (20, 30), 5, GET, Answer::Absent)
            .op(0, (40, 50), 5, GET, Answer::Found(7))
            .fails(
                "Lane c1.l1 read key 5 as absent (#2) although insert of 7 by lane c0.l1 (#0) had been acknowledged before \
                 and no delete ran.",
            ),
    );
    assert_eq!(point.operations, [OpId(0), OpId(2)], "reads that show nothing are left out");
    assert_eq!(point.initial, None);
}

#[test]
fn a_resurrected_key_is_found() {
    HistoryBuilder::holding(&[(5, 1)])
        .op(0, (0, 10), 5, DELETE, Answer::Deleted)
        .op(1, (20, 30), 5, GET, Answer::Found(1))
        .fails("Lane c0.l1 read key 5 as 1 (#1) although key 5 was deleted by delete #0 of lane c0.l0 and not written again.");
}

#[test]
fn an_insert_acknowledged_twice_is_found() {
    let history = |delete: bool| {
        let history = HistoryBuilder::default().op(0, (0, 10), 5, insert(1), Answer::Inserted);
        let history = if delete { history.op(2, (5, 25), 5, DELETE, Answer::Deleted) } else { history };
        history.op(1, (20, 30), 5, insert(2), Answer::Inserted)
    };
    history(true).passes();
    history(false).fails(
        "Lane c0.l1 was told by its insert that it inserted key 5 (#1) although insert of 1 by lane c0.l0 (#0) had been \
         acknowledged before and no delete ran.",
    );
}

#[test]
fn one_insert_deleted_twice_is_found() {
    HistoryBuilder::default()
        .op(0, (0, 10), 5, insert(1), Answer::Inserted)
        .op(1, (11, 20), 5, DELETE, Answer::Deleted)
        .op(2, (21, 30), 5, DELETE, Answer::Deleted)
        .fails("Lane c1.l0 was told by its delete that it changed key 5 (#2) although key 5 was deleted by delete #1 of lane c0.l1 and not written again.");
}

#[test]
fn a_value_of_another_key_is_found() {
    HistoryBuilder::holding(&[(5, 50), (6, 60)])
        .op(0, (0, 10), 6, update(61), Answer::Updated)
        .op(1, (5, 15), 5, GET, Answer::Found(61))
        .fails("Lane c0.l1 read key 5 as 61 (#1) although that value was written to key 6 by update #0 of lane c0.l0.");
    HistoryBuilder::holding(&[(5, 50), (6, 60)])
        .op(1, (5, 15), 5, GET, Answer::Found(60))
        .fails("Lane c0.l1 read key 5 as 60 (#0) although that value belongs to key 6.");
    HistoryBuilder::holding(&[(5, 50)])
        .op(1, (5, 15), 5, GET, Answer::Found(999))
        .fails("Lane c0.l1 read key 5 as 999 (#0) although nobody ever wrote that value.");
}

#[test]
fn a_value_from_the_future_is_found() {
    HistoryBuilder::holding(&[(5, 1)])
        .op(1, (0, 10), 5, GET, Answer::Found(2))
        .op(0, (11, 20), 5, update(2), Answer::Updated)
        .fails("Lane c0.l1 read key 5 as 2 (#0) although update #1 of lane c0.l0 wrote that only later.");
}

#[test]
fn an_unknown_effect_may_happen_or_not_also_after_the_response() {
    let history = |first, second| {
        HistoryBuilder::holding(&[(5, 1)])
            .op(0, (0, 10), 5, update(2), UNKNOWN)
            .op(1, (20, 30), 5, GET, Answer::Found(first))
            .op(1, (40, 50), 5, GET, Answer::Found(second))
    };
    history(1, 1).passes();
    history(2, 2).passes();
    history(1, 2).passes();
    history(2, 1).fails("Lane c0.l1 read key 5 as 1 (#2) although update of 2 by lane c0.l0 (#0) was under way.");
}

#[test]
fn an_operation_without_response_is_an_unknown_effect() {
    let history = |first, second| {
        HistoryBuilder::default().pending(0, 0, 5, insert(2)).op(1, (20, 30), 5, GET, first).op(
            1,
            (40, 50),
            5,
            GET,
            second,
        )
    };
    history(Answer::Absent, Answer::Found(2)).passes();
    history(Answer::Found(2), Answer::Absent).fails(
        "Lane c0.l1 read key 5 as absent (#2) although insert of 2 by lane c0.l0 (#0) was under way and no delete ran.",
    );
}

#[test]
fn an_unknown_effect_does_not_happen_once_it_is_closed() {
    let history = |closed| {
        HistoryBuilder::holding(&[(5, 1)])
            .op(0, (0, 10), 5, update(2), UNKNOWN)
            .closed(closed)
            .op(1, (20, 30), 5, GET, Answer::Found(1))
            .op(1, (40, 50), 5, GET, Answer::Found(2))
    };
    history(25).passes();
    history(35).passes();
    // Between the reads nothing was under way any more.
    history(15).fails("Lane c0.l1 read key 5 as 2 (#2) although key 5 held 1 from the beginning.");
}

#[test]
fn an_unknown_delete_explains_an_absent_key_only_once() {
    HistoryBuilder::holding(&[(5, 1)])
        .op(0, (0, 10), 5, DELETE, UNKNOWN)
        .op(1, (20, 30), 5, insert(2), Answer::Inserted)
        .op(1, (40, 50), 5, GET, Answer::Absent)
        .fails(
            "Lane c0.l1 read key 5 as absent (#2) although insert of 2 by lane c0.l1 (#1) had been acknowledged before, and \
             every delete, delete #0 of lane c0.l0 being the last, has its place before.",
        );
}

#[test]
fn no_effect_means_none_and_done_means_done() {
    let history = |answer, read| {
        HistoryBuilder::holding(&[(5, 1)]).op(0, (0, 10), 5, update(2), answer).op(
            1,
            (5, 30),
            5,
            GET,
            Answer::Found(read),
        )
    };
    history(NO_EFFECT, 1).passes();
    history(NO_EFFECT, 2).fails(
        "Lane c0.l1 read key 5 as 2 (#1) although update #0 of lane c0.l0, which wrote it, failed without effect.",
    );
    history(DONE, 1).passes();
    history(DONE, 2).passes();
    HistoryBuilder::holding(&[(5, 1)])
        .op(0, (0, 10), 5, update(2), DONE)
        .op(1, (11, 30), 5, GET, Answer::Found(1))
        .fails("Lane c0.l1 read key 5 as 1 (#1) although update of 2 by lane c0.l0 (#0) had been acknowledged before.");
    HistoryBuilder::default()
        .op(0, (0, 10), 5, update(2), DONE)
        .fails("Lane c0.l0 failed to update key 5 but did it (#0) although key 5 was absent: nobody had inserted it.");
}

#[test]
fn keys_are_judged_one_by_one() {
    // Alone, each key is in order; nothing else is asked.
    HistoryBuilder::default()
        .op(0, (0, 10), 5, insert(1), Answer::Inserted)
        .op(1, (0, 10), 6, insert(2), Answer::Inserted)
        .op(2, (11, 12), 6, GET, Answer::Found(2))
        .op(2, (13, 14), 5, GET, Answer::Found(1))
        .passes();
}

#[test]
fn a_long_beginning_is_folded_into_what_the_key_holds() {
    let mut history = HistoryBuilder::default().op(0, (0, 1), 5, insert(100), Answer::Inserted);
    for round in 1..40 {
        let at = round * 10;
        history = history.op(0, (at, at + 1), 5, update(100 + round), Answer::Updated);
        history = history.op(1, (at + 2, at + 3), 5, GET, Answer::Found(100 + round));
    }
    let bad = history.op(3, (500, 501), 5, GET, Answer::Found(138));
    let point = point(bad.fails(
        "Lane c1.l1 read key 5 as 138 (#79) although update of 139 by lane c0.l0 (#77) had been acknowledged before.",
    ));
    assert_eq!(point.initial, Some(138));
    assert_eq!(point.operations, [OpId(77), OpId(79)]);
}

#[test]
fn what_cannot_be_judged_is_said_to_be_too_hard() {
    // 130 operations that may all still happen are more than a search can tell apart.
    let mut history = HistoryBuilder::default();
    for lane in 0..130 {
        history = history.pending(lane, 0, 5, upsert(u64::from(lane)));
    }
    let history = history.op(200, (1, 2), 5, GET, Answer::Absent);
    let history = history.history();
    let mut checker = Checker::default();
    assert_eq!(checker.check(&history), Verdict::TooHard { key: 5, why: SearchLimit::Pending(128) });
    // Twenty overlapping writers and a read that none explains: every order has to be tried.
    let mut history = HistoryBuilder::holding(&[(5, 0)]);
    for lane in 0..20 {
        history = history.op(lane, (0, 100), 5, update_if(0, 0), Answer::Updated);
    }
    let history = history.op(30, (101, 102), 5, GET, Answer::Absent).history();
    let mut checker = Checker::new(1000);
    assert_eq!(checker.check(&history), Verdict::TooHard { key: 5, why: SearchLimit::Steps(1000) });
    assert_eq!(checker.statistics().too_hard, 1);
}

#[test]
fn overlap_is_counted_in_operations() {
    let history = HistoryBuilder::holding(&[(5, 1)])
        .op(0, (0, 10), 5, update(2), Answer::Updated)
        .op(1, (5, 15), 5, update(3), Answer::Updated)
        .op(2, (5, 15), 6, GET, Answer::Absent)
        .op(2, (16, 17), 5, GET, Answer::Found(3))
        .history();
    assert_eq!(history.overlapping(), 2);
}

#[test]
fn a_violation_reads_aloud() {
    let text = HistoryBuilder::default()
        .op(1, (100, 1250), 5, insert(7), Answer::Inserted)
        .op(3, (2000, 30_000), 5, GET, Answer::Absent)
        .fails(
            "Lane c1.l1 read key 5 as absent (#1) although insert of 7 by lane c0.l1 (#0) had been acknowledged before and no \
             delete ran.",
        )
        .to_string();
    let expected = "\
key 5 is absent at first
   #0 c0.l1         100 -      1250 ns  insert key 5 value 7 -> inserted
   #1 c1.l1        2000 -     30000 ns  get key 5 -> absent
Lane c1.l1 read key 5 as absent (#1) although insert of 7 by lane c0.l1 (#0) had been acknowledged before and no delete ran.";
    assert_eq!(text, expected);
}
