/** All frames with their sums; only the rows in view are in the page. */

import {useSignal} from '@preact/signals';
import {useEffect, useRef} from 'preact/hooks';
import {fullPlace} from '../../model/frames';
import {count, percent} from '../../model/units';
import * as store from '../../state/store';
import type {FrameTableRows} from '../../worker/flame';
import {SORTS, type Sort} from './sort';
import {amountOf, exactAmount, type Words} from './words';

/** The height of a row, in CSS pixels: as in the style sheet. */
const ROW_CSS = 24;
/** Rows above and below the view that are there too, so that scrolling does not flash. */
const SPARE = 8;

const HEADS: Record<Sort, {words: string; hint: string}> = {
  self: {words: 'Self', hint: 'Allocated in this frame itself, not in a frame that it called'},
  total: {words: 'Total', hint: 'Allocated in this frame or its callees; a recursion counts once'},
  selfCount: {words: '#', hint: 'Allocations of Self'},
  totalCount: {words: '#', hint: 'Allocations of Total'},
  name: {words: 'Frame', hint: 'Function, file and line'},
};
const COLUMNS: readonly Sort[] = ['self', 'selfCount', 'total', 'totalCount', 'name'];

interface TableProps {
  readonly table: FrameTableRows;
  readonly words: Words;
  /** Places in the totals, in order. */
  readonly rows: Uint32Array;
  readonly chosen: number | null;
  onChoose(key: number): void;
}

export function FrameTable({table, words, rows, chosen, onChoose}: TableProps) {
  const host = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      height.value = host.current?.clientHeight ?? 600;
    });
    if (host.current) observer.observe(host.current);
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(top.value / ROW_CSS) - SPARE);
  const last = Math.min(rows.length, Math.ceil((top.value + height.value) / ROW_CSS) + SPARE);
  const at = rows.findIndex(row => table.totals.key[row] === chosen);
  const step = (to: number) => {
    const next = Math.min(Math.max(to, 0), rows.length - 1);
    if (next < 0) return;
    onChoose(table.totals.key[rows[next]]);
    const element = host.current;
    if (!element) return;
    const low = next * ROW_CSS;
    if (low < element.scrollTop) element.scrollTop = low;
    else if (low + 2 * ROW_CSS > element.scrollTop + element.clientHeight)
      element.scrollTop = low + 2 * ROW_CSS - element.clientHeight;
  };
  const steps: Record<string, number> = {
    ArrowDown: at + 1,
    ArrowUp: at < 0 ? 0 : at - 1,
    PageDown: at + 15,
    PageUp: at - 15,
    Home: 0,
    End: rows.length - 1,
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: it scrolls, and takes the arrow keys
    <div
      ref={host}
      class="rows"
      role="region"
      aria-label={`${count(rows.length)} frames: arrow keys choose one`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and takes the arrow keys
      tabIndex={0}
      onScroll={event => (top.value = event.currentTarget.scrollTop)}
      onKeyDown={event => {
        const to = steps[event.key];
        if (to === undefined) return;
        event.preventDefault();
        event.stopPropagation();
        step(to);
      }}
    >
      <table class="frames-table" aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {COLUMNS.map(column => (
              <Head key={column} column={column} />
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr style={{height: `${first * ROW_CSS}px`}} />}
          {Array.from(rows.subarray(first, last), (row, i) => (
            <FrameRow
              key={table.totals.key[row]}
              {...{table, words, row, onChoose}}
              index={first + i}
              isChosen={table.totals.key[row] === chosen}
            />
          ))}
          {last < rows.length && <tr style={{height: `${(rows.length - last) * ROW_CSS}px`}} />}
        </tbody>
      </table>
      {rows.length === 0 && <p class="reading">no frame matches the search</p>}
    </div>
  );
}

function Head({column}: {column: Sort}) {
  const by = store.viewOption('stacks.sort', SORTS);
  const isReversed = store.viewOption('stacks.reversed', ['no', 'yes']) === 'yes';
  const isSorted = by === column;
  const isDown = (column === 'name') === isReversed;
  const sort = () => {
    store.setViewOption('stacks.sort', column);
    store.setViewOption('stacks.reversed', isSorted && !isReversed ? 'yes' : 'no');
  };
  return (
    <th
      scope="col"
      class={column === 'name' ? '' : 'number'}
      aria-sort={isSorted ? (isDown ? 'descending' : 'ascending') : 'none'}
    >
      <button type="button" class="plain" title={HEADS[column].hint} onClick={sort}>
        {HEADS[column].words}
        {isSorted && (isDown ? ' ▾' : ' ▴')}
      </button>
    </th>
  );
}

function FrameRow(
  props: Pick<TableProps, 'table' | 'words' | 'onChoose'> & {row: number; index: number; isChosen: boolean},
) {
  const {table, words, row, isChosen} = props;
  const {totals, unit, all} = table;
  const line = words.of(totals.key[row]);
  const choose = () => props.onChoose(totals.key[row]);
  return (
    <tr class={isChosen ? 'chosen-row' : ''} aria-rowindex={props.index + 2} onClick={choose}>
      <Amount weight={totals.self[row]} all={all.weight} unit={unit} />
      <td class="number faint">{totals.selfCount[row] > 0 && count(totals.selfCount[row])}</td>
      <Amount weight={totals.total[row]} all={all.weight} unit={unit} />
      <td class="number faint">{count(totals.totalCount[row])}</td>
      <td title={line?.file ? fullPlace({file: line.file, line: line.line}) : ''}>
        <button type="button" class="plain site" aria-pressed={isChosen} onClick={choose}>
          {line?.label ?? '?'}
        </button>
      </td>
    </tr>
  );
}

function Amount({weight, all, unit}: {weight: number; all: number; unit: FrameTableRows['unit']}) {
  const share = all > 0 ? weight / all : 0;
  return (
    <td
      class="number bar"
      style={{'--share': `${share * 100}%`}}
      title={`${exactAmount(weight, unit)}, ${percent(share)}`}
    >
      {weight > 0 ? amountOf(weight, unit) : '–'}
    </td>
  );
}
