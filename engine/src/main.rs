//! The `rondo` binary.

fn main() -> std::process::ExitCode {
    rondo_engine::cli::main()
}
