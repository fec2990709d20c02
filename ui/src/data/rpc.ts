/** Calls across to the worker and back. */

import {Problem, type ProblemBody} from './source';

interface Call {
  id: number;
  method: string;
  args: unknown[];
}

type Answer = {id: number; value: unknown} | {id: number; problem: ProblemBody};

/** A value of which parts are handed over rather than copied. */
export class Transferred<T> {
  readonly value: T;
  readonly transfer: Transferable[];

  constructor(value: T, transfer: Transferable[]) {
    this.value = value;
    this.transfer = transfer;
  }
}

type Methods = Record<string, (...args: never[]) => unknown>;

/** What the other side sees of an object of methods: each gives a promise; values can be handed over either way. */
export type Remote<T> = {
  [K in keyof T]: T[K] extends (...args: infer A) => infer R
    ? (
        ...args: {[I in keyof A]: A[I] | Transferred<A[I]>}
      ) => Promise<Awaited<R> extends Transferred<infer V> ? V : Awaited<R>>
    : never;
};

/** What a worker sees as its global: TypeScript knows either a page's or a worker's, not both. */
export interface WorkerScope {
  onmessage: ((event: MessageEvent) => void) | null;
  postMessage(message: unknown, transfer?: Transferable[]): void;
}

/** Answers calls: in the worker. */
export function serve(methods: Methods, scope: WorkerScope): void {
  scope.onmessage = async (event: MessageEvent<Call>) => {
    const {id, method, args} = event.data;
    try {
      const result = await methods[method](...(args as never[]));
      if (result instanceof Transferred) scope.postMessage({id, value: result.value}, result.transfer);
      else scope.postMessage({id, value: result});
    } catch (error) {
      scope.postMessage({id, problem: Problem.from(error).body()});
    }
  };
}

/** Calls: in the page. A worker that dies fails every call that waits. */
export function remote<T>(worker: Worker): Remote<T> {
  let next = 0;
  const waiting = new Map<number, {resolve(value: unknown): void; reject(error: Problem): void}>();
  worker.onmessage = (event: MessageEvent<Answer>) => {
    const answer = event.data;
    const call = waiting.get(answer.id);
    waiting.delete(answer.id);
    if ('problem' in answer) call?.reject(new Problem(answer.problem));
    else call?.resolve(answer.value);
  };
  worker.onerror = event => {
    for (const call of waiting.values()) {
      call.reject(new Problem({error: `the page's worker failed: ${event.message || 'it ran out of memory'}`}));
    }
    waiting.clear();
  };
  return new Proxy({} as Remote<T>, {
    get:
      (_, method: string) =>
      (...args: unknown[]) =>
        new Promise((resolve, reject) => {
          const id = next++;
          waiting.set(id, {resolve, reject});
          const transfer = args.flatMap(arg => (arg instanceof Transferred ? arg.transfer : []));
          const values = args.map(arg => (arg instanceof Transferred ? arg.value : arg));
          worker.postMessage({id, method, args: values} satisfies Call, transfer);
        }),
  });
}
