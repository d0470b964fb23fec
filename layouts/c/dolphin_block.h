// dolphin_block: value of 64 bytes or more, outside its leaf. Made by `dm layout bless`; do not edit.

// A leaf's value cell has the block's name, one little-endian word. Places are multiples of 16 bytes; the image is
// filled with zeros up to one. A block does not change while a leaf names it.

#ifndef DM_LAYOUT_DOLPHIN_BLOCK_H
#define DM_LAYOUT_DOLPHIN_BLOCK_H

#include <stdint.h>

// name, in the leaf

#define DM_DOLPHIN_BLOCK_NAME_GENERATION_OFFSET 0
#define DM_DOLPHIN_BLOCK_NAME_GENERATION_BIT 0
#define DM_DOLPHIN_BLOCK_NAME_GENERATION_BITS 16
#define DM_DOLPHIN_BLOCK_NAME_MEMORY_NODE_OFFSET 0
#define DM_DOLPHIN_BLOCK_NAME_MEMORY_NODE_BIT 16
#define DM_DOLPHIN_BLOCK_NAME_MEMORY_NODE_BITS 8
#define DM_DOLPHIN_BLOCK_NAME_OFFSET_OFFSET 0
#define DM_DOLPHIN_BLOCK_NAME_OFFSET_BIT 24
#define DM_DOLPHIN_BLOCK_NAME_OFFSET_BITS 40
#define DM_DOLPHIN_BLOCK_NAME_STRUCT_BYTES 8

struct dm_dolphin_block_name {
    uint8_t generation[2]; // which of the blocks that were there; the whole word is 0: no block
    uint8_t memory_node[1]; // logical number
    uint8_t offset[5]; // byte offset / 16
};

// head; the value follows

#define DM_DOLPHIN_BLOCK_HEAD_CHECKSUM_OFFSET 0
#define DM_DOLPHIN_BLOCK_HEAD_CHECKSUM_BIT 0
#define DM_DOLPHIN_BLOCK_HEAD_CHECKSUM_BITS 32
#define DM_DOLPHIN_BLOCK_HEAD_GENERATION_OFFSET 4
#define DM_DOLPHIN_BLOCK_HEAD_GENERATION_BIT 0
#define DM_DOLPHIN_BLOCK_HEAD_GENERATION_BITS 16
#define DM_DOLPHIN_BLOCK_HEAD_INDEX_OFFSET 6
#define DM_DOLPHIN_BLOCK_HEAD_INDEX_BIT 0
#define DM_DOLPHIN_BLOCK_HEAD_INDEX_BITS 8
#define DM_DOLPHIN_BLOCK_HEAD_RESERVED_7_OFFSET 7
#define DM_DOLPHIN_BLOCK_HEAD_RESERVED_7_BIT 0
#define DM_DOLPHIN_BLOCK_HEAD_RESERVED_7_BITS 8
#define DM_DOLPHIN_BLOCK_HEAD_STRUCT_BYTES 8

struct dm_dolphin_block_head {
    uint8_t checksum[4]; // CRC-32C of the name (8 bytes, little-endian), then of all that follows this field up to the value's end
    uint8_t generation[2]; // repeats the generation in the name
    uint8_t index[1]; // catalog number of the index, plus 1
    uint8_t reserved_7[1]; // 0
};

// constants

#define DM_DOLPHIN_BLOCK_PLACE_64 UINT64_C(80) // bytes of the place of a value of 64 bytes
#define DM_DOLPHIN_BLOCK_PLACE_1024 UINT64_C(1040) // and of 1024

#endif
