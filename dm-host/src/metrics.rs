//! Metrics for Prometheus, at an address that is off unless asked for: [`Endpoint`], and the text format.

use std::fmt::{Display, Write as _};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long one scrape may take: the thread answers one after the other.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// Bytes of a request that are read. Its content does not matter.
const REQUEST_BYTES_MAX: usize = 8192;

/// A page of metrics, served over HTTP by a thread of its own until this value is dropped.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// Serves what `text` returns at the time of each request. The error names the address.
    pub fn serve(address: SocketAddr, text: impl Fn() -> String + Send + 'static) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot serve metrics at {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(named)?;
        listener.set_nonblocking(true).map_err(named)?;
        let address = listener.local_addr().map_err(named)?;
        let (stop, stopped) = UnixStream::pair()?;
        let serve = move || {
            while wait(&listener, &stopped) {
                let answered = listener.accept().and_then(|(stream, _)| answer(&stream, &text()));
                if let Err(error) = answered {
                    tracing::debug!("answering a request for metrics: {error}");
                }
            }
        };
        let thread = thread::Builder::new().name("dm-metrics".to_owned()).stack_size(128 << 10).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address it is served at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // The other end of the pair becomes readable.
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that serves metrics panicked");
        }
    }
}

/// Waits for a client. `false`: the thread should stop.
fn wait(listener: &TcpListener, stopped: &UnixStream) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [
        PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
    ];
    match poll(&mut fds, None) {
        Ok(_) => fds[0].revents().is_empty(),
        Err(rustix::io::Errno::INTR) => true,
        Err(error) => {
            tracing::error!("no more metrics: {error}");
            false
        }
    }
}

fn answer(mut stream: &TcpStream, text: &str) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    stream.set_write_timeout(Some(ANSWER_WAIT))?;
    let began = Instant::now();
    let mut request = Vec::new();
    let mut piece = [0; 512];
    // Every request gets the same answer; a request ends with an empty line.
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        if began.elapsed() > ANSWER_WAIT {
            return Err(io::ErrorKind::TimedOut.into());
        }
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

/// Appends one metric in Prometheus's text format: `kind` is `counter` or `gauge`; each of `values` has its labels, e.g.
/// `{operation="get"}`, or none.
pub fn put<L: Display, V: Display>(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, V)>,
) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in values {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

/// The answer to a scrape of `address`, for tests.
#[cfg(test)]
pub(crate) fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_served_until_its_owner_goes() {
        let endpoint = Endpoint::serve("127.0.0.1:0".parse().unwrap(), || {
            let mut text = String::new();
            put(&mut text, "dm_x_total", "counter", "Things.", [("{kind=\"a\"}", 3), ("{kind=\"b\"}", 4)]);
            text
        });
        let endpoint = endpoint.unwrap();
        let address = endpoint.address();
        let text = scrape(address);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        let page = "# HELP dm_x_total Things.\n# TYPE dm_x_total counter\ndm_x_total{kind=\"a\"} 3\ndm_x_total{kind=\"b\"} 4\n";
        assert!(text.ends_with(page), "{text}");
        let taken = Endpoint::serve(address, String::new).unwrap_err().to_string();
        assert!(taken.contains(&address.to_string()) && taken.contains("in use"), "{taken}");
        drop(endpoint);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn who_does_not_ask_properly_is_told_so() {
        let endpoint = Endpoint::serve("127.0.0.1:0".parse().unwrap(), || "secret 1\n".to_owned()).unwrap();
        let mut stream = TcpStream::connect(endpoint.address()).unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 405 ") && !text.contains("secret"), "{text}");
    }
}
