//! `dm bench --sweep OPTION=VALUE,...`: the same benchmark for several values of one option, as a table, a CSV file and
//! a throughput-latency curve; or of two or three options, with curves of throughput over the first one.

use super::{Arguments, execute, plan::Plan};
use crate::abreast;
use crate::failure::{Failure, print};
use crate::kinds::BenchOptions;
use crate::picture::axis::{Axis, plain};
use crate::picture::svg::{SERIES, Svg};
use crate::report::Report;
use crate::report::text::{push_row, push_table, table_of};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Options that can be swept, besides those that only one kind of index has.
const OPTIONS: [&str; 9] = [
    "threads",
    "lanes",
    "compute-nodes",
    "memory-nodes",
    "memory-cores",
    "cache-mib",
    "key-bytes",
    "value-bytes",
    "leaf-span",
];

/// Those that are named after them.
const MORE_OPTIONS: [&str; 2] = ["raw-read", "zipfianconstant"];

/// Options of one sweep.
const OPTIONS_MAX: usize = 3;

/// Points a sweep may have.
const VALUES_MAX: usize = 64;

/// One point: one workload at one value of each option.
struct Point {
    values: Vec<String>,
    report: Report,
}

/// An option, and the values that it is to have.
type Swept<'a> = (&'static str, Vec<&'a str>);

/// Runs the sweep.
pub fn run(arguments: &Arguments, prefix: &Path) -> Result<(), Failure> {
    let swept = arguments.sweep.iter().map(|sweep| parse(sweep)).collect::<Result<Vec<Swept<'_>>, _>>()?;
    let names: Vec<&str> = swept.iter().map(|(option, _)| *option).collect();
    let is_twice = (1..names.len()).any(|number| names[..number].contains(&names[number]));
    if names.len() > OPTIONS_MAX || is_twice {
        return Err(Failure::Usage(format!("--sweep: of one option, or of up to {OPTIONS_MAX} different ones")));
    }
    if arguments.json.is_some() || arguments.trace.is_some() {
        return Err(Failure::Usage("--sweep: writes --sweep-out; --json and --trace are of single runs".to_owned()));
    }
    // Every point is planned, and the files are made, before the first runs.
    let mut plans = Vec::new();
    for values in choices(&swept) {
        let mut arguments = arguments.clone();
        for (option, value) in names.iter().zip(&values) {
            arguments = with(&arguments, option, value)?;
        }
        plans.push((values, Plan::new(&arguments)?));
    }
    if plans.len() > VALUES_MAX {
        return Err(Failure::Usage(format!("--sweep: {} points; at most {VALUES_MAX}", plans.len())));
    }
    let (csv, svg) = (with_extension(prefix, "csv"), with_extension(prefix, "svg"));
    for path in [&csv, &svg] {
        File::create(path).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    }
    for notice in plans.first().map_or(&[][..], |(_, plan)| &plan.notices) {
        eprintln!("note: {notice}");
    }
    let mut points = Vec::new();
    let work = |(values, plan): &(Vec<String>, Plan)| Ok((values.clone(), execute(plan)?));
    abreast::in_order(arguments.jobs.unwrap_or(1), &plans, work, |(values, measured)| {
        points.extend(measured.reports.iter().map(|report| Point { values: values.clone(), report: report.clone() }));
        measured.verdict()
    })?;
    let write = |path: &PathBuf, text: String| {
        fs::write(path, text).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))
    };
    write(&csv, to_csv(&names, &points))?;
    let drawn = match names[..] {
        [option] => to_svg(option, &points),
        [first, ref others @ ..] => to_curves((first, others), &points),
        [] => String::new(),
    };
    write(&svg, drawn)?;
    print(&to_table(&names, &points))?;
    print(&format!("curves: {} and {}\n", csv.display(), svg.display()))
}

