//! Superblocks.

use crate::interleaving::plan;
use dm_core::remote::superblock::{PoolPlan, Superblock, SuperblockError};
use dm_core::verbs::NodeId;
use proptest::prelude::*;
use zerocopy::IntoBytes;

#[test]
fn every_wrong_field_of_a_superblock_has_its_error() {
    let good = plan(NodeId(1), 3, 10).format().unwrap();
    let decode = |change: &dyn Fn(&mut Superblock), seal: bool| {
        let mut superblock = good;
        change(&mut superblock);
        if seal {
            superblock.seal();
        }
        Superblock::decode(superblock.as_bytes())
    };
    let heap = good.heap.get();
    let huge = u64::MAX;
    type Change = Box<dyn Fn(&mut Superblock)>;
    let changes: Vec<(Change, &str)> = vec![
        (Box::new(|s| s.magic[0] ^= 1), "not a pool"),
        (Box::new(|s| s.format_version = 1.into()), "format version 1"),
        (Box::new(|s| s.features_incompatible = 0x14.into()), "incompatible bits 0x14"),
        (Box::new(|s| s.nodes = 0.into()), "field nodes"),
        (Box::new(|s| s.node = 3.into()), "field node "),
        (Box::new(|s| s.row_count = 1.into()), "field row_count"),
        (Box::new(|s| s.row_count = 65537.into()), "field row_count"),
        (Box::new(|s| s.row_count = 129.into()), "rows and chunk_table overlap"),
        (Box::new(|s| s.index_count = 0.into()), "field index_count"),
        (Box::new(|s| s.index_count = 256.into()), "field index_count"),
        (Box::new(|s| s.index_count = 16.into()), "catalog and rows overlap"),
        (Box::new(|s| s.region_bytes = 4096.into()), "outside the region"),
        (Box::new(|s| s.region_bytes = 4095.into()), "field chunk_bytes"),
        (Box::new(move |s| s.region_bytes = huge.into()), "field region_bytes"),
        (Box::new(|s| s.catalog = 0.into()), "superblock and catalog overlap"),
        (Box::new(|s| s.catalog = 4097.into()), "field catalog"),
        (Box::new(move |s| s.catalog = (huge & !63).into()), "field catalog"),
        (Box::new(move |s| s.rows = heap.into()), "overlap"),
        (Box::new(|s| s.rows = 64.into()), "superblock and rows overlap"),
        (Box::new(|s| s.redo_row_bytes = 1.into()), "field redo_row_bytes"),
        (Box::new(|s| s.redo_row_bytes = 64.into()), "overlap"),
        (Box::new(|s| s.chunk_count = 0.into()), "field chunk_count"),
        (Box::new(|s| s.chunk_count = 11.into()), "field heap"),
        (Box::new(|s| s.chunk_count = u32::MAX.into()), "outside the region"),
        (Box::new(|s| s.chunk_table = 1.into()), "field chunk_table"),
        (Box::new(move |s| s.chunk_table = (heap - 64).into()), "overlap"),
        (Box::new(move |s| s.heap = (heap + 64).into()), "field heap"),
        (Box::new(move |s| s.heap = (heap + 4096).into()), "field heap"),
        (Box::new(move |s| s.heap = (heap - 4096).into()), "overlap"),
        (Box::new(|s| s.chunk_bytes = 0.into()), "field chunk_bytes"),
        (Box::new(|s| s.chunk_bytes = 4100.into()), "field chunk_bytes"),
        (Box::new(move |s| s.chunk_bytes = (huge & !4095).into()), "field chunk_bytes"),
        (Box::new(|s| s.lock_count = 0.into()), "field lock_count"),
        (Box::new(|s| s.lock_count = u32::MAX.into()), "field lock_table"),
        (Box::new(|s| s.lock_table = 8.into()), "field lock_table"),
        (Box::new(|s| s.lock_table = 0.into()), "superblock and lock_table overlap"),
        (Box::new(|s| s.lock_space = 2), "field lock_space"),
        (Box::new(|s| s.lock_space = 1), "outside device memory"),
    ];
    for (position, (change, expected)) in changes.iter().enumerate() {
        let error = decode(change, true).expect_err(&format!("change {position} ({expected}) was accepted"));
        let text = error.to_string();
        assert!(text.contains(expected), "change {position}: {text}, expected {expected}");
    }
    // Without a new checksum every change past the version is damage.
    assert!(matches!(decode(&|s| s.heap = 0.into(), false), Err(SuperblockError::Checksum { .. })));
    assert!(matches!(decode(&|s| s.checksum = 0.into(), false), Err(SuperblockError::Checksum { .. })));
    // What a reader may ignore, it ignores; what it must not write, it does not.
    assert!(decode(&|s| s.features_compatible = 1.into(), true).unwrap().writable());
    let read_only = decode(&|s| s.features_read_only = 4.into(), true).unwrap();
    assert!(!read_only.writable());
    assert_eq!(read_only.read_only_unknown, 4);
    assert!(matches!(Superblock::decode(&good.as_bytes()[..255]), Err(SuperblockError::Short { got: 255 })));
}

