//! Files as three releases of Nsight Systems describe them, made by hand from the published schema, and files that hurt.

mod hostile;
mod schemas;
