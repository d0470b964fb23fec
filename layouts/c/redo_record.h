// redo_record: redo record: what a WRITE under a lock was about to do. Made by `dm layout bless`; do not edit.

// Header, then the bytes of the WRITE, then those of a second one that has to land with it. A record fills a slot of
// its compute node's redo area on the memory node of the lock, from the slot's start; the row says where slots are
// and how long. The last step under a lock word counts, if its checksum holds.

#ifndef DM_LAYOUT_REDO_RECORD_H
#define DM_LAYOUT_REDO_RECORD_H

#include <stdint.h>

// header

#define DM_REDO_RECORD_HEADER_CHECKSUM_OFFSET 0
#define DM_REDO_RECORD_HEADER_CHECKSUM_BIT 0
#define DM_REDO_RECORD_HEADER_CHECKSUM_BITS 32
#define DM_REDO_RECORD_HEADER_BYTES_OFFSET 4
#define DM_REDO_RECORD_HEADER_BYTES_BIT 0
#define DM_REDO_RECORD_HEADER_BYTES_BITS 32
#define DM_REDO_RECORD_HEADER_WORD_OFFSET 8
#define DM_REDO_RECORD_HEADER_WORD_BIT 0
#define DM_REDO_RECORD_HEADER_WORD_BITS 64
#define DM_REDO_RECORD_HEADER_OFFSET_OFFSET 16
#define DM_REDO_RECORD_HEADER_OFFSET_BIT 0
#define DM_REDO_RECORD_HEADER_OFFSET_BITS 64
#define DM_REDO_RECORD_HEADER_LOCK_OFFSET 24
#define DM_REDO_RECORD_HEADER_LOCK_BIT 0
#define DM_REDO_RECORD_HEADER_LOCK_BITS 32
#define DM_REDO_RECORD_HEADER_INCARNATION_OFFSET 28
#define DM_REDO_RECORD_HEADER_INCARNATION_BIT 0
#define DM_REDO_RECORD_HEADER_INCARNATION_BITS 32
#define DM_REDO_RECORD_HEADER_STEP_OFFSET 32
#define DM_REDO_RECORD_HEADER_STEP_BIT 0
#define DM_REDO_RECORD_HEADER_STEP_BITS 32
#define DM_REDO_RECORD_HEADER_REPAIR_OFFSET 36
#define DM_REDO_RECORD_HEADER_REPAIR_BIT 0
#define DM_REDO_RECORD_HEADER_REPAIR_BITS 32
#define DM_REDO_RECORD_HEADER_MORE_OFFSET_OFFSET 40
#define DM_REDO_RECORD_HEADER_MORE_OFFSET_BIT 0
#define DM_REDO_RECORD_HEADER_MORE_OFFSET_BITS 64
#define DM_REDO_RECORD_HEADER_MORE_BYTES_OFFSET 48
#define DM_REDO_RECORD_HEADER_MORE_BYTES_BIT 0
#define DM_REDO_RECORD_HEADER_MORE_BYTES_BITS 32
#define DM_REDO_RECORD_HEADER_RESERVED_52_OFFSET 52
#define DM_REDO_RECORD_HEADER_RESERVED_52_BIT 0
#define DM_REDO_RECORD_HEADER_RESERVED_52_BITS 96
#define DM_REDO_RECORD_HEADER_STRUCT_BYTES 64

struct dm_redo_record_header {
    uint8_t checksum[4]; // CRC-32C of the header behind it and of the bytes
    uint8_t bytes[4]; // length of the WRITE
    uint8_t word[8]; // lock word under which it was posted
    uint8_t offset[8]; // byte offset of the WRITE on this memory node
    uint8_t lock[4]; // index of the lock word in this memory node's table; of one that lies in a node, the node's line
    uint8_t incarnation[4]; // incarnation of the row in the lock word
    uint8_t step[4]; // counts up over the WRITEs under one lock word
    uint8_t repair[4]; // 1 = copied from a dead compute node's area by one that was taking over
    uint8_t more_offset[8]; // byte offset of a second WRITE that belongs to it
    uint8_t more_bytes[4]; // its length, 0: there is none; its bytes follow those of the first
    uint8_t reserved_52[12]; // zero
};

// constants

#define DM_REDO_RECORD_HEADER_BYTES UINT64_C(64) // the bytes begin behind them
#define DM_REDO_RECORD_SLOTS_PER_LANE UINT64_C(4) // slots of a lane on each memory node
#define DM_REDO_RECORD_SLOTS_FOR_WRITES UINT64_C(3) // of these for WRITEs; the other is for copies of repairers

#endif
