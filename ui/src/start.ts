/**
 * Runs before the page's program, and is small: the worker begins, and opens what the address says, while the browser still compiles that
 * program. A worker begins with the help of the page's thread, so the program has that thread only then.
 */

import {remote} from './data/rpc';
import {sourceOfPage} from './data/source';
import {leaveHeadStart, takeHeadStart} from './state/head-start';
import {openDevice, targetOf} from './state/opening';
import {workerAddress} from './state/worker-address';

/** Answers are told apart by numbers: those of the page's program count from 0. */
const NUMBERS_FROM = -1000;

const worker = new Worker(workerAddress());
const target = targetOf(location.hash);
const reached = openDevice(sourceOfPage(), remote(worker, NUMBERS_FROM), target);
// The program asks again, and shows what is wrong.
reached.catch(() => {});
leaveHeadStart({worker, target, reached});

const isRunning = new Promise(go => {
  worker.addEventListener('message', go, {once: true});
  worker.addEventListener('error', event => {
    // The program begins another, and shows what is wrong. If it has this one, it hears of the failure itself.
    takeHeadStart();
    go(event);
  });
});
// With its style: the first picture is made for the size that it has.
const isLoaded = new Promise(go => {
  addEventListener('load', go, {once: true});
});
void Promise.all([isRunning, isLoaded]).then(() => {
  const script = document.createElement('script');
  script.type = 'module';
  script.src = 'app.js';
  document.head.append(script);
});
