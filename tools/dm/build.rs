//! Tells the command which commit it was built from, for records of what was verified.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=DM_COMMIT");
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8(output.stdout).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    // What HEAD says, and what the branch it names says.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file])
            && Path::new(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let commit = std::env::var("DM_COMMIT").ok().or_else(|| git(&["rev-parse", "HEAD"]));
    println!("cargo:rustc-env=DM_COMMIT={}", commit.unwrap_or_else(|| "unknown".to_owned()));
}
