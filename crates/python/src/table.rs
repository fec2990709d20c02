//! A table: columns of equal length, handed to Arrow as one batch.

use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, Field, Schema};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::column::{Column, not_arrow};
use crate::error::Failure;

/// Columns of equal length.
#[pyclass(frozen, module = "highwater._highwater")]
pub(crate) struct Table {
    batch: RecordBatch,
}

impl Table {
    /// Of columns with their names.
    ///
    /// # Errors
    /// If their lengths differ.
    pub(crate) fn new(columns: Vec<(&'static str, ArrayRef)>) -> Result<Self, Failure> {
        let field = |(name, values): &(&'static str, ArrayRef)| {
            Field::new(*name, values.data_type().clone(), values.is_nullable())
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let values = columns.into_iter().map(|(_, values)| values).collect();
        let batch = RecordBatch::try_new(schema, values).map_err(not_arrow)?;
        Ok(Self { batch })
    }
}

#[pymethods]
impl Table {
    /// The names of its columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// Its first rows.
    fn head(&self, rows: usize) -> Self {
        Self { batch: self.batch.slice(0, rows.min(self.batch.num_rows())) }
    }

    /// A column.
    fn column(&self, name: &str) -> PyResult<Column> {
        match self.batch.column_by_name(name) {
            Some(values) => Ok(Column::new(name.to_owned(), Arc::clone(values))),
            None => {
                Err(PyKeyError::new_err(format!("there is no column `{name}`; there are {}", self.names().join(", "))))
            }
        }
    }

    /// The schema, for Arrow.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema_ref().as_ref()).map_err(not_arrow)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The batch, for Arrow. A schema that is asked for is a wish, which is not met.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches: [Result<RecordBatch, ArrowError>; 1] = [Ok(self.batch.clone())];
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }
}
