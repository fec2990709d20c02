import type {Opened} from '../../state/session';

export function StacksView(_: {device: Opened}) {
  return <section class="view" />;
}
