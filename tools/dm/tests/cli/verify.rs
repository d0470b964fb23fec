//! `dm verify` as its users meet it.

use crate::dm;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn record(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a record was written")).expect("it is JSON")
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    dm("verify --index bitmap").bad(2, &["bitmap", "sherman"]);
    dm("verify --faults drops,floods").bad(2, &["floods", "qp-error"]);
    dm("verify --withdraw GRAVITY").bad(2, &["GRAVITY", "LINE_ATOMIC"]);
    dm("verify --replay first").bad(2, &["--replay", "first"]);
    dm("verify --replay -3").bad(2, &["-3"]);
    dm("verify --seed 18446744073709551615 --histories 2").bad(2, &["2^64"]);
    dm("verify --histories 0").bad(2, &["--histories"]);
    dm("verify --compute-nodes 1").bad(2, &["--compute-nodes", "1 is not in 2..="]);
    dm("verify --lanes 8-4").bad(2, &["8 is more than 4"]);
    dm("verify --keys many").bad(2, &["\"many\" is not a number"]);
    dm("verify --resume").bad(2, &["--json"]);
    dm("verify --planted wings").bad(2, &["wings", "bookend-versions"]);
    dm("verify --histories 10 --json /no/such/place/record.json").bad(1, &["/no/such/place/record.json"]);
    if cfg!(not(feature = "planted")) {
        dm("verify --planted unlock-first").bad(2, &["the feature \"planted\""]);
    }
}

#[test]
fn a_run_says_what_it_did_and_writes_it_down() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("record.json");
    let out = dm(&format!("verify --histories 300 --seed 7 --faults all --json {}", path.display())).good();
    for part in ["seeds 7..307: 300 histories", "10 % overlap", "marks of btree", "nodes granted", "histories a minute"]
    {
        assert!(out.contains(part), "{out} does not contain {part:?}");
    }
    assert!(out.contains("rpc-lost: never happened"), "this index makes no calls, and the report says so: {out}");
    let record = record(&path);
    assert_eq!(record["program"], "dm verify");
    assert_eq!(record["verdict"], "clean");
    assert_eq!(record["histories"], 300);
    assert_eq!(record["scope"]["masked_cas"], "draw");
    assert!(record["commit"].as_str().is_some_and(|commit| !commit.is_empty()));
    assert!(record["faults"]["qp-error"].as_u64() > Some(0));
    assert!(record["marks"]["sherman"]["leaf-split"].as_u64() > Some(0));
    assert!(record["memory"]["reached_nodes"].as_u64() > Some(0));
}

/// A run that is stopped and continued gives the same results as one that is not, also with more threads.
#[test]
fn a_run_can_be_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let (whole, parts) = (directory.path().join("whole.json"), directory.path().join("parts.json"));
    dm(&format!("verify --histories 500 --json {}", whole.display())).good();
    dm(&format!("verify --histories 200 --json {}", parts.display())).good();
    dm(&format!("verify --histories 500 --jobs 2 --resume --json {}", parts.display())).good();
    assert_eq!(record(&whole), record(&parts));

    // Of another format, another program, other settings, or no record at all.
    let resume = format!("verify --histories 500 --resume --json {}", parts.display());
    dm(&format!("{resume} --faults none")).bad(2, &["parts.json", "other settings"]);
    let text = fs::read_to_string(&parts).unwrap();
    fs::write(&parts, text.replace("\"format\": 1", "\"format\": 99")).unwrap();
    dm(&resume).bad(2, &["parts.json", "format 99"]);
    fs::write(&parts, text.replace("dm verify", "something else")).unwrap();
    dm(&resume).bad(2, &["parts.json", "not a record of dm verify"]);
    fs::write(&parts, "{").unwrap();
    dm(&resume).bad(2, &["parts.json", "not a record"]);
    assert_eq!(fs::read_to_string(&parts).unwrap(), "{", "what was refused is left alone");
}

#[test]
fn a_violation_is_shown_with_its_requests_and_ends_in_a_sentence() {
    let out = dm("verify --withdraw completion_is_visible --histories 50 --faults none").bad(1, &["seed"]);
    for part in ["seed ", "time ns  lane", "unlock", " ok @+", "although"] {
        assert!(out.contains(part), "{out} does not contain {part:?}");
    }
    assert!(out.trim_end().ends_with('.'), "{out}");
    let seed = out.lines().find_map(|line| line.strip_prefix("seed ")?.split(',').next()?.parse::<u64>().ok());
    let seed = seed.expect("the replay names its seed");
    let shown = format!("verify --withdraw COMPLETION_IS_VISIBLE --faults none --replay {seed}");
    let again = dm(&shown).bad(1, &[&seed.to_string()]);
    assert!(out.contains(again.trim()), "the same history twice");
    let events = dm(&format!("{shown} --events")).bad(1, &[&seed.to_string()]);
    assert!(events.contains("posted  read"), "{events}");
    dm("verify --replay 1 --faults none").good();
}
