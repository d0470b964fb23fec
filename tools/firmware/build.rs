//! Names the linker script of the board.

fn main() {
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let board = if architecture == "arm" { "thumbv7em" } else { &architecture };
    println!("cargo::rustc-link-arg-bins=-Tlink/{board}.ld");
    println!("cargo::rerun-if-changed=link");
}
