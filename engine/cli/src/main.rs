//! The `rondo` binary.

fn main() -> std::process::ExitCode {
    rondo_cli::main()
}
