//! Texts that are generated and then blessed: `DM_BLESS=1 cargo test -p dm-tests` writes what was found, and a person
//! reads the difference.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Compares `found` with the file `tests/goldens/NAME`, or writes it there.
pub fn check(name: &str, found: &str) {
    check_file(&Path::new("tests/goldens").join(name), found);
}

/// The same for any file of the workspace.
pub fn check_file(file: &Path, found: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    if std::env::var_os("DM_BLESS").is_some() {
        fs::create_dir_all(file.parent().expect("a file in a directory")).expect("the directory of goldens");
        fs::write(&file, found).expect("a golden");
        return;
    }
    let blessed =
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}; DM_BLESS=1 writes it", file.display()));
    if blessed == found {
        return;
    }
    let mut text = String::new();
    let (old, new): (Vec<&str>, Vec<&str>) = (blessed.lines().collect(), found.lines().collect());
    for line in 0..old.len().max(new.len()) {
        let (old, new) = (old.get(line), new.get(line));
        if old != new {
            let _ = writeln!(text, "{}:", line + 1);
            let _ = old.map(|old| writeln!(text, "  blessed: {old}"));
            let _ = new.map(|new| writeln!(text, "  found:   {new}"));
        }
    }
    panic!("{} does not hold any more; if that is meant, DM_BLESS=1 blesses it\n{text}", file.display());
}
