//! `dm dump` and `dm load`: an index to a file or a pipe, and back.
//!
//! ```text
//! offset  bytes
//!  0       8      magic "dm-dump\n"
//!  8       4      version, 2; all numbers little-endian
//! 12       2      kind of the index, as in the catalog
//! 14       2      version of its parameter block
//! 16       64     its parameter block, as in the catalog: among others, the bytes of a key, k, and of a value, v, without its
//!                 checksum, if records have some in the index
//! 80       ...    records, keys ascending: 1 byte 0x01, k bytes of key, v bytes of value; if keys and values have any
//!                 length, between the first and the rest, the lengths k (2 bytes) and v (4 bytes) of this record
//!          1      0x00: no more records
//!          8      how many there were
//!          4      CRC-32 (ISO-HDLC, as in zip and PNG) of everything before
//! ```
//!
//! A dump is not a snapshot: each record is as of some instant of the walk.
//!
//! [`parts`]: several lanes scan the index, each another part of its keys, and their parts are written in order. [`put`]: one
//! reader reads and checks a dump, and several lanes put its records.
//!
//! **Damage.** The index is walked first, which checks all that its nodes say of each other. The records have to
//! ascend, and their number has to be that of the walk. This does not detect a change of one entry that fits everything
//! else. SMART has no such change: the checksum of a leaf covers its record. An entry of the other indexes has no
//! checksum. Undetected damage may change its value, or its key (between the same fences or bounds; in CHIME, within the
//! same neighborhood). An entry that is not in use is zero, so its walk finds one that lost the mark that it is. Left are:
//!
//! | | one record less | one more |
//! |---|---|---|
//! | Sherman, DEX | one whose key and value are zero | key and value zero, if its leaf begins at the key of zeros |
//! | CHIME | one whose value is zero | one that was deleted, with a value of zeros |
//! | Dolphin, values of 8 bytes | one whose value becomes the leaf's word for *absent* | one that was deleted, with any value |
//! | Dolphin, values of 9 to 63 bytes | one whose value is zero | one that was deleted, with a value of zeros |
//! | Dolphin, longer values | one all of whose name of a block becomes zero | none |
//! | any length | one all of whose slot becomes zero | none |
//!
//! Each damaged entry affects one record. In an index with checksums of records ([`dm_host::checked`]) neither a value nor a key
//! changes undetected, no record comes back, and none is lost but where all bytes of its entry become zero. With keys of any length,
//! an entry may lead to many records. It has a checksum, and the walk counts records to which no entry leads
//! ([`Census::at_rest`](dm_core::operation::Census::at_rest)). One that is alone in its layer may have been left by a crash; a
//! dump without it says so. `dm dump --help` has this for its reader.

mod parts;
mod put;

use super::check::left;
use super::destination::Destination;
use crate::failure::{Failure, print};
use crate::notation::{Format, show};
use crate::pool::discard;
use crate::progress::progress;
use crate::report::text::counted;
use crate::tool::{PoolArguments, Tool, with_tools};
use crc::{CRC_32_ISO_HDLC, Crc, Digest};
use dm_core::index::Index;
use dm_core::items::parameters::Parameters as AnyLength;
use dm_core::operation::{Census, RECORD_HEADER_BYTES};
use dm_core::remote::catalog::IndexKind;
use dm_host::kinds::IndexParameters;
use dm_host::pool::PoolError;
use dm_host::solo::block_on;
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;

