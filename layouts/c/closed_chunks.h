// closed_chunks: line of closed chunks: who collects memory, and in which chunks. Made by `dm layout bless`; do not edit.

// The second line of row 0 of memory node 0. Word 0 is changed by CAS only and names the collector; the other seven
// words are that one's, and each names a chunk. While word 0 is zero nobody collects, and the rest means nothing.

#ifndef DM_LAYOUT_CLOSED_CHUNKS_H
#define DM_LAYOUT_CLOSED_CHUNKS_H

#include <stdint.h>

// word 0

#define DM_CLOSED_CHUNKS_WORD_0_NUMBER_OFFSET 0
#define DM_CLOSED_CHUNKS_WORD_0_NUMBER_BIT 0
#define DM_CLOSED_CHUNKS_WORD_0_NUMBER_BITS 32
#define DM_CLOSED_CHUNKS_WORD_0_ROW_OFFSET 0
#define DM_CLOSED_CHUNKS_WORD_0_ROW_BIT 32
#define DM_CLOSED_CHUNKS_WORD_0_ROW_BITS 16
#define DM_CLOSED_CHUNKS_WORD_0_INCARNATION_OFFSET 0
#define DM_CLOSED_CHUNKS_WORD_0_INCARNATION_BIT 48
#define DM_CLOSED_CHUNKS_WORD_0_INCARNATION_BITS 16
#define DM_CLOSED_CHUNKS_WORD_0_STRUCT_BYTES 8

struct dm_closed_chunks_word_0 {
    uint8_t number[4]; // of the collection, among those of this incarnation
    uint8_t row[2]; // compute-node row of who collects
    uint8_t incarnation[2]; // incarnation of who collects; all 0 = nobody does
};

// words 1..8

#define DM_CLOSED_CHUNKS_WORDS_1_8_CHUNK_OFFSET 0
#define DM_CLOSED_CHUNKS_WORDS_1_8_CHUNK_BIT 0
#define DM_CLOSED_CHUNKS_WORDS_1_8_CHUNK_BITS 32
#define DM_CLOSED_CHUNKS_WORDS_1_8_NODE_OFFSET 0
#define DM_CLOSED_CHUNKS_WORDS_1_8_NODE_BIT 32
#define DM_CLOSED_CHUNKS_WORDS_1_8_NODE_BITS 16
#define DM_CLOSED_CHUNKS_WORDS_1_8_RESERVED_OFFSET 0
#define DM_CLOSED_CHUNKS_WORDS_1_8_RESERVED_BIT 48
#define DM_CLOSED_CHUNKS_WORDS_1_8_RESERVED_BITS 16
#define DM_CLOSED_CHUNKS_WORDS_1_8_STRUCT_BYTES 8

struct dm_closed_chunks_words_1_8 {
    uint8_t chunk[4]; // its number on its memory node, plus 1; 0 = none
    uint8_t node[2]; // memory node
    uint8_t reserved[2]; // zero
};

// constants

#define DM_CLOSED_CHUNKS_CHUNKS_AT_ONCE UINT64_C(7) // chunks that can be closed at a time

#endif
