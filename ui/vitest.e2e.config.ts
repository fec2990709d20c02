import {defineConfig} from 'vitest/config';

// The page in a real browser: `npm run e2e`, after `make ui` and `cargo build`.
export default defineConfig({
  test: {include: ['e2e/**/*.test.ts'], testTimeout: 60_000, hookTimeout: 60_000, fileParallelism: false},
});
