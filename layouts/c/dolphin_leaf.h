// dolphin_leaf: leaf of a Dolphin index. Made by `dm layout bless`; do not edit.

// The head never changes but for its first word, and for the heirs right before the leaf is retired. A key cell is
// bound once in a leaf's life. A record is there if its key cell has the key and its value cell is not absent: values
// of 8 bytes, not the leaf's absent word; of 9 to 63, a state byte of 1 and then the value; longer ones, the name of a
// block (dolphin_block) that is not 0. No line cuts a cell: key cells come first, as many to a line as fit; value
// cells fill what is left of these lines, words at multiples of 8, and the lines behind.

#ifndef DM_LAYOUT_DOLPHIN_LEAF_H
#define DM_LAYOUT_DOLPHIN_LEAF_H

#include <stdint.h>

// head

#define DM_DOLPHIN_LEAF_HEAD_SPEAR_OFFSET 0
#define DM_DOLPHIN_LEAF_HEAD_SPEAR_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_SPEAR_BITS 64
#define DM_DOLPHIN_LEAF_HEAD_HEIR_0_OFFSET 8
#define DM_DOLPHIN_LEAF_HEAD_HEIR_0_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_HEIR_0_BITS 64
#define DM_DOLPHIN_LEAF_HEAD_HEIR_1_OFFSET 16
#define DM_DOLPHIN_LEAF_HEAD_HEIR_1_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_HEIR_1_BITS 64
#define DM_DOLPHIN_LEAF_HEAD_GENERATION_OFFSET 24
#define DM_DOLPHIN_LEAF_HEAD_GENERATION_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_GENERATION_BITS 6
#define DM_DOLPHIN_LEAF_HEAD_RESERVED_OFFSET 24
#define DM_DOLPHIN_LEAF_HEAD_RESERVED_BIT 6
#define DM_DOLPHIN_LEAF_HEAD_RESERVED_BITS 2
#define DM_DOLPHIN_LEAF_HEAD_INDEX_OFFSET 25
#define DM_DOLPHIN_LEAF_HEAD_INDEX_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_INDEX_BITS 8
#define DM_DOLPHIN_LEAF_HEAD_POSITION_OFFSET 26
#define DM_DOLPHIN_LEAF_HEAD_POSITION_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_POSITION_BITS 8
#define DM_DOLPHIN_LEAF_HEAD_LOW_OFFSET 27
#define DM_DOLPHIN_LEAF_HEAD_LOW_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_LOW_BITS 8
#define DM_DOLPHIN_LEAF_HEAD_LAST_OFFSET 28
#define DM_DOLPHIN_LEAF_HEAD_LAST_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_LAST_BITS 8
#define DM_DOLPHIN_LEAF_HEAD_OWNER_OFFSET 29
#define DM_DOLPHIN_LEAF_HEAD_OWNER_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_OWNER_BITS 22
#define DM_DOLPHIN_LEAF_HEAD_ABSENT_OFFSET 32
#define DM_DOLPHIN_LEAF_HEAD_ABSENT_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_ABSENT_BITS 8
#define DM_DOLPHIN_LEAF_HEAD_PREFIX_OFFSET 33
#define DM_DOLPHIN_LEAF_HEAD_PREFIX_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_PREFIX_BITS 248
#define DM_DOLPHIN_LEAF_HEAD_GENERATION_64_OFFSET 64
#define DM_DOLPHIN_LEAF_HEAD_GENERATION_64_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_GENERATION_64_BITS 6
#define DM_DOLPHIN_LEAF_HEAD_PREFIX_65_OFFSET 65
#define DM_DOLPHIN_LEAF_HEAD_PREFIX_65_BIT 0
#define DM_DOLPHIN_LEAF_HEAD_PREFIX_65_BITS 256
#define DM_DOLPHIN_LEAF_HEAD_STRUCT_BYTES 97

struct dm_dolphin_leaf_head {
    uint8_t spear[8]; // see dolphin_spear; changed by FAA and CAS only
    uint8_t heir_0[8]; // retired: slot word (see dolphin_slot) of what owns the tile now; else nothing
    uint8_t heir_1[8]; // retired: slot word of the leaf that owns the tile from its byte on; 0: none
    uint8_t bits_24[1];
    uint8_t index[1]; // catalog number of the index, plus 1; 0: no leaf was ever written here
    uint8_t position[1]; // bytes of the prefix, less than K
    uint8_t low[1]; // smallest value of the byte behind the prefix
    uint8_t last[1]; // its largest value, included
    uint8_t bits_29[3];
    uint8_t absent[1]; // values of 8 bytes: n <= 60, 2^64 - 1 - n means "absent" in this leaf; else 0
    uint8_t prefix[31]; // bytes with which all keys begin, its first 31; then 0
    uint8_t bits_64[1];
    uint8_t prefix_65[32]; // K > 32: its bytes from the 32nd on; then 0 to the line's end
};

// cells, keys and values of 8 bytes

#define DM_DOLPHIN_LEAF_CELLS_KEY_CELL_0_OFFSET 64
#define DM_DOLPHIN_LEAF_CELLS_KEY_CELL_0_BIT 0
#define DM_DOLPHIN_LEAF_CELLS_KEY_CELL_0_BITS 64
#define DM_DOLPHIN_LEAF_CELLS_KEY_CELL_1_OFFSET 72
#define DM_DOLPHIN_LEAF_CELLS_KEY_CELL_1_BIT 0
#define DM_DOLPHIN_LEAF_CELLS_KEY_CELL_1_BITS 64
#define DM_DOLPHIN_LEAF_CELLS_VALUE_CELL_0_OFFSET 544
#define DM_DOLPHIN_LEAF_CELLS_VALUE_CELL_0_BIT 0
#define DM_DOLPHIN_LEAF_CELLS_VALUE_CELL_0_BITS 64
#define DM_DOLPHIN_LEAF_CELLS_VALUE_CELL_1_OFFSET 552
#define DM_DOLPHIN_LEAF_CELLS_VALUE_CELL_1_BIT 0
#define DM_DOLPHIN_LEAF_CELLS_VALUE_CELL_1_BITS 64
#define DM_DOLPHIN_LEAF_CELLS_STRUCT_BYTES 560

struct dm_dolphin_leaf_cells {
    uint8_t gap_0[64];
    uint8_t key_cell_0[8]; // the key, bound once; not bound: all 00, or all ff if the bounds begin at 0
    uint8_t key_cell_1[8]; // and so on, up to 60 cells
    uint8_t gap_80[464];
    uint8_t value_cell_0[8]; // the value, or the leaf's absent word
    uint8_t value_cell_1[8]; // and so on
};

// constants

#define DM_DOLPHIN_LEAF_LEAF_BYTES UINT64_C(1024) // of a leaf, whatever the sizes
#define DM_DOLPHIN_LEAF_PREFIX_BYTES UINT64_C(31) // of a prefix in the first line
#define DM_DOLPHIN_LEAF_SPAN_8_8 UINT64_C(60) // records with keys and values of 8 bytes
#define DM_DOLPHIN_LEAF_SPAN_32_8 UINT64_C(24) // keys of 32
#define DM_DOLPHIN_LEAF_SPAN_64_8 UINT64_C(12) // keys of 64
#define DM_DOLPHIN_LEAF_SPAN_8_16 UINT64_C(33) // values of 16
#define DM_DOLPHIN_LEAF_SPAN_8_1024 UINT64_C(60) // values in blocks

#endif
