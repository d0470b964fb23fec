// Checks the headers: the asserts when it is compiled, the samples when it runs. Made by `dm layout bless`; do not edit.

#include "dm_layout.h"

#include <inttypes.h>
#include <stdio.h>

_Static_assert(sizeof(struct dm_address) == DM_ADDRESS_STRUCT_BYTES, "dm_address: size");
_Static_assert(offsetof(struct dm_address, bits_0) * 8 <= DM_ADDRESS_GENERATION_OFFSET * 8 + DM_ADDRESS_GENERATION_BIT && DM_ADDRESS_GENERATION_OFFSET * 8 + DM_ADDRESS_GENERATION_BIT + DM_ADDRESS_GENERATION_BITS <= (offsetof(struct dm_address, bits_0) + sizeof(((struct dm_address *)0)->bits_0)) * 8, "dm_address: generation");
_Static_assert(offsetof(struct dm_address, bits_0) * 8 <= DM_ADDRESS_OFFSET_64_OFFSET * 8 + DM_ADDRESS_OFFSET_64_BIT && DM_ADDRESS_OFFSET_64_OFFSET * 8 + DM_ADDRESS_OFFSET_64_BIT + DM_ADDRESS_OFFSET_64_BITS <= (offsetof(struct dm_address, bits_0) + sizeof(((struct dm_address *)0)->bits_0)) * 8, "dm_address: offset / 64");
_Static_assert(offsetof(struct dm_address, node) * 8 == DM_ADDRESS_NODE_OFFSET * 8 + DM_ADDRESS_NODE_BIT && sizeof(((struct dm_address *)0)->node) * 8 == DM_ADDRESS_NODE_BITS, "dm_address: node");
_Static_assert(sizeof(struct dm_lock_word) == DM_LOCK_WORD_STRUCT_BYTES, "dm_lock_word: size");
_Static_assert(offsetof(struct dm_lock_word, row) * 8 == DM_LOCK_WORD_ROW_OFFSET * 8 + DM_LOCK_WORD_ROW_BIT && sizeof(((struct dm_lock_word *)0)->row) * 8 == DM_LOCK_WORD_ROW_BITS, "dm_lock_word: row");
_Static_assert(offsetof(struct dm_lock_word, sequence) * 8 == DM_LOCK_WORD_SEQUENCE_OFFSET * 8 + DM_LOCK_WORD_SEQUENCE_BIT && sizeof(((struct dm_lock_word *)0)->sequence) * 8 == DM_LOCK_WORD_SEQUENCE_BITS, "dm_lock_word: sequence");
_Static_assert(sizeof(struct dm_cache_line_versions_one_line) == DM_CACHE_LINE_VERSIONS_ONE_LINE_STRUCT_BYTES, "dm_cache_line_versions_one_line: size");
_Static_assert(offsetof(struct dm_cache_line_versions_one_line, bits_0) * 8 <= DM_CACHE_LINE_VERSIONS_ONE_LINE_NODE_VERSION_OFFSET * 8 + DM_CACHE_LINE_VERSIONS_ONE_LINE_NODE_VERSION_BIT && DM_CACHE_LINE_VERSIONS_ONE_LINE_NODE_VERSION_OFFSET * 8 + DM_CACHE_LINE_VERSIONS_ONE_LINE_NODE_VERSION_BIT + DM_CACHE_LINE_VERSIONS_ONE_LINE_NODE_VERSION_BITS <= (offsetof(struct dm_cache_line_versions_one_line, bits_0) + sizeof(((struct dm_cache_line_versions_one_line *)0)->bits_0)) * 8, "dm_cache_line_versions_one_line: node version");
_Static_assert(offsetof(struct dm_cache_line_versions_one_line, bits_0) * 8 <= DM_CACHE_LINE_VERSIONS_ONE_LINE_ENTRY_VERSION_OFFSET * 8 + DM_CACHE_LINE_VERSIONS_ONE_LINE_ENTRY_VERSION_BIT && DM_CACHE_LINE_VERSIONS_ONE_LINE_ENTRY_VERSION_OFFSET * 8 + DM_CACHE_LINE_VERSIONS_ONE_LINE_ENTRY_VERSION_BIT + DM_CACHE_LINE_VERSIONS_ONE_LINE_ENTRY_VERSION_BITS <= (offsetof(struct dm_cache_line_versions_one_line, bits_0) + sizeof(((struct dm_cache_line_versions_one_line *)0)->bits_0)) * 8, "dm_cache_line_versions_one_line: entry version");
_Static_assert(offsetof(struct dm_cache_line_versions_one_line, payload) * 8 == DM_CACHE_LINE_VERSIONS_ONE_LINE_PAYLOAD_OFFSET * 8 + DM_CACHE_LINE_VERSIONS_ONE_LINE_PAYLOAD_BIT && sizeof(((struct dm_cache_line_versions_one_line *)0)->payload) * 8 == DM_CACHE_LINE_VERSIONS_ONE_LINE_PAYLOAD_BITS, "dm_cache_line_versions_one_line: payload");
_Static_assert(sizeof(struct dm_superblock) == DM_SUPERBLOCK_STRUCT_BYTES, "dm_superblock: size");
_Static_assert(offsetof(struct dm_superblock, magic) * 8 == DM_SUPERBLOCK_MAGIC_OFFSET * 8 + DM_SUPERBLOCK_MAGIC_BIT && sizeof(((struct dm_superblock *)0)->magic) * 8 == DM_SUPERBLOCK_MAGIC_BITS, "dm_superblock: magic");
_Static_assert(offsetof(struct dm_superblock, format_version) * 8 == DM_SUPERBLOCK_FORMAT_VERSION_OFFSET * 8 + DM_SUPERBLOCK_FORMAT_VERSION_BIT && sizeof(((struct dm_superblock *)0)->format_version) * 8 == DM_SUPERBLOCK_FORMAT_VERSION_BITS, "dm_superblock: format_version");
_Static_assert(offsetof(struct dm_superblock, reserved_12) * 8 == DM_SUPERBLOCK_RESERVED_12_OFFSET * 8 + DM_SUPERBLOCK_RESERVED_12_BIT && sizeof(((struct dm_superblock *)0)->reserved_12) * 8 == DM_SUPERBLOCK_RESERVED_12_BITS, "dm_superblock: reserved_12");
_Static_assert(offsetof(struct dm_superblock, features_compatible) * 8 == DM_SUPERBLOCK_FEATURES_COMPATIBLE_OFFSET * 8 + DM_SUPERBLOCK_FEATURES_COMPATIBLE_BIT && sizeof(((struct dm_superblock *)0)->features_compatible) * 8 == DM_SUPERBLOCK_FEATURES_COMPATIBLE_BITS, "dm_superblock: features_compatible");
_Static_assert(offsetof(struct dm_superblock, features_read_only) * 8 == DM_SUPERBLOCK_FEATURES_READ_ONLY_OFFSET * 8 + DM_SUPERBLOCK_FEATURES_READ_ONLY_BIT && sizeof(((struct dm_superblock *)0)->features_read_only) * 8 == DM_SUPERBLOCK_FEATURES_READ_ONLY_BITS, "dm_superblock: features_read_only");
_Static_assert(offsetof(struct dm_superblock, features_incompatible) * 8 == DM_SUPERBLOCK_FEATURES_INCOMPATIBLE_OFFSET * 8 + DM_SUPERBLOCK_FEATURES_INCOMPATIBLE_BIT && sizeof(((struct dm_superblock *)0)->features_incompatible) * 8 == DM_SUPERBLOCK_FEATURES_INCOMPATIBLE_BITS, "dm_superblock: features_incompatible");
_Static_assert(offsetof(struct dm_superblock, pool_id) * 8 == DM_SUPERBLOCK_POOL_ID_OFFSET * 8 + DM_SUPERBLOCK_POOL_ID_BIT && sizeof(((struct dm_superblock *)0)->pool_id) * 8 == DM_SUPERBLOCK_POOL_ID_BITS, "dm_superblock: pool_id");
_Static_assert(offsetof(struct dm_superblock, pool_incarnation) * 8 == DM_SUPERBLOCK_POOL_INCARNATION_OFFSET * 8 + DM_SUPERBLOCK_POOL_INCARNATION_BIT && sizeof(((struct dm_superblock *)0)->pool_incarnation) * 8 == DM_SUPERBLOCK_POOL_INCARNATION_BITS, "dm_superblock: pool_incarnation");
_Static_assert(offsetof(struct dm_superblock, node) * 8 == DM_SUPERBLOCK_NODE_OFFSET * 8 + DM_SUPERBLOCK_NODE_BIT && sizeof(((struct dm_superblock *)0)->node) * 8 == DM_SUPERBLOCK_NODE_BITS, "dm_superblock: node");
_Static_assert(offsetof(struct dm_superblock, nodes) * 8 == DM_SUPERBLOCK_NODES_OFFSET * 8 + DM_SUPERBLOCK_NODES_BIT && sizeof(((struct dm_superblock *)0)->nodes) * 8 == DM_SUPERBLOCK_NODES_BITS, "dm_superblock: nodes");
_Static_assert(offsetof(struct dm_superblock, row_count) * 8 == DM_SUPERBLOCK_ROW_COUNT_OFFSET * 8 + DM_SUPERBLOCK_ROW_COUNT_BIT && sizeof(((struct dm_superblock *)0)->row_count) * 8 == DM_SUPERBLOCK_ROW_COUNT_BITS, "dm_superblock: row_count");
_Static_assert(offsetof(struct dm_superblock, region_bytes) * 8 == DM_SUPERBLOCK_REGION_BYTES_OFFSET * 8 + DM_SUPERBLOCK_REGION_BYTES_BIT && sizeof(((struct dm_superblock *)0)->region_bytes) * 8 == DM_SUPERBLOCK_REGION_BYTES_BITS, "dm_superblock: region_bytes");
_Static_assert(offsetof(struct dm_superblock, device_bytes) * 8 == DM_SUPERBLOCK_DEVICE_BYTES_OFFSET * 8 + DM_SUPERBLOCK_DEVICE_BYTES_BIT && sizeof(((struct dm_superblock *)0)->device_bytes) * 8 == DM_SUPERBLOCK_DEVICE_BYTES_BITS, "dm_superblock: device_bytes");
_Static_assert(offsetof(struct dm_superblock, catalog) * 8 == DM_SUPERBLOCK_CATALOG_OFFSET * 8 + DM_SUPERBLOCK_CATALOG_BIT && sizeof(((struct dm_superblock *)0)->catalog) * 8 == DM_SUPERBLOCK_CATALOG_BITS, "dm_superblock: catalog");
_Static_assert(offsetof(struct dm_superblock, rows) * 8 == DM_SUPERBLOCK_ROWS_OFFSET * 8 + DM_SUPERBLOCK_ROWS_BIT && sizeof(((struct dm_superblock *)0)->rows) * 8 == DM_SUPERBLOCK_ROWS_BITS, "dm_superblock: rows");
_Static_assert(offsetof(struct dm_superblock, redo) * 8 == DM_SUPERBLOCK_REDO_OFFSET * 8 + DM_SUPERBLOCK_REDO_BIT && sizeof(((struct dm_superblock *)0)->redo) * 8 == DM_SUPERBLOCK_REDO_BITS, "dm_superblock: redo");
_Static_assert(offsetof(struct dm_superblock, redo_row_bytes) * 8 == DM_SUPERBLOCK_REDO_ROW_BYTES_OFFSET * 8 + DM_SUPERBLOCK_REDO_ROW_BYTES_BIT && sizeof(((struct dm_superblock *)0)->redo_row_bytes) * 8 == DM_SUPERBLOCK_REDO_ROW_BYTES_BITS, "dm_superblock: redo_row_bytes");
_Static_assert(offsetof(struct dm_superblock, chunk_count) * 8 == DM_SUPERBLOCK_CHUNK_COUNT_OFFSET * 8 + DM_SUPERBLOCK_CHUNK_COUNT_BIT && sizeof(((struct dm_superblock *)0)->chunk_count) * 8 == DM_SUPERBLOCK_CHUNK_COUNT_BITS, "dm_superblock: chunk_count");
_Static_assert(offsetof(struct dm_superblock, chunk_table) * 8 == DM_SUPERBLOCK_CHUNK_TABLE_OFFSET * 8 + DM_SUPERBLOCK_CHUNK_TABLE_BIT && sizeof(((struct dm_superblock *)0)->chunk_table) * 8 == DM_SUPERBLOCK_CHUNK_TABLE_BITS, "dm_superblock: chunk_table");
_Static_assert(offsetof(struct dm_superblock, heap) * 8 == DM_SUPERBLOCK_HEAP_OFFSET * 8 + DM_SUPERBLOCK_HEAP_BIT && sizeof(((struct dm_superblock *)0)->heap) * 8 == DM_SUPERBLOCK_HEAP_BITS, "dm_superblock: heap");
_Static_assert(offsetof(struct dm_superblock, chunk_bytes) * 8 == DM_SUPERBLOCK_CHUNK_BYTES_OFFSET * 8 + DM_SUPERBLOCK_CHUNK_BYTES_BIT && sizeof(((struct dm_superblock *)0)->chunk_bytes) * 8 == DM_SUPERBLOCK_CHUNK_BYTES_BITS, "dm_superblock: chunk_bytes");
_Static_assert(offsetof(struct dm_superblock, lock_table) * 8 == DM_SUPERBLOCK_LOCK_TABLE_OFFSET * 8 + DM_SUPERBLOCK_LOCK_TABLE_BIT && sizeof(((struct dm_superblock *)0)->lock_table) * 8 == DM_SUPERBLOCK_LOCK_TABLE_BITS, "dm_superblock: lock_table");
_Static_assert(offsetof(struct dm_superblock, lock_count) * 8 == DM_SUPERBLOCK_LOCK_COUNT_OFFSET * 8 + DM_SUPERBLOCK_LOCK_COUNT_BIT && sizeof(((struct dm_superblock *)0)->lock_count) * 8 == DM_SUPERBLOCK_LOCK_COUNT_BITS, "dm_superblock: lock_count");
_Static_assert(offsetof(struct dm_superblock, lock_space) * 8 == DM_SUPERBLOCK_LOCK_SPACE_OFFSET * 8 + DM_SUPERBLOCK_LOCK_SPACE_BIT && sizeof(((struct dm_superblock *)0)->lock_space) * 8 == DM_SUPERBLOCK_LOCK_SPACE_BITS, "dm_superblock: lock_space");
_Static_assert(offsetof(struct dm_superblock, reserved_157) * 8 == DM_SUPERBLOCK_RESERVED_157_OFFSET * 8 + DM_SUPERBLOCK_RESERVED_157_BIT && sizeof(((struct dm_superblock *)0)->reserved_157) * 8 == DM_SUPERBLOCK_RESERVED_157_BITS, "dm_superblock: reserved_157");
_Static_assert(offsetof(struct dm_superblock, index_count) * 8 == DM_SUPERBLOCK_INDEX_COUNT_OFFSET * 8 + DM_SUPERBLOCK_INDEX_COUNT_BIT && sizeof(((struct dm_superblock *)0)->index_count) * 8 == DM_SUPERBLOCK_INDEX_COUNT_BITS, "dm_superblock: index_count");
_Static_assert(offsetof(struct dm_superblock, reserved_160) * 8 == DM_SUPERBLOCK_RESERVED_160_OFFSET * 8 + DM_SUPERBLOCK_RESERVED_160_BIT && sizeof(((struct dm_superblock *)0)->reserved_160) * 8 == DM_SUPERBLOCK_RESERVED_160_BITS, "dm_superblock: reserved_160");
_Static_assert(offsetof(struct dm_superblock, checksum) * 8 == DM_SUPERBLOCK_CHECKSUM_OFFSET * 8 + DM_SUPERBLOCK_CHECKSUM_BIT && sizeof(((struct dm_superblock *)0)->checksum) * 8 == DM_SUPERBLOCK_CHECKSUM_BITS, "dm_superblock: checksum");
_Static_assert(sizeof(struct dm_row) == DM_ROW_STRUCT_BYTES, "dm_row: size");
_Static_assert(offsetof(struct dm_row, word) * 8 == DM_ROW_WORD_OFFSET * 8 + DM_ROW_WORD_BIT && sizeof(((struct dm_row *)0)->word) * 8 == DM_ROW_WORD_BITS, "dm_row: word");
_Static_assert(offsetof(struct dm_row, heartbeat) * 8 == DM_ROW_HEARTBEAT_OFFSET * 8 + DM_ROW_HEARTBEAT_BIT && sizeof(((struct dm_row *)0)->heartbeat) * 8 == DM_ROW_HEARTBEAT_BITS, "dm_row: heartbeat");
_Static_assert(offsetof(struct dm_row, epoch) * 8 == DM_ROW_EPOCH_OFFSET * 8 + DM_ROW_EPOCH_BIT && sizeof(((struct dm_row *)0)->epoch) * 8 == DM_ROW_EPOCH_BITS, "dm_row: epoch");
_Static_assert(offsetof(struct dm_row, incarnation) * 8 == DM_ROW_INCARNATION_OFFSET * 8 + DM_ROW_INCARNATION_BIT && sizeof(((struct dm_row *)0)->incarnation) * 8 == DM_ROW_INCARNATION_BITS, "dm_row: incarnation");
_Static_assert(offsetof(struct dm_row, lanes) * 8 == DM_ROW_LANES_OFFSET * 8 + DM_ROW_LANES_BIT && sizeof(((struct dm_row *)0)->lanes) * 8 == DM_ROW_LANES_BITS, "dm_row: lanes");
_Static_assert(offsetof(struct dm_row, memory_nodes) * 8 == DM_ROW_MEMORY_NODES_OFFSET * 8 + DM_ROW_MEMORY_NODES_BIT && sizeof(((struct dm_row *)0)->memory_nodes) * 8 == DM_ROW_MEMORY_NODES_BITS, "dm_row: memory_nodes");
_Static_assert(offsetof(struct dm_row, token) * 8 == DM_ROW_TOKEN_OFFSET * 8 + DM_ROW_TOKEN_BIT && sizeof(((struct dm_row *)0)->token) * 8 == DM_ROW_TOKEN_BITS, "dm_row: token");
_Static_assert(offsetof(struct dm_row, redo_slot_bytes) * 8 == DM_ROW_REDO_SLOT_BYTES_OFFSET * 8 + DM_ROW_REDO_SLOT_BYTES_BIT && sizeof(((struct dm_row *)0)->redo_slot_bytes) * 8 == DM_ROW_REDO_SLOT_BYTES_BITS, "dm_row: redo_slot_bytes");
_Static_assert(offsetof(struct dm_row, redo_slots) * 8 == DM_ROW_REDO_SLOTS_OFFSET * 8 + DM_ROW_REDO_SLOTS_BIT && sizeof(((struct dm_row *)0)->redo_slots) * 8 == DM_ROW_REDO_SLOTS_BITS, "dm_row: redo_slots");
_Static_assert(offsetof(struct dm_row, lease_us) * 8 == DM_ROW_LEASE_US_OFFSET * 8 + DM_ROW_LEASE_US_BIT && sizeof(((struct dm_row *)0)->lease_us) * 8 == DM_ROW_LEASE_US_BITS, "dm_row: lease_us");
_Static_assert(offsetof(struct dm_row, given_up) * 8 == DM_ROW_GIVEN_UP_OFFSET * 8 + DM_ROW_GIVEN_UP_BIT && sizeof(((struct dm_row *)0)->given_up) * 8 == DM_ROW_GIVEN_UP_BITS, "dm_row: given_up");
_Static_assert(offsetof(struct dm_row, ring) * 8 == DM_ROW_RING_OFFSET * 8 + DM_ROW_RING_BIT && sizeof(((struct dm_row *)0)->ring) * 8 == DM_ROW_RING_BITS, "dm_row: ring");
_Static_assert(offsetof(struct dm_row, redo) * 8 == DM_ROW_REDO_OFFSET * 8 + DM_ROW_REDO_BIT && sizeof(((struct dm_row *)0)->redo) * 8 == DM_ROW_REDO_BITS, "dm_row: redo");
_Static_assert(offsetof(struct dm_row, host_bytes) * 8 == DM_ROW_HOST_BYTES_OFFSET * 8 + DM_ROW_HOST_BYTES_BIT && sizeof(((struct dm_row *)0)->host_bytes) * 8 == DM_ROW_HOST_BYTES_BITS, "dm_row: host_bytes");
_Static_assert(offsetof(struct dm_row, host) * 8 == DM_ROW_HOST_OFFSET * 8 + DM_ROW_HOST_BIT && sizeof(((struct dm_row *)0)->host) * 8 == DM_ROW_HOST_BITS, "dm_row: host");
_Static_assert(sizeof(struct dm_row_row_word) == DM_ROW_ROW_WORD_STRUCT_BYTES, "dm_row_row_word: size");
_Static_assert(offsetof(struct dm_row_row_word, bits_0) * 8 <= DM_ROW_ROW_WORD_STATE_OFFSET * 8 + DM_ROW_ROW_WORD_STATE_BIT && DM_ROW_ROW_WORD_STATE_OFFSET * 8 + DM_ROW_ROW_WORD_STATE_BIT + DM_ROW_ROW_WORD_STATE_BITS <= (offsetof(struct dm_row_row_word, bits_0) + sizeof(((struct dm_row_row_word *)0)->bits_0)) * 8, "dm_row_row_word: state");
_Static_assert(offsetof(struct dm_row_row_word, bits_0) * 8 <= DM_ROW_ROW_WORD_NONCE_OFFSET * 8 + DM_ROW_ROW_WORD_NONCE_BIT && DM_ROW_ROW_WORD_NONCE_OFFSET * 8 + DM_ROW_ROW_WORD_NONCE_BIT + DM_ROW_ROW_WORD_NONCE_BITS <= (offsetof(struct dm_row_row_word, bits_0) + sizeof(((struct dm_row_row_word *)0)->bits_0)) * 8, "dm_row_row_word: nonce");
_Static_assert(offsetof(struct dm_row_row_word, incarnation) * 8 == DM_ROW_ROW_WORD_INCARNATION_OFFSET * 8 + DM_ROW_ROW_WORD_INCARNATION_BIT && sizeof(((struct dm_row_row_word *)0)->incarnation) * 8 == DM_ROW_ROW_WORD_INCARNATION_BITS, "dm_row_row_word: incarnation");
_Static_assert(sizeof(struct dm_catalog_entry_entry) == DM_CATALOG_ENTRY_ENTRY_STRUCT_BYTES, "dm_catalog_entry_entry: size");
_Static_assert(offsetof(struct dm_catalog_entry_entry, checksum) * 8 == DM_CATALOG_ENTRY_ENTRY_CHECKSUM_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_CHECKSUM_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->checksum) * 8 == DM_CATALOG_ENTRY_ENTRY_CHECKSUM_BITS, "dm_catalog_entry_entry: checksum");
_Static_assert(offsetof(struct dm_catalog_entry_entry, kind) * 8 == DM_CATALOG_ENTRY_ENTRY_KIND_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_KIND_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->kind) * 8 == DM_CATALOG_ENTRY_ENTRY_KIND_BITS, "dm_catalog_entry_entry: kind");
_Static_assert(offsetof(struct dm_catalog_entry_entry, parameters_version) * 8 == DM_CATALOG_ENTRY_ENTRY_PARAMETERS_VERSION_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_PARAMETERS_VERSION_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->parameters_version) * 8 == DM_CATALOG_ENTRY_ENTRY_PARAMETERS_VERSION_BITS, "dm_catalog_entry_entry: parameters_version");
_Static_assert(offsetof(struct dm_catalog_entry_entry, features_compatible) * 8 == DM_CATALOG_ENTRY_ENTRY_FEATURES_COMPATIBLE_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_FEATURES_COMPATIBLE_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->features_compatible) * 8 == DM_CATALOG_ENTRY_ENTRY_FEATURES_COMPATIBLE_BITS, "dm_catalog_entry_entry: features_compatible");
_Static_assert(offsetof(struct dm_catalog_entry_entry, features_read_only) * 8 == DM_CATALOG_ENTRY_ENTRY_FEATURES_READ_ONLY_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_FEATURES_READ_ONLY_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->features_read_only) * 8 == DM_CATALOG_ENTRY_ENTRY_FEATURES_READ_ONLY_BITS, "dm_catalog_entry_entry: features_read_only");
_Static_assert(offsetof(struct dm_catalog_entry_entry, features_incompatible) * 8 == DM_CATALOG_ENTRY_ENTRY_FEATURES_INCOMPATIBLE_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_FEATURES_INCOMPATIBLE_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->features_incompatible) * 8 == DM_CATALOG_ENTRY_ENTRY_FEATURES_INCOMPATIBLE_BITS, "dm_catalog_entry_entry: features_incompatible");
_Static_assert(offsetof(struct dm_catalog_entry_entry, parameters) * 8 == DM_CATALOG_ENTRY_ENTRY_PARAMETERS_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_PARAMETERS_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->parameters) * 8 == DM_CATALOG_ENTRY_ENTRY_PARAMETERS_BITS, "dm_catalog_entry_entry: parameters");
_Static_assert(offsetof(struct dm_catalog_entry_entry, reserved_96) * 8 == DM_CATALOG_ENTRY_ENTRY_RESERVED_96_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_RESERVED_96_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->reserved_96) * 8 == DM_CATALOG_ENTRY_ENTRY_RESERVED_96_BITS, "dm_catalog_entry_entry: reserved_96");
_Static_assert(offsetof(struct dm_catalog_entry_entry, name_0_checksum) * 8 == DM_CATALOG_ENTRY_ENTRY_NAME_0_CHECKSUM_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_NAME_0_CHECKSUM_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->name_0_checksum) * 8 == DM_CATALOG_ENTRY_ENTRY_NAME_0_CHECKSUM_BITS, "dm_catalog_entry_entry: name_0_checksum");
_Static_assert(offsetof(struct dm_catalog_entry_entry, name_0_bytes) * 8 == DM_CATALOG_ENTRY_ENTRY_NAME_0_BYTES_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_NAME_0_BYTES_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->name_0_bytes) * 8 == DM_CATALOG_ENTRY_ENTRY_NAME_0_BYTES_BITS, "dm_catalog_entry_entry: name_0_bytes");
_Static_assert(offsetof(struct dm_catalog_entry_entry, name_0) * 8 == DM_CATALOG_ENTRY_ENTRY_NAME_0_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_NAME_0_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->name_0) * 8 == DM_CATALOG_ENTRY_ENTRY_NAME_0_BITS, "dm_catalog_entry_entry: name_0");
_Static_assert(offsetof(struct dm_catalog_entry_entry, reserved_180) * 8 == DM_CATALOG_ENTRY_ENTRY_RESERVED_180_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_RESERVED_180_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->reserved_180) * 8 == DM_CATALOG_ENTRY_ENTRY_RESERVED_180_BITS, "dm_catalog_entry_entry: reserved_180");
_Static_assert(offsetof(struct dm_catalog_entry_entry, owners) * 8 == DM_CATALOG_ENTRY_ENTRY_OWNERS_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_OWNERS_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->owners) * 8 == DM_CATALOG_ENTRY_ENTRY_OWNERS_BITS, "dm_catalog_entry_entry: owners");
_Static_assert(offsetof(struct dm_catalog_entry_entry, root) * 8 == DM_CATALOG_ENTRY_ENTRY_ROOT_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_ROOT_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->root) * 8 == DM_CATALOG_ENTRY_ENTRY_ROOT_BITS, "dm_catalog_entry_entry: root");
_Static_assert(offsetof(struct dm_catalog_entry_entry, name_1_checksum) * 8 == DM_CATALOG_ENTRY_ENTRY_NAME_1_CHECKSUM_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_NAME_1_CHECKSUM_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->name_1_checksum) * 8 == DM_CATALOG_ENTRY_ENTRY_NAME_1_CHECKSUM_BITS, "dm_catalog_entry_entry: name_1_checksum");
_Static_assert(offsetof(struct dm_catalog_entry_entry, name_1_bytes) * 8 == DM_CATALOG_ENTRY_ENTRY_NAME_1_BYTES_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_NAME_1_BYTES_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->name_1_bytes) * 8 == DM_CATALOG_ENTRY_ENTRY_NAME_1_BYTES_BITS, "dm_catalog_entry_entry: name_1_bytes");
_Static_assert(offsetof(struct dm_catalog_entry_entry, name_1) * 8 == DM_CATALOG_ENTRY_ENTRY_NAME_1_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_NAME_1_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->name_1) * 8 == DM_CATALOG_ENTRY_ENTRY_NAME_1_BITS, "dm_catalog_entry_entry: name_1");
_Static_assert(offsetof(struct dm_catalog_entry_entry, reserved_252) * 8 == DM_CATALOG_ENTRY_ENTRY_RESERVED_252_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_RESERVED_252_BIT && sizeof(((struct dm_catalog_entry_entry *)0)->reserved_252) * 8 == DM_CATALOG_ENTRY_ENTRY_RESERVED_252_BITS, "dm_catalog_entry_entry: reserved_252");
_Static_assert(sizeof(struct dm_catalog_entry_entry_word) == DM_CATALOG_ENTRY_ENTRY_WORD_STRUCT_BYTES, "dm_catalog_entry_entry_word: size");
_Static_assert(offsetof(struct dm_catalog_entry_entry_word, bits_0) * 8 <= DM_CATALOG_ENTRY_ENTRY_WORD_STATE_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_WORD_STATE_BIT && DM_CATALOG_ENTRY_ENTRY_WORD_STATE_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_WORD_STATE_BIT + DM_CATALOG_ENTRY_ENTRY_WORD_STATE_BITS <= (offsetof(struct dm_catalog_entry_entry_word, bits_0) + sizeof(((struct dm_catalog_entry_entry_word *)0)->bits_0)) * 8, "dm_catalog_entry_entry_word: state");
_Static_assert(offsetof(struct dm_catalog_entry_entry_word, bits_0) * 8 <= DM_CATALOG_ENTRY_ENTRY_WORD_NAME_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_WORD_NAME_BIT && DM_CATALOG_ENTRY_ENTRY_WORD_NAME_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_WORD_NAME_BIT + DM_CATALOG_ENTRY_ENTRY_WORD_NAME_BITS <= (offsetof(struct dm_catalog_entry_entry_word, bits_0) + sizeof(((struct dm_catalog_entry_entry_word *)0)->bits_0)) * 8, "dm_catalog_entry_entry_word: name");
_Static_assert(offsetof(struct dm_catalog_entry_entry_word, bits_0) * 8 <= DM_CATALOG_ENTRY_ENTRY_WORD_TAG_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_WORD_TAG_BIT && DM_CATALOG_ENTRY_ENTRY_WORD_TAG_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_WORD_TAG_BIT + DM_CATALOG_ENTRY_ENTRY_WORD_TAG_BITS <= (offsetof(struct dm_catalog_entry_entry_word, bits_0) + sizeof(((struct dm_catalog_entry_entry_word *)0)->bits_0)) * 8, "dm_catalog_entry_entry_word: tag");
_Static_assert(offsetof(struct dm_catalog_entry_entry_word, request) * 8 == DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_BIT && sizeof(((struct dm_catalog_entry_entry_word *)0)->request) * 8 == DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_BITS, "dm_catalog_entry_entry_word: request");
_Static_assert(offsetof(struct dm_catalog_entry_entry_word, row) * 8 == DM_CATALOG_ENTRY_ENTRY_WORD_ROW_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_WORD_ROW_BIT && sizeof(((struct dm_catalog_entry_entry_word *)0)->row) * 8 == DM_CATALOG_ENTRY_ENTRY_WORD_ROW_BITS, "dm_catalog_entry_entry_word: row");
_Static_assert(offsetof(struct dm_catalog_entry_entry_word, incarnation) * 8 == DM_CATALOG_ENTRY_ENTRY_WORD_INCARNATION_OFFSET * 8 + DM_CATALOG_ENTRY_ENTRY_WORD_INCARNATION_BIT && sizeof(((struct dm_catalog_entry_entry_word *)0)->incarnation) * 8 == DM_CATALOG_ENTRY_ENTRY_WORD_INCARNATION_BITS, "dm_catalog_entry_entry_word: incarnation");
_Static_assert(sizeof(struct dm_sherman_parameters) == DM_SHERMAN_PARAMETERS_STRUCT_BYTES, "dm_sherman_parameters: size");
_Static_assert(offsetof(struct dm_sherman_parameters, key_bytes) * 8 == DM_SHERMAN_PARAMETERS_KEY_BYTES_OFFSET * 8 + DM_SHERMAN_PARAMETERS_KEY_BYTES_BIT && sizeof(((struct dm_sherman_parameters *)0)->key_bytes) * 8 == DM_SHERMAN_PARAMETERS_KEY_BYTES_BITS, "dm_sherman_parameters: key_bytes");
_Static_assert(offsetof(struct dm_sherman_parameters, leaf_span) * 8 == DM_SHERMAN_PARAMETERS_LEAF_SPAN_OFFSET * 8 + DM_SHERMAN_PARAMETERS_LEAF_SPAN_BIT && sizeof(((struct dm_sherman_parameters *)0)->leaf_span) * 8 == DM_SHERMAN_PARAMETERS_LEAF_SPAN_BITS, "dm_sherman_parameters: leaf_span");
_Static_assert(offsetof(struct dm_sherman_parameters, value_bytes) * 8 == DM_SHERMAN_PARAMETERS_VALUE_BYTES_OFFSET * 8 + DM_SHERMAN_PARAMETERS_VALUE_BYTES_BIT && sizeof(((struct dm_sherman_parameters *)0)->value_bytes) * 8 == DM_SHERMAN_PARAMETERS_VALUE_BYTES_BITS, "dm_sherman_parameters: value_bytes");
_Static_assert(offsetof(struct dm_sherman_parameters, inner_span) * 8 == DM_SHERMAN_PARAMETERS_INNER_SPAN_OFFSET * 8 + DM_SHERMAN_PARAMETERS_INNER_SPAN_BIT && sizeof(((struct dm_sherman_parameters *)0)->inner_span) * 8 == DM_SHERMAN_PARAMETERS_INNER_SPAN_BITS, "dm_sherman_parameters: inner_span");
_Static_assert(offsetof(struct dm_sherman_parameters, reserved_10) * 8 == DM_SHERMAN_PARAMETERS_RESERVED_10_OFFSET * 8 + DM_SHERMAN_PARAMETERS_RESERVED_10_BIT && sizeof(((struct dm_sherman_parameters *)0)->reserved_10) * 8 == DM_SHERMAN_PARAMETERS_RESERVED_10_BITS, "dm_sherman_parameters: reserved_10");
_Static_assert(offsetof(struct dm_sherman_parameters, flags) * 8 == DM_SHERMAN_PARAMETERS_FLAGS_OFFSET * 8 + DM_SHERMAN_PARAMETERS_FLAGS_BIT && sizeof(((struct dm_sherman_parameters *)0)->flags) * 8 == DM_SHERMAN_PARAMETERS_FLAGS_BITS, "dm_sherman_parameters: flags");
_Static_assert(offsetof(struct dm_sherman_parameters, reserved_16) * 8 == DM_SHERMAN_PARAMETERS_RESERVED_16_OFFSET * 8 + DM_SHERMAN_PARAMETERS_RESERVED_16_BIT && sizeof(((struct dm_sherman_parameters *)0)->reserved_16) * 8 == DM_SHERMAN_PARAMETERS_RESERVED_16_BITS, "dm_sherman_parameters: reserved_16");
_Static_assert(sizeof(struct dm_chime_parameters) == DM_CHIME_PARAMETERS_STRUCT_BYTES, "dm_chime_parameters: size");
_Static_assert(offsetof(struct dm_chime_parameters, key_bytes) * 8 == DM_CHIME_PARAMETERS_KEY_BYTES_OFFSET * 8 + DM_CHIME_PARAMETERS_KEY_BYTES_BIT && sizeof(((struct dm_chime_parameters *)0)->key_bytes) * 8 == DM_CHIME_PARAMETERS_KEY_BYTES_BITS, "dm_chime_parameters: key_bytes");
_Static_assert(offsetof(struct dm_chime_parameters, leaf_span) * 8 == DM_CHIME_PARAMETERS_LEAF_SPAN_OFFSET * 8 + DM_CHIME_PARAMETERS_LEAF_SPAN_BIT && sizeof(((struct dm_chime_parameters *)0)->leaf_span) * 8 == DM_CHIME_PARAMETERS_LEAF_SPAN_BITS, "dm_chime_parameters: leaf_span");
_Static_assert(offsetof(struct dm_chime_parameters, value_bytes) * 8 == DM_CHIME_PARAMETERS_VALUE_BYTES_OFFSET * 8 + DM_CHIME_PARAMETERS_VALUE_BYTES_BIT && sizeof(((struct dm_chime_parameters *)0)->value_bytes) * 8 == DM_CHIME_PARAMETERS_VALUE_BYTES_BITS, "dm_chime_parameters: value_bytes");
_Static_assert(offsetof(struct dm_chime_parameters, inner_span) * 8 == DM_CHIME_PARAMETERS_INNER_SPAN_OFFSET * 8 + DM_CHIME_PARAMETERS_INNER_SPAN_BIT && sizeof(((struct dm_chime_parameters *)0)->inner_span) * 8 == DM_CHIME_PARAMETERS_INNER_SPAN_BITS, "dm_chime_parameters: inner_span");
_Static_assert(offsetof(struct dm_chime_parameters, neighborhood) * 8 == DM_CHIME_PARAMETERS_NEIGHBORHOOD_OFFSET * 8 + DM_CHIME_PARAMETERS_NEIGHBORHOOD_BIT && sizeof(((struct dm_chime_parameters *)0)->neighborhood) * 8 == DM_CHIME_PARAMETERS_NEIGHBORHOOD_BITS, "dm_chime_parameters: neighborhood");
_Static_assert(offsetof(struct dm_chime_parameters, hash) * 8 == DM_CHIME_PARAMETERS_HASH_OFFSET * 8 + DM_CHIME_PARAMETERS_HASH_BIT && sizeof(((struct dm_chime_parameters *)0)->hash) * 8 == DM_CHIME_PARAMETERS_HASH_BITS, "dm_chime_parameters: hash");
_Static_assert(offsetof(struct dm_chime_parameters, flags) * 8 == DM_CHIME_PARAMETERS_FLAGS_OFFSET * 8 + DM_CHIME_PARAMETERS_FLAGS_BIT && sizeof(((struct dm_chime_parameters *)0)->flags) * 8 == DM_CHIME_PARAMETERS_FLAGS_BITS, "dm_chime_parameters: flags");
_Static_assert(offsetof(struct dm_chime_parameters, reserved_16) * 8 == DM_CHIME_PARAMETERS_RESERVED_16_OFFSET * 8 + DM_CHIME_PARAMETERS_RESERVED_16_BIT && sizeof(((struct dm_chime_parameters *)0)->reserved_16) * 8 == DM_CHIME_PARAMETERS_RESERVED_16_BITS, "dm_chime_parameters: reserved_16");
_Static_assert(sizeof(struct dm_smart_parameters) == DM_SMART_PARAMETERS_STRUCT_BYTES, "dm_smart_parameters: size");
_Static_assert(offsetof(struct dm_smart_parameters, key_bytes) * 8 == DM_SMART_PARAMETERS_KEY_BYTES_OFFSET * 8 + DM_SMART_PARAMETERS_KEY_BYTES_BIT && sizeof(((struct dm_smart_parameters *)0)->key_bytes) * 8 == DM_SMART_PARAMETERS_KEY_BYTES_BITS, "dm_smart_parameters: key_bytes");
_Static_assert(offsetof(struct dm_smart_parameters, node_slots) * 8 == DM_SMART_PARAMETERS_NODE_SLOTS_OFFSET * 8 + DM_SMART_PARAMETERS_NODE_SLOTS_BIT && sizeof(((struct dm_smart_parameters *)0)->node_slots) * 8 == DM_SMART_PARAMETERS_NODE_SLOTS_BITS, "dm_smart_parameters: node_slots");
_Static_assert(offsetof(struct dm_smart_parameters, value_bytes) * 8 == DM_SMART_PARAMETERS_VALUE_BYTES_OFFSET * 8 + DM_SMART_PARAMETERS_VALUE_BYTES_BIT && sizeof(((struct dm_smart_parameters *)0)->value_bytes) * 8 == DM_SMART_PARAMETERS_VALUE_BYTES_BITS, "dm_smart_parameters: value_bytes");
_Static_assert(offsetof(struct dm_smart_parameters, flags) * 8 == DM_SMART_PARAMETERS_FLAGS_OFFSET * 8 + DM_SMART_PARAMETERS_FLAGS_BIT && sizeof(((struct dm_smart_parameters *)0)->flags) * 8 == DM_SMART_PARAMETERS_FLAGS_BITS, "dm_smart_parameters: flags");
_Static_assert(offsetof(struct dm_smart_parameters, reserved_12) * 8 == DM_SMART_PARAMETERS_RESERVED_12_OFFSET * 8 + DM_SMART_PARAMETERS_RESERVED_12_BIT && sizeof(((struct dm_smart_parameters *)0)->reserved_12) * 8 == DM_SMART_PARAMETERS_RESERVED_12_BITS, "dm_smart_parameters: reserved_12");
_Static_assert(sizeof(struct dm_dolphin_parameters) == DM_DOLPHIN_PARAMETERS_STRUCT_BYTES, "dm_dolphin_parameters: size");
_Static_assert(offsetof(struct dm_dolphin_parameters, key_bytes) * 8 == DM_DOLPHIN_PARAMETERS_KEY_BYTES_OFFSET * 8 + DM_DOLPHIN_PARAMETERS_KEY_BYTES_BIT && sizeof(((struct dm_dolphin_parameters *)0)->key_bytes) * 8 == DM_DOLPHIN_PARAMETERS_KEY_BYTES_BITS, "dm_dolphin_parameters: key_bytes");
_Static_assert(offsetof(struct dm_dolphin_parameters, reserved_2) * 8 == DM_DOLPHIN_PARAMETERS_RESERVED_2_OFFSET * 8 + DM_DOLPHIN_PARAMETERS_RESERVED_2_BIT && sizeof(((struct dm_dolphin_parameters *)0)->reserved_2) * 8 == DM_DOLPHIN_PARAMETERS_RESERVED_2_BITS, "dm_dolphin_parameters: reserved_2");
_Static_assert(offsetof(struct dm_dolphin_parameters, value_bytes) * 8 == DM_DOLPHIN_PARAMETERS_VALUE_BYTES_OFFSET * 8 + DM_DOLPHIN_PARAMETERS_VALUE_BYTES_BIT && sizeof(((struct dm_dolphin_parameters *)0)->value_bytes) * 8 == DM_DOLPHIN_PARAMETERS_VALUE_BYTES_BITS, "dm_dolphin_parameters: value_bytes");
_Static_assert(offsetof(struct dm_dolphin_parameters, flags) * 8 == DM_DOLPHIN_PARAMETERS_FLAGS_OFFSET * 8 + DM_DOLPHIN_PARAMETERS_FLAGS_BIT && sizeof(((struct dm_dolphin_parameters *)0)->flags) * 8 == DM_DOLPHIN_PARAMETERS_FLAGS_BITS, "dm_dolphin_parameters: flags");
_Static_assert(offsetof(struct dm_dolphin_parameters, reserved_12) * 8 == DM_DOLPHIN_PARAMETERS_RESERVED_12_OFFSET * 8 + DM_DOLPHIN_PARAMETERS_RESERVED_12_BIT && sizeof(((struct dm_dolphin_parameters *)0)->reserved_12) * 8 == DM_DOLPHIN_PARAMETERS_RESERVED_12_BITS, "dm_dolphin_parameters: reserved_12");
_Static_assert(sizeof(struct dm_dex_parameters) == DM_DEX_PARAMETERS_STRUCT_BYTES, "dm_dex_parameters: size");
_Static_assert(offsetof(struct dm_dex_parameters, key_bytes) * 8 == DM_DEX_PARAMETERS_KEY_BYTES_OFFSET * 8 + DM_DEX_PARAMETERS_KEY_BYTES_BIT && sizeof(((struct dm_dex_parameters *)0)->key_bytes) * 8 == DM_DEX_PARAMETERS_KEY_BYTES_BITS, "dm_dex_parameters: key_bytes");
_Static_assert(offsetof(struct dm_dex_parameters, leaf_span) * 8 == DM_DEX_PARAMETERS_LEAF_SPAN_OFFSET * 8 + DM_DEX_PARAMETERS_LEAF_SPAN_BIT && sizeof(((struct dm_dex_parameters *)0)->leaf_span) * 8 == DM_DEX_PARAMETERS_LEAF_SPAN_BITS, "dm_dex_parameters: leaf_span");
_Static_assert(offsetof(struct dm_dex_parameters, value_bytes) * 8 == DM_DEX_PARAMETERS_VALUE_BYTES_OFFSET * 8 + DM_DEX_PARAMETERS_VALUE_BYTES_BIT && sizeof(((struct dm_dex_parameters *)0)->value_bytes) * 8 == DM_DEX_PARAMETERS_VALUE_BYTES_BITS, "dm_dex_parameters: value_bytes");
_Static_assert(offsetof(struct dm_dex_parameters, inner_span) * 8 == DM_DEX_PARAMETERS_INNER_SPAN_OFFSET * 8 + DM_DEX_PARAMETERS_INNER_SPAN_BIT && sizeof(((struct dm_dex_parameters *)0)->inner_span) * 8 == DM_DEX_PARAMETERS_INNER_SPAN_BITS, "dm_dex_parameters: inner_span");
_Static_assert(offsetof(struct dm_dex_parameters, cut) * 8 == DM_DEX_PARAMETERS_CUT_OFFSET * 8 + DM_DEX_PARAMETERS_CUT_BIT && sizeof(((struct dm_dex_parameters *)0)->cut) * 8 == DM_DEX_PARAMETERS_CUT_BITS, "dm_dex_parameters: cut");
_Static_assert(offsetof(struct dm_dex_parameters, reserved_11) * 8 == DM_DEX_PARAMETERS_RESERVED_11_OFFSET * 8 + DM_DEX_PARAMETERS_RESERVED_11_BIT && sizeof(((struct dm_dex_parameters *)0)->reserved_11) * 8 == DM_DEX_PARAMETERS_RESERVED_11_BITS, "dm_dex_parameters: reserved_11");
_Static_assert(offsetof(struct dm_dex_parameters, entries) * 8 == DM_DEX_PARAMETERS_ENTRIES_OFFSET * 8 + DM_DEX_PARAMETERS_ENTRIES_BIT && sizeof(((struct dm_dex_parameters *)0)->entries) * 8 == DM_DEX_PARAMETERS_ENTRIES_BITS, "dm_dex_parameters: entries");
_Static_assert(offsetof(struct dm_dex_parameters, spare) * 8 == DM_DEX_PARAMETERS_SPARE_OFFSET * 8 + DM_DEX_PARAMETERS_SPARE_BIT && sizeof(((struct dm_dex_parameters *)0)->spare) * 8 == DM_DEX_PARAMETERS_SPARE_BITS, "dm_dex_parameters: spare");
_Static_assert(offsetof(struct dm_dex_parameters, reserved_20) * 8 == DM_DEX_PARAMETERS_RESERVED_20_OFFSET * 8 + DM_DEX_PARAMETERS_RESERVED_20_BIT && sizeof(((struct dm_dex_parameters *)0)->reserved_20) * 8 == DM_DEX_PARAMETERS_RESERVED_20_BITS, "dm_dex_parameters: reserved_20");
_Static_assert(offsetof(struct dm_dex_parameters, first) * 8 == DM_DEX_PARAMETERS_FIRST_OFFSET * 8 + DM_DEX_PARAMETERS_FIRST_BIT && sizeof(((struct dm_dex_parameters *)0)->first) * 8 == DM_DEX_PARAMETERS_FIRST_BITS, "dm_dex_parameters: first");
_Static_assert(offsetof(struct dm_dex_parameters, last) * 8 == DM_DEX_PARAMETERS_LAST_OFFSET * 8 + DM_DEX_PARAMETERS_LAST_BIT && sizeof(((struct dm_dex_parameters *)0)->last) * 8 == DM_DEX_PARAMETERS_LAST_BITS, "dm_dex_parameters: last");
_Static_assert(offsetof(struct dm_dex_parameters, reserved_40) * 8 == DM_DEX_PARAMETERS_RESERVED_40_OFFSET * 8 + DM_DEX_PARAMETERS_RESERVED_40_BIT && sizeof(((struct dm_dex_parameters *)0)->reserved_40) * 8 == DM_DEX_PARAMETERS_RESERVED_40_BITS, "dm_dex_parameters: reserved_40");
_Static_assert(sizeof(struct dm_chunk_entry) == DM_CHUNK_ENTRY_STRUCT_BYTES, "dm_chunk_entry: size");
_Static_assert(offsetof(struct dm_chunk_entry, bits_0) * 8 <= DM_CHUNK_ENTRY_STATE_OFFSET * 8 + DM_CHUNK_ENTRY_STATE_BIT && DM_CHUNK_ENTRY_STATE_OFFSET * 8 + DM_CHUNK_ENTRY_STATE_BIT + DM_CHUNK_ENTRY_STATE_BITS <= (offsetof(struct dm_chunk_entry, bits_0) + sizeof(((struct dm_chunk_entry *)0)->bits_0)) * 8, "dm_chunk_entry: state");
_Static_assert(offsetof(struct dm_chunk_entry, bits_0) * 8 <= DM_CHUNK_ENTRY_KIND_OFFSET * 8 + DM_CHUNK_ENTRY_KIND_BIT && DM_CHUNK_ENTRY_KIND_OFFSET * 8 + DM_CHUNK_ENTRY_KIND_BIT + DM_CHUNK_ENTRY_KIND_BITS <= (offsetof(struct dm_chunk_entry, bits_0) + sizeof(((struct dm_chunk_entry *)0)->bits_0)) * 8, "dm_chunk_entry: kind");
_Static_assert(offsetof(struct dm_chunk_entry, bits_0) * 8 <= DM_CHUNK_ENTRY_INDEX_OFFSET * 8 + DM_CHUNK_ENTRY_INDEX_BIT && DM_CHUNK_ENTRY_INDEX_OFFSET * 8 + DM_CHUNK_ENTRY_INDEX_BIT + DM_CHUNK_ENTRY_INDEX_BITS <= (offsetof(struct dm_chunk_entry, bits_0) + sizeof(((struct dm_chunk_entry *)0)->bits_0)) * 8, "dm_chunk_entry: index");
_Static_assert(offsetof(struct dm_chunk_entry, bits_0) * 8 <= DM_CHUNK_ENTRY_REQUEST_OFFSET * 8 + DM_CHUNK_ENTRY_REQUEST_BIT && DM_CHUNK_ENTRY_REQUEST_OFFSET * 8 + DM_CHUNK_ENTRY_REQUEST_BIT + DM_CHUNK_ENTRY_REQUEST_BITS <= (offsetof(struct dm_chunk_entry, bits_0) + sizeof(((struct dm_chunk_entry *)0)->bits_0)) * 8, "dm_chunk_entry: request");
_Static_assert(offsetof(struct dm_chunk_entry, row) * 8 == DM_CHUNK_ENTRY_ROW_OFFSET * 8 + DM_CHUNK_ENTRY_ROW_BIT && sizeof(((struct dm_chunk_entry *)0)->row) * 8 == DM_CHUNK_ENTRY_ROW_BITS, "dm_chunk_entry: row");
_Static_assert(offsetof(struct dm_chunk_entry, incarnation) * 8 == DM_CHUNK_ENTRY_INCARNATION_OFFSET * 8 + DM_CHUNK_ENTRY_INCARNATION_BIT && sizeof(((struct dm_chunk_entry *)0)->incarnation) * 8 == DM_CHUNK_ENTRY_INCARNATION_BITS, "dm_chunk_entry: incarnation");
_Static_assert(sizeof(struct dm_redo_record_header) == DM_REDO_RECORD_HEADER_STRUCT_BYTES, "dm_redo_record_header: size");
_Static_assert(offsetof(struct dm_redo_record_header, checksum) * 8 == DM_REDO_RECORD_HEADER_CHECKSUM_OFFSET * 8 + DM_REDO_RECORD_HEADER_CHECKSUM_BIT && sizeof(((struct dm_redo_record_header *)0)->checksum) * 8 == DM_REDO_RECORD_HEADER_CHECKSUM_BITS, "dm_redo_record_header: checksum");
_Static_assert(offsetof(struct dm_redo_record_header, bytes) * 8 == DM_REDO_RECORD_HEADER_BYTES_OFFSET * 8 + DM_REDO_RECORD_HEADER_BYTES_BIT && sizeof(((struct dm_redo_record_header *)0)->bytes) * 8 == DM_REDO_RECORD_HEADER_BYTES_BITS, "dm_redo_record_header: bytes");
_Static_assert(offsetof(struct dm_redo_record_header, word) * 8 == DM_REDO_RECORD_HEADER_WORD_OFFSET * 8 + DM_REDO_RECORD_HEADER_WORD_BIT && sizeof(((struct dm_redo_record_header *)0)->word) * 8 == DM_REDO_RECORD_HEADER_WORD_BITS, "dm_redo_record_header: word");
_Static_assert(offsetof(struct dm_redo_record_header, offset) * 8 == DM_REDO_RECORD_HEADER_OFFSET_OFFSET * 8 + DM_REDO_RECORD_HEADER_OFFSET_BIT && sizeof(((struct dm_redo_record_header *)0)->offset) * 8 == DM_REDO_RECORD_HEADER_OFFSET_BITS, "dm_redo_record_header: offset");
_Static_assert(offsetof(struct dm_redo_record_header, lock) * 8 == DM_REDO_RECORD_HEADER_LOCK_OFFSET * 8 + DM_REDO_RECORD_HEADER_LOCK_BIT && sizeof(((struct dm_redo_record_header *)0)->lock) * 8 == DM_REDO_RECORD_HEADER_LOCK_BITS, "dm_redo_record_header: lock");
_Static_assert(offsetof(struct dm_redo_record_header, incarnation) * 8 == DM_REDO_RECORD_HEADER_INCARNATION_OFFSET * 8 + DM_REDO_RECORD_HEADER_INCARNATION_BIT && sizeof(((struct dm_redo_record_header *)0)->incarnation) * 8 == DM_REDO_RECORD_HEADER_INCARNATION_BITS, "dm_redo_record_header: incarnation");
_Static_assert(offsetof(struct dm_redo_record_header, step) * 8 == DM_REDO_RECORD_HEADER_STEP_OFFSET * 8 + DM_REDO_RECORD_HEADER_STEP_BIT && sizeof(((struct dm_redo_record_header *)0)->step) * 8 == DM_REDO_RECORD_HEADER_STEP_BITS, "dm_redo_record_header: step");
_Static_assert(offsetof(struct dm_redo_record_header, repair) * 8 == DM_REDO_RECORD_HEADER_REPAIR_OFFSET * 8 + DM_REDO_RECORD_HEADER_REPAIR_BIT && sizeof(((struct dm_redo_record_header *)0)->repair) * 8 == DM_REDO_RECORD_HEADER_REPAIR_BITS, "dm_redo_record_header: repair");
_Static_assert(offsetof(struct dm_redo_record_header, more_offset) * 8 == DM_REDO_RECORD_HEADER_MORE_OFFSET_OFFSET * 8 + DM_REDO_RECORD_HEADER_MORE_OFFSET_BIT && sizeof(((struct dm_redo_record_header *)0)->more_offset) * 8 == DM_REDO_RECORD_HEADER_MORE_OFFSET_BITS, "dm_redo_record_header: more_offset");
_Static_assert(offsetof(struct dm_redo_record_header, more_bytes) * 8 == DM_REDO_RECORD_HEADER_MORE_BYTES_OFFSET * 8 + DM_REDO_RECORD_HEADER_MORE_BYTES_BIT && sizeof(((struct dm_redo_record_header *)0)->more_bytes) * 8 == DM_REDO_RECORD_HEADER_MORE_BYTES_BITS, "dm_redo_record_header: more_bytes");
_Static_assert(offsetof(struct dm_redo_record_header, reserved_52) * 8 == DM_REDO_RECORD_HEADER_RESERVED_52_OFFSET * 8 + DM_REDO_RECORD_HEADER_RESERVED_52_BIT && sizeof(((struct dm_redo_record_header *)0)->reserved_52) * 8 == DM_REDO_RECORD_HEADER_RESERVED_52_BITS, "dm_redo_record_header: reserved_52");
_Static_assert(sizeof(struct dm_open_indexes_line) == DM_OPEN_INDEXES_LINE_STRUCT_BYTES, "dm_open_indexes_line: size");
_Static_assert(offsetof(struct dm_open_indexes_line, checksum) * 8 == DM_OPEN_INDEXES_LINE_CHECKSUM_OFFSET * 8 + DM_OPEN_INDEXES_LINE_CHECKSUM_BIT && sizeof(((struct dm_open_indexes_line *)0)->checksum) * 8 == DM_OPEN_INDEXES_LINE_CHECKSUM_BITS, "dm_open_indexes_line: checksum");
_Static_assert(offsetof(struct dm_open_indexes_line, incarnation) * 8 == DM_OPEN_INDEXES_LINE_INCARNATION_OFFSET * 8 + DM_OPEN_INDEXES_LINE_INCARNATION_BIT && sizeof(((struct dm_open_indexes_line *)0)->incarnation) * 8 == DM_OPEN_INDEXES_LINE_INCARNATION_BITS, "dm_open_indexes_line: incarnation");
_Static_assert(offsetof(struct dm_open_indexes_line, row) * 8 == DM_OPEN_INDEXES_LINE_ROW_OFFSET * 8 + DM_OPEN_INDEXES_LINE_ROW_BIT && sizeof(((struct dm_open_indexes_line *)0)->row) * 8 == DM_OPEN_INDEXES_LINE_ROW_BITS, "dm_open_indexes_line: row");
_Static_assert(offsetof(struct dm_open_indexes_line, reserved_10) * 8 == DM_OPEN_INDEXES_LINE_RESERVED_10_OFFSET * 8 + DM_OPEN_INDEXES_LINE_RESERVED_10_BIT && sizeof(((struct dm_open_indexes_line *)0)->reserved_10) * 8 == DM_OPEN_INDEXES_LINE_RESERVED_10_BITS, "dm_open_indexes_line: reserved_10");
_Static_assert(offsetof(struct dm_open_indexes_line, indexes) * 8 == DM_OPEN_INDEXES_LINE_INDEXES_OFFSET * 8 + DM_OPEN_INDEXES_LINE_INDEXES_BIT && sizeof(((struct dm_open_indexes_line *)0)->indexes) * 8 == DM_OPEN_INDEXES_LINE_INDEXES_BITS, "dm_open_indexes_line: indexes");
_Static_assert(sizeof(struct dm_closed_chunks_word_0) == DM_CLOSED_CHUNKS_WORD_0_STRUCT_BYTES, "dm_closed_chunks_word_0: size");
_Static_assert(offsetof(struct dm_closed_chunks_word_0, number) * 8 == DM_CLOSED_CHUNKS_WORD_0_NUMBER_OFFSET * 8 + DM_CLOSED_CHUNKS_WORD_0_NUMBER_BIT && sizeof(((struct dm_closed_chunks_word_0 *)0)->number) * 8 == DM_CLOSED_CHUNKS_WORD_0_NUMBER_BITS, "dm_closed_chunks_word_0: number");
_Static_assert(offsetof(struct dm_closed_chunks_word_0, row) * 8 == DM_CLOSED_CHUNKS_WORD_0_ROW_OFFSET * 8 + DM_CLOSED_CHUNKS_WORD_0_ROW_BIT && sizeof(((struct dm_closed_chunks_word_0 *)0)->row) * 8 == DM_CLOSED_CHUNKS_WORD_0_ROW_BITS, "dm_closed_chunks_word_0: row");
_Static_assert(offsetof(struct dm_closed_chunks_word_0, incarnation) * 8 == DM_CLOSED_CHUNKS_WORD_0_INCARNATION_OFFSET * 8 + DM_CLOSED_CHUNKS_WORD_0_INCARNATION_BIT && sizeof(((struct dm_closed_chunks_word_0 *)0)->incarnation) * 8 == DM_CLOSED_CHUNKS_WORD_0_INCARNATION_BITS, "dm_closed_chunks_word_0: incarnation");
_Static_assert(sizeof(struct dm_closed_chunks_words_1_8) == DM_CLOSED_CHUNKS_WORDS_1_8_STRUCT_BYTES, "dm_closed_chunks_words_1_8: size");
_Static_assert(offsetof(struct dm_closed_chunks_words_1_8, chunk) * 8 == DM_CLOSED_CHUNKS_WORDS_1_8_CHUNK_OFFSET * 8 + DM_CLOSED_CHUNKS_WORDS_1_8_CHUNK_BIT && sizeof(((struct dm_closed_chunks_words_1_8 *)0)->chunk) * 8 == DM_CLOSED_CHUNKS_WORDS_1_8_CHUNK_BITS, "dm_closed_chunks_words_1_8: chunk");
_Static_assert(offsetof(struct dm_closed_chunks_words_1_8, node) * 8 == DM_CLOSED_CHUNKS_WORDS_1_8_NODE_OFFSET * 8 + DM_CLOSED_CHUNKS_WORDS_1_8_NODE_BIT && sizeof(((struct dm_closed_chunks_words_1_8 *)0)->node) * 8 == DM_CLOSED_CHUNKS_WORDS_1_8_NODE_BITS, "dm_closed_chunks_words_1_8: node");
_Static_assert(offsetof(struct dm_closed_chunks_words_1_8, reserved) * 8 == DM_CLOSED_CHUNKS_WORDS_1_8_RESERVED_OFFSET * 8 + DM_CLOSED_CHUNKS_WORDS_1_8_RESERVED_BIT && sizeof(((struct dm_closed_chunks_words_1_8 *)0)->reserved) * 8 == DM_CLOSED_CHUNKS_WORDS_1_8_RESERVED_BITS, "dm_closed_chunks_words_1_8: reserved");
_Static_assert(sizeof(struct dm_node_header_header) == DM_NODE_HEADER_HEADER_STRUCT_BYTES, "dm_node_header_header: size");
_Static_assert(offsetof(struct dm_node_header_header, bits_0) * 8 <= DM_NODE_HEADER_HEADER_GENERATION_OFFSET * 8 + DM_NODE_HEADER_HEADER_GENERATION_BIT && DM_NODE_HEADER_HEADER_GENERATION_OFFSET * 8 + DM_NODE_HEADER_HEADER_GENERATION_BIT + DM_NODE_HEADER_HEADER_GENERATION_BITS <= (offsetof(struct dm_node_header_header, bits_0) + sizeof(((struct dm_node_header_header *)0)->bits_0)) * 8, "dm_node_header_header: generation");
_Static_assert(offsetof(struct dm_node_header_header, bits_0) * 8 <= DM_NODE_HEADER_HEADER_MOVED_OFFSET * 8 + DM_NODE_HEADER_HEADER_MOVED_BIT && DM_NODE_HEADER_HEADER_MOVED_OFFSET * 8 + DM_NODE_HEADER_HEADER_MOVED_BIT + DM_NODE_HEADER_HEADER_MOVED_BITS <= (offsetof(struct dm_node_header_header, bits_0) + sizeof(((struct dm_node_header_header *)0)->bits_0)) * 8, "dm_node_header_header: moved");
_Static_assert(offsetof(struct dm_node_header_header, level) * 8 == DM_NODE_HEADER_HEADER_LEVEL_OFFSET * 8 + DM_NODE_HEADER_HEADER_LEVEL_BIT && sizeof(((struct dm_node_header_header *)0)->level) * 8 == DM_NODE_HEADER_HEADER_LEVEL_BITS, "dm_node_header_header: level");
_Static_assert(offsetof(struct dm_node_header_header, index) * 8 == DM_NODE_HEADER_HEADER_INDEX_OFFSET * 8 + DM_NODE_HEADER_HEADER_INDEX_BIT && sizeof(((struct dm_node_header_header *)0)->index) * 8 == DM_NODE_HEADER_HEADER_INDEX_BITS, "dm_node_header_header: index");
_Static_assert(offsetof(struct dm_node_header_header, bits_3) * 8 <= DM_NODE_HEADER_HEADER_UNBOUNDED_OFFSET * 8 + DM_NODE_HEADER_HEADER_UNBOUNDED_BIT && DM_NODE_HEADER_HEADER_UNBOUNDED_OFFSET * 8 + DM_NODE_HEADER_HEADER_UNBOUNDED_BIT + DM_NODE_HEADER_HEADER_UNBOUNDED_BITS <= (offsetof(struct dm_node_header_header, bits_3) + sizeof(((struct dm_node_header_header *)0)->bits_3)) * 8, "dm_node_header_header: unbounded");
_Static_assert(offsetof(struct dm_node_header_header, bits_3) * 8 <= DM_NODE_HEADER_HEADER_RETIRED_OFFSET * 8 + DM_NODE_HEADER_HEADER_RETIRED_BIT && DM_NODE_HEADER_HEADER_RETIRED_OFFSET * 8 + DM_NODE_HEADER_HEADER_RETIRED_BIT + DM_NODE_HEADER_HEADER_RETIRED_BITS <= (offsetof(struct dm_node_header_header, bits_3) + sizeof(((struct dm_node_header_header *)0)->bits_3)) * 8, "dm_node_header_header: retired");
_Static_assert(offsetof(struct dm_node_header_header, bits_3) * 8 <= DM_NODE_HEADER_HEADER_SIGNER_HIGH_BITS_OFFSET * 8 + DM_NODE_HEADER_HEADER_SIGNER_HIGH_BITS_BIT && DM_NODE_HEADER_HEADER_SIGNER_HIGH_BITS_OFFSET * 8 + DM_NODE_HEADER_HEADER_SIGNER_HIGH_BITS_BIT + DM_NODE_HEADER_HEADER_SIGNER_HIGH_BITS_BITS <= (offsetof(struct dm_node_header_header, bits_3) + sizeof(((struct dm_node_header_header *)0)->bits_3)) * 8, "dm_node_header_header: signer, high bits");
_Static_assert(offsetof(struct dm_node_header_header, count) * 8 == DM_NODE_HEADER_HEADER_COUNT_OFFSET * 8 + DM_NODE_HEADER_HEADER_COUNT_BIT && sizeof(((struct dm_node_header_header *)0)->count) * 8 == DM_NODE_HEADER_HEADER_COUNT_BITS, "dm_node_header_header: count");
_Static_assert(offsetof(struct dm_node_header_header, sibling) * 8 == DM_NODE_HEADER_HEADER_SIBLING_OFFSET * 8 + DM_NODE_HEADER_HEADER_SIBLING_BIT && sizeof(((struct dm_node_header_header *)0)->sibling) * 8 == DM_NODE_HEADER_HEADER_SIBLING_BITS, "dm_node_header_header: sibling");
_Static_assert(offsetof(struct dm_node_header_header, low) * 8 == DM_NODE_HEADER_HEADER_LOW_OFFSET * 8 + DM_NODE_HEADER_HEADER_LOW_BIT && sizeof(((struct dm_node_header_header *)0)->low) * 8 == DM_NODE_HEADER_HEADER_LOW_BITS, "dm_node_header_header: low");
_Static_assert(offsetof(struct dm_node_header_header, high) * 8 == DM_NODE_HEADER_HEADER_HIGH_OFFSET * 8 + DM_NODE_HEADER_HEADER_HIGH_BIT && sizeof(((struct dm_node_header_header *)0)->high) * 8 == DM_NODE_HEADER_HEADER_HIGH_BITS, "dm_node_header_header: high");
_Static_assert(sizeof(struct dm_btree_inner_after_the_header) == DM_BTREE_INNER_AFTER_THE_HEADER_STRUCT_BYTES, "dm_btree_inner_after_the_header: size");
_Static_assert(offsetof(struct dm_btree_inner_after_the_header, child_0) * 8 == DM_BTREE_INNER_AFTER_THE_HEADER_CHILD_0_OFFSET * 8 + DM_BTREE_INNER_AFTER_THE_HEADER_CHILD_0_BIT && sizeof(((struct dm_btree_inner_after_the_header *)0)->child_0) * 8 == DM_BTREE_INNER_AFTER_THE_HEADER_CHILD_0_BITS, "dm_btree_inner_after_the_header: child 0");
_Static_assert(offsetof(struct dm_btree_inner_after_the_header, separator_1) * 8 == DM_BTREE_INNER_AFTER_THE_HEADER_SEPARATOR_1_OFFSET * 8 + DM_BTREE_INNER_AFTER_THE_HEADER_SEPARATOR_1_BIT && sizeof(((struct dm_btree_inner_after_the_header *)0)->separator_1) * 8 == DM_BTREE_INNER_AFTER_THE_HEADER_SEPARATOR_1_BITS, "dm_btree_inner_after_the_header: separator 1");
_Static_assert(offsetof(struct dm_btree_inner_after_the_header, child_1) * 8 == DM_BTREE_INNER_AFTER_THE_HEADER_CHILD_1_OFFSET * 8 + DM_BTREE_INNER_AFTER_THE_HEADER_CHILD_1_BIT && sizeof(((struct dm_btree_inner_after_the_header *)0)->child_1) * 8 == DM_BTREE_INNER_AFTER_THE_HEADER_CHILD_1_BITS, "dm_btree_inner_after_the_header: child 1");
_Static_assert(sizeof(struct dm_sherman_leaf_entry) == DM_SHERMAN_LEAF_ENTRY_STRUCT_BYTES, "dm_sherman_leaf_entry: size");
_Static_assert(offsetof(struct dm_sherman_leaf_entry, bits_0) * 8 <= DM_SHERMAN_LEAF_ENTRY_ENTRY_VERSION_OFFSET * 8 + DM_SHERMAN_LEAF_ENTRY_ENTRY_VERSION_BIT && DM_SHERMAN_LEAF_ENTRY_ENTRY_VERSION_OFFSET * 8 + DM_SHERMAN_LEAF_ENTRY_ENTRY_VERSION_BIT + DM_SHERMAN_LEAF_ENTRY_ENTRY_VERSION_BITS <= (offsetof(struct dm_sherman_leaf_entry, bits_0) + sizeof(((struct dm_sherman_leaf_entry *)0)->bits_0)) * 8, "dm_sherman_leaf_entry: entry version");
_Static_assert(offsetof(struct dm_sherman_leaf_entry, bits_0) * 8 <= DM_SHERMAN_LEAF_ENTRY_OCCUPIED_OFFSET * 8 + DM_SHERMAN_LEAF_ENTRY_OCCUPIED_BIT && DM_SHERMAN_LEAF_ENTRY_OCCUPIED_OFFSET * 8 + DM_SHERMAN_LEAF_ENTRY_OCCUPIED_BIT + DM_SHERMAN_LEAF_ENTRY_OCCUPIED_BITS <= (offsetof(struct dm_sherman_leaf_entry, bits_0) + sizeof(((struct dm_sherman_leaf_entry *)0)->bits_0)) * 8, "dm_sherman_leaf_entry: occupied");
_Static_assert(offsetof(struct dm_sherman_leaf_entry, key) * 8 == DM_SHERMAN_LEAF_ENTRY_KEY_OFFSET * 8 + DM_SHERMAN_LEAF_ENTRY_KEY_BIT && sizeof(((struct dm_sherman_leaf_entry *)0)->key) * 8 == DM_SHERMAN_LEAF_ENTRY_KEY_BITS, "dm_sherman_leaf_entry: key");
_Static_assert(offsetof(struct dm_sherman_leaf_entry, value) * 8 == DM_SHERMAN_LEAF_ENTRY_VALUE_OFFSET * 8 + DM_SHERMAN_LEAF_ENTRY_VALUE_BIT && sizeof(((struct dm_sherman_leaf_entry *)0)->value) * 8 == DM_SHERMAN_LEAF_ENTRY_VALUE_BITS, "dm_sherman_leaf_entry: value");
_Static_assert(sizeof(struct dm_chime_leaf_replica) == DM_CHIME_LEAF_REPLICA_STRUCT_BYTES, "dm_chime_leaf_replica: size");
_Static_assert(offsetof(struct dm_chime_leaf_replica, bits_0) * 8 <= DM_CHIME_LEAF_REPLICA_NODE_VERSION_OFFSET * 8 + DM_CHIME_LEAF_REPLICA_NODE_VERSION_BIT && DM_CHIME_LEAF_REPLICA_NODE_VERSION_OFFSET * 8 + DM_CHIME_LEAF_REPLICA_NODE_VERSION_BIT + DM_CHIME_LEAF_REPLICA_NODE_VERSION_BITS <= (offsetof(struct dm_chime_leaf_replica, bits_0) + sizeof(((struct dm_chime_leaf_replica *)0)->bits_0)) * 8, "dm_chime_leaf_replica: node version");
_Static_assert(offsetof(struct dm_chime_leaf_replica, bits_1) * 8 <= DM_CHIME_LEAF_REPLICA_GENERATION_OFFSET * 8 + DM_CHIME_LEAF_REPLICA_GENERATION_BIT && DM_CHIME_LEAF_REPLICA_GENERATION_OFFSET * 8 + DM_CHIME_LEAF_REPLICA_GENERATION_BIT + DM_CHIME_LEAF_REPLICA_GENERATION_BITS <= (offsetof(struct dm_chime_leaf_replica, bits_1) + sizeof(((struct dm_chime_leaf_replica *)0)->bits_1)) * 8, "dm_chime_leaf_replica: generation");
_Static_assert(offsetof(struct dm_chime_leaf_replica, bits_1) * 8 <= DM_CHIME_LEAF_REPLICA_WRITTEN_OFFSET * 8 + DM_CHIME_LEAF_REPLICA_WRITTEN_BIT && DM_CHIME_LEAF_REPLICA_WRITTEN_OFFSET * 8 + DM_CHIME_LEAF_REPLICA_WRITTEN_BIT + DM_CHIME_LEAF_REPLICA_WRITTEN_BITS <= (offsetof(struct dm_chime_leaf_replica, bits_1) + sizeof(((struct dm_chime_leaf_replica *)0)->bits_1)) * 8, "dm_chime_leaf_replica: written");
_Static_assert(offsetof(struct dm_chime_leaf_replica, bits_1) * 8 <= DM_CHIME_LEAF_REPLICA_RETIRED_OFFSET * 8 + DM_CHIME_LEAF_REPLICA_RETIRED_BIT && DM_CHIME_LEAF_REPLICA_RETIRED_OFFSET * 8 + DM_CHIME_LEAF_REPLICA_RETIRED_BIT + DM_CHIME_LEAF_REPLICA_RETIRED_BITS <= (offsetof(struct dm_chime_leaf_replica, bits_1) + sizeof(((struct dm_chime_leaf_replica *)0)->bits_1)) * 8, "dm_chime_leaf_replica: retired");
_Static_assert(offsetof(struct dm_chime_leaf_replica, sibling) * 8 == DM_CHIME_LEAF_REPLICA_SIBLING_OFFSET * 8 + DM_CHIME_LEAF_REPLICA_SIBLING_BIT && sizeof(((struct dm_chime_leaf_replica *)0)->sibling) * 8 == DM_CHIME_LEAF_REPLICA_SIBLING_BITS, "dm_chime_leaf_replica: sibling");
_Static_assert(sizeof(struct dm_chime_leaf_entry) == DM_CHIME_LEAF_ENTRY_STRUCT_BYTES, "dm_chime_leaf_entry: size");
_Static_assert(offsetof(struct dm_chime_leaf_entry, bits_0) * 8 <= DM_CHIME_LEAF_ENTRY_NODE_VERSION_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_NODE_VERSION_BIT && DM_CHIME_LEAF_ENTRY_NODE_VERSION_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_NODE_VERSION_BIT + DM_CHIME_LEAF_ENTRY_NODE_VERSION_BITS <= (offsetof(struct dm_chime_leaf_entry, bits_0) + sizeof(((struct dm_chime_leaf_entry *)0)->bits_0)) * 8, "dm_chime_leaf_entry: node version");
_Static_assert(offsetof(struct dm_chime_leaf_entry, bits_0) * 8 <= DM_CHIME_LEAF_ENTRY_ENTRY_VERSION_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_ENTRY_VERSION_BIT && DM_CHIME_LEAF_ENTRY_ENTRY_VERSION_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_ENTRY_VERSION_BIT + DM_CHIME_LEAF_ENTRY_ENTRY_VERSION_BITS <= (offsetof(struct dm_chime_leaf_entry, bits_0) + sizeof(((struct dm_chime_leaf_entry *)0)->bits_0)) * 8, "dm_chime_leaf_entry: entry version");
_Static_assert(offsetof(struct dm_chime_leaf_entry, bitmap) * 8 == DM_CHIME_LEAF_ENTRY_BITMAP_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_BITMAP_BIT && sizeof(((struct dm_chime_leaf_entry *)0)->bitmap) * 8 == DM_CHIME_LEAF_ENTRY_BITMAP_BITS, "dm_chime_leaf_entry: bitmap");
_Static_assert(offsetof(struct dm_chime_leaf_entry, bits_2) * 8 <= DM_CHIME_LEAF_ENTRY_GENERATION_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_GENERATION_BIT && DM_CHIME_LEAF_ENTRY_GENERATION_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_GENERATION_BIT + DM_CHIME_LEAF_ENTRY_GENERATION_BITS <= (offsetof(struct dm_chime_leaf_entry, bits_2) + sizeof(((struct dm_chime_leaf_entry *)0)->bits_2)) * 8, "dm_chime_leaf_entry: generation");
_Static_assert(offsetof(struct dm_chime_leaf_entry, bits_2) * 8 <= DM_CHIME_LEAF_ENTRY_DEAD_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_DEAD_BIT && DM_CHIME_LEAF_ENTRY_DEAD_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_DEAD_BIT + DM_CHIME_LEAF_ENTRY_DEAD_BITS <= (offsetof(struct dm_chime_leaf_entry, bits_2) + sizeof(((struct dm_chime_leaf_entry *)0)->bits_2)) * 8, "dm_chime_leaf_entry: dead");
_Static_assert(offsetof(struct dm_chime_leaf_entry, bits_2) * 8 <= DM_CHIME_LEAF_ENTRY_LIVE_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_LIVE_BIT && DM_CHIME_LEAF_ENTRY_LIVE_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_LIVE_BIT + DM_CHIME_LEAF_ENTRY_LIVE_BITS <= (offsetof(struct dm_chime_leaf_entry, bits_2) + sizeof(((struct dm_chime_leaf_entry *)0)->bits_2)) * 8, "dm_chime_leaf_entry: live");
_Static_assert(offsetof(struct dm_chime_leaf_entry, key) * 8 == DM_CHIME_LEAF_ENTRY_KEY_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_KEY_BIT && sizeof(((struct dm_chime_leaf_entry *)0)->key) * 8 == DM_CHIME_LEAF_ENTRY_KEY_BITS, "dm_chime_leaf_entry: key");
_Static_assert(offsetof(struct dm_chime_leaf_entry, value) * 8 == DM_CHIME_LEAF_ENTRY_VALUE_OFFSET * 8 + DM_CHIME_LEAF_ENTRY_VALUE_BIT && sizeof(((struct dm_chime_leaf_entry *)0)->value) * 8 == DM_CHIME_LEAF_ENTRY_VALUE_BITS, "dm_chime_leaf_entry: value");
_Static_assert(sizeof(struct dm_chime_leaf_line_behind_the_image) == DM_CHIME_LEAF_LINE_BEHIND_THE_IMAGE_STRUCT_BYTES, "dm_chime_leaf_line_behind_the_image: size");
_Static_assert(offsetof(struct dm_chime_leaf_line_behind_the_image, lock_word) * 8 == DM_CHIME_LEAF_LINE_BEHIND_THE_IMAGE_LOCK_WORD_OFFSET * 8 + DM_CHIME_LEAF_LINE_BEHIND_THE_IMAGE_LOCK_WORD_BIT && sizeof(((struct dm_chime_leaf_line_behind_the_image *)0)->lock_word) * 8 == DM_CHIME_LEAF_LINE_BEHIND_THE_IMAGE_LOCK_WORD_BITS, "dm_chime_leaf_line_behind_the_image: lock word");
_Static_assert(sizeof(struct dm_chime_lock_word_free) == DM_CHIME_LOCK_WORD_FREE_STRUCT_BYTES, "dm_chime_lock_word_free: size");
_Static_assert(offsetof(struct dm_chime_lock_word_free, bits_0) * 8 <= DM_CHIME_LOCK_WORD_FREE_VACANCY_OFFSET * 8 + DM_CHIME_LOCK_WORD_FREE_VACANCY_BIT && DM_CHIME_LOCK_WORD_FREE_VACANCY_OFFSET * 8 + DM_CHIME_LOCK_WORD_FREE_VACANCY_BIT + DM_CHIME_LOCK_WORD_FREE_VACANCY_BITS <= (offsetof(struct dm_chime_lock_word_free, bits_0) + sizeof(((struct dm_chime_lock_word_free *)0)->bits_0)) * 8, "dm_chime_lock_word_free: vacancy");
_Static_assert(offsetof(struct dm_chime_lock_word_free, bits_0) * 8 <= DM_CHIME_LOCK_WORD_FREE_HELD_OFFSET * 8 + DM_CHIME_LOCK_WORD_FREE_HELD_BIT && DM_CHIME_LOCK_WORD_FREE_HELD_OFFSET * 8 + DM_CHIME_LOCK_WORD_FREE_HELD_BIT + DM_CHIME_LOCK_WORD_FREE_HELD_BITS <= (offsetof(struct dm_chime_lock_word_free, bits_0) + sizeof(((struct dm_chime_lock_word_free *)0)->bits_0)) * 8, "dm_chime_lock_word_free: held");
_Static_assert(sizeof(struct dm_chime_lock_word_held) == DM_CHIME_LOCK_WORD_HELD_STRUCT_BYTES, "dm_chime_lock_word_held: size");
_Static_assert(offsetof(struct dm_chime_lock_word_held, row) * 8 == DM_CHIME_LOCK_WORD_HELD_ROW_OFFSET * 8 + DM_CHIME_LOCK_WORD_HELD_ROW_BIT && sizeof(((struct dm_chime_lock_word_held *)0)->row) * 8 == DM_CHIME_LOCK_WORD_HELD_ROW_BITS, "dm_chime_lock_word_held: row");
_Static_assert(offsetof(struct dm_chime_lock_word_held, turn) * 8 == DM_CHIME_LOCK_WORD_HELD_TURN_OFFSET * 8 + DM_CHIME_LOCK_WORD_HELD_TURN_BIT && sizeof(((struct dm_chime_lock_word_held *)0)->turn) * 8 == DM_CHIME_LOCK_WORD_HELD_TURN_BITS, "dm_chime_lock_word_held: turn");
_Static_assert(offsetof(struct dm_chime_lock_word_held, bits_7) * 8 <= DM_CHIME_LOCK_WORD_HELD_HELD_OFFSET * 8 + DM_CHIME_LOCK_WORD_HELD_HELD_BIT && DM_CHIME_LOCK_WORD_HELD_HELD_OFFSET * 8 + DM_CHIME_LOCK_WORD_HELD_HELD_BIT + DM_CHIME_LOCK_WORD_HELD_HELD_BITS <= (offsetof(struct dm_chime_lock_word_held, bits_7) + sizeof(((struct dm_chime_lock_word_held *)0)->bits_7)) * 8, "dm_chime_lock_word_held: held");
_Static_assert(sizeof(struct dm_radix_slot_word) == DM_RADIX_SLOT_WORD_STRUCT_BYTES, "dm_radix_slot_word: size");
_Static_assert(offsetof(struct dm_radix_slot_word, partial) * 8 == DM_RADIX_SLOT_WORD_PARTIAL_OFFSET * 8 + DM_RADIX_SLOT_WORD_PARTIAL_BIT && sizeof(((struct dm_radix_slot_word *)0)->partial) * 8 == DM_RADIX_SLOT_WORD_PARTIAL_BITS, "dm_radix_slot_word: partial");
_Static_assert(offsetof(struct dm_radix_slot_word, bits_1) * 8 <= DM_RADIX_SLOT_WORD_TYPE_OFFSET * 8 + DM_RADIX_SLOT_WORD_TYPE_BIT && DM_RADIX_SLOT_WORD_TYPE_OFFSET * 8 + DM_RADIX_SLOT_WORD_TYPE_BIT + DM_RADIX_SLOT_WORD_TYPE_BITS <= (offsetof(struct dm_radix_slot_word, bits_1) + sizeof(((struct dm_radix_slot_word *)0)->bits_1)) * 8, "dm_radix_slot_word: type");
_Static_assert(offsetof(struct dm_radix_slot_word, bits_1) * 8 <= DM_RADIX_SLOT_WORD_RESERVED_OFFSET * 8 + DM_RADIX_SLOT_WORD_RESERVED_BIT && DM_RADIX_SLOT_WORD_RESERVED_OFFSET * 8 + DM_RADIX_SLOT_WORD_RESERVED_BIT + DM_RADIX_SLOT_WORD_RESERVED_BITS <= (offsetof(struct dm_radix_slot_word, bits_1) + sizeof(((struct dm_radix_slot_word *)0)->bits_1)) * 8, "dm_radix_slot_word: reserved");
_Static_assert(offsetof(struct dm_radix_slot_word, bits_1) * 8 <= DM_RADIX_SLOT_WORD_FROZEN_OFFSET * 8 + DM_RADIX_SLOT_WORD_FROZEN_BIT && DM_RADIX_SLOT_WORD_FROZEN_OFFSET * 8 + DM_RADIX_SLOT_WORD_FROZEN_BIT + DM_RADIX_SLOT_WORD_FROZEN_BITS <= (offsetof(struct dm_radix_slot_word, bits_1) + sizeof(((struct dm_radix_slot_word *)0)->bits_1)) * 8, "dm_radix_slot_word: frozen");
_Static_assert(offsetof(struct dm_radix_slot_word, bits_1) * 8 <= DM_RADIX_SLOT_WORD_LEAF_OFFSET * 8 + DM_RADIX_SLOT_WORD_LEAF_BIT && DM_RADIX_SLOT_WORD_LEAF_OFFSET * 8 + DM_RADIX_SLOT_WORD_LEAF_BIT + DM_RADIX_SLOT_WORD_LEAF_BITS <= (offsetof(struct dm_radix_slot_word, bits_1) + sizeof(((struct dm_radix_slot_word *)0)->bits_1)) * 8, "dm_radix_slot_word: leaf");
_Static_assert(offsetof(struct dm_radix_slot_word, memory_node) * 8 == DM_RADIX_SLOT_WORD_MEMORY_NODE_OFFSET * 8 + DM_RADIX_SLOT_WORD_MEMORY_NODE_BIT && sizeof(((struct dm_radix_slot_word *)0)->memory_node) * 8 == DM_RADIX_SLOT_WORD_MEMORY_NODE_BITS, "dm_radix_slot_word: memory node");
_Static_assert(offsetof(struct dm_radix_slot_word, offset) * 8 == DM_RADIX_SLOT_WORD_OFFSET_OFFSET * 8 + DM_RADIX_SLOT_WORD_OFFSET_BIT && sizeof(((struct dm_radix_slot_word *)0)->offset) * 8 == DM_RADIX_SLOT_WORD_OFFSET_BITS, "dm_radix_slot_word: offset");
_Static_assert(sizeof(struct dm_radix_node) == DM_RADIX_NODE_STRUCT_BYTES, "dm_radix_node: size");
_Static_assert(offsetof(struct dm_radix_node, position) * 8 == DM_RADIX_NODE_POSITION_OFFSET * 8 + DM_RADIX_NODE_POSITION_BIT && sizeof(((struct dm_radix_node *)0)->position) * 8 == DM_RADIX_NODE_POSITION_BITS, "dm_radix_node: position");
_Static_assert(offsetof(struct dm_radix_node, bits_1) * 8 <= DM_RADIX_NODE_TYPE_OFFSET * 8 + DM_RADIX_NODE_TYPE_BIT && DM_RADIX_NODE_TYPE_OFFSET * 8 + DM_RADIX_NODE_TYPE_BIT + DM_RADIX_NODE_TYPE_BITS <= (offsetof(struct dm_radix_node, bits_1) + sizeof(((struct dm_radix_node *)0)->bits_1)) * 8, "dm_radix_node: type");
_Static_assert(offsetof(struct dm_radix_node, bits_1) * 8 <= DM_RADIX_NODE_RESERVED_OFFSET * 8 + DM_RADIX_NODE_RESERVED_BIT && DM_RADIX_NODE_RESERVED_OFFSET * 8 + DM_RADIX_NODE_RESERVED_BIT + DM_RADIX_NODE_RESERVED_BITS <= (offsetof(struct dm_radix_node, bits_1) + sizeof(((struct dm_radix_node *)0)->bits_1)) * 8, "dm_radix_node: reserved");
_Static_assert(offsetof(struct dm_radix_node, bits_1) * 8 <= DM_RADIX_NODE_SIZE_OFFSET * 8 + DM_RADIX_NODE_SIZE_BIT && DM_RADIX_NODE_SIZE_OFFSET * 8 + DM_RADIX_NODE_SIZE_BIT + DM_RADIX_NODE_SIZE_BITS <= (offsetof(struct dm_radix_node, bits_1) + sizeof(((struct dm_radix_node *)0)->bits_1)) * 8, "dm_radix_node: size");
_Static_assert(offsetof(struct dm_radix_node, bytes) * 8 == DM_RADIX_NODE_BYTES_OFFSET * 8 + DM_RADIX_NODE_BYTES_BIT && sizeof(((struct dm_radix_node *)0)->bytes) * 8 == DM_RADIX_NODE_BYTES_BITS, "dm_radix_node: bytes");
_Static_assert(offsetof(struct dm_radix_node, index) * 8 == DM_RADIX_NODE_INDEX_OFFSET * 8 + DM_RADIX_NODE_INDEX_BIT && sizeof(((struct dm_radix_node *)0)->index) * 8 == DM_RADIX_NODE_INDEX_BITS, "dm_radix_node: index");
_Static_assert(offsetof(struct dm_radix_node, reserved_9) * 8 == DM_RADIX_NODE_RESERVED_9_OFFSET * 8 + DM_RADIX_NODE_RESERVED_9_BIT && sizeof(((struct dm_radix_node *)0)->reserved_9) * 8 == DM_RADIX_NODE_RESERVED_9_BITS, "dm_radix_node: reserved");
_Static_assert(sizeof(struct dm_smart_leaf) == DM_SMART_LEAF_STRUCT_BYTES, "dm_smart_leaf: size");
_Static_assert(offsetof(struct dm_smart_leaf, state) * 8 == DM_SMART_LEAF_STATE_OFFSET * 8 + DM_SMART_LEAF_STATE_BIT && sizeof(((struct dm_smart_leaf *)0)->state) * 8 == DM_SMART_LEAF_STATE_BITS, "dm_smart_leaf: state");
_Static_assert(offsetof(struct dm_smart_leaf, checksum) * 8 == DM_SMART_LEAF_CHECKSUM_OFFSET * 8 + DM_SMART_LEAF_CHECKSUM_BIT && sizeof(((struct dm_smart_leaf *)0)->checksum) * 8 == DM_SMART_LEAF_CHECKSUM_BITS, "dm_smart_leaf: checksum");
_Static_assert(offsetof(struct dm_smart_leaf, value) * 8 == DM_SMART_LEAF_VALUE_OFFSET * 8 + DM_SMART_LEAF_VALUE_BIT && sizeof(((struct dm_smart_leaf *)0)->value) * 8 == DM_SMART_LEAF_VALUE_BITS, "dm_smart_leaf: value");
_Static_assert(offsetof(struct dm_smart_leaf, key) * 8 == DM_SMART_LEAF_KEY_OFFSET * 8 + DM_SMART_LEAF_KEY_BIT && sizeof(((struct dm_smart_leaf *)0)->key) * 8 == DM_SMART_LEAF_KEY_BITS, "dm_smart_leaf: key");
_Static_assert(offsetof(struct dm_smart_leaf, lock) * 8 == DM_SMART_LEAF_LOCK_OFFSET * 8 + DM_SMART_LEAF_LOCK_BIT && sizeof(((struct dm_smart_leaf *)0)->lock) * 8 == DM_SMART_LEAF_LOCK_BITS, "dm_smart_leaf: lock");
_Static_assert(sizeof(struct dm_dolphin_spear_word) == DM_DOLPHIN_SPEAR_WORD_STRUCT_BYTES, "dm_dolphin_spear_word: size");
_Static_assert(offsetof(struct dm_dolphin_spear_word, bits_0) * 8 <= DM_DOLPHIN_SPEAR_WORD_SEAT_0_OFFSET * 8 + DM_DOLPHIN_SPEAR_WORD_SEAT_0_BIT && DM_DOLPHIN_SPEAR_WORD_SEAT_0_OFFSET * 8 + DM_DOLPHIN_SPEAR_WORD_SEAT_0_BIT + DM_DOLPHIN_SPEAR_WORD_SEAT_0_BITS <= (offsetof(struct dm_dolphin_spear_word, bits_0) + sizeof(((struct dm_dolphin_spear_word *)0)->bits_0)) * 8, "dm_dolphin_spear_word: seat 0");
_Static_assert(offsetof(struct dm_dolphin_spear_word, bits_0) * 8 <= DM_DOLPHIN_SPEAR_WORD_SEATS_1_29_OFFSET * 8 + DM_DOLPHIN_SPEAR_WORD_SEATS_1_29_BIT && DM_DOLPHIN_SPEAR_WORD_SEATS_1_29_OFFSET * 8 + DM_DOLPHIN_SPEAR_WORD_SEATS_1_29_BIT + DM_DOLPHIN_SPEAR_WORD_SEATS_1_29_BITS <= (offsetof(struct dm_dolphin_spear_word, bits_0) + sizeof(((struct dm_dolphin_spear_word *)0)->bits_0)) * 8, "dm_dolphin_spear_word: seats 1..29");
_Static_assert(offsetof(struct dm_dolphin_spear_word, bits_0) * 8 <= DM_DOLPHIN_SPEAR_WORD_RESERVED_OFFSET * 8 + DM_DOLPHIN_SPEAR_WORD_RESERVED_BIT && DM_DOLPHIN_SPEAR_WORD_RESERVED_OFFSET * 8 + DM_DOLPHIN_SPEAR_WORD_RESERVED_BIT + DM_DOLPHIN_SPEAR_WORD_RESERVED_BITS <= (offsetof(struct dm_dolphin_spear_word, bits_0) + sizeof(((struct dm_dolphin_spear_word *)0)->bits_0)) * 8, "dm_dolphin_spear_word: reserved");
_Static_assert(offsetof(struct dm_dolphin_spear_word, bits_0) * 8 <= DM_DOLPHIN_SPEAR_WORD_RETIRED_OFFSET * 8 + DM_DOLPHIN_SPEAR_WORD_RETIRED_BIT && DM_DOLPHIN_SPEAR_WORD_RETIRED_OFFSET * 8 + DM_DOLPHIN_SPEAR_WORD_RETIRED_BIT + DM_DOLPHIN_SPEAR_WORD_RETIRED_BITS <= (offsetof(struct dm_dolphin_spear_word, bits_0) + sizeof(((struct dm_dolphin_spear_word *)0)->bits_0)) * 8, "dm_dolphin_spear_word: retired");
_Static_assert(sizeof(struct dm_dolphin_slot_word) == DM_DOLPHIN_SLOT_WORD_STRUCT_BYTES, "dm_dolphin_slot_word: size");
_Static_assert(offsetof(struct dm_dolphin_slot_word, low) * 8 == DM_DOLPHIN_SLOT_WORD_LOW_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_LOW_BIT && sizeof(((struct dm_dolphin_slot_word *)0)->low) * 8 == DM_DOLPHIN_SLOT_WORD_LOW_BITS, "dm_dolphin_slot_word: low");
_Static_assert(offsetof(struct dm_dolphin_slot_word, bits_1) * 8 <= DM_DOLPHIN_SLOT_WORD_TYPE_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_TYPE_BIT && DM_DOLPHIN_SLOT_WORD_TYPE_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_TYPE_BIT + DM_DOLPHIN_SLOT_WORD_TYPE_BITS <= (offsetof(struct dm_dolphin_slot_word, bits_1) + sizeof(((struct dm_dolphin_slot_word *)0)->bits_1)) * 8, "dm_dolphin_slot_word: type");
_Static_assert(offsetof(struct dm_dolphin_slot_word, bits_1) * 8 <= DM_DOLPHIN_SLOT_WORD_SPECIAL_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_SPECIAL_BIT && DM_DOLPHIN_SLOT_WORD_SPECIAL_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_SPECIAL_BIT + DM_DOLPHIN_SLOT_WORD_SPECIAL_BITS <= (offsetof(struct dm_dolphin_slot_word, bits_1) + sizeof(((struct dm_dolphin_slot_word *)0)->bits_1)) * 8, "dm_dolphin_slot_word: special");
_Static_assert(offsetof(struct dm_dolphin_slot_word, bits_1) * 8 <= DM_DOLPHIN_SLOT_WORD_VOID_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_VOID_BIT && DM_DOLPHIN_SLOT_WORD_VOID_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_VOID_BIT + DM_DOLPHIN_SLOT_WORD_VOID_BITS <= (offsetof(struct dm_dolphin_slot_word, bits_1) + sizeof(((struct dm_dolphin_slot_word *)0)->bits_1)) * 8, "dm_dolphin_slot_word: void");
_Static_assert(offsetof(struct dm_dolphin_slot_word, bits_1) * 8 <= DM_DOLPHIN_SLOT_WORD_RESERVED_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_RESERVED_BIT && DM_DOLPHIN_SLOT_WORD_RESERVED_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_RESERVED_BIT + DM_DOLPHIN_SLOT_WORD_RESERVED_BITS <= (offsetof(struct dm_dolphin_slot_word, bits_1) + sizeof(((struct dm_dolphin_slot_word *)0)->bits_1)) * 8, "dm_dolphin_slot_word: reserved");
_Static_assert(offsetof(struct dm_dolphin_slot_word, bits_1) * 8 <= DM_DOLPHIN_SLOT_WORD_FROZEN_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_FROZEN_BIT && DM_DOLPHIN_SLOT_WORD_FROZEN_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_FROZEN_BIT + DM_DOLPHIN_SLOT_WORD_FROZEN_BITS <= (offsetof(struct dm_dolphin_slot_word, bits_1) + sizeof(((struct dm_dolphin_slot_word *)0)->bits_1)) * 8, "dm_dolphin_slot_word: frozen");
_Static_assert(offsetof(struct dm_dolphin_slot_word, bits_1) * 8 <= DM_DOLPHIN_SLOT_WORD_LEAF_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_LEAF_BIT && DM_DOLPHIN_SLOT_WORD_LEAF_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_LEAF_BIT + DM_DOLPHIN_SLOT_WORD_LEAF_BITS <= (offsetof(struct dm_dolphin_slot_word, bits_1) + sizeof(((struct dm_dolphin_slot_word *)0)->bits_1)) * 8, "dm_dolphin_slot_word: leaf");
_Static_assert(offsetof(struct dm_dolphin_slot_word, memory_node) * 8 == DM_DOLPHIN_SLOT_WORD_MEMORY_NODE_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_MEMORY_NODE_BIT && sizeof(((struct dm_dolphin_slot_word *)0)->memory_node) * 8 == DM_DOLPHIN_SLOT_WORD_MEMORY_NODE_BITS, "dm_dolphin_slot_word: memory node");
_Static_assert(offsetof(struct dm_dolphin_slot_word, offset) * 8 == DM_DOLPHIN_SLOT_WORD_OFFSET_OFFSET * 8 + DM_DOLPHIN_SLOT_WORD_OFFSET_BIT && sizeof(((struct dm_dolphin_slot_word *)0)->offset) * 8 == DM_DOLPHIN_SLOT_WORD_OFFSET_BITS, "dm_dolphin_slot_word: offset");
_Static_assert(sizeof(struct dm_dolphin_node) == DM_DOLPHIN_NODE_STRUCT_BYTES, "dm_dolphin_node: size");
_Static_assert(offsetof(struct dm_dolphin_node, position) * 8 == DM_DOLPHIN_NODE_POSITION_OFFSET * 8 + DM_DOLPHIN_NODE_POSITION_BIT && sizeof(((struct dm_dolphin_node *)0)->position) * 8 == DM_DOLPHIN_NODE_POSITION_BITS, "dm_dolphin_node: position");
_Static_assert(offsetof(struct dm_dolphin_node, bits_1) * 8 <= DM_DOLPHIN_NODE_TYPE_OFFSET * 8 + DM_DOLPHIN_NODE_TYPE_BIT && DM_DOLPHIN_NODE_TYPE_OFFSET * 8 + DM_DOLPHIN_NODE_TYPE_BIT + DM_DOLPHIN_NODE_TYPE_BITS <= (offsetof(struct dm_dolphin_node, bits_1) + sizeof(((struct dm_dolphin_node *)0)->bits_1)) * 8, "dm_dolphin_node: type");
_Static_assert(offsetof(struct dm_dolphin_node, bits_1) * 8 <= DM_DOLPHIN_NODE_RESERVED_OFFSET * 8 + DM_DOLPHIN_NODE_RESERVED_BIT && DM_DOLPHIN_NODE_RESERVED_OFFSET * 8 + DM_DOLPHIN_NODE_RESERVED_BIT + DM_DOLPHIN_NODE_RESERVED_BITS <= (offsetof(struct dm_dolphin_node, bits_1) + sizeof(((struct dm_dolphin_node *)0)->bits_1)) * 8, "dm_dolphin_node: reserved");
_Static_assert(offsetof(struct dm_dolphin_node, bits_1) * 8 <= DM_DOLPHIN_NODE_SIZE_OFFSET * 8 + DM_DOLPHIN_NODE_SIZE_BIT && DM_DOLPHIN_NODE_SIZE_OFFSET * 8 + DM_DOLPHIN_NODE_SIZE_BIT + DM_DOLPHIN_NODE_SIZE_BITS <= (offsetof(struct dm_dolphin_node, bits_1) + sizeof(((struct dm_dolphin_node *)0)->bits_1)) * 8, "dm_dolphin_node: size");
_Static_assert(offsetof(struct dm_dolphin_node, bytes) * 8 == DM_DOLPHIN_NODE_BYTES_OFFSET * 8 + DM_DOLPHIN_NODE_BYTES_BIT && sizeof(((struct dm_dolphin_node *)0)->bytes) * 8 == DM_DOLPHIN_NODE_BYTES_BITS, "dm_dolphin_node: bytes");
_Static_assert(offsetof(struct dm_dolphin_node, index) * 8 == DM_DOLPHIN_NODE_INDEX_OFFSET * 8 + DM_DOLPHIN_NODE_INDEX_BIT && sizeof(((struct dm_dolphin_node *)0)->index) * 8 == DM_DOLPHIN_NODE_INDEX_BITS, "dm_dolphin_node: index");
_Static_assert(offsetof(struct dm_dolphin_node, reserved_9) * 8 == DM_DOLPHIN_NODE_RESERVED_9_OFFSET * 8 + DM_DOLPHIN_NODE_RESERVED_9_BIT && sizeof(((struct dm_dolphin_node *)0)->reserved_9) * 8 == DM_DOLPHIN_NODE_RESERVED_9_BITS, "dm_dolphin_node: reserved");
_Static_assert(sizeof(struct dm_dolphin_leaf_head) == DM_DOLPHIN_LEAF_HEAD_STRUCT_BYTES, "dm_dolphin_leaf_head: size");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, spear) * 8 == DM_DOLPHIN_LEAF_HEAD_SPEAR_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_SPEAR_BIT && sizeof(((struct dm_dolphin_leaf_head *)0)->spear) * 8 == DM_DOLPHIN_LEAF_HEAD_SPEAR_BITS, "dm_dolphin_leaf_head: spear");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, heir_0) * 8 == DM_DOLPHIN_LEAF_HEAD_HEIR_0_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_HEIR_0_BIT && sizeof(((struct dm_dolphin_leaf_head *)0)->heir_0) * 8 == DM_DOLPHIN_LEAF_HEAD_HEIR_0_BITS, "dm_dolphin_leaf_head: heir 0");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, heir_1) * 8 == DM_DOLPHIN_LEAF_HEAD_HEIR_1_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_HEIR_1_BIT && sizeof(((struct dm_dolphin_leaf_head *)0)->heir_1) * 8 == DM_DOLPHIN_LEAF_HEAD_HEIR_1_BITS, "dm_dolphin_leaf_head: heir 1");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, bits_24) * 8 <= DM_DOLPHIN_LEAF_HEAD_GENERATION_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_GENERATION_BIT && DM_DOLPHIN_LEAF_HEAD_GENERATION_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_GENERATION_BIT + DM_DOLPHIN_LEAF_HEAD_GENERATION_BITS <= (offsetof(struct dm_dolphin_leaf_head, bits_24) + sizeof(((struct dm_dolphin_leaf_head *)0)->bits_24)) * 8, "dm_dolphin_leaf_head: generation");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, bits_24) * 8 <= DM_DOLPHIN_LEAF_HEAD_RESERVED_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_RESERVED_BIT && DM_DOLPHIN_LEAF_HEAD_RESERVED_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_RESERVED_BIT + DM_DOLPHIN_LEAF_HEAD_RESERVED_BITS <= (offsetof(struct dm_dolphin_leaf_head, bits_24) + sizeof(((struct dm_dolphin_leaf_head *)0)->bits_24)) * 8, "dm_dolphin_leaf_head: reserved");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, index) * 8 == DM_DOLPHIN_LEAF_HEAD_INDEX_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_INDEX_BIT && sizeof(((struct dm_dolphin_leaf_head *)0)->index) * 8 == DM_DOLPHIN_LEAF_HEAD_INDEX_BITS, "dm_dolphin_leaf_head: index");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, position) * 8 == DM_DOLPHIN_LEAF_HEAD_POSITION_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_POSITION_BIT && sizeof(((struct dm_dolphin_leaf_head *)0)->position) * 8 == DM_DOLPHIN_LEAF_HEAD_POSITION_BITS, "dm_dolphin_leaf_head: position");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, low) * 8 == DM_DOLPHIN_LEAF_HEAD_LOW_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_LOW_BIT && sizeof(((struct dm_dolphin_leaf_head *)0)->low) * 8 == DM_DOLPHIN_LEAF_HEAD_LOW_BITS, "dm_dolphin_leaf_head: low");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, last) * 8 == DM_DOLPHIN_LEAF_HEAD_LAST_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_LAST_BIT && sizeof(((struct dm_dolphin_leaf_head *)0)->last) * 8 == DM_DOLPHIN_LEAF_HEAD_LAST_BITS, "dm_dolphin_leaf_head: last");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, bits_29) * 8 <= DM_DOLPHIN_LEAF_HEAD_OWNER_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_OWNER_BIT && DM_DOLPHIN_LEAF_HEAD_OWNER_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_OWNER_BIT + DM_DOLPHIN_LEAF_HEAD_OWNER_BITS <= (offsetof(struct dm_dolphin_leaf_head, bits_29) + sizeof(((struct dm_dolphin_leaf_head *)0)->bits_29)) * 8, "dm_dolphin_leaf_head: owner");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, absent) * 8 == DM_DOLPHIN_LEAF_HEAD_ABSENT_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_ABSENT_BIT && sizeof(((struct dm_dolphin_leaf_head *)0)->absent) * 8 == DM_DOLPHIN_LEAF_HEAD_ABSENT_BITS, "dm_dolphin_leaf_head: absent");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, prefix) * 8 == DM_DOLPHIN_LEAF_HEAD_PREFIX_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_PREFIX_BIT && sizeof(((struct dm_dolphin_leaf_head *)0)->prefix) * 8 == DM_DOLPHIN_LEAF_HEAD_PREFIX_BITS, "dm_dolphin_leaf_head: prefix");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, bits_64) * 8 <= DM_DOLPHIN_LEAF_HEAD_GENERATION_64_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_GENERATION_64_BIT && DM_DOLPHIN_LEAF_HEAD_GENERATION_64_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_GENERATION_64_BIT + DM_DOLPHIN_LEAF_HEAD_GENERATION_64_BITS <= (offsetof(struct dm_dolphin_leaf_head, bits_64) + sizeof(((struct dm_dolphin_leaf_head *)0)->bits_64)) * 8, "dm_dolphin_leaf_head: generation");
_Static_assert(offsetof(struct dm_dolphin_leaf_head, prefix_65) * 8 == DM_DOLPHIN_LEAF_HEAD_PREFIX_65_OFFSET * 8 + DM_DOLPHIN_LEAF_HEAD_PREFIX_65_BIT && sizeof(((struct dm_dolphin_leaf_head *)0)->prefix_65) * 8 == DM_DOLPHIN_LEAF_HEAD_PREFIX_65_BITS, "dm_dolphin_leaf_head: prefix");
_Static_assert(sizeof(struct dm_dolphin_leaf_cells) == DM_DOLPHIN_LEAF_CELLS_STRUCT_BYTES, "dm_dolphin_leaf_cells: size");
_Static_assert(offsetof(struct dm_dolphin_leaf_cells, key_cell_0) * 8 == DM_DOLPHIN_LEAF_CELLS_KEY_CELL_0_OFFSET * 8 + DM_DOLPHIN_LEAF_CELLS_KEY_CELL_0_BIT && sizeof(((struct dm_dolphin_leaf_cells *)0)->key_cell_0) * 8 == DM_DOLPHIN_LEAF_CELLS_KEY_CELL_0_BITS, "dm_dolphin_leaf_cells: key cell 0");
_Static_assert(offsetof(struct dm_dolphin_leaf_cells, key_cell_1) * 8 == DM_DOLPHIN_LEAF_CELLS_KEY_CELL_1_OFFSET * 8 + DM_DOLPHIN_LEAF_CELLS_KEY_CELL_1_BIT && sizeof(((struct dm_dolphin_leaf_cells *)0)->key_cell_1) * 8 == DM_DOLPHIN_LEAF_CELLS_KEY_CELL_1_BITS, "dm_dolphin_leaf_cells: key cell 1");
_Static_assert(offsetof(struct dm_dolphin_leaf_cells, value_cell_0) * 8 == DM_DOLPHIN_LEAF_CELLS_VALUE_CELL_0_OFFSET * 8 + DM_DOLPHIN_LEAF_CELLS_VALUE_CELL_0_BIT && sizeof(((struct dm_dolphin_leaf_cells *)0)->value_cell_0) * 8 == DM_DOLPHIN_LEAF_CELLS_VALUE_CELL_0_BITS, "dm_dolphin_leaf_cells: value cell 0");
_Static_assert(offsetof(struct dm_dolphin_leaf_cells, value_cell_1) * 8 == DM_DOLPHIN_LEAF_CELLS_VALUE_CELL_1_OFFSET * 8 + DM_DOLPHIN_LEAF_CELLS_VALUE_CELL_1_BIT && sizeof(((struct dm_dolphin_leaf_cells *)0)->value_cell_1) * 8 == DM_DOLPHIN_LEAF_CELLS_VALUE_CELL_1_BITS, "dm_dolphin_leaf_cells: value cell 1");
_Static_assert(sizeof(struct dm_dolphin_block_name) == DM_DOLPHIN_BLOCK_NAME_STRUCT_BYTES, "dm_dolphin_block_name: size");
_Static_assert(offsetof(struct dm_dolphin_block_name, generation) * 8 == DM_DOLPHIN_BLOCK_NAME_GENERATION_OFFSET * 8 + DM_DOLPHIN_BLOCK_NAME_GENERATION_BIT && sizeof(((struct dm_dolphin_block_name *)0)->generation) * 8 == DM_DOLPHIN_BLOCK_NAME_GENERATION_BITS, "dm_dolphin_block_name: generation");
_Static_assert(offsetof(struct dm_dolphin_block_name, memory_node) * 8 == DM_DOLPHIN_BLOCK_NAME_MEMORY_NODE_OFFSET * 8 + DM_DOLPHIN_BLOCK_NAME_MEMORY_NODE_BIT && sizeof(((struct dm_dolphin_block_name *)0)->memory_node) * 8 == DM_DOLPHIN_BLOCK_NAME_MEMORY_NODE_BITS, "dm_dolphin_block_name: memory node");
_Static_assert(offsetof(struct dm_dolphin_block_name, offset) * 8 == DM_DOLPHIN_BLOCK_NAME_OFFSET_OFFSET * 8 + DM_DOLPHIN_BLOCK_NAME_OFFSET_BIT && sizeof(((struct dm_dolphin_block_name *)0)->offset) * 8 == DM_DOLPHIN_BLOCK_NAME_OFFSET_BITS, "dm_dolphin_block_name: offset");
_Static_assert(sizeof(struct dm_dolphin_block_head) == DM_DOLPHIN_BLOCK_HEAD_STRUCT_BYTES, "dm_dolphin_block_head: size");
_Static_assert(offsetof(struct dm_dolphin_block_head, checksum) * 8 == DM_DOLPHIN_BLOCK_HEAD_CHECKSUM_OFFSET * 8 + DM_DOLPHIN_BLOCK_HEAD_CHECKSUM_BIT && sizeof(((struct dm_dolphin_block_head *)0)->checksum) * 8 == DM_DOLPHIN_BLOCK_HEAD_CHECKSUM_BITS, "dm_dolphin_block_head: checksum");
_Static_assert(offsetof(struct dm_dolphin_block_head, generation) * 8 == DM_DOLPHIN_BLOCK_HEAD_GENERATION_OFFSET * 8 + DM_DOLPHIN_BLOCK_HEAD_GENERATION_BIT && sizeof(((struct dm_dolphin_block_head *)0)->generation) * 8 == DM_DOLPHIN_BLOCK_HEAD_GENERATION_BITS, "dm_dolphin_block_head: generation");
_Static_assert(offsetof(struct dm_dolphin_block_head, index) * 8 == DM_DOLPHIN_BLOCK_HEAD_INDEX_OFFSET * 8 + DM_DOLPHIN_BLOCK_HEAD_INDEX_BIT && sizeof(((struct dm_dolphin_block_head *)0)->index) * 8 == DM_DOLPHIN_BLOCK_HEAD_INDEX_BITS, "dm_dolphin_block_head: index");
_Static_assert(offsetof(struct dm_dolphin_block_head, reserved_7) * 8 == DM_DOLPHIN_BLOCK_HEAD_RESERVED_7_OFFSET * 8 + DM_DOLPHIN_BLOCK_HEAD_RESERVED_7_BIT && sizeof(((struct dm_dolphin_block_head *)0)->reserved_7) * 8 == DM_DOLPHIN_BLOCK_HEAD_RESERVED_7_BITS, "dm_dolphin_block_head: reserved_7");
_Static_assert(sizeof(struct dm_dex_leaf_behind_the_header) == DM_DEX_LEAF_BEHIND_THE_HEADER_STRUCT_BYTES, "dm_dex_leaf_behind_the_header: size");
_Static_assert(offsetof(struct dm_dex_leaf_behind_the_header, lsn) * 8 == DM_DEX_LEAF_BEHIND_THE_HEADER_LSN_OFFSET * 8 + DM_DEX_LEAF_BEHIND_THE_HEADER_LSN_BIT && sizeof(((struct dm_dex_leaf_behind_the_header *)0)->lsn) * 8 == DM_DEX_LEAF_BEHIND_THE_HEADER_LSN_BITS, "dm_dex_leaf_behind_the_header: lsn");
_Static_assert(sizeof(struct dm_dex_leaf_entry) == DM_DEX_LEAF_ENTRY_STRUCT_BYTES, "dm_dex_leaf_entry: size");
_Static_assert(offsetof(struct dm_dex_leaf_entry, bits_0) * 8 <= DM_DEX_LEAF_ENTRY_ENTRY_VERSION_OFFSET * 8 + DM_DEX_LEAF_ENTRY_ENTRY_VERSION_BIT && DM_DEX_LEAF_ENTRY_ENTRY_VERSION_OFFSET * 8 + DM_DEX_LEAF_ENTRY_ENTRY_VERSION_BIT + DM_DEX_LEAF_ENTRY_ENTRY_VERSION_BITS <= (offsetof(struct dm_dex_leaf_entry, bits_0) + sizeof(((struct dm_dex_leaf_entry *)0)->bits_0)) * 8, "dm_dex_leaf_entry: entry version");
_Static_assert(offsetof(struct dm_dex_leaf_entry, bits_0) * 8 <= DM_DEX_LEAF_ENTRY_OCCUPIED_OFFSET * 8 + DM_DEX_LEAF_ENTRY_OCCUPIED_BIT && DM_DEX_LEAF_ENTRY_OCCUPIED_OFFSET * 8 + DM_DEX_LEAF_ENTRY_OCCUPIED_BIT + DM_DEX_LEAF_ENTRY_OCCUPIED_BITS <= (offsetof(struct dm_dex_leaf_entry, bits_0) + sizeof(((struct dm_dex_leaf_entry *)0)->bits_0)) * 8, "dm_dex_leaf_entry: occupied");
_Static_assert(offsetof(struct dm_dex_leaf_entry, key) * 8 == DM_DEX_LEAF_ENTRY_KEY_OFFSET * 8 + DM_DEX_LEAF_ENTRY_KEY_BIT && sizeof(((struct dm_dex_leaf_entry *)0)->key) * 8 == DM_DEX_LEAF_ENTRY_KEY_BITS, "dm_dex_leaf_entry: key");
_Static_assert(offsetof(struct dm_dex_leaf_entry, value) * 8 == DM_DEX_LEAF_ENTRY_VALUE_OFFSET * 8 + DM_DEX_LEAF_ENTRY_VALUE_BIT && sizeof(((struct dm_dex_leaf_entry *)0)->value) * 8 == DM_DEX_LEAF_ENTRY_VALUE_BITS, "dm_dex_leaf_entry: value");
_Static_assert(sizeof(struct dm_dex_owner_word) == DM_DEX_OWNER_WORD_STRUCT_BYTES, "dm_dex_owner_word: size");
_Static_assert(offsetof(struct dm_dex_owner_word, bits_0) * 8 <= DM_DEX_OWNER_WORD_STATE_OFFSET * 8 + DM_DEX_OWNER_WORD_STATE_BIT && DM_DEX_OWNER_WORD_STATE_OFFSET * 8 + DM_DEX_OWNER_WORD_STATE_BIT + DM_DEX_OWNER_WORD_STATE_BITS <= (offsetof(struct dm_dex_owner_word, bits_0) + sizeof(((struct dm_dex_owner_word *)0)->bits_0)) * 8, "dm_dex_owner_word: state");
_Static_assert(offsetof(struct dm_dex_owner_word, bits_0) * 8 <= DM_DEX_OWNER_WORD_OWNER_OFFSET * 8 + DM_DEX_OWNER_WORD_OWNER_BIT && DM_DEX_OWNER_WORD_OWNER_OFFSET * 8 + DM_DEX_OWNER_WORD_OWNER_BIT + DM_DEX_OWNER_WORD_OWNER_BITS <= (offsetof(struct dm_dex_owner_word, bits_0) + sizeof(((struct dm_dex_owner_word *)0)->bits_0)) * 8, "dm_dex_owner_word: owner");
_Static_assert(offsetof(struct dm_dex_owner_word, bits_0) * 8 <= DM_DEX_OWNER_WORD_LOG_OFFSET * 8 + DM_DEX_OWNER_WORD_LOG_BIT && DM_DEX_OWNER_WORD_LOG_OFFSET * 8 + DM_DEX_OWNER_WORD_LOG_BIT + DM_DEX_OWNER_WORD_LOG_BITS <= (offsetof(struct dm_dex_owner_word, bits_0) + sizeof(((struct dm_dex_owner_word *)0)->bits_0)) * 8, "dm_dex_owner_word: log");
_Static_assert(offsetof(struct dm_dex_owner_word, bits_0) * 8 <= DM_DEX_OWNER_WORD_EPOCH_OFFSET * 8 + DM_DEX_OWNER_WORD_EPOCH_BIT && DM_DEX_OWNER_WORD_EPOCH_OFFSET * 8 + DM_DEX_OWNER_WORD_EPOCH_BIT + DM_DEX_OWNER_WORD_EPOCH_BITS <= (offsetof(struct dm_dex_owner_word, bits_0) + sizeof(((struct dm_dex_owner_word *)0)->bits_0)) * 8, "dm_dex_owner_word: epoch");
_Static_assert(sizeof(struct dm_dex_table_header) == DM_DEX_TABLE_HEADER_STRUCT_BYTES, "dm_dex_table_header: size");
_Static_assert(offsetof(struct dm_dex_table_header, checksum) * 8 == DM_DEX_TABLE_HEADER_CHECKSUM_OFFSET * 8 + DM_DEX_TABLE_HEADER_CHECKSUM_BIT && sizeof(((struct dm_dex_table_header *)0)->checksum) * 8 == DM_DEX_TABLE_HEADER_CHECKSUM_BITS, "dm_dex_table_header: checksum");
_Static_assert(offsetof(struct dm_dex_table_header, reserved_4) * 8 == DM_DEX_TABLE_HEADER_RESERVED_4_OFFSET * 8 + DM_DEX_TABLE_HEADER_RESERVED_4_BIT && sizeof(((struct dm_dex_table_header *)0)->reserved_4) * 8 == DM_DEX_TABLE_HEADER_RESERVED_4_BITS, "dm_dex_table_header: reserved_4");
_Static_assert(offsetof(struct dm_dex_table_header, count) * 8 == DM_DEX_TABLE_HEADER_COUNT_OFFSET * 8 + DM_DEX_TABLE_HEADER_COUNT_BIT && sizeof(((struct dm_dex_table_header *)0)->count) * 8 == DM_DEX_TABLE_HEADER_COUNT_BITS, "dm_dex_table_header: count");
_Static_assert(offsetof(struct dm_dex_table_header, index) * 8 == DM_DEX_TABLE_HEADER_INDEX_OFFSET * 8 + DM_DEX_TABLE_HEADER_INDEX_BIT && sizeof(((struct dm_dex_table_header *)0)->index) * 8 == DM_DEX_TABLE_HEADER_INDEX_BITS, "dm_dex_table_header: index");
_Static_assert(offsetof(struct dm_dex_table_header, version) * 8 == DM_DEX_TABLE_HEADER_VERSION_OFFSET * 8 + DM_DEX_TABLE_HEADER_VERSION_BIT && sizeof(((struct dm_dex_table_header *)0)->version) * 8 == DM_DEX_TABLE_HEADER_VERSION_BITS, "dm_dex_table_header: version");
_Static_assert(offsetof(struct dm_dex_table_header, key_bytes) * 8 == DM_DEX_TABLE_HEADER_KEY_BYTES_OFFSET * 8 + DM_DEX_TABLE_HEADER_KEY_BYTES_BIT && sizeof(((struct dm_dex_table_header *)0)->key_bytes) * 8 == DM_DEX_TABLE_HEADER_KEY_BYTES_BITS, "dm_dex_table_header: key_bytes");
_Static_assert(offsetof(struct dm_dex_table_header, capacity) * 8 == DM_DEX_TABLE_HEADER_CAPACITY_OFFSET * 8 + DM_DEX_TABLE_HEADER_CAPACITY_BIT && sizeof(((struct dm_dex_table_header *)0)->capacity) * 8 == DM_DEX_TABLE_HEADER_CAPACITY_BITS, "dm_dex_table_header: capacity");
_Static_assert(offsetof(struct dm_dex_table_header, pool_incarnation) * 8 == DM_DEX_TABLE_HEADER_POOL_INCARNATION_OFFSET * 8 + DM_DEX_TABLE_HEADER_POOL_INCARNATION_BIT && sizeof(((struct dm_dex_table_header *)0)->pool_incarnation) * 8 == DM_DEX_TABLE_HEADER_POOL_INCARNATION_BITS, "dm_dex_table_header: pool_incarnation");
_Static_assert(offsetof(struct dm_dex_table_header, reserved_32) * 8 == DM_DEX_TABLE_HEADER_RESERVED_32_OFFSET * 8 + DM_DEX_TABLE_HEADER_RESERVED_32_BIT && sizeof(((struct dm_dex_table_header *)0)->reserved_32) * 8 == DM_DEX_TABLE_HEADER_RESERVED_32_BITS, "dm_dex_table_header: reserved_32");
_Static_assert(sizeof(struct dm_dex_table_load) == DM_DEX_TABLE_LOAD_STRUCT_BYTES, "dm_dex_table_load: size");
_Static_assert(offsetof(struct dm_dex_table_load, rate) * 8 == DM_DEX_TABLE_LOAD_RATE_OFFSET * 8 + DM_DEX_TABLE_LOAD_RATE_BIT && sizeof(((struct dm_dex_table_load *)0)->rate) * 8 == DM_DEX_TABLE_LOAD_RATE_BITS, "dm_dex_table_load: rate");
_Static_assert(offsetof(struct dm_dex_table_load, bits_4) * 8 <= DM_DEX_TABLE_LOAD_RESERVED_OFFSET * 8 + DM_DEX_TABLE_LOAD_RESERVED_BIT && DM_DEX_TABLE_LOAD_RESERVED_OFFSET * 8 + DM_DEX_TABLE_LOAD_RESERVED_BIT + DM_DEX_TABLE_LOAD_RESERVED_BITS <= (offsetof(struct dm_dex_table_load, bits_4) + sizeof(((struct dm_dex_table_load *)0)->bits_4)) * 8, "dm_dex_table_load: reserved");
_Static_assert(offsetof(struct dm_dex_table_load, bits_4) * 8 <= DM_DEX_TABLE_LOAD_EPOCH_OFFSET * 8 + DM_DEX_TABLE_LOAD_EPOCH_BIT && DM_DEX_TABLE_LOAD_EPOCH_OFFSET * 8 + DM_DEX_TABLE_LOAD_EPOCH_BIT + DM_DEX_TABLE_LOAD_EPOCH_BITS <= (offsetof(struct dm_dex_table_load, bits_4) + sizeof(((struct dm_dex_table_load *)0)->bits_4)) * 8, "dm_dex_table_load: epoch");
_Static_assert(sizeof(struct dm_dex_table_head_of_a_boundary) == DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_STRUCT_BYTES, "dm_dex_table_head_of_a_boundary: size");
_Static_assert(offsetof(struct dm_dex_table_head_of_a_boundary, checksum) * 8 == DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_CHECKSUM_OFFSET * 8 + DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_CHECKSUM_BIT && sizeof(((struct dm_dex_table_head_of_a_boundary *)0)->checksum) * 8 == DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_CHECKSUM_BITS, "dm_dex_table_head_of_a_boundary: checksum");
_Static_assert(offsetof(struct dm_dex_table_head_of_a_boundary, entry) * 8 == DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_ENTRY_OFFSET * 8 + DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_ENTRY_BIT && sizeof(((struct dm_dex_table_head_of_a_boundary *)0)->entry) * 8 == DM_DEX_TABLE_HEAD_OF_A_BOUNDARY_ENTRY_BITS, "dm_dex_table_head_of_a_boundary: entry");
_Static_assert(sizeof(struct dm_dex_lsn_word) == DM_DEX_LSN_WORD_STRUCT_BYTES, "dm_dex_lsn_word: size");
_Static_assert(offsetof(struct dm_dex_lsn_word, bits_0) * 8 <= DM_DEX_LSN_WORD_LINE_OFFSET * 8 + DM_DEX_LSN_WORD_LINE_BIT && DM_DEX_LSN_WORD_LINE_OFFSET * 8 + DM_DEX_LSN_WORD_LINE_BIT + DM_DEX_LSN_WORD_LINE_BITS <= (offsetof(struct dm_dex_lsn_word, bits_0) + sizeof(((struct dm_dex_lsn_word *)0)->bits_0)) * 8, "dm_dex_lsn_word: line");
_Static_assert(offsetof(struct dm_dex_lsn_word, bits_0) * 8 <= DM_DEX_LSN_WORD_EPOCH_OFFSET * 8 + DM_DEX_LSN_WORD_EPOCH_BIT && DM_DEX_LSN_WORD_EPOCH_OFFSET * 8 + DM_DEX_LSN_WORD_EPOCH_BIT + DM_DEX_LSN_WORD_EPOCH_BITS <= (offsetof(struct dm_dex_lsn_word, bits_0) + sizeof(((struct dm_dex_lsn_word *)0)->bits_0)) * 8, "dm_dex_lsn_word: epoch");
_Static_assert(sizeof(struct dm_dex_ring_description) == DM_DEX_RING_DESCRIPTION_STRUCT_BYTES, "dm_dex_ring_description: size");
_Static_assert(offsetof(struct dm_dex_ring_description, checksum) * 8 == DM_DEX_RING_DESCRIPTION_CHECKSUM_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_CHECKSUM_BIT && sizeof(((struct dm_dex_ring_description *)0)->checksum) * 8 == DM_DEX_RING_DESCRIPTION_CHECKSUM_BITS, "dm_dex_ring_description: checksum");
_Static_assert(offsetof(struct dm_dex_ring_description, version) * 8 == DM_DEX_RING_DESCRIPTION_VERSION_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_VERSION_BIT && sizeof(((struct dm_dex_ring_description *)0)->version) * 8 == DM_DEX_RING_DESCRIPTION_VERSION_BITS, "dm_dex_ring_description: version");
_Static_assert(offsetof(struct dm_dex_ring_description, index) * 8 == DM_DEX_RING_DESCRIPTION_INDEX_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_INDEX_BIT && sizeof(((struct dm_dex_ring_description *)0)->index) * 8 == DM_DEX_RING_DESCRIPTION_INDEX_BITS, "dm_dex_ring_description: index");
_Static_assert(offsetof(struct dm_dex_ring_description, reserved_7) * 8 == DM_DEX_RING_DESCRIPTION_RESERVED_7_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_RESERVED_7_BIT && sizeof(((struct dm_dex_ring_description *)0)->reserved_7) * 8 == DM_DEX_RING_DESCRIPTION_RESERVED_7_BITS, "dm_dex_ring_description: reserved_7");
_Static_assert(offsetof(struct dm_dex_ring_description, pool_id) * 8 == DM_DEX_RING_DESCRIPTION_POOL_ID_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_POOL_ID_BIT && sizeof(((struct dm_dex_ring_description *)0)->pool_id) * 8 == DM_DEX_RING_DESCRIPTION_POOL_ID_BITS, "dm_dex_ring_description: pool_id");
_Static_assert(offsetof(struct dm_dex_ring_description, pool_incarnation) * 8 == DM_DEX_RING_DESCRIPTION_POOL_INCARNATION_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_POOL_INCARNATION_BIT && sizeof(((struct dm_dex_ring_description *)0)->pool_incarnation) * 8 == DM_DEX_RING_DESCRIPTION_POOL_INCARNATION_BITS, "dm_dex_ring_description: pool_incarnation");
_Static_assert(offsetof(struct dm_dex_ring_description, token) * 8 == DM_DEX_RING_DESCRIPTION_TOKEN_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_TOKEN_BIT && sizeof(((struct dm_dex_ring_description *)0)->token) * 8 == DM_DEX_RING_DESCRIPTION_TOKEN_BITS, "dm_dex_ring_description: token");
_Static_assert(offsetof(struct dm_dex_ring_description, row) * 8 == DM_DEX_RING_DESCRIPTION_ROW_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_ROW_BIT && sizeof(((struct dm_dex_ring_description *)0)->row) * 8 == DM_DEX_RING_DESCRIPTION_ROW_BITS, "dm_dex_ring_description: row");
_Static_assert(offsetof(struct dm_dex_ring_description, chunk_count) * 8 == DM_DEX_RING_DESCRIPTION_CHUNK_COUNT_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_CHUNK_COUNT_BIT && sizeof(((struct dm_dex_ring_description *)0)->chunk_count) * 8 == DM_DEX_RING_DESCRIPTION_CHUNK_COUNT_BITS, "dm_dex_ring_description: chunk_count");
_Static_assert(offsetof(struct dm_dex_ring_description, incarnation) * 8 == DM_DEX_RING_DESCRIPTION_INCARNATION_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_INCARNATION_BIT && sizeof(((struct dm_dex_ring_description *)0)->incarnation) * 8 == DM_DEX_RING_DESCRIPTION_INCARNATION_BITS, "dm_dex_ring_description: incarnation");
_Static_assert(offsetof(struct dm_dex_ring_description, chunk_bytes) * 8 == DM_DEX_RING_DESCRIPTION_CHUNK_BYTES_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_CHUNK_BYTES_BIT && sizeof(((struct dm_dex_ring_description *)0)->chunk_bytes) * 8 == DM_DEX_RING_DESCRIPTION_CHUNK_BYTES_BITS, "dm_dex_ring_description: chunk_bytes");
_Static_assert(offsetof(struct dm_dex_ring_description, chunks) * 8 == DM_DEX_RING_DESCRIPTION_CHUNKS_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_CHUNKS_BIT && sizeof(((struct dm_dex_ring_description *)0)->chunks) * 8 == DM_DEX_RING_DESCRIPTION_CHUNKS_BITS, "dm_dex_ring_description: chunks");
_Static_assert(offsetof(struct dm_dex_ring_description, reserved_120) * 8 == DM_DEX_RING_DESCRIPTION_RESERVED_120_OFFSET * 8 + DM_DEX_RING_DESCRIPTION_RESERVED_120_BIT && sizeof(((struct dm_dex_ring_description *)0)->reserved_120) * 8 == DM_DEX_RING_DESCRIPTION_RESERVED_120_BITS, "dm_dex_ring_description: reserved_120");
_Static_assert(sizeof(struct dm_dex_ring_head) == DM_DEX_RING_HEAD_STRUCT_BYTES, "dm_dex_ring_head: size");
_Static_assert(offsetof(struct dm_dex_ring_head, checksum) * 8 == DM_DEX_RING_HEAD_CHECKSUM_OFFSET * 8 + DM_DEX_RING_HEAD_CHECKSUM_BIT && sizeof(((struct dm_dex_ring_head *)0)->checksum) * 8 == DM_DEX_RING_HEAD_CHECKSUM_BITS, "dm_dex_ring_head: checksum");
_Static_assert(offsetof(struct dm_dex_ring_head, incarnation) * 8 == DM_DEX_RING_HEAD_INCARNATION_OFFSET * 8 + DM_DEX_RING_HEAD_INCARNATION_BIT && sizeof(((struct dm_dex_ring_head *)0)->incarnation) * 8 == DM_DEX_RING_HEAD_INCARNATION_BITS, "dm_dex_ring_head: incarnation");
_Static_assert(offsetof(struct dm_dex_ring_head, head) * 8 == DM_DEX_RING_HEAD_HEAD_OFFSET * 8 + DM_DEX_RING_HEAD_HEAD_BIT && sizeof(((struct dm_dex_ring_head *)0)->head) * 8 == DM_DEX_RING_HEAD_HEAD_BITS, "dm_dex_ring_head: head");
_Static_assert(offsetof(struct dm_dex_ring_head, reserved_16) * 8 == DM_DEX_RING_HEAD_RESERVED_16_OFFSET * 8 + DM_DEX_RING_HEAD_RESERVED_16_BIT && sizeof(((struct dm_dex_ring_head *)0)->reserved_16) * 8 == DM_DEX_RING_HEAD_RESERVED_16_BITS, "dm_dex_ring_head: reserved_16");
_Static_assert(sizeof(struct dm_dex_record_header) == DM_DEX_RECORD_HEADER_STRUCT_BYTES, "dm_dex_record_header: size");
_Static_assert(offsetof(struct dm_dex_record_header, checksum) * 8 == DM_DEX_RECORD_HEADER_CHECKSUM_OFFSET * 8 + DM_DEX_RECORD_HEADER_CHECKSUM_BIT && sizeof(((struct dm_dex_record_header *)0)->checksum) * 8 == DM_DEX_RECORD_HEADER_CHECKSUM_BITS, "dm_dex_record_header: checksum");
_Static_assert(offsetof(struct dm_dex_record_header, lines) * 8 == DM_DEX_RECORD_HEADER_LINES_OFFSET * 8 + DM_DEX_RECORD_HEADER_LINES_BIT && sizeof(((struct dm_dex_record_header *)0)->lines) * 8 == DM_DEX_RECORD_HEADER_LINES_BITS, "dm_dex_record_header: lines");
_Static_assert(offsetof(struct dm_dex_record_header, kind) * 8 == DM_DEX_RECORD_HEADER_KIND_OFFSET * 8 + DM_DEX_RECORD_HEADER_KIND_BIT && sizeof(((struct dm_dex_record_header *)0)->kind) * 8 == DM_DEX_RECORD_HEADER_KIND_BITS, "dm_dex_record_header: kind");
_Static_assert(offsetof(struct dm_dex_record_header, key_bytes) * 8 == DM_DEX_RECORD_HEADER_KEY_BYTES_OFFSET * 8 + DM_DEX_RECORD_HEADER_KEY_BYTES_BIT && sizeof(((struct dm_dex_record_header *)0)->key_bytes) * 8 == DM_DEX_RECORD_HEADER_KEY_BYTES_BITS, "dm_dex_record_header: key_bytes");
_Static_assert(offsetof(struct dm_dex_record_header, reserved_7) * 8 == DM_DEX_RECORD_HEADER_RESERVED_7_OFFSET * 8 + DM_DEX_RECORD_HEADER_RESERVED_7_BIT && sizeof(((struct dm_dex_record_header *)0)->reserved_7) * 8 == DM_DEX_RECORD_HEADER_RESERVED_7_BITS, "dm_dex_record_header: reserved_7");
_Static_assert(offsetof(struct dm_dex_record_header, lsn) * 8 == DM_DEX_RECORD_HEADER_LSN_OFFSET * 8 + DM_DEX_RECORD_HEADER_LSN_BIT && sizeof(((struct dm_dex_record_header *)0)->lsn) * 8 == DM_DEX_RECORD_HEADER_LSN_BITS, "dm_dex_record_header: lsn");
_Static_assert(offsetof(struct dm_dex_record_header, entry) * 8 == DM_DEX_RECORD_HEADER_ENTRY_OFFSET * 8 + DM_DEX_RECORD_HEADER_ENTRY_BIT && sizeof(((struct dm_dex_record_header *)0)->entry) * 8 == DM_DEX_RECORD_HEADER_ENTRY_BITS, "dm_dex_record_header: entry");
_Static_assert(offsetof(struct dm_dex_record_header, incarnation) * 8 == DM_DEX_RECORD_HEADER_INCARNATION_OFFSET * 8 + DM_DEX_RECORD_HEADER_INCARNATION_BIT && sizeof(((struct dm_dex_record_header *)0)->incarnation) * 8 == DM_DEX_RECORD_HEADER_INCARNATION_BITS, "dm_dex_record_header: incarnation");
_Static_assert(offsetof(struct dm_dex_record_header, value_bytes) * 8 == DM_DEX_RECORD_HEADER_VALUE_BYTES_OFFSET * 8 + DM_DEX_RECORD_HEADER_VALUE_BYTES_BIT && sizeof(((struct dm_dex_record_header *)0)->value_bytes) * 8 == DM_DEX_RECORD_HEADER_VALUE_BYTES_BITS, "dm_dex_record_header: value_bytes");
_Static_assert(offsetof(struct dm_dex_record_header, reserved_26) * 8 == DM_DEX_RECORD_HEADER_RESERVED_26_OFFSET * 8 + DM_DEX_RECORD_HEADER_RESERVED_26_BIT && sizeof(((struct dm_dex_record_header *)0)->reserved_26) * 8 == DM_DEX_RECORD_HEADER_RESERVED_26_BITS, "dm_dex_record_header: reserved_26");
_Static_assert(sizeof(struct dm_dex_image_header) == DM_DEX_IMAGE_HEADER_STRUCT_BYTES, "dm_dex_image_header: size");
_Static_assert(offsetof(struct dm_dex_image_header, checksum) * 8 == DM_DEX_IMAGE_HEADER_CHECKSUM_OFFSET * 8 + DM_DEX_IMAGE_HEADER_CHECKSUM_BIT && sizeof(((struct dm_dex_image_header *)0)->checksum) * 8 == DM_DEX_IMAGE_HEADER_CHECKSUM_BITS, "dm_dex_image_header: checksum");
_Static_assert(offsetof(struct dm_dex_image_header, bytes) * 8 == DM_DEX_IMAGE_HEADER_BYTES_OFFSET * 8 + DM_DEX_IMAGE_HEADER_BYTES_BIT && sizeof(((struct dm_dex_image_header *)0)->bytes) * 8 == DM_DEX_IMAGE_HEADER_BYTES_BITS, "dm_dex_image_header: bytes");
_Static_assert(offsetof(struct dm_dex_image_header, word) * 8 == DM_DEX_IMAGE_HEADER_WORD_OFFSET * 8 + DM_DEX_IMAGE_HEADER_WORD_BIT && sizeof(((struct dm_dex_image_header *)0)->word) * 8 == DM_DEX_IMAGE_HEADER_WORD_BITS, "dm_dex_image_header: word");
_Static_assert(offsetof(struct dm_dex_image_header, address) * 8 == DM_DEX_IMAGE_HEADER_ADDRESS_OFFSET * 8 + DM_DEX_IMAGE_HEADER_ADDRESS_BIT && sizeof(((struct dm_dex_image_header *)0)->address) * 8 == DM_DEX_IMAGE_HEADER_ADDRESS_BITS, "dm_dex_image_header: address");
_Static_assert(offsetof(struct dm_dex_image_header, lsn) * 8 == DM_DEX_IMAGE_HEADER_LSN_OFFSET * 8 + DM_DEX_IMAGE_HEADER_LSN_BIT && sizeof(((struct dm_dex_image_header *)0)->lsn) * 8 == DM_DEX_IMAGE_HEADER_LSN_BITS, "dm_dex_image_header: lsn");
_Static_assert(offsetof(struct dm_dex_image_header, entry) * 8 == DM_DEX_IMAGE_HEADER_ENTRY_OFFSET * 8 + DM_DEX_IMAGE_HEADER_ENTRY_BIT && sizeof(((struct dm_dex_image_header *)0)->entry) * 8 == DM_DEX_IMAGE_HEADER_ENTRY_BITS, "dm_dex_image_header: entry");
_Static_assert(offsetof(struct dm_dex_image_header, epoch) * 8 == DM_DEX_IMAGE_HEADER_EPOCH_OFFSET * 8 + DM_DEX_IMAGE_HEADER_EPOCH_BIT && sizeof(((struct dm_dex_image_header *)0)->epoch) * 8 == DM_DEX_IMAGE_HEADER_EPOCH_BITS, "dm_dex_image_header: epoch");
_Static_assert(offsetof(struct dm_dex_image_header, incarnation) * 8 == DM_DEX_IMAGE_HEADER_INCARNATION_OFFSET * 8 + DM_DEX_IMAGE_HEADER_INCARNATION_BIT && sizeof(((struct dm_dex_image_header *)0)->incarnation) * 8 == DM_DEX_IMAGE_HEADER_INCARNATION_BITS, "dm_dex_image_header: incarnation");
_Static_assert(offsetof(struct dm_dex_image_header, reserved_44) * 8 == DM_DEX_IMAGE_HEADER_RESERVED_44_OFFSET * 8 + DM_DEX_IMAGE_HEADER_RESERVED_44_BIT && sizeof(((struct dm_dex_image_header *)0)->reserved_44) * 8 == DM_DEX_IMAGE_HEADER_RESERVED_44_BITS, "dm_dex_image_header: reserved_44");
_Static_assert(sizeof(struct dm_items_parameters) == DM_ITEMS_PARAMETERS_STRUCT_BYTES, "dm_items_parameters: size");
_Static_assert(offsetof(struct dm_items_parameters, key_bytes_max) * 8 == DM_ITEMS_PARAMETERS_KEY_BYTES_MAX_OFFSET * 8 + DM_ITEMS_PARAMETERS_KEY_BYTES_MAX_BIT && sizeof(((struct dm_items_parameters *)0)->key_bytes_max) * 8 == DM_ITEMS_PARAMETERS_KEY_BYTES_MAX_BITS, "dm_items_parameters: key_bytes_max");
_Static_assert(offsetof(struct dm_items_parameters, version) * 8 == DM_ITEMS_PARAMETERS_VERSION_OFFSET * 8 + DM_ITEMS_PARAMETERS_VERSION_BIT && sizeof(((struct dm_items_parameters *)0)->version) * 8 == DM_ITEMS_PARAMETERS_VERSION_BITS, "dm_items_parameters: version");
_Static_assert(offsetof(struct dm_items_parameters, checksums) * 8 == DM_ITEMS_PARAMETERS_CHECKSUMS_OFFSET * 8 + DM_ITEMS_PARAMETERS_CHECKSUMS_BIT && sizeof(((struct dm_items_parameters *)0)->checksums) * 8 == DM_ITEMS_PARAMETERS_CHECKSUMS_BITS, "dm_items_parameters: checksums");
_Static_assert(offsetof(struct dm_items_parameters, value_bytes_max) * 8 == DM_ITEMS_PARAMETERS_VALUE_BYTES_MAX_OFFSET * 8 + DM_ITEMS_PARAMETERS_VALUE_BYTES_MAX_BIT && sizeof(((struct dm_items_parameters *)0)->value_bytes_max) * 8 == DM_ITEMS_PARAMETERS_VALUE_BYTES_MAX_BITS, "dm_items_parameters: value_bytes_max");
_Static_assert(sizeof(struct dm_items_key_entry_key_of_16_bytes) == DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_STRUCT_BYTES, "dm_items_key_entry_key_of_16_bytes: size");
_Static_assert(offsetof(struct dm_items_key_entry_key_of_16_bytes, layer) * 8 == DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LAYER_OFFSET * 8 + DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LAYER_BIT && sizeof(((struct dm_items_key_entry_key_of_16_bytes *)0)->layer) * 8 == DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LAYER_BITS, "dm_items_key_entry_key_of_16_bytes: layer");
_Static_assert(offsetof(struct dm_items_key_entry_key_of_16_bytes, slice) * 8 == DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_SLICE_OFFSET * 8 + DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_SLICE_BIT && sizeof(((struct dm_items_key_entry_key_of_16_bytes *)0)->slice) * 8 == DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_SLICE_BITS, "dm_items_key_entry_key_of_16_bytes: slice");
_Static_assert(offsetof(struct dm_items_key_entry_key_of_16_bytes, length) * 8 == DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LENGTH_OFFSET * 8 + DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LENGTH_BIT && sizeof(((struct dm_items_key_entry_key_of_16_bytes *)0)->length) * 8 == DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LENGTH_BITS, "dm_items_key_entry_key_of_16_bytes: length");
_Static_assert(sizeof(struct dm_items_slot_slot) == DM_ITEMS_SLOT_SLOT_STRUCT_BYTES, "dm_items_slot_slot: size");
_Static_assert(offsetof(struct dm_items_slot_slot, bits_0) * 8 <= DM_ITEMS_SLOT_SLOT_KIND_OFFSET * 8 + DM_ITEMS_SLOT_SLOT_KIND_BIT && DM_ITEMS_SLOT_SLOT_KIND_OFFSET * 8 + DM_ITEMS_SLOT_SLOT_KIND_BIT + DM_ITEMS_SLOT_SLOT_KIND_BITS <= (offsetof(struct dm_items_slot_slot, bits_0) + sizeof(((struct dm_items_slot_slot *)0)->bits_0)) * 8, "dm_items_slot_slot: kind");
_Static_assert(offsetof(struct dm_items_slot_slot, bits_0) * 8 <= DM_ITEMS_SLOT_SLOT_VALUE_BYTES_OFFSET * 8 + DM_ITEMS_SLOT_SLOT_VALUE_BYTES_BIT && DM_ITEMS_SLOT_SLOT_VALUE_BYTES_OFFSET * 8 + DM_ITEMS_SLOT_SLOT_VALUE_BYTES_BIT + DM_ITEMS_SLOT_SLOT_VALUE_BYTES_BITS <= (offsetof(struct dm_items_slot_slot, bits_0) + sizeof(((struct dm_items_slot_slot *)0)->bits_0)) * 8, "dm_items_slot_slot: value_bytes");
_Static_assert(offsetof(struct dm_items_slot_slot, life_low) * 8 == DM_ITEMS_SLOT_SLOT_LIFE_LOW_OFFSET * 8 + DM_ITEMS_SLOT_SLOT_LIFE_LOW_BIT && sizeof(((struct dm_items_slot_slot *)0)->life_low) * 8 == DM_ITEMS_SLOT_SLOT_LIFE_LOW_BITS, "dm_items_slot_slot: life_low");
_Static_assert(offsetof(struct dm_items_slot_slot, bits_4) * 8 <= DM_ITEMS_SLOT_SLOT_BYTES_OFFSET * 8 + DM_ITEMS_SLOT_SLOT_BYTES_BIT && DM_ITEMS_SLOT_SLOT_BYTES_OFFSET * 8 + DM_ITEMS_SLOT_SLOT_BYTES_BIT + DM_ITEMS_SLOT_SLOT_BYTES_BITS <= (offsetof(struct dm_items_slot_slot, bits_4) + sizeof(((struct dm_items_slot_slot *)0)->bits_4)) * 8, "dm_items_slot_slot: bytes");
_Static_assert(offsetof(struct dm_items_slot_slot, bits_4) * 8 <= DM_ITEMS_SLOT_SLOT_LIFE_HIGH_OFFSET * 8 + DM_ITEMS_SLOT_SLOT_LIFE_HIGH_BIT && DM_ITEMS_SLOT_SLOT_LIFE_HIGH_OFFSET * 8 + DM_ITEMS_SLOT_SLOT_LIFE_HIGH_BIT + DM_ITEMS_SLOT_SLOT_LIFE_HIGH_BITS <= (offsetof(struct dm_items_slot_slot, bits_4) + sizeof(((struct dm_items_slot_slot *)0)->bits_4)) * 8, "dm_items_slot_slot: life_high");
_Static_assert(offsetof(struct dm_items_slot_slot, place) * 8 == DM_ITEMS_SLOT_SLOT_PLACE_OFFSET * 8 + DM_ITEMS_SLOT_SLOT_PLACE_BIT && sizeof(((struct dm_items_slot_slot *)0)->place) * 8 == DM_ITEMS_SLOT_SLOT_PLACE_BITS, "dm_items_slot_slot: place");
_Static_assert(sizeof(struct dm_items_block_header) == DM_ITEMS_BLOCK_HEADER_STRUCT_BYTES, "dm_items_block_header: size");
_Static_assert(offsetof(struct dm_items_block_header, checksum) * 8 == DM_ITEMS_BLOCK_HEADER_CHECKSUM_OFFSET * 8 + DM_ITEMS_BLOCK_HEADER_CHECKSUM_BIT && sizeof(((struct dm_items_block_header *)0)->checksum) * 8 == DM_ITEMS_BLOCK_HEADER_CHECKSUM_BITS, "dm_items_block_header: checksum");
_Static_assert(offsetof(struct dm_items_block_header, life) * 8 == DM_ITEMS_BLOCK_HEADER_LIFE_OFFSET * 8 + DM_ITEMS_BLOCK_HEADER_LIFE_BIT && sizeof(((struct dm_items_block_header *)0)->life) * 8 == DM_ITEMS_BLOCK_HEADER_LIFE_BITS, "dm_items_block_header: life");
_Static_assert(offsetof(struct dm_items_block_header, key_bytes) * 8 == DM_ITEMS_BLOCK_HEADER_KEY_BYTES_OFFSET * 8 + DM_ITEMS_BLOCK_HEADER_KEY_BYTES_BIT && sizeof(((struct dm_items_block_header *)0)->key_bytes) * 8 == DM_ITEMS_BLOCK_HEADER_KEY_BYTES_BITS, "dm_items_block_header: key_bytes");
_Static_assert(offsetof(struct dm_items_block_header, index) * 8 == DM_ITEMS_BLOCK_HEADER_INDEX_OFFSET * 8 + DM_ITEMS_BLOCK_HEADER_INDEX_BIT && sizeof(((struct dm_items_block_header *)0)->index) * 8 == DM_ITEMS_BLOCK_HEADER_INDEX_BITS, "dm_items_block_header: index");
_Static_assert(offsetof(struct dm_items_block_header, reserved_11) * 8 == DM_ITEMS_BLOCK_HEADER_RESERVED_11_OFFSET * 8 + DM_ITEMS_BLOCK_HEADER_RESERVED_11_BIT && sizeof(((struct dm_items_block_header *)0)->reserved_11) * 8 == DM_ITEMS_BLOCK_HEADER_RESERVED_11_BITS, "dm_items_block_header: reserved_11");
_Static_assert(offsetof(struct dm_items_block_header, value_bytes) * 8 == DM_ITEMS_BLOCK_HEADER_VALUE_BYTES_OFFSET * 8 + DM_ITEMS_BLOCK_HEADER_VALUE_BYTES_BIT && sizeof(((struct dm_items_block_header *)0)->value_bytes) * 8 == DM_ITEMS_BLOCK_HEADER_VALUE_BYTES_BITS, "dm_items_block_header: value_bytes");
_Static_assert(sizeof(struct dm_record_checksum_value_of_8_bytes) == DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_STRUCT_BYTES, "dm_record_checksum_value_of_8_bytes: size");
_Static_assert(offsetof(struct dm_record_checksum_value_of_8_bytes, value) * 8 == DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_VALUE_OFFSET * 8 + DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_VALUE_BIT && sizeof(((struct dm_record_checksum_value_of_8_bytes *)0)->value) * 8 == DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_VALUE_BITS, "dm_record_checksum_value_of_8_bytes: value");
_Static_assert(offsetof(struct dm_record_checksum_value_of_8_bytes, checksum) * 8 == DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_CHECKSUM_OFFSET * 8 + DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_CHECKSUM_BIT && sizeof(((struct dm_record_checksum_value_of_8_bytes *)0)->checksum) * 8 == DM_RECORD_CHECKSUM_VALUE_OF_8_BYTES_CHECKSUM_BITS, "dm_record_checksum_value_of_8_bytes: checksum");

