//! `dm figures`: committed charts are what it draws of the table in the README.

use crate::dm;
use std::fs;
use std::path::Path;

/// `DM_BLESS=1 cargo test -p dm --test cli figures` draws them anew.
#[test]
fn committed_charts_are_drawn_of_the_printed_table() {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (readme, committed) = (tools.join("README.md"), tools.join("figures"));
    let draw = |directory: &Path| {
        let told = dm(&format!("figures --svg {} --from {}", directory.display(), readme.display())).good();
        assert!(told.lines().count() > 5 && told.lines().all(|line| line.starts_with("drawn ")), "{told}");
    };
    if std::env::var_os("DM_BLESS").is_some() {
        draw(&committed);
        return;
    }
    let drawn = tempfile::tempdir().unwrap();
    draw(drawn.path());
    let names = |directory: &Path| {
        let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(drawn.path()), names(&committed));
    for name in names(drawn.path()) {
        let same = fs::read(drawn.path().join(&name)).unwrap() == fs::read(committed.join(&name)).unwrap();
        assert!(same, "{}: not what dm figures draws; DM_BLESS=1 draws it anew", name.display());
    }
}

#[test]
fn charts_need_a_table() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    fs::write(at("text"), "no table").unwrap();
    dm(&format!("figures --svg {} --from {}", at("out"), at("text"))).bad(1, &["text", "no table"]);
    dm(&format!("figures --svg {} --from {}", at("out"), at("missing"))).bad(1, &["missing"]);
    dm(&format!("figures --from {}", at("text"))).bad(2, &["--svg"]);
    // Part of a table: what cannot be drawn is named, with what is missing.
    let line = |title: &str| format!("| {title} | 2.00 x | 1.00 x | 0.50 |  |\n");
    let rows: String =
        ["C", "D", "A", "LOAD"].iter().map(|of| line(&format!("SMART Figure 14, {of}, over Sherman"))).collect();
    let table = format!("| figure | paper | ours (simulated) | ratio | remarks |\n|---|---|---|---|---|\n{rows}");
    fs::write(at("text"), table).unwrap();
    let told = dm(&format!("figures --svg {} --from {}", at("out"), at("text"))).good();
    assert!(told.contains("smart.svg\n") && told.contains("not drawn: chime, which needs \"CHIME Figure 12"), "{told}");
    assert!(directory.path().join("out/smart.svg").exists() && !directory.path().join("out/chime.svg").exists());
}
