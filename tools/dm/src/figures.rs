//! Published figures, run again on the simulated cluster: `dm figures` prints the paper's value, ours and the ratio.
//!
//! Every figure is one `dm bench` command line and one number of its report. The constants of the profiles come from
//! sources or from two of Sherman's figures (see `dm-sim/profiles/cx5.toml`); nothing is adjusted per figure.

mod charts;
mod chime;
mod dex;
mod dolphin;
mod rdwc;
mod row;
mod sherman;
mod smart;

use crate::abreast;
use crate::bench::{self, plan::Plan};
use crate::failure::{Failure, print};
use crate::report::Report;
use clap::Parser;
use dm_core::registry::KINDS;
use dm_core::remote::catalog::IndexKind;
use row::Row;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// A number of a report.
#[derive(Clone, Copy, Debug)]
enum Metric {
    /// Operations a second, in millions.
    Mops,
    /// Share of the NIC's rate of requests that is used, in percent.
    RatePercent,
    /// Latency in us below which this share of the operations lies.
    LatencyUs(f64),
    /// Operations a second over those of a Sherman that is run with the same options; hotspot buffers are more cache for it.
    TimesSherman,
    /// Operations a second over those without read delegation and write combining.
    TimesWithoutRdwc,
    /// The same over those of a SMART.
    TimesSmart,
    /// Over those of a Sherman whose compute nodes have ranges of keys of their own, and locks that cost nothing.
    TimesPSherman,
    /// The same over those of a SMART.
    TimesPSmart,
    /// Operations a second over those of a DEX whose gets never call a memory node.
    TimesNeverOffloaded,
    /// Operations a second over those of a DEX that always calls a memory node where the leaf is not cached.
    TimesAlwaysOffloaded,
    /// Operations a second over those with one processor in each memory node.
    TimesOneCore,
    /// Operations a second over those with a cache of 1 % of the records.
    TimesOnePercent,
    /// Most that a compute node keeps in copies of inner nodes, in MB.
    CacheMb,
    /// Share of the looks at leaves for which the hotspot buffers had a guess, in percent.
    GuessedPercent,
    /// Share of the guesses that were right, in percent.
    RightPercent,
    /// How full leaves are in the end, in percent.
    FullPercent,
    /// Bytes of nodes that can be reached, per record.
    LiveBytes,
    /// Bytes that the memory nodes have granted, per record.
    PoolBytes,
    /// Requests of a verb for each operation.
    RequestsPerOperation(&'static str),
}

impl Metric {
    fn of(self, report: &Report) -> f64 {
        match self {
            Self::Mops
            | Self::TimesSherman
            | Self::TimesSmart
            | Self::TimesPSherman
            | Self::TimesPSmart
            | Self::TimesNeverOffloaded
            | Self::TimesAlwaysOffloaded
            | Self::TimesOneCore
            | Self::TimesOnePercent
            | Self::TimesWithoutRdwc => report.throughput_ops_per_s() / 1e6,
            Self::RatePercent => report.simulation.as_ref().map_or(0.0, |simulation| {
                let nodes = &simulation.usage.memory_nodes;
                nodes.iter().map(|node| node.request_rate_share * 100.0).fold(0.0, f64::max)
            }),
            Self::LatencyUs(quantile) => report.latency_ns_at(quantile) as f64 / 1e3,
            Self::CacheMb => report.cache_bytes.iter().copied().max().unwrap_or(0) as f64 / 1e6,
            Self::GuessedPercent => report.hotspot.map_or(0.0, |found| found.hit_share() * 100.0),
            Self::RightPercent => report.hotspot.map_or(0.0, |found| found.right_share() * 100.0),
            Self::FullPercent => report.tree.as_ref().map_or(0.0, |tree| tree.fill() * 100.0),
            Self::LiveBytes => report.tree.as_ref().map_or(0.0, crate::report::Tree::live_per_record_bytes),
            Self::PoolBytes => report.pool_per_record_bytes(),
            Self::RequestsPerOperation(verb) => {
                let of_verb = report.verbs.iter().filter(|(_, _, found, _)| *found == verb);
                of_verb.map(|(.., total)| total.requests).sum::<u64>() as f64 / report.operations().max(1) as f64
            }
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Mops => "Mops/s",
            Self::RatePercent | Self::GuessedPercent | Self::RightPercent | Self::FullPercent => "%",
            Self::TimesSherman
            | Self::TimesSmart
            | Self::TimesPSherman
            | Self::TimesPSmart
            | Self::TimesNeverOffloaded
            | Self::TimesAlwaysOffloaded
            | Self::TimesOneCore
            | Self::TimesOnePercent
            | Self::TimesWithoutRdwc => "x",
            Self::CacheMb => "MB",
            Self::LiveBytes | Self::PoolBytes => "B",
            Self::LatencyUs(_) => "us",
            Self::RequestsPerOperation(_) => "an operation",
        }
    }
}

/// One line of the table.
struct Figure {
    /// What, and where it is from.
    title: &'static str,
    /// Options of `dm bench`; `{FG}` and the like are written out by [`command`].
    options: &'static str,
    metric: Metric,
    /// What the paper has.
    paper: f64,
    /// Why ours differs, if by more than a quarter, or what else one must know.
    note: &'static str,
}

/// Arguments of `dm figures`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dm figures                 all, as a Markdown table: a quarter of an hour of one processor\n  \
                        dm figures --jobs 8        eight runs at a time\n  \
                        dm figures --only 'Figure 5'\n  dm figures --commands      the dm bench lines behind them\n  \
                        dm figures --svg figures   charts, beside the papers' values\n  \
                        dm figures --svg figures --from tools/README.md   charts of a table that is there"
)]
pub struct Arguments {
    /// Only figures whose title contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Print the command lines, run nothing
    #[arg(long)]
    commands: bool,

