// dex_ring: beginning of a log ring: whose it is, where it is, and where replay begins. Made by `dm layout bless`; do not edit.

// At the start of the ring's first chunk; log lines of 64 bytes follow, through all chunks in their order. Line n is at
// n modulo the ring's lines. The description is written once, before the row announces the ring. The head is
// written in front of the lines that replace lines before it, in their chain.

#ifndef DM_LAYOUT_DEX_RING_H
#define DM_LAYOUT_DEX_RING_H

#include <stdint.h>

// description

#define DM_DEX_RING_DESCRIPTION_CHECKSUM_OFFSET 0
#define DM_DEX_RING_DESCRIPTION_CHECKSUM_BIT 0
#define DM_DEX_RING_DESCRIPTION_CHECKSUM_BITS 32
#define DM_DEX_RING_DESCRIPTION_VERSION_OFFSET 4
#define DM_DEX_RING_DESCRIPTION_VERSION_BIT 0
#define DM_DEX_RING_DESCRIPTION_VERSION_BITS 16
#define DM_DEX_RING_DESCRIPTION_INDEX_OFFSET 6
#define DM_DEX_RING_DESCRIPTION_INDEX_BIT 0
#define DM_DEX_RING_DESCRIPTION_INDEX_BITS 8
#define DM_DEX_RING_DESCRIPTION_RESERVED_7_OFFSET 7
#define DM_DEX_RING_DESCRIPTION_RESERVED_7_BIT 0
#define DM_DEX_RING_DESCRIPTION_RESERVED_7_BITS 8
#define DM_DEX_RING_DESCRIPTION_POOL_ID_OFFSET 8
#define DM_DEX_RING_DESCRIPTION_POOL_ID_BIT 0
#define DM_DEX_RING_DESCRIPTION_POOL_ID_BITS 128
#define DM_DEX_RING_DESCRIPTION_POOL_INCARNATION_OFFSET 24
#define DM_DEX_RING_DESCRIPTION_POOL_INCARNATION_BIT 0
#define DM_DEX_RING_DESCRIPTION_POOL_INCARNATION_BITS 64
#define DM_DEX_RING_DESCRIPTION_TOKEN_OFFSET 32
#define DM_DEX_RING_DESCRIPTION_TOKEN_BIT 0
#define DM_DEX_RING_DESCRIPTION_TOKEN_BITS 64
#define DM_DEX_RING_DESCRIPTION_ROW_OFFSET 40
#define DM_DEX_RING_DESCRIPTION_ROW_BIT 0
#define DM_DEX_RING_DESCRIPTION_ROW_BITS 16
#define DM_DEX_RING_DESCRIPTION_CHUNK_COUNT_OFFSET 42
#define DM_DEX_RING_DESCRIPTION_CHUNK_COUNT_BIT 0
#define DM_DEX_RING_DESCRIPTION_CHUNK_COUNT_BITS 16
#define DM_DEX_RING_DESCRIPTION_INCARNATION_OFFSET 44
#define DM_DEX_RING_DESCRIPTION_INCARNATION_BIT 0
#define DM_DEX_RING_DESCRIPTION_INCARNATION_BITS 32
#define DM_DEX_RING_DESCRIPTION_CHUNK_BYTES_OFFSET 48
#define DM_DEX_RING_DESCRIPTION_CHUNK_BYTES_BIT 0
#define DM_DEX_RING_DESCRIPTION_CHUNK_BYTES_BITS 64
#define DM_DEX_RING_DESCRIPTION_CHUNKS_OFFSET 56
#define DM_DEX_RING_DESCRIPTION_CHUNKS_BIT 0
#define DM_DEX_RING_DESCRIPTION_CHUNKS_BITS 512
#define DM_DEX_RING_DESCRIPTION_RESERVED_120_OFFSET 120
#define DM_DEX_RING_DESCRIPTION_RESERVED_120_BIT 0
#define DM_DEX_RING_DESCRIPTION_RESERVED_120_BITS 64
#define DM_DEX_RING_DESCRIPTION_STRUCT_BYTES 128

struct dm_dex_ring_description {
    uint8_t checksum[4]; // CRC-32C of all bytes behind it
    uint8_t version[2]; // 1
    uint8_t index[1]; // catalog number of the index
    uint8_t reserved_7[1]; // zero
    uint8_t pool_id[16]; // of the pool, as in its superblock
    uint8_t pool_incarnation[8]; // of the pool, as in its superblock
    uint8_t token[8]; // random number of the process whose ring this is, as in its row
    uint8_t row[2]; // compute-node row whose ring this is
    uint8_t chunk_count[2]; // chunks
    uint8_t incarnation[4]; // incarnation of the row
    uint8_t chunk_bytes[8]; // size of a chunk, as in the superblock
    uint8_t chunks[64]; // their numbers on this memory node, in order; 0 behind the last
    uint8_t reserved_120[8]; // zero
};

// head

#define DM_DEX_RING_HEAD_CHECKSUM_OFFSET 0
#define DM_DEX_RING_HEAD_CHECKSUM_BIT 0
#define DM_DEX_RING_HEAD_CHECKSUM_BITS 32
#define DM_DEX_RING_HEAD_INCARNATION_OFFSET 4
#define DM_DEX_RING_HEAD_INCARNATION_BIT 0
#define DM_DEX_RING_HEAD_INCARNATION_BITS 32
#define DM_DEX_RING_HEAD_HEAD_OFFSET 8
#define DM_DEX_RING_HEAD_HEAD_BIT 0
#define DM_DEX_RING_HEAD_HEAD_BITS 64
#define DM_DEX_RING_HEAD_RESERVED_16_OFFSET 16
#define DM_DEX_RING_HEAD_RESERVED_16_BIT 0
#define DM_DEX_RING_HEAD_RESERVED_16_BITS 384
#define DM_DEX_RING_HEAD_STRUCT_BYTES 64

struct dm_dex_ring_head {
    uint8_t checksum[4]; // CRC-32C of all bytes behind it
    uint8_t incarnation[4]; // incarnation of the row whose ring this is
    uint8_t head[8]; // number of the line at which replay begins
    uint8_t reserved_16[48]; // zero
};

// constants

#define DM_DEX_RING_VERSION UINT64_C(1) // of the description
#define DM_DEX_RING_HEAD_AT UINT64_C(128) // offset of the head in the first chunk
#define DM_DEX_RING_LINES_AT UINT64_C(192) // offset of the first line there
#define DM_DEX_RING_RING_CHUNKS UINT64_C(16) // chunks of a ring, at most
#define DM_DEX_RING_RING_LINES_MIN UINT64_C(288) // lines of a ring, at least

#endif
