/** Stacks: a flame graph, or all frames with what calls them and what they call. */

import type {Opened} from '../../state/session';
import * as store from '../../state/store';
import {FlameView} from './flame-view';
import {SandwichView} from './sandwich-view';
import {StacksToolbar} from './toolbar';

export function StacksView({device}: {device: Opened}) {
  const mode = store.viewOption('stacks.show', ['flame', 'table']);
  return (
    <section class="view stacks" aria-label="Stacks">
      <StacksToolbar device={device} />
      {mode === 'flame' ? <FlameView device={device} /> : <SandwichView device={device} />}
    </section>
  );
}
