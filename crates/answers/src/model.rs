//! Finds a model: by name, as a file, a directory, or in the local hub cache. Only headers of weights are read.

use std::env;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use highwater_estimate::read::{
    Counted, Description, DescriptionError, Model, catalogue_names, describe, named, safetensors_index, wanted_bytes,
};
use highwater_problem::Problem;
use serde_json::{Map, Value};

/// The longest index of a model's weights that is read.
const INDEX_LIMIT: u64 = 64 << 20;
/// The longest configuration of a pipeline's model, and the models that one has at most.
const PIPELINE_LIMIT: u64 = 1 << 20;
/// `ModelOpt`'s own file, and its greatest length: it may name each matrix of a large model.
const MODELOPT_FILE: &str = "hf_quant_config.json";
const MODELOPT_LIMIT: u64 = 16 << 20;
const MOST_COMPONENTS: usize = 32;

/// Finds and reads a model.
///
/// # Errors
/// If there is no such model, or what describes it cannot be read.
pub fn find(model: &str) -> Result<Model, Problem> {
    let path = Path::new(model);
    let described = match () {
        () if path.is_dir() => of_directory(path)?,
        () if path.is_file() => of_file(path)?,
        () => match in_hub_cache(model) {
            // The model's own file says more than the catalogue.
            Some(directory) => of_directory(&directory)?,
            None if named(model).is_some() => return Ok(Model::Named(model.to_owned())),
            None => return Err(not_found(model)),
        },
    };
    Ok(Model::Described(Box::new(described)))
}

