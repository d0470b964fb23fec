//! The conformance suite of single lanes over an RDMA device.

mod sherman {
    dm_tests::conformance_alone!(verbs, dm_tests::subject::ShermanSubject, dm_tests::verbs::Verbs);
}

mod chime {
    dm_tests::conformance_alone!(verbs, dm_tests::subject::ChimeSubject, dm_tests::verbs::Verbs);
}

mod smart {
    dm_tests::conformance_alone!(verbs, dm_tests::subject::SmartSubject, dm_tests::verbs::Verbs);
}
