//! What a memory node counts.

use crate::metrics::put;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $kind:literal $help:literal,)*) => {
        /// What a memory node counts.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        impl Counters {
            /// In Prometheus's text format.
            pub fn text(&self) -> String {
                let mut text = String::new();
                $(
                    let name = concat!("dm_memd_", stringify!($name));
                    let value = self.$name.load(Ordering::Relaxed);
                    put(&mut text, name, $kind, $help, [("", value)]);
                )*
                text
            }
        }
    };
}

counters! {
    /// Bytes of the region.
    region_bytes: "gauge" "Bytes of the region.",
    /// Sessions now.
    sessions: "gauge" "Compute processes connected now.",
    /// Queue pairs now.
    queue_pairs: "gauge" "Queue pairs connected now.",
    /// Sessions so far.
    sessions_total: "counter" "Compute processes let in so far.",
    /// Queue pairs so far.
    queue_pairs_total: "counter" "Queue pairs connected so far.",
    /// Clients turned away.
    refused_total: "counter" "Clients turned away: wrong secret, version, ticket, or no protocol at all.",
    /// Calls answered.
    calls_total: "counter" "Procedure calls answered.",
    /// Sessions fenced off.
    fenced_total: "counter" "Sessions fenced off.",
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn sub(counter: &AtomicU64) {
        counter.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_for_prometheus() {
        let counters = Counters::default();
        Counters::add(&counters.sessions);
        let text = counters.text();
        assert!(text.contains("# TYPE dm_memd_sessions gauge\ndm_memd_sessions 1\n"), "{text}");
        assert!(text.contains("# TYPE dm_memd_calls_total counter\ndm_memd_calls_total 0\n"), "{text}");
    }
}
