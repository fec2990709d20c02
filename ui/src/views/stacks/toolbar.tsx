/** The choices above the stacks. */

import {FRAME_KINDS, type FrameKind, kindColour} from '../../draw/frame-colours';
import {copyText} from '../../kit/copy';
import {SaveMenu} from '../../kit/save';
import {FOLDS, type Fold} from '../../model/stack-shape';
import {WEIGHINGS} from '../../model/weighing';
import {engine, type Opened} from '../../state/session';
import * as store from '../../state/store';
import {CHART_WEIGHINGS, chartWeighing, flameRequest, ORDERS, type Order, weighingWords} from './request';

const ORDER_WORDS: Record<Order, {words: string; hint: string}> = {
  callers: {words: 'left heavy', hint: 'The heaviest calls first'},
  inverted: {words: 'inverted', hint: 'The allocating calls on top, their callers below (i)'},
  time: {words: 'over time', hint: 'Allocations from left to right, in the order of the recording'},
};

const FOLD_WORDS: Record<Fold, string> = {
  own: 'hide PyTorch',
  folded: 'fold PyTorch',
  all: 'all frames',
};

export function StacksToolbar({device}: {device: Opened}) {
  const of = store.viewOption('stacks.of', WEIGHINGS);
  const words = weighingWords(device);
  const fold = store.viewOption('stacks.frames', FOLDS);
  const order = store.viewOption('stacks.order', ORDERS);
  const isTable = store.viewOption('stacks.show', ['flame', 'table']) === 'table';
  const isChart = !isTable && order === 'time';
  return (
    <div class="toolbar">
      <fieldset class="switch" aria-label="Show">
        <Switch name="stacks.show" value="flame" isOn={!isTable} words="Flame graph" />
        <Switch name="stacks.show" value="table" isOn={isTable} words="Table" />
      </fieldset>
      <label>
        <span class="hidden">Measure</span>
        <select
          value={isChart ? chartWeighing() : of}
          onChange={event => store.setViewOption('stacks.of', event.currentTarget.value)}
        >
          {(isChart ? CHART_WEIGHINGS : WEIGHINGS).map(one => (
            <option key={one} value={one}>
              {words[one]}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span class="hidden">Which frames are shown</span>
        <select value={fold} onChange={event => store.setViewOption('stacks.frames', event.currentTarget.value)}>
          {FOLDS.map(one => (
            <option key={one} value={one}>
              {FOLD_WORDS[one]}
            </option>
          ))}
        </select>
      </label>
      {!isTable && (
        <fieldset class="switch" aria-label="Order">
          {ORDERS.map(one => (
            <Switch key={one} name="stacks.order" value={one} isOn={order === one} {...ORDER_WORDS[one]} />
          ))}
        </fieldset>
      )}
      <Check
        name="stacks.recursion"
        off="shown"
        on="collapsed"
        words="recursion once"
        hint="Leave out a frame that is already among its callers"
      />
      <span class="spring" />
      <button
        type="button"
        title="Copy as folded stacks: one line per stack, for flamegraph.pl and speedscope"
        onClick={() => void engine().foldedLines(flameRequest()).then(copyText)}
      >
        copy
      </button>
      <SaveMenu />
    </div>
  );
}

interface SwitchProps {
  name: string;
  value: string;
  isOn: boolean;
  words: string;
  hint?: string;
}

function Switch({name, value, isOn, words, hint}: SwitchProps) {
  return (
    <button
      type="button"
      title={hint}
      class={isOn ? 'on' : ''}
      aria-pressed={isOn}
      onClick={() => store.setViewOption(name, value)}
    >
      {words}
    </button>
  );
}

function Check(props: {name: string; off: string; on: string; words: string; hint: string}) {
  const {name, off, on} = props;
  const isOn = store.viewOption(name, [off, on]) === on;
  return (
    <label title={props.hint}>
      <input type="checkbox" checked={isOn} onChange={() => store.setViewOption(name, isOn ? off : on)} /> {props.words}
    </label>
  );
}

/** Whose code the colours say. */
export function KindLegend({kinds}: {kinds: FrameKind[]}) {
  return (
    <span class="kinds">
      {kinds.map(kind => (
        <span key={kind}>
          <span class="swatch" style={{background: kindColour(kind, store.shade.value)}} /> {FRAME_KINDS[kind].words}
        </span>
      ))}
    </span>
  );
}
