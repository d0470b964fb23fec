// chime_parameters: parameter block of a CHIME index in its catalog entry. Made by `dm layout bless`; do not edit.


#ifndef DM_LAYOUT_CHIME_PARAMETERS_H
#define DM_LAYOUT_CHIME_PARAMETERS_H

#include <stdint.h>

// fields

#define DM_CHIME_PARAMETERS_KEY_BYTES_OFFSET 0
#define DM_CHIME_PARAMETERS_KEY_BYTES_BIT 0
#define DM_CHIME_PARAMETERS_KEY_BYTES_BITS 16
#define DM_CHIME_PARAMETERS_LEAF_SPAN_OFFSET 2
#define DM_CHIME_PARAMETERS_LEAF_SPAN_BIT 0
#define DM_CHIME_PARAMETERS_LEAF_SPAN_BITS 16
#define DM_CHIME_PARAMETERS_VALUE_BYTES_OFFSET 4
#define DM_CHIME_PARAMETERS_VALUE_BYTES_BIT 0
#define DM_CHIME_PARAMETERS_VALUE_BYTES_BITS 32
#define DM_CHIME_PARAMETERS_INNER_SPAN_OFFSET 8
#define DM_CHIME_PARAMETERS_INNER_SPAN_BIT 0
#define DM_CHIME_PARAMETERS_INNER_SPAN_BITS 16
#define DM_CHIME_PARAMETERS_NEIGHBORHOOD_OFFSET 10
#define DM_CHIME_PARAMETERS_NEIGHBORHOOD_BIT 0
#define DM_CHIME_PARAMETERS_NEIGHBORHOOD_BITS 8
#define DM_CHIME_PARAMETERS_HASH_OFFSET 11
#define DM_CHIME_PARAMETERS_HASH_BIT 0
#define DM_CHIME_PARAMETERS_HASH_BITS 8
#define DM_CHIME_PARAMETERS_FLAGS_OFFSET 12
#define DM_CHIME_PARAMETERS_FLAGS_BIT 0
#define DM_CHIME_PARAMETERS_FLAGS_BITS 32
#define DM_CHIME_PARAMETERS_RESERVED_16_OFFSET 16
#define DM_CHIME_PARAMETERS_RESERVED_16_BIT 0
#define DM_CHIME_PARAMETERS_RESERVED_16_BITS 384
#define DM_CHIME_PARAMETERS_STRUCT_BYTES 64

struct dm_chime_parameters {
    uint8_t key_bytes[2]; // key slot, 8..=64
    uint8_t leaf_span[2]; // entries per leaf, 8..=512
    uint8_t value_bytes[4]; // inline value, 8..=1024
    uint8_t inner_span[2]; // separators per inner node, 2..=1024
    uint8_t neighborhood[1]; // entries of a neighborhood, 2..=16
    uint8_t hash[1]; // what places keys: 1 = CityHash64 of version 1.1
    uint8_t flags[4]; // options that change what is stored; none yet
    uint8_t reserved_16[48]; // zero
};

// constants

#define DM_CHIME_PARAMETERS_VERSION UINT64_C(1) // of the block

#endif
