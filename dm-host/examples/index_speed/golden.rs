//! The golden of instructions: what operations took when somebody looked at it last.
//!
//! It says which compiler made the program, and for what processor. With others the counts mean nothing, so they are not
//! compared.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

/// The word that asks for the comparison.
pub const ASKED: &str = "golden";

/// By how much a count may differ.
const SLACK_PERCENT: u64 = 3;

/// An index, an operation, and its instructions.
pub type Count = (String, String, u64);

/// Compares counts with the golden, or writes it if DM_BLESS is set. The exit code is 77 if they cannot be compared.
pub fn check(counts: &[Count]) -> ExitCode {
    let file: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../tests/goldens/instructions.txt"].iter().collect();
    if env::var_os("DM_BLESS").is_some() {
        fs::write(&file, render(counts)).expect("a golden");
        return ExitCode::SUCCESS;
    }
    let golden = fs::read_to_string(&file).expect("a golden; DM_BLESS=1 writes it");
    let made_for = golden.lines().nth(1).unwrap_or_default().trim_start_matches("# ");
    if made_for != made_for_here() {
        println!("not tried: the golden is of {made_for}, and this program of {}", made_for_here());
        return ExitCode::from(77);
    }
    let blessed = parse(&golden);
    let names = |counts: &[Count]| counts.iter().map(|(a, b, _)| (a.clone(), b.clone())).collect::<Vec<_>>();
    let mut holds = names(&blessed) == names(counts);
    for ((index, operation, count), (_, _, blessed)) in counts.iter().zip(&blessed) {
        let percent = (*count as f64 / *blessed as f64 - 1.0) * 100.0;
        if count.abs_diff(*blessed) * 100 > blessed * SLACK_PERCENT {
            holds = false;
            println!("{index} {operation}: {count} instructions, blessed are {blessed}: {percent:+.1} %");
        }
    }
    if !holds {
        println!("tests/goldens/instructions.txt does not hold any more; if that is meant, DM_BLESS=1 blesses it");
    }
    ExitCode::from(u8::from(!holds))
}

fn render(counts: &[Count]) -> String {
    let command = env::args().skip(1).collect::<Vec<_>>().join(" ");
    let mut text = format!(
        "# Instructions of one operation, which may differ by {SLACK_PERCENT} %: `tests/run instructions` compares, with DM_BLESS=1 it writes.\n\
         # {}\n\
         # profile release, whole: index_speed {command}\n",
        made_for_here()
    );
    for (index, operation, count) in counts {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{index:<8} {operation:<8} {count:>8}");
    }
    text
}

fn parse(golden: &str) -> Vec<Count> {
    let count = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    golden.lines().filter(|line| !line.starts_with('#')).filter_map(count).collect()
}

/// The compiler, as it noted itself in this program's file, and what of the processor decides which instructions there are.
fn made_for_here() -> String {
    let program = fs::read(env::current_exe().expect("this program's file")).expect("this program's file");
    // The section ".comment" has a number behind these words; where this function has them, none follows.
    let mark = b"rustc version ";
    let is_note = |at: &&[u8]| at.starts_with(mark) && at[mark.len()].is_ascii_digit();
    let note = program.windows(64).find(is_note).unwrap_or(mark);
    let version = note[mark.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    format!("rustc {}, {}, {}", String::from_utf8_lossy(version), env::consts::ARCH, lines())
}

/// What copies lines.
fn lines() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512bw") {
        return "AVX-512";
    }
    "no AVX-512"
}
