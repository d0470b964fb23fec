//! Random histories in which several compute nodes die and the others continue. Arguments: sherman or chime, the first
//! seed, and the number of histories; 0 replays the first seed.

use dm_sim::verify::crash::random;
use dm_sim::verify::{Chime, Recovered, Sherman, Subject, Verifier};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let index = arguments.next().unwrap_or_default();
    let mut numbers = arguments.map(|text| text.parse().expect("a number"));
    let (first, count): (u64, u64) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1000));
    if index == "chime" { run(Recovered(Chime), first, count) } else { run(Recovered(Sherman), first, count) }
}

fn run<S: Subject>(subject: S, first: u64, count: u64) {
    let settings = random::settings();
    let mut verifier = Verifier::new(subject, settings.clone());
    if count == 0 {
        println!("{}", verifier.run_with(first, &random::plan(&settings, first), true));
    } else {
        println!("{}", random::run(&mut verifier, &settings, first..first + count));
    }
}
