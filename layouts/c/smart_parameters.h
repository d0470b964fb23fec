// smart_parameters: parameter block of a SMART index in its catalog entry. Made by `dm layout bless`; do not edit.


#ifndef DM_LAYOUT_SMART_PARAMETERS_H
#define DM_LAYOUT_SMART_PARAMETERS_H

#include <stdint.h>

// fields

#define DM_SMART_PARAMETERS_KEY_BYTES_OFFSET 0
#define DM_SMART_PARAMETERS_KEY_BYTES_BIT 0
#define DM_SMART_PARAMETERS_KEY_BYTES_BITS 16
#define DM_SMART_PARAMETERS_NODE_SLOTS_OFFSET 2
#define DM_SMART_PARAMETERS_NODE_SLOTS_BIT 0
#define DM_SMART_PARAMETERS_NODE_SLOTS_BITS 16
#define DM_SMART_PARAMETERS_VALUE_BYTES_OFFSET 4
#define DM_SMART_PARAMETERS_VALUE_BYTES_BIT 0
#define DM_SMART_PARAMETERS_VALUE_BYTES_BITS 32
#define DM_SMART_PARAMETERS_FLAGS_OFFSET 8
#define DM_SMART_PARAMETERS_FLAGS_BIT 0
#define DM_SMART_PARAMETERS_FLAGS_BITS 32
#define DM_SMART_PARAMETERS_RESERVED_12_OFFSET 12
#define DM_SMART_PARAMETERS_RESERVED_12_BIT 0
#define DM_SMART_PARAMETERS_RESERVED_12_BITS 416
#define DM_SMART_PARAMETERS_STRUCT_BYTES 64

struct dm_smart_parameters {
    uint8_t key_bytes[2]; // key slot, 8..=64
    uint8_t node_slots[2]; // slots of a new inner node, 8 or 16; 0 = 4
    uint8_t value_bytes[4]; // inline value, 8..=1024
    uint8_t flags[4]; // options that change what is stored; none yet
    uint8_t reserved_12[52]; // zero
};

// constants

#define DM_SMART_PARAMETERS_VERSION UINT64_C(1) // of the block

#endif
