//! YCSB's property files and `-p name=value`, merged in order.
//!
//! The syntax is that of Java's `Properties`: `name=value`, `name: value` or `name value`; comments start with `#` or
//! `!`; a backslash at the end of a line continues it; `\t \n \r \f \\ \= \: \# \! \uXXXX` and an escaped blank stand for
//! a character. A later assignment of a name replaces the earlier one.
//!
//! Every name is looked up when it is read:
//!
//! | a name that | is |
//! |---|---|
//! | this benchmark uses | kept, checked when it is asked for |
//! | YCSB has, with no bearing on an index (`exporter`, `threadcount`, ...) | dropped, with a notice |
//! | YCSB has and that would change the workload in a way not offered here | an error that says what to use instead |
//! | is unknown | an error that names the nearest known name |

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    str::FromStr,
};

/// What a known name is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Read by [`Spec`](super::spec::Spec).
    Used,
    /// Dropped; the text says why.
    Ignored(&'static str),
    /// Dropped when it has this value, which is YCSB's default; otherwise an error that ends in this text.
    Only(&'static str, &'static str),
    /// Always an error, which ends in this text.
    Refused(&'static str),
}

const ONE_VALUE: &str = "a record has one value, read and written whole";
const MEASURED_HERE: &str = "measurement and reports are this command's own";
const NO_HOTSPOT: &str = "there is no hotspot distribution";
const ON_THE_COMMAND_LINE: &str = "it is an option of the command line here";

/// Every known name: those of YCSB's `Client`, `CoreWorkload` and `Measurements`, its `workload_template`, and
/// `zipfianconstant` and `zipfianmeaning`, which are ours.
const KNOWN: &[(&str, Use)] = &[
    ("recordcount", Use::Used),
    ("operationcount", Use::Used),
    ("readproportion", Use::Used),
    ("updateproportion", Use::Used),
    ("insertproportion", Use::Used),
    ("scanproportion", Use::Used),
    ("readmodifywriteproportion", Use::Used),
    ("requestdistribution", Use::Used),
    ("maxscanlength", Use::Used),
    ("minscanlength", Use::Used),
    ("scanlengthdistribution", Use::Used),
    ("insertorder", Use::Used),
    ("zipfianconstant", Use::Used),
    ("zipfianmeaning", Use::Used),
    ("fieldlength", Use::Used),
    ("fieldcount", Use::Used),
    ("dotransactions", Use::Used),
    ("workload", Use::Ignored("there is one workload class")),
    ("db", Use::Ignored("the index is chosen on the command line")),
    ("table", Use::Ignored("an index is named on the command line")),
    ("columnfamily", Use::Ignored(ONE_VALUE)),
    ("readallfields", Use::Ignored(ONE_VALUE)),
    ("readallfieldsbyname", Use::Ignored(ONE_VALUE)),
    ("writeallfields", Use::Ignored(ONE_VALUE)),
    ("fieldnameprefix", Use::Ignored(ONE_VALUE)),
    ("minfieldlength", Use::Ignored("values have one length")),
    ("fieldlengthhistogram", Use::Ignored("values have one length")),
    ("dataintegrity", Use::Ignored("every value can be checked against its key")),
    ("zeropadding", Use::Ignored("keys are bytes, not decimal digits")),
    ("exporter", Use::Ignored(MEASURED_HERE)),
    ("exportfile", Use::Ignored(MEASURED_HERE)),
    ("status", Use::Ignored(MEASURED_HERE)),
    ("label", Use::Ignored(MEASURED_HERE)),
    ("measurementtype", Use::Ignored(MEASURED_HERE)),
    ("reportlatencyforeacherror", Use::Ignored(MEASURED_HERE)),
    ("latencytrackederrors", Use::Ignored(MEASURED_HERE)),
    ("threadcount", Use::Ignored(ON_THE_COMMAND_LINE)),
    ("target", Use::Ignored("load is closed-loop: every lane issues its next operation when the last has ended")),
    ("maxexecutiontime", Use::Ignored(ON_THE_COMMAND_LINE)),
    ("hotspotdatafraction", Use::Ignored(NO_HOTSPOT)),
    ("hotspotopnfraction", Use::Ignored(NO_HOTSPOT)),
    ("maxscanrate", Use::Ignored("YCSB's core workload does not read it")),
    ("scanoptimelimit", Use::Ignored("YCSB's core workload does not read it")),
    ("discardscannedrecord", Use::Ignored("YCSB's core workload does not read it")),
    ("core_workload_insertion_retry_limit", Use::Ignored("operations bound their own retries")),
    ("core_workload_insertion_retry_interval", Use::Ignored("operations bound their own retries")),
    ("core_workload_insertion_keep_going_on_error", Use::Ignored("operations bound their own retries")),
    ("fieldlengthdistribution", Use::Only("constant", "values have one length, fieldcount x fieldlength bytes")),
    ("insertstart", Use::Only("0", "records start at 0")),
    ("insertcount", Use::Refused("set recordcount to the number of records to load")),
];

/// Families of names that are dropped: prefix and reason.
const KNOWN_FAMILIES: &[(&str, &str)] = &[
    ("measurement.", MEASURED_HERE),
    ("histogram.", MEASURED_HERE),
    ("hdrhistogram.", MEASURED_HERE),
    ("timeseries.", MEASURED_HERE),
    ("status.", MEASURED_HERE),
    ("htrace.", MEASURED_HERE),
    ("exponential.", "there is no exponential distribution"),
];

/// Where an assignment was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A property file (`-P`) and the line (from 1) on which the assignment begins.
    File {
        /// The file as the user named it.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// `-p name=value`.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(formatter, "{}:{line}", path.display()),
            Self::CommandLine => formatter.write_str("-p"),
        }
    }
}

