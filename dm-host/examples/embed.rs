//! How an application embeds an index: `cargo run --release -p dm-host --example embed -- dm:///tmp/dm.sock`
//!
//! Start a memory node first: `cargo run --release -p dm-host --bin dm-memd -- --size 64MiB --socket /tmp/dm.sock`.
//! Without an address the pool is memory of this process.

use dm_host::dm_core::operation::OperationKind;
use dm_host::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = match std::env::args().nth(1) {
        None => Pool::embedded(64 << 20)?,
        Some(address) => Pool::open(&address)?,
    };
    // In slots of 64 bytes: names of up to 63. Longer ones are refused.
    let index = IndexOptions::new().fixed_bytes(64, 8);
    let options = SessionOptions { workers: 2, ..SessionOptions::default() };
    let sizes = Table::<&str, u64>::open_with(&pool, "file-sizes", &index, &options)?;

    // From as many threads as there are.
    std::thread::scope(|scope| {
        for directory in ["/etc", "/bin", "/usr/lib"] {
            let sizes = &sizes;
            scope.spawn(move || {
                for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                    let name = entry.path().to_string_lossy().into_owned();
                    let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                    if let Err(error) = sizes.upsert(&name, bytes).wait() {
                        eprintln!("{name}: {error}");
                    }
                }
            });
        }
    });

    for record in sizes.prefix("/etc/p") {
        let (name, bytes) = record?;
        println!("{bytes:>9} {name}");
    }
    println!("{:?}\n{:?}", sizes.session().validate()?, sizes.session().statistics().of(OperationKind::Upsert));
    sizes.close();
    Ok(())
}
