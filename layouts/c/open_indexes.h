// open_indexes: list of open indexes: where a compute node may have locks. Made by `dm layout bless`; do not edit.

// A line at the start of the slot behind the last redo slot of a compute node's area on memory node 0. Its compute node
// WRITEs it whenever it opens or closes an index. Without a list that fits the row, nothing is known of it.

#ifndef DM_LAYOUT_OPEN_INDEXES_H
#define DM_LAYOUT_OPEN_INDEXES_H

#include <stdint.h>

// line

#define DM_OPEN_INDEXES_LINE_CHECKSUM_OFFSET 0
#define DM_OPEN_INDEXES_LINE_CHECKSUM_BIT 0
#define DM_OPEN_INDEXES_LINE_CHECKSUM_BITS 32
#define DM_OPEN_INDEXES_LINE_INCARNATION_OFFSET 4
#define DM_OPEN_INDEXES_LINE_INCARNATION_BIT 0
#define DM_OPEN_INDEXES_LINE_INCARNATION_BITS 32
#define DM_OPEN_INDEXES_LINE_ROW_OFFSET 8
#define DM_OPEN_INDEXES_LINE_ROW_BIT 0
#define DM_OPEN_INDEXES_LINE_ROW_BITS 16
#define DM_OPEN_INDEXES_LINE_RESERVED_10_OFFSET 10
#define DM_OPEN_INDEXES_LINE_RESERVED_10_BIT 0
#define DM_OPEN_INDEXES_LINE_RESERVED_10_BITS 176
#define DM_OPEN_INDEXES_LINE_INDEXES_OFFSET 32
#define DM_OPEN_INDEXES_LINE_INDEXES_BIT 0
#define DM_OPEN_INDEXES_LINE_INDEXES_BITS 256
#define DM_OPEN_INDEXES_LINE_STRUCT_BYTES 64

struct dm_open_indexes_line {
    uint8_t checksum[4]; // CRC-32C of the rest
    uint8_t incarnation[4]; // incarnation of the row
    uint8_t row[2]; // the compute-node row
    uint8_t reserved_10[22]; // zero
    uint8_t indexes[32]; // a bit for each entry of the catalog, from the low ones up: 1 = open, or left with a lock held
};

#endif