/// Why properties cannot be used; each names the place and the property.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PropertyError {
    /// A property file cannot be read.
    #[error("cannot read the property file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said; files that are not UTF-8 end here too.
        source: io::Error,
    },
    /// `-p` without `=`.
    #[error("-p {argument}: expected name=value")]
    NoAssignment {
        /// The argument as given.
        argument: String,
    },
    /// A `\u` that four hexadecimal digits of a character do not follow.
    #[error("{origin}: \\u must be followed by the four hexadecimal digits of a character")]
    Escape {
        /// Where.
        origin: Origin,
    },
    /// A name that neither YCSB nor this benchmark knows.
    #[error("{origin}: unknown property `{name}`; the nearest known name is `{nearest}`")]
    Unknown {
        /// Where.
        origin: Origin,
        /// The unknown name.
        name: String,
        /// The known name with the smallest edit distance.
        nearest: &'static str,
    },
    /// A property of YCSB that would change the workload in a way that is not offered.
    #[error("{origin}: {name}={value} is not supported: {instead}")]
    Unsupported {
        /// Where.
        origin: Origin,
        /// The property.
        name: String,
        /// Its value.
        value: String,
        /// What is true here, or what to use.
        instead: &'static str,
    },
    /// A value that the property does not permit.
    #[error("{origin}: {name}={value} is not permitted; give {permitted}")]
    Value {
        /// Where.
        origin: Origin,
        /// The property.
        name: &'static str,
        /// Its value.
        value: String,
        /// The permitted values.
        permitted: String,
    },
}

/// One assignment that is in force.
#[derive(Clone, Debug)]
struct Assignment {
    value: String,
    origin: Origin,
}

/// The properties in force, after merging, and the notices about those that were dropped.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    assignments: BTreeMap<String, Assignment>,
    notices: Vec<String>,
}

