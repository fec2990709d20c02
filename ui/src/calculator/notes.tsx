/** How sure the answer is, and what it rests on. */

import {Prose} from '../kit/prose';
import {binary, count} from '../model/units';
import type {EstimateDocument} from './document';
import {exactly} from './exactly';

export function Notes({document}: {document: EstimateDocument}) {
  const {error_band: band} = document;
  const facts: [string, string, string][] = [
    ['peak requested', exactly(document.peak_requested_bytes), 'requested from the allocator'],
    ['peak allocated', exactly(document.peak_allocated_bytes), 'with its rounding'],
    [
      'peak reserved',
      exactly(document.peak_reserved_bytes),
      `with ${binary(document.workspace_bytes)} of library workspaces`,
    ],
    ['on the GPU', exactly(document.total_bytes), `with ${binary(document.context_bytes)} of CUDA context`],
    [
      'error band',
      `${binary(band.low_bytes)} to ${binary(band.high_bytes)}`,
      `±\u00a0${band.percent} %: ${band.evidence}`,
    ],
    ['per token', `${count(document.saved_bytes_per_token)} bytes`, 'saved for the backward pass'],
    ['', count(document.activations_per_token), 'elements in the outputs of all modules'],
  ];
  const counted = document.counted_parameters;
  if (counted !== undefined && counted !== document.parameters) {
    facts.push(['in the weights', count(counted), 'numbers that the file lists']);
  }
  return (
    <section class="card">
      <h2>Assumptions and accuracy</h2>
      <dl class="facts wide">
        {facts.flatMap(([name, value, note]) => [
          <dt key={note}>{name}</dt>,
          <dd key={`${note} value`}>
            <Prose text={value} />{' '}
            <span class="faint">
              <Prose text={note} />
            </span>
          </dd>,
        ])}
      </dl>
      <h3>Assumed</h3>
      <ul class="assumed">
        {document.assumptions.map(text => (
          <li key={text}>
            <Prose text={text} />
          </li>
        ))}
      </ul>
    </section>
  );
}
