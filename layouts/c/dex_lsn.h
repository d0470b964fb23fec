// dex_lsn: log sequence number: where a change is in the history of its entry. Made by `dm layout bless`; do not edit.

// One little-endian word in log records, leaves and page images; compared as a number.

#ifndef DM_LAYOUT_DEX_LSN_H
#define DM_LAYOUT_DEX_LSN_H

#include <stdint.h>

// word

#define DM_DEX_LSN_WORD_LINE_OFFSET 0
#define DM_DEX_LSN_WORD_LINE_BIT 0
#define DM_DEX_LSN_WORD_LINE_BITS 36
#define DM_DEX_LSN_WORD_EPOCH_OFFSET 0
#define DM_DEX_LSN_WORD_EPOCH_BIT 36
#define DM_DEX_LSN_WORD_EPOCH_BITS 28
#define DM_DEX_LSN_WORD_STRUCT_BYTES 8

struct dm_dex_lsn_word {
    uint8_t bits_0[8];
};

// constants

#define DM_DEX_LSN_LINES_END UINT64_C(68719476736) // line numbers lie below it; the owner's tenures are renewed before

#endif
