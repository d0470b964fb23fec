// dolphin_spear: first word of a leaf: who writes it, and who closes it. Made by `dm layout bless`; do not edit.

// One little-endian word. A compute node changes its own seat only, by FAA: +1 to enter, +2 to close, and the same
// subtracted. A retirement and the opening of the closer's seat are one FAA. A repair after a death is a CAS of the
// whole word. The word is never written otherwise, and not when the place is reused.

#ifndef DM_LAYOUT_DOLPHIN_SPEAR_H
#define DM_LAYOUT_DOLPHIN_SPEAR_H

#include <stdint.h>

// word

#define DM_DOLPHIN_SPEAR_WORD_SEAT_0_OFFSET 0
#define DM_DOLPHIN_SPEAR_WORD_SEAT_0_BIT 0
#define DM_DOLPHIN_SPEAR_WORD_SEAT_0_BITS 2
#define DM_DOLPHIN_SPEAR_WORD_SEATS_1_29_OFFSET 0
#define DM_DOLPHIN_SPEAR_WORD_SEATS_1_29_BIT 2
#define DM_DOLPHIN_SPEAR_WORD_SEATS_1_29_BITS 58
#define DM_DOLPHIN_SPEAR_WORD_RESERVED_OFFSET 0
#define DM_DOLPHIN_SPEAR_WORD_RESERVED_BIT 60
#define DM_DOLPHIN_SPEAR_WORD_RESERVED_BITS 3
#define DM_DOLPHIN_SPEAR_WORD_RETIRED_OFFSET 0
#define DM_DOLPHIN_SPEAR_WORD_RETIRED_BIT 63
#define DM_DOLPHIN_SPEAR_WORD_RETIRED_BITS 1
#define DM_DOLPHIN_SPEAR_WORD_STRUCT_BYTES 8

struct dm_dolphin_spear_word {
    uint8_t bits_0[8];
};

// constants

#define DM_DOLPHIN_SPEAR_SEATS UINT64_C(30) // compute nodes that can write to an index

#endif
