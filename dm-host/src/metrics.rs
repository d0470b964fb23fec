//! Metrics for Prometheus, at an address that is off unless asked for.
//!
//! [`Endpoint`] serves pages over HTTP; `page` has the text format. One thread answers all clients of an address, and
//! waits for none of them: a client that is slow or silent costs a descriptor until its time is over.

mod page;

pub(crate) use page::{Kind, Labels, Page};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long one scrape may take.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// Most clients at a time. When one more comes, the oldest has to go.
const CLIENTS_MAX: usize = 32;

/// Bytes of a request that are read. Its content does not matter.
const REQUEST_BYTES_MAX: usize = 8192;

type Content = Box<dyn Fn() -> Page + Send>;

/// The pages of one address, each with a number.
#[derive(Default)]
struct Contents {
    pages: Vec<(u64, Content)>,
    next: u64,
}

/// A listening thread.
struct Listening {
    address: SocketAddr,
    contents: Arc<Mutex<Contents>>,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// The addresses that this process serves at.
static LISTENING: Mutex<Vec<Weak<Listening>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A page of metrics, served over HTTP until this value is dropped. All pages that a process serves at one address are
/// answered as one.
pub(crate) struct Endpoint {
    /// Some until it is dropped.
    listening: Option<Arc<Listening>>,
    number: u64,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Serves what `page` returns at the time of each request. The error names the address.
    pub(crate) fn serve(address: SocketAddr, page: impl Fn() -> Page + Send + 'static) -> io::Result<Self> {
        let mut all = lock(&LISTENING);
        all.retain(|listening| listening.strong_count() > 0);
        let found = all.iter().filter_map(Weak::upgrade).find(|listening| listening.address == address);
        let listening = if let Some(found) = found {
            found
        } else {
            let started = Listening::start(address)
                .map_err(|error| io::Error::new(error.kind(), format!("cannot serve metrics at {address}: {error}")))?;
            let started = Arc::new(started);
            all.push(Arc::downgrade(&started));
            started
        };
        let mut contents = lock(&listening.contents);
        let number = contents.next;
        contents.next += 1;
        contents.pages.push((number, Box::new(page)));
        drop(contents);
        Ok(Self { listening: Some(listening), number })
    }

    /// The address it is served at.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listening.as_ref().map(|listening| listening.address)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let Some(listening) = self.listening.take() else { return };
        lock(&listening.contents).pages.retain(|(number, _)| *number != self.number);
        // The last page ends the thread. Another thread that wants to serve there waits, and then finds the address free.
        let _all = lock(&LISTENING);
        drop(listening);
    }
}

