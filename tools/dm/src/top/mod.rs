//! `dm top`: what a pool does now, again and again.
//!
//! | module | what it is |
//! |---|---|
//! | `sample` | one look: the pool's own tables, READ without joining it, and pages of metrics |
//! | `metrics` | a page of metrics: fetched and read |
//! | `view` | what two looks after each other say: rates, and costs of an operation |
//! | `draw` | that on a terminal |

mod draw;
mod metrics;
mod sample;
mod view;

use crate::failure::{Failure, print};
use crate::tool::PoolArguments;
use draw::{draw, frame_text};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use sample::Source;
use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use view::{Heartbeats, View};

/// Arguments of `dm top`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dm top --pool /run/dm/0,/run/dm/1\n  dm top --pool /run/dm/0 --metrics 127.0.0.1:9100,127.0.0.1:9101\n  \
                        dm top --pool /run/dm/0 --once\n\n\
                        Operations are those of the sessions whose metrics are named: `--metrics` of dm-memd, `SessionOptions::metrics` of a \
                        program. All else is READ from the pool, without joining it.\n\
                        q ends it."
)]
pub struct Arguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Metrics of memory nodes and sessions to show, too
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS:PORT,...")]
    metrics: Vec<SocketAddr>,

    /// Time between two looks, in ms
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    interval_ms: u64,

    /// Print one picture as text, after one interval, and end
    #[arg(long)]
    once: bool,
}

/// Width and height of what `--once` prints; what does not fill the height is not printed.
const PAGE: (u16, u16) = (110, 200);

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.once && !io::stdout().is_terminal() {
        return Err(Failure::Usage("the standard output is no terminal; --once prints one picture".to_owned()));
    }
    let memory = arguments.pool.connect()?;
    let source = Source { pool: &memory.pool, metrics: &arguments.metrics };
    let interval = Duration::from_millis(arguments.interval_ms);
    let mut heartbeats = Heartbeats::default();
    let mut last = source.look()?;
    heartbeats.see(&last);
    if arguments.once {
        std::thread::sleep(interval);
        let now = source.look()?;
        heartbeats.see(&now);
        return print(&frame_text(&View::of(&last, &now, &heartbeats), PAGE));
    }
    let failed = |error: io::Error| Failure::Run(format!("the terminal: {error}"));
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let mut view = View::of(&last, &last, &heartbeats);
    let ended = loop {
        if let Err(error) = terminal.draw(|frame| draw(frame, &view)) {
            break Err(failed(error));
        }
        match wait(interval) {
            Ok(Turn::Leave) => break Ok(()),
            Ok(Turn::Redraw) => continue,
            Ok(Turn::Look) => {}
            Err(error) => break Err(failed(error)),
        }
        let now = match source.look() {
            Ok(now) => now,
            Err(failure) => break Err(failure),
        };
        heartbeats.see(&now);
        view = View::of(&last, &now, &heartbeats);
        last = now;
    };
    ratatui::try_restore().map_err(failed).and(ended)
}

/// What comes next.
enum Turn {
    Look,
    Redraw,
    Leave,
}

/// Waits for a key, another size of the terminal, or the end of the interval.
fn wait(interval: Duration) -> io::Result<Turn> {
    let deadline = Instant::now() + interval;
    loop {
        if !event::poll(deadline.saturating_duration_since(Instant::now()))? {
            return Ok(Turn::Look);
        }
        match event::read()? {
            Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) => match code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(Turn::Leave),
                KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return Ok(Turn::Leave),
                _ => {}
            },
            Event::Resize(..) => return Ok(Turn::Redraw),
            _ => {}
        }
    }
}
