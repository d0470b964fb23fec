//! Pages, bounds, limits.

use super::fill;
use crate::client::alone;
use crate::subject::{Shape, Subject};
use crate::test_bed::{Fixture, Setup};
use dm_core::operation::{Cause, Operation, OperationKind};

/// Cursors continue where the page before ended, whatever the page size and however many leaves are READ at once, and
/// stay valid when their key is deleted.
pub fn pages_join_without_gap_or_repetition(subject: &dyn Subject, fixture: &dyn Fixture) {
    for (spans, nodes, ahead) in [((2, 2), 2, 1), ((4, 3), 1, 4), ((8, 8), 3, 8)] {
        let mut setup = Setup::new(Shape::words(spans.0, spans.1)).on(nodes);
        setup.spending.leaves_at_once = ahead;
        alone(subject, fixture, &setup, |client| {
            fill(client, 600, 2);
            for limit in [1, 2, 7, 40, 1000] {
                let (mut all, mut low) = (Vec::new(), client.key(0));
                loop {
                    let operation = Operation { after: !all.is_empty(), ..Operation::scan(limit) };
                    let (page, more) = client.page(operation, &low, &low.clone());
                    assert!(page.len() <= limit as usize);
                    assert!(!page.is_empty() || !more, "an empty page that promises more does not get anywhere");
                    all.extend(page.iter().map(|(_, stamp)| *stamp));
                    if let Some((last, _)) = page.last() {
                        low.clone_from(last);
                    }
                    if !more {
                        break;
                    }
                }
                assert!(all.iter().copied().eq((0..600).step_by(2)), "pages of {limit}: {all:?}");
            }
            // The cursor's key is gone, and so is what was around it.
            for n in (100..300).step_by(2) {
                client.ask(OperationKind::Delete, n, 0, 0);
            }
            let cursor = client.key(200);
            let operation = Operation { after: true, ..Operation::scan(3) };
            let (page, more) = client.page(operation, &cursor, &cursor);
            let page: Vec<_> = page.into_iter().map(|(_, stamp)| stamp).collect();
            assert_eq!((page, more), (vec![300, 302, 304], true));
        });
    }
}

/// Lower bounds are inclusive, upper bounds exclusive, cursors exclusive; limits hold; the ends of the key space count.
pub fn bounds_and_limits_hold(subject: &dyn Subject, fixture: &dyn Fixture) {
    for key_bytes in [8, 64] {
        let shape = Shape { key_bytes, value_bytes: 33, spans: (3, 3) };
        alone(subject, fixture, &Setup::new(shape), |client| {
            // Multiples of three: keys of one prefix, so that numbers are in order.
            fill(client, 300, 3);
            client.put(u64::MAX, 7);
            let mut stamps = |operation: Operation, low: u64, high: u64| {
                let (low, high) = (client.key(low), client.key(high));
                let (page, more) = client.page(operation, &low, &high);
                (page.into_iter().map(|(_, stamp)| stamp).collect::<Vec<_>>(), more)
            };
            let bounded = Operation { bounded: true, ..Operation::scan(40) };
            assert_eq!(stamps(bounded, 30, 42), (vec![30, 33, 36, 39], false));
            assert_eq!(stamps(bounded, 30, 30).0, [0u32; 0]);
            assert_eq!(stamps(bounded, 42, 30).0, [0u32; 0], "an upper bound below the lower one");
            assert_eq!(stamps(Operation { after: true, ..bounded }, 30, 42), (vec![33, 36, 39], false));
            assert_eq!(stamps(Operation { limit: 2, ..bounded }, 30, 42), (vec![30, 33], true));
            assert_eq!(stamps(Operation::scan(3), 297, 0), (vec![297, 7], false));
            assert_eq!(stamps(Operation::scan(3), u64::MAX, 0), (vec![7], false));
            assert_eq!(stamps(Operation { after: true, ..Operation::scan(3) }, u64::MAX, 0).0, [0u32; 0]);
            assert_eq!(stamps(Operation { bounded: true, ..Operation::scan(3) }, 297, u64::MAX).0, [297]);
            // More than a page holds is cut to it.
            let (page, more) = stamps(Operation::scan(u32::MAX), 0, 0);
            assert_eq!((page.len(), more), (40, true));
        });
    }
}

/// An index scans downwards, and then pages of the last records join without gap or repetition, or it refuses to, as its
/// parameters say.
pub fn scans_down_or_refuses_to(subject: &dyn Subject, fixture: &dyn Fixture) {
    for (spans, nodes, ahead, key_bytes) in [((2, 2), 2, 1, 8), ((4, 3), 1, 4, 64), ((8, 8), 3, 8, 8)] {
        let shape = Shape { key_bytes, value_bytes: 33, spans };
        let mut setup = Setup::new(shape).on(nodes);
        setup.spending.leaves_at_once = ahead;
        let scans_down = subject.parameters(&shape).scans_down();
        alone(subject, fixture, &setup, |client| {
            let down = |limit| Operation { down: true, ..Operation::scan(limit) };
            if !scans_down {
                let error = client.scan_as(0, down(3)).result.expect_err("it does not say that it scans downwards");
                assert!(matches!(error.cause, Cause::BadInput(_)), "{error}");
                return;
            }
            let low = client.key(0);
            assert_eq!(client.page(down(3), &low, &low), (Vec::new(), false), "an empty index");
            // Multiples of three: keys of one prefix, so that numbers are in order.
            fill(client, 1800, 6);
            client.put(u64::MAX, 7);
            for limit in [1, 2, 7, 40, 1000] {
                let (mut all, mut operation, mut high) = (Vec::new(), down(limit), low.clone());
                loop {
                    let (page, more) = client.page(operation, &low, &high);
                    assert!(page.len() <= limit as usize && (!page.is_empty() || !more));
                    all.extend(page.iter().rev().map(|(_, stamp)| *stamp));
                    if let Some((first, _)) = page.first() {
                        high.clone_from(first);
                    }
                    operation.bounded = true;
                    if !more {
                        break;
                    }
                }
                assert!(
                    all.iter().copied().eq([7].into_iter().chain((0..1800).step_by(6).rev())),
                    "pages of {limit}: {all:?}"
                );
            }
            let mut stamps = |operation: Operation, low: u64, high: u64| {
                let (low, high) = (client.key(low), client.key(high));
                let (page, more) = client.page(operation, &low, &high);
                (page.into_iter().map(|(_, stamp)| stamp).collect::<Vec<_>>(), more)
            };
            let bounded = Operation { bounded: true, ..down(3) };
            assert_eq!(stamps(bounded, 30, 66), (vec![48, 54, 60], true));
            assert_eq!(stamps(bounded, 48, 66), (vec![48, 54, 60], false));
            assert_eq!(stamps(Operation { after: true, ..bounded }, 48, 66), (vec![54, 60], false));
            assert_eq!(stamps(bounded, 42, 42).0, [0u32; 0]);
            assert_eq!(stamps(bounded, 42, 30).0, [0u32; 0], "an upper bound below the lower one");
            assert_eq!(stamps(Operation { after: true, ..down(3) }, u64::MAX, 0).0, [0u32; 0]);
            assert_eq!(stamps(down(0), 0, 0), (vec![], true));
        });
    }
}
