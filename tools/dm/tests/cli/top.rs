//! `dm top`, once and on a terminal.

use crate::metrics::Daemon;
use crate::terminal::Terminal;
use crate::{Nodes, SMALL, dm};
use std::sync::atomic::{AtomicBool, Ordering};

/// Looks at a session at work: one of them has to see operations.
const LOOKS: usize = 50;

#[test]
fn one_picture_of_a_pool_at_work() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path());
    let session = daemon.session();
    let metrics = format!("--metrics {},{}", daemon.metrics, session.metrics().unwrap());
    let done = AtomicBool::new(false);
    let text = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u64;
            while !done.load(Ordering::Relaxed) {
                number += 1;
                session.insert(&number.to_be_bytes(), &[0; 8]).wait().unwrap();
                session.get(&number.to_be_bytes()).wait().unwrap();
            }
        });
        // An interval in which the thread above gets no time at all says less than it should: then look again.
        let moved = |text: &str, kind: &str| {
            text.lines().any(|line| line.starts_with(kind) && !line.contains(" 0.00     0.00     0.00"))
        };
        let look = || dm(&format!("top --once --interval-ms 200 --pool {} {metrics}", daemon.socket)).good();
        let text = (0..LOOKS).map(|_| look()).find(|text| moved(text, "get ") && moved(text, "insert "));
        done.store(true, Ordering::Relaxed);
        text.unwrap_or_else(|| panic!("{LOOKS} looks at a session at work see none of its operations: {}", look()))
    });
    let has = |parts: &[&str]| {
        assert!(text.lines().any(|line| parts.iter().all(|part| line.contains(part))), "{parts:?} in\n{text}");
    };
    has(&["pool accounts, incarnation 1; epoch"]);
    has(&["processes 2", "joins 1", "deaths 0"]);
    // How many chunks of leaves depends on how fast the session is.
    has(&["MN 0", ": leaf ", "redo 1"]);
    has(&["balances", "sherman", "MiB"]);
    // A get READs a leaf, in one round trip.
    has(&["get ", " 1.00 ", " 1024 "]);
    has(&["   1 live"]);
    // The pool alone tells less, and an endpoint that is gone is told.
    drop(session);
    let text = dm(&format!("top --once --interval-ms 100 --pool {} --metrics 127.0.0.1:1", daemon.socket)).good();
    assert!(
        text.contains("not known: no --metrics of a session") && text.contains("no metrics of 127.0.0.1:1: "),
        "{text}"
    );
    assert!(text.contains("compute nodes: 0 rows; 1 free again"), "{text}");
}

#[test]
fn a_terminal_is_drawn_again_and_again_and_given_back() {
    let nodes = Nodes::start(2, "16MiB");
    dm(&format!("{SMALL} --workload load {}", nodes.pool())).good();
    for key in ["q", "\u{3}"] {
        let mut top = Terminal::start(&format!("top --interval-ms 100 {}", nodes.pool()));
        // The alternate screen, then a first picture.
        top.wait_for("\u{1b}[?1049h");
        top.wait_for("over 0.0 s");
        top.wait_for("bench");
        top.wait_for("compute nodes");
        // Later ones have another time in the second line, and only that is written.
        top.wait_for("\u{1b}[2;");
        top.press(key);
        assert_eq!(top.ended(), Some(0), "{}", top.rest());
        assert!(top.rest().contains("\u{1b}[?1049l"), "the screen is as it was: {:?}", top.rest());
    }
}

#[test]
fn what_is_no_terminal_is_told() {
    dm("top --pool /no/such").bad(2, &["no terminal", "--once"]);
    dm("top --once --pool /no/such").bad(1, &["/no/such"]);
    dm("top --once --interval-ms 5 --pool /no/such").bad(2, &["--interval-ms"]);
}
