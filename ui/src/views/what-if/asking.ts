/** Questions to the simulator: one at a time, the newest counts. */

import {type Signal, signal} from '@preact/signals';
import {Problem} from '../../data/source';
import type {Answer} from '../../kit/answer';
import {dataSource, type Opened} from '../../state/session';
import * as store from '../../state/store';
import type {Simulation} from './simulation';

/** A question that can be asked again and let go. */
export class Asking {
  readonly answer: Signal<Answer<Simulation>> = signal({value: null, problem: null, isBusy: false});
  /** When the one that is waited for was asked, in milliseconds. */
  readonly since = signal(0);
  private abort: AbortController | undefined;

  /** Asks; what was asked before is cancelled, its answer stays until the new one is there. */
  async ask(make: (signal: AbortSignal) => Promise<Simulation>): Promise<void> {
    this.abort?.abort();
    const mine = new AbortController();
    this.abort = mine;
    this.answer.value = {...this.answer.peek(), problem: null, isBusy: true};
    this.since.value = performance.now();
    try {
      const value = await make(mine.signal);
      if (this.abort === mine) this.answer.value = {value, problem: null, isBusy: false};
    } catch (error) {
      if (this.abort === mine) this.answer.value = {value: null, problem: Problem.from(error), isBusy: false};
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
  return study.ask(signal => simulate(device, [], '', signal));
}

/** Asks for runs under settings, with a capacity such as `24GiB`, or `''` for no limit. */
export function askRuns({own, device}: Questions, confs: readonly string[], capacity: string): void {
  void own.ask(signal => simulate(device, confs, capacity, signal));
}

function simulate(
  device: Opened,
  confs: readonly string[],
  capacity: string,
  signal: AbortSignal,
): Promise<Simulation> {
  const query = new URLSearchParams({device: String(device.device.device)});
  for (const conf of confs) query.append('conf', conf);
  if (capacity !== '') query.append('capacity', capacity);
  return dataSource().simulate<Simulation>(store.file.peek(), query, signal);
}
