// superblock: byte 0 of every memory node's region. Made by `dm layout bless`; do not edit.

// All words little-endian. Written once, before the region is registered. Whatever lies between the areas it
// names, and in them in a new pool, is zero.

#ifndef DM_LAYOUT_SUPERBLOCK_H
#define DM_LAYOUT_SUPERBLOCK_H

#include <stdint.h>

// fields

#define DM_SUPERBLOCK_MAGIC_OFFSET 0
#define DM_SUPERBLOCK_MAGIC_BIT 0
#define DM_SUPERBLOCK_MAGIC_BITS 64
#define DM_SUPERBLOCK_FORMAT_VERSION_OFFSET 8
#define DM_SUPERBLOCK_FORMAT_VERSION_BIT 0
#define DM_SUPERBLOCK_FORMAT_VERSION_BITS 32
#define DM_SUPERBLOCK_RESERVED_12_OFFSET 12
#define DM_SUPERBLOCK_RESERVED_12_BIT 0
#define DM_SUPERBLOCK_RESERVED_12_BITS 32
#define DM_SUPERBLOCK_FEATURES_COMPATIBLE_OFFSET 16
#define DM_SUPERBLOCK_FEATURES_COMPATIBLE_BIT 0
#define DM_SUPERBLOCK_FEATURES_COMPATIBLE_BITS 64
#define DM_SUPERBLOCK_FEATURES_READ_ONLY_OFFSET 24
#define DM_SUPERBLOCK_FEATURES_READ_ONLY_BIT 0
#define DM_SUPERBLOCK_FEATURES_READ_ONLY_BITS 64
#define DM_SUPERBLOCK_FEATURES_INCOMPATIBLE_OFFSET 32
#define DM_SUPERBLOCK_FEATURES_INCOMPATIBLE_BIT 0
#define DM_SUPERBLOCK_FEATURES_INCOMPATIBLE_BITS 64
#define DM_SUPERBLOCK_POOL_ID_OFFSET 40
#define DM_SUPERBLOCK_POOL_ID_BIT 0
#define DM_SUPERBLOCK_POOL_ID_BITS 128
#define DM_SUPERBLOCK_POOL_INCARNATION_OFFSET 56
#define DM_SUPERBLOCK_POOL_INCARNATION_BIT 0
#define DM_SUPERBLOCK_POOL_INCARNATION_BITS 64
#define DM_SUPERBLOCK_NODE_OFFSET 64
#define DM_SUPERBLOCK_NODE_BIT 0
#define DM_SUPERBLOCK_NODE_BITS 16
#define DM_SUPERBLOCK_NODES_OFFSET 66
#define DM_SUPERBLOCK_NODES_BIT 0
#define DM_SUPERBLOCK_NODES_BITS 16
#define DM_SUPERBLOCK_ROW_COUNT_OFFSET 68
#define DM_SUPERBLOCK_ROW_COUNT_BIT 0
#define DM_SUPERBLOCK_ROW_COUNT_BITS 32
#define DM_SUPERBLOCK_REGION_BYTES_OFFSET 72
#define DM_SUPERBLOCK_REGION_BYTES_BIT 0
#define DM_SUPERBLOCK_REGION_BYTES_BITS 64
#define DM_SUPERBLOCK_DEVICE_BYTES_OFFSET 80
#define DM_SUPERBLOCK_DEVICE_BYTES_BIT 0
#define DM_SUPERBLOCK_DEVICE_BYTES_BITS 64
#define DM_SUPERBLOCK_CATALOG_OFFSET 88
#define DM_SUPERBLOCK_CATALOG_BIT 0
#define DM_SUPERBLOCK_CATALOG_BITS 64
#define DM_SUPERBLOCK_ROWS_OFFSET 96
#define DM_SUPERBLOCK_ROWS_BIT 0
#define DM_SUPERBLOCK_ROWS_BITS 64
#define DM_SUPERBLOCK_REDO_OFFSET 104
#define DM_SUPERBLOCK_REDO_BIT 0
#define DM_SUPERBLOCK_REDO_BITS 64
#define DM_SUPERBLOCK_REDO_ROW_BYTES_OFFSET 112
#define DM_SUPERBLOCK_REDO_ROW_BYTES_BIT 0
#define DM_SUPERBLOCK_REDO_ROW_BYTES_BITS 32
#define DM_SUPERBLOCK_CHUNK_COUNT_OFFSET 116
#define DM_SUPERBLOCK_CHUNK_COUNT_BIT 0
#define DM_SUPERBLOCK_CHUNK_COUNT_BITS 32
#define DM_SUPERBLOCK_CHUNK_TABLE_OFFSET 120
#define DM_SUPERBLOCK_CHUNK_TABLE_BIT 0
#define DM_SUPERBLOCK_CHUNK_TABLE_BITS 64
#define DM_SUPERBLOCK_HEAP_OFFSET 128
#define DM_SUPERBLOCK_HEAP_BIT 0
#define DM_SUPERBLOCK_HEAP_BITS 64
#define DM_SUPERBLOCK_CHUNK_BYTES_OFFSET 136
#define DM_SUPERBLOCK_CHUNK_BYTES_BIT 0
#define DM_SUPERBLOCK_CHUNK_BYTES_BITS 64
#define DM_SUPERBLOCK_LOCK_TABLE_OFFSET 144
#define DM_SUPERBLOCK_LOCK_TABLE_BIT 0
#define DM_SUPERBLOCK_LOCK_TABLE_BITS 64
#define DM_SUPERBLOCK_LOCK_COUNT_OFFSET 152
#define DM_SUPERBLOCK_LOCK_COUNT_BIT 0
#define DM_SUPERBLOCK_LOCK_COUNT_BITS 32
#define DM_SUPERBLOCK_LOCK_SPACE_OFFSET 156
#define DM_SUPERBLOCK_LOCK_SPACE_BIT 0
#define DM_SUPERBLOCK_LOCK_SPACE_BITS 8
#define DM_SUPERBLOCK_RESERVED_157_OFFSET 157
#define DM_SUPERBLOCK_RESERVED_157_BIT 0
#define DM_SUPERBLOCK_RESERVED_157_BITS 8
#define DM_SUPERBLOCK_INDEX_COUNT_OFFSET 158
#define DM_SUPERBLOCK_INDEX_COUNT_BIT 0
#define DM_SUPERBLOCK_INDEX_COUNT_BITS 16
#define DM_SUPERBLOCK_RESERVED_160_OFFSET 160
#define DM_SUPERBLOCK_RESERVED_160_BIT 0
#define DM_SUPERBLOCK_RESERVED_160_BITS 736
#define DM_SUPERBLOCK_CHECKSUM_OFFSET 252
#define DM_SUPERBLOCK_CHECKSUM_BIT 0
#define DM_SUPERBLOCK_CHECKSUM_BITS 32
#define DM_SUPERBLOCK_STRUCT_BYTES 256

