//! Random histories in which compute nodes die, several in each, and the others go on: first seed, how many; 0 replays
//! the first seed.

use dm_sim::verify::crash::random;
use dm_sim::verify::{ShermanRecovered, Verifier};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let (first, count): (u64, u64) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1000));
    let settings = random::settings();
    let mut verifier = Verifier::new(ShermanRecovered, settings.clone());
    if count == 0 {
        println!("{}", verifier.run_with(first, &random::plan(&settings, first), true));
    } else {
        println!("{}", random::run(&mut verifier, &settings, first..first + count));
    }
}
