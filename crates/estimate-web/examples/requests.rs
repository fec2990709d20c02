//! Random requests, each with the digest of its native answer: `requests 10000 7` prints as many, from a seed. The page's tests
//! ask the WebAssembly the same (`ui/e2e/agreement.test.ts`).

use std::io::{self, Write as _};
use std::path::Path;
use std::{env, fs};

use highwater_driver::CARDS;
use highwater_estimate::read::catalogue_names;
use highwater_estimate::{
    Attention, CacheKind, Choice, Keep, LoraTargets, Loss, Mode, Opt, Optimizer, Quantisation, TorchRelease,
};
use highwater_estimate_web::answered;
use serde_json::{Map, Value, json};

fn main() -> io::Result<()> {
    let mut numbers = env::args().skip(1).map(|word| word.parse::<u64>().unwrap_or_default());
    let (count, seed) = (numbers.next().unwrap_or(10), numbers.next().unwrap_or(1));
    let configs = configs()?;
    let names: Vec<&str> = catalogue_names().collect();
    let mut random = Random(seed);
    let mut out = io::BufWriter::new(io::stdout());
    for _ in 0..count {
        let request = request(&mut random, &configs, &names).to_string();
        writeln!(out, "{:08x} {request}", digest(answered(request.as_bytes()).as_bytes()))?;
    }
    out.flush()
}

/// Small models of every family: those whose runs were measured.
fn configs() -> io::Result<Vec<Map<String, Value>>> {
    let rows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/estimates/nullgpu.jsonl");
    let text = fs::read_to_string(rows)?;
    let mut configs: Vec<Map<String, Value>> = Vec::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line)?;
        if let Some(config) = row["config"].as_object().filter(|config| !configs.contains(config)) {
            configs.push(config.clone());
        }
    }
    Ok(configs)
}

fn request(random: &mut Random, configs: &[Map<String, Value>], names: &[&str]) -> Value {
    let mut request = Map::new();
    request.insert("model".to_owned(), model(random, configs, names));
    let dtypes = ["float32", "bfloat16", "float16"];
    for (name, share, value) in [
        ("batch", 95, json!(random.size(64))),
        ("seq", 95, json!(random.size(2048))),
        ("dtype", 60, json!(random.one(&dtypes))),
        ("autocast", 25, json!(random.one(&dtypes))),
        ("optimizer", 80, random.choice::<Optimizer>()),
        ("attention", 50, random.choice::<Attention>()),
        ("checkpointing", 30, json!(random.below(2) == 0)),
        ("loss", 50, random.choice::<Loss>()),
        ("keep", 50, random.choice::<Keep>()),
        ("mode", 50, random.choice::<Mode>()),
        ("new-tokens", 30, json!(random.size(4096))),
        ("cache", 30, random.choice::<CacheKind>()),
        ("accumulation", 20, json!(random.size(8))),
        ("lora-rank", 20, json!(random.size(64))),
        ("lora-targets", 20, random.choice::<LoraTargets>()),
        ("lora-dropout", 20, json!(f64::from(u32::try_from(random.below(11)).unwrap_or(0)) / 10.0)),
        ("quantise", 5, random.choice::<Quantisation>()),
        ("zero", 15, json!(random.below(4))),
        ("fsdp", 5, json!(true)),
        ("world-size", 25, json!(random.size(64))),
        ("tensor-parallel", 10, json!(random.size(8))),
        ("pipeline-parallel", 10, json!(random.size(4))),
        ("gpu", 70, json!(CARDS[usize::try_from(random.below(CARDS.len() as u64)).unwrap_or(0)].key)),
        ("torch", 40, random.choice::<TorchRelease>()),
        ("fit", u64::from(random.below(4) == 0), json!(true)),
    ] {
        if random.below(100) < share {
            request.insert(name.to_owned(), value);
        }
    }
    let said = request.clone();
    request.retain(|name, _| {
        let needs = Opt::named(name).and_then(|option| option.needs);
        needs.is_none_or(|other| said.contains_key(other))
    });
    // A few are beyond every machine, or nonsense: what is said of them is compared, too.
    if random.below(50) == 0 {
        request.insert("batch".to_owned(), json!(random.below(1 << 33)));
        request.insert("seq".to_owned(), json!(random.below(1 << 33)));
    }
    Value::Object(request)
}

/// A configuration with some numbers changed; now and then one of the catalogue, which takes longer.
fn model(random: &mut Random, configs: &[Map<String, Value>], names: &[&str]) -> Value {
    if random.below(1000) == 0 {
        return json!(random.one(names));
    }
    let mut config = configs[usize::try_from(random.below(configs.len() as u64)).unwrap_or(0)].clone();
    for (field, share, value) in [
        ("num_hidden_layers", 100, 1 + random.below(3)),
        ("vocab_size", 50, 100 + random.below(60_000)),
        ("intermediate_size", 50, 8 * (1 + random.below(400))),
    ] {
        if config.contains_key(field) && random.below(100) < share {
            config.insert(field.to_owned(), json!(value));
        }
    }
    json!({ "config": config })
}

/// FNV-1a, 32 bits: JavaScript computes it without big integers.
fn digest(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Numbers from a seed, by `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to and without a limit.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// From 1 to a limit, small ones more often; half of them are powers of two.
    fn size(&mut self, most: u64) -> u64 {
        let power = 1 << self.below(u64::from(most.ilog2()) + 1);
        if self.below(2) == 0 { power } else { 1 + self.below(power) }
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[usize::try_from(self.below(of.len() as u64)).unwrap_or(0)]
    }

    fn choice<T: Choice>(&mut self) -> Value {
        let names: Vec<&str> = T::ALL.iter().map(|(name, ..)| *name).collect();
        json!(self.one(&names))
    }
}
