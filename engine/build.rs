//! Has the linker keep `rondo` small: line tables, read only for a backtrace, are compressed, and the table of symbols
//! holds no local names, which line tables have anyway where they matter. And sets how glibc gives memory back, which
//! can be done from C alone without code that is unsafe here.

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
}