fn not_found(model: &str) -> Problem {
    let short = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let family: String = short.chars().take_while(char::is_ascii_alphabetic).collect();
    let near: Vec<&str> =
        catalogue_names().filter(|name| !family.is_empty() && name.starts_with(&family)).take(8).collect();
    let near = if near.is_empty() { String::new() } else { format!("; known by name: {}", near.join(", ")) };
    Problem::new(format!(
        "`{model}` is not a file, a directory, a model in the Hugging Face cache or a known model name"
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

fn of_directory(directory: &Path) -> Result<Description, Problem> {
    let index = directory.join("model_index.json");
    if index.is_file() {
        return of_pipeline(&index);
    }
    let config = directory.join("config.json");
    let counted = count_in(directory)?;
    if config.is_file() {
        return Ok(Description { counted, ..described(&config)? });
    }
    if counted.is_none() {
        return Err(Problem::new(format!("`{}` has neither a `config.json` nor weights", directory.display()))
            .hint("give the directory of a model as `save_pretrained` writes it"));
    }
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Description { name, counted, ..Description::default() })
}

/// A pipeline of diffusers: its index, with the configuration of each model that has a directory beside it.
fn of_pipeline(index: &Path) -> Result<Description, Problem> {
    let json = |path: &Path| {
        let (bytes, _) = read_start(path, PIPELINE_LIMIT)?;
        serde_json::from_slice::<Value>(&bytes)
            .map_err(|error| Problem::new(format!("`{}` is not JSON", path.display())).because(error))
    };
    let mut config = json(index)?;
    let mut components = Map::new();
    let models = config.as_object().into_iter().flatten().filter(|(_, value)| value.is_array());
    for (name, _) in models.filter(|(name, _)| !name.contains(['/', '\\', '.'])).take(MOST_COMPONENTS) {
        let path = index.with_file_name(name).join("config.json");
        if path.is_file() {
            components.insert(name.clone(), json(&path)?);
        }
    }
    if let Some(map) = config.as_object_mut() {
        map.insert("components".to_owned(), Value::Object(components));
    }
    let described = Description { config: Some(config), ..Description::default() };
    let bad = |source| DescriptionError::Config { name: index.display().to_string(), source };
    described.architecture().map_err(bad)?;
    Ok(described)
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

fn of_file(path: &Path) -> Result<Description, Problem> {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    if name == "model_index.json" {
        return of_pipeline(path);
    }
    let weights = if name.ends_with(".safetensors.index.json") {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Description { name, counted: Some(of_index(path)?), ..Description::default() }
    } else {
        described(path)?
    };
    let config = path.with_file_name("config.json");
    if weights.config.is_some() || !config.is_file() {
        return Ok(weights);
    }
    Ok(Description { counted: weights.counted, ..described(&config)? })
}

/// What one file says.
fn described(path: &Path) -> Result<Description, Problem> {
    let name = path.display().to_string();
    let (start, file_bytes) = read_start(path, 8)?;
    let (bytes, _) = read_start(path, wanted_bytes(&name, &start, file_bytes))?;
    let described = describe(&name, &bytes, file_bytes)?;
    if path.file_name().is_some_and(|name| name == "config.json") {
        return quantised_beside(described, path);
    }
    Ok(described)
}

/// A configuration with the quantisation that older releases of `ModelOpt` write beside it.
///
/// # Source
/// vLLM, `vllm/transformers_utils/config.py`: read where the configuration has no `quantization_config`.
fn quantised_beside(mut described: Description, config: &Path) -> Result<Description, Problem> {
    let path = config.with_file_name(MODELOPT_FILE);
    let Some(map) = described.config.as_mut().and_then(Value::as_object_mut) else { return Ok(described) };
    let of_text = map.get("text_config").and_then(|text| text.get("quantization_config"));
    if map.contains_key("quantization_config") || of_text.is_some() || !path.is_file() {
        return Ok(described);
    }
    let name = path.display().to_string();
    let (bytes, length) = read_start(&path, MODELOPT_LIMIT)?;
    if length > MODELOPT_LIMIT {
        return Err(Problem::new(format!("`{name}` is longer than {} MiB", MODELOPT_LIMIT >> 20)));
    }
    let mut file: Value =
        serde_json::from_slice(&bytes).map_err(|error| Problem::new(format!("`{name}` is not JSON")).because(error))?;
    let mut own = file.get_mut("quantization").map_or(Value::Null, Value::take);
    match own.as_object_mut() {
        Some(own) => own.insert("quant_method".to_owned(), Value::from("modelopt")),
        None => {
            return Err(Problem::new(format!("`{name}` has no `quantization`"))
                .hint("download the checkpoint again, or remove the file if the weights are not quantised"));
        }
    };
    map.insert("quantization_config".to_owned(), own);
    let bad = |source| DescriptionError::Config { name, source };
    described.architecture().map_err(bad)?;
    Ok(described)
}

fn of_index(path: &Path) -> Result<Counted, Problem> {
    let (bytes, _) = read_start(path, INDEX_LIMIT)?;
    let shards = safetensors_index(&bytes).map_err(|error| {
        Problem::new(format!("`{}` is not a safetensors index that can be read", path.display()))
            .because(error)
            .hint("download it again, or give the model's `config.json`")
    })?;
    let mut counted = Counted::default();
    for shard in shards {
        if shard.contains(['/', '\\']) {
            return Err(Problem::new(format!(
                "`{}` refers to a shard outside its directory: `{shard}`",
                path.display()
            )));
        }
        let file = path.with_file_name(&shard);
        if !file.exists() {
            return Err(Problem::new(format!("`{}` lists the shard `{shard}`, which is not there", path.display()))
                .hint("download the checkpoint again: a model is served from all its shards"));
        }
        counted = counted.with(&count(&file)?);
    }
    Ok(counted)
}

fn count(path: &Path) -> Result<Counted, Problem> {
    let not_weights = || Problem::new(format!("`{}` is not a safetensors file", path.display()));
    described(path)?.counted.ok_or_else(not_weights)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::find;

    /// `hf_quant_config.json` of nvidia/Llama-3.1-70B-Instruct-FP8 is such a file.
    #[test]
    fn quantisation_in_a_file_beside_the_configuration_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let label = || {
            let architecture = find(folder.path().to_str().unwrap()).ok()?.architecture().ok()?;
            Some(architecture.quantization.map(|found| found.label))
        };
        let config = r#"{"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
            "num_attention_heads": 4, "vocab_size": 1000}"#;
        write("config.json", config);
        assert_eq!(label(), Some(None));
        let file = "hf_quant_config.json";
        write(file, r#"{"producer": {}, "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}"#);
        assert_eq!(label(), Some(Some("ModelOpt, FP8".to_owned())));
        // An unknown one is refused, and so is a file without any.
        write(file, r#"{"quantization": {"quant_algo": "FP1"}}"#);
        assert_eq!(label(), None);
        write(file, "{}");
        assert_eq!(label(), None);
    }
}