const MAGIC: [u8; 8] = *b"dm-dump\n";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 80;
/// Records between two steps of the progress that is shown.
const SHOWN_RECORDS: u64 = 256;
static CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// Arguments of `dm dump`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  dm dump --pool /run/dm/0 --index names names.dump\n  dm dump --pool /run/dm/0 --index names | zstd > names.dump.zst\n  \
                  dm dump --pool /run/dm/0 --index names | dm load --pool /run/other/0 --index names\n\n\
                  A regular file is written under another name, beside it, and gets its own when it is whole; what was there before \
                  stays until then, and for good if the dump fails. It keeps its permissions; a new one is its owner's alone. A link stays: \
                  what it leads to is written. A pipe or a device is written as it is.\n\
                  What is verified: the index is walked before it is dumped, as by dm check; keys ascend; and there are as many records \
                  as the walk has counted. If not, the dump fails. The file ends with a checksum, which dm load compares.\n\
                  What is not noticed: a byte of a memory node that changed within one entry, where no checksum covers it. A dump of \
                  an index that has entries without one says so on the standard error. The dump \
                  has another value or another key then; of some kinds, if values have one size, perhaps one record more or less. An entry \
                  that is not in use is zero, so the walk finds one that lost the mark that it is. Indexes whose leaves are single records \
                  have checksums of them, and values of any length have some from 15 bytes on. If the index was created with --checksums, \
                  each record has one, and a dump that succeeds has all records as they were stored, but for bytes of another time: a leaf \
                  as it was once, or an entry that is all zero as after a delete. With keys of any length, an entry may lead to \
                  all keys that begin with the same 55 bytes: it has a checksum, and the dump fails if it is lost. With --in-use only \
                  checksums and the order of keys are verified."
)]
pub(super) struct DumpArguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Name of the index
    #[arg(long)]
    index: String,

    /// Others write to the index meanwhile: it is not walked, and records are not compared with those of a walk
    #[arg(long)]
    in_use: bool,

    /// Threads that scan the index, each with a lane of its own [default: one per processor, at most 8]
    #[arg(long, short, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,

    /// Where to write, - for the standard output
    #[arg(default_value = "-")]
    file: PathBuf,
}

/// Arguments of `dm load`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  dm load --pool /run/dm/0 --index names names.dump\n  zstd -d < names.dump.zst | dm load --pool /run/dm/0 --index names\n\n\
                        A file is checked whole before anything is written. A pipe can be loaded into an empty or a new \
                        index only: its records become visible when its last byte has been checked.\n\
                        An index that never had a record is bulk loaded if its keys and values have one size each: that is the work of one \
                        thread, whatever --jobs says. All other loads put records one by one, and --jobs threads do so at a time. A load \
                        that fails in an index that was there before has put some of its records."
)]
pub(super) struct LoadArguments {
    #[command(flatten)]
    pool: PoolArguments,

    /// Name of the index; created with the dump's sizes if there is none
    #[arg(long)]
    index: String,

    /// Threads that put records, each with a lane of its own; one of them bulk loads [default: one per processor, at most 8]
    #[arg(long, short, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,

    /// What to read, - for the standard input
    #[arg(default_value = "-")]
    file: PathBuf,
}

/// Shows now and then how many records are done.
fn show_progress(bar: &ProgressBar, records: u64) {
    if records.is_multiple_of(SHOWN_RECORDS) {
        bar.set_position(records);
    }
}

/// Lanes of a dump or a load, if the command line does not say how many.
fn jobs_here() -> u16 {
    thread::available_parallelism().map_or(1, |processors| processors.get().min(8) as u16)
}

/// A file, in messages.
fn shown(path: &Path, standard: &str) -> String {
    if path == Path::new("-") { standard.to_owned() } else { path.display().to_string() }
}

pub(super) fn dump(arguments: &DumpArguments) -> Result<(), Failure> {
    if arguments.file == Path::new("-") && io::stdout().is_terminal() {
        let what = "the standard output is a terminal, and a dump is not text: name a file, or a pipe behind |";
        return Err(Failure::Usage(what.to_owned()));
    }
    let memory = arguments.pool.connect()?;
    let jobs = arguments.jobs.unwrap_or_else(jobs_here);
    let node = arguments.pool.join_with(&memory, jobs)?;
    with_tools(&node, &arguments.index, jobs, |tools| {
        let path = &arguments.file;
        let mut destination = Destination::open(path)?;
        let [tool, ..] = &mut *tools else { return Err(Failure::Run("no lane".to_owned())) };
        tool.take_all_keys()?;
        let census = if arguments.in_use { None } else { Some(walked(tool)?) };
        let count = write_dump(tools, &mut destination, path, census.map(|census| census.records))?;
        let is_file = matches!(destination, Destination::File { .. });
        destination.keep()?;
        if let Some(left) = census.as_ref().and_then(left) {
            eprintln!("note: {left}; it is not in the dump");
        }
        if tools.first().is_some_and(|tool| !tool.parameters.records_have_checksums()) {
            eprintln!(
                "note: the index has no checksums of records: one that changed in its memory node is dumped as it is there"
            );
        }
        if is_file { print(&format!("{} written to {}\n", counted(count, "record"), path.display())) } else { Ok(()) }
    })
}

