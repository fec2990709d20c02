/** Two recordings: one axis, one byte scale, and what changed from one to the other. */

import {useAnswer} from '../../kit/answer';
import {ProblemCard} from '../../kit/problem';
import {shortNames} from '../../model/short-names';
import {files, type Opened} from '../../state/session';
import * as store from '../../state/store';
import {Charts} from './charts';
import {DifferenceFlame} from './flame';
import {momentWords, Numbers} from './numbers';
import {askDiff, askPair, askStacks, otherFile, type Pair} from './pair';

export function CompareView({device}: {device: Opened}) {
  const pair = useAnswer(device, () => askPair(device.device.device));
  const {value, problem} = pair.value;
  return (
    <section class="view compare" aria-label="Compare">
      <Choice device={device} pair={value} />
      {problem && <ProblemCard problem={problem} />}
      {value && <Compared key={keyOf(value)} device={device} pair={value} />}
    </section>
  );
}

function keyOf({files: both, curves}: Pair): string {
  return [...both.map(({id}) => id), ...curves.map(curve => curve.device)].join(' ');
}

function Choice({device, pair}: {device: Opened; pair: Pair | null}) {
  const all = files.value;
  const open = store.file.value;
  const other = otherFile(all, open, store.options.value['compare.with']);
  const devices = pair?.devices[1].devices ?? [];
  if (!other) return <p class="reading">Only one recording is open. Open another one with + to compare the two.</p>;
  return (
    <div class="card toolbar-card">
      <b>{device.manifest.name}</b> compared with{' '}
      <select
        aria-label="Compare with"
        value={other.id}
        onChange={event => {
          store.options.value = {
            ...store.options.value,
            'compare.with': event.currentTarget.value,
            'compare.device': '',
          };
        }}
      >
        {all
          .filter(({id, state}) => id !== open && state === 'ready')
          .map(({id, name}) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
      </select>
      {devices.length > 1 && (
        <select
          aria-label="Its device"
          value={pair?.curves[1].device}
          onChange={event => store.setViewOption('compare.device', event.currentTarget.value)}
        >
          {devices.map(one => (
            <option key={one.device} value={one.device}>
              device {one.device}
            </option>
          ))}
        </select>
      )}
      <button
        type="button"
        class="plain"
        title="Swap the two recordings"
        onClick={() => {
          store.options.value = {...store.options.value, 'compare.with': String(open), 'compare.device': ''};
          store.file.value = other.id;
        }}
      >
        ⇄ swap
      </button>
    </div>
  );
}

function Compared({device, pair}: {device: Opened; pair: Pair}) {
  const diff = useAnswer(device, () => askDiff(pair));
  const tree = useAnswer(device, () => askStacks(pair));
  const names = shortNames(pair.files.map(({name}) => name));
  const numbers = diff.value.value;
  const moment = numbers?.devices[0] ? momentWords(numbers.devices[0]) : '';
  return (
    <>
      <Charts pair={pair} />
      {diff.value.problem && <ProblemCard problem={diff.value.problem} />}
      {numbers && <Numbers diff={numbers} names={names} />}
      {tree.value.problem && <ProblemCard problem={tree.value.problem} />}
      {tree.value.value && <DifferenceFlame tree={tree.value.value} names={names} moment={moment} />}
    </>
  );
}
