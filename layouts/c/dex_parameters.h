// dex_parameters: parameter block of a DEX index in its catalog entry. Made by `dm layout bless`; do not edit.


#ifndef DM_LAYOUT_DEX_PARAMETERS_H
#define DM_LAYOUT_DEX_PARAMETERS_H

#include <stdint.h>

// fields

#define DM_DEX_PARAMETERS_KEY_BYTES_OFFSET 0
#define DM_DEX_PARAMETERS_KEY_BYTES_BIT 0
#define DM_DEX_PARAMETERS_KEY_BYTES_BITS 16
#define DM_DEX_PARAMETERS_LEAF_SPAN_OFFSET 2
#define DM_DEX_PARAMETERS_LEAF_SPAN_BIT 0
#define DM_DEX_PARAMETERS_LEAF_SPAN_BITS 16
#define DM_DEX_PARAMETERS_VALUE_BYTES_OFFSET 4
#define DM_DEX_PARAMETERS_VALUE_BYTES_BIT 0
#define DM_DEX_PARAMETERS_VALUE_BYTES_BITS 32
#define DM_DEX_PARAMETERS_INNER_SPAN_OFFSET 8
#define DM_DEX_PARAMETERS_INNER_SPAN_BIT 0
#define DM_DEX_PARAMETERS_INNER_SPAN_BITS 16
#define DM_DEX_PARAMETERS_CUT_OFFSET 10
#define DM_DEX_PARAMETERS_CUT_BIT 0
#define DM_DEX_PARAMETERS_CUT_BITS 8
#define DM_DEX_PARAMETERS_RESERVED_11_OFFSET 11
#define DM_DEX_PARAMETERS_RESERVED_11_BIT 0
#define DM_DEX_PARAMETERS_RESERVED_11_BITS 8
#define DM_DEX_PARAMETERS_ENTRIES_OFFSET 12
#define DM_DEX_PARAMETERS_ENTRIES_BIT 0
#define DM_DEX_PARAMETERS_ENTRIES_BITS 32
#define DM_DEX_PARAMETERS_SPARE_OFFSET 16
#define DM_DEX_PARAMETERS_SPARE_BIT 0
#define DM_DEX_PARAMETERS_SPARE_BITS 32
#define DM_DEX_PARAMETERS_RESERVED_20_OFFSET 20
#define DM_DEX_PARAMETERS_RESERVED_20_BIT 0
#define DM_DEX_PARAMETERS_RESERVED_20_BITS 32
#define DM_DEX_PARAMETERS_FIRST_OFFSET 24
#define DM_DEX_PARAMETERS_FIRST_BIT 0
#define DM_DEX_PARAMETERS_FIRST_BITS 64
#define DM_DEX_PARAMETERS_LAST_OFFSET 32
#define DM_DEX_PARAMETERS_LAST_BIT 0
#define DM_DEX_PARAMETERS_LAST_BITS 64
#define DM_DEX_PARAMETERS_RESERVED_40_OFFSET 40
#define DM_DEX_PARAMETERS_RESERVED_40_BIT 0
#define DM_DEX_PARAMETERS_RESERVED_40_BITS 192
#define DM_DEX_PARAMETERS_STRUCT_BYTES 64

struct dm_dex_parameters {
    uint8_t key_bytes[2]; // key slot, 8..=64
    uint8_t leaf_span[2]; // entries per leaf, 2..=512
    uint8_t value_bytes[4]; // inline value, 8..=1024
    uint8_t inner_span[2]; // separators per inner node, 2..=1024
    uint8_t cut[1]; // how keys were cut into entries: 0 = boundaries were given, 1 = evenly, 2 = quantiles of a bulk load
    uint8_t reserved_11[1]; // zero
    uint8_t entries[4]; // entries into which keys were cut, 1..=4096; boundaries that are given: at most
    uint8_t spare[4]; // entries more for which the ownership table has room, for cuts; 4096 in all at most
    uint8_t reserved_20[4]; // zero
    uint8_t first[8]; // cut evenly: the first eight bytes of the least key, as a big-endian number
    uint8_t last[8]; // cut evenly: those of the greatest key
    uint8_t reserved_40[24]; // zero
};

// constants

#define DM_DEX_PARAMETERS_VERSION UINT64_C(1) // of the block

#endif
