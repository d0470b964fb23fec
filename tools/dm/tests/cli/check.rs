//! `dm check`.

use crate::dump::{on_a_file, root};
use crate::{Nodes, SMALL, dm};
use serde_json::Value;
use std::os::unix::fs::FileExt as _;

#[test]
fn a_sound_pool_is_told_to_be_sound() {
    let nodes = Nodes::start(2, "32MiB");
    let pool = nodes.pool();
    assert_eq!(dm(&format!("check {pool}")).good(), "pool \"pool\", 0 indexes\n");
    for kind in ["sherman", "chime", "smart"] {
        dm(&format!("{SMALL} --workload load {pool} --index {kind} --name {kind}")).good();
    }
    dm(&format!("create {pool} --name empty")).good();
    let out = dm(&format!("check {pool} --records")).good();
    for line in ["sherman", "chime", "smart"].map(|kind| format!("index \"{kind}\" ({kind}): sound: 20000 records")) {
        assert!(out.contains(&line), "{out}");
    }
    assert!(out.contains("index \"empty\" (sherman): sound: 0 records"), "{out}");
    let out = dm(&format!("check {pool} --index chime")).good();
    assert!(out.contains("1 index\n") && !out.contains("smart"), "{out}");
    dm(&format!("check {pool} --index nobody")).bad(1, &["no index \"nobody\"", "chime"]);
}

#[test]
fn damage_is_told_with_its_place_and_other_indexes_are_walked() {
    let (nodes, region) = on_a_file("it");
    let pool = nodes.pool();
    let address = root(&pool);
    dm(&format!("create {pool} --name other")).good();
    dm(&format!("check {pool}")).good();
    // The root says that it is of another index.
    let offset = address & ((1 << 48) - 64);
    let mut line = [0; 64];
    region.read_exact_at(&mut line, offset).unwrap();
    region.write_all_at(&[line[3] ^ 0x40], offset + 3).unwrap();
    let ended = dm(&format!("check {pool}"));
    assert!(ended.out.contains("index \"it\" (sherman): DAMAGED: ") && ended.out.contains("root"), "{}", ended.out);
    assert!(ended.out.contains("index \"other\" (sherman): sound: 0 records"), "{}", ended.out);
    ended.bad(1, &["damaged: index \"it\""]);
    let ended = dm(&format!("check {pool} --json"));
    let view: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&view["indexes"][0]["state"], &view["indexes"][1]["state"]), (&"damaged".into(), &"sound".into()));
    region.write_all_at(&line, offset).unwrap();
    dm(&format!("check {pool}")).good();
    // A key in a leaf is not between the leaf's fences. A record that does not span lines: no version byte is in it.
    let mut image = vec![0; 16 << 20];
    region.read_exact_at(&mut image, 0).unwrap();
    let record = |number: u64| [&number.to_be_bytes()[..], format!("v{number}\0\0\x05").as_bytes()].concat();
    // A split leaves copies behind that are not occupied: the bit is in the byte before the key.
    let find = |number: u64| {
        let wanted = record(number);
        let at = (1..image.len() - 16).find(|&at| image[at..at + 16] == wanted && image[at - 1] & 0x10 != 0);
        at.map(|at| at as u64)
    };
    let key = (1000..2000).find_map(find).unwrap();
    let mut before = [0; 8];
    region.read_exact_at(&mut before, key).unwrap();
    region.write_all_at(&[0xff; 8], key).unwrap();
    let ended = dm(&format!("check {pool}"));
    assert!(ended.out.contains("DAMAGED: corrupt structure at "), "{}", ended.out);
    ended.bad(1, &["damaged: index \"it\""]);
    region.write_all_at(&before, key).unwrap();
    dm(&format!("check {pool} --records")).good();
}
