//! How often the hotspot buffer knows a key: a skewed stream of look-ups, as long as a run of the paper, without an
//! index.
//!
//! ```text
//! cargo run --release -p dm-core --example hotspot_hits [records] [look-ups] [MB]
//! ```
//!
//! Ranks are drawn as YCSB does (Gray et al., SIGMOD 1994, skew 0.99) and scattered by a hash. The first look-ups, as
//! many as are counted, warm the buffer.

use dm_core::compute::hotspot::{Bucket, Hotspot};
use dm_core::layout::city::city_hash_64;
use dm_core::remote::address::Address;
use dm_core::verbs::NodeId;

const SKEW: f64 = 0.99;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>().expect("a whole number"));
    let records = numbers.next().unwrap_or(60_000_000);
    let lookups = numbers.next().unwrap_or(60_000_000);
    let megabytes = numbers.next().unwrap_or(30);

    let storage: Vec<Bucket> = (0..Hotspot::buckets_for(megabytes * 1_000_000)).map(|_| Bucket::default()).collect();
    let hotspot = Hotspot::new(&storage);
    let zeta = |n: u64| (1..=n).map(|rank| (rank as f64).powf(-SKEW)).sum::<f64>();
    let (zeta_n, zeta_2) = (zeta(records), zeta(2));
    let alpha = 1.0 / (1.0 - SKEW);
    let eta = (1.0 - (2.0 / records as f64).powf(1.0 - SKEW)) / (1.0 - zeta_2 / zeta_n);
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let u = (state >> 11) as f64 / (1u64 << 53) as f64;
        let scaled = u * zeta_n;
        if scaled < 1.0 {
            0
        } else if scaled < zeta_2 {
            1
        } else {
            ((records as f64 * (eta * u - eta + 1.0).powf(alpha)) as u64).min(records - 1)
        }
    };
    let room = megabytes * 1_000_000 / 16;
    let (mut hits, mut best) = (0u64, 0u64);
    for turn in 0..2 * lookups {
        let rank = draw();
        let hash = city_hash_64(&rank.to_be_bytes());
        // A leaf and an entry for each key: any will do.
        let leaf = Address::new(NodeId(0), (hash >> 20 & 0xf_ffff) * 1472 / 64 * 64, 0);
        let slot = (hash & 63) as usize;
        let hit = hotspot.recall(hash, leaf) == Some(slot);
        if !hit {
            hotspot.note(hash, leaf, slot);
        }
        if turn >= lookups {
            hits += u64::from(hit);
            best += u64::from(rank < room);
        }
    }
    let percent = |count: u64| count as f64 * 100.0 / lookups as f64;
    println!(
        "{records} records, skew {SKEW}, {lookups} look-ups after as many: {megabytes} MB know {:.1} %; the {room} most \
         frequent keys draw {:.1} %",
        percent(hits),
        percent(best)
    );
}
