//! Every crash point of every case, or of those whose name contains the argument: points per case, repairs per case.

use dm_sim::verify::crash::{Enumeration, cases, enumerate};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let filter = arguments.next().unwrap_or_default();
    let mut number = |default| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (points, repairs) = (number(usize::MAX), number(0));
    let mut sum = Enumeration::default();
    for case in cases::all().iter().filter(|case| case.name.contains(&filter)) {
        let one = enumerate(case, points, repairs);
        if !one.is_clean() {
            println!("{}: {} of {} runs failed", case.name, one.failed, one.runs);
        }
        sum.merge(one);
    }
    println!("{sum}");
}