    /// So many runs at the same time, each on a processor and with memory of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,

    /// Draw charts of what was run, too, as files in this directory
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "commands")]
    svg: Option<PathBuf>,

    /// Run nothing: draw a table that was printed earlier and is somewhere in this file
    #[arg(long, value_name = "FILE", requires = "svg", conflicts_with = "only")]
    from: Option<PathBuf>,
}

/// Just enough of a command line to read the options of `dm bench`.
#[derive(Debug, Parser)]
#[command(name = "dm bench")]
struct Bench {
    #[command(flatten)]
    arguments: bench::Arguments,
}

/// In front of the options of a figure that has the techniques that no paper has, too.
const NOT_PAPERS: &str = "{NOT-PAPERS}";

/// The command line of a figure.
fn command(figure: &Figure) -> String {
    let options = [
        ("{SHERMAN}", sherman::CLUSTER),
        ("{FG}", sherman::FG),
        ("{WRITE}", sherman::WRITE_INTENSIVE),
        ("{SKEWED}", sherman::SKEWED),
        ("{UNIFORM}", sherman::UNIFORM),
        ("{RANGE}", sherman::RANGE),
        ("{CHIME}", chime::CLUSTER),
        ("{HOTSPOT}", chime::HOTSPOT),
        ("{DEX}", dex::CLUSTER),
        ("{DEX-CACHE}", dex::CACHE),
        ("{OFFLOAD}", dex::OFFLOAD),
        ("{CACHE-RATIO}", dex::CACHE_RATIO),
        ("{8-PERCENT}", dex::EIGHT_PERCENT),
        ("{AT-CACHE}", dex::AT_CACHE),
        ("{DOLPHIN}", dolphin::CLUSTER),
        ("{DENSE}", dolphin::DENSE),
        ("{INSERTED}", dolphin::INSERTED),
        ("{CACHES}", dolphin::CACHES),
        ("{QUARTER}", dolphin::QUARTER),
        ("{WHOLE}", dolphin::WHOLE),
        ("{ADJACENT}", dolphin::ADJACENT),
        ("{SCATTERED}", dolphin::SCATTERED),
        ("{SCAN}", dolphin::SCAN),
        ("{TABLE}", dolphin::TABLE),
        ("{RDWC}", rdwc::CLUSTER),
        ("{SMART}", smart::CLUSTER),
        ("{SCANS}", smart::SCANS),
        ("{SCALED}", smart::SCALED),
    ];
    let options = options.iter().fold(figure.options.to_owned(), |text, (name, options)| text.replace(name, options));
    let lanes = if options.contains("--lanes") { "" } else { " --lanes 1" };
    let cache = if options.contains("--cache-mib") { "" } else { " --cache-mib 32" };
    let validate = if matches!(figure.metric, Metric::FullPercent | Metric::LiveBytes) { "" } else { " --no-validate" };
    // The papers' programs WRITE; the profiles' times of atomics were fitted with unlocks by CAS. In the papers, locks are taken
    // before what they protect is READ.
    let chained = if options.contains("chain-lock-read") { "" } else { ",chain-lock-read" };
    let (options, is_papers) = match options.strip_prefix(NOT_PAPERS) {
        Some(options) => (options.trim_start(), false),
        None => (&*options, !options.contains("--raw-read")),
    };
    let apart = if is_papers { format!(" --without unlock-writes{chained}") } else { String::new() };
    format!("dm bench --fabric sim{lanes}{cache}{validate}{apart} {options}")
}

