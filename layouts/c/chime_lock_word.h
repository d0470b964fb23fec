// chime_lock_word: lock word of a CHIME leaf: vacancy while it is free, holder while it is held. Made by `dm layout bless`; do not edit.

// One little-endian word, changed by CAS and freed by its holder, in every life of the place. The entries are divided into
// V = min(63, span) buckets; entry i is in bucket i * V / span. Vacancy is a hint; all zero says that there is room
// everywhere.

#ifndef DM_LAYOUT_CHIME_LOCK_WORD_H
#define DM_LAYOUT_CHIME_LOCK_WORD_H

#include <stdint.h>

// free

#define DM_CHIME_LOCK_WORD_FREE_VACANCY_OFFSET 0
#define DM_CHIME_LOCK_WORD_FREE_VACANCY_BIT 0
#define DM_CHIME_LOCK_WORD_FREE_VACANCY_BITS 63
#define DM_CHIME_LOCK_WORD_FREE_HELD_OFFSET 0
#define DM_CHIME_LOCK_WORD_FREE_HELD_BIT 63
#define DM_CHIME_LOCK_WORD_FREE_HELD_BITS 1
#define DM_CHIME_LOCK_WORD_FREE_STRUCT_BYTES 8

struct dm_chime_lock_word_free {
    uint8_t bits_0[8];
};

// held

#define DM_CHIME_LOCK_WORD_HELD_ROW_OFFSET 0
#define DM_CHIME_LOCK_WORD_HELD_ROW_BIT 0
#define DM_CHIME_LOCK_WORD_HELD_ROW_BITS 16
#define DM_CHIME_LOCK_WORD_HELD_TURN_OFFSET 0
#define DM_CHIME_LOCK_WORD_HELD_TURN_BIT 16
#define DM_CHIME_LOCK_WORD_HELD_TURN_BITS 16
#define DM_CHIME_LOCK_WORD_HELD_HELD_OFFSET 0
#define DM_CHIME_LOCK_WORD_HELD_HELD_BIT 63
#define DM_CHIME_LOCK_WORD_HELD_HELD_BITS 1
#define DM_CHIME_LOCK_WORD_HELD_STRUCT_BYTES 8

struct dm_chime_lock_word_held {
    uint8_t row[2]; // compute-node row of the holder
    uint8_t turn[2]; // the holder's acquisition counter
    uint8_t gap_4[3];
    uint8_t bits_7[1];
};

#endif
