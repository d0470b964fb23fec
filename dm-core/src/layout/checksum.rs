//! The checksum of many small structures that are read all the time: of blocks, links, records of a log, and of records whose
//! index was created with checksums.

use crc::{CRC_32_ISCSI, Crc, Table};

/// CRC-32C sixteen bytes at a time, from 16 KiB of tables.
pub(crate) static CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// Bytes of a checksum behind a value.
pub const CHECKSUM_BYTES: usize = 4;

/// The checksum of a record, as an index that was created with checksums has it behind the value, little-endian: of the key, then
/// of the value.
pub fn of_record(key: &[u8], value: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut digest = CRC.digest();
    digest.update(key);
    digest.update(value);
    digest.finalize().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_matters_and_an_erased_record_is_none() {
        assert_eq!(u32::from_le_bytes(of_record(b"1234", b"56789")), 0xe306_9283, "RFC 3720: the check value");
        let sound = of_record(b"a key...", b"a value.");
        for at in 0..16 {
            let mut record = *b"a key...a value.";
            record[at] ^= 1;
            assert_ne!(of_record(&record[..8], &record[8..]), sound, "byte {at}");
        }
        assert_ne!(of_record(&[0; 8], &[0; 8]), [0; 4]);
    }
}