/// The command line that a figure's is compared with.
fn rival(figure: &Figure, command: &str) -> Option<String> {
    // The same index with another option.
    match figure.metric {
        Metric::TimesNeverOffloaded => return Some(command.replace(" --offload by-cost", "")),
        Metric::TimesAlwaysOffloaded => return Some(command.replace(" --offload by-cost", " --offload always")),
        Metric::TimesOnePercent => return Some(command.replace(dex::EIGHT_PERCENT, dex::ONE_PERCENT)),
        Metric::TimesOneCore => return Some(command.replace("--memory-cores 4", "--memory-cores 1")),
        _ => {}
    }
    let as_index = |command: &str, other: &str| {
        let other = format!("--index {other}");
        ["chime", "dolphin", "dex"]
            .iter()
            .fold(command.to_owned(), |command, own| command.replace(&format!("--index {own}"), &other))
    };
    let command = command.replace(dex::CACHE, dex::CACHE_OF_RIVALS).replace(dex::AT_CACHE, "");
    let command = &command.replace(dolphin::QUARTER, dolphin::WHOLE);
    match figure.metric {
        Metric::TimesSherman => {
            let command = command.replace(smart::INDEX, smart::AS_SHERMAN).replace(smart::RESERVE, "");
            let command = command.replace(chime::HOTSPOT, chime::NO_HOTSPOT);
            Some(as_index(&command, "sherman"))
        }
        Metric::TimesSmart => Some(as_index(&command.replace(smart::SCALED, smart::SCALED_WHOLE), "smart")),
        Metric::TimesPSherman => Some(as_index(&format!("{command} --with own-ranges"), "sherman")),
        Metric::TimesPSmart => Some(as_index(&format!("{command} --with own-ranges"), "smart")),
        Metric::TimesWithoutRdwc => Some(command.replace(" --with rdwc", "")),
        _ => None,
    }
}

/// All figures.
fn all() -> impl Iterator<Item = &'static Figure> {
    sherman::FIGURES
        .iter()
        .chain(chime::FIGURES)
        .chain(smart::FIGURES)
        .chain(rdwc::FIGURES)
        .chain(dolphin::FIGURES)
        .chain(dex::FIGURES)
}

/// A bar of Sherman's Figure 5 (b), which two machines can repeat on a smaller scale: see `dm trial`.
#[derive(Clone, Debug)]
pub(crate) struct Technique {
    /// What is on.
    pub title: &'static str,
    /// Options of `dm bench` that say so, and what runs.
    pub options: Vec<String>,
    /// The paper's throughput, in Mops/s.
    pub paper: f64,
    /// Whether locks in device memory are what it adds.
    pub adds_device_memory: bool,
}

/// The bars, the first without any technique.
pub(crate) fn techniques() -> Vec<Technique> {
    let is_bar = |figure: &&Figure| {
        figure.title.ends_with("Figure 5, FG+") || figure.title.starts_with("Sherman Figure 5 (b), +")
    };
    let technique = |figure: &'static Figure| {
        let command = command(figure);
        let words: Vec<&str> = command.split_whitespace().collect();
        let kept = words.windows(2).filter(|words| matches!(words[0], "--without" | "-p"));
        Technique {
            title: figure.title,
            options: kept.flatten().map(|&word| word.to_owned()).collect(),
            paper: figure.paper,
            adds_device_memory: figure.title.ends_with("+ On-Chip"),
        }
    };
    all().filter(is_bar).map(technique).collect()
}

/// A published comparison of two indexes on a workload of YCSB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Comparison {
    /// Where it is from.
    pub title: &'static str,
    /// The index.
    pub index: IndexKind,
    /// What it is compared with.
    pub rival: IndexKind,
    /// The workload, as YCSB names it.
    pub workload: &'static str,
    /// How many times the rival's throughput the paper has.
    pub paper: f64,
}

/// Those of which the title says all.
pub(crate) fn comparisons() -> Vec<Comparison> {
    let kind = |name: &str| KINDS.iter().copied().find(|kind| kind.name().eq_ignore_ascii_case(name));
    let comparison = |figure: &'static Figure| {
        let parts: Vec<_> = figure.title.split(", ").collect();
        // YCSB scatters hot keys.
        let ([_, workload, over] | [_, workload, "hot keys scattered", over]) = parts[..] else { return None };
        let workload =
            ["load", "a", "b", "c", "d", "e", "f"].into_iter().find(|name| workload.eq_ignore_ascii_case(name))?;
        let index = kind(figure.title.split(' ').next()?)?;
        let rival = kind(over.strip_prefix("over ")?)?;
        Some(Comparison { title: figure.title, index, rival, workload, paper: figure.paper })
    };
    all().filter_map(comparison).collect()
}

