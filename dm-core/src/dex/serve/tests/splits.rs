//! Splits at every verb: what the pool shows, and what is left when the lane is dropped there.

use super::*;
use crate::btree::inner::Inner;
use crate::btree::node::{self, Header};
use crate::btree::walk::Walk;
use crate::compute::cache::Branch;
use crate::layout::stripes;
use crate::mutants::{Mutant, with_planted};
use crate::remote::address::Address;
use crate::sherman::layout::Leaf;

/// Whether a parent in the region names two leaves for one key: a leaf reaches past the separator behind it.
fn is_split_in_two(region: &[u8], setup: Setup, root_word: usize) -> bool {
    let parameters = setup.parameters();
    let (inner, leaf) = (parameters.inner(), parameters.leaf());
    let at = |address: Address, bytes: usize| &region[address.offset() as usize..][..bytes];
    let root = Address::from_bits(u64::from_le_bytes(region[root_word..root_word + 8].try_into().unwrap()));
    if root.is_null() {
        return false;
    }
    let mut nodes = vec![root];
    while let Some(address) = nodes.pop() {
        let image = at(address, inner.bytes);
        if Header::read(image).level == 0 {
            continue;
        }
        let node = Inner::new(&inner, image).unwrap();
        for child in 0..node.children() {
            nodes.push(node.child(child));
            if Header::read(image).level == 1 && child > 0 {
                let mut high = [0; 8];
                let left = at(node.child(child - 1), leaf.bytes);
                let bounded = node::read_high(left, &mut high);
                if !bounded || node.compare_separator(child, &high).is_lt() {
                    return true;
                }
            }
        }
    }
    false
}

/// Inserts until leaves split, and looks at the pool after every verb.
fn the_parent_is_told_last() -> bool {
    with_index(SETUP, |pool, dex, lanes| {
        let lane = &lanes[0];
        let found = std::rc::Rc::new(Cell::new(false));
        let (seen, root_word) = (found.clone(), dex.tree.root_word.1 as usize);
        *pool.after.borrow_mut() = Some(Box::new(move |region| {
            seen.set(seen.get() || is_split_in_two(region, SETUP, root_word));
        }));
        for key in 0..40 {
            let outcome = point(pool, dex, lane, OperationKind::Insert, key * 3, key);
            if found.get() {
                break;
            }
            assert_eq!(outcome, Ok(Outcome::Inserted));
        }
        *pool.after.borrow_mut() = None;
        found.get()
    })
}

#[test]
fn no_key_has_two_leaves_at_any_verb_of_a_split() {
    assert!(!the_parent_is_told_last());
    assert!(with_planted(Some(Mutant::PARENT_BEFORE_LEFT), the_parent_is_told_last));
}

#[test]
fn a_split_that_is_dropped_at_any_verb_loses_nothing() {
    let mut verbs = 0;
    // Until the operation ends before it is dropped.
    for drop_at in 0.. {
        let ended = with_index(SETUP, |pool, dex, lanes| {
            let lane = &lanes[0];
            for key in 0..8 {
                point(pool, dex, lane, OperationKind::Insert, key * 3, key).unwrap();
            }
            set(dex, lane, 4, 99, 0);
            let insert = (OperationKind::Insert, Outcome::Inserted);
            let (ended, steps) = run_and_drop(pool, dex, lane, insert, (drop_at, true));
            verbs = steps;
            for key in 0..8 {
                assert_eq!(get(pool, dex, &lanes[1], key * 3), Some(key), "dropped at {drop_at}");
            }
            // The same leaf splits, or has split; and is whole in the pool.
            for key in 0..30 {
                point(pool, dex, &lanes[1], OperationKind::Upsert, key * 3 + 1, key).unwrap();
            }
            pool.run(lane, dex.flush_all(lane)).unwrap();
            let census = pool.run(lane, dex.walk(lane)).unwrap();
            // The parent may be told later, by a descent that meets it.
            assert!(census.half_splits <= 1, "dropped at {drop_at}");
            assert_eq!(census.records, 8 + 30, "dropped at {drop_at}");
            ended
        });
        if ended {
            break;
        }
    }
    assert!(verbs >= 5, "a split has {verbs} round trips");
}

#[test]
fn both_halves_have_the_lsn_of_the_split() {
    with_index(SETUP, |pool, dex, lanes| {
        let lane = &lanes[0];
        for key in 0..9 {
            point(pool, dex, lane, OperationKind::Insert, key * 3, key).unwrap();
        }
        let region = pool.region.borrow();
        let mut lsns = Vec::new();
        let mut visit = |id: Address, _, _| {
            let image = &region[id.offset() as usize..][..dex.leaf.bytes];
            assert!(stripes::node_version(image).is_some());
            if Leaf::new(&dex.leaf, image).records() > 0 {
                lsns.push(crate::dex::leaf::lsn(&dex.leaf, image));
            }
        };
        dex.store.for_each_page(&mut visit);
        assert!(lsns.len() == 2 && lsns[0] == lsns[1] && lsns[0].line() == 8, "{lsns:?}");
    });
}

/// Whether a second lane gets a page that a first one had READ in vain.
fn a_fill_that_led_elsewhere_is_ended() -> bool {
    let pool = Pool::new();
    // A half-split in the pool: the compute node was stopped before it told the parent.
    with_node(&pool, SETUP, 1, |dex, lanes| {
        let lane = &lanes[0];
        pool.run(lane, dex.create(lane)).unwrap();
        for key in 0..8 {
            point(&pool, dex, lane, OperationKind::Insert, key * 3, key).unwrap();
        }
        set(dex, lane, 100, 8, 0);
        let mut future = Box::pin(dex.execute(lane, Operation::point(OperationKind::Insert)));
        let mut leaves = 0;
        while leaves < 2 {
            if let Step::Requests = poll_once(lane.port(), future.as_mut()) {
                let is_leaf = |request: &Request| {
                    request.verb == Verb::Write && matches!(request.label, Label::Sibling | Label::Leaf)
                };
                leaves += lane.port().requests().iter().filter(|request| is_leaf(request)).count();
                pool.execute(lane);
            }
        }
    });
    with_node(&pool, SETUP, 2, |dex, lanes| {
        set(dex, &lanes[0], 21, 0, 0);
        let mut future = Box::pin(dex.get(&lanes[0]));
        while let Step::Requests | Step::Waiting = poll_once(lanes[0].port(), future.as_mut()) {
            if lanes[0].port().state() == crate::port::State::Submitted {
                pool.execute(&lanes[0]);
            }
        }
        assert_eq!(output(dex, &lanes[0]), 7);
        !dex.store.owes(&lanes[0])
    })
}

#[test]
fn no_lane_waits_for_a_fill_that_nobody_ends() {
    assert!(a_fill_that_led_elsewhere_is_ended());
    assert!(!with_planted(Some(Mutant::FILL_DROPPED), a_fill_that_led_elsewhere_is_ended));
}
