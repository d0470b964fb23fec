// chunk_entry: word of the chunk table: the compute node that was granted a chunk, and what for. Made by `dm layout bless`; do not edit.

// One little-endian word, changed by CAS only. All zero is free.

#ifndef DM_LAYOUT_CHUNK_ENTRY_H
#define DM_LAYOUT_CHUNK_ENTRY_H

#include <stdint.h>

// fields

#define DM_CHUNK_ENTRY_STATE_OFFSET 0
#define DM_CHUNK_ENTRY_STATE_BIT 0
#define DM_CHUNK_ENTRY_STATE_BITS 2
#define DM_CHUNK_ENTRY_KIND_OFFSET 0
#define DM_CHUNK_ENTRY_KIND_BIT 2
#define DM_CHUNK_ENTRY_KIND_BITS 3
#define DM_CHUNK_ENTRY_INDEX_OFFSET 0
#define DM_CHUNK_ENTRY_INDEX_BIT 5
#define DM_CHUNK_ENTRY_INDEX_BITS 9
#define DM_CHUNK_ENTRY_REQUEST_OFFSET 0
#define DM_CHUNK_ENTRY_REQUEST_BIT 14
#define DM_CHUNK_ENTRY_REQUEST_BITS 18
#define DM_CHUNK_ENTRY_ROW_OFFSET 0
#define DM_CHUNK_ENTRY_ROW_BIT 32
#define DM_CHUNK_ENTRY_ROW_BITS 16
#define DM_CHUNK_ENTRY_INCARNATION_OFFSET 0
#define DM_CHUNK_ENTRY_INCARNATION_BIT 48
#define DM_CHUNK_ENTRY_INCARNATION_BITS 16
#define DM_CHUNK_ENTRY_STRUCT_BYTES 8

struct dm_chunk_entry {
    uint8_t bits_0[4];
    uint8_t row[2]; // compute-node row of the owner
    uint8_t incarnation[2]; // incarnation of the owner
};

// constants

#define DM_CHUNK_ENTRY_REQUESTS_MAX UINT64_C(262144) // grants of one compute node in one incarnation
#define DM_CHUNK_ENTRY_INDEX_NONE UINT64_C(511) // index of a chunk that serves none or all

#endif
