import type {Opened} from '../../state/session';

export function WhatIfView(_: {device: Opened}) {
  return <section class="view" />;
}
