/** What to change to fit the chosen card. */

import {Prose} from '../kit/prose';
import {binary, count} from '../model/units';
import {card, cardTitle, choose, fit, isFitFresh} from './answers';
import type {Change, EstimateDocument} from './document';
import {exactly} from './exactly';

export function FitCard({document}: {document: EstimateDocument}) {
  const answer = fit.value?.answer;
  const chosen = document.cards.find(({name}) => name === card.value);
  if (!answer || !chosen) return null;
  const {largest_batch: batch} = answer;
  return (
    <section class="card" aria-busy={!isFitFresh.value}>
      <h2>
        To fit the {cardTitle(chosen.name)}
        <span class="faint">
          {binary(answer.limit_bytes)};{' '}
          {batch === undefined ? 'not even batch 1 fits' : `the largest batch that fits is ${count(batch)}`}
        </span>
        {batch !== undefined && batch !== document.setup.batch && (
          <button type="button" class="plain inline" onClick={() => choose({batch: String(batch)})}>
            Apply
          </button>
        )}
        {!isFitFresh.value && <span class="faint">computing …</span>}
      </h2>
      {answer.changes.length > 0 && <Changes changes={answer.changes} />}
    </section>
  );
}

function Changes({changes}: {changes: readonly Change[]}) {
  return (
    <div class={isFitFresh.value ? 'scrolled' : 'scrolled stale'}>
      <table class="data changes">
        <thead>
          <tr>
            <th />
            <th class="number">on the GPU</th>
            <th>change</th>
            <th>costs</th>
          </tr>
        </thead>
        <tbody>
          {changes.map(({change, cost, fits, total_bytes: bytes}) => (
            <tr key={change}>
              <td class={fits ? 'good' : 'danger'}>{fits ? '✓ fits' : '✗ no'}</td>
              <td class="number" title={exactly(bytes)}>
                {binary(bytes)}
              </td>
              <td>
                <Prose text={change} />
              </td>
              <td class="costs faint">{cost === 'nothing' ? 'no cost' : cost}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
