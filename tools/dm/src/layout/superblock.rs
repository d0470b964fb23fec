//! The superblock of a memory node.

use super::values::{digits, error, hex, value};
use super::{Sample, Structure};
use dm_core::remote::catalog;
use dm_core::remote::superblock::{self, PoolPlan, Superblock};
use dm_core::verbs::NodeId;
use zerocopy::IntoBytes;

pub(super) const SUPERBLOCK: Structure = Structure {
    name: "superblock",
    title: "byte 0 of every memory node's region",
    text: "All words little-endian. Written once, before the region is registered. Whatever lies between the areas it\n\
           names, and in them in a new pool, is zero.",
    tables: &[("fields", Superblock::FIELDS)],
    constants: &[
        ("FORMAT_VERSION", superblock::FORMAT_VERSION as u64, "what this describes"),
        ("SUPERBLOCK_ROOM_BYTES", superblock::SUPERBLOCK_ROOM_BYTES, "kept for the superblock"),
        ("HEAP_ALIGN_BYTES", superblock::HEAP_ALIGN_BYTES, "chunk 0 begins at, and chunks are, multiples of this"),
        ("ROW_COUNT", superblock::ROW_COUNT as u64, "compute-node rows of a new pool"),
        ("INDEX_COUNT", catalog::INDEX_COUNT as u64, "entries of the catalog of a new pool"),
    ],
    samples: || {
        let plan = PoolPlan {
            pool_id: *b"0123456789abcdef",
            pool_incarnation: 3,
            node: NodeId(1),
            nodes: 2,
            region_bytes: 1 << 30,
            chunk_bytes: 8 << 20,
            lock_count: 32768,
            device_bytes: 262_144,
            redo_row_bytes: 0,
            index_count: catalog::INDEX_COUNT,
        };
        let in_device = plan.format().expect("the plan is sound");
        let in_host = PoolPlan { device_bytes: 0, redo_row_bytes: 4096, ..plan }.format().expect("the plan is sound");
        let mut other_version = in_device;
        other_version.format_version = 1.into();
        other_version.seal();
        vec![
            Sample::new(
                "memory node 1 of 2, 1 GiB in chunks of 8 MiB, 32768 locks in device memory",
                in_device.as_bytes(),
                &[
                    ("pool id", "30313233343536373839616263646566"),
                    ("pool incarnation", "3"),
                    ("node", "1 of 2"),
                    ("writable", "true"),
                    ("region bytes", "0x40000000"),
                    ("device bytes", "0x40000"),
                    ("catalog", "255 entries at 0x1000"),
                    ("rows", "128 at 0x12000"),
                    ("redo", "128 of 0 bytes at 0x16000"),
                    ("chunk table", "127 at 0x16000"),
                    ("heap", "0x17000, chunks of 0x800000 bytes"),
                    ("locks", "32768 at 0x0 of device memory"),
                ],
            ),
            Sample::new(
                "the same with a redo area of 4 KiB per row and without device memory",
                in_host.as_bytes(),
                &[
                    ("pool id", "30313233343536373839616263646566"),
                    ("pool incarnation", "3"),
                    ("node", "1 of 2"),
                    ("writable", "true"),
                    ("region bytes", "0x40000000"),
                    ("device bytes", "0x0"),
                    ("catalog", "255 entries at 0x1000"),
                    ("rows", "128 at 0x12000"),
                    ("redo", "128 of 4096 bytes at 0x16000"),
                    ("chunk table", "127 at 0x96000"),
                    ("heap", "0xd7000, chunks of 0x800000 bytes"),
                    ("locks", "32768 at 0x96400 of the region"),
                ],
            ),
            Sample::new(
                "a superblock of format version 1 is refused",
                other_version.as_bytes(),
                &[("error", "format version 1; this program reads version 4")],
            ),
        ]
    },
    decode: |bytes| {
        let node = match Superblock::decode(bytes) {
            Ok(node) => node,
            Err(found) => return error(&found),
        };
        let geometry = node.geometry;
        let memory = match geometry.lock_space {
            dm_core::verbs::Space::Host => "the region",
            dm_core::verbs::Space::Device => "device memory",
        };
        let id = digits(&node.identity.pool_id);
        vec![
            value("pool id", &id),
            value("pool incarnation", &node.identity.pool_incarnation),
            value("node", &format!("{} of {}", node.identity.node.0, node.identity.nodes)),
            value("writable", &node.writable()),
            hex("region bytes", geometry.region_bytes),
            hex("device bytes", node.device_bytes),
            value("catalog", &format!("{} entries at {:#x}", geometry.index_count, geometry.catalog)),
            value("rows", &format!("{} at {:#x}", geometry.row_count, geometry.rows)),
            value(
                "redo",
                &format!("{} of {} bytes at {:#x}", geometry.row_count, geometry.redo_row_bytes, geometry.redo),
            ),
            value("chunk table", &format!("{} at {:#x}", geometry.chunk_count, geometry.chunk_table)),
            value("heap", &format!("{:#x}, chunks of {:#x} bytes", geometry.heap, geometry.chunk_bytes)),
            value("locks", &format!("{} at {:#x} of {memory}", geometry.lock_count, geometry.lock_table)),
        ]
    },
};