impl Listening {
    fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = UnixStream::pair()?;
        let contents = Arc::new(Mutex::new(Contents::default()));
        let mut server = Server { listener, stopped, contents: Arc::clone(&contents), clients: Vec::new() };
        let thread = thread::Builder::new()
            .name("dm-metrics".to_owned())
            .stack_size(128 << 10)
            .spawn(move || while server.turn() {})?;
        Ok(Self { address, contents, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Listening {
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

/// One connection.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    /// The answer and how much of it is sent, once the request is here.
    answer: Option<(Vec<u8>, usize)>,
    deadline: Instant,
}

struct Server {
    listener: TcpListener,
    stopped: UnixStream,
    contents: Arc<Mutex<Contents>>,
    clients: Vec<Client>,
}

impl Server {
    /// Waits until something happens and does what it asks for. `false`: the thread should stop.
    fn turn(&mut self) -> bool {
        let timeout = self.clients.iter().map(|client| client.deadline).min().map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) }
        });
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.stopped.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
        ];
        fds.extend(self.clients.iter().map(|client| {
            let flags = if client.answer.is_some() { PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(client.stream.as_fd(), flags)
        }));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return true,
            Err(error) => {
                tracing::error!("no more metrics: {error}");
                return false;
            }
        }
        let happened: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if happened[0] {
            return false;
        }
        let now = Instant::now();
        let mut ready = happened[2..].iter();
        let contents = &self.contents;
        self.clients.retain_mut(|client| {
            let ready = ready.next().is_some_and(|ready| *ready);
            let stays = !ready || client.go_on(contents).unwrap_or(false);
            stays && now < client.deadline
        });
        if happened[1] {
            self.accept(now);
        }
        true
    }

    fn accept(&mut self, now: Instant) {
        let accepted = self.listener.accept().and_then(|(stream, _)| stream.set_nonblocking(true).map(|()| stream));
        match accepted {
            Ok(stream) => {
                if self.clients.len() >= CLIENTS_MAX {
                    self.clients.remove(0);
                }
                self.clients.push(Client { stream, request: Vec::new(), answer: None, deadline: now + ANSWER_WAIT });
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => {
                // The process is out of descriptors, for example. The listener stays readable, so do not spin on it.
                tracing::debug!("accepting a request for metrics: {error}");
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

impl Client {
    /// Reads or writes what is possible now. `false`: it is served, or gone.
    fn go_on(&mut self, contents: &Mutex<Contents>) -> io::Result<bool> {
        let waits = |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
        let (answer, sent) = match &mut self.answer {
            Some(answer) => answer,
            none => {
                let mut piece = [0; 2048];
                let count = match self.stream.read(&mut piece) {
                    Ok(count) => count,
                    Err(error) if waits(&error) => return Ok(true),
                    Err(error) => return Err(error),
                };
                self.request.extend_from_slice(&piece[..count]);
                // Every request gets the same answer; a request ends with an empty line.
                let ended = count == 0 || self.request.windows(4).any(|end| end == b"\r\n\r\n");
                if !ended && self.request.len() < REQUEST_BYTES_MAX {
                    return Ok(true);
                }
                none.insert((answer(&self.request, contents), 0))
            }
        };
        match self.stream.write(&answer[*sent..]) {
            Ok(0) => Ok(false),
            Ok(count) => {
                *sent += count;
                Ok(*sent < answer.len())
            }
            Err(error) if waits(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

fn answer(request: &[u8], contents: &Mutex<Contents>) -> Vec<u8> {
    let (status, text) = if request.starts_with(b"GET ") {
        let mut all = Page::default();
        for (_, page) in &lock(contents).pages {
            all.append(&page());
        }
        ("200 OK", all.to_string())
    } else {
        ("405 Method Not Allowed", String::new())
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &'static str) -> impl Fn() -> Page + Send {
        move || {
            let mut page = Page::default();
            page.put("dm_x_total", Kind::Counter, "Things.", [(Labels::default().with("of", name), 3)]);
            page
        }
    }

    fn serve(name: &'static str) -> (Endpoint, SocketAddr) {
        let endpoint = Endpoint::serve("127.0.0.1:0".parse().unwrap(), page(name)).unwrap();
        let address = endpoint.address().unwrap();
        (endpoint, address)
    }

    fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn scrape(address: SocketAddr) -> String {
        ask(&mut TcpStream::connect(address).unwrap(), b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    }

    #[test]
    fn a_page_is_served_until_its_owner_goes() {
        let (endpoint, address) = serve("a");
        let text = scrape(address);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(
            text.ends_with("\r\n\r\n# HELP dm_x_total Things.\n# TYPE dm_x_total counter\ndm_x_total{of=\"a\"} 3\n")
        );
        drop(endpoint);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn an_address_of_this_process_is_shared_and_one_of_another_is_not() {
        let (first, address) = serve("a");
        let second = Endpoint::serve(address, page("b")).unwrap();
        let text = scrape(address);
        assert!(text.ends_with("counter\ndm_x_total{of=\"a\"} 3\ndm_x_total{of=\"b\"} 3\n"), "{text}");
        drop(first);
        let text = scrape(address);
        assert!(text.ends_with("counter\ndm_x_total{of=\"b\"} 3\n"), "{text}");
        drop(second);
        let taken = TcpListener::bind(address).unwrap();
        let error = Endpoint::serve(taken.local_addr().unwrap(), page("c")).unwrap_err().to_string();
        assert!(error.contains(&address.to_string()) && error.contains("in use"), "{error}");
    }

    #[test]
    fn clients_that_are_silent_or_do_not_read_block_nobody() {
        let (_endpoint, address) = serve("a");
        // More than are kept. Each has a connection, and some have sent half a request.
        let mut silent: Vec<_> = (0..2 * CLIENTS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
        for stream in silent.iter_mut().step_by(2) {
            let _ = stream.write_all(b"GET /metr");
        }
        let began = Instant::now();
        for _ in 0..3 {
            assert!(scrape(address).contains("dm_x_total"));
        }
        // Far below the time that one of them may take.
        assert!(began.elapsed() < ANSWER_WAIT, "{:?}", began.elapsed());
        // The newest of them are still served.
        let last = silent.last_mut().unwrap();
        assert!(ask(last, b"GET / HTTP/1.0\r\n\r\n").contains("dm_x_total"));
    }

    #[test]
    fn who_does_not_ask_properly_is_told_so() {
        let (_endpoint, address) = serve("secret");
        let text = ask(&mut TcpStream::connect(address).unwrap(), b"POST / HTTP/1.1\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 405 ") && !text.contains("secret"), "{text}");
    }
}
