//! Runs a request program: `run_program PROGRAM.csv TORCH CONF CAPACITY_BYTES VA OUT_PREFIX`; with OUT_PREFIX `-`, times it.
use highwater_allocator::program::{Options, Program, run, run_quietly};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let program = Program::parse(&std::fs::read(&args[1]).unwrap()).unwrap();
    let options = Options {
        torch: args[2].parse().unwrap(),
        conf: args[3].clone(),
        capacity_bytes: args[4].parse().unwrap(),
        outside_bytes: 0,
        addresses: args[5].parse().unwrap(),
        stop_on_oom: false,
    };
    if args[6] == "-" {
        for _ in 0..7 {
            let start = std::time::Instant::now();
            let stats = run_quietly(&program, &options).unwrap();
            println!(
                "{:.1} ns/op {} retries {} ooms {}",
                start.elapsed().as_secs_f64() * 1e9 / program.ops.len() as f64,
                stats.reserved_bytes.all().peak,
                stats.num_alloc_retries,
                stats.num_ooms
            );
        }
        return;
    }
    match run(&program, &options) {
        Ok(r) => {
            for (n, t) in [("events", r.events_csv()), ("blocks", r.blocks_csv()), ("stats", r.stats_csv())] {
                std::fs::write(format!("{}.{n}.csv", args[6]), t).unwrap();
            }
        }
        Err(e) => {
            println!("{e}");
            std::process::exit(3);
        }
    }
}
