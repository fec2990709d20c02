/** How much it is, whether it fits, and what fills the card. */

import {useSignal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {Prose} from '../kit/prose';
import {binary, count} from '../model/units';
import {card, cardTitle} from './answers';
import {barEnd, type CardLine, cardLines, nameOf, segments} from './bar';
import type {Card, EstimateDocument} from './document';
import {exactly} from './exactly';
import {BarParts, PartsTable} from './parts';

export function Verdict({document}: {document: EstimateDocument}) {
  const {error_band: band, setup} = document;
  return (
    <section class="card verdict" aria-label="Answer">
      <div aria-live="polite">
        <Headline document={document} />
      </div>
      <StackedBar document={document} />
      <p>
        Peak phase: <b>{document.peak_phase}</b>. It requests{' '}
        <Prose text={`${binary(document.peak_requested_bytes)}, ±\u00a0${band.percent} %`} />
        <span class="faint"> ({band.evidence})</span>.
      </p>
      <p class="faint">
        {document.model}, {count(document.parameters)} parameters
        {document.trainable_parameters !== document.parameters &&
          `, ${count(document.trainable_parameters)} of them or of adapters trained`}
        ; batch {count(setup.batch)}, {document.activations_per_token > 0 && `${count(setup.seq)} tokens, `}
        {setup.dtype}
        {setup.autocast && `, autocast to ${setup.autocast}`}
        {setup.checkpointing && ', checkpointing'}
      </p>
    </section>
  );
}

/** The answer in a line. */
export function Headline({document}: {document: EstimateDocument}) {
  const chosen = chosenCard(document);
  const {total_bytes: total} = document;
  return (
    <p class="headline">
      <span>
        <b title={exactly(total)}>{binary(total)}</b> on the GPU
      </span>
      {chosen && (
        <span class={chosen.fits ? 'good' : 'danger'}>
          {chosen.fits ? '✓ fits' : chosen.may_fit ? '? may fit' : '✗ does not fit'} on the {cardTitle(chosen.name)}:{' '}
          {spareWords(chosen)}
        </span>
      )}
    </p>
  );
}

/** The spare bytes are those at the upper end of the error band. */
export function spareWords({spare_bytes: spare}: Card): string {
  return spare >= 0 ? `at least ${binary(spare)} to spare` : `up to ${binary(-spare)} missing`;
}

function chosenCard(document: EstimateDocument): Card | undefined {
  return document.cards.find(({name}) => name === card.value);
}

/** The width of an element, in CSS pixels. */
export function useWidth() {
  const element = useRef<HTMLDivElement>(null);
  const width = useSignal(600);
  useEffect(() => {
    if (!element.current) return;
    const observer = new ResizeObserver(([entry]) => {
      width.value = entry.contentRect.width;
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return {element, width: width.value};
}

function StackedBar({document}: {document: EstimateDocument}) {
  const {element, width} = useWidth();
  const end = barEnd(document, chosenCard(document));
  const parts = segments(document, end);
  const cards = document.cards.map(one => ({...one, name: cardTitle(one.name)}));
  const lines = cardLines(cards, cardTitle(card.value), end, width);
  return (
    <figure>
      <div ref={element} class="stacked" aria-hidden="true">
        {lines.map(line => (
          <Line key={line.names[0]} line={line} />
        ))}
        <BarParts parts={parts} />
      </div>
      <PartsTable caption="What fills the GPU at the peak" parts={parts} />
    </figure>
  );
}

function Line({line}: {line: CardLine}) {
  const {names, bytes, at, isChosen, label} = line;
  const kind = isChosen ? 'chosen' : label ? 'labelled' : '';
  return (
    <span class={`card-line ${kind}`} style={{left: `${at * 100}%`}} title={`${names.join(', ')}: ${binary(bytes)}`}>
      {label && <span class={label}>{nameOf(names)}</span>}
    </span>
  );
}