/// Runs the figures and prints the table.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let (Some(directory), Some(file)) = (&arguments.svg, &arguments.from) {
        let table = fs::read_to_string(file).map_err(|error| Failure::Run(format!("{}: {error}", file.display())))?;
        if row::read(&table).is_empty() {
            return Err(Failure::Run(format!("{}: no table of dm figures is in it", file.display())));
        }
        return draw(directory, &table);
    }
    let wanted = |figure: &&Figure| arguments.only.as_ref().is_none_or(|only| figure.title.contains(only.as_str()));
    let figures: Vec<&Figure> = all().filter(wanted).collect();
    if figures.is_empty() {
        let only = arguments.only.as_deref().unwrap_or_default();
        return Err(Failure::Usage(format!("--only {only}: no figure has that in its title; see --commands")));
    }
    if arguments.commands {
        let lines = figures.iter().map(|figure| {
            let command = command(figure);
            let rival = rival(figure, &command).map_or_else(String::new, |rival| format!("{rival}\n"));
            format!("# {}\n{command}\n{rival}", figure.title)
        });
        return print(&lines.collect::<String>());
    }
    let lines: Vec<(String, Option<String>)> = figures
        .iter()
        .map(|figure| {
            let command = command(figure);
            let rival = rival(figure, &command);
            (command, rival)
        })
        .collect();
    // Each line once: figures have several numbers of one run, and rivals in common.
    let mut runs: Vec<&String> = Vec::new();
    for line in lines.iter().flat_map(|(command, rival)| [command].into_iter().chain(rival)) {
        if !runs.contains(&line) {
            runs.push(line);
        }
    }
    print(row::HEAD)?;
    let mut table = row::HEAD.to_owned();
    let mut reports = Vec::with_capacity(runs.len());
    let mut left = figures.iter().zip(&lines).peekable();
    abreast::in_order(
        arguments.jobs,
        &runs,
        |line| measure(line, arguments.jobs),
        |report| {
            reports.push(report);
            let of = |line: &String| reports.get(runs.iter().position(|run| *run == line)?);
            // Rows are printed as soon as they are complete, in their order.
            while let Some((figure, (command, rival))) = left.peek() {
                let (Some(report), rivals) = (of(command), rival.as_ref().map(of)) else { break };
                if rivals.is_some_and(|rivals| rivals.is_none()) {
                    break;
                }
                let line = format!("{}\n", row(figure, report, rivals.flatten()));
                print(&line)?;
                table.push_str(&line);
                left.next();
            }
            Ok(())
        },
    )?;
    arguments.svg.as_ref().map_or(Ok(()), |directory| draw(directory, &table))
}

/// Runs a command line, one of `jobs` at the same time.
fn measure(command: &str, jobs: u16) -> Result<Report, Failure> {
    let words = command.split_whitespace().skip(1);
    let mut bench = Bench::try_parse_from(words).map_err(|error| Failure::Run(format!("{command}: {error}")))?;
    bench.arguments.jobs = Some(jobs);
    let mut measured = bench::execute(&Plan::new(&bench.arguments)?)?;
    let report = measured.reports.pop();
    measured.verdict()?;
    report.ok_or_else(|| Failure::Run(format!("{command}: no workload")))
}

fn row(figure: &Figure, report: &Report, rival: Option<&Report>) -> Row {
    let ours = figure.metric.of(report);
    let rivals = rival.map(|rival| figure.metric.of(rival));
    Row {
        title: figure.title.to_owned(),
        paper: Some(figure.paper).filter(|paper| !paper.is_nan()),
        ours: ours / rivals.unwrap_or(1.0),
        unit: figure.metric.unit().to_owned(),
        both: rivals.map(|rivals| (ours, rivals)),
        note: figure.note.to_owned(),
    }
}

/// Draws the charts of which all figures are in the table.
fn draw(directory: &Path, table: &str) -> Result<(), Failure> {
    let rows = row::read(table);
    let mut told = String::new();
    fs::create_dir_all(directory).map_err(|error| Failure::Run(format!("{}: {error}", directory.display())))?;
    for (name, drawn) in charts::draw(&rows, &parameters) {
        let path = directory.join(name).with_extension("svg");
        // Writing to a string does not fail.
        let _ = match drawn {
            Ok(svg) => {
                fs::write(&path, svg).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
                writeln!(told, "drawn {}", path.display())
            }
            Err(missing) => writeln!(told, "not drawn: {name}, which needs \"{missing}\""),
        };
    }
    print(&told)
}

