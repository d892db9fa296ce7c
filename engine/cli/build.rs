//! Has the linker keep `rondo` small: line tables, read only for a backtrace, are compressed, and the table of symbols
//! holds no local names, which line tables have anyway where they matter. And sets how glibc gives memory back, which
//! can be done from C alone without code that is unsafe here. And tells the program how it was built.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/malloc.c");
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") == "linux" {
        // Where rustc brings its own linker, it knows zstd; elsewhere it may be older.
        let form = if target("ARCH") == "x86_64" { "zstd" } else { "zlib" };
        println!("cargo:rustc-link-arg-bins=-Wl,--compress-debug-sections={form},--discard-all");
    }
    if target("ENV") == "gnu" && target("OS") == "linux" {
        for object in cc::Build::new().file("src/malloc.c").compile_intermediates() {
            println!("cargo:rustc-link-arg-bins={}", object.display());
        }
    }
    // The wrapper has RocksDB compute checksums by the processor, so the program looks for what that takes.
    let wrapper = "CXX_x86_64_unknown_linux_gnu";
    println!("cargo:rerun-if-env-changed={wrapper}");
    println!("cargo:rustc-check-cfg=cfg(checksums_by_processor)");
    let is_wrapped = std::env::var(wrapper).is_ok_and(|compiler| compiler.ends_with(".cargo/cxx"));
    if is_wrapped && target("ARCH") == "x86_64" && target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo:rustc-cfg=checksums_by_processor");
    }
    told_version();
}

/// `0.1.0 (dist, x86_64-unknown-linux-gnu, rustc 1.95.0, commit 1a2b3c4d5e)`. Packages name their commit; a build in a
/// working copy does not, which may hold more than its last commit.
fn told_version() {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    println!("cargo:rerun-if-env-changed=RONDO_COMMIT");
    let compiler = Command::new(of("RUSTC")).arg("--version").output();
    let compiler = compiler.map_or_else(|_| String::new(), |told| String::from_utf8_lossy(&told.stdout).into_owned());
    let compiler: Vec<&str> = compiler.split_whitespace().take(2).collect();
    // The folder of the profile, below which lies `build/rondo-cli-DIGEST/out`.
    let folder = of("OUT_DIR");
    let profile = folder.rsplit('/').nth(3).unwrap_or_default().to_owned();
    let commit = std::env::var("RONDO_COMMIT").map_or_else(|_| String::new(), |commit| format!(", commit {commit}"));
    let (version, target, compiler) = (of("CARGO_PKG_VERSION"), of("TARGET"), compiler.join(" "));
    println!("cargo:rustc-env=BUILT_VERSION={version} ({profile}, {target}, {compiler}{commit})");
}
