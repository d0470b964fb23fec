// dex_leaf: leaf of a DEX index: an LSN, and unsorted entries. Made by `dm layout bless`; do not edit.

// As a leaf of Sherman (sherman_leaf), with an LSN between the header and the entries. Only its owner writes it, all of
// it at once, and raises the node version.

#ifndef DM_LAYOUT_DEX_LEAF_H
#define DM_LAYOUT_DEX_LEAF_H

#include <stdint.h>

// behind the header, keys of 8 bytes

#define DM_DEX_LEAF_BEHIND_THE_HEADER_LSN_OFFSET 30
#define DM_DEX_LEAF_BEHIND_THE_HEADER_LSN_BIT 0
#define DM_DEX_LEAF_BEHIND_THE_HEADER_LSN_BITS 64
#define DM_DEX_LEAF_BEHIND_THE_HEADER_STRUCT_BYTES 38

struct dm_dex_leaf_behind_the_header {
    uint8_t gap_0[30];
    uint8_t lsn[8]; // of the newest record that the leaf has: dex_lsn
};

// entry, keys and values of 8 bytes; offsets from the entry

#define DM_DEX_LEAF_ENTRY_ENTRY_VERSION_OFFSET 0
#define DM_DEX_LEAF_ENTRY_ENTRY_VERSION_BIT 0
#define DM_DEX_LEAF_ENTRY_ENTRY_VERSION_BITS 4
#define DM_DEX_LEAF_ENTRY_OCCUPIED_OFFSET 0
#define DM_DEX_LEAF_ENTRY_OCCUPIED_BIT 4
#define DM_DEX_LEAF_ENTRY_OCCUPIED_BITS 1
#define DM_DEX_LEAF_ENTRY_KEY_OFFSET 1
#define DM_DEX_LEAF_ENTRY_KEY_BIT 0
#define DM_DEX_LEAF_ENTRY_KEY_BITS 64
#define DM_DEX_LEAF_ENTRY_VALUE_OFFSET 9
#define DM_DEX_LEAF_ENTRY_VALUE_BIT 0
#define DM_DEX_LEAF_ENTRY_VALUE_BITS 64
#define DM_DEX_LEAF_ENTRY_STRUCT_BYTES 17

struct dm_dex_leaf_entry {
    uint8_t bits_0[1];
    uint8_t key[8]; // K bytes, memcmp order
    uint8_t value[8]; // V bytes
};

// constants

#define DM_DEX_LEAF_FIRST_ENTRY UINT64_C(38) // payload offset, keys of 8 bytes
#define DM_DEX_LEAF_SPAN UINT64_C(57) // entries that fit 1024 bytes with 8 + 8

#endif