/// Counts what an index has that no other program writes to, by a walk that checks it.
fn walked(tool: &mut Tool<'_, '_, '_, '_>) -> Result<Census, Failure> {
    tool.census().and_then(|census| census.at_rest().map_err(Failure::run)).map_err(|failure| {
        Failure::Run(format!("not sound, or written to meanwhile (then dump it with --in-use): {failure}"))
    })
}

/// `wanted`: the number of records that there have to be.
fn write_dump(
    tools: &mut [Tool<'_, '_, '_, '_>],
    out: impl Write,
    path: &Path,
    wanted: Option<u64>,
) -> Result<u64, Failure> {
    let failed = |error: io::Error| Failure::Run(format!("{}: {error}", shown(path, "the standard output")));
    let bar = progress("dumping", wanted);
    let mut out = BufWriter::with_capacity(1 << 18, out);
    let mut crc = CRC.digest();
    let mut emit = |bytes: &[u8]| {
        crc.update(bytes);
        out.write_all(bytes).map_err(failed)
    };
    let Some(parameters) = tools.first().map(|tool| tool.parameters) else { return Ok(0) };
    emit(&header(&parameters))?;
    let have_lengths = parameters.any_length.is_some();
    let encode = |bytes: &mut Vec<u8>, key: &[u8], value: &[u8]| {
        bytes.push(1);
        if have_lengths {
            bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        }
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    };
    let count = parts::scan(tools, &encode, |part| {
        bar.inc(part.records);
        emit(&part.bytes)
    })?;
    bar.finish_and_clear();
    if let Some(wanted) = wanted.filter(|wanted| *wanted != count) {
        return Err(Failure::Run(format!(
            "a scan found {count} records, the walk before {wanted}: the index is damaged, or was written to meanwhile (then dump it \
             with --in-use)"
        )));
    }
    emit(&[0])?;
    emit(&count.to_le_bytes())?;
    out.write_all(&crc.finalize().to_le_bytes()).and_then(|()| out.flush()).map_err(failed)?;
    Ok(count)
}

fn header(parameters: &IndexParameters) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let (block, version) = parameters.encode();
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..14].copy_from_slice(&(parameters.kind() as u16).to_le_bytes());
    header[14..16].copy_from_slice(&version.to_le_bytes());
    header[16..].copy_from_slice(&block);
    header
}

/// Key and value.
type Record<'r> = (&'r [u8], &'r [u8]);

/// A dump being read.
struct Reader<'p, R> {
    input: R,
    path: &'p Path,
    crc: Digest<'static, u32>,
    parameters: IndexParameters,
    /// Records read.
    count: u64,
    record: Vec<u8>,
    last: Vec<u8>,
}

impl<'p, R: Read> Reader<'p, R> {
    fn new(mut input: R, path: &'p Path) -> Result<Self, Failure> {
        let bad = |what: String| Failure::Run(format!("{}: {what}", shown(path, "the standard input")));
        let mut header = [0; HEADER_BYTES];
        input.read_exact(&mut header).map_err(|error| bad(cut_short(&error, 0)))?;
        if header[..8] != MAGIC {
            return Err(bad("not a dump of an index".to_owned()));
        }
        let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        if version != VERSION {
            return Err(bad(format!("a dump of version {version}; this program reads version {VERSION}")));
        }
        let number = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let kind = IndexKind::from_number(number(12))
            .ok_or_else(|| bad(format!("a dump of an index of unknown kind {}", number(12))))?;
        let mut block = *header[16..].first_chunk().unwrap_or(&[0; _]);
        // Records of any length are the same in a dump, whatever the entries were like that had them.
        AnyLength::raise_version(&mut block);
        let parameters = IndexParameters::decode(kind, number(14), &block)
            .map_err(|error| bad(format!("a header that makes no sense: {error}")))?;
        let mut crc = CRC.digest();
        crc.update(&header);
        let record = vec![0; parameters.key_bytes() + parameters.value_bytes()];
        Ok(Self { input, path, crc, parameters, count: 0, record, last: Vec::new() })
    }

