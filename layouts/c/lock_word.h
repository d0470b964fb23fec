// lock_word: word of a lock table, held by a compute node. Made by `dm layout bless`; do not edit.

// One little-endian word; all zero is free. The lock of a node is the word at
// ((offset / 64 * 0x9e3779b97f4a7c15 mod 2^64) / 2^32) * lock_count / 2^32 of its memory node's table.

#ifndef DM_LAYOUT_LOCK_WORD_H
#define DM_LAYOUT_LOCK_WORD_H

#include <stdint.h>

// fields

#define DM_LOCK_WORD_ROW_OFFSET 0
#define DM_LOCK_WORD_ROW_BIT 0
#define DM_LOCK_WORD_ROW_BITS 16
#define DM_LOCK_WORD_SEQUENCE_OFFSET 0
#define DM_LOCK_WORD_SEQUENCE_BIT 16
#define DM_LOCK_WORD_SEQUENCE_BITS 48
#define DM_LOCK_WORD_STRUCT_BYTES 8

struct dm_lock_word {
    uint8_t row[2]; // compute-node row of the holder; 0 = free
    uint8_t sequence[6]; // the holder's acquisitions, counted; none twice in one incarnation
};

#endif