impl Properties {
    /// No properties: everything has its default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Merges a property file (`-P`): its assignments replace earlier ones.
    pub fn merge_file(&mut self, path: &Path) -> Result<(), PropertyError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| PropertyError::Unreadable { path: path.to_path_buf(), source })?;
        self.merge_text(path, &text)
    }

    /// Merges the text of a property file; `path` is for messages.
    pub fn merge_text(&mut self, path: &Path, text: &str) -> Result<(), PropertyError> {
        for (line, logical) in logical_lines(text) {
            let origin = Origin::File { path: path.to_path_buf(), line };
            let (name, value) = split_assignment(&logical);
            let (name, value) = (unescape(name, &origin)?, unescape(value, &origin)?);
            self.assign(name, value, origin)?;
        }
        Ok(())
    }

    /// Merges one `-p name=value`. Nothing is unescaped: the shell has done that.
    pub fn merge_argument(&mut self, argument: &str) -> Result<(), PropertyError> {
        let Some((name, value)) = argument.split_once('=') else {
            return Err(PropertyError::NoAssignment { argument: argument.to_owned() });
        };
        self.assign(name.trim().to_owned(), value.to_owned(), Origin::CommandLine)
    }

    /// What the user should hear: which properties were dropped and why, in the order they were read.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Whether `name` is set.
    pub fn is_set(&self, name: &str) -> bool {
        self.assignments.contains_key(name)
    }

    /// The whole number that `name` is set to, within `least..=most`.
    pub fn whole(&self, name: &'static str, least: u64, most: u64) -> Result<Option<u64>, PropertyError> {
        let permitted = || match (least, most) {
            (0, u64::MAX) => "a whole number".to_owned(),
            (least, u64::MAX) => format!("a whole number of at least {least}"),
            (least, most) => format!("a whole number from {least} to {most}"),
        };
        self.parsed(name, |value: &u64| (least..=most).contains(value), permitted)
    }

    /// The number that `name` is set to, within `least..=most`.
    pub fn number(&self, name: &'static str, least: f64, most: f64) -> Result<Option<f64>, PropertyError> {
        self.parsed(name, |value: &f64| (least..=most).contains(value), || format!("a number from {least} to {most}"))
    }

    /// The choice that `name` is set to, among `choices`, by their names.
    pub fn choice<T: Copy>(
        &self,
        name: &'static str,
        choices: &[(&'static str, T)],
    ) -> Result<Option<T>, PropertyError> {
        let Some(assignment) = self.assignments.get(name) else { return Ok(None) };
        let chosen = choices.iter().find(|(choice, _)| *choice == assignment.value.trim());
        let names = || choices.iter().map(|&(choice, _)| choice).collect::<Vec<_>>().join(", ");
        chosen.map(|&(_, value)| Some(value)).ok_or_else(|| assignment.refuse(name, format!("one of {}", names())))
    }

    /// The error for a value that is permitted by itself but not beside another property.
    pub(super) fn conflict(&self, name: &'static str, fallback: String, permitted: String) -> PropertyError {
        let unset = Assignment { value: fallback, origin: Origin::CommandLine };
        self.assignments.get(name).unwrap_or(&unset).refuse(name, permitted)
    }

    fn parsed<T: FromStr>(
        &self,
        name: &'static str,
        is_permitted: impl Fn(&T) -> bool,
        permitted: impl Fn() -> String,
    ) -> Result<Option<T>, PropertyError> {
        let Some(assignment) = self.assignments.get(name) else { return Ok(None) };
        let parsed = assignment.value.trim().parse().ok().filter(is_permitted);
        parsed.map(Some).ok_or_else(|| assignment.refuse(name, permitted()))
    }

    fn assign(&mut self, name: String, value: String, origin: Origin) -> Result<(), PropertyError> {
        let known = KNOWN.iter().find(|(known, _)| *known == name).map(|&(_, usage)| usage);
        let family = || KNOWN_FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix));
        let usage = known.or_else(|| family().map(|&(_, reason)| Use::Ignored(reason)));
        match usage {
            Some(Use::Used) => {
                self.assignments.insert(name, Assignment { value, origin });
            }
            Some(Use::Ignored(reason)) => self.notices.push(format!("{origin}: {name} is ignored: {reason}")),
            Some(Use::Only(only, _)) if value.trim() == only => {}
            Some(Use::Only(_, instead) | Use::Refused(instead)) => {
                return Err(PropertyError::Unsupported { origin, name, value, instead });
            }
            None => {
                let nearest = nearest_known(&name);
                return Err(PropertyError::Unknown { origin, name, nearest });
            }
        }
        Ok(())
    }
}

