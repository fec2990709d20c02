import {defineConfig} from 'vite';

// Two bundles without a shared chunk, under names that do not change: the program embeds them. `--mode` says which.
const entries: Record<string, string> = {
  app: 'src/main.tsx',
  worker: 'src/worker/main.ts',
};

export default defineConfig(({mode}) => ({
  publicDir: mode === 'app' ? 'public' : false,
  oxc: {jsx: {runtime: 'automatic', importSource: 'preact'}},
  build: {
    target: 'es2023',
    outDir: 'dist',
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
  test: {include: ['src/**/*.test.ts', 'src/**/*.test.tsx']},
}));
