//! The conformance suite over every index and every fabric, without items and with items.

use dm_tests::conformance;

macro_rules! kinds {
    ([$($Kind:ident $kind:ident),*]) => {
        $(conformance!($kind, dm_tests::subject::$kind::SUBJECT);)*

        mod items {
            use dm_tests::conformance;

            $(conformance!($kind, dm_tests::subject::items::ItemsSubject(dm_tests::subject::$kind::SUBJECT), not_bulk_loaded);)*
        }
    };
}

dm_core::for_each_kind! { [kinds] }
