//! Tries every crash point of every case of an index, sherman or chime. A second argument selects the cases whose name
//! contains it. The remaining arguments are the points per case and the repairs per case.

use dm_sim::verify::crash::{Enumeration, enumerate};
use dm_sim::verify::{Chime, Sherman, TreeKind};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let cases =
        if arguments.next().as_deref() == Some("chime") { Chime::crash_cases() } else { Sherman::crash_cases() };
    let filter = arguments.next().unwrap_or_default();
    let mut number = |default| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (points, repairs) = (number(usize::MAX), number(0));
    let mut sum = Enumeration::default();
    for case in cases.iter().filter(|case| case.name.contains(&filter)) {
        let one = enumerate(case, points, repairs);
        if !one.is_clean() {
            println!("{}: {} of {} runs failed", case.name, one.failed, one.runs);
        }
        sum.merge(one);
    }
    println!("{sum}");
}
