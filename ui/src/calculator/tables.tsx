/** The tables of the answer: phases, cards, terms. */

import {useSignal} from '@preact/signals';
import {categoryWords} from '../model/categories';
import {binary, counted} from '../model/units';
import * as store from '../state/store';
import {card, cardTitle, choose} from './answers';
import {colourOf} from './bar';
import type {EstimateDocument} from './document';
import {exactly} from './exactly';

export function Phases({document}: {document: EstimateDocument}) {
  const most = Math.max(1, ...document.phases.map(phase => phase.peak_requested_bytes));
  return (
    <section class="card">
      <h2>
        Phases <span class="faint">peak of requested memory in each</span>
      </h2>
      <table class="data phases">
        <tbody>
          {document.phases.map(({phase, peak_requested_bytes: bytes}) => {
            const isPeak = document.peak_phase === phase || document.peak_phase.startsWith(`${phase},`);
            return (
              <tr key={phase} class={isPeak ? 'peak' : undefined}>
                <th scope="row">{phase}</th>
                <td class="number" title={exactly(bytes)}>
                  {binary(bytes)}
                </td>
                <td class="bar" style={{'--share': `${(bytes / most) * 100}%`}}>
                  {isPeak && 'the peak'}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {document.held_outputs_bytes > 0 && (
        <p class="faint">
          Keeping only the loss, not the outputs, saves {binary(document.held_outputs_bytes)}.{' '}
          <button type="button" class="plain inline" onClick={() => choose({keep: 'loss'})}>
            Keep only the loss
          </button>
        </p>
      )}
    </section>
  );
}

export function CardsTable({document}: {document: EstimateDocument}) {
  const fitting = document.cards.filter(({fits}) => fits).length;
  return (
    <section class="card">
      <h2>
        GPUs{' '}
        <span class="faint">
          {fitting === 0 ? 'none is large enough' : `${fitting} of ${document.cards.length} fit`}, at the upper end of
          the error band
        </span>
      </h2>
      <ul class="cards">
        {document.cards.map(({name, memory_bytes: bytes, fits, may_fit: mayFit, spare_bytes: spare}) => (
          <li key={name}>
            <button
              type="button"
              class={name === card.value ? 'plain chosen' : 'plain'}
              aria-pressed={name === card.value}
              title={`${exactly(bytes)}: choose the ${cardTitle(name)}`}
              onClick={() => choose({gpu: name})}
            >
              <span class={fits ? 'good' : 'danger'}>{fits ? '✓' : mayFit ? '?' : '✗'}</span>
              <span>{cardTitle(name)}</span>
              <span class="faint">
                {binary(Math.abs(spare))} {spare >= 0 ? 'to spare' : 'missing'}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Terms that are shown at first. */
const TERMS = 12;

export function Terms({document}: {document: EstimateDocument}) {
  const isWhole = useSignal(false);
  const {terms} = document;
  const shown = isWhole.value ? terms : terms.slice(0, TERMS);
  const rest = terms.slice(TERMS).reduce((sum, term) => sum + term.bytes, 0);
  return (
    <section class="card">
      <h2>
        The largest terms <span class="faint">memory at the peak, with formulas</span>
      </h2>
      <div class="scrolled">
        <table class="data terms">
          <thead>
            <tr>
              <th class="number">bytes</th>
              <th>category</th>
              <th>part</th>
              <th>allocation</th>
              <th>formula</th>
            </tr>
          </thead>
          <tbody>
            {shown.map(term => (
              <tr key={`${term.category} ${term.part} ${term.name} ${term.formula}`}>
                <td class="number" title={exactly(term.bytes)}>
                  {binary(term.bytes)}
                </td>
                <td>
                  <span class="swatch" style={{background: colourOf(term.category, store.shade.value)}} />{' '}
                  {categoryWords(term.category)}
                </td>
                <td>{term.part}</td>
                <td>{term.name}</td>
                <td class="formula">{term.formula}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {terms.length > TERMS && (
        <button type="button" class="plain" onClick={() => (isWhole.value = !isWhole.value)}>
          {isWhole.value ? 'show only the largest' : `${counted(terms.length - TERMS, 'more term')}, ${binary(rest)}`}
        </button>
      )}
    </section>
  );
}
