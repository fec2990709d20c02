/** What to change after an out-of-memory error, in the order of what each change frees. */

import {copyText} from '../../kit/copy';
import type {Step} from '../../kit/explanation';
import {asSentence, Code, capitalised, Prose} from '../../kit/prose';
import {asInMessages} from '../../model/units';
import {canAskWhatIf, goTo} from './go';

interface StepsProps {
  readonly steps: readonly Step[];
  /** How much more the failed request needed. */
  readonly missingBytes: number | undefined;
  /** The numbers behind each step are left to a click: for the panel, which is narrow. */
  readonly isShort?: boolean;
}

export function Steps({steps, missingBytes, isShort = false}: StepsProps) {
  return (
    <ol class="steps">
      {steps.map(step => (
        <li key={step.id + step.title}>
          {isShort ? (
            <details>
              <summary>
                <Title step={step} missingBytes={missingBytes} />
              </summary>
              <Detail step={step} />
            </details>
          ) : (
            <>
              <Title step={step} missingBytes={missingBytes} />
              <Detail step={step} />
            </>
          )}
          {step.change && <Change change={step.change} conf={step.conf} />}
        </li>
      ))}
    </ol>
  );
}

function Title({step, missingBytes}: {step: Step; missingBytes: number | undefined}) {
  const words = savingWords(step, missingBytes);
  return (
    <>
      <b>
        <Prose text={capitalised(step.title)} />
      </b>{' '}
      {words && <span class="chip">{words}</span>}
    </>
  );
}

function Detail({step}: {step: Step}) {
  return (
    <p>
      <Prose text={asSentence(step.detail)} />
    </p>
  );
}

function Change({change, conf}: {change: string; conf: string | undefined}) {
  return (
    <div class="change">
      <Code text={change} />
      <button type="button" class="plain" title="Copy it" onClick={() => copyText(change)}>
        copy
      </button>
      {conf !== undefined && canAskWhatIf() && (
        <button
          type="button"
          class="plain"
          title="Simulate these settings"
          onClick={() => goTo({words: '', view: 'what-if', conf})}
        >
          try it
        </button>
      )}
    </div>
  );
}

/** `frees 4.33 GiB: enough`. */
export function savingWords({brings_bytes: bytes, enough}: Step, missingBytes?: number): string | undefined {
  if (bytes === undefined) return undefined;
  if (enough === undefined) return `frees up to ${asInMessages(bytes)}`;
  if (enough) return `frees ${asInMessages(bytes)}: enough`;
  const isPast = missingBytes !== undefined && bytes >= missingBytes;
  return `frees ${asInMessages(bytes)}: ${isPast ? 'enough for this request, not for the whole step' : 'not enough alone'}`;
}
