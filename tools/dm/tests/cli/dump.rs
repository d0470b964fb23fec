//! `dm dump` and `dm load`, and indexes that are damaged.

use crate::terminal::terminal;
use crate::{Ended, Nodes, SMALL, command, dm, dm_fed};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// A memory node whose region is a file, with an index of 2000 records.
pub(crate) fn on_a_file(name: &str) -> (Nodes, fs::File) {
    let mut nodes = Nodes { daemons: Vec::new(), directory: tempfile::tempdir().unwrap() };
    let region = nodes.file("region");
    let arguments = format!(
        "memd --size 16MiB --lines sequence --exit-with-parent --log-level warn --file {region} --socket {}",
        nodes.socket(0).display()
    );
    let mut daemon = command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.starts_with("READY"), "{ready:?}");
    nodes.daemons.push(daemon);
    let pool = nodes.pool();
    dm(&format!("create {pool} --name {name} --index sherman")).good();
    let lines = (0..2000).map(|n| format!("put u64:{n} v{n}")).collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(dm_fed(&format!("shell {pool} --index {name}"), lines.as_bytes()).code, Some(0));
    let region = fs::File::options().read(true).write(true).open(region).unwrap();
    (nodes, region)
}

/// The root word of the only index.
pub(crate) fn root(pool: &str) -> u64 {
    let view: Value = serde_json::from_str(&dm(&format!("inspect {pool} --no-walk --json")).good()).unwrap();
    view["indexes"][0]["root"].as_u64().unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_dump_can_be_loaded_and_a_damaged_one_changes_nothing() {
    let nodes = Nodes::start(2, "16MiB");
    let pool = nodes.pool();
    dm(&format!("{SMALL} --workload a {pool}")).good();
    let (dump, copy) = (nodes.file("dump"), nodes.file("copy"));
    assert!(dm(&format!("dump {pool} --index bench {dump}")).good().contains("20000 records"));
    dm(&format!("load {pool} --index second {dump}")).good();
    dm(&format!("dump {pool} --index second {copy}")).good();
    let bytes = fs::read(&dump).unwrap();
    assert!(bytes == fs::read(&copy).unwrap());
    // Once more over what is there; and from a pipe into a new index.
    dm(&format!("load {pool} --index second {dump}")).good();
    dm_fed(&format!("load {pool} --index third -"), &bytes).good();
    dm_fed(&format!("load {pool} --index third -"), &bytes).bad(1, &["in use", "from a file"]);

    let damaged = nodes.file("damaged");
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    let mut longer = bytes.clone();
    longer.push(0);
    let mut newer = bytes.clone();
    newer[8] = 3;
    for (contents, what) in [
        (&bytes[..bytes.len() / 2], "cut short"),
        (&bytes[..bytes.len() - 1], "cut short"),
        (&bytes[..10], "cut short"),
        (&[], "cut short"),
        (&flipped, "damaged"),
        (&longer, "goes on after its end"),
        (&newer, "version 3"),
        (&b"a text file, ".repeat(20), "not a dump"),
    ] {
        fs::write(&damaged, contents).unwrap();
        dm(&format!("load {pool} --index fourth {damaged}")).bad(1, &["damaged", what]);
        dm_fed(&format!("load {pool} --index fourth -"), contents).bad(1, &[what]);
        dm(&format!("shell {pool} --index fourth")).bad(1, &["no index \"fourth\""]);
    }
    dm(&format!("create {pool} --name wide --key-bytes 16")).good();
    dm(&format!("load {pool} --index wide {dump}")).bad(1, &["8+8", "16+8"]);
    dm(&format!("dump {pool} --index bench /no/such/file")).bad(1, &["/no/such/file"]);
    let out = dm(&format!("inspect {pool}")).good();
    assert!(out.contains("0 locks held") && out.contains("0 orphaned chunks"), "{out}");
}

#[test]
fn a_damaged_index_is_told_and_leaves_no_file() {
    let (nodes, region) = on_a_file("it");
    let pool = nodes.pool();
    let out = tempfile::tempdir().unwrap();
    let (whole, file) = (out.path().join("whole"), out.path().join("file"));
    dm(&format!("dump {pool} --index it {}", whole.display())).good();
    dm(&format!("inspect {pool}")).good();
    fs::write(&file, "as it was").unwrap();
    let tell = |what: &str| {
        dm(&format!("dump {pool} --index it {}", file.display())).bad(1, &[what]);
        dm(&format!("dump {pool} --index it {}", out.path().join("new").display())).bad(1, &[what]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "as it was");
        assert_eq!(names(out.path()), ["file", "whole"]);
        let ended = dm(&format!("inspect {pool}"));
        assert!(ended.out.contains("NOT SOUND"), "{}", ended.out);
        ended.bad(1, &["not sound", "index it"]);
        let ended = dm(&format!("inspect {pool} --json"));
        let view: Value = serde_json::from_str(&ended.out).unwrap();
        assert!(view["indexes"][0]["broken"].as_str().unwrap().contains(what), "{view}");
        assert_eq!(ended.code, Some(1));
    };
    // The root says that it is of another index.
    let address = root(&pool);
    let offset = address & ((1 << 48) - 64);
    let mut line = [0; 64];
    region.read_exact_at(&mut line, offset).unwrap();
    region.write_all_at(&[line[3] ^ 0x40], offset + 3).unwrap();
    tell("leads to no root of this index");
    region.write_all_at(&line, offset).unwrap();
    // The root word is 0.
    let mut head = vec![0; 1 << 20];
    region.read_exact_at(&mut head, 0).unwrap();
    let at = head.chunks_exact(8).position(|word| word == address.to_le_bytes()).unwrap() * 8;
    region.write_all_at(&[0; 8], at as u64).unwrap();
    tell("its root word is 0");
    dm_fed(&format!("shell {pool} --index it"), b"get u64:1\n").bad(1, &["its root word is 0"]);
    region.write_all_at(&address.to_le_bytes(), at as u64).unwrap();
    dm(&format!("dump {pool} --index it {}", file.display())).good();
    assert_eq!(fs::read(&file).unwrap(), fs::read(&whole).unwrap());
    // One that was never written to has no root, and lost none.
    dm(&format!("create {pool} --name new")).good();
    dm(&format!("dump {pool} --index new -")).good();
    dm(&format!("inspect {pool}")).good();
}

#[test]
fn a_record_that_has_changed_is_told_where_records_have_checksums() {
    let (nodes, region) = on_a_file("plain");
    let pool = nodes.pool();
    let created = dm(&format!("create {pool} --name sealed --checksums")).good();
    assert!(created.contains("values of 8 bytes, checksums of records"), "{created}");
    let lines = (0..500).map(|n| format!("put u64:{n} seal{n:03}")).collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(dm_fed(&format!("shell {pool} --index sealed"), lines.as_bytes()).code, Some(0));
    let (whole, again) = (nodes.file("whole"), nodes.file("again"));
    dm(&format!("dump {pool} --index sealed {whole}")).good();
    dm(&format!("load {pool} --index copy {whole}")).good();
    dm(&format!("dump {pool} --index copy {again}")).good();
    assert_eq!(fs::read(&whole).unwrap(), fs::read(&again).unwrap());
    let view = dm(&format!("inspect {pool}")).good();
    assert_eq!(view.matches("checksums of records").count(), 2, "a dump keeps the option: {view}");
    // Records go from one sort of index into the other.
    dm(&format!("load {pool} --index plain {whole}")).good();
    // A value has one wrong bit, wherever it is.
    let mut bytes = vec![0; 16 << 20];
    region.read_exact_at(&mut bytes, 0).unwrap();
    let found: Vec<_> = bytes.windows(7).enumerate().filter(|(_, at)| at == b"seal123").map(|(at, _)| at).collect();
    assert!(found.len() >= 2, "in the indexes: {found:?}");
    for at in found {
        region.write_all_at(b"z", at as u64 + 6).unwrap();
    }
    let what = "the checksum of the record with key hex:000000000000007b does not fit";
    for index in ["sealed", "copy"] {
        dm(&format!("dump {pool} --index {index} {again}")).bad(1, &[what]);
        let ended = dm(&format!("check {pool} --index {index}"));
        assert!(ended.out.contains("DAMAGED") && ended.out.contains(what), "{}", ended.out);
        ended.bad(1, &["damaged: index"]);
        let got = dm_fed(&format!("shell {pool} --index {index}"), b"get u64:123\n");
        assert!(got.code == Some(1) && got.err.contains(what), "{}", got.err);
        // A put needs no value that was there.
        dm_fed(&format!("shell {pool} --index {index}"), b"put u64:123 seal123\n").good();
        dm(&format!("check {pool} --index {index}")).good();
        dm(&format!("dump {pool} --index {index} {again}")).good();
        assert_eq!(fs::read(&whole).unwrap(), fs::read(&again).unwrap());
    }
    dm(&format!("create {pool} --name long --checksums --value-bytes 1021")).bad(2, &["1021"]);
}

#[test]
fn help_says_what_is_verified_and_what_is_not_noticed() {
    for command in ["dump", "check"] {
        let help = dm(&format!("{command} --help")).good();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["What is verified:", "ot noticed: a byte", "no checksum covers it", "created with --checksums"] {
            assert!(words.contains(part), "{command}: {help}");
        }
    }
}

#[test]
fn a_dump_replaces_files_only() {
    let nodes = Nodes::start(1, "16MiB");
    let pool = nodes.pool();
    dm(&format!("{SMALL} --workload load {pool}")).good();
    let out = tempfile::tempdir().unwrap();
    let at = |name: &str| out.path().join(name);
    let dump = |name: &str| dm(&format!("dump {pool} --index bench {}", at(name).display()));
    dump("whole").good();
    let whole = fs::read(at("whole")).unwrap();
    assert_eq!(fs::metadata(at("whole")).unwrap().mode() & 0o777, 0o600);
    // A link stays, and so do the permissions of what it leads to.
    fs::create_dir(at("there")).unwrap();
    fs::write(at("there/file"), "old").unwrap();
    fs::set_permissions(at("there/file"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("there/file", at("link")).unwrap();
    dump("link").good();
    assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
    assert_eq!(fs::read(at("there/file")).unwrap(), whole);
    assert_eq!(fs::metadata(at("there/file")).unwrap().mode() & 0o777, 0o640);
    assert_eq!(names(&at("there")), ["file"]);
    // One to nothing is not followed to make a file elsewhere.
    symlink("there/nothing", at("dangling")).unwrap();
    dump("dangling").bad(1, &["dangling", "a link to nothing"]);
    assert_eq!(names(&at("there")), ["file"]);
    // Nor is one where the temporary file used to be.
    fs::write(at("victim"), "untouched").unwrap();
    symlink("victim", at("whole.partial")).unwrap();
    dump("whole").good();
    assert_eq!(fs::read_to_string(at("victim")).unwrap(), "untouched");
    // A pipe.
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    let pipe = at("pipe");
    let reader = thread::spawn(move || fs::read(pipe).unwrap());
    dump("pipe").good();
    assert_eq!(reader.join().unwrap(), whole);
    assert!(fs::metadata(at("pipe")).unwrap().file_type().is_fifo());
    // A device, and the names of the standard output.
    dm(&format!("dump {pool} --index bench /dev/null")).good();
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let names_before = names(out.path());
    for name in ["-", "/dev/stdout", "/dev/fd/1"] {
        let piped = command(&format!("dump {pool} --index bench {name}")).output().unwrap();
        assert!(piped.status.success() && piped.stdout == whole, "{name}");
    }
    let appended = fs::File::options().append(true).open(at("victim")).unwrap();
    let status = command(&format!("dump {pool} --index bench /dev/stdout")).stdout(appended).status().unwrap();
    assert!(status.success());
    assert_eq!(fs::read(at("victim")).unwrap(), [b"untouched".as_slice(), &whole].concat());
    dump("there").bad(1, &["there", "is a directory"]);
    dump("no/such").bad(1, &["no/such"]);
    assert_eq!(names(out.path()), names_before);
}

/// The progress is shown on a terminal that has stopped its output: there the process waits, with its temporary file, and
/// no dump gets whole.
#[test]
fn a_dump_that_is_interrupted_leaves_nothing() {
    let nodes = Nodes::start(1, "64MiB");
    let pool = nodes.pool();
    dm(&format!("{SMALL} --workload load {pool}")).good();
    for signal in ["INT", "TERM"] {
        let out = tempfile::tempdir().unwrap();
        let (_other_side, terminal) = terminal();
        rustix::termios::tcflow(&terminal, rustix::termios::Action::OOff).unwrap();
        let mut dump = command(&format!("dump {pool} --index bench {}", out.path().join("file").display()))
            .stdout(Stdio::null())
            .stderr(terminal)
            .env("TERM", "xterm")
            .spawn()
            .unwrap();
        while names(out.path()).is_empty() {
            assert!(dump.try_wait().unwrap().is_none(), "it ended before it had a file");
            thread::yield_now();
        }
        let name = &names(out.path())[0];
        assert!(name.ends_with(".partial"), "{name}");
        assert_eq!(fs::metadata(out.path().join(name)).unwrap().mode() & 0o777, 0o600);
        let sent = Command::new("kill").args(["-s", signal, &dump.id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert_eq!(dump.wait().unwrap().code(), Some(130));
        assert!(names(out.path()).is_empty(), "{:?}", names(out.path()));
    }
}

/// What a command says on a terminal that is its standard error, and how it ends.
fn on_a_terminal(command: &mut Command) -> (String, Option<i32>) {
    let (mut other_side, terminal) = terminal();
    let mut child = command.stderr(terminal).env("TERM", "xterm").spawn().unwrap();
    // The command holds the terminal, too.
    command.stderr(Stdio::null());
    let mut said = Vec::new();
    // Ends with an error when the last process has closed the terminal.
    let _ = other_side.read_to_end(&mut said);
    (String::from_utf8_lossy(&said).into_owned(), child.wait().unwrap().code())
}

#[test]
fn dumps_stream_through_pipes_and_progress_is_for_terminals() {
    let nodes = Nodes::start(1, "64MiB");
    let pool = nodes.pool();
    dm(&format!("{SMALL} --workload load {pool}")).good();
    // Two commands and a pipe; no file is named.
    let mut dump =
        command(&format!("dump {pool} --index bench")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let load = command(&format!("load {pool} --index piped")).stdin(dump.stdout.take().unwrap()).output().unwrap();
    let dump = dump.wait_with_output().unwrap();
    assert!(load.status.success() && load.stdout.starts_with(b"20000 records loaded"), "{load:?}");
    assert!(dump.status.success() && load.stderr.is_empty(), "no progress without a terminal");
    // A dump that may have a damaged record says so, and nothing else.
    let note =
        "note: the index has no checksums of records: one that changed in its memory node is dumped as it is there\n";
    assert_eq!(String::from_utf8_lossy(&dump.stderr), note);
    dm(&format!("create {pool} --name sealed --index sherman --checksums")).good();
    let sealed = command(&format!("dump {pool} --index sealed")).output().unwrap();
    assert!(sealed.status.success() && sealed.stderr.is_empty(), "{sealed:?}");

    let (file, copy) = (nodes.file("dump"), nodes.file("copy"));
    let (said, code) = on_a_terminal(command(&format!("dump {pool} --index bench {file}")).stdout(Stdio::null()));
    assert!(
        code == Some(0) && said.contains("dumping") && said.contains("of 20,000, ") && said.contains(" left"),
        "{said:?}"
    );
    let (said, code) = on_a_terminal(command(&format!("load {pool} --index read {file}")).stdout(Stdio::null()));
    assert!(
        code == Some(0) && said.contains("checking") && said.contains("loading") && said.contains("of 20,000"),
        "{said:?}"
    );
    dm(&format!("dump {pool} --index piped {copy}")).good();
    assert_eq!(fs::read(&file).unwrap(), fs::read(&copy).unwrap());
    // A dump is not for terminals, nor typed into one.
    let both = |arguments: &str| {
        let mut child = command(arguments);
        child
            .stdin(fs::File::open("/dev/ptmx").unwrap())
            .stdout(fs::File::options().write(true).open("/dev/ptmx").unwrap());
        child.stderr(Stdio::piped()).output().unwrap()
    };
    for (arguments, what) in [("dump", "standard output is a terminal"), ("load", "standard input is a terminal")] {
        let output = both(&format!("{arguments} {pool} --index bench"));
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(what), "{output:?}");
    }
}

#[test]
fn a_stream_that_cannot_be_written_or_ends_early_is_told() {
    let nodes = Nodes::start(1, "64MiB");
    let pool = nodes.pool();
    dm(&format!("{SMALL} --workload load {pool}")).good();
    dm(&format!("dump {pool} --index bench /dev/full")).bad(1, &["/dev/full: No space left"]);
    // A reader that goes after the first bytes: the rest fits no pipe.
    let mut dump =
        command(&format!("dump {pool} --index bench")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    dump.stdout.take().unwrap().read_exact(&mut [0; 8]).unwrap();
    Ended::from(dump.wait_with_output().unwrap()).bad(1, &["the standard output: Broken pipe"]);
    let ended = dm_fed(&format!("load {pool} --index cut -"), &b"dm-dump\n"[..]);
    ended.bad(1, &["the standard input: cut short"]);
    dm(&format!("shell {pool} --index cut")).bad(1, &["no index \"cut\""]);
}

/// However many lanes scan, and wherever the keys are: spread evenly, side by side, alike for many bytes.
#[test]
fn a_dump_is_the_same_with_any_number_of_jobs() {
    let nodes = Nodes::start(1, "128MiB");
    let pool = nodes.pool();
    let records = "--workload c --operations 100 --records 30000 --threads 1 --lanes 1";
    for (name, options) in [("hashed", ""), ("dense", "-p insertorder=ordered"), ("radix", "--index smart")] {
        dm(&format!("bench {pool} --name {name} {records} {options}")).good();
    }
    let paths: Vec<_> = (0..20_000).map(|n| format!("/usr/share/doc/{}/{n}\n", "long/".repeat(n % 3 * 20))).collect();
    let file = nodes.file("paths");
    fs::write(&file, paths.concat()).unwrap();
    let items = "--any-length --workload c --operations 100 --threads 1 --lanes 1";
    dm(&format!("bench {pool} --name paths {items} --keys {file}")).good();
    dm(&format!("create {pool} --name empty")).good();
    for (name, count) in [("hashed", 30_000), ("dense", 30_000), ("radix", 30_000), ("paths", 20_000), ("empty", 0)] {
        let dumped = |jobs: u16| {
            let file = nodes.file(&format!("{name}-{jobs}"));
            let said = dm(&format!("dump {pool} --index {name} --jobs {jobs} {file}")).good();
            assert!(said.starts_with(&format!("{count} record")), "{said}");
            fs::read(file).unwrap()
        };
        let alone = dumped(1);
        for jobs in [2, 7] {
            assert!(dumped(jobs) == alone, "{name} with {jobs} jobs");
        }
    }
    dm(&format!("dump {pool} --index dense --jobs 0")).bad(2, &["--jobs"]);
}

/// Indexes of keys and values of any length, and those that have records already, are loaded record by record.
#[test]
fn a_load_is_the_same_with_any_number_of_jobs() {
    let nodes = Nodes::start(1, "256MiB");
    let pool = nodes.pool();
    let run = "--workload c --operations 100 --threads 1 --lanes 1";
    for kind in ["sherman", "dex"] {
        dm(&format!("bench {pool} --name {kind} --index {kind} {run} --records 30000")).good();
    }
    let paths: Vec<_> = (0..20_000).map(|n| format!("/usr/share/doc/{}/{n}\n", "long/".repeat(n % 3 * 20))).collect();
    let file = nodes.file("paths");
    fs::write(&file, paths.concat()).unwrap();
    for kind in ["chime", "smart"] {
        dm(&format!("bench {pool} --name items-{kind} --index {kind} --any-length {run} --keys {file}")).good();
    }
    for (kind, name, count) in [
        ("sherman", "sherman", 30_000),
        ("dex", "dex", 30_000),
        ("chime", "items-chime", 20_000),
        ("smart", "items-smart", 20_000),
    ] {
        let (file, copy) = (nodes.file(name), nodes.file(&format!("{name}-copy")));
        dm(&format!("dump {pool} --index {name} {file}")).good();
        let bytes = fs::read(&file).unwrap();
        for jobs in [1, 4] {
            let to = format!("{name}-{jobs}");
            if name == kind {
                dm(&format!("create {pool} --name {to} --index {kind}")).good();
                // One that had a record is not bulk loaded.
                assert_eq!(
                    dm_fed(&format!("shell {pool} --index {to}"), b"put u64:1 v1\ndelete u64:1\n").code,
                    Some(0)
                );
            }
            let said = dm(&format!("load {pool} --index {to} --jobs {jobs} {file}")).good();
            assert_eq!(said, format!("{count} records loaded into index \"{to}\"\n"));
            dm(&format!("dump {pool} --index {to} {copy}")).good();
            assert!(fs::read(&copy).unwrap() == bytes, "{name} with {jobs} jobs");
            dm(&format!("drop {pool} --name {to}")).good();
        }
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2] ^= 1;
        fs::write(&copy, &damaged).unwrap();
        dm(&format!("load {pool} --index none --jobs 4 {copy}")).bad(1, &["damaged"]);
        dm_fed(&format!("load {pool} --index none --jobs 4 -"), &damaged).bad(1, &["damaged"]);
        dm_fed(&format!("load {pool} --index none --jobs 4 -"), &bytes[..bytes.len() / 2]).bad(1, &["cut short"]);
        dm(&format!("shell {pool} --index none")).bad(1, &["no index \"none\""]);
    }
    dm(&format!("load {pool} --index none --jobs 0")).bad(2, &["--jobs"]);
    let out = dm(&format!("inspect {pool}")).good();
    assert!(out.contains("0 locks held") && out.contains("0 orphaned chunks"), "{out}");
}
