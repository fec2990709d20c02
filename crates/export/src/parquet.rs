//! Parquet: the tables of a database of runs, for DuckDB, polars, pandas and Spark.
//!
//! `OUT/TABLE/run=RUN/rank=RANK/part-0.parquet`, as Hive has it: run and rank are columns by their folders' names. Rows are written as they
//! come, a bounded group at a time. A file takes its place when it is whole, and that of `snapshots` last: a recording that is listed there
//! is there with all tables.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, mem};

use highwater_output::whole_file::WholeFile;
use highwater_tables::{Column, Kind, Recording, RunId, TABLES, Table, VERSION, Value};
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

/// Rows of a group: as many as DuckDB reads at once.
const GROUP_ROWS: usize = 122_880;

/// Bytes of distinct texts after which a group ends, however few rows it has.
const GROUP_TEXT_BYTES: usize = 32 << 20;

/// Where tables go.
#[derive(Clone, Copy, Debug)]
pub struct Target<'p> {
    /// The folder of all tables.
    pub out: &'p Path,
    /// Which of the files of one run and rank it is.
    pub part: usize,
    /// Whether files that are there may be replaced.
    pub force: bool,
    /// Whether the tables that are written on request are wanted.
    pub with_entries: bool,
}

impl Target<'_> {
    /// The tables that are written.
    pub fn tables(&self) -> impl Iterator<Item = &'static Table> {
        let with_entries = self.with_entries;
        TABLES.iter().filter(move |table| with_entries || !table.is_on_request)
    }

    /// The file of a table, for a recording.
    pub fn path(&self, table: &Table, id: &RunId) -> PathBuf {
        let folder = self.out.join(table.name).join(format!("run={}", folder_name(&id.run)));
        folder.join(format!("rank={}", id.rank_number())).join(format!("part-{}.parquet", self.part))
    }
}

/// Writes every table of a recording; gives the bytes of the files.
///
/// # Errors
/// If a file is there already, or cannot be written: then no file of the recording has taken its place, or, if a disk fails at the very
/// end, the one of `snapshots` has not.
pub fn write(recording: &Recording<'_>, target: &Target<'_>) -> io::Result<u64> {
    let mut files = Vec::new();
    for table in target.tables() {
        let path = target.path(table, recording.id);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = WholeFile::create(&path, target.force).map_err(|error| at(&path, &error))?;
        files.push((path, write_table(recording, table, file)?));
    }
    // The first table is that of snapshots.
    files.into_iter().rev().try_fold(0, |bytes, (path, file)| {
        file.finish().map_err(|error| at(&path, &error))?;
        Ok(bytes + fs::metadata(&path)?.len())
    })
}

