//! `dm bench --fabric sim` and `dm figures`: virtual time.

use crate::dm;
use serde_json::Value;
use std::fs;

/// A small cluster in virtual time.
const CLUSTER: &str =
    "bench --fabric sim --compute-nodes 3 --threads 4 --lanes 2 --memory-nodes 2 --cache-mib 1 --records 20000";

#[test]
fn a_simulated_run_is_the_same_every_time_and_says_what_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |name: &str| {
        let file = directory.path().join(name);
        let out = dm(&format!("{CLUSTER} --operations 20000 --json {}", file.display())).good();
        assert!(out.contains("sim: virtual time of modelled NICs; not a measurement"), "{out}");
        assert!(out.contains("limited by"), "{out}");
        let text = fs::read_to_string(file).expect("the file was written");
        let mut file: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(file["runs"].as_array().map(Vec::len), Some(7), "all workloads");
        for run in file["runs"].as_array_mut().expect("runs") {
            assert_eq!(run["compute_nodes"], 3);
            let simulation = run["simulation"].as_object_mut().expect("it is a simulation");
            assert_eq!(simulation["usage"]["memory_nodes"].as_array().map(Vec::len), Some(2));
            // All that is not simulated.
            simulation.remove("processor_s");
            simulation.remove("requests_per_processor_s");
            run["machine"].take();
        }
        let load = file["load"].take();
        assert!(load.is_null(), "workload load does it");
        file["runs"].to_string()
    };
    let (one, two) = (run("one"), run("two"));
    let same = one.bytes().zip(two.bytes()).take_while(|(one, two)| one == two).count();
    let differs = |text: &str| text.chars().skip(same.saturating_sub(80)).take(160).collect::<String>();
    assert!(one == two, "two runs differ:\n{}\n{}", differs(&one), differs(&two));
}

#[test]
fn a_profile_can_be_copied_and_edited_and_mistakes_are_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("mine.toml");
    let cx6 = concat!(env!("CARGO_MANIFEST_DIR"), "/../dm-sim/profiles/cx6.toml");
    let text = fs::read_to_string(cx6).expect("a profile of ours");
    let rate = |text: &str| {
        fs::write(&file, text).expect("written");
        let json = directory.path().join("json");
        let raw = "bench --fabric sim --raw-read 64 --compute-nodes 4 --threads 32 --memory-nodes 1 --operations 50000";
        let ended = dm(&format!("{raw} --profile {} --json {}", file.display(), json.display()));
        (ended, json)
    };
    let (ended, json) = rate(&text.replace("read_mops = 45.0", "read_mops = 9.0"));
    ended.good();
    let run: Value = serde_json::from_str(&fs::read_to_string(json).expect("written")).expect("JSON");
    let node = &run["runs"][0]["simulation"]["usage"]["memory_nodes"][0];
    assert_eq!(node["bottleneck"], "request rate");
    assert!((node["rate_mops"].as_f64().expect("a number") / 9.0 - 1.0).abs() < 0.01, "{node}");

    rate(&text.replace("read_mops = 45.0", "read_mops = 0.0"))
        .0
        .bad(2, &["mine.toml", "responder.read_mops = 0", "10000"]);
    rate(&text.replace("read_mops = 45.0", "")).0.bad(2, &["mine.toml", "line", "read_mops"]);
    rate(&format!("speed = 3\n{text}")).0.bad(2, &["mine.toml", "line 1", "speed"]);
}

#[test]
fn a_sweep_writes_curves() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = directory.path().join("curve");
    let sweep =
        format!("{CLUSTER} --workload a --operations 5000 --sweep lanes=1,2,4 --sweep-out {}", prefix.display());
    let out = dm(&sweep).good();
    assert!(out.contains("curve.csv") && out.contains("curve.svg"), "{out}");
    let csv = fs::read_to_string(prefix.with_extension("csv")).expect("a table");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 4, "{csv}");
    assert_eq!(&lines[0][..3], ["lanes", "workload", "throughput_mops"]);
    let rates: Vec<f64> = lines[1..].iter().map(|line| line[2].parse().expect("a number")).collect();
    assert!(rates[0] < rates[1] && rates[1] < rates[2], "more lanes, more operations: {rates:?}");
    let svg = fs::read_to_string(prefix.with_extension("svg")).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.contains("throughput, Mops/s") && svg.contains("a, p99"), "{svg}");
    // The same beside each other as one after the other.
    dm(&format!("{sweep} --jobs 3")).good();
    assert_eq!(fs::read_to_string(prefix.with_extension("csv")).expect("a table"), csv);
    dm(&format!("{sweep} --jobs 200 --region-mib 4096")).bad(2, &["200 times", "lower --jobs"]);
    dm("bench --jobs 2").bad(2, &["--sweep"]);
    dm(&format!("bench --sweep lanes=1,2 --sweep-out {} --jobs 2", prefix.display()))
        .bad(2, &["--jobs", "--fabric sim"]);
    dm(&sweep.replace(&prefix.display().to_string(), "/no/such/place")).bad(1, &["/no/such/place.csv"]);
    // Of two options: a row for each pair, and a curve for each value of the second one.
    dm(&format!("{sweep} --sweep memory-nodes=1,2")).good();
    let csv = fs::read_to_string(prefix.with_extension("csv")).expect("a table");
    let pairs: Vec<String> = csv.lines().map(|line| line.split(',').take(2).collect::<Vec<_>>().join(",")).collect();
    assert_eq!(pairs, ["lanes,memory-nodes", "1,1", "1,2", "2,1", "2,2", "4,1", "4,2"], "{csv}");
    let svg = fs::read_to_string(prefix.with_extension("svg")).expect("a picture");
    assert!(svg.contains("a, memory-nodes 1") && svg.contains("a, memory-nodes 2"), "{svg}");
    dm(&format!("{sweep} --sweep memory-nodes=1,2 --sweep cache-mib=1,2")).good();
    let svg = fs::read_to_string(prefix.with_extension("svg")).expect("a picture");
    assert!(svg.contains("a, memory-nodes 2, cache-mib 1"), "{svg}");
    dm(&format!("{sweep} --sweep lanes=1")).bad(2, &["--sweep", "up to 3 different ones"]);
    dm(&format!("{sweep} --sweep offload=at-times")).bad(2, &["offload", "at-times", "never, always, by-cost"]);
}

