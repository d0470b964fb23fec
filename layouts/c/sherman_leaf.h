// sherman_leaf: leaf of a Sherman index: unsorted entries. Made by `dm layout bless`; do not edit.

// After the header, `span` entries of 1 + K + V bytes. A WRITE of one entry covers its stored bytes from the
// control byte to the end, version bytes of lines in between included, and raises the entry version by one in all of
// them. A delete clears `occupied`, and makes key and value zero: so is every entry that is not in use.

#ifndef DM_LAYOUT_SHERMAN_LEAF_H
#define DM_LAYOUT_SHERMAN_LEAF_H

#include <stdint.h>

// entry, keys and values of 8 bytes; offsets from the entry

#define DM_SHERMAN_LEAF_ENTRY_ENTRY_VERSION_OFFSET 0
#define DM_SHERMAN_LEAF_ENTRY_ENTRY_VERSION_BIT 0
#define DM_SHERMAN_LEAF_ENTRY_ENTRY_VERSION_BITS 4
#define DM_SHERMAN_LEAF_ENTRY_OCCUPIED_OFFSET 0
#define DM_SHERMAN_LEAF_ENTRY_OCCUPIED_BIT 4
#define DM_SHERMAN_LEAF_ENTRY_OCCUPIED_BITS 1
#define DM_SHERMAN_LEAF_ENTRY_KEY_OFFSET 1
#define DM_SHERMAN_LEAF_ENTRY_KEY_BIT 0
#define DM_SHERMAN_LEAF_ENTRY_KEY_BITS 64
#define DM_SHERMAN_LEAF_ENTRY_VALUE_OFFSET 9
#define DM_SHERMAN_LEAF_ENTRY_VALUE_BIT 0
#define DM_SHERMAN_LEAF_ENTRY_VALUE_BITS 64
#define DM_SHERMAN_LEAF_ENTRY_STRUCT_BYTES 17

struct dm_sherman_leaf_entry {
    uint8_t bits_0[1];
    uint8_t key[8]; // K bytes, memcmp order
    uint8_t value[8]; // V bytes
};

// constants

#define DM_SHERMAN_LEAF_FIRST_ENTRY UINT64_C(30) // payload offset, keys of 8 bytes
#define DM_SHERMAN_LEAF_SPAN UINT64_C(57) // entries that fit 1024 bytes with 8 + 8
#define DM_SHERMAN_LEAF_SPAN_MAX UINT64_C(512) // most entries
#define DM_SHERMAN_LEAF_SPAN_MIN UINT64_C(2) // fewest entries

#endif
