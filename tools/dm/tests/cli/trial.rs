//! `dm trial` where there is no RDMA device: on shared memory. `tests/rxe/two-vms` has it between two machines.

use crate::{command, dm};
use serde_json::Value;
use std::fs;

#[test]
fn shared_memory_is_tried_and_what_needs_a_device_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("trial");
    let said = dm(&format!("trial --short --seconds 3000 --out {}", out.display())).good();
    assert!(said.contains("not tried     0.0 s  masked atomics: no RDMA device: this is shared memory\n"), "{said}");
    let read =
        |name: &str| fs::read_to_string(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}: {said}"));
    let found: Value = serde_json::from_str(&read("trial.json")).unwrap();
    let steps = found["steps"].as_array().unwrap();
    let of = |name: &str| steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("{name}: {said}"));
    for index in ["sherman", "chime", "smart", "dolphin"] {
        for task in ["workloads", "any length"] {
            let step = of(&format!("{task} {index}"));
            assert_eq!(step["outcome"], "ok", "{step}");
            assert!(step["commands"][0].as_str().unwrap().starts_with("dm bench "), "{step}");
        }
    }
    for name in ["doctor", "masked atomics", "device memory", "perftest ib_read_lat, 1024 B", "simulated chime"] {
        let step = of(name);
        assert_eq!(
            (&step["outcome"], &step["commands"]),
            (&Value::from("not_tried"), &Value::Array(Vec::new())),
            "{step}"
        );
        assert!(!step["why"].as_str().unwrap().is_empty(), "{step}");
    }
    let workloads = found["benches"].as_array().unwrap().iter().find(|bench| bench["of"] == "workloads smart").unwrap();
    let names: Vec<_> =
        workloads["file"]["runs"].as_array().unwrap().iter().map(|run| run["workload"].as_str().unwrap()).collect();
    assert_eq!(names, ["load", "a", "b", "c", "d", "e", "f"]);
    // Nothing that is said of RDMA devices is settled by shared memory.
    let statements = found["statements"].as_array().unwrap();
    assert!(statements.len() > 8 && statements.iter().all(|statement| statement["settled"] == false), "{statements:?}");
    let page = read("trial.md");
    for part in ["no network, no NIC", "| masked atomics | not tried |", "![throughput](throughput.svg)", "$ dm litmus"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    for chart in ["throughput.svg", "techniques.svg", "indexes.svg"] {
        assert!(read(chart).starts_with("<svg "), "{chart}");
    }
    assert!(!out.join("perftest.svg").exists(), "there is nothing to draw");
}

#[test]
fn a_trial_without_time_or_peer_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("trial");
    let said = dm(&format!("trial --seconds 0.05 --out {}", out.display())).bad(1, &["nothing was tried"]);
    assert!(said.contains("workloads sherman: no time was left of --seconds 0.05"), "{said}");
    assert!(fs::read_to_string(out.join("trial.md")).unwrap().contains("| workloads sherman | not tried |"));
    dm("trial --seconds x").bad(2, &["--seconds", "seconds, from 0.01"]);
    dm("trial --peer node1:0x").bad(2, &["node1:0x: not HOST or HOST:PORT"]);
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let ended = command("trial").arg("--out").arg(file.join("below")).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
}
