/** The legend: every colour of the picture with its bytes; a click isolates a group, its swatch hides it. */

import {useSignal} from '@preact/signals';
import {useEffect} from 'preact/hooks';
import {hexOf} from '../draw/palette';
import {legendItems} from '../kit/allocation-menu';
import {menuAt} from '../kit/menu';
import {placeOfWords} from '../model/frames';
import {binary, count, percent} from '../model/units';
import {hidden, hover, only, showAllGroups, toggleHidden, toggleOnly} from '../state/legend';
import * as store from '../state/store';
import type {Legend, LegendLine} from '../worker/grouping';

/** Lines of the legend, and of one that was asked to show more: a page of a million lines would not open. */
const LEGEND_MAX = 14;
const WHOLE_LEGEND_MAX = 1000;

export function LegendTable({legend: {lines, leftOut}, all}: {legend: Legend; all: number}) {
  const isWhole = useSignal(false);
  useEffect(() => () => hover(null), []);
  const shown = lines.slice(0, isWhole.value ? WHOLE_LEGEND_MAX : LEGEND_MAX);
  const rest = lines.slice(shown.length);
  const restCount = rest.length + leftOut;
  const restBytes = rest.reduce((sum, {bytes}) => sum + bytes, 0);
  const isolated = lines.some(({key}) => key === only.value) ? only.value : null;
  const isChanged = isolated !== null || lines.some(({key}) => hidden.value.includes(key));
  return (
    <>
      <table class="legend" aria-label="Active memory by colour" onPointerLeave={() => hover(null)}>
        <tbody>
          {shown.map(line => (
            <LegendRow key={line.group} line={line} all={all} isolated={isolated} />
          ))}
          {restCount > 0 && (
            <tr class="faint">
              <td />
              <td>{binary(restBytes)}</td>
              <td>
                {isWhole.value ? (
                  `${count(restCount)} more`
                ) : (
                  <button type="button" class="plain site" onClick={() => (isWhole.value = true)}>
                    {count(restCount)} more
                  </button>
                )}
              </td>
            </tr>
          )}
        </tbody>
      </table>
      {isChanged && (
        <button type="button" class="plain" onClick={showAllGroups}>
          show all groups
        </button>
      )}
    </>
  );
}

function LegendRow({line, all, isolated}: {line: LegendLine; all: number; isolated: string | null}) {
  const {key, label, bytes, colour} = line;
  const isHidden = hidden.value.includes(key);
  const isOnly = isolated === key;
  const isFaint = line.count === 0 || isHidden || (isolated !== null && !isOnly);
  return (
    <tr
      class={`${isFaint ? 'faint' : ''}${isHidden ? ' off' : ''}${isOnly ? ' only' : ''}`}
      title={`${label}: ${count(bytes)} bytes in ${count(line.count)} (${percent(bytes / Math.max(1, all))})`}
      data-menu
      onContextMenu={event => menuAt(event, label, legendItems(store.colourBy.value, label))}
      onPointerEnter={() => hover(key)}
    >
      <td>
        <button
          type="button"
          class="swatch"
          style={{'--colour': hexOf(colour)}}
          title={isHidden ? 'Show this group again' : 'Hide this group'}
          aria-label={`${isHidden ? 'Show' : 'Hide'} ${label}`}
          aria-pressed={isHidden}
          onClick={() => toggleHidden(key)}
        />
      </td>
      <td>{binary(bytes)}</td>
      <td>
        <button type="button" class="plain site label" aria-pressed={isOnly} onClick={() => toggleOnly(key)}>
          {label}
        </button>
        {canBeSearched() && (
          <button
            type="button"
            class="plain find"
            title="Search for it"
            aria-label={`Search for ${label}`}
            onClick={() => (store.query.value = `"${placeOfWords(label)}"`)}
          >
            find
          </button>
        )}
      </td>
    </tr>
  );
}

function canBeSearched(): boolean {
  return store.colourBy.value === 'site' || store.colourBy.value === 'category';
}