impl Assignment {
    fn refuse(&self, name: &'static str, permitted: String) -> PropertyError {
        PropertyError::Value { origin: self.origin.clone(), name, value: self.value.clone(), permitted }
    }
}

/// Blanks as Java's `Properties` sees them.
const fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\u{c}')
}

/// Lines that assign something, continuations joined, each with the number (from 1) of the line on which it begins.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut logical = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line = line.trim_start_matches(is_blank);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut joined = line.to_owned();
        // An odd number of backslashes at the end: the last one is not itself escaped.
        while joined.chars().rev().take_while(|&character| character == '\\').count() % 2 == 1 {
            joined.pop();
            match lines.next() {
                Some((_, continuation)) => joined.push_str(continuation.trim_start_matches(is_blank)),
                None => break,
            }
        }
        logical.push((index + 1, joined));
    }
    logical
}

/// Cuts at the first unescaped `=`, `:` or blank; blanks around the separator belong to neither side.
fn split_assignment(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line
        .char_indices()
        .find(|&(_, character)| {
            let ends = !escaped && (is_blank(character) || matches!(character, '=' | ':'));
            escaped = !escaped && character == '\\';
            ends
        })
        .map_or(line.len(), |(index, _)| index);
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (name, value.trim_start_matches(is_blank))
}

