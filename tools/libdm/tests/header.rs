//! `dm-host/include/dm.h` is what cbindgen makes of `dm-host/src/c`.
//!
//! After a deliberate change of the interface run this by hand and read the difference:
//! `DM_BLESS=1 cargo test -p libdm --test header`.

use cbindgen::{Builder, Config};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files of `dm-host/src/c`, in the order in which a reader of the header wants them.
const SOURCES: [&str; 7] = ["status", "bytes", "pool", "session", "calls", "scan", "queue"];

fn dm_host() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dm-host")
}

fn source(name: &str) -> PathBuf {
    dm_host().join("src/c").join(name).with_extension("rs")
}

fn generated() -> String {
    let mut builder = Builder::new().with_config(Config::from_file(dm_host().join("cbindgen.toml")).unwrap());
    for name in SOURCES {
        builder = builder.with_src(source(name));
    }
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    String::from_utf8(header).unwrap()
}

#[test]
fn the_header_is_what_the_code_says() {
    let file = dm_host().join("include/dm.h");
    let generated = generated();
    if std::env::var_os("DM_BLESS").is_some() {
        fs::write(&file, &generated).unwrap();
    }
    let blessed = fs::read_to_string(&file).unwrap_or_default();
    let differs = blessed.lines().zip(generated.lines()).position(|(blessed, generated)| blessed != generated);
    let line = differs.unwrap_or_else(|| blessed.lines().count().min(generated.lines().count()));
    assert!(
        blessed == generated,
        "{}:{}: the C interface changed\n  blessed:   {}\n  generated: {}\nif that is meant: DM_BLESS=1 cargo test -p \
         libdm --test header",
        file.display(),
        line + 1,
        blessed.lines().nth(line).unwrap_or("(end of file)"),
        generated.lines().nth(line).unwrap_or("(end of file)"),
    );
}

#[test]
fn every_exported_function_is_in_the_header() {
    let header = generated();
    let mut exported = BTreeSet::new();
    for file in fs::read_dir(dm_host().join("src/c")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let functions = text.split("#[unsafe(no_mangle)]\n").skip(1);
        exported.extend(functions.map(|text| {
            let (_, name) = text.split_once("extern \"C\" fn ").unwrap();
            name.split('(').next().unwrap().to_owned()
        }));
    }
    assert!(exported.len() > 20, "{exported:?}");
    for name in exported {
        assert!(header.contains(&format!("{name}(")), "{name} is exported and not in the header");
    }
}
