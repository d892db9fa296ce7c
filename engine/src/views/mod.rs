//! What is said of threads: the JSON lines that the command line prints, which are part of the interface,
//! and the sums behind them.

pub mod batches;
pub mod diff;
pub mod fork;
pub mod form;
pub mod in_flight;
pub mod lines;
pub mod prefix;
pub mod records;
pub mod request;
pub mod scenario;
pub mod since;
pub mod spending;
pub mod usage;
