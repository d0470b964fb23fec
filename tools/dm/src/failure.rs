//! Why a command ends early, and where its output goes.

use std::fmt;
use std::io::{self, Write as _};

/// Why a command ended early.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for makes no sense: exit code 2.
    Usage(String),
    /// It could not be done: exit code 1.
    Run(String),
}

impl Failure {
    /// A usage error from anything that can be said.
    pub fn usage(error: impl fmt::Display) -> Self {
        Self::Usage(error.to_string())
    }

    /// A failure from anything that can be said.
    pub fn run(error: impl fmt::Display) -> Self {
        Self::Run(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Run(text)) = self;
        f.write_str(text)
    }
}

/// Writes to the standard output. A reader that has gone (`dm ... | head`) is no failure of this command, but it ends
/// then.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(1),
        written => written.map_err(|error| Failure::Run(format!("cannot write to the standard output: {error}"))),
    }
}
