//! `dm bench --fabric sim --over-time MS`: throughput over virtual time, of the cluster and of each compute node, as a CSV file
//! and as a curve. Where parts of the keys move meanwhile, the curve shows when.

use crate::failure::Failure;
use crate::picture::axis::{Axis, plain};
use crate::picture::svg::{SERIES, Svg};
use crate::report::Report;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Operations that ended within each point of time, since counting began.
#[derive(Clone, Debug)]
pub struct OverTime {
    point_ns: u64,
    began_ns: Option<u64>,
    /// Operations of each compute node, of the point that is not over.
    counts: Vec<u64>,
    /// The same of those that are over.
    points: Vec<Vec<u64>>,
}

impl OverTime {
    /// Points of so many nanoseconds.
    pub fn new(point_ns: u64, compute_nodes: usize) -> Self {
        Self { point_ns: point_ns.max(1), began_ns: None, counts: vec![0; compute_nodes], points: Vec::new() }
    }

    /// Counting begins now.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.began_ns = Some(now_ns);
    }

    /// It is so late, and an operation of a compute node has ended now.
    pub(super) fn look(&mut self, now_ns: u64, ended: Option<usize>) {
        let Some(began_ns) = self.began_ns else { return };
        while now_ns - began_ns >= (self.points.len() as u64 + 1) * self.point_ns {
            let next = vec![0; self.counts.len()];
            self.points.push(std::mem::replace(&mut self.counts, next));
        }
        if let Some(count) = ended.and_then(|compute_node| self.counts.get_mut(compute_node)) {
            *count += 1;
        }
    }

    fn mops(&self, operations: u64) -> f64 {
        operations as f64 * 1e3 / self.point_ns as f64
    }

    /// When a point begins.
    fn begins_ms(&self, point: usize) -> f64 {
        point as f64 * self.point_ns as f64 / 1e6
    }

    /// A line for each point: when it begins, and the throughput until the next one.
    fn to_csv(&self) -> String {
        let mut text = "time_ms,throughput_mops".to_owned();
        // Writing to a string does not fail.
        for number in 0..self.counts.len() {
            let _ = write!(text, ",compute_node_{number}_mops");
        }
        text.push('\n');
        for (number, point) in self.points.iter().enumerate() {
            let _ = write!(text, "{},{:.6}", plain(self.begins_ms(number)), self.mops(point.iter().sum()));
            for &count in point {
                let _ = write!(text, ",{:.6}", self.mops(count));
            }
            text.push('\n');
        }
        text
    }

    /// Time to the right, throughput upwards: of the cluster, and of each compute node.
    fn to_svg(&self, report: &Report) -> String {
        const LEFT: f64 = 64.0;
        const TOP: f64 = 84.0;
        const WIDTH: f64 = 640.0;
        const HEIGHT: f64 = 340.0;
        /// Between the names of curves.
        const LEADING: f64 = 14.0;
        let bottom = TOP + HEIGHT;
        let whole = |point: &Vec<u64>| self.mops(point.iter().sum());
        let x = Axis::of([self.begins_ms(self.points.len())].into_iter(), false, LEFT, WIDTH);
        let y = Axis::of(self.points.iter().map(whole), false, bottom, -HEIGHT);
        let title = format!("{}, workload {}: throughput over time", report.index, report.workload);
        let mut svg = Svg::new(LEFT + WIDTH + 120.0, &title);
        svg.text((16.0, 28.0), "title", &title);
        svg.text((16.0, TOP - 26.0), "small dim", "Mops/s");
        for tick in y.ticks() {
            svg.line((LEFT, y.at(tick)), (LEFT + WIDTH, y.at(tick)), "grid");
            svg.text((LEFT - 6.0, y.at(tick) + 4.0), "small dim end", &plain(tick));
        }
        for tick in x.ticks() {
            svg.line((x.at(tick), TOP), (x.at(tick), bottom), "grid");
            svg.text((x.at(tick), bottom + 15.0), "small dim mid", &plain(tick));
        }
        svg.text((LEFT + WIDTH, bottom + 31.0), "small dim end", "virtual time since counting began, ms");
        let moved = report.simulation.as_ref().and_then(|simulation| simulation.repartition);
        if let Some(moved) = moved {
            let (began, ended) = (x.at(moved.began_ms), x.at(moved.began_ms + moved.took_ms));
            svg.rect((began, TOP), (ended - began, HEIGHT), "band");
            for (place, class, name) in [(began, "small strong end", "move begins"), (ended, "small strong", "ends")] {
                svg.line((place, TOP - 4.0), (place, bottom), "axis dash");
                svg.text((place, TOP - 8.0), class, name);
            }
        }
        let names = (0..self.counts.len()).map(|number| format!("compute node {number}"));
        let names = ["all".to_owned()].into_iter().chain(names);
        let of = |curve: usize, point: &Vec<u64>| if curve == 0 { whole(point) } else { self.mops(point[curve - 1]) };
        let mut ends: Vec<(f64, String)> = Vec::new();
        for (curve, name) in names.enumerate() {
            // The middle of what a point is the mean of.
            let middle = |number: usize| self.begins_ms(number) + self.begins_ms(1) / 2.0;
            let place = |(number, point)| (x.at(middle(number)), y.at(of(curve, point)));
            let places: Vec<_> = self.points.iter().enumerate().map(place).collect();
            svg.polyline(&places, &format!("series s{}", curve % SERIES));
            ends.extend(places.last().map(|(_, height)| (*height, name)));
        }
        // The names stand beside the curves' ends, from the highest one down, and do not cover each other.
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut free = TOP;
        for (height, name) in ends {
            let height = height.max(free);
            free = height + LEADING;
            svg.text((LEFT + WIDTH + 8.0, height + 4.0), "small strong", &name);
        }
        let moved = moved.map_or_else(String::new, |moved| format!(" {moved}."));
        let said = format!("Measured on {}, {}.{moved}", report.measured_on, report.fabric);
        let end = svg.paragraph((16.0, bottom + 54.0), "small dim", 124, 14.0, &said);
        svg.finish(end + 2.0)
    }
}

