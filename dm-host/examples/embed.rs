//! How an application embeds an index: `cargo run --release -p dm-host --example embed -- SOCKET...`
//!
//! Start a memory node first: `cargo run --release -p dm-host --bin dm-memd -- --size 64MiB --socket /tmp/dm.sock`

use dm_core::operation::OperationKind;
use dm_core::sherman::parameters::Parameters;
use dm_host::fabric::shm::ShmOptions;
use dm_host::pool::Pool;
use dm_host::session::{Session, SessionOptions, byte_string};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sockets: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let pool = Arc::new(Pool::connect(&sockets, ShmOptions::default())?);
    // Keys: strings of up to 63 bytes. Values: 8 bytes.
    let options = SessionOptions { workers: 2, ..SessionOptions::default() };
    let session = Session::open_or_create(&pool, "file-sizes", Parameters::with_sizes(64, 8), &options)?;

    // From as many threads as there are: a clone each.
    std::thread::scope(|scope| {
        for directory in ["/etc", "/bin", "/usr/lib"] {
            let session = session.clone();
            scope.spawn(move || {
                for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                    let Ok(key) = byte_string::pack::<64>(entry.path().as_os_str().as_encoded_bytes()) else {
                        continue;
                    };
                    let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                    if let Err(error) = session.upsert(&key, &bytes.to_le_bytes()).wait() {
                        eprintln!("{}: {error}", entry.path().display());
                    }
                }
            });
        }
    });

    let (low, high) = (byte_string::pack::<64>(b"/etc/p")?, byte_string::pack::<64>(b"/etc/q")?);
    for record in session.scan(Bound::Included(&low), Bound::Excluded(&high)) {
        let (key, value) = record?;
        let name = byte_string::unpack(&key).unwrap_or_default();
        println!("{:>9} {}", u64::from_le_bytes(value.try_into().unwrap_or_default()), String::from_utf8_lossy(name));
    }
    println!("{:?}\n{:?}", session.validate()?, session.statistics().of(OperationKind::Upsert));
    session.close();
    Ok(())
}
