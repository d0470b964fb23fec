//! Arguments that make no sense, help, and the layouts.

use crate::dm;
use std::fs;

#[test]
fn bad_arguments_are_told_in_one_line() {
    for (arguments, parts) in [
        ("bench --workload g", ["'g'", "load, a, b, c, d, e, f"]),
        ("bench --records 0", ["--records", "1.."]),
        ("bench --lanes 0", ["--lanes", "1..=1024"]),
        ("bench --key-bytes 7", ["--key-bytes", "8 to 64"]),
        ("bench --key-bytes 65", ["--key-bytes", "8 to 64"]),
        ("bench --value-bytes 1025", ["--value-bytes", "8 to 1024"]),
        ("bench --no-such-option", ["--no-such-option", "unexpected"]),
        ("bench --without nothing", ["nothing", "entry-writes"]),
        ("bench -p recordcont=1", ["recordcont", "recordcount"]),
        ("bench -p readproportion=2 --workload c", ["readproportion", "from 0 to 1"]),
        ("bench --threads 1024 --lanes 1024", ["--threads 1024", "65533"]),
        ("bench --workload c --records 100 --scratch-mib-max 0", ["scratch", "--scratch-mib-max"]),
        ("bench --workload load --repeat 2", ["--repeat", "load"]),
        ("bench --pool x --lines avx512", ["--pool", "--lines"]),
        ("bench --profile cx6", ["--profile", "--fabric sim"]),
        ("bench --compute-nodes 2 --baseline", ["--baseline", "only with one compute node"]),
        ("bench --against chime", ["--baseline", "required"]),
        ("bench --baseline --against btree", ["btree", "congee, sherman"]),
        ("bench --baseline --against chime --value-bytes 16", ["--against", "8 bytes"]),
        ("bench --baseline --against chime --workload load", ["--against", "not load"]),
        ("bench --baseline --against chime --pool x", ["--pool", "--against"]),
        ("bench --compute-nodes 2 --any-length", ["--any-length", "only with one compute node"]),
        ("bench --fabric sim --profile cx9", ["cx9", "cx5, cx6, cx7-200g, soft-roce, cxl"]),
        ("bench --fabric sim --profile /no/such.toml", ["/no/such.toml", "No such file"]),
        ("bench --fabric sim --baseline", ["--baseline", "--fabric shm"]),
        ("bench --fabric sim --pool x", ["--pool", "--fabric shm"]),
        ("bench --fabric sim --compute-nodes 128", ["--compute-nodes", "1..=127"]),
        ("bench --fabric sim --colocated --compute-nodes 3", ["--colocated", "as many of each"]),
        ("bench --fabric sim --raw-read 64 --workload c", ["--raw-read", "--workload"]),
        ("bench --fabric sim --compute-nodes 100 --cache-mib 1048576", ["MiB for caches", "--cache-mib"]),
        ("bench --repartition-at 1", ["--repartition-at", "--fabric sim"]),
        ("bench --fabric sim --repartition-at 0", ["--repartition-at", "milliseconds"]),
        ("bench --fabric sim --workload a --repartition-at 1", ["--repartition-at", "--compute-nodes 2"]),
        (
            "bench --fabric sim --compute-nodes 3 --records 1000 --workload a --repartition-at 1",
            ["--repartition-at", "none has to move"],
        ),
        (
            "bench --fabric sim --index dex --compute-nodes 3 --workload d --repartition-at 1",
            ["--repartition-at", "reads, updates and scans"],
        ),
        ("bench --fabric sim --workload a --over-time 1", ["--over-time-out", "required"]),
        ("bench --workload a --over-time 1 --over-time-out x", ["--over-time", "--fabric sim"]),
        ("bench --fabric sim --over-time 1 --over-time-out x", ["--over-time", "one workload"]),
        ("bench --fabric sim --workload load --over-time 1 --over-time-out x", ["--over-time", "not of a load"]),
        ("bench --sweep threads=1,2", ["--sweep-out", "required"]),
        ("bench --sweep colour=1,2 --sweep-out x", ["colour=1,2", "threads, lanes"]),
        ("bench --sweep threads=1,x --sweep-out x", ["threads", "x is not within 1 to 1024"]),
        ("bench --sweep threads=1,,2 --sweep-out x", ["threads=1,,2", "missing"]),
        ("bench --sweep zipfianconstant=7 --sweep-out x", ["zipfianconstant", "7"]),
        ("figures --only nothing", ["--only nothing", "--commands"]),
        ("layout show nothing", ["nothing", "superblock"]),
        ("inspect", ["--pool", "required"]),
        ("create --pool x --name y --leaf-span 1", ["entries per leaf 1", "2 to 512"]),
        ("create --pool x --name y --index chime --leaf-span 7", ["entries per leaf 7", "8 to 512"]),
        ("create --pool x --name y --index chime --neighborhood 17", ["entries of a neighborhood 17", "2 to 16"]),
        (
            "create --pool x --name y --index chime --leaf-span 8 --neighborhood 9",
            ["entries of a neighborhood 9", "2 to 8"],
        ),
        ("create --pool x --name y --index chime --value-bytes 1025", ["value bytes 1025", "8 to 1024"]),
        ("bench --index chime --neighborhood 1", ["--neighborhood", "2 to 16"]),
        ("bench --index chime --leaf-span 513", ["--leaf-span", "8 to 512"]),
        ("bench --neighborhood 4", ["--neighborhood", "--index chime"]),
        ("bench --lease-ms 0", ["--lease-ms 0", "at least 100"]),
        ("repair --pool x --lease-ms 99", ["--lease-ms 99", "at least 100"]),
        ("inspect --pool x --lease-ms 3600001", ["--lease-ms 3600001", "longer than an hour"]),
        ("soak --seconds 1 --lease-ms 18446744073709551615", ["--lease-ms", "too large"]),
        ("inspect --pool x --watch-ms 3600001", ["--watch-ms", "..=3600000"]),
        ("completions tcsh", ["tcsh", "bash"]),
        ("memd --size 1MiB --log-level loud", ["--log-level", "warn, info"]),
        ("soak", ["--minutes", "required"]),
        ("soak --minutes 1 --seconds 1", ["--minutes", "--seconds"]),
        ("soak --seconds 1 --writers 0", ["--writers", "1..=64"]),
        ("frobnicate", ["frobnicate", "subcommand"]),
    ] {
        dm(arguments).bad(2, &parts);
    }
}

