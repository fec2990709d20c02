/** The histograms of a device, made once. */

import {type Histograms, histogramsOf} from '../model/histograms';
import type {Session} from './session';

export function histograms(session: Session): Promise<Histograms> {
  return session.once('histograms', async () => {
    const {lifetimes, index, device} = session;
    const times = device.time_us ? await session.times() : undefined;
    return histogramsOf(lifetimes, index.liveAt(index.peak.entry), times);
  });
}
