//! `libdm.so` and `libdm.a`: `cargo build --release -p libdm`. All code is in [`dm_host::c`]; the header is
//! `dm-host/include/dm.h`.

pub use dm_host::c;
