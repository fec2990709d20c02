import type {Opened} from '../../state/session';

export function SegmentsView(_: {device: Opened}) {
  return <section class="view" />;
}
