//! Whole threads, driven without a store, a clock or a provider.

mod budget;
mod driver;
mod fan_outs;
mod kinds;
mod laws;
mod size;
