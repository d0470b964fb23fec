//! What a get costs whose key another compute node owns, beside one on an own key: where keys have owners (DEX), on shared memory.
//! One at a time, and as one of 100 of a `multi_get`, which one message takes to their owner.
//!
//! `cargo run --release --example forward_speed`. Two sessions of one process, each with a row of its own; the threads of both
//! need processors.

use dm_core::dex::parameters::Parameters;
use dm_host::prelude::*;
use std::time::Instant;

const KEYS: u64 = 10_000;
const ROUNDS: u64 = 100_000;
/// Keys of a `multi_get`.
const KEYS_AT_ONCE: u64 = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::embedded(64 << 20)?;
    let options = SessionOptions { lanes_per_worker: 4, local_handles: 1, ..SessionOptions::default() };
    let open = || Session::open_or_create(&pool, "index", Parameters::with_sizes(8, 8), &options);
    let (owner, other) = (open()?, open()?);
    let key = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let (own, forwarded) = (owner.local()?, other.local()?);
    let print = |what: &str, mut times: Vec<u128>| {
        times.sort_unstable();
        let at = |percent: usize| times[times.len() * percent / 100];
        println!("{what:<28}{:>10}{:>10}{:>10}", at(10), at(50), at(90));
    };
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
        print(what, times);
    }
    println!("{:<28}", format!("... of {KEYS_AT_ONCE} keys at once"));
    for (what, handle) in [("own keys", &own), ("another one's keys", &forwarded)] {
        let mut times = Vec::new();
        for n in 0..ROUNDS / KEYS_AT_ONCE {
            let keys: Vec<_> = (0..KEYS_AT_ONCE).map(|at| key((n * KEYS_AT_ONCE + at) * 7 % KEYS)).collect();
            let began = Instant::now();
            let found = handle.multi_get(keys.iter().map(|key| &key[..]));
            times.push(began.elapsed().as_nanos() / u128::from(KEYS_AT_ONCE));
            if !found.iter().all(|found| matches!(found, Ok(Some(_)))) {
                return Err("a key that is not there".into());
            }
        }
        print(what, times);
    }
    let mut times = Vec::new();
    for n in 0..ROUNDS / KEYS_AT_ONCE {
        let keys: Vec<_> = (0..KEYS_AT_ONCE).map(|at| key((n * KEYS_AT_ONCE + at) * 7 % KEYS)).collect();
        let began = Instant::now();
        let found = other.multi_get(&keys).wait();
        times.push(began.elapsed().as_nanos() / u128::from(KEYS_AT_ONCE));
        if !found.iter().all(|found| matches!(found, Ok(Some(_)))) {
            return Err("a key that is not there".into());
        }
    }
    print("another one's, by a queue", times);
    Ok(())
}
