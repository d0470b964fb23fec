//! Counters for Prometheus, on a port that is off unless asked for.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $kind:literal $help:literal,)*) => {
        /// What a memory node counts.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        impl Counters {
            /// In Prometheus's text format.
            pub fn text(&self) -> String {
                let mut text = String::new();
                $(
                    let name = concat!("dm_memd_", stringify!($name));
                    let value = self.$name.load(Ordering::Relaxed);
                    // Writing to a string does not fail.
                    let _ = write!(text, "# HELP {name} {}\n# TYPE {name} {}\n{name} {value}\n", $help, $kind);
                )*
                text
            }
        }
    };
}

counters! {
    /// Bytes of the region.
    region_bytes: "gauge" "Bytes of the region.",
    /// Sessions now.
    sessions: "gauge" "Compute processes connected now.",
    /// Queue pairs now.
    queue_pairs: "gauge" "Queue pairs connected now.",
    /// Sessions so far.
    sessions_total: "counter" "Compute processes let in so far.",
    /// Queue pairs so far.
    queue_pairs_total: "counter" "Queue pairs connected so far.",
    /// Clients turned away.
    refused_total: "counter" "Clients turned away: wrong secret, version, ticket, or no protocol at all.",
    /// Calls answered.
    calls_total: "counter" "Procedure calls answered.",
    /// Sessions fenced off.
    fenced_total: "counter" "Sessions fenced off.",
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn sub(counter: &AtomicU64) {
        counter.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves `text` over HTTP at `address`, on a thread of its own, until the process ends. Answers where.
pub fn serve(address: SocketAddr, text: impl Fn() -> String + Send + 'static) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    std::thread::Builder::new().name("dm-metrics".to_owned()).stack_size(128 << 10).spawn(move || {
        for stream in listener.incoming().flatten() {
            // One after the other, each for a second at most: who scrapes is one process.
            if let Err(error) = answer(&stream, &text()) {
                tracing::debug!("answering a request for metrics: {error}");
            }
        }
    })?;
    Ok(bound)
}

/// As [`serve`], for the counters of a daemon.
pub fn serve_counters(address: SocketAddr, counters: &Arc<Counters>) -> io::Result<SocketAddr> {
    let counters = Arc::clone(counters);
    serve(address, move || counters.text())
}

fn answer(mut stream: &TcpStream, text: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    let mut request = Vec::new();
    let mut piece = [0; 512];
    // Whatever is asked for, there is one answer; a request ends with an empty line.
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < 8192 {
        match stream.read(&mut piece)? {
            0 => break,
            count => request.extend_from_slice(&piece[..count]),
        }
    }
    let (status, text) = if request.starts_with(b"GET ") { ("200 OK", text) } else { ("405 Method Not Allowed", "") };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_can_be_scraped() {
        let counters = Arc::new(Counters::default());
        Counters::add(&counters.sessions);
        let at = serve_counters("127.0.0.1:0".parse().unwrap(), &counters).unwrap();
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
        assert!(text.contains("# TYPE dm_memd_sessions gauge\ndm_memd_sessions 1\n"), "{text}");
    }
}
