//! Golden layouts: the normative description of every remote structure, generated from the code and checked both ways.
//!
//! A file `layouts/NAME.txt` has a title, an explanation, tables of fields, constants, and samples: a hexdump with the
//! values it stands for. *Both ways* means: the text that the code generates equals the file, and the hexdumps that
//! are read back from the file decode to the values the file states. `layouts/c` has the same for C ([`c`]).
//!
//! To describe one more structure, write a [`Structure`] and name it in [`STRUCTURES`].

pub mod c;
mod catalog;
mod chime;
mod dex;
mod dolphin;
mod items;
mod memory;
mod nodes;
mod redo;
mod row;
mod sherman;
mod smart;
mod superblock;
mod values;
mod words;

use crate::picture::leaf;
use dm_core::layout::fields::{Field, Hexdump, Table};
use std::fmt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Every structure that has a golden, in order of reading.
pub static STRUCTURES: &[Structure] = &[
    words::ADDRESS,
    words::LOCK_WORD,
    words::STRIPES,
    superblock::SUPERBLOCK,
    row::ROW,
    catalog::CATALOG_ENTRY,
    sherman::SHERMAN_PARAMETERS,
    chime::CHIME_PARAMETERS,
    smart::SMART_PARAMETERS,
    dolphin::DOLPHIN_PARAMETERS,
    dex::DEX_PARAMETERS,
    memory::CHUNK_ENTRY,
    redo::REDO_RECORD,
    redo::OPEN_INDEXES,
    memory::CLOSED_CHUNKS,
    nodes::NODE_HEADER,
    nodes::INNER_NODE,
    nodes::SHERMAN_LEAF,
    chime::CHIME_LEAF,
    chime::CHIME_LOCK,
    smart::RADIX_SLOT,
    smart::RADIX_NODE,
    smart::SMART_LEAF,
    dolphin::DOLPHIN_SPEAR,
    dolphin::DOLPHIN_SLOT,
    dolphin::DOLPHIN_NODE,
    dolphin::DOLPHIN_LEAF,
    dolphin::DOLPHIN_BLOCK,
    dex::DEX_LEAF,
    dex::DEX_OWNER,
    dex::DEX_TABLE,
    dex::DEX_LSN,
    dex::DEX_RING,
    dex::DEX_RECORD,
    dex::DEX_IMAGE,
    items::ITEMS_PARAMETERS,
    items::ITEMS_KEY,
    items::ITEMS_SLOT,
    items::ITEMS_BLOCK,
    items::RECORD_CHECKSUM,
];

/// The name of an index, and its leaf as a picture.
pub type LeafPicture = (&'static str, fn() -> leaf::Leaf);

/// Pictures of leaves.
pub static LEAVES: &[LeafPicture] = &[
    ("sherman", nodes::sherman_picture),
    ("chime", chime::picture),
    ("smart", smart::picture),
    ("dolphin", dolphin::picture),
    ("dex", dex::picture),
];

/// One remote structure, described.
#[derive(Clone, Copy, Debug)]
pub struct Structure {
    /// Name of the file, without `.txt`.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// What a reader has to know besides the tables: lines of text.
    pub text: &'static str,
    /// Tables of fields, each with a heading.
    pub tables: &'static [(&'static str, &'static [Field])],
    /// Numbers of the format: name, value, meaning.
    pub constants: &'static [(&'static str, u64, &'static str)],
    /// Examples.
    pub samples: fn() -> Vec<Sample>,
    /// What bytes mean: names and values, in the samples' order. It must stand any bytes.
    pub decode: fn(&[u8]) -> Values,
}

/// Decoded values: names and their text.
pub type Values = Vec<(String, String)>;

/// One example of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What it is an example of, in one line.
    pub title: String,
    /// Its bytes, made by the structure's encoder.
    pub bytes: Vec<u8>,
    /// What it means, stated independently of the encoder.
    pub values: Values,
}

impl Sample {
    /// A sample whose values are written by hand.
    pub fn new(title: &str, bytes: &[u8], values: &[(&str, &str)]) -> Self {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { title: title.to_owned(), bytes: bytes.to_vec(), values }
    }
}