/// Removes what is left of an earlier export of this run and rank: parts from `parts` on, and tables that this export does not write.
///
/// # Errors
/// If they cannot be removed.
pub fn remove_further(target: &Target<'_>, id: &RunId, parts: usize) -> io::Result<()> {
    for table in TABLES {
        let is_written = target.tables().any(|written| written.name == table.name);
        let mut further = (if is_written { parts } else { 0 }..).map(|part| Target { part, ..*target }.path(table, id));
        while let Some(path) = further.next().filter(|path| path.exists()) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// An error with the file that it is about.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

/// Writes one table, and gives back what it was written to.
///
/// # Errors
/// Those of `out`.
pub fn write_table<W: Write + Send>(recording: &Recording<'_>, table: &Table, mut out: W) -> io::Result<W> {
    let mut groups = Groups::new(table, &mut out).map_err(io_error)?;
    recording.send(table, &mut |row| groups.row(row).map_err(io_error))?;
    groups.finish().map_err(io_error)?;
    Ok(out)
}

/// What a writer of Parquet says, as the error of the file that it wrote to, if it was one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

/// A run as the name of a folder: engines undo the percent signs.
fn folder_name(run: &str) -> String {
    let mut name = String::with_capacity(run.len());
    for byte in run.bytes() {
        if byte.is_ascii_alphanumeric() || b"_.-".contains(&byte) {
            name.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
}

/// A file that is written group by group.
struct Groups<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Values>,
    rows: usize,
}

impl<W: Write + Send> Groups<W> {
    fn new(table: &Table, out: W) -> Result<Self, ParquetError> {
        let about = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(format!("highwater {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(vec![
                about("highwater.table", table.name.to_owned()),
                about("highwater.version", VERSION.to_string()),
            ]))
            .build();
        let writer = SerializedFileWriter::new(out, schema(table)?, Arc::new(properties))?;
        Ok(Self { writer, columns: table.columns.iter().map(Values::new).collect(), rows: 0 })
    }

    fn row(&mut self, row: &[Value<'_>]) -> Result<(), ParquetError> {
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.push(*value);
        }
        self.rows += 1;
        let text_bytes: usize = self.columns.iter().map(|column| column.text_bytes).sum();
        if self.rows == GROUP_ROWS || text_bytes > GROUP_TEXT_BYTES {
            self.end_group()?;
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            let mut writer =
                group.next_column()?.ok_or_else(|| ParquetError::General("a column is missing".to_owned()))?;
            column.write(writer.untyped())?;
            writer.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }

    /// Ends the file: an empty table is one, too, so that a query of it has its columns.
    fn finish(mut self) -> Result<(), ParquetError> {
        if self.rows > 0 {
            self.end_group()?;
        }
        self.writer.finish().map(drop)
    }
}

fn schema(table: &Table) -> Result<TypePtr, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Kind::Integer => (PhysicalType::INT64, None),
            Kind::Real => (PhysicalType::DOUBLE, None),
            Kind::Boolean => (PhysicalType::BOOLEAN, None),
            Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if column.is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let built = Type::primitive_type_builder(column.name, physical);
        built.with_logical_type(logical).with_repetition(repetition).build().map(Arc::new)
    };
    let fields = table.columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder(table.name).with_fields(fields).build().map(Arc::new)
}

/// The values of a column in the group that is being filled.
struct Values {
    data: Data,
    /// For each row whether it has a value, if it may have none.
    is_there: Option<Vec<i16>>,
    /// Bytes of the distinct texts.
    text_bytes: usize,
}

enum Data {
    Integer(Vec<i64>),
    Real(Vec<f64>),
    Boolean(Vec<bool>),
    /// Equal texts share their bytes.
    Text(Vec<ByteArray>, HashMap<Box<str>, ByteArray>),
}

impl Values {
    fn new(column: &Column) -> Self {
        let data = match column.kind {
            Kind::Integer => Data::Integer(Vec::new()),
            Kind::Real => Data::Real(Vec::new()),
            Kind::Boolean => Data::Boolean(Vec::new()),
            Kind::Text => Data::Text(Vec::new(), HashMap::new()),
        };
        Self { data, is_there: column.is_optional.then(Vec::new), text_bytes: 0 }
    }

    fn push(&mut self, value: Value<'_>) {
        if let Some(is_there) = &mut self.is_there {
            is_there.push((value != Value::Null).into());
        }
        match (&mut self.data, value) {
            (Data::Integer(values), Value::Integer(value)) => values.push(value),
            (Data::Real(values), Value::Real(value)) => values.push(value),
            (Data::Boolean(values), Value::Boolean(value)) => values.push(value),
            (Data::Text(values, known), Value::Text(text)) => values.push(match known.get(text) {
                Some(bytes) => bytes.clone(),
                None => {
                    let bytes = ByteArray::from(text);
                    self.text_bytes += text.len();
                    known.insert(text.into(), bytes.clone());
                    bytes
                }
            }),
            (_, value) => debug_assert_eq!(value, Value::Null, "a row has values of its columns' types"),
        }
    }

    /// Writes the values and forgets them.
    fn write(&mut self, writer: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let is_there = self.is_there.as_mut().map(mem::take);
        let is_there = is_there.as_deref();
        self.text_bytes = 0;
        match (&mut self.data, writer) {
            (Data::Integer(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(&mem::take(values), is_there, None)?
            }
            (Data::Real(values), ColumnWriter::DoubleColumnWriter(writer)) => {
                writer.write_batch(&mem::take(values), is_there, None)?
            }
            (Data::Boolean(values), ColumnWriter::BoolColumnWriter(writer)) => {
                writer.write_batch(&mem::take(values), is_there, None)?
            }
            (Data::Text(values, known), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                known.clear();
                writer.write_batch(&mem::take(values), is_there, None)?
            }
            _ => return Err(ParquetError::General("a column has another type than its table says".to_owned())),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with so many bytes left.
    struct Disk(usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_is_full_says_so_wherever_that_happens() {
        let snapshot = highwater_testkit::recording("linear_forward");
        let analysis = highwater_analysis::analyse(&snapshot);
        let id = RunId { file: "a".to_owned(), run: "b".to_owned(), rank: None };
        let recording = Recording::new(&id, &analysis);
        for table in TABLES {
            let Disk(left) = write_table(&recording, table, Disk(usize::MAX)).unwrap();
            let bytes = usize::MAX - left;
            for room in [0, 4, bytes / 2, bytes - 1] {
                let refused = write_table(&recording, table, Disk(room)).err().map(|error| error.kind());
                assert_eq!(refused, Some(io::ErrorKind::StorageFull), "{} with {room} bytes", table.name);
            }
        }
    }

    #[test]
    fn a_run_names_a_folder_and_no_path() {
        for (run, name) in [("job-7", "job-7"), ("../etc", "..%2Fetc"), ("a=b c", "a%3Db%20c"), ("ä", "%C3%A4")] {
            assert_eq!(folder_name(run), name);
        }
        let target = Target { out: Path::new("out"), part: 0, force: false, with_entries: false };
        let id = RunId { file: String::new(), run: "/etc/..".to_owned(), rank: None };
        assert_eq!(target.path(&TABLES[0], &id), Path::new("out/snapshots/run=%2Fetc%2F../rank=-1/part-0.parquet"));
    }
}
