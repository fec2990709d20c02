/** `highwater-simulate`: docs/formats.md says what each name means. */

import type {
  Card as CardFit,
  Fit,
  Run as SimulatedRun,
  Timeline as SimulatedTimeline,
  Simulation,
} from '../../data/generated/simulate';

export type {CardFit, Fit, SimulatedRun, SimulatedTimeline, Simulation};

/** Settings as they are shown. */
export function confWords(conf: string): string {
  return conf === '' ? 'default settings' : conf;
}

/** The smallest card that a program fits; undefined if none that is known. */
export function smallestCard({cards}: Fit): CardFit | undefined {
  // Survival is not monotone: a card counts only if all larger ones fit too.
  const failing = cards.findLastIndex(({fits}) => !fits);
  return cards[failing + 1];
}
