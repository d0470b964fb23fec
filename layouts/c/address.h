// address: pointer to a node: memory node, byte offset, generation. Made by `dm layout bless`; do not edit.

// One little-endian word. Nodes are 64-byte aligned; the low six bits of their offset hold the generation.
// All zero is the null address.

#ifndef DM_LAYOUT_ADDRESS_H
#define DM_LAYOUT_ADDRESS_H

#include <stdint.h>

// fields

#define DM_ADDRESS_GENERATION_OFFSET 0
#define DM_ADDRESS_GENERATION_BIT 0
#define DM_ADDRESS_GENERATION_BITS 6
#define DM_ADDRESS_OFFSET_64_OFFSET 0
#define DM_ADDRESS_OFFSET_64_BIT 6
#define DM_ADDRESS_OFFSET_64_BITS 42
#define DM_ADDRESS_NODE_OFFSET 0
#define DM_ADDRESS_NODE_BIT 48
#define DM_ADDRESS_NODE_BITS 16
#define DM_ADDRESS_STRUCT_BYTES 8

struct dm_address {
    uint8_t bits_0[6];
    uint8_t node[2]; // logical memory node
};

// constants

#define DM_ADDRESS_OFFSET_END UINT64_C(281474976710656) // byte offsets are below this
#define DM_ADDRESS_LINE_BYTES UINT64_C(64) // alignment of nodes

#endif
