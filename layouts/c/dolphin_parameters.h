// dolphin_parameters: parameter block of a Dolphin index in its catalog entry. Made by `dm layout bless`; do not edit.


#ifndef DM_LAYOUT_DOLPHIN_PARAMETERS_H
#define DM_LAYOUT_DOLPHIN_PARAMETERS_H

#include <stdint.h>

// fields

#define DM_DOLPHIN_PARAMETERS_KEY_BYTES_OFFSET 0
#define DM_DOLPHIN_PARAMETERS_KEY_BYTES_BIT 0
#define DM_DOLPHIN_PARAMETERS_KEY_BYTES_BITS 16
#define DM_DOLPHIN_PARAMETERS_RESERVED_2_OFFSET 2
#define DM_DOLPHIN_PARAMETERS_RESERVED_2_BIT 0
#define DM_DOLPHIN_PARAMETERS_RESERVED_2_BITS 16
#define DM_DOLPHIN_PARAMETERS_VALUE_BYTES_OFFSET 4
#define DM_DOLPHIN_PARAMETERS_VALUE_BYTES_BIT 0
#define DM_DOLPHIN_PARAMETERS_VALUE_BYTES_BITS 32
#define DM_DOLPHIN_PARAMETERS_FLAGS_OFFSET 8
#define DM_DOLPHIN_PARAMETERS_FLAGS_BIT 0
#define DM_DOLPHIN_PARAMETERS_FLAGS_BITS 32
#define DM_DOLPHIN_PARAMETERS_RESERVED_12_OFFSET 12
#define DM_DOLPHIN_PARAMETERS_RESERVED_12_BIT 0
#define DM_DOLPHIN_PARAMETERS_RESERVED_12_BITS 416
#define DM_DOLPHIN_PARAMETERS_STRUCT_BYTES 64

struct dm_dolphin_parameters {
    uint8_t key_bytes[2]; // key, 8..=64
    uint8_t reserved_2[2]; // zero
    uint8_t value_bytes[4]; // value, 8..=1024: 8 a word, up to 63 with a state byte, longer ones in blocks
    uint8_t flags[4]; // 1: the keys of a leaf differ in the last byte only
    uint8_t reserved_12[52]; // zero
};

// constants

#define DM_DOLPHIN_PARAMETERS_VERSION UINT64_C(1) // of the block

#endif
