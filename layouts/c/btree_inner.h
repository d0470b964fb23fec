// btree_inner: inner node of a B+-tree: separators and children. Made by `dm layout bless`; do not edit.

// After the header, and the next pointer if an index keeps one (CHIME: 8 bytes, the leftmost child of the right
// neighbour; Sherman: none), child 0, then `count` pairs of a separator and the child to its right, ascending. Child i covers keys from separator i (child 0: from `low`) to
// separator i + 1 (the last: to `high`). Inner nodes are written whole; entry versions are 0.

#ifndef DM_LAYOUT_BTREE_INNER_H
#define DM_LAYOUT_BTREE_INNER_H

#include <stdint.h>

// after the header, keys of 8 bytes

#define DM_BTREE_INNER_AFTER_THE_HEADER_CHILD_0_OFFSET 30
#define DM_BTREE_INNER_AFTER_THE_HEADER_CHILD_0_BIT 0
#define DM_BTREE_INNER_AFTER_THE_HEADER_CHILD_0_BITS 64
#define DM_BTREE_INNER_AFTER_THE_HEADER_SEPARATOR_1_OFFSET 38
#define DM_BTREE_INNER_AFTER_THE_HEADER_SEPARATOR_1_BIT 0
#define DM_BTREE_INNER_AFTER_THE_HEADER_SEPARATOR_1_BITS 64
#define DM_BTREE_INNER_AFTER_THE_HEADER_CHILD_1_OFFSET 46
#define DM_BTREE_INNER_AFTER_THE_HEADER_CHILD_1_BIT 0
#define DM_BTREE_INNER_AFTER_THE_HEADER_CHILD_1_BITS 64
#define DM_BTREE_INNER_AFTER_THE_HEADER_STRUCT_BYTES 54

struct dm_btree_inner_after_the_header {
    uint8_t gap_0[30];
    uint8_t child_0[8]; // address of the leftmost child
    uint8_t separator_1[8]; // smallest key of child 1 (K bytes)
    uint8_t child_1[8]; // and so on, every K + 8 bytes
};

// constants

#define DM_BTREE_INNER_SEPARATORS UINT64_C(60) // that fit 1024 bytes with keys of 8

#endif
