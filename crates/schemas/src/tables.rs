//! The page `docs/tables.md`, and the types of rows for Python, from `highwater-tables`.

use std::fmt::Write as _;

use highwater_tables::{Column, Kind, PARTITION, TABLES, Table, VERSION};

const HEAD: &str = "\
# Tables

`make schemas` writes this page from the declarations in `crates/tables`.

Every recording gives rows of these tables. `highwater export --to parquet` writes them as files, `highwater sql` answers queries of
them, and `highwater.sql` in Python asks DuckDB about the files. [Twelve questions](queries/README.md) show how.

```sh
highwater sql run.pickle \"select category, sum(at_peak_bytes) from lifetimes group by category\"
highwater export --to parquet first.pickle second.pickle -o tables
```

- A snapshot is known by `file`, and a device of it by `file` and `device`: join tables by these.
- `run` and `rank` stand before the columns of every table. In Parquet files they are names of folders, as Hive has it:
  `OUT/TABLE/run=RUN/rank=RANK/part-0.parquet`. The run is the name of the file without its rank and endings, or the name of its folder;
  `--run NAME` sets it.
- Integers have 64 bits and a sign, so that every engine can subtract them. Sizes are bytes, times are microseconds, and entries are
  indexes into a device's trace, from 0.
- Devices are never summed, and neither are ranks.
- A column may be added without a new version, so name the columns that you read; one that is there stays and keeps its meaning. The
  metadata of each Parquet file has `highwater.table` and `highwater.version`.
";

/// The page.
pub(crate) fn page() -> String {
    let mut out = HEAD.to_owned();
    write(&mut out, format_args!("\nVersion {VERSION}.\n\n| Table | A row is |\n| --- | --- |\n"));
    for table in TABLES {
        let about = with_request(table);
        write(&mut out, format_args!("| [`{0}`](#{0}) | {about} |\n", table.name));
    }
    for table in TABLES {
        write(&mut out, format_args!("\n## {}\n\n{}\n\n", table.name, with_request(table)));
        out.push_str("| Column | Type | Unit | Meaning |\n| --- | --- | --- | --- |\n");
        for column in table.columns {
            let (kind, unit) = (word(column), column.unit().unwrap_or_default());
            write(&mut out, format_args!("| `{}` | {kind} | {unit} | {} |\n", column.name, column.about));
        }
    }
    out
}

fn write(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = out.write_fmt(text);
}

fn with_request(table: &Table) -> String {
    let asked = if table.is_on_request { " Written to Parquet only with `--entries`." } else { "" };
    format!("{}{asked}", table.about)
}

fn word(column: &Column) -> String {
    let kind = column.kind.word();
    if column.is_optional { format!("{kind} or null") } else { kind.to_owned() }
}

const PYTHON_HEAD: &str = "\
\"\"\"The rows of the tables that :func:`highwater.sql` asks about, as types.

`make schemas` writes this file from the declarations in `crates/tables`.
\"\"\"

from __future__ import annotations

from typing import Optional, TypedDict
";

/// The types for Python.
pub(crate) fn python() -> String {
    let mut out = PYTHON_HEAD.to_owned();
    for table in TABLES {
        let name: String = table.name.split('_').map(capital).collect();
        write(&mut out, format_args!("\n\nclass {name}(TypedDict):\n    \"\"\"{}\"\"\"\n\n", table.about));
        for column in PARTITION.iter().chain(table.columns) {
            let kind = match column.kind {
                Kind::Integer => "int",
                Kind::Real => "float",
                Kind::Boolean => "bool",
                Kind::Text => "str",
            };
            let kind = if column.is_optional { format!("Optional[{kind}]") } else { kind.to_owned() };
            write(&mut out, format_args!("    {}: {kind}\n", column.name));
        }
    }
    out
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}
