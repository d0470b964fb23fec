//! `dm bench` on memory nodes of its own.

use crate::{Ended, Nodes, SMALL, command, dm, dm_fed};
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn all_workloads_run_on_memory_nodes_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("all.json");
    let out = dm(&format!("{SMALL} --json {}", json.display())).good();
    for text in ["workloads load, a, b, c, d, e, f", "read_modify_write", "checked: ", "measured on shm"] {
        assert!(out.contains(text), "{out}");
    }
    let file: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let runs = file["runs"].as_array().unwrap();
    let names: Vec<_> = runs.iter().map(|run| run["workload"].as_str().unwrap()).collect();
    assert_eq!(names, ["load", "a", "b", "c", "d", "e", "f"]);
    for run in runs {
        for name in ["cpu_model", "kernel_release", "logical_cores"] {
            assert!(run["machine"].get(name).is_some(), "{name}");
        }
        assert!(run["throughput_ops_per_s"].as_f64().unwrap() > 0.0);
        assert!(run["pool_per_record_bytes"].as_f64().unwrap() > 16.0);
        assert!(run["live_per_record_bytes"].as_f64().unwrap() > 16.0);
        assert!(run["guarantees"].as_array().unwrap().len() > 8);
        assert!(run["tree"]["records"].as_u64().unwrap() >= 20_000);
        for kind in run["operations"].as_array().unwrap() {
            assert!(kind["latency_p99_ns"].as_u64() >= kind["latency_p50_ns"].as_u64());
            assert!(kind["per_operation"]["round_trips"].as_f64().unwrap() > 0.9, "{kind}");
        }
    }
    // Reads of a warm cache take one round trip; updates three, two of them if a lock is handed over.
    let read = &runs[3]["operations"][0]["per_operation"]["round_trips"];
    assert!((0.99..1.01).contains(&read.as_f64().unwrap()), "{read}");
    let update = &runs[1]["operations"][1]["per_operation"]["round_trips"];
    assert!((1.9..3.1).contains(&update.as_f64().unwrap()), "{update}");
}

#[test]
fn several_compute_nodes_of_a_process_run_all_workloads() {
    let out = dm(&format!("{SMALL} --compute-nodes 3")).good();
    assert!(out.contains(": 3 compute nodes x ") && out.contains("checked: ") && !out.contains("owners"), "{out}");
}

#[test]
fn owners_draw_their_own_keys() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("owners.json");
    for fabric in ["shm", "sim"] {
        for owners in [1, 4] {
            let options = format!("--index dex --fabric {fabric} --compute-nodes {owners} --json {}", json.display());
            let out = dm(&format!("{SMALL} {options}")).good();
            assert!(out.contains("each draws its own keys") && out.contains("checked: "), "{out}");
            let file: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
            let runs = file["runs"].as_array().unwrap();
            assert_eq!(runs.len(), 7, "all workloads");
            for run in runs {
                assert_eq!((&run["owners"], &run["compute_nodes"]), (&Value::from(owners), &Value::from(owners)));
                assert!(run["operations"].as_array().unwrap().iter().all(|kind| kind["failed"] == 0), "{run}");
            }
        }
    }
}

#[test]
fn owners_without_keys_are_told() {
    let few = "bench --index dex --workload c --records 1000 --operations 1000 --threads 1 --lanes 1 --memory-nodes 1";
    let ordered = dm(&format!("{few} --compute-nodes 4 -p insertorder=ordered"));
    for text in ["3 compute nodes own none of the 1000 records", "insertorder=hashed"] {
        assert!(ordered.err.contains(text), "{}", ordered.err);
    }
}

#[test]
fn properties_are_ycsbs_and_options_count_more() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine");
    fs::write(&file, "recordcount=3000\noperationcount=4000\nreadproportion=0.5\nupdateproportion=0.25\n").unwrap();
    let ended = dm(&format!(
        "bench -P {} -p readmodifywriteproportion=0.25 --operations 5000 --value-bytes 24",
        file.display()
    ));
    assert!(ended.err.contains("--operations 5000 is used, not the property operationcount=4000"), "{}", ended.err);
    let out = ended.good();
    assert!(out.contains("workload mine") && out.contains("3000 records") && out.contains("8+24 B"), "{out}");
}

