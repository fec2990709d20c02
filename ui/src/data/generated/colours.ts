/** Made by `make schemas` of crates/documents/src/colours.rs: change that. */

/** The colour of each category, the same in the terminal. */
export const CATEGORY_COLOURS = {
  parameter: '#44aa77',
  gradient: '#4477aa',
  optimizer_state: '#ddbb44',
  activation: '#e0695e',
  cache: '#228877',
  input: '#bb8855',
  temporary: '#aa66bb',
  workspace: '#77bbdd',
  unknown: '#98a1ac',
} as const;
