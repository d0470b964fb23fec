// items_block: a whole key and its value. Made by `dm layout bless`; do not edit.

// Anywhere in a chunk of kind "block", at a multiple of 16 bytes; key and value follow the header. Places have the sizes
// 16, 32, ... 256, then eight sizes per doubling; a block lies in the smallest that holds it, and its WRITE is padded
// with zeros to a multiple of 16. A reader believes a block whose life, length, index and checksum are those of the
// slot that led to it; anything else is another block, or none.

#ifndef DM_LAYOUT_ITEMS_BLOCK_H
#define DM_LAYOUT_ITEMS_BLOCK_H

#include <stdint.h>

// header

#define DM_ITEMS_BLOCK_HEADER_CHECKSUM_OFFSET 0
#define DM_ITEMS_BLOCK_HEADER_CHECKSUM_BIT 0
#define DM_ITEMS_BLOCK_HEADER_CHECKSUM_BITS 32
#define DM_ITEMS_BLOCK_HEADER_LIFE_OFFSET 4
#define DM_ITEMS_BLOCK_HEADER_LIFE_BIT 0
#define DM_ITEMS_BLOCK_HEADER_LIFE_BITS 32
#define DM_ITEMS_BLOCK_HEADER_KEY_BYTES_OFFSET 8
#define DM_ITEMS_BLOCK_HEADER_KEY_BYTES_BIT 0
#define DM_ITEMS_BLOCK_HEADER_KEY_BYTES_BITS 16
#define DM_ITEMS_BLOCK_HEADER_INDEX_OFFSET 10
#define DM_ITEMS_BLOCK_HEADER_INDEX_BIT 0
#define DM_ITEMS_BLOCK_HEADER_INDEX_BITS 8
#define DM_ITEMS_BLOCK_HEADER_RESERVED_11_OFFSET 11
#define DM_ITEMS_BLOCK_HEADER_RESERVED_11_BIT 0
#define DM_ITEMS_BLOCK_HEADER_RESERVED_11_BITS 8
#define DM_ITEMS_BLOCK_HEADER_VALUE_BYTES_OFFSET 12
#define DM_ITEMS_BLOCK_HEADER_VALUE_BYTES_BIT 0
#define DM_ITEMS_BLOCK_HEADER_VALUE_BYTES_BITS 32
#define DM_ITEMS_BLOCK_HEADER_STRUCT_BYTES 16

struct dm_items_block_header {
    uint8_t checksum[4]; // CRC-32C of the place (8 bytes, little-endian), then of all that follows this field: header, key, value
    uint8_t life[4]; // which life of its place this is, 31 bits
    uint8_t key_bytes[2]; // length of the key
    uint8_t index[1]; // catalog number of the index, plus 1
    uint8_t reserved_11[1]; // zero
    uint8_t value_bytes[4]; // length of the value
};

// constants

#define DM_ITEMS_BLOCK_KEY_BYTES_LIMIT UINT64_C(4096) // longest key
#define DM_ITEMS_BLOCK_VALUE_BYTES_LIMIT UINT64_C(65536) // longest value
#define DM_ITEMS_BLOCK_CLASSES UINT64_C(81) // sizes of places
#define DM_ITEMS_BLOCK_LARGEST_PLACE UINT64_C(73728) // bytes

#endif
