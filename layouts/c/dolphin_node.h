// dolphin_node: node with tiles. Made by `dm layout bless`; do not edit.

// As radix_node. The first slot begins at byte 0. The child of a key is that of the greatest byte not above the key's.

#ifndef DM_LAYOUT_DOLPHIN_NODE_H
#define DM_LAYOUT_DOLPHIN_NODE_H

#include <stdint.h>

// fields

#define DM_DOLPHIN_NODE_POSITION_OFFSET 0
#define DM_DOLPHIN_NODE_POSITION_BIT 0
#define DM_DOLPHIN_NODE_POSITION_BITS 8
#define DM_DOLPHIN_NODE_TYPE_OFFSET 0
#define DM_DOLPHIN_NODE_TYPE_BIT 8
#define DM_DOLPHIN_NODE_TYPE_BITS 3
#define DM_DOLPHIN_NODE_RESERVED_OFFSET 0
#define DM_DOLPHIN_NODE_RESERVED_BIT 11
#define DM_DOLPHIN_NODE_RESERVED_BITS 2
#define DM_DOLPHIN_NODE_SIZE_OFFSET 0
#define DM_DOLPHIN_NODE_SIZE_BIT 13
#define DM_DOLPHIN_NODE_SIZE_BITS 3
#define DM_DOLPHIN_NODE_BYTES_OFFSET 2
#define DM_DOLPHIN_NODE_BYTES_BIT 0
#define DM_DOLPHIN_NODE_BYTES_BITS 48
#define DM_DOLPHIN_NODE_INDEX_OFFSET 8
#define DM_DOLPHIN_NODE_INDEX_BIT 0
#define DM_DOLPHIN_NODE_INDEX_BITS 8
#define DM_DOLPHIN_NODE_RESERVED_9_OFFSET 9
#define DM_DOLPHIN_NODE_RESERVED_9_BIT 0
#define DM_DOLPHIN_NODE_RESERVED_9_BITS 56
#define DM_DOLPHIN_NODE_SLOTS_OFFSET 16
#define DM_DOLPHIN_NODE_SLOTS_BIT 0
#define DM_DOLPHIN_NODE_SLOTS_BITS 0
#define DM_DOLPHIN_NODE_STRUCT_BYTES 16

struct dm_dolphin_node {
    uint8_t position[1]; // position in the key of the byte that tells the slots apart
    uint8_t bits_1[1];
    uint8_t bytes[6]; // the size bytes of every key below that end in front of the position; then 0
    uint8_t index[1]; // catalog number of the index, plus 1
    uint8_t reserved_9[7]; // 0
};

#endif
