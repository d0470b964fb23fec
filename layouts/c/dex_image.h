// dex_image: page image: what a flush was about to write. Made by `dm layout bless`; do not edit.

// Header, then the page, in a redo slot (redo_record) of the flushing lane on the memory node of the page. Word 0 tells it
// from a redo record. Of several images of one page the one of the greatest epoch counts, then of the greatest LSN.

#ifndef DM_LAYOUT_DEX_IMAGE_H
#define DM_LAYOUT_DEX_IMAGE_H

#include <stdint.h>

// header

#define DM_DEX_IMAGE_HEADER_CHECKSUM_OFFSET 0
#define DM_DEX_IMAGE_HEADER_CHECKSUM_BIT 0
#define DM_DEX_IMAGE_HEADER_CHECKSUM_BITS 32
#define DM_DEX_IMAGE_HEADER_BYTES_OFFSET 4
#define DM_DEX_IMAGE_HEADER_BYTES_BIT 0
#define DM_DEX_IMAGE_HEADER_BYTES_BITS 32
#define DM_DEX_IMAGE_HEADER_WORD_OFFSET 8
#define DM_DEX_IMAGE_HEADER_WORD_BIT 0
#define DM_DEX_IMAGE_HEADER_WORD_BITS 64
#define DM_DEX_IMAGE_HEADER_ADDRESS_OFFSET 16
#define DM_DEX_IMAGE_HEADER_ADDRESS_BIT 0
#define DM_DEX_IMAGE_HEADER_ADDRESS_BITS 64
#define DM_DEX_IMAGE_HEADER_LSN_OFFSET 24
#define DM_DEX_IMAGE_HEADER_LSN_BIT 0
#define DM_DEX_IMAGE_HEADER_LSN_BITS 64
#define DM_DEX_IMAGE_HEADER_ENTRY_OFFSET 32
#define DM_DEX_IMAGE_HEADER_ENTRY_BIT 0
#define DM_DEX_IMAGE_HEADER_ENTRY_BITS 32
#define DM_DEX_IMAGE_HEADER_EPOCH_OFFSET 36
#define DM_DEX_IMAGE_HEADER_EPOCH_BIT 0
#define DM_DEX_IMAGE_HEADER_EPOCH_BITS 32
#define DM_DEX_IMAGE_HEADER_INCARNATION_OFFSET 40
#define DM_DEX_IMAGE_HEADER_INCARNATION_BIT 0
#define DM_DEX_IMAGE_HEADER_INCARNATION_BITS 32
#define DM_DEX_IMAGE_HEADER_RESERVED_44_OFFSET 44
#define DM_DEX_IMAGE_HEADER_RESERVED_44_BIT 0
#define DM_DEX_IMAGE_HEADER_RESERVED_44_BITS 160
#define DM_DEX_IMAGE_HEADER_STRUCT_BYTES 64

struct dm_dex_image_header {
    uint8_t checksum[4]; // CRC-32C of the header behind it and of the bytes
    uint8_t bytes[4]; // length of the page
    uint8_t word[8]; // zero: no redo record of a WRITE under a lock
    uint8_t address[8]; // of the page, with its generation
    uint8_t lsn[8]; // of the page: dex_lsn
    uint8_t entry[4]; // entry of the ownership table to which the page belongs
    uint8_t epoch[4]; // epoch of the entry's word when the flush was posted
    uint8_t incarnation[4]; // incarnation of the row whose slot this is
    uint8_t reserved_44[20]; // zero
};

#endif
