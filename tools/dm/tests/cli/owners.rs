//! Indexes whose keys have owners.

use crate::repair::shell_on;
use crate::{Nodes, dm, dm_fed};
use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::Pool;
use dm_host::session::{Session, SessionOptions};
use serde_json::Value;
use std::fs;
use std::sync::Arc;

const LEASE: &str = "--lease-ms 800";

/// Creates an index and puts `records` records into it.
fn filled(pool: &str, name: &str, options: &str, records: u64) {
    dm(&format!("create {pool} --name {name} --index dex {options}")).good();
    let lines = (0..records).map(|n| format!("put u64:{n} v{n}")).collect::<Vec<_>>().join("\n") + "\n";
    dm_fed(&format!("shell {pool} --index {name} {LEASE}"), lines.as_bytes()).good();
}

fn inspected(pool: &str) -> Value {
    serde_json::from_str(&dm(&format!("inspect {pool} {LEASE} --json")).good()).unwrap()
}

#[test]
fn an_index_is_dumped_and_loaded_if_no_other_compute_node_owns_keys() {
    let nodes = Nodes::start(2, "32MiB");
    let pool = nodes.pool();
    filled(&pool, "it", "", 2000);
    let (dump, copy) = (nodes.file("dump"), nodes.file("copy"));
    let to = |file: &str| dm(&format!("dump {pool} --index it {LEASE} {file}"));
    assert!(to(&dump).good().contains("2000 records"));
    dm(&format!("load {pool} --index second {LEASE} {dump}")).good();
    dm(&format!("dump {pool} --index second {LEASE} {copy}")).good();
    assert!(fs::read(&dump).unwrap() == fs::read(&copy).unwrap());
    // Over what is there.
    dm(&format!("load {pool} --index second {LEASE} {dump}")).good();
    dm(&format!("check {pool} {LEASE} --records")).good();

    // A shell owns a key and has not written back what it put there.
    let (mut owner, _) = shell_on(&pool, "it");
    let owns = ["index \"it\"", "compute-node row", "owns some of its keys", "close the program"];
    to(&copy).bad(1, &owns);
    to("-").bad(1, &owns);
    assert!(fs::read(&dump).unwrap() == fs::read(&copy).unwrap(), "what was there before stays");
    dm(&format!("load {pool} --index it {LEASE} {dump}")).bad(1, &owns);
    let out = dm(&format!("check {pool} {LEASE} --index it")).good();
    assert!(out.contains("sound: 2000 records") && out.contains("1 range of keys have owners"), "{out}");
    let ended = dm(&format!("check {pool} {LEASE} --index it --records"));
    assert!(ended.out.contains("not checked: index \"it\""), "{}", ended.out);
    ended.bad(1, &["not checked", "index \"it\""]);

    // It dies: what it was told is put is in its log.
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(to(&copy).good().contains("2001 records"));
    assert!(fs::read(&copy).unwrap().windows(7).any(|bytes| bytes == b"lovelac"));
    dm(&format!("check {pool} {LEASE} --records")).good();
    let view = inspected(&pool);
    assert_eq!(view["indexes"][0]["owners"]["free"], 64, "a command gives up what it took: {view}");
    assert_eq!(view["locks"].as_array().unwrap().len(), 0);
}

