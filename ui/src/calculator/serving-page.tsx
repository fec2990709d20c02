/** Whether an engine starts, what fills the GPU, and how many requests of which length it serves at once. */

import {useSignal} from '@preact/signals';
import type {Change, ServeDocument} from '../data/generated/serve';
import {asSentence, Prose} from '../kit/prose';
import {binary, count} from '../model/units';
import {cardTitle} from './answers';
import type {Engine} from './document';
import {exactly} from './exactly';
import {BarParts, PartsTable} from './parts';
import {
  budgetEnd,
  budgetParts,
  type Curve,
  curveOf,
  leastRank,
  lengthOf,
  type Point,
  pointAt,
  requestsOf,
} from './serving';
import {useWidth} from './verdict';

export function ServingResults({document, engine}: {document: ServeDocument; engine: Engine | undefined}) {
  return (
    <>
      <section class="card verdict" aria-label="Answer">
        <div aria-live="polite">
          <ServingHeadline document={document} />
        </div>
        {document.refusal && (
          <p class="danger">
            <Prose text={document.refusal.sentence} />
          </p>
        )}
        <Budget document={document} />
        <p class="faint">
          {document.model} in {engine?.title ?? document.engine} {document.engine_version} on {count(document.cards)} ×{' '}
          {cardTitle(document.card)}; <Prose text={`${binary(document.token_bytes)} of cache for each token`} />
        </p>
      </section>
      <Requests document={document} />
      {document.changes.length > 0 && <Changes changes={document.changes} />}
      <section class="card">
        <h2>
          Assumptions and accuracy <span class="faint">{document.confidence.level}</span>
        </h2>
        <p>
          <Prose text={asSentence(document.confidence.reason)} />
        </p>
        <ul class="assumed">
          {document.assumed.map(text => (
            <li key={text}>
              <Prose text={text} />
            </li>
          ))}
        </ul>
      </section>
    </>
  );
}

/** The answer in a line. */
export function ServingHeadline({document}: {document: ServeDocument}) {
  const {starts, kv_cache_bytes: cache, tokens, concurrency, max_model_len: length} = document;
  return (
    <p class="headline">
      <span class={starts ? 'good' : 'danger'}>{starts ? '✓ starts' : '✗ does not start'}</span>
      <span>
        <b title={exactly(cache)}>{binary(Math.abs(cache))}</b> {cache < 0 ? 'too little for a cache' : 'of cache'}
      </span>
      {starts && (
        <span>
          {count(tokens)} tokens: {requestsOf(concurrency)} requests of {count(length)} at once
        </span>
      )}
    </p>
  );
}

function Budget({document}: {document: ServeDocument}) {
  const rank = leastRank(document);
  if (!rank) return null;
  const parts = budgetParts(rank);
  const share = rank.budget_bytes / budgetEnd(rank);
  return (
    <figure>
      <div class="stacked budget" aria-hidden="true">
        <span
          class="card-line chosen"
          style={{left: `${share * 100}%`}}
          title={`the engine's share: ${exactly(rank.budget_bytes)}`}
        >
          <span class={share > 0.2 ? 'left' : 'right'}>budget</span>
        </span>
        <BarParts parts={parts} />
      </div>
      <PartsTable caption="Parts of a GPU's memory" parts={parts} />
    </figure>
  );
}

/** Heights and margins of the curve, in CSS pixels. */
const HEIGHT = 200;
const LEFT = 44;
const BOTTOM = 22;
const TOP = 8;

function Requests({document}: {document: ServeDocument}) {
  const curve = curveOf(document);
  if (!curve) return null;
  return (
    <section class="card">
      <h2>
        Requests at once, by their length
        <span class="faint">the longest is {count(document.longest_context_tokens)} tokens</span>
      </h2>
      <CurveChart curve={curve} chosen={curve.placeOf(document.max_model_len, document.concurrency)} />
    </section>
  );
}

function CurveChart({curve, chosen}: {curve: Curve; chosen: Point | null}) {
  const {element, width} = useWidth();
  const at = useSignal<number | null>(null);
  const [plotWidth, plotHeight] = [Math.max(width - LEFT - 8, 1), HEIGHT - TOP - BOTTOM];
  const x = (share: number) => LEFT + share * plotWidth;
  const y = (share: number) => TOP + (1 - share) * plotHeight;
  const shown = at.value === null ? (chosen ?? pointAt(curve, 1)) : pointAt(curve, at.value);
  const path = curve.points.map((point, i) => `${i === 0 ? 'M' : 'L'}${x(point.x)},${y(point.y)}`).join('');
  return (
    <figure class="curve" ref={element}>
      <svg
        width={width}
        height={HEIGHT}
        role="img"
        aria-label={`${requestsOf(shown.requests)} requests of ${count(shown.tokens)} tokens at once`}
        onPointerMove={event => {
          const left = event.currentTarget.getBoundingClientRect().left;
          at.value = (event.clientX - left - LEFT) / plotWidth;
        }}
        onPointerLeave={() => {
          at.value = null;
        }}
      >
        {curve.yTicks.map(({at: place, value}) => (
          <g key={value}>
            <line class="grid" x1={LEFT} x2={width - 8} y1={y(place)} y2={y(place)} />
            <text x={LEFT - 6} y={y(place) + 4} text-anchor="end">
              {count(value)}
            </text>
          </g>
        ))}
        {curve.xTicks.map(({at: place, value}) => (
          <text key={value} x={x(place)} y={HEIGHT - 6} text-anchor={place > 0.95 ? 'end' : 'middle'}>
            {lengthOf(value)}
          </text>
        ))}
        <path class="line" d={path} />
        <line class="at" x1={x(shown.x)} x2={x(shown.x)} y1={TOP} y2={TOP + plotHeight} />
        <circle cx={x(shown.x)} cy={y(shown.y)} r={4} />
      </svg>
      <figcaption>
        <b>{requestsOf(shown.requests)}</b> requests of <b>{count(shown.tokens)}</b> tokens
      </figcaption>
    </figure>
  );
}

function Changes({changes}: {changes: readonly Change[]}) {
  return (
    <section class="card">
      <h2>What to change</h2>
      <div class="scrolled">
        <table class="data changes">
          <thead>
            <tr>
              <th />
              <th class="number">frees</th>
              <th class="number">tokens</th>
              <th>flag</th>
              <th>costs</th>
            </tr>
          </thead>
          <tbody>
            {changes.map(({flag, value, frees_bytes: bytes, tokens, starts, costs}) => (
              <tr key={`${flag} ${value}`}>
                <td class={starts ? 'good' : 'danger'}>{starts ? '✓ starts' : '✗ no'}</td>
                <td class="number" title={exactly(bytes)}>
                  {binary(bytes)}
                </td>
                <td class="number">{count(tokens)}</td>
                <td class="flag">
                  <code>
                    {flag} {value}
                  </code>
                </td>
                <td class="costs faint">{costs}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
