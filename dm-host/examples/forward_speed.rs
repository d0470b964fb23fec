//! What a get costs whose key another compute node owns, beside one on an own key: where keys have owners (DEX), on shared memory.
//!
//! `cargo run --release --example forward_speed`. Two sessions of one process, each with a row of its own; the threads of both
//! need processors.

use dm_core::dex::parameters::Parameters;
use dm_host::prelude::*;
use std::time::Instant;

const KEYS: u64 = 10_000;
const ROUNDS: u64 = 100_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::embedded(64 << 20)?;
    let options = SessionOptions { lanes_per_worker: 4, local_handles: 1, ..SessionOptions::default() };
    let open = || Session::open_or_create(&pool, "index", Parameters::with_sizes(8, 8), &options);
    let (owner, other) = (open()?, open()?);
    let key = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let (own, forwarded) = (owner.local()?, other.local()?);
    for n in 0..KEYS {
        own.upsert(&key(n), &n.to_le_bytes())?;
    }
    println!("{:<28}{:>10}{:>10}{:>10}", "ns a get, at 10, 50, 90 %", "", "", "");
    for (what, handle) in [("own key", &own), ("another one's key", &forwarded)] {
        let mut times = Vec::new();
        for n in 0..ROUNDS {
            let began = Instant::now();
            if handle.get(&key(n * 7 % KEYS))?.is_none() {
                return Err("a key that is not there".into());
            }
            times.push(began.elapsed().as_nanos());
        }
        times.sort_unstable();
        let at = |percent: usize| times[times.len() * percent / 100];
        println!("{what:<28}{:>10}{:>10}{:>10}", at(10), at(50), at(90));
    }
    Ok(())
}
