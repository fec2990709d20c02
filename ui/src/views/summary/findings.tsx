/** Findings, each with the places that it speaks of. Out-of-memory errors are the verdict's. */

import {asSentence, capitalised, Prose} from '../../kit/prose';
import {binary} from '../../model/units';
import {PlaceButtons} from './go';
import type {DeviceReport, Finding} from './report';

const SIGNS = {error: '✗', warning: '▲', info: 'i'} as const;

export function Findings({device}: {device: DeviceReport}) {
  const findings = device.findings.filter(({id}) => id !== 'oom');
  if (findings.length === 0) return null;
  return (
    <div class="card">
      <h2>Findings</h2>
      <ul class="findings">
        {findings.map((finding, i) => (
          <li key={i} class={finding.severity}>
            <span class="sign" role="img" aria-label={finding.severity}>
              {SIGNS[finding.severity]}
            </span>
            <div>
              <b>
                <Prose text={capitalised(finding.title)} />
              </b>
              <Body finding={finding} />
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
        <Prose text={asSentence(finding.detail)} />
      </p>
      {finding.change && (
        <p>
          → <Prose text={asSentence(finding.change)} />
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
        <span class="faint more">
          more: <code>highwater help {finding.id}</code>
        </span>
      </div>
    </>
  );
}
