import {defineConfig} from 'vite';

// Bundles without a shared chunk, under names that do not change: the program embeds them. `--mode` says which. The calculator's
// two are put into a page of their own (`pack-calculator.mjs`).
const entries: Record<string, string> = {
  app: 'src/main.tsx',
  worker: 'src/worker/main.ts',
  calculator: 'src/calculator/main.tsx',
  'calculator-worker': 'src/calculator/worker.ts',
};

export default defineConfig(({mode}) => ({
  publicDir: mode === 'app' ? 'public' : false,
  oxc: {jsx: {runtime: 'automatic', importSource: 'preact'}},
  build: {
    target: 'es2023',
    outDir: mode.startsWith('calculator') ? 'dist/calculator' : 'dist',
    emptyOutDir: mode === 'app',
    modulePreload: false,
    reportCompressedSize: false,
    rolldownOptions: {
      input: {[mode]: entries[mode] ?? entries.app},
      output: {
        entryFileNames: '[name].js',
        assetFileNames: '[name][extname]',
        // A classic script runs from a Blob as well, which is what the single-file page has.
        format: 'iife',
        codeSplitting: false,
      },
    },
  },
  // A process for each file would take three times the processor time. A machine with all its cores busy needs longer for the largest
  // inputs than the five seconds that Vitest gives.
  test: {include: ['src/**/*.test.ts', 'src/**/*.test.tsx'], isolate: false, testTimeout: 60_000},
}));
