//! The page `docs/formats.md`.

use std::fmt::Write as _;

use highwater_documents::{ALL, CHANGES, Kind};
use serde_json::{Map, Value};

use crate::schema::{file_name, schema};

const HEAD: &str = "\
# Formats

`make schemas` writes this page from the structures in `crates/documents` and the comments on their fields.

Every JSON document begins with `format`, its name, and `version`, an integer. Names may be added to a document without a new
version, so ignore those that you do not know; a name that is there stays and keeps its meaning. Bytes are integers named `*_bytes`,
entries are indexes into a device's trace, from 0.

";

/// The page.
pub fn page() -> String {
    let mut out = HEAD.to_owned();
    out.push_str("| Format | Version | Made by | Schema |\n| --- | ---: | --- | --- |\n");
    for Kind { format, version, made_by, .. } in ALL {
        let file = file_name(format);
        line(&mut out, &format!("| [`{format}`](#{format}) | {version} | `{made_by}` | [{file}](../schemas/{file}) |"));
    }
    out.push_str("\n## Changes\n\n| Release | Format | Version | Change |\n| --- | --- | ---: | --- |\n");
    for change in CHANGES {
        let (release, format, version, what) = (change.release, change.format, change.version, change.what);
        line(&mut out, &format!("| {release} | `{format}` | {version} | {what} |"));
    }
    for kind in ALL {
        document(&mut out, kind);
    }
    out
}

fn line(out: &mut String, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{text}");
}

fn document(out: &mut String, kind: &Kind) {
    let schema = schema(kind);
    line(out, &format!("\n## {}\n\n{} Made by `{}`.", kind.format, kind.about, kind.made_by));
    let definitions = schema.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    keys(out, &schema);
    // In the order in which they are met, for a reader comes from above.
    let mut met = Vec::new();
    references(&schema, &mut met);
    let mut at = 0;
    while let Some(name) = met.get(at).cloned() {
        // A document within another has a chapter of its own.
        if let Some(definition) = definitions.get(&name).filter(|definition| format_of(definition).is_none()) {
            line(out, &format!("\n### {} in {}", name, kind.format));
            if let Some(text) = description(definition) {
                line(out, &format!("\n{text}"));
            }
            keys(out, definition);
            references(definition, &mut met);
        }
        at += 1;
    }
}

/// The name of the document that a schema is of, if it is of one.
fn format_of(schema: &Value) -> Option<&str> {
    schema.get("properties")?.get("format")?.get("const")?.as_str()
}

fn description(schema: &Value) -> Option<&str> {
    schema.get("description").and_then(Value::as_str)
}

/// The names of definitions that a schema mentions, each once.
fn references(value: &Value, met: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            if let Some(name) = reference(object)
                && !met.iter().any(|known| known == name)
            {
                met.push(name.to_owned());
            }
            object.iter().filter(|(key, _)| *key != "$defs").for_each(|(_, value)| references(value, met));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, met)),
        _ => {}
    }
}

fn reference(object: &Map<String, Value>) -> Option<&str> {
    object.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

/// The keys of an object, or the words that a value may be.
fn keys(out: &mut String, schema: &Value) {
    if let Some(words) = schema.get("oneOf").and_then(Value::as_array) {
        out.push('\n');
        for word in words {
            let said = description(word).map_or_else(String::new, |text| format!(": {text}"));
            line(out, &format!("- {}{said}", kind_of(word)));
        }
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    out.push_str("\n| Key | Is | Means |\n| --- | --- | --- |\n");
    let first = ["format", "version"];
    let ordered = first.iter().filter_map(|name| properties.get_key_value(*name));
    let ordered = ordered.chain(properties.iter().filter(|(name, _)| !first.contains(&name.as_str())));
    for (name, property) in ordered {
        let absent = if required.contains(&name.as_str()) { "" } else { ", or absent" };
        let means = description(property).unwrap_or_default().replace('|', "\\|");
        line(out, &format!("| `{name}` | {}{absent} | {means} |", kind_of(property)));
    }
}

/// A schema's type, in words.
fn kind_of(schema: &Value) -> String {
    let Some(object) = schema.as_object() else { return "anything".to_owned() };
    if let Some(name) = reference(object) {
        return name.to_owned();
    }
    if let Some(word) = object.get("const") {
        return format!("`{}`", word.as_str().map_or_else(|| word.to_string(), str::to_owned));
    }
    if let Some(words) = object.get("enum").and_then(Value::as_array) {
        let words: Vec<_> = words.iter().map(|word| format!("`{}`", word.as_str().unwrap_or("null"))).collect();
        return words.join(" or ");
    }
    if let Some(options) = object.get("anyOf").or_else(|| object.get("oneOf")).and_then(Value::as_array) {
        return options.iter().map(kind_of).collect::<Vec<_>>().join(" or ");
    }
    match object.get("type") {
        Some(Value::String(name)) => typed(name, object),
        Some(Value::Array(names)) => {
            let names: Vec<_> = names.iter().filter_map(Value::as_str).map(|name| typed(name, object)).collect();
            names.join(" or ")
        }
        _ => "anything".to_owned(),
    }
}

fn typed(name: &str, object: &Map<String, Value>) -> String {
    match name {
        "array" => match (object.get("items"), object.get("prefixItems").and_then(Value::as_array)) {
            (_, Some(items)) => format!("[{}]", items.iter().map(kind_of).collect::<Vec<_>>().join(", ")),
            (Some(items), None) => format!("list of {}", kind_of(items)),
            (None, None) => "list".to_owned(),
        },
        "object" => match object.get("additionalProperties") {
            Some(values) if values.as_object().is_some_and(|values| !values.is_empty()) => {
                format!("object of {} by name", kind_of(values))
            }
            _ => "object".to_owned(),
        },
        other => other.to_owned(),
    }
}
