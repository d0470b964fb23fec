//! Random histories in which compute nodes die and the others go on: first seed, how many.

use dm_sim::verify::{FaultKind, Faults, Settings, ShermanRecovered, Verifier};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let (first, count): (u64, u64) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1000));
    let settings = Settings {
        faults: Faults::only(FaultKind::Crash)
            .and(Faults::only(FaultKind::RpcLost))
            .and(Faults::only(FaultKind::RpcRepeated)),
        ..Settings::default()
    };
    let mut verifier = Verifier::new(ShermanRecovered, settings);
    if count == 0 {
        match verifier.replay_shortest(first) {
            Some(replay) => println!("{replay}"),
            None => println!("seed {first}: nothing wrong"),
        }
        return;
    }
    println!("{}", verifier.verify(first..first + count));
}
