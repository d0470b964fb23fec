//! `--trace FILE.csv`: every verb of every operation, one line each.
//!
//! ```text
//! operation,kind,lane,label,verb,memory_node,bytes,round_trip,time_ns
//! 0,read,3,leaf,READ,1,1024,0,812
//! ```
//!
//! | column | meaning |
//! |---|---|
//! | operation | number of the operation in its run, from 0 |
//! | kind | [`OperationKind`]: `read`, `update`, `insert`, `scan`, `read_modify_write` |
//! | lane | the lane that did it |
//! | label | the step of the algorithm that issued the verb: `leaf`, `lock`, `unlock`, ... |
//! | verb | `READ`, `WRITE`, `CAS`, `FAA`, ... |
//! | memory_node | logical number of the memory node |
//! | bytes | payload, in bytes |
//! | round_trip | which round trip of the operation carried it, from 0 |
//! | time_ns | since the run began, in nanoseconds |

use super::OperationKind;
use std::{
    borrow::Cow,
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// The first line of a trace.
pub const HEADER: &str = "operation,kind,lane,label,verb,memory_node,bytes,round_trip,time_ns";

/// How much is gathered before it is written: a few thousand lines.
const BUFFER_BYTES: usize = 256 * 1024;

/// One verb of one operation; the columns are explained at the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow<'a> {
    /// Number of the operation in its run, from 0.
    pub operation: u64,
    /// What the operation does.
    pub kind: OperationKind,
    /// The lane that did it.
    pub lane: u32,
    /// The step that issued the verb.
    pub label: &'a str,
    /// The verb.
    pub verb: &'a str,
    /// The memory node it went to.
    pub memory_node: u16,
    /// Payload in bytes.
    pub bytes: u32,
    /// Which round trip of the operation carried it, from 0.
    pub round_trip: u32,
    /// Nanoseconds since the run began.
    pub time_ns: u64,
}

/// A trace could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the trace {}: {source}", path.display())]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Writes a trace. End it with [`finish`](Self::finish): a dropped writer cannot report that the last lines were lost.
#[derive(Debug)]
#[must_use = "finish() writes the last lines and reports errors"]
pub struct TraceWriter<W: Write = File> {
    path: PathBuf,
    output: BufWriter<W>,
}

impl TraceWriter<File> {
    /// Creates the file, or empties it, and writes the header.
    pub fn create(path: &Path) -> Result<Self, TraceError> {
        let file = File::create(path).map_err(|source| TraceError { path: path.to_path_buf(), source })?;
        Self::new(path, file)
    }
}

impl<W: Write> TraceWriter<W> {
    /// Writes to `output`, header first; `path` is for messages.
    pub fn new(path: &Path, output: W) -> Result<Self, TraceError> {
        let output = BufWriter::with_capacity(BUFFER_BYTES, output);
        let mut writer = Self { path: path.to_path_buf(), output };
        let written = writeln!(writer.output, "{HEADER}");
        writer.reported(written)?;
        Ok(writer)
    }

    /// Adds one line.
    pub fn write(&mut self, row: &TraceRow<'_>) -> Result<(), TraceError> {
        let TraceRow { operation, kind, lane, label, verb, memory_node, bytes, round_trip, time_ns } = *row;
        let (label, verb) = (quoted(label), quoted(verb));
        let written = writeln!(
            self.output,
            "{operation},{kind},{lane},{label},{verb},{memory_node},{bytes},{round_trip},{time_ns}"
        );
        self.reported(written)
    }

    /// Writes what is still buffered.
    pub fn finish(mut self) -> Result<(), TraceError> {
        let written = self.output.flush();
        self.reported(written)
    }

    fn reported(&self, written: io::Result<()>) -> Result<(), TraceError> {
        written.map_err(|source| TraceError { path: self.path.clone(), source })
    }
}

/// A field as RFC 4180 writes it: quoted if it holds a comma, a quote or the end of a line.
fn quoted(field: &str) -> Cow<'_, str> {
    if field.contains([',', '"', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", field.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: TraceRow<'static> = TraceRow {
        operation: 7,
        kind: OperationKind::ReadModifyWrite,
        lane: 3,
        label: "leaf",
        verb: "READ",
        memory_node: 1,
        bytes: 1_024,
        round_trip: 2,
        time_ns: 812,
    };

    #[test]
    fn a_trace_is_a_header_and_a_line_a_verb() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.csv");
        let mut writer = TraceWriter::create(&path).unwrap();
        writer.write(&ROW).unwrap();
        writer.write(&TraceRow { label: "lock, \"hand over\"", verb: "CAS", operation: 8, ..ROW }).unwrap();
        writer.finish().unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "operation,kind,lane,label,verb,memory_node,bytes,round_trip,time_ns\n\
             7,read_modify_write,3,leaf,READ,1,1024,2,812\n\
             8,read_modify_write,3,\"lock, \"\"hand over\"\"\",CAS,1,1024,2,812\n"
        );
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named() {
        let error = TraceWriter::create(Path::new("no/such/directory/trace.csv")).unwrap_err().to_string();
        assert!(error.starts_with("cannot write the trace no/such/directory/trace.csv: "), "{error}");
    }

    /// A disk with room for a few bytes.
    struct SmallDisk(usize);

    impl Write for SmallDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let written = bytes.len().min(self.0);
            self.0 -= written;
            Ok(written)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_reported_at_the_end_if_not_before() {
        let mut writer = TraceWriter::new(Path::new("t.csv"), SmallDisk(80)).unwrap();
        writer.write(&ROW).unwrap();
        assert!(writer.finish().unwrap_err().to_string().starts_with("cannot write the trace t.csv: "));

        let mut writer = TraceWriter::new(Path::new("t.csv"), SmallDisk(80)).unwrap();
        let failed = (0..BUFFER_BYTES).find_map(|_| writer.write(&ROW).err());
        assert!(failed.is_some());
    }
}
