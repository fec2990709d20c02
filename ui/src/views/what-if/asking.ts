/** Questions to the simulator: one at a time, the newest counts. */

import {type Signal, signal} from '@preact/signals';
import {Problem, type SimulationProgress} from '../../data/source';
import type {Answer} from '../../kit/answer';
import {dataSource, type Opened} from '../../state/session';
import * as store from '../../state/store';
import type {Simulation} from './simulation';

/** Asks how far an answer is. */
type Look = (signal: AbortSignal) => Promise<SimulationProgress | null>;

/** Between two such questions, in milliseconds. */
const LOOK_MS = 250;

/** A question that can be asked again and let go. */
export class Asking {
  readonly answer: Signal<Answer<Simulation>> = signal({value: null, problem: null, isBusy: false});
  /** When the one that is waited for was asked, in milliseconds. */
  readonly since = signal(0);
  /** How far the program is with it, as far as it has said. */
  readonly progress: Signal<SimulationProgress | null> = signal(null);
  private abort: AbortController | undefined;

  /**
   * Asks; what was asked before is cancelled, its answer stays until the new one is there. The end of a request ends the
   * work in the program. `look` asks how far it is.
   */
  async ask(make: (signal: AbortSignal) => Promise<Simulation>, look?: Look): Promise<void> {
    this.abort?.abort();
    const mine = new AbortController();
    this.abort = mine;
    this.answer.value = {...this.answer.peek(), problem: null, isBusy: true};
    this.since.value = performance.now();
    this.progress.value = null;
    if (look) void this.follow(mine.signal, look);
    try {
      const value = await make(mine.signal);
      if (this.abort === mine) this.answer.value = {value, problem: null, isBusy: false};
    } catch (error) {
      if (this.abort === mine) this.answer.value = {value: null, problem: Problem.from(error), isBusy: false};
    } finally {
      // Nobody looks how far it is any more.
      mine.abort();
    }
  }

  private async follow(signal: AbortSignal, look: Look): Promise<void> {
    for (;;) {
      await new Promise(resolve => setTimeout(resolve, LOOK_MS));
      if (signal.aborted) return;
      // Where it cannot be said how far it is, the answer says what is wrong.
      const progress = await look(signal).catch(() => null);
      if (signal.aborted) return;
      this.progress.value = progress;
    }
  }

  cancel(): void {
    this.abort?.abort();
    this.abort = undefined;
    this.answer.value = {...this.answer.peek(), isBusy: false};
  }

  forget(): void {
    this.cancel();
    this.answer.value = {value: null, problem: null, isBusy: false};
  }
}

/** What was asked about a device; it outlives the view, so that going away and back asks nothing twice. */
export interface Questions {
  readonly device: Opened;
  /** What the simulator says unasked: verdict, fit table, causes. */
  readonly study: Asking;
  /** Runs under chosen settings. */
  readonly own: Asking;
}

let current: Questions | undefined;

export function questionsOf(device: Opened): Questions {
  if (current?.device !== device) {
    current?.study.cancel();
    current?.own.cancel();
    current = {device, study: new Asking(), own: new Asking()};
  }
  return current;
}

/** Asks for the study. */
export function askStudy({study, device}: Questions): Promise<void> {
  if (device.manifest.what_if === 'precomputed') {
    return study.ask(() => dataSource().json<Simulation>(store.file.peek(), 'what_if'));
  }
  return simulate(study, device, [], '');
}

/** Asks for runs under settings, with a memory: a limit such as `24GiB`, a GPU such as `RTX 4090`, or `''` for no limit. */
export function askRuns({own, device}: Questions, confs: readonly string[], memory: string): void {
  void simulate(own, device, confs, memory);
}

/** The parameter of the program for a memory: a size with its unit is a limit, all else names a GPU. */
export function memoryParameter(memory: string): 'capacity' | 'card' {
  return /^[\d.,_\s]*([KMGTP]i?)?B?$/i.test(memory) && /[a-z]/i.test(memory) ? 'capacity' : 'card';
}

function simulate(asking: Asking, device: Opened, confs: readonly string[], memory: string): Promise<void> {
  const query = new URLSearchParams({device: String(device.device.device)});
  for (const conf of confs) query.append('conf', conf);
  if (memory !== '') query.append(memoryParameter(memory), memory);
  const file = store.file.peek();
  return asking.ask(
    signal => dataSource().simulate<Simulation>(file, query, signal),
    signal => dataSource().simulationProgress(file, query, signal),
  );
}
