//! One column: memory that Python sees without a copy.
//!
//! The stable interface of Python 3.10 has no buffer protocol. NumPy finds the memory by `__array_interface__`, and everything else by
//! Arrow's own interface; neither needs `unsafe` here.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::types::{Int64Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, Int64Array, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::error::Failure;

/// Stands in the memory where a value is missing.
const MISSING: i64 = -1;

/// A column of a table.
#[pyclass(frozen, module = "highwater._highwater")]
pub(crate) struct Column {
    name: String,
    values: ArrayRef,
}

impl Column {
    pub(crate) fn new(name: String, values: ArrayRef) -> Self {
        Self { name, values }
    }

    fn field(&self) -> Field {
        Field::new(&self.name, self.values.data_type().clone(), self.values.is_nullable())
    }

    /// The numbers of it: of a column of words, their codes.
    fn numbers(&self) -> ArrayRef {
        if let Some(words) = self.values.as_dictionary_opt::<UInt8Type>() {
            Arc::new(words.keys().clone())
        } else if let Some(texts) = self.values.as_dictionary_opt::<UInt32Type>() {
            Arc::new(texts.keys().clone())
        } else {
            Arc::clone(&self.values)
        }
    }

    /// The rows of the words that it holds; none if it holds numbers.
    fn codes(&self) -> Vec<usize> {
        let numbers = self.numbers();
        match numbers.data_type() {
            DataType::UInt8 => numbers.as_primitive::<UInt8Type>().values().iter().map(|&code| code.into()).collect(),
            _ => numbers.as_primitive::<UInt32Type>().values().iter().map(|&code| code as usize).collect(),
        }
    }
}

#[pymethods]
impl Column {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The words that its codes stand for; `None` if it holds numbers.
    #[getter]
    fn categories(&self) -> Option<Vec<String>> {
        let words = self.values.as_any_dictionary_opt()?;
        Some(words.values().as_string::<i32>().iter().map(|word| word.unwrap_or_default().to_owned()).collect())
    }

    /// Rows without a value: there the memory holds -1.
    #[getter]
    fn null_count(&self) -> usize {
        self.values.null_count()
    }

    fn __len__(&self) -> usize {
        self.values.len()
    }

    /// Where the numbers lie, for NumPy.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let numbers = self.numbers();
        let (kind, address) = place(&numbers);
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", kind)?;
        interface.set_item("shape", (numbers.len(),))?;
        // Read-only: other columns and Arrow see the same memory.
        interface.set_item("data", (address, true))?;
        Ok(interface)
    }

    /// The values as Python's own: words for codes, `None` where one is missing.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self.values.data_type() {
            DataType::UInt32 => PyList::new(py, self.values.as_primitive::<UInt32Type>().values().iter()),
            DataType::UInt64 => PyList::new(py, self.values.as_primitive::<UInt64Type>().values().iter()),
            DataType::Int64 => {
                let values: Vec<Option<i64>> = self.values.as_primitive::<Int64Type>().iter().collect();
                PyList::new(py, values)
            }
            _ => {
                let words = self.categories().unwrap_or_default();
                PyList::new(py, self.codes().iter().map(|&code| words[code].as_str()))
            }
        }
    }

    /// The schema, for Arrow.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&self.field()).map_err(not_arrow)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The schema and the values, for Arrow. A schema that is asked for is a wish, which is not met.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let array = FFI_ArrowArray::new(&self.values.to_data());
        Ok((self.__arrow_c_schema__(py)?, PyCapsule::new_with_value(py, array, c"arrow_array")?))
    }
}

/// NumPy's word for the kind of number, and where the first one lies.
fn place(numbers: &ArrayRef) -> (&'static str, usize) {
    match numbers.data_type() {
        DataType::UInt8 => ("|u1", numbers.as_primitive::<UInt8Type>().values().as_ptr() as usize),
        DataType::UInt32 => ("=u4", numbers.as_primitive::<UInt32Type>().values().as_ptr() as usize),
        DataType::UInt64 => ("=u8", numbers.as_primitive::<UInt64Type>().values().as_ptr() as usize),
        _ => ("=i8", numbers.as_primitive::<Int64Type>().values().as_ptr() as usize),
    }
}

/// That a schema cannot be said in Arrow's interface.
pub(crate) fn not_arrow(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("the columns cannot be handed to Arrow: {error}"), "please report it")
}

/// Numbers below 2^32.
pub(crate) fn small(values: Vec<u32>) -> ArrayRef {
    Arc::new(PrimitiveArray::<UInt32Type>::new(ScalarBuffer::from(values), None))
}

/// Bytes, addresses, handles.
pub(crate) fn large(values: Vec<u64>) -> ArrayRef {
    Arc::new(PrimitiveArray::<UInt64Type>::new(ScalarBuffer::from(values), None))
}

/// Numbers that may be missing.
pub(crate) fn optional(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    let values: Vec<Option<i64>> = values.collect();
    let is_there: BooleanBuffer = values.iter().map(Option::is_some).collect();
    let nulls = NullBuffer::new(is_there);
    let numbers: Vec<i64> = values.into_iter().map(|value| value.unwrap_or(MISSING)).collect();
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    Arc::new(Int64Array::new(ScalarBuffer::from(numbers), nulls))
}

/// Words, as codes of the few that there are.
pub(crate) fn words(codes: Vec<u8>, words: &[&str]) -> ArrayRef {
    let codes = PrimitiveArray::<UInt8Type>::new(ScalarBuffer::from(codes), None);
    Arc::new(DictionaryArray::new(codes, Arc::new(StringArray::from_iter_values(words))))
}

/// Texts, as codes of those that occur. Each key has its text, which is made once; a text occurs once, as Arrow's users expect.
pub(crate) fn texts<K: Copy + Eq + Hash>(keys: impl Iterator<Item = K>, text: impl Fn(&K) -> String) -> ArrayRef {
    let mut of_keys: HashMap<K, u32> = HashMap::new();
    let mut of_texts: HashMap<String, u32> = HashMap::new();
    let mut texts: Vec<String> = Vec::new();
    let codes: Vec<u32> = keys
        .map(|key| {
            *of_keys.entry(key).or_insert_with(|| {
                *of_texts.entry(text(&key)).or_insert_with_key(|text| {
                    texts.push(text.clone());
                    u32::try_from(texts.len() - 1).unwrap_or(u32::MAX)
                })
            })
        })
        .collect();
    let codes = PrimitiveArray::<UInt32Type>::new(ScalarBuffer::from(codes), None);
    Arc::new(DictionaryArray::new(codes, Arc::new(StringArray::from_iter_values(texts))))
}
