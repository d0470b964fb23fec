//! The conformance suite over every index and every fabric. A new index is one line here.

use dm_tests::conformance;

conformance!(sherman, dm_tests::subject::ShermanSubject);
conformance!(chime, dm_tests::subject::ChimeSubject);
conformance!(smart, dm_tests::subject::SmartSubject);
conformance!(items, dm_tests::subject::ItemsSubject::Sherman, not_bulk_loaded);
conformance!(items_over_chime, dm_tests::subject::ItemsSubject::Chime, not_bulk_loaded);
conformance!(items_over_smart, dm_tests::subject::ItemsSubject::Smart, not_bulk_loaded);
