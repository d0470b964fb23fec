// sherman_parameters: parameter block of a Sherman index in its catalog entry. Made by `dm layout bless`; do not edit.


#ifndef DM_LAYOUT_SHERMAN_PARAMETERS_H
#define DM_LAYOUT_SHERMAN_PARAMETERS_H

#include <stdint.h>

// fields

#define DM_SHERMAN_PARAMETERS_KEY_BYTES_OFFSET 0
#define DM_SHERMAN_PARAMETERS_KEY_BYTES_BIT 0
#define DM_SHERMAN_PARAMETERS_KEY_BYTES_BITS 16
#define DM_SHERMAN_PARAMETERS_LEAF_SPAN_OFFSET 2
#define DM_SHERMAN_PARAMETERS_LEAF_SPAN_BIT 0
#define DM_SHERMAN_PARAMETERS_LEAF_SPAN_BITS 16
#define DM_SHERMAN_PARAMETERS_VALUE_BYTES_OFFSET 4
#define DM_SHERMAN_PARAMETERS_VALUE_BYTES_BIT 0
#define DM_SHERMAN_PARAMETERS_VALUE_BYTES_BITS 32
#define DM_SHERMAN_PARAMETERS_INNER_SPAN_OFFSET 8
#define DM_SHERMAN_PARAMETERS_INNER_SPAN_BIT 0
#define DM_SHERMAN_PARAMETERS_INNER_SPAN_BITS 16
#define DM_SHERMAN_PARAMETERS_RESERVED_10_OFFSET 10
#define DM_SHERMAN_PARAMETERS_RESERVED_10_BIT 0
#define DM_SHERMAN_PARAMETERS_RESERVED_10_BITS 16
#define DM_SHERMAN_PARAMETERS_FLAGS_OFFSET 12
#define DM_SHERMAN_PARAMETERS_FLAGS_BIT 0
#define DM_SHERMAN_PARAMETERS_FLAGS_BITS 32
#define DM_SHERMAN_PARAMETERS_RESERVED_16_OFFSET 16
#define DM_SHERMAN_PARAMETERS_RESERVED_16_BIT 0
#define DM_SHERMAN_PARAMETERS_RESERVED_16_BITS 384
#define DM_SHERMAN_PARAMETERS_STRUCT_BYTES 64

struct dm_sherman_parameters {
    uint8_t key_bytes[2]; // key slot, 8..=64
    uint8_t leaf_span[2]; // entries per leaf, 2..=512
    uint8_t value_bytes[4]; // inline value, 8..=1024
    uint8_t inner_span[2]; // separators per inner node, 2..=1024
    uint8_t reserved_10[2]; // zero
    uint8_t flags[4]; // options that change what is stored; none yet
    uint8_t reserved_16[48]; // zero
};

// constants

#define DM_SHERMAN_PARAMETERS_VERSION UINT64_C(1) // of the block

#endif
