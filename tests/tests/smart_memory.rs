//! How much of the pool a SMART index takes: nodes have room for their own slots, not for the largest type's.

use dm_core::index::{OperationKind, Outcome};
use dm_tests::bed::{Direct, Setup};
use dm_tests::client::alone;
use dm_tests::subject::{Shape, SmartSubject};

/// Seal, value, key and lock of a leaf of 8-byte keys and values.
const LEAF_BYTES: u64 = 32;

/// Each leaf and each node has one slot that leads to it.
const SLOT_BYTES: u64 = 8;

/// Uniform keys, inserted one by one, so that nodes have grown through their types. How full nodes are depends on how many keys there
/// are, again and again with every factor of 256: so at many counts.
#[test]
fn nodes_and_leaves_take_half_as_much_again_as_slots_in_use_and_leaves() {
    let mut setup = Setup::new(Shape::words(2, 2));
    setup.region_bytes = 16 << 20;
    setup.chunk_nodes = 64;
    alone(&SmartSubject, &Direct, &setup, |client| {
        let (mut count, mut next) = (0u64, 250);
        while next <= 128_000 {
            while count < next {
                count += 1;
                // An odd factor: no key comes twice.
                let run = client.run(OperationKind::Insert, count.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1, 0);
                assert_eq!(run.result, Ok(Outcome::Inserted));
            }
            let census = client.validate();
            assert_eq!(census.leaves, count);
            let least = census.leaves * LEAF_BYTES + (census.leaves + census.inner_nodes) * SLOT_BYTES;
            assert!(
                census.live_bytes * 2 <= least * 3,
                "{count} records: {} bytes, of which {least} are slots in use and leaves",
                census.live_bytes
            );
            next *= 2;
        }
    });
}