#[test]
fn every_flipped_bit_of_a_superblock_is_noticed() {
    let good = plan(NodeId(1), 3, 10).format().unwrap();
    for bit in 0..Superblock::BYTES * 8 {
        let mut bytes = good.as_bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Superblock::decode(&bytes).is_err(), "bit {bit}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_make_a_superblock_that_lies(
        at in 12..252_usize, word in any::<u64>(), bytes in 1..=8_usize, shift in 0..64_u32
    ) {
        let mut superblock = plan(NodeId(1), 3, 10).format().unwrap();
        let end = (at + bytes).min(252);
        superblock.as_mut_bytes()[at..end].copy_from_slice(&(word >> shift).to_le_bytes()[..end - at]);
        superblock.seal();
        if let Ok(node) = Superblock::decode(superblock.as_bytes()) {
            let geometry = node.geometry;
            prop_assert!(geometry.chunk_offset(geometry.chunk_count) <= geometry.region_bytes);
            prop_assert!(geometry.chunk_entry(geometry.chunk_count) <= geometry.region_bytes);
            prop_assert!(geometry.rows + u64::from(geometry.row_count) * 128 <= geometry.region_bytes);
            prop_assert!(geometry.lock_count > 0 && node.identity.node.0 < node.identity.nodes);
        }
    }

    #[test]
    fn what_is_planned_is_decoded(
        node in 0..9_u16,
        region_bytes in 0..1_u64 << 34,
        chunk_pages in 1..4096_u64,
        lock_count in 1..1_000_000_u32,
        device_bytes in 0..1_u64 << 20,
        redo_lines in 0..128_u32,
        index_count in 1..256_u16,
    ) {
        let plan = PoolPlan {
            pool_id: [3; 16],
            pool_incarnation: 9,
            node: NodeId(node),
            nodes: 9,
            region_bytes,
            chunk_bytes: chunk_pages * 4096,
            lock_count,
            device_bytes,
            redo_row_bytes: redo_lines * 64,
            index_count,
        };
        if let Ok(superblock) = plan.format() {
            let node = Superblock::decode(superblock.as_bytes()).unwrap();
            prop_assert_eq!(node.identity.node, plan.node);
            prop_assert_eq!(node.geometry.region_bytes, region_bytes);
            prop_assert_eq!(node.geometry.lock_count, lock_count);
            prop_assert_eq!(node.geometry.redo_row_bytes, plan.redo_row_bytes);
            prop_assert_eq!(node.geometry.index_count, index_count);
            // One chunk more, with its entry, would not fit.
            let end = node.geometry.chunk_offset(node.geometry.chunk_count);
            prop_assert!(end <= region_bytes && end + plan.chunk_bytes + 8192 > region_bytes);
        }
    }
}
