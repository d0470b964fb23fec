// catalog_entry: one index: its name, kind, parameters and root. Made by `dm layout bless`; do not edit.

// The words of all entries lie side by side, in whole lines; behind them the entries, four lines each. Those of
// memory node 0 count. All zero is a free entry. The entry word, the root word and the word of the ownership
// table are changed by CAS; the rest is written before the entry becomes live. Later only a rename writes: the
// name that does not count.

#ifndef DM_LAYOUT_CATALOG_ENTRY_H
#define DM_LAYOUT_CATALOG_ENTRY_H

#include <stdint.h>

// entry

#define DM_CATALOG_ENTRY_ENTRY_CHECKSUM_OFFSET 0
#define DM_CATALOG_ENTRY_ENTRY_CHECKSUM_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_CHECKSUM_BITS 32
#define DM_CATALOG_ENTRY_ENTRY_KIND_OFFSET 4
#define DM_CATALOG_ENTRY_ENTRY_KIND_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_KIND_BITS 16
#define DM_CATALOG_ENTRY_ENTRY_PARAMETERS_VERSION_OFFSET 6
#define DM_CATALOG_ENTRY_ENTRY_PARAMETERS_VERSION_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_PARAMETERS_VERSION_BITS 16
#define DM_CATALOG_ENTRY_ENTRY_FEATURES_COMPATIBLE_OFFSET 8
#define DM_CATALOG_ENTRY_ENTRY_FEATURES_COMPATIBLE_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_FEATURES_COMPATIBLE_BITS 64
#define DM_CATALOG_ENTRY_ENTRY_FEATURES_READ_ONLY_OFFSET 16
#define DM_CATALOG_ENTRY_ENTRY_FEATURES_READ_ONLY_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_FEATURES_READ_ONLY_BITS 64
#define DM_CATALOG_ENTRY_ENTRY_FEATURES_INCOMPATIBLE_OFFSET 24
#define DM_CATALOG_ENTRY_ENTRY_FEATURES_INCOMPATIBLE_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_FEATURES_INCOMPATIBLE_BITS 64
#define DM_CATALOG_ENTRY_ENTRY_PARAMETERS_OFFSET 32
#define DM_CATALOG_ENTRY_ENTRY_PARAMETERS_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_PARAMETERS_BITS 512
#define DM_CATALOG_ENTRY_ENTRY_RESERVED_96_OFFSET 96
#define DM_CATALOG_ENTRY_ENTRY_RESERVED_96_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_RESERVED_96_BITS 256
#define DM_CATALOG_ENTRY_ENTRY_NAME_0_CHECKSUM_OFFSET 128
#define DM_CATALOG_ENTRY_ENTRY_NAME_0_CHECKSUM_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_NAME_0_CHECKSUM_BITS 32
#define DM_CATALOG_ENTRY_ENTRY_NAME_0_BYTES_OFFSET 132
#define DM_CATALOG_ENTRY_ENTRY_NAME_0_BYTES_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_NAME_0_BYTES_BITS 8
#define DM_CATALOG_ENTRY_ENTRY_NAME_0_OFFSET 133
#define DM_CATALOG_ENTRY_ENTRY_NAME_0_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_NAME_0_BITS 376
#define DM_CATALOG_ENTRY_ENTRY_RESERVED_180_OFFSET 180
#define DM_CATALOG_ENTRY_ENTRY_RESERVED_180_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_RESERVED_180_BITS 32
#define DM_CATALOG_ENTRY_ENTRY_OWNERS_OFFSET 184
#define DM_CATALOG_ENTRY_ENTRY_OWNERS_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_OWNERS_BITS 64
#define DM_CATALOG_ENTRY_ENTRY_ROOT_OFFSET 192
#define DM_CATALOG_ENTRY_ENTRY_ROOT_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_ROOT_BITS 64
#define DM_CATALOG_ENTRY_ENTRY_NAME_1_CHECKSUM_OFFSET 200
#define DM_CATALOG_ENTRY_ENTRY_NAME_1_CHECKSUM_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_NAME_1_CHECKSUM_BITS 32
#define DM_CATALOG_ENTRY_ENTRY_NAME_1_BYTES_OFFSET 204
#define DM_CATALOG_ENTRY_ENTRY_NAME_1_BYTES_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_NAME_1_BYTES_BITS 8
#define DM_CATALOG_ENTRY_ENTRY_NAME_1_OFFSET 205
#define DM_CATALOG_ENTRY_ENTRY_NAME_1_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_NAME_1_BITS 376
#define DM_CATALOG_ENTRY_ENTRY_RESERVED_252_OFFSET 252
#define DM_CATALOG_ENTRY_ENTRY_RESERVED_252_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_RESERVED_252_BITS 32
#define DM_CATALOG_ENTRY_ENTRY_STRUCT_BYTES 256

