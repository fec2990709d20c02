import type {Opened} from '../../state/session';

export function SummaryView(_: {device: Opened}) {
  return <section class="view" />;
}
