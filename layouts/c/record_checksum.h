// record_checksum: value of an index whose records have checksums. Made by `dm layout bless`; do not edit.

// What an index has for a value, if its catalog entry has the incompatible feature FEATURE_CHECKSUMS: the user's value, and
// the checksum behind its last byte. Where keys have any length, the key is the user's, not that of an entry.

#ifndef DM_LAYOUT_RECORD_CHECKSUM_H
#define DM_LAYOUT_RECORD_CHECKSUM_H

#include <stdint.h>

// value of 8 bytes

#define DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_VALUE_OFFSET 0
#define DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_VALUE_BIT 0
#define DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_VALUE_BITS 64
#define DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_CHECKSUM_OFFSET 8
#define DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_CHECKSUM_BIT 0
#define DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_CHECKSUM_BITS 32
#define DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_STRUCT_BYTES 12

struct dm_record_checksum_value_of_8_bytes {
    uint8_t value[8]; // the user's
    uint8_t checksum[4]; // CRC-32C of the key, then of the value; little-endian
};

// constants

#define DM_RECORD_CHECKSUM_FEATURE_CHECKSUMS UINT64_C(2) // bit of the incompatible features

#endif