/// Every choice of a value for each option.
fn choices(swept: &[Swept<'_>]) -> Vec<Vec<String>> {
    swept.iter().fold(vec![Vec::new()], |chosen, (_, values)| {
        let with = |before: &Vec<String>, value: &&str| [&before[..], &[(*value).to_owned()]].concat();
        chosen.iter().flat_map(|before| values.iter().map(move |value| with(before, value))).collect()
    })
}

/// `threads=1,2,4` as its parts.
fn parse(sweep: &str) -> Result<(&'static str, Vec<&str>), Failure> {
    let wrong = |what: String| Failure::Usage(format!("--sweep {sweep}: {what}"));
    let (name, values) = sweep.split_once('=').ok_or_else(|| wrong("it is written OPTION=VALUE,VALUE".to_owned()))?;
    let options = [&OPTIONS[..], &BenchOptions::swept(), &MORE_OPTIONS].concat();
    let option = options.iter().copied().find(|option| *option == name);
    let option = option.ok_or_else(|| wrong(format!("no such option; there are {}", options.join(", "))))?;
    let values: Vec<_> = values.split(',').map(str::trim).collect();
    if values.iter().any(|value| value.is_empty()) {
        return Err(wrong("a value is missing".to_owned()));
    }
    if values.len() > VALUES_MAX {
        return Err(wrong(format!("{} values; at most {VALUES_MAX}", values.len())));
    }
    Ok((option, values))
}

/// The command line with one option replaced.
fn with(arguments: &Arguments, option: &str, value: &str) -> Result<Arguments, Failure> {
    fn number<T>(option: &str, value: &str, least: T, most: T) -> Result<T, Failure>
    where
        T: FromStr + PartialOrd + std::fmt::Display + Copy,
    {
        let found = value.parse().ok().filter(|found| (least..=most).contains(found));
        found.ok_or_else(|| Failure::Usage(format!("--sweep {option}: {value} is not within {least} to {most}")))
    }
    let mut with = arguments.clone();
    match option {
        "threads" => with.threads = Some(number(option, value, 1, 1024)?),
        "lanes" => with.lanes = number(option, value, 1, 1024)?,
        "compute-nodes" => with.compute_nodes = Some(number(option, value, 1, 127)?),
        "memory-nodes" => with.memory_nodes = number(option, value, 1, 256)?,
        "memory-cores" => with.memory_cores = Some(number(option, value, 1, 1024)?),
        "cache-mib" => with.cache_mib = number(option, value, 0, 1 << 20)?,
        "key-bytes" => with.key_bytes = number(option, value, 8, 64)?,
        "value-bytes" => with.value_bytes = Some(number(option, value, 8, 1024)?),
        "leaf-span" => with.leaf_span = Some(number(option, value, 2, 512)?),
        "raw-read" => with.raw_read = Some(number(option, value, 8, 1 << 20)?),
        _ if with.kinds.sweep(
            option,
            |least, most| number(option, value, least, most),
            |words| {
                let found = words.iter().copied().find(|word| *word == value);
                let all = words.join(", ");
                found.ok_or_else(|| Failure::Usage(format!("--sweep {option}: {value} is none of {all}")))
            },
        )? => {}
        _ => with.properties.push(format!("{option}={value}")),
    }
    Ok(with)
}

fn with_extension(prefix: &Path, extension: &str) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Latency in us at `quantile` over all kinds: that of the slowest kind would hide the others, so kinds are merged.
fn latency_us(report: &Report, quantile: f64) -> f64 {
    report.latency_ns_at(quantile) as f64 / 1e3
}

fn to_csv(options: &[&str], points: &[Point]) -> String {
    let mut text = format!(
        "{},workload,throughput_mops,latency_p50_us,latency_p90_us,latency_p99_us,round_trips_per_op,\
         retries_per_op,read_bytes_per_op,written_bytes_per_op,limited_by,measured_on\n",
        options.join(",")
    );
    for Point { values, report } in points {
        let cost = report.cost();
        let per = |total: u64| total as f64 / report.operations().max(1) as f64;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{},{},{:.6},{:.3},{:.3},{:.3},{:.4},{:.4},{:.2},{:.2},{},{}",
            values.join(","),
            report.workload,
            report.throughput_ops_per_s() / 1e6,
            latency_us(report, 0.5),
            latency_us(report, 0.9),
            latency_us(report, 0.99),
            per(cost.round_trips),
            per(cost.retries),
            per(cost.read_bytes),
            per(cost.written_bytes),
            report.simulation.as_ref().map_or("", |simulation| simulation.usage.bottleneck.as_str()),
            report.fabric.replace(',', ""),
        );
    }
    text
}

