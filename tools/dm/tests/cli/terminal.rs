//! Terminals of tests.

use crate::command;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Child;

/// A terminal: its other side, and a program's.
pub(crate) fn terminal() -> (fs::File, fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let mut options = fs::File::options();
    let options = options.read(true).write(true).custom_flags(OpenptFlags::NOCTTY.bits().cast_signed());
    (fs::File::from(master), options.open(name).unwrap())
}

/// Pieces of output that are read for one text.
const READS: usize = 1000;

/// A command that writes nothing for so long waits for something: a test that fails is better than one that never ends.
const SILENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// A command on a terminal, and what it has written that nobody waited for yet.
pub(crate) struct Terminal {
    other_side: fs::File,
    child: Child,
    said: String,
}

impl Terminal {
    /// Starts a command.
    pub(crate) fn start(arguments: &str) -> Self {
        let (other_side, terminal) = terminal();
        let size = rustix::termios::Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&terminal, size).unwrap();
        let (copy, third) = (terminal.try_clone().unwrap(), terminal.try_clone().unwrap());
        let child = command(arguments).stdin(terminal).stdout(copy).stderr(third).env("TERM", "xterm").spawn().unwrap();
        Self { other_side, child, said: String::new() }
    }

    /// Types. Before control keys the next prompt has to be awaited: until then the terminal takes them for its own.
    pub(crate) fn press(&mut self, keys: &str) {
        self.other_side.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until `text` was written since the last call. The test fails if the command ends without it, writes much else, or
    /// is silent for [`SILENCE`].
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        for _ in 0..READS {
            if self.said.contains(text) {
                break;
            }
            assert!(self.read() > 0, "it ended without {text:?}: {:?}", self.said);
        }
        assert!(self.said.contains(text), "it has not written {text:?}: {:?}", self.said);
        let end = self.said.find(text).unwrap() + text.len();
        self.said.drain(..end);
    }

    /// Reads what is left, and answers the exit code. The test fails if the command is silent for [`SILENCE`].
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Option<i32> {
        while self.read() > 0 {}
        self.child.wait().unwrap().code()
    }

    /// Reads a piece. 0: the last process has closed the terminal.
    #[track_caller]
    fn read(&mut self) -> usize {
        let mut piece = [0; 1024];
        let mut waits = [PollFd::new(&self.other_side, PollFlags::IN)];
        let ready = poll(&mut waits, Some(&SILENCE)).unwrap();
        assert!(ready > 0, "it waits, and has written {:?} since", self.said);
        let count = self.other_side.read(&mut piece).unwrap_or(0);
        self.said.push_str(&String::from_utf8_lossy(&piece[..count]));
        count
    }

    /// What it has written since the last text that was waited for.
    pub(crate) fn rest(&self) -> &str {
        &self.said
    }
}

impl Drop for Terminal {
    /// What has ended already cannot be killed, and is waited for once.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
