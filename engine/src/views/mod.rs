//! What is said of threads: the JSON lines that the command line prints, which are part of the interface,
//! and the sums behind them.

pub mod in_flight;
pub mod lines;
pub mod prefix;
pub mod request;
pub mod since;
pub mod spending;
pub mod usage;