fn to_table(options: &[&str], points: &[Point]) -> String {
    let heads = [options, &["workload", "Mops/s", "p50 us", "p99 us", "RTT/op", "retries/op", "limited by"]].concat();
    let mut table = table_of(&heads);
    for Point { values, report } in points {
        let cost = report.cost();
        let per = |total: u64| format!("{:.2}", total as f64 / report.operations().max(1) as f64);
        let mut cells = values.clone();
        cells.extend([
            report.workload.clone(),
            format!("{:.3}", report.throughput_ops_per_s() / 1e6),
            format!("{:.2}", latency_us(report, 0.5)),
            format!("{:.2}", latency_us(report, 0.99)),
            per(cost.round_trips),
            per(cost.retries),
            report.simulation.as_ref().map_or_else(String::new, |simulation| simulation.usage.bottleneck.clone()),
        ]);
        push_row(&mut table, cells, options.len() + 1);
    }
    let mut text =
        points.first().map_or_else(String::new, |point| format!("measured on {}\n\n", point.report.measured_on));
    push_table(&mut text, &table);
    text
}

/// Throughput to the right, median and 99th percentile upwards (logarithmic); one pair of curves per workload.
fn to_svg(option: &str, points: &[Point]) -> String {
    const LEFT: f64 = 64.0;
    const TOP: f64 = 70.0;
    const WIDTH: f64 = 640.0;
    const HEIGHT: f64 = 380.0;
    let throughput = |point: &Point| point.report.throughput_ops_per_s() / 1e6;
    let latency = |point: &Point, quantile| latency_us(&point.report, quantile).max(1e-3);
    let bottom = TOP + HEIGHT;
    let x = Axis::of(points.iter().map(throughput), false, LEFT, WIDTH);
    let latencies = points.iter().flat_map(|point| [latency(point, 0.5), latency(point, 0.99)]);
    let y = Axis::of(latencies, true, bottom, -HEIGHT);
    let measured_on = points.first().map_or("", |point| point.report.measured_on.as_str());

    let mut svg = Svg::new(LEFT + WIDTH + 96.0, &format!("Sweep over {option}"));
    svg.text((16.0, 28.0), "title", &format!("Sweep over {option}: latency at throughput"));
    svg.text(
        (16.0, TOP - 12.0),
        "small dim",
        "latency, us (logarithmic); solid: p50, with the value of the option; dashed: p99",
    );
    for tick in x.ticks() {
        svg.line((x.at(tick), TOP), (x.at(tick), bottom), "grid");
        svg.text((x.at(tick), bottom + 15.0), "small dim mid", &plain(tick));
    }
    for tick in y.ticks() {
        svg.line((LEFT, y.at(tick)), (LEFT + WIDTH, y.at(tick)), "grid");
        svg.text((LEFT - 6.0, y.at(tick) + 4.0), "small dim end", &plain(tick));
    }
    svg.text((LEFT + WIDTH, bottom + 31.0), "small dim end", "throughput, Mops/s");
    let mut workloads: Vec<&str> = Vec::new();
    for point in points {
        if !workloads.contains(&point.report.workload.as_str()) {
            workloads.push(&point.report.workload);
        }
    }
    for (number, workload) in workloads.iter().enumerate() {
        let own: Vec<&Point> = points.iter().filter(|point| point.report.workload == *workload).collect();
        let class = format!("series s{}", number % SERIES);
        for (quantile, dash) in [(0.99, " dash"), (0.5, "")] {
            let places: Vec<_> =
                own.iter().map(|point| (x.at(throughput(point)), y.at(latency(point, quantile)))).collect();
            svg.polyline(&places, &format!("{class}{dash}"));
            for place in &places {
                svg.circle(*place, 2.5, &class);
            }
            if let Some((right, height)) = places.last() {
                let name = if dash.is_empty() { "p50" } else { "p99" };
                svg.text((right + 8.0, height + 4.0), "small strong", &format!("{workload}, {name}"));
            }
        }
        for point in own {
            svg.text((x.at(throughput(point)), y.at(latency(point, 0.5)) - 8.0), "tiny mid", &point.values.join(", "));
        }
    }
    let end = svg.paragraph((16.0, bottom + 54.0), "small dim", 124, 14.0, &format!("Measured on {measured_on}."));
    svg.finish(end + 2.0)
}

