// radix_slot: slot of a radix tree's node, and its root slot in the catalog. Made by `dm layout bless`; do not edit.

// One little-endian word, changed by CAS only once its node is published. All zero is empty. Empty -> leaf -> node ->
// other node, and at last the same word frozen.

#ifndef DM_LAYOUT_RADIX_SLOT_H
#define DM_LAYOUT_RADIX_SLOT_H

#include <stdint.h>

// word

#define DM_RADIX_SLOT_WORD_PARTIAL_OFFSET 0
#define DM_RADIX_SLOT_WORD_PARTIAL_BIT 0
#define DM_RADIX_SLOT_WORD_PARTIAL_BITS 8
#define DM_RADIX_SLOT_WORD_TYPE_OFFSET 0
#define DM_RADIX_SLOT_WORD_TYPE_BIT 8
#define DM_RADIX_SLOT_WORD_TYPE_BITS 3
#define DM_RADIX_SLOT_WORD_RESERVED_OFFSET 0
#define DM_RADIX_SLOT_WORD_RESERVED_BIT 11
#define DM_RADIX_SLOT_WORD_RESERVED_BITS 3
#define DM_RADIX_SLOT_WORD_FROZEN_OFFSET 0
#define DM_RADIX_SLOT_WORD_FROZEN_BIT 14
#define DM_RADIX_SLOT_WORD_FROZEN_BITS 1
#define DM_RADIX_SLOT_WORD_LEAF_OFFSET 0
#define DM_RADIX_SLOT_WORD_LEAF_BIT 15
#define DM_RADIX_SLOT_WORD_LEAF_BITS 1
#define DM_RADIX_SLOT_WORD_MEMORY_NODE_OFFSET 0
#define DM_RADIX_SLOT_WORD_MEMORY_NODE_BIT 16
#define DM_RADIX_SLOT_WORD_MEMORY_NODE_BITS 8
#define DM_RADIX_SLOT_WORD_OFFSET_OFFSET 0
#define DM_RADIX_SLOT_WORD_OFFSET_BIT 24
#define DM_RADIX_SLOT_WORD_OFFSET_BITS 40
#define DM_RADIX_SLOT_WORD_STRUCT_BYTES 8

struct dm_radix_slot_word {
    uint8_t partial[1]; // byte of the key at the node's position; in a root slot CRC-8 of the other bytes
    uint8_t bits_1[1];
    uint8_t memory_node[1]; // logical number
    uint8_t offset[5]; // byte offset / 16
};

// constants

#define DM_RADIX_SLOT_UNIT_BYTES UINT64_C(16) // nodes and leaves begin at multiples of this

#endif
