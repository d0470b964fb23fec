//! Files that the command reads: dumps, property files, files of keys.

use crate::fuzz;
use crate::input::Input;
use crc::{CRC_32_ISO_HDLC, Crc};
use dm_core::remote::catalog::IndexKind;
use dm_host::kinds::IndexParameters;
use dm_tool::keys::{self, BadKeys, RealKeys};
use dm_tool::workload::properties::Properties;
use dm_tool::workload::spec::Spec;
use std::path::Path;

const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// A sound dump of `records` records, without its checksum.
fn dump_of(parameters: &IndexParameters, records: u64) -> Vec<u8> {
    let (block, version) = parameters.encode();
    let mut dump = b"dm-dump\n".to_vec();
    dump.extend(2_u32.to_le_bytes());
    dump.extend((parameters.kind() as u16).to_le_bytes());
    dump.extend(version.to_le_bytes());
    dump.extend(block);
    for record in 0..records {
        dump.push(1);
        let (mut key, mut value) = (vec![0; parameters.key_bytes()], vec![7; parameters.value_bytes()]);
        if parameters.any_length.is_some() {
            key.truncate(9);
            value.truncate(record as usize * 5);
            dump.extend((key.len() as u16).to_le_bytes());
            dump.extend((value.len() as u32).to_le_bytes());
        }
        key[..8].copy_from_slice(&record.to_be_bytes());
        dump.extend(key);
        dump.extend(value);
    }
    dump.push(0);
    dump.extend(records.to_le_bytes());
    dump
}

#[test]
fn dump() {
    let items = dm_core::items::parameters::Parameters { key_bytes_max: 300, value_bytes_max: 5000 };
    let mut dumps = vec![IndexParameters::with_any_length(IndexKind::Sherman, items).map(|index| dump_of(&index, 4))];
    for kind in [IndexKind::Sherman, IndexKind::Chime, IndexKind::Smart, IndexKind::Dolphin] {
        dumps.push(IndexParameters::with_sizes(kind, 8, 8).map(|index| dump_of(&index, 5)));
    }
    let dumps: Vec<Vec<u8>> = dumps.into_iter().map(|dump| dump.expect("sizes of an index")).collect();
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let mut dump = dumps[usize::from(input.byte()) % dumps.len()].clone();
        let (sealed, cut, more) = (!input.one_in(4), input.byte(), input.byte());
        let before = dump.clone();
        input.change(&mut dump);
        let checksum = CRC.checksum(if sealed { &dump } else { &before });
        dump.extend(checksum.to_le_bytes());
        if cut % 8 == 1 {
            dump.truncate(dump.len() * usize::from(cut) / 256);
        }
        if more % 8 == 1 {
            dump.push(more);
        }
        match dm_tool::commands::check_dump(&dump[..]) {
            Ok(records) => assert!(records <= dump.len() as u64 && more % 8 != 1, "what follows is read, too"),
            Err(why) => assert!(!why.is_empty() && !why.contains('\n'), "one line: {why:?}"),
        }
    });
}

/// Text of pieces: bytes from 0x80 on stand for words that property files have.
fn text(input: &[u8]) -> String {
    const WORDS: &[&str] = &[
        "recordcount",
        "operationcount",
        "readproportion",
        "updateproportion",
        "insertproportion",
        "scanproportion",
        "readmodifywriteproportion",
        "requestdistribution",
        "maxscanlength",
        "minscanlength",
        "scanlengthdistribution",
        "insertorder",
        "zipfianconstant",
        "zipfianmeaning",
        "fieldlength",
        "fieldcount",
        "dotransactions",
        "workload",
        "insertstart",
        "insertcount",
        "measurement.x",
        "fieldlengthdistribution",
        "=",
        "=",
        ":",
        "\n",
        "\n",
        " ",
        "\\",
        "\\\n  ",
        "\\u00",
        "\\u0041",
        "\\ud800",
        "#",
        "!",
        "\t",
        "\u{c}",
        "\r\n",
        "0",
        "1",
        "0.5",
        "-1",
        "1e400",
        "nan",
        "inf",
        "18446744073709551615",
        "18446744073709551616",
        "zipfian",
        "uniform",
        "latest",
        "hashed",
        "ordered",
        "true",
        "false",
        "constant",
        "\u{1f600}",
    ];
    let word = |byte: &u8| match byte.checked_sub(0x80) {
        Some(number) => WORDS[usize::from(number) % WORDS.len()].to_owned(),
        None => char::from(*byte).to_string(),
    };
    input.iter().map(word).collect()
}

#[test]
fn property_file() {
    let path = Path::new("fuzzed.properties");
    fuzz!(|input: &[u8]| {
        // A longer name takes longer to compare with all that are known.
        let text = text(&input[..input.len().min(40)]);
        let mut properties = Properties::new();
        let merged = properties.merge_text(path, &text).and_then(|()| properties.merge_argument(&text));
        if let Err(why) = merged {
            assert!(!why.to_string().is_empty());
        }
        match Spec::core().with_properties(&properties) {
            Err(why) => assert!(!why.to_string().is_empty()),
            Ok(spec) => {
                assert!(spec.validate().is_ok(), "{spec:?}");
                assert!(spec.scan_length_min <= spec.scan_length_max, "{spec:?}");
                let _ = (spec.notice(), spec.expected_inserts());
            }
        }
    });
}

#[test]
fn key_file() {
    fuzz!(|input: &[u8]| {
        let mut input = Input::new(input);
        let slot_bytes = input.choose(&[None, Some(8), Some(9), Some(64), Some(7)]);
        let bad_keys = if input.one_in(2) { BadKeys::Refuse } else { BadKeys::Skip };
        let lines = text(input.rest()).into_bytes();
        let Ok(read) = RealKeys::read_from(&lines[..], Path::new("fuzzed.keys"), slot_bytes, bad_keys) else { return };
        assert!(bad_keys == BadKeys::Skip || read.skipped() == keys::SkippedLines::default());
        let mut room = vec![0; read.longest().max(64)];
        for record in 0..read.len() as u64 {
            let key = read.key(record).expect("it is there").to_vec();
            let bytes = read.write(record, &mut room).expect("there is room");
            match slot_bytes {
                Some(_) => assert_eq!(keys::decode(&room[..bytes]), Some(&key[..])),
                None => assert_eq!(room[..bytes], key[..]),
            }
        }
        assert_eq!(read.key(read.len() as u64), None);
    });
}
