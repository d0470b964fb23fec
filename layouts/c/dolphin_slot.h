// dolphin_slot: slot of a node with tiles, and the root slot in the catalog. Made by `dm layout bless`; do not edit.

// One little-endian word, changed by CAS only once its node is published. Nodes and empty slots are radix_slot's with
// one mark more. A slot's tile reaches from its byte to the next slot's; a leaf says its bounds itself, a void says
// where it ends, a node's tile has one byte.

#ifndef DM_LAYOUT_DOLPHIN_SLOT_H
#define DM_LAYOUT_DOLPHIN_SLOT_H

#include <stdint.h>

// word

#define DM_DOLPHIN_SLOT_WORD_LOW_OFFSET 0
#define DM_DOLPHIN_SLOT_WORD_LOW_BIT 0
#define DM_DOLPHIN_SLOT_WORD_LOW_BITS 8
#define DM_DOLPHIN_SLOT_WORD_TYPE_OFFSET 0
#define DM_DOLPHIN_SLOT_WORD_TYPE_BIT 8
#define DM_DOLPHIN_SLOT_WORD_TYPE_BITS 3
#define DM_DOLPHIN_SLOT_WORD_SPECIAL_OFFSET 0
#define DM_DOLPHIN_SLOT_WORD_SPECIAL_BIT 11
#define DM_DOLPHIN_SLOT_WORD_SPECIAL_BITS 1
#define DM_DOLPHIN_SLOT_WORD_VOID_OFFSET 0
#define DM_DOLPHIN_SLOT_WORD_VOID_BIT 12
#define DM_DOLPHIN_SLOT_WORD_VOID_BITS 1
#define DM_DOLPHIN_SLOT_WORD_RESERVED_OFFSET 0
#define DM_DOLPHIN_SLOT_WORD_RESERVED_BIT 13
#define DM_DOLPHIN_SLOT_WORD_RESERVED_BITS 1
#define DM_DOLPHIN_SLOT_WORD_FROZEN_OFFSET 0
#define DM_DOLPHIN_SLOT_WORD_FROZEN_BIT 14
#define DM_DOLPHIN_SLOT_WORD_FROZEN_BITS 1
#define DM_DOLPHIN_SLOT_WORD_LEAF_OFFSET 0
#define DM_DOLPHIN_SLOT_WORD_LEAF_BIT 15
#define DM_DOLPHIN_SLOT_WORD_LEAF_BITS 1
#define DM_DOLPHIN_SLOT_WORD_MEMORY_NODE_OFFSET 0
#define DM_DOLPHIN_SLOT_WORD_MEMORY_NODE_BIT 16
#define DM_DOLPHIN_SLOT_WORD_MEMORY_NODE_BITS 8
#define DM_DOLPHIN_SLOT_WORD_OFFSET_OFFSET 0
#define DM_DOLPHIN_SLOT_WORD_OFFSET_BIT 24
#define DM_DOLPHIN_SLOT_WORD_OFFSET_BITS 40
#define DM_DOLPHIN_SLOT_WORD_STRUCT_BYTES 8

struct dm_dolphin_slot_word {
    uint8_t low[1]; // first byte of the tile; in a root slot CRC-8 of the other bytes
    uint8_t bits_1[1];
    uint8_t memory_node[1]; // logical number; void: 0
    uint8_t offset[5]; // node: byte offset / 16; leaf: likewise, its two low bits are generation, bits 0..1; void: last byte of the tile
};

#endif
