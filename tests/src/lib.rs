//! One conformance suite over any index and any fabric.
//!
//! In order of reading:
//!
//! - [`subject`]: what is tested. A new index is one [`subject::Subject`].
//! - [`test_bed`]: what it is tested on: a formatted pool on some fabric. [`fabric`]: a fabric that fails where a test
//!   wants it to.
//! - [`oracle`]: keys, self-checking values, and the expected answer of every operation.
//! - [`client`]: one lane, driven to the end of each operation or only to a certain step.
//! - [`suite`]: the tests, as functions of a subject and a fixture.
//! - [`pool`]: a pool in the memories of a simulated fabric. [`goldens`]: texts that are generated and blessed.
//!   [`counts`]: goldens of the requests that operations make. [`imports`]: a reader of sources.
//!
//! [`conformance!`] makes tests of all that: one line per index.

pub mod client;
pub mod counts;
pub mod fabric;
pub mod goldens;
pub mod imports;
pub mod oracle;
pub mod pool;
pub mod subject;
pub mod suite;
pub mod test_bed;
#[cfg(feature = "rdma-device")]
pub mod verbs;

/// Compiles and runs the example in the project's README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The whole suite for one index: `conformance!(sherman, sherman::SUBJECT);` makes a module `sherman` with a module per
/// fabric. An index that cannot be bulk-loaded says so: `conformance!(items,
/// ItemsSubject(sherman::SUBJECT), not_bulk_loaded);`.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $subject:expr $(, $bulk:ident)?) => {
        mod $name {
            $crate::conformance_alone!(direct, $subject, $crate::test_bed::Direct $(, $bulk)?);
            $crate::conformance_alone!(shm, $subject, $crate::test_bed::Shm $(, $bulk)?);
        }
    };
}

/// Tests of one lane, or of several driven by hand, on a fabric that executes at once.
#[macro_export]
macro_rules! conformance_alone {
    ($name:ident, $subject:expr, $fixture:expr $(, $bulk:ident)?) => {
        mod $name {
            use $crate::suite;

            $crate::tests! { $subject, $fixture;
                every_outcome: suite::operations::every_outcome;
                errors_name_what_is_wrong: suite::operations::errors_name_what_is_wrong;
                agrees_with_a_map: suite::model::agrees_with_a_map;
                pages_join_without_gap_or_repetition: suite::scans::pages_join_without_gap_or_repetition;
                bounds_and_limits_hold: suite::scans::bounds_and_limits_hold;
                scans_down_or_refuses_to: suite::scans::scans_down_or_refuses_to;
                lives_on_when_the_pool_is_full: suite::exhaustion::lives_on_when_the_pool_is_full;
                memory_comes_back: suite::exhaustion::memory_comes_back;
                ends_at_its_deadline: suite::bounds::ends_at_its_deadline;
                a_dead_memory_node_is_an_error: suite::bounds::a_dead_memory_node_is_an_error;
                any_request_may_fail: suite::failures::any_request_may_fail;
                dropped_at_every_step: suite::abandon::dropped_at_every_step;
                waiters_may_leave: suite::abandon::waiters_may_leave;
                garbage_is_an_error: suite::garbage::garbage_is_an_error;
                damage_is_an_error_or_harmless: suite::garbage::damage_is_an_error_or_harmless;
                a_dump_of_damage_fails_or_differs_in_one_entry: suite::garbage::a_dump_of_damage_fails_or_differs_in_one_entry;
            }
            $crate::bulk_tests! { $subject, $fixture $(, $bulk)? }
        }
    };
}

/// Tests of bulk loads, or of their refusal. Every index runs one of the two, since a test without work would count as
/// passed.
#[macro_export]
macro_rules! bulk_tests {
    ($subject:expr, $fixture:expr) => {
        $crate::tests! { $subject, $fixture;
            loads_what_ascends: suite::bulk::loads_what_ascends;
            refuses_what_is_no_bulk_load: suite::bulk::refuses_what_is_no_bulk_load;
            a_bulk_load_that_failed_leaves_nothing: suite::bulk::a_bulk_load_that_failed_leaves_nothing;
        }
    };
    ($subject:expr, $fixture:expr, not_bulk_loaded) => {
        $crate::tests! { $subject, $fixture;
            refuses_every_bulk_load: suite::bulk::refuses_every_bulk_load;
        }
    };
}

/// One test per line.
#[macro_export]
macro_rules! tests {
    ($subject:expr, $fixture:expr; $($name:ident: $suite:path;)*) => {
        $(
            #[test]
            fn $name() {
                $suite(&$subject, &$fixture);
            }
        )*
    };
}
