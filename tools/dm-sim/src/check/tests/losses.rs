//! What the death of an owner may take back, and what it may not. Lanes 0 and 1 are compute node 0's, 2 and 3 of compute node
//! 1, 4 and 5 of compute node 2.

use super::*;

/// Compute node 0 writes 1, 2, 3; then compute node 1 reads.
fn three_writes(read: Answer) -> HistoryBuilder {
    HistoryBuilder::holding(&[(5, 9)])
        .op(0, (0, 1), 5, upsert(1), Answer::Replaced)
        .op(0, (2, 3), 5, upsert(2), Answer::Replaced)
        .op(1, (4, 5), 5, upsert(3), Answer::Replaced)
        .op(2, (10, 11), 5, GET, read)
}

#[test]
fn any_suffix_may_be_lost_and_nothing_else() {
    for value in [9, 1, 2, 3] {
        three_writes(Answer::Found(value)).loses(0).passes();
    }
    three_writes(Answer::Absent).loses(0).is_bad();
}

#[test]
fn without_a_death_nothing_is_lost() {
    three_writes(Answer::Found(3)).passes();
    three_writes(Answer::Found(2)).is_bad();
    three_writes(Answer::Found(2)).loses(1).is_bad();
}

#[test]
fn what_another_one_has_seen_is_not_lost_any_more() {
    three_writes(Answer::Found(2)).op(2, (12, 13), 5, GET, Answer::Found(2)).loses(0).passes();
    three_writes(Answer::Found(2)).op(2, (12, 13), 5, GET, Answer::Found(1)).loses(0).is_bad();
    three_writes(Answer::Found(2)).op(4, (12, 13), 5, GET, Answer::Found(3)).loses(0).is_bad();
}

#[test]
fn an_earlier_tenure_is_not_lost() {
    let second = |read| {
        HistoryBuilder::holding(&[(5, 9)])
            .op(0, (0, 1), 5, upsert(1), Answer::Replaced)
            .op(2, (2, 3), 5, upsert(2), Answer::Replaced)
            .op(0, (4, 5), 5, upsert(3), Answer::Replaced)
            .op(2, (10, 11), 5, GET, read)
    };
    second(Answer::Found(3)).loses(0).passes();
    second(Answer::Found(2)).loses(0).passes();
    second(Answer::Found(1)).loses(0).is_bad();
    second(Answer::Found(9)).loses(0).is_bad();
}

#[test]
fn a_tenure_may_begin_before_the_answer_of_another_one() {
    let late = |read| {
        HistoryBuilder::holding(&[])
            .op(2, (0, 5), 5, GET, Answer::Absent)
            .op(0, (1, 2), 5, upsert(1), Answer::Inserted)
            .op(0, (6, 7), 5, upsert(2), Answer::Replaced)
            .op(2, (10, 11), 5, GET, read)
    };
    for value in [1, 2] {
        late(Answer::Found(value)).loses(0).passes();
    }
    late(Answer::Absent).loses(0).passes();
    late(Answer::Found(1)).is_bad();
}

#[test]
fn a_deletion_may_be_lost() {
    let deletes = |read| {
        HistoryBuilder::holding(&[(5, 9)]).op(0, (0, 1), 5, DELETE, Answer::Deleted).op(2, (10, 11), 5, GET, read)
    };
    deletes(Answer::Found(9)).loses(0).passes();
    deletes(Answer::Absent).loses(0).passes();
    deletes(Answer::Found(9)).is_bad();
}

#[test]
fn the_next_owner_may_die_too() {
    let twice = |read| {
        three_writes(Answer::Found(2)).op(2, (12, 13), 5, upsert(4), Answer::Replaced).op(4, (20, 21), 5, GET, read)
    };
    twice(Answer::Found(4)).loses(0).loses(1).passes();
    twice(Answer::Found(2)).loses(0).loses(1).passes();
    twice(Answer::Found(3)).loses(0).loses(1).is_bad();
    twice(Answer::Found(2)).loses(0).is_bad();
}

#[test]
fn the_dead_do_not_answer_what_was_taken_back() {
    // It answers behind the next owner's answer: a stale read.
    three_writes(Answer::Found(2)).op(0, (12, 13), 5, GET, Answer::Found(3)).loses(0).is_bad();
}
