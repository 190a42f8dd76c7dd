//! Tests of the rules of the classic protocol, each named by what it promises.

mod bench;
mod commit;
mod field_reports;
mod join;
mod leave;
mod load;
mod migrate;
mod model;
mod protocols;
mod rebalance;
mod scale;
mod static_members;
mod sync;
