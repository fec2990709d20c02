import type {Opened} from '../../state/session';

export function StateView(_: {device: Opened}) {
  return <section class="view" />;
}