#[test]
fn owners_and_their_rings_are_shown() {
    let nodes = Nodes::start(2, "32MiB");
    let pool = nodes.pool();
    dm(&format!("create {pool} --name it --index dex")).good();
    assert_eq!(inspected(&pool)["indexes"][0]["owners"], Value::Null, "nobody has opened it");
    let (mut owner, _) = shell_on(&pool, "it");
    let view = inspected(&pool);
    let owners = &view["indexes"][0]["owners"];
    assert_eq!((&owners["entries"], &owners["free"], &owners["owned"]), (&64.into(), &63.into(), &1.into()), "{view}");
    assert_eq!((&owners["broken"], &owners["epoch_max"]), (&Value::Null, &1.into()));
    let row = &owners["owners"][0];
    assert_eq!((&row["state"], &row["owned"], &row["recovers"]), (&"live".into(), &1.into(), &0.into()), "{view}");
    let of_row = view["rows"].as_array().unwrap().iter().find(|found| found["row"] == row["row"]).unwrap();
    assert_eq!(of_row["open"], serde_json::json!(["it"]), "{view}");
    assert_eq!(view["orphaned_chunks"].as_array().unwrap().len(), 0, "{view}");
    let ring = &of_row["ring"];
    assert_eq!((&ring["broken"], &ring["head"], &ring["records"]), (&Value::Null, &0.into(), &1.into()), "{view}");
    assert!(ring["lines"].as_u64().unwrap() >= 32 << 10, "{view}");
    let text = dm(&format!("inspect {pool} {LEASE}")).good();
    for part in [
        "64 entries, room for 128: 63 free, 1 owned, 0 draining, 0 kept, 0 recovering, 0 corrupt",
        "(live): owns 1, recovers 0",
        "pages that an owner has changed and not written back are in its memory",
        "from line 0 on 1 record in 1 line",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
    let view = inspected(&pool);
    let owners = &view["indexes"][0]["owners"];
    assert_eq!((&owners["free"], &owners["epoch_max"]), (&64.into(), &2.into()), "given up: {view}");
}

#[test]
fn keys_are_cut_as_the_creator_says() {
    let nodes = Nodes::start(1, "32MiB");
    let pool = nodes.pool();
    let create = |name: &str, options: &str| dm(&format!("create {pool} --name {name} --index dex {options}"));
    let entries = |name: &str| {
        let view = inspected(&pool);
        let indexes = view["indexes"].as_array().unwrap();
        let index = indexes.iter().find(|index| index["name"] == name).unwrap();
        (index["owners"]["entries"].clone(), index["owners"]["owned"].clone())
    };
    create("given", "--boundaries u64:100,u64:200,u64:5000").good();
    assert_eq!(entries("given"), (4.into(), 0.into()));
    // Each of two shells owns a range: that of text begins behind the last boundary.
    let (mut owner, _) = shell_on(&pool, "given");
    let put =
        |key: u64| dm_fed(&format!("shell {pool} --index given {LEASE}"), format!("put u64:{key} x\n").as_bytes());
    put(0).good();
    put(4999).good();
    let refused = put(5000);
    assert!(refused.err.contains("the key belongs to compute-node row"), "{}", refused.err);
    drop(owner.stdin.take());
    owner.wait().unwrap();
    put(5000).good();
    let file = nodes.file("boundaries");
    fs::write(&file, "m\n\n  t \n").unwrap();
    create("text", &format!("--boundaries @{file}")).good();
    assert_eq!(entries("text").0, 3);
    create("sampled", "--entries 2 --sample u64:900,u64:1,u64:7,u64:3,u64:7").good();
    // Four keys: the second range begins at the third.
    let (mut owner, _) = shell_on(&pool, "sampled");
    assert_eq!(entries("sampled"), (2.into(), 1.into()));
    let put =
        |key: u64| dm_fed(&format!("shell {pool} --index sampled {LEASE}"), format!("put u64:{key} x\n").as_bytes());
    put(6).good();
    assert!(put(7).err.contains("the key belongs to compute-node row"));
    drop(owner.stdin.take());
    owner.wait().unwrap();
    create("even", "--entries 7").good();
    dm_fed(&format!("shell {pool} --index even {LEASE}"), b"put a b\n").good();
    assert_eq!(entries("even").0, 7);

    for (options, parts) in [
        ("--boundaries u64:100,u64:100", &["key u64:100 is not above u64:100"][..]),
        ("--boundaries u64:200,u64:100", &["key u64:100 is not above u64:200"]),
        ("--boundaries u64:0", &["key u64:0 is not above the least key"]),
        ("--boundaries u64:1,,u64:3", &["--boundaries", "key 2 is missing"]),
        ("--boundaries much-too-long", &["--boundaries", "key of 13 bytes"]),
        ("--boundaries @/no/such/file", &["--boundaries", "/no/such/file"]),
        ("--boundaries a --entries 3", &["--boundaries", "--entries"]),
        ("--boundaries a --sample b", &["--boundaries", "--sample"]),
        ("--sample much-too-long", &["--sample", "key of 13 bytes"]),
        ("--entries 0", &["entries of the ownership table 0", "1 to 4096"]),
        ("--entries 4097", &["entries of the ownership table 4097", "1 to 4096"]),
        ("--any-length --entries 3", &["--any-length", "--entries"]),
    ] {
        create("bad", options).bad(2, parts);
    }
    create("bad", "--entries 3 --sample u64:1,u64:2").bad(1, &["bad", "entry 1", "too few"]);
    dm(&format!("create {pool} --name bad --index sherman --entries 3")).bad(2, &["--entries", "Sherman"]);
    let many: Vec<_> = (1..=4096).map(|key| format!("u64:{key}")).collect();
    create("bad", &format!("--boundaries {}", many.join(","))).bad(2, &["entries of the ownership table 4097"]);
    dm(&format!("shell {pool} --index bad")).bad(1, &["no index \"bad\""]);
    // The boundaries are not in a dump.
    let dump = nodes.file("dump");
    dm(&format!("dump {pool} --index given {LEASE} {dump}")).good();
    dm(&format!("load {pool} --index other {LEASE} {dump}")).bad(1, &["other", "its boundary", "is not given"]);
    create("other", "--boundaries u64:3").good();
    dm(&format!("load {pool} --index other {LEASE} {dump}")).good();
    dm(&format!("check {pool} {LEASE} --records")).good();
}

#[test]
fn ranges_of_keys_are_shown_and_moved() {
    let nodes = Nodes::start(1, "64MiB");
    let pool = nodes.pool();
    dm(&format!("create {pool} --name it --index dex --entries 4")).good();
    dm(&format!("create {pool} --name others --index sherman")).good();
    let repartition = |options: &str| dm(&format!("repartition {pool} {LEASE} {options}"));
    repartition("--index it").bad(1, &["no compute node has opened it"]);
    repartition("--index others").bad(1, &["index \"others\"", "any compute node serves any key", "sherman"]);
    repartition("--index nobody").bad(1, &["no index \"nobody\""]);
    repartition("--index it --move 1").bad(2, &["--to"]);
    let (mut owner, _) = shell_on(&pool, "it");
    let listed = repartition("--index it").good();
    let row: u32 = listed.lines().last().and_then(|line| line.rsplit(' ').next()).unwrap().parse().unwrap();
    assert!(listed.contains("4 ranges") && listed.contains(&format!(": row {row}")), "{listed}");
    repartition(&format!("--index it --move 9 --to {row}")).bad(2, &["--move 9", "has 4 ranges"]);
    repartition("--index it --move 2 --to 99").bad(1, &["range 2 does not move to row 99"]);
    let balanced = repartition("--index it --balance").good();
    assert!(balanced.starts_with("nothing to move\n"), "{balanced}");
    assert!(balanced.contains(&format!("  row {row}: ")), "{balanced}");
    // Nobody has this one.
    let moved = repartition(&format!("--index it --move 2 --to {row}")).good();
    assert_eq!(moved, format!("range 2 moves to row {row}\n"));
    assert!(repartition("--index it").good().contains(&format!("kept for row {row}")));
    assert_eq!(inspected(&pool)["indexes"][0]["owners"]["kept"], 1);
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
    assert_eq!(inspected(&pool)["indexes"][0]["owners"]["free"], 4, "it has left, and what was kept for it is free");
}

#[test]
fn a_range_is_cut_in_two_and_goes_back_to_its_owner() {
    let nodes = Nodes::start(1, "64MiB");
    let pool = nodes.pool();
    filled(&pool, "it", "--key-bytes 8 --value-bytes 8", 1000);
    let memory = Pool::connect(&[nodes.socket(0)], ShmOptions::default()).unwrap();
    let owner = Session::open(&Arc::new(memory), "it", &SessionOptions::default()).unwrap();
    let all_are_there = || {
        for n in 0..1000_u64 {
            let got = owner.get(&n.to_be_bytes()).wait().unwrap();
            assert!(got.is_some_and(|value| value.starts_with(format!("v{n}").as_bytes())), "{n}");
        }
    };
    all_are_there();
    let repartition = |options: &str| dm(&format!("repartition {pool} {LEASE} --index it {options}"));
    assert_eq!(repartition("--cut u64:500").good(), "range 0 is cut: it is ranges 0 and 1 now\n");
    let listed = repartition("").good();
    let row = owner.member().row.0;
    assert!(listed.contains("65 ranges"), "{listed}");
    assert_eq!(listed.matches(&format!(": row {row}")).count(), 2, "{listed}");
    all_are_there();
    assert_eq!(repartition("--cut u64:900,u64:200").good().lines().count(), 2);
    repartition("--cut u64:0").bad(1, &["the range of key u64:0 is not cut", "nothing in front of it"]);
    repartition("--cut u64:1 --balance").bad(2, &["--balance"]);
    all_are_there();
    owner.close();
    dm(&format!("check {pool} {LEASE} --records")).good();
}

#[test]
fn a_shell_has_the_owner_execute_what_it_is_asked() {
    let nodes = Nodes::start(1, "32MiB");
    let pool = nodes.pool();
    filled(&pool, "it", "--key-bytes 8 --value-bytes 8", 100);
    let memory = Pool::connect(&[nodes.socket(0)], ShmOptions::default()).unwrap();
    let owner = Session::open(&Arc::new(memory), "it", &SessionOptions::default()).unwrap();
    let key = 7_u64.to_be_bytes();
    assert!(owner.get(&key).wait().unwrap().is_some());
    let shell =
        |options: &str, lines: &str| dm_fed(&format!("shell {pool} --index it {LEASE} {options}"), lines.as_bytes());
    let out = shell("", "put u64:7 forward\nget u64:7\ncount\n").good();
    assert!(out.contains("forward") && out.contains("100"), "{out}");
    assert_eq!(owner.get(&key).wait().unwrap().as_deref(), Some(&b"forward\x07"[..]));
    let ended = shell("--no-forward", "get u64:7\n");
    assert!(ended.err.contains(&format!("compute-node row {}", owner.member().row.0)), "{}", ended.err);
    owner.close();
}
