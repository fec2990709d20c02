/** Where the arithmetic runs: beside the page, so that dragging stays smooth. */

import {serve, type WorkerScope} from '../data/rpc';
import {EstimateModule} from './module';

let module: EstimateModule;

const methods = {
  start(compiled: WebAssembly.Module): void {
    module = new EstimateModule(compiled);
  },
  answer: (request: string) => module.answer(request),
  serve: (question: string) => module.serve(question),
  choices: () => module.choices(),
  describe: (file: File) => module.describe(file),
};

/** What the page can ask. */
export type Methods = typeof methods;

serve(methods, globalThis as unknown as WorkerScope);