    /// The next record, key and value; `None` after the last one, when everything has been checked.
    fn next(&mut self) -> Result<Option<Record<'_>>, Failure> {
        let (path, count) = (self.path, self.count);
        let bad = |what: String| Failure::Run(format!("{}: {what}", shown(path, "the standard input")));
        let short = |error: io::Error| bad(cut_short(&error, count));
        let mut marker = [0];
        self.input.read_exact(&mut marker).map_err(short)?;
        self.crc.update(&marker);
        match marker[0] {
            1 => {
                let mut key_bytes = self.parameters.key_bytes();
                if self.parameters.any_length.is_some() {
                    let mut lengths = [0; RECORD_HEADER_BYTES];
                    self.input.read_exact(&mut lengths).map_err(short)?;
                    self.crc.update(&lengths);
                    let [k0, k1, v0, v1, v2, v3] = lengths;
                    key_bytes = usize::from(u16::from_le_bytes([k0, k1]));
                    let value_bytes = u32::from_le_bytes([v0, v1, v2, v3]) as usize;
                    if key_bytes > self.parameters.key_bytes() || value_bytes > self.parameters.value_bytes() {
                        return Err(bad(format!("damaged: record {count} is longer than its index has any")));
                    }
                    self.record.resize(key_bytes + value_bytes, 0);
                }
                self.input.read_exact(&mut self.record).map_err(short)?;
                self.crc.update(&self.record);
                let (key, value) = self.record.split_at(key_bytes);
                if count > 0 && *key <= *self.last {
                    return Err(bad(format!(
                        "damaged: record {count} has a key that does not ascend, {}",
                        show(key, Format::Auto)
                    )));
                }
                self.last.clear();
                self.last.extend_from_slice(key);
                self.count += 1;
                Ok(Some((key, value)))
            }
            0 => {
                let mut footer = [0; 12];
                self.input.read_exact(&mut footer).map_err(short)?;
                self.crc.update(&footer[..8]);
                let stated = u64::from_le_bytes(*footer.first_chunk().unwrap_or(&[0; 8]));
                if stated != count {
                    return Err(bad(format!("damaged: {count} records, its end says {stated}")));
                }
                let stated = u32::from_le_bytes([footer[8], footer[9], footer[10], footer[11]]);
                let crc = self.crc.clone().finalize();
                if crc != stated {
                    return Err(bad(format!("damaged: its checksum is {crc:08x}, its end says {stated:08x}")));
                }
                let mut rest = [0];
                match self.input.read(&mut rest) {
                    Ok(0) => Ok(None),
                    Ok(_) => Err(bad("damaged: it goes on after its end".to_owned())),
                    Err(error) => Err(bad(error.to_string())),
                }
            }
            other => Err(bad(format!("damaged: byte {other:#04x} where record {count} begins or the dump ends"))),
        }
    }
}

fn cut_short(error: &io::Error, records: u64) -> String {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        format!("cut short after {records} records")
    } else {
        error.to_string()
    }
}

/// Reads a dump to its end, as `dm load` does before it writes anything. Returns how many records it has, or one line that
/// says what is wrong.
pub fn check_dump(input: impl Read) -> Result<u64, String> {
    let mut reader = Reader::new(input, Path::new("-")).map_err(|failure| failure.to_string())?;
    while reader.next().map_err(|failure| failure.to_string())?.is_some() {}
    Ok(reader.count)
}

