//! The conformance suite of single lanes over an RDMA device.

macro_rules! kinds {
    ([$($Kind:ident $kind:ident),*]) => {
        $(
            mod $kind {
                dm_tests::conformance_alone!(verbs, dm_tests::subject::$kind::SUBJECT, dm_tests::verbs::Verbs);
            }
        )*
    };
}

dm_core::for_each_kind! { [kinds] }
