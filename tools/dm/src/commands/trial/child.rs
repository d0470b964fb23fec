//! A command as a process of its own, which is ended when its time is over.

use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, fmt, thread};

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct Command {
    /// `None`: this program.
    pub program: Option<&'static str>,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl Command {
    /// This program.
    pub(super) fn dm(arguments: &[&str]) -> Self {
        Self { program: None, arguments: arguments.iter().map(|&argument| argument.to_owned()).collect() }
    }

    /// The same command, to be spawned.
    pub(super) fn command(&self) -> Result<std::process::Command, String> {
        let program = match self.program {
            Some(program) => program.into(),
            None => env::current_exe().map_err(|error| format!("this program's path: {error}"))?,
        };
        let mut command = std::process::Command::new(program);
        command.args(&self.arguments).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs it, for so long at most. What it says goes to files in a directory: nobody has to read while it runs.
    pub(super) fn run(&self, directory: &Path, most: Duration) -> Result<Ended, String> {
        let said = |name: &str| directory.join(name);
        let create =
            |name: &str| File::create(said(name)).map_err(|error| format!("{}: {error}", said(name).display()));
        let mut command = self.command()?;
        command.stdout(create("out")?).stderr(create("err")?);
        let mut child = command.spawn().map_err(|error| format!("{self}: {error}"))?;
        let status = wait(&mut child, most);
        let text = |name: &str| String::from_utf8_lossy(&fs::read(said(name)).unwrap_or_default()).into_owned();
        Ok(Ended { status, most, out: text("out"), err: text("err") })
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.program.unwrap_or("dm"), self.arguments.join(" "))
    }
}

/// How a command ended.
pub(super) struct Ended {
    /// `None`: its time was over.
    status: Option<ExitStatus>,
    most: Duration,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// `Err`: why it failed, in a line.
    pub(super) fn verdict(&self) -> Result<(), String> {
        let last = self.err.lines().chain(self.out.lines()).rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let error = self.err.lines().rfind(|line| line.starts_with("dm: ")).unwrap_or(last);
        match self.status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{status}: {}", error.trim_start_matches("dm: ").trim())),
            None => Err(format!("not done after {:.1} s, and ended", self.most.as_secs_f64())),
        }
    }
}

/// Waits for so long at most; then asks the process to end, and ends it a second later.
fn wait(child: &mut Child, most: Duration) -> Option<ExitStatus> {
    const SECOND: Duration = Duration::from_secs(1);
    let began = Instant::now();
    let mut asked = false;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status).filter(|_| !asked),
            Ok(None) => {}
            Err(_) => return None,
        }
        if !asked && began.elapsed() > most {
            asked = true;
            stop(child);
        } else if began.elapsed() > most + SECOND {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Asks a process to end.
pub(super) fn stop(child: &Child) {
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // Not waited for yet, so the number is still its own.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// What a command wrote for machines, if it did.
pub(super) fn json<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// Whether a program is where a shell would look for it.
pub(super) fn is_installed(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|directory| directory.join(program).is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        Command { program: Some("sh"), arguments: vec!["-c".to_owned(), script.to_owned()] }
    }

    #[test]
    fn a_command_ends_by_itself_or_is_ended_and_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let run = |script, most| shell(script).run(directory.path(), Duration::from_secs(most)).unwrap();
        let good = run("echo out; echo err >&2", 60);
        assert!(good.verdict().is_ok() && good.out == "out\n" && good.err == "err\n");
        let bad = run("echo out; echo 'dm: it broke' >&2; exit 3", 60).verdict().unwrap_err();
        assert!(bad.contains('3') && bad.ends_with(": it broke"), "{bad}");
        // Whatever it does with the first signal.
        for script in [
            "exec sleep 1000",
            "trap '' TERM; while :; do sleep 0.01; done",
            "trap 'exit 0' TERM; while :; do sleep 0.01; done",
        ] {
            let late = run(script, 0).verdict().unwrap_err();
            assert!(late.contains("not done after"), "{script}: {late}");
        }
        assert!(is_installed("sh") && !is_installed("no-such-program"));
    }
}
