// dex_record: log record: the state of one key after a change. Made by `dm layout bless`; do not edit.

// Header, key, value; zeros up to the end of the last line. The checksum begins with the ring's seed: the CRC-32C of pool
// id, pool incarnation, token, incarnation and row, each as in the ring's description. Replay ends at the first
// line whose record has another line number or incarnation, or whose checksum does not hold.

#ifndef DM_LAYOUT_DEX_RECORD_H
#define DM_LAYOUT_DEX_RECORD_H

#include <stdint.h>

// header

#define DM_DEX_RECORD_HEADER_CHECKSUM_OFFSET 0
#define DM_DEX_RECORD_HEADER_CHECKSUM_BIT 0
#define DM_DEX_RECORD_HEADER_CHECKSUM_BITS 32
#define DM_DEX_RECORD_HEADER_LINES_OFFSET 4
#define DM_DEX_RECORD_HEADER_LINES_BIT 0
#define DM_DEX_RECORD_HEADER_LINES_BITS 8
#define DM_DEX_RECORD_HEADER_KIND_OFFSET 5
#define DM_DEX_RECORD_HEADER_KIND_BIT 0
#define DM_DEX_RECORD_HEADER_KIND_BITS 8
#define DM_DEX_RECORD_HEADER_KEY_BYTES_OFFSET 6
#define DM_DEX_RECORD_HEADER_KEY_BYTES_BIT 0
#define DM_DEX_RECORD_HEADER_KEY_BYTES_BITS 8
#define DM_DEX_RECORD_HEADER_RESERVED_7_OFFSET 7
#define DM_DEX_RECORD_HEADER_RESERVED_7_BIT 0
#define DM_DEX_RECORD_HEADER_RESERVED_7_BITS 8
#define DM_DEX_RECORD_HEADER_LSN_OFFSET 8
#define DM_DEX_RECORD_HEADER_LSN_BIT 0
#define DM_DEX_RECORD_HEADER_LSN_BITS 64
#define DM_DEX_RECORD_HEADER_ENTRY_OFFSET 16
#define DM_DEX_RECORD_HEADER_ENTRY_BIT 0
#define DM_DEX_RECORD_HEADER_ENTRY_BITS 32
#define DM_DEX_RECORD_HEADER_INCARNATION_OFFSET 20
#define DM_DEX_RECORD_HEADER_INCARNATION_BIT 0
#define DM_DEX_RECORD_HEADER_INCARNATION_BITS 32
#define DM_DEX_RECORD_HEADER_VALUE_BYTES_OFFSET 24
#define DM_DEX_RECORD_HEADER_VALUE_BYTES_BIT 0
#define DM_DEX_RECORD_HEADER_VALUE_BYTES_BITS 16
#define DM_DEX_RECORD_HEADER_RESERVED_26_OFFSET 26
#define DM_DEX_RECORD_HEADER_RESERVED_26_BIT 0
#define DM_DEX_RECORD_HEADER_RESERVED_26_BITS 48
#define DM_DEX_RECORD_HEADER_STRUCT_BYTES 32

struct dm_dex_record_header {
    uint8_t checksum[4]; // CRC-32C of the bytes behind it, to the record's last line's end, begun with the ring's seed
    uint8_t lines[1]; // lines of the record
    uint8_t kind[1]; // 1 = put, 2 = delete, 3 = none: an LSN that no record needs
    uint8_t key_bytes[1]; // length of the key; 0 in a record of kind none
    uint8_t reserved_7[1]; // zero
    uint8_t lsn[8]; // number of the record's first line, and epoch of the tenure: dex_lsn
    uint8_t entry[4]; // entry of the ownership table
    uint8_t incarnation[4]; // incarnation of the row whose ring this is
    uint8_t value_bytes[2]; // length of the new value; 0 unless the kind is put
    uint8_t reserved_26[6]; // zero
};

// constants

#define DM_DEX_RECORD_RECORD_LINES_MAX UINT64_C(18) // lines of the longest record

#endif
