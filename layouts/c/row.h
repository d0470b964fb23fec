// row: compute-node row: one compute node of the pool. Made by `dm layout bless`; do not edit.

// Two lines; those of memory node 0 count, row 0 is nobody. All zero is a free row that nobody ever joined. The
// row word is changed by CAS only; the compute node WRITEs the rest. While the incarnation of the rest is not
// that of the word, or the token does not end in its nonce, the rest is of an earlier life and means nothing.

#ifndef DM_LAYOUT_ROW_H
#define DM_LAYOUT_ROW_H

#include <stdint.h>

// row

#define DM_ROW_WORD_OFFSET 0
#define DM_ROW_WORD_BIT 0
#define DM_ROW_WORD_BITS 64
#define DM_ROW_HEARTBEAT_OFFSET 8
#define DM_ROW_HEARTBEAT_BIT 0
#define DM_ROW_HEARTBEAT_BITS 64
#define DM_ROW_EPOCH_OFFSET 16
#define DM_ROW_EPOCH_BIT 0
#define DM_ROW_EPOCH_BITS 64
#define DM_ROW_INCARNATION_OFFSET 24
#define DM_ROW_INCARNATION_BIT 0
#define DM_ROW_INCARNATION_BITS 32
#define DM_ROW_LANES_OFFSET 28
#define DM_ROW_LANES_BIT 0
#define DM_ROW_LANES_BITS 16
#define DM_ROW_MEMORY_NODES_OFFSET 30
#define DM_ROW_MEMORY_NODES_BIT 0
#define DM_ROW_MEMORY_NODES_BITS 16
#define DM_ROW_TOKEN_OFFSET 32
#define DM_ROW_TOKEN_BIT 0
#define DM_ROW_TOKEN_BITS 64
#define DM_ROW_REDO_SLOT_BYTES_OFFSET 40
#define DM_ROW_REDO_SLOT_BYTES_BIT 0
#define DM_ROW_REDO_SLOT_BYTES_BITS 32
#define DM_ROW_REDO_SLOTS_OFFSET 44
#define DM_ROW_REDO_SLOTS_BIT 0
#define DM_ROW_REDO_SLOTS_BITS 32
#define DM_ROW_LEASE_US_OFFSET 48
#define DM_ROW_LEASE_US_BIT 0
#define DM_ROW_LEASE_US_BITS 32
#define DM_ROW_GIVEN_UP_OFFSET 52
#define DM_ROW_GIVEN_UP_BIT 0
#define DM_ROW_GIVEN_UP_BITS 32
#define DM_ROW_RING_OFFSET 56
#define DM_ROW_RING_BIT 0
#define DM_ROW_RING_BITS 64
#define DM_ROW_REDO_OFFSET 64
#define DM_ROW_REDO_BIT 0
#define DM_ROW_REDO_BITS 256
#define DM_ROW_HOST_BYTES_OFFSET 96
#define DM_ROW_HOST_BYTES_BIT 0
#define DM_ROW_HOST_BYTES_BITS 8
#define DM_ROW_HOST_OFFSET 97
#define DM_ROW_HOST_BIT 0
#define DM_ROW_HOST_BITS 248
#define DM_ROW_STRUCT_BYTES 128

struct dm_row {
    uint8_t word[8]; // row word: state, nonce, incarnation
    uint8_t heartbeat[8]; // counter, raised while the compute node lives
    uint8_t epoch[8]; // reclamation epoch it has reached; 0 = none; of row 0: how often the pool's epoch was raised
    uint8_t incarnation[4]; // incarnation that the fields from offset 8 on belong to
    uint8_t lanes[2]; // lanes of the compute node
    uint8_t memory_nodes[2]; // memory nodes that it knows; of row 0: of the pool, once one was added, else 0
    uint8_t token[8]; // random number of the process that joined
    uint8_t redo_slot_bytes[4]; // bytes of a slot of its redo area on this memory node
    uint8_t redo_slots[4]; // slots of its redo area on this memory node; 0 = none
    uint8_t lease_us[4]; // how long it may be silent before others may take it for dead, in us; 0 = it has not said
    uint8_t given_up[4]; // how often it has given up calls to other compute nodes
    uint8_t ring[8]; // address of the first chunk of its log ring, on any memory node; 0 = none
    uint8_t redo[32]; // addresses of its redo chunks on this memory node; 0 = none
    uint8_t host_bytes[1]; // length of the host name
    uint8_t host[31]; // host name, UTF-8, zero-padded
};

// row word

#define DM_ROW_ROW_WORD_STATE_OFFSET 0
#define DM_ROW_ROW_WORD_STATE_BIT 0
#define DM_ROW_ROW_WORD_STATE_BITS 4
#define DM_ROW_ROW_WORD_NONCE_OFFSET 0
#define DM_ROW_ROW_WORD_NONCE_BIT 4
#define DM_ROW_ROW_WORD_NONCE_BITS 28
#define DM_ROW_ROW_WORD_INCARNATION_OFFSET 0
#define DM_ROW_ROW_WORD_INCARNATION_BIT 32
#define DM_ROW_ROW_WORD_INCARNATION_BITS 32
#define DM_ROW_ROW_WORD_STRUCT_BYTES 8

struct dm_row_row_word {
    uint8_t bits_0[4];
    uint8_t incarnation[4]; // raised by every join; at most 65535
};

// constants

#define DM_ROW_INCARNATION_MAX UINT64_C(65535) // a row that has seen it is used up
#define DM_ROW_ROW_COUNT_MAX UINT64_C(65536) // rows there can be

#endif
