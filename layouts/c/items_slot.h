// items_slot: value of an entry of an index with values of any length. Made by `dm layout bless`; do not edit.

// The value of an entry of the index below: 16 to 1024 bytes, as chosen at creation. Unused bytes are zero, so that
// two slots say the same if and only if all their bytes are equal.

#ifndef DM_LAYOUT_ITEMS_SLOT_H
#define DM_LAYOUT_ITEMS_SLOT_H

#include <stdint.h>

// slot

#define DM_ITEMS_SLOT_SLOT_KIND_OFFSET 0
#define DM_ITEMS_SLOT_SLOT_KIND_BIT 0
#define DM_ITEMS_SLOT_SLOT_KIND_BITS 2
#define DM_ITEMS_SLOT_SLOT_VALUE_BYTES_OFFSET 0
#define DM_ITEMS_SLOT_SLOT_VALUE_BYTES_BIT 2
#define DM_ITEMS_SLOT_SLOT_VALUE_BYTES_BITS 14
#define DM_ITEMS_SLOT_SLOT_LIFE_LOW_OFFSET 2
#define DM_ITEMS_SLOT_SLOT_LIFE_LOW_BIT 0
#define DM_ITEMS_SLOT_SLOT_LIFE_LOW_BITS 16
#define DM_ITEMS_SLOT_SLOT_BYTES_OFFSET 4
#define DM_ITEMS_SLOT_SLOT_BYTES_BIT 0
#define DM_ITEMS_SLOT_SLOT_BYTES_BITS 17
#define DM_ITEMS_SLOT_SLOT_LIFE_HIGH_OFFSET 4
#define DM_ITEMS_SLOT_SLOT_LIFE_HIGH_BIT 17
#define DM_ITEMS_SLOT_SLOT_LIFE_HIGH_BITS 15
#define DM_ITEMS_SLOT_SLOT_PLACE_OFFSET 8
#define DM_ITEMS_SLOT_SLOT_PLACE_BIT 0
#define DM_ITEMS_SLOT_SLOT_PLACE_BITS 64
#define DM_ITEMS_SLOT_SLOT_STRUCT_BYTES 16

struct dm_items_slot_slot {
    uint8_t bits_0[2];
    uint8_t life_low[2]; // block: low bits of which life of its place it is; link: zero
    uint8_t bits_4[4];
    uint8_t place[8]; // block: memory node (16 bits) and byte offset (48); link: the layer that goes on
};

// constants

#define DM_ITEMS_SLOT_SLOT_BYTES_MIN UINT64_C(16) // of a slot

#endif
