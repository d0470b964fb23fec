//! The k-th submit fails, for every k.

use super::abandon::{CASES, Case, content, judge, may_ask_nothing, prepare};
use crate::client::on_test_bed;
use crate::fabric::Failure;
use crate::subject::Subject;
use crate::test_bed::Fixture;
use dm_core::operation::{Cause, Effect};
use dm_core::verbs::Status;
use dm_sim::block_on;

/// One submit is flushed with its queue pair. Whether it took effect, the lane is not told. After settling no lock is
/// held, the index is sound, and what the error says about the effect is true.
pub fn any_request_may_fail(subject: &dyn Subject, fixture: &dyn Fixture) {
    let ways = CASES.iter().flat_map(|case| [(case, false), (case, true)]);
    for (first, (case, lands)) in (0..fixture.stride()).cycle().zip(ways) {
        let mut after = first;
        while one(subject, fixture, case, after, lands) {
            after += fixture.stride();
        }
    }
}

/// `false`: the operation ended before that submit.
fn one(subject: &dyn Subject, fixture: &dyn Fixture, case: &Case, after: u32, lands: bool) -> bool {
    let setup = case.setup();
    let mut test_bed = fixture.test_bed(subject, &setup);
    let mut failed = true;
    let when = format!("{case:?}, submit {after} {}", if lands { "lands unheard" } else { "is lost" });
    prepare(subject, &mut test_bed, case);
    on_test_bed(subject, &mut test_bed, &setup, 1, &mut |client| {
        case.warm(client);
        let before = content(client);
        client.fabric.failure = Some(Failure { after, times: 1, status: Status::Flushed, lands });
        case.arguments(client, 0);
        let future = client.index.execute(&client.lanes[0], case.operation());
        let run = block_on(&client.lanes[0], client.fabric, future).unwrap();
        failed = client.fabric.failure.take().is_none_or(|failure| failure.times == 0);
        if client.lanes[0].in_doubt() {
            client.settle(0).unwrap_or_else(|error| panic!("{when}: settling: {error}"));
        }
        client.assert_quiet(&when);
        let now = content(client);
        let effect = match run.result {
            Ok(_) => Effect::Done,
            Err(error) => {
                assert!(failed, "{when}: {error}");
                assert!(matches!(error.cause, Cause::Verb(_)), "{when}: {error}");
                error.effect
            }
        };
        judge(case, &before, &now, effect, &when);
        assert!(failed || after > 0 || may_ask_nothing(subject, &before, &now), "{when}: it asks nothing");
        client.validate();
        case.go_on(client, &when);
    });
    failed
}
