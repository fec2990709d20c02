/** Where the calculator begins. */

import {batch, effect} from '@preact/signals';
import {render} from 'preact';
import {Problem} from '../data/source';
import * as store from '../state/store';
import {placeOf, textOf} from './address';
import {problem, startAnswers} from './answers';
import {model, serving, words} from './inputs';
import {Page} from './page';

/** Browsers refuse more than about a hundred changes of the address in half a minute. */
const ADDRESS_MS = 400;

/** Sets everything from an address, or from what the page was made with where the address says nothing. */
function readAddress(): void {
  const own = location.hash.replace(/^#/, '');
  const place = placeOf(own || atob(document.getElementById('inputs')?.textContent ?? ''));
  batch(() => {
    if (place.model) model.value = place.model;
    words.value = place.words;
    serving.value = place.serving ?? null;
    store.theme.value = place.theme;
  });
}

readAddress();
addEventListener('hashchange', () => {
  if (location.hash !== `#${addressNow()}`) readAddress();
});

function addressNow(): string {
  const asked = serving.value ? {serving: serving.value} : {};
  return textOf({model: model.value, words: words.value, ...asked, theme: store.theme.value});
}

let timer: ReturnType<typeof setTimeout> | undefined;
let isFirst = true;
effect(() => {
  const text = addressNow();
  clearTimeout(timer);
  // What was never touched needs no address.
  if (!isFirst) timer = setTimeout(() => history.replaceState(null, '', `#${text}`), ADDRESS_MS);
  isFirst = false;
});
effect(() => {
  document.documentElement.dataset.theme = store.shade.value;
});

startAnswers().catch(error => {
  problem.value = Problem.from(error);
});
const root = document.getElementById('app');
if (root) render(<Page />, root);
