//! A page of metrics: fetched over HTTP, and read from Prometheus's text format.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a page may take to come.
const WAIT: Duration = Duration::from_secs(2);

/// Bytes of a page that are read: some hundred sessions.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// Name and labels of a sample, as they stand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Series {
    /// Its name.
    pub name: String,
    /// Its labels, in the page's order.
    pub labels: Vec<(String, String)>,
}

impl Series {
    /// The value of a label; empty if there is none.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// Values by name and labels.
pub(super) type Values = BTreeMap<Series, f64>;

/// Fetches a page.
pub(super) fn fetch(address: SocketAddr) -> io::Result<Values> {
    let mut stream = TcpStream::connect_timeout(&address, WAIT)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(PAGE_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let (head, page) = text.split_once("\r\n\r\n").ok_or_else(|| invalid("no answer in HTTP"))?;
    if head.split(' ').nth(1) != Some("200") {
        return Err(invalid(head.lines().next().unwrap_or_default()));
    }
    Ok(page.lines().filter_map(sample).collect())
}

/// Reads a line; `None`: it is a comment, or nothing that this program knows.
fn sample(line: &str) -> Option<(Series, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.push((label.to_owned(), value));
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.trim().split(' ').next()?.parse().ok()?;
    Some((Series { name: name.to_owned(), labels }, value))
}

/// The value of a label up to its closing quote, and what is behind that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn lines_are_read_with_their_labels() {
        let (series, value) = sample("dm_x_total{pool=\"a\\\"b\\\\c\\nd,}\",index=\"\"} 3").unwrap();
        assert_eq!((series.name.as_str(), value), ("dm_x_total", 3.0));
        assert_eq!((series.label("pool"), series.label("index"), series.label("row")), ("a\"b\\c\nd,}", "", ""));
        assert!((sample("dm_y 1.5").unwrap().1 - 1.5).abs() < 1e-9);
        assert!(sample("dm_z{le=\"+Inf\"} +Inf").unwrap().1.is_infinite());
        for line in ["# HELP dm_x Things.", "", "dm_x", "dm_x{a=\"b", "dm_x{a} 3", "dm_x{a=\"b\"} many"] {
            assert!(sample(line).is_none(), "{line}");
        }
    }

    #[test]
    fn a_page_that_is_none_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = [
            "HTTP/1.1 200 OK\r\n\r\n# TYPE a counter\na 1\nb{c=\"d\"} 2\n",
            "HTTP/1.1 404 Not Found\r\n\r\n",
            "SSH-2.0\r\n",
        ];
        let server = std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 512];
                let _ = stream.read(&mut request);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        assert_eq!(fetch(address).unwrap().len(), 2);
        assert!(fetch(address).unwrap_err().to_string().contains("404"));
        assert!(fetch(address).unwrap_err().to_string().contains("no answer in HTTP"));
        server.join().unwrap();
        assert!(fetch(address).is_err(), "nobody listens any more");
    }
}
