//! Names the linker script of the board, and compiles the driver in C if that is wanted.

use std::env::var;
use std::process::Command;

fn main() {
    let architecture = var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let (board, machine): (&str, &[&str]) = match architecture.as_str() {
        "arm" => ("thumbv7em", &["--target=thumbv7em-none-eabihf", "-mfpu=fpv4-sp-d16"]),
        "riscv64" => ("riscv64", &["--target=riscv64-none-elf", "-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany"]),
        _ => ("aarch64", &["--target=aarch64-none-elf"]),
    };
    println!("cargo::rustc-link-arg-bins=-Tlink/{board}.ld");
    println!("cargo::rerun-if-changed=link");
    if var("CARGO_FEATURE_C_DRIVER").is_ok() {
        println!("cargo::rerun-if-changed=c");
        let object = format!("{}/driver.o", var("OUT_DIR").unwrap_or_default());
        let freestanding = ["-std=c11", "-ffreestanding", "-nostdlib", "-Os", "-Wall", "-Wextra", "-Werror"];
        let status =
            Command::new("clang").args(machine).args(freestanding).args(["-c", "c/driver.c", "-o", &object]).status();
        assert!(status.is_ok_and(|status| status.success()), "clang cannot compile c/driver.c");
        println!("cargo::rustc-link-arg-bins={object}");
    }
}
