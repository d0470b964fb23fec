// dex_owner: word of an entry of the ownership table: which compute node has it. Made by `dm layout bless`; do not edit.

// One little-endian word, changed by CAS only. Every change raises the epoch by one. Records that are in no page are in
// the ring of the log row; a row is not freed while an entry names it or is recovering.

#ifndef DM_LAYOUT_DEX_OWNER_H
#define DM_LAYOUT_DEX_OWNER_H

#include <stdint.h>

// word

#define DM_DEX_OWNER_WORD_STATE_OFFSET 0
#define DM_DEX_OWNER_WORD_STATE_BIT 0
#define DM_DEX_OWNER_WORD_STATE_BITS 4
#define DM_DEX_OWNER_WORD_OWNER_OFFSET 0
#define DM_DEX_OWNER_WORD_OWNER_BIT 4
#define DM_DEX_OWNER_WORD_OWNER_BITS 16
#define DM_DEX_OWNER_WORD_LOG_OFFSET 0
#define DM_DEX_OWNER_WORD_LOG_BIT 20
#define DM_DEX_OWNER_WORD_LOG_BITS 16
#define DM_DEX_OWNER_WORD_EPOCH_OFFSET 0
#define DM_DEX_OWNER_WORD_EPOCH_BIT 36
#define DM_DEX_OWNER_WORD_EPOCH_BITS 28
#define DM_DEX_OWNER_WORD_STRUCT_BYTES 8

struct dm_dex_owner_word {
    uint8_t bits_0[8];
};

// constants

#define DM_DEX_OWNER_EPOCHS_FOR_DEATHS UINT64_C(65536) // the last epochs: for recoveries, not for claims

#endif
