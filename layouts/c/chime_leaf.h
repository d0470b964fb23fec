// chime_leaf: leaf of a CHIME index: a hopscotch table with replicas of its header. Made by `dm layout bless`; do not edit.

// After the header, groups of H entries, each behind a replica of what a reader of a part has to know. A replica and
// an entry begin with a version byte: NV low, EV high, as the version bytes of lines. A key's home is its CityHash64
// (version 1.1) modulo the span; it lies in one of the H entries from there on, cyclically. For H > 8 the bitmap takes
// both bytes, and generation, dead and live a third one behind it. The value of a dead entry is zero, and so are key and
// value of one that is neither dead nor live. The lock word has a line of its own behind the image.

#ifndef DM_LAYOUT_CHIME_LEAF_H
#define DM_LAYOUT_CHIME_LEAF_H

#include <stdint.h>

// replica; offsets from the replica

#define DM_CHIME_LEAF_REPLICA_NODE_VERSION_OFFSET 0
#define DM_CHIME_LEAF_REPLICA_NODE_VERSION_BIT 0
#define DM_CHIME_LEAF_REPLICA_NODE_VERSION_BITS 4
#define DM_CHIME_LEAF_REPLICA_GENERATION_OFFSET 1
#define DM_CHIME_LEAF_REPLICA_GENERATION_BIT 0
#define DM_CHIME_LEAF_REPLICA_GENERATION_BITS 6
#define DM_CHIME_LEAF_REPLICA_WRITTEN_OFFSET 1
#define DM_CHIME_LEAF_REPLICA_WRITTEN_BIT 6
#define DM_CHIME_LEAF_REPLICA_WRITTEN_BITS 1
#define DM_CHIME_LEAF_REPLICA_RETIRED_OFFSET 1
#define DM_CHIME_LEAF_REPLICA_RETIRED_BIT 7
#define DM_CHIME_LEAF_REPLICA_RETIRED_BITS 1
#define DM_CHIME_LEAF_REPLICA_SIBLING_OFFSET 2
#define DM_CHIME_LEAF_REPLICA_SIBLING_BIT 0
#define DM_CHIME_LEAF_REPLICA_SIBLING_BITS 64
#define DM_CHIME_LEAF_REPLICA_STRUCT_BYTES 10

struct dm_chime_leaf_replica {
    uint8_t bits_0[1];
    uint8_t bits_1[1];
    uint8_t sibling[8]; // repeats the header's
};

// entry, keys and values of 8 bytes; offsets from the entry

#define DM_CHIME_LEAF_ENTRY_NODE_VERSION_OFFSET 0
#define DM_CHIME_LEAF_ENTRY_NODE_VERSION_BIT 0
#define DM_CHIME_LEAF_ENTRY_NODE_VERSION_BITS 4
#define DM_CHIME_LEAF_ENTRY_ENTRY_VERSION_OFFSET 0
#define DM_CHIME_LEAF_ENTRY_ENTRY_VERSION_BIT 4
#define DM_CHIME_LEAF_ENTRY_ENTRY_VERSION_BITS 4
#define DM_CHIME_LEAF_ENTRY_BITMAP_OFFSET 1
#define DM_CHIME_LEAF_ENTRY_BITMAP_BIT 0
#define DM_CHIME_LEAF_ENTRY_BITMAP_BITS 8
#define DM_CHIME_LEAF_ENTRY_GENERATION_OFFSET 1
#define DM_CHIME_LEAF_ENTRY_GENERATION_BIT 8
#define DM_CHIME_LEAF_ENTRY_GENERATION_BITS 6
#define DM_CHIME_LEAF_ENTRY_DEAD_OFFSET 1
#define DM_CHIME_LEAF_ENTRY_DEAD_BIT 14
#define DM_CHIME_LEAF_ENTRY_DEAD_BITS 1
#define DM_CHIME_LEAF_ENTRY_LIVE_OFFSET 1
#define DM_CHIME_LEAF_ENTRY_LIVE_BIT 15
#define DM_CHIME_LEAF_ENTRY_LIVE_BITS 1
#define DM_CHIME_LEAF_ENTRY_KEY_OFFSET 3
#define DM_CHIME_LEAF_ENTRY_KEY_BIT 0
#define DM_CHIME_LEAF_ENTRY_KEY_BITS 64
#define DM_CHIME_LEAF_ENTRY_VALUE_OFFSET 11
#define DM_CHIME_LEAF_ENTRY_VALUE_BIT 0
#define DM_CHIME_LEAF_ENTRY_VALUE_BITS 64
#define DM_CHIME_LEAF_ENTRY_STRUCT_BYTES 19

struct dm_chime_leaf_entry {
    uint8_t bits_0[1];
    uint8_t bitmap[1]; // bit o: a key whose home is this entry lies o entries further on
    uint8_t bits_2[1];
    uint8_t key[8]; // K bytes, memcmp order
    uint8_t value[8]; // V bytes
};

// line behind the image; stored offsets

#define DM_CHIME_LEAF_LINE_BEHIND_THE_IMAGE_LOCK_WORD_OFFSET 0
#define DM_CHIME_LEAF_LINE_BEHIND_THE_IMAGE_LOCK_WORD_BIT 0
#define DM_CHIME_LEAF_LINE_BEHIND_THE_IMAGE_LOCK_WORD_BITS 64
#define DM_CHIME_LEAF_LINE_BEHIND_THE_IMAGE_STRUCT_BYTES 8

struct dm_chime_leaf_line_behind_the_image {
    uint8_t lock_word[8]; // free: bit 63 = 0, vacancy in the others; held: bit 63 = 1, turn, row
};

// constants

#define DM_CHIME_LEAF_REPLICA_0 UINT64_C(30) // payload offset, keys of 8 bytes
#define DM_CHIME_LEAF_ENTRY_0 UINT64_C(40) // payload offset
#define DM_CHIME_LEAF_IMAGE UINT64_C(1408) // stored bytes with 64 entries of 8 + 8, H = 8
#define DM_CHIME_LEAF_PLACE UINT64_C(1472) // with the lock word's line
#define DM_CHIME_LEAF_SPAN_MAX UINT64_C(512) // most entries
#define DM_CHIME_LEAF_SPAN_MIN UINT64_C(8) // fewest entries

#endif