fn unescape(text: &str, origin: &Origin) -> Result<String, PropertyError> {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => {
                let digits = characters.as_str().get(..4).unwrap_or_default();
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
                let decoded = code.and_then(char::from_u32);
                plain.push(decoded.ok_or_else(|| PropertyError::Escape { origin: origin.clone() })?);
                characters = characters.as_str()[4..].chars();
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    Ok(plain)
}

/// The known name with the smallest edit distance to `name`, case not counting; among equals the first of the table.
fn nearest_known(name: &str) -> &'static str {
    let name = name.to_lowercase();
    let nearest = KNOWN.iter().map(|&(known, _)| known).min_by_key(|known| strsim::levenshtein(&name, known));
    nearest.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Properties, PropertyError> {
        let mut properties = Properties::new();
        properties.merge_text(Path::new("workloada"), text).map(|()| properties)
    }

    #[test]
    fn a_workload_file_of_ycsb_is_read_as_ycsb_reads_it() {
        let properties = read(
            "# Yahoo! Cloud System Benchmark\n\n! a comment too\n\
             recordcount=1000\n  operationcount = 2000\nreadproportion:0.5\r\nupdateproportion 0.5 \n\
             requestdistribution=\\\n    zip\\\n  fian\nworkload=site.ycsb.workloads.CoreWorkload\n",
        )
        .unwrap();
        assert_eq!(properties.whole("recordcount", 1, u64::MAX).unwrap(), Some(1_000));
        assert_eq!(properties.whole("operationcount", 0, u64::MAX).unwrap(), Some(2_000));
        assert_eq!(properties.number("readproportion", 0.0, 1.0).unwrap(), Some(0.5));
        assert_eq!(properties.number("updateproportion", 0.0, 1.0).unwrap(), Some(0.5));
        assert_eq!(properties.choice("requestdistribution", &[("zipfian", 'z')]).unwrap(), Some('z'));
        assert_eq!(properties.number("scanproportion", 0.0, 1.0).unwrap(), None);
        assert_eq!(properties.notices(), ["workloada:11: workload is ignored: there is one workload class"]);
    }

    #[test]
    fn the_last_assignment_wins_across_files_and_arguments() {
        let mut properties = read("recordcount=1\nrecordcount=2").unwrap();
        assert_eq!(properties.whole("recordcount", 1, 9).unwrap(), Some(2));
        properties.merge_argument("recordcount=3").unwrap();
        assert_eq!(properties.whole("recordcount", 1, 9).unwrap(), Some(3));
        properties.merge_text(Path::new("second"), "recordcount=4").unwrap();
        assert_eq!(properties.whole("recordcount", 1, 9).unwrap(), Some(4));
    }

    #[test]
    fn an_unknown_name_is_an_error_with_the_nearest_known_one() {
        let error = read("recordcount=1\n\nrecordcuont=5\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "workloada:3: unknown property `recordcuont`; the nearest known name is `recordcount`"
        );
        let mut properties = Properties::new();
        let error = properties.merge_argument("scanProportions=0.1").unwrap_err();
        assert_eq!(
            error.to_string(),
            "-p: unknown property `scanProportions`; the nearest known name is `scanproportion`"
        );
    }

    #[test]
    fn a_value_that_is_not_permitted_is_an_error_with_file_line_and_choice() {
        let properties =
            read("recordcount=many\nreadproportion=1.5\nrequestdistribution=hotspot\nscanproportion=NaN").unwrap();
        let error = properties.whole("recordcount", 1, u64::MAX).unwrap_err().to_string();
        assert_eq!(error, "workloada:1: recordcount=many is not permitted; give a whole number of at least 1");
        let error = properties.number("readproportion", 0.0, 1.0).unwrap_err().to_string();
        assert_eq!(error, "workloada:2: readproportion=1.5 is not permitted; give a number from 0 to 1");
        let error =
            properties.choice("requestdistribution", &[("zipfian", 1), ("uniform", 2)]).unwrap_err().to_string();
        assert_eq!(error, "workloada:3: requestdistribution=hotspot is not permitted; give one of zipfian, uniform");
        assert!(properties.number("scanproportion", 0.0, 1.0).is_err());
    }

    #[test]
    fn what_would_change_the_workload_is_refused_not_ignored() {
        assert!(read("insertstart=0\nfieldlengthdistribution=constant").unwrap().notices().is_empty());
        let error = read("insertstart=500").unwrap_err().to_string();
        assert_eq!(error, "workloada:1: insertstart=500 is not supported: records start at 0");
        assert!(read("fieldlengthdistribution=zipfian").is_err());
        assert!(read("insertcount=10").unwrap_err().to_string().contains("recordcount"));
    }

    #[test]
    fn families_of_names_are_ignored_with_a_notice() {
        let properties = read("histogram.buckets=1000\nmeasurement.interval=both\nthreadcount=8").unwrap();
        assert_eq!(properties.notices().len(), 3);
    }

    #[test]
    fn escapes_stand_for_characters() {
        let origin = Origin::CommandLine;
        assert_eq!(unescape(r"a\=b\:c\\d\te\u0041", &origin).unwrap(), "a=b:c\\d\teA");
        assert_eq!(split_assignment(r"a\=b\ c = d=e"), (r"a\=b\ c", "d=e"));
        assert_eq!(split_assignment("alone"), ("alone", ""));
        for broken in [r"\u12", r"\ud800", r"\u+041", r"\uäöüß", r"\u"] {
            assert!(matches!(unescape(broken, &origin), Err(PropertyError::Escape { .. })), "{broken}");
        }
    }

    #[test]
    fn a_file_or_argument_that_cannot_be_read_says_so() {
        let mut properties = Properties::new();
        let missing = Path::new("no/such/file");
        assert!(properties.merge_file(missing).unwrap_err().to_string().contains("no/such/file"));
        assert_eq!(
            properties.merge_argument("recordcount").unwrap_err().to_string(),
            "-p recordcount: expected name=value"
        );
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("w");
        std::fs::write(&path, "recordcount=7").unwrap();
        properties.merge_file(&path).unwrap();
        assert_eq!(properties.whole("recordcount", 1, 9).unwrap(), Some(7));
    }
}