struct dm_catalog_entry_entry {
    uint8_t checksum[4]; // CRC-32C of the bytes 4..128
    uint8_t kind[2]; // 1 = sherman, 2 = smart, 3 = chime, 4 = dolphin, 5 = dex
    uint8_t parameters_version[2]; // how to read the parameters, per kind
    uint8_t features_compatible[8]; // features its creator knew that readers may ignore
    uint8_t features_read_only[8]; // features it uses that writers must know
    uint8_t features_incompatible[8]; // features it uses that readers must know
    uint8_t parameters[64]; // sizes and options chosen at creation, read by the index
    uint8_t reserved_96[32]; // zero
    uint8_t name_0_checksum[4]; // CRC-32C of the bytes 132..180
    uint8_t name_0_bytes[1]; // length of the name, 1..=47
    uint8_t name_0[47]; // name, UTF-8, zero-padded
    uint8_t reserved_180[4]; // zero
    uint8_t owners[8]; // address of its ownership table, on memory node 0, of an index whose keys have owners; 0 = none yet
    uint8_t root[8]; // root word, read by the index; 0 = no root yet
    uint8_t name_1_checksum[4]; // CRC-32C of the bytes 204..252
    uint8_t name_1_bytes[1]; // length of the name, 1..=47
    uint8_t name_1[47]; // name, UTF-8, zero-padded
    uint8_t reserved_252[4]; // zero
};

// entry word

#define DM_CATALOG_ENTRY_ENTRY_WORD_STATE_OFFSET 0
#define DM_CATALOG_ENTRY_ENTRY_WORD_STATE_BIT 0
#define DM_CATALOG_ENTRY_ENTRY_WORD_STATE_BITS 3
#define DM_CATALOG_ENTRY_ENTRY_WORD_NAME_OFFSET 0
#define DM_CATALOG_ENTRY_ENTRY_WORD_NAME_BIT 3
#define DM_CATALOG_ENTRY_ENTRY_WORD_NAME_BITS 1
#define DM_CATALOG_ENTRY_ENTRY_WORD_TAG_OFFSET 0
#define DM_CATALOG_ENTRY_ENTRY_WORD_TAG_BIT 4
#define DM_CATALOG_ENTRY_ENTRY_WORD_TAG_BITS 20
#define DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_OFFSET 0
#define DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_BIT 24
#define DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_BITS 8
#define DM_CATALOG_ENTRY_ENTRY_WORD_ROW_OFFSET 0
#define DM_CATALOG_ENTRY_ENTRY_WORD_ROW_BIT 32
#define DM_CATALOG_ENTRY_ENTRY_WORD_ROW_BITS 16
#define DM_CATALOG_ENTRY_ENTRY_WORD_INCARNATION_OFFSET 0
#define DM_CATALOG_ENTRY_ENTRY_WORD_INCARNATION_BIT 48
#define DM_CATALOG_ENTRY_ENTRY_WORD_INCARNATION_BITS 16
#define DM_CATALOG_ENTRY_ENTRY_WORD_STRUCT_BYTES 8

struct dm_catalog_entry_entry_word {
    uint8_t bits_0[3];
    uint8_t request[1]; // tells creations, drops and renames of one compute node apart
    uint8_t row[2]; // compute-node row of the creator, or of the last that dropped or renamed it
    uint8_t incarnation[2]; // that compute node's incarnation
};

// constants

#define DM_CATALOG_ENTRY_INDEXES_MAX UINT64_C(255) // most entries of a catalog
#define DM_CATALOG_ENTRY_NAME_BYTES_MAX UINT64_C(47) // longest name

#endif