/// Why a golden does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// There is no file for a structure.
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// The file is not what the code generates.
    Differs {
        /// The file.
        file: PathBuf,
        /// The first line that differs, from 1.
        line: usize,
        /// That line in the file.
        blessed: String,
        /// That line as generated.
        generated: String,
    },
    /// A hexdump in the file does not decode to the values beside it.
    Sample {
        /// The file.
        file: PathBuf,
        /// Title of the sample.
        sample: String,
        /// What is wrong.
        what: String,
    },
    /// A file that belongs to no structure.
    Stray {
        /// The file.
        file: PathBuf,
    },
    /// A file that could not be read.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: String,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { file } => write!(f, "{}: missing; `dm layout bless` writes it", file.display()),
            Self::Differs { file, line, blessed, generated } => write!(
                f,
                "{}:{line}: the format changed\n  blessed:   {blessed}\n  generated: {generated}",
                file.display()
            ),
            Self::Sample { file, sample, what } => write!(f, "{}: sample \"{sample}\": {what}", file.display()),
            Self::Stray { file } => write!(f, "{}: belongs to no structure", file.display()),
            Self::Unreadable { file, error } => write!(f, "{}: {error}", file.display()),
        }
    }
}

/// The structure of that name.
pub fn find(name: &str) -> Option<&'static Structure> {
    STRUCTURES.iter().find(|structure| structure.name == name)
}

/// The golden text of a structure.
pub fn render(structure: &Structure) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = render_to(structure, &mut out);
    out
}

fn render_to(structure: &Structure, out: &mut dyn fmt::Write) -> fmt::Result {
    let title = format!("{}: {}", structure.name, structure.title);
    writeln!(out, "{title}\n{}\n", "=".repeat(title.chars().count()))?;
    if !structure.text.is_empty() {
        writeln!(out, "{}\n", structure.text.trim())?;
    }
    for (heading, fields) in structure.tables {
        writeln!(out, "{heading}\n\n{}", Table(fields))?;
    }
    if !structure.constants.is_empty() {
        writeln!(out, "constants\n")?;
        for (name, value, meaning) in structure.constants {
            writeln!(out, "{name:<24} {value:>12}  {meaning}")?;
        }
        writeln!(out)?;
    }
    for (position, sample) in (structure.samples)().iter().enumerate() {
        if position > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{SAMPLE}{}\n\n{}", sample.title, Hexdump(&sample.bytes))?;
        let width = sample.values.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in &sample.values {
            writeln!(out, "  {name:<width$} = {value}")?;
        }
    }
    Ok(())
}

/// How the title line of a sample begins.
const SAMPLE: &str = "sample: ";

/// Reads the samples back from a golden text.
pub fn parse_samples(text: &str) -> Result<Vec<Sample>, String> {
    let mut samples: Vec<Sample> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(title) = line.strip_prefix(SAMPLE) {
            samples.push(Sample { title: title.to_owned(), bytes: Vec::new(), values: Vec::new() });
            continue;
        }
        let Some(sample) = samples.last_mut() else { continue };
        let wrong = |what: &str| format!("line {}: {what}", number + 1);
        if let Some(value) = line.strip_prefix("  ") {
            let (name, value) = value.split_once('=').ok_or_else(|| wrong("neither a value nor a hexdump"))?;
            sample.values.push((name.trim().to_owned(), value.trim().to_owned()));
        } else if !line.is_empty() {
            let mut words = line.split_whitespace();
            let offset = words.next().and_then(|word| usize::from_str_radix(word, 16).ok());
            if offset != Some(sample.bytes.len()) {
                return Err(wrong("a hexdump with a gap"));
            }
            for word in words {
                sample.bytes.push(u8::from_str_radix(word, 16).map_err(|_| wrong("not a byte"))?);
            }
        }
    }
    Ok(samples)
}

