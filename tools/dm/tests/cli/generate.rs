//! Manual pages and completions.

use crate::dm;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man/man1");
    assert!(dm(&format!("man {}", pages.display())).good().contains("pages written to"));
    let page = |name: &str| fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
    for name in [
        "dm",
        "dm-bench",
        "dm-check",
        "dm-create",
        "dm-dump",
        "dm-load",
        "dm-inspect",
        "dm-repair",
        "dm-shell",
        "dm-top",
        "dm-trial",
        "dm-memd",
    ] {
        let text = page(name);
        assert!(text.contains(&format!(".TH {name} 1")) && text.contains(".SH SYNOPSIS"), "{text:.300}");
    }
    assert!(page("dm-memd").contains("RUST_LOG") && page("dm-memd").contains("log\\-level"), "{}", page("dm-memd"));
    assert!(page("dm-dump").contains("zstd"), "the examples are there");
    // An example is a command that can be copied: nothing is put behind it, and no line is broken.
    let check = page("dm-check");
    let (examples, text) = check.split_once("\n.fi\n").unwrap();
    assert!(examples.contains("\n.nf\n  dm check ") && text.contains("Safe on a pool in use"), "{check}");
    assert!(!page("dm").contains("dm\\-help"), "a page that is not there");
    // What an operator does with a pool, from its start to a backup that is loaded again.
    for step in ["systemctl enable", "journalctl", "/etc/dm/0.toml", "examples"] {
        assert!(page("dm-memd").contains(step), "{step}: {}", page("dm-memd"));
    }
    for step in ["top", "inspect", "check", "repair", "dump", "load", "drop"] {
        assert!(page("dm").split("A pool that others use").nth(1).unwrap().contains(step), "{step}: {}", page("dm"));
    }
    assert!(!pages.join("dm-soak-writer.1").exists(), "what is hidden has none");
    assert!(page("dm-shell").contains("Tab completes") && page("dm-top").contains("once"), "{}", page("dm-top"));
    assert!(page("dm-figures").contains("svg"), "{}", page("dm-figures"));
    dm("man /dev/null/no").bad(1, &["/dev/null/no"]);
}

#[test]
fn completions_are_scripts_that_shells_read() {
    for shell in ["bash", "zsh", "fish"] {
        let script = dm(&format!("completions {shell}")).good();
        assert!(script.contains("inspect") && script.contains("watch-ms"), "{shell}");
        assert!(script.contains("interval-ms") && script.contains("history"), "{shell}: dm top and dm shell");
        assert!(dm(&format!("completions {shell} --program dm-memd")).good().contains("log-level"), "{shell}");
    }
    // bash is what every test of this project needs; it completes as it would for a person.
    let mut script = dm("completions bash").good();
    script.push_str("\nCOMP_WORDS=(dm insp) COMP_CWORD=1; _dm dm insp dm; echo \"${COMPREPLY[@]}\"\n");
    let mut bash = Command::new("bash").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "inspect");
}
