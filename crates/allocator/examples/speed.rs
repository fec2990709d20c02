//! Times the allocator alone on a request program, as `oracle --bench` times PyTorch's: the same options, the same line.
//!
//!     cargo run --release --example speed -- --program p.csv --torch 2.15 --capacity-mib 143000 --conf expandable_segments:True

#![expect(clippy::print_stdout, reason = "what it is for")]

use std::error::Error;
use std::time::Instant;

use highwater_allocator::program::{Options, Program, run_quietly};
use highwater_allocator::{AddressPolicy, TorchVersion};

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 requests")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut path = None;
    let mut options = Options {
        torch: TorchVersion::NEWEST,
        conf: String::new(),
        capacity_bytes: 16 << 30,
        outside_bytes: 0,
        addresses: AddressPolicy::FirstFit,
        stop_on_oom: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(|| format!("missing value for {name}"))?;
        match name.as_str() {
            "--program" => path = Some(value),
            "--torch" => options.torch = value.parse()?,
            "--conf" => options.conf = value,
            "--capacity-mib" => options.capacity_bytes = value.parse::<u64>()? << 20,
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    let program = Program::parse(&std::fs::read(path.ok_or("--program is required")?)?)?;
    let begun = Instant::now();
    let statistics = run_quietly(&program, &options)?;
    let elapsed = begun.elapsed();
    println!(
        "ops={} ns_per_op={:.1} ooms={} retries={} peak_reserved={} device_calls={}",
        program.ops.len(),
        elapsed.as_secs_f64() * 1e9 / program.ops.len() as f64,
        statistics.num_ooms,
        statistics.num_alloc_retries,
        statistics.reserved_bytes.all().peak,
        statistics.num_device_alloc + statistics.num_device_free,
    );
    Ok(())
}
