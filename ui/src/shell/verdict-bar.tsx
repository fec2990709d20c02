/** The answer in one line over the timeline: what failed and why, or how high memory peaked. */

import {useSignal, useSignalEffect} from '@preact/signals';
import type {Mark} from '../data/manifest';
import {explanationOf, isQuick} from '../kit/explanation';
import {capitalised, Prose} from '../kit/prose';
import {count} from '../model/units';
import type {Opened} from '../state/session';
import * as store from '../state/store';
import {canAskWhatIf, goTo} from '../views/summary/go';

/** The out-of-memory errors of a device, in order. */
export function errorsOf({device}: Opened): Mark[] {
  return device.marks.filter(({kind}) => kind === 'oom');
}

/** The error that is spoken of: the one at the cursor, else the first. */
export function chosenError(device: Opened): Mark | undefined {
  const errors = errorsOf(device);
  return errors.find(({entry}) => entry === store.cursor.value) ?? errors[0];
}

export function VerdictBar({device}: {device: Opened}) {
  const isWhole = useSignal(false);
  const isLit = useSignal(false);
  const [first] = errorsOf(device);
  const chosen = chosenError(device);
  // The key `o` goes to an error: what failed is then said here.
  useSignalEffect(() => {
    isLit.value = errorsOf(device).some(({entry}) => entry === store.cursor.value);
  });
  const words = verdictWords(device.device.headline, first, chosen);
  return (
    <div class={`verdict-bar${first ? ' failed' : ''}${isLit.value ? ' lit' : ''}`} role="status" aria-label="Verdict">
      <span class="sign" aria-hidden="true">
        {first ? '✗' : 'i'}
      </span>
      <button
        type="button"
        class={isWhole.value ? 'words whole' : 'words'}
        title={words}
        aria-expanded={isWhole.value}
        onClick={() => (isWhole.value = !isWhole.value)}
      >
        <Prose text={words} />
      </button>
      <Links device={device} error={chosen} />
    </div>
  );
}

/** Where the answer is explained, seen, and mended. */
function Links({device, error}: {device: Opened; error: Mark | undefined}) {
  const fix = async () => {
    const failures = error && isQuick(device) ? (await explanationOf(device)?.catch(() => undefined))?.failures : [];
    const conf = failures?.[0]?.steps.find(step => step.conf !== undefined)?.conf;
    goTo({words: '', view: 'what-if', ...(conf === undefined ? {} : {conf})});
  };
  return (
    <span class="links">
      <button type="button" class="plain" title="The report" onClick={() => goTo({words: '', view: 'summary'})}>
        why
      </button>
      {device.reservedMaxBytes > 0 && (
        <button
          type="button"
          class="plain"
          title={error ? 'Segments and blocks at the error' : 'Segments and blocks at the peak'}
          onClick={() => goTo({words: '', view: 'state', cursor: error?.entry ?? device.peakEntry})}
        >
          state
        </button>
      )}
      {canAskWhatIf() && (
        <button type="button" class="plain" title="Other allocator settings, other GPUs" onClick={() => void fix()}>
          {error ? 'fix' : 'what if'}
        </button>
      )}
    </span>
  );
}

/** The headline tells of the first error; of another one, what its mark says. */
export function verdictWords(headline: string, first: Mark | undefined, chosen: Mark | undefined): string {
  if (!chosen || chosen === first) return headline;
  return `${capitalised(chosen.label)} at entry ${count(chosen.entry)}`;
}
