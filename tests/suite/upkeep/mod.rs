//! The upkeep of stores: what examines, mends and moves them, on stores that were damaged in every way that a device
//! or a person can think of.

mod backup;
mod damage;
mod fsck;
mod gc;
mod repair;
mod transfer;
