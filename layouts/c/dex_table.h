// dex_table: ownership table on memory node 0: boundaries, and who has what. Made by `dm layout bless`; do not edit.

// A header; a word (dex_owner) for each entry for which there is room; a load for each, which its owner WRITEs now and
// then, and which is a hint; from the next multiple of 64 on, a boundary for each. A load counts only in the epoch of its
// entry's word; of an entry that moves, in one or two before. A boundary is a head, the entry's least key, and zeros up
// to a multiple of 8. An entry reaches to the next greater boundary, wherever that is in the table. Boundary 0 is the
// least key of all.

#ifndef DM_LAYOUT_DEX_TABLE_H
#define DM_LAYOUT_DEX_TABLE_H

#include <stdint.h>

// header

#define DM_DEX_TABLE_HEADER_CHECKSUM_OFFSET 0
#define DM_DEX_TABLE_HEADER_CHECKSUM_BIT 0
#define DM_DEX_TABLE_HEADER_CHECKSUM_BITS 32
#define DM_DEX_TABLE_HEADER_RESERVED_4_OFFSET 4
#define DM_DEX_TABLE_HEADER_RESERVED_4_BIT 0
#define DM_DEX_TABLE_HEADER_RESERVED_4_BITS 32
#define DM_DEX_TABLE_HEADER_COUNT_OFFSET 8
#define DM_DEX_TABLE_HEADER_COUNT_BIT 0
#define DM_DEX_TABLE_HEADER_COUNT_BITS 64
#define DM_DEX_TABLE_HEADER_INDEX_OFFSET 16
#define DM_DEX_TABLE_HEADER_INDEX_BIT 0
#define DM_DEX_TABLE_HEADER_INDEX_BITS 8
#define DM_DEX_TABLE_HEADER_VERSION_OFFSET 17
#define DM_DEX_TABLE_HEADER_VERSION_BIT 0
#define DM_DEX_TABLE_HEADER_VERSION_BITS 8
#define DM_DEX_TABLE_HEADER_KEY_BYTES_OFFSET 18
#define DM_DEX_TABLE_HEADER_KEY_BYTES_BIT 0
#define DM_DEX_TABLE_HEADER_KEY_BYTES_BITS 16
#define DM_DEX_TABLE_HEADER_CAPACITY_OFFSET 20
#define DM_DEX_TABLE_HEADER_CAPACITY_BIT 0
#define DM_DEX_TABLE_HEADER_CAPACITY_BITS 32
#define DM_DEX_TABLE_HEADER_POOL_INCARNATION_OFFSET 24
#define DM_DEX_TABLE_HEADER_POOL_INCARNATION_BIT 0
#define DM_DEX_TABLE_HEADER_POOL_INCARNATION_BITS 64
#define DM_DEX_TABLE_HEADER_RESERVED_32_OFFSET 32
#define DM_DEX_TABLE_HEADER_RESERVED_32_BIT 0
#define DM_DEX_TABLE_HEADER_RESERVED_32_BITS 256
#define DM_DEX_TABLE_HEADER_STRUCT_BYTES 64

struct dm_dex_table_header {
    uint8_t checksum[4]; // CRC-32C of the bytes 16..64
    uint8_t reserved_4[4]; // zero
    uint8_t count[8]; // entries in use, from entry 0 on; it only grows
    uint8_t index[1]; // catalog number of the index
    uint8_t version[1]; // 1: there are loads behind the words
    uint8_t key_bytes[2]; // bytes of a key, and of a boundary
    uint8_t capacity[4]; // entries for which there is room
    uint8_t pool_incarnation[8]; // of the pool, as in its superblock
    uint8_t reserved_32[32]; // zero
};

// load

#define DM_DEX_TABLE_LOAD_RATE_OFFSET 0
#define DM_DEX_TABLE_LOAD_RATE_BIT 0
#define DM_DEX_TABLE_LOAD_RATE_BITS 32
#define DM_DEX_TABLE_LOAD_RESERVED_OFFSET 0
#define DM_DEX_TABLE_LOAD_RESERVED_BIT 32
#define DM_DEX_TABLE_LOAD_RESERVED_BITS 4
#define DM_DEX_TABLE_LOAD_EPOCH_OFFSET 0
#define DM_DEX_TABLE_LOAD_EPOCH_BIT 36
#define DM_DEX_TABLE_LOAD_EPOCH_BITS 28
#define DM_DEX_TABLE_LOAD_STRUCT_BYTES 8

struct dm_dex_table_load {
    uint8_t rate[4]; // operations per second, weighted towards the last seconds
    uint8_t bits_4[4];
};

// head of a boundary

#define DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_CHECKSUM_OFFSET 0
#define DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_CHECKSUM_BIT 0
#define DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_CHECKSUM_BITS 32
#define DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_ENTRY_OFFSET 4
#define DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_ENTRY_BIT 0
#define DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_ENTRY_BITS 32
#define DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_STRUCT_BYTES 8

struct dm_dex_table_head_of_a_boundary {
    uint8_t checksum[4]; // CRC-32C of the entry's number and the key
    uint8_t entry[4]; // number of the entry
};

// constants

#define DM_DEX_TABLE_ENTRIES_MAX UINT64_C(4096) // entries of a table, at most

#endif