/// The options that all these figures have in common, with their values.
fn parameters(titles: &[&str]) -> String {
    let mut before = String::new();
    let mut common: Option<Vec<String>> = None;
    for figure in all() {
        let title = row::whole_title(&mut before, figure.title);
        if !titles.contains(&title.as_str()) {
            continue;
        }
        let command = command(figure);
        let options: Vec<String> = command.split(" -").skip(1).map(|option| format!("-{option}")).collect();
        common = Some(match common {
            None => options,
            Some(common) => common.into_iter().filter(|option| options.contains(option)).collect(),
        });
    }
    common.unwrap_or_default().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use dm_core::dolphin::layout::shape::LEAF_BYTES;
    use dm_core::radix::cache::COPY_BYTES;
    use dm_core::radix::slot::NodeType;

    #[test]
    fn every_figure_is_a_command_line_that_can_be_planned() {
        for figure in all() {
            let own = command(figure);
            let rival = rival(figure, &own);
            for command in [own].into_iter().chain(rival) {
                assert!(!command.contains('{'), "{command}");
                let bench = Bench::try_parse_from(command.split_whitespace().skip(1));
                let bench = bench.unwrap_or_else(|error| panic!("{}: {error}", figure.title));
                let plan = Plan::new(&bench.arguments);
                assert!(plan.is_ok(), "{}: {:?}", figure.title, plan.err());
            }
        }
    }
    #[test]
    fn a_rival_differs_in_its_index_and_what_the_paper_gives_it() {
        let figures = |part: &'static str| all().filter(move |figure| figure.title.contains(part));
        assert!(figures("Dolphin").count() >= 20);
        for figure in figures("Dolphin") {
            let own = command(figure);
            let Some(rival) = rival(figure, &own) else { continue };
            assert!(own.contains("--index dolphin") && !rival.contains("--index dolphin"), "{rival}");
            assert_eq!(own.contains(dolphin::QUARTER), figure.title.contains("a quarter of the cache"), "{own}");
            assert!(!rival.contains(dolphin::QUARTER), "{rival}");
        }
    }

    #[test]
    fn what_two_machines_can_repeat_is_found_among_the_figures() {
        let techniques = techniques();
        assert_eq!(techniques.len(), 5, "{techniques:?}");
        assert!(
            techniques.iter().all(|technique| technique.paper > 0.3 && technique.options.len() == 10),
            "{techniques:?}"
        );
        assert_eq!(techniques.iter().filter(|technique| technique.adds_device_memory).count(), 1);
        let comparisons = comparisons();
        let of = |title| *comparisons.iter().find(|comparison| comparison.title == title).unwrap();
        let chime = of("CHIME Figure 12, E, over SMART");
        assert_eq!((chime.index.name(), chime.rival.name(), chime.workload), ("chime", "smart", "e"));
        let dolphin = of("Dolphin Figure 7 (a), A, hot keys scattered, over Sherman");
        assert_eq!((dolphin.index.name(), dolphin.rival.name(), dolphin.workload), ("dolphin", "sherman", "a"));
        assert!(
            comparisons.len() >= 14 && comparisons.iter().all(|comparison| comparison.paper > 0.1),
            "{comparisons:?}"
        );
    }

    /// The table in the README is of these figures: what a run printed and what is drawn from it are of one source.
    #[test]
    fn the_printed_table_has_these_figures() {
        let rows = row::read(include_str!("../../README.md"));
        let mut before = String::new();
        for (figure, row) in all().zip(&rows) {
            assert_eq!(row::whole_title(&mut before, figure.title), row.title);
            let paper = Some(row::number(figure.paper)).filter(|_| !figure.paper.is_nan());
            assert_eq!(paper, row.paper.map(row::number), "{}", row.title);
            assert_eq!((figure.metric.unit(), figure.note), (row.unit.as_str(), row.note.as_str()), "{}", row.title);
        }
        assert_eq!(rows.len(), all().count());
    }

    /// Table II by arithmetic, for the dense keys that its numbers fit.
    #[test]
    fn dense_keys_take_what_table_2_says() {
        // 256 keys: cuts at multiples of the span, so five leaves, and a node of eight slots that leads to them.
        let node = NodeType::new(2).unwrap();
        let prefixes = 512_000_000 / 256_u64;
        let pool_bytes = prefixes * (5 * LEAF_BYTES + node.bytes()) as u64;
        let copies_bytes = prefixes * COPY_BYTES[1] as u64;
        assert_eq!((pool_bytes / 1_000_000, copies_bytes / 1_000_000), (10_400, 160));
    }
}