fn files(prefix: &Path) -> [PathBuf; 2] {
    ["csv", "svg"].map(|extension| {
        let mut name = prefix.as_os_str().to_owned();
        name.push(".");
        name.push(extension);
        name.into()
    })
}

/// Makes the files: a name that cannot be written to is told before minutes of work.
pub(super) fn create(prefix: &Path) -> Result<(), Failure> {
    files(prefix).iter().try_for_each(|path| File::create(path).map(drop).map_err(|error| failed(path, &error)))
}

/// Writes them. Returns their names.
pub(super) fn write(prefix: &Path, over_time: &OverTime, report: &Report) -> Result<String, Failure> {
    let [csv, svg] = files(prefix);
    for (path, text) in [(&csv, over_time.to_csv()), (&svg, over_time.to_svg(report))] {
        fs::write(path, text).map_err(|error| failed(path, &error))?;
    }
    Ok(format!("throughput over time: {} and {}\n", csv.display(), svg.display()))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Run(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_belongs_to_the_point_in_which_it_ended() {
        let mut over_time = OverTime::new(1_000_000, 2);
        over_time.look(400_000, Some(0));
        over_time.begin(500_000);
        over_time.look(600_000, Some(0));
        // The next point begins, and this is its first operation.
        over_time.look(1_500_000, Some(1));
        over_time.look(3_600_000, Some(1));
        let head = "time_ms,throughput_mops,compute_node_0_mops,compute_node_1_mops\n";
        let points = "0,0.001000,0.001000,0.000000\n1,0.001000,0.000000,0.001000\n2,0.000000,0.000000,0.000000\n";
        // The last one is not over, and is left out.
        assert_eq!(over_time.to_csv(), format!("{head}{points}"));
    }
}
