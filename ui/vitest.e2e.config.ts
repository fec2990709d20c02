import {defineConfig} from 'vitest/config';

// The page in a real browser: `npm run e2e`, after `make ui` and `cargo build`.
export default defineConfig({
  test: {
    include: ['e2e/**/*.test.ts'],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    // A page often waits for its frames: two files at once leave no core idle, and four take no less.
    maxWorkers: 2,
    // What drives the browser is loaded once, not for each file.
    isolate: false,
    // A machine whose cores are all busy takes longer than the usual second.
    expect: {poll: {timeout: 30_000}},
  },
});
