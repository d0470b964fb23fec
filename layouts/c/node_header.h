// node_header: the first payload bytes of every node of a B+-tree. Made by `dm layout bless`; do not edit.

// Offsets count payload bytes: see cache_line_versions. For keys of K bytes `low` and `high` have K bytes each and
// what follows lies 2 * (K - 8) bytes later. Level, index, flags, sibling and `low` never change in the life of a
// node, but for `retired`, and for `sibling` and `high` when it splits or takes over its neighbour. A reader compares
// generation, level and index with what the pointer promised before it believes anything else.

#ifndef DM_LAYOUT_NODE_HEADER_H
#define DM_LAYOUT_NODE_HEADER_H

#include <stdint.h>

// header, keys of 8 bytes

#define DM_NODE_HEADER_HEADER_GENERATION_OFFSET 0
#define DM_NODE_HEADER_HEADER_GENERATION_BIT 0
#define DM_NODE_HEADER_HEADER_GENERATION_BITS 6
#define DM_NODE_HEADER_HEADER_MOVED_OFFSET 0
#define DM_NODE_HEADER_HEADER_MOVED_BIT 6
#define DM_NODE_HEADER_HEADER_MOVED_BITS 1
#define DM_NODE_HEADER_HEADER_LEVEL_OFFSET 1
#define DM_NODE_HEADER_HEADER_LEVEL_BIT 0
#define DM_NODE_HEADER_HEADER_LEVEL_BITS 8
#define DM_NODE_HEADER_HEADER_INDEX_OFFSET 2
#define DM_NODE_HEADER_HEADER_INDEX_BIT 0
#define DM_NODE_HEADER_HEADER_INDEX_BITS 8
#define DM_NODE_HEADER_HEADER_UNBOUNDED_OFFSET 3
#define DM_NODE_HEADER_HEADER_UNBOUNDED_BIT 0
#define DM_NODE_HEADER_HEADER_UNBOUNDED_BITS 1
#define DM_NODE_HEADER_HEADER_RETIRED_OFFSET 3
#define DM_NODE_HEADER_HEADER_RETIRED_BIT 1
#define DM_NODE_HEADER_HEADER_RETIRED_BITS 1
#define DM_NODE_HEADER_HEADER_SIGNER_HIGH_BITS_OFFSET 3
#define DM_NODE_HEADER_HEADER_SIGNER_HIGH_BITS_BIT 2
#define DM_NODE_HEADER_HEADER_SIGNER_HIGH_BITS_BITS 6
#define DM_NODE_HEADER_HEADER_COUNT_OFFSET 4
#define DM_NODE_HEADER_HEADER_COUNT_BIT 0
#define DM_NODE_HEADER_HEADER_COUNT_BITS 16
#define DM_NODE_HEADER_HEADER_SIBLING_OFFSET 6
#define DM_NODE_HEADER_HEADER_SIBLING_BIT 0
#define DM_NODE_HEADER_HEADER_SIBLING_BITS 64
#define DM_NODE_HEADER_HEADER_LOW_OFFSET 14
#define DM_NODE_HEADER_HEADER_LOW_BIT 0
#define DM_NODE_HEADER_HEADER_LOW_BITS 64
#define DM_NODE_HEADER_HEADER_HIGH_OFFSET 22
#define DM_NODE_HEADER_HEADER_HIGH_BIT 0
#define DM_NODE_HEADER_HEADER_HIGH_BITS 64
#define DM_NODE_HEADER_HEADER_STRUCT_BYTES 30

struct dm_node_header_header {
    uint8_t bits_0[1];
    uint8_t level[1]; // 0 = leaf; fixed for the life of the node
    uint8_t index[1]; // catalog number of the index, plus 1
    uint8_t bits_3[1];
    uint8_t count[2]; // inner nodes: separators; leaves: signer, low bits: row (as many bits as rows need) and, above, incarnation of the compute node whose place this is if nothing points here
    uint8_t sibling[8]; // right neighbour, null at the right edge
    uint8_t low[8]; // inclusive low fence (K bytes)
    uint8_t high[8]; // exclusive high fence (K bytes)
};

// constants

#define DM_NODE_HEADER_KEY_BYTES_MIN UINT64_C(8) // shortest key
#define DM_NODE_HEADER_KEY_BYTES_MAX UINT64_C(64) // longest key
#define DM_NODE_HEADER_LEVELS_MAX UINT64_C(32) // levels are below this

#endif
