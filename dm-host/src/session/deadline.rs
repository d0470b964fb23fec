//! Deadlines of calls.

use super::error::SessionError;
use std::time::{Duration, Instant};

/// A deadline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    since: Instant,
    at: Instant,
}

impl Deadline {
    /// `None`: later than any clock reaches.
    pub(super) fn after(time: Duration) -> Option<Self> {
        let since = Instant::now();
        since.checked_add(time).map(|at| Self { since, at })
    }

    /// Time left; fails if there is none.
    pub(super) fn left(self) -> Result<Duration, SessionError> {
        let now = Instant::now();
        if now >= self.at {
            return Err(SessionError::Deadline { waited: now.saturating_duration_since(self.since) });
        }
        Ok(self.at - now)
    }
}
