//! Finds a model: by name, as a file, a directory, or in the local hub cache. Only headers of weights are read.

use std::env;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use highwater_estimate::Architecture;
use highwater_estimate::read::{
    ConfigError, Counted, GGUF_HEADER_LIMIT, HeaderError, catalogue_names, from_config, gguf_header, named,
    safetensors_header, safetensors_header_length, safetensors_index,
};

use crate::error::Problem;

/// The longest `config.json` that is read.
const CONFIG_LIMIT: u64 = 64 << 20;

/// Finds and reads a model.
///
/// # Errors
/// If there is no such model, or what describes it cannot be read.
pub(crate) fn find(model: &str) -> Result<Architecture, Problem> {
    let path = Path::new(model);
    if path.is_dir() {
        return of_directory(path);
    }
    if path.is_file() {
        return of_file(path);
    }
    if let Some(architecture) = named(model) {
        return Ok(architecture);
    }
    match in_hub_cache(model) {
        Some(directory) => of_directory(&directory),
        None => Err(not_found(model)),
    }
}

fn not_found(model: &str) -> Problem {
    let short = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let family: String = short.chars().take_while(char::is_ascii_alphabetic).collect();
    let near: Vec<&str> =
        catalogue_names().filter(|name| !family.is_empty() && name.starts_with(&family)).take(8).collect();
    let near = if near.is_empty() { String::new() } else { format!("; known by name: {}", near.join(", ")) };
    Problem::new(format!(
        "`{model}` is no file, no directory, no model of the local hub cache, and no name that is known"
    ))
    .hint(format!("give the path of a `config.json`, or a name that `highwater estimate --list` prints{near}"))
}

/// The newest snapshot of a model in the cache of `huggingface_hub`.
fn in_hub_cache(model: &str) -> Option<PathBuf> {
    if model.contains("..") || model.starts_with('/') || model.split('/').count() != 2 {
        return None;
    }
    let own = env::var_os("HF_HUB_CACHE").map(PathBuf::from);
    let home = env::var_os("HF_HOME").map(|home| PathBuf::from(home).join("hub"));
    let default = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/huggingface/hub"));
    let cache = own.or(home).or(default)?;
    let model = cache.join(format!("models--{}", model.replace('/', "--")));
    let main = fs::read_to_string(model.join("refs/main")).ok().map(|id| model.join("snapshots").join(id.trim()));
    if let Some(snapshot) = main.filter(|snapshot| snapshot.is_dir()) {
        return Some(snapshot);
    }
    let newest = fs::read_dir(model.join("snapshots"))
        .ok()?
        .filter_map(Result::ok)
        .max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok());
    newest.map(|entry| entry.path())
}

fn of_directory(directory: &Path) -> Result<Architecture, Problem> {
    let config = directory.join("config.json");
    let weights = count_in(directory)?;
    if config.is_file() {
        let mut architecture = of_config(&config)?;
        if let Some(counted) = weights {
            architecture.counted_parameters = Some(counted.parameters);
        }
        return Ok(architecture);
    }
    let name = directory.file_name().map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned());
    match weights {
        Some(counted) => Ok(counted.architecture(&name)),
        None => Err(Problem::new(format!("`{}` has neither a `config.json` nor weights", directory.display()))
            .hint("give the directory of a model as `save_pretrained` writes it")),
    }
}

/// What the headers of the weights in a directory list, if there are any.
fn count_in(directory: &Path) -> Result<Option<Counted>, Problem> {
    let index = directory.join("model.safetensors.index.json");
    let single = directory.join("model.safetensors");
    if index.is_file() {
        return of_index(&index).map(Some);
    }
    if single.is_file() { count(&single).map(Some) } else { Ok(None) }
}

fn of_file(path: &Path) -> Result<Architecture, Problem> {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    if name.ends_with(".safetensors") {
        return with_config_beside(path, &count(path)?);
    }
    if name.ends_with(".safetensors.index.json") {
        return with_config_beside(path, &of_index(path)?);
    }
    if starts_with(path, b"GGUF")? || path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
        let (bytes, total) = read_start(path, GGUF_HEADER_LIMIT)?;
        return gguf_header(&bytes, total).map_err(|error| bad_header(path, "GGUF", &error));
    }
    of_config(path)
}

fn with_config_beside(path: &Path, counted: &Counted) -> Result<Architecture, Problem> {
    let config = path.with_file_name("config.json");
    if !config.is_file() {
        let name = path.file_stem().map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned());
        return Ok(counted.architecture(&name));
    }
    let mut architecture = of_config(&config)?;
    architecture.counted_parameters = Some(counted.parameters);
    Ok(architecture)
}

fn of_config(path: &Path) -> Result<Architecture, Problem> {
    let (bytes, total) = read_start(path, CONFIG_LIMIT)?;
    if total > CONFIG_LIMIT {
        return Err(
            Problem::new(format!("`{}` is no `config.json`", path.display())).because(format!("it has {total} bytes"))
        );
    }
    from_config(&bytes).map_err(|error| bad_config(path, &error))
}

fn bad_config(path: &Path, error: &ConfigError) -> Problem {
    let problem = Problem::new(format!("`{}` describes no model that can be estimated", path.display())).because(error);
    match error.hint() {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn of_index(path: &Path) -> Result<Counted, Problem> {
    let (bytes, _) = read_start(path, CONFIG_LIMIT)?;
    let shards = safetensors_index(&bytes).map_err(|error| bad_header(path, "safetensors index", &error))?;
    let mut counted = Counted::default();
    for shard in shards {
        if shard.contains(['/', '\\']) {
            return Err(Problem::new(format!(
                "`{}` names a shard outside of its directory: `{shard}`",
                path.display()
            )));
        }
        counted = counted.with(&count(&path.with_file_name(shard))?);
    }
    Ok(counted)
}

fn count(path: &Path) -> Result<Counted, Problem> {
    let (first, total) = read_start(path, 8)?;
    let length = safetensors_header_length(&first, total).map_err(|error| bad_header(path, "safetensors", &error))?;
    let (bytes, _) = read_start(path, length + 8)?;
    safetensors_header(bytes.get(8..).unwrap_or_default()).map_err(|error| bad_header(path, "safetensors", &error))
}

fn bad_header(path: &Path, format: &str, error: &HeaderError) -> Problem {
    Problem::new(format!("`{}` is not a {format} file that can be read", path.display()))
        .because(error)
        .hint("download it again, or give the model's `config.json`")
}

fn starts_with(path: &Path, magic: &[u8]) -> Result<bool, Problem> {
    Ok(read_start(path, magic.len() as u64)?.0 == magic)
}

/// The first bytes of a file, and how long it is.
fn read_start(path: &Path, limit: u64) -> Result<(Vec<u8>, u64), Problem> {
    let failed = |error: std::io::Error| Problem::new(format!("`{}` cannot be read", path.display())).because(error);
    let file = File::open(path).map_err(failed)?;
    let total = file.metadata().map_err(failed)?.len();
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    Ok((bytes, total))
}
