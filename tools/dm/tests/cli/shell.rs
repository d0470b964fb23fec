//! `dm shell`, from a pipe and on a terminal.

use crate::terminal::Terminal;
use crate::{Nodes, dm, dm_fed};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// An index with text keys and number values.
fn names(nodes: &Nodes, options: &str) -> String {
    let pool = nodes.pool();
    dm(&format!("create {pool} --name names {options}")).good();
    let shell = format!("shell {pool} --index names");
    let words = ["anna", "annika", "ben", "berta", "carl"];
    let lines: Vec<_> = words.iter().zip(1..).map(|(word, n)| format!("put {word} u64:{n}\n")).collect();
    dm_fed(&shell, lines.concat().as_bytes()).good();
    shell
}

#[test]
fn bounds_prefixes_and_counts() {
    // Keys of one size, and of any. Each command is a compute node that gets the row of the one before: over Dolphin, whose
    // writers wait for a turn of the epochs then, items once waited for a turn that their own pin kept from passing.
    for options in [
        "--key-bytes 16 --value-bytes 8",
        "--any-length",
        "--any-length --index chime",
        "--any-length --index smart",
        "--any-length --index dolphin",
    ] {
        let nodes = Nodes::start(1, "32MiB");
        let shell = names(&nodes, options);
        let all = |lines: &str| dm_fed(&shell, lines.as_bytes()).good();
        // Words of values of any length are text unless a format says more.
        let keys = |lines: &str| {
            let out = all(lines);
            out.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(all("count\n"), "5 records\n", "{options}");
        assert_eq!(all("count prefix ann\ncount prefix b\ncount prefix x\n"), "2 records\n2 records\n0 records\n");
        assert_eq!(keys("scan from ann to ben\n"), ["anna", "annika"]);
        assert_eq!(keys("scan after anna through ben\n"), ["annika", "ben"]);
        assert_eq!(keys("scan prefix be after ben\n"), ["berta"]);
        assert_eq!(keys("scan limit 2\n"), ["anna", "annika"]);
        assert_eq!(keys("scan b 1\n"), ["ben"]);
        assert_eq!(keys("scan from b limit all\n"), ["ben", "berta", "carl"]);
        assert_eq!(keys("scan from carl to anna\n"), Vec::<String>::new());
        // A word of bounds is a key if it is quoted.
        assert_eq!(keys("put \"to\" u64:9\nscan \"to\" 1\n"), ["inserted", "to"]);
        let ended = dm_fed(&shell, b"scan prefix\ncount 5\nscan limit x\nscan from a b\n");
        for error in ["prefix wants something", "\"5\": bounds are", "COUNT \"x\"", "4 of 4 lines failed"] {
            assert!(ended.err.contains(error), "{error}: {}", ended.err);
        }
    }
}

#[test]
fn more_records_than_a_page_holds() {
    let nodes = Nodes::start(1, "32MiB");
    let pool = nodes.pool();
    dm(&format!("create {pool} --name many")).good();
    let shell = format!("shell {pool} --index many");
    let lines: Vec<_> = (0..2500).map(|n| format!("put u64:{n} u64:{n}\n")).collect();
    dm_fed(&shell, lines.concat().as_bytes()).good();
    let out = dm_fed(&shell, b"count\ncount from u64:100 to u64:2400\nscan from u64:7 limit 2000\n").good();
    let mut lines = out.lines();
    assert_eq!((lines.next(), lines.next()), (Some("2500 records"), Some("2300 records")));
    let records: Vec<_> = lines.collect();
    assert_eq!(records.len(), 2000);
    assert_eq!((records[0], records[1999]), ("u64:7 u64:7", "u64:2006 u64:2006"));
}

#[test]
fn conditional_updates_and_formats_of_numbers() {
    let nodes = Nodes::start(1, "16MiB");
    let pool = nodes.pool();
    dm(&format!("create {pool} --name it")).good();
    let input = "put i64:-5 le64:258\nput i64:7 u64:0xff\nupdate-if i64:7 u64:1 u64:2\nupdate-if i64:7 u64:255 u64:1_000\n\
                 update-if i64:8 u64:1 u64:2\ndelete-if i64:-5 u64:1\nformat keys i64\nformat values le64\nscan\n\
                 format values hex\nget i64:7\ndelete-if i64:7 hex:00000000000003e8\ncount\n";
    let out = dm_fed(&format!("shell {pool} --index it"), input.as_bytes()).good();
    let expected = "inserted\ninserted\ndiffers: u64:255\nupdated\nabsent\ndiffers: u64:144396663052566528\n\
                    i64:-5 le64:258\ni64:7 le64:16718206241729413120\nhex:00000000000003e8\ndeleted\n1 record\n";
    assert_eq!(out, expected);
    let ended = dm_fed(&format!("shell {pool} --index it"), b"format keys roman\nupdate-if a b\nput u8:256 a\n");
    for error in ["no format \"roman\"; there are auto, hex, u8", "wants KEY OLD NEW", "u8: wants a number of 8 bits"] {
        assert!(ended.err.contains(error), "{error}: {}", ended.err);
    }
}

#[test]
fn a_terminal_has_editing_completion_and_history() {
    let nodes = Nodes::start(1, "16MiB");
    let names = names(&nodes, "--key-bytes 16 --value-bytes 8");
    let history = nodes.file("state/history");
    let shell = format!("{names} --history {history}");
    let mut terminal = Terminal::start(&shell);
    terminal.wait_for("dm> ");
    // A command and a key are completed; the only key that begins with "car" is carl.
    terminal.press("ge\tcar\t\r");
    terminal.wait_for("u64:5");
    terminal.wait_for("dm> ");
    // The first letter is forgotten, then put in: Control-A goes to the beginning.
    terminal.press("et anna\u{1}g\r");
    terminal.wait_for("u64:1");
    terminal.wait_for("dm> ");
    // Several keys begin so: the second Tab lists them, and the line stands below them again.
    terminal.press("get be\t\t");
    terminal.wait_for("berta");
    terminal.wait_for("dm> get be");
    // Control-C gives the line up. What is typed before the next prompt stands may be given up, too.
    terminal.press("\u{3}");
    terminal.wait_for("dm> ");
    // What has blanks is quoted, also where it is only begun.
    terminal.press("put \"two words\" u64:22\r");
    terminal.wait_for("inserted");
    terminal.wait_for("dm> ");
    terminal.press("get \"two w\t\r");
    terminal.wait_for("u64:22");
    terminal.wait_for("dm> ");
    terminal.press("nonsense\r");
    terminal.wait_for("unknown command \"nonsense\"");
    terminal.wait_for("dm> ");
    terminal.press(" put secret u64:1\r");
    terminal.wait_for("inserted");
    terminal.wait_for("dm> ");
    // Control-D on an empty line.
    terminal.press("\u{4}");
    assert_eq!(terminal.ended(), Some(0));

    let kept = fs::read_to_string(&history).unwrap();
    assert!(kept.contains("get carl") && kept.contains("get anna") && !kept.contains("secret"), "{kept}");
    assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o077, 0, "it has keys and values in it");
    // Another shell begins with these lines: two up is the line before the nonsense.
    let mut terminal = Terminal::start(&shell);
    terminal.wait_for("dm> ");
    terminal.press("\u{1b}[A\u{1b}[A\r");
    terminal.wait_for("u64:22");
    terminal.wait_for("dm> ");
    // Control-D on an empty line.
    terminal.press("\u{4}");
    assert_eq!(terminal.ended(), Some(0));
}

#[test]
fn a_history_that_cannot_be_kept_is_told() {
    let nodes = Nodes::start(1, "16MiB");
    let names = names(&nodes, "--key-bytes 16 --value-bytes 8");
    let mut terminal = Terminal::start(&format!("{names} --history /dev/null/no"));
    terminal.wait_for("dm> ");
    terminal.press("\u{4}");
    terminal.wait_for("/dev/null/no");
    terminal.wait_for("--history names another file");
    assert_eq!(terminal.ended(), Some(1));
}