pub(super) fn load(arguments: &LoadArguments) -> Result<(), Failure> {
    let path = &arguments.file;
    let open = || {
        let failed = |error: io::Error| Failure::Run(format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(failed)?;
        let seekable = file.metadata().map_err(failed)?.is_file();
        Ok::<_, Failure>((BufReader::with_capacity(1 << 18, file), seekable))
    };
    if path == Path::new("-") {
        if io::stdin().is_terminal() {
            return Err(Failure::Usage(
                "the standard input is a terminal: name a file, or pipe a dump into it".to_owned(),
            ));
        }
        return load_from(arguments, Reader::new(io::stdin().lock(), path)?, None);
    }
    let (input, is_file) = open()?;
    if !is_file {
        return load_from(arguments, Reader::new(input, path)?, None);
    }
    let mut reader = Reader::new(input, path)?;
    let bar = progress("checking", None);
    while reader.next()?.is_some() {
        show_progress(&bar, reader.count);
    }
    bar.finish_and_clear();
    load_from(arguments, Reader::new(open()?.0, path)?, Some(reader.count))
}

/// Loads records into the index; `checked`: how many there are, if the whole input has been read before.
fn load_from<R: Read>(
    arguments: &LoadArguments,
    mut reader: Reader<'_, R>,
    checked: Option<u64>,
) -> Result<(), Failure> {
    let name = &arguments.index;
    let memory = arguments.pool.connect()?;
    let jobs = arguments.jobs.unwrap_or_else(jobs_here);
    let node = arguments.pool.join_with(&memory, jobs)?;
    let wanted = reader.parameters;
    let created = match memory.pool.find_index(name) {
        Ok((_, found)) if found.any_length.is_some() != wanted.any_length.is_some() => {
            return Err(Failure::Run(format!(
                "{}: keys and values of {}; index \"{name}\" has such of {}",
                arguments.file.display(),
                if wanted.any_length.is_some() { "any length" } else { "one size" },
                if found.any_length.is_some() { "any length" } else { "one size" },
            )));
        }
        Ok((_, found)) if (found.key_bytes(), found.value_bytes()) == (wanted.key_bytes(), wanted.value_bytes()) => {
            false
        }
        Ok((_, found)) => {
            return Err(Failure::Run(format!(
                "{}: records of {}+{} bytes; index \"{name}\" has {}+{}",
                arguments.file.display(),
                wanted.key_bytes(),
                wanted.value_bytes(),
                found.key_bytes(),
                found.value_bytes()
            )));
        }
        Err(PoolError::NoIndex { .. }) => {
            node.create_index(name, &wanted).map_err(Failure::run)?;
            true
        }
        Err(error) => return Err(Failure::run(error)),
    };
    let loaded = with_tools(&node, name, jobs, |tools| {
        let [tool, ..] = &mut *tools else { return Err(Failure::Run("no lane".to_owned())) };
        // Before anything is written: a record whose key another compute node owns would be refused.
        tool.take_all_keys()?;
        // A tree that never had a root can be bulk loaded; one that was emptied has one.
        let census = block_on(tool.fabric, tool.lane, tool.index.validate(tool.lane)).map_err(Failure::run)?;
        let bulk_loads = reader.parameters.any_length.is_none();
        let bar = progress("loading", checked);
        if census.levels == 0 && bulk_loads {
            bulk(tool, &mut reader, &bar)?;
        } else if checked.is_some() || census.levels == 0 && created {
            put::put(tools, &mut reader, &bar)?;
        } else {
            return Err(Failure::Run(format!(
                "index \"{name}\" has been in use: a pipe that breaks off would leave a part in it; load from a file"
            )));
        }
        bar.finish_and_clear();
        Ok(())
    });
    if let Err(failure) = loaded {
        if created && let Ok((entry, _)) = memory.pool.find_index(name) {
            // The failure that led here says more than this one could.
            let _ = discard(&node, &entry);
        }
        return Err(failure);
    }
    print(&format!("{} loaded into index \"{name}\"\n", counted(reader.count, "record")))
}

/// No record of a bulk load is visible before its end, which comes after the input has been checked.
fn bulk<R: Read>(
    tool: &mut Tool<'_, '_, '_, '_>,
    reader: &mut Reader<'_, R>,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let (index, lane) = (tool.index, &*tool.lane);
    let mut records = false;
    while let Some((key, value)) = reader.next()? {
        records = true;
        tool.arguments(key, Some(value)).map_err(Failure::Run)?;
        block_on(tool.fabric, lane, index.bulk_append(lane)).map_err(Failure::run)?;
        show_progress(bar, reader.count);
    }
    if records { block_on(tool.fabric, lane, index.bulk_finish(lane)).map_err(Failure::run) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
