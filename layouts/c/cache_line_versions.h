// cache_line_versions: how nodes are stored: a version byte before every 63 payload bytes. Made by `dm layout bless`; do not edit.

// A node is a whole number of 64-byte lines; payload byte p is stored at 64 * (p / 63) + 1 + p % 63. The node
// version is the same in every line. An entry's version is in the entry, and repeated in the version byte of
// every line that the entry reaches into from the line before.

#ifndef DM_LAYOUT_CACHE_LINE_VERSIONS_H
#define DM_LAYOUT_CACHE_LINE_VERSIONS_H

#include <stdint.h>

// one line

#define DM_CACHE_LINE_VERSIONS_ONE_LINE_NODE_VERSION_OFFSET 0
#define DM_CACHE_LINE_VERSIONS_ONE_LINE_NODE_VERSION_BIT 0
#define DM_CACHE_LINE_VERSIONS_ONE_LINE_NODE_VERSION_BITS 4
#define DM_CACHE_LINE_VERSIONS_ONE_LINE_ENTRY_VERSION_OFFSET 0
#define DM_CACHE_LINE_VERSIONS_ONE_LINE_ENTRY_VERSION_BIT 4
#define DM_CACHE_LINE_VERSIONS_ONE_LINE_ENTRY_VERSION_BITS 4
#define DM_CACHE_LINE_VERSIONS_ONE_LINE_PAYLOAD_OFFSET 1
#define DM_CACHE_LINE_VERSIONS_ONE_LINE_PAYLOAD_BIT 0
#define DM_CACHE_LINE_VERSIONS_ONE_LINE_PAYLOAD_BITS 504
#define DM_CACHE_LINE_VERSIONS_ONE_LINE_STRUCT_BYTES 64

struct dm_cache_line_versions_one_line {
    uint8_t bits_0[1];
    uint8_t payload[63];
};

// constants

#define DM_CACHE_LINE_VERSIONS_LINE_PAYLOAD_BYTES UINT64_C(63) // payload of a line

#endif
