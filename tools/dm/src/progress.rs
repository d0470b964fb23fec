//! How far a command is, for somebody who waits.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use std::io::IsTerminal as _;

/// A bar with the time that is left, on the standard error if that is a terminal. If nobody knows the total, a count.
pub(crate) fn progress(what: &str, total: Option<u64>) -> ProgressBar {
    if total == Some(0) || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    // Cleared also when the command fails, so that what failed stands on a line of its own.
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr()).with_finish(ProgressFinish::AndClear);
    let style = ProgressStyle::with_template(match total {
        Some(_) => "{msg:>10} [{bar:40}] {human_pos} of {human_len}, {eta} left",
        None => "{msg:>10} {human_pos}",
    });
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}
