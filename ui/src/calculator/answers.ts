/** What the module says to what is asked: the estimate at once, what to change to fit when the hand rests. */

import {computed, effect, signal} from '@preact/signals';
import type {ServeDocument} from '../data/generated/serve';
import {type Remote, remote} from '../data/rpc';
import {Problem, unpack} from '../data/source';
import {latest} from '../model/latest';
import {type Choices, type EstimateDocument, type Fit, isProblem, parsed} from './document';
import {model, options, questionOf, requestOf, serving, usualOf, type Words, withWords, words} from './inputs';
import {LENGTHS} from './serving';
import type {Methods} from './worker';

export const choices = signal<Choices | null>(null);
/** The newest estimate; it stays while the next one is made, and where there is none. */
export const estimate = signal<EstimateDocument | null>(null);
/** The newest answer about serving, and the question that it answers. */
export const served = signal<ServeDocument | null>(null);
export const problem = signal<Problem | null>(null);
/** What to change, and for which request it is. */
export const fit = signal<{request: string; answer: Fit} | null>(null);

/** Trying changes takes dozens of estimates: they begin when nothing has been asked for this long. */
const REST_MS = 250;

/** The card that is meant. */
export const card = computed(() => words.value.gpu ?? usualOf('gpu'));

/** The name of a GPU as people write it. */
export function cardTitle(name: string): string {
  return choices.value?.cards.find(card => card.name === name)?.title ?? name;
}

let engine: Remote<Methods> | null = null;

/** Starts both workers, then answers whatever is asked. */
export async function startAnswers(): Promise<void> {
  const [script, bytes] = await Promise.all([packed('worker'), packed('module')]);
  const url = URL.createObjectURL(new Blob([script], {type: 'text/javascript'}));
  const compiled = await WebAssembly.compile(bytes);
  // A remote cannot be a promise's value: any name is a method of it, `then`, too.
  const [quick, patient] = [remote<Methods>(new Worker(url)), remote<Methods>(new Worker(url))];
  await Promise.all([quick.start(compiled), patient.start(compiled)]);
  choices.value = parsed<Choices>(await quick.choices()) as Choices;
  options.value = choices.value.options;
  engine = quick;
  answerWith(quick, patient);
}

function answerWith(quick: Remote<Methods>, patient: Remote<Methods>): void {
  const answerOf = (methods: Remote<Methods>, request: string) =>
    methods.answer(request).catch(error => JSON.stringify(Problem.from(error).body()));
  const askFit = latest(
    (request: string) => answerOf(patient, request),
    (text, request) => {
      const answer = parsed<EstimateDocument>(text);
      if (!isProblem(answer) && answer.fit) fit.value = {request, answer: answer.fit};
    },
  );
  const ask = latest(
    (request: string) => answerOf(quick, request),
    text => {
      const answer = parsed<EstimateDocument>(text);
      if (isProblem(answer)) problem.value = new Problem(answer);
      else {
        problem.value = null;
        estimate.value = answer;
      }
    },
  );
  const askServed = latest(
    (question: string) => quick.serve(question).catch(error => JSON.stringify(Problem.from(error).body())),
    text => {
      const answer = parsed<ServeDocument>(text);
      if (isProblem(answer)) problem.value = new Problem(answer);
      else {
        problem.value = null;
        served.value = answer;
      }
    },
  );
  let timer: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    const [of, all] = [model.value, words.value];
    clearTimeout(timer);
    if ('lost' in of) {
      problem.value = lostProblem(of.lost);
      return;
    }
    const asked = serving.value;
    if (asked) {
      askServed(questionOf(of, all, asked, LENGTHS));
      return;
    }
    ask(requestOf(of, all, false));
    timer = setTimeout(() => askFit(requestOf(of, all, true)), REST_MS);
  });
}

/** Whether the changes on the page are those for what is asked now. */
export const isFitFresh = computed(() => fit.value?.request === requestOf(model.value, words.value, true));

function lostProblem(name: string): Problem {
  return new Problem({
    error: `this address refers to the model file \`${name}\`, whose description was too long for an address`,
    hint: 'drop the file on the page: all other options are set',
  });
}

/** Sets options. */
export function choose(changes: Words): void {
  words.value = withWords(words.value, changes);
}

/** Sets flags of the engine; an empty one is not kept. */
export function chooseFlags(changes: Words): void {
  const asked = serving.value;
  if (!asked) return;
  const flags = Object.entries({...asked.flags, ...changes}).filter(([, word]) => word !== '');
  serving.value = {...asked, flags: Object.fromEntries(flags)};
}

/** Takes the model of a file. */
export async function openFile(file: File): Promise<void> {
  try {
    const text = await engine?.describe(file);
    if (text === undefined) return;
    const answer = parsed<object>(text);
    if (isProblem(answer)) problem.value = new Problem(answer);
    else model.value = {described: text, from: file.name};
  } catch (error) {
    problem.value = Problem.from(error);
  }
}

/** What is packed into the page under an id. */
function packed(id: string): Promise<Uint8Array<ArrayBuffer>> {
  const text = document.getElementById(id)?.textContent;
  if (!text) throw new Problem({error: `the page lacks \`${id}\``, hint: 'the file may be truncated: write it again'});
  return unpack(text) as Promise<Uint8Array<ArrayBuffer>>;
}
