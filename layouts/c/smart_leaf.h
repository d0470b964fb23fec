// smart_leaf: leaf of a SMART index: one record. Made by `dm layout bless`; do not edit.

// An update writes seal and value, a delete the seal, and so does who buries a deleted leaf, for ever; the key never changes, and the lock is changed by CAS, and freed by the WRITE of its holder.

#ifndef DM_LAYOUT_SMART_LEAF_H
#define DM_LAYOUT_SMART_LEAF_H

#include <stdint.h>

// fields, keys and values of 8 bytes

#define DM_SMART_LEAF_STATE_OFFSET 0
#define DM_SMART_LEAF_STATE_BIT 0
#define DM_SMART_LEAF_STATE_BITS 8
#define DM_SMART_LEAF_CHECKSUM_OFFSET 0
#define DM_SMART_LEAF_CHECKSUM_BIT 8
#define DM_SMART_LEAF_CHECKSUM_BITS 56
#define DM_SMART_LEAF_VALUE_OFFSET 8
#define DM_SMART_LEAF_VALUE_BIT 0
#define DM_SMART_LEAF_VALUE_BITS 64
#define DM_SMART_LEAF_KEY_OFFSET 16
#define DM_SMART_LEAF_KEY_BIT 0
#define DM_SMART_LEAF_KEY_BITS 64
#define DM_SMART_LEAF_LOCK_OFFSET 24
#define DM_SMART_LEAF_LOCK_BIT 0
#define DM_SMART_LEAF_LOCK_BITS 64
#define DM_SMART_LEAF_STRUCT_BYTES 32

struct dm_smart_leaf {
    uint8_t state[1]; // 1: the record is there, 2: it was deleted, 3: and the leaf is not used any more
    uint8_t checksum[7]; // high 56 bits of CRC-64/WE over state, value with its padding, key
    uint8_t value[8]; // V bytes, then 0 up to a multiple of 8
    uint8_t key[8]; // K bytes; they never change; then 0 up to a multiple of 8
    uint8_t lock[8]; // 0 = free; held: row of the holder, low 16 bits, and its acquisition, 48 bits
};

// constants

#define DM_SMART_LEAF_PLACE UINT64_C(32) // bytes of a leaf with keys and values of 8 bytes
#define DM_SMART_LEAF_LONGEST_PLACE UINT64_C(1104) // bytes of one with the longest of both

#endif