/// Values of the first option to the right, as far from each other as from the next; throughput upwards; a curve for each
/// workload and choice of values of the other options.
fn to_curves((first, others): (&str, &[&str]), points: &[Point]) -> String {
    const LEFT: f64 = 64.0;
    const TOP: f64 = 70.0;
    const WIDTH: f64 = 560.0;
    const HEIGHT: f64 = 340.0;
    /// Between the names of curves.
    const LEADING: f64 = 14.0;
    /// Width of a letter of these names.
    const LETTER: f64 = 6.5;
    let throughput = |point: &Point| point.report.throughput_ops_per_s() / 1e6;
    let bottom = TOP + HEIGHT;
    let y = Axis::of(points.iter().map(throughput), false, bottom, -HEIGHT);
    let measured_on = points.first().map_or("", |point| point.report.measured_on.as_str());
    let mut columns: Vec<&String> = Vec::new();
    let mut curves: Vec<(String, Vec<(usize, f64)>)> = Vec::new();
    for point in points {
        let [of_first, of_others @ ..] = &point.values[..] else { continue };
        let column = columns.iter().position(|value| *value == of_first).unwrap_or_else(|| {
            columns.push(of_first);
            columns.len() - 1
        });
        let choice = others.iter().zip(of_others).map(|(option, value)| format!(", {option} {value}"));
        let name = point.report.workload.clone() + &choice.collect::<String>();
        match curves.iter_mut().find(|(known, _)| *known == name) {
            Some((_, places)) => places.push((column, throughput(point))),
            None => curves.push((name, vec![(column, throughput(point))])),
        }
    }
    let x = |column: usize| LEFT + WIDTH * (column as f64 + 0.5) / columns.len().max(1) as f64;

    let title = format!("Sweep over {first}, {}", others.join(", "));
    let longest = curves.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut svg = Svg::new(LEFT + WIDTH + 20.0 + LETTER * longest as f64, &title);
    svg.text((16.0, 28.0), "title", &format!("{title}: throughput"));
    svg.text((16.0, TOP - 12.0), "small dim", "Mops/s");
    for tick in y.ticks() {
        svg.line((LEFT, y.at(tick)), (LEFT + WIDTH, y.at(tick)), "grid");
        svg.text((LEFT - 6.0, y.at(tick) + 4.0), "small dim end", &plain(tick));
    }
    for (column, value) in columns.iter().enumerate() {
        svg.text((x(column), bottom + 15.0), "small dim mid", value);
    }
    svg.text((LEFT + WIDTH, bottom + 31.0), "small dim end", first);
    // The names stand beside the curves' ends, from the highest one down, and do not cover each other.
    let end = |places: &[(usize, f64)]| places.last().map_or(bottom, |(_, value)| y.at(*value));
    let mut order: Vec<usize> = (0..curves.len()).collect();
    order.sort_by(|one, other| end(&curves[*one].1).total_cmp(&end(&curves[*other].1)));
    let mut free = TOP;
    for number in order {
        let (name, places) = &curves[number];
        let class = format!("series s{}", number % SERIES);
        let places: Vec<_> = places.iter().map(|(column, value)| (x(*column), y.at(*value))).collect();
        svg.polyline(&places, &class);
        for place in &places {
            svg.circle(*place, 2.5, &class);
        }
        if let Some((right, height)) = places.last() {
            let height = height.max(free);
            free = height + LEADING;
            svg.text((right + 10.0, height + 4.0), "small strong", name);
        }
    }
    let end = svg.paragraph((16.0, bottom + 54.0), "small dim", 124, 14.0, &format!("Measured on {measured_on}."));
    svg.finish(end + 2.0)
}
