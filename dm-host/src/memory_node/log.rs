//! The daemon's log: a line for each event, on the standard error.

use clap::ValueEnum;
use rustix::fs::fstat;
use std::io::{self, Write};
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// What the log tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogLevel {
    /// Nothing
    Off,
    /// What the daemon could not do
    Error,
    /// Also deaths, fencing and refusals
    Warn,
    /// Also joins, leaves, start and end
    Info,
    /// Also every connection
    Debug,
    /// Everything
    Trace,
}

impl LogLevel {
    pub(super) fn directive(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Starts the log, unless the process has one. `level` counts more than the environment's RUST_LOG; without both it is
/// info.
pub(super) fn start(level: Option<LogLevel>) {
    let asked = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    let filter = match (level, asked) {
        (Some(level), _) => EnvFilter::new(level.directive()),
        (None, Some(asked)) => EnvFilter::try_new(asked).unwrap_or_else(|_| EnvFilter::new("info")),
        (None, None) => EnvFilter::new("info"),
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    // Fails only if the process has a log.
    let _ = if is_read_by_journald() {
        log.without_time().with_writer(ForJournald).try_init()
    } else {
        log.with_writer(io::stderr).try_init()
    };
}

/// The standard error, each line behind the priority that journald is to give it: see sd-daemon(3). So `journalctl -p warning`
/// shows what somebody has to look at.
struct ForJournald;

/// One line of it.
struct Line {
    priority: &'static str,
}

impl<'a> MakeWriter<'a> for ForJournald {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { priority: "<6>" }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line {
        let priority = match *event.level() {
            Level::ERROR => "<3>",
            Level::WARN => "<4>",
            Level::INFO => "<6>",
            _ => "<7>",
        };
        Line { priority }
    }
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // At once: lines of other threads must not come in between.
        io::stderr().write_all(&[self.priority.as_bytes(), line].concat())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Whether the standard error leads to journald, which adds the time itself. systemd names the stream's device and inode,
/// so that a process that inherits the variable, but not the stream, can tell.
fn is_read_by_journald() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    fstat(std::io::stderr()).is_ok_and(|stat| named == format!("{}:{}", stat.st_dev, stat.st_ino))
}
