// The types of the documents that the page reads, from their JSON Schemas: `npm run types`; with `--check` it says whether those in the
// repository are current.

import {mkdir, readFile, writeFile} from 'node:fs/promises';
import {compile} from 'json-schema-to-typescript';

const SCHEMAS = new URL('../schemas/', import.meta.url);
const TYPES = new URL('src/data/generated/', import.meta.url);

/** What the page reads, and what it calls it. */
const DOCUMENTS = {
  report: 'Report',
  explain: 'Explanation',
  simulate: 'Simulation',
  estimate: 'EstimateDocument',
  serve: 'ServeDocument',
  view: 'Manifest',
  diff: 'Diff',
  ranks: 'Ranks',
};

const OPTIONS = {
  additionalProperties: false,
  bannerComment: '/** Made by `make schemas` of the comments in crates/documents: change these. */',
  style: {singleQuote: true, bracketSpacing: false, printWidth: 120, arrowParens: 'avoid'},
  unreachableDefinitions: false,
};

/**
 * The schema in the words of the generator: a reference with a comment beside it would become a type of its own, so that the comment is
 * of the key and the type is of the reference; and it knows tuples by their older name.
 */
function understood(schema) {
  if (Array.isArray(schema)) return schema.map(understood);
  if (typeof schema !== 'object' || schema === null) return schema;
  const entries = Object.entries(schema).map(([key, value]) => [key, understood(value)]);
  const {$ref, prefixItems, ...rest} = Object.fromEntries(entries);
  if (prefixItems !== undefined) return {...rest, items: prefixItems};
  if ($ref === undefined) return rest;
  return Object.keys(rest).length > 0 ? {...rest, allOf: [{$ref}]} : {$ref};
}

async function types(file, name) {
  const schema = JSON.parse(await readFile(new URL(`${file}.schema.json`, SCHEMAS), 'utf8'));
  // The title would be the name.
  const {title: _, ...untitled} = schema;
  return compile(understood(untitled), name, OPTIONS);
}

const isCheck = process.argv.includes('--check');
await mkdir(TYPES, {recursive: true});
for (const [file, name] of Object.entries(DOCUMENTS)) {
  const path = new URL(`${file}.ts`, TYPES);
  const text = await types(file, name);
  if (!isCheck) {
    await writeFile(path, text);
  } else if ((await readFile(path, 'utf8').catch(() => '')) !== text) {
    console.error(`src/data/generated/${file}.ts is not what the schema says: run \`make schemas\``);
    process.exitCode = 1;
  }
}