#[test]
fn help_comes_with_an_example() {
    let commands = "bench figures create shell inspect check repair soak dump load layout man completions memd"
        .split(' ')
        .chain([""]);
    for arguments in commands {
        let out = dm(&format!("{arguments} --help")).good();
        assert!(out.contains("Example") && out.contains("dm"), "{arguments}: {out}");
    }
}

/// Where people read, the engine's own word for keys and values of any length ("items") does not occur.
#[test]
fn keys_and_values_of_any_length_are_asked_for_by_that_name() {
    let directory = tempfile::tempdir().unwrap();
    dm(&format!("man {}", directory.path().display())).good();
    let mut pages: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|page| page.unwrap().path())
        .map(|page| (page.display().to_string(), fs::read_to_string(page).unwrap()))
        .collect();
    assert!(pages.len() > 20, "{}", pages.len());
    let read = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    pages.push(read("dm.h", include_str!("../../../../dm-host/include/dm.h")));
    pages.push(read("README.md", include_str!("../../../../README.md")));
    for (name, text) in &pages {
        let mut words = text.split(|character: char| !character.is_ascii_alphanumeric());
        assert!(!words.any(|word| word.eq_ignore_ascii_case("items")), "{name}: {text}");
    }
    let of = |end: &str| pages.iter().find(|(name, _)| name.ends_with(end)).map_or("", |(_, text)| text);
    for page in ["dm-create.1", "dm-bench.1"] {
        assert!(of(page).contains("any\\-length"), "{page}: {}", of(page));
    }
    dm("create --pool x --name y --items").bad(2, &["--items", "unexpected"]);
}

#[test]
fn layouts_are_listed_shown_and_checked() {
    let directory = tempfile::tempdir().unwrap();
    let goldens = format!("--directory {}", directory.path().display());
    assert!(dm("layout list").good().contains("lock_word"));
    assert!(dm("layout show lock_word").good().starts_with("lock_word: "));
    assert!(dm("layout show lock_word --c").good().contains("#define DM_LOCK_WORD_ROW_BITS 16\n"));
    assert!(dm(&format!("layout bless {goldens}")).good().contains("blessed"));
    assert!(dm(&format!("layout check {goldens}")).good().contains("layouts hold"));
    fs::write(directory.path().join("lock_word.txt"), "something else\n").unwrap();
    let ended = dm(&format!("layout check {goldens}"));
    assert!(ended.out.contains("lock_word.txt"), "{}", ended.out);
    ended.bad(1, &["1 of the layouts"]);
}