#[test]
fn parts_of_the_keys_move_to_another_compute_node_and_all_go_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |name: &str, at_ms: u32| {
        let prefix = directory.path().join(name);
        let ended = dm(&format!(
            "bench --fabric sim --index dex --compute-nodes 4 --threads 4 --lanes 2 --memory-nodes 2 --cache-mib 1 \
             --leaf-cache-mib 1 --records 20000 --workload a --operations 200000 --repartition-at {at_ms} --over-time 0.5 \
             --over-time-out {prefix} --json {prefix}.json",
            prefix = prefix.display()
        ));
        (ended, move |extension: &str| fs::read_to_string(prefix.with_extension(extension)).expect("it was written"))
    };
    let (ended, read) = run("one", 4);
    // Its verdict is that the index is sound and has all records.
    let out = ended.good();
    assert!(out.contains("10 parts moved from compute node 2 to compute node 3, begun after 4.0"), "{out}");
    let report: Value = serde_json::from_str(&read("json")).expect("JSON");
    let moved = &report["runs"][0]["simulation"]["repartition"];
    let number = |name: &str| moved[name].as_f64().unwrap_or_else(|| panic!("{name}: {moved}"));
    let (began_ms, ended_ms) = (number("began_ms"), number("began_ms") + number("took_ms"));
    assert!((4.0..4.1).contains(&began_ms) && number("took_ms") > 0.1, "{moved}");
    assert_eq!(report["runs"][0]["operations"][0]["failed"], 0);

    let csv = read("csv");
    let (head, lines) = csv.split_once('\n').expect("a heading");
    let nodes = "compute_node_0_mops,compute_node_1_mops,compute_node_2_mops,compute_node_3_mops";
    assert_eq!(head, format!("time_ms,throughput_mops,{nodes}"));
    let rows: Vec<Vec<f64>> =
        lines.lines().map(|line| line.split(',').map(|cell| cell.parse().expect("a number")).collect()).collect();
    let is_time = |(number, row): (usize, &Vec<f64>)| (row[0] - number as f64 / 2.0).abs() < 1e-9;
    assert!(rows.iter().enumerate().all(is_time), "{csv}");
    // Each but the receiver of keys works all the time; the receiver from the first part on.
    assert!(rows.iter().all(|row| row[2..5].iter().all(|&mops| mops > 0.0)), "{csv}");
    assert!(rows.iter().all(|row| row[0] + 0.5 > began_ms || row[5] == 0.0), "{csv}");
    assert!(rows.iter().all(|row| row[0] < ended_ms || row[5] > 0.0), "{csv}");
    assert!(rows.last().is_some_and(|row| row[0] > ended_ms), "it ends later: {csv}");
    assert!(rows.iter().all(|row| (row[1] - row[2..].iter().sum::<f64>()).abs() < 1e-5), "{csv}");
    let svg = read("svg");
    assert!(svg.starts_with("<svg") && svg.contains("move begins") && svg.contains("compute node 3"), "{svg}");

    let (again, read_again) = run("two", 4);
    again.good();
    assert!((csv, svg) == (read_again("csv"), read_again("svg")), "virtual time is the same every time");
    run("late", 1000).0.bad(1, &["0 of 10 parts", "--operations", "--repartition-at"]);
}

#[test]
fn a_naive_lock_collapses_under_skew_and_the_techniques_lift_it() {
    // A small edition of the figures: no wall time, no published value, only which is faster.
    let cluster = "bench --fabric sim --profile cx5 --compute-nodes 8 --memory-nodes 4 --threads 22 --lanes 1 --cache-mib 1 \
                   --records 100000 --workload a --no-validate";
    let rate = |without: &str, operations: u32| {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("json");
        dm(&format!("{cluster} --operations {operations} --without {without} --json {}", file.display())).good();
        let run: Value = serde_json::from_str(&fs::read_to_string(file).expect("written")).expect("JSON");
        run["runs"][0]["throughput_ops_per_s"].as_f64().expect("a number") / 1e6
    };
    let naive = rate("combine,hierarchical,hand-over,entry-writes,on-chip,back-off,read-guard", 20_000);
    let on_chip = rate("hierarchical,hand-over,entry-writes,back-off,read-guard", 60_000);
    let all = rate("back-off,read-guard", 60_000);
    assert!(naive * 3.0 < on_chip && on_chip * 1.2 < all, "naive {naive}, on-chip {on_chip}, all {all} M/s");
}

#[test]
fn figures_can_be_run_one_by_one() {
    let out = dm("figures --only cx7-200g").good();
    assert!(out.contains("| ... cx7-200g | 100.0 % | 100.0 % | 1.00 |"), "{out}");
    assert!(dm("figures --commands").good().contains("dm bench --fabric sim --lanes 1"));
}