#[test]
fn techniques_can_be_switched_off_and_on() {
    for techniques in [
        "--without combine",
        "--without hierarchical,hand-over",
        "--without entry-writes",
        "--without cache",
        "--without on-chip",
        "--with chain-lock-read",
        "--lines sequence",
    ] {
        let out = dm(&format!("{SMALL} --workload a {techniques}")).good();
        let named = techniques.trim_start_matches("--").split(',').next().unwrap();
        assert!(techniques.contains("lines") || out.contains(named), "{techniques}: {out}");
    }
}

#[test]
fn a_trace_has_a_line_for_every_request() {
    let directory = tempfile::tempdir().unwrap();
    let (trace, json) = (directory.path().join("t.csv"), directory.path().join("t.json"));
    let files = format!("--trace {} --json {}", trace.display(), json.display());
    dm(&format!("bench --workload a --records 1000 --operations 500 --threads 2 --lanes 2 {files}")).good();
    let file: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let operations = file["runs"][0]["operations"].as_array().unwrap();
    let requests: u64 = operations.iter().map(|kind| kind["requests"].as_u64().unwrap()).sum();
    let trace = fs::read_to_string(trace).unwrap();
    let rows = trace.lines().skip(1).count();
    assert!(trace.starts_with("operation,kind,lane,label,verb"), "{trace:.80}");
    // Warming the cache is not traced.
    assert_eq!(rows as u64, requests);
}

#[test]
fn real_keys_are_loaded_and_bad_ones_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys");
    let mut text: Vec<u8> = (0..5000).flat_map(|n| format!("/usr/share/doc/{n}\n").into_bytes()).collect();
    fs::write(&file, &text).unwrap();
    let bench = format!("bench --key-bytes 64 --keys {}", file.display());
    for workload in ["a", "c", "e"] {
        dm(&format!("{bench} --workload {workload} --operations 2000")).good();
    }
    text.extend_from_slice(&[b'x'; 64]);
    text.extend_from_slice(b"\n/usr/share/doc/7\n");
    fs::write(&file, &text).unwrap();
    dm(&format!("{bench} --workload c")).bad(1, &["keys:5001: 64 bytes", "--skip-bad-keys"]);
    let ended = dm(&format!("{bench} --workload c --skip-bad-keys"));
    assert!(ended.err.contains("1 that came twice, 1 longer than 63 bytes"), "{}", ended.err);
    ended.good();
    let fed = dm_fed("bench --key-bytes 16 --workload c --operations 100 --keys -", b"a\nb\na\n");
    fed.bad(1, &["-:3: the same key as line 1"]);
    dm(&format!("{bench} --workload d --operations 1000000 --skip-bad-keys"))
        .err
        .contains("too few")
        .then_some(())
        .expect("inserts need keys");
}

#[test]
fn a_memory_node_that_dies_in_use_ends_the_run_with_an_error() {
    for workload in ["a", "c", "load"] {
        let mut nodes = Nodes::start(2, "64MiB");
        let arguments =
            format!("bench --workload {workload} --records 200000 --operations 1000000000 {}", nodes.pool());
        // A load is over too soon to be caught in the middle: it gets a node that dies after a moment.
        let arguments = if workload == "load" { arguments.replace("200000", "1000000") } else { arguments };
        let child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_millis(if workload == "load" { 150 } else { 1500 }));
        nodes.daemons[1].kill().unwrap();
        let killed = Instant::now();
        let ended: Ended = child.wait_with_output().unwrap().into();
        assert!(killed.elapsed() < Duration::from_secs(30), "{workload}");
        if workload == "load" && ended.code == Some(0) {
            continue;
        }
        ended.bad(1, &["memory node"]);
    }
}

#[test]
fn indexes_are_compared_each_in_a_process() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("against.json");
    let few = "bench --records 3000 --memory-nodes 1 --lanes 3";
    let out = dm(&format!("{few} --baseline --against chime --json {}", json.display())).good();
    assert!(out.contains("beside chime, 3 lanes") && out.contains("sherman, 1 lane, bare loop"), "{out}");
    let file: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let lines = file["against"]["lines"].as_array().unwrap();
    for operation in ["get", "update", "scan", "insert"] {
        let of_it: Vec<_> = lines.iter().filter(|line| line["operation"] == operation).collect();
        let bare = ["get", "update"].contains(&operation);
        assert_eq!(of_it.len(), 4 + usize::from(bare), "{operation}");
        for line in of_it {
            let [low, median, high] = ["low_tenth_ns", "median_ns", "high_tenth_ns"].map(|name| line[name].as_f64());
            assert!(Some(0.0) < low && low <= median && median <= high, "{line}");
        }
    }
}
