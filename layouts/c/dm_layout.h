// Every remote structure. Made by `dm layout bless`; do not edit.

#ifndef DM_LAYOUT_H
#define DM_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "lock_word.h"
#include "cache_line_versions.h"
#include "superblock.h"
#include "row.h"
#include "catalog_entry.h"
#include "sherman_parameters.h"
#include "chime_parameters.h"
#include "smart_parameters.h"
#include "dolphin_parameters.h"
#include "dex_parameters.h"
#include "chunk_entry.h"
#include "redo_record.h"
#include "open_indexes.h"
#include "closed_chunks.h"
#include "node_header.h"
#include "btree_inner.h"
#include "sherman_leaf.h"
#include "chime_leaf.h"
#include "chime_lock_word.h"
#include "radix_slot.h"
#include "radix_node.h"
#include "smart_leaf.h"
#include "dolphin_spear.h"
#include "dolphin_slot.h"
#include "dolphin_node.h"
#include "dolphin_leaf.h"
#include "dolphin_block.h"
#include "dex_leaf.h"
#include "dex_owner.h"
#include "dex_table.h"
#include "dex_lsn.h"
#include "dex_ring.h"
#include "dex_record.h"
#include "dex_image.h"
#include "items_parameters.h"
#include "items_key.h"
#include "items_slot.h"
#include "items_block.h"
#include "record_checksum.h"

// The number in `bits` bits, at most 64, from bit `bit` on of the little-endian word at `bytes + offset`.
static inline uint64_t dm_layout_read(const uint8_t *bytes, size_t offset, unsigned bit, unsigned bits) {
    uint64_t number = 0;
    for (unsigned at = 0; at < bits; at++) {
        const unsigned from = bit + at;
        number |= (uint64_t)(bytes[offset + from / 8] >> from % 8 & 1) << at;
    }
    return number;
}

// Copies the payload of whole lines: all but the version byte at the beginning of each. Returns its length. Offsets in
// nodes of B+-trees count payload bytes; see cache_line_versions.h.
static inline size_t dm_layout_payload(const uint8_t *lines, size_t line_bytes, uint8_t *payload) {
    size_t count = 0;
    for (size_t at = 0; at < line_bytes; at++) {
        if (at % DM_CACHE_LINE_VERSIONS_ONE_LINE_STRUCT_BYTES != 0)
            payload[count++] = lines[at];
    }
    return count;
}

#endif
