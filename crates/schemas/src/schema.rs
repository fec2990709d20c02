//! A document's JSON Schema.

use highwater_documents::Kind;
use serde_json::{Map, Value, json};

/// The file of a document's schema, without its directory.
pub fn file_name(format: &str) -> String {
    format!("{}.schema.json", format.strip_prefix("highwater-").unwrap_or(format))
}

/// The schema: names of the program's own are as people say them.
pub fn schema(kind: &Kind) -> Value {
    let mut schema = (kind.schema)().to_value();
    readable(&mut schema);
    without_null(&mut schema);
    if let Value::Object(root) = &mut schema {
        root.insert("title".to_owned(), json!(kind.format));
        root.insert("description".to_owned(), json!(format!("{} Made by `{}`.", kind.about, kind.made_by)));
        rename_definitions(root);
    }
    schema
}

/// Comments say [`Name`] where the program's documentation has a link.
fn readable(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.replace("[`", "`").replace("`]", "`").replace('\n', " ");
            }
            object.values_mut().for_each(readable);
        }
        Value::Array(items) => items.iter_mut().for_each(readable),
        _ => {}
    }
}

/// What may be absent is never null: `Option` gives both, and serde leaves it out.
fn without_null(value: &mut Value) {
    match value {
        Value::Object(object) => {
            let required = object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                let absent = properties.iter_mut().filter(|(name, _)| !required.contains(&json!(name)));
                absent.for_each(|(_, property)| never_null(property));
            }
            object.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}

fn never_null(property: &mut Value) {
    let Value::Object(object) = property else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(options)) = object.get_mut("anyOf") {
        options.retain(|option| option.get("type") != Some(&json!("null")));
        if let [Value::Object(only)] = &options[..] {
            let only = only.clone();
            object.remove("anyOf");
            object.extend(only);
        }
    }
}

/// Takes `View` off the names of definitions, which tells a reader of JSON nothing.
fn rename_definitions(root: &mut Map<String, Value>) {
    let Some(Value::Object(definitions)) = root.remove("$defs") else { return };
    let names: Vec<(String, String)> = definitions
        .keys()
        .map(|name| {
            let short = name.strip_suffix("View").unwrap_or(name);
            let is_taken = short != name && definitions.contains_key(short);
            (name.clone(), if is_taken { name.clone() } else { short.to_owned() })
        })
        .collect();
    let renamed = |name: &str| names.iter().find(|(old, _)| old == name).map_or(name, |(_, new)| new).to_owned();
    let mut definitions: Map<String, Value> =
        definitions.into_iter().map(|(name, definition)| (renamed(&name), definition)).collect();
    definitions.values_mut().for_each(|definition| refer(definition, &renamed));
    root.values_mut().for_each(|value| refer(value, &renamed));
    root.insert("$defs".to_owned(), Value::Object(definitions));
}

fn refer(value: &mut Value, renamed: &impl Fn(&str) -> String) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(to)) = object.get_mut("$ref")
                && let Some(name) = to.strip_prefix("#/$defs/")
            {
                *to = format!("#/$defs/{}", renamed(name));
            }
            object.values_mut().for_each(|value| refer(value, renamed));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| refer(value, renamed)),
        _ => {}
    }
}
