/** Out of memory: what was asked for and what there was, where, and what to change. On top of the panel. */

import {useSignal, useSignalEffect} from '@preact/signals';
import {useRef} from 'preact/hooks';
import {copyText} from '../kit/copy';
import {type FailureExplained, failureAt, useExplanation} from '../kit/explanation';
import {FactList} from '../kit/fact-list';
import {FrameLink} from '../kit/frame-menu';
import {ProblemCard} from '../kit/problem';
import {asSentence, capitalised, Prose} from '../kit/prose';
import {asInMessages, count, counted} from '../model/units';
import type {Opened} from '../state/session';
import * as store from '../state/store';
import {EntryLink} from '../views/summary/go';
import {Steps} from '../views/summary/steps';
import {chosenError, errorsOf} from './verdict-bar';

/** Steps and callers that are shown before the rest is asked for. */
const STEPS = 3;
const FRAMES = 3;

export function OutOfMemory({device}: {device: Opened}) {
  const error = chosenError(device);
  return error ? <Section device={device} entry={error.entry} label={error.label} /> : null;
}

function Section({device, entry, label}: {device: Opened; entry: number; label: string}) {
  const host = useRef<HTMLElement>(null);
  const {value, problem, ask} = useExplanation(device);
  const errors = errorsOf(device);
  // Who steps to an error reads of it, however far down the panel is. In a narrow window the panel is below the view, which stays.
  useSignalEffect(() => {
    const section = host.current;
    const panel = section?.closest('aside');
    if (!panel || !errorsOf(device).some(one => one.entry === store.cursor.value)) return;
    const top = section!.getBoundingClientRect().top - panel.getBoundingClientRect().top;
    if (top < 0 || top > panel.clientHeight / 2) panel.scrollTop += top;
  });
  const failure = value ? failureAt(value, device.device.device, entry) : undefined;
  return (
    <section ref={host} class="out-of-memory">
      <h2>
        Out of memory
        <span class="faint">
          at entry <EntryLink entry={entry} words={count(entry)} />
          {errors.length > 1 && `, ${errors.findIndex(one => one.entry === entry) + 1} of ${count(errors.length)}`}
        </span>
        <span class="spring" />
        {failure && (
          <button type="button" class="plain" title="Copy as text" onClick={() => copyText(failureText(failure))}>
            copy
          </button>
        )}
      </h2>
      {problem && <ProblemCard problem={problem} />}
      {failure ? (
        <Explained failure={failure} />
      ) : (
        <p class="faint">
          {capitalised(label)}.{' '}
          {ask ? (
            <button type="button" onClick={ask}>
              Work out the changes that help
            </button>
          ) : (
            !value && !problem && 'Working out the cause and the changes that help …'
          )}
        </p>
      )}
    </section>
  );
}

function Explained({failure}: {failure: FailureExplained}) {
  const isWhole = useSignal(false);
  const {steps, frames, diagnosis} = failure;
  const shownSteps = isWhole.value ? steps : steps.slice(0, STEPS);
  const stack = frames.map(({name, filename, line}) => ({name, file: filename, line}));
  const shownFrames = isWhole.value ? frames.length : FRAMES;
  const hidden = steps.length - shownSteps.length;
  return (
    <>
      <FactList facts={failureFacts(failure)} />
      <ol class="frames">
        {stack.slice(0, shownFrames).map((frame, i) => (
          <li key={i}>
            <FrameLink frame={frame} stack={stack} />
          </li>
        ))}
      </ol>
      {isWhole.value && (
        <p>
          <Prose text={asSentence(diagnosis.text)} />
        </p>
      )}
      {steps.length > 0 && (
        <>
          <h3>What to change, largest saving first</h3>
          <Steps steps={shownSteps} missingBytes={diagnosis.missing_bytes} isShort />
        </>
      )}
      {(hidden > 0 || frames.length > FRAMES || isWhole.value) && (
        <button type="button" class="plain" onClick={() => (isWhole.value = !isWhole.value)}>
          {isWhole.value ? 'show less' : hidden > 0 ? `show ${counted(hidden, 'more step')}` : 'show the cause in full'}
        </button>
      )}
    </>
  );
}

/** The numbers of a failure, as PyTorch's message has them. */
export function failureFacts(failure: FailureExplained): [string, string][] {
  const {requested_bytes: requested, tried_bytes: tried, diagnosis} = failure;
  const facts: [string, string][] = [
    [
      'requested',
      tried === null || tried === requested
        ? asInMessages(requested)
        : `${asInMessages(tried)} (${asInMessages(requested)} by the program)`,
    ],
  ];
  const add = (name: string, bytes: number | null | undefined) => {
    if (typeof bytes === 'number') facts.push([name, asInMessages(bytes)]);
  };
  add('reserved', failure.reserved_bytes);
  add('allocated', failure.allocated_bytes);
  add('free on the GPU', failure.free_bytes);
  if (diagnosis.limit) {
    const {at_least_bytes: least, at_most_bytes: most} = diagnosis.limit;
    facts.push(['limit', least === most ? asInMessages(least) : `${asInMessages(least)} to ${asInMessages(most)}`]);
  }
  return facts;
}

function failureText(failure: FailureExplained): string {
  const facts = failureFacts(failure).map(([name, value]) => `${name}: ${value}`);
  const steps = failure.steps.map(
    ({title, change}, i) => `${i + 1}. ${capitalised(title)}${change ? `\n   ${change}` : ''}`,
  );
  return ['Out of memory', ...facts, asSentence(failure.diagnosis.text), ...steps].join('\n');
}