struct dm_superblock {
    uint8_t magic[8]; // "dm-pool\n"
    uint8_t format_version[4]; // 3
    uint8_t reserved_12[4]; // zero
    uint8_t features_compatible[8]; // features a reader may ignore
    uint8_t features_read_only[8]; // features without which a reader must not write
    uint8_t features_incompatible[8]; // features without which a reader must not read
    uint8_t pool_id[16]; // random, the same on every memory node of a pool
    uint8_t pool_incarnation[8]; // raised whenever the pool is formatted anew
    uint8_t node[2]; // logical number of this memory node
    uint8_t nodes[2]; // memory nodes in the pool when it was formatted; row 0 has the number once one was added
    uint8_t row_count[4]; // compute-node rows, row 0 (nobody) included
    uint8_t region_bytes[8]; // size of the region
    uint8_t device_bytes[8]; // size of the NIC's device memory; 0 = none
    uint8_t catalog[8]; // offset of the catalog of indexes
    uint8_t rows[8]; // offset of the compute-node rows
    uint8_t redo[8]; // offset of the redo area
    uint8_t redo_row_bytes[4]; // redo area per compute-node row; 0 = no redo area
    uint8_t chunk_count[4]; // chunks, and entries of the chunk table
    uint8_t chunk_table[8]; // offset of the chunk table
    uint8_t heap[8]; // offset of chunk 0
    uint8_t chunk_bytes[8]; // size of a chunk
    uint8_t lock_table[8]; // offset of the lock table in its memory
    uint8_t lock_count[4]; // lock words in the table
    uint8_t lock_space[1]; // memory of the lock table: 0 = region, 1 = device memory
    uint8_t reserved_157[1]; // zero
    uint8_t index_count[2]; // entries of the catalog
    uint8_t reserved_160[92]; // zero
    uint8_t checksum[4]; // CRC-32C of all bytes before it
};

// constants

#define DM_SUPERBLOCK_FORMAT_VERSION UINT64_C(4) // what this describes
#define DM_SUPERBLOCK_SUPERBLOCK_ROOM_BYTES UINT64_C(4096) // kept for the superblock
#define DM_SUPERBLOCK_HEAP_ALIGN_BYTES UINT64_C(4096) // chunk 0 begins at, and chunks are, multiples of this
#define DM_SUPERBLOCK_ROW_COUNT UINT64_C(128) // compute-node rows of a new pool
#define DM_SUPERBLOCK_INDEX_COUNT UINT64_C(255) // entries of the catalog of a new pool

#endif
