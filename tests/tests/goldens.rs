//! The golden layouts under `layouts/` are what the code writes and reads.
//!
//! After a deliberate change of the format run the blessing test by hand and read the difference:
//! `DM_BLESS=1 cargo test -p dm-tests --test goldens`, or `dm layout bless`.

use dm_tool::layout::{self, Mismatch, STRUCTURES};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../layouts")
}

#[test]
fn the_goldens_hold_both_ways() {
    if std::env::var_os("DM_BLESS").is_some() {
        for file in layout::bless(&directory()).unwrap() {
            println!("blessed {}", file.display());
        }
    }
    let found = layout::check(&directory());
    let text: Vec<String> = found.iter().map(Mismatch::to_string).collect();
    assert!(found.is_empty(), "{}", text.join("\n"));
}

#[test]
fn samples_decode_to_what_they_state() {
    for structure in STRUCTURES {
        for sample in (structure.samples)() {
            let decoded = (structure.decode)(&sample.bytes);
            assert_eq!(decoded, sample.values, "{}: {}", structure.name, sample.title);
        }
    }
}

#[test]
fn a_flipped_bit_in_a_hexdump_is_found() {
    // Every byte of a lock word counts, so that whatever hex digit changes, the decoded values do.
    let structure = layout::find("lock_word").unwrap();
    let golden = layout::render(structure);
    let directory = temporary("flipped");
    layout::bless(&directory).unwrap();
    assert_eq!(layout::check(&directory), []);
    let file = directory.join("lock_word.txt");
    std::fs::write(&file, golden.replace(" ef be ", " ef bf ")).unwrap();
    let found = layout::check(&directory);
    assert!(matches!(&found[..], [Mismatch::Sample { .. }]), "{found:?}");
    std::fs::write(&file, golden.replace("sequence", "sequense")).unwrap();
    assert!(!layout::check(&directory).is_empty());
    std::fs::remove_file(&file).unwrap();
    std::fs::write(directory.join("gone.txt"), "").unwrap();
    let found = layout::check(&directory);
    assert!(matches!(&found[..], [Mismatch::Missing { .. }, Mismatch::Stray { .. }]), "{found:?}");
    layout::bless(&directory).unwrap();
    std::fs::remove_file(directory.join("gone.txt")).unwrap();
    assert_eq!(layout::check(&directory), []);
    std::fs::write(directory.join("c/lock_word.h"), "").unwrap();
    std::fs::write(directory.join("c/gone.h"), "").unwrap();
    let found = layout::check(&directory);
    assert!(matches!(&found[..], [Mismatch::Differs { .. }, Mismatch::Stray { .. }]), "{found:?}");
    std::fs::remove_dir_all(directory).unwrap();
}

fn temporary(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("dm-goldens-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        for structure in STRUCTURES {
            (structure.decode)(&bytes);
        }
    }

    #[test]
    fn no_damage_to_a_sample_makes_a_decoder_panic(at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        for structure in STRUCTURES {
            for sample in (structure.samples)() {
                let mut bytes = sample.bytes;
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
                (structure.decode)(&bytes);
            }
        }
    }
}