static int failed;

static void expect(const char *what, uint64_t found, uint64_t stated) {
    if (found != stated) {
        printf("%s: the bytes say %#" PRIx64 ", the golden %#" PRIx64 "\n", what, found, stated);
        failed = 1;
    }
}

int main(void) {
    {
        static const uint8_t bytes[] = {
            0x6a, 0x23, 0x01, 0xef, 0xcd, 0xab, 0x34, 0x12,
        };
        expect("address, generation 42 of the node at 0xabcdef012340 of memory node 0x1234: generation", dm_layout_read(bytes, DM_ADDRESS_GENERATION_OFFSET, DM_ADDRESS_GENERATION_BIT, DM_ADDRESS_GENERATION_BITS), UINT64_C(0x2a));
        expect("address, generation 42 of the node at 0xabcdef012340 of memory node 0x1234: node", dm_layout_read(bytes, DM_ADDRESS_NODE_OFFSET, DM_ADDRESS_NODE_BIT, DM_ADDRESS_NODE_BITS), UINT64_C(0x1234));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("address, the null address: generation", dm_layout_read(bytes, DM_ADDRESS_GENERATION_OFFSET, DM_ADDRESS_GENERATION_BIT, DM_ADDRESS_GENERATION_BITS), UINT64_C(0x0));
        expect("address, the null address: node", dm_layout_read(bytes, DM_ADDRESS_NODE_OFFSET, DM_ADDRESS_NODE_BIT, DM_ADDRESS_NODE_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("lock_word, free: row", dm_layout_read(bytes, DM_LOCK_WORD_ROW_OFFSET, DM_LOCK_WORD_ROW_BIT, DM_LOCK_WORD_ROW_BITS), UINT64_C(0x0));
        expect("lock_word, free: sequence", dm_layout_read(bytes, DM_LOCK_WORD_SEQUENCE_OFFSET, DM_LOCK_WORD_SEQUENCE_BIT, DM_LOCK_WORD_SEQUENCE_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x09, 0x00, 0xef, 0xbe, 0x00, 0x00, 0x00, 0x00,
        };
        expect("lock_word, held by row 9, its acquisition 48879: row", dm_layout_read(bytes, DM_LOCK_WORD_ROW_OFFSET, DM_LOCK_WORD_ROW_BIT, DM_LOCK_WORD_ROW_BITS), UINT64_C(0x9));
        expect("lock_word, held by row 9, its acquisition 48879: sequence", dm_layout_read(bytes, DM_LOCK_WORD_SEQUENCE_OFFSET, DM_LOCK_WORD_SEQUENCE_BIT, DM_LOCK_WORD_SEQUENCE_BITS), UINT64_C(0xbeef));
    }
    {
        static const uint8_t bytes[] = {
            0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03,
            0x97, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12,
            0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x20, 0x21, 0x22,
            0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f, 0x30, 0x31, 0x32,
            0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0x40, 0x41, 0x42,
            0x97, 0x43, 0x44, 0x45, 0x46, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("cache_line_versions, three lines of node version 7; bytes 1..=70 at payload 60..130, entry version 9: node version", dm_layout_read(bytes, DM_CACHE_LINE_VERSIONS_ONE_LINE_NODE_VERSION_OFFSET, DM_CACHE_LINE_VERSIONS_ONE_LINE_NODE_VERSION_BIT, DM_CACHE_LINE_VERSIONS_ONE_LINE_NODE_VERSION_BITS), UINT64_C(0x7));
    }
    {
        static const uint8_t bytes[] = {
            0x11, 0xef, 0xcd, 0xab, 0x02, 0x00, 0x00, 0x00, 0x4d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x08, 0x00, 0x02, 0x00,
            0xf1, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x80, 0x84, 0x1e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x01, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x0c, 0x63, 0x6e, 0x2d, 0x33, 0x2e, 0x65, 0x78, 0x61, 0x6d, 0x70, 0x6c, 0x65, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("row, live, after 77 heartbeats: heartbeat", dm_layout_read(bytes, DM_ROW_HEARTBEAT_OFFSET, DM_ROW_HEARTBEAT_BIT, DM_ROW_HEARTBEAT_BITS), UINT64_C(0x4d));
        expect("row, live, after 77 heartbeats: epoch", dm_layout_read(bytes, DM_ROW_EPOCH_OFFSET, DM_ROW_EPOCH_BIT, DM_ROW_EPOCH_BITS), UINT64_C(0x5));
        expect("row, live, after 77 heartbeats: incarnation", dm_layout_read(bytes, DM_ROW_INCARNATION_OFFSET, DM_ROW_INCARNATION_BIT, DM_ROW_INCARNATION_BITS), UINT64_C(0x2));
        expect("row, live, after 77 heartbeats: lanes", dm_layout_read(bytes, DM_ROW_LANES_OFFSET, DM_ROW_LANES_BIT, DM_ROW_LANES_BITS), UINT64_C(0x8));
        expect("row, live, after 77 heartbeats: token", dm_layout_read(bytes, DM_ROW_TOKEN_OFFSET, DM_ROW_TOKEN_BIT, DM_ROW_TOKEN_BITS), UINT64_C(0x123456789abcdef1));
        expect("row, live, after 77 heartbeats: incarnation", dm_layout_read(bytes, DM_ROW_ROW_WORD_INCARNATION_OFFSET, DM_ROW_ROW_WORD_INCARNATION_BIT, DM_ROW_ROW_WORD_INCARNATION_BITS), UINT64_C(0x2));
    }
    {
        static const uint8_t bytes[] = {
            0x12, 0xef, 0xcd, 0xab, 0x02, 0x00, 0x00, 0x00, 0x4d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x08, 0x00, 0x02, 0x00,
            0xf1, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x80, 0x84, 0x1e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x01, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x0c, 0x63, 0x6e, 0x2d, 0x33, 0x2e, 0x65, 0x78, 0x61, 0x6d, 0x70, 0x6c, 0x65, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("row, the same compute node being fenced off: heartbeat", dm_layout_read(bytes, DM_ROW_HEARTBEAT_OFFSET, DM_ROW_HEARTBEAT_BIT, DM_ROW_HEARTBEAT_BITS), UINT64_C(0x4d));
        expect("row, the same compute node being fenced off: epoch", dm_layout_read(bytes, DM_ROW_EPOCH_OFFSET, DM_ROW_EPOCH_BIT, DM_ROW_EPOCH_BITS), UINT64_C(0x5));
        expect("row, the same compute node being fenced off: incarnation", dm_layout_read(bytes, DM_ROW_INCARNATION_OFFSET, DM_ROW_INCARNATION_BIT, DM_ROW_INCARNATION_BITS), UINT64_C(0x2));
        expect("row, the same compute node being fenced off: lanes", dm_layout_read(bytes, DM_ROW_LANES_OFFSET, DM_ROW_LANES_BIT, DM_ROW_LANES_BITS), UINT64_C(0x8));
        expect("row, the same compute node being fenced off: token", dm_layout_read(bytes, DM_ROW_TOKEN_OFFSET, DM_ROW_TOKEN_BIT, DM_ROW_TOKEN_BITS), UINT64_C(0x123456789abcdef1));
        expect("row, the same compute node being fenced off: incarnation", dm_layout_read(bytes, DM_ROW_ROW_WORD_INCARNATION_OFFSET, DM_ROW_ROW_WORD_INCARNATION_BIT, DM_ROW_ROW_WORD_INCARNATION_BITS), UINT64_C(0x2));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x4d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x08, 0x00, 0x02, 0x00,
            0xf1, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x80, 0x84, 0x1e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x01, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x0c, 0x63, 0x6e, 0x2d, 0x33, 0x2e, 0x65, 0x78, 0x61, 0x6d, 0x70, 0x6c, 0x65, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("row, the same row after it left: incarnation", dm_layout_read(bytes, DM_ROW_INCARNATION_OFFSET, DM_ROW_INCARNATION_BIT, DM_ROW_INCARNATION_BITS), UINT64_C(0x2));
        expect("row, the same row after it left: incarnation", dm_layout_read(bytes, DM_ROW_ROW_WORD_INCARNATION_OFFSET, DM_ROW_ROW_WORD_INCARNATION_BIT, DM_ROW_ROW_WORD_INCARNATION_BITS), UINT64_C(0x2));
    }
    {
        static const uint8_t bytes[] = {
            0x11, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x4d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x08, 0x00, 0x02, 0x00,
            0xf1, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x80, 0x84, 0x1e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x01, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x0c, 0x63, 0x6e, 0x2d, 0x33, 0x2e, 0x65, 0x78, 0x61, 0x6d, 0x70, 0x6c, 0x65, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("row, the next compute node has claimed the row and not yet written the rest: incarnation", dm_layout_read(bytes, DM_ROW_ROW_WORD_INCARNATION_OFFSET, DM_ROW_ROW_WORD_INCARNATION_BIT, DM_ROW_ROW_WORD_INCARNATION_BITS), UINT64_C(0x3));
    }
    {
        static const uint8_t bytes[] = {
            0x22, 0x45, 0x26, 0x04, 0x09, 0x00, 0x02, 0x00, 0x97, 0x05, 0x7a, 0x3f, 0x01, 0x00, 0x01, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x08, 0x00, 0x27, 0x00, 0x10, 0x00, 0x00, 0x00,
            0x3c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x93, 0x20, 0x50, 0xd8, 0x05, 0x75, 0x73, 0x65,
            0x72, 0x73, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x70, 0x80, 0x00, 0x00, 0x00, 0x01, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("catalog_entry, a live Sherman index: its word, and its entry: tag", dm_layout_read(bytes, DM_CATALOG_ENTRY_ENTRY_WORD_TAG_OFFSET, DM_CATALOG_ENTRY_ENTRY_WORD_TAG_BIT, DM_CATALOG_ENTRY_ENTRY_WORD_TAG_BITS), UINT64_C(0x26452));
        expect("catalog_entry, a live Sherman index: its word, and its entry: request", dm_layout_read(bytes, DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_OFFSET, DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_BIT, DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_BITS), UINT64_C(0x4));
    }
    {
        static const uint8_t bytes[] = {
            0xca, 0x92, 0xa9, 0x04, 0x09, 0x00, 0x02, 0x00, 0x97, 0x05, 0x7a, 0x3f, 0x01, 0x00, 0x01, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x08, 0x00, 0x27, 0x00, 0x10, 0x00, 0x00, 0x00,
            0x3c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x93, 0x20, 0x50, 0xd8, 0x05, 0x75, 0x73, 0x65,
            0x72, 0x73, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x70, 0x80, 0x00, 0x00, 0x00, 0x01, 0x00,
            0xb4, 0xd7, 0xf8, 0x0e, 0x06, 0x70, 0x65, 0x6f, 0x70, 0x6c, 0x65, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("catalog_entry, the same, called 'people' now: tag", dm_layout_read(bytes, DM_CATALOG_ENTRY_ENTRY_WORD_TAG_OFFSET, DM_CATALOG_ENTRY_ENTRY_WORD_TAG_BIT, DM_CATALOG_ENTRY_ENTRY_WORD_TAG_BITS), UINT64_C(0xa992c));
        expect("catalog_entry, the same, called 'people' now: request", dm_layout_read(bytes, DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_OFFSET, DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_BIT, DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_BITS), UINT64_C(0x4));
    }
    {
        static const uint8_t bytes[] = {
            0x21, 0x45, 0x26, 0x04, 0x09, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("catalog_entry, a claimed entry, nothing written yet: tag", dm_layout_read(bytes, DM_CATALOG_ENTRY_ENTRY_WORD_TAG_OFFSET, DM_CATALOG_ENTRY_ENTRY_WORD_TAG_BIT, DM_CATALOG_ENTRY_ENTRY_WORD_TAG_BITS), UINT64_C(0x26452));
        expect("catalog_entry, a claimed entry, nothing written yet: request", dm_layout_read(bytes, DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_OFFSET, DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_BIT, DM_CATALOG_ENTRY_ENTRY_WORD_REQUEST_BITS), UINT64_C(0x4));
    }
    {
        static const uint8_t bytes[] = {
            0x08, 0x00, 0x27, 0x00, 0x10, 0x00, 0x00, 0x00, 0x3c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("sherman_parameters, keys of 8 bytes, values of 16, nodes of 1 KiB: key_bytes", dm_layout_read(bytes, DM_SHERMAN_PARAMETERS_KEY_BYTES_OFFSET, DM_SHERMAN_PARAMETERS_KEY_BYTES_BIT, DM_SHERMAN_PARAMETERS_KEY_BYTES_BITS), UINT64_C(0x8));
        expect("sherman_parameters, keys of 8 bytes, values of 16, nodes of 1 KiB: leaf_span", dm_layout_read(bytes, DM_SHERMAN_PARAMETERS_LEAF_SPAN_OFFSET, DM_SHERMAN_PARAMETERS_LEAF_SPAN_BIT, DM_SHERMAN_PARAMETERS_LEAF_SPAN_BITS), UINT64_C(0x27));
        expect("sherman_parameters, keys of 8 bytes, values of 16, nodes of 1 KiB: value_bytes", dm_layout_read(bytes, DM_SHERMAN_PARAMETERS_VALUE_BYTES_OFFSET, DM_SHERMAN_PARAMETERS_VALUE_BYTES_BIT, DM_SHERMAN_PARAMETERS_VALUE_BYTES_BITS), UINT64_C(0x10));
        expect("sherman_parameters, keys of 8 bytes, values of 16, nodes of 1 KiB: inner_span", dm_layout_read(bytes, DM_SHERMAN_PARAMETERS_INNER_SPAN_OFFSET, DM_SHERMAN_PARAMETERS_INNER_SPAN_BIT, DM_SHERMAN_PARAMETERS_INNER_SPAN_BITS), UINT64_C(0x3c));
    }
    {
        static const uint8_t bytes[] = {
            0x08, 0x00, 0x40, 0x00, 0x08, 0x00, 0x00, 0x00, 0x40, 0x00, 0x08, 0x01, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("chime_parameters, keys and values of 8 bytes, the paper's spans: key_bytes", dm_layout_read(bytes, DM_CHIME_PARAMETERS_KEY_BYTES_OFFSET, DM_CHIME_PARAMETERS_KEY_BYTES_BIT, DM_CHIME_PARAMETERS_KEY_BYTES_BITS), UINT64_C(0x8));
        expect("chime_parameters, keys and values of 8 bytes, the paper's spans: leaf_span", dm_layout_read(bytes, DM_CHIME_PARAMETERS_LEAF_SPAN_OFFSET, DM_CHIME_PARAMETERS_LEAF_SPAN_BIT, DM_CHIME_PARAMETERS_LEAF_SPAN_BITS), UINT64_C(0x40));
        expect("chime_parameters, keys and values of 8 bytes, the paper's spans: value_bytes", dm_layout_read(bytes, DM_CHIME_PARAMETERS_VALUE_BYTES_OFFSET, DM_CHIME_PARAMETERS_VALUE_BYTES_BIT, DM_CHIME_PARAMETERS_VALUE_BYTES_BITS), UINT64_C(0x8));
        expect("chime_parameters, keys and values of 8 bytes, the paper's spans: inner_span", dm_layout_read(bytes, DM_CHIME_PARAMETERS_INNER_SPAN_OFFSET, DM_CHIME_PARAMETERS_INNER_SPAN_BIT, DM_CHIME_PARAMETERS_INNER_SPAN_BITS), UINT64_C(0x40));
        expect("chime_parameters, keys and values of 8 bytes, the paper's spans: neighborhood", dm_layout_read(bytes, DM_CHIME_PARAMETERS_NEIGHBORHOOD_OFFSET, DM_CHIME_PARAMETERS_NEIGHBORHOOD_BIT, DM_CHIME_PARAMETERS_NEIGHBORHOOD_BITS), UINT64_C(0x8));
    }
    {
        static const uint8_t bytes[] = {
            0x20, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("smart_parameters, keys of 32 bytes and values of 8: key_bytes", dm_layout_read(bytes, DM_SMART_PARAMETERS_KEY_BYTES_OFFSET, DM_SMART_PARAMETERS_KEY_BYTES_BIT, DM_SMART_PARAMETERS_KEY_BYTES_BITS), UINT64_C(0x20));
        expect("smart_parameters, keys of 32 bytes and values of 8: value_bytes", dm_layout_read(bytes, DM_SMART_PARAMETERS_VALUE_BYTES_OFFSET, DM_SMART_PARAMETERS_VALUE_BYTES_BIT, DM_SMART_PARAMETERS_VALUE_BYTES_BITS), UINT64_C(0x8));
    }
    {
        static const uint8_t bytes[] = {
            0x20, 0x00, 0x00, 0x00, 0x3f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("dolphin_parameters, keys of 32 bytes and values of 63: key_bytes", dm_layout_read(bytes, DM_DOLPHIN_PARAMETERS_KEY_BYTES_OFFSET, DM_DOLPHIN_PARAMETERS_KEY_BYTES_BIT, DM_DOLPHIN_PARAMETERS_KEY_BYTES_BITS), UINT64_C(0x20));
        expect("dolphin_parameters, keys of 32 bytes and values of 63: value_bytes", dm_layout_read(bytes, DM_DOLPHIN_PARAMETERS_VALUE_BYTES_OFFSET, DM_DOLPHIN_PARAMETERS_VALUE_BYTES_BIT, DM_DOLPHIN_PARAMETERS_VALUE_BYTES_BITS), UINT64_C(0x3f));
    }
    {
        static const uint8_t bytes[] = {
            0x08, 0x00, 0x39, 0x00, 0x08, 0x00, 0x00, 0x00, 0x3c, 0x00, 0x01, 0x00, 0x04, 0x00, 0x00, 0x00,
            0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x2b, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("dex_parameters, keys and values of 8 bytes, nodes of 1 KiB, four entries over the keys 0 to 299: key_bytes", dm_layout_read(bytes, DM_DEX_PARAMETERS_KEY_BYTES_OFFSET, DM_DEX_PARAMETERS_KEY_BYTES_BIT, DM_DEX_PARAMETERS_KEY_BYTES_BITS), UINT64_C(0x8));
        expect("dex_parameters, keys and values of 8 bytes, nodes of 1 KiB, four entries over the keys 0 to 299: leaf_span", dm_layout_read(bytes, DM_DEX_PARAMETERS_LEAF_SPAN_OFFSET, DM_DEX_PARAMETERS_LEAF_SPAN_BIT, DM_DEX_PARAMETERS_LEAF_SPAN_BITS), UINT64_C(0x39));
        expect("dex_parameters, keys and values of 8 bytes, nodes of 1 KiB, four entries over the keys 0 to 299: value_bytes", dm_layout_read(bytes, DM_DEX_PARAMETERS_VALUE_BYTES_OFFSET, DM_DEX_PARAMETERS_VALUE_BYTES_BIT, DM_DEX_PARAMETERS_VALUE_BYTES_BITS), UINT64_C(0x8));
        expect("dex_parameters, keys and values of 8 bytes, nodes of 1 KiB, four entries over the keys 0 to 299: inner_span", dm_layout_read(bytes, DM_DEX_PARAMETERS_INNER_SPAN_OFFSET, DM_DEX_PARAMETERS_INNER_SPAN_BIT, DM_DEX_PARAMETERS_INNER_SPAN_BITS), UINT64_C(0x3c));
        expect("dex_parameters, keys and values of 8 bytes, nodes of 1 KiB, four entries over the keys 0 to 299: entries", dm_layout_read(bytes, DM_DEX_PARAMETERS_ENTRIES_OFFSET, DM_DEX_PARAMETERS_ENTRIES_BIT, DM_DEX_PARAMETERS_ENTRIES_BITS), UINT64_C(0x4));
    }
    {
        static const uint8_t bytes[] = {
            0x89, 0xc0, 0xbb, 0x2f, 0x09, 0x00, 0x02, 0x00,
        };
        expect("chunk_entry, inner nodes of index 4: index", dm_layout_read(bytes, DM_CHUNK_ENTRY_INDEX_OFFSET, DM_CHUNK_ENTRY_INDEX_BIT, DM_CHUNK_ENTRY_INDEX_BITS), UINT64_C(0x4));
        expect("chunk_entry, inner nodes of index 4: request", dm_layout_read(bytes, DM_CHUNK_ENTRY_REQUEST_OFFSET, DM_CHUNK_ENTRY_REQUEST_BIT, DM_CHUNK_ENTRY_REQUEST_BITS), UINT64_C(0xbeef));
        expect("chunk_entry, inner nodes of index 4: row", dm_layout_read(bytes, DM_CHUNK_ENTRY_ROW_OFFSET, DM_CHUNK_ENTRY_ROW_BIT, DM_CHUNK_ENTRY_ROW_BITS), UINT64_C(0x9));
        expect("chunk_entry, inner nodes of index 4: incarnation", dm_layout_read(bytes, DM_CHUNK_ENTRY_INCARNATION_OFFSET, DM_CHUNK_ENTRY_INCARNATION_BIT, DM_CHUNK_ENTRY_INCARNATION_BITS), UINT64_C(0x2));
    }
    {
        static const uint8_t bytes[] = {
            0xed, 0xff, 0xbb, 0x2f, 0x09, 0x00, 0x02, 0x00,
        };
        expect("chunk_entry, redo images of a compute node: index", dm_layout_read(bytes, DM_CHUNK_ENTRY_INDEX_OFFSET, DM_CHUNK_ENTRY_INDEX_BIT, DM_CHUNK_ENTRY_INDEX_BITS), UINT64_C(0x1ff));
        expect("chunk_entry, redo images of a compute node: request", dm_layout_read(bytes, DM_CHUNK_ENTRY_REQUEST_OFFSET, DM_CHUNK_ENTRY_REQUEST_BIT, DM_CHUNK_ENTRY_REQUEST_BITS), UINT64_C(0xbeef));
        expect("chunk_entry, redo images of a compute node: row", dm_layout_read(bytes, DM_CHUNK_ENTRY_ROW_OFFSET, DM_CHUNK_ENTRY_ROW_BIT, DM_CHUNK_ENTRY_ROW_BITS), UINT64_C(0x9));
        expect("chunk_entry, redo images of a compute node: incarnation", dm_layout_read(bytes, DM_CHUNK_ENTRY_INCARNATION_OFFSET, DM_CHUNK_ENTRY_INCARNATION_BIT, DM_CHUNK_ENTRY_INCARNATION_BITS), UINT64_C(0x2));
    }
    {
        static const uint8_t bytes[] = {
            0x06, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("chunk_entry, given back after leaves of index 0 lived there: index", dm_layout_read(bytes, DM_CHUNK_ENTRY_INDEX_OFFSET, DM_CHUNK_ENTRY_INDEX_BIT, DM_CHUNK_ENTRY_INDEX_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("chunk_entry, withheld after leaves of index 0 lived there: index", dm_layout_read(bytes, DM_CHUNK_ENTRY_INDEX_OFFSET, DM_CHUNK_ENTRY_INDEX_BIT, DM_CHUNK_ENTRY_INDEX_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x11, 0xda, 0x3e, 0x89, 0x11, 0x00, 0x00, 0x00, 0x09, 0x00, 0xef, 0xbe, 0x00, 0x00, 0x00, 0x00,
            0x40, 0x70, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0xd2, 0x04, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00,
            0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f, 0x50,
            0x51,
        };
        expect("redo_record, an entry of 17 bytes, written by row 9 under its acquisition 48879 of lock 1234: lock", dm_layout_read(bytes, DM_REDO_RECORD_HEADER_LOCK_OFFSET, DM_REDO_RECORD_HEADER_LOCK_BIT, DM_REDO_RECORD_HEADER_LOCK_BITS), UINT64_C(0x4d2));
        expect("redo_record, an entry of 17 bytes, written by row 9 under its acquisition 48879 of lock 1234: incarnation", dm_layout_read(bytes, DM_REDO_RECORD_HEADER_INCARNATION_OFFSET, DM_REDO_RECORD_HEADER_INCARNATION_BIT, DM_REDO_RECORD_HEADER_INCARNATION_BITS), UINT64_C(0x2));
        expect("redo_record, an entry of 17 bytes, written by row 9 under its acquisition 48879 of lock 1234: step", dm_layout_read(bytes, DM_REDO_RECORD_HEADER_STEP_OFFSET, DM_REDO_RECORD_HEADER_STEP_BIT, DM_REDO_RECORD_HEADER_STEP_BITS), UINT64_C(0x1));
    }
    {
        static const uint8_t bytes[] = {
            0xd0, 0x01, 0x24, 0xfc, 0x11, 0x00, 0x00, 0x00, 0x09, 0x00, 0xef, 0xbe, 0x00, 0x00, 0x00, 0x00,
            0x40, 0x70, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0xd2, 0x04, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00,
            0x02, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x74, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f, 0x50,
            0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59,
        };
        expect("redo_record, the next step, of two WRITEs, as a repairer copied it: lock", dm_layout_read(bytes, DM_REDO_RECORD_HEADER_LOCK_OFFSET, DM_REDO_RECORD_HEADER_LOCK_BIT, DM_REDO_RECORD_HEADER_LOCK_BITS), UINT64_C(0x4d2));
        expect("redo_record, the next step, of two WRITEs, as a repairer copied it: incarnation", dm_layout_read(bytes, DM_REDO_RECORD_HEADER_INCARNATION_OFFSET, DM_REDO_RECORD_HEADER_INCARNATION_BIT, DM_REDO_RECORD_HEADER_INCARNATION_BITS), UINT64_C(0x2));
        expect("redo_record, the next step, of two WRITEs, as a repairer copied it: step", dm_layout_read(bytes, DM_REDO_RECORD_HEADER_STEP_OFFSET, DM_REDO_RECORD_HEADER_STEP_BIT, DM_REDO_RECORD_HEADER_STEP_BITS), UINT64_C(0x2));
    }
    {
        static const uint8_t bytes[] = {
            0xaf, 0xfe, 0x55, 0x62, 0x02, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x11, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40,
        };
        expect("open_indexes, row 9 has indexes 0, 4 and 254 open: incarnation", dm_layout_read(bytes, DM_OPEN_INDEXES_LINE_INCARNATION_OFFSET, DM_OPEN_INDEXES_LINE_INCARNATION_BIT, DM_OPEN_INDEXES_LINE_INCARNATION_BITS), UINT64_C(0x2));
        expect("open_indexes, row 9 has indexes 0, 4 and 254 open: row", dm_layout_read(bytes, DM_OPEN_INDEXES_LINE_ROW_OFFSET, DM_OPEN_INDEXES_LINE_ROW_BIT, DM_OPEN_INDEXES_LINE_ROW_BITS), UINT64_C(0x9));
    }
    {
        static const uint8_t bytes[] = {
            0x7b, 0xa4, 0xd1, 0xca, 0x02, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("open_indexes, it has none: incarnation", dm_layout_read(bytes, DM_OPEN_INDEXES_LINE_INCARNATION_OFFSET, DM_OPEN_INDEXES_LINE_INCARNATION_BIT, DM_OPEN_INDEXES_LINE_INCARNATION_BITS), UINT64_C(0x2));
        expect("open_indexes, it has none: row", dm_layout_read(bytes, DM_OPEN_INDEXES_LINE_ROW_OFFSET, DM_OPEN_INDEXES_LINE_ROW_BIT, DM_OPEN_INDEXES_LINE_ROW_BITS), UINT64_C(0x9));
    }
    {
        static const uint8_t stored[] = {
            0x05, 0x03, 0x01, 0x01, 0x00, 0x00, 0x00, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        uint8_t bytes[sizeof stored];
        dm_layout_payload(stored, sizeof stored, bytes);
        expect("node_header, keys 0x1000..0x2000 on level 1: generation", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_GENERATION_OFFSET, DM_NODE_HEADER_HEADER_GENERATION_BIT, DM_NODE_HEADER_HEADER_GENERATION_BITS), UINT64_C(0x3));
        expect("node_header, keys 0x1000..0x2000 on level 1: level", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_LEVEL_OFFSET, DM_NODE_HEADER_HEADER_LEVEL_BIT, DM_NODE_HEADER_HEADER_LEVEL_BITS), UINT64_C(0x1));
        expect("node_header, keys 0x1000..0x2000 on level 1: index", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_INDEX_OFFSET, DM_NODE_HEADER_HEADER_INDEX_BIT, DM_NODE_HEADER_HEADER_INDEX_BITS), UINT64_C(0x1));
        expect("node_header, keys 0x1000..0x2000 on level 1: count", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_COUNT_OFFSET, DM_NODE_HEADER_HEADER_COUNT_BIT, DM_NODE_HEADER_HEADER_COUNT_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t stored[] = {
            0x05, 0x03, 0x00, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        uint8_t bytes[sizeof stored];
        dm_layout_payload(stored, sizeof stored, bytes);
        expect("node_header, the right edge of the leaves: generation", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_GENERATION_OFFSET, DM_NODE_HEADER_HEADER_GENERATION_BIT, DM_NODE_HEADER_HEADER_GENERATION_BITS), UINT64_C(0x3));
        expect("node_header, the right edge of the leaves: level", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_LEVEL_OFFSET, DM_NODE_HEADER_HEADER_LEVEL_BIT, DM_NODE_HEADER_HEADER_LEVEL_BITS), UINT64_C(0x0));
        expect("node_header, the right edge of the leaves: index", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_INDEX_OFFSET, DM_NODE_HEADER_HEADER_INDEX_BIT, DM_NODE_HEADER_HEADER_INDEX_BITS), UINT64_C(0x1));
    }
    {
        static const uint8_t stored[] = {
            0x05, 0x03, 0x00, 0x01, 0x02, 0x09, 0x01, 0x07, 0x40, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x01,
            0x80, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        uint8_t bytes[sizeof stored];
        dm_layout_payload(stored, sizeof stored, bytes);
        expect("node_header, retired: the left neighbour at 0x4000 took over: generation", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_GENERATION_OFFSET, DM_NODE_HEADER_HEADER_GENERATION_BIT, DM_NODE_HEADER_HEADER_GENERATION_BITS), UINT64_C(0x3));
        expect("node_header, retired: the left neighbour at 0x4000 took over: level", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_LEVEL_OFFSET, DM_NODE_HEADER_HEADER_LEVEL_BIT, DM_NODE_HEADER_HEADER_LEVEL_BITS), UINT64_C(0x0));
        expect("node_header, retired: the left neighbour at 0x4000 took over: index", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_INDEX_OFFSET, DM_NODE_HEADER_HEADER_INDEX_BIT, DM_NODE_HEADER_HEADER_INDEX_BITS), UINT64_C(0x1));
    }
    {
        static const uint8_t stored[] = {
            0x05, 0x03, 0x01, 0x01, 0x00, 0x02, 0x00, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00,
            0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x01,
            0x04, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x18, 0x00, 0x02,
        };
        uint8_t bytes[sizeof stored];
        dm_layout_payload(stored, sizeof stored, bytes);
        expect("btree_inner, three children; the rest of its 1024 bytes is zero but for the node versions: generation", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_GENERATION_OFFSET, DM_NODE_HEADER_HEADER_GENERATION_BIT, DM_NODE_HEADER_HEADER_GENERATION_BITS), UINT64_C(0x3));
        expect("btree_inner, three children; the rest of its 1024 bytes is zero but for the node versions: level", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_LEVEL_OFFSET, DM_NODE_HEADER_HEADER_LEVEL_BIT, DM_NODE_HEADER_HEADER_LEVEL_BITS), UINT64_C(0x1));
        expect("btree_inner, three children; the rest of its 1024 bytes is zero but for the node versions: index", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_INDEX_OFFSET, DM_NODE_HEADER_HEADER_INDEX_BIT, DM_NODE_HEADER_HEADER_INDEX_BITS), UINT64_C(0x1));
        expect("btree_inner, three children; the rest of its 1024 bytes is zero but for the node versions: count", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_COUNT_OFFSET, DM_NODE_HEADER_HEADER_COUNT_BIT, DM_NODE_HEADER_HEADER_COUNT_BITS), UINT64_C(0x2));
    }
    {
        static const uint8_t stored[] = {
            0x05, 0x03, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0x00, 0x11,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x18, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x13, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x12, 0x34, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        uint8_t bytes[sizeof stored];
        dm_layout_payload(stored, sizeof stored, bytes);
        expect("sherman_leaf, two records, the second across a line end; a third was deleted: generation", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_GENERATION_OFFSET, DM_NODE_HEADER_HEADER_GENERATION_BIT, DM_NODE_HEADER_HEADER_GENERATION_BITS), UINT64_C(0x3));
        expect("sherman_leaf, two records, the second across a line end; a third was deleted: level", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_LEVEL_OFFSET, DM_NODE_HEADER_HEADER_LEVEL_BIT, DM_NODE_HEADER_HEADER_LEVEL_BITS), UINT64_C(0x0));
        expect("sherman_leaf, two records, the second across a line end; a third was deleted: index", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_INDEX_OFFSET, DM_NODE_HEADER_HEADER_INDEX_BIT, DM_NODE_HEADER_HEADER_INDEX_BITS), UINT64_C(0x1));
    }
    {
        static const uint8_t stored[] = {
            0x05, 0x03, 0x00, 0x01, 0x02, 0x09, 0x01, 0x07, 0x40, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x01,
            0x80, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        uint8_t bytes[sizeof stored];
        dm_layout_payload(stored, sizeof stored, bytes);
        expect("sherman_leaf, retired, empty: generation", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_GENERATION_OFFSET, DM_NODE_HEADER_HEADER_GENERATION_BIT, DM_NODE_HEADER_HEADER_GENERATION_BITS), UINT64_C(0x3));
        expect("sherman_leaf, retired, empty: level", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_LEVEL_OFFSET, DM_NODE_HEADER_HEADER_LEVEL_BIT, DM_NODE_HEADER_HEADER_LEVEL_BITS), UINT64_C(0x0));
        expect("sherman_leaf, retired, empty: index", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_INDEX_OFFSET, DM_NODE_HEADER_HEADER_INDEX_BIT, DM_NODE_HEADER_HEADER_INDEX_BITS), UINT64_C(0x1));
    }
    {
        static const uint8_t stored[] = {
            0x05, 0x03, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0x00, 0x05,
            0x43, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x15, 0x01, 0x83, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x15, 0x02, 0x03, 0x00,
        };
        uint8_t bytes[sizeof stored];
        dm_layout_payload(stored, sizeof stored, bytes);
        expect("chime_leaf, two records, and one that was deleted: generation", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_GENERATION_OFFSET, DM_NODE_HEADER_HEADER_GENERATION_BIT, DM_NODE_HEADER_HEADER_GENERATION_BITS), UINT64_C(0x3));
        expect("chime_leaf, two records, and one that was deleted: level", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_LEVEL_OFFSET, DM_NODE_HEADER_HEADER_LEVEL_BIT, DM_NODE_HEADER_HEADER_LEVEL_BITS), UINT64_C(0x0));
        expect("chime_leaf, two records, and one that was deleted: index", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_INDEX_OFFSET, DM_NODE_HEADER_HEADER_INDEX_BIT, DM_NODE_HEADER_HEADER_INDEX_BITS), UINT64_C(0x1));
        expect("chime_leaf, two records, and one that was deleted: low", dm_layout_read(bytes, DM_NODE_HEADER_HEADER_LOW_OFFSET, DM_NODE_HEADER_HEADER_LOW_BIT, DM_NODE_HEADER_HEADER_LOW_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x06, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("chime_lock_word, free; entries 1 and 2 of a small leaf are full: vacancy", dm_layout_read(bytes, DM_CHIME_LOCK_WORD_FREE_VACANCY_OFFSET, DM_CHIME_LOCK_WORD_FREE_VACANCY_BIT, DM_CHIME_LOCK_WORD_FREE_VACANCY_BITS), UINT64_C(0x6));
    }
    {
        static const uint8_t bytes[] = {
            0x09, 0x00, 0xef, 0xbe, 0x00, 0x00, 0x00, 0x80,
        };
        expect("chime_lock_word, held by row 9, its 48,879th turn: row", dm_layout_read(bytes, DM_CHIME_LOCK_WORD_HELD_ROW_OFFSET, DM_CHIME_LOCK_WORD_HELD_ROW_BIT, DM_CHIME_LOCK_WORD_HELD_ROW_BITS), UINT64_C(0x9));
        expect("chime_lock_word, held by row 9, its 48,879th turn: turn", dm_layout_read(bytes, DM_CHIME_LOCK_WORD_HELD_TURN_OFFSET, DM_CHIME_LOCK_WORD_HELD_TURN_BIT, DM_CHIME_LOCK_WORD_HELD_TURN_BITS), UINT64_C(0xbeef));
    }
    {
        static const uint8_t bytes[] = {
            0xab, 0x80, 0x03, 0x89, 0x67, 0x45, 0x23, 0x01,
        };
        expect("radix_slot, a leaf: partial", dm_layout_read(bytes, DM_RADIX_SLOT_WORD_PARTIAL_OFFSET, DM_RADIX_SLOT_WORD_PARTIAL_BIT, DM_RADIX_SLOT_WORD_PARTIAL_BITS), UINT64_C(0xab));
    }
    {
        static const uint8_t bytes[] = {
            0xab, 0x43, 0x03, 0x89, 0x67, 0x45, 0x23, 0x01,
        };
        expect("radix_slot, a node, frozen: partial", dm_layout_read(bytes, DM_RADIX_SLOT_WORD_PARTIAL_OFFSET, DM_RADIX_SLOT_WORD_PARTIAL_BIT, DM_RADIX_SLOT_WORD_PARTIAL_BITS), UINT64_C(0xab));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("radix_slot, empty: partial", dm_layout_read(bytes, DM_RADIX_SLOT_WORD_PARTIAL_OFFSET, DM_RADIX_SLOT_WORD_PARTIAL_BIT, DM_RADIX_SLOT_WORD_PARTIAL_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x07, 0x61, 0x72, 0x6f, 0x6f, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x74, 0x80, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x66, 0x80, 0x00, 0x02, 0x00, 0x01, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("radix_node, below 'the roo': 'the root' and 'the roof', entered at byte 4: position", dm_layout_read(bytes, DM_RADIX_NODE_POSITION_OFFSET, DM_RADIX_NODE_POSITION_BIT, DM_RADIX_NODE_POSITION_BITS), UINT64_C(0x7));
        expect("radix_node, below 'the roo': 'the root' and 'the roof', entered at byte 4: type", dm_layout_read(bytes, DM_RADIX_NODE_TYPE_OFFSET, DM_RADIX_NODE_TYPE_BIT, DM_RADIX_NODE_TYPE_BITS), UINT64_C(0x1));
        expect("radix_node, below 'the roo': 'the root' and 'the roof', entered at byte 4: index", dm_layout_read(bytes, DM_RADIX_NODE_INDEX_OFFSET, DM_RADIX_NODE_INDEX_BIT, DM_RADIX_NODE_INDEX_BITS), UINT64_C(0x1));
    }
    {
        static const uint8_t bytes[] = {
            0x01, 0x0e, 0x3e, 0x22, 0x49, 0x83, 0x51, 0x51, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
            0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("smart_leaf, a record: value", dm_layout_read(bytes, DM_SMART_LEAF_VALUE_OFFSET, DM_SMART_LEAF_VALUE_BIT, DM_SMART_LEAF_VALUE_BITS), UINT64_C(0x1122334455667788));
        expect("smart_leaf, a record: lock", dm_layout_read(bytes, DM_SMART_LEAF_LOCK_OFFSET, DM_SMART_LEAF_LOCK_BIT, DM_SMART_LEAF_LOCK_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x02, 0x92, 0xc7, 0x54, 0xa1, 0xca, 0x9a, 0x82, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
            0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("smart_leaf, the same, deleted: value", dm_layout_read(bytes, DM_SMART_LEAF_VALUE_OFFSET, DM_SMART_LEAF_VALUE_BIT, DM_SMART_LEAF_VALUE_BITS), UINT64_C(0x1122334455667788));
        expect("smart_leaf, the same, deleted: lock", dm_layout_read(bytes, DM_SMART_LEAF_LOCK_OFFSET, DM_SMART_LEAF_LOCK_BIT, DM_SMART_LEAF_LOCK_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x03, 0xe6, 0x90, 0x86, 0x06, 0xf2, 0x23, 0xcc, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
            0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("smart_leaf, the same, and its leaf finalized: value", dm_layout_read(bytes, DM_SMART_LEAF_VALUE_OFFSET, DM_SMART_LEAF_VALUE_BIT, DM_SMART_LEAF_VALUE_BITS), UINT64_C(0x1122334455667788));
        expect("smart_leaf, the same, and its leaf finalized: lock", dm_layout_read(bytes, DM_SMART_LEAF_LOCK_OFFSET, DM_SMART_LEAF_LOCK_BIT, DM_SMART_LEAF_LOCK_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x20, 0x8a, 0x01, 0x35, 0x12, 0x00, 0x00, 0x00,
        };
        expect("dolphin_slot, a leaf of generation 41: low", dm_layout_read(bytes, DM_DOLPHIN_SLOT_WORD_LOW_OFFSET, DM_DOLPHIN_SLOT_WORD_LOW_BIT, DM_DOLPHIN_SLOT_WORD_LOW_BITS), UINT64_C(0x20));
    }
    {
        static const uint8_t bytes[] = {
            0x20, 0xca, 0x01, 0x35, 0x12, 0x00, 0x00, 0x00,
        };
        expect("dolphin_slot, the same, frozen: low", dm_layout_read(bytes, DM_DOLPHIN_SLOT_WORD_LOW_OFFSET, DM_DOLPHIN_SLOT_WORD_LOW_BIT, DM_DOLPHIN_SLOT_WORD_LOW_BITS), UINT64_C(0x20));
    }
    {
        static const uint8_t bytes[] = {
            0x30, 0x10, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x00,
        };
        expect("dolphin_slot, no leaf for bytes 0x30 to 0x7f: low", dm_layout_read(bytes, DM_DOLPHIN_SLOT_WORD_LOW_OFFSET, DM_DOLPHIN_SLOT_WORD_LOW_BIT, DM_DOLPHIN_SLOT_WORD_LOW_BITS), UINT64_C(0x30));
    }
    {
        static const uint8_t bytes[] = {
            0x2f, 0x0a, 0x03, 0x23, 0x01, 0x00, 0x00, 0x00,
        };
        expect("dolphin_slot, a node: low", dm_layout_read(bytes, DM_DOLPHIN_SLOT_WORD_LOW_OFFSET, DM_DOLPHIN_SLOT_WORD_LOW_BIT, DM_DOLPHIN_SLOT_WORD_LOW_BITS), UINT64_C(0x2f));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("dolphin_slot, empty: low", dm_layout_read(bytes, DM_DOLPHIN_SLOT_WORD_LOW_OFFSET, DM_DOLPHIN_SLOT_WORD_LOW_BIT, DM_DOLPHIN_SLOT_WORD_LOW_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x03, 0x61, 0x61, 0x62, 0x63, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x8a, 0x01, 0x35, 0x12, 0x00, 0x00, 0x00, 0x62, 0x10, 0x00, 0xff, 0x00, 0x00, 0x00, 0x00,
            0x61, 0x09, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("dolphin_node, below 'abc': a leaf, then a node for one byte, then nothing: position", dm_layout_read(bytes, DM_DOLPHIN_NODE_POSITION_OFFSET, DM_DOLPHIN_NODE_POSITION_BIT, DM_DOLPHIN_NODE_POSITION_BITS), UINT64_C(0x3));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x29, 0x01, 0x03, 0x20, 0x2f, 0x09, 0x01, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x21, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x07,
            0x00, 0x00, 0x00, 0x2f, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        };
        expect("dolphin_leaf, keys and values of 8 bytes: two records, a third was deleted, one compute node writes: generation", dm_layout_read(bytes, DM_DOLPHIN_LEAF_HEAD_GENERATION_OFFSET, DM_DOLPHIN_LEAF_HEAD_GENERATION_BIT, DM_DOLPHIN_LEAF_HEAD_GENERATION_BITS), UINT64_C(0x29));
        expect("dolphin_leaf, keys and values of 8 bytes: two records, a third was deleted, one compute node writes: index", dm_layout_read(bytes, DM_DOLPHIN_LEAF_HEAD_INDEX_OFFSET, DM_DOLPHIN_LEAF_HEAD_INDEX_BIT, DM_DOLPHIN_LEAF_HEAD_INDEX_BITS), UINT64_C(0x1));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x00, 0x80, 0x01, 0x77, 0x12, 0x00, 0x00, 0x00,
            0x30, 0x80, 0x02, 0x60, 0x45, 0x00, 0x00, 0x00, 0x29, 0x01, 0x2c, 0x00, 0x7f, 0x09, 0x01, 0x00,
            0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
            0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
            0x29, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("dolphin_leaf, the head of a retired leaf with keys of 64 bytes and a prefix of 44: generation", dm_layout_read(bytes, DM_DOLPHIN_LEAF_HEAD_GENERATION_OFFSET, DM_DOLPHIN_LEAF_HEAD_GENERATION_BIT, DM_DOLPHIN_LEAF_HEAD_GENERATION_BITS), UINT64_C(0x29));
        expect("dolphin_leaf, the head of a retired leaf with keys of 64 bytes and a prefix of 44: index", dm_layout_read(bytes, DM_DOLPHIN_LEAF_HEAD_INDEX_OFFSET, DM_DOLPHIN_LEAF_HEAD_INDEX_BIT, DM_DOLPHIN_LEAF_HEAD_INDEX_BITS), UINT64_C(0x1));
        expect("dolphin_leaf, the head of a retired leaf with keys of 64 bytes and a prefix of 44: generation", dm_layout_read(bytes, DM_DOLPHIN_LEAF_HEAD_GENERATION_64_OFFSET, DM_DOLPHIN_LEAF_HEAD_GENERATION_64_BIT, DM_DOLPHIN_LEAF_HEAD_GENERATION_64_BITS), UINT64_C(0x29));
    }
    {
        static const uint8_t bytes[] = {
            0x07, 0x00, 0x02, 0x67, 0x05, 0x00, 0x00, 0x00, 0x8e, 0x8b, 0x6c, 0xe9, 0x07, 0x00, 0x01, 0x00,
            0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
            0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
            0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
            0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("dolphin_block, a name, and behind it the block: generation", dm_layout_read(bytes, DM_DOLPHIN_BLOCK_NAME_GENERATION_OFFSET, DM_DOLPHIN_BLOCK_NAME_GENERATION_BIT, DM_DOLPHIN_BLOCK_NAME_GENERATION_BITS), UINT64_C(0x7));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("dex_owner, of a new entry: epoch", dm_layout_read(bytes, DM_DEX_OWNER_WORD_EPOCH_OFFSET, DM_DEX_OWNER_WORD_EPOCH_BIT, DM_DEX_OWNER_WORD_EPOCH_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x91, 0x00, 0x90, 0x00, 0x90, 0x02, 0x00, 0x00,
        };
        expect("dex_owner, row 9 has it: owner", dm_layout_read(bytes, DM_DEX_OWNER_WORD_OWNER_OFFSET, DM_DEX_OWNER_WORD_OWNER_BIT, DM_DEX_OWNER_WORD_OWNER_BITS), UINT64_C(0x9));
        expect("dex_owner, row 9 has it: epoch", dm_layout_read(bytes, DM_DEX_OWNER_WORD_EPOCH_OFFSET, DM_DEX_OWNER_WORD_EPOCH_BIT, DM_DEX_OWNER_WORD_EPOCH_BITS), UINT64_C(0x29));
    }
    {
        static const uint8_t bytes[] = {
            0xc2, 0x00, 0x90, 0x00, 0xa0, 0x02, 0x00, 0x00,
        };
        expect("dex_owner, row 12 recovers it after the death of row 9: epoch", dm_layout_read(bytes, DM_DEX_OWNER_WORD_EPOCH_OFFSET, DM_DEX_OWNER_WORD_EPOCH_BIT, DM_DEX_OWNER_WORD_EPOCH_BITS), UINT64_C(0x2a));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("dex_lsn, nothing was logged: line", dm_layout_read(bytes, DM_DEX_LSN_WORD_LINE_OFFSET, DM_DEX_LSN_WORD_LINE_BIT, DM_DEX_LSN_WORD_LINE_BITS), UINT64_C(0x0));
        expect("dex_lsn, nothing was logged: epoch", dm_layout_read(bytes, DM_DEX_LSN_WORD_EPOCH_OFFSET, DM_DEX_LSN_WORD_EPOCH_BIT, DM_DEX_LSN_WORD_EPOCH_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x40, 0x42, 0x0f, 0x00, 0x90, 0x02, 0x00, 0x00,
        };
        expect("dex_lsn, a record of the tenure of epoch 41: line", dm_layout_read(bytes, DM_DEX_LSN_WORD_LINE_OFFSET, DM_DEX_LSN_WORD_LINE_BIT, DM_DEX_LSN_WORD_LINE_BITS), UINT64_C(0xf4240));
        expect("dex_lsn, a record of the tenure of epoch 41: epoch", dm_layout_read(bytes, DM_DEX_LSN_WORD_EPOCH_OFFSET, DM_DEX_LSN_WORD_EPOCH_BIT, DM_DEX_LSN_WORD_EPOCH_BITS), UINT64_C(0x29));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0xca, 0x37, 0x21, 0x01, 0x01, 0x08, 0x00, 0x4d, 0x00, 0x00, 0x00, 0x90, 0x02, 0x00, 0x00,
            0x01, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("dex_record, key 5 has a new value: entry", dm_layout_read(bytes, DM_DEX_RECORD_HEADER_ENTRY_OFFSET, DM_DEX_RECORD_HEADER_ENTRY_BIT, DM_DEX_RECORD_HEADER_ENTRY_BITS), UINT64_C(0x1));
    }
    {
        static const uint8_t bytes[] = {
            0x4e, 0x49, 0xb4, 0x54, 0x01, 0x02, 0x08, 0x00, 0x4d, 0x00, 0x00, 0x00, 0x90, 0x02, 0x00, 0x00,
            0x01, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("dex_record, key 5 was deleted: entry", dm_layout_read(bytes, DM_DEX_RECORD_HEADER_ENTRY_OFFSET, DM_DEX_RECORD_HEADER_ENTRY_BIT, DM_DEX_RECORD_HEADER_ENTRY_BITS), UINT64_C(0x1));
    }
    {
        static const uint8_t bytes[] = {
            0x86, 0x7b, 0xe1, 0x4f, 0x01, 0x03, 0x00, 0x00, 0x4d, 0x00, 0x00, 0x00, 0x90, 0x02, 0x00, 0x00,
            0x01, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("dex_record, an LSN for a page whose change is not logged: entry", dm_layout_read(bytes, DM_DEX_RECORD_HEADER_ENTRY_OFFSET, DM_DEX_RECORD_HEADER_ENTRY_BIT, DM_DEX_RECORD_HEADER_ENTRY_BITS), UINT64_C(0x1));
    }
    {
        static const uint8_t bytes[] = {
            0x5f, 0xe8, 0x26, 0x2e, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x45, 0x23, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x4d, 0x00, 0x00, 0x00, 0x90, 0x02, 0x00, 0x00,
            0x01, 0x00, 0x00, 0x00, 0x2a, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
            0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
            0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
            0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
        };
        expect("dex_image, the first line of a page that row 12 flushes while it replays records of epoch 41: entry", dm_layout_read(bytes, DM_DEX_IMAGE_HEADER_ENTRY_OFFSET, DM_DEX_IMAGE_HEADER_ENTRY_BIT, DM_DEX_IMAGE_HEADER_ENTRY_BITS), UINT64_C(0x1));
        expect("dex_image, the first line of a page that row 12 flushes while it replays records of epoch 41: epoch", dm_layout_read(bytes, DM_DEX_IMAGE_HEADER_EPOCH_OFFSET, DM_DEX_IMAGE_HEADER_EPOCH_BIT, DM_DEX_IMAGE_HEADER_EPOCH_BITS), UINT64_C(0x2a));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x04, 0x02, 0x00, 0x00, 0x00, 0x01, 0x00,
        };
        expect("items_parameters, keys of up to 1 KiB, values of up to 64 KiB: key_bytes_max", dm_layout_read(bytes, DM_ITEMS_PARAMETERS_KEY_BYTES_MAX_OFFSET, DM_ITEMS_PARAMETERS_KEY_BYTES_MAX_BIT, DM_ITEMS_PARAMETERS_KEY_BYTES_MAX_BITS), UINT64_C(0x400));
        expect("items_parameters, keys of up to 1 KiB, values of up to 64 KiB: value_bytes_max", dm_layout_read(bytes, DM_ITEMS_PARAMETERS_VALUE_BYTES_MAX_OFFSET, DM_ITEMS_PARAMETERS_VALUE_BYTES_MAX_BIT, DM_ITEMS_PARAMETERS_VALUE_BYTES_MAX_BITS), UINT64_C(0x10000));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x04, 0x02, 0x01, 0x00, 0x00, 0x01, 0x00,
        };
        expect("items_parameters, keys of up to 1 KiB, values of up to 64 KiB less 4 bytes, with checksums: key_bytes_max", dm_layout_read(bytes, DM_ITEMS_PARAMETERS_KEY_BYTES_MAX_OFFSET, DM_ITEMS_PARAMETERS_KEY_BYTES_MAX_BIT, DM_ITEMS_PARAMETERS_KEY_BYTES_MAX_BITS), UINT64_C(0x400));
        expect("items_parameters, keys of up to 1 KiB, values of up to 64 KiB less 4 bytes, with checksums: checksums", dm_layout_read(bytes, DM_ITEMS_PARAMETERS_CHECKSUMS_OFFSET, DM_ITEMS_PARAMETERS_CHECKSUMS_BIT, DM_ITEMS_PARAMETERS_CHECKSUMS_BITS), UINT64_C(0x1));
        expect("items_parameters, keys of up to 1 KiB, values of up to 64 KiB less 4 bytes, with checksums: value_bytes_max", dm_layout_read(bytes, DM_ITEMS_PARAMETERS_VALUE_BYTES_MAX_OFFSET, DM_ITEMS_PARAMETERS_VALUE_BYTES_MAX_BIT, DM_ITEMS_PARAMETERS_VALUE_BYTES_MAX_BITS), UINT64_C(0x10000));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00,
        };
        expect("items_parameters, keys and values of one size, with checksums: checksums", dm_layout_read(bytes, DM_ITEMS_PARAMETERS_CHECKSUMS_OFFSET, DM_ITEMS_PARAMETERS_CHECKSUMS_BIT, DM_ITEMS_PARAMETERS_CHECKSUMS_BITS), UINT64_C(0x1));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        };
        expect("items_key, the empty key: layer", dm_layout_read(bytes, DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LAYER_OFFSET, DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LAYER_BIT, DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LAYER_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x2f, 0x75, 0x73, 0x72, 0x2f, 0x73, 0x68, 0x08,
        };
        expect("items_key, '/usr/share': more than seven bytes: layer", dm_layout_read(bytes, DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LAYER_OFFSET, DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LAYER_BIT, DM_ITEMS_KEY_ENTRY_KEY_OF_16_BYTES_LAYER_BITS), UINT64_C(0x0));
    }
    {
        static const uint8_t bytes[] = {
            0x02, 0x00, 0x45, 0x23, 0x2e, 0x00, 0x02, 0x00, 0x30, 0x01, 0x04, 0x00, 0x00, 0x00, 0x02, 0x00,
        };
        expect("items_slot, a block of 46 bytes on memory node 2: bytes", dm_layout_read(bytes, DM_ITEMS_SLOT_SLOT_BYTES_OFFSET, DM_ITEMS_SLOT_SLOT_BYTES_BIT, DM_ITEMS_SLOT_SLOT_BYTES_BITS), UINT64_C(0x2e));
    }
    if (failed)
        return 1;
    printf("141 values of samples are as the goldens say\n");
    return 0;
}
