// items_parameters: the end of a parameter block of an index with keys and values of any length. Made by `dm layout bless`; do not edit.

// The last eight bytes of the parameter block in the catalog entry; what is in front is the index below's, which has
// zeros here if all keys and values have one size; else the catalog entry has the incompatible feature FEATURE_ITEMS.
// If checksums is 1, it has the incompatible feature FEATURE_CHECKSUMS: see record_checksum. Sizes of values, here and in
// front, are those with the checksum.

#ifndef DM_LAYOUT_ITEMS_PARAMETERS_H
#define DM_LAYOUT_ITEMS_PARAMETERS_H

#include <stdint.h>

// fields, from offset 56 of the parameter block on

#define DM_ITEMS_PARAMETERS_KEY_BYTES_MAX_OFFSET 0
#define DM_ITEMS_PARAMETERS_KEY_BYTES_MAX_BIT 0
#define DM_ITEMS_PARAMETERS_KEY_BYTES_MAX_BITS 16
#define DM_ITEMS_PARAMETERS_VERSION_OFFSET 2
#define DM_ITEMS_PARAMETERS_VERSION_BIT 0
#define DM_ITEMS_PARAMETERS_VERSION_BITS 8
#define DM_ITEMS_PARAMETERS_CHECKSUMS_OFFSET 3
#define DM_ITEMS_PARAMETERS_CHECKSUMS_BIT 0
#define DM_ITEMS_PARAMETERS_CHECKSUMS_BITS 8
#define DM_ITEMS_PARAMETERS_VALUE_BYTES_MAX_OFFSET 4
#define DM_ITEMS_PARAMETERS_VALUE_BYTES_MAX_BIT 0
#define DM_ITEMS_PARAMETERS_VALUE_BYTES_MAX_BITS 32
#define DM_ITEMS_PARAMETERS_STRUCT_BYTES 8

struct dm_items_parameters {
    uint8_t key_bytes_max[2]; // the longest key, 1..=4096
    uint8_t version[1]; // 2; 0 = keys and values of one size; 1 = links had no checksum
    uint8_t checksums[1]; // 1 = each value ends with a checksum, with items or without (FEATURE_CHECKSUMS); else 0
    uint8_t value_bytes_max[4]; // the longest value, 0..=65536
};

// constants

#define DM_ITEMS_PARAMETERS_OFFSET UINT64_C(56) // in the parameter block
#define DM_ITEMS_PARAMETERS_FEATURE_ITEMS UINT64_C(1) // bit of the incompatible features
#define DM_ITEMS_PARAMETERS_FEATURE_CHECKSUMS UINT64_C(2) // bit of the incompatible features

#endif
