/** The verdict; of an out-of-memory error with where it was, and what to change. */

import {useMemo} from 'preact/hooks';
import {copyText} from '../../kit/copy';
import {failureAt, useExplanation} from '../../kit/explanation';
import {ProblemCard} from '../../kit/problem';
import {asSentence, Prose} from '../../kit/prose';
import {fullPlace} from '../../model/frames';
import {count, counted} from '../../model/units';
import type {Opened} from '../../state/session';
import {EntryLink, PlaceButtons} from './go';
import {type DeviceReport, frameWords, type OutOfMemory, queryOf, type Report} from './report';
import {Steps} from './steps';

export function Verdict({device, report, own}: {device: Opened; report: Report; own: DeviceReport | undefined}) {
  const text = useMemo(() => textOf(report), [report]);
  return (
    <div class="card verdict">
      <h2>
        Verdict
        <span class="spring" />
        <button type="button" class="plain" title="Copy verdict and findings as text" onClick={() => copyText(text)}>
          copy
        </button>
      </h2>
      <p>
        <Prose text={report.verdict} />
      </p>
      {own && own.oom.length > 0 && <Errors device={device} own={own} />}
    </div>
  );
}

/** Errors that are told in full; a program that catches them can have thousands. */
const ERRORS_MAX = 5;

function Errors({device, own: {oom: errors}}: {device: Opened; own: DeviceReport}) {
  const {value, problem, isBusy, ask} = useExplanation(device);
  const [first, ...others] = errors;
  const failure = value ? failureAt(value, device.device.device, first.entry) : undefined;
  return (
    <>
      <Where error={first} />
      {problem && <ProblemCard problem={problem} />}
      {ask && (
        <button type="button" onClick={ask}>
          Work out the changes that help
        </button>
      )}
      {isBusy && !value && <p class="faint">Working out the changes that help …</p>}
      {failure && failure.steps.length > 0 && (
        <>
          <h3>What to change, largest saving first</h3>
          <Steps steps={failure.steps} missingBytes={failure.diagnosis.missing_bytes} />
        </>
      )}
      {others.slice(0, ERRORS_MAX - 1).map((error, i) => (
        <div key={i} class="oom-error">
          <h3>
            Out of memory again, at entry <EntryLink entry={error.entry} words={count(error.entry)} />
          </h3>
          <p class="faint">
            <Prose text={asSentence(error.explanation)} />
          </p>
          <Where error={error} />
        </div>
      ))}
      {errors.length > ERRORS_MAX && (
        <p class="faint">
          {counted(errors.length - ERRORS_MAX, 'more error')}: the key <kbd>o</kbd> steps through them in the timeline
        </p>
      )}
    </>
  );
}

/** Callers shown before the rest is counted. */
const FRAMES_MAX = 4;

/** The stack of the request, and the places to see it at. */
function Where({error}: {error: OutOfMemory}) {
  const {entry, frames} = error;
  const query = queryOf({frames});
  const places = [
    ...error.places,
    ...(query ? [{words: 'all of this call site', view: 'timeline' as const, cursor: entry, query}] : []),
  ];
  return (
    <>
      <ol class="frames">
        {frames.slice(0, FRAMES_MAX).map((frame, i) => (
          <li key={i} title={fullPlace({file: frame.filename, line: frame.line})}>
            {frameWords(frame)}
          </li>
        ))}
        {frames.length > FRAMES_MAX && <li class="faint">… {counted(frames.length - FRAMES_MAX, 'more caller')}</li>}
      </ol>
      <div class="actions">
        <PlaceButtons places={places} />
      </div>
    </>
  );
}

function textOf({verdict, devices}: Report): string {
  const findings = devices.flatMap(({device, findings}) =>
    findings.map(({severity, title, detail, change}) =>
      [`${severity}, device ${device}: ${title}`, `  ${detail}`, ...(change ? [`  ${change}`] : [])].join('\n'),
    ),
  );
  return [verdict, ...findings].join('\n');
}
