/** What to look at, each with the places that it speaks of; and the out-of-memory errors. */

import {Prose} from '../../kit/prose';
import {fullPlace} from '../../model/frames';
import {binary, count} from '../../model/units';
import {EntryLink, PlaceButtons} from './go';
import {type DeviceReport, type Finding, frameWords, type OutOfMemory, queryOf} from './report';

const SIGNS = {error: '✗', warning: '▲', info: 'i'} as const;

export function Findings({device}: {device: DeviceReport}) {
  if (device.findings.length === 0) return null;
  return (
    <div class="card">
      <h2>What to look at</h2>
      <ul class="findings">
        {device.findings.map((finding, i) => (
          <li key={i} class={finding.severity}>
            <span class="sign" role="img" aria-label={finding.severity}>
              {SIGNS[finding.severity]}
            </span>
            <div>
              <b>
                <Prose text={finding.title} />
              </b>
              {finding.id === 'oom' ? <Errors errors={device.oom} /> : <Body finding={finding} />}
            </div>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Body({finding}: {finding: Finding}) {
  return (
    <>
      <p>
        <Prose text={finding.detail} />
      </p>
      {finding.change && (
        <p>
          → <Prose text={finding.change} />
          {finding.saving_bytes !== undefined && (
            <span class="chip">
              saves {finding.estimated && 'about '}
              {binary(finding.saving_bytes)}
            </span>
          )}
        </p>
      )}
      <div class="actions">
        <PlaceButtons places={finding.places} />
      </div>
    </>
  );
}

/** Errors that are told in full; a program that catches them can have thousands. */
const ERRORS_MAX = 5;

function Errors({errors}: {errors: OutOfMemory[]}) {
  return (
    <>
      {errors.slice(0, ERRORS_MAX).map((error, i) => (
        <OutOfMemoryError key={i} error={error} isOnly={errors.length === 1} />
      ))}
      {errors.length > ERRORS_MAX && (
        <p class="faint">and {count(errors.length - ERRORS_MAX)} more: the key o steps through them in the timeline</p>
      )}
    </>
  );
}

/** Callers shown before the rest is counted. */
const FRAMES_MAX = 4;

function OutOfMemoryError({error, isOnly}: {error: OutOfMemory; isOnly: boolean}) {
  const {entry, frames} = error;
  const query = queryOf({frames});
  const places = [
    ...error.places,
    ...(query ? [{words: 'all of this call site', view: 'timeline' as const, cursor: entry, query}] : []),
  ];
  return (
    <div class={isOnly ? '' : 'oom-error'}>
      {!isOnly && (
        <h3>
          at entry <EntryLink entry={entry} words={count(entry)} />
        </h3>
      )}
      <p>
        <Prose text={error.explanation} />
      </p>
      <ol class="frames">
        {frames.slice(0, FRAMES_MAX).map((frame, i) => (
          <li key={i} title={fullPlace({file: frame.filename, line: frame.line})}>
            {frameWords(frame)}
          </li>
        ))}
        {frames.length > FRAMES_MAX && <li class="faint">… {count(frames.length - FRAMES_MAX)} more</li>}
      </ol>
      <div class="actions">
        <PlaceButtons places={places} />
      </div>
    </div>
  );
}
