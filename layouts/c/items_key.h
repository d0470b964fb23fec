// items_key: entry key of an index with keys of any length. Made by `dm layout bless`; do not edit.

// The key of an entry of the index below: as long as its key slots are, 16 to 64 bytes. For slots of K bytes a slice
// has S = K - 9. Compared as byte strings, the entry keys of one layer stand in the order of the keys they are of.

#ifndef DM_LAYOUT_ITEMS_KEY_H
#define DM_LAYOUT_ITEMS_KEY_H

#include <stdint.h>

// entry key of 16 bytes

#define DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LAYER_OFFSET 0
#define DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LAYER_BIT 0
#define DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LAYER_BITS 64
#define DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_SLICE_OFFSET 8
#define DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_SLICE_BIT 0
#define DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_SLICE_BITS 56
#define DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LENGTH_OFFSET 15
#define DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LENGTH_BIT 0
#define DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LENGTH_BITS 8
#define DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_STRUCT_BYTES 16

struct dm_items_key_entry_key_of_16_bytes {
    uint8_t layer[8]; // big-endian; 0 = where every key begins
    uint8_t slice[7]; // bytes of the key from depth * S on, zero-padded (S bytes; here 7)
    uint8_t length[1]; // bytes of the slice, 0..=S; S + 1 = the key goes on
};

// constants

#define DM_ITEMS_KEY_LAYER_BYTES UINT64_C(8) // of a layer's number
#define DM_ITEMS_KEY_ENTRY_KEY_BYTES_MIN UINT64_C(16) // of key slots

#endif
