//! Scans: the shape of pages, and what they say about keys.

use super::*;

const AFTER_5: Call = Call::Scan { after: true, high: None, limit: 4, down: false };
const BELOW_8: Call = Call::Scan { after: false, high: Some(8), limit: 4, down: false };

fn three() -> HistoryBuilder {
    HistoryBuilder::holding(&[(5, 50), (6, 60), (7, 70)])
}

#[test]
fn a_page_has_all_keys_in_bounds() {
    three().scan(0, (0, 9), 0, scan(4), &[(5, 50), (6, 60), (7, 70)], false).passes();
    three().scan(0, (0, 9), 6, scan(4), &[(6, 60), (7, 70)], false).passes();
    three().scan(0, (0, 9), 5, AFTER_5, &[(6, 60), (7, 70)], false).passes();
    three()
        .scan(
            0,
            (0, 9),
            5,
            Call::Scan { after: false, high: Some(7), limit: 4, down: false },
            &[(5, 50), (6, 60)],
            false,
        )
        .passes();
    three().scan(0, (0, 9), 8, scan(4), &[], false).passes();
}

#[test]
fn a_full_page_says_nothing_about_what_follows() {
    three().scan(0, (0, 9), 0, scan(2), &[(5, 50), (6, 60)], true).passes();
    three().scan(0, (0, 9), 0, scan(3), &[(5, 50), (6, 60), (7, 70)], true).passes();
    three()
        .scan(0, (0, 9), 0, scan(2), &[(5, 50), (6, 60)], false)
        .fails("The scan of lane c0.l0 covers key 7 and did not return it (#0) although key 7 held 70 from the beginning and no delete ran.");
}

#[test]
fn a_full_page_downwards_says_nothing_about_what_is_before() {
    let down = |limit| Call::Scan { after: false, high: None, limit, down: true };
    three().scan(0, (0, 9), 0, down(4), &[(5, 50), (6, 60), (7, 70)], false).passes();
    three().scan(0, (0, 9), 0, down(2), &[(6, 60), (7, 70)], true).passes();
    three()
        .scan(0, (0, 9), 0, down(2), &[(5, 50), (6, 60)], true)
        .fails("The scan of lane c0.l0 covers key 7 and did not return it (#0) although key 7 held 70 from the beginning and no delete ran.");
}

#[test]
fn a_missed_key_is_found() {
    three()
        .scan(0, (0, 9), 0, scan(4), &[(5, 50), (7, 70)], false)
        .fails("The scan of lane c0.l0 covers key 6 and did not return it (#0) although key 6 held 60 from the beginning and no delete ran.");
    // With a delete that overlaps it may be missing; also if the key is back at the end.
    three()
        .op(1, (3, 6), 6, DELETE, Answer::Deleted)
        .op(1, (7, 8), 6, insert(61), Answer::Inserted)
        .scan(0, (0, 9), 0, scan(4), &[(5, 50), (7, 70)], false)
        .passes();
}

#[test]
fn a_key_inserted_before_the_call_must_be_there() {
    let history =
        |from| three().op(1, (0, 5), 8, insert(80), Answer::Inserted).scan(0, (from, 9), 7, scan(4), &[(7, 70)], false);
    history(4).passes();
    history(6).fails(
        "The scan of lane c0.l0 covers key 8 and did not return it (#1) although insert of 80 by lane c0.l1 (#0) had been \
         acknowledged before and no delete ran.",
    );
}

#[test]
fn pairs_may_be_of_different_instants() {
    // 6 as before its update, 7 as after one that came later: no snapshot, but each was current once.
    three()
        .op(1, (1, 2), 6, update(61), Answer::Updated)
        .op(1, (3, 4), 7, update(71), Answer::Updated)
        .scan(0, (0, 9), 6, scan(4), &[(6, 60), (7, 71)], false)
        .passes();
}

#[test]
fn a_stale_pair_is_found() {
    three()
        .op(1, (1, 2), 6, update(61), Answer::Updated)
        .scan(0, (3, 9), 6, scan(4), &[(6, 60), (7, 70)], false)
        .fails("Lane c0.l0 scanned key 6 as 60 (#1) although update of 61 by lane c0.l1 (#0) had been acknowledged before.");
}

#[test]
fn a_scan_is_evidence_for_later_operations() {
    three()
        .op(1, (0, 100), 6, update(61), Answer::Updated)
        .scan(0, (3, 9), 6, scan(4), &[(6, 61), (7, 70)], false)
        .op(2, (10, 12), 6, GET, Answer::Found(60))
        .fails("Lane c1.l0 read key 6 as 60 (#2) although update of 61 by lane c0.l1 (#0) was under way.");
}

#[test]
fn shapes_are_checked() {
    let page = |call, page: &[(u64, u64)], more| three().scan(0, (0, 9), 5, call, page, more);
    page(scan(4), &[(5, 50), (6, 60), (6, 60), (7, 70)], false).fails("The scan #0 returned key 6 twice.");
    page(scan(4), &[(5, 50), (7, 70), (6, 60)], false).fails("The scan #0 returned key 6 behind key 7.");
    page(AFTER_5, &[(5, 50), (6, 60), (7, 70)], false)
        .fails("The scan #0 returned key 5, which is outside its bounds.");
    page(BELOW_8, &[(5, 50), (8, 80)], false).fails("The scan #0 returned key 8, which is outside its bounds.");
    page(scan(4), &[(4, 40), (5, 50)], false).fails("The scan #0 returned key 4, which is outside its bounds.");
    page(scan(2), &[(5, 50), (6, 60), (7, 70)], false)
        .fails("The scan #0 returned 3 records, more than it was asked for.");
    page(scan(4), &[(5, 50)], true)
        .fails("The scan #0 returned only 1 records, fewer than it was asked for, and says that there are more.");
    three().op(0, (0, 9), 5, scan(4), Answer::Absent).fails("The scan #0 has an answer of the wrong kind.");
}