/// Checks the goldens in `directory` both ways. Empty = all hold.
pub fn check(directory: &Path) -> Vec<Mismatch> {
    let mut found: Vec<Mismatch> =
        STRUCTURES.iter().filter_map(|structure| check_one(directory, structure).err()).collect();
    let c_directory = directory.join(C_DIRECTORY);
    let c_files = c::files();
    found.extend(c_files.iter().filter_map(|(name, text)| compare(c_directory.join(name), text).err()));
    // Other files than texts may lie beside the goldens.
    let is_stray_text = |name: &str| name.strip_suffix(".txt").is_some_and(|stem| find(stem).is_none());
    let is_stray_c = |name: &str| !c_files.iter().any(|(known, _)| known == name);
    for (directory, strays) in
        [(directory, strays(directory, is_stray_text)), (&c_directory, strays(&c_directory, is_stray_c))]
    {
        match strays {
            Ok(files) => found.extend(files.into_iter().map(|file| Mismatch::Stray { file })),
            Err(error) => found.push(Mismatch::Unreadable { file: directory.to_owned(), error: error.to_string() }),
        }
    }
    found
}

/// Where the files for C are, in the directory of goldens.
const C_DIRECTORY: &str = "c";

/// Checks the golden of one structure.
pub fn check_one(directory: &Path, structure: &Structure) -> Result<(), Mismatch> {
    let file = path(directory, structure);
    let text = read(&file)?;
    check_samples(structure, &text).map_err(|(sample, what)| Mismatch::Sample { file: file.clone(), sample, what })?;
    compare(file, &render(structure))
}

fn read(file: &Path) -> Result<String, Mismatch> {
    let file = file.to_owned();
    fs::read_to_string(&file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Mismatch::Missing { file },
        _ => Mismatch::Unreadable { file, error: error.to_string() },
    })
}

/// Whether a file has the text that the code generates.
fn compare(file: PathBuf, generated: &str) -> Result<(), Mismatch> {
    let text = read(&file)?;
    if text == generated {
        return Ok(());
    }
    let (mut blessed, mut now) = (text.lines(), generated.lines());
    let mut line = 1;
    loop {
        let (old, new) = (blessed.next(), now.next());
        if old != new || old.is_none() {
            let or_end = |line: Option<&str>| line.unwrap_or("(end of file)").to_owned();
            return Err(Mismatch::Differs { file, line, blessed: or_end(old), generated: or_end(new) });
        }
        line += 1;
    }
}

/// From the file to the code: its bytes mean what it says they mean.
fn check_samples(structure: &Structure, text: &str) -> Result<(), (String, String)> {
    let samples = parse_samples(text).map_err(|what| (String::new(), what))?;
    if samples.is_empty() {
        return Err((String::new(), "a golden without a sample".to_owned()));
    }
    for sample in samples {
        let decoded = (structure.decode)(&sample.bytes);
        if decoded != sample.values {
            let differing = decoded.iter().zip(&sample.values).find(|(decoded, stated)| decoded != stated);
            let what = match differing {
                Some(((name, value), (stated_name, stated))) => {
                    format!("its bytes say {name} = {value}, the text says {stated_name} = {stated}")
                }
                None => format!("its bytes have {} values, the text {}", decoded.len(), sample.values.len()),
            };
            return Err((sample.title, what));
        }
    }
    Ok(())
}

/// Writes every golden that is not as generated, and answers which. Strays are left for a person to remove. A structure
/// whose samples do not decode to what they state is refused: there is nothing right to bless.
pub fn bless(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::create_dir_all(directory)?;
    let mut written = Vec::new();
    for structure in STRUCTURES {
        let file = path(directory, structure);
        let text = render(structure);
        check_samples(structure, &text).map_err(|(sample, what)| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: sample \"{sample}\": {what}", structure.name))
        })?;
        write(file, &text, &mut written)?;
    }
    fs::create_dir_all(directory.join(C_DIRECTORY))?;
    for (name, text) in c::files() {
        write(directory.join(C_DIRECTORY).join(name), &text, &mut written)?;
    }
    Ok(written)
}

/// Writes a file that has another text.
fn write(file: PathBuf, text: &str, written: &mut Vec<PathBuf>) -> io::Result<()> {
    if !fs::read_to_string(&file).is_ok_and(|blessed| blessed == text) {
        fs::write(&file, text)?;
        written.push(file);
    }
    Ok(())
}

fn path(directory: &Path, structure: &Structure) -> PathBuf {
    directory.join(structure.name).with_extension("txt")
}

/// Files of `directory` whose names are strays, in order.
fn strays(directory: &Path, is_stray: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut strays = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && is_stray(&entry.file_name().to_string_lossy()) {
            strays.push(entry.path());
        }
    }
    strays.sort();
    Ok(strays)
}
