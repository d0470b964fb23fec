//! Several pieces of work at the same time, their results in order.
//!
//! Simulations use one processor each and do not know of each other: what one prints is the same beside others and alone.

use crate::failure::Failure;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Does the work of each item, of up to `jobs` items at a time, and hands the results to `done` in the order of the items. After the
/// first failure no other item is begun; that of the first item that failed is returned.
pub(crate) fn in_order<T: Sync, R: Send>(
    jobs: u16,
    items: &[T],
    work: impl Fn(&T) -> Result<R, Failure> + Sync,
    mut done: impl FnMut(R) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (results, arrived) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..usize::from(jobs.max(1)).min(items.len()) {
            let (results, next, failed, work) = (results.clone(), &next, &failed, &work);
            scope.spawn(move || {
                while !failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else { return };
                    let result = work(item);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    // Nobody listens any more when `done` has failed.
                    if results.send((number, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        // Results that came before those of earlier items.
        let mut early = BTreeMap::new();
        let mut expected = 0;
        for (number, result) in arrived {
            early.insert(number, result);
            while let Some(result) = early.remove(&expected) {
                expected += 1;
                if let Err(failure) = result.and_then(&mut done) {
                    failed.store(true, Ordering::Relaxed);
                    return Err(failure);
                }
            }
        }
        // Items are begun in order, so the first one that failed has an outcome, and all in front of it have.
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, Mutex};

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for jobs in [0, 1, 3, 64] {
            let mut seen = Vec::new();
            let items: Vec<u32> = (0..40).collect();
            let work = |&item: &u32| Ok(item * 2);
            let done = |doubled| {
                seen.push(doubled);
                Ok(())
            };
            assert!(in_order(jobs, &items, work, done).is_ok());
            assert_eq!(seen, (0..40).map(|item| item * 2).collect::<Vec<_>>(), "{jobs} jobs");
        }
        assert!(in_order(2, &[], |(): &()| Ok(()), |()| Err(Failure::Run("of nothing".to_owned()))).is_ok());
    }

    /// Both meet inside, so they run at the same time; the second one ends first.
    #[test]
    fn items_run_at_the_same_time() {
        let (inside, order) = (Barrier::new(2), Mutex::new(Vec::new()));
        let second_is_done = Barrier::new(2);
        let work = |&item: &u32| {
            inside.wait();
            if item == 1 {
                order.lock().unwrap().push(item);
                second_is_done.wait();
            } else {
                second_is_done.wait();
                order.lock().unwrap().push(item);
            }
            Ok(item)
        };
        let mut seen = Vec::new();
        let done = |item| {
            seen.push(item);
            Ok(())
        };
        assert!(in_order(2, &[0, 1], work, done).is_ok());
        assert_eq!((order.into_inner().unwrap(), seen), (vec![1, 0], vec![0, 1]));
    }

    #[test]
    fn a_failure_ends_it() {
        let begun = AtomicUsize::new(0);
        let mut seen = 0;
        let work = |&item: &usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            if item == 3 { Err(Failure::Run("three".to_owned())) } else { Ok(item) }
        };
        let done = |_| {
            seen += 1;
            Ok(())
        };
        let items: Vec<usize> = (0..1000).collect();
        let ended = in_order(1, &items, work, done);
        assert!(matches!(&ended, Err(Failure::Run(why)) if why == "three"));
        assert_eq!((seen, begun.load(Ordering::Relaxed)), (3, 4));
        // One of what is done with a result, too.
        let ended = in_order(2, &items, |&item| Ok(item), |_| Err(Failure::Run("at once".to_owned())));
        assert!(matches!(&ended, Err(Failure::Run(why)) if why == "at once"));
    }
}
